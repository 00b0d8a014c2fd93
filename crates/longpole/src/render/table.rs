//! Tables for people: aligned columns and readable numbers. Scripts read `--json` instead, so the
//! format may change.
//!
//! A table is built completely and printed at once. It must not be used for output that grows with
//! the trace.
//!
//! On a narrow screen, first the columns that a table can do without are left out, then columns of
//! text are shortened. Numbers are never cut.

use crate::render::shown_paths;
use crate::render::style::{painted, Role};
use crate::render::terminal::screen::{self, width};
pub use longpole_analysis::stats::text::{counted, number, percent};
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

#[derive(Debug)]
struct Column {
    head: String,
    align: Align,
    /// True if the column is left out on a screen that is too narrow for all.
    is_optional: bool,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    /// Meaning of the whole row, for its colour.
    role: Option<Role>,
    /// Meanings of single cells.
    marks: Vec<(usize, Role)>,
}

/// Rows of cells under a header; each column is as wide as its widest cell.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

impl Table {
    /// Makes a table with one entry per column. A leading `>` aligns the column to the right, for
    /// numbers. A `~` before that marks a column that is left out where there is no room for it,
    /// the last one first.
    pub fn new(columns: &[&str]) -> Table {
        let column = |column: &&str| {
            let (is_optional, column) = column.strip_prefix('~').map_or((false, *column), |column| (true, column));
            let (align, head) = column.strip_prefix('>').map_or((Align::Left, column), |head| (Align::Right, head));
            Column { head: head.to_owned(), align, is_optional }
        };
        Table { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty, and cells beyond the last column are ignored.
    pub fn row<I, S>(&mut self, cells: I)
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| plain(cell.into())).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row { cells, role: None, marks: Vec::new() });
    }

    /// Colours the row that was added last.
    pub fn paint(&mut self, role: Role) {
        if let Some(row) = self.rows.last_mut() {
            row.role = Some(role);
        }
    }

    /// Colours a cell of the row that was added last if `is` is true.
    pub fn mark_if(&mut self, is: bool, column: usize, role: Role) {
        if let Some(row) = self.rows.last_mut().filter(|_| is) {
            row.marks.push((column, role));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Prints the table.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.print_within(out, screen::columns().unwrap_or(usize::MAX), &self.rows)
    }

    /// Prints the first rows, at most `most`, and how many more there are. `None` means all.
    pub fn print_first(&self, out: &mut impl Write, most: Option<usize>) -> io::Result<()> {
        let shown = most.unwrap_or(usize::MAX).min(self.rows.len());
        self.print_within(out, screen::columns().unwrap_or(usize::MAX), &self.rows[..shown])?;
        more_rows(out, self.rows.len() - shown)
    }

    fn print_within(&self, out: &mut impl Write, columns: usize, rows: &[Row]) -> io::Result<()> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| width(&column.head)).collect();
        for row in rows {
            for (widest, cell) in widths.iter_mut().zip(&row.cells) {
                *widest = (*widest).max(width(cell));
            }
        }
        let shown = self.chosen(&widths, columns);
        self.shrink(&mut widths, &shown, columns);
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            let heads = Row { cells: self.columns.iter().map(|column| column.head.clone()).collect(), role: None, marks: Vec::new() };
            writeln!(out, "{}", screen::cut(&self.line(&heads, &widths, &shown), columns))?;
        }
        rows.iter().try_for_each(|row| writeln!(out, "{}", screen::cut(&self.line(row, &widths, &shown), columns)))
    }

    /// Returns the indices of the columns for which there is room.
    fn chosen(&self, widths: &[usize], columns: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |&at: &usize| match self.columns[at].align {
            Align::Left => GAP + widths[at].min(READABLE_WIDTH),
            Align::Right => GAP + widths[at],
        };
        while shown.iter().map(needed).sum::<usize>() > columns {
            let Some(last) = shown.iter().rposition(|&at| self.columns[at].is_optional) else { break };
            shown.remove(last);
        }
        shown
    }

    /// Takes from the widest column of text what does not fit, one character after the other.
    fn shrink(&self, widths: &mut [usize], shown: &[usize], columns: usize) {
        let mut total: usize = shown.iter().map(|&at| widths[at] + GAP).sum();
        while total > columns {
            let texts = shown.iter().copied().filter(|&at| self.columns[at].align == Align::Left);
            let Some(widest) = texts.max_by_key(|&at| widths[at]).filter(|&at| widths[at] > MIN_WIDTH) else { return };
            widths[widest] -= 1;
            total -= 1;
        }
    }

    fn line(&self, row: &Row, widths: &[usize], shown: &[usize]) -> String {
        let mut line = String::new();
        for &at in shown {
            let cell = shortened(&row.cells[at], widths[at]);
            let padding = " ".repeat(widths[at].saturating_sub(width(&cell)));
            let mark = row.marks.iter().find(|(column, _)| *column == at);
            let cell = mark.map_or_else(|| cell.clone(), |(_, role)| painted(*role, &cell));
            line.push_str("  ");
            match self.columns[at].align {
                Align::Left => line.extend([cell.as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), &cell]),
            }
        }
        let line = line.trim_end();
        row.role.map_or_else(|| line.to_owned(), |role| painted(role, line))
    }
}

/// Prints how many rows a table has that are not shown; nothing if there are none.
pub fn more_rows(out: &mut impl Write, more: usize) -> io::Result<()> {
    match more {
        0 => Ok(()),
        1 => writeln!(out, "  … 1 more row: --full"),
        more => writeln!(out, "  … {} more rows: --full", number(more as u64)),
    }
}

/// Spaces before each column.
const GAP: usize = 2;
/// Columns of text are not made narrower than this.
const MIN_WIDTH: usize = 12;
/// Columns are left out before columns of text become narrower than this.
const READABLE_WIDTH: usize = 24;

/// Formats a change as a percentage that always has its sign.
pub fn signed_percent(value: f64) -> String {
    format!("{}{}", if value < 0.0 { "-" } else { "+" }, percent(value.abs()))
}

/// Formats the change of a share in points of a percentage, always with its sign.
pub fn signed_points(value: f64) -> String {
    let points = (value * 1000.0).round() / 10.0;
    // Minus zero would be printed as -0.0.
    format!("{:+.1} points", if points == 0.0 { 0.0 } else { points })
}

/// Returns the text with its middle replaced by `…` if it is wider than `room`, because names often
/// differ at their ends. Of a list the first entries stay.
fn shortened(text: &str, room: usize) -> String {
    let length = width(text);
    if length <= room {
        return text.to_owned();
    }
    if text.contains(", ") {
        return screen::cut(text, room);
    }
    let kept = room.saturating_sub(1);
    let (front, back) = (kept - kept / 2, kept / 2);
    let front: String = text.chars().take(front).collect();
    let back: String = text.chars().skip(length - back).collect();
    format!("{front}…{back}")
}

/// Returns the text with control characters escaped, so that a name cannot control the terminal or
/// break the line. Any program may give its threads any name.
pub fn plain(text: String) -> String {
    let text = shown_paths::renamed(text);
    if !text.contains(char::is_control) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Like [`plain`], for a text of several lines, such as errors that quote metadata. Lines after the
/// first are indented.
pub fn plain_lines(text: String) -> String {
    text.lines().map(|line| plain(line.to_owned())).collect::<Vec<_>>().join("\n  ")
}

/// Formats nanoseconds in the unit that leaves one to three digits before the point: `842 ns`,
/// `12.3 us`, `4.56 s`.
pub fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// Formats a rate per second with decimal prefixes: `12.3 Mbit/s`, `842 packets/s`.
pub fn rate(per_second: f64, unit: &str) -> String {
    scaled(per_second, &["", "k", "M", "G", "T"], 1000.0, &format!("{unit}/s"))
}

/// Formats a number of bytes with binary prefixes: `12.3 MiB`.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, &["", "Ki", "Mi", "Gi", "Ti"], 1024.0, "B")
}

fn scaled(value: f64, prefixes: &[&str], step: f64, unit: &str) -> String {
    let mut value = value;
    let mut at = 0;
    while value >= step && at + 1 < prefixes.len() {
        value /= step;
        at += 1;
    }
    let digits = match value {
        _ if at == 0 && value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}{unit}", prefixes[at])
}

/// Formats Unix time in ns as `2026-11-20 23:04:05.123456789Z`.
pub fn utc(ns: i64) -> String {
    // A timestamp's range is that of the years up to 9999, which contains all times in 64 bits.
    let time = jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    format!("{time:.9}").replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(["a", "1,000"]);
        table.row(["längst", "7"]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name    count\n  a       1,000\n  längst      7\n");
    }

    #[test]
    fn a_table_is_no_wider_than_the_screen_if_its_texts_can_be_shortened() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(["a name that is longer than the screen", "1,000"]);
        let mut out = Vec::new();
        table.print_within(&mut out, 30, &table.rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name                   count\n  a name tha…the screen  1,000\n");
    }

    #[test]
    fn optional_columns_give_way_before_texts_become_unreadable() {
        let mut table = Table::new(&["name", "~>min", "~>max", ">total"]);
        table.row(["a name of twenty-four characters", "1", "2", "3"]);
        let mut out = Vec::new();
        table.print_within(&mut out, 40, &table.rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name                        min  total\n  a name of twe…r characters    1      3\n");
    }

    #[test]
    fn the_first_rows_are_followed_by_the_number_of_the_others() {
        let mut table = Table::new(&["name"]);
        ["a", "b", "c"].iter().for_each(|name| table.row([*name]));
        let mut out = Vec::new();
        table.print_first(&mut out, Some(1)).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name\n  a\n  … 2 more rows: --full\n");
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(["\u{1b}[2Ja\nb\u{9b}", "7"]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name                 count\n  \\u{1b}[2Ja\\nb\\u{9b}      7\n");
    }

    #[test]
    fn durations_are_shown_with_three_digits() {
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_000), "1.00 us");
        assert_eq!(duration(12_345), "12.3 us");
        assert_eq!(duration(4_560_000_000), "4.56 s");
    }

    #[test]
    fn rates_and_sizes_choose_their_prefix() {
        assert_eq!(rate(842.0, "packets"), "842 packets/s");
        assert_eq!(rate(12_345_678.0, "bit"), "12.3 Mbit/s");
        assert_eq!(bytes(1536), "1.50 KiB");
    }

    #[test]
    fn unix_time_becomes_a_date() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000000000Z");
        assert_eq!(utc(951_782_400_000_000_001), "2000-02-29 00:00:00.000000001Z");
        assert_eq!(utc(1_763_679_845_123_456_789), "2025-11-20 23:04:05.123456789Z");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999999999Z");
    }
}
