//! The table of the critical path: one line for each segment, by number or by time, with search.

use super::experiment_request::ExperimentRequest;
use super::reply::{self, Answer, Refused};
use super::styles;
use crate::path_walk::PathIndex;
use crate::reading::Reading;
use longpole_analysis::timeline::{Listing, PathSegment, RowId, StateId};
use regex_lite::Regex;
use serde::Serialize;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of lines in an answer.
const MAX_LINES: u64 = 10_000;

/// Bit of the tags of a line that matches the search.
const HIGHLIGHT: u32 = 8;

/// A column, numbered by its place in [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Begin,
    Duration,
    Row,
    State,
    Class,
    Trace,
}

/// The first name is the one by which clients find the time of a line.
const COLUMNS: [(Column, &str, &str, &str); 6] = [
    (Column::Begin, "Timestamp ns", "Begin of the segment on the trace's clock", "TIMESTAMP"),
    (Column::Duration, "Duration ns", "Duration of the segment", "DURATION"),
    (Column::Row, "Row", "Thread, interrupt or machine that was on the path; empty for a link", "STRING"),
    (Column::State, "State", "State of the row, or name of the link", "STRING"),
    (Column::Class, "Class", "Class of the state, which is its colour", "STRING"),
    (Column::Trace, "Trace", "Trace of the segment", "STRING"),
];

pub(crate) fn columns(request: &ExperimentRequest) -> Answer {
    let column = |(id, (_, name, description, kind)): (usize, &(Column, &str, &str, &str))| json!({"id": id, "name": name, "description": description, "type": kind});
    let columns: Vec<_> = COLUMNS.iter().enumerate().map(column).collect();
    reply::model(&columns, &request.experiment.status())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    low_index: u64,
    size: u64,
    column_ids: Vec<u64>,
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

pub(crate) fn lines(request: &ExperimentRequest) -> Answer {
    let parameters = &request.parameters;
    let column_ids: Vec<u64> = match parameters.numbers("requested_table_column_ids") {
        Some(ids) if !ids.is_empty() => ids.into_iter().filter(|&id| (id as usize) < COLUMNS.len()).collect(),
        _ => (0..COLUMNS.len() as u64).collect(),
    };
    let count = parameters.number("requested_table_count").unwrap_or(100);
    let count = u64::try_from(count).map_err(|_| Refused::bad("`requested_table_count` is negative"))?.min(MAX_LINES);
    let search = Search::read(request)?;
    let parts = request.experiment.traces.iter().map(Part::new).collect::<Result<Vec<_>, _>>()?;
    let size = parts.iter().map(|part| part.index.segments).sum();
    let wanted = match (parameters.number("requested_table_index"), parameters.time()) {
        (Some(index), _) => u64::try_from(index).map_err(|_| Refused::bad("`requested_table_index` is negative"))?,
        (None, Some(t)) => at_time(&parts, t)?,
        (None, None) => 0,
    };
    let low_index = match search.direction {
        Some(direction) => search.find(&parts, wanted, direction)?,
        None => Some(wanted.min(size)),
    };
    let mut table = Table { low_index: low_index.unwrap_or(0), size, column_ids, lines: Vec::new() };
    if low_index.is_some() {
        for line in numbered(&parts, table.low_index).take(count as usize) {
            let (index, part, segment) = line?;
            let tags = if search.matches(part, &segment) { HIGHLIGHT } else { 0 };
            let cell = |&id: &u64| Cell { content: part.content(COLUMNS[id as usize].0, &segment) };
            table.lines.push(Line { index, cells: table.column_ids.iter().map(cell).collect(), tags });
        }
    }
    reply::model(&table, &request.experiment.status())
}

/// The critical path of one trace. The lines of several traces follow each other.
struct Part {
    reading: Arc<Reading>,
    listing: Listing,
    rows: HashMap<RowId, usize>,
    index: Arc<PathIndex>,
}

impl Part {
    fn new(reading: &Arc<Reading>) -> Result<Part, Refused> {
        let index = reading.path_index()?;
        let listing = reading.timeline.listing();
        let rows = listing.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
        Ok(Part { reading: reading.clone(), listing, rows, index })
    }

    fn content(&self, column: Column, PathSegment { interval, row }: &PathSegment) -> String {
        let row = row.and_then(|row| self.rows.get(&row)).map(|&at| &self.listing.rows[at]);
        let state = self.listing.states.get(interval.state.0 as usize);
        match column {
            Column::Begin => (self.reading.origin() + interval.begin).to_string(),
            Column::Duration => (interval.end - interval.begin).to_string(),
            Column::Row => row.map_or_else(String::new, |row| [row.name.as_str(), row.detail.as_str()].join(" ").trim_end().to_owned()),
            Column::State => state.map_or_else(String::new, |state| state.name.clone()),
            Column::Class => state.map_or("", |state| styles::key(state.class)).to_owned(),
            Column::Trace => self.reading.name.clone(),
        }
    }
}

/// Returns the lines from a number on, each with its number and its trace.
fn numbered(parts: &[Part], from: u64) -> impl Iterator<Item = std::io::Result<(u64, &Part, PathSegment)>> {
    let mut first = 0;
    parts.iter().flat_map(move |part| {
        let before = first;
        first += part.index.segments;
        let skipped = from.saturating_sub(before);
        let walk = (skipped < part.index.segments).then(|| part.index.walk(&part.reading.timeline, skipped));
        walk.into_iter().flatten().zip(before + skipped..).map(move |(segment, index)| Ok((index, part, segment?)))
    })
}

/// Returns the number of the first line that ends after a time on the trace's clock.
fn at_time(parts: &[Part], t: u64) -> std::io::Result<u64> {
    let mut before = 0;
    for part in parts {
        let at = part.index.at(&part.reading.timeline, t.saturating_sub(part.reading.origin()))?;
        if at < part.index.segments {
            return Ok(before + at);
        }
        before += part.index.segments;
    }
    Ok(before.saturating_sub(1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Next,
    Previous,
}

/// What a client searches: a pattern for each of some columns.
struct Search {
    patterns: Vec<(Column, Regex)>,
    /// Results for the columns that depend only on trace, row and state, of which there are few.
    known: RefCell<HashMap<(u32, Option<RowId>, StateId), bool>>,
    /// `None` if the lines that match are only marked.
    direction: Option<Direction>,
}

impl Search {
    fn read(request: &ExperimentRequest) -> Result<Search, Refused> {
        let mut patterns = Vec::new();
        for (id, pattern) in request.parameters.object("table_search_expressions").into_iter().flatten() {
            let column = id.parse::<usize>().ok().and_then(|id| COLUMNS.get(id));
            let &(column, ..) = column.ok_or_else(|| Refused::bad(format!("there is no column {id}")))?;
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
        Ok(Search { patterns, known: RefCell::default(), direction })
    }

    fn matches(&self, part: &Part, segment: &PathSegment) -> bool {
        let is_of_time = |column: Column| matches!(column, Column::Begin | Column::Duration);
        let all_match = |of_time: bool| {
            let mut patterns = self.patterns.iter().filter(|(column, _)| is_of_time(*column) == of_time);
            patterns.all(|(column, pattern)| pattern.is_match(&part.content(*column, segment)))
        };
        let key = (part.reading.id, segment.row, segment.interval.state);
        !self.patterns.is_empty() && *self.known.borrow_mut().entry(key).or_insert_with(|| all_match(false)) && all_match(true)
    }

    /// Returns the first matching line at or after a number, or the last one at or before it.
    fn find(&self, parts: &[Part], from: u64, direction: Direction) -> Result<Option<u64>, Refused> {
        let (begin, end) = match direction {
            Direction::Next => (from, u64::MAX),
            Direction::Previous => (0, from),
        };
        let mut last = None;
        for line in numbered(parts, begin) {
            let (index, part, segment) = line?;
            if index > end {
                break;
            }
            if self.matches(part, &segment) {
                last = Some(index);
                if direction == Direction::Next {
                    break;
                }
            }
        }
        Ok(last)
    }
}
