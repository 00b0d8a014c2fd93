//! Which states and links occur at all, on the critical path or not: a condition may ask for one that never decides anything.

use crate::critical_path::steps::machine_of;
use crate::stats::text::place;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::{LinkKind, StateKind, BLOCKED, LINK};
use longpole_model::names::NameId;
use std::collections::BTreeSet;

/// What every machine may be in, whether it ever is or not.
const OF_ALL: [StateKind; 4] = [StateKind::Run, StateKind::Runnable, StateKind::Interrupted, StateKind::Unknown];
/// So are the links of every queue.
const OF_QUEUES: [LinkKind; 2] = [LinkKind::Queued, LinkKind::Wire];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mark {
    Machine(MachineId),
    State(MachineId, NameId),
    Blocked(MachineId, NameId),
    Queue(QueueId),
    /// None: a wake-up or a fork.
    Link(Option<QueueId>, NameId),
}

/// The observer.
#[derive(Debug, Default)]
pub struct Seen {
    marks: IdMap<Mark, ()>,
    /// Of those that are not named like themselves.
    classes: IdMap<MachineId, NameId>,
}

impl Seen {
    pub fn interaction(&mut self, _vocabulary: &Vocabulary, interaction: &Interaction) {
        let effect = interaction.effect;
        match effect {
            Effect::Declare { queue, .. } => return self.mark(Mark::Queue(queue)),
            Effect::Class { machine, class } => drop(self.classes.insert(machine, class)),
            Effect::Now | Effect::End { .. } => return,
            Effect::State { machine, state } => self.mark(Mark::State(machine, state)),
            Effect::Block { machine, why, .. } => self.mark(Mark::Blocked(machine, why)),
            Effect::Put { queue, link: Some(link), .. } => {
                self.mark(Mark::Queue(queue));
                self.mark(Mark::Link(Some(queue), link));
            }
            Effect::Put { queue, .. } | Effect::Get { queue, .. } | Effect::Peek { queue, .. } | Effect::Reserve { queue, .. } => {
                self.mark(Mark::Queue(queue));
            }
            Effect::Wake { cause: Some(cause), .. } | Effect::Fork { cause, .. } => {
                if let Some(link) = cause.link {
                    self.mark(Mark::Link(None, link));
                }
            }
            _ => {}
        }
        self.mark(Mark::Machine(machine_of(effect)));
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.insert(mark, ());
    }

    /// As `MACHINE::STATE`, with the host before it where there is one, and as `CLASS::STATE`. `more`: what every machine may be in beside that.
    pub fn names(&self, vocabulary: &Vocabulary, more: &[StateKind]) -> BTreeSet<String> {
        let machine = |machine| place(vocabulary.host(machine), vocabulary.machine_name(machine));
        let text = |name| vocabulary.names.text(name);
        let class = |machine| self.classes.get(&machine).map_or_else(|| vocabulary.machine_name(machine), |&class| text(class));
        let mut names = BTreeSet::from([format!("{LINK}::{}", LinkKind::Wakeup.text().unwrap_or_default())]);
        let mut both = |of, state: &str| {
            names.insert(format!("{}::{state}", machine(of)));
            names.insert(format!("{}::{state}", class(of)));
        };
        for &mark in self.marks.keys() {
            match mark {
                Mark::Machine(of) => OF_ALL.iter().chain(more).filter_map(|kind| kind.text()).for_each(|state| both(of, state)),
                Mark::State(of, state) => both(of, text(state)),
                Mark::Blocked(of, why) => both(of, &format!("{BLOCKED}{}", text(why))),
                Mark::Queue(_) | Mark::Link(..) => {}
            }
        }
        let mut both = |of: Option<QueueId>, state: &str| {
            let of_queue = |queue| [vocabulary.link_name(queue), vocabulary.queue_class(queue), vocabulary.queue_of_calls(queue)];
            names.extend(of.map_or([LINK; 3], of_queue).map(|name| format!("{name}::{state}")));
        };
        for &mark in self.marks.keys() {
            match mark {
                Mark::Queue(of) => OF_QUEUES.iter().filter_map(|kind| kind.text()).for_each(|state| both(Some(of), state)),
                Mark::Link(of, link) => both(of, text(link)),
                Mark::Machine(_) | Mark::State(..) | Mark::Blocked(..) => {}
            }
        }
        names
    }
}
