//! Room in a queue whose capacity a scenario changes. With room for K units, the n-th unit that is put needs the room of the (n − K)-th that was got:
//! another K, another get.

use super::lanes::{Layout, Slots};
use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// Gets that are kept for scenarios with a larger capacity; an older one is not waited for.
const MOST_RETURNS: usize = 1 << 14;

#[derive(Debug)]
pub struct Room {
    /// Scenario, and units that are free from the begin; none: unlimited.
    scenarios: Vec<(usize, Option<u64>)>,
    /// Units that are there from the begin.
    initial: u64,
    /// Units got: the number of the first, how many, and what the get knew.
    returns: VecDeque<(u64, u64, u32)>,
    got: u64,
    put: u64,
    reserved: IdMap<MachineId, u64>,
    waiting: Vec<u32>,
}

impl Room {
    pub fn new(initial: u64, scenarios: &[(usize, Option<u64>)]) -> Room {
        let scenarios = scenarios.iter().map(|&(scenario, units)| (scenario, units.map(|units| units.saturating_sub(initial)))).collect();
        Room { scenarios, initial, returns: VecDeque::new(), got: 0, put: 0, reserved: IdMap::default(), waiting: Vec::new() }
    }

    pub fn lanes(&self, layout: Layout) -> impl Iterator<Item = usize> + '_ {
        self.scenarios.iter().flat_map(move |&(scenario, _)| layout.of(scenario))
    }

    pub fn scenario_of(&self, lane: usize, layout: Layout) -> Option<usize> {
        self.scenarios.iter().position(|&(scenario, _)| layout.of(scenario).contains(&lane))
    }

    /// Room for how many units in a scenario, if that is changed.
    pub fn units(&self, scenario: usize) -> Option<u64> {
        let &(_, free) = self.scenarios.iter().find(|changed| changed.0 == scenario)?;
        Some(free.map_or(u64::MAX, |free| free + self.initial))
    }

    /// The number of the last unit that a put takes which is not reserved.
    pub fn take(&mut self, machine: MachineId, n: u64) -> Option<u64> {
        let reserved = self.reserved.entry(machine).or_default();
        let early = n.min(*reserved);
        *reserved -= early;
        self.put = self.put.saturating_add(n - early);
        (n > early).then(|| self.put - 1)
    }

    pub fn reserve(&mut self, machine: MachineId, n: u64) -> Option<u64> {
        let reserved = self.reserved.entry(machine).or_default();
        *reserved = reserved.saturating_add(n);
        self.put = self.put.saturating_add(n);
        self.put.checked_sub(1)
    }

    /// Units that were got by somebody whose times will be in the slot, of which a hold is taken over. Returns who may wait for them, and
    /// slots that nobody needs any more.
    pub fn give(&mut self, n: u64, slot: u32) -> (Vec<u32>, Option<u32>) {
        self.returns.push_back((self.got, n, slot));
        self.got = self.got.saturating_add(n);
        let old = if self.returns.len() > MOST_RETURNS { self.returns.pop_front() } else { None };
        (std::mem::take(&mut self.waiting), old.map(|old| old.2))
    }

    /// The slot that a unit comes from in a world.
    pub fn unit(&self, which: usize, unit: u64) -> Option<u32> {
        let free = self.scenarios.get(which)?.1?;
        let needed = unit.checked_sub(free)?;
        let after = self.returns.partition_point(|&(first, ..)| first <= needed);
        let &(first, n, slot) = self.returns.get(after.checked_sub(1)?)?;
        (needed < first.saturating_add(n)).then_some(slot)
    }

    /// Whether all worlds have the unit; else the slot that is not filled, or none if nobody has got it yet.
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

    /// Units before those that any world may still need after this one.
    pub fn forget(&mut self, unit: u64) -> Vec<u32> {
        let most = self.scenarios.iter().filter_map(|scenario| scenario.1).max().unwrap_or(0);
        let until = unit.saturating_sub(most);
        let mut gone = Vec::new();
        while self.returns.front().is_some_and(|&(first, n, _)| first.saturating_add(n) <= until) {
            gone.extend(self.returns.pop_front().map(|old| old.2));
        }
        gone
    }

    /// Worlds that cannot have this unit have as much room as they need from now on; returns which they were.
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
