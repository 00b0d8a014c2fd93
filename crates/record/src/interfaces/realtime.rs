//! The kernel stamps packets with CLOCK_REALTIME. That clock is steered, and somebody may set it; the recording's is neither.
//!
//! Both are read together some twenty times a second. Between two such pairs the distance of the clocks is interpolated. Where it
//! has jumped between them, a packet's time was taken before or after the jump: whichever of the two lies between the pairs.

use crate::clock::Clock;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time between two pairs.
const STEP: Duration = Duration::from_millis(50);
/// Packets wait in the kernel for less than the time that these cover.
const PAIRS: usize = 16;
/// No steering moves a clock by so much within a step, in ns.
const JUMP: i64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The recording's clock, ns of Unix time.
    own: i64,
    /// How far it is ahead of CLOCK_REALTIME.
    ahead: i64,
}

#[derive(Debug)]
pub struct Realtime {
    clock: Clock,
    pairs: VecDeque<Pair>,
    last: Instant,
    /// Of the greatest jump, ns.
    pub jump: i64,
}

impl Realtime {
    pub fn new(clock: Clock) -> Realtime {
        let mut new = Realtime { clock, pairs: VecDeque::with_capacity(PAIRS), last: Instant::now(), jump: 0 };
        new.pair();
        new
    }

    /// Reads the clocks if it is time, or if `now`.
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

    /// The recording's time of the newest pair.
    pub fn newest(&self) -> i64 {
        self.pairs.back().map_or(0, |pair| pair.own)
    }

    /// A time of CLOCK_REALTIME on the recording's clock.
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
        // Before the first pair, or a little after the newest.
        let first = self.pairs.front().filter(|pair| real + pair.ahead < pair.own);
        first.or(self.pairs.back()).map_or(real, |pair| real.saturating_add(pair.ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Calibration, Source};

    fn with(pairs: &[(i64, i64)]) -> Realtime {
        let mut clock = Realtime::new(Calibration::begin(Source::MonoRaw).finish());
        clock.pairs.clear();
        pairs.iter().for_each(|&(own, ahead)| clock.add(Pair { own, ahead }));
        clock
    }

    #[test]
    fn between_two_pairs_the_distance_of_the_clocks_is_interpolated() {
        let clock = with(&[(1_000_000_000, 100), (1_100_000_000, 300)]);
        assert_eq!(clock.convert(1_000_000_000 - 100), 1_000_000_000);
        assert!((clock.convert(1_100_000_000 - 300) - 1_100_000_000).abs() <= 1);
        assert!((clock.convert(1_050_000_000 - 200) - 1_050_000_000).abs() <= 1);
        // Outside of them it is that of the nearer one.
        assert_eq!(clock.convert(900_000_000), 900_000_100);
        assert_eq!(clock.convert(1_200_000_000), 1_200_000_300);
        assert_eq!(clock.jump, 0);
    }

    #[test]
    fn a_clock_that_was_set_moves_no_packet() {
        // Between the last two pairs somebody set it an hour ahead: our clock is behind it by so much from then on.
        const HOUR: i64 = 3_600_000_000_000;
        let clock = with(&[(1_000_000_000, 0), (1_100_000_000, 0), (1_200_000_000, -HOUR)]);
        assert_eq!(clock.convert(1_050_000_000), 1_050_000_000);
        assert_eq!(clock.convert(1_150_000_000), 1_150_000_000);
        assert_eq!(clock.convert(1_170_000_000 + HOUR), 1_170_000_000);
        assert_eq!(clock.convert(1_210_000_000 + HOUR), 1_210_000_000);
        assert_eq!(clock.jump, -HOUR);
        // Back by half a second.
        let clock = with(&[(1_000_000_000, 0), (1_100_000_000, 500_000_000)]);
        assert_eq!(clock.convert(1_080_000_000), 1_080_000_000);
        assert_eq!(clock.convert(590_000_000), 1_090_000_000);
    }

    #[test]
    fn the_present_is_the_present() {
        let clock = Calibration::begin(Source::choose()).finish();
        let mut realtime = Realtime::new(clock);
        let (own, real) = (clock.unix_ns(clock.now()), crate::clock::unix_now() as i64);
        realtime.refresh(true);
        assert!((realtime.convert(real) - own).abs() < 1_000_000);
    }
}
