//! Times of a trace.dat: the corrections that its options describe, applied in the same way as in
//! trace-cmd.
//!
//! The file of a guest holds samples of the difference between its clock and that of its host,
//! taken at several times and for each of its CPUs. The samples are used unchanged, with linear
//! interpolation between two of them if the file requests it. A file with times in cycles states
//! the length of a cycle. Any file may state an offset.

use super::parts::Cursor;
use super::DatOption;
use crate::byte_order::ByteOrder;

const DATE: u16 = 1;
const OFFSET: u16 = 7;
const TRACEID: u16 = 11;
const TIME_SHIFT: u16 = 12;
const TSC2NSEC: u16 = 14;
/// A flag of `TIME_SHIFT`.
const INTERPOLATE: u32 = 1;
/// Bound for times: greater than any real time, and small enough for a multiplication by a 32-bit
/// number.
const MAX_CYCLES: i128 = 1 << 92;

/// Converts the timestamps in the pages to times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Id of the recording, which is the same in the files of a host and its guests.
    pub trace_id: Option<u64>,
    /// Conversion of cycles to nanoseconds, if the file states it.
    pub cycles: Option<Cycles>,
    shift: Option<Shift>,
    offset_ns: i128,
}

/// The length of a cycle: `multiplier / 2^shift` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    pub multiplier: u32,
    pub shift: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shift {
    interpolate: bool,
    cpus: Vec<Vec<Sample>>,
}

/// A sample of the difference between two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    offset: i64,
    scaling: u64,
    fraction: u64,
}

impl Clock {
    pub(super) fn of(options: &[DatOption], order: ByteOrder) -> Clock {
        let mut clock = Clock::default();
        for DatOption { id, data } in options {
            let mut at = Cursor::memory(data, order);
            match *id {
                // Both are stored as text: `DATE` in microseconds, `OFFSET` in nanoseconds.
                DATE => clock.offset_ns += i128::from(number(data)) * 1000,
                OFFSET => clock.offset_ns += i128::from(number(data)),
                TRACEID => clock.trace_id = at.u64().ok(),
                TIME_SHIFT => clock.shift = Shift::parse(&mut at),
                TSC2NSEC => {
                    let (multiplier, shift) = (at.u32().unwrap_or(0), at.u32().unwrap_or(0));
                    if multiplier != 0 && shift < 64 {
                        clock.cycles = Some(Cycles { multiplier, shift });
                    }
                }
                _ => {}
            }
        }
        clock
    }

    /// Returns `true` if timestamps are times without any conversion.
    pub fn is_plain(&self) -> bool {
        *self == Clock { trace_id: self.trace_id, ..Clock::default() }
    }

    /// The time in nanoseconds of a timestamp that a CPU took. The result is exact and its absolute
    /// value is below 2¹²⁶.
    #[inline]
    pub fn time(&self, cpu: u32, stamp: u64) -> i128 {
        let mut time = i128::from(stamp);
        if let Some(samples) = self.shift.as_ref().and_then(|shift| Some((shift, shift.cpus.get(cpu as usize)?))) {
            time = samples.0.time(samples.1, stamp);
        }
        if let Some(Cycles { multiplier, shift }) = self.cycles {
            time = (time.clamp(-MAX_CYCLES, MAX_CYCLES) * i128::from(multiplier)) >> shift;
        }
        time + self.offset_ns
    }
}

impl Shift {
    /// Parses the peer, the flags, and the samples of each CPU. The fractions of all samples follow
    /// at the end, if the file has them.
    fn parse(at: &mut Cursor<'_>) -> Option<Shift> {
        at.u64().ok()?;
        let interpolate = at.u32().ok()? & INTERPOLATE != 0;
        let count = at.u32().ok()?;
        let mut cpus = Vec::new();
        for _ in 0..count {
            let count = at.u32().ok()?;
            // Each sample takes 24 bytes here.
            if u64::from(count) > at.left() / 24 {
                return None;
            }
            let mut samples = vec![Sample { scaling: 1, ..Sample::default() }; count as usize];
            for sample in &mut samples {
                sample.time = at.u64().ok()?;
            }
            for sample in &mut samples {
                sample.offset = at.u64().ok()? as i64;
            }
            for sample in &mut samples {
                sample.scaling = at.u64().ok()?;
            }
            cpus.push(samples);
        }
        if at.left() > 0 {
            for sample in cpus.iter_mut().flatten() {
                sample.fraction = at.u64().ok().filter(|bits| *bits < 64).unwrap_or(0);
            }
        }
        Some(Shift { interpolate, cpus })
    }

    fn time(&self, samples: &[Sample], time: u64) -> i128 {
        let (first, second) = match samples {
            [] => return time.into(),
            [one] => return i128::from(time) + i128::from(one.offset),
            // The two samples around the time, or the nearest two.
            several => {
                let after = several.partition_point(|sample| sample.time <= time).clamp(1, several.len() - 1);
                (&several[after - 1], &several[after])
            }
        };
        let mut offset = i128::from(first.offset);
        let length = i128::from(second.time) - i128::from(first.time);
        if self.interpolate && length > 0 {
            let change = i128::from(second.offset) - i128::from(first.offset);
            let part = (i128::from(time) - i128::from(first.time)).saturating_mul(change);
            offset = offset.saturating_add(part.saturating_add(length / 2) / length).clamp(-MAX_CYCLES, MAX_CYCLES);
        }
        let scaled = (u128::from(time) * u128::from(first.scaling)) >> first.fraction;
        scaled.min(MAX_CYCLES as u128) as i128 + offset
    }
}

/// Parses a number like C's strtoll: possibly negative or hexadecimal; anything after it is
/// ignored.
fn number(text: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let value = i64::from_str_radix(&digits[..end], radix).unwrap_or(0);
    if negative {
        -value
    } else {
        value
    }
}
