//! The code of a verdict: the function of the program in which the state of the verdict is spent.
//!
//! Samples show where a process runs, and where it waits. Those of the verdict's state are summed
//! up by the innermost function of the program's own code. A function is named only if a few
//! samples more or less would not change the result.

use super::because::Because;
use super::data::{Code, StateNamed, SubjectState, Verdict, WaitPlaces};
use super::limits::Limits;
use super::waits_for::{Awaited, WaitsFor};
use crate::critical_path::samples::{Code as CodeOnPath, EndedWait, Estimate, PathTime};
use crate::scheduling::sampled_waits::AwaitedLock;
use longpole_model::kinds::LinkKind;
use longpole_model::system_calls::CallFamily;

/// Sets the function in which most of the verdict's state is spent, if the samples show it. `codes`
/// are the functions on the path, whose length is `length_ns`.
pub fn add(verdict: &mut Verdict, codes: &[CodeOnPath], length_ns: u64, limits: &Limits) {
    let Some(subject) = verdict.subject.as_ref().filter(|_| verdict.has_code()) else { return };
    let program = subject.program();
    let row = verdict.origin.row.as_ref().map(|row| row.state.as_str());
    let is_of = |code: &CodeOnPath| code.process == program && verdict.state.as_ref().is_none_or(|state| is_in(code, state, row));
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
    let share = |of_state: f64| (of_rest * of_state).min(1.0);
    verdict.code = Some(Code {
        function,
        file: code.file.clone(),
        line: code.line,
        caller: code.caller.clone(),
        share: share(estimate.ns / all.ns),
        share_low: share(low),
        share_high: share(high),
    });
}

/// Sets the places in which threads wait for the lock that the verdict names, and in which the
/// waits end, if these waits have a considerable part of the verdict's share.
pub fn add_places(verdict: &mut Verdict, waits: &[EndedWait], limits: &Limits) {
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

/// Returns whether samples are of the verdict's state. `row` is the name of the state on the path.
fn is_in(code: &CodeOnPath, state: &StateNamed, row: Option<&str>) -> bool {
    let is_named = row.is_some_and(|row| row == code.state) || state.name == code.state;
    match state.kind {
        SubjectState::Running => code.time == PathTime::Running,
        SubjectState::SystemCall => code.time == PathTime::Running && is_named,
        SubjectState::Declared => is_named,
        SubjectState::Sleep => {
            code.time == PathTime::Timer && (is_named || LinkKind::Timer.call_of(&code.state) == Some(&state.name) || state.name == "timer")
        }
        SubjectState::KernelTimer | SubjectState::GracePeriod => code.time == PathTime::Timer && is_named,
        SubjectState::Disk => code.time == PathTime::Disk,
        SubjectState::Transit => matches!(code.time, PathTime::Network | PathTime::Waiting),
        SubjectState::Unknown => code.time == PathTime::Waiting,
        _ => false,
    }
}
