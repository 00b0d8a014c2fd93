//! The text of the kernel's tracer as a source: a file, or the part of a trace.dat that a latency
//! tracer wrote.
//!
//! Lines are read one after the other, up to [`MAX_LINE`] bytes each; a longer line is cut and
//! reported. A line that does not begin an event belongs to the event before it (messages of
//! several lines, stacks). An event's class is its name and the names of its fields, which are in
//! the line itself; so one name may have several classes. A line about lost events becomes a loss
//! on its CPU, up to the next event.

use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::error::Error;
use crate::event::{Class, ClassId, Event, Item, Loss, PacketValues, StreamId, StreamKind, Subject, SubjectId};
use crate::merge::out_of_range::Beyond;
use crate::shared::{Shared, MAX_REMEMBERED};
use crate::value::Value;
use crate::value_buffer::ValueBuffer;
use longpole_ftrace::text::{self, Found, Kind, Line, Name, Time};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a line, and of an event of several lines. What is longer is cut.
const MAX_LINE: usize = 64 << 10;
/// Maximum number of classes, CPUs and losses between two events that are remembered, because a
/// hostile file could name any number.
const MAX_CLASSES: usize = 4096;

pub(crate) struct TextSource {
    lines: LineReader,
    /// Name of the file's stream, and begin of the names of the CPUs' streams.
    name: String,
    /// The event's line with the lines that belong to it.
    line: Vec<u8>,
    /// Event that begins at the line that was read last.
    ahead: Option<text::Head>,
    /// Set if the file has no more lines.
    ended: bool,
    /// Fields of the event, as spans of `line`.
    fields: Vec<Found>,
    /// Classes by event name and field names.
    classes: HashMap<Vec<u8>, ClassId>,
    /// Buffer for a key of `classes`.
    key: Vec<u8>,
    /// Class of events once there are [`MAX_CLASSES`] classes.
    other: ClassId,
    subjects: HashMap<Who, SubjectId>,
    /// Stream of losses that concern no single CPU.
    file: StreamId,
    cpus: HashMap<u32, CpuStream>,
    losses: LossQueue,
    /// Event that is yielded after the losses before it.
    waiting: Option<CurrentItem>,
    current: Option<CurrentItem>,
    /// Flags of the event, as a span of `line`; empty if it has none.
    flags: text::Span,
    /// Text of the event, if it has no class of its own.
    rest: text::Span,
    /// Set if a time counts ticks instead of ns.
    ticks: bool,
    /// Number of lines that contain the duration of a call, but no time.
    untimed: u64,
    /// Number of lines before the first event that do not have the tracer's format.
    not_events: u64,
    /// Reports times that 64 bits of ns cannot represent.
    beyond: Beyond,
    /// Time of the last event.
    last_ns: i64,
}

/// Reads a file line by line. A line of more than [`MAX_LINE`] bytes is cut.
struct LineReader {
    path: PathBuf,
    input: BufReader<Box<dyn Read + Send>>,
    /// The line that was read last, without its end.
    line: Vec<u8>,
    /// Bytes of that line in the file.
    length: u64,
    cut: Cuts,
}

impl LineReader {
    /// Reads the next line without its end. Returns false at the end of the file.
    fn next(&mut self) -> Result<bool, Error> {
        self.line.clear();
        self.cut.begin += self.length;
        self.cut.line += 1;
        let io = || Error::io(&self.path);
        let limit = MAX_LINE as u64;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line).map_err(io())?;
        self.length = read as u64;
        if read == 0 {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == MAX_LINE {
            let rest = self.input.skip_until(b'\n').map_err(io())? as u64;
            self.length += rest;
            // If only the newline is left, the line is complete.
            if rest > 1 {
                self.cut.add(&format!("the line has {} bytes; the bytes after the first {MAX_LINE} are left out", self.length));
            }
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }
}

/// Losses that lines of the file report.
#[derive(Default)]
struct LossQueue {
    /// Losses before the event that was gathered, the first one last.
    before: Vec<Lost>,
    /// Losses after that event, the first one first.
    after: Vec<Lost>,
}

impl LossQueue {
    /// Adds a loss after the current event.
    fn push(&mut self, lost: Lost) {
        // No tracer reports more losses between two events.
        if self.after.len() < MAX_CLASSES {
            self.after.push(lost);
        }
    }

    /// Moves on to the next event: the losses after the current one are those before it.
    fn advance(&mut self) {
        self.before.extend(self.after.drain(..).rev());
    }

    /// Takes the first loss before the current event.
    fn pop(&mut self) -> Option<Lost> {
        self.before.pop()
    }
}

/// Lines that were cut. The first ones are stored with their places.
#[derive(Default)]
struct Cuts {
    /// Number, from 1, and first byte in the file of the current line.
    line: u64,
    begin: u64,
    first: Vec<String>,
    others: u64,
}

impl Cuts {
    fn add(&mut self, what: &str) {
        match self.first.len() < MAX_ERRORS as usize {
            true => self.first.push(format!("line {} at byte {}: {what}", self.line, self.begin)),
            false => self.others += 1,
        }
    }
}

/// Name, thread id and thread group id.
type Who = (Vec<u8>, Option<i32>, Option<i32>);

#[derive(Clone, Copy)]
struct CpuStream {
    stream: StreamId,
    last_ns: Option<i64>,
}

#[derive(Clone, Copy)]
struct Lost {
    /// CPU that lost events; `None` for the whole buffer.
    cpu: Option<u32>,
    events: Option<u64>,
}

/// The item that is yielded next, or was yielded last.
#[derive(Clone, Copy)]
enum CurrentItem {
    Event { t_ns: i64, stream: StreamId, cpu: u32, subject: SubjectId, class: ClassId, is_whole: bool },
    Loss(Loss),
}

impl CurrentItem {
    fn t_ns(&self) -> i64 {
        match self {
            CurrentItem::Event { t_ns, .. } => *t_ns,
            CurrentItem::Loss(loss) => loss.end_ns,
        }
    }
}

impl TextSource {
    pub fn new(path: &Path, name: String, input: Box<dyn Read + Send>, shared: &mut Shared) -> TextSource {
        let fields = vec!["text".to_owned()];
        let other = shared.class(Class { event_name: "event".to_owned(), fields, ..Class::default() });
        TextSource {
            lines: LineReader {
                path: path.to_owned(),
                input: BufReader::with_capacity(256 << 10, input),
                line: Vec::new(),
                length: 0,
                cut: Cuts::default(),
            },
            file: shared.stream(name.clone(), StreamKind::Kernel),
            name,
            line: Vec::new(),
            ahead: None,
            ended: false,
            fields: Vec::new(),
            classes: HashMap::new(),
            key: Vec::new(),
            other,
            subjects: HashMap::new(),
            cpus: HashMap::new(),
            losses: LossQueue::default(),
            waiting: None,
            current: None,
            flags: 0..0,
            rest: 0..0,
            ticks: false,
            untimed: 0,
            not_events: 0,
            beyond: Beyond::default(),
            last_ns: 0,
        }
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        if self.waiting.is_none() {
            let Some(head) = self.gather()? else {
                // Events that were lost after the last event.
                let (stream, last_ns) = (self.file, self.last_ns);
                self.current = self.losses.pop().map(|lost| CurrentItem::Loss(self.loss(lost, stream, last_ns)));
                return Ok(self.current.map(|item| item.t_ns()));
            };
            self.waiting = Some(self.event(head, shared));
        }
        if let (Some(lost), Some(event)) = (self.losses.pop(), self.waiting) {
            if let Some(cpu) = lost.cpu {
                self.cpu_stream(cpu, shared);
            }
            self.current = Some(CurrentItem::Loss(self.loss(lost, self.file, event.t_ns())));
        } else {
            self.current = self.waiting.take();
            if let Some(CurrentItem::Event { t_ns, cpu, .. }) = self.current {
                self.last_ns = t_ns;
                if let Some(stream) = self.cpus.get_mut(&cpu) {
                    stream.last_ns = Some(t_ns);
                }
            }
        }
        Ok(self.current.map(|item| item.t_ns()))
    }

    fn loss(&self, lost: Lost, file: StreamId, end_ns: i64) -> Loss {
        let cpu = lost.cpu.and_then(|cpu| self.cpus.get(&cpu));
        let stream = cpu.map_or(file, |cpu| cpu.stream);
        let begin_ns = cpu.and_then(|cpu| cpu.last_ns).map_or(end_ns, |last_ns| last_ns.min(end_ns));
        Loss { stream, begin_ns, end_ns, events: lost.events }
    }

    /// Collects an event's line and the lines that belong to it, until the next event begins.
    fn gather(&mut self) -> Result<Option<text::Head>, Error> {
        let mut gathered: Option<text::Head> = None;
        loop {
            if gathered.is_none() {
                if let Some(head) = self.ahead.take() {
                    std::mem::swap(&mut self.line, &mut self.lines.line);
                    self.losses.advance();
                    gathered = Some(head);
                }
            }
            if self.ended || !self.lines.next()? {
                self.ended = true;
                if gathered.is_none() {
                    self.losses.advance();
                }
                return Ok(gathered);
            }
            match text::line(&self.lines.line) {
                Line::Event(head) => {
                    self.ahead = Some(head);
                    if gathered.is_some() {
                        return Ok(gathered);
                    }
                }
                Line::Lost { cpu, events } => self.losses.push(Lost { cpu: Some(cpu), events }),
                Line::Overwritten(events) => self.losses.push(Lost { cpu: None, events: Some(events) }),
                Line::Note => {}
                Line::Untimed => self.untimed += 1,
                Line::Other => match &mut gathered {
                    Some(head) if self.line.len() + self.lines.line.len() < MAX_LINE => {
                        self.line.push(b'\n');
                        self.line.extend_from_slice(&self.lines.line);
                        head.rest.end = self.line.len();
                    }
                    Some(_) => {
                        self.lines.cut.add(&format!("the event that continues here is longer than {MAX_LINE} bytes; this line is left out"))
                    }
                    None => self.not_events += 1,
                },
            }
        }
    }

    fn event(&mut self, head: text::Head, shared: &mut Shared) -> CurrentItem {
        let name = text::fields(&self.line, head.rest.clone(), &mut self.fields);
        let ns = head.time.number();
        let t_ns = self.beyond.ns(ns.into(), &self.lines.path, || format!("an event of the time {ns}"), &mut shared.diagnostics);
        self.ticks |= matches!(head.time, Time::Ticks(_));
        let class = self.class(&name, !head.flags.is_empty(), shared);
        let subject = self.subject(&head, shared);
        let stream = self.cpu_stream(head.cpu, shared).stream;
        let is_whole = class != self.other;
        if !is_whole {
            self.rest = head.rest;
        }
        self.flags = head.flags;
        CurrentItem::Event { t_ns, stream, cpu: head.cpu, subject, class, is_whole }
    }

    fn class(&mut self, name: &Name, has_flags: bool, shared: &mut Shared) -> ClassId {
        let key = &mut self.key;
        key.clear();
        match name {
            Name::At(span) => key.extend_from_slice(&self.line[span.clone()]),
            Name::Known(name) => key.extend_from_slice(name.as_bytes()),
            Name::Call(before, span) => {
                key.extend_from_slice(before.as_bytes());
                key.extend_from_slice(&self.line[span.clone()]);
            }
        }
        let length = key.len();
        key.push(u8::from(has_flags));
        for field in &self.fields {
            key.push(0);
            key.extend_from_slice(field.key.of(&self.line));
        }
        if let Some(known) = self.classes.get(key.as_slice()) {
            return *known;
        }
        if self.classes.len() >= MAX_CLASSES {
            return self.other;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let class = Class {
            event_name: text(&key[..length]),
            fields: self.fields.iter().map(|field| text(field.key.of(&self.line))).collect(),
            bases: vec![10; self.fields.len()],
            context: if has_flags { vec!["flags".to_owned()] } else { Vec::new() },
            ..Class::default()
        };
        let id = shared.class(class);
        self.classes.insert(key.clone(), id);
        id
    }

    fn subject(&mut self, head: &text::Head, shared: &mut Shared) -> SubjectId {
        let comm = &self.line[head.comm.clone()];
        if self.subjects.len() >= MAX_REMEMBERED {
            self.subjects.clear();
        }
        let key = (comm.to_vec(), head.tid, head.pid);
        *self.subjects.entry(key).or_insert_with(|| {
            let label = String::from_utf8_lossy(comm).into_owned();
            shared.subject(Subject { label, pid: head.pid, tid: head.tid, ..Subject::default() })
        })
    }

    fn cpu_stream(&mut self, cpu: u32, shared: &mut Shared) -> CpuStream {
        let name = &self.name;
        if self.cpus.len() >= MAX_CLASSES && !self.cpus.contains_key(&cpu) {
            return CpuStream { stream: self.file, last_ns: None };
        }
        *self
            .cpus
            .entry(cpu)
            .or_insert_with(|| CpuStream { stream: shared.stream(format!("{name}/cpu{cpu}"), StreamKind::Kernel), last_ns: None })
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        match self.current {
            Some(CurrentItem::Loss(loss)) => Item::Loss(loss),
            Some(CurrentItem::Event { t_ns, stream, cpu, subject, class, is_whole }) => {
                let found = if is_whole { &self.fields[..] } else { &[] };
                let flags = Some(&self.line[self.flags.clone()]).filter(|flags| is_whole && !flags.is_empty());
                let whole = (!is_whole).then(|| [&self.line[self.rest.clone()]]);
                let values = found.iter().map(|field| value(field, &self.line));
                let texts = whole.into_iter().flatten().chain(flags).map(Value::Str);
                let values = value_buffer.put(values.chain(texts));
                let (fields, context) = values.split_at(values.len() - usize::from(flags.is_some()));
                Item::Event(Event { t_ns, stream, subject, class, cpu: Some(cpu), fields, context, packet: PacketValues::default() })
            }
            // Not reached: the trace requests only items that `advance` found.
            None => Item::Loss(Loss { stream: self.file, begin_ns: self.last_ns, end_ns: self.last_ns, events: Some(0) }),
        }
    }

    /// Reports at the end what was left out.
    pub fn report(&self, shared: &mut Shared) {
        let path = || self.lines.path.clone();
        let others = (self.lines.cut.others > 0).then(|| format!("{} more lines are not read whole", self.lines.cut.others));
        shared
            .diagnostics
            .extend(self.lines.cut.first.iter().cloned().chain(others).map(|error| Diagnostic::UndecodableRecord { path: path(), error }));
        if self.ticks {
            shared.diagnostics.push(Diagnostic::ClockNotInNs { path: path(), clock: "not named there".to_owned() });
        }
        if self.untimed > 0 {
            shared.diagnostics.push(Diagnostic::WithoutTime { path: path(), lines: self.untimed });
        }
        if self.not_events > 0 {
            shared.diagnostics.push(Diagnostic::NoEvents { path: path(), lines: self.not_events });
        }
    }
}

fn value<'a>(field: &'a Found, line: &'a [u8]) -> Value<'a> {
    let text = &line[field.value.clone()];
    match field.kind {
        Kind::Text => Value::Str(text),
        Kind::Unsigned(number) => Value::U64(number),
        Kind::Signed(number) => u64::try_from(number).map_or(Value::I64(number), Value::U64),
        Kind::State(bits) => Value::Enum { value: bits.into(), label: std::str::from_utf8(text).unwrap_or_default() },
    }
}

/// Bytes at a file's begin that are examined to recognise the format.
const FIRST: usize = 16 << 10;

/// Returns true if a file with these first bytes is a text of the tracer.
pub(crate) fn is_text(first: &[u8]) -> bool {
    let first = &first[..first.len().min(FIRST)];
    !first.contains(&0) && text::is_text(first)
}

/// Opens a file of lines.
pub(crate) fn open(path: &Path, name: String, shared: &mut Shared) -> Result<TextSource, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    Ok(TextSource::new(path, name, Box::new(file), shared))
}
