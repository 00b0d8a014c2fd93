//! The states of many rows over time, a few bytes each, with sums over stretches of them.
//!
//! A row is a sequence of states that follow each other, with gaps where nothing is known. Each 256
//! states of a row are packed into a *block*, and each 16 blocks have a *node* above them, each 16
//! nodes another one, and so on. A block and a node have the time and the number of each state
//! below them. A question about a long range therefore reads few blocks: it takes whole nodes, and
//! looks into those that its edges cut.
//!
//! Example: of 1,000,000 states, the sums over any range need two blocks and about 100 nodes.
//!
//! Blocks are appended to memory, and to a file without a name when there are many. Rows may be
//! read while states are being added. A complete store can be kept in a file ([`tables`]).

pub(super) mod tables;
mod values;

pub use values::{ValueStep, ValueSum, VisitValues};

use super::state_names::StateId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use values::ValueRow;

/// A row, by its index in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowId(pub u32);

/// A state of a row from `begin` up to `end`, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateInterval {
    pub begin: u64,
    pub end: u64,
    pub state: StateId,
}

/// Time in ns and number of the occurrences of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSum {
    pub state: StateId,
    pub ns: u64,
    pub count: u64,
}

/// What looks at a range of a row, from its begin to its end.
pub trait Visit {
    /// Returns true if the sums of this stretch are enough. Otherwise its parts are visited.
    fn is_enough(&mut self, begin: u64, end: u64) -> bool;

    /// Receives the sums of a stretch for which [`Visit::is_enough`] returned true.
    fn sums(&mut self, begin: u64, sums: &[StateSum]);

    /// Receives a state that overlaps the range; it may begin before it and end after it.
    fn state(&mut self, interval: StateInterval);

    /// Returns true if nothing further is needed.
    fn is_over(&self) -> bool {
        false
    }
}

/// Number of states in a block, and of blocks or nodes below a node.
const BLOCK: usize = 256;
const FAN: usize = 16;

/// Number of bytes that are kept in memory before they are written to the file.
const MAX_HELD: usize = 32 << 20;

/// A block or a node: a stretch of a row.
#[derive(Clone, Copy, Debug)]
struct Node {
    begin: u64,
    end: u64,
    /// Place of its bytes in the data, and their number.
    at: u64,
    length: u32,
    /// Number of states in it.
    states: u64,
}

#[derive(Debug, Default)]
struct Row {
    /// The last states, which are not in a block yet.
    open: Vec<StateInterval>,
    /// Blocks, and above them the nodes, level by level.
    levels: Vec<Vec<Node>>,
    states: u64,
}

/// All rows.
#[derive(Debug, Default)]
pub struct Store {
    /// A row with values is empty here.
    rows: Vec<Row>,
    values: BTreeMap<RowId, ValueRow>,
    data: Data,
}

impl Store {
    pub fn add_row(&mut self) -> RowId {
        self.rows.push(Row::default());
        RowId(self.rows.len() as u32 - 1)
    }

    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of states of a row, or of its steps if it has values.
    pub fn states(&self, row: RowId) -> u64 {
        if let Some(values) = self.values.get(&row) {
            return values.steps();
        }
        self.rows.get(row.0 as usize).map_or(0, |row| row.states)
    }

    /// Returns the end of the row's last state in ns; 0 if it has none.
    pub fn end(&self, row: RowId) -> u64 {
        let Some(row) = self.rows.get(row.0 as usize) else { return 0 };
        let open = row.open.last().map(|last| last.end);
        open.or(row.levels.first().and_then(|blocks| blocks.last()).map(|block| block.end)).unwrap_or(0)
    }

    /// Appends a state to a row. What lies before the end of the row's last state is cut off; an
    /// empty state is ignored.
    pub fn push(&mut self, row: RowId, mut interval: StateInterval) {
        interval.begin = interval.begin.max(self.end(row));
        if interval.begin >= interval.end {
            return;
        }
        let Store { rows, data, .. } = self;
        let Some(row) = rows.get_mut(row.0 as usize) else { return };
        row.states += 1;
        match row.open.last_mut() {
            Some(last) if last.state == interval.state && last.end == interval.begin => {
                last.end = interval.end;
                row.states -= 1;
            }
            _ => row.open.push(interval),
        }
        if row.open.len() > BLOCK {
            row.close_block(data);
        }
    }

    /// Visits the states of a row that overlap a range, in the order of time.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn visit(&self, row: RowId, begin: u64, end: u64, visitor: &mut impl Visit) -> io::Result<()> {
        let Some(row) = self.rows.get(row.0 as usize).filter(|_| begin < end) else { return Ok(()) };
        let mut walk = Walk { row, data: &self.data, begin, end, bytes: Vec::new(), sums: Vec::new() };
        let mut done = 0;
        for level in (0..row.levels.len()).rev() {
            // Nodes of the level above cover the first ones of this level.
            walk.nodes(level, done..row.levels[level].len(), visitor)?;
            done = row.levels[level].len() * FAN;
        }
        let open = row.open.iter().filter(|interval| interval.end > begin && interval.begin < end);
        for &interval in open {
            if visitor.is_over() {
                break;
            }
            visitor.state(interval);
        }
        Ok(())
    }

    /// Returns the number of states that overlap the range, or more than `limit` if there are more.
    /// States of blocks that the range cuts are all counted, so the result may be a little too
    /// large.
    pub fn count_at_most(&self, row: RowId, begin: u64, end: u64, limit: u64) -> u64 {
        let Some(row) = self.rows.get(row.0 as usize).filter(|_| begin < end) else { return 0 };
        let overlaps = |node_begin: u64, node_end: u64| node_end > begin && node_begin < end;
        let open = row.open.iter().filter(|interval| overlaps(interval.begin, interval.end)).count() as u64;
        let Some(blocks) = row.levels.first() else { return open };
        let from = blocks.partition_point(|block| block.end <= begin);
        let mut count = open;
        for block in blocks[from..].iter().take_while(|block| block.begin < end) {
            count += block.states;
            if count > limit {
                break;
            }
        }
        count
    }

    /// Returns the time and the number of each state in a range, by state. A state that the range
    /// cuts counts with the part inside; its number counts if it begins in the range.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn sums(&self, row: RowId, begin: u64, end: u64) -> io::Result<Vec<StateSum>> {
        let mut summed = Summed { begin, end, sums: Vec::new() };
        self.visit(row, begin, end, &mut summed)?;
        summed.sums.sort_unstable_by_key(|sum| sum.state);
        Ok(summed.sums)
    }
}

/// Adds up the states of a range.
struct Summed {
    begin: u64,
    end: u64,
    sums: Vec<StateSum>,
}

impl Visit for Summed {
    fn is_enough(&mut self, begin: u64, end: u64) -> bool {
        self.begin <= begin && end <= self.end
    }

    fn sums(&mut self, _: u64, sums: &[StateSum]) {
        sums.iter().for_each(|sum| add(&mut self.sums, *sum));
    }

    fn state(&mut self, interval: StateInterval) {
        let ns = interval.end.min(self.end) - interval.begin.max(self.begin);
        add(&mut self.sums, StateSum { state: interval.state, ns, count: u64::from(interval.begin >= self.begin) });
    }
}

/// Adds a sum to the sum of the same state. Few states occur in one row, so a list is searched.
pub(super) fn add(sums: &mut Vec<StateSum>, new: StateSum) {
    match sums.iter_mut().find(|sum| sum.state == new.state) {
        Some(sum) => {
            sum.ns = sum.ns.saturating_add(new.ns);
            sum.count = sum.count.saturating_add(new.count);
        }
        None => sums.push(new),
    }
}

impl Row {
    /// Packs all but the last of the open states, which may still grow, into a block, and adds the
    /// nodes that are complete with it.
    fn close_block(&mut self, data: &mut Data) {
        let last = self.open.pop();
        let (Some(first), Some(end)) = (self.open.first().copied(), self.open.last().map(|interval| interval.end)) else { return };
        let mut sums = Vec::new();
        for interval in &self.open {
            add(&mut sums, StateSum { state: interval.state, ns: interval.end - interval.begin, count: 1 });
        }
        let mut bytes = packed_sums(&sums);
        let mut now = first.begin;
        for interval in &self.open {
            put(&mut bytes, interval.begin - now);
            put(&mut bytes, interval.end - interval.begin);
            put(&mut bytes, interval.state.0.into());
            now = interval.end;
        }
        let node = Node { begin: first.begin, end, at: data.end(), length: bytes.len() as u32, states: self.open.len() as u64 };
        data.append(&bytes);
        self.open.clear();
        self.open.extend(last);
        self.add_node(0, node, data);
    }

    fn add_node(&mut self, level: usize, node: Node, data: &mut Data) {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(node);
        let count = self.levels[level].len();
        if !count.is_multiple_of(FAN) {
            return;
        }
        let below = &self.levels[level][count - FAN..];
        let (mut sums, mut bytes) = (Vec::new(), Vec::new());
        for node in below {
            // A block that cannot be read again is missing in the sums above it, too.
            if data.read(node, &mut bytes).is_ok() {
                Unpacked::new(&bytes, data.states).each_sum(|sum| add(&mut sums, sum));
            }
        }
        let packed = packed_sums(&sums);
        let above = Node {
            begin: below[0].begin,
            end: below[FAN - 1].end,
            at: data.end(),
            length: packed.len() as u32,
            states: below.iter().map(|node| node.states).sum(),
        };
        data.append(&packed);
        self.add_node(level + 1, above, data);
    }
}

/// One visit of a range.
struct Walk<'a> {
    row: &'a Row,
    data: &'a Data,
    begin: u64,
    end: u64,
    bytes: Vec<u8>,
    sums: Vec<StateSum>,
}

impl Walk<'_> {
    fn nodes(&mut self, level: usize, range: std::ops::Range<usize>, visitor: &mut impl Visit) -> io::Result<()> {
        let nodes = &self.row.levels[level][range.clone()];
        let from = nodes.partition_point(|node| node.end <= self.begin);
        for (at, &node) in (range.start + from..).zip(&nodes[from..]) {
            if node.begin >= self.end || visitor.is_over() {
                break;
            }
            let is_inside = self.begin <= node.begin && node.end <= self.end;
            if is_inside && visitor.is_enough(node.begin, node.end) {
                self.data.read(&node, &mut self.bytes)?;
                self.sums.clear();
                Unpacked::new(&self.bytes, self.data.states).each_sum(|sum| self.sums.push(sum));
                visitor.sums(node.begin, &self.sums);
            } else if level == 0 {
                self.data.read(&node, &mut self.bytes)?;
                self.states(&node, visitor);
            } else {
                self.nodes(level - 1, at * FAN..(at + 1) * FAN, visitor)?;
            }
        }
        Ok(())
    }

    fn states(&self, block: &Node, visitor: &mut impl Visit) {
        let mut unpacked = Unpacked::new(&self.bytes, self.data.states);
        unpacked.each_sum(|_| {});
        let mut now = block.begin;
        for _ in 0..block.states {
            let Some((gap, ns, state)) = unpacked.triple() else { break };
            let begin = now.saturating_add(gap);
            now = begin.saturating_add(ns).min(block.end);
            if begin >= now.min(self.end) || visitor.is_over() {
                break;
            }
            if now > self.begin {
                visitor.state(StateInterval { begin, end: now, state: unpacked.state(state) });
            }
        }
    }
}

fn packed_sums(sums: &[StateSum]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sums.len() * 8);
    put(&mut bytes, sums.len() as u64);
    for sum in sums {
        put(&mut bytes, sum.state.0.into());
        put(&mut bytes, sum.ns);
        put(&mut bytes, sum.count);
    }
    bytes
}

/// Appends a number, seven bits per byte, lowest first; all bytes but the last have the top bit.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The bytes of a block or a node that are being read. If they come from a file that anyone may
/// have written, they yield some states within the block, whatever they are.
struct Unpacked<'a> {
    bytes: std::slice::Iter<'a, u8>,
    states: Option<u32>,
}

impl<'a> Unpacked<'a> {
    fn new(bytes: &'a [u8], states: Option<u32>) -> Unpacked<'a> {
        Unpacked { bytes: bytes.iter(), states }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.next()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(number)
    }

    fn each_sum(&mut self, mut visit: impl FnMut(StateSum)) {
        for _ in 0..self.number().unwrap_or(0) {
            let Some((state, ns, count)) = self.triple() else { return };
            visit(StateSum { state: self.state(state), ns, count });
        }
    }

    #[inline]
    fn triple(&mut self) -> Option<(u64, u64, u64)> {
        Some((self.number()?, self.number()?, self.number()?))
    }

    /// Returns the state with this number; the last one if there is no such state.
    #[inline]
    fn state(&self, number: u64) -> StateId {
        let last = self.states.map_or(u32::MAX, |states| states.saturating_sub(1));
        StateId(number.min(last.into()) as u32)
    }
}

/// The bytes of all blocks and nodes.
#[derive(Debug, Default)]
struct Data {
    /// `None` while all bytes are in memory, or if no file can be made.
    file: Option<File>,
    written: u64,
    /// The bytes after those in the file.
    held: Vec<u8>,
    /// Set if the file cannot be made or written, for example on a full disk.
    is_full: bool,
    /// Number of different states, if the bytes come from a file that anyone may have written.
    states: Option<u32>,
}

impl Data {
    fn end(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= MAX_HELD && !self.is_full {
            self.is_full = self.write().is_err();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.write_all_at(&self.held, self.written)?;
        self.written += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    fn read(&self, node: &Node, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(node.length as usize, 0);
        match (node.at.checked_sub(self.written), &self.file) {
            (None, Some(file)) => file.read_exact_at(bytes, node.at),
            (place, _) => {
                let place = place.unwrap_or(0) as usize;
                let held = self.held.get(place..place + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                bytes.copy_from_slice(held);
                Ok(())
            }
        }
    }
}
