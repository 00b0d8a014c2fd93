//! The screen on which an answer is shown: its size, and text that is wrapped to fit it.
//!
//! The width is that of the terminal. If the output does not go to a terminal, it is the value of
//! the environment variable `COLUMNS`; without that variable, the width is unlimited, so that lines
//! in a pipe or a file stay whole.
//!
//! Text may contain escape sequences for colours (see [`style`](crate::render::style)). They take
//! no room. A colour that is active where a line is split ends there and begins again on the next
//! line, because pagers treat each line by itself.

use std::io::{self, IsTerminal, Write};

/// Columns and lines of the smallest screen for which answers are laid out.
pub const COLUMNS: usize = 80;
pub const LINES: usize = 24;
/// Narrower screens are treated as this wide.
const MIN_COLUMNS: usize = 40;
/// Escape sequence that ends all styles.
const RESET: &str = "\u{1b}[0m";

/// Returns the number of columns of the standard output; `None` if it is unlimited.
pub fn columns() -> Option<usize> {
    let of_terminal = || size().map(|(columns, _)| columns);
    let of_environment = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    let columns = if io::stdout().is_terminal() { of_terminal().or_else(of_environment) } else { of_environment() };
    columns.map(|columns| columns.max(MIN_COLUMNS))
}

/// Returns columns and lines of the terminal to which the standard output goes. `None` if it is
/// none, or if its size is unknown.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns the number of columns that the text takes.
pub fn width(text: &str) -> usize {
    match text.contains('\u{1b}') {
        false => text.chars().count(),
        true => anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum(),
    }
}

/// A character, with the escape sequences before it. Sequences before a space are a glyph of their
/// own, so that a line can be split at the space.
#[derive(Clone, Default)]
struct Glyph {
    escapes: String,
    character: Option<char>,
}

/// Splits a text into its visible characters. Escape sequences at the end are a glyph without a
/// character.
fn glyphs(text: &str) -> Vec<Glyph> {
    let mut glyphs = Vec::new();
    let mut next = Glyph::default();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            if character == ' ' && !next.escapes.is_empty() {
                glyphs.push(std::mem::take(&mut next));
            }
            next.character = Some(character);
            glyphs.push(std::mem::take(&mut next));
            continue;
        }
        // All sequences are those of `anstyle`: `ESC [`, digits and semicolons, `m`.
        next.escapes.push(character);
        for character in characters.by_ref() {
            next.escapes.push(character);
            if character == 'm' {
                break;
            }
        }
    }
    if !next.escapes.is_empty() {
        glyphs.push(next);
    }
    glyphs
}

/// A line under construction, and the style that is active at its end.
#[derive(Default)]
struct Line {
    text: String,
    width: usize,
    style: String,
}

impl Line {
    fn push(&mut self, glyph: &Glyph) {
        if glyph.escapes.ends_with(RESET) {
            self.style.clear();
        } else {
            self.style.push_str(&glyph.escapes);
        }
        self.text.push_str(&glyph.escapes);
        self.text.extend(glyph.character);
        self.width += usize::from(glyph.character.is_some());
    }

    fn spaces(&mut self, count: usize) {
        self.text.push_str(&" ".repeat(count));
        self.width += count;
    }

    /// Ends the line. Returns it, and makes this the next one with that indent.
    fn split(&mut self, indent: usize) -> String {
        let style = std::mem::take(&mut self.style);
        let mut line = std::mem::take(self).text;
        if !style.is_empty() {
            line.push_str(RESET);
        }
        self.spaces(indent);
        self.text.push_str(&style);
        self.style = style;
        line
    }
}

/// Splits a line at spaces into lines of at most `columns` characters. Lines after the first begin
/// with the indent of the first one and two more spaces. A word that is longer than a line is
/// split.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    if width(text) <= columns {
        return vec![text.to_owned()];
    }
    let glyphs = glyphs(text);
    let visible = glyphs.iter().filter_map(|glyph| glyph.character);
    let indent = visible.take_while(|character| *character == ' ').count().min(columns / 2);
    let mut lines = Vec::new();
    let mut line = Line::default();
    line.spaces(indent);
    let mut is_empty = true;
    for word in glyphs.split(|glyph| glyph.character == Some(' ')).filter(|word| !word.is_empty()) {
        let mut word = word;
        while !word.is_empty() {
            let visible = word.iter().filter(|glyph| glyph.character.is_some()).count();
            let room = columns.saturating_sub(line.width + usize::from(!is_empty));
            if visible <= room || is_empty {
                let taken = if visible <= room { word.len() } else { word.len().min(room.max(1)) };
                if !is_empty && visible > 0 {
                    line.spaces(1);
                }
                word[..taken].iter().for_each(|glyph| line.push(glyph));
                word = &word[taken..];
                is_empty &= visible == 0;
            }
            if !word.is_empty() {
                lines.push(line.split(indent + 2));
                is_empty = true;
            }
        }
    }
    if !is_empty {
        lines.push(line.text);
    }
    lines
}

/// Returns the text with its end replaced by `…` if it is wider than `room`.
pub fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut line = Line::default();
    for glyph in glyphs(text) {
        if line.width + 1 >= room {
            break;
        }
        line.push(&glyph);
    }
    line.text.push('…');
    if !line.style.is_empty() {
        line.text.push_str(RESET);
    }
    line.text
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

    #[test]
    fn colours_take_no_room_and_begin_again_on_each_line() {
        let lines = wrapped("\u{1b}[1mone two three\u{1b}[0m four", 9);
        assert_eq!(lines, ["\u{1b}[1mone two\u{1b}[0m", "  \u{1b}[1mthree\u{1b}[0m", "  four"]);
        let indented = wrapped("\u{1b}[2m  one two three\u{1b}[0m", 9);
        assert_eq!(indented, ["  \u{1b}[2mone two\u{1b}[0m", "    \u{1b}[2mthree\u{1b}[0m"]);
        assert_eq!(cut("\u{1b}[1mone two\u{1b}[0m", 4), "\u{1b}[1mone…\u{1b}[0m");
        assert_eq!(width("\u{1b}[1mone two\u{1b}[0m"), 7);
    }
}
