//! Timers by which the kernel acts for others, for example the pacing by which the network stack
//! sends what a program has written.
//!
//! The cause of what is done when such a timer expires is the thread that set it. The time until
//! then is a link that is named after the purpose of the timer.
//!
//! One TCP function either sends again or probes a closed window. Which of the two it did is known
//! only from a later event, so interactions are held back until then.

use super::Composer;
use crate::hash::IdMap;
use crate::interaction::{Cause, Effect, Interaction, MachineId};
use crate::kinds::LinkKind;
use crate::linux::watch::{ContextId, CpuId, TimerKind, Waker};
use crate::names::NameId;
use longpole_trace::event::Catalogue;

/// Maximum number of set timers. The setters of further ones are not recorded.
const MAX_SET: usize = 1 << 16;
/// Maximum number of interactions that are held back.
pub(super) const MAX_HELD: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct TimerSetters {
    /// Set timers, by the address of the timer.
    set: IdMap<u64, TimerSetter>,
    pub undecided: Option<Undecided>,
    /// Links of threads' own timers, by the call in which they wait.
    pub of_calls: Vec<(NameId, LinkKind, NameId)>,
}

/// The machine that set a timer, and when.
#[derive(Clone, Copy, Debug)]
struct TimerSetter {
    by: MachineId,
    t: u64,
}

/// The same for an expired timer, and the name of the time until it expired.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerCause {
    pub by: MachineId,
    pub t: u64,
    pub link: NameId,
}

/// A timer that has expired in this context and whose purpose depends on the next events there.
#[derive(Debug)]
pub(super) struct Undecided {
    cpu: CpuId,
    id: ContextId,
    pub held: Vec<Interaction>,
}

impl Composer {
    pub(super) fn timer_is_set(&mut self, catalogue: &Catalogue, cpu: CpuId, timer: u64, by: Waker) {
        let by = self.machine_with_cause(catalogue, cpu, by);
        let Some(by) = by.filter(|_| self.timers.set.len() < MAX_SET || self.timers.set.contains_key(&timer)) else {
            self.timers.set.remove(&timer);
            return;
        };
        // The machine is the cause of what happens when the timer expires, perhaps much later.
        self.emit(Effect::Remember { machine: by });
        self.timers.set.insert(timer, TimerSetter { by, t: self.now });
    }

    pub(super) fn timer_goes_off(&mut self, cpu: CpuId, timer: u64, by: Waker, kind: TimerKind) {
        self.no_retransmission(cpu);
        let set = self.timers.set.remove(&timer);
        // The refill of a quota is no wake-up of the throttled thread; see `Kernel::Throttled`.
        if kind == TimerKind::QuotaRefill {
            return;
        }
        let link = self.link_of(kind);
        if let Waker::Context { id, .. } = by {
            let due = set.map(|TimerSetter { by, t }| TimerCause { by, t, link });
            if kind == TimerKind::Transmission && due.is_some() && self.is_open(cpu, id) {
                self.stays_undecided();
                self.timers.undecided = Some(Undecided { cpu, id, held: Vec::new() });
            }
            self.act_for_timer(cpu, id, due);
        }
    }

    fn link_of(&self, kind: TimerKind) -> NameId {
        match kind {
            TimerKind::Unknown | TimerKind::Own => self.words.links[LinkKind::Timer],
            TimerKind::DelayedAck => self.words.links[LinkKind::DelayedAck],
            TimerKind::Transmission => self.words.links[LinkKind::Transmission],
            TimerKind::Retransmission => self.words.links[LinkKind::Retransmission],
            TimerKind::Keepalive => self.words.links[LinkKind::Keepalive],
            TimerKind::Pacing => self.words.links[LinkKind::Pacing],
            TimerKind::RateLimit => self.words.links[LinkKind::RateLimit],
            TimerKind::QuotaRefill => self.words.links[LinkKind::QuotaRefill],
            TimerKind::IoQuota => self.words.links[LinkKind::IoQuota],
            TimerKind::DelayedWork => self.words.links[LinkKind::DelayedWork],
            TimerKind::Kernel => self.words.links[LinkKind::KernelTimer],
        }
    }

    pub(super) fn retransmitted(&mut self, cpu: CpuId) {
        if self.timers.undecided.as_ref().is_some_and(|undecided| undecided.cpu == cpu) {
            self.decide(self.words.links[LinkKind::Retransmission]);
        }
    }

    /// Decides that the expired timer on this CPU was a window probe, because its function ended
    /// without a retransmission.
    fn no_retransmission(&mut self, cpu: CpuId) {
        if self.timers.undecided.as_ref().is_some_and(|undecided| undecided.cpu == cpu) {
            self.decide(self.words.links[LinkKind::WindowProbe]);
        }
    }

    /// Decides about the expired timer on this CPU if its context is no longer open.
    #[inline]
    pub(super) fn undecided_timer_ends(&mut self, cpu: CpuId) {
        if let Some(&Undecided { cpu: of, id, .. }) = self.timers.undecided.as_ref() {
            if of == cpu && !self.is_open(cpu, id) {
                self.no_retransmission(cpu);
            }
        }
    }

    /// Gives up the decision, because no event will show the purpose of the timer.
    pub(super) fn stays_undecided(&mut self) {
        if self.timers.undecided.is_some() {
            self.decide(self.words.links[LinkKind::Transmission]);
        }
    }

    /// Sets the link of the undecided timer, and releases the interactions that were held back with
    /// the correct link.
    fn decide(&mut self, link: NameId) {
        let Some(Undecided { mut held, .. }) = self.timers.undecided.take() else { return };
        for interaction in &mut held {
            if let Effect::Wake { cause: Some(Cause { link: named, .. }), .. } = &mut interaction.effect {
                if *named == Some(self.words.links[LinkKind::Transmission]) {
                    *named = Some(link);
                }
            }
        }
        self.ahead.interactions.append(&mut held);
        let open = self.words.links[LinkKind::Transmission];
        self.contexts_decided(open, link);
    }

    /// Forgets all set timers because events are missing: it is unknown which machine set a timer
    /// in the meantime.
    pub(super) fn forget_timers(&mut self) {
        self.timers.set.clear();
    }
}
