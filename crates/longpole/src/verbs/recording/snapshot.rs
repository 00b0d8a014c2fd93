//! `longpole snapshot`: writes everything that a running recording holds at this moment, as a
//! recording of its own.
//!
//! The recorder pauses for an instant and copies what may be overwritten. This process then copies
//! the recording's files, because a recorder that copied gigabytes would lose events meanwhile.

use super::record;
use crate::input::in_progress;
use anyhow::{bail, Context};
use longpole_record::runtime_dir::session::RunningRecording;
use longpole_record::snapshot;
use longpole_record::{Asked, Condition, Request, RuntimeDir, Stop};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  longpole start --mode overwrite     record into memory only: a flight recorder
  longpole snapshot                   what it remembers, as a recording
  longpole snapshot --pre 5s          the last five seconds of it
  longpole snapshot --when 'span(\"request\") > 5ms' --pre 1s --post 100ms
                                      wait for a request that takes longer, then take the second before it and what follows
  longpole snapshot --when lost --for 1h
                                      wait until events are lost, for an hour at most

The path of the snapshot goes to stdout. The recording continues.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory for the snapshot's own directory [default: that of the recording]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Pid of the recorded process or of the recorder; needed if several recordings run
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// Time before now, or before the condition, to include: 5s, 500ms [default: all]
    #[arg(long, value_name = "TIME", value_parser = record::duration)]
    pre: Option<Duration>,
    /// Wait for this: 'span("NAME") > 5ms', 'full("QUEUE") > 10ms', 'counter("NAME") > X',
    /// 'rate("NAME") < X', lost, or several with ||
    #[arg(long, value_name = "CONDITION")]
    when: Option<Condition>,
    /// Time after the condition to include, too
    #[arg(long, value_name = "TIME", value_parser = record::duration, requires = "when")]
    post: Option<Duration>,
    /// Maximum time to wait for the condition
    #[arg(long = "for", value_name = "TIME", value_parser = record::duration, requires = "when")]
    time: Option<Duration>,
}

/// Time between two checks for the answer.
const PAUSE: Duration = Duration::from_millis(5);
/// Time after which a recorder that has not answered is considered hung.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which a recorder that has no folder for requests is not merely between two chunks.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (running, runtime) = in_progress::one(args.pid, "nothing is being recorded; begin with `longpole start --mode overwrite`")?;
    let output = match args.output {
        Some(output) => Some(std::path::absolute(&output).with_context(|| format!("cannot find {}", output.display()))?),
        None => None,
    };
    let ns = |time: Duration| time.as_nanos() as u64;
    let when = args.when.as_ref().map(ToString::to_string);
    let request = Request { output, when, pre_ns: args.pre.map(ns), post_ns: args.post.map_or(0, ns) };
    let stop = Stop::install().context("cannot handle signals")?;
    let (running, asked) = ask(running, &runtime, &request, &stop)?;
    let begin = Instant::now();
    let answer = loop {
        if let Some(answer) = asked.answer()? {
            break answer;
        }
        if stop.signal().is_some() {
            asked.withdraw();
            bail!("ended by a signal; no snapshot was made");
        }
        if in_progress::again(&running, &runtime)?.is_none() {
            bail!("the recording ended before the snapshot was made");
        }
        if args.time.is_some_and(|time| begin.elapsed() > time) {
            asked.withdraw();
            bail!("the condition did not become true; no snapshot was made");
        }
        if args.when.is_none() && begin.elapsed() > ANSWER_TIMEOUT {
            asked.withdraw();
            bail!("the recorder (process {}) does not answer", running.pid);
        }
        std::thread::sleep(PAUSE);
    };
    let answer = answer.map_err(anyhow::Error::msg)?;
    let made = PathBuf::from(answer["path"].as_str().context("the recorder did not name a snapshot in its answer")?);
    finish(&made, &answer)?;
    crate::say(made.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the request. A recorder that begins another chunk moves its folder for requests there
/// before it names the new chunk, so a folder that is missing is looked for again for a while.
fn ask(mut running: RunningRecording, runtime: &RuntimeDir, request: &Request, stop: &Stop) -> anyhow::Result<(RunningRecording, Asked)> {
    let begin = Instant::now();
    loop {
        match Asked::ask(&running.path, request) {
            Ok(asked) => return Ok((running, asked)),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot ask the recorder of {}", running.path.display()));
            }
            Err(_) if begin.elapsed() > CHUNK_TIMEOUT => bail!(
                "the recorder of {} (process {}) accepts no requests; it may be ending, or be of another version",
                running.path.display(),
                running.pid
            ),
            Err(_) if stop.signal().is_some() => bail!("ended by a signal; no snapshot was made"),
            Err(_) => std::thread::sleep(PAUSE),
        }
        running = in_progress::again(&running, runtime)?.context("the recording ended before the snapshot was made")?;
    }
}

/// Completes the snapshot: does the work that the recorder leaves to this process.
fn finish(path: &Path, _answer: &Value) -> anyhow::Result<()> {
    let done = snapshot::complete(path)?;
    done.notes.iter().for_each(|note| eprintln!("longpole: note: {}", crate::render::table::plain(note.clone())));
    crate::input::complete(path);
    Ok(())
}
