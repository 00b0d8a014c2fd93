//! The answer: the path's segments, and the time of each state on it next to its rank in a profile.
//!
//! A profiler shows where CPUs spend their time; the critical path shows which of that time decides
//! when the end comes. Each [`Row`] has both, so that a busy state that is off the path, and a rare
//! one that is on it, can be seen at once. All sums are checked against the length of the path
//! ([`NoAnswer::NotConserved`]); nothing here estimates.

use super::path::{NameMeaning, Path};
use super::slack::Slack;
use super::{CriticalPath, Mode};
use crate::critical_path::keys::key::{Key, Keys, Kind, State};
use crate::critical_path::keys::words::{Dictionary, Name};
use crate::critical_path::samples::Top;
use crate::critical_path::storage::path_store::PathStore;
use crate::critical_path::storage::tree::Tree;
use crate::scheduling::occupancy::CpuHolder;
use crate::stats::nearest::no_such_machine;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, QueueKind, SegmentKind, StateKind};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// An interaction that contradicts the known state, with its line in the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    pub line: u64,
    pub what: String,
}

/// A state or link on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub host: String,
    pub machine: String,
    pub class: String,
    pub state: String,
    pub kind: SegmentKind,
    /// Time on the path in ns, and its share of the path's length, 0 to 1.
    pub ns: u64,
    pub share: f64,
    /// Rank of the state in a profile by its running time over all machines
    /// ([`SegmentKind::is_symbol`]); ties share a rank: 1, 2, 2, 4. `None` if the state is not
    /// running.
    pub profile_rank: Option<u64>,
    pub profile_share: Option<f64>,
    /// Least slack in ns of all items that this state took without waiting: the time between the
    /// item's arrival and its get. `None` if it took nothing without waiting.
    pub slack_ns: Option<u64>,
    /// Share of the time between two gets without waiting in which the item had arrived at most a
    /// twentieth of that time before its get. `None` if there were no such gets.
    pub near_critical_share: Option<f64>,
    /// CPU holders during a wait for a CPU. `None` if this is no such wait, or if CPU holders were
    /// not requested ([`crate::critical_path::cpu_holders`]).
    pub kept_by: Option<Vec<CpuHolder>>,
    /// The function in which most samples of this state on the path were taken. `None` without such
    /// samples, or if samples were not requested ([`crate::critical_path::samples`]).
    pub function: Option<Box<Top>>,
    /// Class of the machine; for a link, the class of its queue.
    #[serde(skip)]
    pub owner: String,
    /// Like `owner`, except that the links of a call and of its reply have the same value.
    #[serde(skip)]
    pub pool: String,
    /// A profiler adds up this state under its name over all programs ([`StateKind::is_symbol`]).
    #[serde(skip)]
    pub is_symbol: bool,
}

/// A state as a profiler shows it, with its share of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiled {
    /// `None` if several classes have this state.
    pub class: Option<String>,
    pub state: String,
    pub profile_share: f64,
    pub path_share: f64,
}

/// Running time of a state over all machines of its class, as a profiler shows it that separates
/// programs and functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Busy {
    pub class: String,
    pub state: String,
    pub ns: u64,
    /// Share of all running time, 0 to 1.
    pub share: f64,
}

/// The critical path with its profile, and the numbers by which its quality can be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub mode: &'static str,
    pub end_host: String,
    pub end_machine: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub length_ns: u64,
    /// Time on the path in which the cause of a wait, or the state, is unknown, in ns.
    pub unknown_ns: u64,
    pub lost: u64,
    /// `None` if segments were not requested ([`super::Options::segments`]).
    pub segments: Option<Path>,
    pub criticality: Vec<Row>,
    /// Busiest states in a profile: by running time over all machines, descending, at most 20 rows.
    #[serde(skip)]
    pub profile: Vec<Profiled>,
    /// The same, separated by class.
    #[serde(rename = "profile")]
    pub busy: Vec<Busy>,
    pub contradictions: u64,
    /// The first contradictions, at most 20.
    pub contradiction_list: Vec<Contradiction>,
    pub negative_links: u64,
    pub ignored_wakeups: u64,
    /// Number of causes that are unknown because they lie further back than the machine's
    /// remembered past.
    pub forgotten_causes: u64,
    pub interactions: u64,
}

/// Sizes of the pass's own data, for tests of its memory bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassSizes {
    pub nodes: usize,
    /// Machines, tokens and remembered pasts that hold a path.
    pub tips: usize,
    pub segments: usize,
}

/// Reasons why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("it has no interactions")]
    Empty,
    #[error("there is nothing in this range")]
    NothingInRange,
    /// The whole message, with the nearest names.
    #[error("{0}")]
    NoSuchMachine(String),
    #[error("\"{0}\" is both {1} and {2}; name it as HOST/MACHINE")]
    Namesakes(String, String, String),
    #[error("internal error: the path is {length} ns long, but its parts add up to {counted} ns; please report this with the trace")]
    NotConserved { length: u64, counted: u64 },
}

impl CriticalPath {
    /// Returns the path to the end that counts.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`] if the machine or the range is empty, unknown or ambiguous, or if the sums do
    /// not equal the length of the path.
    pub fn answer(mut self, vocabulary: &Vocabulary) -> Result<Answer, NoAnswer> {
        let asked = self.options.machine.clone();
        let named = |machine| full_name(vocabulary, machine);
        if let (Some(asked), Some(one), Some(other)) = (&asked, self.requested.machine, self.requested.namesake) {
            return Err(NoAnswer::Namesakes(asked.clone(), named(one), named(other)));
        }
        self.finish();
        let (Some(end), Some(begin)) = (self.end.clone(), self.clock.begin) else { return Err(NoAnswer::Empty) };
        let Some(machine) = end.machine.or(self.requested.machine) else {
            return Err(NoAnswer::NoSuchMachine(no_such_machine(vocabulary, &asked.unwrap_or_default())));
        };
        let tip = match end.tip {
            Some(tip) => tip,
            // The machine appeared only after the end.
            None => {
                let unknown = self.state_key(machine, State::Unknown);
                if let Some(active) = &mut self.active {
                    active.mark_end_without_machine(begin.min(end.t), end.t, unknown);
                }
                self.unknown_path(machine, end.t)
            }
        };
        if self.clock.requested_begin > 0 && end.t <= begin {
            return Err(NoAnswer::NothingInRange);
        }
        let start = begin.min(end.t);
        let totals = self.totals_to_end();
        let mut dictionary = Dictionary::new(vocabulary);
        let names: Vec<Name> = self.keys.keys().iter().map(|key| dictionary.name(vocabulary, key)).collect();
        let kinds: Vec<SegmentKind> = self.keys.keys().iter().map(|key| self.kind(vocabulary, key)).collect();
        let is_active = self.options.mode == Mode::Active;
        let store = std::mem::replace(&mut self.store, PathStore::Charged(Tree::default()));
        let (profile, path) = match self.active.take() {
            Some(active) => active.finish(),
            None => {
                let (tree, tip, segments) = store.finish(tip);
                let path = self.segments.take().or(segments).map(|segments| segments.forward(tip.segment));
                let mut times = vec![0; names.len()];
                let mut add = |(key, ns): (u32, u64)| times.get_mut(key as usize).into_iter().for_each(|time| *time += ns);
                match (&tree, &path) {
                    (Some(tree), _) => tree.key_times(tip.node).for_each(add),
                    (None, Some(path)) => path.pieces().for_each(|(key, start, end)| add((key, end - start))),
                    (None, None) => {}
                }
                let profile: HashMap<u32, u64> = (0..).zip(times).filter(|&(_, ns)| ns > 0).collect();
                (profile, path)
            }
        };
        let length = end.t - start;
        let counted: u64 = profile.values().sum();
        conserved(length, counted)?;
        let named_keys = NamedKeys { vocabulary, dictionary: &dictionary, names: &names, kinds: &kinds, totals: &totals };
        let running = RunningTimes::new(self.keys.keys(), &named_keys);
        let (criticality, profiled) = self.rows(&profile, &named_keys, &running, length);
        let busy = running.busy(&dictionary);
        let of_unknown = |key: u32| kinds.get(key as usize).is_some_and(|&kind| is_unknown(kind));
        let unknown = profile.iter().filter(|(&key, _)| of_unknown(key)).map(|(_, ns)| ns).sum();
        let meanings = self.keys.keys().iter().map(|key| name_meaning(vocabulary, key)).collect();
        let mut segments = path.map(|path| Path::new(path, dictionary, names, kinds, meanings));
        if let Some(segments) = &mut segments {
            conserved(length, segments.sum(start) - start)?;
        }
        Ok(Answer {
            mode: if is_active { "active" } else { "global" },
            end_host: vocabulary.host(machine).to_owned(),
            end_machine: vocabulary.machine_name(machine).to_owned(),
            start_ns: start,
            end_ns: end.t,
            length_ns: length,
            unknown_ns: unknown,
            lost: 0,
            segments,
            criticality,
            profile: profiled,
            busy,
            contradictions: self.counts.contradictions,
            contradiction_list: std::mem::take(&mut self.counts.listed),
            negative_links: self.counts.negative_links,
            ignored_wakeups: self.counts.ignored_wakeups,
            forgotten_causes: self.counts.too_old + self.queues.forgotten(),
            interactions: self.counts.interactions,
        })
    }

    fn kind(&self, vocabulary: &Vocabulary, key: &Key) -> SegmentKind {
        let context = match *key {
            Key::State { machine, .. } => self.machines.get(machine.0 as usize).is_some_and(|tracked| tracked.has_been_context),
            Key::Link { .. } => false,
        };
        key.kind(vocabulary, context)
    }

    /// Returns the rows of the path by time, keys of the same names and kind as one row; and the
    /// busiest states in a profile.
    fn rows(
        &self,
        profile: &HashMap<u32, u64>,
        named_keys: &NamedKeys<'_>,
        running: &RunningTimes,
        length: u64,
    ) -> (Vec<Row>, Vec<Profiled>) {
        let mut sorted: Vec<u128> = running.symbols.values().copied().collect();
        sorted.sort_unstable();
        let mut sums: HashMap<(Name, Kind), RowSum> = HashMap::new();
        let keys: Vec<&Key> = self.keys.keys().iter().collect();
        for (&key, &ns) in profile.iter().filter(|(_, &ns)| ns > 0) {
            let (Some(name), Some(&kind)) = (named_keys.names.get(key as usize), named_keys.kinds.get(key as usize)) else { continue };
            let sum = sums.entry((*name, kind.into())).or_default();
            sum.ns += ns;
            sum.runs |= kind.is_code();
            sum.largest = sum.largest.max((ns, Reverse(key)));
            sum.slack.merge(self.keys.slack(key));
        }
        let symbol = |&[_, _, class, state]: &Name, sum: &RowSum| symbol(named_keys.is_symbol(keys[sum.key() as usize]), class, state);
        let mut on_path: HashMap<ClassState, u64> = HashMap::new();
        for ((name, _), sum) in sums.iter().filter(|(_, sum)| sum.runs) {
            *on_path.entry(symbol(name, sum)).or_default() += sum.ns;
        }
        let row = |(name, sum): (Name, RowSum)| {
            let total = running.symbols.get(&symbol(&name, &sum)).copied().filter(|_| sum.runs);
            let [host, machine, class, state] = name.map(|word| named_keys.dictionary.text(word).to_owned());
            let (key, RowSum { ns, slack, .. }) = (keys[sum.key() as usize], sum);
            let (owner, pool) = match name_meaning(named_keys.vocabulary, key) {
                NameMeaning::State => (class.clone(), class.clone()),
                NameMeaning::Wakeup => (machine.clone(), machine.clone()),
                NameMeaning::Queue { class, calls } => {
                    let pool = calls.map_or(class, |(calls, _)| calls);
                    (machine[..class].to_owned(), machine[..pool].to_owned())
                }
            };
            Row {
                host,
                machine,
                class,
                state,
                kind: named_keys.kinds[sum.key() as usize],
                owner,
                pool,
                is_symbol: named_keys.is_symbol(key),
                ns,
                share: ns as f64 / length as f64,
                profile_rank: total.map(|total| (sorted.len() - sorted.partition_point(|&ns| ns <= total)) as u64 + 1),
                profile_share: total.map(|total| total as f64 / running.all as f64),
                slack_ns: slack.least,
                near_critical_share: slack.near_share(),
                kept_by: None,
                function: None,
            }
        };
        let texts = |name: &Name| name.map(|word| named_keys.dictionary.text(word));
        // There may be millions of rows, so only the sorted ones are given owned texts.
        let mut sums: Vec<((Name, Kind), RowSum)> = sums.into_iter().collect();
        sums.sort_unstable_by(|((a, one), x), ((b, other), y)| {
            y.ns.cmp(&x.ns).then_with(|| texts(a).cmp(&texts(b))).then_with(|| one.cmp(other))
        });
        let rows = sums.into_iter().map(|((name, _), sum)| row((name, sum))).collect();
        let profiled = most_time(&running.symbols, named_keys.dictionary).into_iter().map(|(of, ns)| Profiled {
            class: running.class(of).map(|class| named_keys.dictionary.text(class).to_owned()),
            state: named_keys.dictionary.text(of.1).to_owned(),
            profile_share: ns as f64 / running.all as f64,
            path_share: on_path.get(&of).copied().unwrap_or(0) as f64 / length as f64,
        });
        (rows, profiled.collect())
    }
}

/// Sums over the keys on the path that form one row.
#[derive(Clone, Copy, Debug, Default)]
struct RowSum {
    ns: u64,
    runs: bool,
    /// Largest time of a single key, and that key.
    largest: (u64, Reverse<u32>),
    slack: Slack,
}

impl RowSum {
    fn key(&self) -> u32 {
        self.largest.1 .0
    }
}

/// Returns the meaning of a key's machine name: a machine, a wake-up or a queue.
fn name_meaning(vocabulary: &Vocabulary, key: &Key) -> NameMeaning {
    match *key {
        Key::State { .. } => NameMeaning::State,
        Key::Link { queue: None, .. } => NameMeaning::Wakeup,
        Key::Link { queue: Some(queue), .. } => {
            let is_of_calls = matches!(vocabulary.queue_kind(queue), QueueKind::Calls | QueueKind::Replies);
            let calls = (vocabulary.queue_of_calls(queue).len(), vocabulary.names.first_of_same(vocabulary.queue_of(queue)).0);
            NameMeaning::Queue { class: vocabulary.queue_class(queue).len(), calls: is_of_calls.then_some(calls) }
        }
    }
}

/// Class and state, as words of the dictionary.
type ClassState = (u32, u32);

/// Placeholder for the class of a symbol: a profiler adds these up over all classes.
const ANY_CLASS: u32 = u32::MAX;

/// Class and state under which a profiler lists the state.
fn symbol(is_symbol: bool, class: u32, state: u32) -> ClassState {
    (if is_symbol { ANY_CLASS } else { class }, state)
}

/// Running time over all machines. The sum exceeds elapsed time if several machines run at once.
struct RunningTimes {
    of: HashMap<ClassState, u128>,
    symbols: HashMap<ClassState, u128>,
    all: u128,
}

impl RunningTimes {
    fn new(keys: &Keys, named_keys: &NamedKeys<'_>) -> RunningTimes {
        let (mut of, mut symbols): (HashMap<ClassState, u128>, HashMap<ClassState, u128>) = Default::default();
        for (((key, &[_, _, class, state]), kind), &ns) in keys.iter().zip(named_keys.names).zip(named_keys.kinds).zip(named_keys.totals) {
            if ns > 0 && kind.is_code() {
                *of.entry((class, state)).or_default() += u128::from(ns);
                *symbols.entry(symbol(named_keys.is_symbol(key), class, state)).or_default() += u128::from(ns);
            }
        }
        RunningTimes { all: of.values().sum(), of, symbols }
    }

    /// The class of a symbol, if exactly one class has it.
    fn class(&self, (class, state): ClassState) -> Option<u32> {
        let mut classes = self.of.keys().filter(|of| of.1 == state && (class == ANY_CLASS || class == of.0));
        classes.next().filter(|_| classes.next().is_none()).map(|of| of.0)
    }

    fn busy(&self, dictionary: &Dictionary) -> Vec<Busy> {
        let row = |((class, state), ns)| Busy {
            class: dictionary.text(class).to_owned(),
            state: dictionary.text(state).to_owned(),
            ns: u64::try_from(ns).unwrap_or(u64::MAX),
            share: ns as f64 / self.all as f64,
        };
        most_time(&self.of, dictionary).into_iter().map(row).collect()
    }
}

/// The entries with the most time, descending, at most [`MAX_PROFILED`].
fn most_time(times: &HashMap<ClassState, u128>, dictionary: &Dictionary) -> Vec<(ClassState, u128)> {
    let mut first: Vec<_> = times.iter().map(|(&of, &ns)| (of, ns)).collect();
    let name = |(class, state): ClassState| (if class == ANY_CLASS { "" } else { dictionary.text(class) }, dictionary.text(state));
    first.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0))));
    first.truncate(MAX_PROFILED);
    first
}

/// Keys with their names, kinds and time over all machines; the slices have the same order.
struct NamedKeys<'a> {
    vocabulary: &'a Vocabulary,
    dictionary: &'a Dictionary,
    names: &'a [Name],
    kinds: &'a [SegmentKind],
    totals: &'a [u64],
}

impl NamedKeys<'_> {
    fn is_symbol(&self, key: &Key) -> bool {
        key.kind(self.vocabulary, false).is_symbol()
    }
}

/// Number of states in a profile that its user is assumed to look at.
const MAX_PROFILED: usize = 20;

fn full_name(vocabulary: &Vocabulary, machine: MachineId) -> String {
    let name = vocabulary.machine_name(machine);
    match vocabulary.host(machine) {
        "" => format!("{name} on no host"),
        host => format!("{host}/{name}"),
    }
}

fn conserved(length: u64, counted: u64) -> Result<(), NoAnswer> {
    match length == counted {
        true => Ok(()),
        false => Err(NoAnswer::NotConserved { length, counted }),
    }
}

fn is_unknown(kind: SegmentKind) -> bool {
    matches!(kind, SegmentKind::Link(LinkKind::Unknown) | SegmentKind::State(StateKind::Unknown | StateKind::Blocked))
}

/// Returns one row for each state of a class, such as the workers of a pool, with the sum of their
/// shares. The other figures are those of the thread with the largest share.
pub fn rows_by_class(rows: &[Row]) -> Vec<Row> {
    let mut classes: Vec<Row> = Vec::new();
    let mut known: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for row in rows {
        let first = known.entry((&row.host, &row.class, &row.state)).or_insert(classes.len());
        match classes.get_mut(*first).filter(|first| first.kind == row.kind && !row.kind.is_link()) {
            Some(first) => {
                first.share += row.share;
                first.machine.clone_from(&row.class);
            }
            None => classes.push(row.clone()),
        }
    }
    classes.sort_by(|a, b| b.share.total_cmp(&a.share));
    classes
}
