//! Verdicts on waits: for a link, kernel timers, a receive window, a quota, sleeps, and the disk.
//!
//! A sleep is judged by the machines that wait for it. It is a bottleneck if others lead to it, if
//! a lock passes from thread to thread meanwhile, or if both sides sleep and poll. Otherwise it
//! sets the pace.

use super::because::Because;
use super::data::{Locks, Mechanism, Named, Outcome, SubjectLevel, Verdict};
use super::parts::{Does, Part, Whole};
use super::subjects::{Level, Role, SubjectId};
use super::traffic::Pair;
use super::Case;
use crate::findings::Scope;
use crate::verdict::file_locks::FileLock;
use longpole_model::interaction::MachineId;
use longpole_model::kinds::{LinkKind, LINK};
use longpole_model::system_calls::CallFamily;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A pool whose members pass a lock from one to the next.
pub(super) struct Convoy {
    pub(super) subject: SubjectId,
    waiters: f64,
    /// Mean number of members that wait for one another, without those that wait for threads
    /// outside of the members.
    pub(super) waiting: f64,
    pub(super) members: u64,
    wait: String,
    waited_ns: u64,
}

impl Case<'_> {
    /// Judges a link that always has packets to carry while the path waits for packets in flight.
    pub(super) fn by_link(&self) -> Option<Verdict> {
        let link = self.socket_activities.link.as_ref()?;
        let (begin, end) = self.traffic.range();
        let busy = link.busy_ns as f64 / (end - begin).max(1) as f64;
        let is_on_way = |part: &Part| match part.does {
            Does::KernelTimer(timer) => matches!(timer, LinkKind::RateLimit | LinkKind::Pacing),
            Does::Transit => part.is_on_wire,
            _ => false,
        };
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| is_on_way(part)).collect();
        let share = self.share(is_on_way);
        if busy < self.limits.most || share < self.limits.most || link.packets < self.limits.least_replies {
            return None;
        }
        let waiting = own.iter().find(|part| self.is_program(part.subject));
        let waits = waiting.map(|part| self.name(part.subject, None));
        let mut verdict = self.named(Outcome::Bottleneck, own.first()?.subject, &own);
        let host = waits.as_ref().and_then(|waits| waits.host.clone());
        verdict.subject = Some(Named { host, ..Named::of_name(SubjectLevel::Device, &link.device) });
        (verdict.state, verdict.row, verdict.role) = (None, None, None);
        verdict.mechanism = Some(if link.is_long(self.limits.most) { Mechanism::LongLink } else { Mechanism::SlowLink });
        verdict.because.push(Because::Link {
            device: link.device.clone(),
            discipline: link.discipline.clone(),
            bits_per_second: link.rate(),
            busy: busy.min(1.0),
            mean_ns: link.mean_ns(),
            waits,
        });
        Some(verdict)
    }

    pub(super) fn by_kernel_timer(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| matches!(part.does, Does::KernelTimer(_));
        let share = self.share(is_meant);
        if !self.is_most(share, is_meant) {
            return None;
        }
        let mut of_programs = self.parts.parts.iter().filter(|part| is_meant(part) && self.is_program(part.subject));
        let first = of_programs.next().or_else(|| self.parts.parts.iter().find(|part| is_meant(part)))?;
        let Does::KernelTimer(timer) = first.does else { return None };
        let (mechanism, outcome) = match timer {
            LinkKind::DelayedAck => (Mechanism::DelayedAck, Outcome::Bottleneck),
            LinkKind::Retransmission | LinkKind::Transmission => (Mechanism::Retransmission, Outcome::Bottleneck),
            LinkKind::WindowProbe => (Mechanism::WindowProbe, Outcome::Bottleneck),
            LinkKind::Pacing | LinkKind::RateLimit => (Mechanism::Pacing, Outcome::Paced),
            LinkKind::QuotaRefill => (Mechanism::CpuQuota, Outcome::Paced),
            LinkKind::IoQuota => (Mechanism::DiskQuota, Outcome::Paced),
            LinkKind::GracePeriod => (Mechanism::GracePeriod, Outcome::Bottleneck),
            _ => (Mechanism::KernelTimer, Outcome::Bottleneck),
        };
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| part.does == first.does).collect();
        let mut verdict = self.named(outcome, first.subject, &own);
        let mut between: Vec<Named> = vec![self.name(first.subject, None)];
        let others = self.parts.entered_from.iter().filter(|((to, _), _)| *to == first.subject);
        let other = others.max_by_key(|&((_, from), &count)| (count, std::cmp::Reverse(*from))).map(|((_, from), _)| *from);
        between.extend(other.filter(|&other| self.is_program(other)).map(|by| self.name(by, None)));
        if !self.is_program(first.subject) && between.len() == 2 {
            // A kernel thread works for a program: that program is the one that waits.
            verdict.subject = between.pop();
            between.clear();
        }
        verdict.mechanism = Some(mechanism);
        let (ns, count) = own.iter().fold((0, 0), |(ns, count), part| (ns + part.ns, count + part.count));
        let timer = timer.text().unwrap_or(&first.state).to_owned();
        verdict.because.push(Because::KernelTimer { timer, mean_ns: ns / count.max(1), count, between });
        verdict.role = None;
        Some(verdict)
    }

    /// Judges a connection whose sender always has the receiver's small window filled.
    pub(super) fn by_window(&self) -> Option<Verdict> {
        let ((port, peer), window) = self.socket_activities.narrowest()?;
        let length = self.answer.length_ns.max(1) as f64;
        let lasts = (window.last_ns - window.first_ns) as f64 >= self.limits.most * length;
        let is_full = window.filled as f64 >= self.limits.most * window.count as f64;
        if !lasts || !is_full || window.count < self.limits.many_replies {
            return None;
        }
        // The path must pass through this connection.
        let at = |port: u16| {
            let process = self.socket_activities.process_at(port)?;
            self.parts.wholes.iter().find(|whole| self.subjects.get(whole.subject).processes.contains(&process))
        };
        let ends: Vec<&Whole> = [peer, port].into_iter().filter_map(at).collect();
        let receiver = ends.first()?;
        // A receiver that computes meanwhile is slow by itself; a full window then only shows that
        // it reads too late.
        let computes: f64 = self.parts.of(receiver.subject).filter(|part| part.does == Does::Runs).map(|part| part.share).sum();
        // The same holds for one that sleeps, whatever its connection shows.
        if computes.max(self.share(|part| part.does == Does::Sleeps)) >= self.limits.least_share {
            return None;
        }
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

    /// Judges a thread that is ready to run but may not, because its control group has used up its
    /// quota.
    pub(super) fn by_quota(&self) -> Option<Verdict> {
        let held = self.findings.iter().find(|finding| finding.of == Scope::Held);
        let is_held = |part: &Part| {
            part.does == Does::Throttled
                || part.does == Does::Runnable
                    && held.is_some_and(|held| part.class == held.subject && held.share >= self.limits.least_share)
        };
        let part = self.parts.parts.iter().find(|part| is_held(part))?;
        let share = self.share(is_held);
        // Threads of the subject that sleep meanwhile could not run either.
        let is_held_back = share >= self.limits.considerable && self.held(part.subject) >= self.limits.most;
        if !is_held_back && (share < self.limits.least_share || !self.is_most(share, is_held)) {
            return None;
        }
        let mut verdict = self.named(Outcome::Paced, part.subject, &[part]);
        verdict.mechanism = Some(Mechanism::CpuQuota);
        let is_reserved = self.subjects.is_reserved(part.subject);
        verdict.because.push(Because::Quota { count: held.map_or(part.count, |held| held.count), is_reserved });
        verdict.role = None;
        Some(verdict)
    }

    /// Returns the mean number of the subject's threads that a quota holds back at a time.
    fn held(&self, subject: SubjectId) -> f64 {
        let (begin, end) = self.traffic.range();
        let held: u64 = self.owned(subject).map(|own| own.held_ns).sum();
        held as f64 / (end - begin).max(1) as f64
    }

    pub(super) fn by_sleep(&self) -> Option<Verdict> {
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
        // Short sleeps of many subjects set no pace.
        if parts.iter().map(|part| part.share).sum::<f64>() < self.limits.least_share {
            return None;
        }
        let (ns, count, asked) =
            parts.iter().fold((0, 0, 0), |(ns, count, asked), part| (ns + part.ns, count + part.count, asked + part.asked));
        // A server does not wait for its clients.
        let role = |of: SubjectId| self.subjects.get(of).role;
        let is_asker = |by: SubjectId| self.is_program(by) && (role(by) != Role::Server || role(subject) == Role::Server);
        let asker = self.parts.asked_by(subject).filter(|&by| is_asker(by));
        let by = asker.map(|by| self.name(by, None));
        let call = parts.first().map(|part| part.state.clone()).unwrap_or_default();
        let requests = asker.map(|by| &self.subjects.get(by).activity.asked);
        let outstanding = requests.filter(|asked| asked.count >= self.limits.least_replies).map(|asked| asked.open());
        let sleeps = |whom| Because::Sleeps { call: call.clone(), mean_ns: ns / count.max(1), count, waited_for_by: whom, outstanding };
        let activity = &self.subjects.get(subject).activity;
        let unanswered = activity.unanswered + activity.unconnected;
        let sleeps_only = parts.first().is_some_and(|part| part.is_bare_sleep);
        if !sleeps_only && unanswered as f64 >= self.limits.most * count.max(1) as f64 {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::Timeout);
            let (requests, connects) = (activity.unanswered, activity.unconnected);
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
        // Threads that take turns in waiting for events, up to a timeout, wake each other as well,
        // without any lock. Those that wait at few locks hold one, and so do those of another
        // subject in which requests wait meanwhile.
        let is_turn = parts.first().is_some_and(|part| part.class == LINK && part.call == CallFamily::WaitForEvents);
        let is_lock = |convoy: &Convoy| {
            let waits_at_few = || self.locks(convoy.subject, convoy.waited_ns).is_some_and(|locks| 2 * locks.count <= convoy.members);
            !is_turn || waits_at_few() || convoy.subject != subject && self.waiting_requests(convoy.subject).is_some()
        };
        // The lock may be in a server that those ask who wait for the sleeping one. If that server
        // asks others itself, its requests may wait for these.
        let is_asking = |of: SubjectId| self.subjects.get(of).activity.asked.count >= self.limits.least_replies;
        let may_hold = |pool: SubjectId| match asker.filter(|_| is_served) {
            _ if pool == subject => true,
            Some(asker) => self.is_connected(pool, asker) && !is_asking(pool) && self.waiting_requests(pool).is_some(),
            None => self.is_connected(pool, subject),
        };
        let convoy = self.convoy(count, may_hold);
        if let Some(convoy) = convoy.filter(is_lock) {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::LockConvoy);
            verdict.role = None;
            let pool = self.name(convoy.subject, None);
            let holder = (convoy.subject != subject).then(|| self.name(subject, None));
            verdict.because.push(sleeps(None));
            let locks = self.locks(convoy.subject, convoy.waited_ns);
            let Convoy { waiters, members, wait, .. } = convoy;
            verdict.because.push(Because::Convoy { pool, waiters, members, wait, holder, locks });
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
        // A request may arrive before its server waits for it: then the path does not leave the
        // server, although requests are open.
        let has_requests = is_server && self.open(subject) >= self.limits.most;
        if has_requests
            || 2 * asked > count && others > 0 && (is_server || !self.is_end(subject) && !self.is_sleep_of_another(subject, count))
        {
            let mut verdict = self.named(Outcome::Bottleneck, subject, parts);
            verdict.mechanism = Some(Mechanism::SleepInHandler);
            verdict.because.push(sleeps(by));
            return Some(verdict);
        }
        let mut verdict = self.named(Outcome::Paced, subject, parts);
        verdict.because.push(sleeps(by));
        Some(verdict)
    }

    /// Returns whether each of these sleeps is a process that another subject starts and for which
    /// no other waits: `sleep 1` in a script.
    fn is_sleep_of_another(&self, subject: SubjectId, count: u64) -> bool {
        let Some(by) = self.parts.asked_by(subject) else { return false };
        let is_waited_for = !self.is_end(by) && self.parts.asked_by(by).is_some_and(|asker| asker != subject);
        let forks: u64 = self.owned(by).map(|own| own.forks).sum();
        !is_waited_for && forks as f64 >= self.limits.most * count as f64
    }

    /// Returns whether the path leads to this subject's own end.
    pub(super) fn is_end(&self, subject: SubjectId) -> bool {
        self.subjects.known(&self.answer.end_machine) == Some(subject)
    }

    pub(super) fn by_disk(&self) -> Option<Verdict> {
        let is_meant = |part: &Part| part.does == Does::Disk;
        let share = self.share(is_meant);
        let mut waits: Vec<&Part> = self.parts.parts.iter().filter(|part| is_meant(part)).collect();
        if !self.is_most(share, is_meant) || waits.is_empty() {
            return None;
        }
        // A kernel thread waits on behalf of the thread that made the request.
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
        let syncs = first.call == CallFamily::Sync;
        verdict.mechanism = Some(if syncs { Mechanism::SyncPerItem } else { Mechanism::DiskReads });
        verdict.because.push(Because::Disk { call: first.state.clone(), mean_ns: ns / count.max(1), count });
        // Pages that are read again and again were evicted to make room.
        if let Some(reclaims) = self.reclaims(first.subject, share) {
            verdict.mechanism = Some(Mechanism::MemoryReclaim);
            verdict.because.push(reclaims);
        }
        verdict.role = None;
        Some(verdict)
    }

    /// Returns a lock that passes from thread to thread in a subject that `may_hold` one. The path
    /// must pass between these threads often enough: at least a considerable share of `turns`, the
    /// number of turns of the holder. Without this condition, threads of a runtime that park and
    /// wake each other would look like a lock.
    pub(super) fn convoy(&self, turns: u64, may_hold: impl Fn(SubjectId) -> bool) -> Option<Convoy> {
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
            let handed_over = self.parts.handed_over.get(&pool).copied().unwrap_or(0);
            // The requests in the subject are stronger evidence than its threads.
            let parallel = self.at_a_time(pool).is_some_and(|at_a_time| at_a_time > self.limits.most * self.open(pool));
            if !may_hold(pool)
                || self.subjects.get(pool).is_recorder
                || (handed_over as f64) < self.limits.considerable * turns as f64
                || parallel
            {
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
            let length = last.saturating_sub(first).max(1) as f64;
            let waiters = waited as f64 / length;
            let of_members = pairs.iter().filter(|(by, machine, _)| members.contains(by) && members.contains(machine));
            let waiting = of_members.map(|(.., pair)| pair.direct_waited_ns).sum::<u64>() as f64 / length;
            let wait = why.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name))).map(|(name, _)| name.to_owned());
            let is_one = members.len() >= 2 && 2 * handed_on > all && all >= self.limits.least_replies && waiters >= self.limits.waiters;
            if is_one && best.as_ref().is_none_or(|best| best.waiters < waiters) {
                let (members, wait) = (members.len() as u64, wait.unwrap_or_default());
                best = Some(Convoy { subject: pool, waiters, waiting, members, wait, waited_ns: waited });
            }
        }
        best
    }

    /// Returns the locks for which the subject's threads wait, if these explain most of a wait of
    /// this length. Otherwise the threads pass on something else.
    pub(super) fn locks(&self, subject: SubjectId, waited_ns: u64) -> Option<Locks> {
        let processes = &self.subjects.get(subject).processes;
        let mut of: BTreeMap<(Option<i32>, i64), u64> = BTreeMap::new();
        for lock in self.contention.iter().filter(|lock| processes.contains(&lock.process)) {
            *of.entry((lock.is_private.then_some(lock.process), lock.address)).or_default() += lock.waited_ns;
        }
        let mut locks: Vec<(i64, u64)> = of.into_iter().map(|((_, address), ns)| (address, ns)).collect();
        locks.sort_by_key(|&(address, ns)| (std::cmp::Reverse(ns), address));
        let all: u64 = locks.iter().map(|(_, ns)| ns).sum();
        let &(address, first) = locks.first().filter(|_| all as f64 >= self.limits.most * waited_ns as f64)?;
        let mut before = 0;
        let is_needed = |&&(_, ns): &&(i64, u64)| {
            let has_most = before as f64 >= (1.0 - self.limits.considerable) * all as f64;
            before += ns;
            !has_most
        };
        let count = locks.iter().take_while(is_needed).count() as u64;
        Some(Locks { count, address: format!("{address:#x}"), share: first as f64 / all.max(1) as f64 })
    }

    /// Returns a file lock for which another process than the subject waits most of the time, and
    /// along which the path passes from the holder to the waiter. The holder may have others work
    /// for it meanwhile.
    pub(super) fn file_lock(&self, subject: SubjectId) -> Option<Because> {
        // A process that executes one program after the other has several subjects; the last one
        // names it.
        let mut subjects: HashMap<i32, Vec<SubjectId>> = HashMap::new();
        for (id, subject) in self.subjects.iter().filter(|(_, subject)| !subject.is_recorder) {
            subject.processes.iter().for_each(|&process| subjects.entry(process).or_default().push(id));
        }
        let of_process = |process: i32| subjects.get(&process).map_or(&[][..], |ids| ids);
        let goes = |lock: &FileLock| {
            let mut ways = of_process(lock.waiter).iter().flat_map(|&to| of_process(lock.holder).iter().map(move |&from| (to, from)));
            ways.any(|way| self.parts.entered_from.contains_key(&way))
        };
        let mut of: BTreeMap<(SubjectId, &str), Vec<(&FileLock, SubjectId)>> = BTreeMap::new();
        for lock in &self.socket_activities.file_locks {
            if let (Some(&waiter), Some(&holder)) = (of_process(lock.waiter).last(), of_process(lock.holder).last()) {
                of.entry((waiter, lock.call.as_str())).or_default().push((lock, holder));
            }
        }
        // The path may enter the waiter only once: the holder's turns can follow one another on it.
        of.retain(|_, locks| locks.iter().any(|(lock, _)| goes(lock)));
        let waited = |locks: &[(&FileLock, SubjectId)]| locks.iter().map(|(lock, _)| lock.waited_ns).sum::<u64>();
        let ((waiter, call), locks) = of.into_iter().max_by_key(|(of, locks)| (waited(locks), std::cmp::Reverse(*of)))?;
        let (ns, count) = (waited(&locks), locks.iter().map(|(lock, _)| lock.count).sum::<u64>());
        let (_, holder) = *locks.iter().max_by_key(|(lock, holder)| (lock.waited_ns, std::cmp::Reverse(*holder)))?;
        let (begin, end) = self.traffic.range();
        let is_long = ns as f64 >= self.limits.most * (end - begin) as f64;
        let mean_ns = ns / count.max(1);
        let lock = || Because::FileLock {
            call: call.to_owned(),
            waiter: self.name(waiter, None),
            holder: self.name(holder, None),
            count,
            mean_ns,
        };
        (is_long && waiter != subject).then(lock)
    }

    pub(super) fn is_connected(&self, one: SubjectId, other: SubjectId) -> bool {
        let times = |to, from| self.parts.entered_from.get(&(to, from)).copied().unwrap_or(0);
        times(one, other) + times(other, one) >= self.limits.least_replies
    }

    /// Returns several threads that sleep for short times again and again and wake no other thread:
    /// their names, the mean sleep and the number of sleeps.
    pub(super) fn polling(&self) -> Option<(Vec<Named>, u64, u64)> {
        let (begin, end) = self.traffic.range();
        let length = end - begin;
        let mut sleepers: Vec<(MachineId, SubjectId, u64, u64)> = Vec::new();
        for machine in self.vocabulary.machines() {
            let Some(subject) = self.subjects.known(self.vocabulary.machine_name(machine)) else { continue };
            // Threads that poll memory or a file for data of the other side wake no thread: nothing
            // else connects them.
            let is_alike = self.parts.wholes.iter().any(|whole| self.subjects.get(whole.subject).name == self.subjects.get(subject).name);
            if !self.subjects.get(subject).is_of_command && !is_alike {
                continue;
            }
            let Some(own) = self.traffic.own(machine).filter(|_| !self.subjects.get(subject).is_recorder) else { continue };
            let lives = own.first_ns.map_or(0, |first| own.last_ns - first);
            let short = own.longest.is_some_and(|(from, to)| ((to - from) as f64) < self.limits.considerable * length as f64);
            if short
                && own.sleeps >= self.limits.least_replies
                && own.slept_ns as f64 >= self.limits.most * lives as f64
                && 2 * lives > length
            {
                sleepers.push((machine, subject, own.sleeps, own.slept_ns));
            }
        }
        // Threads that poll the same thing do so about equally often.
        let mean = |sleeper: &(MachineId, SubjectId, u64, u64)| sleeper.3 / sleeper.2.max(1);
        let shortest = sleepers.iter().map(mean).min().unwrap_or(0);
        sleepers.retain(|sleeper| mean(sleeper) as f64 <= self.limits.similar * shortest as f64);
        let of: HashSet<u32> = sleepers.iter().map(|sleeper| sleeper.0 .0).collect();
        let wakes: u64 = self
            .traffic
            .pairs()
            .filter(|(by, machine, _)| of.contains(&by.0) || of.contains(&machine.0))
            .map(|(.., pair)| pair.count)
            .sum();
        let (sleeps, slept) = sleepers.iter().fold((0, 0), |(count, ns), sleeper| (count + sleeper.2, ns + sleeper.3));
        if sleepers.len() < 2 || wakes as f64 > self.limits.considerable * sleeps as f64 {
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
}
