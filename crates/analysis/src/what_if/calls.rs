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

use super::batch::{Paid, Round};
use super::lanes::KEPT;
use super::life::{Mark, Run};
use super::trail::{self, Node};
use super::what::What;
use super::{From, Kind, WhatIf};
use longpole_model::interaction::{MachineId, QueueId};
use longpole_model::names::NameId;
use longpole_model::tokens::{Origin, Taken};

impl WhatIf {
    /// Returns the call that a put belongs to, and counts what it moves.
    pub(super) fn pay(&mut self, machine: MachineId, queue: QueueId, n: u64) -> Option<Paid> {
        let kind = self.kind(queue);
        let life = self.life(machine);
        let (key, serving) = (life.key, life.serving);
        match (kind, &mut life.caller) {
            (Kind::Calls | Kind::Signals, Some(_)) if life.inside.is_some() => life.inside,
            (Kind::Calls | Kind::Signals, Some(caller)) => {
                let items = caller.items();
                caller.called(key);
                Some(Paid { by: machine, items, state: None })
            }
            (Kind::Calls | Kind::Signals, None) => match life.run {
                Run::Serves(paid) | Run::Served(paid) => Some(paid),
                _ => serving,
            },
            (Kind::Replies, _) => life.serving.take(),
            (Kind::Items, caller) => {
                // What a call itself moves is not among the items that the call is for.
                if let Some(caller) = caller.as_mut().filter(|_| life.inside.is_none()) {
                    caller.moved(queue, n);
                }
                life.round = None;
                None
            }
        }
    }

    /// Begins a call, if the put is one. Called after the put.
    pub(super) fn begin_call(&mut self, machine: MachineId, queue: QueueId, paid: Option<Paid>) {
        if !self.is_batched {
            return;
        }
        let kind = self.kind(queue);
        let life = self.life(machine);
        match (kind, life.run) {
            _ if life.inside.is_some() => {}
            (Kind::Calls, _) if life.caller.is_some() && !life.asynchronous && life.calling.is_none() => {
                life.calling = paid;
                self.op(machine, What::Mark(Mark::Called));
            }
            (Kind::Signals, _) if life.round.is_none() && life.caller.as_ref().is_some_and(|caller| caller.is_own(queue)) => {
                life.round = paid.map(|paid| Round { queue, paid });
                self.op(machine, What::Mark(Mark::Signalled));
            }
            (Kind::Replies, Run::Serves(paid)) => life.run = Run::Served(paid),
            (Kind::Replies, _) => {}
            // A machine that does something else before the reply does not wait for the reply.
            _ => life.asynchronous |= life.calling.take().is_some(),
        }
    }

    /// Ends a call, if the get does. Called before the get. Returns true if the trace reported the
    /// whole way of the call, so that the machine has already waited for its end.
    pub(super) fn end_call(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) -> bool {
        if !self.is_batched || taken.units == 0 || self.life(machine).inside.is_some() {
            return false;
        }
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        let kind = self.kind(queue);
        let life = self.life(machine);
        let is_way_reported = life.block.is_none();
        match (kind, paid) {
            (Kind::Replies, _) => {
                let Some(paid) = life.calling.take() else { return false };
                self.less(machine, Mark::Called, paid);
                return is_way_reported;
            }
            (Kind::Signals, Some(paid)) if is_way_reported && paid.by == machine && life.calling.is_none() => {
                if let Some(caller) = &mut life.caller {
                    caller.signals_itself(queue);
                }
                if let Some(round) = life.round.take_if(|round| round.queue == queue) {
                    self.less(machine, Mark::Signalled, round.paid);
                }
            }
            (Kind::Calls | Kind::Signals, Some(paid)) if is_way_reported && life.calling.is_none() => {
                let run = if kind == Kind::Calls { Run::Serves(paid) } else { Run::Served(paid) };
                match std::mem::replace(&mut life.run, run) {
                    Run::Unknown => life.run = Run::Unknown,
                    Run::Woken => {}
                    Run::Serves(before) | Run::Served(before) => {
                        self.less(machine, Mark::Woken, before);
                        self.op(machine, What::Mark(Mark::Woken));
                    }
                }
            }
            _ => {
                life.asynchronous |= life.calling.take().is_some();
                self.run_ends(machine);
            }
        }
        false
    }

    /// Decides whether the machine's work from now on belongs to a call. Called after a get.
    pub(super) fn serve(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) {
        let kind = self.kind(queue);
        let life = self.life(machine);
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        match kind {
            Kind::Calls | Kind::Signals => {
                let paid = paid.filter(|_| !matches!(life.run, Run::Serves(_) | Run::Served(_)));
                life.serving = paid.filter(|paid| paid.state.is_none());
                // The caller waits in a state that is reduced as a whole, so what it waits for has
                // its full length until then, too.
                if let Some(paid) = paid.filter(|paid| paid.state.is_some()) {
                    life.run = if kind == Kind::Calls { Run::Serves(paid) } else { Run::Served(paid) };
                    self.op(machine, What::Mark(Mark::Woken));
                }
            }
            Kind::Replies => {}
            Kind::Items => {
                (life.serving, life.round) = (None, None);
                life.took = true;
                if let Some(caller) = life.caller.as_mut().filter(|_| life.inside.is_none()) {
                    caller.moved(queue, taken.units);
                }
            }
        }
    }

    /// Notes that the machine was woken; its work from now on may be for a call.
    pub(super) fn is_woken(&mut self, machine: MachineId) {
        if self.is_batched && matches!(self.life(machine).run, Run::Unknown | Run::Woken) {
            self.life(machine).run = Run::Woken;
            self.op(machine, What::Mark(Mark::Woken));
        }
    }

    /// Notes that the machine begins to wait.
    pub(super) fn waits(&mut self, machine: MachineId) {
        if self.is_batched {
            self.life(machine).round = None;
            self.run_ends(machine);
        }
    }

    /// Ends the work for a call; not if the machine has not replied yet.
    fn run_ends(&mut self, machine: MachineId) {
        let life = self.life(machine);
        match life.run {
            Run::Serves(_) => {}
            Run::Unknown | Run::Woken => life.run = Run::Unknown,
            Run::Served(paid) => {
                life.run = Run::Unknown;
                self.less(machine, Mark::Woken, paid);
            }
        }
    }

    /// Notes that the machine enters a state of its own. This ends a call that was a state, and may
    /// begin another one.
    pub(super) fn enters(&mut self, machine: MachineId, name: NameId, text: &str) {
        let life = self.life(machine);
        let Some(caller) = &mut life.caller else { return };
        if life.inside.is_some_and(|paid| paid.state == Some(name)) {
            return;
        }
        let items = caller.items();
        let begins = caller.enters(name, text);
        let paid = begins.then_some(Paid { by: machine, items, state: Some(name) });
        if let Some(before) = std::mem::replace(&mut life.inside, paid) {
            self.less(machine, Mark::Entered, before);
        }
        if begins {
            self.op(machine, What::Mark(Mark::Entered));
        }
    }

    fn less(&mut self, machine: MachineId, since: Mark, paid: Paid) {
        let key = self.life(machine).key;
        self.op(machine, What::Less { since, paid, key });
    }

    /// Returns the lanes of the worlds in which less is paid, with the part that is paid there;
    /// `bits` gets a bit for each of the other worlds.
    pub(super) fn part(&mut self, paid: Paid, bits: &mut Vec<u64>) -> Vec<(usize, f64)> {
        bits.resize(self.layout.words(), u64::MAX);
        let caller = self.lives.get(paid.by.0 as usize).and_then(|life| life.caller.as_ref());
        let (layout, is_paid) = (self.layout, &mut self.is_paid);
        caller
            .into_iter()
            .flat_map(|caller| caller.pays_less(paid))
            .flat_map(|(scenario, items)| {
                is_paid[scenario] = true;
                let part = paid.items / items;
                if part < 1.0 {
                    bits[(scenario + 1) / 64] &= !(1 << ((scenario + 1) % 64));
                }
                layout.of(scenario).map(|lane| (lane, part))
            })
            .collect()
    }

    /// Reduces the time since the mark, in the worlds with fewer calls.
    pub(super) fn pay_part(&mut self, machine: MachineId, since: Mark, paid: Paid, key: u32) {
        let part = self.part(paid, &mut Vec::new());
        let kept = self.layout.kept();
        let replay = &mut self.lives[machine.0 as usize].replay;
        let Some((mark, node)) = &replay.marks[since as usize] else { return };
        self.early.fill(0);
        let mut left = 0.0;
        for &(lane, part) in part.iter().filter(|part| part.1 < 1.0) {
            let ns = part * (replay.v[lane] - mark[lane]).max(0.0);
            replay.v[lane] = mark[lane] + ns;
            if kept.contains(&lane) {
                self.early[(lane - KEPT) / 64] |= 1 << ((lane - KEPT) % 64);
                left = ns;
            }
        }
        let meeting = Node { before: replay.node, other: *node, ns: left, key, kind: trail::Kind::Meet };
        replay.node = self.trail.meet(meeting, &self.early);
    }
}
