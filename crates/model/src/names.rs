//! Names, each kept once. Everything downstream compares numbers.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

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

    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}
