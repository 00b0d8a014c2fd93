//! The critical path, in one pass over interactions.
//!
//! Each machine and each token in flight has a *lineage*: the chain of states and links that nothing else could have hidden, back to the
//! begin. Time is charged to the lineage's tip. A put lets the token share the machine's lineage; a get that ends a block
//! gives the machine the lineage of the token that came last and drops what the machine had. So the lineage of whatever
//! machine is asked for at the end *is* the global critical path, and nothing has to be walked back. The tree of lineages coalesces
//! ([`tree`]), and its profile is exact in ns: its sum is the length of the path, or the answer is refused.
//!
//! The path's segments are kept only if asked for ([`segments`]). The *active* path of one machine ([`active`]) is its own time, with each
//! block replaced by what its lineage says of that time.

mod active;
mod answer;
pub mod folded;
pub(crate) mod key;
mod life;
pub mod name_index;
pub mod participation;
pub(crate) mod path;
mod path_store;
pub(crate) mod path_windows;
mod profile;
mod runs;
pub mod samples;
mod segments;
pub(crate) mod steps;
mod tree;
mod window;
mod words;

pub use answer::{Answer, Contradiction, Inner, NoAnswer, Profiled, Row};
pub use key::Kind;
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
use std::collections::VecDeque;
use tree::Tree;

/// What is asked for, and what memory it may take.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    /// Whose end counts, or whose active path it is: MACHINE, or HOST/MACHINE. None (global): the one that the trace names, or else the last
    /// one that did something.
    pub machine: Option<String>,
    /// Keep the segments of the path, not only its profile.
    pub segments: bool,
    /// Tokens whose origin is kept.
    pub most_tokens: usize,
    /// Changes of machines that are kept for causes that lie before now, all machines together.
    pub most_past: usize,
    /// Machines that have stopped and may still be causes.
    pub most_stopped: usize,
    /// Interactions that are one window, charged apart from the others; none: all is charged as it comes. Active paths have none.
    pub window: Option<usize>,
    /// Threads that charge windows.
    pub jobs: usize,
    /// Where the segments of a long path go; none: into memory.
    pub spill: Option<Spill>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Global,
            machine: None,
            segments: false,
            most_tokens: 1 << 20,
            most_past: 1 << 20,
            most_stopped: 1 << 14,
            window: None,
            jobs: 1,
            spill: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Back from the end, to the cause of each block, and never back.
    Global,
    /// One machine's own time, and what its blocks waited for.
    Active,
}

/// What a token or a unit of space is from.
#[derive(Clone, Copy, Debug)]
struct From {
    tip: Tip,
    t: u64,
    host: Maybe,
    link: Maybe,
}

/// A name or none in the room of a name: there are many of them, and they are moved as plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maybe(u32);

impl Maybe {
    const NONE: u32 = u32::MAX;

    fn of(name: Option<NameId>) -> Maybe {
        Maybe(name.map_or(Maybe::NONE, |name| name.0))
    }

    fn name(self) -> Option<NameId> {
        (self.0 != Maybe::NONE).then_some(NameId(self.0))
    }
}

/// What was there early, of what a machine took in a state without waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Slack {
    least: Option<u64>,
    /// Time between two takings of the machine; and of that, where what was taken had hardly been there.
    cycles: u128,
    near: u128,
}

/// What was there for less than this part of a cycle came nearly too late.
const NEARLY: u64 = 20;

impl Slack {
    fn took(&mut self, slack: u64, cycle: u64) {
        self.least = Some(self.least.map_or(slack, |least| least.min(slack)));
        self.cycles += u128::from(cycle);
        if slack <= cycle / NEARLY {
            self.near += u128::from(cycle);
        }
    }

    fn join(&mut self, other: Slack) {
        self.least = match (self.least, other.least) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.cycles += other.cycles;
        self.near += other.near;
    }

    fn near_share(&self) -> Option<f64> {
        (self.cycles > 0).then(|| self.near as f64 / self.cycles as f64)
    }
}

/// Whose end counts, so far.
#[derive(Clone, Debug)]
struct EndMark {
    t: u64,
    /// None: it was asked for one that had not come by then.
    machine: Option<MachineId>,
    tip: Option<Tip>,
}

/// Time of a key; that behind the end mark of this number is not asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    ns: u64,
    mark: u64,
    behind: u64,
}

/// Numbers of what did not fit together.
#[derive(Clone, Debug, Default)]
struct Counts {
    contradictions: u64,
    first: Vec<Contradiction>,
    negative_links: u64,
    ignored_wakeups: u64,
    too_old: u64,
}

/// In the place of a slack: nothing was taken.
const NO_SLACK: u32 = u32::MAX;
/// In the place of a key: the time of a machine that is not there is unknown, and hardly ever asked for.
const NOT_THERE: u32 = u32::MAX;

/// Contradictions that are told one by one.
const MOST_TOLD: usize = 20;

pub struct CriticalPath {
    options: Options,
    store: PathStore,
    /// Of lineages that are charged as they come.
    segments: Option<Segments>,
    keys: Keys,
    lives: Vec<Life>,
    /// How much of a machine's past is kept.
    most_past: usize,
    queues: Queues<From>,
    active: Option<Active>,
    /// The machine that is asked for, once it has come, and another one of the same name.
    subject: Option<MachineId>,
    namesake: Option<MachineId>,
    /// The begin of the range, once it is known.
    begin: Option<u64>,
    asked_begin: u64,
    now: u64,
    last: Option<MachineId>,
    end: Option<EndMark>,
    /// Each key's time over all machines.
    totals: Vec<Total>,
    marks: u64,
    /// Of keys that took something: where in `slack` theirs is.
    slack_at: Vec<u32>,
    slack: Vec<Slack>,
    /// Machines that have stopped, in this order, each with the number of its life.
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

    /// The next interaction in the order of time.
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

    /// What is before is left out of the path, though not of what it leads to; to be said before anything has happened.
    pub fn begin_at(&mut self, t: u64) {
        self.asked_begin = t;
    }

    fn set_begin(&mut self, begin: u64) {
        self.begin = Some(begin);
        if let Some(active) = &mut self.active {
            active.begin(begin);
        }
    }

    /// Time goes on to `t` without anything happening.
    pub fn until(&mut self, t: u64) {
        self.now = self.now.max(t);
    }

    /// The length of the tree and the number of tips it is made for.
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

    /// How much of a machine's past is kept.
    fn most_past(&self) -> usize {
        self.most_past
    }

    /// Charges the machine's time until now.
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

    /// The key's time over all machines. What lies behind the end that counts so far is told apart: so an end costs as little with many machines as with few.
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

    /// The opposite.
    fn uncount(&mut self, key: u32, from: u64, to: u64) {
        let behind = self.end.as_ref().map_or(0, |end| to.saturating_sub(end.t.max(from)));
        let Some(total) = self.totals.get_mut(key as usize) else { return };
        total.ns = total.ns.saturating_sub(to.saturating_sub(from));
        if total.mark == self.marks {
            total.behind = total.behind.saturating_sub(behind).min(total.ns);
        }
    }

    /// After something about the machine changed: which key its time goes to from now on.
    fn look(&mut self, machine: MachineId) {
        let life = self.life(machine);
        let state = life.visible();
        let key = if life.exists { self.state_key(machine, state) } else { NOT_THERE };
        self.life(machine).key = key;
    }

    /// The lineage of a held tip, longer by this stretch.
    fn extend(&mut self, tip: Tip, from: u64, to: u64, key: u32) -> Tip {
        let from = from.max(self.begin.unwrap_or(0));
        if from >= to {
            return tip;
        }
        self.store.extend(tip, from, to, key, self.segments.as_mut())
    }

    /// A lineage that begins at `t`: what lies before is unknown.
    fn unknown(&mut self, machine: MachineId, t: u64) -> Tip {
        let tip = self.store.root();
        let key = self.state_key(machine, State::Unknown);
        self.extend(tip, 0, t, key)
    }

    fn share(&mut self, tip: Tip) -> Tip {
        self.store.hold(tip);
        tip
    }

    /// Keeps its lineage of now for whoever comes back to it.
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

    /// The machine's lineage is another one from now on.
    fn jump(&mut self, machine: MachineId, tip: Tip) {
        let (now, most) = (self.now, self.most_past());
        let life = self.life(machine);
        let before = life.tip.replace(tip);
        life.since = now;
        let forgotten = life.past.jump(now, before, most);
        // What was marked at this moment is another one at its end.
        let unmarked = life.past.unmark(now);
        for tip in [forgotten, unmarked].into_iter().flatten() {
            self.store.release(tip);
        }
    }

    /// The lineage of a machine at a moment, held, followed by the link from there to now. None if there has been no such machine yet.
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

    /// The lineage of a token's maker, held, followed by the link from there to now.
    fn handed(&mut self, from: From, queue: QueueId, host: Option<NameId>) -> Tip {
        let tip = self.share(from.tip);
        if from.t >= self.now {
            return tip;
        }
        let kind = match from.link.name() {
            Some(link) => Link::Named(link),
            None if from.host == Maybe::of(host) => Link::Queued,
            None => Link::Wire,
        };
        let key = self.key(Key::Link { queue: Some(queue), kind });
        self.extend(tip, from.t, self.now, key)
    }

    /// The block of a machine ends with this cause.
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

    /// Takes the holds of tokens that are gone, and adds those of tokens that were split.
    fn settle(&mut self) {
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
        if self.counts.first.len() < MOST_TOLD {
            self.counts.first.push(Contradiction { line, what });
        }
    }

    fn clear_segments(&mut self) {
        let Some(mut segments) = self.segments.take() else { return };
        let (lives, queues, end) = (&mut self.lives, &mut self.queues, &mut self.end);
        // In active form only the time of the machine's open block can still be asked for.
        let horizon = self.active.as_ref().map_or(0, |active| active.settled(self.now));
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
