//! Tables for people: aligned columns and readable numbers. Scripts read `--json` instead, so the
//! format may change.
//!
//! A table is built completely and printed at once. It must not be used for output that grows with
//! the trace.

use crate::render::screen;
use crate::render::shown_paths;
pub use longpole_analysis::stats::text::{counted, number, percent};
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Rows of cells under a header; each column is as wide as its widest cell.
#[derive(Debug, Default)]
pub struct Table {
    header: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with one entry per column. A leading `>` aligns the column to the right, for
    /// numbers.
    pub fn new(columns: &[&str]) -> Table {
        let mut table = Table::default();
        for column in columns {
            let (align, name) = match column.strip_prefix('>') {
                Some(name) => (Align::Right, name),
                None => (Align::Left, *column),
            };
            table.header.push(name.to_owned());
            table.align.push(align);
        }
        table
    }

    /// Adds a row. Missing cells are empty, and cells beyond the last column are ignored.
    pub fn row<I, S>(&mut self, cells: I)
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let mut row: Vec<String> = cells.into_iter().map(|cell| plain(cell.into())).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table. On a screen that is too narrow for it, the widest columns of text are
    /// shortened.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.print_within(out, screen::columns().unwrap_or(usize::MAX))
    }

    fn print_within(&self, out: &mut impl Write, columns: usize) -> io::Result<()> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(cell)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        self.shrink(&mut widths, columns);
        if self.header.iter().any(|cell| !cell.is_empty()) {
            writeln!(out, "{}", shortened_at_end(&self.line(&self.header, &widths), columns))?;
        }
        for row in &self.rows {
            writeln!(out, "{}", shortened_at_end(&self.line(row, &widths), columns))?;
        }
        Ok(())
    }

    /// Takes from the widest column of text what does not fit, one character after the other.
    fn shrink(&self, widths: &mut [usize], columns: usize) {
        let mut total: usize = widths.iter().map(|width| width + GAP).sum();
        while total > columns {
            let texts = widths.iter_mut().zip(&self.align).filter(|(_, align)| **align == Align::Left);
            let Some((widest, _)) = texts.max_by_key(|(width, _)| **width).filter(|(width, _)| **width > LEAST_WIDTH) else { return };
            *widest -= 1;
            total -= 1;
        }
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, align), &widest) in cells.iter().zip(&self.align).zip(widths) {
            let cell = shortened(cell, widest);
            let padding = " ".repeat(widest.saturating_sub(width(&cell)));
            line.push_str("  ");
            match align {
                Align::Left => line.extend([cell.as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), &cell]),
            }
        }
        line.trim_end().to_owned()
    }
}

/// Spaces before each column.
const GAP: usize = 2;
/// Columns are not made narrower than this.
const LEAST_WIDTH: usize = 12;

/// Returns the text with its middle replaced by `…` if it is wider than `room`. Names often differ
/// at their ends.
fn shortened(text: &str, room: usize) -> String {
    let length = width(text);
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let (front, back) = (kept - kept / 2, kept / 2);
    let front: String = text.chars().take(front).collect();
    let back: String = text.chars().skip(length - back).collect();
    format!("{front}…{back}")
}

/// Returns the text with its end replaced by `…` if it is wider than `room`.
fn shortened_at_end(text: &str, room: usize) -> String {
    match width(text) > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
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

fn width(cell: &str) -> usize {
    cell.chars().count()
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
    let (seconds, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:09}Z")
}

/// Converts days since 1970-01-01 to the civil date. Years begin in March in this computation, so
/// that the leap day is the last day of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
        table.print_within(&mut out, 30).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name                   count\n  a name tha…the screen  1,000\n");
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
