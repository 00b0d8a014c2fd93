//! The thing for which the state of a verdict waits, for programs that read the verdict as JSON.
//! The sentence states the same in its clauses.

use crate::verdict::data::because::Because;
use crate::verdict::data::{Named, SubjectState, Verdict};
use serde::Serialize;

/// The kind of thing for which a state waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    Lock,
    Connection,
    Reply,
    Timer,
    Disk,
    /// A link of the network.
    Device,
    Cpu,
    Quota,
    GracePeriod,
}

/// The thing for which a state waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitsFor {
    pub kind: Awaited,
    /// Name of the thing: the address of a lock, the two ports of a connection, the system call
    /// that set a timer, a device. Empty if it has none.
    pub name: String,
    /// The subject at the other end: the holder of a lock, the callee, the user of the CPUs.
    pub other: Option<Named>,
    /// Functions in which threads wait, and in which the other thread ends the waits, by sampled
    /// stacks; `None` if they are not known.
    pub waits_in: Option<String>,
    pub ended_in: Option<String>,
}

impl WaitsFor {
    /// Returns what the state of the verdict waits for; `None` if it does not wait, or if that is
    /// not known.
    pub fn of(verdict: &Verdict) -> Option<WaitsFor> {
        verdict.subject.as_ref()?;
        if verdict.state.as_ref().is_some_and(|state| state.kind == SubjectState::Running) {
            return None;
        }
        // The subject itself waits for the disk, and others of its processes for the subject.
        if verdict.state.as_ref().is_some_and(|state| state.kind == SubjectState::Disk) {
            return WaitsFor::by_state(verdict);
        }
        let found = verdict.because.iter().find_map(|because| WaitsFor::by_reason(verdict, because));
        let (waits_in, ended_in) = verdict.wait_places.clone().map(|places| (places.waits_in, places.ended_in)).unzip();
        found.or_else(|| WaitsFor::by_state(verdict)).map(|found| WaitsFor { waits_in, ended_in, ..found })
    }

    fn by_reason(verdict: &Verdict, because: &Because) -> Option<WaitsFor> {
        let thing = |kind, name: &str, other: Option<&Named>| {
            Some(WaitsFor { kind, name: name.to_owned(), other: other.cloned(), waits_in: None, ended_in: None })
        };
        match because {
            Because::Convoy { wait, holder, locks, .. } => {
                thing(Awaited::Lock, locks.as_ref().map_or(wait, |locks| &locks.address), holder.as_ref())
            }
            Because::Lock { locks: Some(locks), .. } => thing(Awaited::Lock, &locks.address, None),
            Because::FileLock { call, holder, .. } => thing(Awaited::Lock, call, Some(holder)),
            Because::Window { port, peer, .. } => thing(Awaited::Connection, &format!("{port}:{peer}"), None),
            Because::RoundTrips { callee, .. } => thing(Awaited::Reply, "", callee.as_ref()),
            Because::KernelTimer { timer, between, .. } => {
                let other = between.iter().find(|side| verdict.subject.as_ref() != Some(side));
                thing(Awaited::Timer, timer, other)
            }
            Because::Sleeps { call, .. } => thing(Awaited::Timer, call, None),
            Because::CpuUsers { users, .. } => thing(Awaited::Cpu, "", users.first().map(|(user, _)| user)),
            Because::Link { device, .. } => thing(Awaited::Device, device, None),
            Because::Quota { .. } => thing(Awaited::Quota, "", None),
            _ => None,
        }
    }

    fn by_state(verdict: &Verdict) -> Option<WaitsFor> {
        let state = verdict.state.as_ref()?;
        let kind = match state.kind {
            SubjectState::Runnable => Awaited::Cpu,
            SubjectState::Sleep | SubjectState::KernelTimer => Awaited::Timer,
            SubjectState::GracePeriod => Awaited::GracePeriod,
            SubjectState::Throttled => Awaited::Quota,
            SubjectState::Disk => Awaited::Disk,
            SubjectState::Outside => Awaited::Device,
            SubjectState::Call => Awaited::Reply,
            _ => return None,
        };
        let name = state.distinguishing_name().unwrap_or_default().to_owned();
        Some(WaitsFor { kind, name, other: None, waits_in: None, ended_in: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::data::{Basis, Outcome, StateNamed, SubjectLevel, WaitPlaces};

    fn named(name: &str) -> Named {
        Named::of_name(SubjectLevel::Process, name)
    }

    fn verdict(kind: SubjectState, because: Vec<Because>) -> Verdict {
        let state = Some(StateNamed { kind, name: "x".to_owned() });
        Verdict { subject: Some(named("a")), state, because, ..Verdict::new(Outcome::Bottleneck, Basis::Subjects) }
    }

    #[test]
    fn a_reason_that_names_the_other_end_says_more_than_the_state() {
        let because = Because::FileLock { call: "flock".to_owned(), waiter: named("a"), holder: named("b"), count: 3, mean_ns: 4 };
        let found = WaitsFor::of(&verdict(SubjectState::Sleep, vec![Because::NobodyWaits, because])).unwrap();
        assert_eq!((found.kind, found.name.as_str(), found.other), (Awaited::Lock, "flock", Some(named("b"))));
        let found = WaitsFor::of(&verdict(SubjectState::Disk, vec![Because::NobodyWaits])).unwrap();
        assert_eq!((found.kind, found.name.as_str(), found.other), (Awaited::Disk, "x", None));
    }

    #[test]
    fn what_waits_for_a_disk_does_not_wait_where_others_wait_for_its_lock() {
        let (pool, holder) = (named("a"), None);
        let convoy = Because::Convoy { pool, waiters: 3.0, members: 4, are_processes: true, wait: "futex".to_owned(), holder, locks: None };
        let places = WaitPlaces { waits_in: "takes".to_owned(), ended_in: "releases".to_owned() };
        let verdict = Verdict { wait_places: Some(places), ..verdict(SubjectState::Disk, vec![convoy]) };
        let found = WaitsFor::of(&verdict).unwrap();
        assert_eq!((found.kind, found.waits_in), (Awaited::Disk, None));
    }

    #[test]
    fn what_computes_waits_for_nothing() {
        let contention = Because::CpuUsers { waits: named("a"), users: vec![(named("b"), 0.7)], idle: 0.0 };
        assert_eq!(WaitsFor::of(&verdict(SubjectState::Running, vec![contention.clone()])), None);
        assert_eq!(WaitsFor::of(&verdict(SubjectState::Runnable, vec![contention])).and_then(|found| found.other), Some(named("b")));
        assert_eq!(WaitsFor::of(&Verdict::new(Outcome::Spread, Basis::Subjects)), None);
    }

    #[test]
    fn the_other_end_of_a_kernel_timer_is_not_the_subject_itself() {
        let because = Because::KernelTimer {
            timer: "delayed acknowledgement".to_owned(),
            mean_ns: 4,
            count: 5,
            between: vec![named("a"), named("b")],
        };
        let found = WaitsFor::of(&verdict(SubjectState::KernelTimer, vec![because])).unwrap();
        assert_eq!((found.kind, found.other), (Awaited::Timer, Some(named("b"))));
    }
}
