//! Groups of machines that wait for each other. Only the work of the group whose end counts can
//! delay that end.

use longpole_model::interaction::MachineId;

/// Groups of connected machines, as a union-find structure: each machine refers to another one of
/// its group, the group's root to itself.
#[derive(Debug, Default)]
pub struct Groups(Vec<u32>);

impl Groups {
    pub fn join(&mut self, a: MachineId, b: MachineId) {
        let (a, b) = (self.find(a.0), self.find(b.0));
        if a != b {
            self.0[a as usize] = b;
        }
    }

    /// Returns the root of the machine's group.
    pub fn find(&mut self, machine: u32) -> u32 {
        let known = self.0.len() as u32;
        if machine >= known {
            self.0.extend(known..=machine);
        }
        let mut at = machine;
        while self.0[at as usize] != at {
            let above = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = above;
            at = above;
        }
        at
    }

    /// Returns the machines that are connected with this one, among the first `count` machines.
    pub fn members(&mut self, machine: MachineId, count: usize) -> Members {
        let root = self.find(machine.0);
        Members((0..count as u32).map(|at| self.find(at) == root).collect())
    }
}

/// The machines of one group.
#[derive(Clone, Debug)]
pub struct Members(Vec<bool>);

impl Members {
    pub fn has(&self, machine: u32) -> bool {
        self.0.get(machine as usize).copied().unwrap_or(false)
    }
}
