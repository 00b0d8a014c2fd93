//! Who has ended a thread that was at work: a signal that nobody catches ends it, whatever it does, and is the cause of its end.
//!
//! The signal is told when it is sent (`signal_generate`, or the call `kill`); that it has killed is known when the thread exits without having asked for it. Whoever
//! enters a system call after it has outlived it. A signal to a group of processes is one to each of its members ([`Groups`]).

use super::files::Arguments;
use super::Linux;
use crate::linux::watch::{CpuId, Mode, Moment, ThreadId, Waker, Watch};
use std::collections::{BTreeSet, HashMap};

/// Threads and processes that a signal is under way to.
const MOST: usize = 1 << 12;
/// Processes whose group is remembered.
const MOST_MEMBERS: usize = 1 << 16;
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
    groups: Groups,
}

/// Groups of processes, by the number of the process that began them. Who has come into the trace with another is taken for the beginner of its own: then a signal to
/// the other one is not known to have reached it.
#[derive(Debug, Default)]
struct Groups {
    /// Of processes that are not in their own.
    of: HashMap<i32, i32>,
    members: HashMap<i32, BTreeSet<i32>>,
}

impl Groups {
    fn of(&self, process: i32) -> i32 {
        self.of.get(&process).copied().unwrap_or(process)
    }

    fn join(&mut self, process: i32, group: i32) {
        self.leave(process);
        if process != group && self.of.len() < MOST_MEMBERS {
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

    /// As many of them as a signal can be under way to.
    fn members(&self, group: i32) -> Vec<i32> {
        let begun = Some(group).filter(|&group| self.of(group) == group);
        begun.into_iter().chain(self.members.get(&group).into_iter().flatten().copied()).take(MOST).collect()
    }
}

impl Linux {
    /// What happens on this CPU sends a signal to `tid`.
    pub(super) fn signalled(&mut self, cpu: CpuId, t_ns: i64, tid: i32, signal: i64) {
        let Waker::Thread(by) = self.wake(cpu, t_ns).waker else { return };
        let room = self.signals.sent.len() < MOST || self.signals.sent.contains_key(&tid);
        let sender = &self.threads[by.0 as usize];
        // Who sends it to its own group ends by itself.
        let is_own = tid == sender.tid || Some(tid) == sender.process;
        if signal > 0 && !HARMLESS.contains(&signal) && !is_own && room {
            self.signals.sent.insert(tid, Sent { by, t_ns, signal });
        }
    }

    /// The CPU's thread asks for a signal: by `kill`, which takes groups, too, or by a call that takes threads only.
    pub(super) fn asks_signal(&mut self, cpu: CpuId, t_ns: i64, takes_groups: bool, to: i64, signal: i64) {
        // It is an int: of a register only so many bits are its own.
        let to = to as i32;
        match (takes_groups, to) {
            (_, 1..) => self.signalled(cpu, t_ns, to, signal),
            // To all that there are: whom that reaches is a matter of rights.
            (true, -1) => {}
            (true, _) => {
                let group = match (to, self.wake(cpu, t_ns).waker) {
                    (0, Waker::Thread(by)) => self.threads[by.0 as usize].process.map(|process| self.signals.groups.of(process)),
                    (0, _) => None,
                    _ => to.checked_neg(),
                };
                let members = group.map_or_else(Vec::new, |group| self.signals.groups.members(group));
                members.into_iter().for_each(|process| self.signalled(cpu, t_ns, process, signal));
            }
            (false, _) => {}
        }
    }

    /// A process has made another one, which is in the same group.
    pub(super) fn born_in_group(&mut self, maker: i32, process: i32) {
        if maker != process {
            let group = self.signals.groups.of(maker);
            self.signals.groups.join(process, group);
        }
    }

    /// `setpgid` of this process has succeeded, or `setsid`, which takes no arguments.
    pub(super) fn sets_group(&mut self, process: i32, arguments: Arguments) {
        let given = |number: Option<i64>| number.map(|number| number as i32).filter(|&number| number != 0);
        let who = given(arguments.about).unwrap_or(process);
        // Where the trace does not tell which, it is taken for its own.
        self.signals.groups.join(who, given(arguments.second).unwrap_or(who));
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
        if tid == process {
            self.signals.groups.leave(process);
        }
    }
}
