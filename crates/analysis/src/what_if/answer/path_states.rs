//! The states on the path to the end of a world, by name.

use crate::critical_path::keys::key::{Key, Link, State};
use crate::critical_path::Kind;
use crate::what_if::translate::state::Translation;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::{SegmentKind, StateKind};
use longpole_model::names::NameId;
use std::collections::hash_map::Entry;
use std::collections::HashMap;

/// A state on the path to the end in the replay of the unchanged trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub host: String,
    pub machine: String,
    pub class: String,
    pub state: String,
    pub kind: SegmentKind,
    pub share: f64,
    /// The state may be scaled: it is not a wait.
    pub scales: bool,
}

impl Share {
    /// Name under which all states of this kind are changed.
    pub fn class_or_link(&self) -> &str {
        if self.kind.is_link() {
            &self.machine
        } else {
            &self.class
        }
    }
}

/// The keys of a finished replay, with their names.
#[derive(Clone, Copy)]
pub struct PathStates<'a> {
    pub trace: &'a Translation,
    pub vocabulary: &'a Vocabulary,
}

impl PathStates<'_> {
    fn key(&self, key: u32) -> Option<&Key> {
        self.trace.states.keys.iter().nth(key as usize)
    }

    pub fn words(&self, key: u32) -> [String; 4] {
        self.key(key).map(|key| key.words(self.vocabulary)).unwrap_or_default()
    }

    pub fn is(&self, key: u32, what: impl Fn(&Key) -> bool) -> bool {
        self.key(key).is_some_and(what)
    }

    /// Returns the keys on the path to the end in a world, the largest first. A machine's states of
    /// one name and kind of work are one entry.
    pub fn largest_first(&self, profile: Vec<f64>) -> Vec<(u32, f64)> {
        let mut named: HashMap<(MachineId, NameId, Kind), usize> = HashMap::new();
        let mut largest: Vec<(u32, f64)> = Vec::new();
        for (key, ns) in (0u32..).zip(profile).filter(|entry| entry.1 > 0.0) {
            let of = match self.key(key) {
                Some(&Key::State { machine, state: State::Named(name), .. }) => Some((machine, self.vocabulary.names.first_of_same(name))),
                _ => None,
            };
            match of.map(|(machine, name)| named.entry((machine, name, self.segment_kind(key).into()))) {
                Some(Entry::Occupied(known)) => largest[*known.get()].1 += ns,
                of => {
                    if let Some(Entry::Vacant(of)) = of {
                        of.insert(largest.len());
                    }
                    largest.push((key, ns));
                }
            }
        }
        largest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        largest
    }

    pub fn segment_kind(&self, key: u32) -> SegmentKind {
        let known = self.key(key).map(|key| {
            let is_context = match *key {
                Key::State { machine, .. } => self.trace.known(machine).is_some_and(|traced| traced.stack.has_been_context),
                Key::Link { .. } => false,
            };
            key.kind(self.vocabulary, is_context)
        });
        known.unwrap_or(SegmentKind::State(StateKind::Unknown))
    }

    pub fn shares(&self, profile: &[(u32, f64)]) -> Vec<Share> {
        let all: f64 = profile.iter().map(|entry| entry.1).sum();
        let share = |&(key, ns): &(u32, f64)| {
            let [host, machine, class, state] = self.words(key);
            Share { host, machine, class, state, kind: self.segment_kind(key), share: ns / all, scales: self.is(key, scales) }
        };
        profile.iter().map(share).collect()
    }
}

/// Returns true for a wait whose cause is unknown.
pub fn is_unexplained(key: &Key) -> bool {
    matches!(key, Key::State { state: State::Blocked(_) | State::Unknown, .. })
}

fn scales(key: &Key) -> bool {
    match key {
        Key::State { state, .. } => !matches!(state, State::Blocked(_) | State::Unknown | State::Interrupted | State::Runnable),
        Key::Link { kind, .. } => *kind != Link::Queued,
    }
}
