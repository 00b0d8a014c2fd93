//! Events and losses as lines of text, similar to babeltrace2's, and as JSON.
//!
//! Names and subjects repeat, so their bytes are made once per catalogue entry. An event's line is
//! put together from them in one buffer, which is written when it is full.

use crate::patterns::Patterns;
use crate::render::table::plain;
use crate::render::values::{self, Piece, TimeOfDay};
use longpole_trace::event::StreamId;
use longpole_trace::Catalogue;
use longpole_trace::Event;
use longpole_trace::Item;
use longpole_trace::Loss;
use longpole_trace::Value;
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::io::{self, Write};

const FULL: usize = 64 << 10;

/// Prints items as lines. The caller must flush it at the end.
pub(crate) struct Printer<W> {
    sink: W,
    line: Vec<u8>,
    time: TimeOfDay,
    last_ns: Option<i64>,
    streams: Vec<Stream>,
    subjects: Vec<Subject>,
    classes: Vec<Class>,
    /// Patterns of the shown fields, contexts and packet values; `None` if all are shown.
    fields: Option<Patterns>,
    /// True if each line begins with the name of its host.
    hosts: bool,
}

/// What the line of an item says apart from the time and the CPU.
pub(crate) struct ItemTexts {
    pub who: String,
    /// Name of the event; empty for a loss.
    pub name: String,
    pub values: String,
}

/// A name as text for people, and as a JSON string.
struct Named {
    text: Piece,
    json: Piece,
}

struct Stream {
    /// The stream's name, shown instead of a subject about which nothing is known.
    who: Piece,
    name: Named,
}

/// The texts for a subject, that is, for the thread or process that an event is from. Each ends
/// with a space.
struct Subject {
    /// The complete text, for events whose contexts identify nothing. Empty if nothing is known;
    /// then the stream's name is shown instead.
    whole: Piece,
    /// The host and program, which all threads have in common, for events whose contexts name the
    /// thread.
    common: Piece,
    /// The host, for events whose contexts name the program, too.
    host: Piece,
    /// All members of the JSON object `context`, joined. `members` has them one by one, each with
    /// the property that it states.
    json: Piece,
    members: Vec<(Who, Vec<u8>)>,
}

struct Class {
    /// The event's name, and the brace that opens its values.
    head: Piece,
    json: Piece,
    fields: Members,
    context: Members,
    packet: Members,
    says: ContextScope,
    /// Properties of the subject that the class's own contexts state.
    given: Vec<Who>,
}

/// The part of the subject that the contexts of a class state.
#[derive(Clone, Copy)]
enum ContextScope {
    Nothing,
    Threads,
    Programs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Host,
    Label,
    Thread,
    Pid,
    Tid,
}

impl Who {
    fn called(self) -> &'static str {
        match self {
            Who::Host => "host",
            Who::Label => "label",
            Who::Thread => "thread",
            Who::Pid => "pid",
            Who::Tid => "tid",
        }
    }

    /// Returns the property that a tracer's context with this name states.
    fn of_context(name: &str) -> Option<Who> {
        Some(match name {
            "host" => Who::Host,
            "label" | "procname" => Who::Label,
            "thread" => Who::Thread,
            "pid" | "vpid" => Who::Pid,
            "tid" | "vtid" => Who::Tid,
            _ => return None,
        })
    }
}

/// The values of an event in one scope. All have an entry; those that are not shown are marked
/// hidden.
struct Members {
    members: Vec<Member>,
    names: Vec<String>,
    /// True if at least one value is shown.
    any: bool,
    /// Braces that close the structures around the last value, and the scope itself.
    end: Piece,
}

struct Member {
    /// `name = `, preceded by the separator and by the braces that close and open structures.
    text: Piece,
    /// `"name":`, preceded by the separator.
    json: Piece,
    base: u8,
    hidden: bool,
}

impl<W: Write> Printer<W> {
    pub fn new(sink: W) -> Printer<W> {
        Printer {
            sink,
            line: Vec::with_capacity(FULL + (4 << 10)),
            time: TimeOfDay::default(),
            last_ns: None,
            streams: Vec::new(),
            subjects: Vec::new(),
            classes: Vec::new(),
            fields: None,
            hosts: false,
        }
    }

    /// Limits the output to these fields, contexts and packet values.
    pub fn only(self, fields: Option<Patterns>) -> Printer<W> {
        Printer { fields, ..self }
    }

    /// If the trace is from several hosts, each line names its own.
    pub fn name_hosts(&mut self, catalogue: &Catalogue) {
        let mut hosts = catalogue.subjects.iter().map(|subject| &subject.host).filter(|host| !host.is_empty());
        let first = hosts.next();
        self.hosts = hosts.any(|host| Some(host) != first);
    }

    /// Clears all prepared texts; the next items belong to another catalogue.
    pub fn begin_anew(&mut self) {
        self.streams.clear();
        self.subjects.clear();
        self.classes.clear();
    }

    /// Prepares the texts for new entries of the catalogue.
    #[inline]
    fn learn(&mut self, catalogue: &Catalogue) {
        if self.streams.len() < catalogue.streams.len()
            || self.subjects.len() < catalogue.subjects.len()
            || self.classes.len() < catalogue.classes.len()
        {
            self.learn_new(catalogue);
        }
    }

    #[cold]
    fn learn_new(&mut self, catalogue: &Catalogue) {
        let stream = |stream: &longpole_trace::Stream| Stream { who: who(&stream.name), name: named(&stream.name) };
        self.streams.extend(catalogue.streams[self.streams.len()..].iter().map(stream));
        let hosts = self.hosts;
        self.subjects.extend(catalogue.subjects[self.subjects.len()..].iter().map(|one| subject(one, hosts)));
        let Printer { classes, fields, .. } = self;
        for class in &catalogue.classes[classes.len()..] {
            let shown = |scope: &str, name: &str| {
                fields.as_ref().is_none_or(|fields| fields.hold_part(name) || fields.hold_part(&format!("{scope}.{name}")))
            };
            let has = |names: &[&str]| class.context.iter().any(|name| names.contains(&name.as_str()));
            classes.push(Class {
                head: piece(format!("{}: {{", class.event_name)),
                json: quoted(&class.event_name),
                fields: members(&class.fields, &class.bases, |name| shown("field", name)),
                context: members(&class.context, &class.context_bases, |name| shown("context", name)),
                packet: members(&class.packet, &class.packet_bases, |name| shown("packet", name)),
                says: match (has(&["procname"]), has(&["tid", "vtid", "pid", "vpid"])) {
                    (true, _) => ContextScope::Programs,
                    (false, true) => ContextScope::Threads,
                    (false, false) => ContextScope::Nothing,
                },
                given: class.context.iter().filter_map(|name| Who::of_context(name)).collect(),
            });
        }
    }

    pub fn event(&mut self, event: &Event<'_>, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.when(event.t_ns);
        let Printer { line, streams, subjects, classes, .. } = self;
        let (class, subject) = (&classes[event.class.0 as usize], &subjects[event.subject.0 as usize]);
        let who = match class.says {
            ContextScope::Nothing if subject.whole.is_empty() => &streams[event.stream.0 as usize].who,
            ContextScope::Nothing => &subject.whole,
            ContextScope::Threads => &subject.common,
            ContextScope::Programs => &subject.host,
        };
        who.put(line);
        class.head.put(line);
        if let Some(cpu) = event.cpu {
            line.extend_from_slice(b" cpu_id = ");
            values::unsigned(line, u64::from(cpu));
        }
        if class.packet.any {
            line.extend_from_slice(if event.cpu.is_some() { b"," } else { b"" });
            class.packet.text(line, event.packet.iter());
            line.extend_from_slice(b", {");
        } else if event.cpu.is_some() {
            line.extend_from_slice(b" }, {");
        }
        if class.context.any && !event.context.is_empty() {
            class.context.text(line, event.context);
            line.extend_from_slice(b", {");
        }
        class.fields.text(line, event.fields);
        match event.is_partial(catalogue) {
            false => line.push(b'\n'),
            true => {
                line.truncate(line.len() - 1);
                line.extend_from_slice(b"<damaged> }\n");
            }
        }
    }

    /// Returns the line of an item that follows one at `last_ns`, and sets `last_ns` to the item's
    /// time.
    pub fn line_after(&mut self, last_ns: &mut Option<i64>, item: &Item<'_>, catalogue: &Catalogue) -> &[u8] {
        self.line.clear();
        std::mem::swap(&mut self.last_ns, last_ns);
        match item {
            Item::Event(event) => self.event(event, catalogue),
            Item::Loss(loss) => self.loss(loss, catalogue),
        }
        std::mem::swap(&mut self.last_ns, last_ns);
        &self.line
    }

    /// Returns what the line of an item says apart from the time and the CPU.
    pub fn texts(&mut self, item: &Item<'_>, catalogue: &Catalogue) -> ItemTexts {
        self.learn(catalogue);
        let Printer { line, streams, subjects, classes, .. } = self;
        line.clear();
        let mut text = |write: &dyn Fn(&mut Vec<u8>)| {
            line.clear();
            write(line);
            String::from_utf8_lossy(line).trim().to_owned()
        };
        match item {
            Item::Event(event) => {
                let (class, subject) = (&classes[event.class.0 as usize], &subjects[event.subject.0 as usize]);
                let stream = &streams[event.stream.0 as usize];
                let who = if subject.whole.is_empty() { &stream.who } else { &subject.whole };
                let values = text(&|line| {
                    line.extend_from_slice(b"{");
                    if class.context.any && !event.context.is_empty() {
                        class.context.text(line, event.context);
                        line.extend_from_slice(b", {");
                    }
                    class.fields.text(line, event.fields);
                    if event.is_partial(catalogue) {
                        line.extend_from_slice(b" <damaged>");
                    }
                });
                let name = catalogue.classes[event.class.0 as usize].event_name.as_str();
                ItemTexts { who: text(&|line| who.put(line)), name: plain(name.to_owned()), values }
            }
            Item::Loss(loss) => {
                let values = text(&|line| lost(line, &mut TimeOfDay::default(), loss));
                let who = text(&|line| streams[loss.stream.0 as usize].name.text.put(line));
                ItemTexts { who, name: String::new(), values }
            }
        }
    }

    #[inline]
    fn when(&mut self, t_ns: i64) {
        let last_ns = self.last_ns.replace(t_ns);
        self.time.show_since(&mut self.line, t_ns, last_ns);
    }

    pub fn loss(&mut self, loss: &Loss, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.when(loss.end_ns);
        let Printer { line, streams, time, .. } = self;
        streams[loss.stream.0 as usize].name.text.put(line);
        line.extend_from_slice(b": ");
        lost(line, time, loss);
        line.push(b'\n');
    }

    #[inline]
    fn where_json(&mut self, t_ns: i64, stream: StreamId) {
        self.line.extend_from_slice(b"{\"t_ns\":");
        values::signed(&mut self.line, t_ns);
        self.line.extend_from_slice(b",\"stream\":");
        self.streams[stream.0 as usize].name.json.put(&mut self.line);
    }

    pub fn event_json(&mut self, event: &Event<'_>, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.where_json(event.t_ns, event.stream);
        let Printer { line, subjects, classes, .. } = self;
        let class = &classes[event.class.0 as usize];
        line.extend_from_slice(b",\"cpu\":");
        match event.cpu {
            Some(cpu) => values::unsigned(line, u64::from(cpu)),
            None => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"name\":");
        class.json.put(line);
        line.extend_from_slice(b",\"fields\":{");
        let mut labelled = class.fields.json(line, event.fields);
        line.extend_from_slice(b"},\"context\":{");
        let subject = &subjects[event.subject.0 as usize];
        if event.context.is_empty() {
            subject.json.put(line);
        } else {
            labelled |= class.context.json(line, event.context);
            for (_, member) in subject.members.iter().filter(|(who, _)| !class.given.contains(who)) {
                line.extend_from_slice(if line.ends_with(b"{") { b"" } else { b"," });
                line.extend_from_slice(member);
            }
        }
        line.push(b'}');
        if class.packet.any {
            line.extend_from_slice(b",\"packet\":{");
            labelled |= class.packet.json(line, event.packet.iter());
            line.push(b'}');
        }
        if labelled {
            class.labelled_json(line, event);
        }
        if event.is_partial(catalogue) {
            line.extend_from_slice(b",\"partial\":true");
        }
        line.extend_from_slice(b"}\n");
    }

    pub fn loss_json(&mut self, loss: &Loss, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.where_json(loss.end_ns, loss.stream);
        let line = &mut self.line;
        line.extend_from_slice(b",\"lost\":");
        match loss.events {
            Some(events) => values::unsigned(line, events),
            None => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"since_ns\":");
        values::signed(line, loss.begin_ns);
        line.extend_from_slice(b"}\n");
    }

    #[inline]
    pub fn flush_if_full(&mut self) -> io::Result<()> {
        if self.line.len() >= FULL {
            self.flush()?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.line)?;
        self.line.clear();
        self.sink.flush()
    }
}

impl Class {
    /// Writes the member `labelled`: for each value with labels, its number and all labels. Writes
    /// nothing if there are none.
    #[cold]
    fn labelled_json(&self, line: &mut Vec<u8>, event: &Event<'_>) {
        let begin = line.len();
        line.extend_from_slice(b",\"labelled\":{");
        let empty = line.len();
        self.fields.labelled_json(line, "fields", event.fields);
        self.context.labelled_json(line, "context", event.context);
        self.packet.labelled_json(line, "packet", event.packet.iter());
        match line.len() == empty {
            true => line.truncate(begin),
            false => line.push(b'}'),
        }
    }
}

/// Writes how many events were lost, and since when.
fn lost(line: &mut Vec<u8>, time: &mut TimeOfDay, loss: &Loss) {
    match loss.events {
        Some(events) => values::unsigned(line, events),
        None => line.extend_from_slice(b"an unknown number of"),
    }
    line.extend_from_slice(b" events lost since [");
    time.show(line, loss.begin_ns);
    line.push(b']');
}

/// Returns text for people, without control characters.
fn piece(text: String) -> Piece {
    plain(text).into_bytes().into()
}

/// Returns the name followed by a space, or nothing if it is empty.
fn who(name: &str) -> Piece {
    if name.is_empty() {
        Piece::default()
    } else {
        piece(format!("{name} "))
    }
}

fn quoted(name: &str) -> Piece {
    let mut json = Vec::new();
    values::quoted(&mut json, name.as_bytes());
    json.into()
}

fn named(name: &str) -> Named {
    Named { text: piece(name.to_owned()), json: quoted(name) }
}

fn subject(subject: &longpole_trace::Subject, hosts: bool) -> Subject {
    let longpole_trace::Subject { host, label, thread, pid, tid } = subject;
    let mut whole = label.clone();
    if !thread.is_empty() && thread != label {
        if !whole.is_empty() {
            whole.push(':');
        }
        whole.push_str(thread);
    }
    if let Some(tid) = tid.filter(|_| !whole.is_empty()) {
        whole.push_str(&format!("({tid})"));
    }
    // The program, for events about which the thread is not known.
    let program = match pid {
        Some(pid) if !label.is_empty() => format!("{label}:({pid})"),
        _ => label.clone(),
    };
    let of_host = |program: &str| match (host.is_empty(), program.is_empty()) {
        (false, false) => format!("{host}:{program}"),
        (false, true) => host.clone(),
        (true, _) => program.to_owned(),
    };
    if whole.is_empty() || (thread.is_empty() && tid.is_none()) {
        whole = of_host(&program);
    } else if hosts && !host.is_empty() {
        whole = format!("{host} {whole}");
    }
    let mut members = Vec::new();
    let mut member = |who: Who, show: &dyn Fn(&mut Vec<u8>)| {
        let mut json = format!("\"{}\":", who.called()).into_bytes();
        show(&mut json);
        members.push((who, json));
    };
    let host_of_several = if hosts { host.as_str() } else { "" };
    for (who, value) in [(Who::Host, host_of_several), (Who::Label, label), (Who::Thread, thread)] {
        if !value.is_empty() {
            member(who, &|out| values::quoted(out, value.as_bytes()));
        }
    }
    for (who, value) in [(Who::Pid, pid), (Who::Tid, tid)] {
        if let Some(value) = value {
            member(who, &|out| values::signed(out, i64::from(*value)));
        }
    }
    let json = members.iter().map(|(_, json)| json.as_slice()).collect::<Vec<_>>().join(&b',');
    Subject { whole: who(&whole), common: who(&of_host(&program)), host: who(host), json: json.into(), members }
}

impl Members {
    #[inline]
    fn text<'a>(&self, line: &mut Vec<u8>, values: impl IntoIterator<Item = impl Borrow<Value<'a>>>) {
        for (member, value) in self.members.iter().zip(values) {
            if !member.hidden {
                member.text.put(line);
                values::text(line, value.borrow(), member.base);
            }
        }
        self.end.put(line);
    }

    /// Writes the values as members of a JSON object. Returns true if some of them may have labels.
    #[inline]
    fn json<'a>(&self, line: &mut Vec<u8>, values: impl IntoIterator<Item = impl Borrow<Value<'a>>>) -> bool {
        let mut labelled = false;
        for (member, value) in self.members.iter().zip(values) {
            if !member.hidden {
                member.json.put(line);
                values::json(line, value.borrow());
                labelled |= values::may_be_labelled(value.borrow());
            }
        }
        labelled
    }

    fn labelled_json<'a>(&self, line: &mut Vec<u8>, scope: &str, values: impl IntoIterator<Item = impl Borrow<Value<'a>>>) {
        let begin = line.len();
        line.extend_from_slice(if line.ends_with(b"{") { b"" } else { b"," });
        line.extend_from_slice(format!("\"{scope}\":{{").as_bytes());
        let empty = line.len();
        for ((member, name), value) in self.members.iter().zip(&self.names).zip(values) {
            if !member.hidden && values::may_be_labelled(value.borrow()) {
                values::labelled(line, &mut name.clone(), value.borrow());
            }
        }
        match line.len() == empty {
            true => line.truncate(begin),
            false => line.push(b'}'),
        }
    }
}

/// Makes the texts around the values. Names of nested members are dotted (`at.x`); the text for
/// people shows them nested again (`at = { x = … }`).
fn members(names: &[String], bases: &[u8], shown: impl Fn(&str) -> bool) -> Members {
    let mut members = Vec::with_capacity(names.len());
    // The structures around the last shown value.
    let mut open: Vec<String> = Vec::new();
    let mut first = true;
    for (index, name) in names.iter().enumerate() {
        let base = bases.get(index).copied().unwrap_or(10);
        if !shown(name) {
            members.push(Member { text: Piece::default(), json: Piece::default(), base, hidden: true });
            continue;
        }
        // A dot that is part of a name is escaped with a backslash.
        let mut outer: Vec<String> = name.replace("\\.", "\0").split('.').map(|part| part.replace('\0', ".")).collect();
        let inner = outer.pop().unwrap_or_default();
        let same = open.iter().zip(&outer).take_while(|(open, outer)| open == outer).count();
        let mut text = " }".repeat(open.len() - same);
        text.push_str(if first { " " } else { ", " });
        outer[same..].iter().for_each(|outer| text.push_str(&format!("{outer} = {{ ")));
        text.push_str(&format!("{inner} = "));
        open = outer;
        let mut json = if first { Vec::new() } else { vec![b','] };
        values::quoted(&mut json, name.as_bytes());
        json.push(b':');
        members.push(Member { text: piece(text), json: json.into(), base, hidden: false });
        first = false;
    }
    Members { members, names: names.to_vec(), any: !first, end: piece(" }".repeat(open.len() + 1)) }
}

/// A buffer for the last lines, at most `most` of them.
pub struct Tail {
    most: usize,
    lines: VecDeque<Vec<u8>>,
}

impl Tail {
    pub fn new(most: usize) -> Tail {
        Tail { most, lines: VecDeque::new() }
    }
}

impl<W: Write> Printer<W> {
    /// Moves the last line to `tail` instead of writing it.
    pub fn put_aside(&mut self, tail: &mut Tail) {
        let mut line = match tail.lines.len() < tail.most {
            true => Vec::new(),
            false => tail.lines.pop_front().unwrap_or_default(),
        };
        line.clear();
        line.extend_from_slice(&self.line);
        self.line.clear();
        if tail.most > 0 {
            tail.lines.push_back(line);
        }
    }

    /// Writes the lines in `tail`.
    pub fn put_back(&mut self, tail: Tail) -> io::Result<()> {
        for line in tail.lines {
            self.line.extend_from_slice(&line);
            self.flush_if_full()?;
        }
        self.flush()
    }
}
