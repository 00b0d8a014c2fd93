//! The clock of a recording: the raw counter that probes read, and its conversion to Unix time.
//!
//! The rate and the offset are fixed when the recording begins and never changed, because files
//! that were written at different times must agree. The rate is measured against
//! CLOCK_MONOTONIC_RAW, which is never slewed; one offset then relates it to CLOCK_REALTIME. The
//! later deviation from CLOCK_REALTIME is the residual, which is stored separately.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The clock that timestamps count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The CPU's counter: TSC on x86-64, CNTVCT on arm64.
    Counter,
    /// CLOCK_MONOTONIC_RAW in ns.
    MonoRaw,
}

impl ClockSource {
    /// Chooses the counter, unless it is unusable on this host or the user forbids it with
    /// `LONGPOLE_CLOCK=mono_raw`.
    pub fn choose() -> ClockSource {
        let forced = std::env::var_os("LONGPOLE_CLOCK").is_some_and(|value| value == "mono_raw");
        if forced || !counter_is_a_clock() {
            ClockSource::MonoRaw
        } else {
            ClockSource::Counter
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Counter if cfg!(target_arch = "aarch64") => "cntvct",
            ClockSource::Counter => "tsc",
            ClockSource::MonoRaw => "mono_raw",
        }
    }

    /// Number of the clock in `orders.clock`.
    pub fn number(self) -> u32 {
        match self {
            ClockSource::Counter => longpole_abi::CLOCK_COUNTER,
            ClockSource::MonoRaw => longpole_abi::CLOCK_MONO_RAW,
        }
    }

    pub fn now(self) -> u64 {
        match self {
            ClockSource::Counter => counter(),
            ClockSource::MonoRaw => time_of(libc::CLOCK_MONOTONIC_RAW),
        }
    }
}

/// Returns whether the counter runs at a constant rate at all times. The generic timer of arm64
/// does by definition.
pub fn counter_is_a_clock() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or("");
    let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
    has("constant_tsc") && has("nonstop_tsc")
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it in user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let value: u64;
    // SAFETY: reads a register that Linux makes available to user space.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

fn time_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into `time`; all clocks used here exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Unix time in ns by the system's clock.
pub fn unix_now() -> u64 {
    time_of(libc::CLOCK_REALTIME)
}

/// A counter value and the time of `clock` at the same moment: the pair with the smallest
/// uncertainty of `attempts`.
fn pair(source: ClockSource, clock: libc::clockid_t, attempts: u32) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..attempts {
        let before = source.now();
        let time = time_of(clock);
        let after = source.now();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, time);
        }
    }
    (best.1, best.2)
}

/// Conversion of counter values: the Unix time is `offset_s + (offset + value) / frequency`
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub source: ClockSource,
    /// Rate in Hz.
    pub frequency: u64,
    pub offset_s: i64,
    /// Ticks, less than `frequency`.
    pub offset: u64,
}

/// The first half of a calibration. A longer time until [`Calibration::finish`] makes it more
/// exact.
#[derive(Debug)]
pub struct Calibration {
    source: ClockSource,
    begin: Instant,
    first: (u64, u64),
}

/// Minimum time between the two measurements of the rate.
const BASE: Duration = Duration::from_millis(120);
/// Number of pairs from which the best one is taken.
const PAIRS: u32 = 300;

impl Calibration {
    /// Takes the first measurement.
    pub fn begin(source: ClockSource) -> Calibration {
        let first = match source {
            ClockSource::Counter => pair(source, libc::CLOCK_MONOTONIC_RAW, PAIRS),
            ClockSource::MonoRaw => (0, 0),
        };
        Calibration { source, begin: Instant::now(), first }
    }

    /// Takes the second measurement, at least 120 ms after the first one if the clock is the
    /// counter.
    pub fn finish(self) -> Clock {
        let frequency = match self.source {
            ClockSource::MonoRaw => 1_000_000_000,
            ClockSource::Counter => {
                thread::sleep(BASE.saturating_sub(self.begin.elapsed()));
                let (counter, raw) = pair(self.source, libc::CLOCK_MONOTONIC_RAW, PAIRS);
                let ticks = u128::from(counter.saturating_sub(self.first.0));
                let ns = u128::from(raw.saturating_sub(self.first.1)).max(1);
                ((ticks * 1_000_000_000 + ns / 2) / ns).max(1) as u64
            }
        };
        let (counter, unix) = pair(self.source, libc::CLOCK_REALTIME, PAIRS);
        let ticks = i128::from(unix) * i128::from(frequency) / 1_000_000_000 - i128::from(counter);
        let per_second = i128::from(frequency);
        Clock { source: self.source, frequency, offset_s: ticks.div_euclid(per_second) as i64, offset: ticks.rem_euclid(per_second) as u64 }
    }
}

impl Clock {
    /// Returns the clock that a recording on this host describes: the name of its counter, its rate
    /// in Hz, and the Unix time in ns of counter value 0. `None` if it has no such counter.
    pub fn described(source: &str, frequency: u64, offset_ns: i64) -> Option<Clock> {
        let source = [ClockSource::Counter, ClockSource::MonoRaw].into_iter().find(|known| known.name() == source)?;
        if frequency == 0 {
            return None;
        }
        let rest = offset_ns.rem_euclid(1_000_000_000) as u128;
        let offset = (rest * u128::from(frequency) / 1_000_000_000) as u64;
        Some(Clock { source, frequency, offset_s: offset_ns.div_euclid(1_000_000_000), offset })
    }

    pub fn now(&self) -> u64 {
        self.source.now()
    }

    /// A counter value and CLOCK_MONOTONIC_RAW in ns at the same moment.
    pub fn raw_pair(&self) -> (u64, u64) {
        pair(self.source, libc::CLOCK_MONOTONIC_RAW, 5)
    }

    /// Counter value at the time `raw` of CLOCK_MONOTONIC_RAW, which should be near that of `pair`.
    pub fn of_raw(&self, pair: (u64, u64), raw: u64) -> u64 {
        if self.source == ClockSource::MonoRaw {
            return raw;
        }
        let ns = i128::from(raw) - i128::from(pair.1);
        let value = i128::from(pair.0) + ns * i128::from(self.frequency) / 1_000_000_000;
        value.clamp(0, i128::from(u64::MAX)) as u64
    }

    /// Unix time in ns of a full counter value.
    pub fn unix_ns(&self, value: u64) -> i64 {
        let ticks = i128::from(self.offset) + i128::from(value);
        let ns = ticks * 1_000_000_000 / i128::from(self.frequency) + i128::from(self.offset_s) * 1_000_000_000;
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Ticks of a duration.
    pub fn ticks(&self, duration: Duration) -> u64 {
        (duration.as_nanos() * u128::from(self.frequency) / 1_000_000_000).min(u128::from(u64::MAX)) as u64
    }

    /// Unix time in ns of counter value 0.
    pub fn offset_ns(&self) -> i64 {
        self.unix_ns(0)
    }

    /// Difference between this clock and CLOCK_REALTIME now, in ns.
    pub fn residual_ns(&self) -> i64 {
        self.pair_with_realtime().1
    }

    /// This clock as Unix time in ns, and its lead over CLOCK_REALTIME at that moment, in ns.
    pub fn pair_with_realtime(&self) -> (i64, i64) {
        let (counter, unix) = pair(self.source, libc::CLOCK_REALTIME, 10);
        let own = self.unix_ns(counter);
        (own, own.saturating_sub(unix.min(i64::MAX as u64) as i64))
    }
}

/// The full counter value nearest to `near` whose low 48 bits are `low`. The distance must be less
/// than 2⁴⁷ ticks. The begin of a packet is near enough, because a living recorder takes a thread's
/// events within two periods.
pub fn extend(near: u64, low: u64) -> u64 {
    let difference = (low.wrapping_sub(near) << 16) as i64 >> 16;
    near.wrapping_add(difference as u64)
}

/// The newest counter value whose low 48 bits are `low` and that was reached at `now`. Values up to
/// 2^40 ticks after `now` are allowed, because a thread may read its clock, be delayed, and publish
/// its event after `now` was read.
pub fn newest(now: u64, low: u64) -> u64 {
    const AHEAD: u64 = 1 << 40;
    let back = (now.wrapping_add(AHEAD).wrapping_sub(low)) & 0xffff_ffff_ffff;
    now.wrapping_add(AHEAD).wrapping_sub(back)
}

/// The first counter value from `previous` on whose low 48 bits are `low`. Every reader of a trace
/// computes it in the same way.
pub fn following(previous: u64, low: u64) -> u64 {
    previous.wrapping_add(low.wrapping_sub(previous) & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_after_a_long_silence_gets_the_time_of_the_look_and_not_of_its_sub_buffer() {
        let begun = 0x0005_0000_0000_1234u64;
        // 20 hours, 31 hours and a year at 2.5 GHz.
        for silence in [180_000_000_000_000u64, 280_000_000_000_000, 78_840_000_000_000_000] {
            let written = begun + silence;
            let low = written & 0xffff_ffff_ffff;
            assert_ne!(extend(begun, low), written, "the begin does not determine it");
            // Events seen at once, after ten seconds and after a day; and one whose thread was a
            // second behind the look.
            for later in [0, 25_000_000_000, 216_000_000_000_000] {
                assert_eq!(newest(written + later, low), written);
            }
            assert_eq!(newest(written - 2_500_000_000, low), written);
        }
        assert_eq!(newest(5, 5), 5);
    }

    #[test]
    fn readers_advance_to_the_next_value_with_the_same_low_bits() {
        assert_eq!(following(0x1_0000_0000_0005, 5), 0x1_0000_0000_0005);
        assert_eq!(following(0x1_0000_0000_0005, 4), 0x2_0000_0000_0004);
        assert_eq!(following(u64::MAX, 0), 0);
    }

    #[test]
    fn forty_eight_bits_are_extended_in_both_directions() {
        let near = 0x0001_ffff_ffff_fff0u64;
        assert_eq!(extend(near, 0x0000_0000_0010), 0x0002_0000_0000_0010);
        assert_eq!(extend(near, 0xffff_ffff_ff00), 0x0001_ffff_ffff_ff00);
        assert_eq!(extend(5, 0xffff_ffff_ffff), u64::MAX);
    }

    #[test]
    fn counter_values_become_unix_time() {
        let clock = Clock { source: ClockSource::Counter, frequency: 2_000_000_000, offset_s: 100, offset: 1_000_000_000 };
        assert_eq!(clock.unix_ns(1_000_000_000), 101_000_000_000);
        assert_eq!(clock.offset_ns(), 100_500_000_000);
    }

    #[test]
    fn the_offset_is_less_than_a_second() {
        for source in [ClockSource::Counter, ClockSource::MonoRaw] {
            let clock = Calibration::begin(source).finish();
            assert!(clock.offset < clock.frequency);
            assert!(clock.offset_s > 0);
        }
    }
}
