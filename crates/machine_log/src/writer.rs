//! Writes lines as text.

use crate::error::LineErrorKind;
use crate::fields::{KERNEL_THREAD, KIND};
use crate::line::{Action, Amount, Cause, Content, Declaration, Flow, Line, Machine, Order, Unit, Wants};
use std::io::{self, Write};

/// Writes lines so that a [`Reader`](crate::Reader) returns equal lines.
///
/// Each line is written with one `write_all`, so a file should be wrapped in a
/// [`BufWriter`](io::BufWriter).
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    line: Vec<u8>,
    /// Time of the line that was written last.
    t: u64,
}

impl<W: Write> Writer<W> {
    /// Returns a writer of an empty log.
    pub fn new(out: W) -> Writer<W> {
        Writer { out, line: Vec::new(), t: 0 }
    }

    /// Writes one line.
    ///
    /// # Errors
    ///
    /// Writing the output failed; or no reader would accept the line
    /// ([`io::ErrorKind::InvalidInput`] with a [`LineErrorKind`]), in which case nothing of it is
    /// written. The caller must ensure that a queue is declared before its first use.
    pub fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        check(line, self.t).map_err(|kind| io::Error::new(io::ErrorKind::InvalidInput, kind))?;
        self.t = line.t.unwrap_or(self.t);
        self.line.clear();
        let mut text = Text { bytes: &mut self.line, next: b'{' };
        match &line.content {
            Content::Declaration(declaration) => text.declaration(line, declaration),
            Content::Machine(machine) => text.machine(line, machine),
            Content::End(machine) => {
                text.begin(line);
                text.text("end", machine);
            }
        }
        self.line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line)
    }

    /// Flushes the output.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Checks that a reader accepts the line after lines up to the time `before`.
fn check(line: &Line<'_>, before: u64) -> Result<(), LineErrorKind> {
    time("t", line.t)?;
    match (&line.content, line.t) {
        (_, Some(t)) if t < before => return Err(LineErrorKind::TimeDecreases { t, before }),
        (Content::Machine(_) | Content::End(_), None) => return Err(LineErrorKind::NoTime),
        _ => {}
    }
    match &line.content {
        Content::End(_) => Ok(()),
        Content::Machine(machine) => machine.check(),
        Content::Declaration(declaration) => {
            time("capacity", declaration.capacity)?;
            time("initial", Some(declaration.initial))?;
            declaration.check()
        }
    }
}

/// Checks that a time or size is below 2⁶³.
fn time(key: &'static str, number: Option<u64>) -> Result<(), LineErrorKind> {
    match number {
        Some(number) if i64::try_from(number).is_err() => Err(LineErrorKind::Range { key, number: number.into() }),
        _ => Ok(()),
    }
}

impl Machine<'_> {
    fn check(&self) -> Result<(), LineErrorKind> {
        let begins = self.on_top_of.is_some() || self.forked_by.is_some();
        if let Some(action @ (Action::Blocked { .. } | Action::Pop | Action::Stop)) = &self.action {
            if self.state.is_some() {
                return Err(LineErrorKind::Conflict("state", "`blocked`, `pop` or `stop`"));
            }
            if begins && !matches!(action, Action::Blocked { .. }) {
                return Err(LineErrorKind::Conflict("forked_by", "`pop` or `stop`"));
            }
        }
        let fork = self.forked_by.as_ref().and_then(Option::as_ref);
        let (woken, link) = match &self.action {
            Some(Action::WokenBy(cause)) => (cause.as_ref(), &None),
            Some(Action::Put { link, .. }) => (None, link),
            _ => (None, &None),
        };
        for cause in [fork, woken].into_iter().flatten() {
            time("at", cause.at)?;
        }
        let has_details = |cause: &Cause<'_>| cause.at.is_some() || cause.link.is_some();
        let two = matches!(self.action, Some(Action::WokenBy(_) | Action::Put { .. })) && self.forked_by.is_some();
        if two && (link.is_some() || [fork, woken].into_iter().flatten().any(has_details)) {
            return Err(LineErrorKind::TwoCauses);
        }
        if let Some(
            Action::Put { n, .. }
            | Action::Reserve { n, .. }
            | Action::Get { amount: Amount::Units(n), .. }
            | Action::Peek { amount: Amount::Units(n), .. },
        ) = &self.action
        {
            time("n", Some(*n))?;
            if *n == 0 {
                return Err(LineErrorKind::Range { key: "n", number: 0 });
            }
        }
        match &self.action {
            Some(Action::Put { flow, .. } | Action::Get { flow, .. } | Action::Peek { flow, .. }) => match flow {
                Some(Flow::Number(number)) if !(i64::MIN.into()..=u64::MAX.into()).contains(number) => {
                    Err(LineErrorKind::Range { key: "flow", number: *number })
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// A JSON object that is written member by member.
struct Text<'a> {
    bytes: &'a mut Vec<u8>,
    /// Byte that precedes the next member.
    next: u8,
}

impl Text<'_> {
    fn key(&mut self, key: &str) {
        self.bytes.push(std::mem::replace(&mut self.next, b','));
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        // Conversion of text to JSON and writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *self.bytes, text);
    }

    fn some(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn number(&mut self, key: &str, number: impl Into<i128>) {
        self.key(key);
        // Writing to memory cannot fail.
        let _ = write!(self.bytes, "{}", number.into());
    }

    fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.bytes.extend_from_slice(word.as_bytes());
    }

    fn begin(&mut self, line: &Line<'_>) {
        if let Some(t) = line.t {
            self.number("t", t);
        }
        if !line.host.is_empty() {
            self.text("host", &line.host);
        }
    }

    fn declaration(&mut self, line: &Line<'_>, declaration: &Declaration<'_>) {
        self.text("queue", &declaration.queue);
        self.begin(line);
        if let Some(capacity) = declaration.capacity {
            self.number("capacity", capacity);
        }
        if declaration.order == Order::Lifo {
            self.text("order", "lifo");
        }
        if declaration.unit == Unit::Bytes {
            self.text("unit", "bytes");
        }
        if declaration.initial > 0 {
            self.number("initial", declaration.initial);
        }
        if declaration.merge {
            self.word("merge", "true");
        }
    }

    fn machine(&mut self, line: &Line<'_>, machine: &Machine<'_>) {
        self.begin(line);
        self.text("machine", &machine.machine);
        self.some("class", machine.class.as_deref());
        if let Some(below) = &machine.on_top_of {
            self.nullable("on_top_of", below.as_deref());
        }
        if let Some(cause) = &machine.forked_by {
            self.cause("forked_by", cause.as_ref());
        }
        if let Some(action) = &machine.action {
            self.action(action);
        }
        self.some("state", machine.state.as_deref());
        self.some(KIND, machine.kind.as_deref());
        if machine.is_kernel_thread {
            self.word(KERNEL_THREAD, "true");
        }
    }

    fn action(&mut self, action: &Action<'_>) {
        match action {
            Action::Blocked { why, on, wants } => {
                self.text("blocked", why);
                self.some("on", on.as_deref());
                match wants {
                    Some(Wants::Tokens) => self.text("for", "tokens"),
                    Some(Wants::Space) => self.text("for", "space"),
                    None => {}
                }
            }
            Action::Put { queue, n, flow, link } => {
                self.units("put", queue, Amount::Units(*n), flow.as_ref());
                self.some("link", link.as_deref());
            }
            Action::Get { queue, amount, flow } => self.units("get", queue, *amount, flow.as_ref()),
            Action::Peek { queue, amount, flow } => self.units("peek", queue, *amount, flow.as_ref()),
            Action::Reserve { queue, n } => self.units("reserve", queue, Amount::Units(*n), None),
            Action::WokenBy(cause) => self.cause("woken_by", cause.as_ref()),
            Action::Pop => self.word("pop", "true"),
            Action::Stop => self.word("stop", "true"),
        }
    }

    fn units(&mut self, key: &str, queue: &str, amount: Amount, flow: Option<&Flow<'_>>) {
        self.text(key, queue);
        match amount {
            Amount::Units(1) => {}
            Amount::Units(n) => self.number("n", n),
            Amount::All => self.text("n", "all"),
        }
        match flow {
            Some(Flow::Text(text)) => self.text("flow", text),
            Some(Flow::Number(number)) => self.number("flow", *number),
            None => {}
        }
    }

    fn nullable(&mut self, key: &str, name: Option<&str>) {
        match name {
            Some(name) => self.text(key, name),
            None => self.word(key, "null"),
        }
    }

    fn cause(&mut self, key: &str, cause: Option<&Cause<'_>>) {
        self.nullable(key, cause.map(|cause| &*cause.machine));
        if let Some(cause) = cause {
            if let Some(at) = cause.at {
                self.number("at", at);
            }
            self.some("link", cause.link.as_deref());
        }
    }
}
