//! The path itself: an append-only log of segments, each with the place of the one before it on its lineage.
//!
//! Branches that no tip leads back to are dead. When the log has doubled since it was last cleared of them, it is cleared again: marked
//! from the end to the begin, since what comes before stands before, then closed up. So clearing costs a constant per segment.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub start: u64,
    pub end: u64,
    pub key: u32,
    pub parent: u32,
}

/// The place of nothing: before the first segment.
pub const NONE: u32 = u32::MAX;

const FIRST_CLEARING: usize = 1 << 16;

#[derive(Clone, Debug)]
pub struct Segments {
    records: Vec<Record>,
    clear_at: usize,
}

impl Default for Segments {
    fn default() -> Segments {
        Segments { records: Vec::new(), clear_at: FIRST_CLEARING }
    }
}

impl Segments {
    pub fn push(&mut self, record: Record) -> u32 {
        if record.start >= record.end {
            return record.parent;
        }
        self.records.push(record);
        self.records.len() as u32 - 1
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// From the end of a lineage to its begin.
    pub fn back(&self, tip: u32) -> impl Iterator<Item = Record> + '_ {
        let at = |place: u32| self.records.get(place as usize).copied();
        std::iter::successors(at(tip), move |record| at(record.parent))
    }

    /// The lineage that ends at `tip` as it was at `at`.
    pub fn past(&mut self, tip: u32, at: u64) -> u32 {
        let mut place = tip;
        while let Some(&record) = self.records.get(place as usize) {
            if record.end <= at {
                break;
            }
            if record.start < at {
                return self.push(Record { end: at, ..record });
            }
            place = record.parent;
        }
        place
    }

    pub fn is_due(&self) -> bool {
        self.records.len() >= self.clear_at
    }

    /// Drops what none of the tips leads back to and renumbers them. `tips` visits each of them, twice.
    pub fn clear(&mut self, mut tips: impl FnMut(&mut dyn FnMut(&mut u32))) {
        let mut live = vec![0u64; self.records.len().div_ceil(64)];
        let mut mark = |place: u32| {
            if place != NONE {
                live[place as usize / 64] |= 1 << (place % 64);
            }
        };
        tips(&mut |tip| mark(*tip));
        for at in (0..self.records.len()).rev() {
            if live[at / 64] & 1 << (at % 64) != 0 {
                let parent = self.records[at].parent;
                if parent != NONE {
                    live[parent as usize / 64] |= 1 << (parent % 64);
                }
            }
        }
        let mut before = Vec::with_capacity(live.len());
        let mut sum = 0;
        for word in &live {
            before.push(sum);
            sum += word.count_ones();
        }
        let place_of = |old: u32| match old {
            NONE => NONE,
            old => before[old as usize / 64] + (live[old as usize / 64] & ((1 << (old % 64)) - 1)).count_ones(),
        };
        let mut kept = 0;
        for at in 0..self.records.len() {
            if live[at / 64] & 1 << (at % 64) != 0 {
                let record = self.records[at];
                self.records[kept] = Record { parent: place_of(record.parent), ..record };
                kept += 1;
            }
        }
        self.records.truncate(kept);
        tips(&mut |tip| *tip = place_of(*tip));
        self.clear_at = FIRST_CLEARING.max(kept * 2);
        self.records.shrink_to(self.clear_at);
    }
}
