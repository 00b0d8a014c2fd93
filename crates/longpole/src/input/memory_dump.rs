//! The arguments for files that do not describe themselves: logs that a kernel wrote into a memory
//! frame.

use longpole_trace::ByteOrder;
use longpole_trace::Dump;
use longpole_trace::Log;
use longpole_trace::Word;

/// Identifier of the option, for the verb whose `--format` is another option.
pub const FORMAT: &str = "raw_format";

const HEADING: &str = "Raw logs of seL4";

#[derive(clap::Args, Clone, Debug, Default)]
pub struct Raw {
    /// The traces are raw dumps of seL4's benchmark log buffer
    #[arg(help_heading = HEADING, id = FORMAT, long = "format", value_name = "FORMAT")]
    format: Option<Format>,

    /// Size of the kernel's word in bits
    #[arg(help_heading = HEADING, long, value_name = "BITS", requires = FORMAT, default_value = "64")]
    word_size: WordSize,

    /// Byte order of the kernel's host
    #[arg(help_heading = HEADING, long, value_name = "ORDER", requires = FORMAT, default_value = "little")]
    byte_order: Order,

    /// Cycles per second of the counter that the kernel reads [default: a cycle counts as 1 ns]
    #[arg(help_heading = HEADING, long, value_name = "HZ", requires = FORMAT, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    frequency: Option<u64>,

    /// Value returned by seL4_BenchmarkFinalizeLog [default: all entries up to the last nonzero]
    #[arg(help_heading = HEADING, long, value_name = "N", requires = FORMAT)]
    entries: Option<u64>,

    /// The kernel is mixed-criticality (KernelIsMCS); its system calls have other numbers
    #[arg(help_heading = HEADING, long, requires = FORMAT)]
    mcs: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    // The log that CONFIG_BENCHMARK_TRACK_KERNEL_ENTRIES enables.
    Sel4KernelEntries,
    // The log that CONFIG_BENCHMARK_TRACEPOINTS enables.
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
    /// Returns the format of the dumps. `None` if the user named none; then the format is
    /// recognized.
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
