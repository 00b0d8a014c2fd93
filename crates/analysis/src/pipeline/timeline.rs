//! Completes a timeline after the trace was read: with the processes of its threads, and with the
//! CPUs.

use super::parties;
use super::{Error, Interactions};
use crate::critical_path::cpu_holders::OccupancyLog;
use crate::timeline::{CpuRows, ThreadFacts, Timeline, TimelineWriter};
use crate::verdict::limits::Limits;
use crate::verdict::subjects::Thread;
use longpole_model::causes::{Composer, RunsOn};
use longpole_model::interaction::MachineId;
use std::collections::HashMap;

/// Ends the states of the timeline, groups its rows by process, and adds the CPUs. `occupancy` has
/// observed the kernel's model; `None` for a machine log.
///
/// # Errors
///
/// [`Error::Spool`] if the occupancy cannot be read again.
pub fn finish(
    writer: TimelineWriter,
    timeline: &Timeline,
    interactions: &Interactions,
    occupancy: Option<&OccupancyLog>,
) -> Result<(), Error> {
    let threads = match interactions.composer() {
        Some(composer) => thread_facts(composer, &Limits::built_in()?),
        None => HashMap::new(),
    };
    writer.finish(interactions.vocabulary(), &threads);
    let places = interactions.composer().map_or(&[][..], Composer::runs_on).iter();
    timeline.set_threads(places.filter_map(|&(machine, place)| match place {
        RunsOn::Thread(tid) => Some((machine, tid)),
        RunsOn::Cpu(_) => None,
    }));
    if let (Some(occupancy), Some(composer)) = (occupancy, interactions.composer()) {
        let mut cpus = CpuRows::default();
        let read = occupancy.replay(composer.linux(), &mut cpus.filled(timeline, composer.linux()));
        read.map_err(|source| Error::Spool { name: "the CPU occupancy".to_owned(), source })?;
        cpus.filled(timeline, composer.linux()).finish();
    }
    Ok(())
}

/// Returns what is known about the threads behind machines.
pub(super) fn thread_facts(composer: &Composer, limits: &Limits) -> HashMap<MachineId, ThreadFacts> {
    let by_name = parties::titled_threads(composer, limits);
    let vocabulary = composer.vocabulary();
    let facts = |machine: MachineId| Some((machine, facts(by_name.get(vocabulary.machine_name(machine))?)));
    vocabulary.machines().filter_map(facts).collect()
}

fn facts(thread: &Thread) -> ThreadFacts {
    ThreadFacts {
        pid: thread.pid,
        tid: thread.tid,
        program: thread.program.clone(),
        role: thread.title.clone().or_else(|| thread.script.clone()),
        name: thread.name.clone(),
        is_kernel: thread.is_kernel,
        is_recorder: thread.is_recorder,
    }
}
