//! Diagnostics: what was wrong or unusual about a trace, without being a reason to stop reading it.

use longpole_ctf::{DecodeErrorKind, Source, StreamDecoder};
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of errors of one file that are reported one by one, because the number of
/// diagnostics must not grow with the trace.
pub(crate) const MAX_ERRORS: u32 = 8;

/// Something wrong or unusual in an input. Its text names the file and place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A file that ends inside its last packet: it is still being written, or its writer was
    /// killed.
    Truncated { path: PathBuf, place: String, at: Option<PacketPosition> },
    /// Metadata that end inside a block. `line` is the line at which that block begins, `bytes` the
    /// size of what is not read.
    CutMetadata { path: PathBuf, line: usize, bytes: u64 },
    /// Metadata that deviate from the specification without a loss, and are read. `byte` is the
    /// first such place in the file, `what` describes it.
    Nonstandard { path: PathBuf, byte: u64, what: String },
    /// A packet of a stream that cannot be decoded further, from the place `at`.
    Undecodable { path: PathBuf, at: PacketPosition, reason: String, left_out: LeftOut },
    /// Contradictory statements of packets. `times` counts them; `at` is the place of the first.
    Contradiction { path: PathBuf, what: Contradiction, times: u64, at: PacketPosition },
    /// Stream files of 0 bytes.
    Empty { path: PathBuf, files: u64, examples: String },
    /// Damage from which on the rest of a packet or stream cannot be decoded.
    Damaged { path: PathBuf, error: String },
    /// Times in a file that 64 bits of ns cannot represent. `place` is the first of them.
    BeyondTime { path: PathBuf, place: String, at: Option<PacketPosition> },
    /// A record that cannot be decoded and is left out.
    UndecodableRecord { path: PathBuf, error: String },
    /// A part of a trace that cannot be opened, while other parts can.
    CannotOpen { path: PathBuf, error: String },
    /// An input that has the same clock as an earlier input but another offset. Its times are
    /// shifted by `by_ns` to the earlier input's offset.
    CommonClock { path: PathBuf, by_ns: i64 },
    /// An input that begins `days` days before or after another input.
    ClocksApart { path: PathBuf, other: PathBuf, days: u64, later: bool },
    /// Files in the directory of a trace that belong to no trace, with examples.
    UnrelatedFiles { path: PathBuf, files: u64, examples: String },
    /// Links, devices and other special entries of an archive, which are not unpacked.
    NotUnpacked { path: PathBuf, entries: u64, example: String },
    /// Events that preceded an earlier event in the file and were sorted.
    Sorted { stream: String, events: u64 },
    /// Events that came too late to be sorted and are yielded out of order.
    Late { stream: String, events: u64 },
    /// Missing packets whose events nothing counted.
    PacketsLost { stream: String, packets: u64 },
    /// A CTF trace whose packets count neither events nor packets, so that losses cannot be
    /// detected.
    Uncounted { path: PathBuf },
    /// A file of a finished recording that is missing or has another length than its recorder left
    /// it with. `left` and `found` are lengths in bytes.
    Altered { path: PathBuf, left: u64, found: Option<u64> },
    /// A file that became shorter while it was read, from `from` to `to` bytes. Data written to it
    /// afterwards is not read.
    Shortened { path: PathBuf, from: u64, to: u64 },
    /// A file that was removed or replaced while it was read. `seen` is its size in bytes at the
    /// last look.
    Removed { path: PathBuf, seen: u64 },
    /// Raw pages of the kernel's tracer that were not converted. Their events are not in the trace.
    Unconverted { path: PathBuf },
    /// Pages of the kernel's tracer that could not be read, or not completely, when they were
    /// converted.
    DamagedPages { path: PathBuf, pages: u64 },
    /// Packets of a capture that hold more bytes than their interface's cap, or than their original
    /// length.
    BeyondCap { path: PathBuf, interface: String, cap: u32, packets: u64 },
    /// A recording without an end time.
    Unfinished { path: PathBuf },
    /// A kernel's log that was full. Later entries are lost, and `lost` has their number only for
    /// logs of tracepoints.
    Saturated { path: PathBuf, entries: u64, lost: Option<u64> },
    /// A kernel's log that stores the duration of a tracepoint, but no time.
    Untimed { path: PathBuf },
    /// A kernel's log that names neither threads nor wake-ups.
    NoThreadNames { path: PathBuf },
    /// A kernel's log that stores cycles of unknown length.
    UnknownCycleLength { path: PathBuf },
    /// Entries of a kernel's log that overlap an earlier entry. The earlier entry is shown as if it
    /// ended where the later one begins.
    Overlapping { path: PathBuf, entries: u64 },
    /// System calls whose numbers do not exist in a kernel of the given configuration.
    Unnamed { path: PathBuf, entries: u64 },
    /// Times of a clock that does not count ns.
    ClockNotInNs { path: PathBuf, clock: String },
    /// Lines of the kernel's tracer that contain the duration of a call, but no time.
    WithoutTime { path: PathBuf, lines: u64 },
    /// Lines that do not have the format of the kernel's tracer.
    NoEvents { path: PathBuf, lines: u64 },
    /// Numbers that fit neither 64 bits nor a floating point number.
    NumbersOutOfRange { path: PathBuf, numbers: u64 },
    /// Damage from which on a kernel's log cannot be read.
    DamagedLog { path: PathBuf, error: String },
}

/// The part of a file that is not read after damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Number of bytes up to the next packet.
    Bytes(u64),
    /// The rest of the file, because no further packet exists or none can be found.
    File,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftOut::Bytes(bytes) => write!(f, "{} up to the next packet {} not read", some(*bytes, "byte", "bytes"), are(*bytes)),
            LeftOut::File => write!(f, "the rest of this file is not read"),
        }
    }
}

/// A contradictory statement of a packet. See [`Diagnostic::Contradiction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A packet ends before it begins.
    EndsFirst,
    /// An event is before its packet's begin or after its end.
    EventOutside,
    /// A packet begins before an earlier one of the same stream ends.
    Overlap,
    /// The sequence number of a packet is not above that of the packet before it.
    OutOfSequence,
    /// A packet begins or ends at a time that 64 bits of ns cannot represent.
    BeyondTime,
    /// The UUID of a packet is not that of the metadata.
    OtherUuid,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contradiction::EndsFirst => "the packet ends before it begins",
            Contradiction::EventOutside => "the event is before its packet's begin or after its end",
            Contradiction::Overlap => "the packet begins before an earlier one of its stream has ended",
            Contradiction::OutOfSequence => "the packet's sequence number is not above that of the packet before it",
            Contradiction::BeyondTime => "the packet begins or ends at a time that 64 bits of ns do not hold",
            Contradiction::OtherUuid => "the packet's uuid is not that of the metadata; it is read as if it were",
        })
    }
}

/// A place in a stream of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPosition {
    /// Index of the packet in its file, from 0.
    pub packet: u64,
    /// Offset in bytes of the packet in its file.
    pub packet_offset: u64,
    /// Offset in bits from the packet's begin; `None` if the place is a packet or an event as a
    /// whole.
    pub bit: Option<u64>,
    /// Index of the event in its packet, if the place is in an event.
    pub event: Option<u64>,
}

impl PacketPosition {
    pub(crate) fn of(error: &longpole_ctf::DecodeError) -> PacketPosition {
        PacketPosition { packet: error.packet, packet_offset: error.packet_offset, bit: Some(error.bit_offset), event: error.event }
    }
}

impl PacketPosition {
    /// Returns the place of the event that was decoded last.
    pub(crate) fn of_event<S: Source>(decoder: &StreamDecoder<S>) -> PacketPosition {
        let packet = decoder.packet();
        PacketPosition { packet: packet.index, packet_offset: packet.offset, bit: None, event: decoder.events().checked_sub(1) }
    }

    /// Returns the place of the event that many events before this one, in the same packet.
    pub(crate) fn before(self, events: usize) -> PacketPosition {
        PacketPosition { event: self.event.and_then(|event| event.checked_sub(events as u64)), ..self }
    }
}

impl fmt::Display for PacketPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} at byte {}", self.packet, self.packet_offset)?;
        self.bit.map_or(Ok(()), |bit| write!(f, ", bit {bit}"))?;
        self.event.map_or(Ok(()), |event| write!(f, ", event {event}"))
    }
}

impl Diagnostic {
    /// Returns the diagnostic for an error that ended the decoding of a packet. `next` is the
    /// offset of the next packet in the file, if known.
    pub(crate) fn of_packet(path: &Path, error: &longpole_ctf::DecodeError, next: Option<u64>) -> Diagnostic {
        let (path, at) = (path.to_owned(), PacketPosition::of(error));
        match (&error.kind, next) {
            (DecodeErrorKind::Truncated { .. }, None) => Diagnostic::Truncated { path, place: error.to_string(), at: Some(at) },
            (kind, next) => {
                let damaged = error.packet_offset + error.bit_offset / 8;
                let left_out = next.map_or(LeftOut::File, |next| LeftOut::Bytes(next.saturating_sub(damaged)));
                Diagnostic::Undecodable { path, at, reason: kind.to_string(), left_out }
            }
        }
    }

    /// Returns true if the trace contains less than what was written to it.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Diagnostic::Damaged { .. }
                | Diagnostic::BeyondTime { .. }
                | Diagnostic::UndecodableRecord { .. }
                | Diagnostic::CannotOpen { .. }
                | Diagnostic::Undecodable { .. }
                | Diagnostic::Altered { .. }
                | Diagnostic::Shortened { .. }
                | Diagnostic::DamagedPages { .. }
                | Diagnostic::Unconverted { .. }
                | Diagnostic::BeyondCap { .. }
                | Diagnostic::DamagedLog { .. }
        )
    }
}

impl Diagnostic {
    /// Returns true if a file ends too early.
    pub fn is_cut(&self) -> bool {
        matches!(self, Diagnostic::Truncated { .. } | Diagnostic::CutMetadata { .. })
    }

    /// Returns the file that the diagnostic is about, and the place in it, if there is one. Returns
    /// `None` for diagnostics of a stream.
    pub fn place(&self) -> Option<(&Path, Option<PacketPosition>)> {
        Some(match self {
            Diagnostic::Truncated { path, at, .. } | Diagnostic::BeyondTime { path, at, .. } => (path, *at),
            Diagnostic::Undecodable { path, at, .. } | Diagnostic::Contradiction { path, at, .. } => (path, Some(*at)),
            Diagnostic::Damaged { path, .. }
            | Diagnostic::CutMetadata { path, .. }
            | Diagnostic::Nonstandard { path, .. }
            | Diagnostic::Altered { path, .. }
            | Diagnostic::Shortened { path, .. }
            | Diagnostic::Removed { path, .. }
            | Diagnostic::Unconverted { path }
            | Diagnostic::DamagedPages { path, .. }
            | Diagnostic::BeyondCap { path, .. }
            | Diagnostic::Unfinished { path }
            | Diagnostic::Uncounted { path }
            | Diagnostic::Saturated { path, .. }
            | Diagnostic::Untimed { path }
            | Diagnostic::NoThreadNames { path }
            | Diagnostic::UnknownCycleLength { path }
            | Diagnostic::Overlapping { path, .. }
            | Diagnostic::Unnamed { path, .. }
            | Diagnostic::ClockNotInNs { path, .. }
            | Diagnostic::WithoutTime { path, .. }
            | Diagnostic::NoEvents { path, .. }
            | Diagnostic::NumbersOutOfRange { path, .. }
            | Diagnostic::DamagedLog { path, .. }
            | Diagnostic::CommonClock { path, .. }
            | Diagnostic::ClocksApart { path, .. }
            | Diagnostic::UndecodableRecord { path, .. }
            | Diagnostic::CannotOpen { path, .. }
            | Diagnostic::UnrelatedFiles { path, .. }
            | Diagnostic::Empty { path, .. }
            | Diagnostic::NotUnpacked { path, .. } => (path, None),
            Diagnostic::Sorted { .. } | Diagnostic::Late { .. } | Diagnostic::PacketsLost { .. } => return None,
        })
    }
}

/// Returns a count with the singular or plural noun.
fn some(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn are(count: u64) -> &'static str {
    if count == 1 {
        "is"
    } else {
        "are"
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::Truncated { path, place, at } => {
                let within = if at.is_some() { "a packet" } else { "an entry" };
                write!(f, "{} ends inside {within} (still being written, or its writer was killed): {place}", path.display())
            }
            Diagnostic::CutMetadata { path, line, bytes } => write!(
                f,
                "{}:{line}: the metadata end inside this block (still being written, or their writer was killed); {} {} not read",
                path.display(),
                some(*bytes, "byte", "bytes"),
                are(*bytes)
            ),
            Diagnostic::Nonstandard { path, what, .. } => write!(f, "{}: {what}", path.display()),
            Diagnostic::Undecodable { path, at, reason, left_out } => write!(f, "{}: {at}: {reason}; {left_out}", path.display()),
            Diagnostic::Contradiction { path, what, times: 1, at } => write!(f, "{}: {at}: {what}", path.display()),
            Diagnostic::Contradiction { path, what, times, at } => write!(f, "{}: {at}: {what}; {times} times in this file", path.display()),
            Diagnostic::Empty { path, files, examples } => {
                write!(f, "{}: {} {} empty: {examples}", path.display(), some(*files, "stream file", "stream files"), are(*files))
            }
            Diagnostic::Damaged { path, error } => write!(f, "{}: {error}; the rest of this packet is not read", path.display()),
            Diagnostic::BeyondTime { path, place, .. } => write!(
                f,
                "{}: {place}: 64 bits of ns do not hold this time; it, and others like it in this file, are shown as the nearest that they hold",
                path.display()
            ),
            Diagnostic::CommonClock { path, by_ns } => {
                write!(f, "{}: it has the same clock as another input; its times are moved by {by_ns:+} ns to agree with it", path.display())
            }
            Diagnostic::ClocksApart { path, other, days, later } => write!(
                f,
                "{}: it begins {} {} {}; if both are of one run, their clocks have different origins: align them with --offset PATH=TIME",
                path.display(),
                some(*days, "day", "days"),
                if *later { "after" } else { "before" },
                other.display()
            ),
            Diagnostic::UndecodableRecord { path, error } => write!(f, "{}: {error}", path.display()),
            Diagnostic::CannotOpen { path, error } => write!(f, "{} cannot be opened and is left out: {error}", path.display()),
            Diagnostic::UnrelatedFiles { path, files, examples } => {
                write!(f, "{}: {} {} of no trace and not read: {examples}", path.display(), some(*files, "file", "files"), are(*files))
            }
            Diagnostic::NotUnpacked { path, entries, example } => {
                let (entries, are) = (some(*entries, "entry", "entries"), are(*entries));
                write!(f, "{}: {entries} {are} neither file nor folder and {are} not unpacked, the first {example}", path.display())
            }
            Diagnostic::Sorted { stream, events } => {
                let were = if *events == 1 { "was" } else { "were" };
                write!(f, "{stream}: {} {were} not in the order of time; sorted", some(*events, "event", "events"))
            }
            Diagnostic::Late { stream, events } => {
                write!(f, "{stream}: {} came too late to be sorted", some(*events, "event", "events"))
            }
            Diagnostic::PacketsLost { stream, packets } => {
                write!(f, "{stream}: {} {} missing", some(*packets, "packet", "packets"), are(*packets))
            }
            Diagnostic::Altered { path, found: None, .. } => write!(f, "{} is missing, but its recorder wrote it", path.display()),
            Diagnostic::Altered { path, left, found: Some(found) } => {
                write!(f, "{} has {found} bytes: its recorder left {left}", path.display())
            }
            Diagnostic::Shortened { path, from, to } => write!(
                f,
                "{} was made shorter while it was read: it had {from} bytes and has {to}; bytes that are written to it later are not read",
                path.display()
            ),
            Diagnostic::Removed { path, seen } => {
                write!(f, "{} was removed or replaced while it was read; it had {seen} bytes at the last look", path.display())
            }
            Diagnostic::Unconverted { path } => {
                write!(f, "{}: the kernel's events are not converted yet, and not in what follows", path.display())
            }
            Diagnostic::DamagedPages { path, pages } => {
                let (pages, were) = (some(*pages, "page", "pages"), if *pages == 1 { "was" } else { "were" });
                write!(f, "{}: {pages} of the kernel {were} damaged; events are missing", path.display())
            }
            Diagnostic::BeyondCap { path, interface, cap, packets } => {
                let cap = if *cap == 0 { "none".to_owned() } else { format!("{cap} bytes") };
                write!(
                    f,
                    "{}: {} of {interface} {} more than its cap ({cap}) or than {} own length allows",
                    path.display(),
                    some(*packets, "packet", "packets"),
                    if *packets == 1 { "holds" } else { "hold" },
                    if *packets == 1 { "its" } else { "their" }
                )
            }
            Diagnostic::Unfinished { path } => {
                write!(f, "{}: the recording continues, or its recorder was killed", path.display())
            }
            Diagnostic::Saturated { path, entries, lost } => {
                let lost = match lost {
                    Some(lost) => format!("{lost} more were not logged"),
                    None => "what came later was not logged, and not counted".to_owned(),
                };
                write!(f, "{}: the log is saturated: it was full after {}; {lost}", path.display(), some(*entries, "entry", "entries"))
            }
            Diagnostic::Untimed { path } => write!(
                f,
                "{}: the log has the duration of tracepoints and not their time; they are shown one after the other, in the order in which they ended, also where one was inside another",
                path.display()
            ),
            Diagnostic::Uncounted { path } => {
                write!(f, "{}: its packets count neither events nor packets, so losses are unknown", path.display())
            }
            Diagnostic::NoThreadNames { path } => write!(
                f,
                "{}: the log names no thread and no wake-up: between its entries a program ran or nothing did, and which thread waited for which is unknown; \
                 the log describes the processor as a whole, and several cores as if they were one",
                path.display()
            ),
            Diagnostic::UnknownCycleLength { path } => write!(f, "{}: times are cycles of its counter and are shown as ns; pass --frequency HZ to convert them", path.display()),
            Diagnostic::Overlapping { path, entries } => {
                let entries = some(*entries, "entry begins", "entries begin");
                write!(f, "{}: {entries} before the end of the entry before (several cores); that entry is shown until then", path.display())
            }
            Diagnostic::Unnamed { path, entries } => write!(
                f,
                "{}: {} that this kernel does not have; it may be of the other configuration (--mcs)",
                path.display(),
                some(*entries, "system call has a number", "system calls have numbers")
            ),
            Diagnostic::ClockNotInNs { path, clock } => {
                write!(f, "{}: times are counts of its clock ({clock}), which are shown as ns; record with `trace-cmd record -C mono`", path.display())
            }
            Diagnostic::WithoutTime { path, lines } => write!(
                f,
                "{}: {} how long a call took and not when, and {} left out (the tracer's option funcgraph-abstime adds the time)",
                path.display(),
                some(*lines, "line says", "lines say"),
                are(*lines)
            ),
            Diagnostic::NoEvents { path, lines } => {
                let (some, are) = (some(*lines, "line is not an event", "lines are not events"), are(*lines));
                write!(f, "{}: {some} of the kernel's tracer, and {are} left out", path.display())
            }
            Diagnostic::NumbersOutOfRange { path, numbers: 1 } => {
                write!(f, "{}: a number fits neither 64 bits nor a floating-point number; it is shown as text", path.display())
            }
            Diagnostic::NumbersOutOfRange { path, numbers } => {
                write!(f, "{}: {numbers} numbers fit neither 64 bits nor a floating-point number; they are shown as text", path.display())
            }
            Diagnostic::DamagedLog { path, error } => write!(f, "{}: {error}; what follows is not read", path.display()),
        }
    }
}
