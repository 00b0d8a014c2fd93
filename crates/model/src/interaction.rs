//! Interactions: what machines do to themselves and to each other. The critical path is computed
//! from them.
//!
//! They contain the same information as the machine log (docs/formats/machine-log.md) and no more,
//! but with ids instead of text. Each source (a machine log, rules over a trace, a simulator)
//! yields interactions in the order of time. The critical path, the wait graph and the replay read
//! nothing else.
//!
//! For example, when thread A puts an item into a queue on which thread B is blocked, the source
//! yields [`Effect::Put`] by A and then [`Effect::Get`] by B; the edge from A to B follows from the
//! two.

pub mod ahead;
pub mod block;
pub mod compact;

pub use crate::ids::{MachineId, QueueId};

use crate::actors::Actors;
use crate::hash::IdMap;
use crate::interaction::block::{VocabularyDelta, VocabularySize};
use crate::kinds::{queue_label, queue_of_text, NameKind, QueueKind, LOST_EVENTS};
use crate::names::{NameId, Names};
use crate::tokens::dense::Dense;
use crate::tokens::{Amount, Shape};

/// One effect at one moment. Interactions with equal `t` happen in the order in which they are
/// yielded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interaction {
    /// Time in ns on the common clock of all hosts; never decreases.
    pub t: u64,
    /// Position in the source (the line of a machine log), for error messages.
    pub line: u64,
    pub effect: Effect,
}

/// What a machine does to itself or to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The time has advanced to `t`, and nothing happens.
    Now,
    /// Declares a queue whose shape differs from the default (unlimited, first-in first-out and
    /// empty). Comes before the queue's first use.
    Declare { queue: QueueId, shape: Shape },
    /// Puts the machine into this class instead of the class with the machine's own name. Comes
    /// before the machine's first other effect.
    Class { machine: MachineId, class: NameId },
    /// The machine exists.
    Here { machine: MachineId },
    /// A later interaction may name this moment of the machine as its cause, whatever the machine
    /// does until then. Without this effect, analyses of bounded memory could forget the moment.
    /// A machine log writes it like `Here`, so an analysis treats the two alike.
    Remember { machine: MachineId },
    /// The machine's path begins with an edge from another machine's path.
    Fork { machine: MachineId, cause: Cause },
    /// The machine is in this state from now on.
    State { machine: MachineId, state: NameId },
    /// The machine waits: `why` is the reason, `on` the queue and `wants` what it waits for there,
    /// if it waits in a queue.
    Block { machine: MachineId, why: NameId, on: Option<QueueId>, wants: Option<Wants> },
    /// The machine puts a token of `n` units into the queue. `link` is the kind of time from here
    /// to the get; `None` means the default (through a network between hosts, queued within one).
    Put { machine: MachineId, queue: QueueId, n: u64, flow: Option<NameId>, link: Option<NameId> },
    /// The machine takes units from the queue, in the queue's order, or only those of `flow`.
    Get { machine: MachineId, queue: QueueId, amount: Amount, flow: Option<NameId> },
    /// Like `Get`, but takes nothing.
    Peek { machine: MachineId, queue: QueueId, amount: Amount, flow: Option<NameId> },
    /// Takes space in advance; the machine's next put uses this space first.
    Reserve { machine: MachineId, queue: QueueId, n: u64 },
    /// The machine is unblocked; `None` means that the cause is unknown.
    Wake { machine: MachineId, cause: Option<Cause> },
    /// The machine is a context that begins on top of another machine, or on an idle CPU. The outer
    /// `Option` of `cause` is `None` if the source leaves the cause open, the inner one if the
    /// cause is unknown.
    Push { machine: MachineId, below: Option<MachineId>, cause: Option<Option<Cause>> },
    /// The context ends.
    Pop { machine: MachineId },
    /// The machine ends.
    Stop { machine: MachineId },
    /// The critical path ends here, at this machine; the last such effect counts.
    End { machine: MachineId },
}

/// The cause of an effect on another machine; it becomes an edge of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub by: MachineId,
    /// Time of the cause; `None` means the time of the effect.
    pub at: Option<u64>,
    pub link: Option<NameId>,
}

/// What a blocked machine waits for in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Tokens,
    Space,
}

/// Suffix that the class of reply queues adds to the class of their calls.
const REPLIES: &str = ":reply";

/// A queue in the vocabulary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueEntry {
    name: NameId,
    kind: QueueKind,
    /// The name of the call or signal; for other queues, their own name.
    of: NameId,
    /// The name under which the queue's time is summed up: all reply queues of a call share one
    /// class.
    class: NameId,
    /// The name that the program uses for the queue, and the shape it declared; `None` for queues
    /// that no program named.
    program: Option<(NameId, Shape)>,
}

/// The names behind the ids, and properties of machines and queues.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    pub names: Names,
    /// The subjects of programs' events.
    pub actors: Actors,
    /// Host and name of each machine.
    machines: Vec<(NameId, NameId)>,
    machine_ids: IdMap<(NameId, NameId), MachineId>,
    queues: Vec<QueueEntry>,
    queue_ids: IdMap<NameId, QueueId>,
    /// Queues of programs, by the names that the programs use.
    program_queues: Dense<QueueId>,
    /// Shapes that programs declared for existing queues, in the order of declaration.
    declared_shapes: Vec<(QueueId, NameId, Shape)>,
    /// Machines that are kernel threads, in the order of discovery. `is_kernel_thread` has the same
    /// information as a flag per machine.
    kernel_threads: Vec<MachineId>,
    is_kernel_thread: Vec<bool>,
    /// Changes of the knowledge which machines are the recorder, in the order of discovery.
    /// `is_recorder` has the current flag per machine.
    recorders: Vec<(MachineId, bool)>,
    is_recorder: Vec<bool>,
    /// Current names of passing queues. A passing queue is reused for one name after another.
    passing: IdMap<QueueId, String>,
    /// Passing queues renamed since the last call of [`Vocabulary::each_renamed`]; `None` if
    /// renames are not recorded.
    renamed: Option<Vec<QueueId>>,
}

impl Vocabulary {
    /// The machine with this name on this host; added if necessary.
    pub fn machine(&mut self, host: &str, name: &str) -> MachineId {
        self.machine_as(host, name, NameKind::Plain)
    }

    /// The machine that has this name in a machine log.
    pub fn machine_of_text(&mut self, host: &str, name: &str) -> MachineId {
        self.machine_as(host, name, if name == LOST_EVENTS { NameKind::LostEvents } else { NameKind::Plain })
    }

    /// The machine that represents all machines whose events are missing.
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

    /// True if the machine represents all machines whose events are missing.
    pub fn is_lost_events(&self, machine: MachineId) -> bool {
        self.name_id(machine).is_some_and(|name| self.names.kind(name) == NameKind::LostEvents)
    }

    /// The queue of tokens with this name.
    pub fn queue(&mut self, name: &str) -> QueueId {
        self.queue_as(name, QueueKind::Items, name)
    }

    /// The queue that has this name in a program.
    pub fn queue_of_program(&mut self, name: NameId) -> QueueId {
        if let Some(&known) = self.program_queues.get(name.0) {
            return known;
        }
        let label = queue_label(self.names.text(name)).into_owned();
        let queue = self.queue(&label);
        *self.program_queues.slot(name.0) = Some(queue);
        self.set_program_queue(queue, name, Shape::default());
        queue
    }

    /// Records the shape that a program declared for its queue.
    pub fn describe(&mut self, queue: QueueId, shape: Shape) {
        if let Some((name, _)) = self.queues[queue.0 as usize].program.filter(|(_, known)| *known != shape) {
            self.set_program_queue(queue, name, shape);
        }
    }

    /// Sets the name that the program uses for the queue, and the queue's shape.
    fn set_program_queue(&mut self, queue: QueueId, name: NameId, shape: Shape) {
        self.queues[queue.0 as usize].program = Some((name, shape));
        self.declared_shapes.push((queue, name, shape));
    }

    /// The shape that the program declared for a queue; the default shape for other queues.
    #[inline]
    pub fn shape(&self, queue: QueueId) -> Shape {
        self.queues.get(queue.0 as usize).and_then(|queue| queue.program).map_or_else(Shape::default, |(_, shape)| shape)
    }

    /// The name of a queue in its program; empty for queues that no program named.
    pub fn program_queue_name(&self, queue: QueueId) -> &str {
        let program = self.queues.get(queue.0 as usize).and_then(|queue| queue.program);
        program.map_or("", |(name, _)| self.names.text(name))
    }

    /// Queues that programs named.
    pub fn program_queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        let named = self.queues.iter().zip(0..).filter(|(queue, _)| queue.program.is_some());
        named.map(|(_, at)| QueueId(at))
    }

    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// The queue that has this name in a machine log.
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

    /// The queue with this name; created if necessary.
    ///
    /// `of` is the name of the call or signal if the queue belongs to one. The name of a queue of
    /// replies is that of the queue of calls, followed by `:reply:` and a number.
    pub fn queue_as(&mut self, name: &str, kind: QueueKind, of: &str) -> QueueId {
        let id = self.names.intern(name);
        if let Some(&known) = self.queue_ids.get(&id) {
            return known;
        }
        let new_entry = self.new_entry(id, kind, of);
        self.queues.push(new_entry);
        let queue = QueueId(self.queues.len() as u32 - 1);
        self.queue_ids.insert(id, queue);
        queue
    }

    fn new_entry(&mut self, name: NameId, kind: QueueKind, of: &str) -> QueueEntry {
        match kind {
            QueueKind::Items => QueueEntry { name, kind, of: name, class: name, program: None },
            QueueKind::Calls | QueueKind::Signals => QueueEntry { name, kind, of: self.names.intern(of), class: name, program: None },
            QueueKind::Replies => {
                let text = self.names.text(name);
                let class = text.rfind(REPLIES).map_or(text, |at| &text[..at + REPLIES.len()]).to_owned();
                QueueEntry { name, kind, of: self.names.intern(of), class: self.names.intern(&class), program: None }
            }
        }
    }

    /// Notes that the machine is a kernel thread.
    pub fn mark_kernel_thread(&mut self, machine: MachineId) {
        let at = machine.0 as usize;
        if self.is_kernel_thread.len() <= at {
            self.is_kernel_thread.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_kernel_thread[at], true) {
            self.kernel_threads.push(machine);
        }
    }

    pub fn is_kernel_thread(&self, machine: MachineId) -> bool {
        self.is_kernel_thread.get(machine.0 as usize).copied().unwrap_or(false)
    }

    /// Notes that the machine is, or is not, the recorder of the trace, which is not part of the
    /// recorded system.
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

    /// The queue with this name, if there is one.
    pub fn known_queue(&self, name: &str) -> Option<QueueId> {
        self.queue_ids.get(&self.names.find(name)?).copied()
    }

    /// A passing queue: its current name is `name`, its permanent name is `shared`. Reuses the
    /// queue `unused` if one is given, else creates one.
    pub fn passing_queue(&mut self, name: &str, shared: NameId, unused: Option<QueueId>) -> QueueId {
        let queue = match unused {
            Some(queue) => queue,
            None => {
                let text = self.names.text(shared).to_owned();
                let (kind, of) = queue_of_text(&text);
                let new_entry = self.new_entry(shared, kind, of);
                self.queues.push(new_entry);
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

    /// Records from now on which passing queues change their names, until the next block takes
    /// these renames.
    pub fn note_renames(&mut self) {
        self.renamed.get_or_insert_default().extend(self.passing.keys());
    }

    #[inline]
    pub(crate) fn has_renamed(&self) -> bool {
        self.renamed.as_ref().is_some_and(|renamed| !renamed.is_empty())
    }

    /// Visits each passing queue that was renamed since the last call, with its new name, and
    /// clears the list.
    pub(crate) fn each_renamed(&mut self, mut visit: impl FnMut(QueueId, &str)) {
        for queue in self.renamed.iter_mut().flat_map(|renamed| renamed.drain(..)) {
            visit(queue, self.passing.get(&queue).map_or("", String::as_str));
        }
    }

    /// Returns what was added to the vocabulary after the state `sent`, and sets `sent` to the
    /// current state.
    pub fn since(&self, sent: &mut VocabularySize) -> VocabularyDelta {
        let new = VocabularyDelta {
            names: self.names.all()[sent.names..].to_vec(),
            machines: self.machines[sent.machines..].to_vec(),
            queues: self.queues[sent.queues..].to_vec(),
            declared_shapes: self.declared_shapes[sent.declared_shapes..].to_vec(),
            actors: self.actors.since(&mut sent.actors),
            kernel_threads: self.kernel_threads[sent.kernel_threads..].to_vec(),
            recorders: self.recorders[sent.recorders..].to_vec(),
        };
        let (machines, queues) = (self.machines.len(), self.queues.len());
        let (kernel_threads, recorders) = (self.kernel_threads.len(), self.recorders.len());
        let (declared_shapes, actors) = (self.declared_shapes.len(), sent.actors);
        *sent = VocabularySize { names: self.names.len(), machines, queues, declared_shapes, actors, kernel_threads, recorders };
        new
    }

    /// Adds what was added to another vocabulary. This is enough to find names by their ids, but
    /// not ids by their names.
    pub fn learn(&mut self, new: &VocabularyDelta) {
        self.names.learn(&new.names);
        self.machines.extend_from_slice(&new.machines);
        self.queues.extend_from_slice(&new.queues);
        new.declared_shapes.iter().for_each(|&(queue, name, shape)| self.set_program_queue(queue, name, shape));
        self.actors.learn(&new.actors);
        new.kernel_threads.iter().for_each(|&machine| self.mark_kernel_thread(machine));
        new.recorders.iter().for_each(|&(machine, is)| self.mark_recorder(machine, is));
    }

    /// The current name of a queue.
    pub fn queue_name(&self, queue: QueueId) -> &str {
        self.passing.get(&queue).map_or_else(|| self.link_name(queue), String::as_str)
    }

    /// The name of a queue's links.
    pub fn link_name(&self, queue: QueueId) -> &str {
        self.names.text(self.link_id(queue))
    }

    pub fn link_id(&self, queue: QueueId) -> NameId {
        self.queues.get(queue.0 as usize).map_or(NameId(u32::MAX), |queue| queue.name)
    }

    pub fn queue_kind(&self, queue: QueueId) -> QueueKind {
        self.queues.get(queue.0 as usize).map_or(QueueKind::Items, |queue| queue.kind)
    }

    /// The name of the call or signal to which the queue belongs; for other queues, their own name.
    pub fn queue_of(&self, queue: QueueId) -> NameId {
        self.queues.get(queue.0 as usize).map_or(NameId(u32::MAX), |queue| queue.of)
    }

    /// The name under which the queue's time is summed up together with similar queues:
    /// `rpc:X:reply` for the reply queues of a call.
    pub fn queue_class(&self, queue: QueueId) -> &str {
        self.queues.get(queue.0 as usize).map_or("", |queue| self.names.text(queue.class))
    }

    /// The class of the queue of calls to which a queue of replies belongs, or the queue's own
    /// class, so that both directions of a call count as one.
    pub fn queue_of_calls(&self, queue: QueueId) -> &str {
        let class = self.queue_class(queue);
        match self.queue_kind(queue) {
            QueueKind::Replies => &class[..class.len() - REPLIES.len()],
            _ => class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_identified_by_its_host_and_its_name() {
        let mut vocabulary = Vocabulary::default();
        let names = [("", "make"), ("h2", "make"), ("", "use")];
        let machines = names.map(|(host, name)| vocabulary.machine(host, name));
        assert_eq!(machines.map(|machine| (vocabulary.host(machine), vocabulary.machine_name(machine))), names);
        assert_eq!(names.map(|(host, name)| vocabulary.machine(host, name)), machines);
        assert_eq!(vocabulary.machines().collect::<Vec<_>>(), machines);
    }

    #[test]
    fn a_thread_named_like_the_machine_of_lost_events_is_another_machine() {
        let mut vocabulary = Vocabulary::default();
        let (thread, lost) = (vocabulary.machine("", LOST_EVENTS), vocabulary.lost_events());
        assert_eq!((vocabulary.is_lost_events(thread), vocabulary.is_lost_events(lost)), (false, true));
        assert_eq!(vocabulary.machine_of_text("", LOST_EVENTS), lost);
        assert_eq!(vocabulary.machine_name(thread), vocabulary.machine_name(lost));
    }

    #[test]
    fn the_requests_and_the_replies_of_a_call_belong_to_one_class_of_calls() {
        let mut vocabulary = Vocabulary::default();
        let queues =
            ["rpc:read", "rpc:read:reply:0", "rpc:read:reply:17", "signal:read", "jobs"].map(|name| vocabulary.queue_of_text(name));
        let classes = ["rpc:read", "rpc:read:reply", "rpc:read:reply", "signal:read", "jobs"];
        assert_eq!(queues.map(|queue| vocabulary.queue_class(queue)), classes);
        assert_eq!(queues.map(|queue| vocabulary.queue_of_calls(queue)), classes.map(|class| class.trim_end_matches(":reply")));
        assert_eq!(queues.map(|queue| vocabulary.names.text(vocabulary.queue_of(queue))), ["read", "read", "read", "read", "jobs"]);
    }
}
