//! The values of a row over time, such as the depth of a queue: a few bytes each, with sums over
//! stretches of them.
//!
//! A row is a sequence of *steps* that follow each other: stretches of time with one value. As
//! states, 256 steps are packed into a block, and 16 blocks or nodes have a node above them. The
//! sums of a node have a fixed size, so they stay in memory, and a question about a long range
//! reads two blocks.

use super::{put, Data, Node, Store, Unpacked, BLOCK, FAN};
use crate::timeline::RowId;
use std::io;

/// Largest absolute value; larger ones are cut off, so that sums over any time are finite.
const MAX_VALUE: f64 = 1e200;

/// A value from `begin` up to `end`, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueStep {
    pub begin: u64,
    pub end: u64,
    pub value: f64,
}

/// Sums over a stretch of a row with values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSum {
    pub min: f64,
    pub max: f64,
    /// Time with a value in ns, and the sum of all values, each times its time.
    pub ns: u64,
    pub integral: f64,
    /// Number of steps that begin in it.
    pub count: u64,
}

impl Default for ValueSum {
    fn default() -> ValueSum {
        ValueSum { min: f64::INFINITY, max: f64::NEG_INFINITY, ns: 0, integral: 0.0, count: 0 }
    }
}

impl ValueSum {
    /// Adds `ns` of a value. `count` is 1 if the step begins there.
    pub fn add(&mut self, value: f64, ns: u64, count: u64) {
        self.add_sum(&ValueSum { min: value, max: value, ns, integral: value * ns as f64, count });
    }

    pub fn add_sum(&mut self, other: &ValueSum) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.ns = self.ns.saturating_add(other.ns);
        self.integral += other.integral;
        self.count = self.count.saturating_add(other.count);
    }

    /// Returns the mean, weighted by time; `None` if no time has a value.
    pub fn mean(&self) -> Option<f64> {
        (self.ns > 0).then(|| (self.integral / self.ns as f64).clamp(self.min, self.max))
    }
}

/// What looks at a range of a row with values, from its begin to its end.
pub trait VisitValues {
    /// Returns true if the sums of this stretch are enough. Otherwise its parts are visited.
    fn is_enough(&mut self, begin: u64, end: u64) -> bool;

    /// Receives the sums of a stretch for which [`VisitValues::is_enough`] returned true.
    fn sum(&mut self, begin: u64, sum: &ValueSum);

    /// Receives a step that overlaps the range; it may begin before it and end after it.
    fn step(&mut self, step: ValueStep);

    /// Returns true if nothing further is needed.
    fn is_over(&self) -> bool {
        false
    }
}

/// A block or a node with its sums. Only blocks have bytes in the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueNode {
    pub node: Node,
    pub sum: ValueSum,
}

/// A row with values.
#[derive(Debug, Default)]
pub(super) struct ValueRow {
    /// The last steps, which are not in a block yet.
    pub open: Vec<ValueStep>,
    /// Blocks, and above them the nodes, level by level.
    pub levels: Vec<Vec<ValueNode>>,
}

impl Store {
    /// Adds a row with values.
    pub fn add_value_row(&mut self) -> RowId {
        let row = self.add_row();
        self.values.insert(row, ValueRow::default());
        row
    }

    pub fn has_values(&self, row: RowId) -> bool {
        self.values.contains_key(&row)
    }

    /// Appends a step to a row with values. What lies before the end of the row's last step is cut
    /// off; an empty step, and a value that is no finite number, are ignored.
    pub fn push_value(&mut self, row: RowId, mut step: ValueStep) {
        let Store { values, data, .. } = self;
        let Some(row) = values.get_mut(&row) else { return };
        step.begin = step.begin.max(row.end());
        step.value = step.value.clamp(-MAX_VALUE, MAX_VALUE);
        if step.begin >= step.end || step.value.is_nan() {
            return;
        }
        match row.open.last_mut() {
            Some(last) if last.value == step.value && last.end == step.begin => last.end = step.end,
            _ => row.open.push(step),
        }
        if row.open.len() > BLOCK {
            row.close_block(data);
        }
    }

    /// Visits the steps of a row that overlap a range, in the order of time.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn visit_values(&self, row: RowId, begin: u64, end: u64, visitor: &mut impl VisitValues) -> io::Result<()> {
        let Some(row) = self.values.get(&row).filter(|_| begin < end) else { return Ok(()) };
        let mut walk = ValueWalk { row, data: &self.data, begin, end, bytes: Vec::new() };
        let mut done = 0;
        for level in (0..row.levels.len()).rev() {
            walk.nodes(level, done..row.levels[level].len(), visitor)?;
            done = row.levels[level].len() * FAN;
        }
        for &step in row.open.iter().filter(|step| step.end > begin && step.begin < end) {
            if visitor.is_over() {
                break;
            }
            visitor.step(step);
        }
        Ok(())
    }

    /// Returns the number of steps that overlap the range, or more than `limit` if there are more.
    /// Steps of blocks that the range cuts are all counted.
    pub fn steps_at_most(&self, row: RowId, begin: u64, end: u64, limit: u64) -> u64 {
        let Some(row) = self.values.get(&row).filter(|_| begin < end) else { return 0 };
        let mut count = row.open.iter().filter(|step| step.end > begin && step.begin < end).count() as u64;
        let blocks = row.levels.first().map_or(&[][..], Vec::as_slice);
        let from = blocks.partition_point(|block| block.node.end <= begin);
        for block in blocks[from..].iter().take_while(|block| block.node.begin < end) {
            count += block.node.states;
            if count > limit {
                break;
            }
        }
        count
    }

    /// Returns the sums of a range. A step that the range cuts counts with the part inside.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn value_sum(&self, row: RowId, begin: u64, end: u64) -> io::Result<ValueSum> {
        let mut summed = Summed { begin, end, sum: ValueSum::default() };
        self.visit_values(row, begin, end, &mut summed)?;
        Ok(summed.sum)
    }
}

struct Summed {
    begin: u64,
    end: u64,
    sum: ValueSum,
}

impl VisitValues for Summed {
    fn is_enough(&mut self, _: u64, _: u64) -> bool {
        true
    }

    fn sum(&mut self, _: u64, sum: &ValueSum) {
        self.sum.add_sum(sum);
    }

    fn step(&mut self, step: ValueStep) {
        let ns = step.end.min(self.end) - step.begin.max(self.begin);
        self.sum.add(step.value, ns, u64::from(step.begin >= self.begin));
    }
}

impl ValueRow {
    pub fn end(&self) -> u64 {
        let open = self.open.last().map(|last| last.end);
        open.or(self.levels.first().and_then(|blocks| blocks.last()).map(|block| block.node.end)).unwrap_or(0)
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        let blocks = self.levels.first().map_or(&[][..], Vec::as_slice);
        self.open.len() as u64 + blocks.iter().map(|block| block.node.states).sum::<u64>()
    }

    /// Packs all but the last of the open steps, which may still grow, into a block, and adds the
    /// nodes that are complete with it.
    fn close_block(&mut self, data: &mut Data) {
        let last = self.open.pop();
        let (Some(first), Some(end)) = (self.open.first().copied(), self.open.last().map(|step| step.end)) else { return };
        let (mut bytes, mut sum) = (Vec::new(), ValueSum::default());
        let mut now = first.begin;
        for step in &self.open {
            sum.add(step.value, step.end - step.begin, 1);
            put(&mut bytes, step.begin - now);
            put(&mut bytes, step.end - step.begin);
            put(&mut bytes, number_of(step.value));
            now = step.end;
        }
        let node = Node { begin: first.begin, end, at: data.end(), length: bytes.len() as u32, states: self.open.len() as u64 };
        data.append(&bytes);
        self.open.clear();
        self.open.extend(last);
        self.add_node(0, ValueNode { node, sum });
    }

    pub fn add_node(&mut self, level: usize, node: ValueNode) {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(node);
        let count = self.levels[level].len();
        if count.is_multiple_of(FAN) {
            let above = ValueNode::above(&self.levels[level][count - FAN..]);
            self.add_node(level + 1, above);
        }
    }
}

impl ValueNode {
    /// Returns the node above these blocks or nodes.
    pub fn above(below: &[ValueNode]) -> ValueNode {
        let mut sum = ValueSum::default();
        below.iter().for_each(|part| sum.add_sum(&part.sum));
        let begin = below.first().map_or(0, |first| first.node.begin);
        let end = below.last().map_or(0, |last| last.node.end);
        let states = below.iter().map(|part| part.node.states).sum();
        ValueNode { node: Node { begin, end, at: 0, length: 0, states }, sum }
    }
}

/// Returns a value as a number that is packed well: a small whole number has zeros in its last
/// bytes, which become the first ones.
pub(super) fn number_of(value: f64) -> u64 {
    value.to_bits().swap_bytes()
}

/// Returns the value of such a number. It is 0 if it cannot be the value of a step.
pub(super) fn value_of(number: u64) -> f64 {
    let value = f64::from_bits(number.swap_bytes());
    if value.abs() <= MAX_VALUE {
        value
    } else {
        0.0
    }
}

/// One visit of a range.
struct ValueWalk<'a> {
    row: &'a ValueRow,
    data: &'a Data,
    begin: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl ValueWalk<'_> {
    fn nodes(&mut self, level: usize, range: std::ops::Range<usize>, visitor: &mut impl VisitValues) -> io::Result<()> {
        let nodes = &self.row.levels[level][range.clone()];
        let from = nodes.partition_point(|node| node.node.end <= self.begin);
        for (at, ValueNode { node, sum }) in (range.start + from..).zip(&nodes[from..]) {
            if node.begin >= self.end || visitor.is_over() {
                break;
            }
            let is_inside = self.begin <= node.begin && node.end <= self.end;
            if is_inside && visitor.is_enough(node.begin, node.end) {
                visitor.sum(node.begin, sum);
            } else if level == 0 {
                self.data.read(node, &mut self.bytes)?;
                self.steps(node, visitor);
            } else {
                self.nodes(level - 1, at * FAN..(at + 1) * FAN, visitor)?;
            }
        }
        Ok(())
    }

    fn steps(&self, block: &Node, visitor: &mut impl VisitValues) {
        let mut unpacked = Unpacked::new(&self.bytes, None);
        let mut now = block.begin;
        for _ in 0..block.states {
            let Some((gap, ns, number)) = unpacked.triple() else { break };
            let begin = now.saturating_add(gap);
            now = begin.saturating_add(ns).min(block.end);
            if begin >= now.min(self.end) || visitor.is_over() {
                break;
            }
            if now > self.begin {
                visitor.step(ValueStep { begin, end: now, value: value_of(number) });
            }
        }
    }
}
