//! A host with one CPU from which no thread is preempted: the thread that is ready first gets it
//! first, also in a world where that is another thread than in the trace.
//!
//! With several CPUs, or with preemption, the kernel chooses which thread has a CPU and for how
//! long; that choice stays as observed.

use super::arrival_order::{ArrivalOrder, Clients, Waits, MAX_REMEMBERED};
use crate::what_if::worlds::time_vector::{Layout, UNCHANGED};
use longpole_model::interaction::MachineId;

/// The CPU of one host in the worlds of the scenarios.
#[derive(Debug, Default)]
pub struct OneCpu {
    /// Two orders for each scenario, in the order of [`Layout::of`].
    pub orders: Vec<ArrivalOrder>,
    clients: Clients,
    by: Option<MachineId>,
    /// Time in the unchanged world at which the last thread to have the CPU became ready.
    ready: f64,
    /// The host has several CPUs, or the kernel takes its CPU away or does not follow the order.
    has_ended: bool,
}

impl OneCpu {
    /// Ends the use of this order for the host if `is_over` is true (it has several CPUs, or a
    /// thread was preempted), or if another machine still has the CPU.
    pub fn end_order(&mut self, is_over: bool) {
        self.has_ended |= is_over || self.by.is_some();
    }

    /// Gives the CPU to a machine that is ready at `own`; it has the CPU at `v`, and the CPU was
    /// left at `left`. Worlds with more CPUs (`more`, by scenario) are skipped.
    pub fn take(&mut self, machine: MachineId, (layout, more): (Layout, &[u32]), own: &[f64], left: Option<&[f64]>, v: &mut [f64]) {
        // The kernel did not choose the thread that was ready first.
        self.has_ended |= own[UNCHANGED] < self.ready;
        self.ready = own[UNCHANGED];
        if self.has_ended {
            return;
        }
        self.by = Some(machine);
        self.orders.resize(2 * layout.scenarios, ArrivalOrder::default());
        let client = self.clients.number(machine);
        for (at, order) in self.orders.iter_mut().enumerate().filter(|(at, _)| more[at / 2] == 0) {
            let lane = layout.of_entry(at);
            let turn = left.map_or(own[lane], |left| own[lane].max(left[lane]));
            v[lane] = order.take(client, own[lane], own[lane], turn, Waits::Done, MAX_REMEMBERED);
        }
    }

    /// Takes the CPU from a machine that leaves it at `v`; `is_done` is false if the machine would
    /// have continued. `free` gets the time at which the CPU is free for the next thread in the
    /// order of the trace.
    pub fn leave(&mut self, machine: MachineId, (layout, more): (Layout, &[u32]), is_done: bool, v: &[f64], free: &mut [f64]) {
        if self.by.take_if(|by| *by == machine).is_none() {
            return;
        }
        self.has_ended |= !is_done;
        let client = self.clients.number(machine);
        for (at, order) in self.orders.iter_mut().enumerate().filter(|(at, _)| more[at / 2] == 0) {
            let lane = layout.of_entry(at);
            free[lane] = order.end_service(client, v[lane], Waits::Done);
        }
    }
}
