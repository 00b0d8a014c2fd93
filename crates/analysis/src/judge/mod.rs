//! The verdict: who limits the system, then what, then how, as far as each is certain.
//!
//! The critical path ([`crate::lineage`]) says what the end waited for. It does not say whether a sleep on it is the pace of a load
//! generator or a wait inside a lock, whether a process at 60 % of it leads, or whose path to ask for. That is decided here, from
//! the path by subject ([`parts`]), from who waits for whom beside it ([`traffic`]), from requests and replies
//! ([`crate::exchanges`]), and from what changes would bring ([`crate::what_if`]).
//!
//! The order of questions: Does a timer of the kernel's decide? Does a sleep? The disk? One state of one subject? One subject as a
//! whole? The CPUs? The first that is answered with certainty is the verdict; if none is, the path is *spread*, or too little is
//! known. The verdict is data ([`verdict`]); [`sentence`] writes it.

pub mod anchor;
pub mod limits;
pub mod parts;
pub mod sentence;
pub mod subjects;
pub mod traffic;
pub mod verdict;

use crate::critical_samples::CriticalFunction;
use crate::exchanges::{Conduct, Conducts};
use crate::findings::{Evidence, Finding, Scope};
use crate::lineage::Answer;
use crate::standout;
use crate::verdict as states;
use crate::what_if::{Prediction, Scenario};
use anchor::{Anchor, Run};
use limits::Limits;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::LinkKind;
use parts::{Does, Part, Parts, Whole};
use std::collections::{HashMap, HashSet};
use subjects::{Level, Role, SubjectId, Subjects};
use traffic::{Pair, Traffic};
use verdict::{
    Because, Caveat, CaveatKind, Code, Gain, GainOf, Mechanism, Named, Outcome, ProgressLatency, RunnerUp, StateKind, StateNamed,
    SubjectLevel, Verdict,
};

/// What the host had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpus {
    pub count: u64,
    /// Share of their time in which they had nothing to do. None: no event tells.
    pub idle: Option<f64>,
}

/// All that the verdict is decided by.
pub struct Case<'a> {
    pub answer: &'a Answer,
    pub parts: &'a Parts,
    pub subjects: &'a Subjects,
    pub traffic: &'a Traffic,
    pub vocabulary: &'a Vocabulary,
    pub findings: &'a [Finding],
    pub predictions: &'a [Prediction],
    /// What the states of machines and their classes say by themselves.
    pub states: &'a states::Verdict,
    pub anchor: Option<&'a Anchor>,
    /// How often subjects wake each other ([`between`]).
    pub between: &'a HashMap<(SubjectId, SubjectId), u64>,
    pub conducts: &'a Conducts,
    pub cpus: Cpus,
    pub lost: u64,
    /// What helps where events are lost ([`states::again`]).
    pub again: &'a str,
    pub limits: &'a Limits,
}

/// A pool whose members hand a lock from one to the next.
struct Convoy {
    subject: SubjectId,
    waiters: f64,
    members: u64,
    wait: String,
}

impl Case<'_> {
    pub fn judge(&self) -> Verdict {
        let of_processes = self.parts.wholes.first().is_some_and(|first| self.subjects.get(first.subject).level != Level::Machine);
        let mut verdict = match of_processes {
            true => self.of_processes(),
            false => of_states(self.states),
        };
        if verdict.gain.is_none() {
            verdict.gain = self.gain(&verdict);
        }
        if of_processes && verdict.text.is_empty() {
            verdict.caveats.extend(self.timer(&verdict));
            verdict.text = sentence::sentence(&verdict);
        }
        verdict
    }

    /// A signal that a timer sends may be what ends the run: then no change makes it shorter.
    fn timer(&self, verdict: &Verdict) -> Option<Caveat> {
        let (class, _) = verdict.row.as_ref().filter(|_| verdict.outcome == Outcome::Bottleneck && self.anchor.is_none())?;
        let (machine, call) = standout::timer(self.answer, class)?;
        let text = format!("{machine} has set a timer ({call}): if that is what ends it, no change makes it shorter");
        Some(Caveat { kind: CaveatKind::Timer, share: None, count: None, text, remedy: None })
    }

    fn of_processes(&self) -> Verdict {
        let unknown = self.unknown();
        let second = self.parts.wholes.first().map_or(0.0, |first| first.share);
        if states::too_many_lost(self.lost, self.answer.interactions) && unknown > second || unknown > self.limits.most {
            return self.empty(Outcome::Unknown);
        }
        let decided = self.by_kernel_timer().or_else(|| self.by_window()).or_else(|| self.by_declared());
        let decided = decided.or_else(|| self.by_quota()).or_else(|| self.by_sleep()).or_else(|| self.by_disk());
        let decided = decided.or_else(|| self.by_cpus()).or_else(|| self.by_serial_step());
        let decided = decided.or_else(|| self.by_subject()).or_else(|| self.by_round_trips());
        let mut verdict = match decided {
            Some(verdict) => verdict,
            None if unknown > self.limits.max_unknown && unknown > self.limits.least_share => self.empty(Outcome::Unknown),
            None => self.spread(),
        };
        self.add_bystanders(&mut verdict);
        verdict
    }

    fn unknown(&self) -> f64 {
        self.answer.unknown_ns as f64 / self.answer.length_ns.max(1) as f64
    }

    fn empty(&self, outcome: Outcome) -> Verdict {
        let mut caveats = Vec::new();
        let unknown = self.unknown();
        if unknown > self.limits.max_unknown {
            caveats.push(Caveat {
                kind: CaveatKind::UnknownTime,
                share: Some(unknown),
                count: None,
                text: format!("{} of the path is unknown", crate::text::percent(unknown)),
                remedy: Some("`longpole path` lists the events that would tell it".to_owned()),
            });
        }
        if states::too_many_lost(self.lost, self.answer.interactions) {
            caveats.push(Caveat {
                kind: CaveatKind::LostEvents,
                share: None,
                count: Some(self.lost),
                text: format!("{} are lost", crate::text::counted(self.lost, "event")),
                remedy: Some(self.again.trim_start_matches("; ").to_owned()),
            });
        }
        Verdict {
            outcome,
            subject: None,
            state: None,
            waits_for: None,
            mechanism: None,
            because: Vec::new(),
            code: None,
            share: None,
            share_low: None,
            share_high: None,
            runner_up: None,
            gain: None,
            role: None,
            caveats,
            unknown_share: Some(unknown),
            lost: self.lost,
            evidence: Evidence { start_ns: self.answer.start_ns as i64, end_ns: self.answer.end_ns as i64 },
            text: String::new(),
            doubts: None,
            row: None,
            of_stages: false,
            of_cause: false,
        }
    }

    /// A caveat where programs that have nothing to do with the path take a considerable part of the CPUs.
    fn add_bystanders(&self, verdict: &mut Verdict) {
        let is_own = |id: SubjectId| {
            let subject = self.subjects.get(id);
            subject.is_of_command || subject.role != Role::None || self.parts.whole(id).is_some_and(|whole| whole.share >= 0.01)
        };
        let busy = 1.0 - self.cpus.idle.unwrap_or(0.0);
        let others: Vec<(SubjectId, f64)> = self.cpu_users().into_iter().filter(|(id, _)| !is_own(*id)).collect();
        let share = busy * others.iter().map(|(_, share)| share).sum::<f64>();
        let Some(first) = others.first().filter(|_| share >= self.limits.considerable && self.cpus.idle.is_some()) else { return };
        let who = sentence::name(&self.name(first.0, None));
        verdict.caveats.push(Caveat {
            kind: CaveatKind::Bystanders,
            share: Some(share),
            count: None,
            text: format!(
                "programs that the path does not depend on, such as {who}, used the CPUs for {} of the time",
                crate::text::percent(share)
            ),
            remedy: Some("record again on a quiet host".to_owned()),
        });
    }

    /// A verdict on these parts of one subject, of which the first is named.
    fn named(&self, outcome: Outcome, subject: SubjectId, parts: &[&Part]) -> Verdict {
        let share: f64 = parts.iter().map(|part| part.share).sum();
        let error = parts.iter().map(|part| part.error).fold(0.0, f64::max);
        let first = parts.first();
        let level = self.subjects.get(subject);
        let runner = self.parts.parts.iter().find(|part| part.subject != subject && part.does != Does::Transit);
        Verdict {
            subject: Some(first.map_or_else(|| self.name(subject, None), |part| self.name_of(part))),
            state: first.map(|part| state_of(part)),
            share: Some(share),
            share_low: Some((share - error).max(0.0)),
            share_high: Some((share + error).min(1.0)),
            runner_up: runner.map(|part| self.runner_up(part)),
            role: (level.role == Role::Client && level.conduct.asked.count > 0).then_some("load generator"),
            evidence: first.map_or_else(Evidence::default, |part| part.evidence),
            row: first.map(|part| (part.class.clone(), part.class_state.clone())),
            ..self.empty(outcome)
        }
    }

    fn runner_up(&self, part: &Part) -> RunnerUp {
        RunnerUp { subject: self.name_of(part), state: state_of(part), share: part.share }
    }

    /// The subject of a part, down to the threads that do the same.
    fn name_of(&self, part: &Part) -> Named {
        let named = self.name(part.subject, part.machine.as_deref());
        match &part.role {
            Some(role) if part.machine.is_none() => {
                let level = if named.level == SubjectLevel::Process { SubjectLevel::Pool } else { named.level };
                Named { level, name: format!("{}/{role}", self.subjects.get(part.subject).name), ..named }
            }
            _ => named,
        }
    }

    /// The subject, down to its thread if one thread stands for it.
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
            pid: thread.map(|thread| thread.pid).or(only),
            tid: thread.map(|thread| thread.tid),
            port: subject.port.filter(|_| subject.role == Role::Server),
        }
    }

    fn share(&self, is_meant: impl Fn(&Part) -> bool) -> f64 {
        self.parts.parts.iter().filter(|part| is_meant(part)).map(|part| part.share).sum()
    }

    /// Whether nothing of another kind takes more of the path than this.
    fn is_most(&self, share: f64, is_meant: impl Fn(&Part) -> bool) -> bool {
        let others = |does: &dyn Fn(Does) -> bool| self.share(|part| does(part.does) && !is_meant(part));
        let most = [
            others(&|does| does.is_work()),
            others(&|does| does == Does::Sleeps),
            others(&|does| does == Does::Runnable && self.cpus_are_short()),
            others(&|does| does == Does::Disk),
            others(&|does| matches!(does, Does::KernelTimer(_))),
            others(&|does| does == Does::Throttled),
            others(&|does| does == Does::Unknown),
        ];
        share >= self.limits.least_share && most.into_iter().all(|other| share > other)
    }

    /// Where CPUs are idle, a thread that waits for one waits for it to wake up, or is tied to another.
    fn cpus_are_short(&self) -> bool {
        self.cpus.idle.is_none_or(|idle| idle <= self.limits.idle_share + self.limits.considerable)
    }

    fn by_kernel_timer(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| matches!(part.does, Does::KernelTimer(_));
        let share = self.share(is_meant);
        if !self.is_most(share, is_meant) {
            return None;
        }
        let first = self.parts.parts.iter().find(|part| is_meant(part))?;
        let Does::KernelTimer(timer) = first.does else { return None };
        let (mechanism, outcome) = match timer {
            LinkKind::DelayedAck => (Mechanism::DelayedAck, Outcome::Bottleneck),
            LinkKind::Retransmission | LinkKind::Transmission => (Mechanism::Retransmission, Outcome::Bottleneck),
            LinkKind::WindowProbe => (Mechanism::WindowProbe, Outcome::Bottleneck),
            LinkKind::Pacing | LinkKind::RateLimit => (Mechanism::Pacing, Outcome::Paced),
            LinkKind::QuotaRefill => (Mechanism::CpuQuota, Outcome::Paced),
            _ => (Mechanism::KernelTimer, Outcome::Bottleneck),
        };
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| part.does == first.does).collect();
        let mut verdict = self.named(outcome, first.subject, &own);
        let mut between: Vec<Named> = vec![self.name(first.subject, None)];
        let others = self.parts.entered_from.iter().filter(|((to, _), _)| *to == first.subject);
        let other = others.max_by_key(|&((_, from), &count)| (count, std::cmp::Reverse(*from))).map(|((_, from), _)| *from);
        between.extend(other.filter(|&other| self.is_program(other)).map(|by| self.name(by, None)));
        verdict.mechanism = Some(mechanism);
        let (ns, count) = own.iter().fold((0, 0), |(ns, count), part| (ns + part.ns, count + part.count));
        verdict.because.push(Because::KernelTimer { timer: first.state.clone(), mean_ns: ns / count.max(1), count, between });
        verdict.role = None;
        Some(verdict)
    }

    /// A connection whose sender always has its receiver's small window full.
    fn by_window(&self) -> Option<Verdict> {
        let ((port, peer), window) = self.conducts.narrowest()?;
        let length = self.answer.length_ns.max(1) as f64;
        let lasts = (window.last_ns - window.first_ns) as f64 >= self.limits.most * length;
        let is_full = window.filled as f64 >= self.limits.most * window.count as f64;
        if !lasts || !is_full || window.count < 10 * self.limits.least_replies {
            return None;
        }
        // It must be what the path goes along.
        let at = |port: u16| {
            let process = self.conducts.process_at(port)?;
            self.parts.wholes.iter().find(|whole| self.subjects.get(whole.subject).processes.contains(&process))
        };
        let ends: Vec<&Whole> = [peer, port].into_iter().filter_map(at).collect();
        let receiver = ends.first()?;
        let share: f64 = ends.iter().map(|whole| whole.share).sum();
        let asks = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject)).map(|whole| whole.share).take(2).sum::<f64>();
        if share.max(asks) < self.limits.most {
            return None;
        }
        let mut verdict = self.empty(Outcome::Bottleneck);
        verdict.subject = Some(self.name(receiver.subject, None));
        verdict.mechanism = Some(Mechanism::WindowLimited);
        (verdict.share, verdict.share_low, verdict.share_high) = (Some(asks), Some(asks), Some(asks.min(1.0)));
        verdict.evidence = receiver.evidence;
        let (bytes, filled) = (window.total_bytes / window.count, window.filled as f64 / window.count as f64);
        verdict.because.push(Because::Window { port, peer, bytes, count: window.count, filled });
        Some(verdict)
    }

    /// A state that a program declared, or the way of its calls.
    fn by_declared(&self) -> Option<Verdict> {
        let of = of_states(self.states);
        let row = of.row.as_ref().filter(|_| of.outcome == Outcome::Bottleneck)?;
        let is_row =
            |part: &&Part| (&part.class, &part.class_state) == (&row.0, &row.1) || part.does == Does::Call && part.class.ends_with(&row.1);
        let part = self.parts.parts.iter().find(is_row)?;
        matches!(part.does, Does::Declared | Does::Call).then_some(of)
    }

    /// A thread that is ready to run and may not, since its control group has used up its quota.
    fn by_quota(&self) -> Option<Verdict> {
        let held = self.findings.iter().find(|finding| finding.of == Scope::Held);
        let is_held = |part: &Part| {
            part.does == Does::Throttled
                || part.does == Does::Runnable
                    && held.is_some_and(|held| part.class == held.subject && held.share >= self.limits.least_share)
        };
        let part = self.parts.parts.iter().find(|part| is_held(part))?;
        if self.share(is_held) < self.limits.least_share || !self.is_most(self.share(is_held), is_held) {
            return None;
        }
        let mut verdict = self.named(Outcome::Paced, part.subject, &[part]);
        verdict.mechanism = Some(Mechanism::CpuQuota);
        verdict.because.push(Because::Quota { count: held.map_or(part.count, |held| held.count) });
        verdict.role = None;
        Some(verdict)
    }

    fn by_sleep(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Sleeps;
        let share = self.share(is_meant);
        if !self.is_most(share, is_meant) {
            return None;
        }
        let mut by_subject: HashMap<SubjectId, Vec<&Part>> = HashMap::new();
        for part in self.parts.parts.iter().filter(|part| is_meant(part) && self.is_program(part.subject)) {
            by_subject.entry(part.subject).or_default().push(part);
        }
        let sum = |parts: &Vec<&Part>| parts.iter().map(|part| part.ns).sum::<u64>();
        let (&subject, parts) = by_subject.iter().max_by_key(|(subject, parts)| (sum(parts), std::cmp::Reverse(**subject)))?;
        // What many do, each for a little, is no one's pace.
        if parts.iter().map(|part| part.share).sum::<f64>() < self.limits.least_share {
            return None;
        }
        let (ns, count, asked) =
            parts.iter().fold((0, 0, 0), |(ns, count, asked), part| (ns + part.ns, count + part.count, asked + part.asked));
        let by = self.parts.asked_by(subject).map(|by| self.name(by, None));
        let call = parts.first().map(|part| part.state.clone()).unwrap_or_default();
        let asked_by = self.parts.asked_by(subject).map(|by| &self.subjects.get(by).conduct.asked);
        let outstanding = asked_by.filter(|asked| asked.count >= self.limits.least_replies).map(|asked| asked.open());
        let sleeps = |whom| Because::Sleeps { call: call.clone(), mean_ns: ns / count.max(1), count, waited_for_by: whom, outstanding };
        let conduct = &self.subjects.get(subject).conduct;
        let unanswered = conduct.unanswered + conduct.unconnected;
        let sleeps_only = call == "asleep";
        if !sleeps_only && unanswered > 0 && 2 * unanswered >= count {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::Timeout);
            let (requests, connects) = (conduct.unanswered, conduct.unconnected);
            verdict.because.push(Because::Unanswered { requests, connects, mean_ns: ns / count.max(1), count });
            verdict.role = None;
            return Some(verdict);
        }
        let is_served = self.subjects.get(subject).role == Role::Server && by.is_some();
        if let Some(serialised) = self.serialisation(subject) {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::Serialisation);
            verdict.because.push(sleeps(by));
            verdict.because.push(serialised);
            return Some(verdict);
        }
        if let Some(convoy) = self.convoy(subject, count).filter(|convoy| !is_served || convoy.subject == subject) {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::LockConvoy);
            verdict.role = None;
            let pool = self.name(convoy.subject, None);
            let holder = (convoy.subject != subject).then(|| self.name(subject, None));
            verdict.because.push(sleeps(None));
            let Convoy { waiters, members, wait, .. } = convoy;
            verdict.because.push(Because::Convoy { pool, waiters, members, wait, holder });
            return Some(verdict);
        }
        if let Some((sides, mean_ns, count)) = self.polling() {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::Polling);
            verdict.because.push(Because::Polls { sides, mean_ns, count });
            verdict.role = None;
            return Some(verdict);
        }
        let is_server = self.subjects.get(subject).role == Role::Server;
        let others = self.parts.wholes.iter().filter(|whole| whole.subject != subject && whole.visits > 0).count();
        // A request may come before its server waits for it: then the path does not leave the server, and requests are open all the same.
        let has_requests = is_server && self.open(subject) >= self.limits.most;
        if has_requests || 2 * asked > count && others > 0 && (is_server || !self.is_end(subject)) {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::SleepInHandler);
            verdict.because.push(sleeps(by));
            return Some(verdict);
        }
        let mut verdict = self.named(Outcome::Paced, subject, parts);
        verdict.because.push(sleeps(by));
        Some(verdict)
    }

    /// Whether the path leads to this subject's own end.
    fn is_end(&self, subject: SubjectId) -> bool {
        self.subjects.known(&self.answer.end_machine) == Some(subject)
    }

    fn by_disk(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Disk;
        let share = self.share(is_meant);
        let mut waits: Vec<&Part> = self.parts.parts.iter().filter(|part| is_meant(part)).collect();
        if !self.is_most(share, is_meant) || waits.is_empty() {
            return None;
        }
        // A thread of the kernel waits for whoever has asked it.
        waits.sort_by_key(|part| (self.subjects.get(part.subject).level == Level::KernelThread, std::cmp::Reverse(part.ns)));
        let first = waits[0];
        let mut verdict = self.named(Outcome::Bottleneck, first.subject, &[first]);
        let error = waits.iter().map(|part| part.error).fold(0.0, f64::max);
        // The kernel's own work for the same call belongs to it.
        let share = share + self.share(|part| part.does == Does::SystemCall && part.state == first.state);
        (verdict.share, verdict.share_low, verdict.share_high) =
            (Some(share), Some((share - error).max(0.0)), Some((share + error).min(1.0)));
        let count = waits.iter().map(|part| part.count).sum::<u64>();
        let ns = waits.iter().map(|part| part.ns).sum::<u64>();
        let syncs = matches!(first.state.as_str(), "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync");
        verdict.mechanism = Some(if syncs { Mechanism::SyncPerItem } else { Mechanism::DiskReads });
        verdict.because.push(Because::Disk { call: first.state.clone(), mean_ns: ns / count.max(1), count });
        verdict.role = None;
        Some(verdict)
    }

    fn by_cpus(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Runnable;
        let share = self.share(is_meant);
        let idle = self.cpus.idle.unwrap_or(0.0);
        if !self.is_most(share, is_meant) || !self.cpus_are_short() {
            return None;
        }
        let waiting = self.parts.parts.iter().find(|part| is_meant(part) && self.is_program(part.subject))?;
        let waits_beside_idle: f64 = self.findings.iter().filter(|finding| finding.of == Scope::Idle).map(|finding| finding.share).sum();
        let all: Vec<&Part> = self.parts.parts.iter().filter(|part| is_meant(part)).collect();
        let users = self.cpu_users();
        let mut verdict = self.named(Outcome::Bottleneck, waiting.subject, &all);
        let waits = self.name_of(waiting);
        verdict.role = None;
        if let Some(&(most, _)) = users.first().filter(|_| waits_beside_idle < self.limits.most * share) {
            verdict.mechanism = Some(Mechanism::CpuContention);
            verdict.subject = Some(self.name(most, None));
            verdict.role = (self.subjects.get(most).role == Role::Client).then_some("load generator");
        }
        let users = users.iter().take(3).map(|&(user, share)| (self.name(user, None), share)).collect();
        verdict.because.push(Because::CpuUsers { waits, users, idle });
        Some(verdict)
    }

    /// Who had the CPUs, the most first, as shares of what all programs had.
    fn cpu_users(&self) -> Vec<(SubjectId, f64)> {
        let mut ran: HashMap<SubjectId, u64> = HashMap::new();
        for machine in self.vocabulary.machines() {
            let subject = self.subjects.known(self.vocabulary.machine_name(machine));
            if let (Some(subject), Some(own)) = (subject, self.traffic.own(machine)) {
                *ran.entry(subject).or_default() += own.ran_ns;
            }
        }
        let all: u64 = ran.values().sum();
        let mut users: Vec<(SubjectId, f64)> =
            ran.into_iter().filter(|(id, _)| self.is_program(*id)).map(|(id, ns)| (id, ns as f64 / all.max(1) as f64)).collect();
        users.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        users
    }

    /// One subject with most of the path, in whichever state.
    fn by_subject(&self) -> Option<Verdict> {
        let wholes: Vec<&Whole> = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject)).collect();
        let first = *wholes.first()?;
        let next = wholes.get(1).map_or(0.0, |second| second.share + second.error);
        let beyond = first.share - first.error.min(0.5 * first.share);
        let leads = beyond >= self.limits.lead * next;
        if first.share < self.limits.most && !(leads && first.share >= self.limits.least_share) || !leads && next > 1.0 - self.limits.most {
            return None;
        }
        let mut parts: Vec<&Part> = self.parts.of(first.subject).filter(|part| part.does != Does::Transit).collect();
        // A state alone is named if it has most of what its subject has.
        let top = *parts.first()?;
        let alone = top.ns as f64 >= self.limits.most * first.ns as f64;
        let mut verdict = self.named(Outcome::Bottleneck, first.subject, &[top]);
        // That the only program there is has all of the path says nothing, if none of its threads leads.
        let others: f64 = wholes.iter().skip(1).map(|whole| whole.share).sum();
        let mut roles: HashMap<&Option<String>, u64> = HashMap::new();
        parts.iter().for_each(|part| *roles.entry(&part.role).or_default() += part.ns);
        let leading = roles.values().max().copied().unwrap_or(0);
        if !alone && others < self.limits.considerable && 2 * leading < first.ns {
            return None;
        }
        let change = Scenario::scale_all(&self.subjects.get(first.subject).name, 0.5).text;
        let gain = self.predictions.iter().find(|prediction| prediction.change == change).and_then(|prediction| prediction.gain_high);
        if self.anchor.is_some() && gain.is_some_and(|gain| gain < self.limits.min_gain) {
            return None;
        }
        if !alone {
            (verdict.share, verdict.share_low, verdict.share_high) =
                (Some(first.share), Some((first.share - first.error).max(0.0)), Some((first.share + first.error).min(1.0)));
            verdict.evidence = first.evidence;
            verdict.subject = Some(self.name(first.subject, None));
        }
        parts.truncate(4);
        let divided = || Because::Divided { parts: parts.iter().map(|part| (state_of(part), part.share)).collect() };
        if !alone {
            verdict.state = None;
        }
        let faults: Vec<&&Part> = parts.iter().filter(|part| part.does == Does::Faults).collect();
        let of_faults: f64 = faults.iter().map(|part| part.share).sum();
        if of_faults >= self.limits.fault_share * first.share {
            verdict.mechanism = Some(Mechanism::PageFaults);
            let count = faults.iter().map(|part| part.count).sum();
            verdict.because.push(Because::Faults { count, share: of_faults });
        } else if let Some(faults) = self.findings.iter().find(|finding| finding.of == Scope::Fault && finding.subject == top.class) {
            if faults.share >= self.limits.fault_share * first.share {
                verdict.mechanism = Some(Mechanism::PageFaults);
                verdict.because.push(Because::Faults { count: faults.count, share: faults.share });
            }
        }
        let is_own = |finding: &&Finding| {
            let program = finding.subject.split('/').next();
            matches!(finding.of, Scope::Futex | Scope::Lock) && program == Some(self.subjects.get(first.subject).name.as_str())
        };
        if let Some(lock) = self.findings.iter().find(is_own) {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::LockConvoy));
            verdict.because.push(Because::Lock { count: lock.count, share: lock.share });
        }
        if let Some(serialised) = self.serialisation(first.subject) {
            verdict.because.push(serialised);
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::Serialisation));
        }
        if let Some(asking) = self.chatty(first.subject) {
            verdict.because.push(asking);
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::RoundTrips));
        }
        let runs: f64 = parts.iter().filter(|part| part.does.is_work()).map(|part| part.share).sum();
        let idle = self.cpus.idle.unwrap_or(0.0);
        let (running, threads) = self.running(first.subject);
        let one_at_a_time = running <= 1.0 + self.limits.considerable;
        if runs >= self.limits.most && idle > self.limits.idle_share && self.cpus.count > 1 && one_at_a_time {
            verdict.because.push(Because::Alone { threads, cpus: self.cpus.count, idle });
            verdict.mechanism = match (verdict.mechanism, verdict.role) {
                (Some(mechanism), _) if mechanism != Mechanism::Serialisation => Some(mechanism),
                (_, Some(_)) => Some(Mechanism::LoadGenerator),
                (_, None) if threads > 1 => Some(Mechanism::OneAtATime),
                (_, None) => Some(Mechanism::SingleThread),
            };
        } else if verdict.role.is_some() {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::LoadGenerator));
        }
        if parts.len() > 1 {
            verdict.because.push(divided());
        }
        Some(verdict)
    }

    /// A part of the run in which one program at a time runs, where in another part several do.
    fn by_serial_step(&self) -> Option<Verdict> {
        if self.cpus.count < 2 || self.anchor.is_some() {
            return None;
        }
        let (start, end) = (self.answer.start_ns, self.answer.end_ns);
        let within: Vec<((u64, u64), f64)> = self.traffic.running().filter(|((from, to), _)| *from >= start && *to <= end).collect();
        let is_serial = |running: f64| running <= 1.0 + self.limits.considerable && running >= self.limits.most;
        let share = |is_meant: &dyn Fn(f64) -> bool| {
            let ns: u64 = within.iter().filter(|(_, running)| is_meant(*running)).map(|((from, to), _)| to - from).sum();
            ns as f64 / (end - start).max(1) as f64
        };
        let (serial, parallel) = (share(&is_serial), share(&|running| running >= 1.0 + self.limits.most));
        if serial < self.limits.least_share || parallel < self.limits.considerable {
            return None;
        }
        let parts: Vec<(u64, u64)> = within.iter().filter(|(_, running)| is_serial(*running)).map(|(part, _)| *part).collect();
        let all: u64 = parts.iter().map(|(from, to)| to - from).sum();
        // The process whose life is most like that part of the run.
        let likeness = |machine: MachineId| {
            let own = self.traffic.own(machine).filter(|own| own.forks > 0)?;
            let (first, last) = (own.first_ns?, own.last_ns);
            let both: u64 = parts.iter().map(|(from, to)| last.min(*to).saturating_sub(first.max(*from))).sum();
            let either = all + (last - first) - both.min(last - first);
            Some(both as f64 / either.max(1) as f64)
        };
        let own = self.vocabulary.machines().filter_map(|machine| {
            let subject = self.subjects.known(self.vocabulary.machine_name(machine))?;
            self.subjects.get(subject).is_of_command.then_some((machine, subject))
        });
        let best = own.filter_map(|(machine, subject)| Some((likeness(machine)?, machine, subject)));
        let (likeness, machine, subject) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        if likeness < self.limits.most {
            return None;
        }
        let running: f64 =
            within.iter().filter(|(_, running)| is_serial(*running)).map(|((from, to), running)| running * (to - from) as f64).sum();
        let idle = 1.0 - running / all.max(1) as f64 / self.cpus.count as f64;
        let step = self.name(subject, Some(self.vocabulary.machine_name(machine)));
        let mut verdict = self.empty(Outcome::Bottleneck);
        verdict.subject = Some(step.clone());
        (verdict.share, verdict.share_low, verdict.share_high) = (Some(serial), Some(serial), Some(serial));
        verdict.mechanism = Some(Mechanism::SerialStep);
        verdict.because.push(Because::SerialStep { step, share: serial, idle });
        Some(verdict)
    }

    /// Whoever asks this subject sends one request after the other, many of them, and mostly waits for the replies.
    fn chatty(&self, subject: SubjectId) -> Option<Because> {
        let length = (self.traffic.range().1 - self.traffic.range().0).max(1) as f64;
        let askers = self.between.iter().filter(|((_, to), _)| *to == subject);
        let asker = askers.max_by_key(|&((from, _), &count)| (count, std::cmp::Reverse(*from))).map(|((from, _), _)| *from)?;
        let Conduct { asked, served, .. } = &self.subjects.get(asker).conduct;
        let one_at_a_time = asked.open() <= 1.0 + self.limits.considerable;
        let waits = asked.total_ns as f64 >= self.limits.most * length;
        if asker == subject || asked.count < 10 * self.limits.least_replies || !one_at_a_time || !waits {
            return None;
        }
        let per_request = (served.count >= self.limits.least_replies).then(|| asked.count as f64 / served.count as f64);
        let (count, mean_ns) = (asked.count, asked.total_ns / asked.count);
        Some(Because::RoundTrips {
            asker: Some(self.name(asker, None)),
            count,
            mean_ns,
            callee: Some(self.name(subject, None)),
            per_request,
        })
    }

    /// A client that asks again and again, one request after the other, and mostly waits for replies.
    fn by_round_trips(&self) -> Option<Verdict> {
        let wholes = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject));
        let length = (self.traffic.range().1 - self.traffic.range().0).max(1) as f64;
        let mut asking = wholes.filter_map(|whole| {
            let conduct = &self.subjects.get(whole.subject).conduct;
            let asked = &conduct.asked;
            let share = asked.total_ns as f64 / length;
            let one_at_a_time = asked.open() <= 1.0 + self.limits.considerable;
            (asked.count >= 10 * self.limits.least_replies && one_at_a_time && share >= self.limits.most).then_some((whole.subject, share))
        });
        let (subject, share) = asking.next()?;
        let conduct = &self.subjects.get(subject).conduct;
        let (asked, served) = (&conduct.asked, &conduct.served);
        let callee = self.between.iter().filter(|((from, _), _)| *from == subject);
        let callee = callee.max_by_key(|&((_, to), &count)| (count, std::cmp::Reverse(*to))).map(|((_, to), _)| *to);
        let mut verdict = self.empty(Outcome::Bottleneck);
        verdict.subject = Some(self.name(subject, None));
        (verdict.share, verdict.share_low, verdict.share_high) = (Some(share), Some(share), Some(share));
        verdict.mechanism = Some(Mechanism::RoundTrips);
        let per_request = (served.count >= self.limits.least_replies).then(|| asked.count as f64 / served.count as f64);
        let callee = callee.map(|callee| self.name(callee, None));
        verdict.because.push(Because::RoundTrips {
            asker: None,
            count: asked.count,
            mean_ns: asked.total_ns / asked.count,
            callee,
            per_request,
        });
        Some(verdict)
    }

    fn is_program(&self, subject: SubjectId) -> bool {
        let subject = self.subjects.get(subject);
        !subject.is_recorder && matches!(subject.level, Level::Process | Level::Pool | Level::Machine)
    }

    /// The three with the most of the path.
    fn spread(&self) -> Verdict {
        let first = self.parts.parts.iter().filter(|part| part.does != Does::Transit).take(3);
        let mut verdict = self.empty(Outcome::Spread);
        verdict.because.push(Because::First { parts: first.map(|part| self.runner_up(part)).collect() });
        verdict.runner_up = self.parts.parts.first().map(|part| self.runner_up(part));
        verdict
    }

    /// A lock that goes from one to the next, in this subject or in one that waits for it. The path must go with it, about once for
    /// each of so many turns of its holder: threads of a runtime that park and wake each other hand nothing on.
    fn convoy(&self, subject: SubjectId, turns: u64) -> Option<Convoy> {
        let mut between: HashMap<SubjectId, Vec<(MachineId, MachineId, Pair)>> = HashMap::new();
        for (by, machine, pair) in self.traffic.pairs().filter(|(.., pair)| pair.direct > 0) {
            let of = |machine| self.subjects.known(self.vocabulary.machine_name(machine));
            if let (Some(from), Some(to)) = (of(by), of(machine)) {
                if from == to && by != machine {
                    between.entry(to).or_default().push((by, machine, *pair));
                }
            }
        }
        let mut best: Option<Convoy> = None;
        for (pool, pairs) in between {
            let connected = pool == subject || self.is_connected(pool, subject);
            let handed_over = self.parts.handed_over.get(&pool).copied().unwrap_or(0);
            // What the requests in it show is more than what its threads do.
            let parallel = self.at_a_time(pool).is_some_and(|at_a_time| at_a_time > self.limits.most * self.open(pool));
            if !connected || self.subjects.get(pool).is_recorder || 4 * handed_over < turns || parallel {
                continue;
            }
            let (mut woke, mut woken): (HashMap<MachineId, u64>, HashMap<MachineId, u64>) = Default::default();
            let mut waited = 0;
            let mut why: HashMap<&str, u64> = HashMap::new();
            for (by, machine, pair) in &pairs {
                *woke.entry(*by).or_default() += pair.direct;
                *woken.entry(*machine).or_default() += pair.direct;
                waited += pair.direct_waited_ns;
                if let Some(name) = pair.why {
                    *why.entry(self.vocabulary.names.text(name)).or_default() += pair.direct_waited_ns;
                }
            }
            let all: u64 = woken.values().sum();
            let handed_on: u64 = woken.iter().map(|(machine, &count)| count.min(woke.get(machine).copied().unwrap_or(0))).sum();
            let members: HashSet<MachineId> = woken.keys().copied().filter(|machine| woke.contains_key(machine)).collect();
            let lives = members.iter().filter_map(|&machine| self.traffic.own(machine));
            let first = lives.clone().filter_map(|own| own.first_ns).min().unwrap_or(0);
            let last = lives.map(|own| own.last_ns).max().unwrap_or(0);
            let waiters = waited as f64 / last.saturating_sub(first).max(1) as f64;
            let wait = why.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name))).map(|(name, _)| name.to_owned());
            let is_one = members.len() >= 2 && 2 * handed_on > all && all >= self.limits.least_replies && waiters >= self.limits.waiters;
            if is_one && best.as_ref().is_none_or(|best| best.waiters < waiters) {
                best = Some(Convoy { subject: pool, waiters, members: members.len() as u64, wait: wait.unwrap_or_default() });
            }
        }
        best
    }

    fn is_connected(&self, one: SubjectId, other: SubjectId) -> bool {
        let times = |to, from| self.parts.entered_from.get(&(to, from)).copied().unwrap_or(0);
        times(one, other) + times(other, one) >= self.limits.least_replies
    }

    /// Several threads that each sleep for a short time again and again, and wake nobody.
    fn polling(&self) -> Option<(Vec<Named>, u64, u64)> {
        let (begin, end) = self.traffic.range();
        let length = end - begin;
        let mut sleepers: Vec<(MachineId, SubjectId, u64, u64)> = Vec::new();
        for machine in self.vocabulary.machines() {
            let Some(subject) = self.subjects.known(self.vocabulary.machine_name(machine)) else { continue };
            // Those that look for what the other one leaves in memory or in a file wake nobody: nothing else connects them.
            let is_alike = self.parts.wholes.iter().any(|whole| self.subjects.get(whole.subject).name == self.subjects.get(subject).name);
            if !self.subjects.get(subject).is_of_command && !is_alike {
                continue;
            }
            let Some(own) = self.traffic.own(machine).filter(|_| !self.subjects.get(subject).is_recorder) else { continue };
            let lives = own.first_ns.map_or(0, |first| own.last_ns - first);
            let short = own.longest.is_some_and(|(from, to)| 20 * (to - from) < length);
            if short
                && own.sleeps >= self.limits.least_replies
                && own.slept_ns as f64 >= self.limits.most * lives as f64
                && 2 * lives > length
            {
                sleepers.push((machine, subject, own.sleeps, own.slept_ns));
            }
        }
        let of: HashSet<u32> = sleepers.iter().map(|sleeper| sleeper.0 .0).collect();
        let wakes: u64 = self
            .traffic
            .pairs()
            .filter(|(by, machine, _)| of.contains(&by.0) || of.contains(&machine.0))
            .map(|(.., pair)| pair.count)
            .sum();
        let (sleeps, slept) = sleepers.iter().fold((0, 0), |(count, ns), sleeper| (count + sleeper.2, ns + sleeper.3));
        if sleepers.len() < 2 || 4 * wakes > sleeps {
            return None;
        }
        let mut sides: Vec<Named> = Vec::new();
        for (machine, subject, ..) in &sleepers {
            let named = self.name(*subject, Some(self.vocabulary.machine_name(*machine)));
            if !sides.contains(&named) {
                sides.push(named);
            }
        }
        sides.truncate(4);
        Some((sides, slept / sleeps.max(1), sleeps))
    }

    /// CPUs that the subject has on average, and its threads that have a considerable part of that.
    fn running(&self, subject: SubjectId) -> (f64, u64) {
        let (begin, end) = self.traffic.range();
        let own = self.vocabulary.machines().filter(|&machine| self.subjects.known(self.vocabulary.machine_name(machine)) == Some(subject));
        let ran: Vec<u64> = own.filter_map(|machine| Some(self.traffic.own(machine)?.ran_ns)).collect();
        let all: u64 = ran.iter().sum();
        let threads = ran.iter().filter(|&&ns| ns as f64 >= self.limits.considerable * all as f64).count() as u64;
        (all as f64 / (end - begin).max(1) as f64, threads)
    }

    /// Requests that wait for one another in this subject, or in one that asks it: more are open than calls of it are outstanding, or
    /// than the path's stay in it allows.
    fn serialisation(&self, subject: SubjectId) -> Option<Because> {
        let mut callers: Vec<SubjectId> = self.parts.entered_from.keys().filter(|(to, _)| *to == subject).map(|(_, from)| *from).collect();
        callers.sort_unstable();
        for at in callers {
            let Conduct { served, asked, .. } = &self.subjects.get(at).conduct;
            let (open, calls) = (self.open(at), asked.count >= self.limits.least_replies);
            let is_limit = open - asked.open() >= self.limits.waiters && asked.open() <= self.limits.most * open;
            if calls && served.count >= self.limits.least_replies && 2 * asked.count >= served.count && is_limit {
                let callee = Some(self.name(subject, None));
                return Some(Because::Serialised { at: self.name(at, None), open, at_a_time: asked.open(), callee });
            }
        }
        let at_a_time = self.at_a_time(subject)?;
        let open = self.open(subject);
        let is_limit = open - at_a_time >= self.limits.waiters && at_a_time <= self.limits.most * open;
        is_limit.then(|| Because::Serialised { at: self.name(subject, None), open, at_a_time, callee: None })
    }

    /// How many requests to a subject are open, on average: those that it has read, or those that whoever asks it has sent.
    fn open(&self, subject: SubjectId) -> f64 {
        let served = &self.subjects.get(subject).conduct.served;
        let askers = self.between.iter().filter(|((_, to), &count)| *to == subject && count >= self.limits.least_replies);
        let askers = askers.map(|((from, _), _)| &self.subjects.get(*from).conduct.asked);
        let askers = askers.filter(|asked| 2 * asked.count >= served.count && asked.count <= 2 * served.count);
        askers.map(|asked| asked.open()).fold(served.open(), f64::max)
    }

    /// On how many requests a subject works at a time, on average.
    fn at_a_time(&self, subject: SubjectId) -> Option<f64> {
        let served = &self.subjects.get(subject).conduct.served;
        let whole = self.parts.whole(subject).filter(|whole| whole.visits > 0)?;
        if served.count < self.limits.least_replies {
            return None;
        }
        let works: u64 = self.parts.of(subject).filter(|part| part.does.is_work() || part.does == Does::Runnable).map(|part| part.ns).sum();
        if 2 * works > whole.ns {
            return Some(self.running(subject).0.max(1.0));
        }
        // It waits: in a request's time in the subject the path comes and goes several times, as it follows one of those that are open.
        let mean = served.total_ns as f64 / served.count as f64;
        let stays = whole.ns as f64 / whole.visits as f64;
        Some((served.open() * stays / mean.max(1.0)).max(1.0))
    }

    fn gain(&self, verdict: &Verdict) -> Option<Gain> {
        let of_state = verdict.row.as_ref().map(|(class, state)| Scenario::scale(class, state, 0.5).text);
        let of_subject = verdict.subject.as_ref().map(|subject| {
            let program = subject.name.split('/').next().unwrap_or(&subject.name);
            Scenario::scale_all(program, 0.5).text
        });
        let of_state = of_state.filter(|_| verdict.state.is_some());
        let known = |change: &String| self.predictions.iter().find(|prediction| prediction.change == *change);
        let prediction = of_state.iter().find_map(known).or_else(|| of_subject.iter().find_map(known))?;
        let change = prediction.change.clone();
        let of = if self.anchor.is_some() { GainOf::Rate } else { GainOf::End };
        let progress = self.anchor.map(|anchor| format!("replies at {}", self.vocabulary.machine_name(anchor.machine)));
        let (gain, low, high) = (prediction.gain?, prediction.gain_low?, prediction.gain_high?);
        let asked = self.anchor.and_then(|anchor| self.subjects.known(self.vocabulary.machine_name(anchor.machine)));
        let asked = asked.map(|subject| &self.subjects.get(subject).conduct.asked).filter(|asked| asked.count >= self.limits.least_replies);
        let latency = asked.map(|asked| {
            let (p50_ns, p99_ns) = (asked.times.quantile(0.5).unwrap_or(0), asked.times.quantile(0.99).unwrap_or(0));
            let after = |ns: u64| (ns as f64 / (1.0 + gain)) as u64;
            ProgressLatency { p50_ns, p99_ns, predicted_p50_ns: after(p50_ns), predicted_p99_ns: after(p99_ns) }
        });
        Some(Gain { change, of, progress, latency, gain, low, high })
    }
}

/// How often each subject wakes each other one.
pub fn between(traffic: &Traffic, subjects: &Subjects, vocabulary: &Vocabulary) -> HashMap<(SubjectId, SubjectId), u64> {
    let mut between: HashMap<(SubjectId, SubjectId), u64> = HashMap::new();
    for (by, machine, pair) in traffic.pairs() {
        let of = |machine| subjects.known(vocabulary.machine_name(machine));
        if let (Some(from), Some(to)) = (of(by), of(machine)) {
            *between.entry((from, to)).or_default() += pair.count;
        }
    }
    between
}

/// Subjects of which all that they do is tried at once.
const TRIED: usize = 3;

/// Changes of whole subjects that are worth trying: those with the most of the path.
pub fn scenarios(parts: &Parts, subjects: &Subjects) -> Vec<Scenario> {
    let programs = parts.wholes.iter().map(|whole| subjects.get(whole.subject));
    let known = programs.filter(|subject| matches!(subject.level, Level::Process | Level::Pool) && !subject.is_recorder);
    let mut out: Vec<Scenario> = Vec::new();
    for scenario in known.take(TRIED).map(|subject| Scenario::scale_all(&subject.name, 0.5)) {
        if !out.contains(&scenario) {
            out.push(scenario);
        }
    }
    out
}

/// The function in which most of the verdict's state is spent, of those that samples show on the path.
pub fn add_code(verdict: &mut Verdict, functions: &[CriticalFunction]) {
    let Some(subject) = verdict.subject.as_ref().filter(|_| verdict.mechanism_has_code()) else { return };
    let program = subject.name.split('/').next().unwrap_or(&subject.name);
    let share = verdict.share.unwrap_or(0.0);
    let own = functions.iter().filter(|function| function.process == program && function.path_samples > 0);
    let top = own.max_by(|a, b| a.share.total_cmp(&b.share));
    // One that a few samples more or less would overturn is none.
    if let Some(top) = top.filter(|top| top.low >= CODE_SHARE * share && top.function != "(no symbols)") {
        verdict.code = Some(Code { function: top.function.clone(), file: None, line: None, share: top.share });
        if !verdict.because.is_empty() || verdict.text.is_empty() {
            verdict.text = sentence::sentence(verdict);
        }
    }
}

/// Of the verdict's share: a function with less is one of many.
const CODE_SHARE: f64 = 0.1;

/// Begin of a sentence about the run.
pub fn is_steady(anchor: Option<&Anchor>) -> bool {
    anchor.is_some_and(|anchor| anchor.run != Run::FixedWork)
}

fn state_of(part: &Part) -> StateNamed {
    let kind = match part.does {
        Does::Runs => StateKind::Running,
        Does::SystemCall => StateKind::SystemCall,
        Does::Declared => StateKind::Declared,
        Does::Runnable => StateKind::Runnable,
        Does::Sleeps => StateKind::Sleep,
        Does::KernelTimer(_) => StateKind::KernelTimer,
        Does::Throttled => StateKind::Throttled,
        Does::Faults => StateKind::Faults,
        Does::Disk => StateKind::Disk,
        Does::Interrupt => StateKind::Interrupt,
        Does::Transit => StateKind::Transit,
        Does::Call => StateKind::Call,
        Does::Unknown => StateKind::Unknown,
    };
    StateNamed { kind, name: part.state.clone() }
}

/// What the states of machines say by themselves, where no process is known.
pub fn of_states(of: &states::Verdict) -> Verdict {
    let outcome = match (of.kind, of.reason) {
        (states::VerdictKind::Bottleneck, _) => Outcome::Bottleneck,
        (_, Some(states::Reason::CannotBeTold)) => Outcome::Unknown,
        _ => Outcome::Spread,
    };
    let error = of.share_error.unwrap_or(0.0);
    let named = |name: &String| Named { level: SubjectLevel::Thread, host: None, name: name.clone(), pid: None, tid: None, port: None };
    Verdict {
        outcome,
        subject: of.machine.as_ref().map(named),
        state: of.state.as_ref().map(|state| StateNamed { kind: StateKind::Declared, name: state.clone() }),
        waits_for: None,
        mechanism: None,
        because: Vec::new(),
        code: None,
        share: of.share,
        share_low: of.share.map(|share| (share - error).max(0.0)),
        share_high: of.share.map(|share| (share + error).min(1.0)),
        runner_up: None,
        gain: None,
        role: None,
        caveats: Vec::new(),
        unknown_share: of.unknown_share,
        lost: of.lost,
        evidence: of.evidence,
        text: of.text.clone(),
        doubts: of.doubts,
        row: of.machine.clone().zip(of.state.clone()),
        of_stages: of.of_stages,
        of_cause: of.of_cause,
    }
}
