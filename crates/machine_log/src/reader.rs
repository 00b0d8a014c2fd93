//! Lines one by one, in bounded memory.

use crate::error::{Error, Fault, LineError, LineErrorKind};
use crate::fields::Fields;
use crate::line::Line;
use crate::repeats::{self, Place, Repeats};
use std::io::{self, Read};
use std::ops::Range;

/// Most bytes of a line, without its end. A longer line is refused rather than kept.
pub const LONGEST_LINE: usize = 1 << 20;

/// Bytes of the buffer at first. It grows for long lines only.
const BUFFER: usize = 1 << 16;

/// Whether a file that begins with these bytes is a machine log: its first line is an object with
/// `t` or `queue`.
///
/// A log whose first line is wrong counts as one, so that its reader can say what is wrong.
pub fn is_machine_log(begin: &[u8]) -> bool {
    let first = begin.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let mut fields = Fields::default();
    if fields.parse(first).is_ok() {
        return fields.t.is_some() || fields.queue.is_some();
    }
    let has = |key: &[u8]| first.windows(key.len()).any(|window| window == key);
    first.trim_ascii_start().starts_with(b"{") && (has(b"\"t\"") || has(b"\"queue\""))
}

/// Reads a machine log from its begin to its end.
///
/// It has a buffer of its own, so its input needs none. Blank lines are passed over.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read from the input and not yet passed over.
    held: Range<usize>,
    /// Offset of the buffer's first byte in the input.
    offset: u64,
    /// Number of the line that was read last.
    line: u64,
    /// Time of the line that was read last.
    t: u64,
    /// An error was returned: there are no more lines.
    has_failed: bool,
    /// The input has ended; it is not asked again.
    has_ended: bool,
}

/// A line, or the repetition of one.
#[derive(Debug)]
pub enum Next<'a, T> {
    /// A line unlike those that are kept.
    Line {
        /// Its number in the input, from 1.
        number: u64,
        /// The line.
        line: Line<'a>,
        /// Keeps what the caller makes of it.
        slot: Slot<'a, T>,
    },
    /// A line that differs from an earlier one in nothing but its time.
    Repeat {
        /// Its number in the input, from 1.
        number: u64,
        /// Its time in ns.
        t: u64,
        /// What the caller made of the earlier line.
        value: &'a T,
    },
}

/// Where a value for the repetitions of a line can be kept.
#[derive(Debug)]
pub struct Slot<'a, T>(Option<(&'a mut Place<T>, &'a [u8])>);

impl<T> Slot<'_, T> {
    /// Keeps a value until another line takes its place. Nothing is kept of lines that do not begin
    /// with their time, and of long ones.
    pub fn keep(self, value: T) {
        if let Some((place, rest)) = self.0 {
            place.keep(rest, value);
        }
    }
}

impl<R: Read> Reader<R> {
    /// A reader at the begin of the log.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, buffer: Vec::new(), held: 0..0, offset: 0, line: 0, t: 0, has_failed: false, has_ended: false }
    }

    /// The next line with its number in the input, from 1; `None` at the end.
    ///
    /// # Errors
    ///
    /// The input cannot be read, or the line is no line of a machine log, or its time is before
    /// that of an earlier one. Later calls return `None`.
    pub fn next_line(&mut self) -> Result<Option<(u64, Line<'_>)>, Error> {
        let Some(place) = self.advance()? else { return Ok(None) };
        let Reader { buffer, offset, line: number, t, has_failed, .. } = self;
        let begin = *offset + place.start as u64;
        match parse(&buffer[place], t) {
            Ok(line) => Ok(Some((*number, line))),
            Err(fault) => Err(refuse(has_failed, *number, begin, fault)),
        }
    }

    /// As [`Reader::next_line`]; a line that differs from an earlier one only in its time is not
    /// parsed again.
    ///
    /// What the caller keeps of a line by its [`Slot`] comes back with the lines that repeat it.
    /// Most lines of a long log do, and reading them so takes about a fifth of the time.
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

    /// Finds the next line that is not blank in the buffer.
    #[inline]
    fn advance(&mut self) -> Result<Option<Range<usize>>, Error> {
        while !self.has_failed {
            let Some(length) = self.find_end()? else { return Ok(None) };
            let place = self.held.start..self.held.start + length;
            // The last line may lack its end.
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

    /// The length of the next line, all of which is held then; one that is too long may be longer.
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

    /// Reads more behind what is held. Returns `false` at the end of the input.
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

/// A line whose time is not before the last one, which it becomes.
#[inline]
fn parse<'a>(text: &'a [u8], last: &mut u64) -> Result<Line<'a>, Fault> {
    let mut fields = Fields::default();
    fields.parse(text)?;
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
