//! Threads that were killed by a signal while they worked. A signal that no handler catches ends a
//! thread in any state, and its sender is the cause of that end.
//!
//! A signal is recorded when it is sent (`signal_generate`, or the call `kill`). That it has killed
//! the thread is known when the thread exits without a call of `exit` or `exit_group`. A thread
//! that enters a system call after the signal has survived it. A signal to a process group is
//! treated as one signal to each member ([`Groups`]).

use crate::linux::watch::{CpuId, Mode, Moment, ThreadId, Waker, Watch};
use crate::linux::Arguments;
use crate::linux::Linux;
use crate::system_calls::{ends_the_caller, SignalTarget};
use std::collections::{BTreeSet, HashMap};

/// Maximum number of threads and processes for which a signal is pending.
const MAX_PENDING: usize = 1 << 12;
/// Maximum number of processes whose group is remembered.
const MAX_MEMBERS: usize = 1 << 16;
const KILL: i64 = 9;
/// Signals that end no thread by themselves: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: [i64; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

/// A pending signal.
#[derive(Clone, Copy, Debug)]
struct Sent {
    by: ThreadId,
    t_ns: i64,
    signal: i64,
}

/// Pending signals and process groups.
#[derive(Debug, Default)]
pub(in crate::linux) struct PendingSignals {
    /// Pending signals, by the id of the thread or of the process that they were sent to.
    sent: HashMap<i32, Sent>,
    groups: Groups,
}

/// Process groups, identified by the id of the process that created them. A process that existed
/// when the trace began is assumed to be alone in its own group, so a signal to its real group is
/// not known to have reached it.
#[derive(Debug, Default)]
struct Groups {
    /// Groups of processes that are not in their own group.
    of: HashMap<i32, i32>,
    members: HashMap<i32, BTreeSet<i32>>,
}

impl Groups {
    fn of(&self, process: i32) -> i32 {
        self.of.get(&process).copied().unwrap_or(process)
    }

    fn join(&mut self, process: i32, group: i32) {
        self.leave(process);
        if process != group && self.of.len() < MAX_MEMBERS {
            self.of.insert(process, group);
            self.members.entry(group).or_default().insert(process);
        }
    }

    fn leave(&mut self, process: i32) {
        let Some(group) = self.of.remove(&process) else { return };
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&process);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
    }

    /// The members of a group, limited to the number for which a signal can be pending.
    fn members(&self, group: i32) -> Vec<i32> {
        let begun = Some(group).filter(|&group| self.of(group) == group);
        begun.into_iter().chain(self.members.get(&group).into_iter().flatten().copied()).take(MAX_PENDING).collect()
    }
}

impl Linux {
    /// Notes that the machine that acts on this CPU sends a signal to `tid`.
    pub(in crate::linux) fn signalled(&mut self, cpu: CpuId, t_ns: i64, tid: i32, signal: i64) {
        let Waker::Thread(by) = self.wake(cpu, t_ns).waker else { return };
        let room = self.signals.sent.len() < MAX_PENDING || self.signals.sent.contains_key(&tid);
        let sender = &self.threads[by.0 as usize];
        // A process that its own signal ends, also by one to its own group, ends by itself.
        let is_own = tid == sender.tid || Some(tid) == sender.process;
        if signal > 0 && !HARMLESS.contains(&signal) && !is_own && room {
            self.signals.sent.insert(tid, Sent { by, t_ns, signal });
        }
    }

    /// Notes that the CPU's thread sends a signal by a system call. A number of 0 or less means a
    /// process group if the call accepts one.
    pub(in crate::linux) fn sends_signal(&mut self, cpu: CpuId, t_ns: i64, target: SignalTarget, to: i64, signal: i64) {
        // The argument is an int; only the low 32 bits of the register belong to it.
        let to = to as i32;
        match (target, to) {
            (_, 1..) => self.signalled(cpu, t_ns, to, signal),
            // A signal to all processes reaches those that the sender has permission to signal,
            // which is not known here.
            (SignalTarget::ProcessOrGroup, -1) => {}
            (SignalTarget::ProcessOrGroup, _) => {
                let group = match (to, self.wake(cpu, t_ns).waker) {
                    (0, Waker::Thread(by)) => self.threads[by.0 as usize].process.map(|process| self.signals.groups.of(process)),
                    (0, _) => None,
                    _ => to.checked_neg(),
                };
                let members = group.map_or_else(Vec::new, |group| self.signals.groups.members(group));
                members.into_iter().for_each(|process| self.signalled(cpu, t_ns, process, signal));
            }
            (SignalTarget::Thread, _) => {}
        }
    }

    /// Notes that a process has created another one, which is in the same group.
    pub(in crate::linux) fn inherits_group(&mut self, maker: i32, process: i32) {
        if maker != process {
            let group = self.signals.groups.of(maker);
            self.signals.groups.join(process, group);
        }
    }

    /// Notes that `setpgid` of this process, or `setsid`, which takes no arguments, has succeeded.
    pub(in crate::linux) fn sets_group(&mut self, process: i32, arguments: Arguments) {
        let given = |number: Option<i64>| number.map(|number| number as i32).filter(|&number| number != 0);
        let member = given(arguments.about).unwrap_or(process);
        // If the trace does not contain the group, the process is assumed to be in its own.
        self.signals.groups.join(member, given(arguments.second).unwrap_or(member));
    }

    /// Notes that the thread made a system call: it has survived the signals sent to it.
    pub(in crate::linux) fn survives_signals(&mut self, id: ThreadId) {
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

    /// Notes that the thread ends, and reports it as killed if a signal is pending for it.
    pub(in crate::linux) fn thread_ends<W: Watch + ?Sized>(&mut self, id: ThreadId, watch: &mut W) {
        let thread = &self.threads[id.0 as usize];
        let (tid, process) = (thread.tid, thread.process.unwrap_or(thread.tid));
        let sent = self.signals.sent.get(&tid).or_else(|| self.signals.sent.get(&process)).copied();
        let calls_exit = thread.call.is_some_and(|call| ends_the_caller(self.names.text(call.name)));
        // Without recorded system calls, only SIGKILL is certain to be uncaught.
        let known = self.counts.system_calls.in_all > 0 && thread.mode != Mode::Unknown;
        if let Some(sent) = sent.filter(|sent| !calls_exit && (known || sent.signal == KILL)) {
            watch.moment(Moment::Killed { thread: id, by: sent.by, t_ns: sent.t_ns });
        }
        self.signals.sent.remove(&tid);
        if tid == process {
            self.signals.groups.leave(process);
        }
    }
}
