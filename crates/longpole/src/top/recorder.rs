//! The recorder of `top`: it writes each period as a recording of its own, in memory.
//!
//! If another recorder records the programs already, this one records only the kernel, and the
//! probes are read from the files that the other one writes: that costs the other one nothing. When
//! the other one has ended, the programs are taken up here.

use super::source::{Sources, Update};
use crate::input::in_progress;
use crate::passes::period::Recorded;
use anyhow::{bail, Context};
use longpole_record::output::scratch::Scratch;
use longpole_record::runtime_dir::session::RunningRecording;
use longpole_record::{Error, Options, Recorder, RuntimeDir, Scope, Stop};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time between two looks at the request to end.
const LOOK: Duration = Duration::from_millis(50);
/// Nice value of the recorder's thread, if it may choose one; see `record`.
const URGENT: i32 = -10;

pub struct Recording {
    pub period: Duration,
    /// True if the recording is to end, or has ended.
    pub ends: Arc<AtomicBool>,
    pub signals: Stop,
    /// Where the recordings of periods go.
    pub chunks: SyncSender<Recorded>,
    pub updates: Sender<Update>,
}

/// The recording in progress whose probes are shown.
struct Other {
    running: RunningRecording,
    runtime: RuntimeDir,
}

impl Other {
    /// Returns the recording of the recorder with this pid.
    fn of(pid: i32) -> anyhow::Result<Option<Other>> {
        let (all, runtime) = in_progress::all()?;
        let running = all.into_iter().find(|running| running.pid == pid);
        Ok(running.zip(runtime).map(|(running, runtime)| Other { running, runtime }))
    }

    /// Looks where the recording is now. Returns false if it has ended.
    fn is_running(&mut self) -> bool {
        let Ok(Some(now)) = in_progress::again(&self.running, &self.runtime) else { return false };
        self.running = now;
        true
    }
}

impl Recording {
    /// Records until the end.
    pub fn run(&self, options: &Options, note: Option<String>) {
        // Only this thread: the reader and the screen are not urgent.
        let _ = rustix::process::setpriority_process(None, URGENT);
        let ended = self.record(options, note);
        self.ends.store(true, Ordering::Release);
        let update = match ended {
            Ok(()) => Update::Ended,
            Err(error) => Update::Failed(error),
        };
        // The receiver may be gone.
        let _ = self.updates.send(update);
    }

    fn record(&self, options: &Options, note: Option<String>) -> anyhow::Result<()> {
        let scratch = Scratch::in_memory().context("cannot make a folder for the recording")?;
        let options = Options { root: Some(scratch.path().to_owned()), ..options.clone() };
        let mut number = 0;
        let outcome = loop {
            let ended = self.until_other_ends(&options, &note, &mut number);
            if ended.is_err() || self.is_over() {
                break ended;
            }
        };
        remove_all(scratch);
        outcome
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Acquire) || self.signals.signal().is_some()
    }

    /// Records until the end, or until the other recording has ended.
    fn until_other_ends(&self, options: &Options, note: &Option<String>, number: &mut u64) -> anyhow::Result<()> {
        let start = |options| Recorder::start(options, Some(&self.signals));
        let (mut recorder, mut other) = match start(options.clone()) {
            Ok(recorder) => (recorder, None),
            Err(error @ (Error::Busy { pid, .. } | Error::Taken { pid, .. })) => match Other::of(pid)? {
                // The scope of a command without a command: no program is recorded.
                Some(other) => (start(Options { scope: Scope::Descendants, ..options.clone() })?, Some(other)),
                None => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        let troubles = recorder.troubles().map(str::to_owned).chain(note.clone()).collect();
        let named = other.as_ref().map(|other| other.running.path.display().to_string());
        let _ = self.updates.send(Update::Begun(Sources { kernel: recorder.records_kernel(), other: named, troubles }));
        let outcome = self.periods(&mut recorder, &mut other, number);
        recorder.abandon();
        outcome
    }

    fn periods(&self, recorder: &mut Recorder, other: &mut Option<Other>, number: &mut u64) -> anyhow::Result<()> {
        let mut skipped = 0;
        let mut next = Instant::now() + self.period;
        while !self.is_over() {
            let longest = recorder.turn()?;
            let now = Instant::now();
            if now >= next {
                *number += 1;
                let path = recorder.next_chunk()?;
                let has_ended = other.as_mut().is_some_and(|other| !other.is_running());
                let probes_of = other.as_ref().map(|other| other.running.path.clone());
                let recorded = Recorded { path, number: *number, skipped, has_kernel: recorder.records_kernel(), probes_of };
                match self.chunks.try_send(recorded) {
                    Ok(()) => skipped = 0,
                    Err(TrySendError::Full(unread)) => {
                        remove(&unread.path);
                        skipped += 1;
                    }
                    Err(TrySendError::Disconnected(_)) => bail!("internal error: the reader of the periods has ended"),
                }
                if has_ended {
                    return Ok(());
                }
                // A recorder that was stopped does not make up for the periods that it missed.
                next = (next + self.period).max(now + self.period / 2);
            }
            recorder.wait(longest.min(LOOK).min(next.saturating_duration_since(now)));
        }
        Ok(())
    }
}

/// Removes a chunk. What remains is removed with the folder of all chunks.
pub fn remove(chunk: &Path) {
    let _ = fs::remove_dir_all(chunk);
}

/// Number of attempts to remove the folder of all chunks, and the pause between them.
const REMOVALS: (u32, Duration) = (100, Duration::from_millis(20));

/// Removes the folder of all chunks, in which the reader may be writing converted events. It ends
/// soon.
fn remove_all(scratch: Scratch) {
    let path = scratch.path().to_owned();
    drop(scratch);
    for _ in 0..REMOVALS.0 {
        if !path.exists() {
            return;
        }
        let _ = fs::remove_dir_all(&path);
        thread::sleep(REMOVALS.1);
    }
}
