//! `longpole print`: the events of a trace as lines, in the order of time. Names and subjects repeat, so their bytes are made once;
//! an event's line is put together from them in one buffer that is written when it is full.

use crate::input::{self, Input};
use crate::show::{self, TimeOfDay};
use crate::table::plain;
use longpole_trace::event::StreamId;
use longpole_trace::{Catalogue, Event, Item, Loss};
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the events of a trace in the order of time; a loss is a line, too.
#[derive(clap::Args)]
#[command(after_help = "\
A line is: [time of day, UTC] (+since the line before) who cpu name: { fields }

Examples:
  longpole print | head                         the newest recording
  longpole print --begin +1.5s --end +1.6s DIR
  longpole print ~/lttng-traces/run1 capture.pcapng
  longpole print --json | jq 'select(.name == \"log\").fields.text'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = input::open_stored(&args.input.paths()?, args.input.options())?;
    let mut printer = Printer::new(io::stdout().lock());
    loop {
        let (item, catalogue) = match trace.next_with_catalogue() {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(error) => {
                printer.flush()?;
                return Err(error.into());
            }
        };
        match (item, args.input.json) {
            (Item::Event(event), false) => printer.event(&event, catalogue),
            (Item::Event(event), true) => printer.event_json(&event, catalogue),
            (Item::Loss(loss), false) => printer.loss(&loss, catalogue),
            (Item::Loss(loss), true) => printer.loss_json(&loss, catalogue),
        }
        printer.flush_if_full()?;
    }
    printer.flush()?;
    for oddity in trace.oddities() {
        eprintln!("longpole: {}", plain(oddity.to_string()));
    }
    Ok(if trace.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const FULL: usize = 64 << 10;

/// Shows items as lines; who uses one asks it to flush.
pub(crate) struct Printer<W> {
    sink: W,
    line: Vec<u8>,
    time: TimeOfDay,
    last_ns: Option<i64>,
    streams: Vec<Named>,
    subjects: Vec<Subject>,
    classes: Vec<Class>,
}

/// A name as it is, and as a JSON string.
struct Named {
    text: Vec<u8>,
    json: Vec<u8>,
}

struct Subject {
    /// Empty if nothing is known, then the stream is named instead.
    text: Vec<u8>,
    /// The members of the `context` object.
    json: Vec<u8>,
}

struct Class {
    name: Named,
    fields: Vec<Member>,
    context: Vec<Member>,
}

struct Member {
    /// `name = `, with what separates it from the one before.
    text: Vec<u8>,
    /// `"name":`, likewise.
    json: Vec<u8>,
    base: u8,
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
        }
    }

    /// What follows is of another catalogue.
    pub fn begin_anew(&mut self) {
        self.streams.clear();
        self.subjects.clear();
        self.classes.clear();
    }

    /// Makes the bytes of what is new in the catalogue.
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
        self.streams.extend(catalogue.streams[self.streams.len()..].iter().map(|stream| named(&stream.name)));
        self.subjects.extend(catalogue.subjects[self.subjects.len()..].iter().map(subject));
        self.classes.extend(catalogue.classes[self.classes.len()..].iter().map(|class| Class {
            name: named(&class.event_name),
            fields: members(&class.fields, &class.bases),
            context: members(&class.context, &[]),
        }));
    }

    pub fn event(&mut self, event: &Event<'_>, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.when(event.t_ns);
        let Printer { line, streams, subjects, classes, .. } = self;
        let who = match &subjects[event.subject.0 as usize].text {
            nobody if nobody.is_empty() => &streams[event.stream.0 as usize].text,
            somebody => somebody,
        };
        line.extend_from_slice(who);
        if let Some(cpu) = event.cpu {
            line.extend_from_slice(b" cpu");
            show::unsigned(line, u64::from(cpu));
        }
        let class = &classes[event.class.0 as usize];
        line.push(b' ');
        line.extend_from_slice(&class.name.text);
        line.extend_from_slice(b": {");
        if !event.context.is_empty() {
            for (member, value) in class.context.iter().zip(event.context) {
                line.extend_from_slice(&member.text);
                show::text(line, value, member.base);
            }
            line.extend_from_slice(b" }, {");
        }
        for (member, value) in class.fields.iter().zip(event.fields) {
            line.extend_from_slice(&member.text);
            show::text(line, value, member.base);
        }
        line.extend_from_slice(b" }\n");
    }

    /// An item's line as it stands behind one of `last_ns`, which becomes that of this one.
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

    /// `[time] (+delta) `
    #[inline]
    fn when(&mut self, t_ns: i64) {
        self.line.push(b'[');
        self.time.show(&mut self.line, t_ns);
        match self.last_ns.replace(t_ns) {
            None => self.line.extend_from_slice(b"] (+?.?????????) "),
            Some(last) => {
                self.line.extend_from_slice(if t_ns < last { b"] (-" } else { b"] (+" });
                show::seconds(&mut self.line, t_ns.abs_diff(last));
                self.line.extend_from_slice(b") ");
            }
        }
    }

    pub fn loss(&mut self, loss: &Loss, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.when(loss.end_ns);
        let Printer { line, streams, .. } = self;
        line.extend_from_slice(&streams[loss.stream.0 as usize].text);
        line.extend_from_slice(b": ");
        match loss.events {
            Some(events) => show::unsigned(line, events),
            None => line.extend_from_slice(b"an unknown number of"),
        }
        line.extend_from_slice(b" events lost since [");
        self.time.show(line, loss.begin_ns);
        line.extend_from_slice(b"]\n");
    }

    #[inline]
    fn where_json(&mut self, t_ns: i64, stream: StreamId) {
        self.line.extend_from_slice(b"{\"t_ns\":");
        show::signed(&mut self.line, t_ns);
        self.line.extend_from_slice(b",\"stream\":");
        self.line.extend_from_slice(&self.streams[stream.0 as usize].json);
    }

    fn event_json(&mut self, event: &Event<'_>, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.where_json(event.t_ns, event.stream);
        let Printer { line, subjects, classes, .. } = self;
        let class = &classes[event.class.0 as usize];
        line.extend_from_slice(b",\"cpu\":");
        match event.cpu {
            Some(cpu) => show::unsigned(line, u64::from(cpu)),
            None => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"name\":");
        line.extend_from_slice(&class.name.json);
        line.extend_from_slice(b",\"fields\":{");
        for (member, value) in class.fields.iter().zip(event.fields) {
            line.extend_from_slice(&member.json);
            show::json(line, value);
        }
        line.extend_from_slice(b"},\"context\":{");
        if event.context.is_empty() {
            line.extend_from_slice(&subjects[event.subject.0 as usize].json);
        }
        for (member, value) in class.context.iter().zip(event.context) {
            line.extend_from_slice(&member.json);
            show::json(line, value);
        }
        line.extend_from_slice(b"}}\n");
    }

    fn loss_json(&mut self, loss: &Loss, catalogue: &Catalogue) {
        self.learn(catalogue);
        self.where_json(loss.end_ns, loss.stream);
        let line = &mut self.line;
        line.extend_from_slice(b",\"lost\":");
        match loss.events {
            Some(events) => show::unsigned(line, events),
            None => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"since_ns\":");
        show::signed(line, loss.begin_ns);
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

fn named(name: &str) -> Named {
    let mut json = Vec::new();
    show::quoted(&mut json, name.as_bytes());
    Named { text: plain(name.to_owned()).into_bytes(), json }
}

fn subject(subject: &longpole_trace::Subject) -> Subject {
    let mut text = subject.label.clone();
    if !subject.thread.is_empty() && subject.thread != subject.label {
        if !text.is_empty() {
            text.push(':');
        }
        text.push_str(&subject.thread);
    }
    if let Some(tid) = subject.tid.filter(|_| !text.is_empty()) {
        text.push_str(&format!("({tid})"));
    }
    let mut json = Vec::new();
    let mut member = |name: &str, show: &dyn Fn(&mut Vec<u8>)| {
        if !json.is_empty() {
            json.push(b',');
        }
        show::quoted(&mut json, name.as_bytes());
        json.push(b':');
        show(&mut json);
    };
    for (name, value) in [("label", &subject.label), ("thread", &subject.thread)] {
        if !value.is_empty() {
            member(name, &|out| show::quoted(out, value.as_bytes()));
        }
    }
    for (name, value) in [("pid", subject.pid), ("tid", subject.tid)] {
        if let Some(value) = value {
            member(name, &|out| show::signed(out, i64::from(value)));
        }
    }
    Subject { text: plain(text).into_bytes(), json }
}

fn members(names: &[String], bases: &[u8]) -> Vec<Member> {
    let mut members = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let separator: (&str, &[u8]) = if index == 0 { (" ", b"") } else { (", ", b",") };
        let mut json = separator.1.to_vec();
        show::quoted(&mut json, name.as_bytes());
        json.push(b':');
        let base = bases.get(index).copied().unwrap_or(10);
        members.push(Member { text: plain(format!("{}{name} = ", separator.0)).into_bytes(), json, base });
    }
    members
}
