//! A path cut into windows of equal width, exact to the ns.
//!
//! The start and the end of a path are known before it is cut, so the windows can be equal. For a
//! run that is still being read they are not known; [`crate::stats::windows`] therefore cuts it
//! into windows whose width is the first width times a power of two, and adds a state's time to the
//! window in which the state ends.

use crate::critical_path::{Answer, Stretch};
use crate::stats::evidence::Evidence;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    start: u64,
    length: u64,
    windows: usize,
    /// Window in which the last stretch ended, and the end of that window in ns.
    at: usize,
    until: u64,
}

impl Cut {
    pub fn new(answer: &Answer, windows: usize) -> Cut {
        let mut cut = Cut { start: answer.start_ns, length: answer.length_ns.max(1), windows, at: 0, until: 0 };
        cut.until = cut.end(0);
        cut
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    fn bound(&self, window: usize) -> u64 {
        self.start + (u128::from(self.length) * window as u128 / self.windows as u128) as u64
    }

    /// Returns the end of a window. The last window has no end, so that rounding loses no time.
    fn end(&self, window: usize) -> u64 {
        if window + 1 < self.windows {
            self.bound(window + 1)
        } else {
            u64::MAX
        }
    }

    /// Adds the stretch's time to the windows in which it lies. Stretches must come in the order of
    /// time.
    pub fn add(&mut self, stretch: &Stretch, times: &mut [u64]) {
        let mut at = stretch.start;
        while at < stretch.end {
            while at >= self.until {
                self.at += 1;
                self.until = self.end(self.at);
            }
            let end = stretch.end.min(self.until);
            times[self.at] += end - at;
            at = end;
        }
    }

    /// Returns times in ns as shares of their windows, 0 to 1.
    pub fn shares(&self, times: &[u64]) -> Vec<f64> {
        let width = |window: usize| (self.bound(window + 1) - self.bound(window)).max(1) as f64;
        times.iter().enumerate().map(|(window, &ns)| ns as f64 / width(window)).collect()
    }

    /// Returns the window with most of these times, as evidence.
    pub fn evidence(&self, times: &[u64]) -> Evidence {
        let most = (0..self.windows).max_by_key(|&at| times[at]).unwrap_or(0);
        Evidence { start_ns: self.bound(most) as i64, end_ns: self.bound(most + 1) as i64 }
    }
}
