//! The path from its start to its end. It can be walked any number of times, in memory or in a
//! file.

use crate::critical_path::keys::key::Kind;
use crate::critical_path::keys::words::{Dictionary, Name};
use crate::critical_path::storage::segments::Forward;
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
    /// Class of the machine; for a link, the class of its queue.
    #[serde(skip)]
    pub owner: &'a str,
}

/// The link of a call, from the caller to the callee or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub name: &'a str,
    /// Queue of the calls, also for the link of a reply.
    pub queue: &'a str,
    pub is_reply: bool,
}

/// Meaning of a key's machine name.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameMeaning {
    /// A machine.
    State,
    /// A wake-up or a fork, which has no queue.
    Wakeup,
    /// A queue. `class` is the length of the class within the queue's name; `calls` the length of
    /// the name of the queue of calls, and the word of the call's name.
    Queue { class: usize, calls: Option<(usize, u32)> },
}

/// Segments without gaps; adjacent segments of the same machine and state are joined.
#[derive(Clone, Debug)]
pub struct Path {
    pieces: Forward,
    dictionary: Dictionary,
    names: Vec<Name>,
    kinds: Vec<SegmentKind>,
    meanings: Vec<NameMeaning>,
    /// For each key, the first key with the same words and the same [`Kind`].
    same: Vec<u32>,
    /// Time in ns of each key.
    times: Vec<u64>,
}

/// A part of the path in one state of one machine, or one link. `key` identifies both: see
/// [`Path::class_and_state`] and [`Path::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub key: u32,
    pub start: u64,
    pub end: u64,
}

impl Path {
    pub(super) fn new(
        pieces: Forward,
        dictionary: Dictionary,
        names: Vec<Name>,
        kinds: Vec<SegmentKind>,
        meanings: Vec<NameMeaning>,
    ) -> Path {
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        let one = |key: u32| (names[key as usize], Kind::from(kinds[key as usize]));
        order.sort_unstable_by_key(|&key| (one(key), key));
        let mut same = vec![0; names.len()];
        for alike in order.chunk_by(|&a, &b| one(a) == one(b)) {
            alike.iter().for_each(|&key| same[key as usize] = alike[0]);
        }
        Path { pieces, same, dictionary, times: vec![0; names.len()], names, kinds, meanings }
    }

    /// Sums up the times of all stretches. Returns the time up to which they follow each other
    /// without a gap, beginning at `start`.
    pub(super) fn sum(&mut self, start: u64) -> u64 {
        let mut times = std::mem::take(&mut self.times);
        let mut reached = Ok(start);
        for Stretch { key, start, end } in self.stretches() {
            if let Some(time) = times.get_mut(key as usize) {
                *time += end - start;
            }
            reached = reached.and_then(|at| if start == at { Ok(end) } else { Err(at) });
        }
        self.times = times;
        let (Ok(reached) | Err(reached)) = reached;
        reached
    }

    /// Time in ns of each key.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// Returns the stretches in the order of time; each is as long as possible.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        let mut pieces = self.pieces.pieces().map(|(key, start, end)| Stretch { key: self.same_as(key), start, end });
        let mut last = pieces.next();
        std::iter::from_fn(move || {
            let mut stretch = last?;
            loop {
                last = pieces.next();
                match last {
                    Some(next) if next.key == stretch.key => stretch.end = next.end,
                    _ => return Some(stretch),
                }
            }
        })
    }

    /// Returns the stretches with their names, in the order of time.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> + '_ {
        self.stretches().filter_map(|Stretch { key, start, end }| {
            let [host, machine, class, state] = self.names.get(key as usize)?.map(|word| self.dictionary.text(word));
            let (kind, owner) = (self.segment_kind(key), self.class_and_state(key).0);
            Some(Segment { start_ns: start, end_ns: end, host, machine, class, state, kind, owner })
        })
    }

    /// States of all links without a queue, whether they are on the path or not.
    pub fn wakeups(&self) -> impl Iterator<Item = &str> + '_ {
        let links = self.names.iter().zip(&self.meanings).filter(|(_, meaning)| matches!(meaning, NameMeaning::Wakeup));
        links.map(|(&[.., state], _)| self.dictionary.text(state))
    }

    #[inline]
    fn same_as(&self, key: u32) -> u32 {
        self.same.get(key as usize).copied().unwrap_or(key)
    }

    /// Number of keys; all keys are below this.
    pub fn key_count(&self) -> usize {
        self.names.len()
    }

    /// Returns class and state. The class of a link is its queue, and all replies of a call have
    /// one queue. Otherwise all links would be one node, and a picture of the path would be a star
    /// around it.
    pub fn class_and_state(&self, key: u32) -> (&str, &str) {
        let Some(name) = self.names.get(key as usize) else { return ("", "") };
        let [_, machine, class, state] = name.map(|word| self.dictionary.text(word));
        match self.meanings[key as usize] {
            NameMeaning::State => (class, state),
            NameMeaning::Wakeup => (machine, state),
            NameMeaning::Queue { class, .. } => (&machine[..class], state),
        }
    }

    /// Returns the call whose queues this link leads through; `None` for a state, or a link of
    /// another queue.
    pub fn call(&self, key: u32) -> Option<Call<'_>> {
        let Some(&NameMeaning::Queue { calls: Some((calls, name)), class }) = self.meanings.get(key as usize) else { return None };
        Some(Call { name: self.dictionary.text(name), queue: self.machine(key).get(..calls)?, is_reply: class > calls })
    }

    pub fn machine(&self, key: u32) -> &str {
        self.names.get(key as usize).map_or("", |&[_, machine, ..]| self.dictionary.text(machine))
    }

    pub fn host(&self, key: u32) -> &str {
        self.names.get(key as usize).map_or("", |&[host, ..]| self.dictionary.text(host))
    }

    pub fn segment_kind(&self, key: u32) -> SegmentKind {
        self.kinds.get(key as usize).copied().unwrap_or(SegmentKind::State(StateKind::Unknown))
    }

    pub fn kind(&self, key: u32) -> Kind {
        self.segment_kind(key).into()
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

/// Numbers for the names of keys; each name is looked up once for each key.
pub(crate) struct Numbered<N> {
    numbers: HashMap<N, usize>,
    of: Vec<usize>,
}

impl<N: Eq + Hash> Numbered<N> {
    /// Makes a table for a path with this number of keys ([`Path::key_count`]).
    pub fn new(keys: usize) -> Numbered<N> {
        Numbered { numbers: HashMap::new(), of: vec![usize::MAX; keys] }
    }

    /// Returns the number of the name of a key. Numbers are assigned in the order in which names
    /// come.
    #[inline]
    pub fn number(&mut self, key: u32, name: impl FnOnce() -> N) -> usize {
        let Some(known) = self.of.get_mut(key as usize) else { return 0 };
        if *known == usize::MAX {
            let next = self.numbers.len();
            *known = *self.numbers.entry(name()).or_insert(next);
        }
        *known
    }
}
