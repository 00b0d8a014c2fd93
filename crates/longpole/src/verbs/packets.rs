//! `longpole packets`: what was lost and where, how packets went through the kernel, and captured traffic per interface.

use crate::input::{self, Input};
use crate::kernel::{self, Reading};
use crate::packets::{traffic, ways};
use anyhow::{bail, Context};
use longpole_analysis::journeys::{Journeys, Wanted};
use longpole_analysis::packet_loss::Places;
use longpole_analysis::packets::Packets;
use longpole_trace::{Kallsyms, StreamKind};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// Say where packets were lost, follow them from the send call to the receive call, and count captured traffic
#[derive(clap::Args)]
#[command(after_help = "\
Losses and journeys need the kernel's events: `longpole record --kernel sched,irq,softirq,net,syscall`.

Examples:
  longpole packets                       the newest recording
  longpole packets --journey 5           one packet on its way through the kernel
  longpole packets --journey slowest
  longpole packets --losses              each lost packet
  longpole packets eth0.pcapng           any capture file
  longpole packets --begin +1s --end +2s --json")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Show all steps of one packet: of the N-th, from 1, in the order of their begin, or of the slowest that was read
    #[arg(long, value_name = "N|slowest", conflicts_with = "losses")]
    journey: Option<Which>,

    /// List each lost packet
    #[arg(long)]
    losses: bool,
}

#[derive(Clone, Copy)]
struct Which(Wanted);

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Which, String> {
        match (text, text.parse()) {
            ("slowest", _) => Ok(Which(Wanted::Slowest)),
            (_, Ok(number)) if number > 0 => Ok(Which(Wanted::Number(number))),
            _ => Err("expected a number from 1, or slowest".to_owned()),
        }
    }
}

/// What the kernel's events tell of packets.
struct Kernel {
    reading: Reading,
    journeys: Journeys,
    symbols: Kallsyms,
}

impl Kernel {
    fn packets(&self) -> PacketsOf<'_> {
        PacketsOf { kernel: self, symbol: Box::new(|address| self.symbols.name(address)) }
    }
}

/// Holds the look-up of symbols that [`Packets`] borrows.
struct PacketsOf<'a> {
    kernel: &'a Kernel,
    symbol: Box<dyn Fn(u64) -> Option<String> + 'a>,
}

impl PacketsOf<'_> {
    fn get(&self) -> Packets<'_> {
        Packets { journeys: &self.kernel.journeys, linux: &self.kernel.reading.linux, symbol: &*self.symbol }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let paths = args.input.paths()?;
    let mut trace = input::open(&paths, args.input.options())?;
    let has_kernel = trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Kernel);
    let kernel = if has_kernel { Some(read(&args, &paths)?).filter(|kernel| kernel.reading.linux.hops > 0) } else { None };
    if let Some(Which(wanted)) = args.journey {
        return one_journey(&args, kernel.as_ref(), wanted);
    }
    let places = Places::built_in().context("a built-in rule file is wrong")?;
    if args.losses {
        return each_loss(&args, kernel.as_ref(), &places);
    }
    let (groups, mut damaged) = traffic::count(&mut trace)?;
    damaged |= kernel.as_ref().is_some_and(|kernel| kernel.reading.trace.is_damaged());
    let of = kernel.as_ref().map(Kernel::packets);
    let answers = of.as_ref().map(|of| (of.get().losses(&places), of.get().journeys()));
    let mut out = BufWriter::new(io::stdout().lock());
    if args.input.json {
        let interfaces: Vec<_> = groups.iter().flat_map(traffic::Group::json).collect();
        let (losses, journeys) = answers.map_or((None, None), |(losses, journeys)| (Some(losses), Some(journeys)));
        writeln!(out, "{:#}", json!({ "losses": losses, "journeys": journeys, "interfaces": interfaces }))?;
    } else {
        let captured = groups.iter().any(|group| !group.is_empty());
        if answers.is_none() && !captured {
            bail!("the trace holds no packets; record them as root with `longpole record --kernel sched,irq,softirq,net,syscall`");
        }
        if let Some((losses, journeys)) = &answers {
            ways::losses(&mut out, losses)?;
            ways::journeys(&mut out, journeys)?;
        }
        if captured {
            if answers.is_some() {
                writeln!(out, "CAPTURED")?;
            }
            traffic::text(&groups, &mut out)?;
        }
        if let Some(kernel) = &kernel {
            kernel::footer(&mut out, &kernel.reading)?;
        }
    }
    out.flush()?;
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(args: &Args, paths: &[PathBuf]) -> anyhow::Result<Kernel> {
    let mut journeys = Journeys::new(args.journey.map(|Which(wanted)| wanted));
    let reading = kernel::read(&args.input, &mut journeys, |_, _| {})?;
    journeys.finish();
    let locations = journeys.losses.locations();
    let mut symbols = Kallsyms::default();
    if !locations.is_empty() {
        for path in paths {
            match Kallsyms::of_recording(path, locations.iter().copied()) {
                Ok(found) if !found.is_empty() => symbols = found,
                Ok(_) => {}
                Err(error) => eprintln!("longpole: note: functions have no names: {}: {error}", path.join("symbols/kallsyms").display()),
            }
        }
    }
    Ok(Kernel { reading, journeys, symbols })
}

fn needed(kernel: Option<&Kernel>) -> anyhow::Result<&Kernel> {
    kernel.context(
        "the trace holds no events of the kernel's network; record them as root with `longpole record --kernel sched,irq,softirq,net,syscall`",
    )
}

fn one_journey(args: &Args, kernel: Option<&Kernel>, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let kernel = needed(kernel)?;
    let Some(told) = &kernel.journeys.told else {
        match wanted {
            Wanted::Number(number) => bail!("there is no journey {number}: the trace holds {}", kernel.journeys.count),
            Wanted::Slowest => bail!("no packet was read by a receive call"),
        }
    };
    let of = kernel.packets();
    let journey = of.get().journey(told);
    kernel::write(&args.input, &kernel.reading, &journey, |out, journey| ways::journey(out, journey))
}

fn each_loss(args: &Args, kernel: Option<&Kernel>, places: &Places) -> anyhow::Result<ExitCode> {
    let kernel = needed(kernel)?;
    let of = kernel.packets();
    let packets = of.get();
    let not_kept = kernel.journeys.losses.not_kept;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.input.json {
        let lines: Vec<_> = packets.single_losses(places).collect();
        writeln!(out, "{:#}", json!({ "lost_packets": lines, "not_listed": not_kept }))?;
    } else {
        ways::each_loss(&mut out, packets.single_losses(places), not_kept)?;
    }
    out.flush()?;
    Ok(if kernel.reading.trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
