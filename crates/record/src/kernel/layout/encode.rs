//! Converts a record of the kernel to the payload of a CTF event, by a plan that is made once per
//! event class.
//!
//! A record that is shorter than its format yields zeros and is counted by the caller; no
//! conversion fails.

use super::known_threads::KnownThreads;
use super::{EventRow, FieldRow, Int, Kind, Label, Transform, ValueSource, MAX_RT_PRIO};
use longpole_ftrace::format::Shape;
use longpole_ftrace::{ByteOrder, EventFormat, Field};

/// The low 8 bits of `prev_state`, which hold the reported states. The next bit means "preempted".
const REPORTED: i64 = 0xff;

/// One step of a plan.
#[derive(Clone, Debug)]
enum Op {
    Copy {
        from: usize,
        len: usize,
    },
    Int {
        field: Field,
        to: Int,
        transform: Transform,
    },
    Constant {
        value: u64,
        to: Int,
    },
    Text {
        field: Field,
        width: usize,
    },
    String {
        field: Field,
    },
    /// The bytes of a dynamic array, after its number of elements.
    List {
        field: Field,
        length: Int,
        element: usize,
        text: bool,
    },
    /// A sequence of one element.
    Single {
        field: Field,
        length: Int,
        to: Int,
    },
    Rwbs {
        field: Field,
        to: Int,
    },
}

/// Plan for writing the events of a class.
#[derive(Debug)]
pub struct Plan {
    pub name: String,
    pub fields: Vec<(String, Kind)>,
    ops: Vec<Op>,
    order: ByteOrder,
    parent: Option<Field>,
}

impl Plan {
    /// Makes the plan of a class. `row` has LTTng's names for some of the kernel's fields; the
    /// others follow under the kernel's names. `long` is the size of a `long` in bytes.
    pub fn new(format: &EventFormat, row: Option<&EventRow>, order: ByteOrder, long: usize) -> Plan {
        let mut plan = Plan {
            name: row.map_or_else(|| format.name.clone(), |row| row.name.clone()),
            fields: Vec::new(),
            ops: Vec::new(),
            order,
            parent: format.field("common_pid").cloned(),
        };
        let mut used: Vec<&str> = Vec::new();
        for row in row.iter().flat_map(|row| &row.fields) {
            if let ValueSource::Field(source) = &row.source {
                let Some(field) = format.field(source) else { continue };
                if !plan.field(row, field, long) {
                    continue;
                }
                used.push(&field.name);
            } else if let ValueSource::Constant(value) = row.source {
                let to = match row.kind {
                    Kind::Int(int) => int,
                    _ => Int::unsigned(8),
                };
                plan.push(&row.name, row.kind.clone(), Op::Constant { value, to });
            }
        }
        for field in &format.fields {
            if !used.contains(&field.name.as_str()) {
                plan.own(field, format.labels(&field.name), long);
            }
        }
        for row in row.iter().flat_map(|row| &row.more) {
            if let ValueSource::Field(source) = &row.source {
                if let Some(field) = format.field(source) {
                    plan.field(row, field, long);
                }
            }
        }
        plan.join_copies();
        plan
    }

    fn push(&mut self, name: &str, kind: Kind, op: Op) {
        let mut name = name.to_owned();
        while self.fields.iter().any(|(other, _)| *other == name) {
            name.insert_str(0, "kernel_");
        }
        self.fields.push((name, kind));
        self.ops.push(op);
    }

    /// Adds a field of the table. Returns false if the kernel's field does not have the type in the
    /// table; the caller then adds it under the kernel's own name.
    fn field(&mut self, row: &FieldRow, field: &Field, long: usize) -> bool {
        let scalar = field.shape == Shape::Scalar && matches!(field.size, 1 | 2 | 4 | 8);
        let field = field.clone();
        let op = match row.kind {
            Kind::Int(to) if row.transform == Transform::Rwbs && field.is_text() => Op::Rwbs { field, to },
            Kind::Int(to) if scalar => Op::Int { field, to, transform: row.transform },
            Kind::Text(width) if field.is_text() => Op::Text { field, width: width as usize },
            Kind::String if field.is_text() => Op::String { field },
            Kind::Chars(bits) if field.is_text() => Op::List { field, length: Int::unsigned(bits), element: 1, text: true },
            Kind::List(bits, to) if scalar => Op::Single { field, length: Int::unsigned(bits), to },
            Kind::List(bits, to) if field.is_text() && to.bits == 8 => {
                Op::List { field, length: Int::unsigned(bits), element: 1, text: true }
            }
            Kind::List(bits, to) if field.element_size(long as u32) == Some(to.bits / 8) && field.shape != Shape::Scalar => {
                Op::List { field, length: Int::unsigned(bits), element: to.bits as usize / 8, text: false }
            }
            Kind::Ints(to, count) if field.shape != Shape::Scalar && field.size == to.bits / 8 * count => {
                Op::Copy { from: field.offset as usize, len: field.size as usize }
            }
            _ => return false,
        };
        self.push(&row.name, row.kind.clone(), op);
        true
    }

    /// Adds a field without a row, under the kernel's name. It becomes an enumeration if the kernel
    /// prints its values by names.
    fn own(&mut self, field: &Field, labels: Vec<Label>, long: usize) {
        let hex = field.type_text.ends_with('*');
        let int = |bytes: u32| Int { bits: bytes * 8, signed: field.signed && !hex, base: if hex { 16 } else { 10 }, big: false };
        let element = field.element_size(long as u32).filter(|size| matches!(size, 1 | 2 | 4 | 8));
        let place = Op::Copy { from: field.offset as usize, len: field.size as usize };
        let clone = field.clone();
        let (kind, op) = match field.shape {
            Shape::Scalar if matches!(field.size, 1 | 2 | 4 | 8) => {
                let to = int(field.size);
                let kind = if named(to, &labels) { Kind::Enum(to, labels.into()) } else { Kind::Int(to) };
                (kind, Op::Int { field: clone, to, transform: Transform::Plain })
            }
            Shape::Array { .. } if field.is_text() && field.size > 0 => (Kind::Text(field.size), place),
            _ if field.is_text() => (Kind::String, Op::String { field: clone }),
            Shape::Scalar | Shape::Array { .. } if field.size > 0 => match element {
                Some(size) if field.shape != Shape::Scalar && field.size.is_multiple_of(size) => {
                    (Kind::Ints(int(size), field.size / size), place)
                }
                _ => (Kind::Ints(Int { base: 16, ..Int::unsigned(8) }, field.size), place),
            },
            _ => {
                let size = element.unwrap_or(1);
                (Kind::List(32, int(size)), Op::List { field: clone, length: Int::unsigned(32), element: size as usize, text: false })
            }
        };
        self.push(&field.name, kind, op);
    }

    /// Replaces steps that do not change a value by copies, and merges copies of adjacent bytes.
    fn join_copies(&mut self) {
        let mut joined: Vec<Op> = Vec::new();
        for op in self.ops.drain(..) {
            let copy = match &op {
                Op::Copy { from, len } => Some((*from, *len)),
                Op::Int { field, to, transform: Transform::Plain } if field.size * 8 == to.bits && (!to.big || to.bits == 8) => {
                    Some((field.offset as usize, field.size as usize))
                }
                Op::Text { field, width } if matches!(field.shape, Shape::Array { .. }) && field.size as usize == *width => {
                    Some((field.offset as usize, *width))
                }
                _ => None,
            };
            match (copy, joined.last_mut()) {
                (Some((at, more)), Some(Op::Copy { from, len })) if *from + *len == at => *len += more,
                (Some((from, len)), _) => joined.push(Op::Copy { from, len }),
                (None, _) => joined.push(op),
            }
        }
        self.ops = joined;
    }

    /// Appends the payload of a record. Returns false if the record is too short or contradicts its
    /// format.
    #[inline]
    pub fn encode(&self, record: &[u8], threads: &mut KnownThreads, out: &mut Vec<u8>) -> bool {
        let mut whole = true;
        for op in &self.ops {
            whole &= match op {
                Op::Copy { from, len } => match record.get(*from..*from + *len) {
                    Some(bytes) => {
                        out.extend_from_slice(bytes);
                        true
                    }
                    None => {
                        out.resize(out.len() + len, 0);
                        false
                    }
                },
                op => self.step(op, record, threads, out),
            };
        }
        whole
    }

    fn step(&self, op: &Op, record: &[u8], threads: &mut KnownThreads, out: &mut Vec<u8>) -> bool {
        let order = self.order;
        match op {
            Op::Copy { .. } => true,
            Op::Constant { value, to } => {
                integer(out, *value as i64, *to);
                true
            }
            Op::Int { field, to, transform } => {
                let value = field.int(record, order);
                let whole = value.is_ok();
                // Unsigned values of 64 bits keep their bits in this conversion.
                let value = value.unwrap_or(0) as i64;
                let value = match transform {
                    Transform::Plain | Transform::Rwbs => value,
                    Transform::Prio => value.wrapping_sub(MAX_RT_PRIO),
                    Transform::State => value & REPORTED,
                    Transform::Process => threads.process(value as i32).into(),
                    Transform::ChildProcess => {
                        let parent = self.parent.as_ref().and_then(|f| f.int(record, order).ok()).unwrap_or(0);
                        threads.add_child(value as i32, parent as i32).into()
                    }
                    Transform::Micro => value / 1000,
                };
                integer(out, value, *to);
                whole
            }
            Op::Text { field, width } => {
                let text = field.text(record, order);
                let end = out.len() + width;
                let bytes = text.unwrap_or(&[]);
                out.extend_from_slice(&bytes[..bytes.len().min(*width)]);
                out.resize(end, 0);
                text.is_ok()
            }
            Op::String { field } => {
                let text = field.text(record, order);
                out.extend_from_slice(text.unwrap_or(&[]));
                out.push(0);
                text.is_ok()
            }
            Op::List { field, length, element, text } => {
                let bytes = if *text { field.text(record, order) } else { field.bytes(record, order) };
                let whole = bytes.is_ok();
                let bytes = bytes.unwrap_or(&[]);
                let most = if length.bits < 16 { 255 } else { usize::MAX };
                let count = (bytes.len() / element).min(most);
                integer(out, count as i64, *length);
                out.extend_from_slice(&bytes[..count * element]);
                whole
            }
            Op::Single { field, length, to } => {
                let value = field.int(record, order);
                integer(out, 1, *length);
                integer(out, value.unwrap_or(0) as i64, *to);
                value.is_ok()
            }
            Op::Rwbs { field, to } => {
                let text = field.text(record, order);
                integer(out, rwbs(text.unwrap_or(&[])), *to);
                text.is_ok()
            }
        }
    }
}

/// True if there are names and all their values fit the type.
fn named(int: Int, labels: &[Label]) -> bool {
    let (low, high) = match (int.signed, int.bits) {
        (_, 64) => (i64::MIN, i64::MAX),
        (true, bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (false, bits) => (0, (1 << bits) - 1),
    };
    !labels.is_empty() && labels.iter().all(|label| (low..=high).contains(&label.value))
}

/// Appends the low bytes of a value, in the host's byte order or in network byte order.
#[inline]
pub fn integer(out: &mut Vec<u8>, value: i64, to: Int) {
    let bytes = if to.big { value.to_be_bytes() } else { value.to_le_bytes() };
    let size = to.bits as usize / 8;
    if to.big {
        out.extend_from_slice(&bytes[8 - size..]);
    } else if cfg!(target_endian = "little") {
        out.extend_from_slice(&bytes[..size]);
    } else {
        out.extend(bytes[..size].iter().rev());
    }
}

/// Converts the kernel's letters of a block request to LTTng's flags. An F before the operation is
/// a flush; after it, an F means "forced unit access".
fn rwbs(letters: &[u8]) -> i64 {
    const WRITE: i64 = 1 << 0;
    const DISCARD: i64 = 1 << 1;
    const READ: i64 = 1 << 2;
    const AHEAD: i64 = 1 << 3;
    const SYNC: i64 = 1 << 5;
    const META: i64 = 1 << 6;
    const SECURE: i64 = 1 << 7;
    const FLUSH: i64 = 1 << 8;
    const FUA: i64 = 1 << 9;
    const PREFLUSH: i64 = 1 << 10;
    let mut flags = 0;
    let mut operation = false;
    for (at, letter) in letters.iter().enumerate() {
        let next_is_operation = matches!(letters.get(at + 1), Some(b'W' | b'R' | b'D' | b'N' | b'F'));
        match letter {
            b'F' if operation => flags |= FUA,
            b'F' if next_is_operation => flags |= PREFLUSH,
            b'F' => (flags, operation) = (flags | FLUSH, true),
            b'W' => (flags, operation) = (flags | WRITE, true),
            b'R' => (flags, operation) = (flags | READ, true),
            b'D' => (flags, operation) = (flags | DISCARD, true),
            b'E' => flags |= SECURE,
            b'A' => flags |= AHEAD,
            b'S' => flags |= SYNC,
            b'M' => flags |= META,
            b'N' => operation = true,
            _ => {}
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 1\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\
        \tfield:u8 future;\toffset:64;\tsize:1;\tsigned:0;\n";

    fn switch(state: i64) -> i64 {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        let layout = Layout::new("x86_64").unwrap();
        let plan = Plan::new(&format, layout.event("sched", "sched_switch"), ByteOrder::NATIVE, 8);
        let mut record = [0u8; 65];
        record[28..32].copy_from_slice(&120i32.to_ne_bytes());
        record[32..40].copy_from_slice(&state.to_ne_bytes());
        record[64] = 7;
        let mut out = Vec::new();
        assert!(plan.encode(&record, &mut KnownThreads::default(), &mut out));
        assert_eq!(out.len(), 57);
        assert_eq!(out[20..24], 20i32.to_ne_bytes());
        assert_eq!(out[56], 7);
        assert_eq!(plan.fields.last().unwrap().0, "future");
        i64::from_ne_bytes(out[24..32].try_into().unwrap())
    }

    #[test]
    fn a_preempted_thread_is_running_and_a_sleeping_thread_keeps_its_state() {
        assert_eq!(switch(0x100), 0);
        assert_eq!(switch(0), 0);
        for state in [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80] {
            assert_eq!(switch(state), state);
            assert_eq!(switch(state | 0x100), state);
        }
    }

    #[test]
    fn a_record_that_is_too_short_yields_zeros() {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        let plan = Plan::new(&format, None, ByteOrder::NATIVE, 8);
        let mut out = Vec::new();
        assert!(!plan.encode(&[1; 30], &mut KnownThreads::default(), &mut out));
        assert_eq!(out.len(), 57);
    }

    #[test]
    fn letters_of_block_requests_become_lttngs_flags() {
        assert_eq!(rwbs(b"W"), 1);
        assert_eq!(rwbs(b"RA"), 4 | 8);
        assert_eq!(rwbs(b"WS"), 1 | 32);
        assert_eq!(rwbs(b"FWFSM"), 1024 | 1 | 512 | 32 | 64);
        assert_eq!(rwbs(b"FF"), 1024 | 256);
        assert_eq!(rwbs(b"F"), 256);
        assert_eq!(rwbs(b"DE"), 2 | 128);
        assert_eq!(rwbs(b"N"), 0);
    }
}
