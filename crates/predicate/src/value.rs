//! Values of names, and how they compare.

use crate::{glob, Comparison};
use std::cmp::Ordering;

/// The value of a name at the time of evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum<'a> {
    /// There is no value.
    Unknown,
    /// A whole number; times are in ns.
    Integer(i128),
    /// Any other number.
    Real(f64),
    /// A text. Texts of traces need not be UTF-8.
    Text(&'a [u8]),
    /// The value of an enumeration: compares as number and as text.
    Labelled(i128, &'a [u8]),
    /// A value that exists and cannot be compared.
    Other,
}

impl<'a> Datum<'a> {
    /// The value as a text: that of an enumeration is its label.
    pub fn text(&self) -> Option<&'a [u8]> {
        match self {
            Datum::Text(text) | Datum::Labelled(_, text) => Some(text),
            _ => None,
        }
    }

    /// The value as a whole number.
    pub fn integer(&self) -> Option<i128> {
        match self {
            Datum::Integer(value) | Datum::Labelled(value, _) => Some(*value),
            _ => None,
        }
    }

    /// The value as a number.
    pub fn real(&self) -> Option<f64> {
        match self {
            Datum::Real(value) => Some(*value),
            datum => datum.integer().map(|value| value as f64),
        }
    }

    /// The order of two values; `None` if they cannot be compared. Two values of enumerations are
    /// equal if their labels are.
    fn order(&self, other: &Datum<'_>) -> Option<Ordering> {
        if let (Some(left), Some(right)) = (self.text(), other.text()) {
            return Some(left.cmp(right));
        }
        match (self.integer(), other.integer()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => self.real()?.partial_cmp(&other.real()?),
        }
    }

    /// Evaluates a comparison. It is false if one of the values does not exist, or if a text is
    /// compared with a number.
    pub fn compare(&self, how: Comparison, other: &Datum<'_>) -> bool {
        let order = || self.order(other);
        let like = || self.text().zip(other.text()).map(|(text, pattern)| glob::matches(pattern, text));
        match how {
            Comparison::Equal => order() == Some(Ordering::Equal),
            Comparison::Different => order().is_some_and(Ordering::is_ne),
            Comparison::Less => order().is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
            Comparison::Greater => order().is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Comparison::Like => like() == Some(true),
            Comparison::Unlike => like() == Some(false),
            Comparison::Bits => self.integer().zip(other.integer()).is_some_and(|(left, right)| left & right != 0),
        }
    }
}
