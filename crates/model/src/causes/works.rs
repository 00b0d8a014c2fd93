//! What the kernel's workers do for others: a worker is woken for one piece of work and goes on with what others have queued meanwhile, and whoever manages the
//! pool may have woken it. So what it does leads back to who queued that, and the time until a worker began with it is the link `workqueue`.

use super::Composer;
use crate::hash::IdMap;
use crate::interaction::{Cause, Effect, MachineId};
use crate::linux::watch::{CpuId, ThreadId, Waker};
use longpole_trace::event::Catalogue;
use std::collections::VecDeque;

/// Pieces of work that wait; of more, the oldest are given up.
const MOST_QUEUED: usize = 1 << 14;

#[derive(Debug, Default)]
pub(super) struct Works {
    /// By the address of the work.
    queued: IdMap<u64, Queued>,
    order: VecDeque<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    /// None: a timer, or who is not known.
    by: Option<MachineId>,
    t: u64,
}

impl Works {
    /// Nobody tells any more when a piece of work begins.
    pub fn forget(&mut self) {
        *self = Works::default();
    }
}

impl Composer {
    pub(super) fn work_queued(&mut self, catalogue: &Catalogue, cpu: CpuId, work: u64, by: Waker) {
        let by = self.actor(catalogue, cpu, by);
        // It may turn out to be the cause only when the work begins.
        if let Some(machine) = by {
            self.emit(Effect::Here { machine });
        }
        let t = self.now;
        self.works.queued.insert(work, Queued { by, t });
        self.works.order.push_back((work, t));
        while self.works.order.len() > MOST_QUEUED {
            let Some((old, t)) = self.works.order.pop_front() else { break };
            if self.works.queued.get(&old).is_some_and(|queued| queued.t == t) {
                self.works.queued.remove(&old);
            }
        }
    }

    /// The thread turns to what somebody has queued.
    pub(super) fn work_begins(&mut self, catalogue: &Catalogue, id: ThreadId, work: u64) {
        let Some(Queued { by, t }) = self.works.queued.remove(&work) else { return };
        let at = self.thread_of_linux(id);
        let thread = &mut self.threads[at as usize];
        let woken = thread.woken.take();
        let (Some(machine), Some(by), false) = (thread.machine, by, thread.blocked || thread.wait.is_some()) else { return };
        // That one has woken it for this.
        if by == machine || woken.is_some_and(|(waker, when)| waker == by && when >= t) {
            return;
        }
        let link = Some(self.words.links.workqueue);
        self.emit(Effect::Block { machine, why: self.words.workqueue, on: None, wants: None });
        self.emit(Effect::Wake { machine, cause: Some(Cause { by, at: Some(t), link }) });
        self.threads[at as usize].state = None;
        self.look(catalogue, at);
    }
}
