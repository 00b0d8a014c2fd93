//! Storage of the paths: the tree itself, charged at once; their segments alone; or a list of
//! operations that worker threads charge window by window ([`crate::critical_path::window`]). All
//! yield the same result.

use crate::critical_path::machine::Tip;
use crate::critical_path::storage::path_log::PathLog;
use crate::critical_path::storage::segments::{Segments, Spill, NONE};
use crate::critical_path::storage::tree::Tree;
use crate::critical_path::window::{Charge, Op, Ops, Slot, Summary};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::{Builder, JoinHandle};

/// Storage of the paths; all variants have the same operations.
pub enum PathStore {
    /// Charged at once.
    Charged(Tree),
    /// Only the segments are stored, by the caller.
    Segments,
    /// Charged window by window, by worker threads.
    Windowed(Box<Windows>),
}

impl PathStore {
    /// Adds a path about whose past nothing is known, held once.
    pub fn root(&mut self) -> Tip {
        match self {
            PathStore::Charged(tree) => Tip { node: tree.root(), segment: NONE },
            PathStore::Segments => Tip { node: 0, segment: NONE },
            PathStore::Windowed(windows) => {
                let to = windows.slot();
                windows.ops.list.push(Op::Root { to });
                Tip { node: to, segment: NONE }
            }
        }
    }

    pub fn hold(&mut self, tip: Tip) {
        match self {
            PathStore::Charged(tree) => tree.hold(tip.node),
            PathStore::Segments => {}
            PathStore::Windowed(windows) => windows.holds[tip.node as usize] += 1,
        }
    }

    pub fn release(&mut self, tip: Tip) {
        match self {
            PathStore::Charged(tree) => tree.release(tip.node),
            PathStore::Segments => {}
            PathStore::Windowed(windows) => windows.release(tip.node),
        }
    }

    /// Returns the tip of a held path extended by a stretch that must not be empty. The hold moves
    /// to it.
    pub fn extend(&mut self, tip: Tip, from: u64, until: u64, key: u32, segments: Option<&mut Segments>) -> Tip {
        match self {
            PathStore::Charged(tree) => {
                let node = tree.own(tip.node, from);
                tree.charge(node, key, until - from);
                let segment = segments.map_or(NONE, |segments| segments.add(key, from, until, tip.segment));
                Tip { node, segment }
            }
            PathStore::Segments => {
                let segment = segments.map_or(NONE, |segments| segments.add(key, from, until, tip.segment));
                Tip { segment, ..tip }
            }
            PathStore::Windowed(windows) => {
                let of = tip.node;
                let holds = &mut windows.holds[of as usize];
                let to = if *holds == 1 {
                    of
                } else {
                    *holds -= 1;
                    windows.slot()
                };
                windows.ops.list.push(Op::Extend { of, to, key, from, until });
                Tip { node: to, segment: NONE }
            }
        }
    }

    /// Returns a held tip: the path of `tip`, which ended at `end`, as it was at `at`.
    pub fn past(&mut self, tip: Tip, end: u64, at: u64, charges: impl Iterator<Item = Charge>, segments: Option<&mut Segments>) -> Tip {
        match self {
            PathStore::Charged(tree) => {
                let node = tree.past(tip.node, end, at, charges);
                let segment = segments.map_or(NONE, |segments| segments.past(tip.segment, at));
                Tip { node, segment }
            }
            PathStore::Segments => {
                let segment = segments.map_or(NONE, |segments| segments.past(tip.segment, at));
                Tip { segment, ..tip }
            }
            PathStore::Windowed(windows) => {
                let (to, before) = (windows.slot(), windows.ops.charges.len());
                if windows.charging.has_times() {
                    windows.ops.charges.extend(charges.filter(|charge| charge.1 < end && charge.2 > at));
                }
                let charges = (windows.ops.charges.len() - before) as u32;
                windows.ops.list.push(Op::Past { of: tip.node, to, end, at, charges });
                Tip { node: to, segment: NONE }
            }
        }
    }

    /// Counts an interaction; closes the window if it is full.
    pub fn step(&mut self) {
        if let PathStore::Windowed(windows) = self {
            windows.count += 1;
            if windows.count >= windows.length {
                windows.close();
            }
        }
    }

    /// Numbers of nodes, tips and segments.
    pub fn sizes(&self) -> (usize, usize, usize) {
        match self {
            PathStore::Charged(tree) => (tree.len(), tree.holds(), 0),
            PathStore::Segments => (0, 0, 0),
            PathStore::Windowed(windows) => windows.sizes(),
        }
    }

    /// Returns the tree, the tip within that tree, and the segments if they were stored here. There
    /// is no tree if only segments are stored.
    pub fn finish(self, tip: Tip) -> (Option<Tree>, Tip, Option<Segments>) {
        match self {
            PathStore::Charged(tree) => (Some(tree), tip, None),
            PathStore::Segments => (None, tip, None),
            PathStore::Windowed(windows) => match windows.finish() {
                Whole::Summary(composed) => {
                    let tip = composed.tip(tip.node).unwrap_or(Tip { node: u32::MAX, segment: NONE });
                    let (tree, segments) = composed.into_parts();
                    (Some(tree), tip, segments)
                }
                Whole::Log(log) => {
                    let (tip, segments) = log.finish(tip.node);
                    (None, tip, Some(segments))
                }
            },
        }
    }
}

/// Numbers of the paths that exist, and the open window.
pub struct Windows {
    holds: Vec<u32>,
    free: Vec<Slot>,
    ops: Ops,
    count: usize,
    length: usize,
    charging: Charging,
}

/// The threads that charge windows. The result does not depend on them.
enum Charging {
    /// In the calling thread, each by itself.
    Here { keep_segments: bool, composed: Summary },
    /// In one thread, one after the other, so that nothing has to be composed.
    InOrder(Charger),
    /// In several threads, each by itself; the calling thread composes them.
    Apart(Workers),
}

/// A thread that charges all windows in order. Its result is that of the whole trace.
struct Charger {
    /// The thread computes the times of keys, not only segments.
    has_times: bool,
    work: SyncSender<Ops>,
    thread: JoinHandle<Whole>,
}

/// The paths of the whole trace.
enum Whole {
    Summary(Summary),
    /// Only the segments.
    Log(PathLog),
}

impl Whole {
    fn charge(&mut self, ops: &Ops) {
        match self {
            Whole::Summary(summary) => {
                summary.charge(ops);
                summary.clear_segments();
            }
            Whole::Log(log) => {
                log.charge(ops);
                log.clear_segments();
            }
        }
    }
}

/// Threads that charge windows in turn.
struct Workers {
    workers: Vec<Worker>,
    /// Numbers of windows sent to workers, and received from them.
    sent: usize,
    received: usize,
    composed: Summary,
}

struct Worker {
    work: SyncSender<Ops>,
    done: Receiver<Summary>,
    /// The thread ends when `work` is dropped.
    _thread: JoinHandle<()>,
}

/// Number of windows per thread that may wait for it or for their composition.
const WINDOWS_AHEAD: usize = 2;

impl Windows {
    /// Makes windows of `length` interactions. `threads` includes the calling thread, which follows
    /// the interactions: it also charges if it is the only one, and composes if there are more than
    /// two.
    pub fn new(length: usize, threads: usize, keep_segments: bool, spill: Option<Spill>) -> Windows {
        let charging = Charging::new(threads, keep_segments, spill);
        Windows { holds: Vec::new(), free: Vec::new(), ops: Ops::default(), count: 0, length: length.max(1), charging }
    }

    fn slot(&mut self) -> Slot {
        match self.free.pop() {
            Some(slot) => {
                self.holds[slot as usize] = 1;
                slot
            }
            None => {
                self.holds.push(1);
                self.holds.len() as u32 - 1
            }
        }
    }

    fn release(&mut self, slot: Slot) {
        let holds = &mut self.holds[slot as usize];
        *holds -= 1;
        if *holds == 0 {
            self.ops.list.push(Op::End { of: slot });
            self.free.push(slot);
        }
    }

    /// Closes the window and has it charged.
    fn close(&mut self) {
        self.count = 0;
        let ops = std::mem::take(&mut self.ops);
        // A window of this size probably needs as much memory again.
        self.ops.list.reserve(ops.list.len());
        self.charging.charge(ops);
    }

    /// Numbers of nodes, tips and segments; 0 while another thread has them.
    fn sizes(&self) -> (usize, usize, usize) {
        match &self.charging {
            Charging::Here { composed, .. } | Charging::Apart(Workers { composed, .. }) => composed.sizes(),
            Charging::InOrder(_) => (0, 0, 0),
        }
    }

    fn finish(mut self) -> Whole {
        self.close();
        match self.charging {
            Charging::Here { composed, .. } => Whole::Summary(composed),
            Charging::Apart(workers) => Whole::Summary(workers.finish()),
            Charging::InOrder(Charger { work, thread, .. }) => {
                drop(work);
                // If the thread has died, time is missing from the sum, which is checked later.
                thread.join().unwrap_or_else(|_| Whole::Summary(Summary::new(false)))
            }
        }
    }
}

impl Charging {
    /// If a thread cannot be started, the others, or the calling thread, do its work.
    fn new(threads: usize, keep_segments: bool, spill: Option<Spill>) -> Charging {
        let whole = || {
            let mut composed = Summary::new(keep_segments);
            if let Some(spill) = spill {
                composed.spill(spill);
            }
            composed
        };
        let here = || Charging::Here { keep_segments, composed: whole() };
        match threads {
            0 | 1 => here(),
            2 => {
                let log = spill.filter(|_| keep_segments).map(PathLog::new);
                let whole = log.map_or_else(|| Whole::Summary(whole()), Whole::Log);
                Charger::new(whole).map_or_else(here, Charging::InOrder)
            }
            threads => {
                let workers: Vec<Worker> = (1..threads).map_while(|_| Worker::new(keep_segments)).collect();
                match workers.is_empty() {
                    true => here(),
                    false => Charging::Apart(Workers { workers, sent: 0, received: 0, composed: whole() }),
                }
            }
        }
    }

    /// Returns true if the times of keys are computed, which needs the charges of past moments.
    fn has_times(&self) -> bool {
        !matches!(self, Charging::InOrder(Charger { has_times: false, .. }))
    }

    fn charge(&mut self, ops: Ops) {
        match self {
            Charging::Here { keep_segments, composed } => {
                composed.then(Summary::of(&ops, *keep_segments));
                composed.clear_segments();
            }
            // Sending fails only if the thread has died, and `finish` then gets no summary of it.
            Charging::InOrder(Charger { work, .. }) => drop(work.send(ops)),
            Charging::Apart(workers) => workers.charge(ops),
        }
    }
}

impl Charger {
    fn new(mut whole: Whole) -> Option<Charger> {
        let has_times = matches!(whole, Whole::Summary(_));
        let (work, given) = sync_channel::<Ops>(WINDOWS_AHEAD);
        let run = move || {
            while let Ok(ops) = given.recv() {
                whole.charge(&ops);
            }
            whole
        };
        let thread = Builder::new().name("window".to_owned()).spawn(run).ok()?;
        Some(Charger { has_times, work, thread })
    }
}

impl Workers {
    fn charge(&mut self, ops: Ops) {
        while self.sent - self.received >= self.workers.len() * WINDOWS_AHEAD {
            self.receive();
        }
        let worker = self.sent % self.workers.len();
        self.sent += 1;
        // If a worker has died, time is missing from the sum, which is checked later.
        let _ = self.workers[worker].work.send(ops);
    }

    /// Receives the next window in order from the worker that has it.
    fn receive(&mut self) {
        let worker = self.received % self.workers.len();
        self.received += 1;
        if let Ok(summary) = self.workers[worker].done.recv() {
            self.composed.then(summary);
            self.composed.clear_segments();
        }
    }

    fn finish(mut self) -> Summary {
        while self.received < self.sent {
            self.receive();
        }
        self.composed
    }
}

impl Worker {
    fn new(keep_segments: bool) -> Option<Worker> {
        let (work, given) = sync_channel::<Ops>(WINDOWS_AHEAD);
        let (give, done) = sync_channel(WINDOWS_AHEAD);
        let run = move || {
            while let Ok(ops) = given.recv() {
                if give.send(Summary::of(&ops, keep_segments)).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name("window".to_owned()).spawn(run).ok()?;
        Some(Worker { work, done, _thread: thread })
    }
}
