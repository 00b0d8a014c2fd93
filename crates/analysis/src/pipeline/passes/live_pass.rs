//! Reads a recording while it grows, for a picture of it.
//!
//! Items go through the composer to the timeline, and nothing else is kept, so memory and disk are
//! those of the timeline. There is no verdict: the finished recording is read again for it, because
//! much of what the recorder writes at the end (names of processes, losses that the kernel counted,
//! pages of a killed recorder) belongs to the begin.

use crate::critical_path::cpu_holders::OccupancyLog;
use crate::pipeline::composed::about;
use crate::pipeline::timeline::thread_facts;
use crate::pipeline::Error;
use crate::timeline::{CpuRows, Timeline, TimelineWriter};
use crate::verdict::limits::Limits;
use longpole_model::causes::Composer;
use longpole_model::rules::Rules;
use longpole_trace::{Catalogue, Item, Recording};
use std::sync::Arc;

/// A reading of a recording that grows.
pub struct LivePass {
    composer: Composer,
    timeline: Arc<Timeline>,
    writer: TimelineWriter,
    occupancy: OccupancyLog,
    cpus: CpuRows,
    limits: Limits,
    events: u64,
    lost: u64,
}

impl LivePass {
    /// Begins to read a recording with this description into an empty timeline.
    ///
    /// # Errors
    ///
    /// If the rules contradict each other.
    pub fn new(recording: &Recording, rules: Rules, timeline: Arc<Timeline>) -> Result<LivePass, Error> {
        Ok(LivePass {
            composer: Composer::with_rules(rules, about(std::slice::from_ref(recording)))?,
            writer: TimelineWriter::new(timeline.clone()),
            timeline,
            occupancy: OccupancyLog::in_memory(),
            cpus: CpuRows::default(),
            limits: Limits::built_in()?,
            events: 0,
            lost: 0,
        })
    }

    /// Receives the next item, in the order of time.
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) {
        match item {
            Item::Event(_) => self.events += 1,
            Item::Loss(loss) => self.lost = self.lost.saturating_add(loss.events.unwrap_or(0)),
        }
        self.composer.item_with(catalogue, item, &mut self.occupancy);
        while let Some(interaction) = self.composer.next_interaction() {
            self.writer.interaction(self.composer.vocabulary(), &interaction);
        }
    }

    /// Shows in the timeline what is known up to the last item: open states, processes, CPUs.
    pub fn show(&mut self) {
        let LivePass { composer, timeline, writer, occupancy, cpus, limits, .. } = self;
        writer.show(composer.vocabulary(), &thread_facts(composer, limits));
        occupancy.drain(composer.linux(), &mut cpus.filled(timeline, composer.linux()));
    }

    /// Returns the numbers of events and of lost events until now.
    pub fn counts(&self) -> (u64, u64) {
        (self.events, self.lost)
    }
}
