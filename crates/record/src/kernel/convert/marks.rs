//! What the recorder itself writes into the kernel's trace: affinity masks, which it put among the
//! events through the tracer's marker (see `masks`), and events that it gave up (see `overload`),
//! which it noted in the description of the pages.

use super::super::layout::encode::integer;
use super::super::layout::{Int, Kind, I32};
use super::super::masks::{AT_END, MARK};
use super::source::StoredSwitchOff;
use longpole_ftrace::{ByteOrder, EventFormat, Field};

const NS: Int = Int::unsigned(64);

/// Decoder of the marker event by which the recorder writes masks.
pub struct Marks {
    number: Field,
}

/// Answer of the kernel about the CPUs on which a thread may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask<'a> {
    tid: i32,
    /// Thread that changed the mask.
    by: i32,
    /// Number by which that thread named the thread with the mask.
    about: i32,
    /// Pid namespace to which `about` belongs: one of the constants in `masks`.
    numbers: i32,
    /// Time of the question, in ticks.
    asked: u64,
    /// The CPUs, such as `0-3,8`. Empty if the thread had ended.
    list: &'a [u8],
}

impl Mask<'_> {
    /// True if the mask was read at the end of the recording and not after a call that changed it.
    pub fn is_at_end(&self) -> bool {
        self.numbers == AT_END
    }

    /// Name and fields of the class for masks that were read at the end of the recording.
    pub fn class_at_end() -> (String, Vec<(String, Kind)>) {
        let fields = [("tid", Kind::Int(I32)), ("cpus_allowed", Kind::String), ("waited_ns", Kind::Int(NS))];
        ("longpole_affinity_end".to_owned(), fields.map(|(name, kind)| (name.to_owned(), kind)).into())
    }

    /// Name and fields of the class for masks that were read after a call.
    pub fn class() -> (String, Vec<(String, Kind)>) {
        let number = |name: &str| (name.to_owned(), Kind::Int(I32));
        let fields = [number("tid"), ("cpus_allowed".to_owned(), Kind::String), number("by_tid"), number("about"), number("own_numbers")];
        ("longpole_affinity".to_owned(), fields.into_iter().chain([("waited_ns".to_owned(), Kind::Int(NS))]).collect())
    }

    /// Appends the payload of a mark that was written at `time`. `second` is the number of ticks of
    /// one second.
    pub fn write(&self, time: u64, second: u64, out: &mut Vec<u8>) {
        integer(out, self.tid.into(), I32);
        out.extend_from_slice(self.list);
        out.push(0);
        if !self.is_at_end() {
            for number in [self.by, self.about, self.numbers] {
                integer(out, number.into(), I32);
            }
        }
        integer(out, nanoseconds(time.saturating_sub(self.asked), second), NS);
    }
}

/// Converts ticks to nanoseconds, rounded up.
fn nanoseconds(ticks: u64, second: u64) -> i64 {
    let all = u128::from(ticks) * 1_000_000_000;
    i64::try_from(all.div_ceil(u128::from(second.max(1)))).unwrap_or(i64::MAX)
}

/// The trace's event that tells which events are not recorded any more from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedOffEvent {
    pub time: u64,
    what: String,
    /// Names of classes. A `*` matches any text.
    classes: Vec<String>,
    /// For classes of system calls, the calls that are still recorded.
    calls: Vec<String>,
}

impl SwitchedOffEvent {
    /// `names` returns the name of an event's class in the trace.
    pub fn new(off: &StoredSwitchOff, names: impl Fn(&str) -> Option<String>) -> SwitchedOffEvent {
        let classes = off.events.iter().filter_map(|event| match event.as_str() {
            "raw_syscalls:sys_enter" | "syscalls:sys_enter_*" => Some("syscall_entry_*".to_owned()),
            "raw_syscalls:sys_exit" | "syscalls:sys_exit_*" => Some("syscall_exit_*".to_owned()),
            event => names(event),
        });
        SwitchedOffEvent { time: off.time, what: off.what.clone(), classes: classes.collect(), calls: off.calls.clone() }
    }

    /// Name and fields of the class in the trace.
    pub fn class() -> (String, Vec<(String, Kind)>) {
        let fields = ["what", "events", "calls"].map(|name| (name.to_owned(), Kind::String));
        ("longpole_switched_off".to_owned(), fields.into_iter().chain([("ago_ns".to_owned(), Kind::Int(NS))]).collect())
    }

    /// Appends the payload of an event at `time`. `second` is the number of ticks of one second.
    pub fn write(&self, time: u64, second: u64, out: &mut Vec<u8>) {
        for text in [&self.what, &self.classes.join(" "), &self.calls.join(" ")] {
            out.extend(text.bytes().filter(|byte| *byte != 0));
            out.push(0);
        }
        integer(out, nanoseconds(time.saturating_sub(self.time), second), NS);
    }
}

impl Marks {
    /// Makes a decoder for events of this format. `None` if the format has no field `id`.
    pub fn new(format: &EventFormat) -> Option<Marks> {
        Some(Marks { number: format.field("id")?.clone() })
    }

    /// Decodes a mask. `None` if the mark is a different one or damaged.
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
        // The record may be longer than the list, because the kernel pads it.
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
    fn a_mark_is_read_to_its_stated_length_and_a_damaged_one_is_ignored() {
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
