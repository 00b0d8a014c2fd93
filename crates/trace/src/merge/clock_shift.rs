//! Correction of one input's clock, so that it can be merged with inputs whose clocks differ.
//!
//! A correction is an offset and, for clocks that run at different rates, a drift. It is added to
//! the times of items and to nothing else: values of fields are not changed.

use crate::event::{Event, Item, Loss};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Correction that is added to the times of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shift {
    /// Constant part of the correction in ns.
    pub offset_ns: i64,
    /// Additional ns for each ns since `since_ns` on the input's own clock.
    pub drift: f64,
    /// Time on the input's own clock at which the drift adds 0.
    pub since_ns: i64,
}

impl Shift {
    /// Returns a correction that adds `offset_ns`.
    pub fn by(offset_ns: i64) -> Shift {
        Shift { offset_ns, ..Shift::default() }
    }

    /// Returns true if the correction changes nothing.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.offset_ns == 0 && self.drift == 0.0
    }

    /// Returns the corrected time for the input's time `t_ns`.
    #[inline]
    pub fn apply(&self, t_ns: i64) -> i64 {
        let shifted = t_ns.saturating_add(self.offset_ns);
        match self.drift == 0.0 {
            true => shifted,
            false => shifted.saturating_add(self.drifted(t_ns)),
        }
    }

    /// Returns an item of the input with corrected times.
    #[cold]
    pub(crate) fn item<'a>(&self, item: Item<'a>) -> Item<'a> {
        match item {
            Item::Event(event) => Item::Event(Event { t_ns: self.apply(event.t_ns), ..event }),
            Item::Loss(loss) => Item::Loss(self.loss(loss)),
        }
    }

    /// Returns a loss of the input with corrected times.
    pub fn loss(&self, loss: Loss) -> Loss {
        Loss { begin_ns: self.apply(loss.begin_ns), end_ns: self.apply(loss.end_ns), ..loss }
    }

    #[inline]
    fn drifted(&self, t_ns: i64) -> i64 {
        (t_ns.saturating_sub(self.since_ns) as f64 * self.drift).round() as i64
    }

    /// Inverse of [`Shift::apply`]. Returns a time of the input whose correction is at most `t_ns`,
    /// and earlier than `t_ns` by a few ns at most.
    pub fn undo(&self, t_ns: i64) -> i64 {
        // The limits of `i64` mean "no limit" and are not shifted.
        if t_ns == i64::MIN || t_ns == i64::MAX || self.is_none() {
            return t_ns;
        }
        let about = t_ns.saturating_sub(self.offset_ns);
        let since = about.saturating_sub(self.since_ns) as f64;
        match self.drift == 0.0 {
            true => about,
            false => about.saturating_sub((since - since / (1.0 + self.drift)).round() as i64).saturating_sub(2),
        }
    }

    /// Combines two corrections: first this one, then `other`.
    pub fn then(&self, other: &Shift) -> Shift {
        // Both corrections are exact at `since_ns`, and drifts multiply.
        let since_ns = self.since_ns;
        Shift {
            offset_ns: other.apply(self.apply(since_ns)).saturating_sub(since_ns),
            drift: (1.0 + self.drift) * (1.0 + other.drift) - 1.0,
            since_ns,
        }
    }
}

/// Corrections of several inputs. The correction of a path also applies to everything below that
/// path.
#[derive(Clone, Debug, Default)]
pub struct Shifts(Arc<[(PathBuf, Shift)]>);

impl Shifts {
    pub fn new(shifts: Vec<(PathBuf, Shift)>) -> Shifts {
        let resolved = shifts.into_iter().map(|(path, shift)| (absolute(&path), shift));
        Shifts(resolved.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the correction for `path`. If several apply, the one of the nearest ancestor is
    /// used.
    pub fn of(&self, path: &Path) -> Shift {
        if self.0.is_empty() {
            return Shift::default();
        }
        let path = absolute(path);
        let nearest = self.0.iter().filter(|(above, _)| path.starts_with(above)).max_by_key(|(above, _)| above.components().count());
        nearest.map_or(Shift::default(), |(_, shift)| *shift)
    }
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn correction_of_the_nearest_ancestor_applies() {
        let directory = tempfile::TempDir::new().unwrap();
        let inner = directory.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let shifts = Shifts::new(vec![(directory.path().to_owned(), Shift::by(1)), (inner.clone(), Shift::by(2))]);
        assert_eq!(shifts.of(&inner.join("gone")).offset_ns, 2);
        assert_eq!(shifts.of(&inner.join("../b")).offset_ns, 2);
        assert_eq!(shifts.of(&directory.path().join("a")).offset_ns, 1);
        assert_eq!(shifts.of(Path::new("/")).offset_ns, 0);
    }

    proptest! {
        #[test]
        fn correction_can_be_undone_and_combined(
            t_ns in 1_600_000_000_000_000_000i64..1_800_000_000_000_000_000,
            offset_ns in -1_000_000_000_000i64..1_000_000_000_000,
            drift in -1e-3f64..1e-3,
            since in -3_600_000_000_000i64..3_600_000_000_000,
        ) {
            let shift = Shift { offset_ns, drift, since_ns: t_ns + since };
            let undone = shift.undo(shift.apply(t_ns));
            prop_assert!(undone <= t_ns && t_ns - undone <= 8, "{}", t_ns - undone);
            let other = Shift { offset_ns: 77, drift: -drift / 2.0, since_ns: t_ns - since };
            let both = shift.then(&other).apply(t_ns);
            prop_assert!(both.abs_diff(other.apply(shift.apply(t_ns))) <= 3, "{} {}", both, other.apply(shift.apply(t_ns)));
        }
    }
}
