//! One pass over a trace, observed by any number of analyses.

use crate::distinct::Distinct;
use crate::windows::Windows;
use longpole_model::activity::{Activity, Outcome};
use longpole_model::step::{MachineId, Step};
use longpole_model::system::System;
use longpole_trace::event::{Catalogue, Event, Item, Loss};
use std::collections::BTreeMap;

/// What an analysis may look at beside the step itself.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub system: &'a System,
    pub activity: &'a Activity,
}

pub trait Observer {
    /// `outcome` tells what the step did to its machine; `scene` is as it is after the step.
    fn step(&mut self, scene: Scene<'_>, step: &Step, outcome: &Outcome);

    /// Events of `machine` are missing (`None`: nobody knows whose).
    fn loss(&mut self, _scene: Scene<'_>, _machine: Option<MachineId>, _loss: &Loss) {}
}

pub struct Session {
    pub system: System,
    pub activity: Activity,
    pub windows: Windows,
    pub events: u64,
    /// Counted lost events.
    pub lost: u64,
    /// Losses that nobody counted.
    pub uncounted_losses: u64,
    pub lost_of: BTreeMap<MachineId, u64>,
    distinct: Distinct,
    range: Option<(i64, i64)>,
}

impl Session {
    pub fn new(system: System) -> Session {
        Session {
            system,
            activity: Activity::default(),
            windows: Windows::default(),
            events: 0,
            lost: 0,
            uncounted_losses: 0,
            lost_of: BTreeMap::new(),
            distinct: Distinct::default(),
            range: None,
        }
    }

    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>, observers: &mut [&mut dyn Observer]) {
        match item {
            Item::Event(event) => self.event(catalogue, event, observers),
            Item::Loss(loss) => self.loss(loss, observers),
        }
    }

    #[inline]
    pub fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>, observers: &mut [&mut dyn Observer]) {
        self.events += 1;
        self.extend(event.t_ns);
        let step = self.system.step(catalogue, event);
        let step = self.distinct.bound(step, &mut self.system);
        self.windows.at(step.t_ns, &self.activity);
        let outcome = self.activity.step(&step);
        let scene = Scene { system: &self.system, activity: &self.activity };
        for observer in observers {
            observer.step(scene, &step, &outcome);
        }
    }

    pub fn loss(&mut self, loss: &Loss, observers: &mut [&mut dyn Observer]) {
        self.extend(loss.end_ns);
        match loss.events {
            Some(events) => self.lost = self.lost.saturating_add(events),
            None => self.uncounted_losses += 1,
        }
        let machine = self.system.machine_of_stream(loss.stream);
        if let Some(machine) = machine {
            let lost = self.lost_of.entry(machine).or_default();
            *lost = lost.saturating_add(loss.events.unwrap_or(1));
            self.activity.loss(machine, loss.begin_ns, loss.end_ns);
        }
        let scene = Scene { system: &self.system, activity: &self.activity };
        for observer in observers {
            observer.loss(scene, machine, loss);
        }
    }

    /// Events whose name is one too many of its kind: they stand under [`crate::distinct::OTHER_NAMES`].
    pub fn gathered(&self) -> u64 {
        self.distinct.gathered
    }

    /// First and last moment of anything seen.
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
