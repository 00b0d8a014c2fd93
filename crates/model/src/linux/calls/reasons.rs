//! Reasons of blocks: the system call of the thread, with the kind of the file that the call is
//! about.

use crate::linux::watch::{BlockCause, BlockReason, Mode, TaskState, ThreadId};
use crate::linux::Linux;
use crate::system_calls::{may_be_about_a_file, CallFamily};

impl Linux {
    /// What a thread that has just left its CPU blocks for.
    pub(in crate::linux) fn determine_block_cause(&self, id: ThreadId, state: TaskState) -> BlockCause {
        let thread = &self.threads[id.0 as usize];
        let call = thread.call.filter(|_| thread.mode == Mode::Syscall);
        match (thread.mode, call) {
            _ if thread.kernel => BlockCause::Kernel,
            _ if thread.requested_disk && state == TaskState::Uninterruptible => BlockCause::Disk(call.map(|call| call.name)),
            (Mode::Syscall, Some(call)) => {
                let kind = call.arguments.about.zip(thread.process).and_then(|(fd, process)| self.files.kind(process, fd));
                BlockCause::Call(call.name, kind.filter(|_| may_be_about_a_file(self.names.text(call.name))))
            }
            (Mode::User, _) if matches!(state, TaskState::Interruptible | TaskState::Uninterruptible) && !thread.exiting => {
                BlockCause::Fault
            }
            _ => BlockCause::Unknown,
        }
    }

    /// The text for a reason: a call with the kind of file that it is about, or with the name of a
    /// family of similar calls.
    pub fn reason_text(&self, why: BlockReason) -> String {
        if why.state == TaskState::Stopped {
            return "stopped".to_owned();
        }
        match why.cause {
            BlockCause::Call(name, Some(kind)) => format!("{}: {}", self.names.text(name), kind.name()),
            BlockCause::Call(name, None) => {
                let call = self.names.text(name);
                match CallFamily::of(call) {
                    CallFamily::Sleep => format!("sleep: {call}"),
                    CallFamily::WaitForSignal => format!("signal: {call}"),
                    CallFamily::WaitForChild => format!("child: {call}"),
                    _ => call.to_owned(),
                }
            }
            BlockCause::Disk(Some(name)) => format!("disk: {}", self.names.text(name)),
            BlockCause::Disk(None) => "disk".to_owned(),
            BlockCause::Fault => "page fault".to_owned(),
            BlockCause::Kernel => "kernel thread".to_owned(),
            BlockCause::Unknown => match why.state {
                TaskState::Uninterruptible => "unknown, uninterruptible".to_owned(),
                TaskState::Parked => "parked".to_owned(),
                TaskState::Interruptible | TaskState::Stopped => "unknown".to_owned(),
            },
        }
    }
}
