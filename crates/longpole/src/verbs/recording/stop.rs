//! `longpole stop`: ends the recording that is in progress, whichever process started it.

use crate::input::in_progress;
use anyhow::bail;
use longpole_record::kernel;
use rustix::process::{kill_process, Pid, Signal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  longpole stop              end the recording and wait until its files are complete
  longpole stop --pid 1234   where there are several: that of this process

The path of the recording goes to stdout.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Pid of the recorded process or of the recorder; needed if several recordings run
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
}

/// Time that the recorder has to complete its files.
const END_TIMEOUT: Duration = Duration::from_secs(60);

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (mut running, runtime) = in_progress::one(args.pid, "nothing is being recorded")?;
    let Some(pid) = Pid::from_raw(running.pid) else { bail!("the recorder has not written its process id") };
    // The pid comes from a file that programs can write to; a process that is no recorder must not
    // be signalled.
    if !is_recorder(running.pid) {
        bail!("process {0} writes the recording but its program is not longpole; end it with `kill -INT {0}`", running.pid);
    }
    kill_process(pid, Signal::INT)?;
    let begin = Instant::now();
    while let Some(now) = in_progress::again(&running, &runtime)? {
        running = now;
        // The conversion of the kernel's events may take any time.
        if begin.elapsed() > END_TIMEOUT && !kernel::reap::is_going_on(&running.path) {
            bail!("the recorder (process {}) has not ended yet", running.pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    crate::say(running.path.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the process runs the same executable as this one, or one whose path contains
/// `longpole`.
fn is_recorder(pid: i32) -> bool {
    let of = |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe"));
    match (of(&pid.to_string()), of("self")) {
        (Ok(a), Ok(b)) => {
            use std::os::unix::fs::MetadataExt;
            let link = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            // A new version of the command must be able to end the recording of the old one.
            (a.dev(), a.ino()) == (b.dev(), b.ino()) || link.to_string_lossy().contains("longpole")
        }
        _ => false,
    }
}
