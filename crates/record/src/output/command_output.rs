//! What the recorded command prints, as events: its lines, on a lane of their own for each of its two streams.
//!
//! Whoever passes the output on gives it to [`Lines`] as it comes, from any thread; once a period the recorder writes what has gathered as one packet.
//! The lines are `log` events of the class that every recording has, so that every reader knows them. A stream keeps 4 MiB of lines for a period: what
//! is more is counted as lost, so that a command that prints gigabytes costs neither memory nor the disk.

use crate::clock::Clock;
use crate::output::packet::padded;
use crate::output::recording::component;
use crate::output::stream::{self, AppendError, Body, Lane, Stamp};
use crate::recorder::Recorder;
use crate::runtime_dir::mapping::{Access, Mapping};
use longpole_abi::Kind;
use rustix::fs::MemfdFlags;
use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Bytes of events that wait for the recorder.
const MOST: usize = 4 << 20;
/// A longer line is several events.
const LONGEST: usize = 4 << 10;
/// `ring` of the packets: no ring has that number.
const NO_RING: u32 = u32::MAX;

/// Takes a stream's bytes.
#[derive(Clone, Debug)]
pub struct Lines {
    clock: Clock,
    gathered: Arc<Mutex<Gathered>>,
}

#[derive(Debug, Default)]
struct Gathered {
    /// Events, in their final form.
    events: Vec<u8>,
    count: u64,
    /// Times of the first and the last of them.
    begin: u64,
    end: u64,
    lost: u64,
    /// Begin of a line whose end has not come, and whether it is the rest of a longer one.
    open: Vec<u8>,
    rest: bool,
}

/// A stream of the command's, as the recorder has it.
#[derive(Debug)]
pub(crate) struct Output {
    name: &'static str,
    lines: Lines,
    lane: Option<usize>,
    discarded: u64,
    position: u64,
    due: Instant,
}

impl Lines {
    /// What was printed just now.
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

    /// There is no more: a line that did not end is one all the same.
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
        while self.open.len() + piece.len() > LONGEST {
            let (now_full, later) = piece.split_at(LONGEST - self.open.len());
            self.open.extend_from_slice(now_full);
            self.event(now);
            self.rest = true;
            piece = later;
        }
        self.open.extend_from_slice(piece);
    }

    fn close(&mut self, now: u64) {
        // The end of a long line may bring nothing new.
        if !(self.rest && self.open.is_empty()) {
            self.event(now);
        }
        self.rest = false;
    }

    /// The open line becomes an event: a header, the text, and NULs up to the next 8 bytes.
    fn event(&mut self, now: u64) {
        let room = MOST - self.events.len();
        // Most of what finds no room needs no look.
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

impl Recorder {
    /// The lines of one of the command's streams become events from now on. `name`: `stdout` or `stderr`.
    pub fn take_lines(&mut self, name: &'static str) -> Lines {
        let lines = Lines { clock: self.clock, gathered: Arc::default() };
        self.outputs.push(Output { name, lines: lines.clone(), lane: None, discarded: 0, position: 0, due: Instant::now() });
        lines
    }

    /// Writes what has gathered, once a period; `last`: whatever there is.
    pub(crate) fn write_outputs(&mut self, last: bool) {
        let now = Instant::now();
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.iter_mut().filter(|output| last || now >= output.due) {
            output.due = now + self.config.period;
            let gathered = {
                let mut gathered = output.lines.gathered();
                let open = std::mem::take(&mut gathered.open);
                let rest = gathered.rest;
                std::mem::replace(&mut *gathered, Gathered { open, rest, ..Gathered::default() })
            };
            if gathered.events.is_empty() && gathered.lost == 0 {
                continue;
            }
            if let Err(error) = self.write_output(output, &gathered) {
                let lost = gathered.count + gathered.lost;
                self.total.lost = self.total.lost.saturating_add(lost);
                output.discarded += lost;
                self.diagnostic(format!("lines of the command's {} could not be written and count as lost: {error}", output.name));
            }
        }
        self.outputs = outputs;
    }

    /// What comes next goes to lanes of the next chunk.
    pub(crate) fn leave_output_lanes(&mut self) {
        self.write_outputs(true);
        for output in &mut self.outputs {
            (output.lane, output.discarded) = (None, 0);
        }
    }

    fn write_output(&mut self, output: &mut Output, gathered: &Gathered) -> io::Result<()> {
        let memory = memory(&gathered.events)?;
        let index = match output.lane {
            Some(index) => index,
            None => self.output_lane(output, gathered)?,
        };
        let Some(lane) = &mut self.lanes[index] else { return Ok(()) };
        let (begin, end) = if gathered.events.is_empty() { (lane.end, lane.end) } else { (gathered.begin, gathered.end) };
        let position = output.position + gathered.events.len() as u64;
        let discarded = output.discarded + gathered.lost;
        let stamp = Stamp { begin, end, discarded, position, ..stamp(output.name, self.ancestor) };
        let body =
            memory.as_ref().map(|mapping| Body { mapping, offset: 0, length: gathered.events.len(), aligned: false, identity: None });
        lane.reserve(gathered.events.len())?;
        let written = lane.append(stamp, body).map_err(|error| match error {
            AppendError::Io(error) => error,
            AppendError::Source => io::Error::other("their memory is gone"),
        })?;
        output.position = position;
        output.discarded = discarded;
        self.total.written += written;
        self.total.recorded += gathered.events.len() as u64;
        self.total.lost = self.total.lost.saturating_add(gathered.lost);
        Ok(())
    }

    fn output_lane(&mut self, output: &mut Output, gathered: &Gathered) -> io::Result<usize> {
        let program = self.options.command.first().map_or("command", String::as_str);
        let label = Path::new(program).file_name().map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned());
        let index = self.lanes.len();
        let name = format!("{}-{}-{index}", component(&label), output.name);
        let begin = if gathered.events.is_empty() { self.clock.now() } else { gathered.begin };
        let first = Stamp { begin, end: begin, ..stamp(output.name, self.ancestor) };
        let lane = Lane::create(&self.home.path().join("user"), &name, (index as u32, 0), self.uuid, &label, &first)?;
        self.total.written += stream::BARE;
        self.lanes.push(Some(lane));
        output.lane = Some(index);
        Ok(index)
    }
}

/// Whose packet it is. No thread has the tid: who printed a line is not known.
fn stamp(name: &'static str, pid: Option<i32>) -> Stamp {
    let tid = if name == "stdout" { -1 } else { -2 };
    Stamp { begin: 0, end: 0, discarded: 0, pid: pid.unwrap_or(-1), tid, position: 0, ring: NO_RING, thread: padded(name) }
}

/// Events as lanes take them.
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
    use crate::clock::Source;

    fn lines() -> Lines {
        let clock = Clock { source: Source::MonoRaw, frequency: 1_000_000_000, offset_s: 0, offset: 0 };
        Lines { clock, gathered: Arc::default() }
    }

    /// The texts as a reader has them.
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
    fn lines_are_whole_however_the_bytes_come() {
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
    fn a_long_line_is_several_events_and_bytes_that_are_no_text_are_replaced() {
        let lines = lines();
        lines.push(&vec![b'x'; 2 * LONGEST]);
        lines.push(b"\n\xff\0y\n");
        let texts = texts(&lines);
        assert_eq!(texts.iter().map(String::len).collect::<Vec<_>>(), [LONGEST, LONGEST, 5]);
        assert_eq!(texts[2], "\u{fffd} y");
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let lines = lines();
        let line = [&[b'x'; 1015][..], b"\n"].concat();
        for _ in 0..5000 {
            lines.push(&line);
        }
        let gathered = lines.gathered();
        assert_eq!(gathered.events.len(), MOST);
        assert_eq!((gathered.count, gathered.lost), (4096, 904));
    }
}
