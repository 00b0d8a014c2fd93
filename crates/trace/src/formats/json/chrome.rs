//! Chrome's Trace Event Format: a list of events as objects, alone or as `traceEvents` of an object.
//!
//! Events come in any order, and the names of threads often last. So the file is gone through twice: first for names and for the order of
//! time, then event by event in that order. In memory is one event, whatever the file holds.
//!
//! The format: "Trace Event Format" by the authors of Chrome's trace viewer. Times are microseconds, with or without a fraction; a list need
//! not be closed. An event's phase and its other members become fields, members of `args` are named `args.NAME`.

use super::names::{Classes, Subjects};
use super::object::{self, Object, Raw, Wanted};
use super::order::{Order, Place, Sorted};
use super::scan::{self, Fault, Text, LONGEST};
use super::{tell, tell_texts};
use crate::diagnostic::MOST_ERRORS;
use crate::error::Error;
use crate::event::{Event, Item, PacketValues, StreamId, StreamKind, Subject};
use crate::trace::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::OwnedValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EVENTS: &str = "traceEvents";
/// Names of processes and threads that are kept.
const MOST_NAMED: usize = 1 << 20;
const LONGEST_NAME: usize = 4 << 10;

const KEYS: [&str; 6] = ["name", "ts", "pid", "tid", "ph", "args"];
const FULL: Wanted = Wanted { raw: &["name", "ts", "pid", "tid"], flat: "args", first: "ph" };
/// What only says what processes and threads are called, and where to draw them.
const NAMING: [&str; 5] = ["process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index"];

/// The events of a file as they stand in it.
struct Elements<R> {
    text: Text<R>,
    /// The list is a member of an object.
    within: bool,
    ended: bool,
}

impl<R: Read> Elements<R> {
    /// Goes to the list; none if there is no such.
    fn open(input: R) -> Result<Option<Elements<R>>, Fault> {
        let mut text = Text::new(input);
        match text.peek()? {
            Some(b'[') => {
                text.consume(1);
                return Ok(Some(Elements { text, within: false, ended: false }));
            }
            Some(b'{') => text.consume(1),
            _ => return Ok(None),
        }
        loop {
            match text.peek()? {
                Some(b',') => text.consume(1),
                Some(b'"') => match scan::key(&mut text)? {
                    Some(key) if key == EVENTS && text.peek()? == Some(b'[') => {
                        text.consume(1);
                        return Ok(Some(Elements { text, within: true, ended: false }));
                    }
                    Some(_) => text.skip()?,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
    }

    /// Where the next event lies; after an error there is none, but for one that is too long.
    fn next(&mut self) -> Result<Option<(u64, usize)>, Fault> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let offset = self.text.offset();
            let found = match self.text.peek() {
                // The format allows a list that is not closed.
                Ok(None) if !self.within => Ok(None),
                Ok(None) => Err(Fault::Ends { at: self.text.offset() }),
                Ok(Some(b']')) => {
                    self.text.consume(1);
                    self.rest().map(|()| None)
                }
                Ok(Some(b',')) => {
                    self.text.consume(1);
                    continue;
                }
                Ok(Some(b'}' | b':')) => Err(Fault::wrong(self.text.offset(), "there is no event here")),
                Ok(Some(_)) => {
                    let at = self.text.offset();
                    match self.text.value() {
                        Ok(None) => return Err(Fault::wrong(at, format!("this event is longer than {LONGEST} bytes"))),
                        found => found.map(|length| length.map(|length| (at, length))),
                    }
                }
                Err(error) => Err(error),
            };
            debug_assert!(self.text.offset() >= offset);
            if !matches!(found, Ok(Some(_))) {
                self.ended = true;
            }
            return found;
        }
    }

    /// What stands behind the list has the form that it should have.
    fn rest(&mut self) -> Result<(), Fault> {
        while self.within {
            match self.text.peek()? {
                Some(b',') => self.text.consume(1),
                Some(b'"') => match scan::key(&mut self.text)? {
                    Some(_) => self.text.skip()?,
                    None => return Err(Fault::wrong(self.text.offset(), "there is no member of an object here")),
                },
                Some(b'}') => {
                    self.text.consume(1);
                    self.within = false;
                }
                Some(_) => return Err(Fault::wrong(self.text.offset(), "there is no member of an object here")),
                None => return Err(Fault::Ends { at: self.text.offset() }),
            }
        }
        match self.text.peek()? {
            None => Ok(()),
            Some(_) => Err(Fault::wrong(self.text.offset(), "there is more behind the end of the events")),
        }
    }
}

/// Who is called how. The keys are texts as they stand in the file.
#[derive(Default)]
struct Named {
    processes: HashMap<Box<str>, Box<str>>,
    threads: HashMap<(Box<str>, Box<str>), Box<str>>,
}

impl Named {
    fn learn(&mut self, name: &str, raw: &Raw<'_>) {
        #[derive(serde::Deserialize)]
        struct Args {
            name: String,
        }
        let [.., args] = raw;
        let Some(mut called) = args.and_then(|args| serde_json::from_str::<Args>(args).ok()).map(|args| args.name) else { return };
        if called.len() > LONGEST_NAME || self.processes.len() + self.threads.len() > MOST_NAMED {
            return;
        }
        called.retain(|c| c != '\0');
        let (pid, tid) = (raw[2].unwrap_or_default().into(), raw[3].unwrap_or_default().into());
        match name {
            "process_name" => self.processes.insert(pid, called.into()),
            "thread_name" => self.threads.insert((pid, tid), called.into()),
            _ => None,
        };
    }

    fn subject(&self, pid: &str, tid: &str) -> Subject {
        let (pid_text, tid_text) = (unquoted(pid), unquoted(tid));
        let label = match self.processes.get(pid) {
            Some(name) if !name.is_empty() => name.to_string(),
            _ => match pid_text.parse::<i64>() {
                Ok(pid) => format!("pid {pid}"),
                Err(_) => pid_text.to_string(),
            },
        };
        let thread = match self.threads.get(&(pid.into(), tid.into())) {
            Some(name) => name.to_string(),
            None if tid_text.parse::<i64>().is_ok() => String::new(),
            None => tid_text.to_string(),
        };
        Subject { label, thread, pid: pid_text.parse().ok(), tid: tid_text.parse().ok(), ..Subject::default() }
    }
}

/// A text of JSON, or a number.
fn unquoted(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        Some(_) => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
        None => Cow::Borrowed(raw),
    }
}

/// Nanoseconds of a number of microseconds as it stands in the file, cut off below the nanosecond; also of one in quotes.
fn ns(raw: &str) -> Option<i64> {
    let raw = raw.trim_matches('"');
    let (negative, digits) = raw.strip_prefix('-').map_or((false, raw), |rest| (true, rest));
    let (number, exponent) =
        digits.split_once(['e', 'E']).map_or((digits, Some(0)), |(number, exponent)| (number, exponent.parse::<i32>().ok()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Digits, and how many of them lie behind the point of nanoseconds.
    let mut value: i128 = 0;
    let mut behind = fraction.len() as i64 - 3 - i64::from(exponent?);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if value > i128::MAX / 100 {
            // What does not fit is either below the nanosecond, or far beyond any time.
            behind -= 1;
            continue;
        }
        value = value * 10 + i128::from(digit - b'0');
    }
    while behind > 0 && value != 0 {
        value /= 10;
        behind -= 1;
    }
    while behind < 0 && value != 0 {
        value = value.checked_mul(10)?;
        behind += 1;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}

/// A file as a stream of events.
pub(crate) struct ChromeSource {
    path: PathBuf,
    file: File,
    stream: StreamId,
    /// Events in the order of the file, or in the order of time where that differs.
    from: From,
    named: Named,
    classes: Classes,
    subjects: Subjects,
    object: Object,
    buffer: Vec<u8>,
    start_ns: i64,
    last_ns: Option<i64>,
    event: Option<Event<'static>>,
    errors: u32,
    /// Numbers that are told as text.
    texts: u64,
    /// Where the first damage lies, behind which nothing is read.
    until: Option<u64>,
    /// That was reached.
    pub broken: bool,
}

enum From {
    File(Elements<File>),
    Order(Sorted),
}

/// What the first look tells of an event.
enum Seen {
    At(i64),
    /// It has no time, as is usual for what tells of processes.
    Untimed,
    /// It is told, or nothing at all.
    Nothing,
}

fn look(bytes: &[u8], at: u64, mut naming: impl FnMut(&str, &Raw<'_>)) -> Result<Seen, Fault> {
    if matches!(bytes, b"{}" | b"null") {
        return Ok(Seen::Nothing);
    }
    let raw = object::brief(bytes, &KEYS).map_err(|error| Fault::wrong(at, format!("this is no event: {error}")))?;
    let is_metadata = raw[4] == Some("\"M\"");
    if is_metadata {
        let name = raw[0].map(unquoted).unwrap_or_default();
        if NAMING.contains(&&*name) {
            naming(&name, &raw);
            return Ok(Seen::Nothing);
        }
    }
    match raw[1] {
        Some(ts) => {
            ns(ts).map(Seen::At).ok_or_else(|| Fault::wrong(at, format!("`ts` is no time: {}", ts.chars().take(40).collect::<String>())))
        }
        None if is_metadata => Ok(Seen::Untimed),
        None if raw.iter().all(Option::is_none) => Ok(Seen::Nothing),
        None => Err(Fault::wrong(at, "this event has no `ts`")),
    }
}

impl ChromeSource {
    pub fn open(path: &Path, name: String, shared: &mut Shared) -> Result<ChromeSource, Error> {
        let none = |why: String| Error::NotATrace { path: path.to_owned(), tried: why };
        let open = || File::open(path).map_err(Error::io(path));
        let elements = |file: File| match Elements::open(file) {
            Ok(Some(elements)) => Ok(elements),
            Ok(None) => Err(none(format!("it is JSON, but holds no list `{EVENTS}`"))),
            Err(Fault::Io(source)) => Err(Error::Io { path: path.to_owned(), source }),
            Err(fault) => Err(none(format!("it is JSON without a list `{EVENTS}`: {fault}"))),
        };
        let mut named = Named::default();
        let mut order = Order::default();
        let (mut errors, mut until) = (0, None);
        let (mut start_ns, mut last_ns) = (None::<i64>, None::<i64>);
        let mut first = elements(open()?)?;
        loop {
            let seen = match first.next() {
                Ok(None) => break,
                Ok(Some((at, length))) => {
                    let seen = look(first.text.bytes(length), at, |name, raw| named.learn(name, raw));
                    first.text.consume(length);
                    seen.map(|seen| (at, length, seen))
                }
                Err(fault) => Err(fault),
            };
            match seen {
                Ok((offset, length, Seen::At(t_ns))) => {
                    start_ns = Some(start_ns.map_or(t_ns, |start| start.min(t_ns)));
                    last_ns = Some(t_ns);
                    order.push(Place { t_ns, offset, length: length as u32 }).map_err(Error::io(path))?;
                }
                Ok((offset, length, Seen::Untimed)) => {
                    let t_ns = last_ns.unwrap_or(i64::MIN);
                    order.push(Place { t_ns, offset, length: length as u32 }).map_err(Error::io(path))?;
                }
                Ok((.., Seen::Nothing)) => {}
                Err(Fault::Io(source)) => return Err(Error::Io { path: path.to_owned(), source }),
                Err(fault) => {
                    tell(shared, path, &mut errors, &fault);
                    if shared.strict {
                        until = Some(first.text.offset());
                        break;
                    }
                }
            }
        }
        let from = match order.unsorted() {
            0 => From::File(elements(open()?)?),
            _ => From::Order(order.sorted().map_err(Error::io(path))?),
        };
        Ok(ChromeSource {
            path: path.to_owned(),
            file: open()?,
            stream: shared.stream(name, StreamKind::User),
            from,
            named,
            classes: Classes::default(),
            subjects: Subjects::default(),
            object: Object::default(),
            buffer: Vec::new(),
            start_ns: start_ns.unwrap_or(0),
            last_ns: None,
            event: None,
            errors: errors.min(MOST_ERRORS),
            texts: 0,
            until,
            broken: false,
        })
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        loop {
            let Some(at) = self.next()? else {
                self.broken = self.until.is_some();
                tell_texts(shared, &self.path, &mut self.texts);
                return Ok(None);
            };
            match self.read(shared) {
                Ok(Some(t_ns)) => return Ok(Some(t_ns)),
                // What the first look has refused is told already.
                Ok(None) => {}
                Err(error) => {
                    if look(&self.buffer, at, |_, _| {}).is_ok() {
                        tell(shared, &self.path, &mut self.errors, &Fault::wrong(at, format!("this is no event: {error}")));
                        if shared.strict {
                            self.broken = true;
                            return Ok(None);
                        }
                    }
                }
            }
        }
    }

    /// Brings the next event into the buffer and returns where it lies.
    fn next(&mut self) -> Result<Option<u64>, Error> {
        let elements = match &mut self.from {
            From::Order(sorted) => {
                let Some(place) = sorted.next().map_err(Error::io(&self.path))? else { return Ok(None) };
                self.buffer.resize(place.length as usize, 0);
                self.file.read_exact_at(&mut self.buffer, place.offset).map_err(Error::io(&self.path))?;
                return Ok(Some(place.offset));
            }
            From::File(elements) => elements,
        };
        loop {
            match elements.next() {
                Ok(None) => return Ok(None),
                Ok(Some((at, _))) if self.until.is_some_and(|until| at >= until) => return Ok(None),
                Ok(Some((at, length))) => {
                    self.buffer.clear();
                    self.buffer.extend_from_slice(elements.text.bytes(length));
                    elements.text.consume(length);
                    return Ok(Some(at));
                }
                Err(Fault::Io(source)) => return Err(Error::Io { path: self.path.clone(), source }),
                // It was told when the file was opened.
                Err(_) => {}
            }
        }
    }

    /// The event in the buffer, and when it was; none if there is none to be told.
    fn read(&mut self, shared: &mut Shared) -> Result<Option<i64>, serde_json::Error> {
        if matches!(self.buffer.as_slice(), b"{}" | b"null") {
            return Ok(None);
        }
        let raw = self.object.read(&self.buffer, &FULL)?;
        let is_metadata =
            self.object.names.starts_with(b"ph\0") && matches!(self.object.values.first(), Some(OwnedValue::Str(ph)) if ph == b"M");
        let name = raw[0].map(unquoted).unwrap_or_default();
        let t_ns = match raw[1].map(ns) {
            _ if is_metadata && NAMING.contains(&&*name) => return Ok(None),
            Some(Some(t_ns)) => t_ns,
            None if is_metadata => self.last_ns.unwrap_or(self.start_ns),
            Some(None) | None => return Ok(None),
        };
        let (pid, tid) = (raw[2].unwrap_or_default(), raw[3].unwrap_or_default());
        let subject = self.subjects.of([pid, tid], shared, || self.named.subject(pid, tid));
        let class = self.classes.of(&name, &mut self.object, shared);
        self.last_ns = Some(t_ns);
        self.texts += self.object.texts;
        self.event = Some(Event {
            t_ns,
            stream: self.stream,
            subject,
            class,
            cpu: None,
            fields: &[],
            context: &[],
            packet: PacketValues::default(),
        });
        Ok(Some(t_ns))
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        super::item(&self.event, self.stream, value_buffer, &self.object.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_every_digit_down_to_the_nanosecond() {
        assert_eq!(ns("1763679845000000.123"), Some(1_763_679_845_000_000_123));
        assert_eq!(ns("12"), Some(12_000));
        assert_eq!(ns("0.0019"), Some(1));
        assert_eq!(ns("-1.5"), Some(-1500));
        assert_eq!(ns("1.5e3"), Some(1_500_000));
        assert_eq!(ns("15E-1"), Some(1500));
        assert_eq!(ns("\"7\""), Some(7000));
        assert_eq!(ns(&"1".repeat(60)), None);
        assert_eq!(ns(&format!("1.{}", "3".repeat(200))), Some(1333));
        assert_eq!(ns("1e999999999"), None);
        assert_eq!(ns("1e-999999999"), Some(0));
        assert_eq!(ns("true"), None);
        assert_eq!(ns(""), None);
    }
}
