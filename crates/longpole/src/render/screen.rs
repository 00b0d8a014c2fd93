//! The screen on which an answer is shown: its width, and text that is wrapped to fit it.
//!
//! The width is that of the terminal. If the output does not go to a terminal, it is the value of
//! the environment variable `COLUMNS`; without that variable, the width is unlimited, so that lines
//! in a pipe or a file stay whole.

use std::io::{self, IsTerminal, Write};

/// Columns and lines of the smallest screen for which answers are laid out.
pub const COLUMNS: usize = 80;
pub const LINES: usize = 24;
/// Narrower screens are treated as this wide.
const LEAST_COLUMNS: usize = 40;

/// Returns the number of columns of the standard output; `None` if it is unlimited.
pub fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let of_terminal = || rustix::termios::tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    let of_environment = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    let columns = if stdout.is_terminal() { of_terminal().or_else(of_environment) } else { of_environment() };
    columns.map(|columns| columns.max(LEAST_COLUMNS))
}

/// Splits a line at spaces into lines of at most `columns` characters. Lines after the first begin
/// with the indent of the first one and two more spaces. A word that is longer than a line is
/// split.
pub fn wrapped(line: &str, columns: usize) -> Vec<String> {
    if line.chars().count() <= columns {
        return vec![line.to_owned()];
    }
    let indent = line.chars().take_while(|c| *c == ' ').count().min(columns / 2);
    let mut lines = Vec::new();
    let mut current = " ".repeat(indent);
    let mut is_empty = true;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let used = current.chars().count() + usize::from(!is_empty);
            let room = columns.saturating_sub(used);
            if word.len() <= room || is_empty {
                let taken = word.len().min(room.max(1));
                if !is_empty {
                    current.push(' ');
                }
                current.extend(word.drain(..taken));
                is_empty = false;
            }
            if !word.is_empty() {
                lines.push(std::mem::replace(&mut current, " ".repeat(indent + 2)));
                is_empty = true;
            }
        }
    }
    if !is_empty {
        lines.push(current);
    }
    lines
}

/// Passes text on with each line wrapped to the screen.
pub struct Wrap<W: Write> {
    out: W,
    columns: usize,
    line: Vec<u8>,
}

impl<W: Write> Wrap<W> {
    pub fn new(out: W, columns: usize) -> Wrap<W> {
        Wrap { out, columns, line: Vec::new() }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        wrapped(&line, self.columns).iter().try_for_each(|line| writeln!(self.out, "{line}"))
    }
}

impl<W: Write> Write for Wrap<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    self.line.extend_from_slice(rest);
                    self.end_line()?;
                }
                None => self.line.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    /// A line without its end stays until the end comes.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_split_at_spaces_and_keeps_its_indent() {
        let lines = wrapped("  one two three four", 12);
        assert_eq!(lines, ["  one two", "    three", "    four"]);
        assert_eq!(wrapped("short", 12), ["short"]);
    }

    #[test]
    fn no_line_is_wider_than_the_screen_whatever_the_words() {
        for columns in [40, 80] {
            let text = format!("{} {} end", "x".repeat(200), "€".repeat(95));
            let lines = wrapped(&text, columns);
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:?}");
            let letters: String = lines.concat().replace(' ', "");
            assert_eq!(letters, text.replace(' ', ""));
        }
    }

    #[test]
    fn each_line_of_a_text_is_wrapped_by_itself() {
        let mut out = Vec::new();
        let mut wrap = Wrap::new(&mut out, 10);
        write!(wrap, "a b\nlong words here\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a b\nlong words\n  here\n");
    }
}
