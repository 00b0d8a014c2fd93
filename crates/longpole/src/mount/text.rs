//! The text of each subject's events. Its size is limited, because the recording contains all
//! events.

use longpole_record::control::selection::SelectedPart;
use std::collections::HashMap;
use std::time::SystemTime;

/// Maximum size of one text in bytes. A text that would exceed it begins anew, like a log that is
/// rotated.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Maximum size of all texts together, in bytes.
const ALL: usize = 256 << 20;

#[derive(Default)]
pub struct Texts {
    all: HashMap<SelectedPart, Text>,
    bytes: usize,
}

#[derive(Default)]
pub struct Text {
    bytes: Vec<u8>,
    /// Time of the last line, in ns.
    pub last_ns: Option<i64>,
    changed: Option<SystemTime>,
}

impl Texts {
    /// Returns the text of a part, and makes it if it does not exist, because a line is about to be
    /// added.
    pub fn of(&mut self, part: &SelectedPart) -> &mut Text {
        self.all.entry(part.clone()).or_default()
    }

    pub fn get(&self, part: &SelectedPart) -> Option<&Text> {
        self.all.get(part)
    }

    pub fn parts(&self) -> impl Iterator<Item = &SelectedPart> {
        self.all.keys()
    }

    pub fn add(&mut self, part: &SelectedPart, line: &[u8]) {
        let text = self.all.entry(part.clone()).or_default();
        let before = text.bytes.len();
        text.add(line);
        self.bytes = self.bytes + text.bytes.len() - before.min(self.bytes + text.bytes.len());
        if self.bytes > ALL {
            if let Some(largest) = self.all.values_mut().max_by_key(|text| text.bytes.len()) {
                self.bytes -= largest.bytes.len();
                largest.begin_anew();
                self.bytes += largest.bytes.len();
            }
        }
    }
}

impl Text {
    fn add(&mut self, line: &[u8]) {
        if self.bytes.len() + line.len() > MAX_TEXT_BYTES {
            self.begin_anew();
        }
        self.bytes.extend_from_slice(line);
        self.changed = Some(SystemTime::now());
    }

    fn begin_anew(&mut self) {
        self.bytes = b"(what was here before is in the recording)\n".to_vec();
        self.changed = Some(SystemTime::now());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn changed(&self) -> Option<SystemTime> {
        self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_begins_anew_before_it_is_too_long_and_the_sum_of_all_stays_bounded() {
        let mut texts = Texts::default();
        let line = vec![b'x'; 1 << 20];
        for pid in 0..40 {
            for _ in 0..20 {
                texts.add(&SelectedPart::process("a", pid), &line);
            }
        }
        let total: usize = texts.all.values().map(|text| text.bytes.len()).sum();
        assert_eq!(total, texts.bytes);
        assert!(total <= ALL && texts.all.values().all(|text| text.bytes.len() <= MAX_TEXT_BYTES));
        assert!(texts.get(&SelectedPart::process("a", 0)).unwrap().bytes().starts_with(b"(what was"));
    }
}
