//! The content of records: process, thread, time and CPU, which are at the begin of samples and at
//! the end of other records, and the other parts of a sample in the order in which the kernel
//! writes them (`perf_event.h`, `PERF_RECORD_SAMPLE`).
//!
//! Every count is checked: if something does not fit into the record, the record is damaged.

use super::file::{word, Attribute};
use longpole_ctf::OwnedValue;
use longpole_ftrace::ByteOrder;
use std::ops::Range;
use std::sync::Arc;

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCH_STACK: u64 = 1 << 11;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const WEIGHT: u64 = 1 << 14;
const DATA_SRC: u64 = 1 << 15;
const IDENTIFIER: u64 = 1 << 16;
const TRANSACTION: u64 = 1 << 17;
const REGS_INTR: u64 = 1 << 18;
const PHYS_ADDR: u64 = 1 << 19;
const AUX: u64 = 1 << 20;
const CGROUP: u64 = 1 << 21;
const DATA_PAGE_SIZE: u64 = 1 << 22;
const CODE_PAGE_SIZE: u64 = 1 << 23;
const WEIGHT_STRUCT: u64 = 1 << 24;

const READ_ENABLED: u64 = 1;
const READ_RUNNING: u64 = 2;
const READ_ID: u64 = 4;
const READ_GROUP: u64 = 8;
const READ_LOST: u64 = 16;
/// Bits of `branch_sample_type`: an index before the branches, and counters after them.
const BRANCH_HW_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// Process, thread, time and CPU of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordOrigin {
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub time: Option<u64>,
    pub cpu: Option<u32>,
}

/// Reads a record from its begin.
struct Cursor<'a> {
    rest: &'a [u8],
    order: ByteOrder,
    length: usize,
}

impl<'a> Cursor<'a> {
    fn new(body: &'a [u8], order: ByteOrder) -> Cursor<'a> {
        Cursor { rest: body, order, length: body.len() }
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    fn number(&mut self, size: usize) -> Option<u64> {
        self.order.unsigned(self.bytes(size)?)
    }

    fn word(&mut self) -> Option<u64> {
        self.number(8)
    }

    fn if_in(&mut self, all: u64, bit: u64) -> Option<Option<u64>> {
        if all & bit == 0 {
            return Some(None);
        }
        self.word().map(Some)
    }

    /// Reads `count` things of `size` bytes each.
    fn many(&mut self, count: u64, size: usize) -> Option<&'a [u8]> {
        let count = usize::try_from(count).ok()?;
        self.bytes(count.checked_mul(size)?)
    }

    fn words(&mut self, count: u64) -> Option<OwnedValue> {
        let order = self.order;
        let words = self.many(count, 8)?.chunks_exact(8);
        Some(OwnedValue::List(words.map(|bytes| OwnedValue::U64(order.unsigned(bytes).unwrap_or(0))).collect()))
    }

    fn at(&self) -> usize {
        self.length - self.rest.len()
    }
}

/// Splits a word that holds two 32-bit numbers.
fn halves(bytes: &[u8], order: ByteOrder) -> Option<(u32, u32)> {
    Some((order.unsigned(bytes.get(..4)?)? as u32, order.unsigned(bytes.get(4..8)?)? as u32))
}

impl RecordOrigin {
    pub fn of_sample(attribute: &Attribute, body: &[u8], order: ByteOrder) -> RecordOrigin {
        head(attribute, &mut Cursor::new(body, order)).map(|head| head.place).unwrap_or_default()
    }
}

struct Head {
    place: RecordOrigin,
    ip: Option<u64>,
    addr: Option<u64>,
    period: Option<u64>,
}

fn head(attribute: &Attribute, at: &mut Cursor<'_>) -> Option<Head> {
    let all = attribute.sample_type;
    at.if_in(all, IDENTIFIER)?;
    let ip = at.if_in(all, IP)?;
    let threads = if all & TID != 0 { Some(halves(at.bytes(8)?, at.order)?) } else { None };
    let time = at.if_in(all, TIME)?;
    let addr = at.if_in(all, ADDR)?;
    at.if_in(all, ID)?;
    at.if_in(all, STREAM_ID)?;
    let cpu = if all & CPU != 0 { Some(halves(at.bytes(8)?, at.order)?.0) } else { None };
    let period = at.if_in(all, PERIOD)?;
    let (pid, tid) = (threads.map(|(pid, _)| pid as i32), threads.map(|(_, tid)| tid as i32));
    Some(Head { place: RecordOrigin { pid, tid, time, cpu }, ip, addr, period })
}

/// Reads the trailer of a record that is no sample.
pub(super) fn trailer(attribute: &Attribute, body: &[u8], order: ByteOrder) -> RecordOrigin {
    let all = attribute.sample_type;
    let parts = (all & (TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER)).count_ones() as usize;
    let Some(begin) = body.len().checked_sub(8 * parts).filter(|_| attribute.id_all) else { return RecordOrigin::default() };
    let mut at = Cursor::new(&body[begin..], order);
    let mut place = RecordOrigin::default();
    if all & TID != 0 {
        let threads = at.bytes(8).and_then(|bytes| halves(bytes, order));
        (place.pid, place.tid) = (threads.map(|(pid, _)| pid as i32), threads.map(|(_, tid)| tid as i32));
    }
    place.time = at.if_in(all, TIME).flatten();
    at.if_in(all, ID);
    at.if_in(all, STREAM_ID);
    if all & CPU != 0 {
        place.cpu = at.bytes(8).and_then(|bytes| halves(bytes, order)).map(|(cpu, _)| cpu);
    }
    place
}

/// Returns the size in bytes of the trailer of a record that is no sample.
pub(super) fn trailer_length(attribute: &Attribute) -> usize {
    let parts = attribute.sample_type & (TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER);
    8 * usize::from(attribute.id_all) * parts.count_ones() as usize
}

/// Returns the id by which a record names its event, if all events have the layout of `attribute`.
pub(super) fn id_of(attribute: &Attribute, is_sample: bool, body: &[u8], order: ByteOrder) -> Option<u64> {
    let all = attribute.sample_type;
    let count = |parts: u64| 8 * (all & parts).count_ones() as usize;
    let at = match (is_sample, all & IDENTIFIER != 0, all & ID != 0) {
        (true, true, _) => Some(0),
        (true, false, true) => Some(count(IP | TID | TIME | ADDR)),
        (false, true, _) => body.len().checked_sub(8),
        (false, false, true) => body.len().checked_sub(count(ID | STREAM_ID | CPU)),
        (_, false, false) => None,
    };
    at.filter(|_| is_sample || attribute.id_all).and_then(|at| word(body, at, order))
}

/// Returns the names of the parts of this event's samples, in the order of [`read`], and whether
/// they are shown in hexadecimal.
pub(super) fn parts(attribute: &Attribute) -> Vec<(&'static str, bool)> {
    let all = [
        (IP, "ip", true),
        (ADDR, "addr", true),
        (PERIOD, "period", false),
        (READ, "counters", false),
        (CALLCHAIN, "callchain", true),
        (BRANCH_STACK, "branches", true),
        (REGS_USER, "user_regs", true),
        (STACK_USER, "user_stack", true),
        (WEIGHT | WEIGHT_STRUCT, "weight", false),
        (DATA_SRC, "data_src", true),
        (TRANSACTION, "transaction", true),
        (REGS_INTR, "intr_regs", true),
        (PHYS_ADDR, "phys_addr", true),
        (CGROUP, "cgroup", false),
        (DATA_PAGE_SIZE, "data_page_size", false),
        (CODE_PAGE_SIZE, "code_page_size", false),
        (AUX, "aux", true),
    ];
    let has = |bits: u64| attribute.sample_type & bits != 0;
    all.iter().filter(|(bits, ..)| has(*bits)).map(|(_, name, is_hex)| (*name, *is_hex)).collect()
}

/// Reads a sample. Appends its parts to `out` and returns the range of the tracepoint's bytes.
/// Returns `None` if the sample is damaged.
pub(super) fn read(attribute: &Attribute, body: &[u8], order: ByteOrder, out: &mut Vec<OwnedValue>) -> Option<Range<usize>> {
    out.clear();
    let all = attribute.sample_type;
    let at = &mut Cursor::new(body, order);
    let head = head(attribute, at)?;
    out.extend([head.ip, head.addr, head.period].into_iter().flatten().map(OwnedValue::U64));
    if all & READ != 0 {
        out.push(counters(attribute.read_format, at)?);
    }
    if all & CALLCHAIN != 0 {
        let count = at.word()?;
        out.push(at.words(count)?);
    }
    let mut raw = 0..0;
    if all & RAW != 0 {
        let length = at.number(4)? as usize;
        raw = at.at()..at.at() + length;
        at.bytes(length)?;
    }
    if all & BRANCH_STACK != 0 {
        out.push(branches(attribute.branch_type, at)?);
    }
    if all & REGS_USER != 0 {
        out.push(registers(attribute.user_regs, at)?);
    }
    if all & STACK_USER != 0 {
        let length = at.word()?;
        let stack = at.many(length, 1)?;
        let used = if length > 0 { usize::try_from(at.word()?).ok()?.min(stack.len()) } else { 0 };
        out.push(OwnedValue::Bytes(stack[..used].to_vec()));
    }
    for bits in [WEIGHT | WEIGHT_STRUCT, DATA_SRC, TRANSACTION] {
        out.extend(at.if_in(all, bits)?.map(OwnedValue::U64));
    }
    if all & REGS_INTR != 0 {
        out.push(registers(attribute.intr_regs, at)?);
    }
    for bits in [PHYS_ADDR, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE] {
        out.extend(at.if_in(all, bits)?.map(OwnedValue::U64));
    }
    if all & AUX != 0 {
        let length = at.word()?;
        out.push(OwnedValue::Bytes(at.many(length, 1)?.to_vec()));
    }
    Some(raw)
}

fn named(name: &str, value: u64) -> (Arc<str>, OwnedValue) {
    (name.into(), OwnedValue::U64(value))
}

/// Reads the counters of a group, or of a single event.
fn counters(format: u64, at: &mut Cursor<'_>) -> Option<OwnedValue> {
    let mut members = Vec::new();
    let mut times = |at: &mut Cursor<'_>| -> Option<()> {
        members.extend(at.if_in(format, READ_ENABLED)?.map(|time| named("time_enabled", time)));
        members.extend(at.if_in(format, READ_RUNNING)?.map(|time| named("time_running", time)));
        Some(())
    };
    let counter = |at: &mut Cursor<'_>, value: u64| -> Option<OwnedValue> {
        let mut counter = vec![named("value", value)];
        counter.extend(at.if_in(format, READ_ID)?.map(|id| named("id", id)));
        counter.extend(at.if_in(format, READ_LOST)?.map(|lost| named("lost", lost)));
        Some(OwnedValue::Fields(counter))
    };
    let mut values = Vec::new();
    if format & READ_GROUP != 0 {
        let count = at.word()?;
        times(at)?;
        for _ in 0..count {
            let value = at.word()?;
            values.push(counter(at, value)?);
        }
    } else {
        let value = at.word()?;
        times(at)?;
        values.push(counter(at, value)?);
    }
    members.push(("values".into(), OwnedValue::List(values)));
    Some(OwnedValue::Fields(members))
}

fn branches(kinds: u64, at: &mut Cursor<'_>) -> Option<OwnedValue> {
    let count = at.word()?;
    at.if_in(kinds, BRANCH_HW_INDEX)?;
    let order = at.order;
    let entries = at.many(count, 24)?.chunks_exact(24).map(|entry| {
        let names = ["from", "to", "flags"].into_iter().zip([0, 8, 16]);
        OwnedValue::Fields(names.map(|(name, at)| named(name, word(entry, at, order).unwrap_or(0))).collect())
    });
    let entries = OwnedValue::List(entries.collect());
    if kinds & BRANCH_COUNTERS != 0 {
        at.many(count, 8)?;
    }
    Some(entries)
}

/// Reads the registers that the mask selects. The list is empty if the record has none, as for the
/// user registers of a kernel thread.
fn registers(mask: u64, at: &mut Cursor<'_>) -> Option<OwnedValue> {
    let none = OwnedValue::List(Vec::new());
    match at.word()? {
        0 => Some(none),
        _ => at.words(u64::from(mask.count_ones())),
    }
}
