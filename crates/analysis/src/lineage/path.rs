//! The path from its begin to its end, as often as somebody wants to walk along it.

use super::key::Kind;
use super::segments::Forward;
use super::words::{Dictionary, Name};
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
}

/// Segments without gaps, neighbours of the same machine and state as one.
#[derive(Clone, Debug)]
pub struct Path {
    pieces: Forward,
    dictionary: Dictionary,
    names: Vec<Name>,
    kinds: Vec<Kind>,
    /// Of links, how much of the queue's name is their class.
    classes: Vec<usize>,
    /// Of keys with the same words the first one.
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
    pub(super) fn new(pieces: Forward, dictionary: Dictionary, names: Vec<Name>, kinds: Vec<Kind>) -> Path {
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_unstable_by_key(|&key| (names[key as usize], key));
        let mut same = vec![0; names.len()];
        for alike in order.chunk_by(|&one, &other| names[one as usize] == names[other as usize]) {
            alike.iter().for_each(|&key| same[key as usize] = alike[0]);
        }
        let classes = names.iter().map(|&[_, machine, ..]| queue_of_calls(dictionary.text(machine)).len()).collect();
        Path { pieces, same, dictionary, times: vec![0; names.len()], names, kinds, classes }
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
            Some(Segment { start_ns: start, end_ns: end, host, machine, class, state })
        })
    }

    /// Host or none, machine and state of all that occurs, whether the path goes through it or not.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str, &str)> + '_ {
        let text = |word| self.dictionary.text(word);
        self.names.iter().map(move |&[host, machine, _, state]| (text(host), text(machine), text(state)))
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
        match self.kind(of) {
            Kind::Link => (&machine[..self.classes[of as usize]], state),
            _ => (class, state),
        }
    }

    pub fn machine(&self, of: u32) -> &str {
        self.names.get(of as usize).map_or("", |&[_, machine, ..]| self.dictionary.text(machine))
    }

    pub fn host(&self, of: u32) -> &str {
        self.names.get(of as usize).map_or("", |&[host, ..]| self.dictionary.text(host))
    }

    pub fn kind(&self, of: u32) -> Kind {
        self.kinds.get(of as usize).copied().unwrap_or(Kind::Unknown)
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

/// `rpc:X:reply:ID` is the `rpc:X:reply` of one call.
pub(crate) fn queue_of_calls(queue: &str) -> &str {
    match queue.strip_prefix("rpc:").and_then(|call| call.rfind(":reply:")) {
        Some(at) => &queue[.."rpc:".len() + at + ":reply".len()],
        None => queue,
    }
}
