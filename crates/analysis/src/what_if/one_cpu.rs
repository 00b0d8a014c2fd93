//! A host with one CPU from which no thread is preempted: the thread that is ready first gets it
//! first, also in a world where that is another thread than in the trace.
//!
//! With several CPUs, or with preemption, the kernel chooses which thread has a CPU and for how
//! long; that choice stays as observed.

use super::cpus::{Leaving, LeftCpu};
use super::lanes::{Layout, KEPT};
use super::line::{Clients, Line, Waits, MOST};
use super::scale::Scale;
use super::WhatIf;
use longpole_model::interaction::MachineId;

/// The CPU of one host in the worlds of the scenarios.
#[derive(Debug, Default)]
pub struct OneCpu {
    /// Two lines for each scenario, in the order of [`Layout::of`].
    pub lines: Vec<Line>,
    clients: Clients,
    by: Option<MachineId>,
    /// Time in the unchanged world at which the last thread to have the CPU became ready.
    ready: f64,
    /// The host has several CPUs, or the kernel takes its CPU away or does not follow the order.
    is_other: bool,
}

impl OneCpu {
    /// Ends the use of this order for the host if `is_over` is true (it has several CPUs, or a
    /// thread was preempted), or if another machine still has the CPU.
    pub fn is_over(&mut self, is_over: bool) {
        self.is_other |= is_over || self.by.is_some();
    }

    /// Gives the CPU to a machine that is ready at `own`; it has the CPU at `v`, and the CPU was
    /// left at `left`. Worlds with more CPUs are skipped.
    pub fn is_had(&mut self, machine: MachineId, scale: &Scale, layout: Layout, own: &[f64], left: Option<&[f64]>, v: &mut [f64]) {
        // The kernel did not choose the thread that was ready first.
        self.is_other |= own[KEPT] < self.ready;
        self.ready = own[KEPT];
        if self.is_other {
            return;
        }
        self.by = Some(machine);
        self.lines.resize(2 * layout.scenarios, Line::default());
        let client = self.clients.number(machine);
        for (at, line) in self.lines.iter_mut().enumerate().filter(|(at, _)| scale.cpus(at / 2) == 0) {
            let lane = layout.of(at / 2)[at % 2];
            let turn = left.map_or(own[lane], |left| own[lane].max(left[lane]));
            v[lane] = line.takes(client, own[lane], own[lane], turn, Waits::Done, MOST);
        }
    }
}

impl WhatIf {
    /// The machine leaves the CPU at `scratch`, which becomes the time at which the CPU is free for
    /// the next thread in the order of the trace.
    pub(super) fn leaves_one_cpu(&mut self, machine: MachineId, left: LeftCpu) {
        let replay = &mut self.lives[machine.0 as usize].replay;
        let Some(one) = replay.has_one_of.take().and_then(|host| self.one_cpus.get_mut(host)) else { return };
        if one.by.take_if(|by| *by == machine).is_none() {
            return;
        }
        one.is_other |= left.why != Leaving::Done;
        let client = one.clients.number(machine);
        let scale = &self.scale;
        for (at, line) in one.lines.iter_mut().enumerate().filter(|(at, _)| scale.cpus(at / 2) == 0) {
            let lane = self.layout.of(at / 2)[at % 2];
            self.scratch[lane] = line.ends(client, replay.v[lane], Waits::Done);
        }
    }
}
