//! The tables of a store in a file: of each row its nodes and its open states.
//!
//! All numbers are packed as in a block. A file may come from anyone, so tables are refused unless
//! all nodes lie within the data, follow each other in time, and have the nodes below them that
//! the store expects.

use super::values::{number_of, value_of, ValueNode, ValueRow, ValueStep, ValueSum};
use super::{put, Data, Node, Row, RowId, StateId, StateInterval, Store, BLOCK, FAN};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Maximum sizes in bytes: of a block with its states and their sums, and of a node with the sums
/// of all states that a timeline may have.
const MAX_BLOCK: u64 = (1 + 2 * 3 * BLOCK as u64) * 10;
const MAX_NODE: u64 = 4 << 20;

/// Maximum number of levels. Each node has 16 below it, so no trace has more.
const MAX_LEVELS: u64 = 16;

/// Latest time that a timeline may have, in ns; sums of times stay far from overflowing.
pub(in super::super) const MAX_TIME: u64 = 1 << 60;

impl Store {
    /// Writes the bytes of all blocks and nodes, and returns their number.
    pub fn write_data(&self, out: &mut File) -> io::Result<u64> {
        if let Some(mut file) = self.data.file.as_ref() {
            file.seek(SeekFrom::Start(0))?;
            let copied = io::copy(&mut file.take(self.data.written), out)?;
            if copied != self.data.written {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        out.write_all(&self.data.held)?;
        Ok(self.data.end())
    }

    /// Writes the tables of all rows.
    pub fn write_tables(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.rows.len() as u64);
        for row in &self.rows {
            row.pack(&mut bytes);
            out.write_all(&bytes)?;
            bytes.clear();
        }
        put(&mut bytes, self.values.len() as u64);
        for (id, row) in &self.values {
            put(&mut bytes, id.0.into());
            row.pack(&mut bytes);
            out.write_all(&bytes)?;
            bytes.clear();
        }
        out.write_all(&bytes)
    }

    /// Reads the tables of a store whose data are the first `data` bytes of the file, and which has
    /// this number of rows and of different states.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the tables contradict each other or the data.
    pub fn read(file: File, data: u64, tables: &mut impl Read, (row_count, states): (usize, u32)) -> io::Result<Store> {
        let mut rows = Vec::new();
        check(number(tables)? == row_count as u64)?;
        for _ in 0..row_count {
            rows.push(Row::read(tables, data, states)?);
        }
        let mut values = BTreeMap::new();
        for _ in 0..number(tables)? {
            let id = number(tables)?;
            check(id < row_count as u64)?;
            let row = ValueRow::read(tables, data)?;
            check(values.insert(RowId(id as u32), row).is_none())?;
        }
        let data = Data { file: Some(file), written: data, held: Vec::new(), is_full: true, states: Some(states) };
        Ok(Store { rows, values, data })
    }
}

impl Row {
    fn pack(&self, bytes: &mut Vec<u8>) {
        let Row { open, levels, states } = self;
        put(bytes, *states);
        put(bytes, open.len() as u64);
        for StateInterval { begin, end, state } in open {
            [*begin, *end, state.0.into()].into_iter().for_each(|field| put(bytes, field));
        }
        put(bytes, levels.len() as u64);
        for level in levels {
            put(bytes, level.len() as u64);
            for Node { begin, end, at, length, states } in level {
                [*begin, *end, *at, u64::from(*length), *states].into_iter().for_each(|field| put(bytes, field));
            }
        }
    }

    fn read(tables: &mut impl Read, data: u64, states: u32) -> io::Result<Row> {
        let mut row = Row { states: number(tables)?, ..Row::default() };
        let open = number(tables)?;
        check(open <= BLOCK as u64 + 1)?;
        let mut last = 0;
        for _ in 0..open {
            let (begin, end, state) = (number(tables)?, number(tables)?, number(tables)?);
            check(last <= begin && begin < end && end <= MAX_TIME && state < states.into())?;
            last = end;
            row.open.push(StateInterval { begin, end, state: StateId(state as u32) });
        }
        let levels = number(tables)?;
        check(levels <= MAX_LEVELS)?;
        for _ in 0..levels {
            let most = if row.levels.is_empty() { (BLOCK as u64, MAX_BLOCK) } else { (MAX_TIME, MAX_NODE) };
            let level = read_level(tables, data, most)?;
            check(!level.is_empty() && row.levels.last().is_none_or(|below: &Vec<Node>| level.len() == below.len() / FAN))?;
            row.levels.push(level);
        }
        let blocks_end = row.levels.first().and_then(|blocks| blocks.last()).map_or(0, |block| block.end);
        check(row.open.first().is_none_or(|first| blocks_end <= first.begin))?;
        Ok(row)
    }
}

impl ValueRow {
    fn pack(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.open.len() as u64);
        for ValueStep { begin, end, value } in &self.open {
            [*begin, *end, number_of(*value)].into_iter().for_each(|field| put(bytes, field));
        }
        let blocks = self.levels.first().map_or(&[][..], Vec::as_slice);
        put(bytes, blocks.len() as u64);
        for ValueNode { node: Node { begin, end, at, length, states }, sum } in blocks {
            [*begin, *end, *at, u64::from(*length), *states].into_iter().for_each(|field| put(bytes, field));
            [sum.min, sum.max, sum.integral].into_iter().for_each(|value| put(bytes, number_of(value)));
            put(bytes, sum.ns);
        }
    }

    /// Reads the blocks; the nodes above them follow from their sums.
    fn read(tables: &mut impl Read, data: u64) -> io::Result<ValueRow> {
        let mut row = ValueRow::default();
        let open = number(tables)?;
        check(open <= BLOCK as u64 + 1)?;
        let mut last = 0;
        for _ in 0..open {
            let (begin, end, value) = (number(tables)?, number(tables)?, value_of(number(tables)?));
            check(last <= begin && begin < end && end <= MAX_TIME)?;
            last = end;
            row.open.push(ValueStep { begin, end, value });
        }
        let mut last = 0;
        for _ in 0..number(tables)? {
            let node = read_node(tables, data, last, (BLOCK as u64, MAX_BLOCK))?;
            last = node.end;
            let [min, max, integral] = [(); 3].map(|()| number(tables).map(f64_of));
            let (min, max, integral, ns) = (min?, max?, integral?, number(tables)?);
            check(min <= max && integral.is_finite() && ns <= node.end - node.begin)?;
            check(value_of(number_of(min)) == min && value_of(number_of(max)) == max)?;
            row.add_node(0, ValueNode { node, sum: ValueSum { min, max, ns, integral, count: node.states } });
        }
        check(row.open.first().is_none_or(|first| last <= first.begin))?;
        Ok(row)
    }
}

fn f64_of(number: u64) -> f64 {
    f64::from_bits(number.swap_bytes())
}

/// Reads the blocks or nodes of a level, which have at most this number of states and of bytes.
fn read_level(tables: &mut impl Read, data: u64, most: (u64, u64)) -> io::Result<Vec<Node>> {
    let mut level = Vec::new();
    let mut last = 0;
    for _ in 0..number(tables)? {
        let node = read_node(tables, data, last, most)?;
        last = node.end;
        level.push(node);
    }
    Ok(level)
}

/// Reads a block or a node that begins at `last` or later.
fn read_node(tables: &mut impl Read, data: u64, last: u64, (most_states, most_bytes): (u64, u64)) -> io::Result<Node> {
    let [begin, end, at, length, states] = [(); 5].map(|()| number(tables));
    let (begin, end, at, length, states) = (begin?, end?, at?, length?, states?);
    check(last <= begin && begin < end && end <= MAX_TIME && (1..=most_states).contains(&states))?;
    check(length <= most_bytes && at.checked_add(length).is_some_and(|end| end <= data))?;
    Ok(Node { begin, end, at, length: length as u32, states })
}

fn check(is_right: bool) -> io::Result<()> {
    is_right.then_some(()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads a packed number.
fn number(source: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        source.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(number);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}
