//! The critical path, computed in one pass over the interactions.
//!
//! Each machine and each token in flight has a *path*: the chain of states and links that no other
//! activity could have hidden, back to the start of the range. A *tip* ([`machine::Tip`]) is the
//! newest end of a path. The time that a machine spends in a state, and the time of a link, is
//! charged to a tip.
//!
//! - A wake-up with a known cause replaces the woken machine's path by the path that the causing
//!   machine had at the time of the cause, followed by the link from the cause to the wake-up. The
//!   cause may lie in the past (`machine::Past`).
//! - A put gives the token a share of the putting machine's path.
//! - A get that ends a block replaces the machine's path by the path of the token that arrived
//!   last, followed by the link from the put to the get. The machine's own path during the block is
//!   dropped.
//!
//! Example: a server is blocked on its queue from 0 to 10 ms. A client runs until 7 ms and then
//! puts a request; the server gets it at 10 ms. From then on the server's path is the client's
//! running time until 7 ms, followed by 3 ms of the link `queued`.
//!
//! The path of the machine whose end counts is therefore the global critical path; no backward walk
//! is needed. The profile is exact in ns: the sum of its entries must equal the length of the path,
//! or the answer is refused ([`NoAnswer::NotConserved`]).
//!
//! Paths are stored in one of three ways ([`storage::path_store`]). Each counts the tips that
//! *hold* a path, and forgets what none of them holds, so memory depends on the number of tips and
//! not on the length of the trace:
//!
//! - as segments, the older ones in a file ([`Options::segments`] with [`Options::spill`]; a report
//!   on a recorded command);
//! - in windows, which several threads compute ([`Options::window`]; a report on the replies of a
//!   service);
//! - as a tree that has only the sums of each path, and merges nodes that nothing needs any more
//!   ([`storage::tree`]; all others).
//!
//! The *active* path of one machine ([`active`]) is the machine's own time, in which each block is
//! replaced by the part of the waker's path that lies within the block.

mod active;
mod answer;
pub mod cpu_holders;
pub mod folded;
pub(crate) mod interactions;
pub mod keys;
mod machine;
mod options;
pub mod participation;
pub(crate) mod path;
pub(crate) mod path_windows;
pub mod samples;
mod slack;
mod storage;
mod window;

pub use answer::{rows_by_class, Answer, Contradiction, NoAnswer, PassSizes, Profiled, Row};
pub use keys::key::Kind;
pub use options::{Mode, Options};
pub(crate) use path::Numbered;
pub use path::{Call, Path, Segment, Stretch};
pub use storage::segments::Spill;

use active::Active;
use keys::key::{Key, Link, State};
use keys::key_table::KeyTable;
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Queues};
use machine::{PathMachine, Tip};
use std::collections::VecDeque;
use storage::path_store::{PathStore, Windows};
use storage::segments::Segments;
use storage::tree::Tree;

/// Origin of a token or of a unit of free space in a queue: the path of the machine that made it,
/// with the time, the host and the link of the put.
#[derive(Clone, Copy, Debug)]
struct PathOrigin {
    tip: Tip,
    t: u64,
    host: PackedName,
    link: PackedName,
}

/// An optional name in the size of a name. There are many of them and they are copied often, so
/// `u32::MAX` is `None` instead of a separate tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedName(u32);

impl PackedName {
    const NONE: u32 = u32::MAX;

    fn of(name: Option<NameId>) -> PackedName {
        PackedName(name.map_or(PackedName::NONE, |name| name.0))
    }

    fn name(self) -> Option<NameId> {
        (self.0 != PackedName::NONE).then_some(NameId(self.0))
    }
}

/// The end that counts, as of the last end mark.
#[derive(Clone, Debug)]
struct EndMark {
    t: u64,
    /// `None` if [`Options::machine`] names a machine that had not appeared by then.
    machine: Option<MachineId>,
    tip: Option<Tip>,
}

/// Position of the pass, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Start of the range, once it is known.
    begin: Option<u64>,
    requested_begin: u64,
    now: u64,
}

/// The machine that [`Options::machine`] names, once it has appeared; and another one of the same
/// name, which makes the question ambiguous.
#[derive(Clone, Copy, Debug, Default)]
struct Requested {
    machine: Option<MachineId>,
    namesake: Option<MachineId>,
}

/// Numbers of interactions, and of contradictory or incomplete ones.
#[derive(Clone, Debug, Default)]
struct Counts {
    contradictions: u64,
    /// The first contradictions, at most [`MAX_LISTED`].
    listed: Vec<Contradiction>,
    negative_links: u64,
    ignored_wakeups: u64,
    /// Causes that lie further back than the remembered past of their machine.
    too_old: u64,
    interactions: u64,
}

/// Placeholder for the key of a machine that does not exist. The time of such a machine is unknown
/// and rarely needed, so its key is made only when the time is charged.
const NO_KEY: u32 = u32::MAX;

/// Largest number of contradictions that are reported one by one; the others are only counted.
const MAX_LISTED: usize = 20;

/// The pass that computes a critical path. It sees each interaction once, in the order of time.
pub struct CriticalPath {
    options: Options,
    store: PathStore,
    /// Segments of paths that are charged at once.
    segments: Option<Segments>,
    keys: KeyTable,
    machines: Vec<PathMachine>,
    /// Largest number of spans, jumps and marks that each machine's [`machine::Past`] remembers.
    most_past: usize,
    queues: Queues<PathOrigin>,
    active: Option<Active>,
    requested: Requested,
    clock: Clock,
    /// The machine of the last interaction, unless that stopped it.
    last: Option<MachineId>,
    end: Option<EndMark>,
    /// Machines that have stopped, oldest first, each with the number of its stops at that moment.
    /// If the machine has stopped again since, the number is outdated and the entry is skipped.
    stopped: VecDeque<(MachineId, u32)>,
    counts: Counts,
}

impl CriticalPath {
    pub fn new(options: Options) -> CriticalPath {
        let active = match options.mode {
            Mode::Global => None,
            Mode::Active => Some(Active::new(options.segments, options.spill)),
        };
        let window = options.window.filter(|_| active.is_none());
        let store = match window {
            Some(window) => PathStore::Windowed(Box::new(Windows::new(window, options.jobs, options.segments, options.spill))),
            // The profile of the path then follows from its segments.
            None if active.is_none() && options.segments && options.spill.is_some() => PathStore::Segments,
            None => PathStore::Charged(Tree::default()),
        };
        let mut segments = (window.is_none() && options.segments || active.is_some()).then(Segments::default);
        if let (Some(segments), Some(spill), None) = (&mut segments, options.spill, &active) {
            segments.spill(spill);
        }
        CriticalPath {
            store,
            segments,
            keys: KeyTable::default(),
            machines: Vec::new(),
            most_past: 0,
            queues: Queues::new(options.most_tokens),
            active,
            requested: Requested::default(),
            clock: Clock::default(),
            last: None,
            end: None,
            stopped: VecDeque::new(),
            counts: Counts::default(),
            options,
        }
    }

    /// Processes the next interaction; interactions must be in the order of time.
    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, line, effect } = *interaction;
        self.counts.interactions += 1;
        if let Effect::Declare { queue, shape } = effect {
            return self.queues.declare(queue, shape);
        }
        if self.clock.begin.is_none() {
            self.set_begin(t.max(self.clock.requested_begin));
        }
        self.clock.now = self.clock.now.max(t);
        self.dispatch(vocabulary, line, effect);
        if self.segments.as_ref().is_some_and(Segments::is_due) {
            self.clear_segments();
        }
        self.store.step();
    }

    /// Sets the start of the range to `t` ns. Earlier time is left out of the path, but the effects
    /// of earlier interactions are not. After the first interaction, `t` must not change.
    pub fn begin_at(&mut self, t: u64) {
        self.clock.requested_begin = t;
    }

    fn set_begin(&mut self, begin: u64) {
        self.clock.begin = Some(begin);
        if let Some(active) = &mut self.active {
            active.begin(begin);
        }
    }

    /// Advances the clock to `t` ns without an interaction.
    pub fn until(&mut self, t: u64) {
        self.clock.now = self.clock.now.max(t);
    }

    /// Returns the current sizes of the tree, its tips and the log of segments.
    pub fn sizes(&self) -> PassSizes {
        let (nodes, tips, segments) = self.store.sizes();
        let pieces = self.active.as_ref().map_or(0, Active::pieces_in_memory);
        PassSizes { nodes, tips, segments: self.segments.as_ref().map_or(segments, Segments::len) + pieces }
    }

    fn machine(&mut self, machine: MachineId) -> &mut PathMachine {
        let at = machine.0 as usize;
        if at >= self.machines.len() {
            self.machines.resize_with(at + 1, PathMachine::default);
            self.most_past = (self.options.most_past / self.machines.len()).clamp(16, 1024);
        }
        &mut self.machines[at]
    }

    fn state_key(&mut self, machine: MachineId, state: State) -> u32 {
        let class = self.machine(machine).class;
        self.keys.id(Key::State { machine, class, state })
    }

    /// Charges the machine's time from its last charge until now to its path.
    fn charge(&mut self, machine: MachineId) {
        let (now, begin, most) = (self.clock.now, self.clock.begin.unwrap_or(0), self.most_past);
        let tracked = self.machine(machine);
        let Some(mut tip) = tracked.tip else { return };
        let (since, mut key) = (tracked.charged_until, tracked.key);
        if since >= now {
            return;
        }
        if key == NO_KEY {
            key = self.state_key(machine, State::Unknown);
        }
        let tracked = self.machine(machine);
        tracked.past.span(since, key, most);
        tracked.charged_until = now;
        let from = since.max(begin);
        if from < now {
            tip = self.extend(tip, from, now, key);
            self.keys.count(key, from, now);
            self.machine(machine).tip = Some(tip);
            if let Some(active) = &mut self.active {
                active.add_own(machine, (key, from, now));
            }
        }
    }

    /// Recomputes the key that the machine's time goes to. Must be called after each change of its
    /// state.
    fn update_key(&mut self, machine: MachineId) {
        let tracked = self.machine(machine);
        let state = tracked.current_state();
        let key = if tracked.exists { self.state_key(machine, state) } else { NO_KEY };
        self.machine(machine).key = key;
    }

    /// Returns the tip of a held path extended by the stretch from `from` to `to`. Consumes the
    /// hold of `tip`; the returned tip is held.
    fn extend(&mut self, tip: Tip, from: u64, to: u64, key: u32) -> Tip {
        let from = from.max(self.clock.begin.unwrap_or(0));
        if from >= to {
            return tip;
        }
        self.store.extend(tip, from, to, key, self.segments.as_mut())
    }

    /// Returns the held tip of a new path that is in the state unknown until `t`.
    fn unknown_path(&mut self, machine: MachineId, t: u64) -> Tip {
        let tip = self.store.root();
        let key = self.state_key(machine, State::Unknown);
        self.extend(tip, 0, t, key)
    }

    /// Adds a hold of the tip, and returns it.
    fn held(&mut self, tip: Tip) -> Tip {
        self.store.hold(tip);
        tip
    }

    /// Remembers the machine's current path for later causes that name this moment.
    fn remember_path(&mut self, machine: MachineId) {
        let (now, most) = (self.clock.now, self.most_past);
        let tracked = self.machine(machine);
        let Some(tip) = tracked.tip.filter(|_| tracked.past.marks.back().is_none_or(|last| last.0 < now)) else { return };
        let forgotten = tracked.past.mark(now, tip, most);
        self.store.hold(tip);
        if let Some(forgotten) = forgotten {
            self.store.release(forgotten);
        }
    }

    /// Replaces the machine's path from now on.
    fn jump(&mut self, machine: MachineId, tip: Tip) {
        let (now, most) = (self.clock.now, self.most_past);
        let tracked = self.machine(machine);
        let before = tracked.tip.replace(tip);
        tracked.charged_until = now;
        let forgotten = tracked.past.jump(now, before, most);
        // A mark made at this moment holds the path before the jump.
        let unmarked = tracked.past.unmark(now);
        for tip in [forgotten, unmarked].into_iter().flatten() {
            self.store.release(tip);
        }
    }

    /// Returns a held tip: the path of the cause at the moment of the cause, followed by the link
    /// from there to now. `None` if the causing machine has not appeared yet.
    fn tip_after_cause(&mut self, cause: Cause) -> Option<Tip> {
        self.machine(cause.by).past.born?;
        let at = cause.at.unwrap_or(self.clock.now);
        if at > self.clock.now {
            self.counts.negative_links += 1;
        }
        let tip = self.critical_path_at(cause.by, at.min(self.clock.now));
        if at >= self.clock.now {
            return Some(tip);
        }
        let kind = cause.link.map_or(Link::Wakeup, Link::Named);
        let key = self.keys.id(Key::Link { queue: None, kind });
        Some(self.extend(tip, at, self.clock.now, key))
    }

    /// Returns the held tip of the machine's path as it was at `at`.
    fn critical_path_at(&mut self, machine: MachineId, at: u64) -> Tip {
        if at <= self.clock.begin.unwrap_or(0) && at < self.clock.now {
            return self.store.root();
        }
        self.charge(machine);
        let now = self.clock.now;
        let tracked = self.machine(machine);
        let Some(current) = tracked.tip else {
            self.counts.too_old += 1;
            return self.unknown_path(machine, at);
        };
        if at >= now {
            return self.held(current);
        }
        if let Some(tip) = tracked.past.marked(at) {
            return self.held(tip);
        }
        let lived = tracked.past.born.is_some_and(|born| born <= at);
        let epoch = tracked.past.path_at(at, now).filter(|_| tracked.past.remembers(at));
        let Some((tip, end)) = epoch else {
            if lived {
                self.counts.too_old += 1;
            }
            return self.unknown_path(machine, at);
        };
        let tip = tip.unwrap_or(current);
        let past = &self.machines[machine.0 as usize].past;
        self.store.past(tip, end, at, past.charges(at, end), self.segments.as_mut())
    }

    /// Returns a held tip: the path of the token's origin, followed by the link from the put to
    /// now.
    fn tip_through_queue(&mut self, from: PathOrigin, queue: QueueId, host: Option<NameId>) -> Tip {
        let tip = self.held(from.tip);
        if from.t >= self.clock.now {
            return tip;
        }
        let kind = match from.link.name() {
            Some(link) => Link::Named(link),
            None if from.host == PackedName::of(host) => Link::Queued,
            None => Link::Wire,
        };
        let key = self.keys.id(Key::Link { queue: Some(queue), kind });
        self.extend(tip, from.t, self.clock.now, key)
    }

    /// Ends the block of a machine with this cause.
    fn unblock(&mut self, machine: MachineId, cause: Origin<Tip>) {
        let (now, unknown) = (self.clock.now, self.state_key(machine, State::Unknown));
        let Some(block) = self.machine(machine).block.take() else { return };
        match cause {
            Origin::None => {
                if let Some(active) = &mut self.active {
                    active.end_block_without_cause(machine);
                }
            }
            Origin::Unknown => {
                let mut tip = self.unknown_path(machine, now);
                if let (Some(active), Some(segments)) = (&mut self.active, &mut self.segments) {
                    tip.segment = segments.add(unknown, block.start, now, block.segment);
                    active.replace_block(machine, |since| vec![(unknown, since, now)]);
                }
                self.jump(machine, tip);
            }
            Origin::From(mut tip) => {
                if let (Some(active), Some(segments)) = (&mut self.active, &mut self.segments) {
                    active.replace_block(machine, |since| segments.back(tip.segment, since).into_iter().rev());
                    tip.segment = segments.splice(tip.segment, block.start, now, block.segment);
                }
                self.jump(machine, tip);
            }
        }
        self.update_key(machine);
    }

    /// Releases the holds of tokens that are gone, and adds a hold for each token that was split.
    fn update_holds(&mut self) {
        while let Some(from) = self.queues.copied.pop() {
            self.store.hold(from.tip);
        }
        while let Some(from) = self.queues.spent.pop() {
            self.store.release(from.tip);
        }
        self.queues.ignore_spent();
    }

    fn contradiction(&mut self, line: u64, what: String) {
        self.counts.contradictions += 1;
        if self.counts.listed.len() < MAX_LISTED {
            self.counts.listed.push(Contradiction { line, what });
        }
    }

    fn clear_segments(&mut self) {
        let Some(mut segments) = self.segments.take() else { return };
        let (machines, queues, end) = (&mut self.machines, &mut self.queues, &mut self.end);
        // In active mode only the segments since the start of the machine's open block are still
        // needed.
        let horizon = self.active.as_ref().map_or(0, |active| active.final_until(self.clock.now));
        segments.clear(horizon, |visit| {
            for tracked in machines.iter_mut() {
                tracked.tip.iter_mut().chain(tracked.past.tips()).for_each(|tip| visit(&mut tip.segment));
                tracked.block.iter_mut().for_each(|block| visit(&mut block.segment));
            }
            queues.each_origin(|from| visit(&mut from.tip.segment));
            end.iter_mut().filter_map(|end| end.tip.as_mut()).for_each(|tip| visit(&mut tip.segment));
        });
        self.segments = Some(segments);
    }
}
