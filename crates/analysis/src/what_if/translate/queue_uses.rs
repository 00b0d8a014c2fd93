//! Uses of queues: what the trace shows of each queue up to now, and where its tokens come from.

use crate::what_if::operation::PaidCall;
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;

/// Origin of a token or of a unit of room in a queue.
#[derive(Clone, Copy, Debug)]
pub struct TokenOrigin {
    pub slot: u32,
    pub by: MachineId,
    pub t: u64,
    pub host: Option<NameId>,
    pub link: Option<NameId>,
    /// Cost of the call or signal, for tokens of calls and signals.
    pub paid: Option<PaidCall>,
}

/// Purpose of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Items,
    /// Each put is a call; in a queue of `Signals`, a signal that gets no reply.
    Calls,
    Signals,
    Replies,
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueUse {
    /// `None` before the queue's first use.
    pub purpose: Option<Purpose>,
    pub is_lock: bool,
    /// Number of puts and of gets; tokens that are there from the start count as put.
    pub puts: u64,
    pub takes: u64,
    /// The only machine that takes from the queue, or the latest one if there are several.
    pub taker: Option<MachineId>,
    pub is_lifo: bool,
    /// Capacity of the queue, if it is bounded and each put and get up to now was of a single unit,
    /// so that the order of requests for room is known.
    pub ordered_room: Option<u64>,
    /// Some world gives the queue another capacity.
    pub has_changed_capacity: bool,
    /// The machine whose token was taken first; `is_shared` is true if other machines put too.
    pub by: Option<MachineId>,
    pub is_shared: bool,
    /// Key of the link `queued` of this queue.
    pub queued: Option<u32>,
}

impl QueueUse {
    /// Items of the queue are work that is taken in the order of arrival.
    pub fn has_work(&self) -> bool {
        !self.is_lock && !self.is_lifo && !matches!(self.purpose, Some(Purpose::Signals | Purpose::Replies))
    }
}

/// The queues that were declared or used.
#[derive(Debug, Default)]
pub struct QueueUses(Vec<QueueUse>);

impl QueueUses {
    #[inline]
    pub fn get(&self, queue: QueueId) -> Option<&QueueUse> {
        self.0.get(queue.0 as usize)
    }

    pub fn get_mut(&mut self, queue: QueueId) -> Option<&mut QueueUse> {
        self.0.get_mut(queue.0 as usize)
    }

    /// Returns the queue, made at its first use.
    pub fn make(&mut self, queue: QueueId) -> &mut QueueUse {
        let at = queue.0 as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, QueueUse::default());
        }
        &mut self.0[at]
    }
}
