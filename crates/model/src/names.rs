//! Names, each kept once for each of its kinds. Everything downstream compares numbers and kinds; texts are for people.

use crate::kinds::{LinkKind, NameKind, StateKind};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// Under which names are gathered where there are too many.
pub const OTHER_NAMES: &str = "(other names)";

/// Names beyond this that stand in events, not in classes, are not kept.
const MOST_NAMES: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Name>,
    /// Of each name: asked for with every state, so they stand close together.
    kinds: Vec<NameKind>,
    /// The first name of each text.
    ids: HashMap<Arc<str>, NameId>,
    /// Names that stand in events.
    bounded: usize,
    /// The last name of each quick hash: a glance before the table, whose hash is slow since traces choose what is in it.
    recent: Vec<NameId>,
}

#[derive(Clone, Debug)]
pub struct Name {
    pub text: Arc<str>,
    kind: NameKind,
    first: NameId,
    /// The next name of this text.
    next: Option<NameId>,
}

const RECENT: usize = 1 << 10;

/// Multiplies and folds; whoever makes names collide here gains nothing but the way through the table.
fn quick_hash(text: &str, kind: NameKind) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let kind = match kind {
        NameKind::Plain => 0,
        NameKind::LostEvents => 1,
        NameKind::State(kind) => 2 + 2 * kind as u64,
        NameKind::Link(kind) => 3 + 2 * kind as u64,
    };
    let mut hash = text.len() as u64 ^ kind << 32;
    for chunk in chunks {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*chunk)).wrapping_mul(FACTOR);
    }
    let rest = rest.iter().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    hash = (hash.rotate_left(23) ^ rest).wrapping_mul(FACTOR);
    (hash >> 40) as usize % RECENT
}

impl Names {
    /// A name of no kind.
    pub fn intern(&mut self, text: &str) -> NameId {
        self.intern_as(text, NameKind::Plain)
    }

    pub fn intern_as(&mut self, text: &str, kind: NameKind) -> NameId {
        let place = quick_hash(text, kind);
        if let Some(id) = self.glance(place, text, kind) {
            return id;
        }
        if self.recent.is_empty() {
            self.recent.resize(RECENT, NameId(u32::MAX));
        }
        let id = self.intern_slowly(text, kind);
        self.recent[place] = id;
        id
    }

    fn glance(&self, place: usize, text: &str, kind: NameKind) -> Option<NameId> {
        let &id = self.recent.get(place)?;
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

    /// All names of the text of this one and later.
    fn same_text(&self, from: NameId) -> impl Iterator<Item = NameId> + '_ {
        std::iter::successors(Some(from), |id| self.names[id.0 as usize].next)
    }

    /// For a name that stands in an event: a program may make one for each of its items.
    pub fn intern_bounded(&mut self, text: &str) -> NameId {
        match self.find(text) {
            Some(id) => id,
            None if self.bounded < MOST_NAMES => {
                self.bounded += 1;
                self.intern(text)
            }
            None => self.intern(OTHER_NAMES),
        }
    }

    pub fn text(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("", |name| &name.text)
    }

    #[inline]
    pub fn kind(&self, id: NameId) -> NameKind {
        self.kinds.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The kind of a state of this name.
    #[inline]
    pub fn state_kind(&self, id: NameId) -> StateKind {
        match self.kind(id) {
            NameKind::State(kind) => kind,
            _ => StateKind::Named,
        }
    }

    /// The kind of a link of this name.
    #[inline]
    pub fn link_kind(&self, id: NameId) -> LinkKind {
        match self.kind(id) {
            NameKind::Link(kind) => kind,
            _ => LinkKind::Named,
        }
    }

    /// The first name of the text of this one, whatever its kind.
    pub fn first_of_same(&self, id: NameId) -> NameId {
        self.names.get(id.0 as usize).map_or(id, |name| name.first)
    }

    /// In the order of their ids.
    pub fn all(&self) -> &[Name] {
        &self.names
    }

    /// Names that were given the next ids elsewhere. They are not found by their text.
    pub(crate) fn learn(&mut self, names: &[Name]) {
        names.iter().for_each(|name| self.push(name.clone()));
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of this text that is of no kind.
    pub fn find(&self, text: &str) -> Option<NameId> {
        let plain = |id: &NameId| self.kind(*id) == NameKind::Plain;
        let known = self.glance(quick_hash(text, NameKind::Plain), text, NameKind::Plain);
        known.or_else(|| self.same_text(self.first_of(text)?).find(plain))
    }

    /// The first name of this text, of whatever kind.
    pub fn first_of(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_name_for_each_of_its_kinds() {
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
    fn a_state_of_a_text_is_no_name_without_a_kind() {
        let mut names = Names::default();
        let state = names.intern_as("run", NameKind::State(StateKind::Run));
        assert_eq!((names.find("run"), names.first_of("run")), (None, Some(state)));
    }
}
