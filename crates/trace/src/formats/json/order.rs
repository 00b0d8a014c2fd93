//! Sorts the records of a file by time: sorted runs of (time, place), merged.
//!
//! Up to [`RUN`] records are sorted in memory. Beyond that, sorted runs are written to an unnamed
//! file, which disappears with the process, so memory does not grow with the file.

use crate::files::scratch;
use crate::merge::{Heap, Key};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Time and place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordLocation {
    pub t_ns: i64,
    pub offset: u64,
    pub length: u32,
}

const BYTES: usize = 20;
/// Records that are sorted at once.
const RUN: usize = 1 << 17;
/// Records of each run that are in memory while runs are merged.
const PIECE: usize = 1 << 8;

#[derive(Default)]
pub struct Order {
    places: Vec<RecordLocation>,
    spilled: Option<File>,
    /// Number of records in each run of the file. Further records may be in memory.
    runs: Vec<u64>,
    last_ns: Option<i64>,
    unsorted: u64,
    run_length: Option<usize>,
}

impl Order {
    #[cfg(test)]
    fn with_runs_of(length: usize) -> Order {
        Order { run_length: Some(length), ..Order::default() }
    }

    pub fn push(&mut self, place: RecordLocation) -> io::Result<()> {
        if self.last_ns.is_some_and(|last| place.t_ns < last) {
            self.unsorted += 1;
        }
        self.last_ns = Some(self.last_ns.map_or(place.t_ns, |last| last.max(place.t_ns)));
        self.places.push(place);
        if self.places.len() >= self.run_length.unwrap_or(RUN) {
            self.spill()?;
        }
        Ok(())
    }

    /// Returns the number of records that come after a later one.
    pub fn unsorted(&self) -> u64 {
        self.unsorted
    }

    fn spill(&mut self) -> io::Result<()> {
        self.places.sort_unstable();
        let file = match &mut self.spilled {
            Some(file) => file,
            none => none.insert(scratch::file()?),
        };
        let mut bytes = Vec::with_capacity(self.places.len() * BYTES);
        for place in self.places.drain(..) {
            bytes.extend_from_slice(&place.t_ns.to_le_bytes());
            bytes.extend_from_slice(&place.offset.to_le_bytes());
            bytes.extend_from_slice(&place.length.to_le_bytes());
        }
        let before: u64 = self.runs.iter().sum();
        file.write_all_at(&bytes, before * BYTES as u64)?;
        self.runs.push((bytes.len() / BYTES) as u64);
        Ok(())
    }

    /// Returns all records in the order of (time, place).
    pub fn sorted(mut self) -> io::Result<Sorted> {
        if self.spilled.is_some() && !self.places.is_empty() {
            self.spill()?;
        }
        let Some(file) = self.spilled else {
            self.places.sort_unstable();
            return Ok(Sorted::Here(self.places.into_iter()));
        };
        let mut runs = Vec::with_capacity(self.runs.len());
        let mut at = 0;
        for count in self.runs {
            runs.push(Run { at, end: at + count, places: Vec::new().into_iter() });
            at += count;
        }
        let mut merge = Merge { file, next: vec![None; runs.len()], runs, heap: Heap::default() };
        for index in 0..merge.runs.len() {
            merge.refill(index)?;
        }
        Ok(Sorted::Spilled(merge))
    }
}

pub enum Sorted {
    Here(std::vec::IntoIter<RecordLocation>),
    Spilled(Merge),
}

impl Sorted {
    pub fn next(&mut self) -> io::Result<Option<RecordLocation>> {
        match self {
            Sorted::Here(places) => Ok(places.next()),
            Sorted::Spilled(merge) => merge.next(),
        }
    }
}

pub struct Merge {
    file: File,
    runs: Vec<Run>,
    next: Vec<Option<RecordLocation>>,
    heap: Heap,
}

struct Run {
    at: u64,
    end: u64,
    places: std::vec::IntoIter<RecordLocation>,
}

impl Merge {
    fn next(&mut self) -> io::Result<Option<RecordLocation>> {
        // Runs are in the order of the file, so records with equal times are in that order, too.
        let Some(key) = self.heap.pop() else { return Ok(None) };
        let place = self.next[key.slot as usize].take();
        self.refill(key.slot as usize)?;
        Ok(place)
    }

    fn refill(&mut self, index: usize) -> io::Result<()> {
        let run = &mut self.runs[index];
        if run.places.len() == 0 && run.at < run.end {
            let count = (run.end - run.at).min(PIECE as u64);
            let mut bytes = vec![0; count as usize * BYTES];
            self.file.read_exact_at(&mut bytes, run.at * BYTES as u64)?;
            run.at += count;
            run.places = bytes.chunks_exact(BYTES).map(place).collect::<Vec<_>>().into_iter();
        }
        self.next[index] = run.places.next();
        if let Some(place) = self.next[index] {
            self.heap.push(Key { t_ns: place.t_ns, slot: index as u32 });
        }
        Ok(())
    }
}

fn place(bytes: &[u8]) -> RecordLocation {
    let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let length = bytes[16..20].try_into().map_or(0, u32::from_le_bytes);
    RecordLocation { t_ns: word(0) as i64, offset: word(8), length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_runs_of_any_length_equals_sorting(times in prop::collection::vec(-9i64..9, 0..200), run in 1usize..50) {
            let mut order = Order::with_runs_of(run);
            let mut expected: Vec<RecordLocation> = Vec::new();
            for (at, &t_ns) in times.iter().enumerate() {
                let place = RecordLocation { t_ns, offset: at as u64, length: at as u32 };
                order.push(place).unwrap();
                expected.push(place);
            }
            expected.sort();
            let mut sorted = order.sorted().unwrap();
            let mut found = Vec::new();
            while let Some(place) = sorted.next().unwrap() {
                found.push(place);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
