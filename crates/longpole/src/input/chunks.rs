//! Reads a recording in progress from chunk to chunk: one with a limit is a row of recordings, of which the oldest goes.
//!
//! The recorder says when it has begun another chunk; then the one before is complete, is read to its end, and left. A reader that is so slow
//! that a chunk goes before it was read goes on with the next one, and says so.

use longpole_trace::Catalogue;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Follower;
use longpole_trace::Item;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

pub struct Chain {
    recording: PathBuf,
    follower: Follower,
    chunks: Receiver<PathBuf>,
    next: VecDeque<PathBuf>,
    /// Chunks that went before they were read.
    pub missed: u64,
}

impl Chain {
    /// `chunks`: those that come after `recording`.
    pub fn open(recording: PathBuf, chunks: Receiver<PathBuf>) -> Result<Chain, Error> {
        let follower = Follower::open(&recording)?;
        Ok(Chain { recording, follower, chunks, next: VecDeque::new(), missed: 0 })
    }

    /// Looks for what was written. `last`: the recording has ended. True: what is there is all that this chunk will have.
    pub fn refresh(&mut self, last: bool) -> Result<bool, Error> {
        // Before the look: what was written before this was said is seen.
        self.hear();
        let complete = last || !self.next.is_empty();
        let looked = match complete {
            true => self.follower.refresh_all(),
            false => self.follower.refresh(),
        };
        match looked {
            Err(_) if self.has_gone() => Ok(true),
            other => other.map(|()| complete),
        }
    }

    /// The next event or loss, if it is of this time or before. An error is none if the chunk [has gone](Chain::has_gone).
    pub fn next_until(&mut self, until_ns: i64) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        self.follower.next_until(until_ns)
    }

    /// Goes on with the next chunk; false: there is none. Streams and classes have other numbers there.
    pub fn go_on(&mut self) -> Result<bool, Error> {
        while let Some(next) = self.next.pop_front() {
            self.missed += u64::from(!self.recording.exists());
            self.recording = next;
            match Follower::open(&self.recording) {
                Err(_) if self.has_gone() => {}
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

    /// It was removed, and there are later ones.
    pub fn has_gone(&mut self) -> bool {
        self.hear();
        !self.next.is_empty() && !self.recording.exists()
    }

    fn hear(&mut self) {
        self.next.extend(self.chunks.try_iter());
    }
}
