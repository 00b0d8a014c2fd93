//! Verdicts on requests: how many are open, on how many a subject works at a time, and whether a
//! client asks one after the other.

use super::parts::Does;
use super::subjects::SubjectId;
use super::verdict::{Because, Mechanism, Outcome, Verdict};
use super::Case;
use crate::exchanges::Conduct;

impl Case<'_> {
    /// Whoever asks this subject sends one request after the other, many of them, and mostly waits
    /// for the replies.
    pub(super) fn chatty(&self, subject: SubjectId) -> Option<Because> {
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

    /// A client that asks again and again, one request after the other, and mostly waits for
    /// replies.
    pub(super) fn by_round_trips(&self) -> Option<Verdict> {
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

    /// Requests that wait for one another in this subject, or in one that asks it: more are open
    /// than calls of it are outstanding, or than the path's stay in it allows.
    pub(super) fn serialisation(&self, subject: SubjectId) -> Option<Because> {
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

    /// How many requests to a subject are open, on average: those that it has read, or those that
    /// whoever asks it has sent.
    pub(super) fn open(&self, subject: SubjectId) -> f64 {
        let served = &self.subjects.get(subject).conduct.served;
        // A server that never waits for a request is not woken by its clients, but wakes them.
        let others = self.between.iter().filter(|(_, &count)| count >= self.limits.least_replies);
        let askers = others.filter_map(|(&(from, to), _)| match (from == subject, to == subject) {
            (false, true) => Some(from),
            (true, false) => Some(to),
            _ => None,
        });
        let askers = askers.map(|asker| &self.subjects.get(asker).conduct.asked);
        let askers = askers.filter(|asked| 2 * asked.count >= served.count && asked.count <= 2 * served.count);
        askers.map(|asked| asked.open()).fold(served.open(), f64::max)
    }

    /// On how many requests a subject works at a time, on average.
    pub(super) fn at_a_time(&self, subject: SubjectId) -> Option<f64> {
        let served = &self.subjects.get(subject).conduct.served;
        let whole = self.parts.whole(subject).filter(|whole| whole.visits > 0)?;
        if served.count < self.limits.least_replies {
            return None;
        }
        let works: u64 = self.parts.of(subject).filter(|part| part.does.is_work() || part.does == Does::Runnable).map(|part| part.ns).sum();
        if 2 * works > whole.ns {
            return Some(self.running(subject).0.max(1.0));
        }
        // It waits: in a request's time in the subject the path comes and goes several times, as it
        // follows one of those that are open.
        let mean = served.total_ns as f64 / served.count as f64;
        let stays = whole.ns as f64 / whole.visits as f64;
        Some((served.open() * stays / mean.max(1.0)).max(1.0))
    }
}
