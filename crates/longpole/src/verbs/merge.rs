//! `longpole merge`: several traces become one, on one clock.

use crate::offset::{self, Offset};
use crate::sync::{self, Synced};
use crate::table::{duration, number, plain};
use crate::{say, WrongUsage};
use serde_json::{json, Value};
use std::path::PathBuf;
use std::process::ExitCode;

/// Bring the clocks of several hosts together.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  longpole merge --sync packets a.pcapng b.pcapng      the offset and drift of b's clock, with the error that remains
  longpole print a.pcapng b.pcapng --offset b.pcapng=-1.5ms")]
pub struct Args {
    /// Traces of several hosts; the clock of the first is the reference
    #[arg(value_name = "TRACE", required = true, num_args = 2..)]
    traces: Vec<PathBuf>,

    /// How the clocks are brought together
    #[arg(long, value_name = "HOW", required = true)]
    sync: Sync,

    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// By TCP and UDP packets that were captured on both of two hosts
    Packets,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Sync::Packets = args.sync;
    if args.traces.iter().enumerate().any(|(at, path)| args.traces[..at].contains(path)) {
        return Err(WrongUsage("the same trace is named twice".to_owned()).into());
    }
    let synced = sync::by_packets(&args.traces)?;
    match args.json {
        true => say(json!({ "inputs": synced.iter().map(as_json).collect::<Vec<_>>() }))?,
        false => as_text(&synced)?,
    }
    Ok(ExitCode::SUCCESS)
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
        "option": Offset::said(&host.path, &host.shift),
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
            more => format!("; {} more occur twice and say nothing", number(more as u64)),
        };
        say(format_args!(
            "{path}: offset {}, drift {:+.3} ppm ({:+.3} to {:+.3}), wrong by {} at most",
            offset::seconds(host.shift.offset_ns),
            host.shift.drift * 1e6,
            host.drifts_ppm.0,
            host.drifts_ppm.1,
            duration(host.error_ns),
        ))?;
        let (there, back) = (number(host.there as u64), number(host.back as u64));
        say(format_args!("  by {there} packets from {} and {back} to it{ambiguous}", plain(to.display().to_string())))?;
        say(format_args!("  --offset {}", plain(Offset::said(&host.path, &host.shift))))?;
    }
    Ok(())
}
