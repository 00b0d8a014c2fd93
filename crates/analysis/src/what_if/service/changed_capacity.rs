//! A queue whose capacity a scenario changes. With a capacity of K units, the n-th put unit needs
//! the room of the (n − K)-th unit that was got. With another K, the room comes from another get.
//!
//! Example: with `queue work capacity 2` the fifth put needs the room of the third get, and waits
//! until that get in the same world.

use crate::what_if::worlds::slots::Slots;
use crate::what_if::worlds::time_vector::Layout;
use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// Largest number of gets that are remembered for scenarios with a larger capacity; older ones are
/// not waited for.
const MAX_RETURNS: usize = 1 << 14;

/// The room of one queue, in the worlds that change its capacity.
#[derive(Debug)]
pub struct ChangedCapacity {
    /// Scenario, and units that are free from the start (`None`: unlimited).
    scenarios: Vec<(usize, Option<u64>)>,
    /// Units that are in the queue from the start.
    initial: u64,
    /// Gets: the number of the first unit, the number of units, and the slot with the times of the
    /// get.
    returns: VecDeque<(u64, u64, u32)>,
    got: u64,
    put: u64,
    reserved: IdMap<MachineId, u64>,
    waiting: Vec<u32>,
}

impl ChangedCapacity {
    pub fn new(initial: u64, scenarios: &[(usize, Option<u64>)]) -> ChangedCapacity {
        let scenarios = scenarios.iter().map(|&(scenario, units)| (scenario, units.map(|units| units.saturating_sub(initial)))).collect();
        ChangedCapacity { scenarios, initial, returns: VecDeque::new(), got: 0, put: 0, reserved: IdMap::default(), waiting: Vec::new() }
    }

    pub fn lanes(&self, layout: Layout) -> impl Iterator<Item = usize> + '_ {
        self.scenarios.iter().flat_map(move |&(scenario, _)| layout.of(scenario))
    }

    pub fn scenario_of(&self, lane: usize, layout: Layout) -> Option<usize> {
        self.scenarios.iter().position(|&(scenario, _)| layout.of(scenario).contains(&lane))
    }

    /// Returns the capacity in a scenario, if the scenario changes it.
    pub fn units(&self, scenario: usize) -> Option<u64> {
        let &(_, free) = self.scenarios.iter().find(|changed| changed.0 == scenario)?;
        Some(free.map_or(u64::MAX, |free| free + self.initial))
    }

    /// Takes room for a put. Returns the number of its last unit that was not reserved.
    pub fn take(&mut self, machine: MachineId, n: u64) -> Option<u64> {
        let reserved = self.reserved.entry(machine).or_default();
        let early = n.min(*reserved);
        *reserved -= early;
        self.put = self.put.saturating_add(n - early);
        (n > early).then(|| self.put - 1)
    }

    /// Reserves room for a later put. Returns the number of the last unit.
    pub fn reserve(&mut self, machine: MachineId, n: u64) -> Option<u64> {
        let reserved = self.reserved.entry(machine).or_default();
        *reserved = reserved.saturating_add(n);
        self.put = self.put.saturating_add(n);
        self.put.checked_sub(1)
    }

    /// Frees `n` units by a get whose times will be in the slot; takes over a hold of the slot.
    /// Returns the machines that may wait for them, and a slot that is no longer needed.
    pub fn give(&mut self, n: u64, slot: u32) -> (Vec<u32>, Option<u32>) {
        self.returns.push_back((self.got, n, slot));
        self.got = self.got.saturating_add(n);
        let old = if self.returns.len() > MAX_RETURNS { self.returns.pop_front() } else { None };
        (std::mem::take(&mut self.waiting), old.map(|old| old.2))
    }

    /// Returns the slot of the get that frees a unit in a world.
    pub fn unit(&self, which: usize, unit: u64) -> Option<u32> {
        let free = self.scenarios.get(which)?.1?;
        let needed = unit.checked_sub(free)?;
        let after = self.returns.partition_point(|&(first, ..)| first <= needed);
        let &(first, n, slot) = self.returns.get(after.checked_sub(1)?)?;
        (needed < first.saturating_add(n)).then_some(slot)
    }

    /// Returns whether all worlds have the unit. The error is the slot that is not filled yet, or
    /// `None` if the unit has not been got.
    pub fn needed(&mut self, unit: u64, machine: MachineId, slots: &Slots) -> Result<(), Option<u32>> {
        for (which, &(_, free)) in self.scenarios.iter().enumerate() {
            let Some(needed) = free.and_then(|free| unit.checked_sub(free)) else { continue };
            if needed >= self.got {
                self.waiting.push(machine.0);
                return Err(None);
            }
            if let Some(slot) = self.unit(which, unit).filter(|&slot| !slots.is_filled(slot)) {
                return Err(Some(slot));
            }
        }
        Ok(())
    }

    /// Forgets gets before all units that any world may still need after this one. Returns their
    /// slots.
    pub fn forget(&mut self, unit: u64) -> Vec<u32> {
        let most = self.scenarios.iter().filter_map(|scenario| scenario.1).max().unwrap_or(0);
        let until = unit.saturating_sub(most);
        let mut gone = Vec::new();
        while self.returns.front().is_some_and(|&(first, n, _)| first.saturating_add(n) <= until) {
            gone.extend(self.returns.pop_front().map(|old| old.2));
        }
        gone
    }

    /// Gives unlimited room to the worlds that cannot have this unit. Returns their scenarios.
    pub fn give_up(&mut self, unit: u64, never: bool, slots: &Slots) -> Vec<usize> {
        let mut gone = Vec::new();
        for which in 0..self.scenarios.len() {
            let (scenario, free) = self.scenarios[which];
            let Some(needed) = free.and_then(|free| unit.checked_sub(free)) else { continue };
            let waits = !never && self.unit(which, unit).is_some_and(|slot| !slots.is_filled(slot));
            if needed >= self.got || waits {
                self.scenarios[which].1 = None;
                gone.push(scenario);
            }
        }
        gone
    }
}
