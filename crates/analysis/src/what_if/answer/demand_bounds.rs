//! Upper bounds of a change's effect, by the work that remains for each item (operational laws).
//!
//! A replay preserves the order of the trace: machines still wait for the same machines. The
//! changed system need not: threads that queued for one lock may run at the same time once its
//! holder is fast. The replay alone is therefore no upper end of a prediction. The throughput in
//! any order is bounded by the remaining demand (Denning and Buzen, 1978): with a demand of `d`
//! seconds per item, a resource with `n` parallel units passes at most `n / d` items per second.
//! Three kinds of resources are considered, and the scarcest one counts:
//!
//! - the changed state itself, with as many parallel threads as were in it at the busiest time of
//!   the trace;
//! - the CPUs of the host;
//! - each thread whose work is mostly on the path already, since it does one thing at a time.
//!
//! Example: sixteen requests sleep 3 ms one after the other. Halving the sleep brings +100 % at
//! most, since one sleeps at a time; removing it brings as much as the CPUs allow.

use crate::critical_path::keys::key::Key;
use crate::what_if::replay::cpus::Host;
use crate::what_if::replay::state::{EndMark, Replay};
use crate::what_if::translate::groups::Members;
use crate::what_if::translate::state::Translation;
use crate::what_if::worlds::time_vector::UNCHANGED;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::names::NameId;

/// A thread with at least this share of its work on the path is needed for each item. A thread with
/// less is one of several that share the items, so its own work bounds nothing.
const MIN_OWN_SHARE: f64 = 0.5;
/// Programs with less than this share of the running time on the path do not count for the CPUs'
/// work: they are on it by chance, and the items do not need them.
const MIN_SHARE: f64 = 0.01;

/// The resource that bounds the rate after a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The changed state itself, in as many threads at once as in the trace.
    Changed,
    Cpus,
    /// A thread, by its name, that does one thing at a time.
    Thread(String),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Changed => write!(f, "the changed state itself"),
            Bound::Cpus => write!(f, "the work of the CPUs"),
            Bound::Thread(name) => write!(f, "the work of {name}"),
        }
    }
}

/// Largest possible factors of the rate in any order of execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Bound by the CPUs; `None` if it is unknown.
    pub cpus: Option<f64>,
    /// Bounds by the threads whose work is mostly on the path, with their names.
    pub threads: Vec<(String, f64)>,
    /// Share of the CPUs' time that other programs use, which have nothing to do with the path. It
    /// is not available to the path, but a thread that is ready gets as much CPU as each of theirs.
    pub taken: f64,
}

/// The work on CPUs until the end, of the threads that work for the path.
struct Work {
    /// Work of each host, by lane.
    of_hosts: IdMap<Host, Vec<f64>>,
    /// For each lane, the largest work of a thread that is needed for each item, and its number.
    longest: Vec<(f64, u32)>,
    /// Bounds by such threads.
    threads: Vec<(String, f64)>,
    /// Work of all programs, and of those that work for the path.
    all: f64,
    for_path: f64,
}

impl Work {
    fn new((trace, replay): (&Translation, &Replay), vocabulary: &Vocabulary, members: &Members, on_path: &[f64], length: f64) -> Work {
        let lanes = replay.layout.len();
        let gone = replay.forgotten.iter().map(|(_, _, gone)| gone.worked[UNCHANGED].max(0.0));
        let (of_hosts, threads) = Default::default();
        let mut work = Work { of_hosts, longest: vec![(0.0, 0); lanes], threads, all: gone.sum(), for_path: 0.0 };
        let own = own_on_path(trace, vocabulary, on_path);
        let class = |machine: u32| trace.machines[machine as usize].class.ok_or(machine);
        let mut of_classes: IdMap<Result<NameId, u32>, f64> = IdMap::default();
        for (&machine, ns) in &own {
            *of_classes.entry(class(machine)).or_default() += ns;
        }
        let all_own: f64 = own.values().sum();
        for (at, machine) in (0u32..).zip(&replay.machines) {
            // A program with hardly any time on the path does not work for these items.
            let works_for_path = of_classes.get(&class(at)).is_some_and(|ns| *ns >= MIN_SHARE * all_own);
            if !machine.is_recorder {
                work.all += machine.worked(UNCHANGED).max(0.0);
            }
            if machine.is_recorder || !works_for_path || !members.has(at) {
                continue;
            }
            work.for_path += machine.worked(UNCHANGED).max(0.0);
            let needed = own.get(&at).is_some_and(|own| *own >= MIN_OWN_SHARE * machine.worked(UNCHANGED));
            if needed && machine.worked(UNCHANGED) > 0.0 {
                work.threads.push((vocabulary.machine_name(MachineId(at)).to_owned(), length / machine.worked(UNCHANGED)));
            }
            let host = work.of_hosts.entry(vocabulary.host_id(MachineId(at))).or_insert_with(|| vec![0.0; lanes]);
            for (lane, all) in host.iter_mut().enumerate() {
                let ns = machine.worked(lane).max(0.0);
                *all += ns;
                if needed && ns > work.longest[lane].0 {
                    work.longest[lane] = (ns, at);
                }
            }
        }
        work
    }
}

/// Returns the largest possible factor of the rate for each scenario, `None` if nothing bounds it;
/// and the bounds of the unchanged system. `cpus` is the number of CPUs of each host, `on_path` the
/// time of each key on the path, `members` the machines that are connected with the end.
pub fn by_demand(
    (trace, replay, vocabulary): (&Translation, &Replay, &Vocabulary),
    cpus: u32,
    end: &EndMark,
    members: &Members,
    on_path: &[f64],
) -> (Vec<Option<(f64, Bound)>>, Bounds) {
    let layout = replay.layout;
    // A simulated system has no other order than that of its trace.
    if cpus == 0 {
        return (vec![None; layout.scenarios], Bounds::default());
    }
    let length = end.v[UNCHANGED];
    let work = Work::new((trace, replay), vocabulary, members, on_path, length);
    let cpus = f64::from(cpus);
    let bound = |scenario: usize| {
        let [lane, _] = layout.of(scenario);
        let factor = |key: u32| replay.factors[key as usize].as_ref().map_or(1.0, |row| row[lane]);
        let with_more = cpus + f64::from(replay.cpus.more[scenario]);
        let busy = work.of_hosts.values().filter(|work| work[lane] > 0.0);
        let of_cpus = busy.map(|work| (with_more * length / work[lane], Bound::Cpus));
        let (ns, thread) = work.longest[lane];
        let of_thread = (ns > 0.0).then(|| (length / ns, Bound::Thread(vocabulary.machine_name(MachineId(thread)).to_owned())));
        let of_changed = replay.demand.most(factor, length).map(|most| (most, Bound::Changed));
        of_cpus.chain(of_thread).chain(of_changed).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let most = (0..layout.scenarios).map(bound).collect();
    let unchanged = work.of_hosts.values().filter(|work| work[UNCHANGED] > 0.0).map(|work| cpus * length / work[UNCHANGED]);
    let others = ((work.all - work.for_path) / (cpus * length).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    let taken = others.min(1.0 - 1.0 / (others * cpus + 1.0));
    (most, Bounds { cpus: unchanged.reduce(f64::min), threads: work.threads, taken })
}

/// Returns the running time of each machine on the path, in ns.
fn own_on_path(trace: &Translation, vocabulary: &Vocabulary, on_path: &[f64]) -> IdMap<u32, f64> {
    let mut own: IdMap<u32, f64> = IdMap::default();
    for (key, ns) in trace.states.keys.iter().zip(on_path) {
        match *key {
            Key::State { machine, state, .. } if state.kind(vocabulary).is_code() => *own.entry(machine.0).or_default() += ns,
            _ => {}
        }
    }
    own
}
