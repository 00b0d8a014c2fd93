//! Counters: values that programs report from time to time. A counter belongs to a process, since
//! two processes may use one name.

use crate::stats::value_log::{LogFile, ValueLog};
use crate::step_pass::{Observer, Scene};
use longpole_model::actors::ActorId;
use longpole_model::names::NameId;
use longpole_model::step::{Op, Step};
use longpole_model::system::activity::Outcome;
use std::collections::HashMap;

/// Largest number of counters whose values are kept.
const MAX_COUNTERS: usize = 1024;

/// The values of all counters, if they are kept; it sees each step in the order of time.
#[derive(Debug, Default)]
pub struct Counters {
    keeps_values: bool,
    log_file: LogFile,
    all: Vec<Counter>,
    /// Places of the counters, by process and name, and by actor and name, which is faster.
    by_process: HashMap<(Process, NameId), usize>,
    by_actor: HashMap<(ActorId, NameId), usize>,
}

/// Host, and process id or, without one, the actor itself.
type Process = (String, Result<i32, ActorId>);

/// The values of a counter over time.
#[derive(Debug)]
pub struct Counter {
    pub name: NameId,
    /// The actor that reported the first value.
    pub actor: ActorId,
    pub values: ValueLog,
}

impl Counters {
    /// Keeps the values from now on.
    pub fn keep_values(&mut self) {
        self.keeps_values = true;
    }

    pub fn all(&self) -> &[Counter] {
        &self.all
    }

    /// Returns the place of an actor's counter; `None` if there are too many.
    fn place(&mut self, scene: Scene<'_>, actor: ActorId, name: NameId) -> Option<usize> {
        let Counters { log_file, all, by_process, by_actor, .. } = self;
        if let Some(&known) = by_actor.get(&(actor, name)) {
            return Some(known);
        }
        let who = scene.vocabulary.actors.get(actor)?;
        let process = (who.host.clone(), who.pid.ok_or(actor));
        let place = by_process.get(&(process.clone(), name)).copied();
        if place.is_none() && all.len() == MAX_COUNTERS {
            return None;
        }
        let place = place.unwrap_or_else(|| {
            all.push(Counter { name, actor, values: ValueLog::new(log_file.clone()) });
            by_process.insert((process, name), all.len() - 1);
            all.len() - 1
        });
        by_actor.insert((actor, name), place);
        Some(place)
    }
}

impl Observer for Counters {
    fn step(&mut self, scene: Scene<'_>, step: &Step, _: &Outcome) {
        let Op::Counter { name, value } = step.op else { return };
        if !self.keeps_values {
            return;
        }
        if let Some(place) = self.place(scene, step.actor, name) {
            self.all[place].values.record(step.t_ns, value);
        }
    }
}
