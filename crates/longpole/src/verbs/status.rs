//! `longpole status`: what is being recorded now.

use crate::say;
use crate::table::{bytes, duration, number};
use longpole_record::{session, Runtime};
use serde_json::{json, Value};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "Examples:
  longpole status              who records, where to, how much so far
  longpole status --json       the same for scripts: docs/json/status.schema.json

What it says of amounts is at most a second old.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = Runtime::default_path();
    let running = match path.exists() {
        true => session::running(&Runtime::open(&path)?)?,
        false => None,
    };
    let Some(running) = running else {
        match args.json {
            true => say(json!({ "recording": null }))?,
            false => say("nothing is being recorded")?,
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = std::fs::read(running.path.join("longpole.json")).unwrap_or_default();
    let description: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    let start = description["start_ns"].as_u64();
    let lanes = description["lanes"].as_array().map_or(&[][..], Vec::as_slice);
    let recorded: u64 = lanes.iter().filter_map(|lane| lane["recorded_bytes"].as_u64()).sum();
    let lost = description["loss"]["events"].as_u64();
    let kernel = description["kernel_events"]["recorded_bytes"].as_u64();
    if args.json {
        let answer = json!({ "recording": {
            "path": running.path,
            "pid": running.pid,
            "start_ns": start,
            "streams": lanes.len(),
            "recorded_bytes": recorded,
            "lost": lost,
            "kernel_bytes": kernel,
            "oddities": description["oddities"],
        }});
        say(answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    say(format_args!("recording  {}", running.path.display()))?;
    say(format_args!("recorder   process {}", running.pid))?;
    if let Some(start) = start {
        say(format_args!("for        {}", duration(now.saturating_sub(start))))?;
    }
    say(format_args!("so far     {} in {} streams, {} events lost", bytes(recorded), lanes.len(), number(lost.unwrap_or(0))))?;
    if let Some(kernel) = kernel {
        say(format_args!("kernel     {}", bytes(kernel)))?;
    }
    for oddity in description["oddities"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str) {
        say(format_args!("note       {oddity}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
