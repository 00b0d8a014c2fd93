//! The answer of the wait-for graph: waiters with the ends of their chains, edges, and mutual
//! waits.

use super::{mutual_waits, ChainEnd, WaitingMachine, Waits};
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, LINK};
use serde::Serialize;
use std::collections::HashMap;

/// A machine with its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Who {
    pub host: String,
    pub machine: String,
}

impl std::fmt::Display for Who {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.as_str() {
            "" => write!(out, "{}", self.machine),
            host => write!(out, "{host}/{}", self.machine),
        }
    }
}

/// Kind of a chain's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EndKind {
    Machine,
    /// A link of a queue, or a wake-up; `machine` is the queue's name, or "link".
    Link,
    /// The chain led to this machine, whose activity then is unknown.
    Unknown,
}

/// The end of chains of one waiter, with their time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct End {
    #[serde(flatten)]
    pub who: Who,
    pub kind: EndKind,
    /// Name of the link; `None` for a machine.
    pub state: Option<String>,
    pub ns: u64,
}

/// A machine that waited, with the ends of its chains by their time, descending.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiter {
    #[serde(flatten)]
    pub who: Who,
    /// Time in ns in blocks that ended with a cause; the sum of `ends` and `untold_ns`.
    pub waited_ns: u64,
    /// Part of it whose ends are not listed, because all machines together have too many.
    pub untold_ns: u64,
    /// Time in ns in blocks without a known cause, or that never ended.
    pub unexplained_ns: u64,
    pub ends: Vec<End>,
}

/// An edge of the graph: the first machine waited for the second one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Edge {
    pub from: Who,
    pub to: Who,
    /// Time in ns that `from` was blocked until `to` caused it to continue.
    pub direct_ns: u64,
    /// Time in ns that all machines waited in chains with this last edge.
    pub redistributed_ns: u64,
}

/// A mutual wait: machines each of which waits for each other one, directly or not, and for no
/// machine outside; or a single machine that waits for none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MutualWait {
    /// Members by the time that others wait for them, descending.
    pub machines: Vec<Member>,
    /// Waiting time of all machines whose chains end here, and its share of all waiting time that
    /// ends at a machine.
    pub waited_ns: u64,
    pub share: f64,
}

/// A machine of a mutual wait, with the waiting time that ends at it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Member {
    #[serde(flatten)]
    pub who: Who,
    pub waited_ns: u64,
}

/// Use of a lock, for findings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockUse {
    pub name: String,
    pub lock: (u64, u64),
    pub waited_ns: u64,
    pub contended_ns: u64,
    pub longest: (u64, u64),
}

/// A machine that looks into a queue in vain, for findings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Look {
    pub who: Who,
    pub queue: String,
    pub taken: u64,
    pub vain: u64,
}

/// The wait-for graph. Times are in ns; waiters, edges and mutual waits come in descending order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub start_ns: u64,
    pub end_ns: u64,
    pub length_ns: u64,
    pub waiters: Vec<Waiter>,
    pub edges: Vec<Edge>,
    pub mutual_waits: Vec<MutualWait>,
    /// Number of chains that were cut, or that lead further back than is remembered.
    pub cut: u64,
    /// Waiting time whose ends, and whose last edges, are not listed because there are too many.
    pub untold_ns: u64,
    pub untold_edges_ns: u64,
    pub interactions: u64,
    #[serde(skip)]
    pub(crate) locks: Vec<LockUse>,
    #[serde(skip)]
    pub(crate) looks: Vec<Look>,
}

/// An edge with less than this share of the run leads neither out of a mutual wait nor into one:
/// hardly anything would be gained through it.
const MIN_EDGE: f64 = 0.02;

impl Waits {
    /// Returns the graph; `None` without interactions.
    pub fn answer(mut self, vocabulary: &Vocabulary) -> Option<Answer> {
        let (start, end) = (self.begin?, self.now.max(self.begin?));
        for waiting in &mut self.machines {
            if let Some(since) = waiting.blocked.take() {
                waiting.unexplained_ns += end.saturating_sub(since.max(start));
            }
        }
        let who = |machine| who_of(vocabulary, machine);
        let mutual_waits = self.mutual_waits(end - start).into_iter().map(|(members, waited_ns, share)| {
            let mut machines: Vec<Member> =
                members.into_iter().map(|(machine, waited_ns)| Member { who: who(machine), waited_ns }).collect();
            machines.sort_by(|a, b| b.waited_ns.cmp(&a.waited_ns).then_with(|| a.who.cmp(&b.who)));
            MutualWait { machines, waited_ns, share }
        });
        let mut mutual_waits: Vec<MutualWait> = mutual_waits.collect();
        let first = |mutual_wait: &MutualWait| mutual_wait.machines.first().map(|member| member.who.clone());
        mutual_waits.sort_by(|a, b| b.waited_ns.cmp(&a.waited_ns).then_with(|| first(a).cmp(&first(b))));
        let mut edges: Vec<Edge> = self
            .last
            .keys()
            .chain(self.direct.keys().filter(|edge| !self.last.contains_key(edge)))
            .map(|edge| Edge {
                from: who(edge.0),
                to: who(edge.1),
                direct_ns: self.direct.get(edge).copied().unwrap_or(0),
                redistributed_ns: self.last.get(edge).copied().unwrap_or(0),
            })
            .collect();
        edges.sort_by(|a, b| b.redistributed_ns.cmp(&a.redistributed_ns).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
        Some(Answer {
            start_ns: start,
            end_ns: end,
            length_ns: end - start,
            waiters: self.waiters(vocabulary),
            edges,
            mutual_waits,
            cut: self.cut,
            untold_ns: self.machines.iter().map(|waiting| waiting.untold_ns).sum(),
            untold_edges_ns: self.untold_edges_ns,
            interactions: self.interactions,
            locks: self.locks(vocabulary),
            looks: self.looks(vocabulary),
        })
    }

    fn locks(&self, vocabulary: &Vocabulary) -> Vec<LockUse> {
        let used = self.uses.locks.iter().filter(|(_, lock)| lock.contended > 0);
        let mut out: Vec<LockUse> = used
            .map(|(&queue, lock)| LockUse {
                name: vocabulary.link_name(queue).to_owned(),
                lock: (lock.takings, lock.contended),
                waited_ns: lock.waited_ns,
                contended_ns: lock.contended_ns,
                longest: lock.longest,
            })
            .collect();
        out.sort_by(|a, b| b.waited_ns.cmp(&a.waited_ns).then_with(|| a.name.cmp(&b.name)));
        out
    }

    fn looks(&self, vocabulary: &Vocabulary) -> Vec<Look> {
        let mut out: Vec<Look> = self
            .uses
            .of
            .iter()
            .filter(|(_, it)| it.vain > 0)
            .map(|(&(machine, queue), it)| Look {
                who: who_of(vocabulary, machine),
                queue: vocabulary.link_name(queue).to_owned(),
                taken: it.taken,
                vain: it.vain,
            })
            .collect();
        out.sort_by(|a, b| b.vain.cmp(&a.vain).then_with(|| (&a.who, &a.queue).cmp(&(&b.who, &b.queue))));
        out
    }

    fn waiters(&self, vocabulary: &Vocabulary) -> Vec<Waiter> {
        let who = |machine| who_of(vocabulary, machine);
        let words = |machine| [vocabulary.host(machine), vocabulary.machine_name(machine)];
        // Ends with the same words are one.
        let mut alike: HashMap<(MachineId, [&str; 2], EndKind, Option<&str>), u64> = HashMap::new();
        for (&(waiter, place), &ns) in &self.ends {
            let key = match place {
                ChainEnd::Machine(machine) => (waiter, words(machine), EndKind::Machine, None),
                ChainEnd::Unknown(machine) => (waiter, words(machine), EndKind::Unknown, None),
                ChainEnd::Link(queue, state) => {
                    let name = queue.map_or(LINK, |queue| vocabulary.link_name(queue));
                    let plain = if queue.is_some() { LinkKind::Queued } else { LinkKind::Wakeup };
                    let state = state.map_or(plain.text().unwrap_or_default(), |state| vocabulary.names.text(state));
                    (waiter, ["", name], EndKind::Link, Some(state))
                }
            };
            *alike.entry(key).or_default() += ns;
        }
        let mut ends: HashMap<MachineId, Vec<End>> = HashMap::new();
        for ((waiter, [host, machine], kind, state), ns) in alike {
            let who = Who { host: host.to_owned(), machine: machine.to_owned() };
            ends.entry(waiter).or_default().push(End { who, kind, state: state.map(str::to_owned), ns });
        }
        let mut out: Vec<Waiter> = Vec::new();
        for (at, waiting) in self.machines.iter().enumerate() {
            let machine = MachineId(at as u32);
            if waiting.explained_ns + waiting.unexplained_ns == 0 {
                continue;
            }
            let mut ends = ends.remove(&machine).unwrap_or_default();
            ends.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| (&a.who, a.kind, &a.state).cmp(&(&b.who, b.kind, &b.state))));
            let WaitingMachine { explained_ns, unexplained_ns, untold_ns, .. } = *waiting;
            out.push(Waiter { who: who(machine), waited_ns: explained_ns, untold_ns, unexplained_ns, ends });
        }
        // A machine that sleeps by timers waits for no other machine.
        let for_others =
            |waiter: &Waiter| waiter.untold_ns + waiter.ends.iter().filter(|end| end.kind != EndKind::Link).map(|end| end.ns).sum::<u64>();
        let mut out: Vec<(u64, Waiter)> = out.into_iter().map(|waiter| (for_others(&waiter), waiter)).collect();
        out.sort_by(|(x, a), (y, b)| (y, b.waited_ns).cmp(&(x, a.waited_ns)).then_with(|| a.who.cmp(&b.who)));
        out.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Components of the graph that no edge leaves, with the waiting time that ends in them.
    fn mutual_waits(&self, length: u64) -> Vec<(Vec<(MachineId, u64)>, u64, f64)> {
        let least = (length as f64 * MIN_EDGE) as u64;
        let mut heavy: Vec<(u32, u32)> =
            self.direct.iter().filter(|&(&(from, to), &ns)| from != to && ns > least).map(|(&(from, to), _)| (from.0, to.0)).collect();
        heavy.sort_unstable();
        let components = mutual_waits::components(self.machines.len(), &heavy);
        let mut of = vec![0usize; self.machines.len()];
        for (at, members) in components.iter().enumerate() {
            members.iter().for_each(|&member| of[member as usize] = at);
        }
        let mut is_left = vec![false; components.len()];
        let mut is_touched = vec![false; components.len()];
        for &(from, to) in &heavy {
            let (from, to) = (of[from as usize], of[to as usize]);
            is_left[from] |= from != to;
            is_touched[to] = true;
        }
        let waited: Vec<u64> = self.machines.iter().map(|waiting| waiting.waited_for_ns).collect();
        let all: u64 = waited.iter().sum();
        components
            .into_iter()
            .enumerate()
            .filter(|&(at, _)| is_touched[at] && !is_left[at])
            .map(|(_, members)| {
                let members: Vec<_> = members.into_iter().map(|at| (MachineId(at), waited[at as usize])).collect();
                let ns = members.iter().map(|(_, ns)| ns).sum::<u64>();
                (members, ns, ns as f64 / all.max(1) as f64)
            })
            .filter(|(_, ns, _)| *ns > 0)
            .collect()
    }
}

fn who_of(vocabulary: &Vocabulary, machine: MachineId) -> Who {
    Who { host: vocabulary.host(machine).to_owned(), machine: vocabulary.machine_name(machine).to_owned() }
}
