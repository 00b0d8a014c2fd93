//! The lines of the critical path: one for each segment.

use super::{Column, Found, Line, Search, HIGHLIGHT};
use crate::path_walk::PathIndex;
use crate::reading::Reading;
use crate::tsp::reply::Refused;
use crate::tsp::styles;
use longpole_analysis::timeline::{Listing, PathSegment, RowId, StateId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The columns. The first name is the one by which clients find the time of a line.
pub(super) const COLUMNS: [Column; 6] = [
    ("Timestamp ns", "Begin of the segment on the trace's clock", "TIMESTAMP"),
    ("Duration ns", "Duration of the segment", "DURATION"),
    ("Row", "Thread, interrupt or machine that was on the path; empty for a link", "STRING"),
    ("State", "State of the row, or name of the link", "STRING"),
    ("Class", "Class of the state, which is its colour", "STRING"),
    ("Trace", "Trace of the segment", "STRING"),
];

/// Columns whose text differs in most lines.
const OF_TIME: std::ops::Range<usize> = 0..2;

/// The critical path of one trace.
pub(super) struct PathLines {
    reading: Arc<Reading>,
    listing: Listing,
    rows: HashMap<RowId, usize>,
    index: Arc<PathIndex>,
    /// Results of the search for the columns that depend only on row and state, of which there are
    /// few.
    known: RefCell<HashMap<(Option<RowId>, StateId), bool>>,
}

impl PathLines {
    pub fn new(reading: &Arc<Reading>) -> Result<PathLines, Refused> {
        let index = reading.path_index()?;
        let listing = reading.timeline.listing();
        let rows = listing.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
        Ok(PathLines { reading: reading.clone(), listing, rows, index, known: RefCell::default() })
    }

    fn content(&self, column: usize, PathSegment { interval, row }: &PathSegment) -> String {
        let row = row.and_then(|row| self.rows.get(&row)).map(|&at| &self.listing.rows[at]);
        let state = self.listing.states.get(interval.state.0 as usize);
        match column {
            0 => (self.reading.origin() + interval.begin).to_string(),
            1 => (interval.end - interval.begin).to_string(),
            2 => row.map_or_else(String::new, |row| [row.name.as_str(), row.detail.as_str()].join(" ").trim_end().to_owned()),
            3 => state.map_or_else(String::new, |state| state.name.clone()),
            4 => state.map_or("", |state| styles::key(state.class)).to_owned(),
            _ => self.reading.name.clone(),
        }
    }

    fn matches(&self, search: &Search, segment: &PathSegment) -> bool {
        let all_match = |of_time: bool| {
            let mut patterns = search.patterns.iter().filter(|(column, _)| OF_TIME.contains(column) == of_time);
            patterns.all(|(column, pattern)| pattern.is_match(&self.content(*column, segment)))
        };
        let key = (segment.row, segment.interval.state);
        !search.patterns.is_empty() && *self.known.borrow_mut().entry(key).or_insert_with(|| all_match(false)) && all_match(true)
    }

    fn walk(&self, from: u64) -> impl Iterator<Item = io::Result<(u64, PathSegment)>> + '_ {
        let walk = (from < self.index.segments).then(|| self.index.walk(&self.reading.timeline, from));
        walk.into_iter().flatten().zip(from..).map(|(segment, number)| Ok((number, segment?)))
    }

    pub fn size(&self) -> u64 {
        self.index.segments
    }

    /// Returns the number of the first line that ends after a time on the trace's clock; the number
    /// of lines if there is none.
    pub fn at_time(&self, t: u64) -> Result<u64, Refused> {
        Ok(self.index.at(&self.reading.timeline, t.saturating_sub(self.reading.origin()))?)
    }

    /// Returns lines from a number on; those that match the search are marked.
    pub fn lines(&self, from: u64, count: usize, columns: &[usize], search: &Search) -> Result<Vec<Line>, Refused> {
        let mut lines = Vec::new();
        for line in self.walk(from).take(count) {
            let (number, segment) = line?;
            let tags = if self.matches(search, &segment) { HIGHLIGHT } else { 0 };
            lines.push(Line::new(number, columns.iter().map(|&column| self.content(column, &segment)), tags));
        }
        Ok(lines)
    }

    /// Returns the first matching line at or after a number.
    pub fn next(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        for line in self.walk(from) {
            let (number, segment) = line?;
            if self.matches(search, &segment) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Returns the last matching line at or before a number.
    pub fn previous(&self, from: u64, search: &Search) -> Result<Found, Refused> {
        let mut last = None;
        for line in self.walk(0) {
            let (number, segment) = line?;
            if number > from {
                break;
            }
            if self.matches(search, &segment) {
                last = Some(number);
            }
        }
        Ok(last)
    }
}
