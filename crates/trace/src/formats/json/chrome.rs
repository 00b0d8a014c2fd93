//! Chrome's Trace Event Format: a list of events as JSON objects, at top level or as `traceEvents`
//! of an object.
//!
//! Events are in any order, and the names of threads often come last. So a file is read twice:
//! first for names and for the order of time, then event by event in that order. One event is in
//! memory at a time, whatever the size of the file.
//!
//! The format is defined in "Trace Event Format" by the authors of Chrome's trace viewer. Times are
//! microseconds, with or without a fraction, and a list need not be closed. An event's phase and
//! its other members become fields; a member of `args` becomes the field `args.NAME`.

use super::names::{Classes, Subjects};
use super::object::{self, Object, Raw, Wanted};
use super::order::{Order, RecordLocation, Sorted};
use super::scan::{self, Fault, Text, MAX_VALUE_BYTES};
use super::{report, report_texts};
use crate::diagnostic::MAX_ERRORS;
use crate::error::Error;
use crate::event::{Event, Item, PacketValues, StreamId, StreamKind, Subject};
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::OwnedValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EVENTS: &str = "traceEvents";
/// Maximum number of names of processes and threads that are stored.
const MAX_NAMED: usize = 1 << 20;
const LONGEST_NAME: usize = 4 << 10;

const KEYS: [&str; 6] = ["name", "ts", "pid", "tid", "ph", "args"];
const FULL: Wanted = Wanted { raw: &["name", "ts", "pid", "tid"], flat: "args", first: "ph" };
/// Metadata events that only name processes and threads or define their order in a display.
const NAMING: [&str; 5] = ["process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index"];

/// Events in the order of the file.
struct Elements<R> {
    text: Text<R>,
    /// Set if the list is a member of an object.
    within: bool,
    ended: bool,
}

impl<R: Read> Elements<R> {
    /// Finds the list of events. Returns `None` if there is none.
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

    /// Returns the offset and length of the next event. After an error there is no further event,
    /// unless the error was that an event is too long.
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
                        Ok(None) => return Err(Fault::wrong(at, format!("this event is longer than {MAX_VALUE_BYTES} bytes"))),
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

    /// Checks that what follows the list is well-formed.
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
            Some(_) => Err(Fault::wrong(self.text.offset(), "there is more text after the end of the events")),
        }
    }
}

/// Names of processes and threads. Keys are texts as written in the file.
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
        if called.len() > LONGEST_NAME || self.processes.len() + self.threads.len() > MAX_NAMED {
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

/// Returns the content of a JSON string, or a number as written.
fn unquoted(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        Some(_) => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
        None => Cow::Borrowed(raw),
    }
}

/// Converts a number of microseconds, as written in the file, to ns. Digits below 1 ns are cut off.
/// The number may be in quotes.
fn ns(raw: &str) -> Option<i64> {
    let raw = raw.trim_matches('"');
    let (negative, digits) = raw.strip_prefix('-').map_or((false, raw), |rest| (true, rest));
    let (number, exponent) =
        digits.split_once(['e', 'E']).map_or((digits, Some(0)), |(number, exponent)| (number, exponent.parse::<i32>().ok()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // All digits as an integer, and the number of them after the decimal point when counting in ns.
    let mut value: i128 = 0;
    let mut behind = fraction.len() as i64 - 3 - i64::from(exponent?);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if value > i128::MAX / 100 {
            // Further digits are below 1 ns, or the number is too large for any time.
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
    /// Events in the order of the file if that is the order of time, else in the order of time.
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
    /// Number of numbers that were stored as text.
    texts: u64,
    /// Offset of the first damage, at which reading ends ([`Shared::strict`]).
    until: Option<u64>,
    /// Set when the source has ended at damage.
    pub broken: bool,
}

enum From {
    File(Elements<File>),
    Order(Sorted),
}

/// Result of the first pass for an event.
enum Seen {
    At(i64),
    /// An event without a time, as is usual for metadata events.
    Untimed,
    /// No event: a name that was learnt, or an empty object.
    Nothing,
}

fn look(bytes: &[u8], at: u64, mut naming: impl FnMut(&str, &Raw<'_>)) -> Result<Seen, Fault> {
    if matches!(bytes, b"{}" | b"null") {
        return Ok(Seen::Nothing);
    }
    let raw = object::brief(bytes, &KEYS).map_err(|error| Fault::wrong(at, format!("this is not an event: {error}")))?;
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
            ns(ts).map(Seen::At).ok_or_else(|| Fault::wrong(at, format!("`ts` is not a time: {}", ts.chars().take(40).collect::<String>())))
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
                    order.push(RecordLocation { t_ns, offset, length: length as u32 }).map_err(Error::io(path))?;
                }
                Ok((offset, length, Seen::Untimed)) => {
                    let t_ns = last_ns.unwrap_or(i64::MIN);
                    order.push(RecordLocation { t_ns, offset, length: length as u32 }).map_err(Error::io(path))?;
                }
                Ok((.., Seen::Nothing)) => {}
                Err(Fault::Io(source)) => return Err(Error::Io { path: path.to_owned(), source }),
                Err(fault) => {
                    report(shared, path, &mut errors, &fault);
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
            errors: errors.min(MAX_ERRORS),
            texts: 0,
            until,
            broken: false,
        })
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        loop {
            let Some(at) = self.next()? else {
                self.broken = self.until.is_some();
                report_texts(shared, &self.path, &mut self.texts);
                return Ok(None);
            };
            match self.read(shared) {
                Ok(Some(t_ns)) => return Ok(Some(t_ns)),
                // An event that the first pass refused is already reported.
                Ok(None) => {}
                Err(error) => {
                    if look(&self.buffer, at, |_, _| {}).is_ok() {
                        report(shared, &self.path, &mut self.errors, &Fault::wrong(at, format!("this is not an event: {error}")));
                        if shared.strict {
                            self.broken = true;
                            return Ok(None);
                        }
                    }
                }
            }
        }
    }

    /// Reads the next event into the buffer and returns its offset.
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
                // The error was reported when the file was opened.
                Err(_) => {}
            }
        }
    }

    /// Decodes the event in the buffer and returns its time. Returns `None` if it yields no item.
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
    fn times_are_exact_to_the_nanosecond() {
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
