//! Timers by which the kernel does something for others: its network stack sends what a program has written, at the pace that it keeps. What is done when one
//! goes off leads back to who set it, and the time until then is a link that is named after what the timer is for.
//!
//! One function of TCP sends again or probes a closed window. Which it was is told after it was done, so what happens meanwhile is held back.

use super::Composer;
use crate::hash::IdMap;
use crate::interaction::{Cause, Effect, Interaction, MachineId};
use crate::linux::watch::{ContextId, CpuId, TimerKind, Waker};
use crate::names::NameId;
use longpole_trace::event::Catalogue;

/// Timers that are set; of more nobody knows who set them.
const MOST_SET: usize = 1 << 16;
/// Interactions that are held back at most.
pub(super) const MOST_HELD: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// By the address of the timer.
    set: IdMap<u64, Set>,
    pub undecided: Option<Undecided>,
    /// Links of threads' own timers, by the call in which they wait.
    pub of_calls: Vec<(NameId, NameId)>,
}

/// By whom a timer was set, and when.
#[derive(Clone, Copy, Debug)]
struct Set {
    by: MachineId,
    t: u64,
}

/// The same of one that has gone off, and what the time until then is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub by: MachineId,
    pub t: u64,
    pub link: NameId,
}

/// A timer has gone off in this context, and what for is told by what comes next there.
#[derive(Debug)]
pub(super) struct Undecided {
    cpu: CpuId,
    id: ContextId,
    pub held: Vec<Interaction>,
}

impl Composer {
    pub(super) fn timer_is_set(&mut self, catalogue: &Catalogue, cpu: CpuId, timer: u64, by: Waker) {
        let by = self.actor(catalogue, cpu, by);
        let Some(by) = by.filter(|_| self.timers.set.len() < MOST_SET || self.timers.set.contains_key(&timer)) else {
            self.timers.set.remove(&timer);
            return;
        };
        // It turns out to be the cause only when the timer goes off.
        self.emit(Effect::Here { machine: by });
        self.timers.set.insert(timer, Set { by, t: self.now });
    }

    pub(super) fn timer_goes_off(&mut self, cpu: CpuId, timer: u64, by: Waker, kind: TimerKind) {
        self.no_retransmission(cpu);
        let set = self.timers.set.remove(&timer);
        // Whoever has used up its quota is let on by no wake-up; see `Kernel::Throttled`.
        if kind == TimerKind::QuotaRefill {
            return;
        }
        let link = self.link_of(kind);
        if let Waker::Context { id, .. } = by {
            let due = set.map(|Set { by, t }| Due { by, t, link });
            if kind == TimerKind::Transmission && due.is_some() && self.is_open(cpu, id) {
                self.stays_undecided();
                self.timers.undecided = Some(Undecided { cpu, id, held: Vec::new() });
            }
            self.acts_for(cpu, id, due);
        }
    }

    fn link_of(&self, kind: TimerKind) -> NameId {
        match kind {
            TimerKind::Unknown | TimerKind::Own => self.words.links.timer,
            TimerKind::DelayedAck => self.words.links.delayed_ack,
            TimerKind::Transmission => self.words.links.transmission,
            TimerKind::Retransmission => self.words.links.retransmission,
            TimerKind::Keepalive => self.words.links.keepalive,
            TimerKind::Pacing => self.words.links.pacing,
            TimerKind::RateLimit => self.words.links.rate_limit,
            TimerKind::QuotaRefill => self.words.links.quota_refill,
            TimerKind::IoQuota => self.words.links.io_quota,
            TimerKind::DelayedWork => self.words.links.delayed_work,
            TimerKind::Kernel => self.words.links.kernel_timer,
        }
    }

    pub(super) fn retransmitted(&mut self, cpu: CpuId) {
        if self.timers.undecided.as_ref().is_some_and(|undecided| undecided.cpu == cpu) {
            self.decide(self.words.links.retransmission);
        }
    }

    /// The timer that has gone off on this CPU is over.
    fn no_retransmission(&mut self, cpu: CpuId) {
        if self.timers.undecided.as_ref().is_some_and(|undecided| undecided.cpu == cpu) {
            self.decide(self.words.links.window_probe);
        }
    }

    /// Its context may be over.
    #[inline]
    pub(super) fn undecided_timer_ends(&mut self, cpu: CpuId) {
        if let Some(&Undecided { cpu: of, id, .. }) = self.timers.undecided.as_ref() {
            if of == cpu && !self.is_open(cpu, id) {
                self.no_retransmission(cpu);
            }
        }
    }

    /// Nothing will tell what for a timer has gone off.
    pub(super) fn stays_undecided(&mut self) {
        if self.timers.undecided.is_some() {
            self.decide(self.words.links.transmission);
        }
    }

    /// What was held back is as it would have been if that had been known.
    fn decide(&mut self, link: NameId) {
        let Some(Undecided { mut held, .. }) = self.timers.undecided.take() else { return };
        for interaction in &mut held {
            if let Effect::Wake { cause: Some(Cause { link: named, .. }), .. } = &mut interaction.effect {
                if *named == Some(self.words.links.transmission) {
                    *named = Some(link);
                }
            }
        }
        self.ahead.interactions.append(&mut held);
        let open = self.words.links.transmission;
        self.contexts_decided(open, link);
    }

    /// Events are missing: whoever set a timer meanwhile is not known.
    pub(super) fn forget_timers(&mut self) {
        self.timers.set.clear();
    }
}
