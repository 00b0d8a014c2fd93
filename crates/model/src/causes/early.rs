//! Steps whose timestamp is slightly too early.
//!
//! A CPU reads the clock for a probe while earlier loads are still in progress, and the clocks of
//! two CPUs differ slightly. A get may thus have an earlier timestamp than the put of the item it
//! takes, and a put an earlier one than the get that made room for it. If the steps were emitted in
//! this order, the item would seem to have been put before the trace began, and its put would leave
//! an item in the queue forever. Therefore the steps of such a thread wait for those of the other
//! one, for at most [`SOON_NS`]; then they are emitted as they are.

use super::thread_table::KernelState;
use super::Composer;
use crate::actors::ActorId;
use crate::linux::watch::Base;
use crate::step::{Op, Step, SOON_NS};
use longpole_trace::event::Catalogue;

/// Limits, because a malicious trace may have any number of events at one time.
const MAX_STEPS: usize = 1 << 10;
const MAX_THREADS: usize = 1 << 6;

/// The held-back steps of a thread, beginning with one that is too early.
#[derive(Debug)]
struct HeldSteps {
    actor: ActorId,
    until_ns: i64,
    steps: Vec<Step>,
}

/// All held-back steps, those of the earliest thread first.
#[derive(Debug, Default)]
pub(super) struct Early(Vec<HeldSteps>);

impl Composer {
    /// Processes the next step of probes, in the order of time.
    #[inline]
    pub(super) fn probe(&mut self, catalogue: &Catalogue, step: Step) {
        self.apply_or_hold(catalogue, step);
        while let Some(place) = self.early.0.iter().position(|held| !self.is_early(&held.steps[0])) {
            self.release(catalogue, place);
        }
    }

    /// Releases the steps that have waited long enough when the time is `t_ns`.
    #[inline]
    pub(super) fn release_due(&mut self, catalogue: &Catalogue, t_ns: i64) {
        while self.early.0.first().is_some_and(|held| held.until_ns < t_ns) {
            self.release(catalogue, 0);
        }
    }

    /// Releases the steps of the thread on this CPU before a kernel event of the CPU is processed:
    /// the thread did them before that event.
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
        let thread = self.threads.of_actor(actor).map(|at| &self.threads[at]);
        let cpu = cpu.and_then(|number| self.linux.cpu_of_number(number)).map(|cpu| &self.linux.cpus[cpu.0 as usize]);
        match thread.map(|thread| (thread.kernel, thread.linux)) {
            Some((KernelState::Silent, _)) => true,
            Some((KernelState::Runs, Some(id))) => cpu.is_some_and(|cpu| cpu.base != Base::Thread(id)),
            _ => false,
        }
    }

    fn apply_or_hold(&mut self, catalogue: &Catalogue, step: Step) {
        if let Some(place) = self.early.0.iter().position(|held| held.actor == step.actor) {
            self.early.0[place].steps.push(step);
            if self.early.0[place].steps.len() == MAX_STEPS {
                self.release(catalogue, place);
            }
        } else if self.early.0.len() < MAX_THREADS && self.is_early(&step) {
            let until_ns = step.t_ns.saturating_add(SOON_NS);
            self.early.0.push(HeldSteps { actor: step.actor, until_ns, steps: vec![step] });
        } else {
            self.apply(catalogue, step);
        }
    }

    /// Emits the thread's first step, even if it is still too early, and then the following ones as
    /// far as they are not too early.
    fn release(&mut self, catalogue: &Catalogue, place: usize) {
        let mut steps = self.early.0.remove(place).steps.into_iter();
        if let Some(first) = steps.next() {
            self.apply(catalogue, first);
        }
        for step in steps {
            self.apply_or_hold(catalogue, step);
        }
    }

    fn apply(&mut self, catalogue: &Catalogue, step: Step) {
        self.advance_to(step.t_ns);
        self.apply_step(catalogue, &step);
    }

    /// True if the step takes an item that was not put yet, or puts an item for which no room was
    /// made yet, although another thread may do that in a moment.
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
