//! The verdict on items that are handed over one at a time.
//!
//! Two threads or processes that exchange one small item at a time wake each other for each item.
//! If the wake-up, the context switch and the system calls take longer than the work on an item,
//! only larger batches help; a faster function or another CPU does not.
//!
//! Example: `multiprocessing.Pool.imap` with a chunk size of 1 wakes a worker for each number that
//! it has to square.
//!
//! Requests on sockets are not judged here: a client and its server are two programs, and
//! [`crate::verdict::questions::requests`] judges their exchanges.

use crate::findings::Finding;
use crate::verdict::data::because::Because;
use crate::verdict::data::{Mechanism, Outcome, Verdict};
use crate::verdict::parts::{Does, Part};
use crate::verdict::subjects::{FromTo, Role, SubjectId};
use crate::verdict::Case;
use std::cmp::Reverse;

impl Case<'_> {
    /// Judges subjects whose threads wake each other for each item.
    pub(in crate::verdict) fn by_hand_over(&self) -> Option<Verdict> {
        let role = |of: SubjectId| self.subjects.get(of).role;
        // Programs that exchange requests on sockets are judged by their requests.
        let is_meant = |one: SubjectId, other: SubjectId| one == other || role(one) == Role::None || role(other) == Role::None;
        let is_pair = |pair: &FromTo| self.is_program(pair.from) && self.is_program(pair.to) && is_meant(pair.from, pair.to);
        let woken = self.parts.crossings.wakes.iter().filter(|(pair, _)| is_pair(pair));
        let mut pairs: Vec<(FromTo, u64)> = woken.map(|(&pair, &count)| (pair, count)).collect();
        pairs.sort_unstable_by_key(|&(pair, count)| (Reverse(count), pair));
        // Threads that exchange the same items do so about equally often.
        let &(_, most) = pairs.first()?;
        pairs.retain(|&(_, count)| count as f64 >= self.limits.considerable_share * most as f64);
        let mut sides: Vec<SubjectId> = pairs.iter().flat_map(|&(pair, _)| [pair.from, pair.to]).collect();
        sides.sort_unstable();
        sides.dedup();
        let count: u64 = pairs.iter().map(|&(_, count)| count).sum();
        let own: Vec<&Part> = self.parts.parts.iter().filter(|part| sides.contains(&part.subject)).collect();
        let sum = |is_meant: fn(Does) -> bool| {
            let meant = own.iter().filter(|part| is_meant(part.does));
            meant.fold((0, 0, 0.0), |(ns, stretches, share), part| (ns + part.ns, stretches + part.count, share + part.share))
        };
        let (_, waits, _) = sum(|does| does == Does::Runnable);
        let (cost_ns, _, share) = sum(|does| matches!(does, Does::Runnable | Does::Transit));
        let (work_ns, ..) = sum(|does| matches!(does, Does::Runs | Does::Faults | Does::Declared | Does::SystemCall));
        // A thread that waits for a CPU for another reason does so without having woken a thread or
        // having been woken. Threads that share a CPU wait twice each: once after the wake-up, and
        // once because the wake-up preempted the waker.
        let is_woken_each_time = self.limits.max_similar_ratio * count as f64 >= waits as f64;
        if count < self.limits.min_repetitions || share < self.limits.majority || cost_ns <= work_ns || !is_woken_each_time {
            return None;
        }
        if self.hands_over_a_lock(&sides, count) {
            return None;
        }
        // Of two threads that exchange items, one runs at a time. If more threads are ready than
        // there are CPUs, they wait for each other's CPU instead.
        if self.want_more_cpus(&sides).is_some() {
            return None;
        }
        // If other programs occupy the CPUs, these threads wait for them instead.
        let is_own = |user: SubjectId| sides.iter().any(|&side| self.subjects.get(side).name == self.subjects.get(user).name);
        let others: f64 = self.cpu_users().iter().filter(|&&(user, _)| !is_own(user)).map(|(_, share)| share).sum();
        if self.cpus_are_short() && others >= self.limits.considerable_share {
            return None;
        }
        let ns = |of: SubjectId| self.parts.whole(of).map_or(0, |whole| whole.ns);
        sides.sort_by_key(|&side| Reverse(ns(side)));
        let subject = *sides.first()?;
        let error = sides.iter().filter_map(|&side| self.parts.whole(side)).map(|whole| whole.error).fold(0.0, f64::max);
        let mut verdict = self.verdict_on(Outcome::Bottleneck, subject, &[]);
        verdict.set_share(share, error);
        verdict.evidence = self.parts.whole(subject).map(|whole| whole.evidence).unwrap_or_default();
        verdict.mechanism = Some(Mechanism::HandOverPerItem);
        verdict.role = None;
        verdict.because.push(Because::HandOvers {
            sides: sides.iter().take(4).map(|&side| self.name(side, None)).collect(),
            count,
            per_second: count as f64 * 1e9 / self.parts.length_ns.max(1) as f64,
            work_ns: work_ns / count,
            cost_ns: cost_ns / count,
        });
        Some(verdict)
    }

    /// Returns whether these subjects wait for a lock most of the time, and more often than the
    /// path passes between them. They then hand over the lock, not items.
    fn hands_over_a_lock(&self, sides: &[SubjectId], count: u64) -> bool {
        let mut locks = sides.iter().filter_map(|&side| self.lock_of(side));
        locks.any(|lock| lock.share >= self.limits.majority && lock.count > count)
    }

    /// Returns the finding about a futex of this subject.
    pub(in crate::verdict) fn lock_of(&self, subject: SubjectId) -> Option<&Finding> {
        let is_own = |finding: &&Finding| finding.process.is_some_and(|process| self.subjects.get(subject).processes.contains(&process));
        self.findings.iter().find(is_own)
    }
}
