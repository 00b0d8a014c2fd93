//! What the names of states mean, each text looked at once.

use super::key::State;
use longpole_model::interaction::Vocabulary;
use longpole_model::names::NameId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// A state that bears the name of one of ours is that one.
    pub state: State,
    pub says: Says,
}

/// What some names of states say beside that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Preempted,
    Asleep,
    Kernel,
    Nothing,
}

/// By name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meanings(Vec<Option<Meaning>>);

impl Meanings {
    #[inline]
    pub fn of(&mut self, vocabulary: &Vocabulary, name: NameId) -> Meaning {
        match self.0.get(name.0 as usize) {
            Some(&Some(known)) => known,
            _ => self.learn(vocabulary, name),
        }
    }

    #[cold]
    fn learn(&mut self, vocabulary: &Vocabulary, name: NameId) -> Meaning {
        let (state, says) = match vocabulary.names.text(name) {
            "run" => (State::Run, Says::Nothing),
            "runnable" => (State::Runnable, Says::Nothing),
            "interrupted" => (State::Interrupted, Says::Nothing),
            "UNKNOWN" => (State::Unknown, Says::Nothing),
            "preempted" | "throttled" => (State::Named(name), Says::Preempted),
            "asleep" => (State::Named(name), Says::Asleep),
            "kernel" => (State::Named(name), Says::Kernel),
            _ => (State::Named(name), Says::Nothing),
        };
        let at = name.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        *self.0[at].insert(Meaning { state, says })
    }
}
