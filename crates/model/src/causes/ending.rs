//! The machine whose end is the end of the critical path, unless the user names another one.
//!
//! If a command was recorded and it ends within the trace, the path ends there. If it still runs at
//! the end of the trace, the path ends with a thread of the command that shows what the command
//! did: a thread that only waits for others would make the end of the path unknown.
//!
//! Without a command, the path ends with the thread that did something last. If all programs wait
//! from then on, the path ends at that moment, because what they wait for is not in the trace. But
//! if that wait is a large part of the trace, the wait itself is what the trace is about, so the
//! path ends with the trace.

use super::Composer;
use crate::interaction::Effect;
use crate::linux::watch::Base;
use longpole_trace::event::Catalogue;

/// Relation of a thread to the recorded command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Relation {
    #[default]
    Stranger,
    /// Started by the command, or by a process that the command started.
    Started,
    /// Belongs to the command's own process.
    Own,
}

/// The threads that did something last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// The last thread with probes.
    probed: Option<u32>,
    /// The last thread of all that belong neither to the kernel nor to the recorder.
    ran: Option<u32>,
}

/// What is known about the end of the path by now.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Threads of the command's own process.
    own: Last,
    /// Threads of processes that the command started.
    started: Last,
    /// All threads.
    of_all: Last,
    /// Time at which the first program ran.
    begin: Option<u64>,
    /// The command's main thread.
    main: Option<u32>,
    /// True if the main thread has ended.
    pub main_ended: bool,
    /// True if another thread of its process has done something since then.
    pub outlived: bool,
    /// True if [`Composer::finish`] has emitted the end.
    pub emitted: bool,
    /// True if events are still resolved to steps but yield no interactions.
    pub steps_only: bool,
    /// Time since which no program has run; the end was emitted at that time.
    resting_since: Option<u64>,
}

/// A thread that has waited for more than this part (1/20) of the trace, and still waits at the
/// end, shows too little of the trace.
const LONG_WAIT_PART: u64 = 20;
/// If all programs wait for at most this part (1/4) of the trace at its end, the path ends where
/// the wait begins.
const SHORT_WAIT_PART: u64 = 4;

impl Composer {
    /// True if the thread belongs to the command's own process, according to the kernel or its
    /// probes.
    fn is_own(&self, at: u32) -> bool {
        let Some(command) = self.about.command else { return false };
        let thread = &self.threads[at];
        let process = match (thread.linux, thread.actor) {
            (Some(id), _) => self.linux.threads[id.0 as usize].process,
            (None, Some(id)) => self.system.vocabulary.actors.get(id).and_then(|actor| actor.pid),
            (None, None) => None,
        };
        process == Some(command) || self.is_main(at)
    }

    /// True for the command's main thread.
    pub(super) fn is_main(&self, at: u32) -> bool {
        let Some(command) = self.about.command else { return false };
        let thread = &self.threads[at];
        match (thread.linux, thread.actor) {
            (Some(id), _) => self.linux.threads[id.0 as usize].tid == command,
            (None, Some(id)) => self.system.vocabulary.actors.get(id).is_some_and(|actor| actor.tid == Some(command)),
            (None, None) => false,
        }
    }

    /// The thread's relation to the recorded command, as known now.
    pub(super) fn relation(&self, at: u32) -> Relation {
        match self.is_own(at) {
            true => Relation::Own,
            false => self.threads[at].relation,
        }
    }

    /// Notes that a thread has reached a probe.
    #[inline]
    pub(super) fn note_probe(&mut self, at: u32) {
        self.ending.resting_since = None;
        if self.ending.of_all.probed == Some(at) {
            return;
        }
        self.ending.of_all.probed = Some(at);
        match self.relation(at) {
            Relation::Own => self.ending.own.probed = Some(at),
            Relation::Started => self.ending.started.probed = Some(at),
            Relation::Stranger => {}
        }
    }

    /// Notes that a thread of a program runs.
    #[inline]
    pub(super) fn note_run(&mut self, at: u32) {
        self.ending.resting_since = None;
        if self.ending.of_all.ran == Some(at) {
            return;
        }
        self.ending.of_all.ran = Some(at);
        self.ending.begin.get_or_insert(self.now);
        if self.about.command.is_none() {
            return;
        }
        match self.relation(at) {
            Relation::Own => self.ending.own.ran = Some(at),
            Relation::Started => self.ending.started.ran = Some(at),
            Relation::Stranger => {}
        }
        if self.is_main(at) {
            self.ending.main = Some(at);
        }
    }

    /// Notes that a thread enters a system call, which shows that it lives on. Leaving a call does
    /// not show that: the thread may have been in the call when another thread ended the whole
    /// process.
    #[inline]
    pub(super) fn note_call(&mut self, at: u32) {
        if self.ending.main_ended && !self.ending.outlived {
            let enters = self.threads[at].linux.is_some_and(|id| self.linux.threads[id.0 as usize].call.is_some());
            self.ending.outlived = enters && self.is_own(at);
        }
    }

    /// Emits the end of the command if this thread's end is it. The command ends with its main
    /// thread, or with the last thread of its process that did something after that.
    pub(super) fn note_end_of_thread(&mut self, catalogue: &Catalogue, at: u32) {
        if !self.is_own(at) {
            return;
        }
        let is_main = self.is_main(at);
        let first = is_main && !self.ending.main_ended;
        self.ending.main_ended |= is_main;
        if first || self.ending.outlived {
            let machine = self.machine(catalogue, at);
            self.emit(Effect::End { machine });
        }
    }

    /// True if the command has ended, and no thread of its process has done anything since.
    pub fn command_is_over(&self) -> bool {
        self.ending.main_ended && !self.ending.outlived
    }

    /// Processes the block of a thread, except in a sleep. If no program runs any more, this may
    /// have been the last work in the trace.
    pub(super) fn note_block(&mut self, catalogue: &Catalogue, at: u32) {
        let Last { probed, ran } = self.ending.of_all;
        if self.about.command.is_some() || probed.or(ran) != Some(at) || self.sleeps(at) {
            return;
        }
        if self.linux.cpus.iter().filter_map(|cpu| self.program_on(cpu.base)).all(|other| other == at) {
            let machine = self.machine(catalogue, at);
            self.emit(Effect::End { machine });
            self.ending.resting_since = Some(self.now);
        }
    }

    /// The thread on a CPU, if it belongs neither to the kernel nor to the recorder.
    fn program_on(&self, base: Base) -> Option<u32> {
        let Base::Thread(id) = base else { return None };
        let at = self.threads.of_linux(id)?;
        (!self.linux.threads[id.0 as usize].kernel && !self.threads[at].recorder).then_some(at)
    }

    /// Emits the end of the path after the last event, if that was not done before.
    pub(super) fn emit_end(&mut self) {
        let is_short = |since: u64| self.now - since <= self.length() / SHORT_WAIT_PART;
        if self.command_is_over() || self.ending.resting_since.is_some_and(is_short) {
            return;
        }
        let Ending { own, started, of_all, main, .. } = self.ending;
        let of_command = [own.probed, main, own.ran, started.probed, started.ran];
        let lives = |at: &u32| self.threads[*at].machine.is_some();
        let candidates = || of_command.into_iter().flatten().filter(lives);
        let last = candidates().find(|&at| !self.waits_long(at)).or_else(|| candidates().next());
        // If no thread of the command that outlived the main thread is alive, the last one was the
        // end.
        let on_cpu = self.linux.cpus.iter().filter_map(|cpu| self.program_on(cpu.base));
        let any =
            || [of_all.probed, of_all.ran].into_iter().flatten().chain(on_cpu.clone()).filter(|_| !self.ending.main_ended).filter(lives);
        let last = last.or_else(|| any().find(|&at| !self.waits_long(at))).or_else(|| any().next());
        if let Some(machine) = last.and_then(|at| self.threads[at].machine) {
            self.emit(Effect::End { machine });
        }
    }

    fn waits_long(&self, at: u32) -> bool {
        let thread = &self.threads[at];
        thread.blocked && self.now.saturating_sub(thread.blocked_since) > self.length() / LONG_WAIT_PART
    }

    /// Time in ns since the first program ran.
    fn length(&self) -> u64 {
        self.now - self.ending.begin.unwrap_or(self.now)
    }
}
