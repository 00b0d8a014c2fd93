//! Reads a recording in progress, chunk by chunk. A recording with a size limit is a sequence of
//! recordings, the chunks, of which the oldest is removed.
//!
//! The recorder announces each new chunk. The chunk before it is then complete; it is read to its
//! end and left. If a chunk is removed before a slow reader has read it, the reader continues with
//! the next one and counts it.

use longpole_trace::Catalogue;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Item;
use longpole_trace::RecordingFollower;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

pub struct Chain {
    recording: PathBuf,
    follower: RecordingFollower,
    chunks: Receiver<PathBuf>,
    next: VecDeque<PathBuf>,
    /// Number of chunks that were removed before they were read.
    pub missed: u64,
}

impl Chain {
    /// Opens the recording; `chunks` yields the chunks that follow it.
    pub fn open(recording: PathBuf, chunks: Receiver<PathBuf>) -> Result<Chain, Error> {
        let follower = RecordingFollower::open(&recording)?;
        Ok(Chain { recording, follower, chunks, next: VecDeque::new(), missed: 0 })
    }

    /// Reads what was written since the last call. `last` means that the recording has ended.
    /// Returns true if this chunk is complete, so that nothing will be added to it.
    pub fn refresh(&mut self, last: bool) -> Result<bool, Error> {
        // Receives first: what was written before a chunk was announced is then certainly seen
        // below.
        self.hear();
        let complete = last || !self.next.is_empty();
        let looked = match complete {
            true => self.follower.refresh_all(),
            false => self.follower.refresh(),
        };
        match looked {
            Err(_) if self.was_removed() => Ok(true),
            other => other.map(|()| complete),
        }
    }

    /// Returns the next event or loss, if it is not after `until_ns`. An error can be ignored if
    /// the chunk was [removed](Chain::was_removed).
    pub fn next_until(&mut self, until_ns: i64) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        self.follower.next_until(until_ns)
    }

    /// Continues with the next chunk. Returns false if there is none. Streams and event classes
    /// have other numbers in it.
    pub fn next_chunk(&mut self) -> Result<bool, Error> {
        while let Some(next) = self.next.pop_front() {
            self.missed += u64::from(!self.recording.exists());
            self.recording = next;
            match RecordingFollower::open(&self.recording) {
                Err(_) if self.was_removed() => {}
                opened => {
                    self.follower = opened?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.follower.diagnostics()
    }

    /// Returns true if the current chunk was removed and later ones exist.
    pub fn was_removed(&mut self) -> bool {
        self.hear();
        !self.next.is_empty() && !self.recording.exists()
    }

    fn hear(&mut self) {
        self.next.extend(self.chunks.try_iter());
    }
}
