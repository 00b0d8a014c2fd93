//! What machines do to themselves and to each other: the vocabulary that the critical path is
//! computed from.
//!
//! It says the same as the machine log (docs/formats/machine-log.md) and no more, but with ids
//! instead of text. Whatever can tell of machines (a machine log, rules over a trace, a simulator)
//! yields interactions in the order of time; analyses read nothing else.

pub mod ahead;
pub mod block;
pub mod compact;

use crate::hash::IdMap;
use crate::interaction::block::{New, Told};
use crate::kinds::{queue_label, queue_of_text, NameKind, QueueKind, LOST_EVENTS};
use crate::names::{NameId, Names};
use crate::system::actors::Actors;
use crate::tokens::dense::Dense;
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
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
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

/// What the class of reply queues has behind that of their calls.
const REPLIES: &str = ":reply";

/// A queue as the vocabulary knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    name: NameId,
    kind: QueueKind,
    /// The name of the call or signal; of other queues, their own.
    of: NameId,
    /// The queue under which its time is summed up: the reply queues of a call are one.
    class: NameId,
    /// What its program calls it, and what it says of it, where a program does.
    program: Option<(NameId, Shape)>,
}

/// The names behind the ids.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    pub names: Names,
    /// Who the events of programs are of.
    pub actors: Actors,
    machines: Vec<(NameId, NameId)>,
    machine_ids: IdMap<(NameId, NameId), MachineId>,
    queues: Vec<Queue>,
    queue_ids: IdMap<NameId, QueueId>,
    /// Of queues of programs, by their programs' names for them.
    program_queues: Dense<QueueId>,
    /// What programs said of queues that were there already, in the order in which they did.
    described: Vec<(QueueId, NameId, Shape)>,
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
        self.machine_as(host, name, NameKind::Plain)
    }

    /// The machine that a machine log calls so.
    pub fn machine_of_text(&mut self, host: &str, name: &str) -> MachineId {
        self.machine_as(host, name, if name == LOST_EVENTS { NameKind::LostEvents } else { NameKind::Plain })
    }

    /// The machine that stands for all whose events are missing.
    pub fn lost_events(&mut self) -> MachineId {
        self.machine_as("", LOST_EVENTS, NameKind::LostEvents)
    }

    fn machine_as(&mut self, host: &str, name: &str, kind: NameKind) -> MachineId {
        let key = (self.names.intern(host), self.names.intern_as(name, kind));
        let machines = &mut self.machines;
        *self.machine_ids.entry(key).or_insert_with(|| {
            machines.push(key);
            MachineId(machines.len() as u32 - 1)
        })
    }

    /// Whether the machine stands for those whose events are missing.
    pub fn is_lost_events(&self, machine: MachineId) -> bool {
        self.name_id(machine).is_some_and(|name| self.names.kind(name) == NameKind::LostEvents)
    }

    /// A queue of tokens.
    pub fn queue(&mut self, name: &str) -> QueueId {
        self.queue_as(name, QueueKind::Items, name)
    }

    /// The queue that a program calls so.
    pub fn queue_of_program(&mut self, name: NameId) -> QueueId {
        if let Some(&known) = self.program_queues.get(name.0) {
            return known;
        }
        let label = queue_label(self.names.text(name)).into_owned();
        let queue = self.queue(&label);
        *self.program_queues.place(name.0) = Some(queue);
        self.says(queue, name, Shape::default());
        queue
    }

    /// A program says what its queue is like.
    pub fn describe(&mut self, queue: QueueId, shape: Shape) {
        if let Some((name, _)) = self.queues[queue.0 as usize].program.filter(|(_, known)| *known != shape) {
            self.says(queue, name, shape);
        }
    }

    fn says(&mut self, queue: QueueId, name: NameId, shape: Shape) {
        self.queues[queue.0 as usize].program = Some((name, shape));
        self.described.push((queue, name, shape));
    }

    /// What its program said of a queue; of others, nothing.
    #[inline]
    pub fn shape(&self, queue: QueueId) -> Shape {
        self.queues.get(queue.0 as usize).and_then(|queue| queue.program).map_or_else(Shape::default, |(_, shape)| shape)
    }

    /// What its program calls a queue.
    pub fn program_queue_name(&self, queue: QueueId) -> &str {
        let program = self.queues.get(queue.0 as usize).and_then(|queue| queue.program);
        program.map_or("", |(name, _)| self.names.text(name))
    }

    /// Queues that programs name.
    pub fn program_queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        let named = self.queues.iter().zip(0..).filter(|(queue, _)| queue.program.is_some());
        named.map(|(_, at)| QueueId(at))
    }

    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// The queue that a machine log calls so.
    pub fn queue_of_text(&mut self, name: &str) -> QueueId {
        let id = self.names.intern(name);
        match self.queue_ids.get(&id) {
            Some(&known) => known,
            None => {
                let (kind, of) = queue_of_text(name);
                self.queue_as(name, kind, of)
            }
        }
    }

    /// The queue of this name. `of`: the name of the call or signal, if it is a queue of such; the name of a queue of replies is that of the queue of calls, and
    /// `:reply:` with a number.
    pub fn queue_as(&mut self, name: &str, kind: QueueKind, of: &str) -> QueueId {
        let id = self.names.intern(name);
        if let Some(&known) = self.queue_ids.get(&id) {
            return known;
        }
        let made = self.made(id, kind, of);
        self.queues.push(made);
        let queue = QueueId(self.queues.len() as u32 - 1);
        self.queue_ids.insert(id, queue);
        queue
    }

    fn made(&mut self, name: NameId, kind: QueueKind, of: &str) -> Queue {
        match kind {
            QueueKind::Items => Queue { name, kind, of: name, class: name, program: None },
            QueueKind::Calls | QueueKind::Signals => Queue { name, kind, of: self.names.intern(of), class: name, program: None },
            QueueKind::Replies => {
                let text = self.names.text(name);
                let class = text.rfind(REPLIES).map_or(text, |at| &text[..at + REPLIES.len()]).to_owned();
                Queue { name, kind, of: self.names.intern(of), class: self.names.intern(&class), program: None }
            }
        }
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
        let queue = match unused {
            Some(queue) => queue,
            None => {
                let text = self.names.text(shared).to_owned();
                let (kind, of) = queue_of_text(&text);
                let made = self.made(shared, kind, of);
                self.queues.push(made);
                QueueId(self.queues.len() as u32 - 1)
            }
        };
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
    pub fn since(&self, told: &mut Told) -> New {
        let new = New {
            names: self.names.all()[told.names..].to_vec(),
            machines: self.machines[told.machines..].to_vec(),
            queues: self.queues[told.queues..].to_vec(),
            described: self.described[told.described..].to_vec(),
            actors: self.actors.since(&mut told.actors),
            of_kernel: self.of_kernel[told.of_kernel..].to_vec(),
            recorders: self.recorders[told.recorders..].to_vec(),
        };
        let (machines, queues) = (self.machines.len(), self.queues.len());
        let (of_kernel, recorders) = (self.of_kernel.len(), self.recorders.len());
        let (described, actors) = (self.described.len(), told.actors);
        *told = Told { names: self.names.len(), machines, queues, described, actors, of_kernel, recorders };
        new
    }

    /// Adds what was added to another one: enough to ask for names by their ids, not the other way round.
    pub fn learn(&mut self, new: &New) {
        self.names.learn(&new.names);
        self.machines.extend_from_slice(&new.machines);
        self.queues.extend_from_slice(&new.queues);
        new.described.iter().for_each(|&(queue, name, shape)| self.says(queue, name, shape));
        self.actors.learn(&new.actors);
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
        self.queues.get(queue.0 as usize).map_or(NameId(u32::MAX), |queue| queue.name)
    }

    pub fn queue_kind(&self, queue: QueueId) -> QueueKind {
        self.queues.get(queue.0 as usize).map_or(QueueKind::Items, |queue| queue.kind)
    }

    /// The name of the call or signal of which the queue is; of other queues, their own.
    pub fn queue_of(&self, queue: QueueId) -> NameId {
        self.queues.get(queue.0 as usize).map_or(NameId(u32::MAX), |queue| queue.of)
    }

    /// The name under which its time is summed up with that of queues that are alike: `rpc:X:reply` for the reply queues of a call.
    pub fn queue_class(&self, queue: QueueId) -> &str {
        self.queues.get(queue.0 as usize).map_or("", |queue| self.names.text(queue.class))
    }

    /// The queue of calls to which a queue of replies belongs, or the queue itself: the way there and back is one.
    pub fn queue_of_calls(&self, queue: QueueId) -> &str {
        let class = self.queue_class(queue);
        match self.queue_kind(queue) {
            QueueKind::Replies => &class[..class.len() - REPLIES.len()],
            _ => class,
        }
    }
}
