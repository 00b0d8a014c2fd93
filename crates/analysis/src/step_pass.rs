//! One pass over a trace, observed by any number of analyses.

use crate::stats::distinct::Distinct;
use crate::stats::windows::Windows;
use longpole_model::actors::{ActorId, ActorSteps};
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::step::{Op, Step};
use longpole_model::system::activity::{Activity, Outcome};
use longpole_model::tokens::Unit;
use longpole_trace::event::Loss;
use std::collections::BTreeMap;

/// The context of a step that an analysis may use.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub vocabulary: &'a Vocabulary,
    pub activity: &'a Activity,
    /// Actors that occur in the range.
    pub met: &'a ActorSteps,
}

impl Scene<'_> {
    pub fn capacity(&self, queue: QueueId) -> Option<u64> {
        self.vocabulary.shape(queue).capacity
    }

    /// Returns whether the queue's unit is bytes. A portion of bytes is one item, whatever its
    /// size.
    pub fn is_of_bytes(&self, queue: QueueId) -> bool {
        self.vocabulary.shape(queue).unit == Unit::Bytes
    }

    /// See [`longpole_model::actors::Actors::names`].
    pub fn names(&self) -> Vec<String> {
        self.vocabulary.actors.names(self.met)
    }

    /// See [`longpole_model::actors::Actors::classes`].
    pub fn classes(&self) -> Vec<String> {
        self.vocabulary.actors.classes(self.met)
    }
}

/// An analysis that observes the pass.
pub trait Observer {
    /// Observes a step. `outcome` is its effect on the machine; `scene` is the state after the
    /// step.
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome);

    /// Observes lost events of `actor` (`None`: unknown).
    fn loss(&mut self, _scene: Scene<'_>, _actor: Option<ActorId>, _loss: &Loss) {}
}

/// The state of a pass that all analyses share.
#[derive(Default)]
pub struct StepPass {
    pub activity: Activity,
    pub windows: Windows,
    pub met: ActorSteps,
    pub events: u64,
    /// Number of lost events, as far as it is known.
    pub lost: u64,
    /// Number of losses without a known number of events.
    pub uncounted_losses: u64,
    pub lost_of: BTreeMap<ActorId, u64>,
    distinct: Distinct,
    range: Option<(i64, i64)>,
}

impl StepPass {
    pub fn scene<'a>(&'a self, vocabulary: &'a Vocabulary) -> Scene<'a> {
        Scene { vocabulary, activity: &self.activity, met: &self.met }
    }

    #[inline]
    pub fn step(&mut self, vocabulary: &Vocabulary, step: Step, observers: &mut [&mut dyn Observer]) {
        self.events += 1;
        self.extend(step.t_ns);
        self.met.add(step.actor, u64::from(step.op != Op::Other));
        if let Op::Wake { actor } = step.op {
            self.met.add(actor, 0);
        }
        let step = self.distinct.bound(step);
        self.windows.at(step.t_ns, &self.activity);
        let outcome = self.activity.step(&step);
        let scene = Scene { vocabulary, activity: &self.activity, met: &self.met };
        for observer in observers {
            observer.step(scene, &step, &outcome);
        }
    }

    /// Records lost events. `actor` is the last writer of the stream that lost them.
    pub fn loss(&mut self, vocabulary: &Vocabulary, actor: Option<ActorId>, loss: &Loss, observers: &mut [&mut dyn Observer]) {
        self.extend(loss.end_ns);
        match loss.events {
            Some(events) => self.lost = self.lost.saturating_add(events),
            None => self.uncounted_losses += 1,
        }
        let actor = actor.filter(|&actor| self.met.occurs(actor));
        if let Some(actor) = actor {
            let lost = self.lost_of.entry(actor).or_default();
            *lost = lost.saturating_add(loss.events.unwrap_or(1));
            self.activity.loss(actor, loss.begin_ns, loss.end_ns);
        }
        let scene = Scene { vocabulary, activity: &self.activity, met: &self.met };
        for observer in observers {
            observer.loss(scene, actor, loss);
        }
    }

    /// Returns the number of events whose name exceeds the limit of its kind; they are collected
    /// under [`crate::stats::distinct::OTHER_NAMES`].
    pub fn gathered(&self) -> u64 {
        self.distinct.gathered
    }

    /// Returns the times of the first and the last event or loss.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.range
    }

    pub fn duration_ns(&self) -> u64 {
        self.range.map_or(0, |(begin, end)| end.saturating_sub(begin).max(0) as u64)
    }

    fn extend(&mut self, t_ns: i64) {
        self.range = Some(match self.range {
            None => (t_ns, t_ns),
            Some((begin, end)) => (begin.min(t_ns), end.max(t_ns)),
        });
    }
}
