//! System calls: what their begin and their end show about a thread and its process.
//! Each file below follows one such property: open files, allowed CPUs, signals, the pid namespace,
//! the reason of a block.

pub(super) mod files;
pub(super) mod masks;
pub(super) mod pid_namespace;
mod reasons;
pub(super) mod signals;

use super::state::OpenCall;
use super::watch::{Base, CpuId, FinishedCall, Mode, Moment, ThreadId, Watch};
use super::{Arguments, Linux};
use crate::names::NameId;
use crate::system_calls::signal_target;

impl Linux {
    /// A system call begins.
    pub(super) fn call_begins<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, name: NameId, arguments: Arguments, watch: &mut W) {
        self.in_thread(cpu, t_ns, watch);
        self.counts.system_calls.add(self.covers(t_ns));
        let call = (Mode::Syscall, Some(OpenCall { name, t_ns: Some(t_ns), arguments }));
        let thread = self.set_mode(cpu, call);
        if let Some(thread) = thread {
            self.survives_signals(thread);
            watch.moment(Moment::Mode { thread });
            if !self.masks.open.is_empty() {
                self.end_mask_call(thread, false, t_ns, watch);
            }
        }
        if name == self.call_names.sched_setaffinity {
            self.begins_mask_call(thread, arguments.about);
        }
        if let (Some(target), Some(to), Some(signal)) = (signal_target(self.names.text(name)), arguments.about, arguments.second) {
            self.sends_signal(cpu, t_ns, target, to, signal);
        }
        if self.covers(t_ns) {
            watch.entered(thread, name, t_ns);
        }
    }

    /// A system call ends.
    pub(super) fn call_ends<W: Watch + ?Sized>(&mut self, cpu: CpuId, t_ns: i64, name: NameId, result: Option<i64>, watch: &mut W) {
        self.in_thread(cpu, t_ns, watch);
        self.counts.system_calls.add(self.covers(t_ns));
        let entered = match self.cpus[cpu.0 as usize].base {
            Base::Thread(thread) => self.threads[thread.0 as usize].call,
            _ => self.cpus[cpu.0 as usize].unclaimed.mode.and_then(|(_, call)| call),
        };
        let entered = entered.filter(|call| call.name == name || self.names.text(name) == "unknown");
        let thread = self.set_mode(cpu, (Mode::User, None));
        if let Some(thread) = thread {
            watch.moment(Moment::Mode { thread });
            if !self.masks.open.is_empty() {
                self.end_mask_call(thread, entered.is_some(), t_ns, watch);
            }
        }
        if let Some((call, result)) = entered.zip(result) {
            self.after_call(thread, &call, result, t_ns, watch);
        }
        if self.covers(t_ns) {
            let arguments = entered.map(|call| call.arguments).unwrap_or_default();
            let (name, begin_ns) = entered.map_or((name, None), |call| (call.name, call.t_ns));
            watch.returned(&FinishedCall { thread, name, begin_ns, end_ns: t_ns, result, arguments });
        }
    }

    /// Updates what is known about the thread and its process after a call has returned.
    fn after_call<W: Watch + ?Sized>(&mut self, thread: Option<ThreadId>, call: &OpenCall, result: i64, t_ns: i64, watch: &mut W) {
        let process = thread.and_then(|thread| self.threads[thread.0 as usize].process);
        if let Some(process) = process {
            self.files.returned(process, call.name, &self.names, call.arguments, result);
        }
        if let Some(process) = process.filter(|_| result >= 0 && self.call_names.group_calls.contains(&call.name)) {
            self.sets_group(process, call.arguments);
        }
        if result >= 0 && call.name == self.call_names.sched_setaffinity {
            self.mask_set_by_call(thread, call.arguments.about, t_ns, watch);
        }
        if let (Some(thread), true) = (thread, result >= 0) {
            self.note_namespace_call(thread, call);
        }
    }
}
