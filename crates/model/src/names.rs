//! Names, each kept once. Everything downstream compares numbers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// Under which names are gathered where there are too many.
pub const OTHER_NAMES: &str = "(other names)";

/// What a program's own state (a span, a service, a declared state) is called beside those that the models give: one that bears the name of such a state is
/// `span:NAME`, so that the two are never one. What is called `span:NAME` itself gets one more, if it would be taken for that.
pub fn of_program(name: &str) -> Cow<'_, str> {
    let mut bare = name;
    while let Some(rest) = bare.strip_prefix("span:") {
        bare = rest;
    }
    match is_given(bare) {
        true => Cow::Owned(format!("span:{name}")),
        false => Cow::Borrowed(name),
    }
}

/// Whether a model gives a state this name: in what the kernel has a thread, what it waits for, that nothing is open, that nobody knows.
fn is_given(state: &str) -> bool {
    let of_threads =
        ["run", "user", "runnable", "preempted", "throttled", "page fault", "asleep", "outside", "kernel", "interrupted", "UNKNOWN"];
    let of_probes = ["wait", "re-entry", "lost", "signal"];
    of_threads.contains(&state) || of_probes.contains(&state) || ["blocked:", "wait: "].iter().any(|begin| state.starts_with(begin))
}

/// Names beyond this that stand in events, not in classes, are not kept.
const MOST_NAMES: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId>,
    /// The last name of each quick hash: a glance before the table, whose hash is slow since traces choose what is in it.
    recent: Vec<NameId>,
}

const RECENT: usize = 1 << 10;

/// Multiplies and folds; whoever makes names collide here gains nothing but the way through the table.
fn quick_hash(text: &str) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let mut hash = text.len() as u64;
    for chunk in chunks {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*chunk)).wrapping_mul(FACTOR);
    }
    let rest = rest.iter().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    hash = (hash.rotate_left(23) ^ rest).wrapping_mul(FACTOR);
    (hash >> 40) as usize % RECENT
}

impl Names {
    pub fn intern(&mut self, text: &str) -> NameId {
        let place = quick_hash(text);
        if let Some(id) = self.glance(place, text) {
            return id;
        }
        if self.recent.is_empty() {
            self.recent.resize(RECENT, NameId(u32::MAX));
        }
        let id = self.intern_slowly(text);
        self.recent[place] = id;
        id
    }

    fn glance(&self, place: usize, text: &str) -> Option<NameId> {
        let &id = self.recent.get(place)?;
        self.texts.get(id.0 as usize).is_some_and(|known| **known == *text).then_some(id)
    }

    fn intern_slowly(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = NameId(self.texts.len() as u32);
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.ids.insert(text, id);
        id
    }

    /// For a name that stands in an event: a program may make one for each of its items.
    pub fn intern_bounded(&mut self, text: &str) -> NameId {
        match self.find(text) {
            Some(id) => id,
            None if self.texts.len() < MOST_NAMES => self.intern(text),
            None => self.intern(OTHER_NAMES),
        }
    }

    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// In the order of their ids.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// Names that were given the next ids elsewhere. They are not found by their text.
    pub(crate) fn learn(&mut self, names: &[Arc<str>]) {
        self.texts.extend_from_slice(names);
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn find(&self, text: &str) -> Option<NameId> {
        self.glance(quick_hash(text), text).or_else(|| self.ids.get(text).copied())
    }
}
