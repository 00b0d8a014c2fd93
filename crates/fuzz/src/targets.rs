//! The targets: what is run, and with which inputs.
//!
//! A target must not fail because it rejects an input. It fails by a panic, by not ending, or by
//! unlimited use of memory.

mod ctf;
mod foreign;
mod generated;
mod index;
mod kernel;
mod packets;
mod shared;
mod texts;
mod traces;
mod unwinding;
mod written;

use std::path::Path;

/// A reader under test, with its seeds.
pub struct Target {
    pub name: &'static str,
    pub what: &'static str,
    /// Valid inputs. The folder belongs to the target.
    pub seeds: fn(&Path) -> anyhow::Result<Vec<Vec<u8>>>,
    /// Pieces of the format that random mutation would not find.
    pub words: &'static [&'static str],
    pub run: fn(&[u8], &Path),
}

pub const ALL: &[Target] = &[
    shared::RINGS,
    shared::SITES_TARGET,
    texts::CONFIG,
    texts::CONDITIONS,
    texts::EXPRESSIONS,
    texts::RULES,
    texts::MACHINE_LOG,
    ctf::CTF_METADATA,
    ctf::CTF2_METADATA,
    ctf::CTF,
    ctf::CTF2,
    written::REWRITTEN,
    written::WRITTEN,
    index::INDEX,
    traces::PCAPNG,
    packets::HEADERS,
    traces::PERF,
    traces::SEL4,
    foreign::JSON,
    foreign::ARCHIVES,
    kernel::FORMATS,
    kernel::PAGES,
    kernel::TRACE_DAT,
    kernel::FTRACE_TEXT,
    unwinding::UNWINDING,
    generated::GENERATED,
];

/// Targets that fail deliberately. A test checks that these failures are found, which shows that
/// others would be, too.
pub const DELIBERATE_FAILURES: &[Target] = &[
    Target {
        name: "panics",
        what: "panics where a byte is set",
        seeds: |_| Ok(vec![vec![0; 4]]),
        words: &[],
        run: |input, _| assert!(input.iter().all(|byte| *byte == 0), "this cannot be"),
    },
    Target {
        name: "hangs",
        what: "does not end where a byte is set",
        seeds: |_| Ok(vec![vec![0; 4]]),
        words: &[],
        run: |input, _| {
            while input.iter().any(|byte| std::hint::black_box(*byte) != 0) {}
        },
    },
    Target {
        name: "eats",
        what: "takes as much memory as the input says",
        seeds: |_| Ok(vec![vec![0; 8]]),
        words: &[],
        run: |input, _| {
            let length = input.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            drop(std::hint::black_box(vec![1u8; usize::try_from(length).unwrap_or(0).min(1 << 40)]));
        },
    },
];
