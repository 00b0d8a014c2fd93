//! Times that 64 bits of ns do not hold, from 1677 to 2262 where 0 is 1970. A clock's offset or a forged stamp may lie anywhere. Such an event is told
//! with the nearest time that there is, so that its fields are not lost, and never without a word: it is damage.

use crate::diagnostic::{Diagnostic, Place};
use std::fmt::Display;
use std::path::Path;

/// Of one file: whether this was said of it.
#[derive(Default)]
pub(crate) struct Beyond {
    told: bool,
}

/// The nearest time that 64 bits of ns hold.
pub(crate) fn nearest(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Whether a time is one that nothing but saturation makes.
pub(crate) fn is_saturated(ns: i64) -> bool {
    ns == i64::MIN || ns == i64::MAX
}

impl Beyond {
    /// The time, or the nearest one and a word.
    #[inline]
    pub fn ns<P: Display>(&mut self, ns: i128, path: &Path, place: impl FnOnce() -> P, diagnostics: &mut Vec<Diagnostic>) -> i64 {
        i64::try_from(ns).unwrap_or_else(|_| {
            self.tell(path, place, None, diagnostics);
            nearest(ns)
        })
    }

    /// Said once.
    #[cold]
    pub fn tell<P: Display>(&mut self, path: &Path, place: impl FnOnce() -> P, at: Option<Place>, diagnostics: &mut Vec<Diagnostic>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let known = diagnostics.iter().any(|diagnostic| matches!(diagnostic, Diagnostic::BeyondTime { path: known, .. } if known == path));
        if !known {
            diagnostics.push(Diagnostic::BeyondTime { path: path.to_owned(), place: place().to_string(), at });
        }
    }

    /// Whether it was said.
    pub fn is_told(&self) -> bool {
        self.told
    }
}
