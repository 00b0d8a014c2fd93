//! The names of states on a timeline, and the classes that determine their colours.

use longpole_model::kinds::StateKind;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A state, by its index in [`StateNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StateId(pub u32);

/// What a row does in a state, as a reader distinguishes it by colour; the more serious, the later
/// in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateClass {
    /// Until a time that the row set itself, or idle.
    Asleep,
    Running,
    /// In a system call, on a CPU.
    Call,
    Interrupt,
    /// Ready, without a CPU.
    Runnable,
    Blocked,
    Unknown,
    /// Events are missing.
    Lost,
}

impl StateClass {
    pub fn of(kind: StateKind) -> StateClass {
        match kind {
            StateKind::Run | StateKind::User | StateKind::Kernel | StateKind::Span | StateKind::Call => StateClass::Running,
            StateKind::Declared | StateKind::Waits | StateKind::Fault | StateKind::Named => StateClass::Running,
            StateKind::SystemCall => StateClass::Call,
            StateKind::Interrupted | StateKind::Interrupt => StateClass::Interrupt,
            StateKind::Runnable | StateKind::Preempted | StateKind::Throttled => StateClass::Runnable,
            StateKind::Blocked => StateClass::Blocked,
            StateKind::Asleep => StateClass::Asleep,
            StateKind::Outside | StateKind::Unknown => StateClass::Unknown,
        }
    }

    /// Returns true if the row executes code in such a state.
    pub fn is_busy(self) -> bool {
        matches!(self, StateClass::Running | StateClass::Call | StateClass::Interrupt)
    }
}

/// Name and class of a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StateName {
    pub name: String,
    pub class: StateClass,
}

/// Maximum number of states with names of their own; a picture has 16 bits for a state. Further
/// ones share a name per class.
const MAX_STATES: usize = 65_000;

const OTHER_STATES: &str = "(other states)";

/// All states of a timeline.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StateNames {
    all: Vec<StateName>,
    /// The indices of all states, while the trace is read.
    #[serde(skip)]
    ids: HashMap<StateName, StateId>,
}

impl StateNames {
    /// Returns the state with this name and class; added if necessary.
    pub fn intern(&mut self, name: &str, class: StateClass) -> StateId {
        let mut key = StateName { name: name.to_owned(), class };
        if self.all.len() >= MAX_STATES && !self.ids.contains_key(&key) {
            OTHER_STATES.clone_into(&mut key.name);
        }
        let all = &mut self.all;
        *self.ids.entry(key).or_insert_with_key(|key| {
            all.push(key.clone());
            StateId(all.len() as u32 - 1)
        })
    }

    pub fn all(&self) -> &[StateName] {
        &self.all
    }

    pub fn name(&self, state: StateId) -> &str {
        self.all.get(state.0 as usize).map_or("", |state| state.name.as_str())
    }

    pub fn class(&self, state: StateId) -> StateClass {
        self.all.get(state.0 as usize).map_or(StateClass::Unknown, |state| state.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_beyond_the_limit_share_a_name_per_class() {
        let mut names = StateNames::default();
        let first = names.intern("state 0", StateClass::Running);
        let last = (0..MAX_STATES + 10).map(|number| names.intern(&format!("state {number}"), StateClass::Running)).last();
        assert_eq!(names.all().len(), MAX_STATES + 1);
        assert_eq!(last.map(|state| names.name(state)), Some(OTHER_STATES));
        assert_eq!(names.intern("state 0", StateClass::Running), first);
        let blocked = names.intern("another one", StateClass::Blocked);
        assert_eq!((names.name(blocked), names.class(blocked)), (OTHER_STATES, StateClass::Blocked));
    }
}
