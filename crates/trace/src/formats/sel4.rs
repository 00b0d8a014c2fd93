//! Logs of the seL4 kernel: raw memory that the kernel filled, from the frame that a benchmark gave
//! it. The file has no header.
//!
//! Such a file states neither its format nor its layout, so the caller must describe it with
//! [`Dump`]. The layouts are those that compilers give to the structures of libsel4
//! (`benchmark_track_types.h`, `benchmark_tracepoints_types.h`); docs/formats/sel4.md draws them.
//! An entry of the kernel becomes one event at its begin. If [`Dump::ends`] is set, as for the
//! model, it becomes a second event at its end, because rules handle moments and not intervals.
//!
//! The kernel neither clears the frame nor marks the last entry. Zeros at the end were never
//! written. An entry that starts before its predecessor is left from an earlier run or is no entry
//! at all; it is refused and its place is reported.

mod layout;

use self::layout::{Entry, EntryKind, Extent, Layout, SYSCALL};
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, PacketValues, StreamId, StreamKind, Subject, SubjectId};
use crate::shared::Shared;
use crate::value::Value;
use crate::value_buffer::ValueBuffer;
use longpole_ftrace::ByteOrder;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Description of a log that does not describe itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// Content of the log.
    pub log: Log,
    /// Size of a word of the kernel.
    pub word: Word,
    /// Byte order of the kernel.
    pub order: ByteOrder,
    /// Frequency of the counter that the kernel read. `None` if unknown; a cycle then counts as 1
    /// ns.
    pub frequency_hz: Option<u64>,
    /// Number of entries, as returned by `seL4_BenchmarkFinalizeLog`. If `None`, everything that is
    /// not zero is read.
    pub entries: Option<u64>,
    /// Set if the kernel has the mixed-criticality configuration, whose system calls have other
    /// numbers.
    pub mcs: bool,
    /// Set if ends of entries are events, too, as the model needs them.
    pub ends: bool,
}

/// Content of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    KernelEntries,
    Tracepoints,
}

/// Size of the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Bits32,
    Bits64,
}

/// Bytes of the frame that the kernel uses on all of its architectures (`seL4_LogBufferSize`).
const KERNEL_USES: u64 = 1 << 20;
pub(crate) struct DumpSource {
    path: PathBuf,
    file: BufReader<File>,
    dump: Dump,
    layout: Layout,
    extent: Extent,
    stream: StreamId,
    subject: SubjectId,
    classes: Classes,
    /// Number of entries that were read, and the place and reason of the first one that cannot be
    /// read.
    read: u64,
    broken: Option<String>,
    /// Cycles at the last entry's begin, number of overflows of a 32-bit counter, and sum of the
    /// durations of tracepoints.
    last: u64,
    wraps: u64,
    sum: u64,
    overlaps: u64,
    unnamed: u64,
    ahead: Option<Entry>,
    open: Option<Entry>,
    reported: Reported,
    current: CurrentItem,
}

/// Items without an entry that were yielded.
#[derive(Default)]
struct Reported {
    begin: bool,
    loss: bool,
}

/// The item that is yielded next, or was yielded last.
#[derive(Clone, Copy)]
enum CurrentItem {
    Begin(i64),
    Entry(i64, Entry),
    End(i64, Entry),
    Loss(Loss),
}

/// Classes by the kind of entry, for begins and ends.
struct Classes {
    begin: ClassId,
    entry: [ClassId; 4],
    end: [ClassId; 4],
}

impl EntryKind {
    fn class(self) -> usize {
        match self {
            EntryKind::Syscall { .. } => 0,
            EntryKind::Interrupt { .. } => 1,
            EntryKind::Other { .. } => 2,
            EntryKind::Tracepoint { .. } => 3,
        }
    }
}

/// Names of `entry_type_t`. The last value has different meanings on Arm and on x86.
const PATHS: [&str; 8] =
    ["Interrupt", "UnknownSyscall", "UserLevelFault", "DebugFault", "VMFault", "Syscall", "UnimplementedDevice", "VCPUFault or VMExit"];

/// System calls by their number, from 1: `api-master` and `api-mcs` of the kernel's `syscall.xml`.
const MASTER: [&str; 8] = ["Call", "ReplyRecv", "Send", "NBSend", "Recv", "Reply", "Yield", "NBRecv"];
const MCS: [&str; 11] = ["Call", "ReplyRecv", "NBSendRecv", "NBSendWait", "Send", "NBSend", "Recv", "NBRecv", "Wait", "NBWait", "Yield"];

/// Names of unknown system calls, for all numbers of 4 bits.
const UNNAMED: [&str; 16] = [
    "call 0", "call 1", "call 2", "call 3", "call 4", "call 5", "call 6", "call 7", "call 8", "call 9", "call 10", "call 11", "call 12",
    "call 13", "call 14", "call 15",
];

impl DumpSource {
    pub fn open(path: &Path, name: String, dump: Dump, shared: &mut Shared) -> Result<DumpSource, Error> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(Error::io(path))?);
        let extent = Extent::look(file.get_mut(), path)?;
        let layout = Layout::find(&mut file, &dump, &extent).map_err(Error::io(path))?;
        if layout.lasts_nothing(&mut file, &extent).map_err(Error::io(path))? {
            let what = "every duration is 0; check --word-size and --byte-order".to_owned();
            return Err(Error::Recording { path: path.to_owned(), what });
        }
        let stream = shared.stream(name, StreamKind::User);
        let label = if dump.log == Log::KernelEntries { "cpu" } else { "kernel" };
        let subject = shared.subject(Subject { label: label.to_owned(), ..Subject::default() });
        let mut source = DumpSource {
            path: path.to_owned(),
            file,
            dump,
            layout,
            extent,
            stream,
            subject,
            classes: Classes::new(shared),
            read: 0,
            broken: None,
            last: 0,
            wraps: 0,
            sum: 0,
            overlaps: 0,
            unnamed: 0,
            ahead: None,
            open: None,
            reported: Reported::default(),
            current: CurrentItem::Begin(0),
        };
        source.ahead = source.next()?;
        if let Some(what) = source.broken.take() {
            // If no entry can be read, the file is refused.
            return Err(Error::Recording { path: path.to_owned(), what });
        }
        source.introduce(shared);
        Ok(source)
    }

    /// Reports what the log does not contain, so that users can judge the results.
    fn introduce(&self, shared: &mut Shared) {
        let path = self.path.clone();
        if self.dump.log == Log::Tracepoints {
            shared.diagnostics.push(Diagnostic::Untimed { path: path.clone() });
        } else if self.dump.ends {
            shared.diagnostics.push(Diagnostic::NoThreadNames { path: path.clone() });
        }
        if self.dump.frequency_hz.is_none() {
            shared.diagnostics.push(Diagnostic::UnknownCycleLength { path: path.clone() });
        }
        if self.is_saturated() {
            let lost = self.lost();
            shared.diagnostics.push(Diagnostic::Saturated { path, entries: self.extent.used(self.layout), lost });
        }
    }

    /// Returns true if the last entry that fits was written and is requested.
    fn is_saturated(&self) -> bool {
        let (used, fits) = (self.extent.used(self.layout), self.extent.length / self.layout.bytes);
        let is_frame = self.extent.length >= 4096 && self.extent.length.is_power_of_two();
        let is_full = used == KERNEL_USES / self.layout.bytes || (used == fits && is_frame);
        is_full && self.dump.entries.is_none_or(|entries| entries >= used)
    }

    /// Returns the number of lost entries. The kernel continues to count tracepoints when the log
    /// is full, but not kernel entries.
    fn lost(&self) -> Option<u64> {
        let entries = self.dump.entries.filter(|_| self.dump.log == Log::Tracepoints)?;
        Some(entries - self.extent.used(self.layout).min(entries))
    }

    /// Returns the number of entries to be read.
    fn count(&self) -> u64 {
        let (used, fits) = (self.extent.used(self.layout), self.extent.length / self.layout.bytes);
        match self.dump.entries {
            None => used,
            Some(_) if self.is_saturated() => used.min(fits),
            Some(entries) => entries,
        }
    }

    /// Returns the next entry. Returns `None` at the end, and if an entry cannot be read.
    fn next(&mut self) -> Result<Option<Entry>, Error> {
        if self.broken.is_some() || self.read >= self.count() {
            return Ok(None);
        }
        let at = self.read * self.layout.bytes;
        let place = format!("entry {}, at byte {at}", self.read);
        if at + self.layout.bytes > self.extent.length {
            self.broken = Some(format!("{place}: the file ends within it, at byte {}", self.extent.length));
            return Ok(None);
        }
        let mut bytes = [0; 24];
        let bytes = &mut bytes[..self.layout.bytes as usize];
        self.file.read_exact(bytes).map_err(Error::io(&self.path))?;
        match self.entry(bytes) {
            Ok(entry) => {
                self.read += 1;
                if let EntryKind::Syscall { number, .. } = entry.kind {
                    self.unnamed += u64::from(self.name(number).is_none());
                }
                Ok(Some(entry))
            }
            Err(why) => {
                self.broken = Some(format!("{place}: {why}"));
                Ok(None)
            }
        }
    }

    fn entry(&mut self, bytes: &[u8]) -> Result<Entry, String> {
        let mut entry = self.layout.entry(bytes)?;
        match entry.kind {
            EntryKind::Tracepoint { .. } => {
                entry.start = self.sum;
                self.sum = self.sum.saturating_add(entry.duration);
            }
            _ => {
                let half = 1 << 31;
                let stored = entry.start;
                if self.dump.word == Word::Bits32 && stored < 1 << 32 && self.last < 1 << 32 && stored + half < self.last {
                    self.wraps += 1;
                } else if stored < self.last {
                    return Err(format!(
                        "it starts at {stored}, before the one before it ({}): what an earlier run left there (read this one's alone: --entries {}), \
                         or nothing of this --format, --word-size and --byte-order",
                        self.last, self.read
                    ));
                }
                self.last = stored;
                entry.start = stored.saturating_add(self.wraps << 32);
            }
        }
        match self.time(entry.start.saturating_add(entry.duration)) {
            Some(_) => Ok(entry),
            None => Err(format!("{} cycles are not a time of this counter", entry.start.saturating_add(entry.duration))),
        }
    }

    /// Converts cycles to ns.
    fn time(&self, cycles: u64) -> Option<i64> {
        let ns = match self.dump.frequency_hz {
            Some(hz) => u128::from(cycles) * 1_000_000_000 / u128::from(hz.max(1)),
            None => u128::from(cycles),
        };
        i64::try_from(ns).ok()
    }

    pub fn advance(&mut self) -> Result<Option<i64>, Error> {
        // The time was checked when the entry was read.
        let time = |source: &DumpSource, cycles| source.time(cycles).unwrap_or(i64::MAX);
        if let Some(open) = self.open.take() {
            let end = open.start.saturating_add(open.duration);
            // On several cores, entries may overlap. The log does not name the core, so the earlier
            // entry ends where the next one begins.
            let cut = self.ahead.map_or(end, |ahead| end.min(ahead.start));
            self.overlaps += u64::from(cut < end);
            return Ok(Some(self.turn(time(self, cut), |t_ns| CurrentItem::End(t_ns, open))));
        }
        if let Some(entry) = self.ahead {
            let t_ns = time(self, entry.start);
            if self.dump.ends && !std::mem::replace(&mut self.reported.begin, true) {
                return Ok(Some(self.turn(t_ns, CurrentItem::Begin)));
            }
            self.ahead = self.next()?;
            self.open = self.dump.ends.then_some(entry);
            return Ok(Some(self.turn(t_ns, |t_ns| CurrentItem::Entry(t_ns, entry))));
        }
        if self.is_saturated() && self.broken.is_none() && !std::mem::replace(&mut self.reported.loss, true) {
            let t_ns = self.time(self.last.max(self.sum)).unwrap_or(i64::MAX);
            let t_ns = t_ns.max(self.current.time());
            let loss = Loss { stream: self.stream, begin_ns: t_ns, end_ns: t_ns, events: self.lost() };
            return Ok((self.lost() != Some(0)).then(|| self.turn(t_ns, |_| CurrentItem::Loss(loss))));
        }
        Ok(None)
    }

    fn turn(&mut self, t_ns: i64, item: impl FnOnce(i64) -> CurrentItem) -> i64 {
        self.current = item(t_ns);
        t_ns
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        let event = |t_ns, class, fields| {
            Item::Event(Event {
                t_ns,
                stream: self.stream,
                subject: self.subject,
                class,
                cpu: None,
                fields,
                context: &[],
                packet: PacketValues::default(),
            })
        };
        match self.current {
            CurrentItem::Begin(t_ns) => event(t_ns, self.classes.begin, &[]),
            CurrentItem::Entry(t_ns, entry) => event(t_ns, self.classes.entry[entry.kind.class()], self.fields(&entry, value_buffer)),
            CurrentItem::End(t_ns, entry) => event(t_ns, self.classes.end[entry.kind.class()], self.fields(&entry, value_buffer)),
            CurrentItem::Loss(loss) => Item::Loss(loss),
        }
    }

    /// Returns the kernel's name of a system call.
    fn name(&self, number: u64) -> Option<&'static str> {
        let all: &[&str] = if self.dump.mcs { &MCS } else { &MASTER };
        all.get((number as usize).checked_sub(1)?).copied()
    }

    fn fields<'a>(&self, entry: &Entry, value_buffer: &'a mut ValueBuffer) -> &'a [Value<'a>] {
        let path = |path: u8| Value::Enum { value: path.into(), label: PATHS[usize::from(path & 7)] };
        let (start, duration) = (Value::U64(entry.start), Value::U64(entry.duration));
        match entry.kind {
            EntryKind::Syscall { number, cap_type, is_fastpath, tag } => {
                let name = self.name(number).unwrap_or(UNNAMED[number as usize & 15]);
                let numbers = [number, cap_type, is_fastpath, tag].map(Value::U64);
                value_buffer.put([path(SYSCALL), Value::Str(name.as_bytes())].into_iter().chain(numbers).chain([start, duration]))
            }
            EntryKind::Interrupt { core, word } => value_buffer.put([path(0), Value::U64(core), Value::U64(word), start, duration]),
            EntryKind::Other { path: number, word } => value_buffer.put([path(number), Value::U64(word), start, duration]),
            EntryKind::Tracepoint { id } => value_buffer.put([Value::U64(id), duration]),
        }
    }

    /// Reports at the end what was found while reading.
    pub fn report(&self, shared: &mut Shared) {
        if self.overlaps > 0 {
            shared.diagnostics.push(Diagnostic::Overlapping { path: self.path.clone(), entries: self.overlaps });
        }
        if self.unnamed > 0 {
            shared.diagnostics.push(Diagnostic::Unnamed { path: self.path.clone(), entries: self.unnamed });
        }
        if let Some(error) = &self.broken {
            shared.diagnostics.push(Diagnostic::DamagedLog { path: self.path.clone(), error: error.clone() });
        }
    }
}

impl CurrentItem {
    fn time(&self) -> i64 {
        match self {
            CurrentItem::Begin(t_ns) | CurrentItem::Entry(t_ns, _) | CurrentItem::End(t_ns, _) => *t_ns,
            CurrentItem::Loss(loss) => loss.end_ns,
        }
    }
}

impl Classes {
    fn new(shared: &mut Shared) -> Classes {
        let mut class = |event_name: &str, fields: &[(&str, u8)]| {
            shared.class(Class {
                event_name: event_name.to_owned(),
                fields: fields.iter().map(|(name, _)| (*name).to_owned()).collect(),
                bases: fields.iter().map(|(_, base)| *base).collect(),
                ..Class::default()
            })
        };
        let times = [("start_time", 10), ("duration", 10)];
        let with = |fields: &[(&'static str, u8)]| [fields, &times].concat();
        let call = [("path", 10), ("syscall", 10), ("syscall_no", 10), ("cap_type", 10), ("is_fastpath", 10), ("invocation_tag", 10)];
        let of_kernel = [with(&call), with(&[("path", 10), ("core", 10), ("word", 10)]), with(&[("path", 10), ("word", 16)])];
        let tracepoint = vec![("id", 10), ("duration", 10)];
        let [call, interrupt, other] = of_kernel;
        let mut four =
            |kernel: &str, point: &str| [class(kernel, &call), class(kernel, &interrupt), class(kernel, &other), class(point, &tracepoint)];
        let (entry, end) = (four("kernel_entry", "tracepoint"), four("kernel_exit", "tracepoint_stop"));
        Classes { begin: class("sel4_log", &[]), entry, end }
    }
}
