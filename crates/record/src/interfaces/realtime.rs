//! Converts times of CLOCK_REALTIME to the recording's clock. The kernel gives packets times of
//! CLOCK_REALTIME, which NTP adjusts and anyone with the permission may set; the recording's clock
//! is affected by neither.
//!
//! Both clocks are read together some twenty times per second. Between two such pairs, the
//! difference of the clocks is interpolated. If the difference has jumped between two pairs, a
//! packet's time is from before or after the jump; the one whose result is between the pairs is
//! used.

use crate::clock::Clock;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time between two pairs.
const STEP: Duration = Duration::from_millis(50);
/// Number of pairs that are remembered. Packets wait in the kernel for a shorter time than these
/// pairs cover.
const PAIRS: usize = 16;
/// Smallest change of the difference, in ns, that counts as a jump. No adjustment moves a clock
/// this much between two pairs.
const JUMP: i64 = 1_000_000;

/// Readings of both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Time on the recording's clock, in ns of Unix time.
    own: i64,
    /// Time by which the recording's clock is ahead of CLOCK_REALTIME, in ns.
    ahead: i64,
}

/// Converter from CLOCK_REALTIME to the recording's clock.
#[derive(Debug)]
pub struct Realtime {
    clock: Clock,
    /// Recent pairs of both clocks.
    pairs: VecDeque<Pair>,
    last: Instant,
    /// The largest jump in ns; 0 if there was none.
    pub jump: i64,
}

impl Realtime {
    pub fn new(clock: Clock) -> Realtime {
        let mut new = Realtime { clock, pairs: VecDeque::with_capacity(PAIRS), last: Instant::now(), jump: 0 };
        new.pair();
        new
    }

    /// Reads the clocks if the last reading is old enough, or always if `now` is set.
    pub fn refresh(&mut self, now: bool) {
        if now || self.last.elapsed() >= STEP {
            self.last = Instant::now();
            self.pair();
        }
    }

    fn pair(&mut self) {
        let (own, ahead) = self.clock.pair_with_realtime();
        self.add(Pair { own, ahead });
    }

    fn add(&mut self, pair: Pair) {
        if let Some(before) = self.pairs.back() {
            let moved = pair.ahead - before.ahead;
            if moved.abs() > self.jump.abs().max(JUMP) {
                self.jump = moved;
            }
        }
        if self.pairs.len() == PAIRS {
            self.pairs.pop_front();
        }
        self.pairs.push_back(pair);
    }

    /// Returns the time of the newest pair on the recording's clock, in ns.
    pub fn newest(&self) -> i64 {
        self.pairs.back().map_or(0, |pair| pair.own)
    }

    /// Converts a time of CLOCK_REALTIME to the recording's clock, both in ns of Unix time.
    pub fn convert(&self, real: i64) -> i64 {
        for (after, before) in self.pairs.iter().rev().zip(self.pairs.iter().rev().skip(1)) {
            let within = |own: i64| (before.own..=after.own).contains(&own).then_some(own);
            let moved = after.ahead - before.ahead;
            let found = if moved.abs() > JUMP {
                within(real + before.ahead).or(within(real + after.ahead))
            } else {
                let passed = i128::from(real + before.ahead - before.own);
                let share = i128::from(moved) * passed / i128::from((after.own - before.own).max(1));
                within((real + before.ahead).saturating_add(share as i64))
            };
            if let Some(own) = found {
                return own;
            }
        }
        // The time is before the first pair or a little after the newest one.
        let first = self.pairs.front().filter(|pair| real + pair.ahead < pair.own);
        first.or(self.pairs.back()).map_or(real, |pair| real.saturating_add(pair.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Calibration, ClockSource};

    fn with(pairs: &[(i64, i64)]) -> Realtime {
        let mut clock = Realtime::new(Calibration::begin(ClockSource::MonoRaw).finish());
        clock.pairs.clear();
        pairs.iter().for_each(|&(own, ahead)| clock.add(Pair { own, ahead }));
        clock
    }

    #[test]
    fn between_two_pairs_the_difference_of_the_clocks_is_interpolated() {
        let clock = with(&[(1_000_000_000, 100), (1_100_000_000, 300)]);
        assert_eq!(clock.convert(1_000_000_000 - 100), 1_000_000_000);
        assert!((clock.convert(1_100_000_000 - 300) - 1_100_000_000).abs() <= 1);
        assert!((clock.convert(1_050_000_000 - 200) - 1_050_000_000).abs() <= 1);
        // Outside of all pairs, the difference is that of the nearest pair.
        assert_eq!(clock.convert(900_000_000), 900_000_100);
        assert_eq!(clock.convert(1_200_000_000), 1_200_000_300);
        assert_eq!(clock.jump, 0);
    }

    #[test]
    fn setting_the_clock_moves_no_packet() {
        // Between the last two pairs, CLOCK_REALTIME is set ahead by an hour, so our clock is
        // behind it by an hour from then on.
        const HOUR: i64 = 3_600_000_000_000;
        let clock = with(&[(1_000_000_000, 0), (1_100_000_000, 0), (1_200_000_000, -HOUR)]);
        assert_eq!(clock.convert(1_050_000_000), 1_050_000_000);
        assert_eq!(clock.convert(1_150_000_000), 1_150_000_000);
        assert_eq!(clock.convert(1_170_000_000 + HOUR), 1_170_000_000);
        assert_eq!(clock.convert(1_210_000_000 + HOUR), 1_210_000_000);
        assert_eq!(clock.jump, -HOUR);
        // CLOCK_REALTIME is set back by half a second.
        let clock = with(&[(1_000_000_000, 0), (1_100_000_000, 500_000_000)]);
        assert_eq!(clock.convert(1_080_000_000), 1_080_000_000);
        assert_eq!(clock.convert(590_000_000), 1_090_000_000);
    }

    #[test]
    fn the_present_is_converted_to_the_present() {
        let clock = Calibration::begin(ClockSource::choose()).finish();
        let mut realtime = Realtime::new(clock);
        let (own, real) = (clock.unix_ns(clock.now()), crate::clock::unix_now() as i64);
        realtime.refresh(true);
        assert!((realtime.convert(real) - own).abs() < 1_000_000);
    }
}
