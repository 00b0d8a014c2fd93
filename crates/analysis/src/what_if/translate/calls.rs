//! Assignment of work to calls and signals, for the worlds in which a machine makes fewer of them.
//!
//! - If only probes report a call, the caller itself waits for the reply. Its wait, and the
//!   callee's work until the reply, are reduced piece by piece.
//! - If the kernel's events report the way too (a call is a write, a wake-up and a read), all that
//!   the caller does from the put to the reply is one stretch, and all that the callee does since
//!   it was woken is another. Each stretch is reduced as a whole when it is over and has its full
//!   length until then; otherwise it would be reduced twice.
//!
//! Stretches are also a state that is a call, the callee's work for a call made in such a state,
//! and the time of a machine that signals itself, from the signal to the get of that signal.

use super::caller::SelfSignal;
use super::queue_uses::{Purpose, TokenOrigin};
use super::state::Translation;
use super::traced_machine::WorkSinceWake;
use crate::what_if::operation::{CallMark, Operation, PaidCall};
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

impl Translation {
    /// Returns the call that a put belongs to, and counts what it moves.
    pub fn pay(&mut self, machine: MachineId, queue: QueueId, n: u64) -> Option<PaidCall> {
        let kind = self.purpose(queue);
        let traced = self.machine(machine);
        let (key, serving) = (traced.key, traced.calls.serving);
        match (kind, &mut traced.calls.caller) {
            (Purpose::Calls | Purpose::Signals, Some(_)) if traced.calls.state_call.is_some() => traced.calls.state_call,
            (Purpose::Calls | Purpose::Signals, Some(caller)) => {
                let items = caller.items();
                caller.count_call(key);
                Some(PaidCall { by: machine, items, state: None })
            }
            (Purpose::Calls | Purpose::Signals, None) => match traced.calls.work {
                WorkSinceWake::Serves(paid) | WorkSinceWake::Served(paid) => Some(paid),
                _ => serving,
            },
            (Purpose::Replies, _) => traced.calls.serving.take(),
            (Purpose::Items, caller) => {
                // What a call itself moves is not among the items that the call is for.
                if let Some(caller) = caller.as_mut().filter(|_| traced.calls.state_call.is_none()) {
                    caller.count_moved(queue, n);
                }
                traced.calls.self_signal = None;
                None
            }
        }
    }

    /// Begins a call, if the put is one. Called after the put.
    pub fn begin_call(&mut self, machine: MachineId, queue: QueueId, paid: Option<PaidCall>) {
        if !self.is_batched {
            return;
        }
        let kind = self.purpose(queue);
        let traced = self.machine(machine);
        match (kind, traced.calls.work) {
            _ if traced.calls.state_call.is_some() => {}
            (Purpose::Calls, _) if traced.calls.caller.is_some() && !traced.calls.asynchronous && traced.calls.calling.is_none() => {
                traced.calls.calling = paid;
                self.issue(machine, Operation::MarkCall(CallMark::Called));
            }
            (Purpose::Signals, _)
                if traced.calls.self_signal.is_none() && traced.calls.caller.as_ref().is_some_and(|caller| caller.is_own(queue)) =>
            {
                traced.calls.self_signal = paid.map(|paid| SelfSignal { queue, paid });
                self.issue(machine, Operation::MarkCall(CallMark::Signalled));
            }
            (Purpose::Replies, WorkSinceWake::Serves(paid)) => traced.calls.work = WorkSinceWake::Served(paid),
            (Purpose::Replies, _) => {}
            // A machine that does something else before the reply does not wait for the reply.
            _ => traced.calls.asynchronous |= traced.calls.calling.take().is_some(),
        }
    }

    /// Ends a call, if the get does. Called before the get. Returns true if the trace reported the
    /// whole way of the call, so that the machine has already waited for its end.
    pub fn end_call(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<TokenOrigin>) -> bool {
        if !self.is_batched || taken.units == 0 || self.machine(machine).calls.state_call.is_some() {
            return false;
        }
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        let kind = self.purpose(queue);
        let traced = self.machine(machine);
        let has_no_block = traced.block.is_none();
        match (kind, paid) {
            (Purpose::Replies, _) => {
                let Some(paid) = traced.calls.calling.take() else { return false };
                self.reduce_since(machine, CallMark::Called, paid);
                return has_no_block;
            }
            (Purpose::Signals, Some(paid)) if has_no_block && paid.by == machine && traced.calls.calling.is_none() => {
                if let Some(caller) = &mut traced.calls.caller {
                    caller.note_self_signal(queue);
                }
                if let Some(signal) = traced.calls.self_signal.take_if(|signal| signal.queue == queue) {
                    self.reduce_since(machine, CallMark::Signalled, signal.paid);
                }
            }
            (Purpose::Calls | Purpose::Signals, Some(paid)) if has_no_block && traced.calls.calling.is_none() => {
                let run = if kind == Purpose::Calls { WorkSinceWake::Serves(paid) } else { WorkSinceWake::Served(paid) };
                match std::mem::replace(&mut traced.calls.work, run) {
                    WorkSinceWake::Unknown => traced.calls.work = WorkSinceWake::Unknown,
                    WorkSinceWake::Woken => {}
                    WorkSinceWake::Serves(before) | WorkSinceWake::Served(before) => {
                        self.reduce_since(machine, CallMark::Woken, before);
                        self.issue(machine, Operation::MarkCall(CallMark::Woken));
                    }
                }
            }
            _ => {
                traced.calls.asynchronous |= traced.calls.calling.take().is_some();
                self.end_work_for_call(machine);
            }
        }
        false
    }

    /// Decides whether the machine's work from now on belongs to a call. Called after a get.
    pub fn assign_work(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<TokenOrigin>) {
        let kind = self.purpose(queue);
        let traced = self.machine(machine);
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        match kind {
            Purpose::Calls | Purpose::Signals => {
                let paid = paid.filter(|_| !matches!(traced.calls.work, WorkSinceWake::Serves(_) | WorkSinceWake::Served(_)));
                traced.calls.serving = paid.filter(|paid| paid.state.is_none());
                // The caller waits in a state that is reduced as a whole, so what it waits for has
                // its full length until then, too.
                if let Some(paid) = paid.filter(|paid| paid.state.is_some()) {
                    traced.calls.work = if kind == Purpose::Calls { WorkSinceWake::Serves(paid) } else { WorkSinceWake::Served(paid) };
                    self.issue(machine, Operation::MarkCall(CallMark::Woken));
                }
            }
            Purpose::Replies => {}
            Purpose::Items => {
                (traced.calls.serving, traced.calls.self_signal) = (None, None);
                traced.calls.has_taken = true;
                if let Some(caller) = traced.calls.caller.as_mut().filter(|_| traced.calls.state_call.is_none()) {
                    caller.count_moved(queue, taken.units);
                }
            }
        }
    }

    /// Notes that the machine was woken; its work from now on may be for a call.
    pub fn note_woken(&mut self, machine: MachineId) {
        if self.is_batched && matches!(self.machine(machine).calls.work, WorkSinceWake::Unknown | WorkSinceWake::Woken) {
            self.machine(machine).calls.work = WorkSinceWake::Woken;
            self.issue(machine, Operation::MarkCall(CallMark::Woken));
        }
    }

    /// Notes that the machine begins to wait.
    pub fn begin_wait(&mut self, machine: MachineId) {
        if self.is_batched {
            self.machine(machine).calls.self_signal = None;
            self.end_work_for_call(machine);
        }
    }

    /// Ends the work for a call; not if the machine has not replied yet.
    fn end_work_for_call(&mut self, machine: MachineId) {
        let traced = self.machine(machine);
        match traced.calls.work {
            WorkSinceWake::Serves(_) => {}
            WorkSinceWake::Unknown | WorkSinceWake::Woken => traced.calls.work = WorkSinceWake::Unknown,
            WorkSinceWake::Served(paid) => {
                traced.calls.work = WorkSinceWake::Unknown;
                self.reduce_since(machine, CallMark::Woken, paid);
            }
        }
    }

    /// Notes that the machine enters a state of its own. This ends a call that was a state, and may
    /// begin another one.
    pub fn enter_state(&mut self, machine: MachineId, name: NameId, text: &str) {
        let traced = self.machine(machine);
        let Some(caller) = &mut traced.calls.caller else { return };
        if traced.calls.state_call.is_some_and(|paid| paid.state == Some(name)) {
            return;
        }
        let items = caller.items();
        let begins = caller.enter(text);
        self.replay.here().calls.enter(machine, name, text);
        let traced = self.machine(machine);
        let paid = begins.then_some(PaidCall { by: machine, items, state: Some(name) });
        if let Some(before) = std::mem::replace(&mut traced.calls.state_call, paid) {
            self.reduce_since(machine, CallMark::Entered, before);
        }
        if begins {
            self.issue(machine, Operation::MarkCall(CallMark::Entered));
        }
    }

    fn reduce_since(&mut self, machine: MachineId, since: CallMark, paid: PaidCall) {
        let key = self.machine(machine).key;
        self.issue(machine, Operation::ReduceSince { since, paid, key });
    }
}
