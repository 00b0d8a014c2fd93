//! `longpole merge`: merges several traces into one, on one clock.

use super::convert::{self, Form};
use crate::input;
use crate::input::filter::EventSelector;
use crate::input::offset::{self, Offset};
use crate::render::answer;
use crate::render::diagnostics;
use crate::render::table::{duration, number, plain};
use crate::say;
use crate::sync::{self, Synced};
use crate::WrongUsage;
use longpole_trace::Options;
use longpole_trace::Shifts;
use serde_json::{json, Value};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Merge several traces into one, on one clock.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  longpole merge --sync packets a.pcapng b.pcapng      the offset and drift of b's clock, with the error that remains
  longpole merge --sync packets host1/ host2/ -o both  and both as one trace
  longpole merge kernel/ ust/ --offset ust=+20us -o both
  longpole print a.pcapng b.pcapng --offset b.pcapng=-1.5ms")]
pub struct Args {
    /// Traces of several hosts; the clock of the first is the reference
    #[arg(value_name = "TRACE", required = true, num_args = 2..)]
    traces: Vec<PathBuf>,

    /// New or empty directory for the merged trace
    #[arg(short, long, value_name = "DIR", required_unless_present = "sync")]
    output: Option<PathBuf>,

    /// Format of the merged trace
    #[arg(long, value_name = "FORMAT", default_value = "ctf", requires = "output")]
    to: To,

    /// How to align the clocks [default: use the clocks stored in the traces]
    #[arg(long, value_name = "HOW")]
    sync: Option<Sync>,

    /// Add TIME (s, ms, us, ns) to all times of PATH, a trace or part of one: b.pcapng=-1.5ms
    #[arg(long = "offset", value_name = "PATH=TIME", value_parser = Offset::parse, conflicts_with = "sync")]
    offsets: Vec<Offset>,

    /// Damage is an error, and so is what deviates from a format without loss
    #[arg(long)]
    strict: bool,

    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// The TCP and UDP packets that were captured on both of two hosts
    Packets,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// CTF 1.8
    Ctf,
    /// CTF 2
    Ctf2,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.traces.iter().enumerate().any(|(at, path)| args.traces[..at].contains(path)) {
        return Err(WrongUsage("the same trace is named twice".to_owned()).into());
    }
    offset::check(&args.offsets, &args.traces)?;
    if let Some(output) = &args.output {
        convert::check_output_outside_inputs(output, &args.traces)?;
    }
    let synced = match args.sync {
        Some(Sync::Packets) => sync::by_packets(&args.traces)?,
        None => Vec::new(),
    };
    let mut merged = None;
    if let Some(output) = &args.output {
        let found = synced.iter().map(|host| (host.path.clone(), host.shift)).collect();
        let shifts = if synced.is_empty() { offset::shifts(&args.offsets) } else { Shifts::new(found) };
        args.traces.iter().for_each(|path| input::complete(path));
        let mut trace = input::open_whole(&args.traces, Options { shifts, damage: input::damage(args.strict), ..Options::default() })?;
        let form = if args.to == To::Ctf { Form::Ctf } else { Form::Ctf2 };
        let written = convert::write(&mut trace, output, form, &mut EventSelector::new(None, None))?;
        diagnostics::print(&trace);
        merged = Some((output, written, trace.is_damaged()));
    }
    match args.json {
        true => {
            let inputs = synced.iter().map(as_json).collect::<Vec<_>>();
            let output = merged.map(
                |(output, written, _)| json!({ "path": output.display().to_string(), "events": written.events, "lost": written.lost }),
            );
            answer::write_json_line(&mut io::stdout().lock(), &json!({ "inputs": inputs, "output": output }))?;
        }
        false => {
            as_text(&synced)?;
            if let Some((output, written, _)) = merged {
                say(convert::summary(output, &written))?;
            }
        }
    }
    Ok(if merged.is_some_and(|(.., damaged)| damaged) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_json(host: &Synced) -> Value {
    json!({
        "path": host.path.display().to_string(),
        "reference": host.to.is_none(),
        "offset_ns": host.shift.offset_ns,
        "since_ns": host.shift.since_ns,
        "drift_ppm": host.shift.drift * 1e6,
        "drift_low_ppm": host.drifts_ppm.0,
        "drift_high_ppm": host.drifts_ppm.1,
        "error_ns": host.error_ns,
        "compared_with": host.to.as_ref().map(|to| to.display().to_string()),
        "packets_from": host.there,
        "packets_to": host.back,
        "ambiguous": host.ambiguous,
        "option": Offset::as_option(&host.path, &host.shift),
    })
}

fn as_text(synced: &[Synced]) -> anyhow::Result<()> {
    for host in synced {
        let path = plain(host.path.display().to_string());
        let Some(to) = &host.to else {
            say(format_args!("{path}: the clock of reference"))?;
            continue;
        };
        let ambiguous = match host.ambiguous {
            0 => String::new(),
            more => format!("; {} more occur twice and are not used", number(more as u64)),
        };
        say(format_args!(
            "{path}: offset {}, drift {:+.3} ppm ({:+.3} to {:+.3}), error at most {}",
            offset::seconds(host.shift.offset_ns),
            host.shift.drift * 1e6,
            host.drifts_ppm.0,
            host.drifts_ppm.1,
            duration(host.error_ns),
        ))?;
        let (there, back) = (number(host.there as u64), number(host.back as u64));
        say(format_args!("  by {there} packets from {} and {back} to it{ambiguous}", plain(to.display().to_string())))?;
        say(format_args!("  --offset {}", plain(Offset::as_option(&host.path, &host.shift))))?;
    }
    Ok(())
}
