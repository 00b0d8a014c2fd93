//! `longpole packets`: shows what was lost and where, the paths of packets through the kernel, and
//! captured traffic per interface.

use crate::input::empty_range;
use crate::input::{self, Input};
use crate::packets::kernel::Kernel;
use crate::packets::{packet_tables, traffic};
use crate::passes::kernel;
use crate::render::answer;
use crate::render::left_out_events;
use crate::render::length::Length;
use crate::render::style::{painted, title, Role};
use crate::render::table::plain;
use crate::render::terminal::output;
use anyhow::{bail, Context};
use longpole_analysis::network::packet_loss::Places;
use longpole_analysis::network::packet_paths::Wanted;
use longpole_analysis::stages::consumer::Consumer;
use longpole_trace::StreamKind;
use longpole_trace::Trace;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;

/// Show where packets were lost, follow them from send to receive call, count traffic
#[derive(clap::Args)]
#[command(mut_arg("all", crate::input::all_without_effect))]
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

    /// Show all steps of one packet: the N-th (from 1, by begin), or the slowest that was read
    #[arg(long, value_name = "N|slowest", conflicts_with = "losses")]
    journey: Option<Which>,

    #[command(flatten)]
    length: Length,

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

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let paths = args.input.completed_paths()?;
    let mut trace = input::open(&paths, args.input.options())?;
    let has_kernel = trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::Kernel);
    let kernel = if has_kernel {
        Some(Kernel::read(&args.input, &paths, args.journey.map(|Which(wanted)| wanted), |_, _| {})?).filter(Kernel::has_packets)
    } else {
        None
    };
    if let Some(Which(wanted)) = args.journey {
        return one_packet_path(&args, &mut trace, kernel.as_ref(), wanted);
    }
    let places = Places::built_in().context("a built-in rule file is wrong")?;
    if args.losses {
        return each_loss(&args, kernel.as_ref(), &places);
    }
    // Probes may also have recorded packets; kernel events were already read above.
    let probed = kernel.is_none() || trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::User);
    let (groups, mut damaged) = match trace.captures().is_empty() && !probed {
        true => (Vec::new(), false),
        false => traffic::count(&mut trace)?,
    };
    empty_range::check(&trace, &paths, &args.input.options())?;
    damaged |= kernel.as_ref().is_some_and(|kernel| kernel.reading.trace.is_damaged());
    let answers = kernel.as_ref().map(|kernel| {
        kernel.packets(|packets| {
            let counters = kernel.counted.as_ref().map(|counted| packets.counters(counted, &places));
            (packets.losses(&places), packets.paths(), counters)
        })
    });
    let mut out = if args.input.json { output::raw() } else { output::text() };
    if args.input.json {
        let interfaces: Vec<_> = groups.iter().flat_map(traffic::Group::json).collect();
        let (losses, journeys, counters) =
            answers.map_or((None, None, None), |(losses, journeys, counters)| (Some(losses), Some(journeys), counters));
        answer::write_json(&mut out, &json!({ "losses": losses, "counters": counters, "journeys": journeys, "interfaces": interfaces }))?;
    } else {
        let captured = groups.iter().any(|group| !group.is_empty());
        if answers.is_none() && !captured {
            bail!("the trace holds no packets; record them as root with `longpole record --kernel sched,irq,softirq,net,syscall`");
        }
        if let Some((losses, journeys, counters)) = &answers {
            packet_tables::losses(&mut out, losses, args.length)?;
            if let Some(counters) = counters {
                packet_tables::counters(&mut out, counters)?;
            }
            packet_tables::packet_paths(&mut out, journeys, args.length)?;
        }
        if captured {
            if answers.is_some() {
                writeln!(out, "\n{}", title("CAPTURED"))?;
            }
            traffic::text(&groups, args.length, &mut out)?;
        }
        if let Some(kernel) = &kernel {
            if let Some(line) = left_out_events::line(trace.recordings(), &["net"], "sched,irq,softirq,net,syscall") {
                writeln!(out, "\n{}", painted(Role::Caveat, plain(line)))?;
            }
            kernel::footer(&mut out, &args.input, &kernel.reading)?;
        }
    }
    out.flush()?;
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn needed(kernel: Option<&Kernel>) -> anyhow::Result<&Kernel> {
    kernel.context(
        "the trace holds no events of the kernel's network; record them as root with `longpole record --kernel sched,irq,softirq,net,syscall`",
    )
}

fn one_packet_path(args: &Args, trace: &mut Trace, kernel: Option<&Kernel>, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let kernel = needed(kernel)?;
    let Some(path) = &kernel.packet_paths.found else {
        match wanted {
            Wanted::Number(number) => bail!("there is no journey {number}: the trace holds {}", kernel.packet_paths.count),
            Wanted::Slowest => {
                bail!("no packet was read by a receive call; record with `--kernel sched,irq,softirq,net,syscall`")
            }
        }
    };
    let mut journey = kernel.packets(|packets| packets.path_line(path));
    if let Some((begin_ns, end_ns)) = journey.span() {
        for capture in trace.captures() {
            capture.frames(begin_ns, end_ns, |frame| journey.frame(&capture.name, frame))?;
        }
    }
    let probes = trace.catalogue().streams.iter().any(|stream| stream.kind == StreamKind::User) && !trace.catalogue().foreign_pids;
    if let Some(reader) = journey.reader.as_ref().filter(|_| probes) {
        let mut consumer = Consumer::new(reader.tid, journey.end_ns).context("a built-in rule file is wrong")?;
        while let Some((item, catalogue)) = trace.next_with_catalogue()? {
            if consumer.item(catalogue, &item).is_break() {
                break;
            }
        }
        journey.probes = Some(consumer.found()).filter(|probes| !probes.is_empty());
    }
    kernel::write(&args.input, &kernel.reading, &journey, packet_tables::packet_path)
}

fn each_loss(args: &Args, kernel: Option<&Kernel>, places: &Places) -> anyhow::Result<ExitCode> {
    let kernel = needed(kernel)?;
    let not_kept = kernel.packet_paths.losses.not_listed;
    let mut out = if args.input.json { output::raw() } else { output::text() };
    kernel.packets(|packets| {
        if args.input.json {
            let lines: Vec<_> = packets.single_losses(places).collect();
            answer::write_json(&mut out, &json!({ "lost_packets": lines, "not_listed": not_kept }))
        } else {
            packet_tables::each_loss(&mut out, packets.single_losses(places), not_kept)
        }
    })?;
    out.flush()?;
    Ok(if kernel.reading.trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
