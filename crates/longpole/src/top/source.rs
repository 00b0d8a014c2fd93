//! Records period by period, and reads each period while the next one is recorded.
//!
//! The recorder has a thread of its own, like its reader: neither waits for the other, nor for the
//! screen. At the end of a period the recorder begins a new chunk. A reader that has nothing else
//! to do gets the old one, and removes it afterwards; otherwise the old one is removed unread, and
//! counts as skipped. So at most three chunks exist.

use crate::passes::period;
use anyhow::Context;
use longpole_analysis::live::Period;
use longpole_model::rules::Rules;
use longpole_record::output::scratch::Scratch;
use longpole_record::{Options, Recorder, Stop};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the source reports.
pub enum Update {
    /// Recording has begun.
    Begun(Sources),
    Period(Box<Period>),
    /// A message for the user.
    Note(String),
    /// Recording ended with this error.
    Failed(anyhow::Error),
    /// A signal ended the recording.
    Ended,
}

/// What is recorded, and why something is not.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub kernel: bool,
    pub troubles: Vec<String>,
}

/// What to record, and how.
pub struct Wanted {
    pub options: Options,
    pub period: Duration,
    pub rules: Rules,
    /// Reason why the kernel is not recorded, if it was not asked for.
    pub note: Option<String>,
}

/// The periods of the running system. Recording ends when this is dropped.
pub struct Source {
    updates: Receiver<Update>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Source {
    /// Begins to record.
    pub fn begin(wanted: Wanted) -> anyhow::Result<Source> {
        let signals = Stop::install().context("cannot handle signals")?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, updates) = channel();
        let (chunks, finished) = sync_channel::<Chunk>(0);
        let Wanted { options, period, rules, note } = wanted;
        let to_reader = sender.clone();
        let reader = thread::Builder::new().name("longpole-reader".to_owned());
        let reader = reader.spawn(move || read_all(&finished, &rules, &to_reader)).context("cannot start a thread")?;
        let ends = Arc::clone(&stop);
        let recorder = thread::Builder::new().name("longpole-record".to_owned());
        let record = move || {
            let recording = Recording { period, ends, signals, chunks, updates: sender };
            if let Err(error) = recording.run(options, note) {
                // The receiver may be gone.
                let _ = recording.updates.send(Update::Failed(error));
            }
        };
        let recorder = recorder.spawn(record).context("cannot start a thread")?;
        Ok(Source { updates, stop, threads: vec![recorder, reader] })
    }

    /// Waits for the next update. `None` if none came in this time, or if recording has ended.
    pub fn next(&self, longest: Duration) -> Option<Update> {
        match self.updates.recv_timeout(longest) {
            Ok(update) => Some(update),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Update::Ended),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The recording of a period, which is complete.
struct Chunk {
    path: PathBuf,
    number: u64,
    skipped: u64,
}

/// Longest time between two looks at the request to end.
const LOOK: Duration = Duration::from_millis(50);
/// Nice value of the recorder's thread, if it may choose one; see `record`.
const URGENT: i32 = -10;

struct Recording {
    period: Duration,
    ends: Arc<AtomicBool>,
    signals: Stop,
    chunks: SyncSender<Chunk>,
    updates: Sender<Update>,
}

impl Recording {
    fn run(&self, options: Options, note: Option<String>) -> anyhow::Result<()> {
        let scratch = Scratch::in_memory().context("cannot make a folder for the recording")?;
        // Of this thread alone: the reader and the screen are not urgent.
        let _ = rustix::process::setpriority_process(None, URGENT);
        let options = Options { root: Some(scratch.path().to_owned()), ..options };
        let mut recorder = Recorder::start(options, Some(&self.signals))?;
        let troubles = recorder.troubles().map(str::to_owned).chain(note).collect();
        let _ = self.updates.send(Update::Begun(Sources { kernel: recorder.records_kernel(), troubles }));
        let outcome = self.periods(&mut recorder);
        recorder.abandon();
        outcome
    }

    fn periods(&self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let (mut number, mut skipped) = (1, 0);
        let mut next = Instant::now() + self.period;
        while !self.ends.load(Ordering::Acquire) && self.signals.signal().is_none() {
            let longest = recorder.turn()?;
            let now = Instant::now();
            if now >= next {
                let path = recorder.next_chunk()?;
                match self.chunks.try_send(Chunk { path, number, skipped }) {
                    Ok(()) => skipped = 0,
                    Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => {
                        remove(&chunk.path);
                        skipped += 1;
                    }
                }
                number += 1;
                // A recorder that was stopped does not make up for the periods that it missed.
                next = (next + self.period).max(now + self.period / 2);
            }
            recorder.wait(longest.min(LOOK).min(next.saturating_duration_since(now)));
        }
        Ok(())
    }
}

/// Reads each chunk and removes it, until there are no more.
fn read_all(chunks: &Receiver<Chunk>, rules: &Rules, updates: &Sender<Update>) {
    for Chunk { path, number, skipped } in chunks {
        let mut note = |note| drop(updates.send(Update::Note(note)));
        let read = period::read(&path, (number, skipped), rules.clone(), &mut note);
        remove(&path);
        let update = match read {
            Ok(period) => Update::Period(Box::new(period)),
            Err(error) => Update::Note(format!("period {number} cannot be read: {}", crate::in_one_line(&error))),
        };
        if updates.send(update).is_err() {
            return;
        }
    }
}

fn remove(chunk: &Path) {
    // What remains is removed with the folder of all chunks.
    let _ = fs::remove_dir_all(chunk);
}
