//! The path from its begin to its end, as often as somebody wants to walk along it.

use super::key::Kind;
use super::segments::Forward;
use super::words::{Dictionary, Name};
use longpole_model::kinds::{SegmentKind, StateKind};
use serde::ser::{Serialize, Serializer};
use std::collections::HashMap;
use std::hash::Hash;

/// One machine in one state, or one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Segment<'a> {
    pub start_ns: u64,
    pub end_ns: u64,
    pub host: &'a str,
    pub machine: &'a str,
    pub class: &'a str,
    pub state: &'a str,
    #[serde(skip)]
    pub kind: SegmentKind,
    /// The class; of a link, its queue's.
    #[serde(skip)]
    pub owner: &'a str,
}

/// The way of a call, there or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub name: &'a str,
    /// The queue of calls, also for the way back.
    pub queue: &'a str,
    pub is_reply: bool,
}

/// What a key's machine is the name of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// A machine.
    State,
    /// No queue.
    Wakeup,
    /// A queue: how much of its name is its class, and the queue of its calls, whose name is this word.
    Queue { class: usize, calls: Option<(usize, u32)> },
}

/// Segments without gaps, neighbours of the same machine and state as one.
#[derive(Clone, Debug)]
pub struct Path {
    pieces: Forward,
    dictionary: Dictionary,
    names: Vec<Name>,
    kinds: Vec<SegmentKind>,
    ways: Vec<Way>,
    /// Of keys with the same words that are of one [`Kind`] the first one.
    same: Vec<u32>,
    /// The time of each number of stretches.
    times: Vec<u64>,
}

/// A stretch of the path; [`Path::class_and_state`] and [`Path::kind`] say of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub of: u32,
    pub start: u64,
    pub end: u64,
}

impl Path {
    pub(super) fn new(pieces: Forward, dictionary: Dictionary, names: Vec<Name>, kinds: Vec<SegmentKind>, ways: Vec<Way>) -> Path {
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        let one = |key: u32| (names[key as usize], Kind::from(kinds[key as usize]));
        order.sort_unstable_by_key(|&key| (one(key), key));
        let mut same = vec![0; names.len()];
        for alike in order.chunk_by(|&a, &b| one(a) == one(b)) {
            alike.iter().for_each(|&key| same[key as usize] = alike[0]);
        }
        Path { pieces, same, dictionary, times: vec![0; names.len()], names, kinds, ways }
    }

    /// Sums up what it is made of, from `start` on. Returns how far it reaches without a gap.
    pub(super) fn sum(&mut self, start: u64) -> u64 {
        let mut times = std::mem::take(&mut self.times);
        let mut reached = Ok(start);
        for Stretch { of, start, end } in self.stretches() {
            if let Some(time) = times.get_mut(of as usize) {
                *time += end - start;
            }
            reached = reached.and_then(|at| if start == at { Ok(end) } else { Err(at) });
        }
        self.times = times;
        let (Ok(reached) | Err(reached)) = reached;
        reached
    }

    /// Of each number of stretches, their time.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        let mut pieces = self.pieces.pieces().map(|(key, start, end)| Stretch { of: self.same_as(key), start, end });
        let mut last = pieces.next();
        std::iter::from_fn(move || {
            let mut stretch = last?;
            loop {
                last = pieces.next();
                match last {
                    Some(next) if next.of == stretch.of => stretch.end = next.end,
                    _ => return Some(stretch),
                }
            }
        })
    }

    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> + '_ {
        self.stretches().filter_map(|Stretch { of, start, end }| {
            let [host, machine, class, state] = self.names.get(of as usize)?.map(|word| self.dictionary.text(word));
            let (kind, owner) = (self.segment_kind(of), self.class_and_state(of).0);
            Some(Segment { start_ns: start, end_ns: end, host, machine, class, state, kind, owner })
        })
    }

    /// The states of all links that are of no queue, whether the path goes through them or not.
    pub fn wakeups(&self) -> impl Iterator<Item = &str> + '_ {
        let links = self.names.iter().zip(&self.ways).filter(|(_, way)| matches!(way, Way::Wakeup));
        links.map(|(&[.., state], _)| self.dictionary.text(state))
    }

    #[inline]
    fn same_as(&self, key: u32) -> u32 {
        self.same.get(key as usize).copied().unwrap_or(key)
    }

    /// Stretches are of numbers below this.
    pub fn kinds(&self) -> usize {
        self.names.len()
    }

    /// Class and state. A link's class is its queue here, and the replies of a call are of one queue, or the path would look like a star around
    /// one node for all links.
    pub fn class_and_state(&self, of: u32) -> (&str, &str) {
        let Some(name) = self.names.get(of as usize) else { return ("", "") };
        let [_, machine, class, state] = name.map(|word| self.dictionary.text(word));
        match self.ways[of as usize] {
            Way::State => (class, state),
            Way::Wakeup => (machine, state),
            Way::Queue { class, .. } => (&machine[..class], state),
        }
    }

    /// The call through whose queues this link leads; none: it is a state, or a link of another queue.
    pub fn call(&self, of: u32) -> Option<Call<'_>> {
        let Some(&Way::Queue { calls: Some((calls, name)), class }) = self.ways.get(of as usize) else { return None };
        Some(Call { name: self.dictionary.text(name), queue: self.machine(of).get(..calls)?, is_reply: class > calls })
    }

    pub fn machine(&self, of: u32) -> &str {
        self.names.get(of as usize).map_or("", |&[_, machine, ..]| self.dictionary.text(machine))
    }

    pub fn host(&self, of: u32) -> &str {
        self.names.get(of as usize).map_or("", |&[host, ..]| self.dictionary.text(host))
    }

    pub fn segment_kind(&self, of: u32) -> SegmentKind {
        self.kinds.get(of as usize).copied().unwrap_or(SegmentKind::State(StateKind::Unknown))
    }

    pub fn kind(&self, of: u32) -> Kind {
        self.segment_kind(of).into()
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.segments().eq(other.segments())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.segments())
    }
}

/// Numbers for what stretches are asked for by a name, each name looked up once for each kind of stretch.
pub(crate) struct Numbered<N> {
    numbers: HashMap<N, usize>,
    of: Vec<usize>,
}

impl<N: Eq + Hash> Numbered<N> {
    /// For the stretches of a path with so many kinds.
    pub fn new(kinds: usize) -> Numbered<N> {
        Numbered { numbers: HashMap::new(), of: vec![usize::MAX; kinds] }
    }

    /// Numbers are given in the order in which the names come.
    #[inline]
    pub fn number(&mut self, of: u32, name: impl FnOnce() -> N) -> usize {
        let Some(known) = self.of.get_mut(of as usize) else { return 0 };
        if *known == usize::MAX {
            let next = self.numbers.len();
            *known = *self.numbers.entry(name()).or_insert(next);
        }
        *known
    }
}
