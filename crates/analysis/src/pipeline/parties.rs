//! The parties of a trace: the subjects that a verdict can name, and what they exchange. The anchor
//! of the path is chosen from them, and the verdict is about one of them.

use super::{Error, Interactions, ProgressTimes, Selection};
use crate::critical_path::Answer;
use crate::verdict::anchor::{Anchor, Choice};
use crate::verdict::data::Verdict;
use crate::verdict::facts::exchanges::SocketActivities;
use crate::verdict::facts::off_path::{OffPathCollector, OffPathFacts};
use crate::verdict::facts::places::ServicePlace;
use crate::verdict::facts::titles::Titled;
use crate::verdict::facts::traffic::Traffic;
use crate::verdict::limits::Limits;
use crate::verdict::parts::Parts;
use crate::verdict::subjects::{self, FromTo, Subjects, Thread};
use crate::verdict::{Case, Cpus, Missing};
use longpole_model::causes::{Composer, ThreadOfMachine};
use longpole_model::interaction::MachineId;
use std::collections::{HashMap, HashSet};

pub(super) struct Parties {
    pub limits: Limits,
    pub traffic: Traffic,
    pub off_path: OffPathFacts,
    pub subjects: Subjects,
    /// The machines of the threads that the user selected; `None` if the user selected none.
    pub selected: Option<HashSet<MachineId>>,
}

impl Parties {
    /// `traffic` and `off_path` have seen the whole trace.
    pub fn new(interactions: &Interactions, traffic: Traffic, off_path: OffPathCollector, selection: &Selection) -> Result<Parties, Error> {
        let limits = Limits::built_in()?;
        let off_path = off_path.finish();
        let subjects = subjects(interactions, &off_path.sockets, &traffic, &limits);
        let selected = selection.machines(&subjects, &off_path.sockets, interactions.vocabulary())?;
        Ok(Parties { limits, traffic, off_path, subjects, selected })
    }

    /// Returns the facts from which the anchor is chosen. `path` is the begin and end of the path
    /// to the end of the command.
    pub fn choice<'a>(&'a self, interactions: &'a Interactions, path: (u64, u64)) -> Choice<'a> {
        Choice {
            traffic: &self.traffic,
            subjects: &self.subjects,
            vocabulary: interactions.vocabulary(),
            limits: &self.limits,
            has_command: interactions.has_command(),
            path,
            selected: self.selected.as_ref(),
        }
    }

    /// Returns the case of a path, without what the kernel's events and predictions add to it.
    pub fn case<'a>(
        &'a self,
        interactions: &'a Interactions,
        (answer, parts): (&'a Answer, &'a Parts),
        wakeups_between: &'a HashMap<FromTo, u64>,
        by_states: &'a Verdict,
    ) -> Case<'a> {
        Case {
            answer,
            parts,
            subjects: &self.subjects,
            traffic: &self.traffic,
            vocabulary: interactions.vocabulary(),
            findings: &[],
            predictions: &[],
            together: None,
            by_states,
            anchor: None,
            wakeups_between,
            off_path: &self.off_path,
            contention: &[],
            cpus: Cpus::default(),
            missing: Missing::default(),
            limits: &self.limits,
        }
    }
}

/// Returns the anchor of the path. `None` means that the path to the end of the command, or of the
/// requested part, is the right one. `keep_end` requests that path unless threads are selected. An
/// error if the thread that the user named receives nothing.
pub(super) fn anchor(
    interactions: &Interactions,
    choice: &Choice<'_>,
    progress: Option<ProgressTimes>,
    (keep_end, selection): (bool, &Selection),
) -> Result<Option<Anchor>, Error> {
    let event = progress.as_ref().map(|progress| progress.name().to_owned());
    let anchor = match (progress, interactions.composer()) {
        (Some(progress), Some(composer)) => {
            let event = progress.name().to_owned();
            choice.anchor_at(&event, &progress.finish(composer)?)
        }
        (Some(_), None) => return Err(Error::ProgressOfLog),
        (None, _) => choice.anchor().filter(|_| !keep_end || choice.selected.is_some()),
    };
    match anchor {
        None if event.is_some() || !selection.is_empty() => Err(Error::NothingHappens { selection: selection.clone(), progress: event }),
        anchor => Ok(anchor),
    }
}

/// Returns the subjects that a verdict can name.
fn subjects(interactions: &Interactions, sockets: &SocketActivities, traffic: &Traffic, limits: &Limits) -> Subjects {
    let mut threads = interactions.composer().map_or_else(HashMap::new, |composer| titled_threads(composer, limits));
    subjects::remove_item_scripts(&mut threads, traffic, interactions.vocabulary(), limits.considerable_share);
    let stages = subjects::stages(traffic, &threads, interactions.vocabulary(), limits);
    Subjects::new(threads, sockets, &stages)
}

/// Returns the threads behind machines, by the machines' names, with the titles of their processes.
pub(super) fn titled_threads(composer: &Composer, limits: &Limits) -> HashMap<String, Thread> {
    let mut threads = threads(composer);
    subjects::add_titles(&mut threads, &titled(composer), limits.min_varying_roles);
    threads
}

/// Returns, by process id, the titles that each process gave itself.
fn titled(composer: &Composer) -> HashMap<i32, Titled> {
    let of_programs = composer.threads_of_machines().iter().filter(|behind| !behind.is_kernel);
    let titled = |behind: &ThreadOfMachine| {
        let process = composer.linux().processes.get(behind.process);
        let (parent, titles) = process.map_or((None, Vec::new()), |process| (process.parent, process.titles.clone()));
        // A process may be listed several times; collecting into a map keeps the last program,
        // which is the one that it executed last.
        (behind.process, Titled { program: behind.program.clone(), parent, titles })
    };
    of_programs.map(titled).collect()
}

/// Returns the threads behind machines, by the machines' names.
fn threads(composer: &Composer) -> HashMap<String, Thread> {
    let vocabulary = composer.vocabulary();
    // The script belongs to the program that the process executed last; before that it was another
    // program.
    let last: HashMap<i32, &str> = composer.threads_of_machines().iter().map(|behind| (behind.process, behind.program.as_str())).collect();
    let script = |behind: &ThreadOfMachine| {
        let process = composer.linux().processes.get(behind.process)?;
        process.script.clone().filter(|_| last.get(&behind.process) == Some(&behind.program.as_str()))
    };
    let thread = |behind: &ThreadOfMachine| {
        let thread = Thread {
            pid: behind.process,
            earlier: Vec::new(),
            tid: behind.tid,
            program: behind.program.clone(),
            script: script(behind),
            title: None,
            place: composer.linux().processes.cgroup(behind.process).map(ServicePlace::of).unwrap_or_default(),
            name: behind.name.clone(),
            is_kernel: behind.is_kernel,
            is_recorder: vocabulary.is_recorder(behind.machine),
            is_of_command: behind.is_of_command,
            allowed: composer.linux().cpus_of(behind.tid),
            is_reserved: composer.linux().is_reserved(behind.tid),
            priority: composer.linux().priority(behind.tid),
        };
        (vocabulary.machine_name(behind.machine).to_owned(), thread)
    };
    let mut threads: HashMap<String, Thread> = HashMap::new();
    for (machine, thread) in composer.threads_of_machines().iter().map(thread) {
        // Programs that run one after the other have one machine. A process that executes another
        // program may get the same machine again.
        let before = threads.remove(&machine).filter(|before| before.program == thread.program);
        let earlier = before.map_or_else(Vec::new, |before| {
            let mut earlier = before.earlier;
            earlier.extend(Some(before.pid).filter(|&pid| pid != thread.pid));
            earlier
        });
        threads.insert(machine, Thread { earlier, ..thread });
    }
    threads
}
