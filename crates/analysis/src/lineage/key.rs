//! What time is charged to: a machine's state, or a link between two machines.

use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, QueueId, Vocabulary};
use longpole_model::names::NameId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// No class: the machine's name.
    State { machine: MachineId, class: Option<NameId>, state: State },
    /// Without a queue: a wake-up or a fork.
    Link { queue: Option<QueueId>, kind: Link },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Run,
    Runnable,
    Interrupted,
    Unknown,
    Named(NameId),
    Blocked(NameId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    Queued,
    Wire,
    Wakeup,
    Named(NameId),
}

/// What a state or a link is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Running,
    Runnable,
    Blocked,
    /// In the kernel for a thread.
    SystemCall,
    /// Of a context on top of others, or what is below it meanwhile.
    Interrupt,
    Link,
    Unknown,
}

/// Host, machine, class and state, as the answer says them.
pub type Words = [String; 4];

/// One of these words.
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
            Part::Blocked(why) => format!("blocked:{}", vocabulary.names.text(why)),
        }
    }
}

impl Key {
    /// `context`: its machine is one that stands on top of others.
    pub fn kind(&self, context: bool) -> Kind {
        match self {
            Key::Link { .. } => Kind::Link,
            Key::State { state: State::Unknown, .. } => Kind::Unknown,
            Key::State { state: State::Blocked(_), .. } => Kind::Blocked,
            Key::State { state: State::Interrupted, .. } => Kind::Interrupt,
            Key::State { state: State::Runnable, .. } => Kind::Runnable,
            Key::State { .. } if context => Kind::Interrupt,
            Key::State { .. } => Kind::Running,
        }
    }

    pub fn words(&self, vocabulary: &Vocabulary) -> Words {
        self.parts(vocabulary).map(|part| part.text(vocabulary))
    }

    pub fn parts(&self, vocabulary: &Vocabulary) -> [Part; 4] {
        match *self {
            Key::State { machine, class, state } => {
                let of_machine = |name: Option<NameId>| name.map_or(Part::Fixed(""), Part::Named);
                let name = of_machine(vocabulary.name_id(machine));
                let state = match state {
                    State::Run => Part::Fixed("run"),
                    State::Runnable => Part::Fixed("runnable"),
                    State::Interrupted => Part::Fixed("interrupted"),
                    State::Unknown => Part::Fixed("UNKNOWN"),
                    State::Named(name) => Part::Named(name),
                    State::Blocked(why) => Part::Blocked(why),
                };
                [of_machine(vocabulary.host_id(machine)), name, class.map_or(name, Part::Named), state]
            }
            Key::Link { queue, kind } => {
                let name = queue.map_or(Part::Fixed("link"), |queue| Part::Named(vocabulary.link_id(queue)));
                let state = match kind {
                    Link::Queued => Part::Fixed("queued"),
                    Link::Wire => Part::Fixed("wire"),
                    Link::Wakeup => Part::Fixed("wakeup"),
                    Link::Named(name) => Part::Named(name),
                };
                [Part::Fixed(""), name, Part::Fixed("link"), state]
            }
        }
    }
}

/// Keys and their numbers.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    keys: Vec<Key>,
    ids: IdMap<Key, u32>,
    /// The last key of each quick hash: a glance before the table.
    recent: Vec<u32>,
}

const RECENT: usize = 1 << 10;

/// Of a few multiplications less than the table's.
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
