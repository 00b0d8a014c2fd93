//! A machine log as events. Each line is an event, named after what the machine does; its keys are
//! the fields.
//!
//! Lines are only shown here, not interpreted. The meaning of a line, and whether it is valid at
//! its place, is decided by the reader that builds machines.

use super::names::{Classes, Subjects};
use super::object::{Object, Wanted};
use super::scan::{Fault, Text};
use super::{report, report_texts};
use crate::error::Error;
use crate::event::{Event, Item, PacketValues, StreamId, StreamKind, Subject};
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_machine_log::{KEYS, LONGEST_LINE};
use std::fs::File;
use std::path::{Path, PathBuf};

const WANTED: Wanted = Wanted { raw: &["t"], flat: "", first: "" };
/// Keys that state what a line does. A line usually has one of them; the first one in this list
/// names the event.
const EFFECTS: [&str; 14] =
    ["queue", "end", "blocked", "put", "get", "peek", "reserve", "woken_by", "on_top_of", "pop", "stop", "forked_by", "state", "class"];

pub(crate) struct LogSource {
    path: PathBuf,
    text: Text<File>,
    stream: StreamId,
    classes: Classes,
    subjects: Subjects,
    object: Object,
    line: u64,
    t_ns: i64,
    event: Option<Event<'static>>,
    /// Set when reading has ended at an invalid line.
    pub broken: bool,
    errors: u32,
    /// Number of numbers that were stored as text.
    texts: u64,
}

impl LogSource {
    pub fn open(path: &Path, name: String, shared: &mut Shared) -> Result<LogSource, Error> {
        Ok(LogSource {
            path: path.to_owned(),
            text: Text::new(File::open(path).map_err(Error::io(path))?),
            stream: shared.stream(name, StreamKind::User),
            classes: Classes::default(),
            subjects: Subjects::default(),
            object: Object::default(),
            line: 0,
            t_ns: 0,
            event: None,
            broken: false,
            errors: 0,
            texts: 0,
        })
    }

    pub fn advance(&mut self, shared: &mut Shared) -> Result<Option<i64>, Error> {
        while !self.broken {
            let (length, consumed) = match self.text.line(LONGEST_LINE) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(Fault::Io(source)) => return Err(Error::Io { path: self.path.clone(), source }),
                Err(_) => break,
            };
            self.line += 1;
            let read = match length {
                None => Err(format!("longer than {LONGEST_LINE} bytes")),
                Some(length) => self.read(length, shared),
            };
            self.text.consume(consumed);
            match read {
                Ok(true) => return Ok(Some(self.t_ns)),
                Ok(false) => {}
                Err(what) => {
                    // The reader that builds machines ends at an invalid line, too.
                    self.broken = true;
                    report(
                        shared,
                        &self.path,
                        &mut self.errors,
                        &Fault::wrong(self.text.offset() - consumed as u64, format!("line {}: {what}", self.line)),
                    );
                }
            }
        }
        report_texts(shared, &self.path, &mut self.texts);
        Ok(None)
    }

    /// Reads a line. Returns false if it is blank.
    fn read(&mut self, length: usize, shared: &mut Shared) -> Result<bool, String> {
        let bytes = self.text.bytes(length).trim_ascii();
        if bytes.is_empty() {
            return Ok(false);
        }
        let raw = self.object.read(bytes, &WANTED).map_err(|error| error.to_string())?;
        if let Some(t) = raw[0] {
            let t_ns = t.parse().ok().filter(|t| *t >= 0).ok_or_else(|| format!("`t` is {t}; it is an integer of ns"))?;
            if t_ns < self.t_ns {
                return Err(format!("`t` is {t_ns} after {}: the time of lines never decreases", self.t_ns));
            }
            self.t_ns = t_ns;
        }
        let names = || self.object.names.split(|&byte| byte == 0);
        let of_format = |name: &[u8]| name.starts_with(b"x_") || name.is_empty() || KEYS.iter().any(|key| begins_with_key(name, key));
        if let Some(name) = names().find(|name| !of_format(name)) {
            return Err(format!("unknown key `{}` (own keys begin with x_)", String::from_utf8_lossy(name).escape_debug()));
        }
        let text = |wanted: &str| {
            let at = names().position(|name| name == wanted.as_bytes())?;
            self.object.values.get(at)?.text().map(|text| text.into_owned())
        };
        let name = EFFECTS.into_iter().find(|effect| names().any(|name| name == effect.as_bytes())).unwrap_or("machine");
        let (host, label) = (text("host").unwrap_or_default(), text("machine").or_else(|| text("end")).unwrap_or_default());
        let subject =
            self.subjects.of([&host, &label], shared, || Subject { host: host.clone(), label: label.clone(), ..Subject::default() });
        self.texts += self.object.texts;
        let class = self.classes.of(name, &mut self.object, shared);
        let (t_ns, stream) = (self.t_ns, self.stream);
        self.event = Some(Event { t_ns, stream, subject, class, cpu: None, fields: &[], context: &[], packet: PacketValues::default() });
        Ok(true)
    }

    pub fn item<'a>(&'a self, value_buffer: &'a mut ValueBuffer) -> Item<'a> {
        super::item(&self.event, self.stream, value_buffer, &self.object.values)
    }
}

/// Returns true if the name is this key, or a dotted member of it.
fn begins_with_key(name: &[u8], key: &str) -> bool {
    name.strip_prefix(key.as_bytes()).is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
}
