//! Columns: the events of a packet grouped by class and field, for computations over many events.
//!
//! Events of fixed layout are read in two passes. The first pass reads only headers and finds where
//! each event begins and its time. The second pass reads one field of all events of a class at a
//! time: one load and two shifts per value, without a branch on the type of the field. All other
//! events are decoded one by one, and their values are appended.

use crate::bits::{Load, Window};
use crate::clock::Converter;
use crate::decoder::event::EventRef;
use crate::metadata::StreamPlan;
use crate::plan::{FastKind, Field, Shape};
use crate::value::{Located, OwnedValue, Value};
use std::sync::Arc;

/// Consecutive events of a stream, filled by
/// [`StreamDecoder::advance_batch`](crate::StreamDecoder::advance_batch), which reuses its memory.
#[derive(Debug, Default)]
pub struct Batch {
    /// Tables by index of the event class in the stream class of `stream`.
    tables: Vec<Table>,
    /// Indices of the tables that have events, in the order of their first events.
    used: Vec<u32>,
    stream: Option<Arc<StreamPlan>>,
    stream_index: usize,
    len: usize,
}

/// The events of one class.
#[derive(Debug, Default)]
pub struct Table {
    class: usize,
    /// Index of each event in the batch, from 0.
    order: Vec<u32>,
    cycles: Vec<u64>,
    ns: Vec<i64>,
    columns: Vec<Column>,
    /// Starts of the events whose fields are not in the columns yet, in bytes of the window.
    begins: Vec<u32>,
}

/// The values of one field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Column {
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Integers with a sign.
    I64(Vec<i64>),
    /// Floating point numbers.
    F64(Vec<f64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Texts, byte arrays and BLOBs.
    Bytes(Bytes),
    /// Values with parts, and values that may be absent.
    Values(Vec<OwnedValue>),
}

/// Byte strings, stored one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bytes {
    data: Vec<u8>,
    ends: Vec<u32>,
}

impl Bytes {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of the element at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.data.get(begin..end)
    }

    /// The bytes of each element.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len() as u32);
    }
}

/// A container into which the decoder puts many events at once.
pub(crate) trait Gather {
    /// Maximum number of events that it takes before the caller should read it.
    const MAX_EVENTS: usize;

    /// Empties the container for events of this stream class.
    fn begin(&mut self, stream: &Arc<StreamPlan>, index: usize);

    fn len(&self) -> usize;

    /// Returns true if the container holds enough and should be read.
    fn is_full(&self) -> bool {
        self.len() >= Self::MAX_EVENTS
    }

    /// Adds an event that was decoded individually.
    fn push(&mut self, event: &EventRef<'_>);

    /// Returns true if [`Gather::take`] must be called before another event of this class is
    /// pushed, so that the values stay in order.
    fn awaits(&self, class: usize) -> bool;

    /// Reads the fields of the events of fixed layout that the decoder added. `bytes` must be the
    /// window that was visible when they were added.
    fn take(&mut self, bytes: &[u8]);

    /// Called after the last event: computes the times.
    fn finish(&mut self, converter: &Converter);
}

/// Capacity of a [`Run`], in events.
const RUN: usize = 64;

/// Consecutive events of one class: where they begin in the window, in bytes, and their times.
pub(crate) struct Run {
    begins: [u32; RUN],
    cycles: [u64; RUN],
    len: usize,
}

impl Default for Run {
    fn default() -> Run {
        Run { begins: [0; RUN], cycles: [0; RUN], len: 0 }
    }
}

impl Run {
    #[inline(always)]
    pub(crate) fn push(&mut self, begin: u32, cycles: u64) {
        let at = self.len % RUN;
        (self.begins[at], self.cycles[at]) = (begin, cycles);
        self.len = at + 1;
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of events for which there is room.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        RUN - self.len
    }
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index of the stream class in the schema.
    pub fn stream_index(&self) -> usize {
        self.stream_index
    }

    /// The tables of the classes that have events in this batch.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.used.iter().filter_map(|class| self.tables.get(*class as usize))
    }

    /// Adds events of fixed layout and empties `run`.
    #[inline]
    pub(crate) fn push_run(&mut self, class: usize, run: &mut Run) {
        let count = std::mem::take(&mut run.len).min(RUN);
        if count == 0 {
            return;
        }
        let order = self.len as u32;
        let table = self.table(class);
        table.order.extend(order..order + count as u32);
        table.cycles.extend_from_slice(&run.cycles[..count]);
        table.begins.extend_from_slice(&run.begins[..count]);
        self.len += count;
    }

    fn table(&mut self, class: usize) -> &mut Table {
        if self.tables.len() <= class {
            self.tables.resize_with(class + 1, Table::default);
        }
        let (table, stream) = (&mut self.tables[class], &self.stream);
        if table.order.is_empty() {
            self.used.push(class as u32);
            if table.columns.is_empty() {
                table.class = class;
                let fields = stream.as_ref().and_then(|s| s.events.get(class)).map_or(&[][..], |plan| &plan.fields);
                table.columns = fields.iter().map(Column::of).collect();
            }
        }
        table
    }
}

impl Gather for Batch {
    /// Small enough that the columns stay in the second-level cache.
    const MAX_EVENTS: usize = 1 << 13;

    fn len(&self) -> usize {
        self.len
    }

    fn is_full(&self) -> bool {
        // A text is at most as long as the window or the packet, so a batch of long texts must end
        // after few events.
        self.len >= Self::MAX_EVENTS || self.tables().any(|table| table.columns.iter().any(Column::is_large))
    }

    fn begin(&mut self, stream: &Arc<StreamPlan>, index: usize) {
        let same = self.stream.as_ref().is_some_and(|known| Arc::ptr_eq(known, stream));
        for class in self.used.drain(..) {
            if let Some(table) = self.tables.get_mut(class as usize) {
                table.clear();
            }
        }
        self.len = 0;
        if !same {
            self.tables.clear();
            self.stream = Some(stream.clone());
            self.stream_index = index;
        }
    }

    fn awaits(&self, class: usize) -> bool {
        self.tables.get(class).is_some_and(|table| !table.begins.is_empty())
    }

    fn push(&mut self, event: &EventRef<'_>) {
        let order = self.len as u32;
        let table = self.table(event.class);
        table.order.push(order);
        table.cycles.push(event.cycles);
        let mut columns = table.columns.iter_mut();
        event.each(|_, value| {
            if let Some(column) = columns.next() {
                column.push(value)
            }
        });
        self.len += 1;
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(stream) = &self.stream else { return };
        for class in &self.used {
            let (Some(table), Some(plan)) = (self.tables.get_mut(*class as usize), stream.events.get(*class as usize)) else { continue };
            if !table.begins.is_empty() {
                for (column, field) in table.columns.iter_mut().zip(&plan.fields) {
                    column.take(field, &table.begins, bytes);
                }
                table.begins.clear();
            }
        }
    }

    fn finish(&mut self, converter: &Converter) {
        for class in &self.used {
            if let Some(table) = self.tables.get_mut(*class as usize) {
                converter.ns_of_all(&table.cycles, &mut table.ns);
            }
        }
    }
}

impl Table {
    /// Index of the event class in its stream class.
    pub fn class_index(&self) -> usize {
        self.class
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there are no events.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The index of each event in the batch. The events of all tables, sorted by it, are in the
    /// order of the stream.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The full value of the clock for each event.
    pub fn cycles(&self) -> &[u64] {
        &self.cycles
    }

    /// The nanoseconds from the clock's origin for each event.
    pub fn ns(&self) -> &[i64] {
        &self.ns
    }

    /// One column for each of [`Metadata::fields`](crate::Metadata::fields).
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn clear(&mut self) {
        self.order.clear();
        self.cycles.clear();
        self.ns.clear();
        self.begins.clear();
        self.columns.iter_mut().for_each(Column::clear);
    }
}

impl Column {
    fn of(field: &Field) -> Column {
        use crate::bits::LeafKind;
        match &field.shape {
            Shape::Number(leaf) => match leaf.kind {
                LeafKind::Unsigned | LeafKind::Named | LeafKind::Byte => Column::U64(Vec::new()),
                LeafKind::Signed => Column::I64(Vec::new()),
                LeafKind::Float => Column::F64(Vec::new()),
                LeafKind::Bool => Column::Bool(Vec::new()),
            },
            Shape::VarInt { signed: true } => Column::I64(Vec::new()),
            Shape::VarInt { signed: false } => Column::U64(Vec::new()),
            Shape::Text(_) => Column::Bytes(Bytes::default()),
            // Other arrays are [`OwnedValue`]s: an array of bytes is [`Value::Bytes`] only if it
            // begins at a byte boundary, which can differ between events.
            Shape::Array { .. } | Shape::Sequence { .. } if field.is_bytes() => Column::Bytes(Bytes::default()),
            Shape::Array { .. } | Shape::Sequence { .. } | Shape::Tree(_) => Column::Values(Vec::new()),
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        match self {
            Column::U64(values) => values.len(),
            Column::I64(values) => values.len(),
            Column::F64(values) => values.len(),
            Column::Bool(values) => values.len(),
            Column::Bytes(values) => values.len(),
            Column::Values(values) => values.len(),
        }
    }

    /// Returns true if there are no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value for the event at `index`, as decoding that event alone would yield it, except that
    /// every text is [`OwnedValue::Bytes`], in UTF-8 if it was UTF-16 or UTF-32.
    pub fn get(&self, index: usize) -> Option<OwnedValue> {
        Some(match self {
            Column::U64(values) => OwnedValue::U64(*values.get(index)?),
            Column::I64(values) => OwnedValue::I64(*values.get(index)?),
            Column::F64(values) => OwnedValue::F64(*values.get(index)?),
            Column::Bool(values) => OwnedValue::Bool(*values.get(index)?),
            Column::Bytes(values) => OwnedValue::Bytes(values.get(index)?.to_vec()),
            Column::Values(values) => values.get(index)?.clone(),
        })
    }

    fn is_large(&self) -> bool {
        match self {
            Column::Bytes(bytes) => bytes.data.len() > 1 << 20,
            _ => false,
        }
    }

    fn clear(&mut self) {
        match self {
            Column::U64(values) => values.clear(),
            Column::I64(values) => values.clear(),
            Column::F64(values) => values.clear(),
            Column::Bool(values) => values.clear(),
            Column::Bytes(values) => {
                values.data.clear();
                values.ends.clear();
            }
            Column::Values(values) => values.clear(),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Column::U64(values), Value::U64(value)) => values.push(value),
            (Column::I64(values), Value::I64(value)) => values.push(value),
            (Column::F64(values), Value::F64(value)) => values.push(value),
            (Column::Bool(values), Value::Bool(value)) => values.push(value),
            (Column::Bytes(values), Value::Str(bytes) | Value::Bytes(bytes)) => values.push(bytes),
            (Column::Bytes(values), Value::Wide(text)) => values.push(text.decode().as_bytes()),
            (Column::Values(values), value) => values.push(value.to_owned()),
            // The kind of the column follows from its field, and so does the kind of the value.
            (column, _) => debug_assert!(false, "a value of another kind than {column:?}"),
        }
    }

    /// Appends the values of a field for events of fixed layout.
    fn take(&mut self, field: &Field, begins: &[u32], bytes: &[u8]) {
        let load = field.fast.load;
        match (&mut *self, field.fast.kind) {
            (Column::U64(values), FastKind::Unsigned) => {
                each(values, begins, bytes, load, |high| load.unsigned(high), |at| field_at(field, at, bytes).as_u64().unwrap_or(0));
            }
            (Column::I64(values), FastKind::Signed) => {
                each(values, begins, bytes, load, |high| load.signed(high), |at| field_at(field, at, bytes).as_i64().unwrap_or(0));
            }
            _ => begins.iter().for_each(|begin| self.push(field_at(field, *begin, bytes))),
        }
    }
}

/// The innermost loop over fixed-layout events. `value` makes a number from a loaded word; `rest`
/// handles the few events at the end of the window where a whole word cannot be loaded.
#[inline(always)]
fn each<T>(values: &mut Vec<T>, begins: &[u32], bytes: &[u8], load: Load, value: impl Fn(u64) -> T, rest: impl Fn(u32) -> T) {
    values.extend(begins.iter().map(|begin| match load.high(bytes, *begin as usize) {
        Some(high) => value(high),
        None => rest(*begin),
    }));
}

/// The value of a field of an event that begins at byte `begin` of the window.
fn field_at<'b>(field: &'b Field, begin: u32, bytes: &'b [u8]) -> Value<'b> {
    let at = u64::from(begin) * 8;
    Located::fixed(Window { bytes, base: 0 }, at, field)
}
