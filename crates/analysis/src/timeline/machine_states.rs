//! The states of machines over time, derived from their interactions.
//!
//! A machine is in the last state that it declared, unless it is blocked (until it is woken, or
//! declares a state) or another context runs on top of it. These are the states that the critical
//! path charges (`critical_path/machine.rs`).
//!
//! A loss of events becomes known when it is over, and may have begun earlier than the last change.
//! So the newest state that is over is kept until the machine's next change.

use super::state_names::{StateClass, StateId, StateNames};
use super::store::StateInterval;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, StateKind, LOST_EVENTS};
use longpole_model::names::NameId;

/// The state of a machine as its interactions declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Current {
    Fixed(StateKind),
    Named(NameId),
    Blocked(NameId),
}

#[derive(Clone, Copy, Debug)]
struct Tracked {
    exists: bool,
    /// State when the machine is neither blocked nor interrupted.
    state: Current,
    block: Option<NameId>,
    contexts_above: u32,
    /// The machine below this context.
    below: Option<MachineId>,
    is_context: bool,
    since: u64,
    /// The state before the current one.
    over: Option<StateInterval>,
}

impl Default for Tracked {
    fn default() -> Tracked {
        let state = Current::Fixed(StateKind::Run);
        Tracked { exists: false, state, block: None, contexts_above: 0, below: None, is_context: false, since: 0, over: None }
    }
}

impl Tracked {
    /// Returns the machine's state now; `None` if it does not exist.
    fn current(&self) -> Option<Current> {
        match self.block {
            _ if !self.exists => None,
            _ if self.contexts_above > 0 => Some(Current::Fixed(StateKind::Interrupted)),
            Some(why) => Some(Current::Blocked(why)),
            None => Some(self.state),
        }
    }
}

/// Follows the interactions and yields each state when it is over and the machine changes again.
#[derive(Debug, Default)]
pub struct MachineStates {
    machines: Vec<Tracked>,
    ids: IdMap<Current, StateId>,
}

/// A state that is over, or its part up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub machine: MachineId,
    pub interval: StateInterval,
}

impl MachineStates {
    /// Returns true if the machine runs on top of others, as an interrupt does.
    pub fn is_context(&self, machine: MachineId) -> bool {
        self.machines.get(machine.0 as usize).is_some_and(|tracked| tracked.is_context)
    }

    /// Receives the next interaction. Passes the states that it ends to `ended`.
    pub fn interaction(
        &mut self,
        vocabulary: &Vocabulary,
        names: &mut StateNames,
        interaction: &Interaction,
        mut ended: impl FnMut(Ended),
    ) {
        let t = interaction.t;
        let mut change = |this: &mut MachineStates, machine: MachineId, change: &mut dyn FnMut(&mut Tracked)| {
            this.change(vocabulary, names, t, machine, change).into_iter().for_each(&mut ended);
        };
        match interaction.effect {
            Effect::State { machine, state } => {
                let kind = vocabulary.names.state_kind(state);
                let state = if kind.text().is_some() { Current::Fixed(kind) } else { Current::Named(state) };
                change(self, machine, &mut |tracked| (tracked.exists, tracked.state, tracked.block) = (true, state, None));
            }
            Effect::Block { machine, why, .. } => {
                change(self, machine, &mut |tracked| (tracked.exists, tracked.block) = (true, Some(why)));
            }
            Effect::Wake { machine, cause } => {
                // A block without a length that the machine itself ends says since when its events
                // are lost.
                let is_short = self.machines.get(machine.0 as usize).is_some_and(|tracked| tracked.since == t);
                change(self, machine, &mut |tracked| {
                    if tracked.block.take().is_some() {
                        tracked.state = Current::Fixed(StateKind::Runnable);
                    }
                    tracked.exists = true;
                });
                let of_itself = cause.filter(|cause| is_short && cause.by == machine && is_unknown(vocabulary, cause));
                if let Some(begin) = of_itself.and_then(|cause| cause.at) {
                    let lost = names.intern(LOST_EVENTS, StateClass::Lost);
                    self.events_lost(machine, begin, lost).into_iter().for_each(ended);
                }
            }
            // Taking something ends the wait for it.
            Effect::Get { machine, .. } | Effect::Peek { machine, .. } | Effect::Reserve { machine, .. } | Effect::Put { machine, .. } => {
                change(self, machine, &mut |tracked| (tracked.exists, tracked.block) = (true, None));
            }
            Effect::Fork { machine, .. } | Effect::Here { machine } | Effect::Remember { machine } => {
                change(self, machine, &mut |tracked| tracked.exists = true);
            }
            Effect::Push { machine, below, .. } => {
                let below = below.filter(|below| self.machines.get(below.0 as usize).is_some_and(|tracked| tracked.exists));
                if let Some(below) = below {
                    change(self, below, &mut |tracked| tracked.contexts_above += 1);
                }
                let run = Current::Fixed(StateKind::Run);
                change(self, machine, &mut |tracked| {
                    *tracked = Tracked { exists: true, state: run, block: None, below, is_context: true, ..*tracked };
                });
            }
            Effect::Pop { machine } | Effect::Stop { machine } => {
                let below = self.machines.get(machine.0 as usize).and_then(|tracked| tracked.below);
                change(self, machine, &mut |tracked| (tracked.exists, tracked.block, tracked.below) = (false, None, None));
                if let Some(below) = below {
                    change(self, below, &mut |tracked| tracked.contexts_above = tracked.contexts_above.saturating_sub(1));
                }
            }
            Effect::Now | Effect::Declare { .. } | Effect::Class { .. } | Effect::End { .. } => {}
        }
    }

    /// Passes the states that were kept, and those that last at `t` as if they ended there, to
    /// `open`.
    pub fn open_states(&mut self, vocabulary: &Vocabulary, names: &mut StateNames, t: u64, mut open: impl FnMut(Ended)) {
        for (machine, tracked) in (0..).map(MachineId).zip(&mut self.machines) {
            tracked.over.take().into_iter().for_each(|interval| open(Ended { machine, interval }));
            let Some(state) = tracked.current().filter(|_| tracked.since < t) else { continue };
            let state = *self.ids.entry(state).or_insert_with(|| named(vocabulary, names, state));
            open(Ended { machine, interval: StateInterval { begin: tracked.since, end: t, state } });
        }
    }

    /// The machine's events since `begin` are lost. Returns the part of its last state before.
    fn events_lost(&mut self, machine: MachineId, begin: u64, lost: StateId) -> Option<Ended> {
        let over = self.machines.get_mut(machine.0 as usize)?.over.as_mut()?;
        let before = StateInterval { end: begin, ..*over };
        *over = StateInterval { begin: begin.clamp(over.begin, over.end), state: lost, ..*over };
        (before.begin < before.end).then_some(Ended { machine, interval: before })
    }

    fn change(
        &mut self,
        vocabulary: &Vocabulary,
        names: &mut StateNames,
        t: u64,
        machine: MachineId,
        change: &mut dyn FnMut(&mut Tracked),
    ) -> Option<Ended> {
        let at = machine.0 as usize;
        if self.machines.len() <= at {
            self.machines.resize(at + 1, Tracked::default());
        }
        let tracked = &mut self.machines[at];
        let before = tracked.current();
        if !tracked.exists {
            (tracked.state, tracked.block) = (Current::Fixed(StateKind::Run), None);
        }
        change(tracked);
        if before == tracked.current() {
            return None;
        }
        let since = std::mem::replace(&mut tracked.since, t);
        let before = before.filter(|_| since < t)?;
        let state = *self.ids.entry(before).or_insert_with(|| named(vocabulary, names, before));
        let interval = tracked.over.replace(StateInterval { begin: since, end: t, state })?;
        Some(Ended { machine, interval })
    }
}

/// Returns true if what the machine did since the cause is not known.
fn is_unknown(vocabulary: &Vocabulary, cause: &Cause) -> bool {
    cause.link.is_some_and(|link| vocabulary.names.link_kind(link) == LinkKind::Unknown)
}

fn named(vocabulary: &Vocabulary, names: &mut StateNames, state: Current) -> StateId {
    match state {
        Current::Fixed(kind) => names.intern(kind.text().unwrap_or(kind.word()), StateClass::of(kind)),
        Current::Named(name) => names.intern(vocabulary.names.text(name), StateClass::of(vocabulary.names.state_kind(name))),
        Current::Blocked(why) => match vocabulary.names.state_kind(why) {
            StateKind::Asleep => names.intern(vocabulary.names.text(why), StateClass::Asleep),
            _ => names.intern(vocabulary.names.text(why), StateClass::Blocked),
        },
    }
}
