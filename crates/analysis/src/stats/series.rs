//! A value over time in a bounded number of bins: the least and the greatest value in each.
//!
//! Bins have equal widths, which double when the time no longer fits. Example: a queue's depth in a
//! recording of an hour has bins of 8.8 s, each with the depths between which it was.

const MAX_BINS: usize = 512;
const FIRST_WIDTH_NS: u64 = 1 << 10;

/// Values in one bin; `None` if it has no change of the value.
type Bin = Option<[i64; 3]>;

/// The series while it grows. A value may be moved later ([`Series::settle`]).
#[derive(Clone, Debug)]
pub struct Series {
    begin_ns: i64,
    width_ns: u64,
    /// Least, greatest and last value, of values that are final and of those that are not.
    settled: Vec<Bin>,
    pending: Vec<Bin>,
}

/// The series for a picture: bin i begins at `begin_ns` + i · `width_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesBins {
    pub begin_ns: i64,
    pub width_ns: u64,
    /// Least and greatest value in each bin.
    pub bins: Vec<[i64; 2]>,
}

impl Series {
    pub fn new(begin_ns: i64) -> Series {
        Series { begin_ns, width_ns: FIRST_WIDTH_NS, settled: Vec::new(), pending: Vec::new() }
    }

    /// Records that the value changes at `t_ns`.
    pub fn record(&mut self, t_ns: i64, value: i64) {
        let at = self.place(t_ns);
        add(&mut self.pending, at, [value; 3]);
    }

    /// Moves all values since the last call by `offset`, into `0..=most`; they are final then.
    pub fn settle(&mut self, offset: i64, most: Option<u64>) {
        let most = most.map_or(i64::MAX, |most| i64::try_from(most).unwrap_or(i64::MAX));
        for (at, values) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            if let Some(values) = values {
                add(&mut self.settled, at, values.map(|value| value.saturating_add(offset).clamp(0, most)));
            }
        }
    }

    /// Returns the final values until `end_ns`. A bin without a change has the last value before
    /// it.
    pub fn bins(mut self, end_ns: i64) -> SeriesBins {
        let count = self.place(end_ns.max(self.begin_ns)) + 1;
        let mut last = None;
        let bins = (0..count).map(|at| match (self.settled.get(at).copied().flatten(), last) {
            // The value before the bin lasts until the first change in it.
            (Some([least, greatest, now]), before) => {
                last = Some(now);
                [before.unwrap_or(least).min(least), before.unwrap_or(greatest).max(greatest)]
            }
            (None, before) => [before.unwrap_or(0); 2],
        });
        SeriesBins { begin_ns: self.begin_ns, width_ns: self.width_ns, bins: bins.collect() }
    }

    fn place(&mut self, t_ns: i64) -> usize {
        let since = t_ns.saturating_sub(self.begin_ns).max(0) as u64;
        while since / self.width_ns >= MAX_BINS as u64 {
            self.width_ns *= 2;
            halve(&mut self.settled);
            halve(&mut self.pending);
        }
        (since / self.width_ns) as usize
    }
}

fn add(bins: &mut Vec<Bin>, at: usize, [least, greatest, last]: [i64; 3]) {
    if bins.len() <= at {
        bins.resize(at + 1, None);
    }
    bins[at] = Some(match bins[at] {
        None => [least, greatest, last],
        Some([low, high, _]) => [low.min(least), high.max(greatest), last],
    });
}

fn halve(bins: &mut Vec<Bin>) {
    let mut joined = Vec::with_capacity(MAX_BINS);
    for (at, bin) in bins.iter().enumerate() {
        if let Some(values) = bin {
            add(&mut joined, at / 2, *values);
        }
    }
    *bins = joined;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_has_the_values_between_which_it_was_and_keeps_the_last_one() {
        let mut series = Series::new(1000);
        let at = |bin: i64| 1000 + bin * FIRST_WIDTH_NS as i64 + 5;
        for (t, value) in [(at(0), 3), (at(0) + 1, -1), (at(0) + 2, 1), (at(3), 4)] {
            series.record(t, value);
        }
        series.settle(1, Some(4));
        // Bin 3 begins with the value of bin 0; 5 is more than the queue can hold.
        let expected = vec![[0, 4], [2, 2], [2, 2], [2, 4], [4, 4]];
        assert_eq!(series.bins(at(4)), SeriesBins { begin_ns: 1000, width_ns: FIRST_WIDTH_NS, bins: expected });
    }

    #[test]
    fn values_that_are_final_are_not_moved_again() {
        let mut series = Series::new(0);
        series.record(0, -2);
        series.settle(2, None);
        series.record(1, 5);
        series.settle(10, None);
        assert_eq!(series.bins(2).bins, vec![[0, 15]]);
    }

    #[test]
    fn the_number_of_bins_is_bounded_and_extremes_remain() {
        let mut series = Series::new(0);
        for t in 0..1_000_000 {
            series.record(t * 10_000, if t == 123_456 { 77 } else { t % 3 });
        }
        series.settle(0, None);
        let SeriesBins { bins, width_ns, .. } = series.bins(10_000_000_000);
        assert!(bins.len() <= MAX_BINS && bins.len() > MAX_BINS / 2 - 1, "{}", bins.len());
        let with_extreme = bins.iter().position(|bin| bin[1] == 77);
        assert_eq!(with_extreme, Some((1_234_560_000 / width_ns) as usize));
        assert!(bins.iter().all(|bin| bin[0] == 0));
    }
}
