//! A host with one CPU that nobody is put off: whoever is ready first has it first, also in a world where that is another one than in the trace.
//!
//! Where there are several CPUs, or somebody is put off one, who has which and for how long is the kernel's choice, and stays as observed.

use super::cpus::{Leaving, Left};
use super::lanes::{Layout, KEPT};
use super::line::{Clients, Line, Waits, MOST};
use super::scale::Scale;
use super::WhatIf;
use longpole_model::interaction::MachineId;

#[derive(Debug, Default)]
pub struct OneCpu {
    /// Two of each scenario, as in [`Layout::of`].
    pub lines: Vec<Line>,
    clients: Clients,
    by: Option<MachineId>,
    /// When who had it last was ready, in the unchanged world.
    ready: f64,
    /// There are several, or it is taken away.
    is_other: bool,
}

impl OneCpu {
    /// This is about no host with one CPU, which nobody is put off.
    pub fn is_over(&mut self, is_over: bool) {
        self.is_other |= is_over || self.by.is_some();
    }

    /// A machine that is ready at `own` has it, at `v`; somebody has left it at `left`. More CPUs may be added in some worlds.
    pub fn is_had(&mut self, machine: MachineId, scale: &Scale, layout: Layout, own: &[f64], left: Option<&[f64]>, v: &mut [f64]) {
        // The kernel did not choose who was ready first.
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
    /// It leaves it; `scratch` is when, and becomes when it is free for the next one in the order of the trace.
    pub(super) fn leaves_one_cpu(&mut self, machine: MachineId, left: Left) {
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
