//! Whose end is the end of the path, where nobody asks for another one: the command's that was recorded, or of what belongs to it.
//!
//! A command that ends within the trace ends there. One that goes on, or a trace cut before, is asked for through whoever of it can say something: a thread that only
//! waits for the others would make the end of the path unknown.
//!
//! Without a command it is whoever did something last. Where all programs wait from then on, the path ends there, since what they wait for is not in the trace; but where
//! that is a large part of it, it is what the trace tells of.

use super::Composer;
use crate::interaction::Effect;
use crate::linux::watch::Base;
use longpole_trace::event::Catalogue;

/// Who is of the command that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kin {
    #[default]
    Stranger,
    /// Started by it, or by what it has started.
    Started,
    /// Of its own process.
    Own,
}

/// Who did something last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// With probes.
    probed: Option<u32>,
    /// Of all that are neither the kernel's own nor the recorder's.
    ran: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Ending {
    own: Last,
    started: Last,
    anybody: Last,
    begin: Option<u64>,
    main: Option<u32>,
    /// The main thread has ended.
    pub main_ended: bool,
    /// Another thread of its process has done something since.
    pub outlived: bool,
    pub over: bool,
    /// Since when no program has run; the end was told then.
    rests: Option<u64>,
}

/// A thread that has waited for more than this part of the trace, and still waits at its end, says too little of it.
const LONG: u64 = 20;
/// All programs may wait for this part of the trace at its end without that being what it tells of.
const SHORT: u64 = 4;

impl Composer {
    /// Of the command's own process, by what the kernel or its probes say.
    fn is_own(&self, at: u32) -> bool {
        let Some(command) = self.about.command else { return false };
        let thread = &self.threads[at as usize];
        let process = match (thread.linux, thread.actor) {
            (Some(id), _) => self.linux.threads[id.0 as usize].process,
            (None, Some(id)) => self.system.vocabulary.actors.get(id).and_then(|actor| actor.pid),
            (None, None) => None,
        };
        process == Some(command) || self.is_main(at)
    }

    /// The command's main thread.
    pub(super) fn is_main(&self, at: u32) -> bool {
        let Some(command) = self.about.command else { return false };
        let thread = &self.threads[at as usize];
        match (thread.linux, thread.actor) {
            (Some(id), _) => self.linux.threads[id.0 as usize].tid == command,
            (None, Some(id)) => self.system.vocabulary.actors.get(id).is_some_and(|actor| actor.tid == Some(command)),
            (None, None) => false,
        }
    }

    pub(super) fn kin(&self, at: u32) -> Kin {
        match self.is_own(at) {
            true => Kin::Own,
            false => self.threads[at as usize].kin,
        }
    }

    #[inline]
    pub(super) fn probed(&mut self, at: u32) {
        self.ending.rests = None;
        if self.ending.anybody.probed == Some(at) {
            return;
        }
        self.ending.anybody.probed = Some(at);
        match self.kin(at) {
            Kin::Own => self.ending.own.probed = Some(at),
            Kin::Started => self.ending.started.probed = Some(at),
            Kin::Stranger => {}
        }
    }

    /// A thread of a program runs.
    #[inline]
    pub(super) fn ran(&mut self, at: u32) {
        self.ending.rests = None;
        if self.ending.anybody.ran == Some(at) {
            return;
        }
        self.ending.anybody.ran = Some(at);
        self.ending.begin.get_or_insert(self.now);
        if self.about.command.is_none() {
            return;
        }
        match self.kin(at) {
            Kin::Own => self.ending.own.ran = Some(at),
            Kin::Started => self.ending.started.ran = Some(at),
            Kin::Stranger => {}
        }
        if self.is_main(at) {
            self.ending.main = Some(at);
        }
    }

    /// A thread enters a system call, which it does not in its end; it may leave one, if it was in it when another one ended them all.
    #[inline]
    pub(super) fn lives_on(&mut self, at: u32) {
        if self.ending.main_ended && !self.ending.outlived {
            let enters = self.threads[at as usize].linux.is_some_and(|id| self.linux.threads[id.0 as usize].call.is_some());
            self.ending.outlived = enters && self.is_own(at);
        }
    }

    /// The command ends with its main thread, or with the last one of its process that did something after that.
    pub(super) fn may_be_the_end(&mut self, catalogue: &Catalogue, at: u32) {
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

    /// The command has ended, and nobody of its process has done anything since.
    pub fn command_is_over(&self) -> bool {
        self.ending.main_ended && !self.ending.outlived
    }

    /// The thread blocks, but for a sleep. Where no program runs any more, this may have been the last that was done.
    pub(super) fn rests(&mut self, catalogue: &Catalogue, at: u32) {
        let Last { probed, ran } = self.ending.anybody;
        if self.about.command.is_some() || probed.or(ran) != Some(at) || self.sleeps(at) {
            return;
        }
        if self.linux.cpus.iter().filter_map(|cpu| self.program_on(cpu.base)).all(|other| other == at) {
            let machine = self.machine(catalogue, at);
            self.emit(Effect::End { machine });
            self.ending.rests = Some(self.now);
        }
    }

    /// Neither a thread of the kernel's own nor one of the recorder's.
    fn program_on(&self, base: Base) -> Option<u32> {
        let Base::Thread(id) = base else { return None };
        let at = self.of_linux.get(id.0 as usize).copied().flatten()?;
        (!self.linux.threads[id.0 as usize].kernel && !self.threads[at as usize].recorder).then_some(at)
    }

    /// After the last event.
    pub(super) fn end(&mut self) {
        let is_short = |since: u64| self.now - since <= self.length() / SHORT;
        if self.command_is_over() || self.ending.rests.is_some_and(is_short) {
            return;
        }
        let Ending { own, started, anybody, main, .. } = self.ending;
        let of_command = [own.probed, main, own.ran, started.probed, started.ran];
        let lives = |at: &u32| self.threads[*at as usize].machine.is_some();
        let candidates = || of_command.into_iter().flatten().filter(lives);
        let last = candidates().find(|&at| !self.waits_long(at)).or_else(|| candidates().next());
        // Nothing of the command lives that has outlived its main thread: the last of it was the end.
        let on_cpu = self.linux.cpus.iter().filter_map(|cpu| self.program_on(cpu.base));
        let any =
            || [anybody.probed, anybody.ran].into_iter().flatten().chain(on_cpu.clone()).filter(|_| !self.ending.main_ended).filter(lives);
        let last = last.or_else(|| any().find(|&at| !self.waits_long(at))).or_else(|| any().next());
        if let Some(machine) = last.and_then(|at| self.threads[at as usize].machine) {
            self.emit(Effect::End { machine });
        }
    }

    fn waits_long(&self, at: u32) -> bool {
        let thread = &self.threads[at as usize];
        thread.blocked && self.now.saturating_sub(thread.since) > self.length() / LONG
    }

    /// Since the first program ran.
    fn length(&self) -> u64 {
        self.now - self.ending.begin.unwrap_or(self.now)
    }
}
