//! Signals: who sent what to whom. The name of a context is global, like a queue's; its receiver is whoever was seen to
//! receive it. Several submits may merge into one receive: then the submit that made the signal pending is its cause.

use crate::hash::IdMap;
use crate::names::NameId;
use crate::system::actors::ActorId;
use std::collections::VecDeque;

/// A context nobody receives must not grow without bound.
const MAX_PENDING: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct Signals {
    contexts: IdMap<u32, Context>,
}

#[derive(Clone, Debug, Default)]
struct Context {
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

/// What a receive was caused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Of the first submit that is in it.
    pub sender: ActorId,
    pub submitted_ns: i64,
    /// Submits that are in it.
    pub merged: u64,
    pub self_sent: bool,
}

impl Signals {
    /// Whether the sender is the only one who ever received this context: then it signals itself.
    pub fn submit(&mut self, context: NameId, sender: ActorId, t_ns: i64, count: u64) -> bool {
        let context = self.contexts.entry(context.0).or_default();
        if context.pending.len() == MAX_PENDING {
            context.pending.pop_front();
        }
        context.pending.push_back(Pending { sender, t_ns, count: count.max(1) });
        context.receivers == [sender]
    }

    pub fn receive(&mut self, context: NameId, receiver: ActorId, t_ns: i64, count: u64) -> Option<Delivery> {
        let context = self.contexts.entry(context.0).or_default();
        if !context.receivers.contains(&receiver) {
            context.receivers.push(receiver);
        }
        let before = std::mem::replace(&mut context.last_receive_ns, t_ns);
        // What was pending at the previous receive and is not needed for this one came with an earlier one (whose event is lost, or that
        // did not count what it merged). One such left-over would shift every later pair.
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
    fn merged_submits_are_caused_by_the_first() {
        let mut signals = Signals::default();
        signals.submit(C, A, 10, 1);
        signals.submit(C, A, 20, 1);
        let delivery = signals.receive(C, B, 30, 2).unwrap();
        assert_eq!((delivery.sender, delivery.submitted_ns, delivery.merged), (A, 10, 2));
        assert_eq!(signals.receive(C, B, 40, 1), None);
    }

    #[test]
    fn a_thread_that_alone_receives_what_it_submits_signals_itself() {
        let mut signals = Signals::default();
        assert!(!signals.submit(C, B, 10, 1));
        assert!(signals.receive(C, B, 11, 1).unwrap().self_sent);
        assert!(signals.submit(C, B, 12, 1));
        signals.receive(C, A, 13, 1);
        assert!(!signals.submit(C, B, 14, 1));
    }

    #[test]
    fn a_lost_receive_does_not_shift_the_pairs_that_follow() {
        let mut signals = Signals::default();
        signals.submit(C, A, 10, 1);
        // its receive is lost
        signals.submit(C, A, 20, 1);
        signals.receive(C, B, 25, 1);
        for t in [30, 40, 50] {
            signals.submit(C, A, t, 1);
            assert_eq!(signals.receive(C, B, t + 5, 1).unwrap().submitted_ns, t);
        }
    }

    #[test]
    fn submits_without_a_receive_are_bounded() {
        let mut signals = Signals::default();
        for t in 0..100_000 {
            signals.submit(C, A, t, 1);
        }
        assert!(signals.contexts[&C.0].pending.len() <= MAX_PENDING);
    }
}
