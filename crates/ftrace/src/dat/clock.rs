//! The times of a trace.dat: what its options add to the kernel's own, as trace-cmd does it.
//!
//! A guest's file holds what its clock was measured to be behind its host's, at several moments and for each of its CPUs; a file with times
//! in cycles, how long one is; and any, what is to be added. The samples of a guest are used as they are, a line between two of them.

use super::parts::Cursor;
use super::DatOption;
use crate::page::ByteOrder;

const DATE: u16 = 1;
const OFFSET: u16 = 7;
const TRACEID: u16 = 11;
const TIME_SHIFT: u16 = 12;
const TSC2NSEC: u16 = 14;
/// Of the flags of `TIME_SHIFT`.
const INTERPOLATE: u32 = 1;
/// Beyond any time, and small enough to be multiplied by 32 bits.
const MOST_CYCLES: i128 = 1 << 92;

/// What makes times of the stamps in the pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Which recording this is a part of, with its host or guests.
    pub trace_id: Option<u64>,
    /// By what cycles become ns.
    pub cycles: Option<Cycles>,
    shift: Option<Shift>,
    offset_ns: i128,
}

/// A cycle is `multiplier / 2^shift` ns.
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

/// What was measured at a moment.
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
                // Stored as text: the one in microseconds, the other in nanoseconds.
                DATE => clock.offset_ns = clock.offset_ns + i128::from(number(data)) * 1000,
                OFFSET => clock.offset_ns = clock.offset_ns + i128::from(number(data)),
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

    /// Whether the stamps are what is told.
    pub fn is_plain(&self) -> bool {
        *self == Clock { trace_id: self.trace_id, ..Clock::default() }
    }

    /// The time in ns of a stamp that a CPU took: exact, and within a quarter of what 128 bits hold.
    #[inline]
    pub fn time(&self, cpu: u32, stamp: u64) -> i128 {
        let mut time = i128::from(stamp);
        if let Some(samples) = self.shift.as_ref().and_then(|shift| Some((shift, shift.cpus.get(cpu as usize)?))) {
            time = samples.0.time(samples.1, stamp);
        }
        if let Some(Cycles { multiplier, shift }) = self.cycles {
            time = (time.clamp(-MOST_CYCLES, MOST_CYCLES) * i128::from(multiplier)) >> shift;
        }
        time + self.offset_ns
    }
}

impl Shift {
    /// Peer, flags, and for each CPU its samples; the fractions of all follow behind, where the file has them.
    fn parse(at: &mut Cursor<'_>) -> Option<Shift> {
        at.u64().ok()?;
        let interpolate = at.u32().ok()? & INTERPOLATE != 0;
        let count = at.u32().ok()?;
        let mut cpus = Vec::new();
        for _ in 0..count {
            let count = at.u32().ok()?;
            // Each has 24 bytes here.
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
            // The two around it, or the nearest two.
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
            offset = offset.saturating_add(part.saturating_add(length / 2) / length).clamp(-MOST_CYCLES, MOST_CYCLES);
        }
        let scaled = (u128::from(time) * u128::from(first.scaling)) >> first.fraction;
        scaled.min(MOST_CYCLES as u128) as i128 + offset
    }
}

/// A number as C reads it: maybe negative, maybe in hexadecimal; what follows it is nothing.
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
