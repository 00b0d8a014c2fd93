//! Signals: which actor sent what to which one.
//!
//! The name of a context is global, like that of a queue; its receivers are the actors that were
//! seen to receive it. Several submits may merge into one receive. The cause of the receive is then
//! the submit that made the signal pending, which is the first one.

use crate::actors::ActorId;
use crate::hash::IdMap;
use crate::names::NameId;
use std::collections::VecDeque;

/// Maximum number of pending submits, so that a context without a receiver does not grow without
/// limit.
const MAX_PENDING: usize = 1024;

/// Submits and receives of all contexts.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    contexts: IdMap<u32, SignalContext>,
}

#[derive(Clone, Debug, Default)]
struct SignalContext {
    receivers: Vec<ActorId>,
    pending: VecDeque<Pending>,
    last_receive_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sender: ActorId,
    t_ns: i64,
    count: u64,
}

/// The cause of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Sender of the first of the merged submits.
    pub sender: ActorId,
    pub submitted_ns: i64,
    /// Number of merged submits.
    pub merged: u64,
    pub self_sent: bool,
}

impl Signals {
    /// Records a submit. Returns true if the sender is the only actor that ever received this
    /// context: then it signals itself.
    pub fn submit(&mut self, context: NameId, sender: ActorId, t_ns: i64, count: u64) -> bool {
        let context = self.contexts.entry(context.0).or_default();
        if context.pending.len() == MAX_PENDING {
            context.pending.pop_front();
        }
        context.pending.push_back(Pending { sender, t_ns, count: count.max(1) });
        context.receivers == [sender]
    }

    /// Records a receive of `count` submits. Returns its cause, if a submit was seen.
    pub fn receive(&mut self, context: NameId, receiver: ActorId, t_ns: i64, count: u64) -> Option<Delivery> {
        let context = self.contexts.entry(context.0).or_default();
        if !context.receivers.contains(&receiver) {
            context.receivers.push(receiver);
        }
        let before = std::mem::replace(&mut context.last_receive_ns, t_ns);
        // A submit that was pending at the previous receive and is not needed for this one belonged
        // to an earlier receive, whose event is lost or which did not count what it merged. If such
        // a submit stayed, it would shift all later pairs.
        let mut left: u64 = context.pending.iter().map(|pending| pending.count).fold(0, u64::saturating_add);
        while let Some(pending) = context.pending.front().filter(|pending| pending.t_ns < before) {
            if left.saturating_sub(pending.count) < count.max(1) {
                break;
            }
            left = left.saturating_sub(pending.count);
            context.pending.pop_front();
        }
        let first = *context.pending.front()?;
        let (mut units, mut merged) = (0u64, 0);
        while let Some(pending) = context.pending.front() {
            if units >= count.max(1) {
                break;
            }
            units = units.saturating_add(pending.count);
            merged += 1;
            context.pending.pop_front();
        }
        Some(Delivery { sender: first.sender, submitted_ns: first.t_ns, merged, self_sent: first.sender == receiver })
    }

    pub fn receivers(&self, context: NameId) -> &[ActorId] {
        self.contexts.get(&context.0).map_or(&[], |context| &context.receivers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ActorId = ActorId(0);
    const B: ActorId = ActorId(1);
    const C: NameId = NameId(7);

    #[test]
    fn the_first_of_the_merged_submits_is_the_cause() {
        let mut signals = Signals::default();
        signals.submit(C, A, 10, 1);
        signals.submit(C, A, 20, 1);
        let delivery = signals.receive(C, B, 30, 2).unwrap();
        assert_eq!((delivery.sender, delivery.submitted_ns, delivery.merged), (A, 10, 2));
        assert_eq!(signals.receive(C, B, 40, 1), None);
    }

    #[test]
    fn a_thread_that_is_the_only_receiver_of_its_submits_signals_itself() {
        let mut signals = Signals::default();
        assert!(!signals.submit(C, B, 10, 1));
        assert!(signals.receive(C, B, 11, 1).unwrap().self_sent);
        assert!(signals.submit(C, B, 12, 1));
        signals.receive(C, A, 13, 1);
        assert!(!signals.submit(C, B, 14, 1));
    }

    #[test]
    fn a_lost_receive_does_not_shift_later_pairs() {
        let mut signals = Signals::default();
        signals.submit(C, A, 10, 1);
        // The receive of this submit is lost.
        signals.submit(C, A, 20, 1);
        signals.receive(C, B, 25, 1);
        for t in [30, 40, 50] {
            signals.submit(C, A, t, 1);
            assert_eq!(signals.receive(C, B, t + 5, 1).unwrap().submitted_ns, t);
        }
    }

    #[test]
    fn submits_without_a_receive_are_limited() {
        let mut signals = Signals::default();
        for t in 0..100_000 {
            signals.submit(C, A, t, 1);
        }
        assert!(signals.contexts[&C.0].pending.len() <= MAX_PENDING);
    }
}
