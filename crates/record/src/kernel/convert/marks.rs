//! What the recorder says among the kernel's events: masks, by the tracer's marker (see `masks`),
//! and what it gave up (see `overload`), by its description.

use super::super::layout::encode::integer;
use super::super::layout::{Int, Kind};
use super::super::masks::{AT_END, MARK};
use super::source::Off;
use longpole_ftrace::{ByteOrder, EventFormat, Field};

const TID: Int = Int { signed: true, ..Int::unsigned(32) };
const NS: Int = Int::unsigned(64);

pub struct Marks {
    number: Field,
}

/// A thread was asked where it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask<'a> {
    tid: i32,
    /// Who had changed it, by which number, and whose numbers these are.
    by: i32,
    about: i32,
    numbers: i32,
    /// In ticks.
    asked: u64,
    list: &'a [u8],
}

impl Mask<'_> {
    /// It is no answer to a call.
    pub fn is_at_end(&self) -> bool {
        self.numbers == AT_END
    }

    /// The class of those that are told at the end.
    pub fn class_at_end() -> (String, Vec<(String, Kind)>) {
        let fields = [("tid", Kind::Int(TID)), ("cpus_allowed", Kind::String), ("waited_ns", Kind::Int(NS))];
        ("longpole_affinity_end".to_owned(), fields.map(|(name, kind)| (name.to_owned(), kind)).into())
    }

    /// The class in the trace.
    pub fn class() -> (String, Vec<(String, Kind)>) {
        let number = |name: &str| (name.to_owned(), Kind::Int(TID));
        let fields = [number("tid"), ("cpus_allowed".to_owned(), Kind::String), number("by_tid"), number("about"), number("own_numbers")];
        ("longpole_affinity".to_owned(), fields.into_iter().chain([("waited_ns".to_owned(), Kind::Int(NS))]).collect())
    }

    /// Of a mark that stands at `time`; `second` are the ticks of one.
    pub fn write(&self, time: u64, second: u64, out: &mut Vec<u8>) {
        integer(out, self.tid.into(), TID);
        out.extend_from_slice(self.list);
        out.push(0);
        if !self.is_at_end() {
            for number in [self.by, self.about, self.numbers] {
                integer(out, number.into(), TID);
            }
        }
        integer(out, nanoseconds(time.saturating_sub(self.asked), second), NS);
    }
}

/// Rather too long than too short.
fn nanoseconds(ticks: u64, second: u64) -> i64 {
    let all = u128::from(ticks) * 1_000_000_000;
    i64::try_from(all.div_ceil(u128::from(second.max(1)))).unwrap_or(i64::MAX)
}

/// From a time on, these events are not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedOff {
    pub time: u64,
    what: String,
    /// Names of classes, with `*` for any text.
    classes: Vec<String>,
    /// Of the classes of system calls: those that are recorded further.
    calls: Vec<String>,
}

impl SwitchedOff {
    /// `names`: what the class of an event is called in the trace.
    pub fn new(off: &Off, names: impl Fn(&str) -> Option<String>) -> SwitchedOff {
        let classes = off.events.iter().filter_map(|event| match event.as_str() {
            "raw_syscalls:sys_enter" => Some("syscall_entry_*".to_owned()),
            "raw_syscalls:sys_exit" => Some("syscall_exit_*".to_owned()),
            event => names(event),
        });
        SwitchedOff { time: off.time, what: off.what.clone(), classes: classes.collect(), calls: off.calls.clone() }
    }

    /// The class in the trace.
    pub fn class() -> (String, Vec<(String, Kind)>) {
        let fields = ["what", "events", "calls"].map(|name| (name.to_owned(), Kind::String));
        ("longpole_switched_off".to_owned(), fields.into_iter().chain([("ago_ns".to_owned(), Kind::Int(NS))]).collect())
    }

    /// At `time`; `second` are the ticks of one.
    pub fn write(&self, time: u64, second: u64, out: &mut Vec<u8>) {
        for text in [&self.what, &self.classes.join(" "), &self.calls.join(" ")] {
            out.extend(text.bytes().filter(|byte| *byte != 0));
            out.push(0);
        }
        integer(out, nanoseconds(time.saturating_sub(self.time), second), NS);
    }
}

impl Marks {
    pub fn new(format: &EventFormat) -> Option<Marks> {
        Some(Marks { number: format.field("id")?.clone() })
    }

    /// None: the mark is another one, or damaged.
    pub fn mask<'a>(&self, record: &'a [u8], order: ByteOrder) -> Option<Mask<'a>> {
        if self.number.int(record, order).ok()? != i128::from(MARK) {
            return None;
        }
        let rest = record.get((self.number.offset + self.number.size) as usize..)?;
        let (tid, rest) = rest.split_first_chunk()?;
        let (by, rest) = rest.split_first_chunk()?;
        let (about, rest) = rest.split_first_chunk()?;
        let (numbers, rest) = rest.split_first_chunk()?;
        let (asked, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        // The kernel fills the record up.
        let list = rest.get(..u32::from_ne_bytes(*length) as usize)?;
        let (tid, by) = (i32::from_ne_bytes(*tid), i32::from_ne_bytes(*by));
        let (about, numbers) = (i32::from_ne_bytes(*about), i32::from_ne_bytes(*numbers));
        let mask = Mask { tid, by, about, numbers, asked: u64::from_ne_bytes(*asked), list };
        list.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b',')).then_some(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_far_as_it_says_and_a_damaged_one_tells_nothing() {
        let text = "name: raw_data\nID: 19\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned int id;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:char buf[];\toffset:12;\tsize:0;\tsigned:0;\n";
        let marks = Marks::new(&EventFormat::parse("ftrace", text).unwrap()).unwrap();
        let record = |number: u32, tid: i32, length: u32, list: &[u8]| {
            let (by, asked) = ([5i32, 6, 1].map(i32::to_ne_bytes), 1000u64.to_ne_bytes());
            [&[0; 8], &number.to_ne_bytes()[..], &tid.to_ne_bytes(), by.as_flattened(), &asked, &length.to_ne_bytes(), list].concat()
        };
        let whole = record(MARK, 77, 3, b"0-1\0");
        let mask = marks.mask(&whole, ByteOrder::NATIVE).unwrap();
        assert_eq!(mask, Mask { tid: 77, by: 5, about: 6, numbers: 1, asked: 1000, list: b"0-1" });
        for (time, waited) in [(1000, 0), (900, 0), (1001, 334), (4000, 1_000_000)] {
            let mut out = Vec::new();
            mask.write(time, 3_000_000, &mut out);
            assert_eq!(out[20..], u64::to_ne_bytes(waited), "{time}");
        }
        for cut in 0..whole.len() - 1 {
            assert_eq!(marks.mask(&whole[..cut], ByteOrder::NATIVE), None, "{cut}");
        }
        for wrong in [record(MARK, 7, u32::MAX, b"0"), record(MARK ^ 1, 7, 1, b"0"), record(MARK, 7, 3, b"0\0\0\0")] {
            assert_eq!(marks.mask(&wrong, ByteOrder::NATIVE), None);
        }
    }
}
