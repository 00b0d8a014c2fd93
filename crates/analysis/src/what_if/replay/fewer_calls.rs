//! Worlds in which a machine makes fewer calls: which part of the cost of a call is paid there.
//!
//! If a world makes one call for N items, a call that served i items in the trace costs i/N of its
//! time. Time that belongs to a call is reduced piece by piece, or as a whole since a mark.
//!
//! Example: a thread writes each item with a system call of 10 µs. With `batch thread::write 10`,
//! each call of the trace served one item and costs 1 µs.

use crate::what_if::operation::PaidCall;
use crate::what_if::worlds::time_vector::Layout;
use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use longpole_model::names::NameId;

/// A scenario's request that a machine call less often.
#[derive(Clone, Debug)]
pub struct BatchChange {
    pub scenario: usize,
    /// Number of items per call.
    pub items: f64,
    /// Name of the state that is the call, if the change names one.
    pub state: Option<String>,
    /// The state's name in the trace, once the machine has been in it.
    pub entered: Option<NameId>,
}

/// The machines that call less often in some world.
#[derive(Debug)]
pub struct FewerCalls {
    layout: Layout,
    changes: IdMap<MachineId, Vec<BatchChange>>,
    /// Scenarios in which some call's cost is spread over more items.
    is_paid: Vec<bool>,
}

impl FewerCalls {
    pub fn new(layout: Layout) -> FewerCalls {
        FewerCalls { layout, changes: IdMap::default(), is_paid: vec![false; layout.scenarios] }
    }

    pub fn add(&mut self, machine: MachineId, changes: Vec<BatchChange>) {
        self.changes.insert(machine, changes);
    }

    pub fn forget(&mut self, machine: MachineId) {
        self.changes.remove(&machine);
    }

    /// Notes that the machine enters a state of its own.
    pub fn enter(&mut self, machine: MachineId, name: NameId, text: &str) {
        for change in self.changes.get_mut(&machine).into_iter().flatten() {
            if change.state.as_deref() == Some(text) {
                change.entered = Some(name);
            }
        }
    }

    pub fn is_paid(&self, scenario: usize) -> bool {
        self.is_paid[scenario]
    }

    /// Returns the lanes of the worlds in which less is paid, with the part that is paid there;
    /// `bits` gets a bit for each of the other worlds.
    pub fn part(&mut self, paid: PaidCall, bits: &mut Vec<u64>) -> Vec<(usize, f64)> {
        let (layout, is_paid) = (self.layout, &mut self.is_paid);
        bits.resize(layout.words(), u64::MAX);
        let changes = self.changes.get(&paid.by).into_iter().flatten();
        changes
            .filter(|change| change.entered == paid.state)
            .flat_map(|change| {
                is_paid[change.scenario] = true;
                let part = paid.items / change.items;
                if part < 1.0 {
                    let world = Layout::world(change.scenario);
                    bits[world / 64] &= !(1 << (world % 64));
                }
                layout.of(change.scenario).map(|lane| (lane, part))
            })
            .collect()
    }
}
