use std::fmt;

/// What is wrong with a condition, and where.
///
/// Printed with `{}` it is one line, for messages that have a place of their own (a rule file and
/// its line); with `{:#}` it is the message, the condition, and a mark below the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PredicateError {
    /// The condition.
    pub text: String,
    /// Position of the error, in characters of `text` from 0.
    pub column: usize,
    /// What is wrong, as a sentence without a place.
    pub what: String,
}

impl fmt::Display for PredicateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !out.alternate() {
            return write!(out, "column {}: {}", self.column + 1, self.what);
        }
        let line: String = self.text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        write!(out, "{}\n  {line}\n  {:>width$}", self.what, "^", width = self.column + 1)
    }
}
