//! Timers by which the kernel does something for others: its network stack sends what a program has written, at the pace that it keeps. What is done when one
//! goes off leads back to who set it, and the time until then is the link `timer`.

use super::Composer;
use crate::hash::IdMap;
use crate::interaction::{Deed, MachineId};
use crate::linux_watch::{CpuId, Waker};
use longpole_trace::event::Catalogue;

/// Timers that are set; of more nobody knows who set them.
const MOST_SET: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// By the address of the timer.
    set: IdMap<u64, Set>,
}

/// By whom a timer was set, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub by: MachineId,
    pub t: u64,
}

impl Composer {
    pub(super) fn timer_is_set(&mut self, catalogue: &Catalogue, cpu: CpuId, timer: u64, by: Waker) {
        let by = self.actor(catalogue, cpu, by);
        let Some(by) = by.filter(|_| self.timers.set.len() < MOST_SET || self.timers.set.contains_key(&timer)) else {
            self.timers.set.remove(&timer);
            return;
        };
        // It turns out to be the cause only when the timer goes off.
        self.emit(Deed::Here { machine: by });
        self.timers.set.insert(timer, Set { by, t: self.now });
    }

    pub(super) fn timer_goes_off(&mut self, cpu: CpuId, timer: u64, by: Waker) {
        let set = self.timers.set.remove(&timer);
        if let Waker::Context { id, .. } = by {
            self.acts_for(cpu, id, set);
        }
    }

    /// Events are missing: whoever set a timer meanwhile is not known.
    pub(super) fn forget_timers(&mut self) {
        self.timers.set.clear();
    }
}
