//! Slots: shared time vectors with counted holds.
//!
//! A slot has the times at which a token, a unit of room or a free CPU was made, in every world.
//! The machine that makes it fills the slot, perhaps later than the receiver asks for it; the
//! receiver then waits until the slot is filled. A slot without holds is reused.

/// All slots, and the machines that wait until one of them is filled.
#[derive(Debug)]
pub struct Slots {
    lanes: usize,
    data: Vec<f64>,
    slots: Vec<Slot>,
    /// Slots that nothing holds any more.
    pub free: Vec<u32>,
    /// Number of slots that are held.
    held: usize,
}

#[derive(Debug, Default)]
struct Slot {
    holds: u32,
    filled: bool,
    node: u64,
    /// Machines that wait until the slot is filled.
    waiting: Vec<u32>,
}

impl Slots {
    pub fn new(lanes: usize) -> Slots {
        Slots { lanes, data: Vec::new(), slots: Vec::new(), free: Vec::new(), held: 0 }
    }

    /// Makes an empty slot with this number, held once. Nothing else holds it.
    pub fn make(&mut self, at: u32) {
        let slots = at as usize + 1;
        if slots > self.slots.len() {
            self.slots.resize_with(slots, Slot::default);
            self.data.resize(slots * self.lanes, 0.0);
        }
        let slot = &mut self.slots[at as usize];
        (slot.holds, slot.filled) = (1, false);
        self.held += 1;
    }

    pub fn hold(&mut self, at: u32) {
        self.slots[at as usize].holds += 1;
    }

    pub fn release(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.holds -= 1;
        if slot.holds == 0 {
            self.free.push(at);
            self.held -= 1;
        }
    }

    pub fn is_filled(&self, at: u32) -> bool {
        self.slots[at as usize].filled
    }

    pub fn node(&self, at: u32) -> u64 {
        self.slots[at as usize].node
    }

    pub fn lanes(&self, at: u32) -> &[f64] {
        &self.data[at as usize * self.lanes..][..self.lanes]
    }

    /// Fills the slot. Returns the machines that waited for it.
    pub fn fill(&mut self, at: u32, v: &[f64], node: u64) -> Vec<u32> {
        self.data[at as usize * self.lanes..][..self.lanes].copy_from_slice(v);
        let slot = &mut self.slots[at as usize];
        (slot.filled, slot.node) = (true, node);
        std::mem::take(&mut slot.waiting)
    }

    /// Registers a machine to be woken when the slot is filled.
    pub fn wait(&mut self, at: u32, machine: u32) {
        self.slots[at as usize].waiting.push(machine);
    }

    /// Number of slots that are held.
    pub fn live(&self) -> usize {
        self.held
    }
}
