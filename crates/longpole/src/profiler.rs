//! Shows where a profiler would have pointed, and where it disagrees with the critical path: by the
//! functions of stack samples if there are any, otherwise by the running time of states.

use crate::render::stacks::shortened;
use crate::render::table::{number, percent, plain};
use longpole_analysis::critical_path::samples::CriticalFunction;
use longpole_analysis::critical_path::{Profiled, Row};
use longpole_analysis::report::Report;
use longpole_analysis::what_if::{Prediction, Scenario};

/// Share of the path below which a state is called hardly critical.
const HARDLY_CRITICAL: f64 = 0.05;
/// Share of the running time, or of the path, below which a state is not mentioned.
const WORTH_A_WORD: f64 = 0.1;
/// Number of top entries that a user of a profiler would look at.
const LOOKED_AT: usize = 5;

/// Returns a sentence with what a user of a profiler would take for the bottleneck.
pub fn first(report: &Report) -> String {
    if let Some(functions) = sampled(report) {
        let all: u64 = functions.iter().map(|it| it.profile_samples).sum();
        let on_path: u64 = functions.iter().map(|it| it.path_samples).sum();
        let Some(first) = functions.iter().min_by_key(|it| it.profile_rank) else { return String::new() };
        let part = match on_path {
            0 => "; no sample lies on the critical path".to_owned(),
            _ => format!(", which has {} ({} to {}) of the critical path", percent(first.share), percent(first.low), percent(first.high)),
        };
        return format!("A profiler would point to {} ({} of {} samples){part}.", called(first), percent(first.profile_share), number(all));
    }
    match report.path.as_ref().and_then(|path| path.profile.first()) {
        Some(first) if !report.inputs.tells_running => format!(
            "What a profiler would point to cannot be told: {} has most of the time that probes describe ({}; {} of the critical path), and whether threads ran or \
             waited in it is not in the trace; `longpole record --kernel sched`, as root, tells that.",
            state(first),
            percent(first.profile_share),
            percent(first.path_share)
        ),
        Some(first) => format!(
            "A profiler would point to {} ({} of the running time), which has {} of the critical path.",
            state(first),
            percent(first.profile_share),
            percent(first.path_share)
        ),
        None => "A profiler would see nothing run.".to_owned(),
    }
}

/// Returns true if the trace does not show whether the time that the change shortens is work or a
/// wait.
pub fn is_open(report: &Report, prediction: &Prediction) -> bool {
    let rows = report.criticality.iter().flatten().filter(|row| row.profile_rank.is_some());
    let owners = rows.flat_map(|row| [(&row.class, &row.state), (&row.machine, &row.state)]);
    !report.inputs.tells_running && owners.into_iter().any(|(owner, state)| Scenario::scale(owner, state, 0.5).text == prediction.change)
}

/// The columns about a profile in the table of the path's states.
pub struct Columns {
    has_functions: bool,
    shows_functions: bool,
    tells_running: bool,
}

impl Columns {
    pub fn of(report: &Report) -> Columns {
        Columns { has_functions: sampled(report).is_some(), shows_functions: true, tells_running: report.inputs.tells_running }
    }

    /// Returns the columns without the names of functions, which take much room.
    pub fn without_functions(self) -> Columns {
        Columns { shows_functions: false, ..self }
    }

    pub fn heads(&self) -> &'static [&'static str] {
        match (self.has_functions, self.tells_running) {
            (true, _) if !self.shows_functions => &[">CPU-sample rank", ">share"],
            (true, _) => &["function (sampled)", ">CPU-sample rank", ">share"],
            (false, true) => &[">thread-time rank", ">share"],
            (false, false) => &[">rank by time", ">share"],
        }
    }

    /// Returns the cells of a row. With samples, a state without any has no rank.
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let (rank, share) = match (self.has_functions, &row.function) {
            (true, top) => (top.as_ref().map(|top| top.profile_rank), top.as_ref().map(|top| top.profile_share)),
            (false, _) => (row.profile_rank, row.profile_share),
        };
        let mut cells = Vec::new();
        if self.has_functions && self.shows_functions {
            cells.push(row.function.as_ref().map_or_else(|| "-".to_owned(), |top| shortened(&top.function)));
        }
        cells.push(rank.map_or_else(|| "-".to_owned(), number));
        cells.push(share.map_or_else(|| "-".to_owned(), percent));
        cells
    }
}

/// Returns two lists: states or functions that are critical but not visible in a profile, and those
/// that are at the top of a profile but hardly critical.
pub fn discordant(report: &Report) -> Vec<String> {
    let (hidden, busy) = match (sampled(report), &report.path) {
        (Some(functions), _) => (hidden_functions(functions), busy_functions(functions)),
        // Without scheduler events, the state with most of the time may have been a wait.
        (None, _) if !report.inputs.tells_running => return Vec::new(),
        (None, Some(path)) => (hidden_states(report.criticality.as_deref().unwrap_or_default()), busy_states(&path.profile)),
        (None, None) => return Vec::new(),
    };
    let mut lines = Vec::new();
    for (what, told) in [("critical, but further down in a profile", hidden), ("busy, but hardly critical", busy)] {
        if !told.is_empty() {
            lines.push(plain(format!("{what}: {}", told.join(", "))));
        }
    }
    lines
}

/// Returns the sampled functions; `None` if the trace has no samples.
fn sampled(report: &Report) -> Option<&[CriticalFunction]> {
    report.functions.as_deref().filter(|functions| !functions.is_empty())
}

pub fn busy_functions(functions: &[CriticalFunction]) -> Vec<String> {
    let told = |row: &&CriticalFunction| {
        row.profile_rank <= LOOKED_AT as u64 && row.profile_share >= HARDLY_CRITICAL && row.high < 0.5 * row.profile_share
    };
    let line = |row: &CriticalFunction| {
        format!("{} ({} of the samples, {} of the path)", called(row), percent(row.profile_share), percent(row.share))
    };
    functions.iter().filter(told).map(line).collect()
}

fn hidden_functions(functions: &[CriticalFunction]) -> Vec<String> {
    let told = |row: &&CriticalFunction| row.profile_rank > 1 && row.low >= HARDLY_CRITICAL && row.profile_share < 0.5 * row.low;
    let line = |row: &CriticalFunction| {
        let (path, rank, profile) = (percent(row.share), number(row.profile_rank), percent(row.profile_share));
        format!("{} ({path} of the path, rank {rank} with {profile} of the samples)", called(row))
    };
    functions.iter().filter(told).take(LOOKED_AT).map(line).collect()
}

fn busy_states(profile: &[Profiled]) -> Vec<String> {
    let told = |it: &&Profiled| it.profile_share >= WORTH_A_WORD && it.path_share < HARDLY_CRITICAL;
    let line = |it: &Profiled| {
        format!("{} ({} of the running time, {} of the path)", state(it), percent(it.profile_share), percent(it.path_share))
    };
    profile.iter().take(LOOKED_AT).filter(told).map(line).collect()
}

fn hidden_states(rows: &[Row]) -> Vec<String> {
    // A profile counts all machines of a class as one.
    let mut sums: Vec<(&Row, f64)> = Vec::new();
    for row in rows.iter().filter(|row| row.profile_rank.is_some()) {
        match sums.iter().position(|(of, _)| (&of.class, &of.state) == (&row.class, &row.state)) {
            Some(at) => sums[at].1 += row.share,
            None if sums.len() < 4 * LOOKED_AT => sums.push((row, row.share)),
            None => {}
        }
    }
    let line = |(row, share): (&Row, f64)| {
        let (rank, profile) = (row.profile_rank?, row.profile_share?);
        let is_hidden = rank > 1 && share >= WORTH_A_WORD && profile < 0.5 * share;
        let (path, rank, profile) = (percent(share), number(rank), percent(profile));
        is_hidden.then(|| format!("{}::{} ({path} of the path, rank {rank} with {profile} of the running time)", row.class, row.state))
    };
    sums.into_iter().filter_map(line).take(LOOKED_AT).collect()
}

fn called(row: &CriticalFunction) -> String {
    format!("{} of {}", shortened(&row.function), row.process)
}

fn state(it: &Profiled) -> String {
    match &it.class {
        Some(class) => format!("{class}::{}", it.state),
        None => it.state.clone(),
    }
}
