//! The threads of a trace as machines, found by their ids in the model of the kernel and in that of
//! probes.

use super::threads::ThreadMachine;
use crate::actors::ActorId;
use crate::hash::IdMap;
use crate::interaction::MachineId;
use crate::linux::watch::ThreadId;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

/// All threads, by an index that this table assigns.
///
/// An interrupt context to which a user's rule gives a state has an entry, too: that state is
/// stored as for a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    all: Vec<ThreadMachine>,
    of_linux: Vec<Option<u32>>,
    of_actor: Vec<Option<u32>>,
    /// Contexts that a user's rules have named.
    of_context: IdMap<MachineId, u32>,
    /// Threads that only probes have shown, by thread id.
    probed: HashMap<i32, u32>,
}

impl Index<u32> for ThreadTable {
    type Output = ThreadMachine;

    #[inline]
    fn index(&self, at: u32) -> &ThreadMachine {
        &self.all[at as usize]
    }
}

impl IndexMut<u32> for ThreadTable {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut ThreadMachine {
        &mut self.all[at as usize]
    }
}

impl ThreadTable {
    pub fn push(&mut self, thread: ThreadMachine) -> u32 {
        self.all.push(thread);
        self.all.len() as u32 - 1
    }

    #[inline]
    pub fn of_linux(&self, id: ThreadId) -> Option<u32> {
        self.of_linux.get(id.0 as usize).copied().flatten()
    }

    pub fn set_linux(&mut self, id: ThreadId, at: u32) {
        set(&mut self.of_linux, id.0, at);
        self[at].linux = Some(id);
    }

    #[inline]
    pub fn of_actor(&self, id: ActorId) -> Option<u32> {
        self.of_actor.get(id.0 as usize).copied().flatten()
    }

    pub fn set_actor(&mut self, id: ActorId, at: u32) {
        set(&mut self.of_actor, id.0, at);
        self[at].actor = Some(id);
    }

    #[inline]
    pub fn of_context(&self, machine: MachineId) -> Option<u32> {
        if self.of_context.is_empty() {
            return None;
        }
        self.of_context.get(&machine).copied()
    }

    pub fn set_context(&mut self, machine: MachineId, at: u32) {
        self.of_context.insert(machine, at);
    }

    /// Notes that only probes have shown the thread with this id.
    pub fn set_probed(&mut self, tid: i32, at: u32) {
        self.probed.insert(tid, at);
    }

    /// The living thread with this id that only probes have shown until now.
    pub fn take_probed(&mut self, tid: i32) -> Option<u32> {
        self.probed.remove(&tid).filter(|&at| self[at].machine.is_some())
    }
}

fn set(table: &mut Vec<Option<u32>>, id: u32, at: u32) {
    if table.len() <= id as usize {
        table.resize(id as usize + 1, None);
    }
    table[id as usize] = Some(at);
}
