//! Names. Each text is stored once; a text has one name for each of its kinds. The rest of the
//! program compares numbers and kinds; texts are for people.

use crate::hash::mix;
use crate::kinds::{LinkKind, NameKind, StateKind};
use std::collections::HashMap;
use std::sync::Arc;

/// A name with its kind: an index into [`Names::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// The name that represents all further ones if there are too many.
pub const OTHER_NAMES: &str = "(other names)";

/// Maximum number of names from the content of events (not of classes).
const MAX_NAMES: usize = 1 << 16;

/// The table of all names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Name>,
    /// The kind of each name. Stored separately because it is read with every state, so the kinds
    /// should be close together in memory.
    kinds: Vec<NameKind>,
    /// The first name of each text.
    ids: HashMap<Arc<str>, NameId>,
    /// Number of names from the content of events.
    bounded: usize,
    /// The last name for each value of the quick hash. This cache is looked up before the table,
    /// whose hash is slow: it must resist collisions because a trace chooses the names.
    recent: Vec<NameId>,
}

/// A text with a kind.
#[derive(Clone, Debug)]
pub struct Name {
    pub text: Arc<str>,
    kind: NameKind,
    first: NameId,
    /// The next name with this text.
    next: Option<NameId>,
}

const RECENT: usize = 1 << 10;

/// A hash of multiplications. A trace with names that collide here gains nothing: each lookup then
/// goes through the table.
fn quick_hash(text: &str, kind: NameKind) -> usize {
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let kind = match kind {
        NameKind::Plain => 0,
        NameKind::LostEvents => 1,
        NameKind::State(kind) => 2 + 2 * kind as u64,
        NameKind::Link(kind) => 3 + 2 * kind as u64,
    };
    let mut hash = text.len() as u64 ^ kind << 32;
    for chunk in chunks {
        hash = mix(hash, u64::from_le_bytes(*chunk));
    }
    let rest = rest.iter().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    (mix(hash, rest) >> 40) as usize % RECENT
}

impl Names {
    /// The name with this text and without a kind; added if necessary.
    pub fn intern(&mut self, text: &str) -> NameId {
        self.intern_as(text, NameKind::Plain)
    }

    /// The name with this text and kind; added if necessary.
    pub fn intern_as(&mut self, text: &str, kind: NameKind) -> NameId {
        let slot = quick_hash(text, kind);
        if let Some(id) = self.find_recent(slot, text, kind) {
            return id;
        }
        if self.recent.is_empty() {
            self.recent.resize(RECENT, NameId(u32::MAX));
        }
        let id = self.intern_slowly(text, kind);
        self.recent[slot] = id;
        id
    }

    /// The name, if it is the last one with its quick hash.
    fn find_recent(&self, slot: usize, text: &str, kind: NameKind) -> Option<NameId> {
        let &id = self.recent.get(slot)?;
        self.names.get(id.0 as usize).is_some_and(|known| known.kind == kind && *known.text == *text).then_some(id)
    }

    fn intern_slowly(&mut self, text: &str, kind: NameKind) -> NameId {
        let id = NameId(self.names.len() as u32);
        let Some(&first) = self.ids.get(text) else {
            let text: Arc<str> = text.into();
            self.push(Name { text: text.clone(), kind, first: id, next: None });
            self.ids.insert(text, id);
            return id;
        };
        let mut last = first;
        for known in self.same_text(first) {
            if self.names[known.0 as usize].kind == kind {
                return known;
            }
            last = known;
        }
        let text = self.names[first.0 as usize].text.clone();
        self.push(Name { text, kind, first, next: None });
        self.names[last.0 as usize].next = Some(id);
        id
    }

    fn push(&mut self, name: Name) {
        self.kinds.push(name.kind);
        self.names.push(name);
    }

    /// All names with this text, from this one on.
    fn same_text(&self, from: NameId) -> impl Iterator<Item = NameId> + '_ {
        std::iter::successors(Some(from), |id| self.names[id.0 as usize].next)
    }

    /// Like [`Names::intern`], for a name from the content of an event: a program may create a new
    /// one for each of its items.
    pub fn intern_bounded(&mut self, text: &str) -> NameId {
        match self.find(text) {
            Some(id) => id,
            None if self.bounded < MAX_NAMES => {
                self.bounded += 1;
                self.intern(text)
            }
            None => self.intern(OTHER_NAMES),
        }
    }

    /// The text of a name; empty for an unknown id.
    pub fn text(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("", |name| &name.text)
    }

    #[inline]
    pub fn kind(&self, id: NameId) -> NameKind {
        self.kinds.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The kind of a name of a state.
    #[inline]
    pub fn state_kind(&self, id: NameId) -> StateKind {
        match self.kind(id) {
            NameKind::State(kind) => kind,
            _ => StateKind::Named,
        }
    }

    /// The kind of a name of a link.
    #[inline]
    pub fn link_kind(&self, id: NameId) -> LinkKind {
        match self.kind(id) {
            NameKind::Link(kind) => kind,
            _ => LinkKind::Named,
        }
    }

    /// The first name with the same text, of any kind.
    pub fn first_of_same(&self, id: NameId) -> NameId {
        self.names.get(id.0 as usize).map_or(id, |name| name.first)
    }

    /// All names, in the order of their ids.
    pub fn all(&self) -> &[Name] {
        &self.names
    }

    /// Adds names that got the next ids in another `Names`. They cannot be found by their text.
    pub(crate) fn learn(&mut self, names: &[Name]) {
        names.iter().for_each(|name| self.push(name.clone()));
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name with this text and without a kind.
    pub fn find(&self, text: &str) -> Option<NameId> {
        let plain = |id: &NameId| self.kind(*id) == NameKind::Plain;
        let known = self.find_recent(quick_hash(text, NameKind::Plain), text, NameKind::Plain);
        known.or_else(|| self.same_text(self.first_of(text)?).find(plain))
    }

    /// The first name with this text, of any kind.
    pub fn first_of(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_name_per_kind() {
        let mut names = Names::default();
        let kinds = [NameKind::Plain, NameKind::State(StateKind::Span), NameKind::State(StateKind::SystemCall), NameKind::LostEvents];
        let ids = kinds.map(|kind| names.intern_as("read", kind));
        assert_eq!(ids.map(|id| names.kind(id)), kinds);
        assert_eq!(ids.map(|id| names.text(id)), ["read"; 4]);
        assert_eq!(kinds.map(|kind| names.intern_as("read", kind)), ids);
        assert_eq!((names.find("read"), names.first_of("read"), names.len()), (Some(ids[0]), Some(ids[0]), 4));
        assert!(ids.iter().all(|&id| names.first_of_same(id) == ids[0]));
    }

    #[test]
    fn the_name_of_a_state_is_not_found_as_a_name_without_a_kind() {
        let mut names = Names::default();
        let state = names.intern_as("run", NameKind::State(StateKind::Run));
        assert_eq!((names.find("run"), names.first_of("run")), (None, Some(state)));
    }
}
