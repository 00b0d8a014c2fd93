//! Steps that come a moment too early.
//!
//! A processor reads the clock for a probe while it still waits for what the code before it loads, and the clocks of two processors differ by a little. So
//! who takes what another has just put may be stamped before that put, and who puts where another has just made room before that get. Told in this
//! order, what was taken would seem to have been put before the trace began, and would lie in the queue for ever once its put comes. So such a thread's steps
//! wait for the other's, for [`SOON_NS`] at most; then they are told as they are.

use super::threads::Kernel;
use super::Composer;
use crate::linux::watch::Base;
use crate::step::{Op, Step, SOON_NS};
use crate::system::actors::ActorId;
use longpole_trace::event::Catalogue;

/// A hostile trace may have any number of events at one time.
const MOST_STEPS: usize = 1 << 10;
const MOST_THREADS: usize = 1 << 6;

/// The steps of a thread from one on that is too early.
#[derive(Debug)]
struct Held {
    actor: ActorId,
    until_ns: i64,
    steps: Vec<Step>,
}

/// Whose steps wait, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<Held>);

impl Composer {
    /// The next step of probes in the order of time.
    #[inline]
    pub(super) fn probe(&mut self, catalogue: &Catalogue, step: Step) {
        self.tell_or_hold(catalogue, step);
        while let Some(place) = self.early.0.iter().position(|held| !self.is_early(&held.steps[0])) {
            self.release(catalogue, place);
        }
    }

    /// Time has come to this.
    #[inline]
    pub(super) fn release_due(&mut self, catalogue: &Catalogue, t_ns: i64) {
        while self.early.0.first().is_some_and(|held| held.until_ns < t_ns) {
            self.release(catalogue, 0);
        }
    }

    /// The kernel tells of this CPU: what its thread did comes before that.
    #[inline]
    pub(super) fn release_on(&mut self, catalogue: &Catalogue, cpu: Option<u32>) {
        while let Some(place) = self.early.0.iter().position(|held| !self.runs_elsewhere(held.actor, cpu)) {
            self.release(catalogue, place);
        }
    }

    pub(super) fn release_all(&mut self, catalogue: &Catalogue) {
        while !self.early.0.is_empty() {
            self.release(catalogue, 0);
        }
    }

    fn runs_elsewhere(&self, actor: ActorId, cpu: Option<u32>) -> bool {
        let thread = self.of_actor.get(actor.0 as usize).copied().flatten().map(|at| &self.threads[at as usize]);
        let cpu = cpu.and_then(|number| self.linux.cpu_of_number(number)).map(|cpu| &self.linux.cpus[cpu.0 as usize]);
        match thread.map(|thread| (thread.kernel, thread.linux)) {
            Some((Kernel::Silent, _)) => true,
            Some((Kernel::Runs, Some(id))) => cpu.is_some_and(|cpu| cpu.base != Base::Thread(id)),
            _ => false,
        }
    }

    fn tell_or_hold(&mut self, catalogue: &Catalogue, step: Step) {
        if let Some(place) = self.early.0.iter().position(|held| held.actor == step.actor) {
            self.early.0[place].steps.push(step);
            if self.early.0[place].steps.len() == MOST_STEPS {
                self.release(catalogue, place);
            }
        } else if self.early.0.len() < MOST_THREADS && self.is_early(&step) {
            let until_ns = step.t_ns.saturating_add(SOON_NS);
            self.early.0.push(Held { actor: step.actor, until_ns, steps: vec![step] });
        } else {
            self.tell(catalogue, step);
        }
    }

    /// Tells what the thread did from its first step on, whether that one is still too early or not.
    fn release(&mut self, catalogue: &Catalogue, place: usize) {
        let mut steps = self.early.0.remove(place).steps.into_iter();
        if let Some(first) = steps.next() {
            self.tell(catalogue, first);
        }
        for step in steps {
            self.tell_or_hold(catalogue, step);
        }
    }

    fn tell(&mut self, catalogue: &Catalogue, step: Step) {
        self.at(step.t_ns);
        self.told_step(catalogue, &step);
    }

    /// It takes what nobody has put yet, or puts where nobody has made room yet, and somebody may have.
    fn is_early(&self, step: &Step) -> bool {
        match step.op {
            Op::Get { queue, count } | Op::Peek { queue, count } | Op::Size { queue, count } => {
                self.level_of(queue).is_some_and(|level| level.was_put() && level.units < count)
            }
            Op::Put { queue, count } => self.level_of(queue).is_some_and(|level| level.was_taken() && level.above(count) > 0),
            _ => false,
        }
    }
}
