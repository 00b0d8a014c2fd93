//! Calls between threads by their probes: the request, its server, the reply, and the return.

use super::{PendingCall, Wait, WaitTarget};
use crate::causes::thread_table::KernelState;
use crate::causes::Composer;
use crate::interaction::{Cause, Effect, QueueId};
use crate::kinds::{call_label, QueueKind};
use crate::names::NameId;
use crate::tokens::Amount;
use longpole_trace::event::Catalogue;

/// Maximum number of calls without a reply; beyond it the oldest is given up.
const MAX_CALLS: usize = 1 << 16;
/// Number of the newest calls among which the call of a return is searched.
const MAX_LOOKED_AT: usize = 1 << 10;

impl Composer {
    #[cold]
    fn queue_of_call(&mut self, name: NameId, reply: &str) -> QueueId {
        let text = self.system.vocabulary.names.text(name).to_owned();
        let kind = if reply.is_empty() { QueueKind::Calls } else { QueueKind::Replies };
        self.system.vocabulary.queue_as(&format!("rpc:{}{reply}", call_label(&text)), kind, &text)
    }

    /// Notes that the thread calls a server and waits for the reply.
    pub(in crate::causes) fn calls(&mut self, catalogue: &Catalogue, at: u32, name: NameId, id: Option<u64>) {
        if self.waits.under_way.len() >= MAX_CALLS {
            if let Some((_, oldest)) = self.waits.order.pop_first() {
                self.end_call(oldest);
            }
        }
        let request = match self.waits.calls.get(name.0) {
            Some(queue) => *queue,
            None => self.queue_of_call(name, ""),
        };
        *self.waits.calls.slot(name.0) = Some(request);
        let slot = self.waits.slots.take();
        let known = self.waits.replies.get(&name.0).and_then(|replies| replies.get(&slot)).copied();
        let reply = known.unwrap_or_else(|| self.queue_of_call(name, &format!(":reply:{slot}")));
        if known.is_none() {
            self.waits.replies.entry(name.0).or_default().insert(slot, reply);
        }
        self.waits.serial += 1;
        let serial = self.waits.serial;
        self.waits.under_way.insert(slot, PendingCall { serial, name, id, caller: at, request, reply, taken: false, replied: false });
        self.waits.order.insert(serial, slot);
        match id {
            Some(id) => {
                if let Some(old) = self.waits.by_id.insert((name, id), slot) {
                    self.waits.by_id.remove(&(name, id));
                    self.end_call(old);
                    self.waits.by_id.insert((name, id), slot);
                }
            }
            None => {
                let unnamed = self.waits.unnamed.entry(name).or_default();
                unnamed.push_back(slot);
                // If no server is seen to take these calls, the list would grow without limit.
                if unnamed.len() > MAX_CALLS {
                    unnamed.pop_front();
                }
            }
        }
        let machine = self.machine(catalogue, at);
        self.note_queue_effect(at, request, true);
        let flow = Some(self.call_flow(slot));
        self.emit(Effect::Put { machine, queue: request, n: 1, flow, link: None });
        self.begins_to_wait(catalogue, at, WaitTarget::Reply(slot));
    }

    fn call_flow(&mut self, slot: u32) -> NameId {
        self.system.vocabulary.names.intern(&format!("#{slot}"))
    }

    /// A server takes a call; returns the slot of the call.
    pub(in crate::causes) fn dispatches(&mut self, catalogue: &Catalogue, at: u32, name: NameId, id: Option<u64>) -> Option<u32> {
        let waits = &mut self.waits;
        let slot = match id {
            Some(id) => waits.by_id.get(&(name, id)).copied(),
            None => {
                let pending = waits.unnamed.get_mut(&name)?;
                let under_way = &waits.under_way;
                std::iter::from_fn(|| pending.pop_front())
                    .find(|slot| under_way.get(slot).is_some_and(|call| call.name == name && !call.taken))
            }
        };
        let slot = slot?;
        let call = self.waits.under_way.get_mut(&slot).filter(|call| !call.taken)?;
        call.taken = true;
        let request = call.request;
        let machine = self.machine(catalogue, at);
        let flow = Some(self.call_flow(slot));
        self.emit(Effect::Get { machine, queue: request, amount: Amount::Units(1), flow });
        self.threads[at].blocked = false;
        Some(slot)
    }

    /// A server replies to the call in this slot.
    pub(in crate::causes) fn replies(&mut self, catalogue: &Catalogue, at: u32, slot: u32) {
        let Some(call) = self.waits.under_way.get_mut(&slot).filter(|call| !call.replied) else { return };
        call.replied = true;
        let call = *call;
        let reply = call.reply;
        let machine = self.machine(catalogue, at);
        self.note_queue_effect(at, reply, true);
        self.emit(Effect::Put { machine, queue: reply, n: 1, flow: None, link: None });
        let caller = call.caller;
        let waits = self.threads[caller].wait.is_some_and(|wait| wait.what == WaitTarget::Reply(slot));
        if waits && matches!(self.threads[caller].kernel, KernelState::Ready | KernelState::Preempted | KernelState::Runs) {
            // No wake-up will follow: from now on the thread waits only for its CPU.
            self.blocks_in_wait(catalogue, caller);
            self.unblock(catalogue, caller, Some(Cause { by: machine, at: None, link: None }));
            self.clear_wait(caller);
            self.emit_state(catalogue, caller);
        }
    }

    /// Notes that the caller has its reply. Returns false if no thread was seen to send it.
    pub(in crate::causes) fn returned(&mut self, catalogue: &Catalogue, at: u32, name: NameId, id: Option<u64>) -> bool {
        let slot = match (id, self.threads[at].wait) {
            (Some(id), _) => self.waits.by_id.get(&(name, id)).copied(),
            (None, Some(Wait { what: WaitTarget::Reply(slot), .. })) => Some(slot),
            (None, _) => {
                let of_thread = |slot: &&u32| self.waits.under_way.get(slot).is_some_and(|call| call.caller == at && call.name == name);
                self.waits.order.values().rev().take(MAX_LOOKED_AT).find(of_thread).copied()
            }
        };
        let call = slot.and_then(|slot| self.waits.under_way.get(&slot).copied().map(|call| (slot, call)));
        let Some((slot, call)) = call.filter(|(_, call)| call.name == name && call.caller == at) else { return false };
        if call.replied {
            self.emit_polled_block(catalogue, at, WaitTarget::Reply(slot), u64::MAX);
            let machine = self.machine(catalogue, at);
            self.emit(Effect::Get { machine, queue: call.reply, amount: Amount::Units(1), flow: None });
            self.threads[at].blocked = false;
            if let Some(call) = self.waits.under_way.get_mut(&slot) {
                call.replied = false;
            }
        }
        self.end_call(slot);
        call.replied
    }

    /// Forgets a call, and takes what it has left in its queues.
    pub(super) fn end_call(&mut self, slot: u32) {
        let Some(call) = self.waits.under_way.remove(&slot) else { return };
        self.waits.order.remove(&call.serial);
        if let Some(id) = call.id {
            self.waits.by_id.remove(&(call.name, id));
        }
        // A request or reply that was sent and never taken must not be taken for that of the next
        // call in this slot.
        for (queue, left) in [(call.request, !call.taken), (call.reply, call.replied)] {
            if left {
                let machine = self.outside_machine();
                let flow = (queue == call.request).then(|| self.call_flow(slot));
                self.emit(Effect::Get { machine, queue, amount: Amount::Units(1), flow });
            }
        }
        self.waits.slots.give(slot);
    }
}
