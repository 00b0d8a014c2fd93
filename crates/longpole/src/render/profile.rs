//! The comparison of the critical path with a profile as text.

use crate::render::pictures::flame_graph;
use crate::render::table::{number, percent, plain};
use longpole_analysis::critical_path::samples::CriticalFunction;
use longpole_analysis::critical_path::{Profiled, Row};
use longpole_analysis::report::profile::{self, Busy, Hidden, TopOfProfile};
use longpole_analysis::report::Report;

/// Maximum length of a function's name in a table, in letters.
const LONGEST_NAME: usize = 64;

/// Returns a sentence with what a user of a profiler would take for the bottleneck.
pub fn first(report: &Report) -> String {
    match profile::top(report) {
        TopOfProfile::Function { function, samples, on_path } => {
            let part = match on_path {
                0 => "; no sample is on the critical path".to_owned(),
                _ => {
                    let (share, low, high) = (percent(function.share), percent(function.low), percent(function.high));
                    format!(", which has {share} ({low} to {high}) of the critical path")
                }
            };
            let profiled = percent(function.profile_share.unwrap_or(0.0));
            format!("A profiler would point to {} ({profiled} of {} samples){part}.", called(function), number(samples))
        }
        TopOfProfile::StateOrWait(first) => format!(
            "What a profiler would point to is unknown: {} has most of the time that probes describe ({}; {} of the critical path), and whether threads ran or \
             waited in it is not in the trace (`longpole record --kernel sched`, as root, records it).",
            state(first),
            percent(first.profile_share),
            percent(first.path_share)
        ),
        TopOfProfile::State(first) => format!(
            "A profiler would point to {} ({} of the running time), which has {} of the critical path.",
            state(first),
            percent(first.profile_share),
            percent(first.path_share)
        ),
        TopOfProfile::Nothing => "A profiler would see no running thread.".to_owned(),
    }
}

/// The columns about a profile in the table of the path's states.
pub struct Columns {
    has_functions: bool,
    shows_functions: bool,
    tells_running: bool,
}

impl Columns {
    pub fn of(report: &Report) -> Columns {
        Columns { has_functions: profile::functions(report).is_some(), shows_functions: true, tells_running: report.inputs.tells_running }
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
            (true, top) => (top.as_ref().and_then(|top| top.profile_rank), top.as_ref().and_then(|top| top.profile_share)),
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
    let (hidden, busy) = profile::discordant(report);
    let hidden: Vec<String> = hidden.into_iter().map(hidden_part).collect();
    let busy: Vec<String> = busy.into_iter().map(busy_part).collect();
    let lists = [("critical, but lower in a profile", hidden), ("busy, but hardly critical", busy)];
    let lists = lists.into_iter().filter(|(_, parts)| !parts.is_empty());
    lists.map(|(what, parts)| plain(format!("{what}: {}", parts.join(", ")))).collect()
}

fn hidden_part(hidden: Hidden<'_>) -> String {
    match hidden {
        Hidden::Function(row) => {
            let (path, rank) = (percent(row.share), number(row.profile_rank.unwrap_or(0)));
            let profile = percent(row.profile_share.unwrap_or(0.0));
            format!("{} ({path} of the path, rank {rank} with {profile} of the samples)", called(row))
        }
        Hidden::State { row, share, profile_rank, profile_share } => {
            let (path, rank, profile) = (percent(share), number(profile_rank), percent(profile_share));
            format!("{}::{} ({path} of the path, rank {rank} with {profile} of the running time)", row.class, row.state)
        }
    }
}

fn busy_part(busy: Busy<'_>) -> String {
    match busy {
        Busy::Function(row) => busy_function(row),
        Busy::State(it) => {
            format!("{} ({} of the running time, {} of the path)", state(it), percent(it.profile_share), percent(it.path_share))
        }
    }
}

/// Returns the function with its shares of the samples and of the path.
pub fn busy_function(row: &CriticalFunction) -> String {
    format!("{} ({} of the samples, {} of the path)", called(row), percent(row.profile_share.unwrap_or(0.0)), percent(row.share))
}

/// Shortens names of templates, which are too long for a line; the JSON answer has them complete.
pub fn shortened(name: &str) -> String {
    flame_graph::shortened(name, LONGEST_NAME)
}

fn called(row: &CriticalFunction) -> String {
    match row.is_named {
        true => format!("{} of {}", shortened(&row.function), row.process),
        false if row.module == row.process => format!("code of {} without symbols", row.module),
        false => format!("code of {} without symbols in {}", row.module, row.process),
    }
}

fn state(it: &Profiled) -> String {
    match &it.class {
        Some(class) => format!("{class}::{}", it.state),
        None => it.state.clone(),
    }
}
