//! Verdicts on programs that start processes again and again.
//!
//! A process costs the kernel's work to start and end it, and the dynamic linker's. If most of the
//! work is that, one process for many items, or a pool of processes, would save it. The programs
//! are judged as a *family*: the one that starts processes, and those that it starts.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Outcome, Verdict};
use crate::verdict::facts::traffic::{Lives, Own};
use crate::verdict::parts::{Does, Part};
use crate::verdict::questions::work::largest_states;
use crate::verdict::subjects::{Subject, SubjectId};
use crate::verdict::Case;
use std::collections::{HashMap, HashSet};

impl Case<'_> {
    /// Returns a reason if the subject is a pool of many processes, at least half of which another
    /// subject has started.
    pub(in crate::verdict) fn processes(&self, subject: SubjectId) -> Option<Because> {
        let lives = Lives::of(self.owned(subject));
        let (by, count) = self.most_started_by(subject, &self.owners_of_processes())?;
        let is_pool = count >= self.limits.min_occurrences && 2 * count >= self.subjects.get(subject).processes.len() as u64;
        (by != subject && is_pool && lives.count > 0).then(|| self.started(by, count, lives))
    }

    /// Returns a reason if the subject is a pool of processes that live for a small part of the
    /// run: many, or some that one after another exist for most of the run, as workers do that are
    /// replaced. A server that starts a process for each connection has started them itself.
    pub(in crate::verdict) fn short_processes(&self, subject: SubjectId) -> Option<Because> {
        let lives = Lives::of(self.owned(subject));
        let (by, count) = self.most_started_by(subject, &self.owners_of_processes())?;
        let length = self.traffic.length_ns() as f64;
        let is_short = lives.count > 0 && ((lives.ns / lives.count) as f64) < self.limits.considerable_share * length;
        let follow_one_another =
            lives.ns as f64 >= self.limits.majority * length && 2 * count > self.subjects.get(subject).processes.len() as u64;
        (is_short && (count >= self.limits.min_occurrences || follow_one_another)).then(|| self.started(by, count, lives))
    }

    fn started(&self, by: SubjectId, count: u64, lives: Lives) -> Because {
        Because::Processes { by: self.name(by, None), count, mean_ns: lives.ns / lives.count.max(1) }
    }

    /// Returns the number of threads and processes that each subject starts.
    fn forks(&self) -> HashMap<SubjectId, u64> {
        let mut forks: HashMap<SubjectId, u64> = HashMap::new();
        self.owners().for_each(|(of, own)| *forks.entry(of).or_default() += own.forks);
        forks
    }

    /// Judges a program that starts processes again and again, if most of its time and theirs is
    /// the work to start and end them: the kernel's work, or what the cheapest of these programs
    /// needs for a process, times their number. What they wait for CPUs is divided like their work.
    pub(in crate::verdict) fn by_process_per_item(&self) -> Option<Verdict> {
        let first = self.parts.wholes.iter().find(|whole| self.is_program(whole.subject))?;
        let family = self.family(self.starter(first.subject));
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| family.contains(&part.subject)).collect();
        let share = |is_meant: &dyn Fn(Does) -> bool| -> f64 { own.iter().filter(|part| is_meant(part.does)).map(|part| part.share).sum() };
        let (whole, waiting) = (share(&|_| true), share(&|does| does == Does::Runnable));
        let kernel = share(&|does| matches!(does, Does::SystemCall | Does::Faults));
        // If nearly all of the share is waits for CPUs, the remaining states prove nothing.
        let (rest, least) = (whole - waiting, self.limits.considerable_share * whole);
        if whole < self.limits.majority || rest < least || kernel < self.limits.min_fault_share * rest {
            return None;
        }
        let threads: Vec<(SubjectId, &Own)> = self.owners().filter(|(of, _)| family.contains(of)).collect();
        if kernel < self.limits.majority * rest && !self.is_majority_of_starts(&threads) {
            return None;
        }
        let (by, count) = self.most_started(&family)?;
        // Those that end soon take a considerable share of the run. They, and the threads that
        // start them, do most of the work.
        let least = self.limits.considerable_share * self.parts.length_ns as f64;
        let all = || threads.iter().map(|(_, own)| *own);
        let (short, long): (Vec<&Own>, Vec<&Own>) = all().partition(|own| (Lives::of([*own]).longest_ns as f64) < least);
        let ran = |of: &mut dyn Iterator<Item = &Own>| of.map(|own| own.ran_ns).sum::<u64>() as f64;
        let others = ran(&mut long.into_iter().filter(|own| own.forks < self.limits.min_occurrences));
        let lives = Lives::of(short);
        let is_most = others < self.limits.majority * ran(&mut all()) && lives.ns as f64 >= whole * least;
        if count < self.limits.min_occurrences || !is_most {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Bottleneck, by, &[]);
        verdict.state = None;
        verdict.set_exact_share(whole);
        verdict.evidence = first.evidence;
        verdict.mechanism = Some(Mechanism::ProcessPerItem);
        verdict.because.push(self.started(by, count, lives));
        verdict.because.push(Because::Divided { parts: largest_states(&own) });
        Some(verdict)
    }

    /// Judges the same on full CPUs, if the programs have most of the CPUs' time.
    pub(in crate::verdict) fn by_processes_on_full_cpus(&self) -> Option<Verdict> {
        let verdict = self.by_process_per_item()?;
        let family = self.family(verdict.origin.subject?);
        let used: f64 = self.cpu_users().iter().filter(|(user, _)| family.contains(user)).map(|(_, share)| share).sum();
        (used >= self.limits.majority).then_some(verdict)
    }

    /// Returns whether most of the CPU time of these programs is spent even if each of their
    /// processes needed no more than those of the program whose processes need least: the dynamic
    /// linker's and the kernel's work, which all of them have. With a single program, nothing shows
    /// how much of a process's work that is.
    fn is_majority_of_starts(&self, threads: &[(SubjectId, &Own)]) -> bool {
        let mut programs: HashMap<&str, (u64, u64)> = HashMap::new();
        for (of, own) in threads {
            let (ran, count) = programs.entry(&self.subjects.get(*of).name).or_default();
            *ran += own.ran_ns;
            *count += Lives::of([*own]).count;
        }
        let frequent = programs.values().filter(|(_, count)| *count >= self.limits.min_occurrences);
        let means: Vec<f64> = frequent.map(|(ran, count)| *ran as f64 / *count as f64).collect();
        let (ran, count) = programs.values().fold((0, 0), |(ran, count), of| (ran + of.0, count + of.1));
        let least = means.iter().copied().reduce(f64::min).filter(|_| means.len() > 1);
        least.is_some_and(|least| least * count as f64 >= self.limits.majority * ran as f64)
    }

    /// Returns the subject of a family that starts most processes, with their number.
    fn most_started(&self, family: &HashSet<SubjectId>) -> Option<(SubjectId, u64)> {
        let forks = self.forks().into_iter().filter(|(of, _)| family.contains(of));
        let (by, _) = forks.max_by_key(|&(of, count)| (count, std::cmp::Reverse(of)))?;
        let own: HashSet<i32> = self.subjects.get(by).processes.iter().copied().collect();
        let started = self.off_path.parents.values().filter(|parent| own.contains(parent));
        Some((by, started.count() as u64))
    }

    /// Returns the subject that has started most processes of a subject, with their number.
    /// `owners` are the subjects of the processes.
    fn most_started_by(&self, subject: SubjectId, owners: &HashMap<i32, SubjectId>) -> Option<(SubjectId, u64)> {
        let parents = self.subjects.get(subject).processes.iter().filter_map(|process| self.off_path.parents.get(process));
        let mut started: HashMap<SubjectId, u64> = HashMap::new();
        parents.filter_map(|parent| owners.get(parent)).for_each(|by| *started.entry(*by).or_default() += 1);
        started.into_iter().max_by_key(|&(by, count)| (count, std::cmp::Reverse(by)))
    }

    /// Returns the subject of each process id. A process that has executed another program belongs
    /// to several; of these, it is the one that starts most.
    fn owners_of_processes(&self) -> HashMap<i32, SubjectId> {
        let forks = self.forks();
        let mut subjects: Vec<(SubjectId, &Subject)> = self.subjects.iter().collect();
        subjects.sort_by_key(|(id, _)| (forks.get(id).copied().unwrap_or(0), *id));
        subjects.iter().flat_map(|(id, of)| of.processes.iter().map(|process| (*process, *id))).collect()
    }

    /// Follows from a subject to the one that starts most of its processes, as long as that one
    /// starts many of them. Returns the last one.
    fn starter(&self, subject: SubjectId) -> SubjectId {
        let owners = self.owners_of_processes();
        let (mut last, mut seen) = (subject, HashSet::from([subject]));
        loop {
            let count_of_all = self.subjects.get(last).processes.len() as u64;
            let most = self.most_started_by(last, &owners);
            match most.filter(|&(_, count)| count >= self.limits.min_occurrences && 2 * count >= count_of_all) {
                Some((by, _)) if seen.insert(by) => last = by,
                _ => return last,
            }
        }
    }

    /// Returns the subjects of the same program, and those that they have started.
    fn family(&self, subject: SubjectId) -> HashSet<SubjectId> {
        let name = &self.subjects.get(subject).name;
        self.with_started(self.subjects.iter().filter(|(_, other)| other.name == *name).map(|(id, _)| id).collect())
    }

    /// Adds the subjects most of whose processes these have started, directly or through others of
    /// these.
    pub(in crate::verdict) fn with_started(&self, mut family: HashSet<SubjectId>) -> HashSet<SubjectId> {
        loop {
            let own: HashSet<i32> = family.iter().flat_map(|id| self.subjects.get(*id).processes.iter().copied()).collect();
            let is_started = |process: &&i32| self.off_path.parents.get(process).is_some_and(|parent| own.contains(parent));
            let others = self.subjects.iter().filter(|(id, _)| !family.contains(id) && self.is_program(*id));
            let started = others.filter(|(_, other)| 2 * other.processes.iter().filter(is_started).count() > other.processes.len());
            let started: Vec<SubjectId> = started.map(|(id, _)| id).collect();
            if started.is_empty() {
                return family;
            }
            family.extend(started);
        }
    }
}
