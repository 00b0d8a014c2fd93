//! The report as one HTML file: the page of the viewer with the data that it shows.
//!
//! The file opens without a server and without a network. It contains the report, all rows, and
//! as much of the timeline as fits: rows with few states completely, of other rows bins of the
//! whole trace, and all states in a slice around the evidence of the verdict. A trace that is small
//! enough is in the file completely.
//!
//! All data are base64 of gzip, so that a name in the trace cannot become markup. The page's
//! content security policy allows its own script and style, by their hashes, and no request.

mod base64;
mod columns;
mod slice;

use crate::reading::TraceCounts;
use crate::{notes, page};
use columns::{put, put_bins, put_states, put_steps, put_value_bins, UsedStates};
use flate2::write::GzEncoder;
use flate2::Compression;
use longpole_analysis::report::Report;
use longpole_analysis::timeline::{Grid, Listing, Picture, Row, RowId, RowKind, Timeline};
use serde_json::{json, Value};
use slice::Slice;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

/// Size that a file should not exceed, in bytes. A mail can contain it, and a browser opens it at
/// once.
const MAX_BYTES: usize = 1_000_000;

/// Least size of the timeline's data in a file, in bytes: a report that is very long makes the file
/// larger.
const MIN_TIMELINE: usize = 100_000;

/// Bins of the whole trace on the finest level, at most. A timeline that fills a large screen has
/// about as many pixels.
const MAX_BINS: u64 = 4096;
/// Bins on the coarsest level, at least: a narrow window has as many pixels.
const MIN_BINS: u64 = 256;

/// Rows with states, at most, if not all states fit: those with most of the path, then the busiest
/// ones.
const MAX_ROWS: usize = 1000;

/// What a row in `longpole-bins` begins with: all states or values follow, or bins.
const WHOLE: u64 = 1;
const BINS: u64 = 0;

/// Share of the timeline's bytes for bins; the others are for the slice.
const BINS_SHARE: f64 = 0.4;

/// Factor by which half as many bins make the data smaller: they repeat less.
const SAVED_BY_HALF: f64 = 1.6;

/// Bytes of a state in a slice, compressed: the first guess.
const STATE_BYTES: usize = 4;
/// Slices that are tried until one uses most of its bytes.
const ATTEMPTS: u32 = 5;

/// Errors of writing the report as HTML.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    #[error("this program was built without the page, which an HTML report contains; install Node, and build it with `make`")]
    NoPage,
    #[error("the states cannot be read from the temporary file: {0}")]
    States(#[from] io::Error),
    #[error("internal error: the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A report to be written as an HTML file.
#[derive(Clone, Copy)]
pub struct HtmlReport<'a> {
    /// Path of the trace; the file contains its last part as the name.
    pub path: &'a Path,
    /// The timeline of the trace, which is complete.
    pub timeline: &'a Timeline,
    pub report: &'a Report,
    /// The folded graph of the critical path, as the page shows it.
    pub graph: Option<&'a Value>,
    pub counts: TraceCounts,
}

/// The timeline's data in a file.
struct Contents {
    rows: Vec<Row>,
    used: UsedStates,
    /// Rows without states in the file.
    left_out: usize,
    /// What has all states; `None` if this is the whole trace.
    slice: Option<Slice>,
    /// Level of the finest bins, and number of levels.
    level: u32,
    levels: u32,
    bins: Vec<u8>,
    states: Vec<u8>,
}

impl HtmlReport<'_> {
    /// Returns the bytes of the file.
    ///
    /// # Errors
    ///
    /// [`HtmlError::NoPage`] if the program was built without the page, and others if the timeline
    /// cannot be read.
    pub fn to_html(&self) -> Result<String, HtmlError> {
        let template = page::text("report.template").ok_or(HtmlError::NoPage)?;
        let script = page::text("viewer.js").ok_or(HtmlError::NoPage)?;
        let style = page::text("viewer.css").ok_or(HtmlError::NoPage)?;
        let report = part("report", &packed(&serde_json::to_vec(self.report)?)?);
        let page_size = template.len() + script.len() + style.len() + report.len();
        let listing = self.timeline.listing();
        let mut budget = MAX_BYTES.saturating_sub(page_size).max(MIN_TIMELINE) / 4 * 3;
        loop {
            let contents = self.contents(&listing, budget)?;
            let head = packed(&serde_json::to_vec(&self.head(&listing, &contents)?)?)?;
            let data = [part("trace", &head), report.clone(), part("bins", &contents.bins), part("states", &contents.states)].concat();
            let size = page_size + data.len() - report.len();
            if size <= MAX_BYTES || budget <= MIN_TIMELINE / 4 * 3 {
                let text = escaped(&self.report.verdict.text());
                let title = escaped(&self.name());
                let values = [("title", title), ("verdict", text), ("style", style), ("data", data), ("script", script)];
                return Ok(filled(&template, &values));
            }
            // The rest of the size is that of rows and names of states.
            budget = budget.saturating_sub(size - MAX_BYTES).max(MIN_TIMELINE / 4 * 3);
        }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Returns what the page asks first: trace, rows, states and notes.
    fn head(&self, listing: &Listing, contents: &Contents) -> Result<Value, HtmlError> {
        let (begin, end) = self.timeline.range();
        let states: Vec<_> = contents.used.all.iter().filter_map(|state| listing.states.get(state.0 as usize)).collect();
        let is_kept = |id: &RowId| contents.rows.iter().any(|row| row.id == *id);
        let path_row = |&state| self.timeline.row_of_path_state(state).filter(is_kept).map(|row| row.0);
        let path_rows: Vec<_> = contents.used.all.iter().map(path_row).collect();
        Ok(json!({
            "trace": {
                "id": 1, "name": self.name(), "path": self.name(), "origin_ns": begin.to_string(), "end": end - begin,
                "phase": "ready", "progress": null, "events": self.counts.events, "lost": self.counts.lost, "version": 1,
                "generation": 0, "live": null, "note": null, "error": null,
            },
            "rows": contents.rows, "states": states, "path": listing.path.map(|path| path.0), "path_rows": path_rows,
            "left_out": contents.left_out,
            "slice": contents.slice.map(|(begin, end)| json!({"begin": begin, "end": end})),
            "level": contents.level, "levels": contents.levels,
            "graph": self.graph,
            "notes": notes::read(self.path).map_or(Value::Null, |mut notes| notes["notes"].take()),
        }))
    }

    /// Returns as much of the timeline as about `budget` bytes hold.
    fn contents(&self, listing: &Listing, budget: usize) -> Result<Contents, HtmlError> {
        let (begin, end) = self.timeline.range();
        let length = end - begin;
        let mut most_rows = MAX_ROWS;
        let all: u64 = listing.rows.iter().map(|row| row.states).sum();
        if all <= (budget / 2) as u64 {
            let rows = with_states(listing, usize::MAX);
            let mut contents = Contents::new(listing, &rows);
            let picture = self.timeline.exact_picture(&rows, (0, length))?;
            contents.put_whole(&rows, &picture)?;
            if contents.bins.len() <= budget {
                return Ok(contents);
            }
        }
        let for_bins = (budget as f64 * BINS_SHARE) as usize;
        let mut most_bins = MAX_BINS;
        let (mut contents, cut) = loop {
            let rows = with_states(listing, most_rows);
            let mut contents = Contents::new(listing, &rows);
            let cut = contents.put_binned(self.timeline, &rows, (length, most_bins))?;
            if contents.bins.len() <= for_bins || rows.len() <= 1 {
                break (contents, cut);
            }
            let mut excess = contents.bins.len() as f64 / for_bins as f64;
            while excess > 1.0 && most_bins > MIN_BINS * 2 {
                most_bins /= 2;
                excess /= SAVED_BY_HALF;
            }
            if excess > 1.0 {
                most_rows = ((rows.len() as f64 / excess) as usize).clamp(1, rows.len() - 1);
            }
        };
        contents.put_slice(self.timeline, &cut, self.evidence(), budget.saturating_sub(contents.bins.len()))?;
        Ok(contents)
    }

    /// Returns where the verdict's evidence is; without any, the begin of the trace.
    fn evidence(&self) -> Slice {
        let (origin, end) = self.timeline.range();
        let since = |t: i64| u64::try_from(t).unwrap_or(0).clamp(origin, end) - origin;
        let evidence = &self.report.verdict.evidence;
        (since(evidence.start_ns), since(evidence.end_ns))
    }
}

impl Contents {
    fn new(listing: &Listing, with_states: &[RowId]) -> Contents {
        let kept = with_heads(listing, with_states);
        let left_out = listing.rows.iter().filter(|row| row.states > 0 && !kept.contains(&row.id)).count();
        let rows = listing.rows.iter().filter(|row| kept.contains(&row.id)).cloned().collect();
        let (used, slice) = (UsedStates::default(), None);
        Contents { rows, used, left_out, slice, level: 0, levels: 0, bins: Vec::new(), states: Vec::new() }
    }

    /// Sets all states of all rows.
    fn put_whole(&mut self, rows: &[RowId], picture: &Picture) -> io::Result<()> {
        let mut bytes = Vec::new();
        for at in 0..rows.len() {
            put(&mut bytes, WHOLE);
            put_all(&mut bytes, &mut self.used, rows, picture, at);
        }
        self.bins = packed(&bytes)?;
        Ok(())
    }

    /// Sets all states of rows with few states, and bins of the others, which are returned.
    fn put_binned(&mut self, timeline: &Timeline, rows: &[RowId], (length, most_bins): (u64, u64)) -> io::Result<Vec<RowId>> {
        self.level = (length / most_bins + 1).next_power_of_two().ilog2();
        self.levels = 1 + (0..).take_while(|finer| (length >> self.level >> finer) > MIN_BINS).count() as u32;
        let mut bytes = Vec::new();
        let mut cut = Vec::new();
        for &row in rows {
            for level in self.level..self.level + self.levels {
                let grid = Grid { level, first: 0, count: (length >> level) + 1 };
                let picture = timeline.picture(&[row], grid)?;
                let Some(both) = picture.rows.first() else { continue };
                let values = picture.values.get(&row);
                let is_exact = values.map_or(both.0.is_exact, |values| values.is_exact);
                if level == self.level && is_exact {
                    put(&mut bytes, WHOLE);
                    put_all(&mut bytes, &mut self.used, &[row], &timeline.exact_picture(&[row], (0, length))?, 0);
                    break;
                }
                if level == self.level {
                    put(&mut bytes, BINS);
                    cut.push(row);
                }
                match values {
                    Some(values) => put_value_bins(&mut bytes, values, level),
                    None => put_bins(&mut bytes, &mut self.used, both, level),
                }
            }
        }
        self.bins = packed(&bytes)?;
        Ok(cut)
    }

    /// Sets all states of these rows in a slice around the evidence that `budget` bytes hold.
    fn put_slice(&mut self, timeline: &Timeline, rows: &[RowId], evidence: Slice, budget: usize) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut most = (budget / STATE_BYTES).max(1) as u64;
        let mut best: Option<(Slice, UsedStates, Vec<u8>)> = None;
        for attempt in 1.. {
            let slice = slice::around(timeline, rows, evidence, most)?;
            let mut used = self.used.clone();
            let mut bytes = Vec::new();
            for &row in rows {
                put_all(&mut bytes, &mut used, &[row], &timeline.exact_picture(&[row], slice)?, 0);
            }
            let states = packed(&bytes)?;
            let size = states.len();
            let fits = size <= budget;
            if best.as_ref().is_none_or(|best| fits && size > best.2.len()) && (fits || most <= 1) {
                best = Some((slice, used, states));
            }
            if best.is_some() && (attempt >= ATTEMPTS || (fits && size * 10 >= budget * 9)) {
                break;
            }
            // Once more with the size of a state that this slice has; surely less if none fits.
            let of_size = (most as f64 * 0.97 * budget as f64 / size.max(1) as f64) as u64;
            most = if attempt < ATTEMPTS { of_size } else { of_size.min(most / 2) }.max(1);
        }
        if let Some((slice, used, states)) = best {
            (self.slice, self.used, self.states) = (Some(slice), used, states);
        }
        Ok(())
    }
}

/// Appends all states or values that the picture has of one of these rows.
fn put_all(bytes: &mut Vec<u8>, used: &mut UsedStates, rows: &[RowId], picture: &Picture, at: usize) {
    match (picture.values.get(&rows[at]), picture.rows.get(at)) {
        (Some(values), _) => put_steps(bytes, values),
        (None, Some(row)) => put_states(bytes, used, row),
        (None, None) => put(bytes, 0),
    }
}

/// Returns the rows with states, in the order of the listing. If there are more than `most`, those
/// that matter least are left out.
fn with_states(listing: &Listing, most: usize) -> Vec<RowId> {
    let mut rows: Vec<&Row> = listing.rows.iter().filter(|row| row.states > 0).collect();
    // Rows with values come before those that are not on the path.
    let order = |row: &Row| (row.kind == RowKind::Path, row.path_ns, row.values.is_some(), row.busy_ns);
    rows.sort_by_key(|row| std::cmp::Reverse(order(row)));
    let kept: HashSet<RowId> = rows.iter().take(most).map(|row| row.id).collect();
    listing.rows.iter().map(|row| row.id).filter(|id| kept.contains(id)).collect()
}

/// Returns these rows and the heads of their groups.
fn with_heads(listing: &Listing, rows: &[RowId]) -> HashSet<RowId> {
    let parents: HashMap<RowId, RowId> = listing.rows.iter().filter_map(|row| Some((row.id, row.parent?))).collect();
    let mut kept = HashSet::new();
    for &row in rows {
        let mut next = Some(row);
        while let Some(row) = next.filter(|row| kept.insert(*row)) {
            next = parents.get(&row).copied();
        }
    }
    kept
}

fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns an element with data, which a browser neither shows nor runs.
fn part(name: &str, bytes: &[u8]) -> String {
    format!("<script type=\"text/plain\" id=\"longpole-{name}\">{}</script>\n", base64::encoded(bytes))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Fills the gaps `{{name}}` of the template. Values are not looked through for gaps.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let mut parts = template.split("{{");
    let mut html = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        html.push_str(values.iter().find(|value| value.0 == name).map_or("", |value| &value.1));
        html.push_str(rest);
    }
    html
}
