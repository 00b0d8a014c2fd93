//! The truth about a scenario: what a profiler would see, and the gain of each change, measured by
//! a run with the change.

use crate::change::{apply, parse, Change};
use crate::engine::{run, Outcome};
use crate::sink::Nobody;
use crate::sketch::Sketch;
use crate::system::{each_step, Step, System};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The measured truth about a scenario.
#[derive(Serialize)]
pub struct Truth {
    pub roles: BTreeMap<String, String>,
    pub end_ns: u64,
    pub profile: Vec<Profiled>,
    pub changes: Vec<Tried>,
    pub sweep: Vec<Tried>,
}

/// A state of a class, summed up over all of its machines and CPUs.
#[derive(Serialize)]
pub struct Profiled {
    pub class: String,
    pub state: String,
    pub ns: u64,
    pub share: f64,
}

/// A change and its measured result.
#[derive(Serialize)]
pub struct Tried {
    /// The change, written with names instead of roles.
    pub change: String,
    pub end_ns: u64,
    /// Speed-up: the duration without the change divided by the one with it, minus 1.
    pub gain: f64,
}

/// Replaces each `$role` with the name in this system, quoted if necessary. Fails if there is no
/// such role.
pub fn spelled(text: &str, roles: &BTreeMap<String, String>) -> Result<String, String> {
    let mut parts = text.split('$');
    let mut spelled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_')).unwrap_or(part.len());
        let (role, rest) = part.split_at(end);
        let name = roles.get(role).ok_or_else(|| format!("`{text}`: there is no role {role} here"))?;
        spelled += &quoted(name);
        spelled += rest;
    }
    Ok(spelled)
}

fn quoted(name: &str) -> String {
    if name.contains(' ') || name.contains("::") {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}

pub fn compute(sketch: &Sketch, base: &Outcome, changes: &[String], sweep: bool) -> Result<Truth, String> {
    let system = &sketch.system;
    let tried = |text: &str| tried(system, base, text);
    let changes = changes.iter().map(|change| tried(&spelled(change, &sketch.roles)?)).collect::<Result<_, _>>()?;
    let mut swept = Vec::new();
    if sweep {
        swept = halves(system).iter().map(|change| tried(change)).collect::<Result<_, _>>()?;
        swept.sort_by(|a, b| a.end_ns.cmp(&b.end_ns).then_with(|| a.change.cmp(&b.change)));
    }
    Ok(Truth { roles: sketch.roles.clone(), end_ns: base.end_ns, profile: profile(system, base), changes, sweep: swept })
}

fn tried(system: &System, base: &Outcome, text: &str) -> Result<Tried, String> {
    let changes: Vec<Change> = parse(text)?;
    let mut changed = system.clone();
    apply(&mut changed, &changes)?;
    let end_ns = run(&changed, &mut Nobody).map_err(|error| format!("{text}: {error}"))?.end_ns;
    Ok(Tried { change: text.to_owned(), end_ns, gain: base.end_ns as f64 / end_ns.max(1) as f64 - 1.0 })
}

fn profile(system: &System, outcome: &Outcome) -> Vec<Profiled> {
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for &(machine, state, ns) in &outcome.profile {
        *sums.entry((&system.machines[machine as usize].class, &system.states[state as usize])).or_default() += ns;
    }
    let all: u64 = sums.values().sum();
    let rows = sums.into_iter().map(|((class, state), ns)| Profiled {
        class: class.to_owned(),
        state: state.to_owned(),
        ns,
        share: ns as f64 / all.max(1) as f64,
    });
    let mut rows: Vec<Profiled> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    rows
}

/// Changes that halve the time of each state, wire and timer, and one that adds a CPU if machines
/// share CPUs.
fn halves(system: &System) -> Vec<String> {
    let mut all = BTreeSet::new();
    for machine in &system.machines {
        each_step(&mut machine.program.clone(), &mut |step| match step {
            Step::Work { state, .. } | Step::Device { state, .. } => {
                all.insert(format!("{}::{} x0.5", quoted(&machine.class), quoted(&system.states[*state as usize])));
            }
            Step::Sleep { .. } | Step::Tick { .. } => {
                all.insert("link::timer x0.5".to_owned());
            }
            _ => {}
        });
    }
    for queue in system.queues.iter().filter(|queue| queue.latency.is_some() || queue.space_latency.is_some()) {
        all.insert(format!("{}::wire x0.5", quoted(&queue.name)));
    }
    if !system.pools.is_empty() {
        all.insert("cpus +1".to_owned());
    }
    all.into_iter().collect()
}
