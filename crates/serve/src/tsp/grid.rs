//! The bins of a request: at most one per sample that the client asked for.

use super::parameters::TimeRange;
use crate::reading::Reading;
use longpole_analysis::timeline::{Grid, Item};

/// The bins of one trace, and what is needed to turn their times into those of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bins {
    pub grid: Grid,
    /// Time of the trace's begin on its clock, in ns.
    pub origin: u64,
    /// Length of the trace in ns.
    pub length: u64,
}

impl Bins {
    /// Returns the bins of a range; `None` if the trace has nothing there.
    pub fn of(reading: &Reading, range: TimeRange) -> Option<Bins> {
        let (origin, trace_end) = reading.timeline.range();
        let length = trace_end - origin;
        let (begin, end) = relative(reading, range);
        (begin < end).then(|| Bins { grid: grid(begin, end, range.samples), origin, length })
    }

    /// Returns begin and end of an item on the trace's clock. Bins are cut where the trace ends.
    pub fn times(&self, item: &Item) -> (u64, u64) {
        (self.origin + item.begin, self.origin + item.end.min(self.length).max(item.begin))
    }
}

/// Returns a range in ns since the trace's begin, without what is outside the trace. A range of no
/// length is the moment.
pub(crate) fn relative(reading: &Reading, range: TimeRange) -> (u64, u64) {
    let (origin, trace_end) = reading.timeline.range();
    let end = range.end.max(range.begin.saturating_add(1)).min(trace_end);
    (range.begin.saturating_sub(origin), end.saturating_sub(origin))
}

/// Returns the finest grid of at most `samples` bins that contains the range.
fn grid(begin: u64, end: u64, samples: u64) -> Grid {
    let bins = |level: u32| ((end - 1) >> level) - (begin >> level) + 1;
    let level = (0..Grid::MAX_LEVEL).find(|&level| bins(level) <= samples).unwrap_or(Grid::MAX_LEVEL);
    Grid { level, first: begin >> level, count: bins(level) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_covers_the_range_with_no_more_bins_than_samples() {
        for (begin, end) in [(0, 1), (5, 6), (0, 1000), (999, 1001), (1 << 40, (1 << 40) + 12345), (7, 1 << 55)] {
            for samples in [1, 2, 3, 1000, 65_536] {
                let grid = grid(begin, end, samples);
                assert!(grid.begin() <= begin && end <= grid.end(), "{begin} {end} {samples} {grid:?}");
                assert!(grid.count <= samples, "{begin} {end} {samples} {grid:?}");
                assert!(
                    grid.level == 0 || samples < 3 || grid.count * 3 >= samples,
                    "coarser than necessary: {begin} {end} {samples} {grid:?}"
                );
            }
        }
    }
}
