//! The lines of the events: one for each event and loss.

use super::{Column, Found, Line, Search, HIGHLIGHT};
use crate::event_places;
use crate::events::{EventFrom, EventLine, EventLines, EventQuery, MAX_LINES};
use crate::reading::{Analyst, Reading};
use crate::tsp::reply::Refused;
use longpole_trace::EventIndex;
use std::sync::Arc;

/// The columns. The first name is the one by which clients find the time of a line.
pub(super) const COLUMNS: [Column; 6] = [
    ("Timestamp ns", "Time of the event on the trace's clock; of a loss, its end", "TIMESTAMP"),
    ("Event", "Name of the event; empty for a loss", "STRING"),
    ("Who", "The thread, as far as the trace tells it", "STRING"),
    ("CPU", "CPU of the event, if the trace tells it", "STRING"),
    ("Contents", "Values of the fields, or what was lost", "STRING"),
    ("Trace", "Trace of the event", "STRING"),
];

/// Maximum number of items that a search reads.
const MAX_SEARCHED: u64 = 32 << 20;

/// The events of one trace. While the trace is read, there are none yet.
pub(super) struct TraceEvents {
    pub reading: Arc<Reading>,
    pub analyst: Arc<dyn Analyst>,
}

fn content(reading: &Reading, column: usize, line: &EventLine) -> String {
    match column {
        0 => reading.origin().saturating_add_signed(line.t).to_string(),
        1 => line.name.clone(),
        2 => line.who.clone(),
        3 => line.cpu.map_or_else(String::new, |cpu| cpu.to_string()),
        4 => line.text.clone(),
        _ => reading.name.clone(),
    }
}

fn matches(reading: &Reading, search: &Search, line: &EventLine) -> bool {
    !search.patterns.is_empty() && search.patterns.iter().all(|(column, pattern)| pattern.is_match(&content(reading, *column, line)))
}

impl TraceEvents {
    pub fn size(&self) -> u64 {
        self.reading.event_index().map_or(0, EventIndex::items)
    }

    fn read(&self, query: &EventQuery, accept: &dyn Fn(&EventLine) -> bool) -> Result<EventLines, Refused> {
        event_places::read(&*self.analyst, &self.reading, query, accept).map_err(Refused::internal)
    }

    /// Returns the number of the first line at a time on the trace's clock or later; the number of
    /// lines if there is none.
    pub fn at_time(&self, t: u64) -> Result<u64, Refused> {
        let from = EventFrom::Time(t.saturating_sub(self.reading.origin()));
        let found = self.read(&EventQuery { limit: 1, ..EventQuery::all(from) }, &|_| true)?;
        Ok(found.lines.first().map_or(self.size(), |line| line.number))
    }

    /// Returns lines from a number on; those that match the search are marked.
    pub fn lines(&self, from: u64, count: usize, columns: &[usize], search: &Search) -> Result<Vec<Line>, Refused> {
        let mut lines: Vec<Line> = Vec::new();
        let mut next = Some(from);
        while let Some(from) = next.filter(|_| lines.len() < count) {
            let limit = (count - lines.len()).min(MAX_LINES);
            let page = self.read(&EventQuery { limit, ..EventQuery::all(EventFrom::Number(from)) }, &|_| true)?;
            lines.extend(page.lines.iter().map(|line| {
                let tags = if matches(&self.reading, search, line) { HIGHLIGHT } else { 0 };
                Line::new(line.number, columns.iter().map(|&column| content(&self.reading, column, line)), tags)
            }));
            next = page.after;
        }
        Ok(lines)
    }

    /// Returns the first matching line at or after a number.
    pub fn next(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        self.find(from, false, search)
    }

    /// Returns the last matching line at or before a number.
    pub fn previous(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        self.find(from.saturating_add(1), true, search)
    }

    fn find(&self, from: u64, backwards: bool, search: &Search) -> Result<Found, Refused> {
        let mut next = Some(from);
        while let Some(place) = next {
            if place.abs_diff(from) > MAX_SEARCHED {
                let (direction, next) = if backwards { ("before", place.saturating_sub(1)) } else { ("from", place) };
                let detail = format!("no event of the {MAX_SEARCHED} {direction} number {from} matches; search from {next} on");
                return Err(Refused::bad(detail));
            }
            let query = EventQuery { backwards, limit: 1, ..EventQuery::all(EventFrom::Number(place)) };
            let found = self.read(&query, &|line| matches(&self.reading, search, line))?;
            if let Some(line) = found.lines.first() {
                return Ok(Some(line.number));
            }
            next = if backwards { found.before } else { found.after };
        }
        Ok(None)
    }
}
