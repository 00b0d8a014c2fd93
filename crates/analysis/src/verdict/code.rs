//! The code of a verdict: the function of the program in which the state of the verdict is spent.
//!
//! Samples show where a process runs, and where it waits. Those of the verdict's state are summed
//! up by functions of the program's own code. A function is named only if a few samples more or
//! less would not change the result.

use super::data::{ClassState, Code, Named, StateNamed, SubjectLevel, SubjectState, Verdict, WaitPlaces};
use super::limits::Limits;
use crate::critical_path::samples::{Code as CodeOnPath, EndedWait, Estimate};
use crate::scheduling::sampled_waits::AwaitedLock;
use crate::scheduling::time_kind::TimeKind;
use crate::verdict::data::because::Because;
use crate::verdict::data::waits_for::{Awaited, WaitsFor};
use longpole_model::kinds::LinkKind;
use longpole_model::system_calls::CallFamily;

/// Largest difference of two shares of the same time.
const ROUNDING: f64 = 0.001;

/// Sets the function in which most of the verdict's state is spent, if the samples show it. `codes`
/// are the functions on the path, whose length is `length_ns`.
pub fn add(verdict: &mut Verdict, codes: &[CodeOnPath], length_ns: u64, limits: &Limits) {
    let Some(subject) = verdict.subject.as_ref().filter(|_| verdict.has_code()) else { return };
    let row = verdict.origin.row.as_ref();
    let is_of = |code: &CodeOnPath| is_by(code, subject, row) && verdict.state.as_ref().is_none_or(|state| is_in(code, state, row));
    let (mut all, mut functions) = (Estimate::default(), Vec::<(&CodeOnPath, Estimate)>::new());
    for code in codes.iter().filter(|code| is_of(code)) {
        all = [all, code.estimate].into_iter().sum();
        match functions.iter_mut().find(|(first, _)| first.function == code.function) {
            Some((_, sum)) => *sum = [*sum, code.estimate].into_iter().sum(),
            None => functions.push((code, code.estimate)),
        }
    }
    let most = functions.into_iter().filter(|(code, _)| code.function.is_some()).max_by(|a, b| a.1.ns.total_cmp(&b.1.ns));
    let Some((code, estimate)) = most else { return };
    let Some(function) = code.function.clone() else { return };
    // The samples divide the state, whose share of the path's rest is known.
    let of_rest = all.ns / (length_ns.max(1) as f64 * verdict.rest());
    let (low, high) = estimate.interval(all);
    if of_rest * low < limits.considerable_share * verdict.share.unwrap_or(0.0) {
        return;
    }
    let share = |of_state: f64| of_rest * of_state;
    // A larger share than that of the verdict is of something else.
    let most = verdict.share_high.or(verdict.share).map_or(1.0, |high| high + ROUNDING);
    if share(estimate.ns / all.ns) > most || of_rest > 1.0 + ROUNDING {
        return;
    }
    // The first of several places with the function may have a small part of its time.
    let is_most = code.estimate.ns > 0.5 * estimate.ns;
    verdict.code = Some(Code {
        function,
        file: code.file.clone(),
        line: code.line,
        caller: code.caller.clone().filter(|_| is_most),
        callees: if is_most { code.callees.clone() } else { Vec::new() },
        share: share(estimate.ns / all.ns),
        share_low: share(low),
        share_high: share(high).min(1.0),
    });
}

/// Sets the places in which threads wait for the lock that the verdict names, and in which the
/// waits end, if these waits have a considerable part of the verdict's share.
pub fn add_places(verdict: &mut Verdict, waits: &[EndedWait], limits: &Limits) {
    if let Some(pool) = pool_of_convoy(verdict) {
        verdict.wait_places = places_within(pool, waits, limits);
        return;
    }
    let Some((lock, waiter, waker)) = awaited(verdict) else { return };
    let is_meant = |of: &AwaitedLock| match of {
        AwaitedLock::Futex(address) => lock == format!("{address:#x}"),
        AwaitedLock::File => CallFamily::of(&lock) == CallFamily::FileLock,
    };
    let is_between = |wait: &EndedWait| wait.waiter.process == waiter && wait.waker.process == waker;
    let share = |wait: &EndedWait| wait.locks.iter().filter(|(of, _)| is_meant(of)).map(|(_, share)| share).sum::<f64>();
    let least = limits.considerable_share * verdict.share.unwrap_or(0.0) * verdict.rest();
    let of_lock = waits.iter().filter(|wait| is_between(wait)).map(|wait| (wait, share(wait)));
    let most = of_lock.filter(|&(_, share)| share > 0.0 && share >= least).max_by(|a, b| a.1.total_cmp(&b.1));
    verdict.wait_places =
        most.map(|(wait, _)| WaitPlaces { waits_in: wait.waiter.function.clone(), ended_in: wait.waker.function.clone() });
}

/// Returns the pool whose threads wait for a lock of which no event has the address.
fn pool_of_convoy(verdict: &Verdict) -> Option<&str> {
    verdict.because.iter().find_map(|because| match because {
        Because::Convoy { pool, locks: None, .. } => Some(pool.program()),
        _ => None,
    })
}

/// Returns the places in which most of the waits of a program's threads for one another begin and
/// end.
fn places_within(program: &str, waits: &[EndedWait], limits: &Limits) -> Option<WaitPlaces> {
    let within = || waits.iter().filter(|wait| wait.waiter.process == program && wait.waker.process == program);
    let all: f64 = within().map(|wait| wait.share).sum();
    let most = within().max_by(|a, b| a.share.total_cmp(&b.share)).filter(|most| most.share >= limits.majority * all)?;
    if most.samples < limits.min_occurrences {
        return None;
    }
    Some(WaitPlaces { waits_in: most.waiter.function.clone(), ended_in: most.waker.function.clone() })
}

/// Returns the lock that the verdict names, and the programs that wait for it and release it.
/// `None` if waits cannot be matched with certainty: stacks do not say which reply was awaited.
fn awaited(verdict: &Verdict) -> Option<(String, String, String)> {
    let lock = WaitsFor::of(verdict).filter(|found| found.kind == Awaited::Lock)?.name;
    let files = verdict.because.iter().find_map(|because| match because {
        Because::FileLock { waiter, holder, .. } => Some((waiter.program(), holder.program())),
        _ => None,
    });
    let program = verdict.subject.as_ref()?.program();
    let (waiter, waker) = if lock.starts_with("0x") { (program, program) } else { files? };
    Some((lock, waiter.to_owned(), waker.to_owned()))
}

/// Returns whether samples are of the verdict's subject. Threads of one program differ in their
/// class.
fn is_by(code: &CodeOnPath, subject: &Named, row: Option<&ClassState>) -> bool {
    let is_thread = || subject.name == code.class || row.is_some_and(|row| row.class == code.class);
    code.process == subject.program() && (subject.level != SubjectLevel::Thread || is_thread())
}

/// Returns whether samples are of the verdict's state. `row` is that state on the path.
fn is_in(code: &CodeOnPath, state: &StateNamed, row: Option<&ClassState>) -> bool {
    let is_named = row.is_some_and(|row| row.state == code.state) || state.name == code.state;
    match state.kind {
        SubjectState::Running => code.time == TimeKind::Running,
        SubjectState::SystemCall => code.time == TimeKind::Running && is_named,
        SubjectState::Declared => is_named,
        SubjectState::Sleep => {
            code.time == TimeKind::Timer
                && (is_named || LinkKind::Timer.detail_of(&code.state) == Some(&state.name) || state.name == "timer")
        }
        SubjectState::KernelTimer | SubjectState::GracePeriod => code.time == TimeKind::Timer && is_named,
        SubjectState::Disk => code.time == TimeKind::Disk && is_named,
        SubjectState::Transit => matches!(code.time, TimeKind::Network | TimeKind::Waiting) && is_named,
        SubjectState::Unknown => code.time == TimeKind::Waiting && is_named,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::data::{Basis, Outcome};

    const LENGTH_NS: u64 = 1_000;

    fn code(class: &str, (time, state): (TimeKind, &str), function: &str, ns: f64) -> CodeOnPath {
        CodeOnPath {
            process: "p".to_owned(),
            class: class.to_owned(),
            state: state.to_owned(),
            time,
            function: Some(function.to_owned()),
            file: None,
            line: None,
            caller: None,
            callees: Vec::new(),
            estimate: Estimate { ns, variance: 0.0, samples: 1_000 },
        }
    }

    fn verdict(level: SubjectLevel, name: &str, (kind, state): (SubjectState, &str), share: f64) -> Verdict {
        let mut verdict = Verdict::new(Outcome::Bottleneck, Basis::Subjects);
        verdict.subject = Some(Named::of_name(level, name));
        verdict.state = Some(StateNamed { kind, name: state.to_owned() });
        verdict.origin.row = Some(ClassState::new(name, state));
        verdict.with_share(Some(share), Some(0.0))
    }

    fn named(mut verdict: Verdict, codes: &[CodeOnPath]) -> Option<String> {
        add(&mut verdict, codes, LENGTH_NS, &Limits::built_in().unwrap());
        verdict.code.map(|code| code.function)
    }

    #[test]
    fn the_code_of_a_thread_is_not_that_of_other_threads_of_its_program() {
        let runs = (TimeKind::Running, "run");
        let codes = [code("p/b", runs, "of_another", 600.0), code("p/a", runs, "own", 300.0)];
        let of = |level, name| verdict(level, name, (SubjectState::Running, "run"), 0.3);
        assert_eq!(named(of(SubjectLevel::Thread, "p/a"), &codes).as_deref(), Some("own"));
        assert_eq!(named(of(SubjectLevel::Thread, "p/c"), &codes), None);
        // A function with a larger share than the verdict's does not belong to its state.
        assert_eq!(named(of(SubjectLevel::Process, "p"), &codes), None);
        let all = verdict(SubjectLevel::Process, "p", (SubjectState::Running, "run"), 0.9);
        assert_eq!(named(all, &codes).as_deref(), Some("of_another"));
    }

    #[test]
    fn the_code_of_a_wait_is_of_the_state_that_the_verdict_names() {
        let codes =
            [code("p", (TimeKind::Waiting, "blocked:futex"), "locks", 500.0), code("p", (TimeKind::Waiting, "unknown"), "reads", 400.0)];
        let of = |state| verdict(SubjectLevel::Process, "p", (SubjectState::Unknown, state), 0.5);
        assert_eq!(named(of("unknown"), &codes).as_deref(), Some("reads"));
        assert_eq!(named(of("outside"), &codes), None);
    }
}
