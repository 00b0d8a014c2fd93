//! A run cut into 32 to 64 windows of equal width, which give a share an uncertainty, and an answer
//! an interval to look at.
//!
//! The length of a run is unknown while it is read. Windows therefore begin narrow; if there are
//! too many, every second boundary is removed. The totals up to each boundary are stored, and a
//! window is the difference of two. An interval of a state belongs to the window in which it ends.

use longpole_model::system::activity::{Activity, Cell, Total};

const MAX_WINDOWS: usize = 64;
const FIRST_WIDTH_NS: i64 = 100_000;

/// Collector of the boundaries while the run is read.
#[derive(Debug, Default)]
pub struct Windows {
    begin_ns: Option<i64>,
    width_ns: i64,
    next_ns: i64,
    /// Boundaries with the totals up to them.
    marks: Vec<(i64, Vec<Total>)>,
}

/// One window, with the time that was added to each cell.
#[derive(Debug)]
pub struct Window {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub added: Vec<Total>,
}

impl Windows {
    /// Must be called before a step of this time is accounted.
    #[inline]
    pub fn at(&mut self, t_ns: i64, activity: &Activity) {
        if t_ns >= self.next_ns || self.begin_ns.is_none() {
            self.cross(t_ns, activity);
        }
    }

    #[cold]
    fn cross(&mut self, t_ns: i64, activity: &Activity) {
        let Some(begin) = self.begin_ns else {
            self.begin_ns = Some(t_ns);
            self.width_ns = FIRST_WIDTH_NS;
            self.next_ns = t_ns.saturating_add(FIRST_WIDTH_NS);
            return;
        };
        // A silence of many windows must not be walked window by window.
        while t_ns.saturating_sub(begin) / self.width_ns > MAX_WINDOWS as i64 {
            self.width_ns = self.width_ns.saturating_mul(2);
            let width = self.width_ns;
            self.marks.retain(|(boundary, _)| (boundary - begin) % width == 0);
        }
        let passed = t_ns.saturating_sub(begin) / self.width_ns;
        let boundary = begin + passed * self.width_ns;
        if self.marks.last().is_none_or(|(last, _)| *last < boundary) && boundary > begin {
            self.marks.push((boundary, activity.totals().to_vec()));
        }
        self.next_ns = boundary.saturating_add(self.width_ns);
    }

    /// Returns all windows until `end_ns`. If nothing happened for a while, one window is wider
    /// than the others.
    pub fn finish(&self, end_ns: i64, activity: &Activity) -> Vec<Window> {
        let Some(begin) = self.begin_ns else { return Vec::new() };
        let mut out = Vec::new();
        let mut from: (i64, &[Total]) = (begin, &[]);
        let last = (end_ns, activity.totals());
        for (boundary, totals) in self.marks.iter().map(|(boundary, totals)| (*boundary, totals.as_slice())).chain([last]) {
            let added = totals
                .iter()
                .enumerate()
                .map(|(at, total)| {
                    let before = from.1.get(at).copied().unwrap_or_default();
                    Total {
                        // A loss that is reported late takes time back.
                        ns: total.ns.saturating_sub(before.ns),
                        probes: total.probes.saturating_sub(before.probes),
                        long_ns: total.long_ns.saturating_sub(before.long_ns),
                        longs: total.longs.saturating_sub(before.longs),
                    }
                })
                .collect();
            out.push(Window { begin_ns: from.0, end_ns: boundary.max(from.0), added });
            from = (boundary, totals);
        }
        out
    }
}

/// Returns the sum over the cells that `which` selects, less the cost of the probes (in ps per
/// probe), never below 0.
pub fn net_ns(cells: &[Cell], added: &[Total], probe_cost_ps: u64, which: impl Fn(&Cell) -> bool) -> u64 {
    cells.iter().zip(added).filter(|(cell, _)| which(cell)).map(|(_, total)| net(*total, probe_cost_ps)).sum()
}

/// Returns a cell's time less the cost of its probes, in ns.
pub fn net(total: Total, probe_cost_ps: u64) -> u64 {
    total.ns.saturating_sub(probe_ns(total, probe_cost_ps))
}

/// Returns the part of a cell's time that the probes cost, in ns.
pub fn probe_ns(total: Total, probe_cost_ps: u64) -> u64 {
    let cost = u128::from(total.probes) * u128::from(probe_cost_ps) / 1000;
    total.ns.min(u64::try_from(cost).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_model::actors::ActorId;
    use longpole_model::names::NameId;
    use longpole_model::step::{Op, Step};

    #[test]
    fn windows_cover_the_run_and_sum_to_the_whole() {
        for length in [1i64, 50_000, 3_000_000, 7_777_777_777] {
            let (mut windows, mut activity) = (Windows::default(), Activity::default());
            for at in 0..=1000 {
                let op = if at % 2 == 0 { Op::Begin { name: NameId(0) } } else { Op::End { name: NameId(0) } };
                let step = Step { t_ns: 5 + length * at / 1000, actor: ActorId(0), op };
                windows.at(step.t_ns, &activity);
                activity.step(&step);
            }
            let all = windows.finish(5 + length, &activity);
            assert!(all.len() <= MAX_WINDOWS + 1, "{}", all.len());
            assert!(length < 7_000_000 || all.len() >= MAX_WINDOWS / 2, "{}", all.len());
            let sum: u64 = all.iter().flat_map(|window| &window.added).map(|total| total.ns).sum();
            assert_eq!(sum, length as u64);
            assert!(all.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
        }
    }
}
