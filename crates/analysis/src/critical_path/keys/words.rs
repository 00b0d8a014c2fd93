//! Names of keys in compact form. Many keys share few words, so a name is four numbers, and each
//! word is stored once.

use crate::critical_path::keys::key::{Key, Part};
use longpole_model::interaction::Vocabulary;
use longpole_model::names::NameId;
use std::collections::HashMap;
use std::sync::Arc;

/// Host, machine, class and state, as words; equal numbers are equal texts.
pub type Name = [u32; 4];

/// The words of all names.
#[derive(Clone, Debug)]
pub struct Dictionary {
    /// The words of the vocabulary at their own numbers, then those that are only used here. If
    /// several names have the same text, the number of the first one is used.
    words: Vec<Arc<str>>,
    ours: HashMap<Arc<str>, u32>,
    blocked: HashMap<NameId, u32>,
}

impl Dictionary {
    pub fn new(vocabulary: &Vocabulary) -> Dictionary {
        Dictionary {
            words: vocabulary.names.all().iter().map(|name| name.text.clone()).collect(),
            ours: HashMap::new(),
            blocked: HashMap::new(),
        }
    }

    pub fn name(&mut self, vocabulary: &Vocabulary, key: &Key) -> Name {
        key.parts(vocabulary).map(|part| match part {
            Part::Named(name) if (name.0 as usize) < vocabulary.names.len() => vocabulary.names.first_of_same(name).0,
            Part::Named(_) => self.word(vocabulary, ""),
            Part::Fixed(text) => self.word(vocabulary, text),
            Part::Blocked(why) => match self.blocked.get(&why) {
                Some(&known) => known,
                None => {
                    let word = self.word(vocabulary, &part.text(vocabulary));
                    self.blocked.insert(why, word);
                    word
                }
            },
        })
    }

    fn word(&mut self, vocabulary: &Vocabulary, text: &str) -> u32 {
        if let Some(name) = vocabulary.names.first_of(text) {
            return name.0;
        }
        if let Some(&known) = self.ours.get(text) {
            return known;
        }
        let text: Arc<str> = text.into();
        self.words.push(text.clone());
        self.ours.insert(text, self.words.len() as u32 - 1);
        self.words.len() as u32 - 1
    }

    pub fn text(&self, word: u32) -> &str {
        self.words.get(word as usize).map_or("", |text| text)
    }
}
