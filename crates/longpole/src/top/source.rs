//! The periods of the running system, as they are recorded and read.
//!
//! The recorder has a thread of its own, like its reader: neither waits for the other, nor for the
//! screen. At the end of a period the recorder begins a new chunk. A reader that has nothing else
//! to do gets the old one, and removes it afterwards; otherwise the old one is removed unread, and
//! counts as skipped. So at most three chunks exist.

use super::recorder::{remove, Recording};
use crate::passes::period::{self, Recorded};
use anyhow::Context;
use longpole_analysis::live::Period;
use longpole_model::rules::Rules;
use longpole_record::{Options, Stop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

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
    /// The recording in progress whose probes are shown, in words.
    pub other: Option<String>,
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
    ends: Arc<AtomicBool>,
    recorder: Option<JoinHandle<()>>,
}

impl Source {
    /// Begins to record.
    pub fn begin(wanted: Wanted) -> anyhow::Result<Source> {
        let signals = Stop::install().context("cannot handle signals")?;
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, updates) = channel();
        // Without room, a chunk is taken only by a reader that waits for it.
        let (chunks, finished) = sync_channel::<Recorded>(0);
        let Wanted { options, period, rules, note } = wanted;
        let (is_over, to_reader) = (Arc::clone(&ends), sender.clone());
        let reader = thread::Builder::new().name("longpole-reader".to_owned());
        reader.spawn(move || read_all(&finished, &rules, &is_over, &to_reader)).context("cannot start a thread")?;
        let recording = Recording { period, ends: Arc::clone(&ends), signals, chunks, updates: sender };
        let recorder = thread::Builder::new().name("longpole-record".to_owned());
        let recorder = recorder.spawn(move || recording.run(&options, note)).context("cannot start a thread")?;
        Ok(Source { updates, ends, recorder: Some(recorder) })
    }

    /// Waits for the next update. `None` if none came in this time.
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
        self.ends.store(true, Ordering::Release);
        // The reader may take seconds, and nobody waits for its answer.
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.join();
        }
    }
}

/// Nice value of the reader: what it observes has priority.
const PATIENT: i32 = 5;

/// Reads each chunk and removes it, until there are no more.
fn read_all(chunks: &Receiver<Recorded>, rules: &Rules, ends: &AtomicBool, updates: &Sender<Update>) {
    // Only this thread, and those that it starts.
    let _ = rustix::process::setpriority_process(None, PATIENT);
    let is_over = || ends.load(Ordering::Acquire);
    for recorded in chunks {
        let mut note = |note| drop(updates.send(Update::Note(note)));
        let read = period::read(&recorded, rules, (&is_over, &mut note));
        remove(&recorded.path);
        if is_over() {
            return;
        }
        let update = match read {
            Ok(period) => Update::Period(Box::new(period)),
            Err(error) => Update::Note(format!("period {} cannot be read: {}", recorded.number, crate::in_one_line(&error))),
        };
        if updates.send(update).is_err() {
            return;
        }
    }
}
