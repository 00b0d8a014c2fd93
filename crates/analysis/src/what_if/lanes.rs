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
//! - kept: the unchanged trace without the recorder; the same with the recorder and the cost of
//!   probes; then each scenario. A wait of unknown cause keeps its duration;
//! - bare: the unchanged trace and each scenario once more, where neither such waits nor reactions
//!   to tokens take time. This is the other end of the interval of a prediction.

use std::ops::Range;

/// The lane of the trace's own time.
pub const OBSERVED: usize = 0;
/// The lane of the replay that decides whether anything is predicted.
pub const GATE: usize = 1;
/// The lane of the unchanged replay that predictions start from.
pub const KEPT: usize = 2;
/// Like `KEPT`, with the cost of recording (probes, and the recorder's work). Nothing is predicted
/// from it; it shows how far the replay is from what was observed.
pub const WHOLE: usize = 3;
/// The first scenario's lane.
const CHANGED: usize = 4;

/// Positions of the lanes, for a number of scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub scenarios: usize,
}

impl Layout {
    pub fn len(self) -> usize {
        CHANGED + 1 + 2 * self.scenarios
    }

    /// Lanes of the replays in which waits of unknown cause keep their duration, the unchanged
    /// trace first.
    pub fn kept(self) -> Range<usize> {
        KEPT..CHANGED + self.scenarios
    }

    /// Index of a scenario's lane among the kept lanes.
    pub fn world(scenario: usize) -> usize {
        CHANGED - KEPT + scenario
    }

    /// Scenario of a kept lane.
    pub fn scenario_of(self, lane: usize) -> usize {
        lane - CHANGED
    }

    /// Lanes of the replays without unexplained waits and reactions, the unchanged trace first.
    pub fn bare(self) -> Range<usize> {
        CHANGED + self.scenarios..self.len()
    }

    /// Lanes of the worlds without recording.
    pub fn unrecorded(self) -> impl Iterator<Item = usize> {
        (KEPT..self.len()).filter(|&lane| lane != WHOLE)
    }

    /// Both lanes of a scenario: kept and bare.
    pub fn of(self, scenario: usize) -> [usize; 2] {
        [CHANGED + scenario, self.bare().start + 1 + scenario]
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

/// Shared vectors with counted holds: the times at which a token, a unit of room or a free CPU was
/// made.
#[derive(Debug)]
pub struct Slots {
    lanes: usize,
    data: Vec<f64>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    holds: u32,
    filled: bool,
    node: u64,
    /// Machines that wait until the slot is filled.
    waiting: Vec<u32>,
}

impl Slots {
    pub fn new(lanes: usize) -> Slots {
        Slots { lanes, data: Vec::new(), slots: Vec::new(), free: Vec::new() }
    }

    /// Returns a new empty slot, held once.
    pub fn make(&mut self) -> u32 {
        if let Some(at) = self.free.pop() {
            let slot = &mut self.slots[at as usize];
            (slot.holds, slot.filled) = (1, false);
            return at;
        }
        self.slots.push(Slot { holds: 1, ..Slot::default() });
        self.data.resize(self.data.len() + self.lanes, 0.0);
        self.slots.len() as u32 - 1
    }

    pub fn hold(&mut self, at: u32) {
        self.slots[at as usize].holds += 1;
    }

    pub fn release(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.holds -= 1;
        if slot.holds == 0 {
            self.free.push(at);
        }
    }

    pub fn is_filled(&self, at: u32) -> bool {
        self.slots[at as usize].filled
    }

    pub fn node(&self, at: u32) -> u64 {
        self.slots[at as usize].node
    }

    pub fn lanes(&self, at: u32) -> &[f64] {
        &self.data[at as usize * self.lanes..][..self.lanes]
    }

    /// Fills the slot. Returns the machines that waited for it.
    pub fn fill(&mut self, at: u32, v: &[f64], node: u64) -> Vec<u32> {
        self.data[at as usize * self.lanes..][..self.lanes].copy_from_slice(v);
        let slot = &mut self.slots[at as usize];
        (slot.filled, slot.node) = (true, node);
        std::mem::take(&mut slot.waiting)
    }

    /// Registers a machine to be woken when the slot is filled.
    pub fn wait(&mut self, at: u32, machine: u32) {
        self.slots[at as usize].waiting.push(machine);
    }

    /// Number of slots that are held.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
