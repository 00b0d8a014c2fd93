//! The path itself: an append-only log of segments, each with the index of its predecessor.
//!
//! Tips share the log: each path is a chain of records that is followed backwards from its tip.
//! Records that no tip leads to are dead. When the log has doubled since its last clearing, it is
//! cleared again: records are marked from the end to the start, which suffices because a
//! predecessor always has a smaller index, and the live ones are moved together. Clearing therefore
//! costs an amortized constant per segment.
//!
//! A long stretch of live records without branches can be written to a file
//! ([`crate::critical_path::storage::runs`]); it is a single record in the log afterwards.
//!
//! In active mode a block is a *splice*: a record whose time is filled by the path of the block's
//! cause. Before the splice the machine's own path continues.

use crate::critical_path::active::Piece;
use crate::critical_path::storage::runs::{Reading, Runs};
use std::fs::File;
use std::io;

/// A segment of a path, a splice, or a placeholder for a run or a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub start: u64,
    pub end: u64,
    pub key: u32,
    pub parent: u32,
    /// Last record of the path that fills a splice; unused otherwise. A splice has the key
    /// [`NONE`].
    pub filling: u32,
}

/// No record: the predecessor of a path's first segment.
pub const NONE: u32 = u32::MAX;

/// Key of a record that is a placeholder for a path from before the window; `filling` is the number
/// of the symbol ([`crate::critical_path::window`]).
const SYMBOL: u32 = u32::MAX - 1;

/// Key of a record that replaces a run in the file; `filling` is the number of the run.
const RUN: u32 = u32::MAX - 2;

/// Shortest stretch, in records, that is written to the file.
const SHORTEST_RUN: usize = 256;

/// The function that makes the file for runs, and the number of live records from which on runs are
/// written.
#[derive(Clone, Copy, Debug)]
pub struct Spill {
    pub make: fn() -> io::Result<File>,
    pub from: usize,
}

impl Record {
    /// Returns the number of the symbol if the record is a placeholder for one.
    pub fn symbol(&self) -> Option<u32> {
        (self.key == SYMBOL).then_some(self.filling)
    }
}

/// So few that they stay in the processor's caches while they are cleared.
const FIRST_CLEARING: usize = 1 << 14;

/// Reserve for the segments of the interaction during which clearing becomes due.
const ROOM: usize = 1 << 8;

/// The log of the segments of all paths.
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
    /// Writes long stretches to a file from now on. The log must have neither splices nor symbols.
    pub fn spill(&mut self, spill: Spill) {
        self.clear_at = FIRST_CLEARING.min(spill.from.max(1));
        self.spill = Some(spill);
    }

    /// Appends a plain segment after `parent`. Returns its index.
    pub fn add(&mut self, key: u32, start: u64, end: u64, parent: u32) -> u32 {
        self.push(Record { start, end, key, parent, filling: NONE })
    }

    /// Appends a segment after `parent` whose time is filled by the path that ends at `filling`.
    /// Returns its index.
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

    /// Appends a placeholder for a path from before the window. Returns its index.
    pub fn symbol(&mut self, number: u32) -> u32 {
        self.records.push(Record { start: 0, end: 0, key: SYMBOL, parent: NONE, filling: number });
        self.records.len() as u32 - 1
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// Returns for each record whether one of these tips leads to it. The log must have no splices.
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

    /// Returns the segments of a path as (key, start, end), newest first, not further back than
    /// `from`.
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

    /// Returns the whole path from its start to its end. The log must have no splices.
    pub fn forward(self, tip: u32) -> Forward {
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

    /// Returns the tip of the path as it was at `at`; a segment that contains `at` is cut there.
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

    /// Returns true if the log has grown enough to be cleared.
    pub fn is_due(&self) -> bool {
        self.records.len() >= self.clear_at
    }

    /// Drops the records that no tip leads to, or that ended before `horizon`, and renumbers the
    /// rest. `tips` calls its argument for each tip, and is called several times.
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
        // Memory that is returned to the kernel is zeroed when it is allocated again, so the log
        // shrinks only if it is far too large.
        if self.records.capacity() > 2 * room {
            self.records.shrink_to(room);
        }
        self.records.reserve_exact(room - kept);
    }
}

impl Segments {
    /// Writes stretches of records that are live, held by no tip and have no branches. The last
    /// record of each stretch replaces the whole stretch.
    fn write_runs(&mut self, make: fn() -> io::Result<File>, live: &mut [u64], joints: &mut [u64]) -> io::Result<()> {
        // A joint is held by a tip or has several successors. Another record belongs to the run of
        // its successor if it ends where the successor starts.
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

/// A segment in memory, or a run in the file.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Piece(Piece),
    Run { number: u32, start: u64, end: u64 },
}

/// A path from its start to its end.
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

/// Iterator over the segments of a [`Forward`].
#[derive(Debug)]
pub struct Pieces<'a> {
    parts: std::slice::Iter<'a, Part>,
    runs: &'a Runs,
    run: Option<Reading>,
    /// Buffer that the next run reuses.
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
