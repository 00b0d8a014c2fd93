//! CPUs in the worlds: one machine leaves a CPU, another one takes it, and a machine that was put
//! off continues later.

use super::busy::Used;
use super::lanes::{self, Row, Slots, KEPT, OBSERVED, WHOLE};
use super::one_cpu::OneCpu;
use super::trail::{Kind, Node};
use super::what::What;
use super::WhatIf;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::names::NameId;

/// Largest number of free CPUs that are remembered for a host.
const MOST_CPUS: usize = 1024;

/// A CPU that a machine has left: slots with the times of that machine then, and when it had got
/// the CPU.
#[derive(Clone, Copy, Debug)]
pub struct LeftCpu {
    pub slot: u32,
    pub came: u32,
    /// Slot with the time that the machine worked there.
    pub stay: u32,
    /// Slot with the time that the CPU has been in use since it is known.
    pub busy: u32,
    /// Number of the CPU's chain: the CPU itself has no known number.
    pub chain: u32,
    pub why: Leaving,
    /// The machine that left it.
    pub by: MachineId,
    pub by_recorder: bool,
    /// The recorder took the CPU next.
    pub to_recorder: bool,
}

/// The reason why a machine leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The machine has nothing more to do.
    Done,
    /// The machine continues later.
    PutOff,
    /// The kernel gave the CPU to another machine.
    Taken,
}

/// A machine's work on a CPU until it was preempted. A machine that shares a CPU is preempted in
/// proportion to its time there: with half of the time it waits half as long.
#[derive(Clone, Copy)]
struct Turn<'a> {
    stay: &'a [f64],
    /// Largest factor of a state in each world.
    most: &'a [f64],
}

impl<'a> Turn<'a> {
    fn of(off: LeftCpu, slots: &'a Slots, most: &'a [f64]) -> Turn<'a> {
        Turn { stay: slots.lanes(off.stay), most }
    }

    /// Length in a world as a part of that in the trace; 1 if it is unknown when the machine got
    /// the CPU, or if it did nothing.
    fn part(&self, lane: usize) -> f64 {
        let unchanged = self.stay[KEPT];
        if unchanged <= 0.0 {
            return 1.0;
        }
        (self.stay[lane] / unchanged).clamp(0.0, self.most[lane])
    }

    /// Returns how long the machine waits for the work of others on its CPU in a world; they worked
    /// for `unchanged` in the trace. If the others become faster as well, they need fewer turns for
    /// the same reason as the machine itself, and that counts once.
    fn waits(&self, lane: usize, others: f64, unchanged: f64) -> f64 {
        let part = self.part(lane);
        match part <= 1.0 {
            true if others <= unchanged => others.min(unchanged * part),
            false if others >= unchanged => others.max(unchanged * part),
            _ => others * part,
        }
    }

    fn add(&self, v: &mut [f64], ns: f64, row: &Row) {
        for (lane, v) in v.iter_mut().enumerate() {
            *v += ns * row.as_ref().map_or(1.0, |row| row[lane]) * self.part(lane);
        }
    }
}

impl WhatIf {
    /// Gives a CPU to a machine that waited for one and does something. It is the one that was left
    /// at this moment, or else the one that has been free the longest.
    pub(super) fn run(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let Some(ready) = self.life(machine).ready.take() else { return };
        let (now, host) = (self.now, vocabulary.host_id(machine));
        let free = self.cpus.of(host, Vec::new);
        let found = free.iter().rposition(|cpu| cpu.1 == now).or_else(|| (0..free.len()).min_by_key(|&at| free[at].1));
        let cpu = found.map(|at| free.remove(at));
        if let Some((left, _)) = cpu.filter(|_| self.life(machine).records) {
            self.gives_way(left);
        }
        let ns = now - cpu.map_or(ready, |cpu| cpu.1.max(ready)).min(now);
        let waits_as = self.life(machine).waits_as;
        let key = self.state_key(vocabulary, machine, waits_as);
        let awaited = cpu.filter(|cpu| cpu.1 == now).map_or(0, |_| now - ready.min(now));
        if !self.life(machine).on_cpu {
            self.used.of(host, Used::default).takes(now, awaited);
        }
        let (left, off) = (cpu.map(|cpu| cpu.0), self.life(machine).off.take());
        self.op(machine, What::Start { left, off, ns: ns as f64, key, host });
        if let Some(off) = off {
            self.forget_cpu(off);
        }
        let chain = left.map_or_else(|| self.new_chain(), |left| left.chain);
        if let Some(left) = left {
            self.forget_cpu(left);
        }
        let life = self.life(machine);
        (life.on_cpu, life.chain) = (true, chain);
        life.disturbed |= life.above > 0;
    }

    fn new_chain(&mut self) -> u32 {
        self.chains = self.chains.wrapping_add(1);
        self.chains
    }

    pub(super) fn leave_cpu(&mut self, vocabulary: &Vocabulary, machine: MachineId, why: Leaving) {
        let had = std::mem::take(&mut self.life(machine).on_cpu);
        // Which CPU it was is unknown.
        match had {
            true => self.used.of(vocabulary.host_id(machine), Used::default).leaves(self.now),
            false => self.life(machine).chain = self.new_chain(),
        }
        let (now, host) = (self.now, vocabulary.host_id(machine));
        let (chain, by_recorder) = (self.life(machine).chain, self.life(machine).records);
        let [slot, came, stay, busy] = std::array::from_fn(|_| self.slots.make());
        let left = LeftCpu { slot, came, stay, busy, chain, why, by: machine, by_recorder, to_recorder: false };
        self.op(machine, What::LeaveCpu { left });
        if why != Leaving::Done {
            [slot, came, stay, busy].into_iter().for_each(|slot| self.slots.hold(slot));
            self.life(machine).off = Some(left);
        }
        let free = self.cpus.of(host, Vec::new);
        free.push((left, now));
        if free.len() > MOST_CPUS {
            let (left, _) = free.remove(0);
            self.forget_cpu(left);
        }
    }

    pub(super) fn forget_cpu(&mut self, left: LeftCpu) {
        [left.slot, left.came, left.stay, left.busy].into_iter().for_each(|slot| self.slots.release(slot));
    }

    /// Gives the machine its CPU in every world.
    pub(super) fn start(
        &mut self,
        machine: MachineId,
        t: u64,
        (left, off): (Option<LeftCpu>, Option<LeftCpu>),
        (ns, key): (f64, u32),
        host: Option<NameId>,
    ) {
        let (layout, most) = (self.layout, self.most_past);
        let replay = &mut self.lives[machine.0 as usize].replay;
        replay.past.jump(replay.t, t, &replay.v, replay.node, most);
        let one_cpu = self.one_cpus.of(host, OneCpu::default);
        let is_taken = [left, off].into_iter().flatten().any(|left| left.why == Leaving::Taken);
        one_cpu.is_over(is_taken || self.used.get(host).is_some_and(Used::several));
        replay.has_one_of = Some(host);
        let row = &self.rows[key as usize];
        let sleeps = std::mem::take(&mut replay.sleeps);
        let more_cpus = if replay.records { &[][..] } else { self.scale.more_cpus() };
        let turn = off.filter(|off| off.why == Leaving::Taken).map(|off| Turn::of(off, &self.slots, &self.most));
        let Some(LeftCpu { slot, came, busy: busy_slot, chain, why, by_recorder, .. }) = left else {
            self.scratch.copy_from_slice(&replay.v);
            one_cpu.is_had(machine, &self.scale, layout, &self.scratch, None, &mut replay.v);
            replay.takes_cpu(None);
            match turn {
                Some(turn) => turn.add(&mut replay.v, ns, row),
                None => lanes::add(&mut replay.v, ns, row),
            }
            for &(scenario, more) in more_cpus {
                let [lane, bare] = layout.of(scenario);
                let extra = self.extra.of((host, scenario), || vec![0.0; more as usize]);
                let own = self.scratch[lane];
                // The CPU of the trace would have been enough as far as is known, so an added CPU
                // that is used instead stays free for the next machine.
                if extra.iter().any(|&free| free <= own) {
                    replay.v[lane] = own;
                }
                replay.v[bare] = self.scratch[bare];
            }
            replay.node = self.trail.own(replay.node, key, ns);
            return;
        };
        let other = self.slots.lanes(slot);
        self.scratch.copy_from_slice(&replay.v);
        let kept = layout.kept();
        lanes::won(&replay.v[kept.clone()], &other[kept], 0.0, None, &mut self.bits);
        lanes::later(&mut replay.v, other, 0.0);
        let (ready, waited) = (self.scratch[OBSERVED], (other[OBSERVED] - self.scratch[OBSERVED]).max(0.0));
        let (came, busy) = (self.slots.lanes(came), self.slots.lanes(busy_slot));
        // A machine that was put off its CPU pays for what others did there meanwhile, whenever
        // they came.
        let before = off.filter(|off| off.chain == chain).map(|off| self.slots.lanes(off.busy));
        let rest = before.map_or(waited, |before| (waited - (busy[OBSERVED] - before[OBSERVED])).max(0.0));
        let after = KEPT..layout.len();
        let (v, own, came) = (&mut replay.v[after.clone()], &self.scratch[after.clone()], &came[after]);
        let any = match (off, before) {
            (Some(off), before) => {
                // Without the recorder, no machine would have moved to another CPU because of it.
                let moved = before.is_none() && (by_recorder || off.to_recorder);
                for (at, (v, own)) in v.iter_mut().zip(own).enumerate() {
                    let lane = KEPT + at;
                    if moved && lane != WHOLE {
                        // And not longer than with the recorder.
                        *v = v.min(own + rest * turn.map_or(1.0, |turn| turn.part(lane)));
                        continue;
                    }
                    let unchanged = if layout.kept().contains(&lane) { KEPT } else { layout.bare().start };
                    let others = |lane: usize| before.map_or(0.0, |before| busy[lane] - before[lane]);
                    *v = own
                        + match turn {
                            Some(turn) => rest * turn.part(lane) + turn.waits(lane, others(lane), others(unchanged)),
                            None => rest + others(lane),
                        };
                }
                lanes::all(&mut self.early, layout.words_of_kept())
            }
            // A machine that preempts another one does not wait for the other's work: the kernel
            // decided how long the other ran.
            (None, _) if why == Leaving::Taken => {
                // Without the recorder the CPU may have been free earlier.
                v.iter_mut().zip(own).for_each(|(v, own)| *v = if by_recorder { v.min(own + waited) } else { own + waited });
                lanes::all(&mut self.early, layout.words_of_kept())
            }
            // A machine that is ready, in this world, before the other one took the CPU waits no
            // longer than in the trace. Otherwise a machine that comes at a fixed time (a timer, a
            // device) and has a CPU for a moment would delay everything until then.
            (None, _) => {
                let ready = |own: f64, came: f64| own < ready && own < came;
                lanes::sooner(v, own, came, waited, ready, layout.kept().len(), &mut self.early)
            }
        };
        if any {
            self.bits.iter_mut().zip(&self.early).for_each(|(bits, early)| *bits &= !early);
            let node = Node { before: replay.node, other: replay.node, ns: waited, key, kind: Kind::Meet };
            replay.node = self.trail.meet(node, &self.early);
        }
        one_cpu.is_had(machine, &self.scale, layout, &self.scratch, Some(other), &mut replay.v);
        if let Some(row) = row {
            // If the wait for a CPU is itself scaled, it takes that part of its time, whichever
            // machine has the CPU: a quota that is lifted does not wait for others.
            for (lane, (v, own)) in replay.v.iter_mut().zip(&self.scratch).enumerate() {
                *v = own + (*v - own) * row[lane];
            }
            for lane in layout.kept().filter(|&lane| row[lane] == 0.0) {
                self.bits[(lane - KEPT) / 64] &= !(1 << ((lane - KEPT) % 64));
            }
        }
        for &(scenario, more) in more_cpus {
            let [lane, bare] = layout.of(scenario);
            let extra = self.extra.of((host, scenario), || vec![0.0; more as usize]);
            // Chooses the CPU that is free for the shortest time when it is needed, or else the one
            // that is free first; among the added ones and the one of the trace.
            let own = self.scratch[lane];
            let best = |a: f64, b: f64| if (a <= own) == (b <= own) { (a <= own) == (a > b) && a != b } else { a <= own };
            let first = extra.iter_mut().reduce(|a, b| if best(*b, *a) { b } else { a });
            if let Some(free) = first.filter(|free| best(**free, other[lane])) {
                // The CPU of the trace becomes free in place of the added one.
                replay.v[lane] = own.max(*free);
                *free = other[lane];
                self.bits[(lane - KEPT) / 64] &= !(1 << ((lane - KEPT) % 64));
            }
            replay.v[bare] = self.scratch[bare];
        }
        replay.takes_cpu(Some(self.slots.lanes(busy_slot)));
        match turn {
            Some(turn) => turn.add(&mut replay.v, ns, row),
            None => lanes::add(&mut replay.v, ns, row),
        }
        // If the item that the machine slept for had been there before, the machine would not have
        // slept and no wake-up would have been needed. If it was there in the trace, the machine
        // was woken all the same.
        let would_sleep = |slept: &[f64]| self.scratch[OBSERVED] > slept[OBSERVED];
        if let Some(slept) = replay.slept.as_ref().filter(|slept| sleeps && off.is_none() && would_sleep(slept)) {
            for lane in KEPT..layout.len() {
                if self.scratch[lane] <= slept[lane] {
                    replay.v[lane] -= ns * row.as_ref().map_or(1.0, |row| row[lane]);
                }
            }
        }
        let node = Node { before: replay.node, other: self.slots.node(slot), ns, key, kind: Kind::After };
        replay.node = self.trail.meet(node, &self.bits);
    }
}
