//! The names of all states and links that occur, on the critical path or not. A condition may name
//! one that is never on the path; it is valid, whereas a name that does not occur at all is an
//! error.

use crate::critical_path::interactions::machine_of;
use crate::stats::text::place;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Effect, Interaction, MachineId, QueueId, Vocabulary};
use longpole_model::kinds::{LinkKind, StateKind, BLOCKED, LINK};
use longpole_model::names::NameId;
use std::collections::BTreeSet;

/// States that every machine may be in, so that their names are always valid.
const OF_ALL: [StateKind; 4] = [StateKind::Run, StateKind::Runnable, StateKind::Interrupted, StateKind::Unknown];
/// Links that every queue may have, so that their names are always valid.
const OF_QUEUES: [LinkKind; 2] = [LinkKind::Queued, LinkKind::Wire];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Occurrence {
    Machine(MachineId),
    State(MachineId, NameId),
    Blocked(MachineId, NameId),
    Queue(QueueId),
    /// `None` as the queue: a wake-up or a fork.
    Link(Option<QueueId>, NameId),
}

/// Collector of the names; it sees each interaction.
#[derive(Debug, Default)]
pub struct OccurringNames {
    occurrences: IdMap<Occurrence, ()>,
    /// Classes of the machines whose class is not their name.
    classes: IdMap<MachineId, NameId>,
}

impl OccurringNames {
    pub fn interaction(&mut self, _vocabulary: &Vocabulary, interaction: &Interaction) {
        let effect = interaction.effect;
        match effect {
            Effect::Declare { queue, .. } => return self.note(Occurrence::Queue(queue)),
            Effect::Class { machine, class } => drop(self.classes.insert(machine, class)),
            Effect::Now | Effect::End { .. } => return,
            Effect::State { machine, state } => self.note(Occurrence::State(machine, state)),
            Effect::Block { machine, why, .. } => self.note(Occurrence::Blocked(machine, why)),
            Effect::Put { queue, link: Some(link), .. } => {
                self.note(Occurrence::Queue(queue));
                self.note(Occurrence::Link(Some(queue), link));
            }
            Effect::Put { queue, .. } | Effect::Get { queue, .. } | Effect::Peek { queue, .. } | Effect::Reserve { queue, .. } => {
                self.note(Occurrence::Queue(queue));
            }
            Effect::Wake { cause: Some(cause), .. } | Effect::Fork { cause, .. } => {
                if let Some(link) = cause.link {
                    self.note(Occurrence::Link(None, link));
                }
            }
            _ => {}
        }
        self.note(Occurrence::Machine(machine_of(effect)));
    }

    fn note(&mut self, occurrence: Occurrence) {
        self.occurrences.insert(occurrence, ());
    }

    /// Returns the names as `MACHINE::STATE`, with the host before the machine if there is one, and
    /// as `CLASS::STATE`. `more` are further states that every machine may be in.
    pub fn names(&self, vocabulary: &Vocabulary, more: &[StateKind]) -> BTreeSet<String> {
        let machine = |machine| place(vocabulary.host(machine), vocabulary.machine_name(machine));
        let text = |name| vocabulary.names.text(name);
        let class = |machine| self.classes.get(&machine).map_or_else(|| vocabulary.machine_name(machine), |&class| text(class));
        let mut names = BTreeSet::from([format!("{LINK}::{}", LinkKind::Wakeup.text().unwrap_or_default())]);
        let mut both = |of, state: &str| {
            names.insert(format!("{}::{state}", machine(of)));
            names.insert(format!("{}::{state}", class(of)));
        };
        for &occurrence in self.occurrences.keys() {
            match occurrence {
                Occurrence::Machine(of) => OF_ALL.iter().chain(more).filter_map(|kind| kind.text()).for_each(|state| both(of, state)),
                Occurrence::State(of, state) => both(of, text(state)),
                Occurrence::Blocked(of, why) => both(of, &format!("{BLOCKED}{}", text(why))),
                Occurrence::Queue(_) | Occurrence::Link(..) => {}
            }
        }
        let mut both = |of: Option<QueueId>, state: &str| {
            let of_queue = |queue| [vocabulary.link_name(queue), vocabulary.queue_class(queue), vocabulary.queue_of_calls(queue)];
            names.extend(of.map_or([LINK; 3], of_queue).map(|name| format!("{name}::{state}")));
        };
        for &occurrence in self.occurrences.keys() {
            match occurrence {
                Occurrence::Queue(of) => OF_QUEUES.iter().filter_map(|kind| kind.text()).for_each(|state| both(Some(of), state)),
                Occurrence::Link(of, link) => both(of, text(link)),
                Occurrence::Machine(_) | Occurrence::State(..) | Occurrence::Blocked(..) => {}
            }
        }
        names
    }
}
