//! `longpole start`: starts a recording that runs in the background until `longpole stop`.
//!
//! The recorder is this same command, in a session of its own. It writes one line to a pipe to this
//! process: the path of the recording. If it fails, the reason is in its stderr.

use super::record;
use anyhow::{bail, Context};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  longpole start                     record everything with probes from now on
  longpole start -c policies.toml    choose by label
  longpole start --kernel sched,irq  of the kernel: scheduling and interrupts (as `longpole record`)
  longpole status                    what it has recorded
  longpole stop                      end it

The path of the recording goes to stdout once the recording runs.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory for the recording's own directory [default: $LONGPOLE_ROOT, else traces]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Configuration (TOML): which events to record of which subjects
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End after this time: 10s, 500ms, 2min
    #[arg(long = "for", value_name = "TIME", value_parser = record::duration)]
    time: Option<Duration>,
    /// Record this process only
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// Size of each thread's ring: 64KiB, 4MiB [default: 32 KiB, larger when busy]
    #[arg(long, value_name = "SIZE", value_parser = record::size)]
    buffer: Option<u64>,
    /// What a full ring does: discard the newest, overwrite the oldest (a flight recorder), or
    /// block the thread for a bounded time [default: discard]
    #[arg(long, value_name = "discard|overwrite|block")]
    mode: Option<longpole_record::Mode>,
    /// Maximum size on disk; the oldest part is removed, and the removed events are counted
    #[arg(long, value_name = "SIZE", value_parser = record::bytes)]
    max_size: Option<u64>,
    /// Maximum age of recorded data: 10min, 2h
    #[arg(long, value_name = "TIME", value_parser = record::duration)]
    max_age: Option<Duration>,
    #[command(flatten)]
    kernel: record::Kernel,
    #[command(flatten)]
    packets: record::Packets,
    /// Run as the recorder itself
    #[arg(long, hide = true)]
    recorder: bool,
}

/// Prefix of the line with the recording's limit in bytes (0: none) and its path, so that no other
/// output of the recorder is mistaken for it.
const READY: &str = "ready ";

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.kernel.check()?;
    match args.recorder {
        true => be_recorder(args),
        false => start(&args),
    }
}

fn be_recorder(args: Args) -> anyhow::Result<ExitCode> {
    let args = record::Args {
        output: args.output,
        config: args.config,
        time: args.time,
        pid: args.pid,
        all: false,
        buffer: args.buffer,
        mode: args.mode,
        max_size: args.max_size,
        max_age: args.max_age,
        kernel: args.kernel,
        packets: args.packets,
        log: false,
        capture_output: false,
        runtimes: false,
        steady: None,
        command: Vec::new(),
    };
    record::record(args, |recorder| {
        // The process that started the recorder reads this line. If it has ended, the recording
        // continues anyway.
        let _ = crate::say(format_args!("{READY}{} {}", recorder.max_size().unwrap_or(0), recorder.path().display()));
        // That process ends after reading the line, and its streams must not be kept open.
        longpole_record::leave_streams();
    })
}

fn start(args: &Args) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find the command itself")?;
    let mut command = Command::new(own);
    command.args(["start", "--recorder"]);
    if let Some(output) = &args.output {
        command.arg("--output").arg(output);
    }
    if let Some(config) = &args.config {
        // The recorder reads the file again when it changes, possibly from another working
        // directory.
        let config = std::fs::canonicalize(config).with_context(|| format!("cannot find {}", config.display()))?;
        command.arg("--config").arg(config);
    }
    if let Some(time) = args.time {
        command.arg("--for").arg(format!("{}ns", time.as_nanos()));
    }
    if let Some(pid) = args.pid {
        command.arg("--pid").arg(pid.to_string());
    }
    if let Some(buffer) = args.buffer {
        command.arg("--buffer").arg(buffer.to_string());
    }
    if let Some(mode) = args.mode {
        command.arg("--mode").arg(mode.name());
    }
    if let Some(size) = args.max_size {
        command.arg("--max-size").arg(format!("{size}B"));
    }
    if let Some(age) = args.max_age {
        command.arg("--max-age").arg(format!("{}ns", age.as_nanos()));
    }
    command.args(args.kernel.arguments()).args(args.packets.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only setsid is called. In a session of its own, signals of this
    // terminal do not end the recording.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    };
    let mut child = command.spawn().context("cannot start the recorder")?;
    let mut first = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut first)?;
    }
    match first.strip_prefix(READY).and_then(|rest| rest.split_once(' ')) {
        Some((size, path)) => {
            crate::say(path.trim_end())?;
            if let Some(size) = size.parse().ok().filter(|&size| size > 0) {
                eprintln!("longpole: {}", record::limit(size));
            }
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let mut why = String::new();
            if let Some(mut err) = child.stderr.take() {
                std::io::Read::read_to_string(&mut err, &mut why)?;
            }
            let status = child.wait();
            let why = why.trim().trim_start_matches("longpole: ").to_owned();
            match status.is_ok_and(|status| status.code() == Some(2)) {
                true => Err(crate::WrongUsage(why).into()),
                false => bail!("{why}"),
            }
        }
    }
}
