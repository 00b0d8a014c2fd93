//! Keys of a profile: what time is charged to, a machine's state or a link between two machines.

use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId, Vocabulary};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind, BLOCKED, LINK};
use longpole_model::names::NameId;

/// What time is charged to: a machine in a state, or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// `class` is `None` if the class is the machine's name.
    State { machine: MachineId, class: Option<NameId>, state: State },
    /// `queue` is `None` for a wake-up or a fork.
    Link { queue: Option<QueueId>, kind: Link },
}

/// A machine's state as part of a key. The common states have no name, so that they need no
/// look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Run,
    Runnable,
    Interrupted,
    Unknown,
    Named(NameId),
    Blocked(NameId),
}

impl State {
    /// Returns the state with this name.
    #[inline]
    pub fn of(vocabulary: &Vocabulary, name: NameId) -> State {
        match vocabulary.names.state_kind(name) {
            StateKind::Run => State::Run,
            StateKind::Runnable => State::Runnable,
            StateKind::Interrupted => State::Interrupted,
            StateKind::Unknown => State::Unknown,
            _ => State::Named(name),
        }
    }

    pub fn kind(self, vocabulary: &Vocabulary) -> StateKind {
        match self {
            State::Run => StateKind::Run,
            State::Runnable => StateKind::Runnable,
            State::Interrupted => StateKind::Interrupted,
            State::Unknown => StateKind::Unknown,
            State::Blocked(_) => StateKind::Blocked,
            State::Named(name) => vocabulary.names.state_kind(name),
        }
    }
}

/// Kind of a link as part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    Queued,
    Wire,
    Wakeup,
    Named(NameId),
}

impl Link {
    pub fn kind(self, vocabulary: &Vocabulary) -> LinkKind {
        match self {
            Link::Queued => LinkKind::Queued,
            Link::Wire => LinkKind::Wire,
            Link::Wakeup => LinkKind::Wakeup,
            Link::Named(name) => vocabulary.names.link_kind(name),
        }
    }
}

/// Category of a path segment: pictures and findings treat segments of one category alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Running,
    Runnable,
    Blocked,
    /// A thread in the kernel.
    SystemCall,
    /// A context on top of other machines, or a machine below a context.
    Interrupt,
    Link,
    Unknown,
}

impl From<SegmentKind> for Kind {
    fn from(kind: SegmentKind) -> Kind {
        match kind {
            SegmentKind::Link(_) => Kind::Link,
            SegmentKind::State(StateKind::Unknown) => Kind::Unknown,
            SegmentKind::State(StateKind::Blocked) => Kind::Blocked,
            SegmentKind::State(StateKind::Runnable | StateKind::Preempted | StateKind::Throttled) => Kind::Runnable,
            SegmentKind::State(StateKind::Interrupted | StateKind::Interrupt) => Kind::Interrupt,
            SegmentKind::State(StateKind::SystemCall) => Kind::SystemCall,
            SegmentKind::State(
                StateKind::Run | StateKind::User | StateKind::Kernel | StateKind::Fault | StateKind::Asleep | StateKind::Outside,
            ) => Kind::Running,
            SegmentKind::State(StateKind::Span | StateKind::Call | StateKind::Declared | StateKind::Waits | StateKind::Named) => {
                Kind::Running
            }
        }
    }
}

/// Host, machine, class and state, as text.
pub type Words = [String; 4];

/// One of these texts, before it is formatted.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Named(NameId),
    Fixed(&'static str),
    Blocked(NameId),
}

impl Part {
    pub fn text(self, vocabulary: &Vocabulary) -> String {
        match self {
            Part::Named(name) => vocabulary.names.text(name).to_owned(),
            Part::Fixed(text) => text.to_owned(),
            Part::Blocked(why) => format!("{BLOCKED}{}", vocabulary.names.text(why)),
        }
    }
}

impl Key {
    /// `context` is true if the machine is a context, which runs on top of others. Its code counts
    /// as an interrupt.
    pub fn kind(&self, vocabulary: &Vocabulary, context: bool) -> SegmentKind {
        match *self {
            Key::Link { kind, .. } => SegmentKind::Link(kind.kind(vocabulary)),
            Key::State { state, .. } => SegmentKind::State(match state.kind(vocabulary) {
                kind if context && kind.is_code() => StateKind::Interrupt,
                kind => kind,
            }),
        }
    }

    pub fn words(&self, vocabulary: &Vocabulary) -> Words {
        self.parts(vocabulary).map(|part| part.text(vocabulary))
    }

    /// Returns host, machine, class and state. A link has no host; its machine is the queue, or
    /// `link`.
    pub fn parts(&self, vocabulary: &Vocabulary) -> [Part; 4] {
        match *self {
            Key::State { machine, class, state } => {
                let of_machine = |name: Option<NameId>| name.map_or(Part::Fixed(""), Part::Named);
                let name = of_machine(vocabulary.name_id(machine));
                let state = match state {
                    State::Named(name) => Part::Named(name),
                    State::Blocked(why) => Part::Blocked(why),
                    fixed => Part::Fixed(fixed.kind(vocabulary).text().unwrap_or_default()),
                };
                [of_machine(vocabulary.host_id(machine)), name, class.map_or(name, Part::Named), state]
            }
            Key::Link { queue, kind } => {
                let name = queue.map_or(Part::Fixed(LINK), |queue| Part::Named(vocabulary.link_id(queue)));
                let state = match kind {
                    Link::Named(name) => Part::Named(name),
                    fixed => Part::Fixed(fixed.kind(vocabulary).text().unwrap_or_default()),
                };
                [Part::Fixed(""), name, Part::Fixed(LINK), state]
            }
        }
    }
}

/// Table of the keys and their numbers.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    keys: Vec<Key>,
    ids: IdMap<Key, u32>,
    /// The last key of each value of [`quick_hash`], a cache in front of the table. Empty until its
    /// first use.
    recent: Vec<u32>,
}

const RECENT: usize = 1 << 10;

/// Hash that needs fewer multiplications than that of the table; collisions only cost a look-up
/// there.
fn quick_hash(key: &Key) -> usize {
    let (one, other) = match *key {
        Key::State { machine, state, .. } => {
            let state = match state {
                State::Run => 0,
                State::Runnable => 1,
                State::Interrupted => 2,
                State::Unknown => 3,
                State::Named(name) => name.0.wrapping_mul(2).wrapping_add(4),
                State::Blocked(why) => why.0.wrapping_mul(2).wrapping_add(5),
            };
            (machine.0, state)
        }
        Key::Link { queue, kind } => {
            let kind = match kind {
                Link::Queued => 0,
                Link::Wire => 1,
                Link::Wakeup => 2,
                Link::Named(name) => name.0.wrapping_add(3),
            };
            (queue.map_or(u32::MAX, |queue| !queue.0), kind)
        }
    };
    let hash = one.wrapping_mul(0x9e37_79b1) ^ other.wrapping_mul(0x85eb_ca77);
    (hash >> 16) as usize % RECENT
}

impl Keys {
    /// Returns the number of the key. Numbers are assigned in the order of first use.
    #[inline]
    pub fn id(&mut self, key: Key) -> u32 {
        let place = quick_hash(&key);
        match self.recent.get(place) {
            Some(&id) if self.keys.get(id as usize) == Some(&key) => return id,
            Some(_) => {}
            None => self.recent.resize(RECENT, u32::MAX),
        }
        let id = self.id_by_table(key);
        self.recent[place] = id;
        id
    }

    fn id_by_table(&mut self, key: Key) -> u32 {
        let keys = &mut self.keys;
        *self.ids.entry(key).or_insert_with(|| {
            keys.push(key);
            keys.len() as u32 - 1
        })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }
}
