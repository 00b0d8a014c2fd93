//! The command that is recorded: it is started with the recorder's environment, and the recorder
//! runs until it ends.

use super::PAUSE;
use crate::output_tee::{OutputTee, Prepared};
use anyhow::{anyhow, Context};
use longpole_record::control::steady::Steady;
use longpole_record::{Recorder, RuntimeDir, Stop};
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Time that a command has to end after a signal; then the recording ends without it.
const GRACE: Duration = Duration::from_secs(3);

/// What the command inherits from the user, and the recorder changes for itself.
#[derive(Clone, Copy)]
pub struct Inherited {
    files: Rlimit,
    pub nice: i32,
}

impl Inherited {
    pub fn new() -> Inherited {
        Inherited { files: rustix::process::getrlimit(Resource::Nofile), nice: rustix::process::getpriority_process(None).unwrap_or(0) }
    }

    /// Restores what the recorder changed. Called between fork and exec, so it makes only system
    /// calls.
    fn restore(self, steady: Option<Steady>) -> std::io::Result<()> {
        rustix::process::setrlimit(Resource::Nofile, self.files)?;
        Stop::restore_inherited();
        let _ = rustix::process::setpriority_process(None, self.nice);
        if let Some(steady) = steady {
            // The result was already reported by `Recorder::troubles`.
            let _ = steady.apply(self.nice);
        }
        Ok(())
    }
}

/// How the command is started.
pub struct Started {
    pub inherited: Inherited,
    pub steady: Option<Steady>,
    pub capture_output: bool,
    /// Variables of its environment.
    pub settings: Vec<(&'static str, OsString)>,
}

/// The command that runs, and what reads its output.
pub struct Recorded {
    pub child: Child,
    output: Option<OutputTee>,
}

impl Recorded {
    /// Starts the command; `None` if there is none.
    pub fn start(command: &[OsString], recorder: &mut Recorder, how: Started) -> anyhow::Result<Option<Recorded>> {
        let Started { inherited, steady, capture_output, settings } = how;
        let Some((program, rest)) = command.split_first() else { return Ok(None) };
        let (name, value) = recorder.environment();
        let mut command = Command::new(program);
        command.args(rest).env(name, value).envs(settings);
        // The command inherits the runtime directory as an absolute path, so that programs find it
        // from any working directory.
        if std::env::var_os("LONGPOLE_RUNTIME_DIR").is_some_and(|path| !path.is_empty()) {
            command.env("LONGPOLE_RUNTIME_DIR", RuntimeDir::default_path());
        }
        let output = capture_output.then(|| Prepared::new(&mut command)).transpose();
        let output = output.map_err(|error| anyhow!("cannot capture the command's output: {error}"))?;
        // SAFETY: between fork and exec only system calls are made, on copied values.
        unsafe { command.pre_exec(move || inherited.restore(steady)) };
        let child = command.spawn();
        let mut child = child.map_err(|error| anyhow!("cannot run {}: {error}", program.to_string_lossy()))?;
        recorder.follow(child.id() as i32);
        // Closes our copies of the command's ends of the streams; otherwise we would never see the
        // end of its output.
        drop(command);
        let output = output.map(|output| output.begin(&mut child, recorder)).transpose().context("cannot capture the command's output")?;
        Ok(Some(Recorded { child, output }))
    }

    /// Records the rest of the command's output after the command has ended.
    pub fn drain_output(&self, recorder: &mut Recorder) {
        if let Some(output) = &self.output {
            output.drain(GRACE, || {
                let longest = recorder.turn().unwrap_or(PAUSE);
                recorder.wait(longest.min(PAUSE));
            });
        }
    }

    /// Passes on what the command's own children still print, until `is_enough`.
    pub fn end_output(&mut self, is_enough: impl Fn() -> bool) {
        if let Some(output) = self.output.take() {
            output.end(is_enough);
        }
    }
}

/// Runs the recorder until the command ends, `time` has passed, the process `pid` has ended, or a
/// signal requests the end. Returns the command's status if it ended.
pub fn run_until_the_end(
    recorder: &mut Recorder,
    stop: &Stop,
    time: Option<Duration>,
    pid: Option<i32>,
    mut child: Option<&mut Child>,
) -> anyhow::Result<Option<ExitStatus>> {
    let end = time.map(|time| Instant::now() + time);
    let mut asked: Option<Instant> = None;
    loop {
        let mut longest = recorder.turn()?;
        if let Some(child) = child.as_deref_mut() {
            if let Some(status) = child.try_wait().context("cannot wait for the command")? {
                return Ok(Some(status));
            }
        }
        if pid.is_some_and(|pid| !lives(pid)) {
            return Ok(None);
        }
        if let Some(child) = child.as_deref() {
            stop.passed().for_each(|signal| pass_on(child, signal));
        }
        let now = Instant::now();
        if let Some(end) = end {
            if now >= end {
                return Ok(None);
            }
            longest = longest.min(end - now);
        }
        if let Some(signal) = stop.signal() {
            let Some(child) = child.as_deref() else { return Ok(None) };
            // The terminal sends its signal to the command, too. A signal sent to this process
            // alone must be passed on.
            if asked.is_none() && stop.directed() {
                pass_on(child, signal);
            }
            let since = *asked.get_or_insert(now);
            if stop.count() > 1 || now - since >= GRACE {
                eprintln!("longpole: the command (process {}) continues without being recorded", child.id());
                return Ok(None);
            }
            longest = longest.min(GRACE - (now - since));
        }
        recorder.wait(longest);
    }
}

fn pass_on(child: &Child, signal: i32) {
    if let (Some(pid), Some(signal)) = (rustix::process::Pid::from_raw(child.id() as i32), rustix::process::Signal::from_named_raw(signal))
    {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns true if the process exists and is not a zombie.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns the process to which a thread belongs.
pub fn process_of_thread(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}
