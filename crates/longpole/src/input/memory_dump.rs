//! How to read files that say nothing of themselves: what a kernel logged into a frame of memory.

use longpole_trace::ByteOrder;
use longpole_trace::Dump;
use longpole_trace::Log;
use longpole_trace::Word;

/// The option's own name, for the verb whose `--format` is another one.
pub const FORMAT: &str = "raw_format";

const HEADING: &str = "Raw logs of seL4";

#[derive(clap::Args, Clone, Debug, Default)]
pub struct Raw {
    /// The traces are raw dumps of seL4's benchmark log buffer
    #[arg(help_heading = HEADING, id = FORMAT, long = "format", value_name = "FORMAT")]
    format: Option<Format>,

    /// Bits of the kernel's word
    #[arg(help_heading = HEADING, long, value_name = "BITS", requires = FORMAT, default_value = "64")]
    word_size: WordSize,

    /// Byte order of the kernel's machine
    #[arg(help_heading = HEADING, long, value_name = "ORDER", requires = FORMAT, default_value = "little")]
    byte_order: Order,

    /// Cycles per second of the counter that the kernel reads; left out: a cycle is told as 1 ns
    #[arg(help_heading = HEADING, long, value_name = "HZ", requires = FORMAT, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    frequency: Option<u64>,

    /// What seL4_BenchmarkFinalizeLog returned; left out: all entries up to the last that is not zero
    #[arg(help_heading = HEADING, long, value_name = "N", requires = FORMAT)]
    entries: Option<u64>,

    /// The kernel is of the mixed-criticality configuration (KernelIsMCS), which numbers its system calls differently
    #[arg(help_heading = HEADING, long, requires = FORMAT)]
    mcs: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    // What CONFIG_BENCHMARK_TRACK_KERNEL_ENTRIES logs.
    Sel4KernelEntries,
    // What CONFIG_BENCHMARK_TRACEPOINTS logs.
    Sel4Tracepoints,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, Default)]
enum WordSize {
    #[value(name = "32")]
    Bits32,
    #[default]
    #[value(name = "64")]
    Bits64,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, Default)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Raw {
    /// None: what is inside is recognised.
    pub fn dump(&self) -> Option<Dump> {
        let log = match self.format? {
            Format::Sel4KernelEntries => Log::KernelEntries,
            Format::Sel4Tracepoints => Log::Tracepoints,
        };
        let word = match self.word_size {
            WordSize::Bits32 => Word::Bits32,
            WordSize::Bits64 => Word::Bits64,
        };
        let order = match self.byte_order {
            Order::Little => ByteOrder::Little,
            Order::Big => ByteOrder::Big,
        };
        Some(Dump { log, word, order, frequency_hz: self.frequency, entries: self.entries, mcs: self.mcs, ends: true })
    }
}
