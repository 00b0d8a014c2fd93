//! The work that kernel workers do for others.
//!
//! A worker is woken for one work item and continues with others that were queued in the meantime;
//! it may also have been woken by the manager of its pool. The cause of what it does is therefore
//! the machine that queued the work item, and the time until a worker began with it is the link
//! `workqueue`.

use super::Composer;
use crate::hash::IdMap;
use crate::interaction::{Cause, Effect, MachineId};
use crate::kinds::LinkKind;
use crate::linux::watch::{CpuId, ThreadId, Waker};
use longpole_trace::event::Catalogue;
use std::collections::VecDeque;

/// Maximum number of waiting work items; beyond it the oldest are given up.
const MAX_QUEUED: usize = 1 << 14;

#[derive(Debug, Default)]
pub(super) struct Works {
    /// Waiting work items, by address.
    queued: IdMap<u64, QueuedWork>,
    /// Address and time of each queued item, the oldest first.
    order: VecDeque<(u64, u64)>,
}

/// A work item that waits for a worker.
#[derive(Clone, Copy, Debug)]
struct QueuedWork {
    /// The machine that queued the item; `None` if that was a timer, or is unknown.
    by: Option<MachineId>,
    t: u64,
}

impl Works {
    /// Forgets all waiting items, because their begin is no longer recorded.
    pub fn forget(&mut self) {
        *self = Works::default();
    }
}

impl Composer {
    pub(super) fn work_queued(&mut self, catalogue: &Catalogue, cpu: CpuId, work: u64, by: Waker) {
        let by = self.machine_with_cause(catalogue, cpu, by);
        // The machine is the cause of the work, which may begin much later.
        if let Some(machine) = by {
            self.emit(Effect::Remember { machine });
        }
        let t = self.now;
        self.works.queued.insert(work, QueuedWork { by, t });
        self.works.order.push_back((work, t));
        while self.works.order.len() > MAX_QUEUED {
            let Some((old, t)) = self.works.order.pop_front() else { break };
            if self.works.queued.get(&old).is_some_and(|queued| queued.t == t) {
                self.works.queued.remove(&old);
            }
        }
    }

    /// Processes the begin of a work item by a worker thread.
    pub(super) fn work_begins(&mut self, catalogue: &Catalogue, id: ThreadId, work: u64) {
        let Some(QueuedWork { by, t }) = self.works.queued.remove(&work) else { return };
        let at = self.thread_of_linux(id);
        let thread = &mut self.threads[at];
        let woken = thread.woken_by.take();
        let (Some(machine), Some(by), false) = (thread.machine, by, thread.blocked || thread.wait.is_some()) else { return };
        // The machine that queued the item has woken the worker for it, so that wake-up is the
        // cause already.
        if by == machine || woken.is_some_and(|(waker, when)| waker == by && when >= t) {
            return;
        }
        let link = Some(self.words.links[LinkKind::Workqueue]);
        self.emit(Effect::Block { machine, why: self.words.workqueue, on: None, wants: None });
        self.emit(Effect::Wake { machine, cause: Some(Cause { by, at: Some(t), link }) });
        self.threads[at].state = None;
        self.emit_state(catalogue, at);
    }
}
