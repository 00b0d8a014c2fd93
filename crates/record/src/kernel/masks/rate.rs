//! Decides whether calls of `sched_setaffinity` are watched, from the rate of the kernel's events.
//!
//! While one event of a single system call is enabled, the kernel runs a second function at the
//! begin and the end of every call of the host, which takes some 80 ns. That is as much as both
//! events of the call itself cost. A busy server makes hundreds of thousands of calls a second, and
//! hardly ever changes a mask. So masks are not watched while many events come.

use crate::kernel::source::cpu_loss::stats;
use longpole_ftrace::Instance;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Time between two looks at the rate.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Events per second of one CPU from which on calls are not watched. Less than half of them are
/// begins of calls, so watching costs at most 0.4 % of the CPU below this rate.
const BUSY: f64 = 100_000.0;
/// Events per second of each CPU below which calls are watched again.
const CALM: f64 = BUSY / 2.0;

/// The rate of events of an instance.
#[derive(Debug)]
pub(super) struct EventRate {
    /// The file `stats` of each CPU. While it is open, the instance cannot be removed.
    stats: Vec<File>,
    last: Instant,
    counts: Vec<u64>,
}

impl EventRate {
    pub fn of(instance: &Instance) -> io::Result<EventRate> {
        let cpus = instance.cpus().map_err(io::Error::other)?;
        let open = |cpu: &u32| File::open(instance.path().join(format!("per_cpu/cpu{cpu}/stats")));
        let stats = cpus.iter().map(open).collect::<io::Result<Vec<File>>>()?;
        let counts = stats.iter().map(count).collect::<io::Result<_>>()?;
        Ok(EventRate { stats, last: Instant::now(), counts })
    }

    /// Returns the events per second of the busiest CPU since the last call. `None` if less than
    /// [`LOOK_INTERVAL`] has passed.
    pub fn highest(&mut self) -> Option<io::Result<f64>> {
        let spent = self.last.elapsed();
        (spent >= LOOK_INTERVAL).then(|| self.since_last(spent))
    }

    fn since_last(&mut self, spent: Duration) -> io::Result<f64> {
        self.last = Instant::now();
        let mut highest = 0;
        for (file, before) in self.stats.iter().zip(&mut self.counts) {
            let now = count(file)?;
            highest = highest.max(now.saturating_sub(std::mem::replace(before, now)));
        }
        Ok(highest as f64 / spent.as_secs_f64())
    }
}

/// Returns the number of events of a CPU since the begin, including those that were overwritten.
fn count(file: &File) -> io::Result<u64> {
    let stats = stats(file)?;
    Ok(stats.entries + stats.read + stats.lost())
}

/// True if calls are to be watched from now on.
pub(super) fn watches(watched: bool, rate: f64) -> bool {
    rate < if watched { BUSY } else { CALM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_watched_while_few_events_come_and_again_only_when_it_is_calm() {
        let rates = [0.0, 99_000.0, 101_000.0, 60_000.0, 49_000.0, 60_000.0, 3e6, f64::NAN];
        let mut watched = true;
        let decided = rates.map(|rate| {
            watched = watches(watched, rate);
            watched
        });
        assert_eq!(decided, [true, true, false, false, true, true, false, false]);
    }
}
