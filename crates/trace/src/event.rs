//! What a trace yields, whatever it was read from: events and losses, ordered by time.
//!
//! This is the seam between reading and understanding. A reader interns what repeats (classes, streams, subjects) and hands out
//! small copies; an analysis never asks where an event was stored. Nothing here interprets an event: that is the model's work.

pub use crate::value::{Nested, PacketValues, Value};

/// Index into [`Catalogue::classes`]. Two classes of equal name are two entries (two call sites).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// Index into [`Catalogue::streams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// Index into [`Catalogue::subjects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId(pub u32);

/// What the trace says of an event class.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Full name, e.g. `span_begin:parse` or `lttng_ust_tracef:event`.
    pub event_name: String,
    /// Names of the fields in the order of [`Event::fields`]; nested ones are dotted.
    pub fields: Vec<String>,
    /// Per field the base in which its tracer wants integers shown: 2, 8, 10 or 16.
    pub bases: Vec<u8>,
    /// Names of the values of [`Event::context`].
    pub context: Vec<String>,
    /// As `bases`, of these.
    pub context_bases: Vec<u8>,
    /// Names of the values of [`Event::packet`].
    pub packet: Vec<String>,
    /// As `bases`, of these.
    pub packet_bases: Vec<u8>,
    /// Key and value pairs of a `longpole:site?…` attribute (file, line, capacity, order, unit), decoded.
    pub attributes: Vec<(String, String)>,
}

/// One sequence of events with its own loss counter: a lane, a CPU, a capture file.
#[derive(Clone, Debug)]
pub struct Stream {
    pub name: String,
    pub kind: StreamKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    User,
    Kernel,
    Packets,
    Samples,
}

/// Who did something: a thread of a process, or whatever the foreign trace names in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    pub host: String,
    /// Component path or process name; empty where unknown.
    pub label: String,
    pub thread: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

/// Everything interned so far; grows while the trace is read, entries never change.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    pub classes: Vec<Class>,
    pub streams: Vec<Stream>,
    pub subjects: Vec<Subject>,
    /// The kernel's events name threads by other numbers than the probes do: those of another pid namespace.
    pub foreign_pids: bool,
    /// Losses that the reader came to since the item before, at most one of a stream: until it yields them, at their end, that stream says nothing.
    pub losses_ahead: Vec<Loss>,
}

impl Catalogue {
    #[cold]
    pub(crate) fn comes_to(&mut self, loss: Loss) {
        match self.losses_ahead.iter_mut().find(|known| known.stream == loss.stream) {
            Some(known) => *known = loss,
            None => self.losses_ahead.push(loss),
        }
    }
}

/// One event. `fields` borrows from the reader until the next item is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Unix time in ns (or the origin of a foreign clock).
    pub t_ns: i64,
    pub stream: StreamId,
    pub subject: SubjectId,
    pub class: ClassId,
    pub cpu: Option<u32>,
    pub fields: &'a [Value<'a>],
    /// What a foreign tracer adds to every event (LTTng: `vpid`, `vtid`, `procname`, …); empty where the subject says it all.
    pub context: &'a [Value<'a>],
    /// What a foreign tracer says of all events of a packet, but for what each packet has (times, sizes, counters), the CPU, and who it was where
    /// that is the subject.
    pub packet: PacketValues<'a>,
}

impl Event<'_> {
    /// Whether the stream is damaged in this event: then the fields before the damage are there.
    pub fn is_partial(&self, catalogue: &Catalogue) -> bool {
        let class = &catalogue.classes[self.class.0 as usize];
        self.fields.len() < class.fields.len()
    }
}

/// Events that are missing: they belong somewhere between `begin_ns` and `end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub stream: StreamId,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// `None`: lost, but nobody counted.
    pub events: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    Event(Event<'a>),
    /// Comes at its `end_ns`.
    Loss(Loss),
}

impl Item<'_> {
    /// By which items are in order: of a loss the end.
    pub fn t_ns(&self) -> i64 {
        match self {
            Item::Event(event) => event.t_ns,
            Item::Loss(loss) => loss.end_ns,
        }
    }

    pub fn stream(&self) -> StreamId {
        match self {
            Item::Event(event) => event.stream,
            Item::Loss(loss) => loss.stream,
        }
    }
}
