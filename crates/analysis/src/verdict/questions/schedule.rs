//! Verdicts on a schedule: the thread to whose end the path leads begins its next work at equal
//! intervals, however long the work before took.
//!
//! Such a thread sleeps for the rest of each interval. Whatever else is on the path, the rate stays
//! the same. A schedule differs from a pause of fixed length by what varies: with a schedule the
//! intervals are more alike than the sleeps, with a pause the sleeps are more alike.
//!
//! Example: an instrument reports each 60 ms, and its server needs 41 ms to store a report.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Outcome, Verdict};
use crate::verdict::parts::{Does, Part};
use crate::verdict::Case;

impl Case<'_> {
    /// Judges a system whose last thread works on a schedule.
    pub(in crate::verdict) fn by_schedule(&self) -> Option<Verdict> {
        let machine = self.vocabulary.machines().find(|machine| self.vocabulary.machine_name(*machine) == self.answer.end_machine)?;
        let subject = self.subjects.known(&self.answer.end_machine).filter(|&subject| self.is_program(subject))?;
        let own = self.traffic.own(machine)?;
        let (sleeps, intervals) = (&own.sleep_times, &own.intervals);
        let covered = intervals.mean() * intervals.count as f64;
        let is_regular = intervals.variance() < self.limits.majority * sleeps.variance();
        let is_most = covered >= self.limits.majority * self.answer.length_ns as f64;
        if intervals.count < self.limits.min_occurrences || !is_regular || !is_most {
            return None;
        }
        // A thread may also look after something at equal intervals while it works for others: its
        // sleeps must be on the path.
        let parts: Vec<&Part> = self.parts.of(subject).filter(|part| part.does == Does::Sleeps).collect();
        let (share, count) = parts.iter().fold((0.0, 0), |(share, count), part| (share + part.share, count + part.count));
        if share < self.limits.considerable_share || (count as f64) < self.limits.majority * intervals.count as f64 {
            return None;
        }
        let mut verdict = self.verdict_on(Outcome::Paced, subject, &parts);
        verdict.role = None;
        verdict.because.push(Because::Schedule { interval_ns: intervals.mean() as u64, count: intervals.count });
        Some(verdict)
    }
}
