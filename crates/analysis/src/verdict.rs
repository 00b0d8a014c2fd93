//! The verdict: which subject limits the system, in which state, and by which mechanism, each as
//! far as it is certain.
//!
//! The critical path ([`crate::critical_path`]) shows what the end of the run waited for. It does
//! not show whether a sleep on it is the pace of a load generator or a wait inside a lock, whether
//! a process with 60 % of it leads, or whose path matters. This module decides that. It uses the
//! path by subject ([`parts`]), the wake-ups and waits outside of the path ([`facts::traffic`]),
//! requests and replies ([`facts::exchanges`]), and predictions of changes ([`crate::what_if`]).
//!
//! Before the questions, sleeps that delay nothing are removed from the path, and a path that is
//! mostly unknown ends with [`Outcome::Unknown`]. The questions are asked in a fixed order, and the
//! first one with a certain answer is the verdict:
//!
//! | question: what decides? | file |
//! |---|---|
//! | a schedule by which the last thread works | [`questions::schedule`] |
//! | a network link, a timer of the kernel, or a receive window | [`questions::waits`] |
//! | a state that a program declared | here, with [`questions::machine_states`] |
//! | a CPU quota, or input from outside of the host | [`questions::waits`] |
//! | a sleep | [`questions::sleeps`], with [`questions::locks`] and [`questions::requests`] |
//! | a disk | [`questions::waits`] |
//! | a priority inversion | [`questions::work`], with [`facts::inversions`] |
//! | connections for each request | [`questions::requests`] |
//! | a hand-over for each item | [`questions::hand_over`] |
//! | the CPUs | [`questions::work`]; used for starting processes: [`questions::processes`] |
//! | a serial step of the run | [`questions::serial_step`] |
//! | interrupts | [`questions::work`] |
//! | one subject, by one of its states or as a whole | [`questions::work`] |
//! | a process for each item | [`questions::processes`] |
//! | round trips | [`questions::requests`] |
//!
//! If a subject leads, but none of its states does, round trips are tried before the subject is
//! named. Last, the processes of one program count together. If no question has a certain answer,
//! the path is *spread*, or too little is known. File locks ([`questions::locks`]), requests that
//! wait for other requests ([`questions::requests`]) and unrelated programs on the CPUs are then
//! added to the verdict. In a trace with stages, their verdict may replace this one
//! (`Report::with_path`).
//!
//! The facts are collected while the trace is read ([`facts::exchanges`], [`facts::off_path`] with
//! [`facts::file_locks`] and [`facts::inversions`], [`facts::traffic`] with [`facts::polls`]) or
//! from the path ([`parts`]); [`Case`] has them all.
//!
//! The verdict is data ([`data::Verdict`]); [`sentence`] writes it as text. No rule here may depend
//! on what a name means: subjects are judged by their roles, states and figures.

pub mod anchor;
pub mod code;
pub mod data;
pub mod facts;
pub mod limits;
pub mod lost_events;
pub mod not_recorded;
pub mod pairs;
pub mod parts;
pub mod questions;
pub mod sensitivity;
pub mod sentence;
pub mod subjects;

use crate::critical_path::Answer;
use crate::findings::kernel_facts::Contention;
use crate::findings::Finding;
use crate::stats::evidence::Evidence;
use crate::verdict::not_recorded::NotRecorded;
use crate::what_if::{Prediction, Scenario};
use anchor::Anchor;
use data::because::Because;
use data::caveat::Caveat;
use data::{
    Basis, ClassState, Gain, GainOf, Mechanism, Named, Origin, Outcome, ProgressLatency, RunRole, RunnerUp, StateNamed, SubjectLevel,
    SubjectState, Verdict,
};
use facts::off_path::OffPathFacts;
use facts::traffic::{Own, Traffic};
use limits::{Limits, MIN_SHARE_OF_RELATED};
use longpole_model::interaction::Vocabulary;
use longpole_model::kinds::LinkKind;
use lost_events::too_many_lost;
use pairs::PairPrediction;
use parts::{Does, Part, Parts};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use subjects::{FromTo, Level, Role, Subject, SubjectId, Subjects};

/// CPUs of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpus {
    pub count: u64,
    /// Share of the time in which the CPUs were idle. `None` if no event shows it.
    pub idle: Option<f64>,
}

/// Events that the recording should contain but does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missing<'a> {
    /// Number of lost events.
    pub lost: u64,
    /// Kinds of events that were switched off during the recording.
    pub kinds: &'a [NotRecorded],
    /// Advice for a new recording if events were lost ([`lost_events::remedy`]).
    pub remedy: &'a str,
}

/// All facts on which the verdict depends.
#[derive(Clone)]
pub struct Case<'a> {
    pub answer: &'a Answer,
    pub parts: &'a Parts,
    pub subjects: &'a Subjects,
    pub traffic: &'a Traffic,
    pub vocabulary: &'a Vocabulary,
    pub findings: &'a [Finding],
    pub predictions: &'a [Prediction],
    /// Two changes that bring much only together.
    pub together: Option<&'a PairPrediction>,
    /// The verdict by states of machines and classes ([`questions::machine_states`]), which ignores
    /// processes.
    pub by_states: &'a Verdict,
    pub anchor: Option<&'a Anchor>,
    /// Number of wake-ups of each subject by each other one, also outside of the path
    /// ([`wakeups_between`]).
    pub wakeups_between: &'a HashMap<FromTo, u64>,
    pub off_path: &'a OffPathFacts,
    /// Locks for which threads wait, as far as kernel events show them.
    pub contention: &'a [Contention],
    pub cpus: Cpus,
    pub missing: Missing<'a>,
    pub limits: &'a Limits,
}

impl Case<'_> {
    /// Returns the verdict: by subjects, unless the largest one is a machine for which no process
    /// is known; then by states of machines.
    pub fn verdict(&self) -> Verdict {
        let has_processes = self.parts.wholes.first().is_some_and(|first| self.subjects.get(first.subject).level != Level::Machine);
        let mut verdict = match has_processes.then(|| self.without_idle_sleeps()).flatten() {
            Some((parts, because)) => {
                let mut verdict = Case { parts: &parts, ..self.clone() }.ask_in_order();
                verdict.because.push(because);
                verdict
            }
            None if has_processes => self.ask_in_order(),
            None => self.by_states.clone(),
        };
        // For round trips, no prediction applies: the gain of fewer requests is not the gain of a
        // change of a state.
        if verdict.gain.is_none() && verdict.mechanism != Some(Mechanism::RoundTrips) {
            verdict.gain = self.gain(&verdict);
        }
        self.add_together(&mut verdict);
        if !self.missing.kinds.is_empty() {
            verdict.caveats.push(Caveat::SwitchedOff { kinds: self.missing.kinds.to_vec() });
        }
        if verdict.basis == Basis::Subjects {
            verdict.caveats.extend(self.timer_caveat(&verdict));
        }
        verdict
    }

    /// Returns a caveat if a signal from a timer may end the run: then no change makes the run
    /// shorter.
    fn timer_caveat(&self, verdict: &Verdict) -> Option<Caveat> {
        let row = verdict.origin.row.as_ref().filter(|_| verdict.outcome == Outcome::Bottleneck && self.anchor.is_none())?;
        let (machine, call) = questions::machine_states::timer(self.answer, &row.class)?;
        Some(Caveat::Timer { machine: machine.to_owned(), call: call.to_owned() })
    }

    /// Returns the path without sleeps that delay nothing.
    ///
    /// A sleep delays nothing in two cases: halving it would bring hardly any of the gain that its
    /// share promises, because other work takes its place, or it would bring clearly less while the
    /// programs of the path fill the CPUs. A thread that wakes up now and then, and does a little
    /// work for which another thread waits, leads the path back into its sleeps.
    fn without_idle_sleeps(&self) -> Option<(Parts, Because)> {
        let mut shares: BTreeMap<&ClassState, f64> = BTreeMap::new();
        for part in self.parts.parts.iter().filter(|part| part.does == Does::Sleeps) {
            *shares.entry(&part.row).or_default() += part.share;
        }
        // The largest gain that the CPUs allow.
        let allowed = self.cpus_allow().map_or(f64::INFINITY, |factor| (factor - 1.0).max(0.0));
        let is_full = self.cpus.idle.is_some_and(|idle| idle <= self.limits.max_idle_share)
            && (1.0 + allowed) * (1.0 - self.limits.considerable_share) <= 1.0;
        let is_idle = |row: &ClassState, share: f64| {
            let Some((prediction, gain)) = self.predicted(&row.halved()).and_then(|known| Some((known, known.gain?))) else { return false };
            let promised = 1.0 / (1.0 - share / 2.0) - 1.0;
            // If another sleep takes over, both are needed, unless the CPUs have no room for more
            // work.
            let next_works = prediction.next.as_ref().is_some_and(|next| next.kind.is_none_or(|kind| kind.is_code()));
            is_full && gain.min(allowed) < self.limits.majority * promised || next_works && gain < self.limits.considerable_share * promised
        };
        let idle: BTreeSet<&ClassState> = shares.into_iter().filter(|&(row, share)| is_idle(row, share)).map(|(row, _)| row).collect();
        let is_left_out = |part: &Part| part.does == Does::Sleeps && idle.contains(&part.row);
        let share = self.share(is_left_out);
        let first = self.parts.parts.iter().find(|part| is_left_out(part)).filter(|_| share >= self.limits.considerable_share)?;
        let mut sleepers: Vec<Named> = Vec::new();
        for part in self.parts.parts.iter().filter(|part| is_left_out(part) && part.share >= self.limits.considerable_share * share) {
            let named = self.name_of(part);
            if !sleepers.contains(&named) {
                sleepers.push(named);
            }
        }
        let gain = self.predicted(&first.row.halved())?.gain?.min(allowed);
        let because = Because::IdleSleeps { sleepers, share: share.min(1.0), gain };
        Some((self.parts.without(is_left_out)?, because))
    }

    /// Returns the prediction of a scenario, if it was made.
    fn predicted(&self, scenario: &Scenario) -> Option<&Prediction> {
        self.predictions.iter().find(|prediction| prediction.is_of(scenario))
    }

    /// Returns the factor by which the system could be faster until the CPUs are full, if the
    /// programs of the path, and those that its largest ones start, need as much CPU time as now,
    /// on the path or outside of it. `None` if that is unknown.
    fn cpus_allow(&self) -> Option<f64> {
        let with_share = |least: f64| self.parts.wholes.iter().filter(move |whole| whole.share >= least).map(|whole| whole.subject);
        // A shell that has started everything has a small share.
        let mut own = self.with_started(with_share(self.limits.considerable_share).collect());
        own.extend(with_share(self.limits.min_connected_share));
        let ran: u64 = self.owners().filter(|(subject, _)| own.contains(subject)).map(|(_, own)| own.ran_ns).sum();
        (ran > 0 && self.cpus.count > 0).then(|| self.cpus.count as f64 * self.traffic.length_ns() as f64 / ran as f64)
    }

    /// Asks the questions in their order.
    fn ask_in_order(&self) -> Verdict {
        let unknown = self.unknown_share();
        let largest = self.parts.wholes.first().map_or(0.0, |first| first.share);
        if too_many_lost(self.missing.lost, self.answer.interactions) && unknown > largest || unknown > self.limits.majority {
            return self.without_subject(Outcome::Unknown);
        }
        let decided = self
            .by_schedule()
            .or_else(|| self.by_link())
            .or_else(|| self.by_kernel_timer())
            .or_else(|| self.by_window())
            .or_else(|| self.by_declared())
            .or_else(|| self.by_quota())
            .or_else(|| self.by_outside())
            .or_else(|| self.by_sleep())
            .or_else(|| self.by_disk())
            .or_else(|| self.by_inversion())
            .or_else(|| self.by_connections())
            .or_else(|| self.by_hand_over())
            .or_else(|| {
                let verdict = self.by_cpus()?;
                let is_of_cpus = verdict.mechanism == Some(Mechanism::CpuContention);
                Some(is_of_cpus.then(|| self.by_processes_on_full_cpus()).flatten().unwrap_or(verdict))
            })
            .or_else(|| self.by_serial_step())
            .or_else(|| self.by_interrupts())
            .or_else(|| self.by_subject())
            .or_else(|| self.by_process_per_item())
            .or_else(|| self.by_round_trips())
            .or_else(|| self.by_program());
        let mut verdict = match decided {
            Some(verdict) => verdict,
            None if unknown > self.limits.min_share => self.without_subject(Outcome::Unknown),
            None => self.spread(),
        };
        self.add_file_lock(&mut verdict);
        self.add_held_requests(&mut verdict);
        self.add_occupied(&mut verdict);
        self.add_bystanders(&mut verdict);
        verdict
    }

    /// Returns the own times of each thread, with its subject.
    fn owners(&self) -> impl Iterator<Item = (SubjectId, &Own)> {
        let machines = self.vocabulary.machines();
        machines.filter_map(|machine| Some((self.subjects.known(self.vocabulary.machine_name(machine))?, self.traffic.own(machine)?)))
    }

    /// Returns the own times of the threads of one subject.
    fn owned(&self, subject: SubjectId) -> impl Iterator<Item = &Own> {
        self.owners().filter(move |(of, _)| *of == subject).map(|(_, own)| own)
    }

    /// Returns whether the path leads to this subject's own end.
    fn is_end(&self, subject: SubjectId) -> bool {
        self.subjects.known(&self.answer.end_machine) == Some(subject)
    }

    /// Returns whether the path passes between two subjects often enough, in either direction.
    fn is_connected(&self, one: SubjectId, other: SubjectId) -> bool {
        let passages = |from, to| self.parts.crossings.entries.get(&FromTo { from, to }).copied().unwrap_or(0);
        passages(one, other) + passages(other, one) >= self.limits.min_occurrences
    }

    fn unknown_share(&self) -> f64 {
        self.answer.unknown_ns as f64 / self.answer.length_ns.max(1) as f64
    }

    /// Returns a verdict without a subject, with the caveats about missing facts.
    fn without_subject(&self, outcome: Outcome) -> Verdict {
        let mut caveats = Vec::new();
        let unknown = self.unknown_share();
        if unknown > self.limits.max_unknown {
            caveats.push(Caveat::UnknownTime { share: unknown, contradictory: false });
        }
        if too_many_lost(self.missing.lost, self.answer.interactions) {
            caveats.push(Caveat::LostEvents { count: self.missing.lost, remedy: self.missing.remedy.to_owned() });
        }
        Verdict {
            caveats,
            unknown_share: Some(unknown),
            lost: self.missing.lost,
            evidence: Evidence { start_ns: self.answer.start_ns as i64, end_ns: self.answer.end_ns as i64 },
            ..Verdict::new(outcome, Basis::Subjects)
        }
    }

    /// Adds the file lock for which others wait while the subject works or sleeps.
    fn add_file_lock(&self, verdict: &mut Verdict) {
        let has_subject = matches!(verdict.outcome, Outcome::Bottleneck | Outcome::Paced);
        let has_lock = verdict.because.iter().any(|because| matches!(because, Because::Convoy { .. } | Because::Lock { .. }));
        let Some(subject) = verdict.origin.subject.filter(|_| has_subject && !has_lock) else { return };
        let within = || self.file_lock_within(subject).map(|convoy| self.waits_for_lock(convoy, None));
        let Some(lock) = self.file_lock(subject).or_else(within) else { return };
        if verdict.outcome == Outcome::Bottleneck {
            verdict.mechanism = match verdict.mechanism {
                None | Some(Mechanism::SingleThread | Mechanism::OneAtATime) => Some(Mechanism::LockConvoy),
                known => known,
            };
        }
        verdict.because.insert(0, lock);
    }

    /// Adds the server in which requests wait for its other threads, if no reason states a lock.
    fn add_held_requests(&self, verdict: &mut Verdict) {
        use Because::{Convoy, FileLock, Lock, Schedule};
        let states_it = |because: &Because| matches!(because, Convoy { .. } | Lock { .. } | FileLock { .. } | Schedule { .. });
        if verdict.because.iter().any(states_it) {
            return;
        }
        let Some(held) = self.held_requests() else { return };
        let is_lock = matches!(held, Because::HeldRequests { is_passed_on: true, .. });
        add_waiting(verdict, held, is_lock.then_some(Mechanism::LockConvoy));
    }

    /// Adds the server whose processes are all occupied, if no reason states where requests wait.
    fn add_occupied(&self, verdict: &mut Verdict) {
        use Because::{Convoy, HeldRequests, Schedule, Serialised};
        let states_it = |because: &Because| matches!(because, Serialised { .. } | HeldRequests { .. } | Convoy { .. } | Schedule { .. });
        if verdict.because.iter().any(states_it) {
            return;
        }
        if let Some(occupied) = self.occupied() {
            add_waiting(verdict, occupied, Some(Mechanism::Serialisation));
        }
    }

    /// Adds a caveat if programs unrelated to the path take a considerable share of the CPUs.
    fn add_bystanders(&self, verdict: &mut Verdict) {
        let is_related = |id: SubjectId| {
            let subject = self.subjects.get(id);
            subject.is_of_command
                || subject.role != Role::None
                || self.parts.whole(id).is_some_and(|whole| whole.share >= MIN_SHARE_OF_RELATED)
        };
        let busy = 1.0 - self.cpus.idle.unwrap_or(0.0);
        let others: Vec<(SubjectId, f64)> = self.cpu_users().into_iter().filter(|(id, _)| !is_related(*id)).collect();
        let share = busy * others.iter().map(|(_, share)| share).sum::<f64>();
        let Some(first) = others.first().filter(|_| share >= self.limits.considerable_share && self.cpus.idle.is_some()) else { return };
        verdict.caveats.push(Caveat::Bystanders { share, example: self.name(first.0, None) });
    }

    /// Returns a verdict on parts of the path, of which the first one belongs to the subject, and
    /// gives its name and its state.
    fn verdict_on(&self, outcome: Outcome, subject: SubjectId, parts: &[&Part]) -> Verdict {
        let share: f64 = parts.iter().map(|part| part.share).sum();
        let error = parts.iter().map(|part| part.error).fold(0.0, f64::max);
        let first = parts.first();
        let runner = self.parts.parts.iter().find(|part| part.subject != subject && part.does != Does::Transit);
        Verdict {
            subject: Some(first.map_or_else(|| self.name(subject, None), |part| self.name_of(part))),
            state: first.map(|part| state_of(part)),
            share: Some(share),
            share_low: Some((share - error).max(0.0)),
            share_high: Some((share + error).min(1.0)),
            runner_up: runner.map(|part| self.runner_up(part)),
            role: self.role(subject),
            evidence: first.map_or_else(Evidence::default, |part| part.evidence),
            origin: Origin { subject: Some(subject), station: None, row: first.map(|part| part.row.clone()) },
            ..self.without_subject(outcome)
        }
    }

    fn runner_up(&self, part: &Part) -> RunnerUp {
        RunnerUp { subject: self.name_of(part), state: state_of(part), share: part.share }
    }

    /// Returns the name of a part's subject, down to a thread or a group of threads with one role.
    fn name_of(&self, part: &Part) -> Named {
        let named = self.name(part.subject, part.machine.as_deref());
        match &part.thread_group {
            Some(group) if part.machine.is_none() => {
                let level = if named.level == SubjectLevel::Process { SubjectLevel::Pool } else { named.level };
                Named { level, name: format!("{}/{group}", self.subjects.get(part.subject).name), ..named }
            }
            _ => named,
        }
    }

    /// Returns the name of a subject, down to the thread `machine` if one thread accounts for the
    /// part.
    fn name(&self, id: SubjectId, machine: Option<&str>) -> Named {
        let subject = self.subjects.get(id);
        let thread = machine.and_then(|machine| self.subjects.thread(machine));
        let (level, name) = match (subject.level, thread) {
            (Level::Process | Level::Pool, Some(thread)) if thread.name != subject.name => {
                (SubjectLevel::Thread, format!("{}/{}", subject.name, thread.name))
            }
            (Level::Process, _) => (SubjectLevel::Process, subject.name.clone()),
            (Level::Pool, Some(_)) => (SubjectLevel::Process, subject.name.clone()),
            (Level::Pool, None) => (SubjectLevel::Pool, subject.name.clone()),
            (Level::Interrupt, _) => (SubjectLevel::Interrupt, subject.name.clone()),
            (Level::KernelThread | Level::Machine, _) => (SubjectLevel::Thread, subject.name.clone()),
        };
        let only = (subject.processes.len() == 1).then(|| subject.processes[0]);
        Named {
            level,
            host: Some(subject.host.clone()).filter(|host| !host.is_empty()),
            name,
            script: subject.script.clone(),
            title: subject.title.clone(),
            unit: subject.place.unit.clone(),
            container: subject.place.container.clone(),
            needs_place: subject.needs_place,
            pid: thread.map(|thread| thread.pid).or(only),
            tid: thread.map(|thread| thread.tid),
            port: subject.port.filter(|_| subject.role == Role::Server),
        }
    }

    /// Returns the share of the path that some of its parts have together.
    fn share(&self, is_meant: impl Fn(&Part) -> bool) -> f64 {
        self.parts.parts.iter().filter(|part| is_meant(part)).map(|part| part.share).sum()
    }

    /// Returns the subject from which the path most often comes to this one, except for an earlier
    /// program of the same process.
    fn asked_by(&self, subject: SubjectId) -> Option<SubjectId> {
        let processes = |id: SubjectId| &self.subjects.get(id).processes[..];
        let is_earlier = |from: SubjectId| processes(from).len() == 1 && processes(from) == processes(subject);
        let others = self.parts.entries_into(subject).filter(|&(from, _)| !is_earlier(from));
        others.max_by_key(|&(from, count)| (count, Reverse(from))).map(|(from, _)| from)
    }

    /// Returns the role of the only program that makes requests and answers none. `None` if another
    /// program also makes a considerable number of requests, such as a worker that takes its work
    /// from a broker: either of the two may be the load generator.
    fn role(&self, subject: SubjectId) -> Option<RunRole> {
        let own = self.subjects.get(subject);
        let requests = |of: &Subject| if of.role == Role::Client && !of.is_recorder { of.activity.asked.count } else { 0 };
        let many = (self.limits.considerable_share * requests(own) as f64).max(self.limits.min_occurrences as f64);
        let asked: BTreeSet<SubjectId> = self.wakeups_between.keys().filter(|pair| pair.from == subject).map(|pair| pair.to).collect();
        // A program that only sends, such as one that hands its work to a broker, has no replies.
        let sends = |id: SubjectId, of: &Subject| {
            let to_others = self.wakeups_between.iter().filter(|(pair, _)| pair.from == id && pair.to != id && asked.contains(&pair.to));
            if of.role != Role::Server && self.is_program(id) && !of.is_recorder {
                to_others.map(|(_, &count)| count).sum()
            } else {
                0
            }
        };
        // The load is what the user started, if that is a client.
        let is_started = |other: &Subject| other.is_of_command && !own.is_of_command && other.role == Role::Client;
        let is_rival = |id, other: &Subject| {
            let count = requests(other).max(sends(id, other));
            other.name != own.name && (count as f64 >= many || is_started(other) && count >= self.limits.min_occurrences)
        };
        let is_only = !self.subjects.iter().any(|(id, other)| is_rival(id, other));
        (requests(own) > 0 && is_only).then_some(RunRole::LoadGenerator)
    }

    /// Returns whether `share` is large enough, and no other kind of state has a larger share of
    /// the path.
    fn is_most(&self, share: f64, is_meant: impl Fn(&Part) -> bool) -> bool {
        let others = |does: &dyn Fn(Does) -> bool| self.share(|part| does(part.does) && !is_meant(part));
        let most = [
            others(&|does| does.is_work()),
            others(&|does| does == Does::Sleeps),
            others(&|does| does == Does::Runnable && self.cpus_are_short()),
            others(&|does| does == Does::Disk),
            others(&|does| matches!(does, Does::KernelTimer(_))),
            others(&|does| does == Does::Throttled),
            others(&|does| does == Does::Outside),
            others(&|does| does == Does::Unknown),
        ];
        share >= self.limits.min_share && most.into_iter().all(|other| share > other)
    }

    /// Returns whether the CPUs are the limit. Where CPUs are idle, a thread that waits for one
    /// waits for that CPU to wake up, or is bound to another one.
    fn cpus_are_short(&self) -> bool {
        self.cpus.idle.is_none_or(|idle| idle <= self.limits.max_idle_share + self.limits.considerable_share)
    }

    /// Judges a state that a program declared, or the time of its calls in transit.
    fn by_declared(&self) -> Option<Verdict> {
        let row = self.by_states.origin.row.as_ref().filter(|_| self.by_states.outcome == Outcome::Bottleneck)?;
        let is_row = |part: &&Part| part.row == *row || part.rpc.as_ref() == Some(&row.state);
        let part = self.parts.parts.iter().find(is_row)?;
        matches!(part.does, Does::Declared | Does::Call).then(|| self.by_states.clone())
    }

    /// Returns whether a verdict can name this subject as a program: no interrupt, kernel thread or
    /// recorder.
    fn is_program(&self, subject: SubjectId) -> bool {
        let subject = self.subjects.get(subject);
        !subject.is_recorder && matches!(subject.level, Level::Process | Level::Pool | Level::Machine)
    }

    /// Returns a verdict that names the three parts with the largest shares.
    fn spread(&self) -> Verdict {
        let first = self.parts.parts.iter().filter(|part| part.does != Does::Transit).take(3);
        let mut verdict = self.without_subject(Outcome::Spread);
        verdict.because.push(Because::First { parts: first.map(|part| self.runner_up(part)).collect() });
        verdict.runner_up = self.parts.parts.first().map(|part| self.runner_up(part));
        verdict
    }

    /// Names both changes of a pair if they bring much only together, and more than the change of
    /// the verdict.
    fn add_together(&self, verdict: &mut Verdict) {
        let Some(together) = self.together.filter(|_| verdict.outcome != Outcome::Unknown) else { return };
        let is_spread = verdict.outcome == Outcome::Spread;
        let better = is_spread || verdict.gain.as_ref().is_some_and(|gain| together.both.gain_low > Some(gain.high));
        let Some(gain) = self.gain_of(&together.both).filter(|_| better) else { return };
        // A client and its server always take their times together, which shows nothing about the
        // service.
        let is_changed = |subject: &Subject| together.alone.iter().any(|alone| alone.is_of(&subject.halved()));
        let is_of = |role: Role| self.subjects.iter().any(|(_, subject)| subject.role == role && is_changed(subject));
        if is_of(Role::Client) && is_of(Role::Server) {
            return;
        }
        verdict.because.insert(0, together.because());
        verdict.gain = Some(gain);
    }

    /// Returns the gain of the change that fits the verdict best: more places for waiting work,
    /// less time in the state, or less time of the subject.
    fn gain(&self, verdict: &Verdict) -> Option<Gain> {
        let of_station = || self.of_station(verdict).filter(|prediction| prediction.gain.is_some());
        let of_state = || {
            let row = verdict.origin.row.as_ref().filter(|_| verdict.state.is_some())?;
            self.predicted(&row.halved())
        };
        let of_subject = || {
            let named = verdict.subject.as_ref()?;
            let program = named.program();
            // A process may have executed another program before.
            let is_own = |subject: &&Subject| named.pid.is_some_and(|pid| subject.processes == [pid] && subject.name == program);
            let subject = self.subjects.iter().map(|(_, subject)| subject).find(is_own);
            self.predicted(&subject.map_or_else(|| Scenario::scale_all(program, 0.5), Subject::halved))
        };
        self.gain_of(of_station().or_else(of_state).or_else(of_subject)?)
    }

    /// Returns a prediction as the gain of a verdict. `None` if no gain is predicted.
    fn gain_of(&self, prediction: &Prediction) -> Option<Gain> {
        let change = prediction.change.clone();
        let of = if self.anchor.is_some() { GainOf::Rate } else { GainOf::End };
        let progress = self.anchor.map(|anchor| anchor.progress(self.vocabulary));
        let (gain, low, high) = (prediction.gain?, prediction.gain_low?, prediction.gain_high?);
        let replies = self.anchor.filter(|anchor| anchor.event.is_none());
        let asked = replies.and_then(|anchor| self.subjects.known(self.vocabulary.machine_name(anchor.machine)));
        let asked =
            asked.map(|subject| &self.subjects.get(subject).activity.asked).filter(|asked| asked.count >= self.limits.min_occurrences);
        let latency = asked.map(|asked| {
            let (p50_ns, p99_ns) = (asked.times.quantile(0.5).unwrap_or(0), asked.times.quantile(0.99).unwrap_or(0));
            let after = |ns: u64| (ns as f64 / (1.0 + gain)) as u64;
            ProgressLatency { p50_ns, p99_ns, predicted_p50_ns: after(p50_ns), predicted_p99_ns: after(p99_ns) }
        });
        Some(Gain { change, of, progress, latency, gain, low, high })
    }
}

/// Adds where requests wait to a verdict that names a subject. A sleep sets no pace if they wait
/// meanwhile by the given mechanism.
fn add_waiting(verdict: &mut Verdict, waiting: Because, mechanism: Option<Mechanism>) {
    if !matches!(verdict.outcome, Outcome::Bottleneck | Outcome::Paced) {
        return;
    }
    let sleeps = verdict.because.iter().any(|because| matches!(because, Because::Sleeps { .. }));
    if mechanism.is_some() && sleeps && matches!(verdict.mechanism, None | Some(Mechanism::SleepInHandler)) {
        (verdict.outcome, verdict.mechanism) = (Outcome::Bottleneck, mechanism);
        // That they wait says more than how many are open.
        verdict.because.retain(|because| !matches!(because, Because::OpenRequests { .. }));
    }
    verdict.because.push(waiting);
}

/// Returns how often each subject wakes each other one.
pub fn wakeups_between(traffic: &Traffic, subjects: &Subjects, vocabulary: &Vocabulary) -> HashMap<FromTo, u64> {
    let mut between: HashMap<FromTo, u64> = HashMap::new();
    for (by, machine, pair) in traffic.pairs() {
        let of = |machine| subjects.known(vocabulary.machine_name(machine));
        if let (Some(from), Some(to)) = (of(by), of(machine)) {
            *between.entry(FromTo { from, to }).or_default() += pair.count;
        }
    }
    between
}

/// Number of subjects for which halving all their work is tried; the same number of changes is
/// tried in pairs.
pub(crate) const TRIED_SUBJECTS: usize = 3;

/// Returns the changes of whole subjects that are worth trying: those with the largest shares of
/// the path.
pub fn scenarios(parts: &Parts, subjects: &Subjects) -> Vec<Scenario> {
    let programs = parts.wholes.iter().map(|whole| subjects.get(whole.subject));
    let known = programs.filter(|subject| matches!(subject.level, Level::Process | Level::Pool) && !subject.is_recorder);
    let mut out: Vec<Scenario> = Vec::new();
    for scenario in known.take(TRIED_SUBJECTS).map(Subject::halved) {
        if !out.contains(&scenario) {
            out.push(scenario);
        }
    }
    out
}

fn state_of(part: &Part) -> StateNamed {
    let kind = match part.does {
        Does::Runs => SubjectState::Running,
        Does::SystemCall => SubjectState::SystemCall,
        Does::Declared => SubjectState::Declared,
        Does::Runnable => SubjectState::Runnable,
        Does::Sleeps => SubjectState::Sleep,
        Does::KernelTimer(LinkKind::GracePeriod) => SubjectState::GracePeriod,
        Does::KernelTimer(_) => SubjectState::KernelTimer,
        Does::Throttled => SubjectState::Throttled,
        Does::Faults => SubjectState::Faults,
        Does::Disk => SubjectState::Disk,
        Does::Outside => SubjectState::Outside,
        Does::Interrupt => SubjectState::Interrupt,
        Does::Transit => SubjectState::Transit,
        Does::Call => SubjectState::Call,
        Does::Unknown => SubjectState::Unknown,
    };
    StateNamed { kind, name: part.state.clone() }
}
