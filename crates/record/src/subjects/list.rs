//! The processes and threads that can be recorded now, as `longpole list` shows them. Changes
//! nothing.

use crate::error::Error;
use crate::files::mapping::Access;
use crate::ring::Ring;
use crate::runtime_dir::process::Process;
use crate::runtime_dir::{Entry, RuntimeDir};
use longpole_abi::{RING_ENDED, RING_IDLE};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// A process with probes.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    pub label: String,
    pub pid: i32,
    /// Uid of the owner of its runtime directory.
    pub uid: u32,
    /// Something of the process is being recorded.
    pub enabled: bool,
    /// Number of events of threads without a ring.
    pub refused: u32,
    pub threads: Vec<Thread>,
}

/// A thread that was recorded, or a ring without a thread.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    pub thread: String,
    pub tid: i32,
    /// `recording`, `off`, `idle` (the thread has ended) or `ended` (a larger ring that is not in
    /// use yet replaced it).
    pub state: &'static str,
    /// Size of the ring in bytes.
    pub buffer: u64,
    /// Bytes taken by recorders since the ring was made.
    pub recorded: u64,
    /// Bytes not yet taken.
    pub pending: u64,
    /// Number of events lost since the ring was made.
    pub lost: u64,
}

/// The living processes with probes, sorted by label and pid; and a message for each file that does
/// not belong to the layout.
pub fn list(runtime: &RuntimeDir) -> Result<(Vec<Subject>, Vec<String>), Error> {
    let entries = runtime.entries().map_err(Error::io("list", runtime.path()))?;
    let mut subjects = Vec::new();
    let mut foreign = Vec::new();
    for (name, entry) in &entries {
        match entry {
            Entry::Control { stem, pid } => match Process::open(runtime, name, stem, *pid, Access::Read) {
                Ok(process) if process.lives() => subjects.push(subject(runtime, &process, &entries)),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => foreign.push(format!("{name}: {error}")),
            },
            Entry::Foreign => foreign.push(format!("{name}: no name of the layout")),
            _ => {}
        }
    }
    subjects.sort_by(|a, b| (&a.label, a.pid).cmp(&(&b.label, b.pid)));
    Ok((subjects, foreign))
}

fn subject(runtime: &RuntimeDir, process: &Process, entries: &[(String, Entry)]) -> Subject {
    let control = process.control();
    let enabled = control.orders.mask.load(Ordering::Relaxed) != 0;
    let mut threads = Vec::new();
    for (name, entry) in entries {
        let Entry::Ring { stem, number, own } = entry else { continue };
        if *stem != process.stem {
            continue;
        }
        // A ring may vanish meanwhile; it is then left out.
        let Ok(ring) = Ring::open(runtime, name, *number, *own, Access::Read) else { continue };
        let layout = ring.layout();
        let head = layout.head.load(Ordering::Relaxed);
        let state = match layout.state.load(Ordering::Relaxed) {
            RING_IDLE => "idle",
            RING_ENDED => "ended",
            _ if !own && head == 0 => continue,
            _ if enabled => "recording",
            _ => "off",
        };
        let tail = layout.tail.load(Ordering::Relaxed);
        let tid = layout.tid.load(Ordering::Relaxed);
        let thread = crate::runtime_dir::proc_status::thread_name(process.pid, tid)
            .unwrap_or_else(|| crate::runtime_dir::process::text(&layout.thread));
        threads.push(Thread {
            thread,
            tid,
            state,
            buffer: ring.size,
            recorded: tail,
            pending: head.saturating_sub(tail).min(ring.size),
            lost: layout.lost.load(Ordering::Relaxed),
        });
    }
    one_line_each(&mut threads);
    let refused = control.refused.load(Ordering::Relaxed);
    Subject { label: process.label.clone(), pid: process.pid, uid: runtime.owner(), enabled, refused, threads }
}

/// Merges a replaced ring that is still being emptied into the larger one, because both belong to
/// one thread.
fn one_line_each(threads: &mut Vec<Thread>) {
    threads.sort_by(|a, b| (a.tid, a.state == "ended", &a.thread).cmp(&(b.tid, b.state == "ended", &b.thread)));
    threads.dedup_by(|second, first| {
        let replaced = second.state == "ended" && second.tid == first.tid;
        if replaced {
            first.pending = first.pending.saturating_add(second.pending);
        }
        replaced
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_ring_adds_no_second_line_for_its_thread() {
        let thread = |tid, state, pending| Thread { thread: "t".to_owned(), tid, state, buffer: 1, recorded: 2, pending, lost: 3 };
        let mut all = vec![
            thread(7, "ended", 5),
            thread(9, "ended", 1),
            thread(7, "recording", 100),
            thread(7, "ended", 20),
            thread(8, "idle", 0),
            thread(8, "idle", 0),
        ];
        one_line_each(&mut all);
        let seen: Vec<(i32, &str, u64)> = all.iter().map(|thread| (thread.tid, thread.state, thread.pending)).collect();
        // Thread 9 has no other ring yet.
        assert_eq!(seen, [(7, "recording", 125), (8, "idle", 0), (8, "idle", 0), (9, "ended", 1)]);
    }
}
