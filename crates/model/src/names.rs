//! Names, each kept once. Everything downstream compares numbers.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

/// Under which names are gathered where there are too many.
pub const OTHER_NAMES: &str = "(other names)";

/// Names beyond this that stand in events, not in classes, are not kept.
const MOST_NAMES: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    ids: HashMap<String, NameId>,
}

impl Names {
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = NameId(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// For a name that stands in an event: a program may make one for each of its items.
    pub fn intern_bounded(&mut self, text: &str) -> NameId {
        match self.ids.get(text) {
            Some(&id) => id,
            None if self.texts.len() < MOST_NAMES => self.intern(text),
            None => self.intern(OTHER_NAMES),
        }
    }

    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}
