//! Which work belongs to a call or a signal, in the worlds where a machine makes fewer of them.
//!
//! Where only probes tell of a call, the caller waits for the reply itself: its wait, and what the callee does until it replies, are paid in parts. Where the kernel tells
//! of the way, too (a call is a write, a wake-up and a read), all that the caller does from the put to the reply is one stretch, and all that the callee does since it was
//! woken for it is another; each is paid as a whole when it is over, and at its full length until then, so that neither is made shorter twice. So is a state that is a call,
//! and what a callee does for a call that is made in it; and the way of a machine that signals itself, from there to where it takes that signal.

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
    /// A put: what a call costs, if it is one.
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
                // What a call moves itself is none of the items that it is for.
                if let Some(caller) = caller.as_mut().filter(|_| life.inside.is_none()) {
                    caller.moved(queue, n);
                }
                life.round = None;
                None
            }
        }
    }

    /// After a put.
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
            // Who does something else while it waits for a reply does not wait for it.
            _ => life.asynchronous |= life.calling.take().is_some(),
        }
    }

    /// Before a get. Says whether it ends a call whose whole way is told: the machine has waited for its end already.
    pub(super) fn end_call(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) -> bool {
        if !self.is_batched || taken.units == 0 || self.life(machine).inside.is_some() {
            return false;
        }
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        let kind = self.kind(queue);
        let life = self.life(machine);
        let is_told = life.block.is_none();
        match (kind, paid) {
            (Kind::Replies, _) => {
                let Some(paid) = life.calling.take() else { return false };
                self.less(machine, Mark::Called, paid);
                return is_told;
            }
            (Kind::Signals, Some(paid)) if is_told && paid.by == machine && life.calling.is_none() => {
                if let Some(caller) = &mut life.caller {
                    caller.signals_itself(queue);
                }
                if let Some(round) = life.round.take_if(|round| round.queue == queue) {
                    self.less(machine, Mark::Signalled, round.paid);
                }
            }
            (Kind::Calls | Kind::Signals, Some(paid)) if is_told && life.calling.is_none() => {
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

    /// After a get: whether what is done from now on belongs to a call.
    pub(super) fn serve(&mut self, machine: MachineId, queue: QueueId, taken: &Taken<From>) {
        let kind = self.kind(queue);
        let life = self.life(machine);
        let paid = if let Origin::From(from) = taken.cause { from.paid } else { None };
        match kind {
            Kind::Calls | Kind::Signals => {
                let paid = paid.filter(|_| !matches!(life.run, Run::Serves(_) | Run::Served(_)));
                life.serving = paid.filter(|paid| paid.state.is_none());
                // Whoever called waits in a state that is paid as a whole: what it waits for takes its full time until it is over, too.
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

    /// It was woken, and what it does from now on may be for a call.
    pub(super) fn is_woken(&mut self, machine: MachineId) {
        if self.is_batched && matches!(self.life(machine).run, Run::Unknown | Run::Woken) {
            self.life(machine).run = Run::Woken;
            self.op(machine, What::Mark(Mark::Woken));
        }
    }

    /// It begins to wait.
    pub(super) fn waits(&mut self, machine: MachineId) {
        if self.is_batched {
            self.life(machine).round = None;
            self.run_ends(machine);
        }
    }

    /// What it does next is for somebody else, unless it has not replied yet.
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

    /// It is in a state of its own: what was a call is over, and this may be one.
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

    /// Lanes of the worlds in which less is paid, and which part of it; a bit for each of the others.
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

    /// Where calls are fewer, what was done since the mark is a part of one.
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
