//! The answers that are computed from interactions alone: the critical path, predictions, and which
//! machine waits for which.

use super::follow::{self, Follower};
use super::{Error, Interactions, Spool, SpoolWriter};
use crate::critical_path::{self, Answer, CriticalPath};
use crate::machine_log::Writer;
use crate::scheduling::sampled_waits::SampledWaits;
use crate::wait_graph::{self, Waits};
use crate::what_if::{self, WhatIf};
use longpole_model::causes::Composer;
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use longpole_model::linux::watch::Watch;
use longpole_trace::{Catalogue, Item};
use std::io::{self, Write};

impl Interactions {
    /// Returns the critical path.
    pub fn critical_path(&mut self, options: critical_path::Options) -> Result<Answer, Error> {
        self.critical_path_with(options, &mut ())
    }

    /// Returns the critical path; `watch` observes the kernel's model meanwhile.
    pub fn critical_path_with<W: Watch>(&mut self, options: critical_path::Options, watch: &mut W) -> Result<Answer, Error> {
        self.sampled_critical_path(options, watch, &mut SampledWaits::default())
    }

    /// Returns the critical path; `waits` also receives the waits whose stacks were sampled.
    pub fn sampled_critical_path<W: Watch>(
        &mut self,
        options: critical_path::Options,
        watch: &mut W,
        waits: &mut SampledWaits,
    ) -> Result<Answer, Error> {
        let mut critical_path = CriticalPath::new(options);
        let feed = |composer: &mut Composer, catalogue: &Catalogue, item: &Item<'_>| {
            composer.item_with(catalogue, item, &mut (&mut *watch, &mut *waits));
            waits.item(composer.linux(), catalogue, item);
        };
        follow::follow_fed(self, feed, [&mut [&mut critical_path as &mut dyn Follower][..]])?;
        self.finish_linux(watch);
        self.path(critical_path)
    }

    /// Returns the critical path from an analysis that has seen all interactions.
    pub fn path(&self, critical_path: CriticalPath) -> Result<Answer, Error> {
        let mut answer = critical_path.answer(self.vocabulary()).map_err(|error| match error {
            critical_path::NoAnswer::Empty if self.is_part() => self.nothing_in_part(),
            critical_path::NoAnswer::NothingInRange => self.nothing_in_part(),
            source => Error::NoPath { name: self.name().to_owned(), source },
        })?;
        answer.lost = self.counters().map_or(0, |counters| counters.lost);
        Ok(answer)
    }

    /// Returns the critical path of spooled interactions.
    pub fn path_from_spool(&self, spool: &Spool, options: critical_path::Options) -> Result<Answer, Error> {
        let options = critical_path::Options { machine: spool.machine().map(str::to_owned), ..options };
        let mut critical_path = CriticalPath::new(options);
        self.replay(spool, &mut critical_path)?;
        self.path(critical_path)
    }

    /// Returns the predicted effects of changes.
    pub fn what_if(&mut self, options: what_if::Options) -> Result<what_if::Answer, Error> {
        let mut replays = self.replays(options);
        follow::follow(self, |_, _| {}, &mut [&mut replays])?;
        self.predictions(replays)
    }

    /// Returns the predicted effects of changes, and a spool of the interactions for further
    /// predictions.
    pub fn what_if_and_spool(&mut self, options: what_if::Options) -> Result<(what_if::Answer, Spool), Error> {
        let (mut replays, mut writer) = (self.replays(options), SpoolWriter::default());
        follow::follow(self, |_, _| {}, &mut [&mut replays, &mut writer])?;
        Ok((self.predictions(replays)?, writer.finish(self.vocabulary())))
    }

    /// Returns the predicted effects of changes, from spooled interactions. Runs in this thread,
    /// because reading the spool is faster than passing interactions to another thread.
    pub fn what_if_from_spool(&self, spool: &Spool, options: what_if::Options) -> Result<what_if::Answer, Error> {
        let options = what_if::Options { machine: spool.machine().map(str::to_owned).or(options.machine.clone()), ..options };
        let mut replays = self.replays(options);
        self.replay(spool, &mut replays)?;
        self.predictions(replays)
    }

    /// Returns the predicted effects of changes, from an analysis that has seen all interactions.
    fn predictions(&self, replays: WhatIf) -> Result<what_if::Answer, Error> {
        let mut answer = replays.answer(self.vocabulary()).map_err(|error| match error {
            what_if::NoAnswer::Empty if self.is_part() => self.nothing_in_part(),
            what_if::NoAnswer::NothingInRange => self.nothing_in_part(),
            source => Error::NoPrediction { name: self.name().to_owned(), source },
        })?;
        answer.lost = self.counters().map_or(0, |counters| counters.lost);
        Ok(answer)
    }

    fn replays(&self, options: what_if::Options) -> WhatIf {
        let cpus = self.composer().map_or(0, |composer| composer.linux().cpus.len() as u32);
        WhatIf::new(what_if::Options { probe_ns: self.probe_ns(), cpus, ..options })
    }

    /// Passes the spooled interactions to an analysis, with the part to which the spool is limited.
    fn replay(&self, spool: &Spool, follower: &mut impl Follower) -> Result<(), Error> {
        let (begin, end) = spool.range();
        if let Some(begin) = begin {
            follower.begin_at(begin);
        }
        let read = spool.each(|vocabulary, interaction| follower.interaction(vocabulary, interaction));
        read.map_err(|source| self.unreadable_spool(source))?;
        if let Some(end) = end {
            follower.until(end);
        }
        Ok(())
    }

    pub(super) fn unreadable_spool(&self, source: io::Error) -> Error {
        Error::Spool { name: format!("the interactions of {}", self.name()), source }
    }

    /// Reads all interactions, and returns which machine waits for which.
    pub fn waits(&mut self) -> Result<wait_graph::Answer, Error> {
        let mut waits = Waits::default();
        while let Some(interaction) = self.next_interaction()? {
            if let Some(begin) = self.range().begin {
                waits.begin_at(begin);
            }
            waits.interaction(self.vocabulary(), &interaction);
        }
        if let Some(end) = self.until() {
            waits.until(end);
        }
        let mut answer = waits.answer(self.vocabulary()).ok_or_else(|| self.empty())?;
        leave_out_recorder(&mut answer, self.knows_recorder());
        match answer.length_ns == 0 && self.is_part() {
            true => Err(self.empty()),
            false => Ok(answer),
        }
    }

    /// Passes all interactions to `visit`, together with the begin of the requested part in ns.
    /// Returns the number of interactions in that part. An error if there are none.
    pub fn each(&mut self, mut visit: impl FnMut(&Vocabulary, &Interaction, u64)) -> Result<u64, Error> {
        let mut count = 0;
        while let Some(interaction) = self.next_interaction()? {
            let begin = self.range().begin.unwrap_or(0);
            // Declarations of queues have no time.
            count += u64::from(interaction.t >= begin && !matches!(interaction.effect, Effect::Declare { .. }));
            visit(self.vocabulary(), &interaction, begin);
        }
        match count {
            0 => Err(self.empty()),
            count => Ok(count),
        }
    }

    /// Writes the interactions as a machine log.
    pub fn write(&mut self, out: impl Write) -> Result<(), Error> {
        let mut writer = Writer::new(out);
        while let Some(interaction) = self.next_interaction()? {
            writer.write(self.vocabulary(), &interaction).map_err(Error::Write)?;
        }
        writer.flush().map_err(Error::Write)?;
        Ok(())
    }
}

/// Leaves out the waits of the recorder's own threads, which are no part of the recorded system.
fn leave_out_recorder(answer: &mut wait_graph::Answer, is_recorder: impl Fn(&str) -> bool) {
    answer.waiters.retain(|waiter| !is_recorder(&waiter.who.machine));
    answer.edges.retain(|edge| !is_recorder(&edge.from.machine));
    answer.mutual_waits.retain(|wait| wait.machines.iter().any(|member| !is_recorder(&member.who.machine)));
}
