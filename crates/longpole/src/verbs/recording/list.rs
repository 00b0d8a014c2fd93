//! `longpole list`: lists the subjects that can be recorded, or the recordings.

use crate::render::answer;
use crate::render::table::{bytes, duration, number, Table};
use longpole_record::root;
use longpole_record::subjects::list as subjects;
use longpole_record::RuntimeDir;
use serde_json::{json, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  longpole list                     programs with probes that run now, and their threads
  longpole list --recordings        recordings, newest last
  longpole list --json              for scripts: docs/json/list.schema.json

Root sees the programs of all users. A thread appears once it has been recorded. Recorded and lost count since its ring was made.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// List recordings instead of subjects
    #[arg(long)]
    recordings: bool,
    /// Directory with the recordings [default: $LONGPOLE_ROOT, else traces]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.recordings {
        true => recordings(&args.output.unwrap_or_else(root), args.json)?,
        false => list_subjects(args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list_subjects(json: bool) -> anyhow::Result<()> {
    let (mut subjects, mut ignored) = (Vec::new(), Vec::new());
    for runtime in RuntimeDir::all()? {
        let (found, foreign) = subjects::list(&runtime)?;
        subjects.extend(found);
        ignored.extend(foreign);
    }
    let mut out = io::stdout().lock();
    if json {
        answer::write_json_line(&mut out, &json!({ "subjects": subjects, "ignored": ignored }))?;
        return Ok(());
    }
    for name in &ignored {
        eprintln!("longpole: ignored {name}");
    }
    if subjects.is_empty() {
        eprintln!("longpole: no process with probes is running (searched in {})", RuntimeDir::default_path().display());
        return Ok(());
    }
    let own = rustix::process::geteuid().as_raw();
    let mut table = Table::new(&["label", ">pid", "thread", ">tid", "state", ">buffer", ">recorded", ">lost"]);
    for subject in &mut subjects {
        if subject.uid != own {
            subject.label = format!("{} (user {})", subject.label, subject.uid);
        }
        if subject.threads.is_empty() {
            let state = if subject.enabled { "recording" } else { "off" };
            table.row([subject.label.as_str(), &subject.pid.to_string(), "", "", state]);
        }
        for thread in &subject.threads {
            table.row([
                subject.label.clone(),
                subject.pid.to_string(),
                thread.thread.clone(),
                thread.tid.to_string(),
                thread.state.to_owned(),
                bytes(thread.buffer),
                bytes(thread.recorded),
                number(thread.lost),
            ]);
        }
        if subject.refused > 0 {
            let text = format!("{} events had no ring", number(u64::from(subject.refused)));
            table.row([subject.label.clone(), subject.pid.to_string(), text]);
        }
    }
    table.print(&mut out)?;
    Ok(())
}

fn recordings(root: &Path, json: bool) -> anyhow::Result<()> {
    for note in longpole_record::kernel::reap::all() {
        eprintln!("longpole: note: {note}");
    }
    let mut found: Vec<(PathBuf, Value)> = Vec::new();
    match std::fs::read_dir(root) {
        Ok(entries) => {
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(text) = std::fs::read(path.join("longpole.json")) else { continue };
                found.push((path, serde_json::from_slice(&text).unwrap_or(Value::Null)));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => anyhow::bail!("cannot list {}: {error}", root.display()),
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = io::stdout().lock();
    let recorded = |description: &Value| -> u64 {
        let lanes = description["lanes"].as_array().map_or(&[][..], Vec::as_slice);
        lanes.iter().filter_map(|lane| lane["recorded_bytes"].as_u64()).sum()
    };
    if json {
        let all: Vec<Value> = found
            .iter()
            .map(|(path, description)| {
                json!({
                    "path": path,
                    "start_ns": description["start_ns"],
                    "end_ns": description["end_ns"],
                    "command": description["command"],
                    "recorded_bytes": recorded(description),
                    "lost": description["loss"]["events"],
                })
            })
            .collect();
        answer::write_json_line(&mut out, &json!({ "recordings": all }))?;
        return Ok(());
    }
    if found.is_empty() {
        eprintln!("longpole: no recordings in {}", root.display());
        return Ok(());
    }
    let mut table = Table::new(&["recording", ">duration", ">recorded", ">lost", "command"]);
    for (path, description) in &found {
        let length = match (description["start_ns"].as_u64(), description["end_ns"].as_u64()) {
            (Some(start), Some(end)) => duration(end.saturating_sub(start)),
            _ => "not ended".to_owned(),
        };
        let command: Vec<&str> =
            description["command"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str).collect();
        table.row([
            path.display().to_string(),
            length,
            bytes(recorded(description)),
            description["loss"]["events"].as_u64().map_or_else(String::new, number),
            command.join(" "),
        ]);
    }
    table.print(&mut out)?;
    Ok(())
}
