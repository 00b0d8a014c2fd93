//! A machine gets a CPU in every world: when another one leaves it there, or at once.
//!
//! - A machine that was put off its CPU continues when the others have done their work there, and
//!   pays for that work whenever they came.
//! - A machine that preempts another one does not wait for the other's work.
//! - Any other machine takes the CPU when it is left, but waits no longer than in the trace if it
//!   is ready, in this world, before the previous machine took the CPU.
//!
//! A scenario may add CPUs; a machine then takes the one that is free first.

use super::cpus::CpusInUse;
use super::replayed_machine::ReplayedMachine;
use super::state::Replay;
use crate::what_if::operation::{CpuStart, Leaving, LeftCpu};
use crate::what_if::service::one_cpu::OneCpu;
use crate::what_if::worlds::paths::{Node, NodeKind};
use crate::what_if::worlds::slots::Slots;
use crate::what_if::worlds::time_vector::{self, Layout, Row, OBSERVED, UNCHANGED, WITH_RECORDING};
use longpole_model::interaction::MachineId;

/// A machine's work on a CPU until it was preempted. A machine that shares a CPU is preempted in
/// proportion to its time there: with half of the time it waits half as long.
#[derive(Clone, Copy)]
struct Turn<'a> {
    stay: &'a [f64],
    /// Largest factor of a state in each world.
    most: &'a [f64],
}

impl<'a> Turn<'a> {
    /// Returns the turn of a machine that was put off the CPU `off`; `None` if it was not
    /// preempted.
    fn of(off: Option<LeftCpu>, slots: &'a Slots, most: &'a [f64]) -> Option<Turn<'a>> {
        let off = off.filter(|off| off.why == Leaving::Preempted)?;
        Some(Turn { stay: slots.lanes(off.stay), most })
    }

    /// Length in a world as a part of that in the trace; 1 if it is unknown when the machine got
    /// the CPU, or if it did nothing.
    fn part(&self, lane: usize) -> f64 {
        let unchanged = self.stay[UNCHANGED];
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

/// A wait for a CPU that another machine leaves.
struct CpuWait<'a> {
    layout: Layout,
    left: LeftCpu,
    off: Option<LeftCpu>,
    turn: Option<Turn<'a>>,
    /// Times at which the machine was ready.
    own: &'a [f64],
    /// Wait in the trace.
    waited: f64,
    /// Times at which the previous machine got the CPU.
    got_at: &'a [f64],
    /// Time that the CPU has been in use, now and when the machine was put off it.
    busy: &'a [f64],
    before: Option<&'a [f64]>,
}

impl CpuWait<'_> {
    /// Sets the times at which the machine has the CPU, which are those at which the CPU was left.
    /// `early` gets a bit for each kept lane in which they depend on something else. Returns
    /// whether any do.
    fn apply(&self, v: &mut [f64], early: &mut [u64]) -> bool {
        let (layout, by_recorder) = (self.layout, self.left.by_recorder);
        let after = UNCHANGED..layout.len();
        let (v, own, got_at) = (&mut v[after.clone()], &self.own[after.clone()], &self.got_at[after]);
        match self.off {
            Some(off) => {
                self.continue_after_others(off, v, own);
                time_vector::all(early, layout.words_of_kept())
            }
            // A machine that preempts another one does not wait for the other's work: the kernel
            // decided how long the other ran.
            None if self.left.why == Leaving::Preempted => {
                // Without the recorder the CPU may have been free earlier.
                let waited = self.waited;
                v.iter_mut().zip(own).for_each(|(v, own)| *v = if by_recorder { v.min(own + waited) } else { own + waited });
                time_vector::all(early, layout.words_of_kept())
            }
            // A machine that is ready, in this world, before the other one took the CPU waits no
            // longer than in the trace. Otherwise a machine that comes at a fixed time (a timer, a
            // device) and has a CPU for a moment would delay everything until then.
            None => {
                let ready_in_trace = self.own[OBSERVED];
                let ready = |own: f64, got_at: f64| own < ready_in_trace && own < got_at;
                time_vector::sooner(v, own, got_at, self.waited, ready, layout.kept().len(), early)
            }
        }
    }

    /// A machine that was put off its CPU pays for what others did there meanwhile, whenever they
    /// came.
    fn continue_after_others(&self, off: LeftCpu, v: &mut [f64], own: &[f64]) {
        let (busy, before, turn) = (self.busy, self.before, self.turn);
        let rest = before.map_or(self.waited, |before| (self.waited - (busy[OBSERVED] - before[OBSERVED])).max(0.0));
        // Without the recorder, no machine would have moved to another CPU because of it.
        let moved = before.is_none() && (self.left.by_recorder || off.to_recorder);
        for (at, (v, own)) in v.iter_mut().zip(own).enumerate() {
            let lane = UNCHANGED + at;
            if moved && lane != WITH_RECORDING {
                // And not longer than with the recorder.
                *v = v.min(own + rest * turn.map_or(1.0, |turn| turn.part(lane)));
                continue;
            }
            let unchanged = if self.layout.kept().contains(&lane) { UNCHANGED } else { self.layout.bare().start };
            let others = |lane: usize| before.map_or(0.0, |before| busy[lane] - before[lane]);
            *v = own
                + match turn {
                    Some(turn) => rest * turn.part(lane) + turn.waits(lane, others(lane), others(unchanged)),
                    None => rest + others(lane),
                };
        }
    }
}

/// Adds the delay of a start to each lane.
fn add_delay(v: &mut [f64], turn: Option<Turn<'_>>, ns: f64, row: &Row) {
    match turn {
        Some(turn) => turn.add(v, ns, row),
        None => time_vector::add(v, ns, row),
    }
}

/// Chooses among the added CPUs and the trace's (free at `other`): of those free by `own` the one
/// that became free last, else the one that becomes free first. If it is an added one, returns the
/// start on it, and the trace's CPU takes its place among the added ones.
fn added_cpu(added: &mut [f64], own: f64, other: f64) -> Option<f64> {
    let best = |a: f64, b: f64| if (a <= own) == (b <= own) { (a <= own) == (a > b) && a != b } else { a <= own };
    let first = added.iter_mut().reduce(|a, b| if best(*b, *a) { b } else { a });
    let free = first.filter(|free| best(**free, other))?;
    let begin = own.max(*free);
    *free = other;
    Some(begin)
}

/// Removes the delay of a wake-up that is not needed: if the item that the machine slept for had
/// been there before, the machine would not have slept. If the item was there in the trace, the
/// machine was woken all the same.
fn skip_wake_up(replayed: &mut ReplayedMachine, own: &[f64], ns: f64, row: &Row) {
    let Some(slept) = replayed.slept.as_ref().filter(|slept| own[OBSERVED] > slept[OBSERVED]) else { return };
    for lane in UNCHANGED..own.len() {
        if own[lane] <= slept[lane] {
            replayed.v[lane] -= ns * row.as_ref().map_or(1.0, |row| row[lane]);
        }
    }
}

impl Replay {
    /// Gives the machine its CPU in every world.
    pub fn start(&mut self, machine: MachineId, t: u64, start: &CpuStart) {
        let CpuStart { left, off, host, .. } = *start;
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.past.jump(replayed.t, t, &replayed.v, replayed.node, self.most_past);
        let is_preempted = [left, off].into_iter().flatten().any(|left| left.why == Leaving::Preempted);
        let has_several = self.cpus.used.get(host).is_some_and(CpusInUse::has_several);
        self.cpus.one.of(host, OneCpu::default).end_order(is_preempted || has_several);
        replayed.cpu.host = Some(host);
        self.scratch.times.copy_from_slice(&replayed.v);
        match left {
            Some(left) => self.start_on_left(machine, start, left),
            None => self.start_on_unused(machine, start),
        }
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.begin_cpu_work();
        if replayed.is_recorder {
            self.recorder_takes_cpu(machine, left);
        }
    }

    /// Starts on a CPU that was not in use in the trace.
    fn start_on_unused(&mut self, machine: MachineId, start: &CpuStart) {
        let &CpuStart { off, ns, key, host, .. } = start;
        let (layout, row) = (self.layout, &self.factors[key as usize]);
        let replayed = &mut self.machines[machine.0 as usize];
        replayed.sleeps = false;
        let own = &self.scratch.times;
        let one_cpu = self.cpus.one.of(host, OneCpu::default);
        one_cpu.take(machine, (layout, &self.cpus.more), own, None, &mut replayed.v);
        replayed.take_cpu(None);
        add_delay(&mut replayed.v, Turn::of(off, &self.slots, &self.cpus.most), ns, row);
        let added = if replayed.is_recorder { &[][..] } else { &self.cpus.added };
        for &(scenario, more) in added {
            let [lane, bare] = layout.of(scenario);
            let extra = self.cpus.extra.of((host, scenario), || vec![0.0; more as usize]);
            let own = self.scratch.times[lane];
            // The CPU of the trace would have been enough as far as is known, so an added CPU that
            // is used instead stays free for the next machine.
            if extra.iter().any(|&free| free <= own) {
                replayed.v[lane] = own;
            }
            replayed.v[bare] = self.scratch.times[bare];
        }
        replayed.node = self.paths.own(replayed.node, key, ns);
    }

    /// Starts on the CPU that another machine left. `scratch.times` are the times at which the
    /// machine is ready.
    fn start_on_left(&mut self, machine: MachineId, start: &CpuStart, left: LeftCpu) {
        let &CpuStart { off, ns, key, host, .. } = start;
        let (layout, row) = (self.layout, &self.factors[key as usize]);
        let replayed = &mut self.machines[machine.0 as usize];
        let (own, other) = (&self.scratch.times, self.slots.lanes(left.slot));
        let kept = layout.kept();
        time_vector::won(&replayed.v[kept.clone()], &other[kept.clone()], 0.0, None, &mut self.scratch.bits);
        time_vector::later(&mut replayed.v, other, 0.0);
        let turn = Turn::of(off, &self.slots, &self.cpus.most);
        let busy = self.slots.lanes(left.busy);
        let wait = CpuWait {
            layout,
            left,
            off,
            turn,
            own,
            waited: (other[OBSERVED] - own[OBSERVED]).max(0.0),
            got_at: self.slots.lanes(left.got_at),
            busy,
            before: off.filter(|off| off.chain == left.chain).map(|off| self.slots.lanes(off.busy)),
        };
        if wait.apply(&mut replayed.v, &mut self.scratch.early) {
            self.scratch.bits.iter_mut().zip(&self.scratch.early).for_each(|(bits, early)| *bits &= !early);
            let node = Node { before: replayed.node, other: replayed.node, ns: wait.waited, key, kind: NodeKind::Meet };
            replayed.node = self.paths.meet(node, &self.scratch.early);
        }
        let one_cpu = self.cpus.one.of(host, OneCpu::default);
        one_cpu.take(machine, (layout, &self.cpus.more), own, Some(other), &mut replayed.v);
        if let Some(row) = row {
            // If the wait for a CPU is itself scaled, it takes that part of its time, whichever
            // machine has the CPU: a quota that is lifted does not wait for others.
            for (lane, (v, own)) in replayed.v.iter_mut().zip(own).enumerate() {
                *v = own + (*v - own) * row[lane];
            }
            for lane in kept.filter(|&lane| row[lane] == 0.0) {
                time_vector::clear_bit(&mut self.scratch.bits, lane);
            }
        }
        for &(scenario, more) in if replayed.is_recorder { &[][..] } else { &self.cpus.added } {
            let [lane, bare] = layout.of(scenario);
            let extra = self.cpus.extra.of((host, scenario), || vec![0.0; more as usize]);
            if let Some(free) = added_cpu(extra, own[lane], other[lane]) {
                replayed.v[lane] = free;
                time_vector::clear_bit(&mut self.scratch.bits, lane);
            }
            replayed.v[bare] = own[bare];
        }
        replayed.take_cpu(Some(busy));
        add_delay(&mut replayed.v, turn, ns, row);
        if std::mem::take(&mut replayed.sleeps) && off.is_none() {
            skip_wake_up(replayed, own, ns, row);
        }
        let node = Node { before: replayed.node, other: self.slots.node(left.slot), ns, key, kind: NodeKind::AfterBoth };
        replayed.node = self.paths.meet(node, &self.scratch.bits);
    }
}
