//! The anchor of a verdict: the thread whose path it is about, and the part of the range.
//!
//! The critical path leads back from an end. The end of a command shows something about the system
//! only if work decides when it comes. This is not so if a timer that was set before the work ends
//! the run (a benchmark of fixed duration, a script that sleeps and then kills its services), or if
//! nothing ends it (services under load). The path then leads to the thread for which the work is
//! done: the thread of the load generator that receives the replies. It ends at its last reply
//! within the steady part of the range.
//!
//! Example: `wrk -d 10` sleeps for ten seconds in its main thread. The path is that of its worker,
//! from 2 % to 98 % of the replies.

use super::limits::Limits;
use super::subjects::{Role, SubjectId, Subjects};
use crate::verdict::facts::traffic::Traffic;
use longpole_model::interaction::{MachineId, Vocabulary};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// The event that decides when the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// A given amount of work, as far as is known.
    FixedWork,
    /// A timer that was set before the work.
    FixedTime,
    /// No event: the range is a part of continuous operation.
    Endless,
}

/// The run as a report states it: its kind, and the part of the range that the path covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunOf {
    pub kind: Run,
    /// Events that are counted as progress. `None` if the end itself is the progress.
    pub progress: Option<String>,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// A thread, and the part of the range for which its path is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub run: Run,
    pub machine: MachineId,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Name of the event, given by the user, that is counted. `None` if replies are counted: the
    /// path ends at the last reply before `end_ns`.
    pub event: Option<String>,
}

impl Anchor {
    /// Returns the counted events and their thread, as text.
    pub fn progress(&self, vocabulary: &Vocabulary) -> String {
        let machine = vocabulary.machine_name(self.machine);
        match &self.event {
            Some(event) => format!("{event} of {machine}"),
            None => format!("replies at {machine}"),
        }
    }
}

/// The facts from which an anchor is chosen.
#[derive(Clone)]
pub struct Choice<'a> {
    pub traffic: &'a Traffic,
    pub subjects: &'a Subjects,
    pub vocabulary: &'a Vocabulary,
    pub limits: &'a Limits,
    pub has_command: bool,
    /// Begin and end of the path to the command's end.
    pub path: (u64, u64),
    /// Threads that the user selected, if any.
    pub selected: Option<&'a HashSet<MachineId>>,
}

impl Choice<'_> {
    /// Returns the anchor. `None` means that the path to the end of the command, or to the end of
    /// the trace, is the right one.
    pub fn anchor(&self) -> Option<Anchor> {
        let (run, within) = match (self.selected, self.has_command) {
            (Some(_), _) | (None, false) => (Run::Endless, self.path),
            (None, true) => (Run::FixedTime, self.timed()?),
        };
        let members = self.group(run)?;
        let of_group = || self.machines().filter(|(_, subject)| members.contains(subject)).map(|(machine, _)| machine);
        let machine = match (self.receiver(&members, within), self.selected) {
            (Some(machine), _) => machine,
            // No thread wakes the selected threads; their path is still wanted.
            (None, Some(selected)) => return self.busiest(selected.iter().copied(), within),
            // They may wake each other through kernel threads (terminals, disks).
            (None, None) if run == Run::Endless => return self.busiest(of_group(), within),
            (None, None) => return None,
        };
        let (begin_ns, end_ns) = self.traffic.steady(of_group(), within, self.limits.left_out_at_ends)?;
        (begin_ns < end_ns).then_some(Anchor { run, machine, begin_ns, end_ns, event: None })
    }

    /// Returns the thread with most of the events that the user named, from the first to the last
    /// event in the steady part. `times` holds the times of each thread's events, by the thread's
    /// machine.
    pub fn anchor_at(&self, event: &str, times: &HashMap<MachineId, Vec<u64>>) -> Option<Anchor> {
        let run = match (self.has_command, self.timed()) {
            (false, _) => Run::Endless,
            (true, Some(_)) => Run::FixedTime,
            (true, None) => Run::FixedWork,
        };
        let programs: HashSet<MachineId> = self.machines().map(|(machine, _)| machine).collect();
        let times = times.iter().filter(|(machine, _)| programs.contains(machine));
        let (&machine, times) = times.max_by_key(|(machine, times)| (times.len(), std::cmp::Reverse(machine.0)))?;
        let left_out = (times.len() as f64 * self.limits.left_out_at_ends) as usize;
        let steady = times.get(left_out..times.len() - left_out)?;
        let (&begin_ns, &end_ns) = (steady.first()?, steady.last()?);
        (begin_ns < end_ns).then(|| Anchor { run, machine, begin_ns, end_ns, event: Some(event.to_owned()) })
    }

    /// Returns the thread that ran most, with the whole range.
    fn busiest(&self, threads: impl Iterator<Item = MachineId>, (begin_ns, end_ns): (u64, u64)) -> Option<Anchor> {
        let ran = threads.filter_map(|machine| Some((self.traffic.own(machine)?.ran_ns, machine)));
        let machine = ran.max()?.1;
        (begin_ns < end_ns).then_some(Anchor { run: Run::Endless, machine, begin_ns, end_ns, event: None })
    }

    /// Returns the threads of all programs except for the recorder, with their subjects.
    fn machines(&self) -> impl Iterator<Item = (MachineId, SubjectId)> + '_ {
        self.vocabulary.machines().filter_map(|machine| {
            let subject = self.subjects.known(self.vocabulary.machine_name(machine))?;
            (!self.subjects.get(subject).is_recorder).then_some((machine, subject))
        })
    }

    /// Returns the longest wait of a thread of the command for a timer of its own, if that is most
    /// of the run.
    fn timed(&self) -> Option<(u64, u64)> {
        let (begin, end) = self.path;
        let own = self.machines().filter(|&(_, subject)| self.subjects.get(subject).is_of_command);
        let longest = own.filter_map(|(machine, _)| self.traffic.own(machine)?.longest_sleep);
        let (from, to) = longest.max_by_key(|(from, to)| to - from)?;
        let most = (to - from) as f64 >= self.limits.majority * (end - begin).max(1) as f64;
        most.then_some((from.max(begin), to.min(end)))
    }

    /// Returns the busiest group of subjects that wake each other. Groups that answer requests
    /// precede all others.
    fn group(&self, run: Run) -> Option<HashSet<SubjectId>> {
        let of: HashMap<u32, SubjectId> = self.machines().map(|(machine, subject)| (machine.0, subject)).collect();
        let mut between: HashMap<(SubjectId, SubjectId), u64> = HashMap::new();
        for (by, machine, pair) in self.traffic.pairs() {
            if let (Some(&by), Some(&woken)) = (of.get(&by.0), of.get(&machine.0)) {
                *between.entry((by.min(woken), by.max(woken))).or_default() += pair.count;
            }
        }
        let all: u64 = between.values().sum();
        let least = ((all as f64 * self.limits.min_connected_share) as u64).max(1);
        let mut group: HashMap<SubjectId, SubjectId> = of.values().map(|&subject| (subject, subject)).collect();
        let mut edges: Vec<_> = between.into_iter().filter(|&((one, other), count)| one != other && count >= least).collect();
        edges.sort_unstable();
        for ((one, other), _) in edges {
            let (from, to) = (group[&one], group[&other]);
            group.values_mut().filter(|member| **member == from).for_each(|member| *member = to);
        }
        let mut ran: HashMap<SubjectId, u64> = HashMap::new();
        for (&machine, subject) in &of {
            let own = self.traffic.own(MachineId(machine));
            *ran.entry(group[subject]).or_default() += own.map_or(0, |own| own.ran_ns);
        }
        let is_meant = |root: &SubjectId| {
            let mut members = group.iter().filter(|(_, member)| *member == root).map(|(subject, _)| *subject);
            match self.selected {
                Some(selected) => {
                    members.any(|subject| of.iter().any(|(&machine, &of)| of == subject && selected.contains(&MachineId(machine))))
                }
                None if run == Run::FixedTime => members.any(|subject| self.subjects.get(subject).is_of_command),
                None => true,
            }
        };
        // A group that answers requests is a service. A script that starts a program each second is
        // not, even if it uses more CPU time.
        let answers = |root: &SubjectId| {
            let members = group.iter().filter(|(_, member)| *member == root);
            members.map(|(&subject, _)| self.subjects.get(subject).activity.served.count).sum::<u64>() >= self.limits.min_occurrences
        };
        let meant = ran.iter().filter(|(root, _)| is_meant(root));
        let busiest = meant.max_by_key(|&(root, &ns)| (answers(root), ns, std::cmp::Reverse(*root)))?;
        Some(group.iter().filter(|(_, member)| *member == busiest.0).map(|(subject, _)| *subject).collect())
    }

    /// Returns the thread for which the others work.
    fn receiver(&self, members: &HashSet<SubjectId>, within: (u64, u64)) -> Option<MachineId> {
        let of: HashMap<u32, SubjectId> = self.machines().map(|(machine, subject)| (machine.0, subject)).collect();
        let mut woken: HashMap<u32, (u64, u64)> = HashMap::new();
        for (by, machine, pair) in self.traffic.pairs() {
            let (Some(from), Some(to)) = (of.get(&by.0), of.get(&machine.0)) else { continue };
            if members.contains(to) && members.contains(from) {
                let counts = woken.entry(machine.0).or_default();
                counts.0 += if from == to { 0 } else { pair.count };
                counts.1 += pair.count;
            }
        }
        let lives = |machine: u32| {
            let own = self.traffic.own(MachineId(machine));
            own.is_some_and(|own| own.first_ns.is_some_and(|first| first < within.1) && own.last_ns > within.0)
        };
        let rank = |machine: u32, (others, all): (u64, u64)| {
            let subject = of[&machine];
            let subject = self.subjects.get(subject);
            let few = others.max(all) < self.limits.min_occurrences;
            (!few, subject.role == Role::Client, subject.is_of_command, others, all, std::cmp::Reverse(machine))
        };
        let is_selected = |machine: u32| self.selected.is_none_or(|selected| selected.contains(&MachineId(machine)));
        let best = woken
            .iter()
            .filter(|(&machine, _)| lives(machine) && is_selected(machine))
            .max_by_key(|&(&machine, &counts)| rank(machine, counts))?;
        (best.1 .1 >= self.limits.min_occurrences).then_some(MachineId(*best.0))
    }
}
