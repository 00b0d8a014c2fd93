//! Tables: the segments of the critical path, and the events, by number or by time, with search.
//! The lines of several traces follow each other.

mod events;
mod path;

use super::experiment_request::ExperimentRequest;
use super::outputs::Output;
use super::reply::{self, Answer, Refused};
use crate::reading::Analyst;
use events::TraceEvents;
use path::PathLines;
use regex_lite::Regex;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// Maximum number of lines in an answer.
const MAX_LINES: u64 = 10_000;

/// Bit of the tags of a line that matches the search.
const HIGHLIGHT: u32 = 8;

/// Name, description and type of a column.
type Column = (&'static str, &'static str, &'static str);

/// Number of the line that a search found.
type Found = Option<u64>;

fn columns_of(output: Output) -> &'static [Column] {
    match output {
        Output::Events => &events::COLUMNS,
        _ => &path::COLUMNS,
    }
}

pub(crate) fn columns(request: &ExperimentRequest) -> Answer {
    let column =
        |(id, (name, description, kind)): (usize, &Column)| json!({"id": id, "name": name, "description": description, "type": kind});
    let columns: Vec<_> = columns_of(request.output).iter().enumerate().map(column).collect();
    reply::model(&columns, &request.experiment.status())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    low_index: u64,
    size: u64,
    column_ids: Vec<usize>,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    index: u64,
    cells: Vec<Cell>,
    tags: u32,
}

#[derive(Serialize)]
struct Cell {
    content: String,
}

impl Line {
    fn new(index: u64, contents: impl Iterator<Item = String>, tags: u32) -> Line {
        Line { index, cells: contents.map(|content| Cell { content }).collect(), tags }
    }
}

pub(crate) fn lines(request: &ExperimentRequest, analyst: &Arc<dyn Analyst>) -> Answer {
    let parameters = &request.parameters;
    let columns = columns_of(request.output).len();
    let column_ids: Vec<usize> = match parameters.numbers("requested_table_column_ids") {
        Some(ids) if !ids.is_empty() => ids.into_iter().filter_map(|id| usize::try_from(id).ok()).filter(|&id| id < columns).collect(),
        _ => (0..columns).collect(),
    };
    let count = parameters.number("requested_table_count").unwrap_or(100);
    let count = u64::try_from(count).map_err(|_| Refused::bad("`requested_table_count` is negative"))?.min(MAX_LINES);
    let search = Search::read(request, columns)?;
    let lines = Lines::new(request, analyst)?;
    let size = lines.parts.iter().map(Part::size).sum();
    let wanted = match (parameters.number("requested_table_index"), parameters.time()) {
        (Some(index), _) => u64::try_from(index).map_err(|_| Refused::bad("`requested_table_index` is negative"))?,
        (None, Some(t)) => lines.at_time(t)?,
        (None, None) => 0,
    };
    let low_index = match search.direction {
        Some(Direction::Next) => lines.next(wanted, &search)?,
        Some(Direction::Previous) => lines.previous(wanted, &search)?,
        None => Some(wanted.min(size)),
    };
    let found = low_index.map_or_else(|| Ok(Vec::new()), |from| lines.from(from, count as usize, &column_ids, &search))?;
    let table = Table { low_index: low_index.unwrap_or(0), size, column_ids, lines: found };
    reply::model(&table, &request.experiment.status())
}

/// The lines of one trace, numbered from 0 on.
enum Part {
    Path(PathLines),
    Events(TraceEvents),
}

impl Part {
    fn size(&self) -> u64 {
        match self {
            Part::Path(lines) => lines.size(),
            Part::Events(lines) => lines.size(),
        }
    }

    fn at_time(&self, t: u64) -> Result<u64, Refused> {
        match self {
            Part::Path(lines) => lines.at_time(t),
            Part::Events(lines) => lines.at_time(t),
        }
    }

    fn lines(&self, from: u64, count: usize, columns: &[usize], search: &Search) -> Result<Vec<Line>, Refused> {
        match self {
            Part::Path(lines) => lines.lines(from, count, columns, search),
            Part::Events(lines) => lines.lines(from, count, columns, search),
        }
    }

    fn next(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        match self {
            Part::Path(lines) => lines.next(from, search),
            Part::Events(lines) => lines.next(from, search),
        }
    }

    fn previous(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        match self {
            Part::Path(lines) => lines.previous(from, search),
            Part::Events(lines) => lines.previous(from, search),
        }
    }
}

/// The lines of all traces of an experiment.
struct Lines {
    parts: Vec<Part>,
}

impl Lines {
    fn new(request: &ExperimentRequest, analyst: &Arc<dyn Analyst>) -> Result<Lines, Refused> {
        let part = |reading| match request.output {
            Output::Events => Ok(Part::Events(TraceEvents { reading: Arc::clone(reading), analyst: analyst.clone() })),
            _ => PathLines::new(reading).map(Part::Path),
        };
        Ok(Lines { parts: request.experiment.traces.iter().map(part).collect::<Result<_, _>>()? })
    }

    /// Returns each trace's lines with the number of the lines before them.
    fn numbered(&self) -> impl DoubleEndedIterator<Item = (u64, &Part)> {
        let mut lines = 0;
        let numbered = |part| {
            let first = lines;
            lines += Part::size(part);
            (first, part)
        };
        self.parts.iter().map(numbered).collect::<Vec<_>>().into_iter()
    }

    /// Returns the number of the line for a time on the trace's clock.
    fn at_time(&self, t: u64) -> Result<u64, Refused> {
        let mut last = 0;
        for (first, part) in self.numbered() {
            let at = part.at_time(t)?;
            if at < part.size() {
                return Ok(first + at);
            }
            last = first + part.size();
        }
        Ok(last.saturating_sub(1))
    }

    fn from(&self, from: u64, count: usize, columns: &[usize], search: &Search) -> Result<Vec<Line>, Refused> {
        let mut lines: Vec<Line> = Vec::new();
        for (first, part) in self.numbered().filter(|(first, part)| from < first + part.size()) {
            let rest = count - lines.len();
            let own = part.lines(from.saturating_sub(first), rest, columns, search)?;
            lines.extend(own.into_iter().map(|line| Line { index: first + line.index, ..line }));
        }
        Ok(lines)
    }

    fn next(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        for (first, part) in self.numbered().filter(|(first, part)| from < first + part.size()) {
            if let Some(found) = part.next(from.saturating_sub(first), search)? {
                return Ok(Some(first + found));
            }
        }
        Ok(None)
    }

    fn previous(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        for (first, part) in self.numbered().rev().filter(|&(first, part)| first <= from && part.size() > 0) {
            if let Some(found) = part.previous((from - first).min(part.size() - 1), search)? {
                return Ok(Some(first + found));
            }
        }
        Ok(None)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Next,
    Previous,
}

/// What a client searches: a pattern for each of some columns.
struct Search {
    patterns: Vec<(usize, Regex)>,
    /// `None` if the lines that match are only marked.
    direction: Option<Direction>,
}

impl Search {
    fn read(request: &ExperimentRequest, columns: usize) -> Result<Search, Refused> {
        let mut patterns = Vec::new();
        for (id, pattern) in request.parameters.object("table_search_expressions").into_iter().flatten() {
            let column = id.parse::<usize>().ok().filter(|&column| column < columns);
            let column = column.ok_or_else(|| Refused::bad(format!("there is no column {id}")))?;
            let Some(pattern) = pattern.as_str().filter(|pattern| !pattern.is_empty()) else { continue };
            // A text that is no pattern, such as `read(`, is searched as it is.
            let pattern = Regex::new(pattern).or_else(|_| Regex::new(&regex_lite::escape(pattern)));
            patterns.push((column, pattern.map_err(|error| Refused::bad(format!("the pattern of column {id} is too long: {error}")))?));
        }
        let direction = match request.parameters.optional_text("table_search_direction") {
            _ if patterns.is_empty() => None,
            None => None,
            Some("NEXT") => Some(Direction::Next),
            Some("PREVIOUS") => Some(Direction::Previous),
            Some(other) => return Err(Refused::bad(format!("`table_search_direction` is {other:?}, and neither NEXT nor PREVIOUS"))),
        };
        Ok(Search { patterns, direction })
    }
}
