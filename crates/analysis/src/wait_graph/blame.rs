//! Blame: for which threads the others wait.
//!
//! Each wait has an opposite side: a thread that waits for space waits for the consumers of the
//! queue, one that waits for tokens for the producers, one that waits for a signal for its sender.
//! A thread that is waited for and waits itself passes blame on in proportion to its own time: the
//! working part keeps its share, the rest goes to the threads that it waits for (after the cascaded
//! redistribution of wPerf, OSDI 2018). Blame that no thread can be charged with is unknown.
//!
//! Example: a consumer waits for a producer that works 30 % of its time and waits 70 % for a disk
//! thread. The producer is charged with 30 % of the consumer's wait, the disk thread with 70 %.
//!
//! A queue without a limit hides waiting: its producer is never delayed, it is only done early.
//! Therefore the time that others need, after a stage's last put, to work off that queue counts as
//! the stage's waiting for space. If the recording ends earlier, the rest is extrapolated from the
//! remaining tokens.

use crate::queues::Queues;
use crate::stages::{Stage, Stages};
use longpole_model::actors::ActorId;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::system::activity::{Activity, Cell, State, Total};

/// Number of hand-overs after which the remaining blame is unknown.
const ROUNDS: usize = 200;
/// Part of all waiting that may remain to be handed over when the redistribution ends.
const NEGLIGIBLE: f64 = 1e-6;

/// The result for each thread; the vectors are indexed by the actor's number.
#[derive(Debug, Default)]
pub struct Blame {
    /// Share of all waiting of the stages, per machine: 1 in sum together with `unknown`; all 0
    /// without waits.
    pub share: Vec<f64>,
    pub unknown: f64,
    /// Share of its time in which the machine does not wait, per machine.
    pub busy: Vec<f64>,
    /// Share of its time in which the machine waits for another stage, per machine.
    pub waits: Vec<f64>,
    /// Time in ns per machine, including the time that others needed after its last token.
    pub total_ns: Vec<u64>,
    /// The queue that the machine left behind with work, and the time to work it off in ns, per
    /// machine.
    pub backlog: Vec<Option<(QueueId, u64)>>,
}

/// What a thread waits for at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Tokens,
    Space,
}

/// Waits of all machines: the vectors are indexed by the actor's number.
struct Waits<'a> {
    activity: &'a Activity,
    queues: &'a Queues,
    stages: &'a Stages,
    /// Time of the machine in ns, and the part of it in which it waits.
    total: Vec<u64>,
    idle: Vec<u64>,
    /// The machines that it waits for, each with the time in ns.
    edges: Vec<Vec<(usize, f64)>>,
}

impl Waits<'_> {
    /// Adds the waits that threads state themselves. Returns the time of each machine in no named
    /// state, in ns.
    fn add_stated(&mut self, added: &[Total]) -> Vec<u64> {
        let mut unnamed = vec![0u64; self.total.len()];
        for (cell, time) in self.activity.cells().iter().zip(added) {
            let at = cell.actor.0 as usize;
            self.total[at] += time.ns;
            if cell.state == State::Run {
                unnamed[at] += time.ns;
            }
            if !cell.state.is_idle() {
                continue;
            }
            self.idle[at] += time.ns;
            for (target, share) in targets(cell, self.queues) {
                add(&mut self.edges[at], target, share * time.ns as f64);
            }
        }
        unnamed
    }

    /// Adds the waits of threads that never state that they wait: their queues show it, and their
    /// time directly before and after the use of these, or in no named state. A queue may be empty
    /// while its last token is worked on, so neither is sufficient alone.
    fn add_unstated(&mut self, unnamed: &[u64], fullness: &[(Option<f64>, Option<f64>)]) {
        for (at, &unnamed) in unnamed.iter().enumerate() {
            let machine = ActorId(at as u32);
            let never_waits = !self.activity.waits_explicitly(machine) && self.idle[at] == 0;
            let Some(stage) = self.stages.of(machine).filter(|_| never_waits) else { continue };
            let total = self.total[at] as f64;
            let for_space = stage.outputs.iter().filter_map(|output| {
                let most = stage.before_put_ns.max(stage.after_put_ns).max(unnamed) as f64;
                let full = fullness.get(output.queue.0 as usize)?.0?;
                Some((output.queue, For::Space, most.min(full * total)))
            });
            let for_tokens = stage.inputs.iter().filter_map(|input| {
                let queue = input.queue?;
                let empty = fullness.get(queue.0 as usize)?.1?;
                Some((queue, For::Tokens, (stage.before_get_ns.max(unnamed) as f64).min(empty * total)))
            });
            if let Some((queue, what, ns)) = for_space.chain(for_tokens).max_by(|a, b| a.2.total_cmp(&b.2)) {
                self.idle[at] = ns as u64;
                for (target, part) in opposite(machine, queue, what, self.queues) {
                    add(&mut self.edges[at], target, part * ns);
                }
            }
        }
    }

    /// Adds the time that others need to work off what a machine left behind in a queue without a
    /// limit, as waiting for space. Returns these queues with the time in ns.
    fn add_backlogs(&mut self, vocabulary: &Vocabulary) -> Vec<Option<(QueueId, u64)>> {
        let mut backlog = vec![None; self.total.len()];
        for (at, backlog) in backlog.iter_mut().enumerate() {
            let machine = ActorId(at as u32);
            let stage = self.stages.of(machine);
            *backlog = stage.and_then(|stage| left_behind(vocabulary, self.activity, self.queues, stage, machine));
            let Some((queue, ns)) = *backlog else { continue };
            self.total[at] += ns;
            self.idle[at] += ns;
            for (target, part) in opposite(machine, queue, For::Space, self.queues) {
                add(&mut self.edges[at], target, part * ns as f64);
            }
        }
        backlog
    }

    /// Part of the machine's time; 0 if it has none.
    fn ratio(&self, part: f64, at: usize) -> f64 {
        if self.total[at] > 0 {
            part / self.total[at] as f64
        } else {
            0.0
        }
    }

    /// Hands the waits of all stages on along the edges until hardly any is left. Returns the share
    /// that stays at each machine, and the share that is unknown. `busy` is the share of its own
    /// time in which a machine does not wait.
    fn redistribute(&self, busy: &[f64]) -> (Vec<f64>, f64) {
        let count = self.total.len();
        let (mut share, mut moving, mut whole) = (vec![0.0; count], vec![0.0; count], 0.0);
        for at in (0..count).filter(|&at| self.stages.of(ActorId(at as u32)).is_some_and(is_stage)) {
            for &(target, ns) in &self.edges[at] {
                moving[target] += ns;
                whole += ns;
            }
        }
        if whole <= 0.0 {
            return (share, 0.0);
        }
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; count];
            for at in (0..count).filter(|&at| moving[at] > 0.0) {
                share[at] += moving[at] * busy[at] / whole;
                for &(target, ns) in &self.edges[at] {
                    next[target] += moving[at] * self.ratio(ns, at);
                }
            }
            moving = next;
            if moving.iter().sum::<f64>() < whole * NEGLIGIBLE {
                break;
            }
        }
        let unknown = (1.0 - share.iter().sum::<f64>()).max(0.0);
        (share, unknown)
    }
}

impl Blame {
    /// Computes the blame. `added` has the times of the activity's cells, in their order: of the
    /// whole run, or of a window. `fullness` has, for each queue, the shares of the time in which
    /// it was full and empty, if they are known.
    pub fn compute(
        vocabulary: &Vocabulary,
        activity: &Activity,
        added: &[Total],
        queues: &Queues,
        stages: &Stages,
        fullness: &[(Option<f64>, Option<f64>)],
    ) -> Blame {
        let count = vocabulary.actors.all().len();
        let (total, idle, edges) = (vec![0; count], vec![0; count], vec![Vec::new(); count]);
        let mut waits = Waits { activity, queues, stages, total, idle, edges };
        let unnamed = waits.add_stated(added);
        waits.add_unstated(&unnamed, fullness);
        let backlog = waits.add_backlogs(vocabulary);
        let working = |at: usize| (waits.total[at] - waits.idle[at].min(waits.total[at])) as f64;
        let busy: Vec<f64> = (0..count).map(|at| waits.ratio(working(at), at)).collect();
        let for_others = |at: usize| waits.edges[at].iter().map(|(_, ns)| ns).sum();
        let waiting = (0..count).map(|at| waits.ratio(for_others(at), at)).collect();
        let (share, unknown) = waits.redistribute(&busy);
        Blame { share, unknown, busy, waits: waiting, total_ns: waits.total, backlog }
    }
}

impl Blame {
    /// Makes one machine represent several: their values become its own.
    pub(crate) fn merge_members(&mut self, leader: usize, members: &[usize]) {
        let total: u64 = members.iter().map(|&at| self.total_ns[at]).sum();
        let mean = |of: &[f64]| members.iter().map(|&at| of[at] * self.total_ns[at] as f64).sum::<f64>() / total.max(1) as f64;
        let (busy, waits) = (mean(&self.busy), mean(&self.waits));
        let share = members.iter().map(|&at| self.share[at]).sum();
        for &at in members {
            (self.share[at], self.total_ns[at]) = (0.0, 0);
        }
        (self.share[leader], self.busy[leader], self.waits[leader], self.total_ns[leader]) = (share, busy, waits, total);
    }
}

/// Returns the unlimited output that takes longest to be worked off after this machine's last step,
/// with that time in ns.
fn left_behind(vocabulary: &Vocabulary, activity: &Activity, queues: &Queues, stage: &Stage, machine: ActorId) -> Option<(QueueId, u64)> {
    let (_, last_ns) = activity.lifetime(machine)?;
    let unlimited = stage.outputs.iter().map(|output| output.queue).filter(|queue| vocabulary.shape(*queue).capacity.is_none());
    unlimited.map(|queue| (queue, queues.backlog_ns(queue, machine, last_ns))).filter(|&(_, ns)| ns > 0).max_by_key(|&(_, ns)| ns)
}

/// Returns true for a thread that tokens pass through.
pub fn is_stage(stage: &Stage) -> bool {
    !stage.inputs.is_empty() || !stage.outputs.is_empty()
}

fn add(edges: &mut Vec<(usize, f64)>, target: usize, ns: f64) {
    match edges.iter_mut().find(|(known, _)| *known == target) {
        Some((_, sum)) => *sum += ns,
        None => edges.push((target, ns)),
    }
}

fn targets(cell: &Cell, queues: &Queues) -> Vec<(usize, f64)> {
    match cell.state {
        State::WaitSignal(Some(sender)) if sender != cell.actor => vec![(sender.0 as usize, 1.0)],
        State::WaitEmpty(queue) => opposite(cell.actor, queue, For::Tokens, queues),
        State::WaitFull(queue) => opposite(cell.actor, queue, For::Space, queues),
        _ => Vec::new(),
    }
}

fn opposite(machine: ActorId, queue: QueueId, what: For, queues: &Queues) -> Vec<(usize, f64)> {
    let others = match what {
        For::Tokens => queues.producers(queue),
        For::Space => queues.consumers(queue),
    };
    let others: Vec<usize> = others.iter().filter(|&&other| other != machine).map(|other| other.0 as usize).collect();
    let share = 1.0 / others.len().max(1) as f64;
    others.into_iter().map(|other| (other, share)).collect()
}
