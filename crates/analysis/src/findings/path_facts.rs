//! The facts about the critical path, and about waits between machines, for the rules of findings
//! ([`crate::findings`]).

use crate::critical_path::participation::{Participation, PathState};
use crate::critical_path::Kind;
use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use crate::wait_graph;
use std::collections::HashMap;

/// Number of machines of a mutual wait that are named.
const MAX_NAMED: usize = 4;
/// Largest number of queues, and of machines, that yield facts: those with the largest figures.
const MAX_SUBJECTS: usize = 64;

/// Returns facts about the states on the path, vain looks into queues, locks with probes, and
/// mutual waits.
pub(crate) fn facts(path: &Participation, waits: &wait_graph::Answer) -> Vec<Facts> {
    let whole = Evidence { start_ns: path.start_ns as i64, end_ns: path.end_ns as i64 };
    let length = (path.end_ns - path.start_ns).max(1) as f64;
    let mut states: Vec<PathState> = Vec::new();
    let mut without_cpu: HashMap<&str, usize> = HashMap::new();
    for state in path.states() {
        // Runnable or preempted: in either case the machine has no CPU.
        if state.kind == Kind::Runnable {
            let at = *without_cpu.entry(&state.class).or_insert(states.len());
            if let Some(known) = states.get_mut(at) {
                known.share += state.share;
                known.count += state.count;
                continue;
            }
        }
        states.push(state.clone());
    }
    let of_path = |state: PathState| {
        let texts = vec![("machine", state.class), ("state", state.state), ("kind", kind_text(state.kind).to_owned())];
        Facts::new(Scope::Path, texts, vec![("share", state.share), ("count", state.count as f64)], state.evidence)
    };
    let mut out: Vec<Facts> = states.into_iter().map(of_path).collect();
    for look in waits.looks.iter().take(MAX_SUBJECTS) {
        // A machine that polls without end is on the path, or its polling delays nothing.
        let own = path.states().iter().filter(|state| state.class == look.who.machine);
        let numbers = vec![
            ("share", own.map(|state| state.share).sum()),
            ("count", look.vain as f64),
            ("vain_per_item", look.vain as f64 / look.taken.max(1) as f64),
        ];
        let texts = vec![("machine", look.who.to_string()), ("queue", look.queue.clone())];
        out.push(Facts::new(Scope::Look, texts, numbers, whole));
    }
    for lock in waits.locks.iter().take(MAX_SUBJECTS) {
        let (takings, contended) = lock.lock;
        let numbers = vec![
            ("share", lock.contended_ns as f64 / length),
            ("count", contended as f64),
            ("contended", contended as f64 / takings.max(1) as f64),
            ("waiters", lock.waited_ns as f64 / lock.contended_ns.max(1) as f64),
        ];
        let evidence = Evidence { start_ns: lock.longest.0 as i64, end_ns: lock.longest.1 as i64 };
        out.push(Facts::new(Scope::Lock, vec![("queue", lock.name.clone())], numbers, evidence));
    }
    for mutual_wait in waits.mutual_waits.iter().take(MAX_SUBJECTS) {
        let Some(first) = mutual_wait.machines.first() else { continue };
        let mut machines: Vec<String> = mutual_wait.machines.iter().take(MAX_NAMED).map(|member| member.who.to_string()).collect();
        if let Some(more @ 1..) = mutual_wait.machines.len().checked_sub(MAX_NAMED) {
            machines.push(format!("{more} more"));
        }
        let last = machines.pop().unwrap_or_default();
        let named = if machines.is_empty() { last } else { format!("{} and {last}", machines.join(", ")) };
        let numbers = vec![
            ("share", mutual_wait.share),
            ("count", mutual_wait.machines.len() as f64),
            ("foremost_share", first.waited_ns as f64 / mutual_wait.waited_ns.max(1) as f64),
        ];
        let texts = vec![("machines", named), ("foremost", first.who.to_string())];
        out.push(Facts::new(Scope::MutualWait, texts, numbers, whole));
    }
    out
}

/// Returns the kind of a state as rules name it.
fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Running => "running",
        Kind::Runnable => "runnable",
        Kind::Blocked => "blocked",
        Kind::SystemCall => "system_call",
        Kind::Interrupt => "interrupt",
        Kind::Link => "link",
        Kind::Unknown => "unknown",
    }
}
