//! The path itself: an append-only log of segments, each with the place of the one before it on its lineage.
//!
//! Branches that no tip leads back to are dead. When the log has doubled since it was last cleared of them, it is cleared again: marked
//! from the end to the begin, since what comes before stands before, then closed up. So clearing costs a constant per segment.
//!
//! What is live, long, and branches nowhere can be written to a file ([`super::runs`]), and is one record from then on.
//!
//! In active form a block is a *splice*: within it the lineage of its cause counts, before it that of the machine again.

use super::active::Piece;
use super::runs::{Reading, Runs};
use std::fs::File;
use std::io;

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

/// The key of a record that stands for a run, with its number as filling.
const RUN: u32 = u32::MAX - 2;

/// Shorter stretches are not written to the file.
const SHORTEST_RUN: usize = 256;

/// How a file for runs is made, and from how many records on.
#[derive(Clone, Copy, Debug)]
pub struct Spill {
    pub make: fn() -> io::Result<File>,
    pub from: usize,
}

impl Record {
    /// Which symbol it stands for.
    pub fn symbol(&self) -> Option<u32> {
        (self.key == SYMBOL).then_some(self.filling)
    }
}

const FIRST_CLEARING: usize = 1 << 16;

/// For segments of the interaction with which it is to be cleared.
const ROOM: usize = 1 << 8;

#[derive(Clone, Debug)]
pub struct Segments {
    records: Vec<Record>,
    clear_at: usize,
    spill: Option<Spill>,
    runs: Runs,
}

impl Default for Segments {
    fn default() -> Segments {
        Segments { records: Vec::new(), clear_at: FIRST_CLEARING, spill: None, runs: Runs::default() }
    }
}

impl Segments {
    /// Long stretches go to a file. There must be no splices and no symbols.
    pub fn spill(&mut self, spill: Spill) {
        self.clear_at = FIRST_CLEARING.min(spill.from.max(1));
        self.spill = Some(spill);
    }

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

    /// The whole lineage from its begin to its end, to be walked along. There must be no splices.
    pub fn from_begin(self, tip: u32) -> Forward {
        let mut parts = Vec::new();
        let mut place = tip;
        while let Some(&record) = self.records.get(place as usize) {
            parts.push(match record.key {
                RUN => Part::Run { number: record.filling, start: record.start, end: record.end },
                key => Part::Piece((key, record.start, record.end)),
            });
            place = record.parent;
        }
        parts.reverse();
        Forward { parts, runs: self.runs }
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

    /// Drops what none of the tips leads back to, or what ended before `horizon`, and renumbers them. `tips` visits each of them, as often as it is called.
    pub fn clear(&mut self, horizon: u64, mut tips: impl FnMut(&mut dyn FnMut(&mut u32))) {
        let mut live = vec![0u64; self.records.len().div_ceil(64)];
        let mark = |live: &mut [u64], records: &[Record], place: &mut u32| match records.get(*place as usize) {
            Some(record) if record.end > horizon => live[*place as usize / 64] |= 1 << (*place % 64),
            _ => *place = NONE,
        };
        tips(&mut |tip| mark(&mut live, &self.records, tip));
        for at in (0..self.records.len()).rev() {
            if is_live(&live, at) {
                let Record { mut parent, mut filling, key, .. } = self.records[at];
                mark(&mut live, &self.records, &mut parent);
                if key == NONE {
                    mark(&mut live, &self.records, &mut filling);
                }
                (self.records[at].parent, self.records[at].filling) = (parent, filling);
            }
        }
        let alone = live.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        if let Some(spill) = self.spill.filter(|spill| alone >= spill.from) {
            let mut held = vec![0u64; live.len()];
            tips(&mut |tip| {
                if let Some(word) = held.get_mut(*tip as usize / 64) {
                    *word |= 1 << (*tip % 64);
                }
            });
            // A file that cannot be written costs memory, not the answer.
            if self.write_runs(spill.make, &mut live, &mut held).is_err() {
                self.spill = None;
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
                let filling = if record.key == NONE { place_of(record.filling) } else { record.filling };
                self.records[kept] = Record { parent: place_of(record.parent), filling, ..record };
                kept += 1;
            }
        }
        self.records.truncate(kept);
        tips(&mut |tip| *tip = place_of(*tip));
        let least = self.spill.map_or(FIRST_CLEARING, |spill| FIRST_CLEARING.min(spill.from.max(1)));
        self.clear_at = least.max(kept * 2);
        let room = self.clear_at + ROOM;
        // Memory that is given back and comes again is cleared by the kernel each time.
        if self.records.capacity() > 2 * room {
            self.records.shrink_to(room);
        }
        self.records.reserve_exact(room - kept);
    }
}

impl Segments {
    /// Writes what is live, held by nobody and branches nowhere; each run is one record, the last of those that it stands for.
    fn write_runs(&mut self, make: fn() -> io::Result<File>, live: &mut [u64], joints: &mut [u64]) -> io::Result<()> {
        // A joint is held, or has several children. Others with a child are of the same run as it, if that follows at once.
        let (mut parents, mut inner) = (vec![0u64; live.len()], vec![0u64; live.len()]);
        for at in (0..self.records.len()).filter(|&at| is_live(live, at)) {
            let Record { parent, key, start, .. } = self.records[at];
            let Some(before) = self.records.get(parent as usize) else { continue };
            let (word, bit) = (parent as usize / 64, 1 << (parent % 64));
            joints[word] |= parents[word] & bit;
            parents[word] |= bit;
            if key != RUN && before.end == start {
                inner[word] |= bit;
            }
        }
        let mut chain: Vec<u32> = Vec::new();
        for last in (0..self.records.len()).rev() {
            if !is_live(live, last) || self.records[last].key == RUN || is_live(&inner, last) && !is_live(joints, last) {
                continue;
            }
            chain.clear();
            let mut at = last;
            loop {
                chain.push(at as u32);
                let Record { parent, start, .. } = self.records[at];
                match self.records.get(parent as usize) {
                    Some(before) if before.key != RUN && before.end == start && !is_live(joints, parent as usize) => at = parent as usize,
                    _ => break,
                }
            }
            if chain.len() < SHORTEST_RUN {
                continue;
            }
            let records = &self.records;
            let pieces = chain.iter().rev().map(|&at| records[at as usize]).map(|it| (it.key, it.start, it.end));
            let filling = self.runs.write(make, pieces)?;
            let Record { start, parent, .. } = self.records[at];
            for &gone in &chain[1..] {
                live[gone as usize / 64] &= !(1 << (gone % 64));
            }
            self.records[last] = Record { start, end: self.records[last].end, key: RUN, parent, filling };
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Part {
    Piece(Piece),
    Run { number: u32, start: u64, end: u64 },
}

/// A lineage from its begin to its end.
#[derive(Clone, Debug, Default)]
pub struct Forward {
    parts: Vec<Part>,
    runs: Runs,
}

impl Forward {
    pub fn new(parts: Vec<Part>, runs: Runs) -> Forward {
        Forward { parts, runs }
    }

    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { parts: self.parts.iter(), runs: &self.runs, run: None, buffer: Vec::new() }
    }
}

/// A walk along it.
#[derive(Debug)]
pub struct Pieces<'a> {
    parts: std::slice::Iter<'a, Part>,
    runs: &'a Runs,
    run: Option<Reading>,
    /// Memory for the next run.
    buffer: Vec<u8>,
}

impl Pieces<'_> {
    fn leave_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.buffer = run.into_buffer();
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.run.as_mut().and_then(Iterator::next) {
                return Some(piece);
            }
            match *self.parts.next()? {
                Part::Piece(piece) => {
                    self.leave_run();
                    return Some(piece);
                }
                Part::Run { number, start, end } => {
                    self.leave_run();
                    self.run = Some(self.runs.read(number, start, end, std::mem::take(&mut self.buffer)));
                }
            }
        }
    }
}

fn is_live(live: &[u64], at: usize) -> bool {
    live[at / 64] & 1 << (at % 64) != 0
}
