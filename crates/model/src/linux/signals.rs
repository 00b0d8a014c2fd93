//! Who has ended a thread that was at work: a signal that nobody catches ends it, whatever it does, and is the cause of its end.
//!
//! The signal is told when it is sent (`signal_generate`, or the call `kill`); that it has killed is known when the thread exits without having asked for it. Whoever
//! enters a system call after it has outlived it.

use super::Linux;
use crate::linux_watch::{CpuId, Mode, Moment, ThreadId, Waker, Watch};
use std::collections::HashMap;

/// Threads and processes that a signal is under way to.
const MOST: usize = 1 << 12;
const KILL: i64 = 9;
/// Signals that end nobody by themselves: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: [i64; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

#[derive(Clone, Copy, Debug)]
struct Sent {
    by: ThreadId,
    t_ns: i64,
    signal: i64,
}

#[derive(Debug, Default)]
pub(super) struct Signals {
    /// By whom they were sent to: a thread's number, or its process's.
    sent: HashMap<i32, Sent>,
}

impl Linux {
    /// What happens on this CPU sends a signal to `tid`.
    pub(super) fn signalled(&mut self, cpu: CpuId, t_ns: i64, tid: i32, signal: i64) {
        let Waker::Thread(by) = self.wake(cpu, t_ns).waker else { return };
        let room = self.signals.sent.len() < MOST || self.signals.sent.contains_key(&tid);
        if signal > 0 && !HARMLESS.contains(&signal) && tid != self.threads[by.0 as usize].tid && room {
            self.signals.sent.insert(tid, Sent { by, t_ns, signal });
        }
    }

    /// The thread asks the kernel for something: it has outlived what was sent to it.
    pub(super) fn outlived(&mut self, id: ThreadId) {
        if self.signals.sent.is_empty() {
            return;
        }
        let thread = &self.threads[id.0 as usize];
        let (tid, process) = (thread.tid, thread.process);
        for number in [Some(tid), process].into_iter().flatten() {
            if self.signals.sent.get(&number).is_some_and(|sent| sent.signal != KILL) {
                self.signals.sent.remove(&number);
            }
        }
    }

    /// The thread ends.
    pub(super) fn ends<W: Watch + ?Sized>(&mut self, id: ThreadId, watch: &mut W) {
        let thread = &self.threads[id.0 as usize];
        let (tid, process) = (thread.tid, thread.process.unwrap_or(thread.tid));
        let sent = self.signals.sent.get(&tid).or_else(|| self.signals.sent.get(&process)).copied();
        let asked = thread.call.is_some_and(|call| matches!(self.names.text(call.name), "exit" | "exit_group"));
        // Where no system calls are told, only one signal is known to be caught by nobody.
        let known = self.system_calls.in_all > 0 && thread.mode != Mode::Unknown;
        if let Some(sent) = sent.filter(|sent| !asked && (known || sent.signal == KILL)) {
            watch.moment(Moment::Killed { thread: id, by: sent.by, t_ns: sent.t_ns });
        }
        self.signals.sent.remove(&tid);
    }
}
