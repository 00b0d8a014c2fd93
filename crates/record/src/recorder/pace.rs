//! When the next turn is due.

use std::time::{Duration, Instant};

/// Shortest time between two turns.
const MIN_TURN: Duration = Duration::from_millis(1);
/// Time after the birth of a process during which its rate of events is unknown; the recorder then
/// takes turns as often as it can.
const UNKNOWN_RATE_TIME: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// Times of turns.
#[derive(Debug)]
pub(super) struct Pace {
    last_turn: Instant,
    /// Time until the next turn, from how fast rings fill.
    interval: Duration,
    last_second: Instant,
}

impl Pace {
    pub fn new() -> Pace {
        let now = Instant::now();
        Pace { last_turn: now, interval: MIN_TURN, last_second: now }
    }

    /// Returns whether a second has passed since the last call that returned true.
    pub fn is_new_second(&mut self, now: Instant) -> bool {
        let is_new = now - self.last_second >= SECOND;
        if is_new {
            self.last_second = now;
        }
        is_new
    }

    /// Ends a turn. Returns the time since the end of the turn before.
    pub fn end_turn(&mut self, now: Instant) -> Duration {
        let since = now - self.last_turn;
        self.last_turn = now;
        since
    }

    /// Makes the next turns as short as possible, because a new ring's rate is unknown, and its
    /// process may not have announced the ring yet.
    pub fn hurry(&mut self) {
        self.interval = Duration::ZERO;
    }

    /// Sets and returns the time until the next turn. If rings fill at the same rate as since the
    /// last turn, they are three eighths full by then, so that they are seldom more than half full.
    /// `newest`: time at which the newest process appeared.
    pub fn next(&mut self, pressure: f64, since: Duration, (now, newest): (Instant, Instant), period: Duration) -> Duration {
        if now - newest < UNKNOWN_RATE_TIME {
            self.interval = MIN_TURN.min(period);
            return self.interval;
        }
        // `pressure` is the largest share of a ring that was filled since the last turn. For a ring
        // that was full, the rate is unknown. A thread that was slow may only have had no CPU for a
        // moment and may be faster afterwards, so the interval at most doubles from turn to turn.
        let calm = match pressure {
            full if full >= 1.0 => MIN_TURN,
            some if some > 0.0 => since.max(MIN_TURN).mul_f64((0.375 / some).min(1000.0)),
            _ => period,
        };
        self.interval = calm.min(self.interval.max(MIN_TURN) * 2).clamp(MIN_TURN.min(period), period);
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_follows_the_rings_and_at_most_doubles() {
        let period = Duration::from_millis(100);
        let mut pace = Pace::new();
        let now = Instant::now() + 2 * UNKNOWN_RATE_TIME;
        let long_ago = now.checked_sub(2 * UNKNOWN_RATE_TIME).unwrap();
        let since = Duration::from_millis(10);
        let mut next = |pressure, newest| pace.next(pressure, since, (now, newest), period);
        assert_eq!([next(0.0, long_ago), next(0.0, long_ago)], [MIN_TURN * 2, MIN_TURN * 4]);
        assert_eq!(next(1.0, long_ago), MIN_TURN);
        assert_eq!(next(0.75, long_ago), MIN_TURN * 2);
        (0..10).for_each(|_| assert!(next(0.0, long_ago) <= period));
        assert_eq!(next(0.0, long_ago), period);
        assert_eq!(next(0.75, long_ago), since / 2);
        assert_eq!(next(0.0, now), MIN_TURN);
    }
}
