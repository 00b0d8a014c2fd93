//! Patterns of names, as arguments select events and fields by them: `sched_*,irq_*`.

use longpole_predicate::glob;

/// A list of name patterns, separated by commas.
#[derive(Clone, Debug)]
pub struct Patterns(Vec<Vec<u8>>);

impl Patterns {
    pub fn parse(text: &str) -> Result<Patterns, String> {
        let patterns: Vec<Vec<u8>> = text.split(',').map(|name| name.trim().as_bytes().to_vec()).collect();
        match patterns.iter().any(Vec::is_empty) {
            true => Err("write names separated by commas; *, ? and [a-z] are patterns".to_owned()),
            false => Ok(Patterns(patterns)),
        }
    }

    /// Returns the number of patterns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.iter()
    }

    /// Returns true if a pattern matches the name.
    pub fn hold(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| glob::matches(pattern, name.as_bytes()))
    }

    /// Returns true if the field, or a structure around it, matches a pattern (see
    /// [`Patterns::hold`]).
    pub fn hold_part(&self, name: &str) -> bool {
        self.hold(name) || name.match_indices('.').any(|(dot, _)| self.hold(&name[..dot]))
    }
}
