//! The output of the recorded command as events: its lines, with one lane for each of its two
//! streams.
//!
//! The code that passes the output on hands it to [`Lines`] as it arrives, from any thread. Once a
//! period the recorder writes the gathered lines as one packet. The lines are `log` events of the
//! overflow class that every recording has, so every reader knows them. A stream holds at most 4
//! MiB of events per period; further lines are counted as lost. So a command that prints gigabytes
//! uses up neither memory nor the disk.

use crate::clock::Clock;
use crate::files::mapping::{Access, Mapping};
use crate::output::account::Account;
use crate::output::files::Files;
use crate::output::packet::padded;
use crate::output::recording::component;
use crate::output::stream::{self, AppendError, Body, HeaderValues, StreamFileWriter};
use longpole_abi::Kind;
use rustix::fs::MemfdFlags;
use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Limit of the bytes of events that wait for the recorder.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Length in bytes from which a line becomes several events.
const MAX_EVENT_BYTES: usize = 4 << 10;
/// `ring` of the packets: a number that no ring has.
const NO_RING: u32 = u32::MAX;

/// Receives the bytes of one output stream.
#[derive(Clone, Debug)]
pub struct Lines {
    clock: Clock,
    gathered: Arc<Mutex<Gathered>>,
}

#[derive(Debug, Default)]
struct Gathered {
    /// Events in their final form.
    events: Vec<u8>,
    count: u64,
    /// Time of the first event.
    begin: u64,
    /// Time of the newest event.
    end: u64,
    lost: u64,
    /// Begin of a line whose end has not arrived.
    open: Vec<u8>,
    /// `open` continues a line that was too long for one event.
    rest: bool,
}

/// The command, as its lines name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub pid: Option<i32>,
    /// Path of the program.
    pub program: Option<&'a str>,
}

/// Output streams of the command whose lines are recorded.
#[derive(Debug, Default)]
pub(crate) struct CommandOutputs {
    streams: Vec<Output>,
}

/// The recorder's state of one output stream of the command.
#[derive(Debug)]
struct Output {
    name: &'static str,
    lines: Lines,
    lane: Option<usize>,
    discarded: u64,
    position: u64,
    due: Instant,
}

impl Lines {
    /// Adds bytes that were printed just now.
    pub fn push(&self, bytes: &[u8]) {
        let now = self.clock.now();
        let mut gathered = self.gathered();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let ends = lines.peek().is_some();
            gathered.extend(line, now);
            if ends {
                gathered.close(now);
            }
        }
    }

    /// Ends the stream; the last line need not end with a newline.
    pub fn finish(&self) {
        let now = self.clock.now();
        let mut gathered = self.gathered();
        if !gathered.open.is_empty() {
            gathered.close(now);
        }
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Gathered {
    fn extend(&mut self, mut piece: &[u8], now: u64) {
        while self.open.len() + piece.len() > MAX_EVENT_BYTES {
            let (now_full, later) = piece.split_at(MAX_EVENT_BYTES - self.open.len());
            self.open.extend_from_slice(now_full);
            self.event(now);
            self.rest = true;
            piece = later;
        }
        self.open.extend_from_slice(piece);
    }

    fn close(&mut self, now: u64) {
        // The end of a long line may add no text.
        if !(self.rest && self.open.is_empty()) {
            self.event(now);
        }
        self.rest = false;
    }

    /// Turns the open line into an event: a header, the text, and NULs up to a multiple of 8 bytes.
    fn event(&mut self, now: u64) {
        let room = MAX_WAITING_BYTES - self.events.len();
        // Most lines without room are recognized before they are decoded.
        let text = if room < self.open.len() { Cow::default() } else { String::from_utf8_lossy(&self.open) };
        let size = (8 + text.len() + 1).next_multiple_of(8);
        if size > room || text.len() < self.open.len() {
            self.lost += 1;
        } else {
            if self.events.is_empty() {
                self.begin = now;
            }
            self.end = now;
            self.count += 1;
            let at = self.events.len();
            self.events.extend_from_slice(&(u64::from(Kind::Log as u16) | now << 16).to_ne_bytes());
            // A NUL would end the text.
            self.events.extend(text.bytes().map(|byte| if byte == 0 { b' ' } else { byte }));
            self.events.resize(at + size, 0);
        }
        self.open.clear();
    }
}

impl CommandOutputs {
    /// Records the lines of one of the command's streams from now on. `name`: `stdout` or `stderr`.
    pub fn take_lines(&mut self, name: &'static str, clock: Clock) -> Lines {
        let lines = Lines { clock, gathered: Arc::default() };
        self.streams.push(Output { name, lines: lines.clone(), lane: None, discarded: 0, position: 0, due: Instant::now() });
        lines
    }

    /// Writes the gathered lines once a `period`; with `last`, in any case.
    pub fn write(&mut self, last: bool, period: Duration, command: Writer<'_>, files: &mut Files, account: &mut Account) {
        let now = Instant::now();
        for output in self.streams.iter_mut().filter(|output| last || now >= output.due) {
            output.due = now + period;
            let gathered = {
                let mut gathered = output.lines.gathered();
                let open = std::mem::take(&mut gathered.open);
                let rest = gathered.rest;
                std::mem::replace(&mut *gathered, Gathered { open, rest, ..Gathered::default() })
            };
            if gathered.events.is_empty() && gathered.lost == 0 {
                continue;
            }
            if let Err(error) = output.write(&gathered, command, files, account) {
                let lost = gathered.count + gathered.lost;
                account.lose(lost);
                output.discarded += lost;
                account.note(format!("lines of the command's {} could not be written and count as lost: {error}", output.name));
            }
        }
    }

    /// Makes the next lines open new lanes in the next chunk. The gathered lines must be written.
    pub fn leave_lanes(&mut self) {
        for output in &mut self.streams {
            (output.lane, output.discarded) = (None, 0);
        }
    }
}

impl Output {
    fn write(&mut self, gathered: &Gathered, command: Writer<'_>, files: &mut Files, account: &mut Account) -> io::Result<()> {
        let memory = memory(&gathered.events)?;
        let index = match self.lane {
            Some(index) => index,
            None => self.open_lane(gathered, command, files, account)?,
        };
        let Some(lane) = files.stream_files.get_mut(index) else { return Ok(()) };
        let (begin, end) = if gathered.events.is_empty() { (lane.end, lane.end) } else { (gathered.begin, gathered.end) };
        let position = self.position + gathered.events.len() as u64;
        let discarded = self.discarded + gathered.lost;
        let stamp = HeaderValues { begin, end, discarded, position, ..stamp(self.name, command.pid) };
        let body =
            memory.as_ref().map(|mapping| Body { mapping, offset: 0, length: gathered.events.len(), aligned: false, identity: None });
        lane.reserve(gathered.events.len())?;
        let written = lane.append(stamp, body).map_err(|error| match error {
            AppendError::Io(error) => error,
            AppendError::Source => io::Error::other("they no longer fit into memory"),
        })?;
        self.position = position;
        self.discarded = discarded;
        account.totals.written += written;
        account.totals.recorded += gathered.events.len() as u64;
        account.lose(gathered.lost);
        Ok(())
    }

    fn open_lane(&mut self, gathered: &Gathered, command: Writer<'_>, files: &mut Files, account: &mut Account) -> io::Result<usize> {
        let program = command.program.unwrap_or("command");
        let label = Path::new(program).file_name().map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned());
        let number = files.stream_files.next() as u32;
        let name = format!("{}-{}-{number}", component(&label), self.name);
        let begin = if gathered.events.is_empty() { self.lines.clock.now() } else { gathered.begin };
        let first = HeaderValues { begin, end: begin, ..stamp(self.name, command.pid) };
        let destination = &files.destination;
        let lane = StreamFileWriter::create(&destination.user(), &name, (number, 0), destination.uuid, &label, &first)?;
        account.totals.written += stream::NEW_FILE_BYTES;
        let index = files.stream_files.add(lane);
        self.lane = Some(index);
        Ok(index)
    }
}

/// Header values without times. The tid belongs to no thread, because the thread that printed a
/// line is unknown.
fn stamp(name: &'static str, pid: Option<i32>) -> HeaderValues {
    let tid = if name == "stdout" { -1 } else { -2 };
    HeaderValues { begin: 0, end: 0, discarded: 0, pid: pid.unwrap_or(-1), tid, position: 0, ring: NO_RING, thread: padded(name) }
}

/// Events in a mapping, as lanes need them.
fn memory(events: &[u8]) -> io::Result<Option<Mapping>> {
    if events.is_empty() {
        return Ok(None);
    }
    let file = rustix::fs::memfd_create("lines", MemfdFlags::CLOEXEC)?;
    let mut rest = events;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    Mapping::new(file.as_fd(), events.len(), Access::Read).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockSource;

    fn lines() -> Lines {
        let clock = Clock { source: ClockSource::MonoRaw, frequency: 1_000_000_000, offset_s: 0, offset: 0 };
        Lines { clock, gathered: Arc::default() }
    }

    /// The texts as a reader sees them.
    fn texts(lines: &Lines) -> Vec<String> {
        let gathered = lines.gathered();
        let (mut at, mut texts) = (0, Vec::new());
        while at < gathered.events.len() {
            let text = &gathered.events[at + 8..];
            let length = text.iter().position(|byte| *byte == 0).unwrap();
            texts.push(String::from_utf8(text[..length].to_vec()).unwrap());
            at += (8 + length + 1).next_multiple_of(8);
        }
        assert_eq!(texts.len() as u64, gathered.count);
        texts
    }

    #[test]
    fn lines_are_whole_however_the_bytes_arrive() {
        let lines = lines();
        for piece in ["a", "b\n\nc", "", "d\n", "end"] {
            lines.push(piece.as_bytes());
        }
        assert_eq!(texts(&lines), ["ab", "", "cd"]);
        lines.finish();
        lines.finish();
        assert_eq!(texts(&lines), ["ab", "", "cd", "end"]);
    }

    #[test]
    fn a_long_line_becomes_several_events_and_invalid_bytes_are_replaced() {
        let lines = lines();
        lines.push(&vec![b'x'; 2 * MAX_EVENT_BYTES]);
        lines.push(b"\n\xff\0y\n");
        let texts = texts(&lines);
        assert_eq!(texts.iter().map(String::len).collect::<Vec<_>>(), [MAX_EVENT_BYTES, MAX_EVENT_BYTES, 5]);
        assert_eq!(texts[2], "\u{fffd} y");
    }

    #[test]
    fn lines_without_room_are_counted_as_lost() {
        let lines = lines();
        let line = [&[b'x'; 1015][..], b"\n"].concat();
        for _ in 0..5000 {
            lines.push(&line);
        }
        let gathered = lines.gathered();
        assert_eq!(gathered.events.len(), MAX_WAITING_BYTES);
        assert_eq!((gathered.count, gathered.lost), (4096, 904));
    }
}
