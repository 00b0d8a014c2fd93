//! Page faults of programs.
//!
//! The kernel has an event for the begin of a fault and none for its end. A fault therefore lasts
//! for the minimum duration that the recorder measured, or until its thread does something else.
//! Any longer duration counts as the program's own time.

use super::thread_table::KernelState;
use super::Composer;
use crate::interaction::Effect;
use crate::linux::watch::ThreadId;
use longpole_trace::event::Catalogue;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Threads in faults, with the earliest end of each fault in ns. There is at most one per CPU,
    /// apart from threads that were preempted in a fault.
    open: VecDeque<(u64, u32)>,
}

impl Faults {
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.open.front().map(|&(due, _)| due)
    }
}

impl Composer {
    pub(super) fn faulted(&mut self, catalogue: &Catalogue, id: ThreadId) {
        let Some(least) = self.about.page_fault_ns else { return };
        let at = self.thread_of_linux(id);
        // The fault is only shown where the thread's code runs and nothing more specific is known
        // about it.
        if self.threads[at].kernel != KernelState::Runs {
            return;
        }
        if self.threads[at].state == Some(self.words.page_fault) {
            self.threads[at].state = None;
        }
        self.emit_state(catalogue, at);
        let thread = &self.threads[at];
        let (Some(machine), true) = (thread.machine, thread.state == Some(self.words.user) || thread.state == Some(self.words.run)) else {
            return;
        };
        let state = self.words.page_fault;
        self.emit(Effect::State { machine, state });
        self.threads[at].state = Some(state);
        self.faults.open.push_back((self.now.saturating_add(least), at));
    }

    /// Ends the faults that are over at `t`. All have the same duration, so they end in the order
    /// in which they began.
    #[cold]
    pub(super) fn faults_end(&mut self, t: u64) {
        while let Some(&(due, at)) = self.faults.open.front().filter(|&&(due, _)| due <= t) {
            self.faults.open.pop_front();
            let again = self.faults.open.iter().any(|&(_, other)| other == at);
            let thread = &mut self.threads[at];
            let (Some(machine), true, false) = (thread.machine, thread.state == Some(self.words.page_fault), again) else { continue };
            self.now = self.now.max(due);
            thread.state = None;
            let state = self.running_state(at);
            self.threads[at].state = Some(state);
            self.emit(Effect::State { machine, state });
        }
    }
}
