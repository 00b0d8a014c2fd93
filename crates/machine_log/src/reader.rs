//! Reads a log line by line, in bounded memory.

use crate::error::{Error, Fault, LineError, LineErrorKind};
use crate::fields::Fields;
use crate::line::{Line, LONGEST_LINE};
use crate::parse;
use crate::repeats::{self, Place, Repeats};
use std::io::{self, Read};
use std::ops::Range;

/// Initial size of the buffer in bytes. It grows only for longer lines.
const BUFFER: usize = 1 << 16;

/// Returns true if a file that begins with these bytes is a machine log: its first line is an
/// object with `t` or `queue`.
///
/// A log whose first line is invalid also counts as one, so that its reader can report the error.
pub fn is_machine_log(begin: &[u8]) -> bool {
    let first = begin.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let mut fields = Fields::default();
    if parse::parse(first, &mut fields).is_ok() {
        return fields.t.is_some() || fields.queue.is_some();
    }
    let has = |key: &[u8]| first.windows(key.len()).any(|window| window == key);
    first.trim_ascii_start().starts_with(b"{") && (has(b"\"t\"") || has(b"\"queue\""))
}

/// Reads a machine log from begin to end.
///
/// It has its own buffer, so the input need not be buffered. Blank lines are skipped.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the buffer that was read from the input and not consumed yet.
    held: Range<usize>,
    /// Offset of the buffer's first byte in the input.
    offset: u64,
    /// Number of the line that was read last.
    line: u64,
    /// Time of the line that was read last.
    t: u64,
    /// Set after an error was returned: no more lines follow.
    has_failed: bool,
    /// Set when the input has ended, so that it is not read again.
    has_ended: bool,
}

/// A line, or the repetition of an earlier one.
#[derive(Debug)]
pub enum Next<'a, T> {
    /// A line that is not in the cache.
    Line {
        /// Number of the line in the input, from 1.
        number: u64,
        /// The line.
        line: Line<'a>,
        /// Place for the caller's value for this line.
        slot: Slot<'a, T>,
    },
    /// A line that differs from an earlier one only in its time.
    Repeat {
        /// Number of the line in the input, from 1.
        number: u64,
        /// Time of the line in ns.
        t: u64,
        /// The caller's value for the earlier line.
        value: &'a T,
    },
}

/// Place in the cache for a value that is returned with repetitions of the line.
#[derive(Debug)]
pub struct Slot<'a, T>(Option<(&'a mut Place<T>, &'a [u8])>);

impl<T> Slot<'_, T> {
    /// Stores a value until another line replaces it. Nothing is stored for long lines and for
    /// lines that do not begin with their time.
    pub fn keep(self, value: T) {
        if let Some((place, rest)) = self.0 {
            place.keep(rest, value);
        }
    }
}

impl<R: Read> Reader<R> {
    /// Returns a reader at the begin of the log.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, buffer: Vec::new(), held: 0..0, offset: 0, line: 0, t: 0, has_failed: false, has_ended: false }
    }

    /// Returns the next line with its number in the input, from 1; `None` at the end.
    ///
    /// # Errors
    ///
    /// The input cannot be read, the line is not valid in a machine log, or its time is before that
    /// of an earlier line. Later calls return `None`.
    pub fn next_line(&mut self) -> Result<Option<(u64, Line<'_>)>, Error> {
        let Some(place) = self.advance()? else { return Ok(None) };
        let Reader { buffer, offset, line: number, t, has_failed, .. } = self;
        let begin = *offset + place.start as u64;
        match parse(&buffer[place], t) {
            Ok(line) => Ok(Some((*number, line))),
            Err(fault) => Err(refuse(has_failed, *number, begin, fault)),
        }
    }

    /// Like [`Reader::next_line`], but does not parse a line again that differs from an earlier one
    /// only in its time.
    ///
    /// The value that the caller stores for a line in its [`Slot`] is returned with the repetitions
    /// of that line. Most lines of a long log are repetitions, and reading them in this way takes
    /// about a fifth of the time.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::next_line`].
    #[inline]
    pub fn next_with<'a, T: Default>(&'a mut self, repeats: &'a mut Repeats<T>) -> Result<Option<Next<'a, T>>, Error> {
        let Some(place) = self.advance()? else { return Ok(None) };
        let Reader { buffer, offset, line: number, t: now, has_failed, .. } = self;
        let (number, begin) = (*number, *offset + place.start as u64);
        let text = &buffer[place];
        let slot = match repeats::split(text).filter(|&(t, _)| t >= *now) {
            Some((t, rest)) => {
                let place = repeats.place(rest);
                if place.holds(rest) {
                    *now = t;
                    return Ok(Some(Next::Repeat { number, t, value: place.value() }));
                }
                Some((place, rest))
            }
            None => None,
        };
        match parse(text, now) {
            Ok(line) => Ok(Some(Next::Line { number, line, slot: Slot(slot) })),
            Err(fault) => Err(refuse(has_failed, number, begin, fault)),
        }
    }

    /// Finds the next line in the buffer that is not blank.
    #[inline]
    fn advance(&mut self) -> Result<Option<Range<usize>>, Error> {
        while !self.has_failed {
            let Some(length) = self.find_end()? else { return Ok(None) };
            let place = self.held.start..self.held.start + length;
            // The last line may have no newline.
            self.held.start = (place.end + 1).min(self.held.end);
            self.line += 1;
            let text = &self.buffer[place.clone()];
            if text.len() > LONGEST_LINE {
                return Err(refuse(&mut self.has_failed, self.line, self.offset + place.start as u64, LineErrorKind::TooLong.into()));
            }
            if text.first() == Some(&b'{') || !text.trim_ascii().is_empty() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Returns the length of the next line and loads all of it into the buffer. For a line that is
    /// too long, the returned length may be less than its full length.
    #[inline]
    fn find_end(&mut self) -> Result<Option<usize>, Error> {
        let mut searched = 0;
        loop {
            let held = &self.buffer[self.held.clone()];
            if let Some(at) = memchr::memchr(b'\n', &held[searched..]) {
                return Ok(Some(searched + at));
            }
            searched = held.len();
            if searched > LONGEST_LINE {
                return Ok(Some(searched));
            }
            if self.has_ended || !self.fill()? {
                return Ok((searched > 0).then_some(searched));
            }
        }
    }

    /// Reads more input after the bytes in the buffer. Returns `false` at the end of the input.
    #[cold]
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.copy_within(self.held.clone(), 0);
        self.offset += self.held.start as u64;
        self.held = 0..self.held.len();
        if self.held.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).max(BUFFER), 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.held.end..]) {
                Ok(count) => {
                    self.held.end += count;
                    self.has_ended = count == 0;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_failed = true;
                    return Err(error.into());
                }
            }
        }
    }
}

/// Parses a line. Its time must not be before `last`, and becomes the new `last`.
#[inline]
fn parse<'a>(text: &'a [u8], last: &mut u64) -> Result<Line<'a>, Fault> {
    let mut fields = Fields::default();
    parse::parse(text, &mut fields)?;
    match fields.t {
        Some(t) if t < *last => return Err(LineErrorKind::TimeDecreases { t, before: *last }.into()),
        Some(t) => *last = t,
        None => {}
    }
    fields.line()
}

#[cold]
fn refuse(has_failed: &mut bool, line: u64, begin: u64, Fault { kind, column }: Fault) -> Error {
    *has_failed = true;
    LineError { line, column, byte: begin + column.saturating_sub(1), kind }.into()
}
