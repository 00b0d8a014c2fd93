//! What machines do to themselves and to each other: the vocabulary that the critical path is computed from.
//!
//! It says the same as the machine log ([`crate::machine_log`]) and no more, but with ids instead of text. Whatever can tell of machines
//! (a machine log, rules over a trace, a simulator) yields interactions in the order of time; analyses read nothing else.

use crate::block::{New, Told};
use crate::hash::IdMap;
use crate::names::{NameId, Names};
use crate::tokens::{Amount, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MachineId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);

/// One deed at one moment. Those of equal `t` happen in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interaction {
    /// ns on the one clock of all hosts, never decreasing.
    pub t: u64,
    /// Where it stands in its source (the line of a machine log), for those who report about it.
    pub line: u64,
    pub deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Time has come so far, and nothing happens.
    Now,
    /// A queue that is not unlimited, first-in first-out and empty; before its first use.
    Declare {
        queue: QueueId,
        shape: Shape,
    },
    /// The machine is of this class, not of that named like itself; before its first deed.
    Class {
        machine: MachineId,
        class: NameId,
    },
    /// The machine exists.
    Here {
        machine: MachineId,
    },
    /// The machine's lineage begins with an edge from another one's.
    Fork {
        machine: MachineId,
        cause: Cause,
    },
    State {
        machine: MachineId,
        state: NameId,
    },
    Block {
        machine: MachineId,
        why: NameId,
        on: Option<QueueId>,
        wants: Option<Wants>,
    },
    Put {
        machine: MachineId,
        queue: QueueId,
        n: u64,
        flow: Option<NameId>,
        link: Option<NameId>,
    },
    Get {
        machine: MachineId,
        queue: QueueId,
        amount: Amount,
        flow: Option<NameId>,
    },
    /// As a get, but nothing is taken.
    Peek {
        machine: MachineId,
        queue: QueueId,
        amount: Amount,
        flow: Option<NameId>,
    },
    /// Takes space early; the machine's next put uses it first.
    Reserve {
        machine: MachineId,
        queue: QueueId,
        n: u64,
    },
    /// The machine is unblocked; no cause means that it is not known.
    Wake {
        machine: MachineId,
        cause: Option<Cause>,
    },
    /// The machine is a context that begins on top of another one, or on an idle CPU. Its cause may be said, also that it is not known.
    Push {
        machine: MachineId,
        below: Option<MachineId>,
        cause: Option<Option<Cause>>,
    },
    Pop {
        machine: MachineId,
    },
    Stop {
        machine: MachineId,
    },
    /// Whose end counts.
    End {
        machine: MachineId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub by: MachineId,
    /// When the cause happened; not said: now.
    pub at: Option<u64>,
    pub link: Option<NameId>,
}

/// What a blocked machine waits for in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Tokens,
    Space,
}

/// The names behind the ids.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    pub names: Names,
    machines: Vec<(NameId, NameId)>,
    machine_ids: IdMap<(NameId, NameId), MachineId>,
    queues: Vec<NameId>,
    queue_ids: IdMap<NameId, QueueId>,
    /// Of names: it is a call of the kernel's.
    calls: Vec<bool>,
    /// Machines that are threads of the kernel; and of each machine, whether it is one.
    of_kernel: Vec<MachineId>,
    is_of_kernel: Vec<bool>,
    /// Machines that were found to be the recorder, or not to be it after all; and of each machine, whether it is.
    recorders: Vec<(MachineId, bool)>,
    is_recorder: Vec<bool>,
    /// What queues that are used for one name after the other are called now.
    passing: IdMap<QueueId, String>,
    /// Those that were called something else since somebody looked. None: nobody does.
    renamed: Option<Vec<QueueId>>,
}

impl Vocabulary {
    pub fn machine(&mut self, host: &str, name: &str) -> MachineId {
        let key = (self.names.intern(host), self.names.intern(name));
        let machines = &mut self.machines;
        *self.machine_ids.entry(key).or_insert_with(|| {
            machines.push(key);
            MachineId(machines.len() as u32 - 1)
        })
    }

    pub fn queue(&mut self, name: &str) -> QueueId {
        let name = self.names.intern(name);
        let queues = &mut self.queues;
        *self.queue_ids.entry(name).or_insert_with(|| {
            queues.push(name);
            QueueId(queues.len() as u32 - 1)
        })
    }

    /// A state of this name is the kernel at work for a thread.
    pub fn mark_system_call(&mut self, name: NameId) {
        let at = name.0 as usize;
        if self.calls.len() <= at {
            self.calls.resize(at + 1, false);
        }
        self.calls[at] = true;
    }

    pub fn is_system_call(&self, name: NameId) -> bool {
        self.calls.get(name.0 as usize).copied().unwrap_or(false)
    }

    /// The machine is a thread of the kernel.
    pub fn mark_of_kernel(&mut self, machine: MachineId) {
        let at = machine.0 as usize;
        if self.is_of_kernel.len() <= at {
            self.is_of_kernel.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_of_kernel[at], true) {
            self.of_kernel.push(machine);
        }
    }

    pub fn is_of_kernel(&self, machine: MachineId) -> bool {
        self.is_of_kernel.get(machine.0 as usize).copied().unwrap_or(false)
    }

    /// Whether the machine is the recorder of the trace, which is no part of what was recorded.
    pub fn mark_recorder(&mut self, machine: MachineId, is: bool) {
        if self.is_recorder(machine) != is {
            let at = machine.0 as usize;
            if self.is_recorder.len() <= at {
                self.is_recorder.resize(at + 1, false);
            }
            self.is_recorder[at] = is;
            self.recorders.push((machine, is));
        }
    }

    #[inline]
    pub fn is_recorder(&self, machine: MachineId) -> bool {
        self.is_recorder.get(machine.0 as usize).copied().unwrap_or(false)
    }

    pub fn machines(&self) -> impl Iterator<Item = MachineId> {
        (0..self.machines.len() as u32).map(MachineId)
    }

    pub fn host_id(&self, machine: MachineId) -> Option<NameId> {
        self.machines.get(machine.0 as usize).map(|machine| machine.0)
    }

    pub fn host(&self, machine: MachineId) -> &str {
        self.host_id(machine).map_or("", |id| self.names.text(id))
    }

    pub fn name_id(&self, machine: MachineId) -> Option<NameId> {
        self.machines.get(machine.0 as usize).map(|machine| machine.1)
    }

    pub fn machine_name(&self, machine: MachineId) -> &str {
        self.name_id(machine).map_or("", |id| self.names.text(id))
    }

    /// The queue of this name, if there is one.
    pub fn known_queue(&self, name: &str) -> Option<QueueId> {
        self.queue_ids.get(&self.names.find(name)?).copied()
    }

    /// A queue that bears this name for now and `shared` for good; one that is no longer used, or else a new one.
    pub fn passing_queue(&mut self, name: &str, shared: NameId, unused: Option<QueueId>) -> QueueId {
        let queue = unused.unwrap_or_else(|| {
            self.queues.push(shared);
            QueueId(self.queues.len() as u32 - 1)
        });
        self.rename(queue, name);
        if let Some(renamed) = &mut self.renamed {
            renamed.push(queue);
        }
        queue
    }

    pub(crate) fn rename(&mut self, queue: QueueId, name: &str) {
        let now = self.passing.entry(queue).or_default();
        now.clear();
        now.push_str(name);
    }

    /// From now on it keeps in mind which passing queues change their names, until the next block gets them.
    pub fn note_renames(&mut self) {
        self.renamed.get_or_insert_default().extend(self.passing.keys());
    }

    #[inline]
    pub(crate) fn has_renamed(&self) -> bool {
        self.renamed.as_ref().is_some_and(|renamed| !renamed.is_empty())
    }

    /// Passing queues whose name changed since this was asked before, with the name.
    pub(crate) fn each_renamed(&mut self, mut visit: impl FnMut(QueueId, &str)) {
        for queue in self.renamed.iter_mut().flat_map(|renamed| renamed.drain(..)) {
            visit(queue, self.passing.get(&queue).map_or("", String::as_str));
        }
    }

    /// What has been added to it beyond what was told, which is all then.
    pub(crate) fn since(&self, told: &mut Told) -> New {
        let new = New {
            names: self.names.texts()[told.names..].to_vec(),
            machines: self.machines[told.machines..].to_vec(),
            queues: self.queues[told.queues..].to_vec(),
            of_kernel: self.of_kernel[told.of_kernel..].to_vec(),
            recorders: self.recorders[told.recorders..].to_vec(),
        };
        let (machines, queues) = (self.machines.len(), self.queues.len());
        let (of_kernel, recorders) = (self.of_kernel.len(), self.recorders.len());
        *told = Told { names: self.names.len(), machines, queues, of_kernel, recorders };
        new
    }

    /// Adds what was added to another one: enough to ask for names by their ids, not the other way round.
    pub(crate) fn learn(&mut self, new: &New) {
        self.names.learn(&new.names);
        self.machines.extend_from_slice(&new.machines);
        self.queues.extend_from_slice(&new.queues);
        new.of_kernel.iter().for_each(|&machine| self.mark_of_kernel(machine));
        new.recorders.iter().for_each(|&(machine, is)| self.mark_recorder(machine, is));
    }

    /// What it is called now.
    pub fn queue_name(&self, queue: QueueId) -> &str {
        self.passing.get(&queue).map_or_else(|| self.link_name(queue), String::as_str)
    }

    /// What its links are called.
    pub fn link_name(&self, queue: QueueId) -> &str {
        self.names.text(self.link_id(queue))
    }

    pub fn link_id(&self, queue: QueueId) -> NameId {
        self.queues.get(queue.0 as usize).copied().unwrap_or(NameId(u32::MAX))
    }
}
