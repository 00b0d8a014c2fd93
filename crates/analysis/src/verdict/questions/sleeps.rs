//! Verdicts on sleeps.
//!
//! A sleep is judged by the machines that wait for it. It is a bottleneck if others lead to it, if
//! requests or a lock wait meanwhile, or if both sides sleep and poll. Otherwise it sets the pace.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Named, Outcome, StateNamed, SubjectState, Verdict};
use crate::verdict::facts::polls::Rows;
use crate::verdict::parts::{Does, Part};
use crate::verdict::questions::locks::Convoy;
use crate::verdict::subjects::{Role, SubjectId};
use crate::verdict::Case;
use longpole_model::interaction::MachineId;
use longpole_model::kinds::LINK;
use longpole_model::system_calls::CallFamily;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The sleeps of the subject that sleeps longest on the path.
struct Sleep<'a> {
    subject: SubjectId,
    parts: Vec<&'a Part>,
    ns: u64,
    count: u64,
    /// Number of sleeps to which the path leads from another subject.
    asked: u64,
    /// Subject that waits for the sleeping one, unless it is a server whose client sleeps.
    asker: Option<SubjectId>,
}

impl Sleep<'_> {
    fn mean_ns(&self) -> u64 {
        self.ns / self.count.max(1)
    }

    /// Returns true if the threads wait for events up to a timeout.
    fn waits_for_events(&self) -> bool {
        self.parts.first().is_some_and(|part| part.row.class == LINK && part.call == CallFamily::WaitForEvents)
    }
}

/// A thread that sleeps for short times again and again.
struct Poller {
    machine: MachineId,
    subject: SubjectId,
    sleeps: u64,
    slept_ns: u64,
}

impl Poller {
    fn mean_ns(&self) -> u64 {
        self.slept_ns / self.sleeps.max(1)
    }
}

impl Case<'_> {
    /// Judges the sleeps of the subject that sleeps longest.
    pub(in crate::verdict) fn by_sleep(&self) -> Option<Verdict> {
        let sleep = self.longest_sleep()?;
        let bottleneck = self
            .by_timeout(&sleep)
            .or_else(|| self.by_polled_work(&sleep))
            .or_else(|| self.by_waiting_requests(&sleep))
            .or_else(|| self.by_held_lock(&sleep))
            .or_else(|| self.by_polling(&sleep))
            .or_else(|| self.by_sleep_in_handler(&sleep));
        bottleneck.or_else(|| {
            let mut verdict = self.verdict_on(Outcome::Paced, sleep.subject, &sleep.parts);
            verdict.because.push(self.sleeps(&sleep, sleep.asker));
            verdict.because.extend(self.open_requests_of_others(sleep.subject));
            Some(verdict)
        })
    }

    /// Returns the sleeps of the subject that sleeps longest, if sleeps have most of the path.
    fn longest_sleep(&self) -> Option<Sleep<'_>> {
        let is_meant = |part: &Part| part.does == Does::Sleeps;
        let share = self.share(is_meant);
        if !self.is_most(share, is_meant) {
            return None;
        }
        let mut by_subject: HashMap<SubjectId, Vec<&Part>> = HashMap::new();
        for part in self.parts.parts.iter().filter(|part| is_meant(part) && self.is_program(part.subject)) {
            by_subject.entry(part.subject).or_default().push(part);
        }
        let sum = |parts: &[&Part]| parts.iter().map(|part| part.ns).sum::<u64>();
        let &subject = by_subject.iter().max_by_key(|(subject, parts)| (sum(parts), Reverse(**subject)))?.0;
        let share = |parts: &[&Part]| parts.iter().map(|part| part.share).sum::<f64>();
        let mut parts = by_subject[&subject].clone();
        if share(&parts) < self.limits.min_share {
            // Processes of one program in several roles may sleep in turn.
            let is_same = |other: SubjectId| other != subject && self.is_same_program(other, subject);
            let mut others: Vec<&Part> =
                by_subject.iter().filter(|(other, _)| is_same(**other)).flat_map(|(_, parts)| parts.clone()).collect();
            others.sort_by_key(|part| (Reverse(part.ns), part.subject));
            parts.extend(others);
        }
        // Short sleeps of many programs set no pace.
        if share(&parts) < self.limits.min_share {
            return None;
        }
        // A server does not wait for its clients.
        let is_asker = |by: SubjectId| self.is_program(by) && (!self.is_server(by) || self.is_server(subject));
        let asker = self.asked_by(subject).filter(|&by| is_asker(by));
        let (count, asked) = parts.iter().fold((0, 0), |(count, asked), part| (count + part.count, asked + part.asked_sleeps));
        Some(Sleep { subject, ns: sum(&parts), parts, count, asked, asker })
    }

    fn is_server(&self, subject: SubjectId) -> bool {
        self.subjects.get(subject).role == Role::Server
    }

    /// Returns the sleeps as a reason.
    fn sleeps(&self, sleep: &Sleep, waited_for_by: Option<SubjectId>) -> Because {
        let asked = sleep.asker.map(|by| &self.subjects.get(by).activity.asked);
        let outstanding = asked.filter(|asked| asked.count >= self.limits.min_occurrences).map(|asked| asked.open());
        let own = self.name(sleep.subject, None);
        Because::Sleeps {
            call: sleep.parts.first().map(|part| part.state.clone()).unwrap_or_default(),
            mean_ns: sleep.mean_ns(),
            count: sleep.count,
            waited_for_by: waited_for_by.map(|by| self.name(by, None)).filter(|by| *by != own),
            outstanding: outstanding.filter(|&open| self.sees_calls(open, sleep.subject)),
        }
    }

    /// Returns a verdict by which the sleeps are the bottleneck.
    fn sleep_verdict(&self, sleep: &Sleep, mechanism: Mechanism) -> Verdict {
        let mut verdict = self.verdict_on(Outcome::Bottleneck, sleep.subject, &sleep.parts);
        verdict.mechanism = Some(mechanism);
        verdict
    }

    /// Judges waits for replies, or for connections, that ended at a timeout.
    fn by_timeout(&self, sleep: &Sleep) -> Option<Verdict> {
        let subjects: HashSet<SubjectId> = sleep.parts.iter().map(|part| part.subject).collect();
        let activities = subjects.iter().map(|&subject| &self.subjects.get(subject).activity);
        let (requests, connects) =
            activities.fold((0, 0), |(requests, connects), of| (requests + of.unanswered, connects + of.unconnected));
        let sleeps_only = sleep.parts.first().is_some_and(|part| part.is_bare_sleep());
        if sleeps_only || ((requests + connects) as f64) < self.limits.majority * sleep.count.max(1) as f64 {
            return None;
        }
        let mut verdict = self.sleep_verdict(sleep, Mechanism::Timeout);
        verdict.because.push(Because::Unanswered { requests, connects, mean_ns: sleep.mean_ns(), count: sleep.count });
        verdict.role = None;
        Some(verdict)
    }

    /// Judges a thread that works until the sleeping one, which polls, finds that it has stopped.
    fn by_polled_work(&self, sleep: &Sleep) -> Option<Verdict> {
        let mut pollers: Vec<(MachineId, MachineId, Rows)> = Vec::new();
        for machine in self.vocabulary.machines() {
            if self.subjects.known(self.vocabulary.machine_name(machine)) == Some(sleep.subject) {
                let found = self.traffic.polls.waits_for(machine, self.limits.majority);
                pollers.extend(found.map(|(worker, rows)| (machine, worker, rows)));
            }
        }
        let (poller, worker, rows) = pollers.into_iter().max_by_key(|(machine, _, rows)| (rows.slept_ns, Reverse(machine.0)))?;
        // After few sleeps in a row, another thread may have stopped by chance.
        let is_long = rows.sleeps as f64 >= self.limits.max_similar_ratio * rows.count as f64;
        let slept = self.traffic.own(poller)?.slept_ns.max(sleep.ns) as f64;
        if rows.count < self.limits.min_occurrences || !is_long || (rows.slept_ns as f64) < self.limits.majority * slept {
            return None;
        }
        let worker = self.vocabulary.machine_name(worker);
        let subject = self.subjects.known(worker).filter(|&subject| self.is_program(subject))?;
        let by = self.name(sleep.subject, Some(self.vocabulary.machine_name(poller)));
        let mut verdict = self.sleep_verdict(sleep, Mechanism::PolledWork);
        let mean_ns = rows.slept_ns / rows.sleeps.max(1);
        verdict.because.push(Because::PolledBy { by, rows: rows.count, mean_ns, count: rows.sleeps });
        verdict.subject = Some(self.name(subject, Some(worker)));
        verdict.origin.subject = Some(subject);
        verdict.state = Some(StateNamed { kind: SubjectState::Running, name: String::from("user") });
        verdict.role = None;
        Some(verdict)
    }

    fn by_waiting_requests(&self, sleep: &Sleep) -> Option<Verdict> {
        let (at, serialised) = self.serialisation(sleep.subject)?;
        let mut verdict = self.sleep_verdict(sleep, Mechanism::Serialisation);
        verdict.because.push(self.sleeps(sleep, sleep.asker));
        verdict.because.push(serialised);
        verdict.origin.station = Some(at);
        Some(verdict)
    }

    /// Judges a lock that is held during the sleeps.
    fn by_held_lock(&self, sleep: &Sleep) -> Option<Verdict> {
        let convoy = self.convoy(sleep.count, |pool| self.may_hold_lock(sleep, pool)).filter(|convoy| self.is_lock(sleep, convoy));
        let convoy = convoy.or_else(|| self.file_lock_within(sleep.subject))?;
        let mut verdict = self.sleep_verdict(sleep, Mechanism::LockConvoy);
        verdict.role = None;
        verdict.because.push(self.sleeps(sleep, None));
        verdict.origin.station = Some(convoy.subject);
        verdict.because.push(self.waits_for_lock(convoy, Some(sleep.subject)));
        Some(verdict)
    }

    /// Returns whether threads of the pool may wait for a lock that is held during the sleeps.
    ///
    /// The lock may be in a program that asks the sleeping one, if it has one request open at a
    /// time and each of its threads waits for its own reply: the threads of a runtime that waits
    /// for events (Go, an event loop) wake each other when there is work, not when a lock is free.
    /// The lock may also be in a server that is called by the subjects that wait for the sleeping
    /// one. If that server asks others itself, its requests may wait for these.
    fn may_hold_lock(&self, sleep: &Sleep, pool: SubjectId) -> bool {
        let asked = &self.subjects.get(pool).activity.asked;
        let asks = asked.count >= self.limits.min_occurrences;
        match sleep.asker.filter(|_| self.is_server(sleep.subject)) {
            _ if pool == sleep.subject => true,
            Some(asker) if pool == asker => {
                let waits_for_events = self.parts.of(pool).any(|part| part.call == CallFamily::WaitForEvents);
                asks && !waits_for_events && asked.open() <= 1.0 + self.limits.considerable_share
            }
            Some(asker) => self.is_connected(pool, asker) && !asks && self.waiting_requests(pool).is_some(),
            None => self.is_connected(pool, sleep.subject),
        }
    }

    /// Returns whether the members of a convoy wait for a lock that is held during the sleeps.
    ///
    /// Threads that take turns in waiting for events, up to a timeout, wake each other as well,
    /// without any lock. Those that wait at few locks hold one, and so do those of another subject
    /// in which requests wait meanwhile.
    fn is_lock(&self, sleep: &Sleep, convoy: &Convoy) -> bool {
        let waits_at_few = || self.locks(convoy.subject, convoy.waited_ns).is_some_and(|locks| 2 * locks.count <= convoy.members);
        let has_requests = || convoy.subject != sleep.subject && self.waiting_requests(convoy.subject).is_some();
        match convoy.is_chain {
            true if sleep.asker == Some(convoy.subject) => convoy.has_no_hub || waits_at_few(),
            true => !sleep.waits_for_events() || waits_at_few() || has_requests(),
            false => has_requests(),
        }
    }

    fn by_polling(&self, sleep: &Sleep) -> Option<Verdict> {
        let (sides, mean_ns, count) = self.polling(sleep)?;
        let mut verdict = self.sleep_verdict(sleep, Mechanism::Polling);
        verdict.because.push(Because::Polls { sides, mean_ns, count });
        verdict.role = None;
        Some(verdict)
    }

    /// Judges a subject that sleeps while another one waits for it.
    fn by_sleep_in_handler(&self, sleep: &Sleep) -> Option<Verdict> {
        let &Sleep { subject, count, asked, .. } = sleep;
        let is_server = self.is_server(subject);
        // A request may arrive before its server waits for it: then the path does not leave the
        // server, although requests are open.
        let has_requests = is_server && self.open(subject) >= self.limits.majority;
        let has_others = self.parts.wholes.iter().any(|whole| whole.subject != subject && whole.visits > 0);
        let is_asked = 2 * asked > count && has_others && (is_server || sleep.asker.is_some() || self.is_asked_through(sleep));
        if !has_requests && !(is_asked && (is_server || !self.is_end(subject) && !self.is_sleep_of_another(subject, count))) {
            return None;
        }
        let mut verdict = self.sleep_verdict(sleep, Mechanism::SleepInHandler);
        verdict.role = None;
        verdict.because.push(self.sleeps(sleep, sleep.asker));
        verdict.because.extend(sleep.asker.and_then(|asker| self.blocks_its_loop(asker)));
        Some(verdict)
    }

    /// Returns whether others cause the sleeps of a client, through the server that it asks: a
    /// worker takes their work from a broker. If the path comes to the server from the sleeping
    /// client alone, the server only replies to it, and the client sets the pace.
    fn is_asked_through(&self, sleep: &Sleep) -> bool {
        let Some(server) = self.asked_by(sleep.subject) else { return false };
        let entries = self.parts.entries_into(server).filter(|&(from, _)| from != sleep.subject);
        let of_others: u64 = entries.map(|(_, count)| count).sum();
        of_others as f64 >= self.limits.considerable_share * sleep.count as f64
    }

    /// Returns whether each of these sleeps is a process that another subject starts and for which
    /// no other waits: `sleep 1` in a script.
    fn is_sleep_of_another(&self, subject: SubjectId, count: u64) -> bool {
        let Some(by) = self.asked_by(subject) else { return false };
        let is_waited_for = !self.is_end(by) && self.asked_by(by).is_some_and(|asker| asker != subject);
        let forks: u64 = self.owned(by).map(|own| own.forks).sum();
        !is_waited_for && forks as f64 >= self.limits.majority * count as f64
    }

    /// Returns several threads that sleep for short times again and again and wake no other thread:
    /// their names, the mean sleep and the number of sleeps. The given sleeps are of one of them.
    fn polling(&self, sleep: &Sleep) -> Option<(Vec<Named>, u64, u64)> {
        let machines = self.vocabulary.machines();
        let mut pollers: Vec<Poller> = machines.filter_map(|machine| self.poller(machine)).collect();
        // The path follows one of them. Background threads of a runtime also sleep and wake nobody,
        // next to the thread whose sleeps have the path.
        let is_followed = |poller: &&Poller| {
            let machine = self.vocabulary.machine_name(poller.machine);
            let has_path = |part: &&Part| part.machine.as_deref().is_none_or(|own| own == machine);
            let is_counted = sleep.count as f64 >= self.limits.majority * poller.sleeps as f64;
            poller.subject == sleep.subject && is_counted && sleep.parts.iter().any(has_path)
        };
        let followed = pollers.iter().filter(is_followed).map(Poller::mean_ns).max()?;
        // Threads that poll the same thing do so about equally often.
        let is_similar = |mean: u64| mean.max(followed) as f64 <= self.limits.max_similar_ratio * mean.min(followed) as f64;
        pollers.retain(|poller| is_similar(poller.mean_ns()));
        let machines: HashSet<MachineId> = pollers.iter().map(|poller| poller.machine).collect();
        let own_pairs = self.traffic.pairs().filter(|(by, woken, _)| machines.contains(by) || machines.contains(woken));
        let wakes: u64 = own_pairs.map(|(.., pair)| pair.count).sum();
        let (sleeps, slept) = pollers.iter().fold((0, 0), |(count, ns), poller| (count + poller.sleeps, ns + poller.slept_ns));
        if pollers.len() < 2 || wakes as f64 > self.limits.considerable_share * sleeps as f64 {
            return None;
        }
        let mut sides: Vec<Named> = Vec::new();
        for poller in &pollers {
            let named = self.name(poller.subject, Some(self.vocabulary.machine_name(poller.machine)));
            if !sides.contains(&named) {
                sides.push(named);
            }
        }
        sides.truncate(4);
        Some((sides, slept / sleeps.max(1), sleeps))
    }

    /// Returns the sleeps of a thread that sleeps for short times most of its life.
    fn poller(&self, machine: MachineId) -> Option<Poller> {
        let subject = self.subjects.known(self.vocabulary.machine_name(machine))?;
        let of = self.subjects.get(subject);
        // Threads that poll memory or a file for data of the other side wake no thread: nothing
        // else connects them.
        let is_alike = self.parts.wholes.iter().any(|whole| self.subjects.get(whole.subject).name == of.name);
        if of.is_recorder || !of.is_of_command && !is_alike {
            return None;
        }
        let own = self.traffic.own(machine)?;
        let (length, life) = (self.traffic.length_ns(), own.life_ns().unwrap_or(0));
        let is_short = |(from, to): (u64, u64)| ((to - from) as f64) < self.limits.considerable_share * length as f64;
        let polls = own.longest_sleep.is_some_and(is_short)
            && own.sleeps >= self.limits.min_occurrences
            && own.slept_ns as f64 >= self.limits.majority * life as f64
            && 2 * life > length;
        polls.then_some(Poller { machine, subject, sleeps: own.sleeps, slept_ns: own.slept_ns })
    }
}
