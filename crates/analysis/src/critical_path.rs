//! The critical path, computed in one pass over the interactions.
//!
//! Each machine and each token in flight has a *path*: the chain of states and links that no other
//! activity could have hidden, back to the start of the range. A *tip* ([`life::Tip`]) is the
//! newest end of a path. The time that a machine spends in a state, and the time of a link, is
//! charged to a tip.
//!
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
//! is needed. The tree of paths merges nodes that nothing needs any more ([`tree`]), so memory
//! depends on the number of tips, not on the length of the trace. The profile is exact in ns: the
//! sum of its entries must equal the length of the path, or the answer is refused
//! ([`NoAnswer::NotConserved`]).
//!
//! The segments of the path are stored only if [`Options::segments`] is set ([`segments`]). The
//! *active* path of one machine ([`active`]) is the machine's own time, in which each block is
//! replaced by the part of the waker's path that lies within the block.

mod active;
mod answer;
pub mod cpu_holders;
pub mod folded;
pub(crate) mod key;
mod life;
pub mod name_index;
mod options;
pub mod participation;
pub(crate) mod path;
mod path_store;
pub(crate) mod path_windows;
mod profile;
mod runs;
pub mod samples;
mod segments;
mod slack;
pub(crate) mod steps;
mod tree;
mod window;
mod words;

pub use answer::{rows_by_class, Answer, Contradiction, Inner, NoAnswer, Profiled, Row};
pub use key::Kind;
pub use options::{Mode, Options};
pub(crate) use path::Numbered;
pub use path::{Call, Path, Segment, Stretch};
pub use segments::Spill;

use active::Active;
use key::{Key, Keys, Link, State};
use life::{Life, Tip};
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Queues};
use path_store::{PathStore, Windows};
use segments::Segments;
use slack::Slack;
use std::collections::VecDeque;
use tree::Tree;

/// Origin of a token or of a unit of free space in a queue.
#[derive(Clone, Copy, Debug)]
struct From {
    tip: Tip,
    t: u64,
    host: OptionalName,
    link: OptionalName,
}

/// An optional name in the size of a name. There are many of them and they are copied often, so
/// `u32::MAX` is `None` instead of a separate tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OptionalName(u32);

impl OptionalName {
    const NONE: u32 = u32::MAX;

    fn of(name: Option<NameId>) -> OptionalName {
        OptionalName(name.map_or(OptionalName::NONE, |name| name.0))
    }

    fn name(self) -> Option<NameId> {
        (self.0 != OptionalName::NONE).then_some(NameId(self.0))
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

/// Time of a key in ns. `behind` is the part after the end mark number `mark`, and does not belong
/// to the answer if that mark is the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    ns: u64,
    mark: u64,
    behind: u64,
}

/// Numbers of contradictory or incomplete inputs.
#[derive(Clone, Debug, Default)]
struct Counts {
    contradictions: u64,
    first: Vec<Contradiction>,
    negative_links: u64,
    ignored_wakeups: u64,
    too_old: u64,
}

/// Placeholder for the index of a slack: this key took nothing.
const NO_SLACK: u32 = u32::MAX;
/// Placeholder for the key of a machine that does not exist. Its time is unknown and rarely needed,
/// so the key is made only when the time is charged.
const NOT_THERE: u32 = u32::MAX;

/// Largest number of contradictions that are reported one by one; the others are only counted.
const MAX_TOLD: usize = 20;

/// The pass that computes a critical path. It sees each interaction once, in the order of time.
pub struct CriticalPath {
    options: Options,
    store: PathStore,
    /// Segments of paths that are charged at once.
    segments: Option<Segments>,
    keys: Keys,
    lives: Vec<Life>,
    /// Largest number of spans, jumps and marks that each machine's [`life::Past`] remembers.
    most_past: usize,
    queues: Queues<From>,
    active: Option<Active>,
    /// The machine that [`Options::machine`] names, once it has appeared; and another one of the
    /// same name, which makes the question ambiguous.
    subject: Option<MachineId>,
    namesake: Option<MachineId>,
    /// Start of the range in ns, once it is known.
    begin: Option<u64>,
    asked_begin: u64,
    now: u64,
    last: Option<MachineId>,
    end: Option<EndMark>,
    /// Time of each key over all machines.
    totals: Vec<Total>,
    marks: u64,
    /// Index into `slack` of each key, or [`NO_SLACK`].
    slack_at: Vec<u32>,
    slack: Vec<Slack>,
    /// Machines that have stopped, oldest first, each with the number of its stops at that moment.
    /// If the machine has stopped again since, the number is outdated and the entry is skipped.
    stopped: VecDeque<(MachineId, u32)>,
    counts: Counts,
    interactions: u64,
}

impl CriticalPath {
    pub fn new(options: Options) -> CriticalPath {
        let active = match options.mode {
            Mode::Global => None,
            Mode::Active => Some(Active::new(options.segments, options.spill)),
        };
        let window = options.window.filter(|_| active.is_none());
        let store = match window {
            Some(window) => PathStore::Later(Box::new(Windows::new(window, options.jobs, options.segments, options.spill))),
            None => PathStore::Now(Tree::default()),
        };
        let mut segments = (window.is_none() && options.segments || active.is_some()).then(Segments::default);
        if let (Some(segments), Some(spill), None) = (&mut segments, options.spill, &active) {
            segments.spill(spill);
        }
        CriticalPath {
            store,
            segments,
            keys: Keys::default(),
            lives: Vec::new(),
            most_past: 0,
            queues: Queues::new(options.most_tokens),
            active,
            subject: None,
            namesake: None,
            begin: None,
            asked_begin: 0,
            now: 0,
            last: None,
            end: None,
            totals: Vec::new(),
            marks: 0,
            slack_at: Vec::new(),
            slack: Vec::new(),
            stopped: VecDeque::new(),
            counts: Counts::default(),
            interactions: 0,
            options,
        }
    }

    /// Processes the next interaction; interactions must be in the order of time.
    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, line, effect } = *interaction;
        self.interactions += 1;
        if let Effect::Declare { queue, shape } = effect {
            return self.queues.declare(queue, shape);
        }
        if self.begin.is_none() {
            self.set_begin(t.max(self.asked_begin));
        }
        self.now = self.now.max(t);
        self.step(vocabulary, line, effect);
        if self.segments.as_ref().is_some_and(Segments::is_due) {
            self.clear_segments();
        }
        self.store.step();
    }

    /// Sets the start of the range to `t` ns. Earlier time is left out of the path, but the effects
    /// of earlier interactions are not. Must be called before the first interaction.
    pub fn begin_at(&mut self, t: u64) {
        self.asked_begin = t;
    }

    fn set_begin(&mut self, begin: u64) {
        self.begin = Some(begin);
        if let Some(active) = &mut self.active {
            active.begin(begin);
        }
    }

    /// Advances the clock to `t` ns without an interaction.
    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t);
    }

    /// Current sizes of the tree, its tips and the log of segments.
    pub fn inner(&self) -> Inner {
        let (nodes, tips, segments) = self.store.sizes();
        let track = self.active.as_ref().map_or(0, Active::track);
        Inner { nodes, tips, segments: self.segments.as_ref().map_or(segments, Segments::len) + track }
    }

    fn life(&mut self, machine: MachineId) -> &mut Life {
        let at = machine.0 as usize;
        if at >= self.lives.len() {
            self.lives.resize_with(at + 1, Life::default);
            self.most_past = (self.options.most_past / self.lives.len()).clamp(16, 1024);
        }
        &mut self.lives[at]
    }

    fn state_key(&mut self, machine: MachineId, state: State) -> u32 {
        let class = self.life(machine).class;
        self.key(Key::State { machine, class, state })
    }

    fn key(&mut self, key: Key) -> u32 {
        let id = self.keys.id(key);
        if self.keys.len() > self.totals.len() {
            self.totals.push(Total::default());
            self.slack_at.push(NO_SLACK);
        }
        id
    }

    fn slack_of(&self, key: u32) -> Slack {
        let at = self.slack_at.get(key as usize).copied().unwrap_or(NO_SLACK);
        self.slack.get(at as usize).copied().unwrap_or_default()
    }

    fn slack_mut(&mut self, key: u32) -> &mut Slack {
        let at = &mut self.slack_at[key as usize];
        if *at == NO_SLACK {
            *at = self.slack.len() as u32;
            self.slack.push(Slack::default());
        }
        &mut self.slack[*at as usize]
    }

    fn most_past(&self) -> usize {
        self.most_past
    }

    /// Charges the machine's time from its last charge until now to its path.
    fn charge(&mut self, machine: MachineId) {
        let (now, begin, most) = (self.now, self.begin.unwrap_or(0), self.most_past());
        let life = self.life(machine);
        let Some(mut tip) = life.tip else { return };
        let (since, mut key) = (life.since, life.key);
        if since >= now {
            return;
        }
        if key == NOT_THERE {
            key = self.state_key(machine, State::Unknown);
        }
        let life = self.life(machine);
        life.past.span(since, key, most);
        life.since = now;
        let from = since.max(begin);
        if from < now {
            tip = self.extend(tip, from, now, key);
            self.count(key, from, now);
            self.life(machine).tip = Some(tip);
            if let Some(active) = &mut self.active {
                active.own(machine, (key, from, now));
            }
        }
    }

    /// Adds a stretch to the time of a key over all machines. The part after the current end mark
    /// is counted separately, so a new end mark need not visit all keys or machines: it only
    /// changes the number of the mark.
    fn count(&mut self, key: u32, from: u64, to: u64) {
        let total = &mut self.totals[key as usize];
        total.ns += to - from;
        let behind = self.end.as_ref().map_or(0, |end| to.saturating_sub(end.t.max(from)));
        if behind > 0 {
            if total.mark != self.marks {
                (total.mark, total.behind) = (self.marks, 0);
            }
            total.behind += behind;
        }
    }

    /// Reverses [`CriticalPath::count`].
    fn uncount(&mut self, key: u32, from: u64, to: u64) {
        let behind = self.end.as_ref().map_or(0, |end| to.saturating_sub(end.t.max(from)));
        let Some(total) = self.totals.get_mut(key as usize) else { return };
        total.ns = total.ns.saturating_sub(to.saturating_sub(from));
        if total.mark == self.marks {
            total.behind = total.behind.saturating_sub(behind).min(total.ns);
        }
    }

    /// Recomputes the key that the machine's time goes to. Must be called after each change of its
    /// state.
    fn look(&mut self, machine: MachineId) {
        let life = self.life(machine);
        let state = life.visible();
        let key = if life.exists { self.state_key(machine, state) } else { NOT_THERE };
        self.life(machine).key = key;
    }

    /// Returns the tip of a held path extended by the stretch from `from` to `to`. Consumes the
    /// hold of `tip`; the returned tip is held.
    fn extend(&mut self, tip: Tip, from: u64, to: u64, key: u32) -> Tip {
        let from = from.max(self.begin.unwrap_or(0));
        if from >= to {
            return tip;
        }
        self.store.extend(tip, from, to, key, self.segments.as_mut())
    }

    /// Returns the held tip of a new path that is in the state unknown until `t`.
    fn unknown(&mut self, machine: MachineId, t: u64) -> Tip {
        let tip = self.store.root();
        let key = self.state_key(machine, State::Unknown);
        self.extend(tip, 0, t, key)
    }

    fn share(&mut self, tip: Tip) -> Tip {
        self.store.hold(tip);
        tip
    }

    /// Remembers the machine's current path for later causes that name this moment.
    fn mark(&mut self, machine: MachineId) {
        let (now, most) = (self.now, self.most_past());
        let life = self.life(machine);
        let Some(tip) = life.tip.filter(|_| life.past.marks.back().is_none_or(|last| last.0 < now)) else { return };
        let forgotten = life.past.mark(now, tip, most);
        self.store.hold(tip);
        if let Some(forgotten) = forgotten {
            self.store.release(forgotten);
        }
    }

    /// Replaces the machine's path from now on.
    fn jump(&mut self, machine: MachineId, tip: Tip) {
        let (now, most) = (self.now, self.most_past());
        let life = self.life(machine);
        let before = life.tip.replace(tip);
        life.since = now;
        let forgotten = life.past.jump(now, before, most);
        // A mark made at this moment holds the path before the jump.
        let unmarked = life.past.unmark(now);
        for tip in [forgotten, unmarked].into_iter().flatten() {
            self.store.release(tip);
        }
    }

    /// Returns a held tip: the path of the cause at the moment of the cause, followed by the link
    /// from there to now. `None` if the causing machine has not appeared yet.
    fn caused(&mut self, cause: Cause) -> Option<Tip> {
        self.life(cause.by).past.born?;
        let at = cause.at.unwrap_or(self.now);
        if at > self.now {
            self.counts.negative_links += 1;
        }
        let tip = self.critical_path_at(cause.by, at.min(self.now));
        if at >= self.now {
            return Some(tip);
        }
        let kind = cause.link.map_or(Link::Wakeup, Link::Named);
        let key = self.key(Key::Link { queue: None, kind });
        Some(self.extend(tip, at, self.now, key))
    }

    fn critical_path_at(&mut self, machine: MachineId, at: u64) -> Tip {
        if at <= self.begin.unwrap_or(0) && at < self.now {
            return self.store.root();
        }
        self.charge(machine);
        let now = self.now;
        let life = self.life(machine);
        let Some(current) = life.tip else {
            self.counts.too_old += 1;
            return self.unknown(machine, at);
        };
        if at >= now {
            return self.share(current);
        }
        if let Some(tip) = life.past.marked(at) {
            return self.share(tip);
        }
        let lived = life.past.born.is_some_and(|born| born <= at);
        let epoch = life.past.epoch(at, now).filter(|_| life.past.reaches(at));
        let Some((tip, end)) = epoch else {
            if lived {
                self.counts.too_old += 1;
            }
            return self.unknown(machine, at);
        };
        let tip = tip.unwrap_or(current);
        let past = &self.lives[machine.0 as usize].past;
        self.store.past(tip, end, at, past.charges(at, end), self.segments.as_mut())
    }

    /// Returns a held tip: the path of the token's origin, followed by the link from the put to
    /// now.
    fn handed(&mut self, from: From, queue: QueueId, host: Option<NameId>) -> Tip {
        let tip = self.share(from.tip);
        if from.t >= self.now {
            return tip;
        }
        let kind = match from.link.name() {
            Some(link) => Link::Named(link),
            None if from.host == OptionalName::of(host) => Link::Queued,
            None => Link::Wire,
        };
        let key = self.key(Key::Link { queue: Some(queue), kind });
        self.extend(tip, from.t, self.now, key)
    }

    /// Ends the block of a machine with this cause.
    fn unblock(&mut self, machine: MachineId, cause: Origin<Tip>) {
        let (now, unknown) = (self.now, self.state_key(machine, State::Unknown));
        let Some(block) = self.life(machine).block.take() else { return };
        match cause {
            Origin::None => {
                if let Some(active) = &mut self.active {
                    active.ended(machine);
                }
            }
            Origin::Unknown => {
                let mut tip = self.unknown(machine, now);
                if let (Some(active), Some(segments)) = (&mut self.active, &mut self.segments) {
                    tip.segment = segments.add(unknown, block.start, now, block.segment);
                    active.explained(machine, |since| vec![(unknown, since, now)]);
                }
                self.jump(machine, tip);
            }
            Origin::From(mut tip) => {
                if let (Some(active), Some(segments)) = (&mut self.active, &mut self.segments) {
                    active.explained(machine, |since| segments.back(tip.segment, since).into_iter().rev());
                    tip.segment = segments.splice(tip.segment, block.start, now, block.segment);
                }
                self.jump(machine, tip);
            }
        }
        self.look(machine);
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
        if self.counts.first.len() < MAX_TOLD {
            self.counts.first.push(Contradiction { line, what });
        }
    }

    fn clear_segments(&mut self) {
        let Some(mut segments) = self.segments.take() else { return };
        let (lives, queues, end) = (&mut self.lives, &mut self.queues, &mut self.end);
        // In active mode only the segments since the start of the machine's open block are still
        // needed.
        let horizon = self.active.as_ref().map_or(0, |active| active.final_until(self.now));
        segments.clear(horizon, |visit| {
            for life in lives.iter_mut() {
                life.tip.iter_mut().chain(life.past.tips()).for_each(|tip| visit(&mut tip.segment));
                life.block.iter_mut().for_each(|block| visit(&mut block.segment));
            }
            queues.each_origin(|from| visit(&mut from.tip.segment));
            end.iter_mut().filter_map(|end| end.tip.as_mut()).for_each(|tip| visit(&mut tip.segment));
        });
        self.segments = Some(segments);
    }
}
