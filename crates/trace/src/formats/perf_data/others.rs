//! The kernel's records other than samples, with the fields that `perf_event.h` defines for them.

use crate::value::Value;
use longpole_ftrace::ByteOrder;

/// A kind of record.
pub(super) struct Layout {
    pub kind: u32,
    pub name: &'static str,
    pub fields: &'static [(&'static str, Shape)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Short,
    Half,
    Word,
    /// A word that is shown in hexadecimal.
    Address,
    /// A text up to its NUL or the end of the record.
    Text,
    /// A bit of the record header's `misc` field.
    Bit(u32),
}

use Shape::{Address, Bit, Half, Short, Text, Word};

pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const FORK: u32 = 7;
pub(super) const LOST_SAMPLES: u32 = 13;

const TASK: &[(&str, Shape)] = &[("pid", Half), ("ppid", Half), ("tid", Half), ("ptid", Half)];
const THROTTLE: &[(&str, Shape)] = &[("time", Word), ("id", Word), ("stream_id", Word)];

const fn layout(kind: u32, name: &'static str, fields: &'static [(&'static str, Shape)]) -> Layout {
    Layout { kind, name, fields }
}

pub(super) const LAYOUTS: &[Layout] = &[
    layout(
        1,
        "PERF_RECORD_MMAP",
        &[("pid", Half), ("tid", Half), ("addr", Address), ("len", Address), ("pgoff", Address), ("filename", Text)],
    ),
    layout(COMM, "PERF_RECORD_COMM", &[("pid", Half), ("tid", Half), ("exec", Bit(13)), ("comm", Text)]),
    layout(4, "PERF_RECORD_EXIT", TASK),
    layout(5, "PERF_RECORD_THROTTLE", THROTTLE),
    layout(6, "PERF_RECORD_UNTHROTTLE", THROTTLE),
    layout(FORK, "PERF_RECORD_FORK", TASK),
    layout(8, "PERF_RECORD_READ", &[("pid", Half), ("tid", Half)]),
    layout(
        10,
        "PERF_RECORD_MMAP2",
        &[
            ("pid", Half),
            ("tid", Half),
            ("addr", Address),
            ("len", Address),
            ("pgoff", Address),
            ("maj", Half),
            ("min", Half),
            ("ino", Word),
            ("ino_generation", Word),
            ("prot", Half),
            ("flags", Half),
            ("filename", Text),
        ],
    ),
    layout(11, "PERF_RECORD_AUX", &[("aux_offset", Address), ("aux_size", Word), ("flags", Address)]),
    layout(12, "PERF_RECORD_ITRACE_START", &[("pid", Half), ("tid", Half)]),
    layout(14, "PERF_RECORD_SWITCH", &[("out", Bit(13)), ("preempt", Bit(14))]),
    layout(15, "PERF_RECORD_SWITCH_CPU_WIDE", &[("next_prev_pid", Half), ("next_prev_tid", Half), ("out", Bit(13)), ("preempt", Bit(14))]),
    layout(16, "PERF_RECORD_NAMESPACES", &[("pid", Half), ("tid", Half), ("nr_namespaces", Word)]),
    layout(17, "PERF_RECORD_KSYMBOL", &[("addr", Address), ("len", Half), ("ksym_type", Short), ("flags", Short), ("name", Text)]),
    layout(18, "PERF_RECORD_BPF_EVENT", &[("type", Short), ("flags", Short), ("id", Half)]),
    layout(19, "PERF_RECORD_CGROUP", &[("id", Word), ("path", Text)]),
    layout(20, "PERF_RECORD_TEXT_POKE", &[("addr", Address), ("old_len", Short), ("new_len", Short)]),
    layout(21, "PERF_RECORD_AUX_OUTPUT_HW_ID", &[("hw_id", Address)]),
];

impl Layout {
    /// Returns the values of a record whose trailer was removed. A field beyond the end of the
    /// record is empty.
    pub fn values<'a>(&'static self, body: &'a [u8], misc: u16, order: ByteOrder) -> impl Iterator<Item = Value<'a>> + 'a {
        let mut rest = body;
        self.fields.iter().map(move |(_, shape)| {
            let mut number = |size: usize| {
                let (bytes, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
                rest = behind;
                order.unsigned(bytes).map_or(Value::Bytes(bytes), Value::U64)
            };
            match shape {
                Shape::Short => number(2),
                Shape::Half => match number(4) {
                    Value::U64(number) if number as u32 as i32 == -1 => Value::I64(-1),
                    value => value,
                },
                Shape::Word | Shape::Address => number(8),
                Shape::Bit(bit) => Value::U64((misc >> bit & 1).into()),
                Shape::Text => {
                    let text = std::mem::take(&mut rest);
                    Value::Str(&text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())])
                }
            }
        })
    }
}
