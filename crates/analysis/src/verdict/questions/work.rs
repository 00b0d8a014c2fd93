//! Verdicts on work: the CPUs, interrupts, and one subject as a whole.

use crate::findings::Scope;
use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Named, Outcome, StateNamed, SubjectLevel, Verdict};
use crate::verdict::facts::inversions::Inversion;
use crate::verdict::facts::traffic::Own;
use crate::verdict::parts::{Does, Part, Whole};
use crate::verdict::subjects::{Level, SubjectId};
use crate::verdict::{state_of, Case};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Priorities of threads with a nice value, -20 to 19: as LTTng counts them, and as the kernel
/// does.
const NICE: [RangeInclusive<i32>; 2] = [0..=39, 100..=139];
/// Number of groups of threads that are listed.
const MAX_GROUPS: usize = 4;

impl Case<'_> {
    /// Judges a thread for which a more important one waits, and which cannot run because of a
    /// third thread.
    pub(in crate::verdict) fn by_inversion(&self) -> Option<Verdict> {
        self.off_path.inversions.iter().find_map(|inversion| self.inverted(inversion))
    }

    fn inverted(&self, inversion: &Inversion) -> Option<Verdict> {
        let share = (inversion.inverted_ns as f64 / self.answer.length_ns.max(1) as f64).min(1.0);
        // A thread that changes its name is known by each of its names.
        let named = |tid: i32| {
            let own = self.subjects.threads().filter(|(_, thread)| thread.tid == tid);
            let known = own.filter_map(|(machine, thread)| Some((self.subjects.known(machine)?, machine, thread.name != thread.program)));
            let known = known.filter(|(subject, ..)| self.is_program(*subject));
            let ns = |subject: SubjectId| self.parts.whole(subject).map_or(0, |whole| whole.ns);
            let (subject, machine, _) = known.max_by_key(|&(subject, machine, has_name)| (has_name, ns(subject), machine))?;
            Some((subject, self.name(subject, Some(machine))))
        };
        let (subject, holder) = named(inversion.holder)?;
        let (_, waiter) = named(inversion.waiter)?;
        let (_, instead) = named(inversion.instead)?;
        let own: Vec<&Part> = self.parts.of(subject).filter(|part| part.does == Does::Runnable).collect();
        // Time that other threads of the host lose is not time of the path.
        let on_path: f64 = own.iter().map(|part| part.share).sum();
        if share.min(on_path) < self.limits.min_share {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Bottleneck, subject, &own);
        verdict.subject = Some(holder.clone());
        verdict.set_exact_share(share);
        (verdict.state, verdict.role) = (None, None);
        verdict.mechanism = Some(Mechanism::PriorityInversion);
        let mean_ns = inversion.inverted_ns / inversion.count.max(1);
        verdict.because.push(Because::Inversion { waiter, holder, instead, count: inversion.count, mean_ns });
        Some(verdict)
    }

    /// Judges waits for a CPU.
    pub(in crate::verdict) fn by_cpus(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Runnable;
        let share = self.share(is_meant);
        let idle = self.cpus.idle.unwrap_or(0.0);
        let waiting = self.parts.parts.iter().find(|part| is_meant(part) && self.is_program(part.subject))?;
        if !self.is_most(share, is_meant) && !self.waits_for_itself(waiting.subject) {
            return None;
        }
        if !self.cpus_are_short() {
            let allowed = self.subjects.allowed(waiting.subject).filter(|&allowed| allowed < self.cpus.count)?;
            let own: Vec<&Part> = self.parts.of(waiting.subject).filter(|part| is_meant(part)).collect();
            let mut verdict = self.verdict_on(Outcome::Bottleneck, waiting.subject, &own);
            verdict.mechanism = Some(Mechanism::Affinity);
            verdict.because.push(Because::Affinity { allowed, cpus: self.cpus.count, idle });
            return Some(verdict);
        }
        let waits_next_to_idle: f64 = self.findings.iter().filter(|finding| finding.of == Scope::Idle).map(|finding| finding.share).sum();
        let mut all: Vec<&Part> = self.parts.parts.iter().filter(|part| is_meant(part)).collect();
        // The first part names the verdict's subject.
        all.sort_by_key(|part| part.subject != waiting.subject);
        let users = self.cpu_users();
        let mut verdict = self.verdict_on(Outcome::Bottleneck, waiting.subject, &all);
        let waits = self.name_of(waiting);
        verdict.role = None;
        if let Some(&(most, _)) = users.first().filter(|_| waits_next_to_idle < self.limits.majority * share) {
            verdict.mechanism = Some(Mechanism::CpuContention);
            verdict.subject = Some(self.name(most, None));
            verdict.role = self.role(most);
            verdict.because.extend(self.short_processes(most));
        }
        let is_own = self.uses_most(waiting.subject);
        if let Some(threads) = self.want_more_cpus(&[waiting.subject]).filter(|_| is_own) {
            verdict.because.push(Because::MoreThreads { threads, cpus: self.cpus.count });
        }
        if is_own {
            let parts: Vec<&Part> = self.parts.of(waiting.subject).filter(|part| part.does != Does::Transit).collect();
            verdict.because.push(Because::Divided { parts: largest_states(&parts) });
        }
        verdict.because.extend(users.first().and_then(|&(user, _)| self.lower_priority(waiting.subject, user)));
        verdict.because.push(Because::CpuUsers { waits, users: self.named_users(&users), idle });
        Some(verdict)
    }

    /// Returns whether a subject computes and waits for the CPUs that it uses itself for most of
    /// the path, but does neither for most of it.
    fn waits_for_itself(&self, subject: SubjectId) -> bool {
        let is_own = |part: &Part| part.subject == subject && matches!(part.does, Does::Runs | Does::Runnable);
        let runs = self.share(|part| is_own(part) && part.does == Does::Runs);
        self.cpus_are_short() && self.uses_most(subject) && runs < self.limits.majority && self.is_most(self.share(is_own), is_own)
    }

    /// Returns whether a subject has most of the CPU time of all programs.
    fn uses_most(&self, subject: SubjectId) -> bool {
        self.cpu_users().first().is_some_and(|&(user, share)| user == subject && share >= self.limits.majority)
    }

    /// Returns a reason if the thread of a subject that waits for CPUs for the longest time has a
    /// lower priority than the one that uses them most.
    fn lower_priority(&self, waiting: SubjectId, user: SubjectId) -> Option<Because> {
        let priority = |subject: SubjectId, ns: fn(&Own) -> u64| {
            let own = self.vocabulary.machines().filter_map(|machine| {
                let name = self.vocabulary.machine_name(machine);
                let of_thread = self.traffic.own(machine).filter(|_| self.subjects.known(name) == Some(subject))?;
                Some((ns(of_thread), self.subjects.thread(name)?.priority?))
            });
            own.max().map(|(_, priority)| priority)
        };
        // Other numbers are of real-time priorities, which nice does not change.
        let is_nice = |priority: i32| NICE.iter().position(|numbers| numbers.contains(&priority));
        let (own, of_user) = (priority(waiting, |own| own.ready_ns)?, priority(user, |own| own.ran_ns)?);
        let are_alike = is_nice(own).is_some() && is_nice(own) == is_nice(of_user);
        let levels = u64::try_from(own - of_user).ok().filter(|&levels| are_alike && levels > 0 && user != waiting)?;
        Some(Because::LowerPriority { waits: self.name(waiting, None), user: self.name(user, None), levels })
    }

    /// Returns subjects by CPU time, the largest first, as shares of the CPU time of all programs.
    pub(in crate::verdict) fn cpu_users(&self) -> Vec<(SubjectId, f64)> {
        let mut ran: HashMap<SubjectId, u64> = HashMap::new();
        self.owners().for_each(|(subject, own)| *ran.entry(subject).or_default() += own.ran_ns);
        let all: u64 = ran.values().sum();
        let mut users: Vec<(SubjectId, f64)> =
            ran.into_iter().filter(|(id, _)| self.is_program(*id)).map(|(id, ns)| (id, ns as f64 / all.max(1) as f64)).collect();
        users.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        users
    }

    /// Returns the names of the three largest users of the CPUs.
    fn named_users(&self, users: &[(SubjectId, f64)]) -> Vec<(Named, f64)> {
        users.iter().take(3).map(|&(user, share)| (self.name(user, None), share)).collect()
    }

    /// Judges interrupts and softirqs, and threads that they interrupt, with most of the path.
    pub(in crate::verdict) fn by_interrupts(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Interrupt;
        let share = self.share(is_meant);
        let handles = |part: &&Part| is_meant(part) && self.subjects.get(part.subject).level == Level::Interrupt;
        let first = self.parts.parts.iter().find(handles).filter(|_| share >= self.limits.majority)?;
        let others = self.parts.parts.iter().filter(|part| is_meant(part) && !std::ptr::eq(*part, first));
        let own: Vec<&Part> = std::iter::once(first).chain(others).collect();
        let mut verdict = self.verdict_on(Outcome::Bottleneck, first.subject, &own);
        verdict.mechanism = Some(Mechanism::InterruptWork);
        Some(verdict)
    }

    /// Judges one subject, in any states, that has most of the path, or a considerable share of it
    /// and leads. If none of its states has most of its time, round trips are tried first.
    pub(in crate::verdict) fn by_subject(&self) -> Option<Verdict> {
        let wholes: Vec<&Whole> = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject)).collect();
        let first = *wholes.first()?;
        let next = wholes.get(1).map_or(0.0, |second| second.share + second.error);
        if !self.leads(first.share, first.error, next) {
            return None;
        }
        let parts: Vec<&Part> = self.parts.of(first.subject).filter(|part| part.does != Does::Transit).collect();
        // A single state is named if it has most of its subject's time.
        let top = *parts.first()?;
        let alone = top.ns as f64 >= self.limits.majority * first.ns as f64;
        // If no state of the subject has most of its time, many small requests may be the reason.
        if !alone || top.does == Does::Runnable {
            if let Some(round_trips) = self.by_round_trips() {
                return Some(round_trips);
            }
        }
        let groups = thread_groups(&parts);
        // If nothing else is on the path, the subject's share of it proves nothing unless one of
        // its threads leads.
        let has_others = || wholes.iter().skip(1).any(|other| self.is_connected(first.subject, other.subject));
        let leading = groups.first().map_or(0, |(_, ns)| *ns);
        if !alone && 2 * leading < first.ns && !has_others() || self.is_equally_busy(first.subject, next) {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Bottleneck, first.subject, &[top]);
        if !alone {
            verdict.set_share(first.share, first.error);
            verdict.evidence = first.evidence;
            verdict.subject = Some(self.name(first.subject, None));
            verdict.state = None;
        }
        self.add_memory(first, top, &mut verdict);
        self.add_waits_for_each_other(first.subject, &mut verdict);
        self.add_processes(first, &mut verdict);
        verdict.because.extend(self.open_requests_of_others(first.subject));
        self.add_interrupts(&parts, &mut verdict);
        self.add_use_of_cpus(first.subject, &parts, &mut verdict);
        // Threads of a runtime, such as those that collect garbage, are known by their names.
        let are_several = groups.get(1).is_some_and(|(_, ns)| *ns as f64 >= self.limits.considerable_share * first.ns as f64);
        if !alone && (are_several || groups.first().is_some_and(|(group, _)| !group.is_empty())) {
            let share = |ns: u64| ns as f64 / first.ns.max(1) as f64 * first.share;
            let largest = groups.into_iter().take(MAX_GROUPS);
            verdict.because.push(Because::Threads { groups: largest.map(|(group, ns)| (group, share(ns))).collect() });
        }
        if parts.len() > 1 {
            verdict.because.push(Because::Divided { parts: largest_states(&parts) });
        }
        Some(verdict)
    }

    /// Judges a program whose processes have several roles, such as the sides of a transfer, none
    /// of which leads by itself.
    pub(in crate::verdict) fn by_program(&self) -> Option<Verdict> {
        let wholes: Vec<&Whole> = self.parts.wholes.iter().filter(|whole| self.is_program(whole.subject)).collect();
        let mut programs: Vec<(f64, f64, Vec<&Whole>)> = Vec::new();
        for whole in wholes {
            match programs.iter_mut().find(|(.., own)| self.is_same_program(own[0].subject, whole.subject)) {
                Some((share, error, own)) => {
                    (*share, *error) = (*share + whole.share, *error + whole.error);
                    own.push(whole);
                }
                None => programs.push((whole.share, whole.error, vec![whole])),
            }
        }
        programs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (share, error, own) = programs.first().filter(|(.., own)| own.len() > 1)?;
        let next = programs.get(1).map_or(0.0, |(share, error, _)| share + error);
        let is_own = |part: &&Part| own.iter().any(|whole| whole.subject == part.subject) && part.does != Does::Transit;
        let mut parts: Vec<&Part> = self.parts.parts.iter().filter(is_own).collect();
        if !self.leads(*share, *error, next) {
            return None;
        }
        let states = largest_states(&parts);
        let (state, of_state) = states.first()?.clone();
        let first = *parts.iter().find(|part| state_of(part) == state)?;
        let alone = of_state >= self.limits.majority * share;
        parts.retain(|part| (part.does, &part.state) == (first.does, &first.state));
        let mut verdict = self.verdict_on(Outcome::Bottleneck, first.subject, &parts);
        verdict.set_share(if alone { of_state } else { *share }, *error);
        verdict.state = alone.then_some(state);
        verdict.origin.row = verdict.origin.row.filter(|_| alone);
        verdict.subject = Some(Named { level: SubjectLevel::Pool, pid: None, tid: None, port: None, ..self.name(first.subject, None) });
        verdict.role = None;
        verdict.because.push(Because::Divided { parts: states });
        Some(verdict)
    }

    /// Returns whether a share of the path is large enough, and far enough ahead of the next one,
    /// for its owner to be named. `next` includes its error.
    fn leads(&self, share: f64, error: f64, next: f64) -> bool {
        // At most half of the share counts as error: of few samples, it is as large as the share.
        let is_ahead = share - error.min(0.5 * share) >= self.limits.min_lead * next;
        // If the next one may have more than half of the path as well, neither is named.
        let has_rival = !is_ahead && next > 1.0 - self.limits.majority;
        !has_rival && (share >= self.limits.majority || is_ahead && share >= self.limits.min_share)
    }

    /// Returns whether halving the subject's work would bring nothing because the next subject,
    /// with the share `next` of the path, takes over at once.
    fn is_equally_busy(&self, subject: SubjectId, next: f64) -> bool {
        let gain = self.predicted(&self.subjects.get(subject).halved()).and_then(|prediction| prediction.gain);
        next >= self.limits.considerable_share && gain.is_some_and(|gain| gain < self.limits.min_gain)
    }

    /// Returns whether two subjects are the same program in the same place, in two roles.
    pub(in crate::verdict) fn is_same_program(&self, one: SubjectId, other: SubjectId) -> bool {
        let whose = |id: SubjectId| {
            let of = self.subjects.get(id);
            (&of.name, &of.script, &of.host, &of.place.unit, &of.place.container)
        };
        whose(one) == whose(other)
    }

    /// Adds that the subject consists of processes that others start again and again.
    fn add_processes(&self, whole: &Whole, verdict: &mut Verdict) {
        let Some(processes) = self.processes(whole.subject) else {
            verdict.because.extend(self.short_processes(whole.subject));
            return;
        };
        // The kernel's work to start and end processes consists mostly of their own system calls
        // and page faults.
        let of_kernel = |part: &&Part| matches!(part.does, Does::SystemCall | Does::Faults);
        let kernel: f64 = self.parts.of(whole.subject).filter(of_kernel).map(|part| part.share).sum();
        if kernel >= self.limits.min_fault_share * whole.share {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::ProcessPerItem));
        }
        verdict.because.push(processes);
    }

    /// Sets the mechanism if interrupts take most of the subject's time, apart from its waits for
    /// CPUs. `parts` are its states.
    fn add_interrupts(&self, parts: &[&Part], verdict: &mut Verdict) {
        let ns = |is_meant: fn(Does) -> bool| parts.iter().filter(|part| is_meant(part.does)).map(|part| part.ns).sum::<u64>() as f64;
        let interrupted = ns(|does| does == Does::Interrupt);
        let is_first = parts.first().is_some_and(|part| part.does == Does::Interrupt);
        if is_first && interrupted >= self.limits.majority * ns(|does| does != Does::Runnable) {
            // Requests that wait meanwhile wait for these interrupts.
            verdict.mechanism = match verdict.mechanism {
                None | Some(Mechanism::Serialisation) => Some(Mechanism::InterruptWork),
                known => known,
            };
        }
    }

    /// Adds page faults and the freeing of memory if they have a considerable share of the subject,
    /// whose largest part is `top`.
    fn add_memory(&self, whole: &Whole, top: &Part, verdict: &mut Verdict) {
        let least = self.limits.min_fault_share * whole.share;
        let faults = self.parts.of(whole.subject).filter(|part| part.does == Does::Faults);
        let (count, share) = faults.fold((0, 0.0), |(count, share), part| (count + part.count, share + part.share));
        let in_states = self.findings.iter().find(|finding| finding.of == Scope::Fault && finding.subject == top.row.class);
        // The faults are states of their own, or else are counted within another state.
        let faults = match share >= least {
            true => Some((count, share)),
            false => in_states.filter(|faults| faults.share >= least).map(|faults| (faults.count, faults.share)),
        };
        if let Some((count, share)) = faults {
            verdict.mechanism = Some(Mechanism::PageFaults);
            verdict.because.push(Because::Faults { count, share });
        }
        if let Some(reclaims) = self.reclaims(whole.subject, whole.share) {
            verdict.mechanism = Some(Mechanism::MemoryReclaim);
            verdict.because.push(reclaims);
        }
    }

    /// Adds how the threads of the subject wait for one another and for others: at a lock, one
    /// after another, or in round trips.
    fn add_waits_for_each_other(&self, subject: SubjectId, verdict: &mut Verdict) {
        if let Some(lock) = self.lock_of(subject) {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::LockConvoy));
            let locks = self.locks(subject, 0);
            verdict.because.push(Because::Lock { count: lock.count, share: lock.share, locks });
        }
        if let Some((at, serialised)) = self.serialisation(subject).filter(|_| !self.occupies_all_cpus(subject)) {
            verdict.origin.station = Some(at);
            verdict.because.push(serialised);
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::Serialisation));
        } else {
            let asker = self.asked_by(subject).filter(|_| self.is_called(subject));
            verdict.because.extend(asker.and_then(|asker| self.blocks_its_loop(asker)));
        }
        if let Some((asking, mechanism)) = self.chatty(subject).or_else(|| self.asks_often(subject)) {
            verdict.because.push(asking);
            verdict.mechanism = verdict.mechanism.or(mechanism);
        }
    }

    /// Adds whether the subject's work leaves CPUs idle or occupies all of them.
    fn add_use_of_cpus(&self, subject: SubjectId, parts: &[&Part], verdict: &mut Verdict) {
        let runs: f64 = parts.iter().filter(|part| part.does.is_work()).map(|part| part.share).sum();
        let idle = self.cpus.idle.unwrap_or(0.0);
        let (running, threads) = self.running(subject);
        // Threads that run for half of the time each may do so at the same times. Those that take
        // turns wake one another.
        let takes_turns = || self.runs_in_sequence(subject) || self.takes_turns(subject);
        let one_at_a_time = self.is_one_at_a_time(running) && (threads <= 1 || takes_turns());
        if runs >= self.limits.majority && idle > self.limits.max_idle_share && self.cpus.count > 1 && one_at_a_time {
            verdict.because.push(Because::Alone { threads, cpus: self.cpus.count, idle });
            verdict.mechanism = match (verdict.mechanism, verdict.role) {
                (Some(mechanism), _) if mechanism != Mechanism::Serialisation => Some(mechanism),
                (_, Some(_)) => Some(Mechanism::LoadGenerator),
                (_, None) if threads > 1 => Some(Mechanism::OneAtATime),
                (_, None) => Some(Mechanism::SingleThread),
            };
        } else if verdict.role.is_some() {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::LoadGenerator));
        } else if runs >= self.limits.majority && self.occupies_all_cpus(subject) {
            verdict.mechanism = verdict.mechanism.or(Some(Mechanism::CpuContention));
            let users = self.named_users(&self.cpu_users());
            verdict.because.push(Because::CpuUsers { waits: self.name(subject, None), users, idle });
        }
    }

    /// Returns a reason if a thread of the subject spends a considerable share of its time on
    /// freeing memory.
    pub(in crate::verdict) fn reclaims(&self, subject: SubjectId, share: f64) -> Option<Because> {
        let own = self.subjects.threads().filter(|(machine, _)| self.subjects.known(machine) == Some(subject));
        let of_threads = own.filter_map(|(_, thread)| self.off_path.reclaims.get(&thread.tid));
        let most = of_threads.max_by_key(|reclaims| (reclaims.ns, reclaims.count))?;
        let of_path = most.ns as f64 / self.answer.length_ns.max(1) as f64;
        (of_path >= self.limits.min_fault_share * share).then(|| Because::Reclaims {
            count: most.count,
            mean_ns: most.ns / most.count.max(1),
            share: of_path.min(1.0),
        })
    }

    /// Returns the mean number of threads of these subjects that run or are ready to run, if it
    /// exceeds the number of CPUs by enough to form a queue.
    pub(in crate::verdict) fn want_more_cpus(&self, subjects: &[SubjectId]) -> Option<f64> {
        let threads = subjects.iter().map(|subject| self.wanted_cpus(*subject)).sum();
        let is_more = threads > self.cpus.count as f64 + self.limits.min_waiting;
        (is_more && self.cpus.count > 0).then_some(threads)
    }

    /// Returns the mean number of threads of the subject that run or are ready to run.
    pub(in crate::verdict) fn wanted_cpus(&self, subject: SubjectId) -> f64 {
        let wanted: u64 = self.owned(subject).map(|own| own.ran_ns + own.ready_ns).sum();
        wanted as f64 / self.traffic.length_ns().max(1) as f64
    }

    /// Returns true if no CPU is idle and several threads of the subject run, or are ready to, at a
    /// time: none of them delays the others, and more of them would only wait for a CPU.
    fn occupies_all_cpus(&self, subject: SubjectId) -> bool {
        let is_busy = self.cpus.idle.is_some_and(|idle| idle <= self.limits.max_idle_share);
        is_busy && self.cpus.count > 1 && !self.is_one_at_a_time(self.wanted_cpus(subject))
    }

    /// Returns true if a subject that uses this many CPUs on average does one thing after another.
    fn is_one_at_a_time(&self, running: f64) -> bool {
        running <= 1.0 + self.limits.considerable_share
    }

    /// Returns whether each thread of the subject that runs for a considerable time begins when the
    /// one before it has ended, as processes do that a script starts one after the other.
    fn runs_in_sequence(&self, subject: SubjectId) -> bool {
        let most = self.owned(subject).map(|own| own.ran_ns).max().unwrap_or(0);
        let busy = self.owned(subject).filter(|own| own.ran_ns as f64 >= self.limits.considerable_share * most as f64);
        let mut lives: Vec<(u64, u64)> = busy.filter_map(|own| Some((own.first_ns?, own.last_ns))).collect();
        lives.sort_unstable();
        lives.windows(2).all(|two| two[1].0 >= two[0].1)
    }

    /// Returns whether a considerable part of the wake-ups of the subject's threads come from one
    /// another.
    fn takes_turns(&self, subject: SubjectId) -> bool {
        let owns = |machine| self.subjects.known(self.vocabulary.machine_name(machine)) == Some(subject);
        let (mut own, mut all) = (0, 0);
        for (by, woken, pair) in self.traffic.pairs().filter(|&(_, woken, _)| owns(woken)) {
            all += pair.count;
            own += if by != woken && owns(by) { pair.direct } else { 0 };
        }
        own as f64 >= self.limits.considerable_share * all as f64
    }

    /// Returns the mean number of CPUs that the subject uses, and the number of its threads with a
    /// considerable share of that.
    pub(in crate::verdict) fn running(&self, subject: SubjectId) -> (f64, u64) {
        let ran: Vec<u64> = self.owned(subject).map(|own| own.ran_ns).collect();
        let all: u64 = ran.iter().sum();
        let threads = ran.iter().filter(|&&ns| ns as f64 >= self.limits.considerable_share * all as f64).count() as u64;
        (all as f64 / self.traffic.length_ns().max(1) as f64, threads)
    }
}

/// Returns the time of each group of threads with a common name, the largest first.
fn thread_groups(parts: &[&Part]) -> Vec<(String, u64)> {
    let mut groups: HashMap<&str, u64> = HashMap::new();
    parts.iter().for_each(|part| *groups.entry(part.thread_group.as_deref().unwrap_or_default()).or_default() += part.ns);
    let mut groups: Vec<(String, u64)> = groups.into_iter().map(|(group, ns)| (group.to_owned(), ns)).collect();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    groups
}

/// Returns the four largest states of a subject with their shares of the path. Parts that a reader
/// cannot distinguish are one state.
pub(in crate::verdict) fn largest_states(parts: &[&Part]) -> Vec<(StateNamed, f64)> {
    let mut states: Vec<(StateNamed, f64)> = Vec::new();
    for part in parts {
        let state = state_of(part);
        let is_same = |known: &StateNamed| (known.kind, known.distinguishing_name()) == (state.kind, state.distinguishing_name());
        match states.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, share)) => *share += part.share,
            None => states.push((state, part.share)),
        }
    }
    states.sort_by(|a, b| b.1.total_cmp(&a.1));
    states.truncate(4);
    states
}
