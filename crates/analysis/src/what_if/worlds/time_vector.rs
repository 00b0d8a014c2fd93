//! Vectors with the simulated times of all worlds.
//!
//! A vector has one time for each lane, in ns since the start: the observed time, then the replays.
//! Times are f64, because every processor adds several of them at once and takes their maxima;
//! whole ns are exact up to 2^53, which is 104 days.
//!
//! The lanes:
//!
//! - observed: no replay, but the trace's own time, from which delays are taken;
//! - gate: the unchanged trace, in which only what is explained takes time; it decides whether the
//!   trace is good enough to predict from;
//! - unchanged: the unchanged trace without the recorder. A wait of unknown cause keeps its
//!   duration;
//! - with recording: the same with the recorder and the cost of probes, which shows how far the
//!   replay is from what was observed;
//! - the scenarios, one lane each, in which such waits keep their duration, too. The lanes from
//!   `unchanged` to here are the *kept* lanes;
//! - bare: the unchanged trace and each scenario once more, where neither such waits nor reactions
//!   to tokens take time. This is the other end of the interval of a prediction.

use std::ops::Range;

/// The lane of the trace's own time.
pub const OBSERVED: usize = 0;
/// The lane of the replay that decides whether anything is predicted.
pub const GATE: usize = 1;
/// The lane of the unchanged replay that predictions start from.
pub const UNCHANGED: usize = 2;
/// Like `UNCHANGED`, with the cost of recording (probes, and the recorder's work). Nothing is
/// predicted from it; it shows how far the replay is from what was observed.
pub const WITH_RECORDING: usize = 3;
/// The first scenario's lane.
const FIRST_SCENARIO: usize = 4;

/// The arrival time, in every world, of something that delays no receiver.
pub const NEVER_DELAYS: f64 = -1e18;

/// Returns true for [`NEVER_DELAYS`], also after some delays were added.
pub fn is_long_ago(v: f64) -> bool {
    v < 0.5 * NEVER_DELAYS
}

/// Positions of the lanes, for a number of scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub scenarios: usize,
}

impl Layout {
    pub fn len(self) -> usize {
        FIRST_SCENARIO + 1 + 2 * self.scenarios
    }

    /// Lanes of the replays in which waits of unknown cause keep their duration, the unchanged
    /// trace first.
    pub fn kept(self) -> Range<usize> {
        UNCHANGED..FIRST_SCENARIO + self.scenarios
    }

    /// Index of a scenario's lane among the kept lanes.
    pub fn world(scenario: usize) -> usize {
        FIRST_SCENARIO - UNCHANGED + scenario
    }

    /// Scenario of a kept lane.
    pub fn scenario_of(self, lane: usize) -> usize {
        lane - FIRST_SCENARIO
    }

    /// Lanes of the replays without unexplained waits and reactions, the unchanged trace first.
    pub fn bare(self) -> Range<usize> {
        FIRST_SCENARIO + self.scenarios..self.len()
    }

    /// Lanes of the worlds without recording.
    pub fn unrecorded(self) -> impl Iterator<Item = usize> {
        (UNCHANGED..self.len()).filter(|&lane| lane != WITH_RECORDING)
    }

    /// Both lanes of a scenario: kept and bare.
    pub fn of(self, scenario: usize) -> [usize; 2] {
        [FIRST_SCENARIO + scenario, self.bare().start + 1 + scenario]
    }

    /// Lane of an entry of a list that has two entries for each scenario, in the order of
    /// [`Layout::of`].
    pub fn of_entry(self, entry: usize) -> usize {
        self.of(entry / 2)[entry % 2]
    }

    /// Words with a bit set for each kept lane.
    pub fn words_of_kept(self) -> impl Iterator<Item = u64> {
        let kept = self.kept().len();
        (0..self.words()).map(move |word| u64::MAX >> (64 - (kept - word * 64).min(64)))
    }

    /// Number of words for one bit per kept lane.
    pub fn words(self) -> usize {
        self.kept().len().div_ceil(64)
    }
}

/// Factors of all lanes; `None` if all are 1.
pub type Row = Option<Box<[f64]>>;

/// Adds `ns` times the lane's factor to each lane.
pub fn add(v: &mut [f64], ns: f64, row: &Row) {
    match row {
        None => v.iter_mut().for_each(|v| *v += ns),
        Some(row) => v.iter_mut().zip(row).for_each(|(v, factor)| *v += ns * factor),
    }
}

pub fn add_all(v: &mut [f64], other: &[f64]) {
    v.iter_mut().zip(other).for_each(|(v, other)| *v += other);
}

/// Sets each lane to the later of its own time and `other + ns`.
pub fn later(v: &mut [f64], other: &[f64], ns: f64) {
    for (v, other) in v.iter_mut().zip(other) {
        let other = other + ns;
        // Not f64::max, whose handling of NaN costs several instructions.
        *v = if other > *v { other } else { *v };
    }
}

/// Like [`later`], with `ns` times the lane's factor.
pub fn later_scaled(v: &mut [f64], other: &[f64], ns: f64, row: &[f64]) {
    for ((v, other), factor) in v.iter_mut().zip(other).zip(row) {
        let other = other + ns * factor;
        *v = if other > *v { other } else { *v };
    }
}

/// Sets a bit for each lane in which `other`, plus `ns` times its factor, is later. Returns whether
/// any is.
pub fn won(v: &[f64], other: &[f64], ns: f64, row: Option<&[f64]>, bits: &mut [u64]) -> bool {
    let mut any = 0;
    for (at, word) in bits.iter_mut().enumerate() {
        let part = |lanes: &[f64]| -> Range<usize> { (at * 64).min(lanes.len())..((at + 1) * 64).min(lanes.len()) };
        let (v, other) = (&v[part(v)], &other[part(other)]);
        *word = match row {
            None => mask(v, other, |_| ns),
            Some(row) => {
                let row = &row[part(row)];
                mask(v, other, |lane| ns * row[lane])
            }
        };
        any |= *word;
    }
    any != 0
}

/// Sets the bit of a kept lane.
pub fn set_bit(bits: &mut [u64], lane: usize) {
    bits[(lane - UNCHANGED) / 64] |= 1 << ((lane - UNCHANGED) % 64);
}

/// Clears the bit of a kept lane.
pub fn clear_bit(bits: &mut [u64], lane: usize) {
    bits[(lane - UNCHANGED) / 64] &= !(1 << ((lane - UNCHANGED) % 64));
}

/// Sets the bits to these words.
pub fn all(bits: &mut [u64], words: impl Iterator<Item = u64>) -> bool {
    bits.iter_mut().zip(words).for_each(|(bits, word)| *bits = word);
    true
}

/// Sets a lane to `own + waited` if that is earlier and `is_so` holds for its own time and the
/// other one. Sets a bit for each of the first lanes in which that happened. Returns whether any
/// did.
pub fn sooner(
    v: &mut [f64],
    own: &[f64],
    other: &[f64],
    waited: f64,
    is_so: impl Fn(f64, f64) -> bool,
    first: usize,
    bits: &mut [u64],
) -> bool {
    bits.fill(0);
    let mut any = false;
    for (lane, ((v, &own), &other)) in v.iter_mut().zip(own).zip(other).enumerate() {
        let until = own + waited;
        if is_so(own, other) && until < *v {
            *v = until;
            if lane < first {
                bits[lane / 64] |= 1 << (lane % 64);
                any = true;
            }
        }
    }
    any
}

fn mask(v: &[f64], other: &[f64], ns: impl Fn(usize) -> f64) -> u64 {
    v.iter().zip(other).enumerate().fold(0, |mask, (lane, (v, other))| mask | u64::from(other + ns(lane) > *v) << lane)
}
