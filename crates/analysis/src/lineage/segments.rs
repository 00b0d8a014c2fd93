//! The path itself: an append-only log of segments, each with the place of the one before it on its lineage.
//!
//! Branches that no tip leads back to are dead. When the log has doubled since it was last cleared of them, it is cleared again: marked
//! from the end to the begin, since what comes before stands before, then closed up. So clearing costs a constant per segment.
//!
//! In active form a block is a *splice*: within it the lineage of its cause counts, before it that of the machine again.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub start: u64,
    pub end: u64,
    pub key: u32,
    pub parent: u32,
    /// Of a splice: what fills it; its key says nothing.
    pub filling: u32,
}

/// The place of nothing: before the first segment.
pub const NONE: u32 = u32::MAX;

/// The key of a record that stands for what comes from before, with its number as filling.
const SYMBOL: u32 = u32::MAX - 1;

impl Record {
    /// Which symbol it stands for.
    pub fn symbol(&self) -> Option<u32> {
        (self.key == SYMBOL).then_some(self.filling)
    }
}

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
    /// A plain segment after `parent`.
    pub fn add(&mut self, key: u32, start: u64, end: u64, parent: u32) -> u32 {
        self.push(Record { start, end, key, parent, filling: NONE })
    }

    /// What `filling` says of this time, after `parent`.
    pub fn splice(&mut self, filling: u32, start: u64, end: u64, parent: u32) -> u32 {
        self.push(Record { start, end, key: NONE, parent, filling })
    }

    fn push(&mut self, record: Record) -> u32 {
        if record.start >= record.end {
            return record.parent;
        }
        self.records.push(record);
        self.records.len() as u32 - 1
    }

    /// The place of what comes from before.
    pub fn symbol(&mut self, number: u32) -> u32 {
        self.records.push(Record { start: 0, end: 0, key: SYMBOL, parent: NONE, filling: number });
        self.records.len() as u32 - 1
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// Which ones these tips lead back to; there are no splices.
    pub fn live(&self, tips: impl Iterator<Item = u32>) -> Vec<bool> {
        let mut live = vec![false; self.records.len()];
        for mut at in tips {
            while let Some(mark) = live.get_mut(at as usize).filter(|mark| !**mark) {
                *mark = true;
                at = self.records[at as usize].parent;
            }
        }
        live
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// From the end of a lineage to its begin, but no further back than `from`: key, start and end of each segment.
    pub fn back(&self, tip: u32, from: u64) -> Vec<(u32, u64, u64)> {
        let mut found = Vec::new();
        let mut open = vec![(tip, from)];
        while let Some((place, from)) = open.pop() {
            let Some(record) = self.records.get(place as usize).filter(|record| record.end > from) else { continue };
            open.push((record.parent, from));
            let start = record.start.max(from);
            match record.key {
                NONE => open.push((record.filling, start)),
                key => found.push((key, start, record.end)),
            }
        }
        found
    }

    /// The lineage that ends at `tip` as it was at `at`.
    pub fn past(&mut self, tip: u32, at: u64) -> u32 {
        let mut place = tip;
        while let Some(&record) = self.records.get(place as usize) {
            if record.end <= at {
                break;
            }
            if record.start < at && record.key != NONE {
                return self.push(Record { end: at, ..record });
            }
            place = record.parent;
        }
        place
    }

    pub fn is_due(&self) -> bool {
        self.records.len() >= self.clear_at
    }

    /// Drops what none of the tips leads back to, or what ended before `horizon`, and renumbers them. `tips` visits each of them, twice.
    pub fn clear(&mut self, horizon: u64, mut tips: impl FnMut(&mut dyn FnMut(&mut u32))) {
        let mut live = vec![0u64; self.records.len().div_ceil(64)];
        let mark = |live: &mut [u64], records: &[Record], place: &mut u32| match records.get(*place as usize) {
            Some(record) if record.end > horizon => live[*place as usize / 64] |= 1 << (*place % 64),
            _ => *place = NONE,
        };
        tips(&mut |tip| mark(&mut live, &self.records, tip));
        for at in (0..self.records.len()).rev() {
            if is_live(&live, at) {
                let Record { mut parent, mut filling, .. } = self.records[at];
                mark(&mut live, &self.records, &mut parent);
                mark(&mut live, &self.records, &mut filling);
                (self.records[at].parent, self.records[at].filling) = (parent, filling);
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
            if is_live(&live, at) {
                let record = self.records[at];
                self.records[kept] = Record { parent: place_of(record.parent), filling: place_of(record.filling), ..record };
                kept += 1;
            }
        }
        self.records.truncate(kept);
        tips(&mut |tip| *tip = place_of(*tip));
        self.clear_at = FIRST_CLEARING.max(kept * 2);
        self.records.shrink_to(self.clear_at);
    }
}

fn is_live(live: &[u64], at: usize) -> bool {
    live[at / 64] & 1 << (at % 64) != 0
}
