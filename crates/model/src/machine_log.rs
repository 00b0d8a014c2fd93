//! The machine log: machines as JSON lines, to be written by anybody. CONTRACTS say what each line means; here they become
//! interactions, one line at a time, and back.
//!
//! A line that is not of this form is refused with its number and what was expected there: a guess about what somebody meant would
//! look like an answer. What is well-formed but cannot have happened (a get of what is not there) is for the analysis to count.

mod line;
mod quick;
mod repeats;
mod replies;
mod write;

pub use write::Writer;

use crate::ahead::Ahead;
use crate::causes::is_named_as_recorder;
use crate::interaction::{Cause, Deed, Interaction, MachineId, QueueId, Vocabulary, Wants};
use crate::kinds::{LinkKind, NameKind, StateKind};
use crate::names::NameId;
use crate::tokens::{Amount, Order, Shape, Unit};
use line::{By, Line, Number};
use repeats::Repeats;
use replies::{Replies, Use};
use std::io::{self, BufRead};

/// A longer line is refused rather than kept.
pub const LONGEST_LINE: usize = 1 << 20;

/// Different names (machines, states, queues, flows) beyond this are refused: each is kept until the end.
pub const MOST_NAMES: usize = 1 << 22;

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("line {line}: {what}")]
    Line { line: u64, what: String },
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Whether a file that begins like this is a machine log: its first line is an object with `t` or `queue`.
pub fn opens_like_one(begin: &[u8]) -> bool {
    let first = begin.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let mut line = Line::default();
    line.parse(first).is_ok() && (line.t.is_some() || line.queue.is_some())
        || (first.trim_ascii_start().starts_with(b"{") && [&b"\"t\""[..], b"\"queue\""].iter().any(|key| contains(first, key)))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Reads a machine log from its begin to its end.
pub struct Reader<R> {
    input: R,
    known: Known,
    line: u64,
    /// What is longer than the input's buffer.
    carry: Vec<u8>,
    ahead: Ahead,
}

/// What the lines so far have told.
#[derive(Default)]
struct Known {
    vocabulary: Vocabulary,
    t: u64,
    /// Queues that were used or declared.
    seen: Vec<bool>,
    replies: Replies,
    repeats: Repeats,
}

impl<R: BufRead> Reader<R> {
    pub fn new(input: R) -> Reader<R> {
        Reader { input, known: Known::default(), line: 0, carry: Vec::new(), ahead: Ahead::default() }
    }

    pub fn vocabulary(&self) -> &Vocabulary {
        &self.known.vocabulary
    }

    pub fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        &mut self.known.vocabulary
    }

    pub fn into_vocabulary(self) -> Vocabulary {
        self.known.vocabulary
    }

    /// The next interaction; `None` at the end. After an error there is no more.
    #[inline]
    pub fn next_interaction(&mut self) -> Result<Option<Interaction>, LogError> {
        loop {
            if let Some(interaction) = self.ahead.next() {
                return Ok(Some(interaction));
            }
            if !self.read_line()? {
                return Ok(None);
            }
        }
    }

    /// What has been read and was not asked for.
    pub fn ahead(&mut self) -> &mut Ahead {
        &mut self.ahead
    }

    /// Reads one line ahead. Whether there was one more.
    pub fn read_line(&mut self) -> Result<bool, LogError> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                if self.carry.is_empty() {
                    return Ok(false);
                }
                self.line += 1;
                let line = std::mem::take(&mut self.carry);
                return self.take(&line).map(|()| true);
            }
            let Some(end) = newline(buffer) else {
                let length = buffer.len();
                self.carry.extend_from_slice(buffer);
                self.input.consume(length);
                if self.carry.len() > LONGEST_LINE {
                    self.line += 1;
                    return Err(self.refuse(format!("longer than {LONGEST_LINE} bytes")));
                }
                continue;
            };
            self.line += 1;
            if self.carry.is_empty() && end <= LONGEST_LINE {
                // The line is read where it lies; what comes of it holds no text.
                let read = self.known.read(&buffer[..end], self.line, &mut self.ahead.interactions);
                self.input.consume(end + 1);
                return read.map(|()| true).map_err(|what| self.refuse(what));
            }
            self.carry.extend_from_slice(&buffer[..end]);
            self.input.consume(end + 1);
            let line = std::mem::take(&mut self.carry);
            if line.len() > LONGEST_LINE {
                return Err(self.refuse(format!("longer than {LONGEST_LINE} bytes")));
            }
            return self.take(&line).map(|()| true);
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.known.read(bytes, self.line, &mut self.ahead.interactions).map_err(|what| self.refuse(what))
    }

    #[cold]
    fn refuse(&mut self, what: String) -> LogError {
        self.ahead = Ahead::default();
        LogError::Line { line: self.line, what }
    }
}

/// Where the first line ends. Whole pieces without an end are passed over at once.
#[inline]
fn newline(text: &[u8]) -> Option<usize> {
    let (pieces, _) = text.as_chunks::<32>();
    let holds_none = |piece: &&[u8; 32]| !piece.iter().fold(false, |found, &byte| found | (byte == b'\n'));
    let from = pieces.iter().take_while(holds_none).count() * 32;
    text[from..].iter().position(|&byte| byte == b'\n').map(|at| from + at)
}

impl Known {
    /// From the text of a line to what it does, added to the steps.
    #[inline]
    fn read(&mut self, text: &[u8], number: u64, steps: &mut Vec<Interaction>) -> Result<(), String> {
        let again = repeats::split(text);
        if let Some((t, rest)) = again.filter(|&(t, _)| t >= self.t && self.vocabulary.names.len() <= MOST_NAMES) {
            if self.repeats.find(rest, t, number, steps) {
                self.t = t;
                return Ok(());
            }
        }
        let mut line = Line::default();
        line.parse(text)?;
        let before = steps.len();
        self.steps(&line, number, steps)?;
        if let Some((_, rest)) = again.filter(|_| line.says_the_same_again()) {
            self.repeats.keep(rest, &steps[before..]);
        }
        Ok(())
    }

    fn steps(&mut self, line: &Line<'_>, number: u64, steps: &mut Vec<Interaction>) -> Result<(), String> {
        if line.is_empty {
            return Ok(());
        }
        if let Some(t) = line.t {
            if t < self.t {
                return Err(format!("`t` is {t} after {}: the time of lines never decreases", self.t));
            }
            self.t = t;
        }
        if self.vocabulary.names.len() > MOST_NAMES {
            return Err(format!("more than {MOST_NAMES} different names"));
        }
        let t = self.t;
        let mut give = |deed| steps.push(Interaction { t, line: number, deed });
        if line.queue.is_some() {
            if line.t.is_some() {
                give(Deed::Now);
            }
            give(self.declaration(line)?);
            return Ok(());
        }
        if line.t.is_none() {
            return Err("`t` is missing: the time in ns".to_owned());
        }
        let host = line.host.as_deref().unwrap_or("");
        if let Some(end) = &line.end {
            line.only(&["end"])?;
            give(Deed::End { machine: self.vocabulary.machine_of_text(host, end) });
            return Ok(());
        }
        let Some(machine) = &line.machine else {
            return Err("neither `machine`, `queue` nor `end`: whose line is this?".to_owned());
        };
        let is_recorder = is_named_as_recorder(machine);
        let machine = self.vocabulary.machine_of_text(host, machine);
        self.vocabulary.mark_recorder(machine, is_recorder);
        line.check()?;
        if line.of_kernel {
            self.vocabulary.mark_of_kernel(machine);
        }
        if let Some(class) = &line.class {
            give(Deed::Class { machine, class: self.vocabulary.names.intern(class) });
        }
        // A machine of which it is said that nobody knows where it is from just begins.
        if line.deeds() == 0 || line.forked_by == Some(By(None)) && line.on_top_of.is_none() {
            give(Deed::Here { machine });
        }
        let forked_by = line.forked_by.as_ref().and_then(|by| by.0.as_deref());
        let cause = forked_by.map(|by| self.cause(line, host, by));
        if let Some(below) = &line.on_top_of {
            let below = below.as_deref().map(|below| self.vocabulary.machine_of_text(host, below));
            give(Deed::Push { machine, below, cause: line.forked_by.is_some().then_some(cause) });
        } else if let Some(cause) = cause {
            give(Deed::Fork { machine, cause });
        }
        if let Some(deed) = self.deed(line, host, machine)? {
            give(deed);
        }
        if let Some(state) = &line.state {
            let kind = line.kind.unwrap_or_else(|| StateKind::of_text(state));
            give(Deed::State { machine, state: self.vocabulary.names.intern_as(state, NameKind::State(kind)) });
        }
        Ok(())
    }

    fn cause(&mut self, line: &Line<'_>, host: &str, by: &str) -> Cause {
        let link = self.link(line);
        Cause { by: self.vocabulary.machine_of_text(host, by), at: line.at, link }
    }

    fn link(&mut self, line: &Line<'_>) -> Option<NameId> {
        let link = line.link.as_deref()?;
        Some(self.vocabulary.names.intern_as(link, NameKind::Link(LinkKind::of_text(link))))
    }

    fn deed(&mut self, line: &Line<'_>, host: &str, machine: MachineId) -> Result<Option<Deed>, String> {
        let flow = line.flow.as_deref().map(|flow| self.vocabulary.names.intern(flow));
        if let Some(queue) = &line.put {
            let n = line.units()?;
            let queue = self.used(queue, Use::Put(n, flow))?;
            let link = self.link(line);
            return Ok(Some(Deed::Put { machine, queue, n, flow, link }));
        }
        if let Some(queue) = &line.get {
            let amount = line.amount();
            return Ok(Some(Deed::Get { machine, queue: self.used(queue, Use::Got(amount, flow))?, amount, flow }));
        }
        if let Some(queue) = &line.peek {
            return Ok(Some(Deed::Peek { machine, queue: self.used(queue, Use::Named)?, amount: line.amount(), flow }));
        }
        if let Some(queue) = &line.reserve {
            return Ok(Some(Deed::Reserve { machine, queue: self.used(queue, Use::Named)?, n: line.units()? }));
        }
        if let Some(why) = &line.blocked {
            let why = self.vocabulary.names.intern_as(why, NameKind::State(StateKind::Waits));
            let on = line.on.as_deref().map(|queue| self.replies.queue(&mut self.vocabulary, queue, Use::Named)).transpose()?;
            let wants = match line.wants.as_deref() {
                None => None,
                Some("tokens") => Some(Wants::Tokens),
                Some("space") => Some(Wants::Space),
                Some(other) => return Err(format!("`for` is \"{other}\"; a block is for \"tokens\" or \"space\"")),
            };
            return Ok(Some(Deed::Block { machine, why, on, wants }));
        }
        if let Some(By(by)) = &line.woken_by {
            let cause = by.as_deref().map(|by| self.cause(line, host, by));
            return Ok(Some(Deed::Wake { machine, cause }));
        }
        if line.pop {
            return Ok(Some(Deed::Pop { machine }));
        }
        Ok(line.stop.then_some(Deed::Stop { machine }))
    }

    fn used(&mut self, name: &str, with: Use) -> Result<QueueId, String> {
        let queue = self.replies.queue(&mut self.vocabulary, name, with)?;
        mark(&mut self.seen, queue);
        Ok(queue)
    }

    fn declaration(&mut self, line: &Line<'_>) -> Result<Deed, String> {
        line.only(&["queue", "capacity", "order", "unit", "initial", "merge"])?;
        let queue = self.vocabulary.queue_of_text(line.queue.as_deref().unwrap_or_default());
        if mark(&mut self.seen, queue) {
            return Err(format!(
                "queue \"{}\" was used or declared before; it is declared once, before its first use",
                self.vocabulary.queue_name(queue)
            ));
        }
        let order = match line.order.as_deref() {
            None | Some("fifo") => Order::Fifo,
            Some("lifo") => Order::Lifo,
            Some(other) => return Err(format!("`order` is \"{other}\"; a queue is \"fifo\" or \"lifo\"")),
        };
        let unit = match line.unit.as_deref() {
            None | Some("items") => Unit::Items,
            Some("bytes") => Unit::Bytes,
            Some(other) => return Err(format!("`unit` is \"{other}\"; a queue holds \"items\" or \"bytes\"")),
        };
        let initial = line.initial.unwrap_or(0);
        match line.capacity {
            Some(0) => return Err("`capacity` is 0: nothing could ever be put".to_owned()),
            Some(capacity) if initial > capacity => {
                return Err(format!("`initial` is {initial}, beyond the capacity of {capacity}"));
            }
            _ => {}
        }
        Ok(Deed::Declare { queue, shape: Shape { capacity: line.capacity, order, unit, initial, merge: line.merge } })
    }
}

/// Whether it was marked before.
fn mark(seen: &mut Vec<bool>, queue: QueueId) -> bool {
    let at = queue.0 as usize;
    if at >= seen.len() {
        seen.resize(at + 1, false);
    }
    std::mem::replace(&mut seen[at], true)
}

impl Line<'_> {
    /// So does a line of the same text at another time.
    fn says_the_same_again(&self) -> bool {
        let queues = [&self.put, &self.get, &self.peek, &self.reserve, &self.on];
        self.queue.is_none() && !queues.into_iter().flatten().any(|queue| replies::is_one(queue))
    }

    fn units(&self) -> Result<u64, String> {
        match self.n {
            None => Ok(1),
            Some(Number::Units(n)) => Ok(n),
            Some(Number::All) => Err("`n` is \"all\", which only a get or peek may say".to_owned()),
        }
    }

    fn amount(&self) -> Amount {
        match self.n {
            None => Amount::Units(1),
            Some(Number::Units(n)) => Amount::Units(n),
            Some(Number::All) => Amount::All,
        }
    }
}

/// A name that a reader may show.
pub(crate) fn quoted(vocabulary: &Vocabulary, name: NameId) -> String {
    serde_json::Value::from(vocabulary.names.text(name)).to_string()
}

#[cfg(test)]
mod tests {
    use super::line::Line;
    use super::quick;
    use proptest::prelude::*;

    /// Lines of the log's own words, well-formed or nearly so.
    fn line() -> impl Strategy<Value = String> {
        let key = proptest::sample::select(
            &[
                "t",
                "host",
                "machine",
                "class",
                "state",
                "blocked",
                "on",
                "for",
                "put",
                "get",
                "n",
                "flow",
                "woken_by",
                "forked_by",
                "at",
                "link",
                "on_top_of",
                "pop",
                "stop",
                "end",
                "queue",
                "capacity",
                "order",
                "initial",
                "merge",
                "x_own",
                "stat",
                "",
            ][..],
        );
        let value = proptest::sample::select(
            &[
                "0",
                "7",
                "12",
                "012",
                "-1",
                "1.5",
                "1e3",
                "999999999999999999",
                "9223372036854775807",
                "9223372036854775808",
                "\"A\"",
                "\"all\"",
                "\"\"",
                "\"a b\"",
                "\"\\u0041\"",
                "\"ä\"",
                "\"\u{7f}\"",
                "\"\u{1}\"",
                "null",
                "true",
                "false",
                "tru",
                "[1]",
                "{\"a\":1}",
                "",
            ][..],
        );
        let space = proptest::sample::select(&["", "", "", " ", "\t", "\r", "\u{b}"][..]);
        let member = (key, value, space).prop_map(|(key, value, space)| format!("{space}\"{key}\"{space}:{space}{value}"));
        let end = proptest::sample::select(&["}", "}", "}", "} ", "}}", "", ",}", "} x"][..]);
        (proptest::collection::vec(member, 0..5), end).prop_map(|(members, end)| format!("{{{}{end}", members.join(",")))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_quickly_is_read_the_same_by_the_reader_of_all_json(text in line()) {
            let mut line = Line::default();
            if quick::parse(text.as_bytes(), &mut line).is_some() {
                prop_assert_eq!(Ok(line), Line::parse_any(text.as_bytes()));
            }
        }
    }

    #[test]
    fn a_line_says_the_same_whether_it_came_before_or_not() {
        let bodies = [
            r#""machine":"A","state":"run"}"#,
            r#""machine":"B","class":"C","state":"run"}"#,
            r#""machine":"A","get":"q","state":"go"}"#,
            r#" "host": "h", "machine": "A", "put": "q", "n": 3, "flow": 7}"#,
            r#""machine":"A","put":"rpc:X:reply:1"}"#,
            r#""machine":"B","get":"rpc:X:reply:1"}"#,
            r#""machine":"A","woken_by":"B","at":0,"link":"l","state":"a"}"#,
            r#""end":"A"}"#,
        ];
        let log = |order: &[usize]| -> String { order.iter().map(|&at| format!("{{\"t\":{},{}\n", 3 + at / 8, bodies[at % 8])).collect() };
        let read = |text: &str| {
            let mut reader = super::Reader::new(text.as_bytes());
            let mut deeds = Vec::new();
            while let Some(interaction) = reader.next_interaction().unwrap() {
                deeds.push((interaction.t, interaction.line, format!("{:?}", interaction.deed)));
            }
            deeds
        };
        // The second time over, each line but for its time is one of the first; a blank within it makes it another text.
        let twice: Vec<usize> = (0..16).collect();
        let again = log(&twice);
        let other = again.replace("\":", "\" :");
        assert_eq!(read(&again), read(&other));
        assert_eq!(read(&again).len(), 2 * read(&log(&twice[..8])).len());
        let mut back = super::Reader::new("{\"t\":5,\"machine\":\"A\"}\n{\"t\":4,\"machine\":\"A\"}\n".as_bytes());
        assert!(back.next_interaction().is_ok());
        assert!(back.next_interaction().unwrap_err().to_string().contains("line 2: `t` is 4 after 5"));
    }

    #[test]
    fn the_common_shapes_are_read_quickly() {
        for text in [
            "{\"t\":5,\"machine\":\"A\",\"state\":\"run\"}",
            "{\"t\": 5, \"machine\": \"A\", \"put\": \"q\", \"n\": 1500, \"flow\": 7}\r",
            "{\"t\":0,\"machine\":\"A\",\"woken_by\":null}",
            "{\"queue\":\"q\",\"capacity\":4,\"merge\":true}",
        ] {
            assert!(quick::parse(text.as_bytes(), &mut Line::default()).is_some(), "{text}");
        }
    }
}
