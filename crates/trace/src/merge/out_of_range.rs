//! Times that 64 bits of ns cannot represent. The range is the years 1677 to 2262 if 0 is 1970, and
//! a clock's offset or a forged time may lie outside of it. Such an event is yielded with the
//! nearest time that can be represented, so that its fields are not lost. This is damage and is
//! always reported.

use crate::diagnostic::{Diagnostic, PacketPosition};
use std::fmt::Display;
use std::path::Path;

/// Reports times of one file that are out of range, once.
#[derive(Default)]
pub(crate) struct Beyond {
    reported: bool,
}

/// Returns the nearest time that 64 bits of ns can represent.
pub(crate) fn nearest(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Returns true if the time is a limit of `i64`, which only results from saturation.
pub(crate) fn is_saturated(ns: i64) -> bool {
    ns == i64::MIN || ns == i64::MAX
}

impl Beyond {
    /// Converts a time. A time out of range becomes the nearest one and is reported.
    #[inline]
    pub fn ns<P: Display>(&mut self, ns: i128, path: &Path, place: impl FnOnce() -> P, diagnostics: &mut Vec<Diagnostic>) -> i64 {
        i64::try_from(ns).unwrap_or_else(|_| {
            self.report(path, place, None, diagnostics);
            nearest(ns)
        })
    }

    /// Reports a time out of range, unless one was already reported for this file.
    #[cold]
    pub fn report<P: Display>(
        &mut self,
        path: &Path,
        place: impl FnOnce() -> P,
        at: Option<PacketPosition>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        let known = diagnostics.iter().any(|diagnostic| matches!(diagnostic, Diagnostic::BeyondTime { path: known, .. } if known == path));
        if !known {
            diagnostics.push(Diagnostic::BeyondTime { path: path.to_owned(), place: place().to_string(), at });
        }
    }

    /// Returns true if a time out of range was reported.
    pub fn was_reported(&self) -> bool {
        self.reported
    }
}
