//! A backward walk over a complete history, with which the streaming pass is compared. Each unit of
//! a queue is an entry of its own here, each machine keeps every change of its state, and nothing
//! is forgotten.

use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub enum Op {
    State(u8),
    Block(u8),
    Put { queue: u8, n: u8, flow: Option<u8>, link: bool },
    Get { queue: u8, n: Option<u8>, flow: Option<u8> },
    Peek { queue: u8, n: Option<u8>, flow: Option<u8> },
    Reserve { queue: u8, n: u8 },
    Wake { by: Option<u8>, back: u8, link: bool },
    Fork { by: u8, back: u8 },
    Stop,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub capacity: Option<u8>,
    pub lifo: bool,
    pub initial: u8,
    pub merge: bool,
}

/// Time since the line before, machine, and its action.
pub type Line = (u8, u8, Op);
/// Start, end, machine, state.
pub type Piece = (u64, u64, String, String);

#[derive(Clone, Debug)]
enum Before {
    /// The previous entry of the same machine.
    Same,
    Nothing,
    Cause(Source),
}

#[derive(Clone, Debug)]
struct Source {
    machine: u8,
    /// Number of entries of the machine's path at the time `t`.
    entries: usize,
    t: u64,
    link: (String, String),
    seq: usize,
}

struct Entry {
    t: u64,
    state: String,
    before: Before,
}

#[derive(Clone)]
struct Unit {
    seq: usize,
    flow: Option<u8>,
    source: Option<Source>,
}

#[derive(Default)]
struct Queue {
    units: Vec<Unit>,
    room: Vec<Unit>,
    reserved: BTreeMap<u8, Vec<Unit>>,
    opener: Option<Source>,
    kind: Kind,
}

#[derive(Default)]
struct Machine {
    entries: Vec<Entry>,
    exists: bool,
    blocked: Option<u8>,
    state: String,
}

/// The units that were taken: the latest of them, their number, and whether some were missing.
struct Taken {
    latest: Option<Unit>,
    count: usize,
    missing: bool,
}

pub struct History {
    machines: BTreeMap<u8, Machine>,
    queues: Vec<Queue>,
    t: u64,
    seq: usize,
    last: Option<u8>,
    pub contradictions: u64,
}

impl History {
    pub fn of(kinds: &[Kind], lines: &[Line]) -> History {
        let unit = || Unit { seq: 0, flow: None, source: None };
        let queues = kinds.iter().map(|&kind| {
            let room = kind.capacity.map_or(0, |capacity| capacity - kind.initial);
            let (units, room) = (vec![unit(); kind.initial.into()], vec![unit(); room.into()]);
            Queue { units, room, kind, ..Queue::default() }
        });
        let mut history = History { machines: BTreeMap::new(), queues: queues.collect(), t: 0, seq: 0, last: None, contradictions: 0 };
        for (dt, machine, op) in lines {
            history.t += u64::from(*dt);
            history.line(*machine, op);
        }
        history
    }

    fn machine(&mut self, machine: u8) -> &mut Machine {
        self.machines.entry(machine).or_default()
    }

    fn note(&mut self, machine: u8, before: Before) {
        let t = self.t;
        let it = self.machine(machine);
        let state = match it.blocked {
            _ if !it.exists => "UNKNOWN".to_owned(),
            Some(why) => format!("blocked:w{why}"),
            None => it.state.clone(),
        };
        it.entries.push(Entry { t, state, before });
    }

    fn live(&mut self, machine: u8, before: Before) {
        let it = self.machine(machine);
        (it.exists, it.blocked, it.state) = (true, None, "run".to_owned());
        self.note(machine, before);
    }

    /// Returns the machine's path at the current time.
    fn source(&mut self, machine: u8, link: (String, String)) -> Source {
        self.seq += 1;
        let (t, seq) = (self.t, self.seq);
        Source { machine, entries: self.machine(machine).entries.len(), t, link, seq }
    }

    fn past(&mut self, machine: u8, at: u64, link: &str) -> Source {
        let entries = self.machine(machine).entries.iter().filter(|entry| entry.t <= at).count();
        let mut source = self.source(machine, ("link".to_owned(), link.to_owned()));
        (source.entries, source.t) = (entries, at);
        source
    }

    /// Returns the path of a machine that has done something, otherwise nothing and a
    /// contradiction.
    fn before(&mut self, by: u8, at: u64, link: &str) -> Before {
        if self.machine(by).entries.is_empty() {
            self.contradictions += 1;
            return Before::Nothing;
        }
        Before::Cause(self.past(by, at, link))
    }

    fn line(&mut self, machine: u8, op: &Op) {
        if !matches!(op, Op::Stop) {
            self.last = Some(machine);
        }
        let exists = self.machine(machine).exists;
        match op {
            Op::Stop if !exists => return self.contradictions += 1,
            Op::Stop => {
                let it = self.machine(machine);
                (it.exists, it.blocked) = (false, None);
                return self.note(machine, Before::Same);
            }
            Op::Fork { .. } if exists => return self.contradictions += 1,
            Op::Fork { by, back } => {
                let before = self.before(*by, self.t.saturating_sub(u64::from(*back)), "wakeup");
                return self.live(machine, before);
            }
            _ if !exists => self.live(machine, Before::Nothing),
            _ => {}
        }
        let queued = |queue: &u8| (format!("q{queue}"), "queued".to_owned());
        match op {
            Op::State(state) => {
                let it = self.machine(machine);
                (it.blocked, it.state) = (None, format!("s{state}"));
                self.note(machine, Before::Same);
            }
            Op::Block(why) => {
                self.machine(machine).blocked = Some(*why);
                self.note(machine, Before::Same);
            }
            Op::Wake { by, back, link } => {
                if self.machine(machine).blocked.is_some() {
                    let at = self.t.saturating_sub(u64::from(*back));
                    let before = match by {
                        Some(by) => self.before(*by, at, if *link { "l" } else { "wakeup" }),
                        None => Before::Nothing,
                    };
                    let it = self.machine(machine);
                    (it.blocked, it.state) = (None, "runnable".to_owned());
                    self.note(machine, before);
                }
            }
            Op::Put { queue, n, flow, link } => {
                let at = usize::from(*queue);
                if self.queues[at].kind.capacity.is_some() {
                    let mut room = self.queues[at].reserved.remove(&machine).unwrap_or_default();
                    let mut taken: Vec<Unit> = room.drain(..room.len().min((*n).into())).collect();
                    self.queues[at].reserved.insert(machine, room);
                    let open = (usize::from(*n) - taken.len()).min(self.queues[at].room.len());
                    taken.extend(self.queues[at].room.drain(..open));
                    self.found(machine, Taken::of(&taken, usize::from(*n)));
                } else {
                    self.found(machine, Taken::of(&[], 0));
                }
                let label = if *link { (format!("q{queue}"), "l".to_owned()) } else { queued(queue) };
                let source = self.source(machine, label);
                let it = &mut self.queues[at];
                if it.kind.merge && it.units.is_empty() {
                    it.opener = Some(source.clone());
                }
                let unit = Unit { seq: source.seq, flow: *flow, source: Some(source) };
                it.units.extend(std::iter::repeat_n(unit, (*n).into()));
            }
            Op::Get { queue, n, flow } => {
                let at = usize::from(*queue);
                let (taken, places) = self.pick(at, *n, *flow);
                let opener = self.queues[at].opener.clone();
                let count = taken.count;
                let mut index = 0;
                self.queues[at].units.retain(|_| {
                    index += 1;
                    !places.contains(&(index - 1))
                });
                if self.queues[at].units.is_empty() {
                    self.queues[at].opener = None;
                }
                let taken = self.merged(at, taken, opener);
                self.found(machine, taken);
                if let Some(capacity) = self.queues[at].kind.capacity {
                    let source = self.source(machine, queued(queue));
                    let it = &mut self.queues[at];
                    let used = it.units.len() + it.room.len() + it.reserved.values().map(Vec::len).sum::<usize>();
                    let back = count.min(usize::from(capacity).saturating_sub(used));
                    let unit = Unit { seq: source.seq, flow: None, source: Some(source) };
                    it.room.extend(std::iter::repeat_n(unit, back));
                }
            }
            Op::Peek { queue, n, flow } => {
                let at = usize::from(*queue);
                let (taken, _) = self.pick(at, *n, *flow);
                let opener = self.queues[at].opener.clone();
                let taken = self.merged(at, taken, opener);
                self.found(machine, taken);
            }
            Op::Reserve { queue, n } => {
                let it = &mut self.queues[usize::from(*queue)];
                if it.kind.capacity.is_none() {
                    return self.found(machine, Taken::of(&[], 0));
                }
                let taken: Vec<Unit> = it.room.drain(..it.room.len().min((*n).into())).collect();
                it.reserved.entry(machine).or_default().extend(taken.clone());
                self.found(machine, Taken::of(&taken, (*n).into()));
            }
            Op::Stop | Op::Fork { .. } => {}
        }
    }

    fn merged(&self, queue: usize, mut taken: Taken, opener: Option<Source>) -> Taken {
        if self.queues[queue].kind.merge && taken.latest.is_some() {
            taken.latest = Some(Unit { seq: 0, flow: None, source: opener });
        }
        taken
    }

    /// Returns the next units of a queue and their places in it.
    fn pick(&self, queue: usize, n: Option<u8>, flow: Option<u8>) -> (Taken, Vec<usize>) {
        let it = &self.queues[queue];
        let mut places: Vec<usize> = (0..it.units.len()).filter(|&at| flow.is_none() || it.units[at].flow == flow).collect();
        if it.kind.lifo {
            places.reverse();
        }
        let wanted = n.map_or(places.len(), usize::from);
        places.truncate(wanted);
        let units: Vec<Unit> = places.iter().map(|&at| it.units[at].clone()).collect();
        (Taken::of(&units, wanted), places)
    }

    fn found(&mut self, machine: u8, taken: Taken) {
        if taken.missing {
            self.contradictions += 1;
        }
        if self.machine(machine).blocked.take().is_some() {
            let before = match taken.latest.and_then(|unit| unit.source) {
                _ if taken.missing => Before::Nothing,
                Some(source) => Before::Cause(source),
                None => Before::Same,
            };
            self.note(machine, before);
        }
    }

    /// Returns the global path to the end of the machine that acted last.
    pub fn path(&self, begin: u64) -> Option<(u64, Vec<Piece>)> {
        let machine = self.last?;
        let mut at = Source { machine, entries: usize::MAX, t: self.t, link: Default::default(), seq: 0 };
        let mut back: Vec<Piece> = Vec::new();
        let mut add = |start: u64, end: u64, machine: &str, state: &str| {
            let start = start.max(begin);
            if start < end {
                match back.last_mut() {
                    Some(later) if later.2 == machine && later.3 == state => later.0 = start,
                    _ => back.push((start, end, machine.to_owned(), state.to_owned())),
                }
            }
        };
        'jump: loop {
            let name = format!("m{}", at.machine);
            let entries = self.machines.get(&at.machine).map_or(&[][..], |machine| &machine.entries);
            let mut t = at.t;
            for entry in entries[..at.entries.min(entries.len())].iter().rev() {
                add(entry.t, t, &name, &entry.state);
                t = t.min(entry.t);
                match &entry.before {
                    Before::Same => {}
                    Before::Nothing => break,
                    Before::Cause(source) => {
                        add(source.t, entry.t, &source.link.0, &source.link.1);
                        at = source.clone();
                        continue 'jump;
                    }
                }
            }
            add(begin, t, &name, "UNKNOWN");
            break;
        }
        back.reverse();
        Some((self.t, back))
    }
}

impl Taken {
    fn of(units: &[Unit], wanted: usize) -> Taken {
        let latest = units.iter().max_by_key(|unit| unit.seq).cloned();
        Taken { latest, count: units.len(), missing: units.len() < wanted }
    }
}

/// Returns the same as a machine log.
pub fn log(kinds: &[Kind], lines: &[Line]) -> String {
    let mut log = String::new();
    for (at, kind) in kinds.iter().enumerate() {
        let capacity = kind.capacity.map_or_else(String::new, |capacity| format!(",\"capacity\":{capacity}"));
        let order = if kind.lifo { "lifo" } else { "fifo" };
        let (initial, merge) = (kind.initial, kind.merge);
        log += &format!("{{\"queue\":\"q{at}\"{capacity},\"order\":\"{order}\",\"initial\":{initial},\"merge\":{merge}}}\n");
    }
    let flow = |flow: &Option<u8>| flow.map_or_else(String::new, |flow| format!(",\"flow\":{flow}"));
    let amount = |n: &Option<u8>| n.map_or_else(|| "\"all\"".to_owned(), |n| n.to_string());
    let label = |link: bool| if link { ",\"link\":\"l\"" } else { "" };
    let mut t = 0;
    for (dt, machine, op) in lines {
        t += u64::from(*dt);
        let effect = match op {
            Op::State(state) => format!("\"state\":\"s{state}\""),
            Op::Block(why) => format!("\"blocked\":\"w{why}\""),
            Op::Put { queue, n, flow: of, link } => format!("\"put\":\"q{queue}\",\"n\":{n}{}{}", flow(of), label(*link)),
            Op::Get { queue, n, flow: of } => format!("\"get\":\"q{queue}\",\"n\":{}{}", amount(n), flow(of)),
            Op::Peek { queue, n, flow: of } => format!("\"peek\":\"q{queue}\",\"n\":{}{}", amount(n), flow(of)),
            Op::Reserve { queue, n } => format!("\"reserve\":\"q{queue}\",\"n\":{n}"),
            Op::Wake { by: None, .. } => "\"woken_by\":null".to_owned(),
            Op::Wake { by: Some(by), back, link } => {
                format!("\"woken_by\":\"m{by}\",\"at\":{}{}", t.saturating_sub(u64::from(*back)), label(*link))
            }
            Op::Fork { by, back } => format!("\"forked_by\":\"m{by}\",\"at\":{}", t.saturating_sub(u64::from(*back))),
            Op::Stop => "\"stop\":true".to_owned(),
        };
        log += &format!("{{\"t\":{t},\"machine\":\"m{machine}\",{effect}}}\n");
    }
    log
}

fn kind() -> impl Strategy<Value = Kind> {
    (proptest::option::of(1u8..5), any::<bool>(), 0u8..3, proptest::bool::weighted(0.3)).prop_map(|(capacity, lifo, initial, merge)| Kind {
        capacity,
        lifo,
        initial: capacity.map_or(initial, |capacity| initial.min(capacity)),
        merge,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let queue = 0u8..3;
    let n = 1u8..4;
    let flow = || proptest::option::weighted(0.3, 0u8..2);
    let some = || proptest::option::weighted(0.8, 1u8..4);
    prop_oneof![
        2 => (0u8..3).prop_map(Op::State),
        3 => (0u8..2).prop_map(Op::Block),
        4 => (queue.clone(), n.clone(), flow(), any::<bool>()).prop_map(|(queue, n, flow, link)| Op::Put { queue, n, flow, link }),
        4 => (queue.clone(), some(), flow()).prop_map(|(queue, n, flow)| Op::Get { queue, n, flow }),
        1 => (queue.clone(), some(), flow()).prop_map(|(queue, n, flow)| Op::Peek { queue, n, flow }),
        1 => (queue, n).prop_map(|(queue, n)| Op::Reserve { queue, n }),
        3 => (proptest::option::weighted(0.9, 0u8..5), 0u8..40, any::<bool>()).prop_map(|(by, back, link)| Op::Wake { by, back, link }),
        1 => (0u8..5, 0u8..10).prop_map(|(by, back)| Op::Fork { by, back }),
        1 => Just(Op::Stop),
    ]
}

pub fn system() -> impl Strategy<Value = (Vec<Kind>, Vec<Line>)> {
    let line = (0u8..6, 0u8..5, op());
    // If machines only stop, there is no path.
    let lines = proptest::collection::vec(line, 1..120).prop_map(|mut lines| {
        lines[0].2 = Op::State(0);
        lines
    });
    (proptest::collection::vec(kind(), 3), lines)
}
