//! Detection of a file's format from its first bytes, and the explanation if it has none.
//!
//! A row of [`ROWS`] is a format of files, with its name, how they begin, and a test; or an input
//! that is no file of its own (folders, packed files, logs of seL4), which the explanation lists.
//! Adding a format needs a variant of [`Format`], a row here, a variant of
//! [`Source`](crate::formats::source::Source) with arms in its methods (`advance`, `item`,
//! `has_event`, `is_broken`, `yield_pending_loss_before`), and arms in `trace.rs` (`add_file` opens
//! it, `finish` reports what was counted). The compiler asks for every arm, but not for the row.
//! Rows are tried in order, but the order has no effect: at most one test holds for a file.

use crate::files::head::Head;
use crate::formats::archive;
use crate::formats::ftrace_text;
use crate::formats::json;
use crate::formats::perf_data;
use crate::formats::trace_dat;
use std::fmt::Write;

/// Format of a file. Directories are recognised by [`crate::open::recognise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// pcapng or pcap.
    Capture,
    Perf,
    /// File of trace-cmd.
    TraceDat,
    /// Text of the kernel's tracer: the files `trace` and `trace_pipe`.
    FtraceText,
    ChromeJson,
    MachineLog,
}

/// Bytes that are shown in an explanation.
const SHOWN: usize = 16;

/// A file format.
struct Row {
    name: &'static str,
    /// Description of how the file must begin, shown to users whose file was not recognised.
    expects: &'static str,
    /// Test of the first bytes.
    fits: fn(&Head) -> Fit,
}

enum Fit {
    Is(Format),
    No,
    /// Not this format, but close to it. The text explains the difference.
    Nearly(String),
}

fn when(fits: bool, format: Format) -> Fit {
    if fits {
        Fit::Is(format)
    } else {
        Fit::No
    }
}

const ROWS: &[Row] = &[
    Row { name: "pcapng", expects: "begins with 0a 0d 0d 0a", fits: |head| when(head.begins(&[0x0a, 0x0d, 0x0d, 0x0a]), Format::Capture) },
    Row { name: "pcap", expects: "begins with a1 b2 c3 d4 (or a1 b2 3c 4d: nanoseconds) in either byte order", fits: pcap },
    Row {
        name: "perf.data",
        expects: "begins with PERFILE2 in either byte order",
        fits: |head| when(perf_data::is_perf(&head.bytes), Format::Perf),
    },
    Row {
        name: "trace.dat",
        expects: "begins with 17 08 44 \"tracing\"",
        fits: |head| when(trace_dat::is_dat(&head.bytes), Format::TraceDat),
    },
    Row {
        name: "ftrace's text",
        expects: "is lines like those of the tracer's files trace and trace_pipe",
        fits: |head| when(ftrace_text::is_text(&head.bytes), Format::FtraceText),
    },
    Row { name: "CTF", expects: "is a directory with a file `metadata`", fits: ctf },
    Row {
        name: "Chrome JSON",
        expects: "is a list of objects with `ph`, or an object with `traceEvents`",
        fits: |head| match json::kind(head) {
            Ok(json::Kind::Chrome) => Fit::Is(Format::ChromeJson),
            Err(why) => Fit::Nearly(why),
            _ => Fit::No,
        },
    },
    Row {
        name: "machine log",
        expects: "is lines of JSON, the first an object with `t` or `queue`",
        fits: |head| when(matches!(json::kind(head), Ok(json::Kind::MachineLog)), Format::MachineLog),
    },
    Row {
        name: "packed",
        expects: "is a tar or zip archive, or begins as gzip or zstd do",
        fits: |head| {
            archive::other_packing(head)
                .map_or(Fit::No, |(name, remedy)| Fit::Nearly(format!("it is {name}, which is not unpacked here: {remedy}")))
        },
    },
    Row {
        name: "seL4's logs",
        expects: "do not identify themselves; pass --format sel4-tracepoints or sel4-kernel-entries",
        fits: |_| Fit::No,
    },
];

/// Compares with the magic numbers in both byte orders, for microseconds and nanoseconds.
fn pcap(head: &Head) -> Fit {
    let Some(magic) = head.bytes.first_chunk::<4>() else { return Fit::No };
    match [u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)] {
        [0xa1b2_c3d4 | 0xa1b2_3c4d, _] | [_, 0xa1b2_c3d4 | 0xa1b2_3c4d] => Fit::Is(Format::Capture),
        [0xa1b2_cd34, _] | [_, 0xa1b2_cd34] => Fit::Nearly(
            "it is a pcap of the modified form (a1 b2 cd 34), whose records differ between its writers: `editcap IN OUT.pcapng` makes it plain".to_owned(),
        ),
        _ => Fit::No,
    }
}

fn ctf(head: &Head) -> Fit {
    let but = |what: &str| Fit::Nearly(format!("{what}: name the directory in which it lies"));
    match head.bytes.as_slice() {
        [0xc1, 0xfc, 0x1f, 0xc1, ..] | [0xc1, 0x1f, 0xfc, 0xc1, ..] => but("it is a stream of CTF"),
        [0x75, 0xd1, 0x1d, 0x57, ..] | [0x57, 0x1d, 0xd1, 0x75, ..] => but("it is metadata of CTF, whose file is named `metadata`"),
        [b'/', b'*', b' ', b'C', b'T', b'F', ..] | [0x1e, b'{', ..] => but("it is metadata of CTF, whose file is named `metadata`"),
        _ => Fit::No,
    }
}

/// Returns the format of a file with this head.
pub(crate) fn of(head: &Head) -> Option<Format> {
    ROWS.iter().find_map(|row| match (row.fits)(head) {
        Fit::Is(format) => Some(format),
        Fit::No | Fit::Nearly(_) => None,
    })
}

/// Explains why the file has no known format: its first bytes, and one line per format that was
/// tried.
pub(crate) fn why_none(head: &Head) -> String {
    if head.bytes.is_empty() {
        return "the file is empty".to_owned();
    }
    let mut out = "none of these fits:".to_owned();
    let shown = &head.bytes[..head.bytes.len().min(SHOWN)];
    let hex = shown.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let more = if head.bytes.len() > SHOWN { " …" } else { "" };
    let whole = if more.is_empty() { "the file is" } else { "it begins with" };
    let _ = write!(out, "\n  {whole:<15} {hex}{more}  \"{}\"", shown.escape_ascii());
    for row in ROWS {
        let _ = match (row.fits)(head) {
            Fit::Nearly(why) => write!(out, "\n  {:<15} {why}", row.name),
            _ => write!(out, "\n  {:<15} {}", row.name, row.expects),
        };
    }
    out
}

/// Explains in a few words why a file among others has no known format.
pub(crate) fn in_short(head: &Head) -> String {
    if head.bytes.is_empty() {
        return "empty".to_owned();
    }
    let near = ROWS.iter().find_map(|row| match (row.fits)(head) {
        Fit::Nearly(why) => Some(why),
        _ => None,
    });
    near.unwrap_or_else(|| format!("begins with \"{}\"", head.bytes[..head.bytes.len().min(SHOWN)].escape_ascii()))
}
