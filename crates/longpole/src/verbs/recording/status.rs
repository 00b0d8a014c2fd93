//! `longpole status`: shows what is being recorded now.

use crate::input::in_progress;
use crate::render::answer;
use crate::render::table::{bytes, duration, number};
use crate::say;
use longpole_record::runtime_dir::session::RunningRecording;
use serde_json::{json, Value};
use std::io;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "Examples:
  longpole status              who records, where to, how much is recorded
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
    let (all, _) = in_progress::all()?;
    if args.json {
        let all: Vec<Value> = all.iter().map(described).collect();
        answer::write_json_line(&mut io::stdout().lock(), &json!({ "recording": all.first(), "recordings": all }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        say("nothing is being recorded")?;
    }
    for (at, running) in all.iter().enumerate() {
        if at > 0 {
            say("")?;
        }
        show(running)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn described(running: &RunningRecording) -> Value {
    let description = in_progress::description(running);
    let lanes = description["lanes"].as_array().map_or(&[][..], Vec::as_slice);
    let recorded: u64 = lanes.iter().filter_map(|lane| lane["recorded_bytes"].as_u64()).sum();
    json!({
        "path": running.path,
        "pid": running.pid,
        "of_pid": running.of(),
        "command": description["command"],
        "start_ns": description["start_ns"].as_u64(),
        "streams": lanes.len(),
        "recorded_bytes": recorded,
        "lost": description["loss"]["events"].as_u64(),
        "kernel_bytes": description["kernel_events"]["recorded_bytes"].as_u64(),
        "diagnostics": description["diagnostics"],
    })
}

fn show(running: &RunningRecording) -> anyhow::Result<()> {
    let status = described(running);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    say(format_args!("recording  {}", running.path.display()))?;
    say(format_args!("recorder   process {}", running.pid))?;
    if running.of().is_some() || in_progress::command(running).is_some() {
        say(format_args!("of         {}", in_progress::of(running)))?;
    }
    if let Some(start) = status["start_ns"].as_u64() {
        say(format_args!("for        {}", duration(now.saturating_sub(start))))?;
    }
    let (recorded, lost) = (status["recorded_bytes"].as_u64().unwrap_or(0), status["lost"].as_u64().unwrap_or(0));
    let streams = if status["streams"] == 1 { "stream" } else { "streams" };
    say(format_args!("recorded   {} in {} {streams}, {} events lost", bytes(recorded), status["streams"], number(lost)))?;
    if let Some(kernel) = status["kernel_bytes"].as_u64() {
        say(format_args!("kernel     {}", bytes(kernel)))?;
    }
    for diagnostic in status["diagnostics"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str) {
        say(format_args!("note       {diagnostic}"))?;
    }
    Ok(())
}
