//! Waits for file locks (`flock`, `fcntl`) that end when another process wakes the waiter: because
//! it releases the lock, ends, or sends a signal. Waits that have not ended are not counted.
//!
//! Example: a backup holds the lock of a mail spool while `sha256sum` works for it, and a process
//! that delivers mail waits in `flock`.

use longpole_model::linux::watch::{BlockCause, BlockReason, ThreadId};
use longpole_model::linux::Linux;
use longpole_model::names::NameId;
use longpole_model::system_calls::CallFamily;
use std::collections::HashMap;

/// Largest number of pairs of processes; waits of further pairs are not counted.
const MAX_PAIRS: usize = 1 << 14;

/// Waits of one process for locks that another process released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLock {
    /// Process ids.
    pub waiter: i32,
    pub holder: i32,
    /// Name of the system call in which the process waited.
    pub call: String,
    pub count: u64,
    pub waited_ns: u64,
}

#[derive(Debug, Default)]
pub struct FileLocks {
    of: HashMap<(i32, i32, NameId), FileLock>,
}

impl FileLocks {
    /// Counts a wait of a thread for the reason `why`, which another thread ended.
    pub fn ended(&mut self, linux: &Linux, (thread, by): (ThreadId, ThreadId), why: BlockReason, ns: u64) {
        let BlockCause::Call(name, _) = why.cause else { return };
        let call = linux.names.text(name);
        if CallFamily::of(call) != CallFamily::FileLock {
            return;
        }
        let process = |id: ThreadId| linux.threads.get(id.0 as usize).map(|thread| thread.process.unwrap_or(thread.tid));
        let (Some(waiter), Some(holder)) = (process(thread), process(by)) else { return };
        if self.of.len() >= MAX_PAIRS && !self.of.contains_key(&(waiter, holder, name)) {
            return;
        }
        let new = || FileLock { waiter, holder, call: call.to_owned(), ..FileLock::default() };
        let of = self.of.entry((waiter, holder, name)).or_insert_with(new);
        of.count += 1;
        of.waited_ns += ns;
    }

    /// Returns all file locks, the one with the longest waits first.
    pub fn finish(self) -> Vec<FileLock> {
        let mut all: Vec<FileLock> = self.of.into_values().collect();
        all.sort_by(|a, b| b.waited_ns.cmp(&a.waited_ns).then_with(|| (a.waiter, a.holder, &a.call).cmp(&(b.waiter, b.holder, &b.call))));
        all
    }
}
