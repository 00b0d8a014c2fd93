//! Why a thread is blocked, and what is known of it beyond its state: files, allowed CPUs.

use super::Linux;
use crate::linux_watch::{Allowing, Cause, Mode, Reason, ThreadId, Watch, Why};
use std::sync::Arc;

/// Changes of one thread's mask that are kept.
const MOST_CHANGES: usize = 64;
/// More CPUs no list may name.
const MOST_CPUS: u32 = 1 << 16;

impl Linux {
    /// Of a thread that has just left its CPU.
    pub(super) fn cause(&self, id: ThreadId, state: Reason) -> Cause {
        let thread = &self.threads[id.0 as usize];
        let call = thread.call.filter(|_| thread.mode == Mode::Syscall);
        match (thread.mode, call) {
            _ if thread.kernel => Cause::Kernel,
            _ if thread.asked_disk && state == Reason::Uninterruptible => Cause::Disk(call.map(|call| call.name)),
            (Mode::Syscall, Some(call)) => {
                let kind = call.arguments.about.zip(thread.process).and_then(|(fd, process)| self.files.kind(process, fd));
                Cause::Call(call.name, kind.filter(|_| is_about_a_file(self.names.text(call.name))))
            }
            (Mode::User, _) if matches!(state, Reason::Interruptible | Reason::Uninterruptible) && !thread.exiting => Cause::Fault,
            _ => Cause::Unknown,
        }
    }

    /// What a reason is called: a call and the kind of file that it is about, or what stands for the whole of similar calls.
    pub fn reason(&self, why: Why) -> String {
        if why.state == Reason::Stopped {
            return "stopped".to_owned();
        }
        match why.cause {
            Cause::Call(name, Some(kind)) => format!("{}: {}", self.names.text(name), kind.name()),
            Cause::Call(name, None) => match self.names.text(name) {
                call @ ("nanosleep" | "clock_nanosleep") => format!("sleep: {call}"),
                call @ ("pause" | "rt_sigsuspend" | "rt_sigtimedwait") => format!("signal: {call}"),
                call @ ("wait4" | "waitid") => format!("child: {call}"),
                call => call.to_owned(),
            },
            Cause::Disk(Some(name)) => format!("disk: {}", self.names.text(name)),
            Cause::Disk(None) => "disk".to_owned(),
            Cause::Fault => "page fault".to_owned(),
            Cause::Kernel => "kernel thread".to_owned(),
            Cause::Unknown => match why.state {
                Reason::Uninterruptible => "unknown, uninterruptible".to_owned(),
                Reason::Parked => "parked".to_owned(),
                Reason::Interruptible | Reason::Stopped => "unknown".to_owned(),
            },
        }
    }

    /// `who` has set the mask of the thread `tid`, 0 being itself; which it is no event tells.
    pub(super) fn allowed<W: Watch + ?Sized>(&mut self, who: Option<ThreadId>, tid: Option<i64>, t_ns: i64, watch: &mut W) {
        let target = match tid.and_then(|tid| i32::try_from(tid).ok()) {
            Some(0) => who,
            Some(tid) => Some(self.thread(tid, &[], false)),
            None => None,
        };
        let Some(target) = target else { return };
        let thread = &mut self.threads[target.0 as usize];
        (thread.changed, thread.may) = (thread.changed + 1, None);
        if thread.allowings.len() >= MOST_CHANGES {
            return;
        }
        thread.allowings.push(Allowing { t_ns, cpus: None, gone: false, by: who });
        if self.covers(t_ns) {
            watch.allowed(target, t_ns);
        }
    }

    /// The mask of a thread was asked after a change. Those before the last one nobody knows any more.
    pub(super) fn asked(&mut self, tid: i32, list: &[u8]) {
        self.asks_masks = true;
        let Some(thread) = self.thread_of(tid) else { return };
        let thread = &mut self.threads[thread.0 as usize];
        let kept = thread.changed == thread.allowings.len() as u64;
        if thread.changed > 0 && thread.may.is_none() {
            thread.may = cpus(list);
        }
        if let Some(last) = thread.allowings.last_mut().filter(|last| kept && last.cpus.is_none()) {
            (last.cpus, last.gone) = (cpus(list), list.is_empty());
        }
    }
}

/// Whose first number is no process or other thing.
fn is_about_a_file(call: &str) -> bool {
    !matches!(
        call,
        "futex"
            | "futex_wait"
            | "futex_wake"
            | "futex_requeue"
            | "kill"
            | "tkill"
            | "tgkill"
            | "wait4"
            | "waitid"
            | "sched_setaffinity"
            | "sched_getaffinity"
            | "prlimit64"
    )
}

/// CPUs of a list as `0-3,5`. None: it is no such list, or empty.
pub(super) fn cpus(list: &[u8]) -> Option<Arc<[u32]>> {
    let mut found = Vec::new();
    for part in std::str::from_utf8(list).ok()?.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if to >= MOST_CPUS || from > to || found.len() > MOST_CPUS as usize {
            return None;
        }
        found.extend(from..=to);
    }
    Some(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_understood_or_refused() {
        assert_eq!(cpus(b"0-2,5").as_deref(), Some(&[0, 1, 2, 5][..]));
        for wrong in ["", "x", "3-1", "0-99999999", "1,"] {
            assert_eq!(cpus(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
