//! Threads with their processes, parents and names, as far as the trace has shown them up to the
//! event that is being converted.

use std::collections::HashMap;

const CLONE_THREAD: u64 = 0x10000;
/// Parent of a thread that was not in the trace yet.
const UNKNOWN: i32 = -1;

/// What is known of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownThread {
    pub pid: i32,
    pub ppid: i32,
    pub comm: [u8; 16],
    /// Priority in the kernel's own numbers, where 120 is the normal one.
    pub prio: i32,
}

impl KnownThread {
    fn unknown(tid: i32) -> KnownThread {
        // A thread that was not in the trace yet is assumed to be the first of its process.
        KnownThread { pid: tid, ppid: UNKNOWN, comm: [0; 16], prio: 120 }
    }
}

/// All known threads.
#[derive(Debug, Default)]
pub struct KnownThreads {
    known: HashMap<i32, KnownThread>,
    /// The last thread that was made on each CPU, and the flags of its clone. `task_newtask`
    /// precedes `sched_process_fork`, which does not have the flags.
    newest: HashMap<u32, (i32, u64)>,
    /// CPU of the record that is being converted.
    pub cpu: u32,
}

impl KnownThreads {
    /// Adds a thread, or replaces what is known of it.
    pub fn insert(&mut self, tid: i32, thread: KnownThread) {
        self.known.insert(tid, thread);
    }

    /// Returns what is known of a thread, to be changed. The idle threads of all CPUs share the
    /// number 0, so nothing is known of them.
    pub fn of(&mut self, tid: i32) -> &mut KnownThread {
        self.known.entry(tid).or_insert_with(|| KnownThread::unknown(tid))
    }

    /// Returns what is known of a thread.
    pub fn get(&self, tid: i32) -> KnownThread {
        self.known.get(&tid).copied().unwrap_or_else(|| KnownThread::unknown(tid))
    }

    /// Notes the flags of a clone, for the fork event that follows on this CPU.
    pub fn note_clone_flags(&mut self, tid: i32, flags: u64) {
        self.newest.insert(self.cpu, (tid, flags));
    }

    /// Forgets a thread that has ended, because its number may be used again.
    pub fn remove(&mut self, tid: i32) {
        self.known.remove(&tid);
    }

    /// Returns the process of a thread; the thread itself if nothing is known of it.
    pub fn process(&self, tid: i32) -> i32 {
        self.known.get(&tid).map_or(tid, |thread| thread.pid)
    }

    /// Adds a new thread and returns its process. The parent is the thread that runs.
    pub fn add_child(&mut self, child: i32, parent: i32) -> i32 {
        let of = self.get(parent);
        let thread = match self.newest.get(&self.cpu) {
            Some(&(tid, flags)) if tid == child && flags & CLONE_THREAD != 0 => of,
            _ => KnownThread { pid: child, ppid: of.pid, ..of },
        };
        self.insert(child, thread);
        thread.pid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_made_with_the_thread_flag_belongs_to_its_makers_process() {
        let mut threads = KnownThreads::default();
        threads.of(11).pid = 10;
        threads.note_clone_flags(12, CLONE_THREAD);
        assert_eq!(threads.add_child(12, 11), 10);
        assert_eq!(threads.add_child(13, 12), 13);
        assert_eq!(threads.process(12), 10);
        assert_eq!(threads.get(13).ppid, 10);
        threads.remove(12);
        assert_eq!(threads.process(12), 12);
    }
}
