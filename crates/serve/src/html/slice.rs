//! Which part of a trace is in the file with all of its states: a slice around the evidence.

use longpole_analysis::timeline::{RowId, Timeline};
use std::io;

/// A range of time in ns since the begin of the trace.
pub(super) type Slice = (u64, u64);

/// Steps in which the width of a slice is refined; each halves the error.
const REFINEMENTS: u32 = 5;

/// Returns the widest slice around the evidence in which these rows have about `most` states.
///
/// # Errors
///
/// If the timeline cannot be read.
pub(super) fn around(timeline: &Timeline, rows: &[RowId], (begin, end): Slice, most: u64) -> io::Result<Slice> {
    let (origin, last) = timeline.range();
    let length = last - origin;
    let centre = begin + (end.saturating_sub(begin)) / 2;
    let slice = |width: u64| {
        let begin = centre.saturating_sub(width / 2).min(length.saturating_sub(width));
        (begin, (begin + width).min(length))
    };
    let fits = |width: u64| -> io::Result<bool> {
        let mut count = 0;
        for &row in rows {
            count += timeline.state_count(row, slice(width))?;
            if count > most {
                return Ok(false);
            }
        }
        Ok(true)
    };
    // The page first shows the evidence with as much on both sides.
    let mut good = end.saturating_sub(begin).saturating_mul(3).clamp(1, length.max(1));
    while good > 1 && !fits(good)? {
        good /= 2;
    }
    let mut step = good;
    while good < length && fits((good + step).min(length))? {
        good = (good + step).min(length);
        step = good;
    }
    for _ in 0..REFINEMENTS {
        step /= 2;
        if good + step <= length && fits(good + step)? {
            good += step;
        }
    }
    Ok(slice(good))
}
