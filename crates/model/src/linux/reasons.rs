//! Reasons of blocks: the system call of the thread, with the kind of the file that the call is
//! about.

use super::Linux;
use crate::linux::watch::{Cause, Mode, Reason, ThreadId, Why};
use crate::system_calls::{may_be_about_a_file, CallFamily};

impl Linux {
    /// The reason of the block of a thread that has just left its CPU.
    pub(super) fn cause(&self, id: ThreadId, state: Reason) -> Cause {
        let thread = &self.threads[id.0 as usize];
        let call = thread.call.filter(|_| thread.mode == Mode::Syscall);
        match (thread.mode, call) {
            _ if thread.kernel => Cause::Kernel,
            _ if thread.asked_disk && state == Reason::Uninterruptible => Cause::Disk(call.map(|call| call.name)),
            (Mode::Syscall, Some(call)) => {
                let kind = call.arguments.about.zip(thread.process).and_then(|(fd, process)| self.files.kind(process, fd));
                Cause::Call(call.name, kind.filter(|_| may_be_about_a_file(self.names.text(call.name))))
            }
            (Mode::User, _) if matches!(state, Reason::Interruptible | Reason::Uninterruptible) && !thread.exiting => Cause::Fault,
            _ => Cause::Unknown,
        }
    }

    /// The name of a reason: a call with the kind of file that it is about, or with the name of a
    /// family of similar calls.
    pub fn reason(&self, why: Why) -> String {
        if why.state == Reason::Stopped {
            return "stopped".to_owned();
        }
        match why.cause {
            Cause::Call(name, Some(kind)) => format!("{}: {}", self.names.text(name), kind.name()),
            Cause::Call(name, None) => {
                let call = self.names.text(name);
                match CallFamily::of(call) {
                    CallFamily::Sleep => format!("sleep: {call}"),
                    CallFamily::WaitForSignal => format!("signal: {call}"),
                    CallFamily::WaitForChild => format!("child: {call}"),
                    _ => call.to_owned(),
                }
            }
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
}
