//! What a trace yields, whatever its format: events and losses, ordered by time.
//!
//! This is the seam between reading and interpreting. A reader interns what repeats (classes,
//! streams, subjects) and yields small copies, so an analysis does not need to know where an event
//! was stored. Nothing here interprets an event: the `model` crate does that.

pub use crate::value::{Nested, PacketValues, Value};

/// Index into [`Catalogue::classes`]. Two classes with the same name are two entries (two call
/// sites).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// Index into [`Catalogue::streams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// Index into [`Catalogue::subjects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectId(pub u32);

/// Description of an event class in the trace.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Full name, e.g. `span_begin:parse` or `lttng_ust_tracef:event`.
    pub event_name: String,
    /// Names of the fields in the order of [`Event::fields`]. Names of nested fields are dotted.
    pub fields: Vec<String>,
    /// Display base of each field's integers, as chosen by the tracer: 2, 8, 10 or 16.
    pub bases: Vec<u8>,
    /// Names of the values of [`Event::context`].
    pub context: Vec<String>,
    /// Display base of each value of [`Event::context`], like `bases`.
    pub context_bases: Vec<u8>,
    /// Names of the values of [`Event::packet`].
    pub packet: Vec<String>,
    /// Display base of each value of [`Event::packet`], like `bases`.
    pub packet_bases: Vec<u8>,
    /// Decoded key and value pairs of a `longpole:site?…` attribute (file, line, capacity, order,
    /// unit).
    pub attributes: Vec<(String, String)>,
}

/// One sequence of events with its own loss counter: a thread's stream, a CPU, a capture file.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Path of the stream's file, relative to the trace; also with the CPU if one file has several
    /// streams.
    pub name: String,
    pub kind: StreamKind,
}

/// Kind of a stream's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Events whose meaning is in rule files: those of programs and of seL4's log, for which rules
    /// are built in, and those of Chrome's JSON, which mean nothing without rules of the user.
    User,
    /// Events of a Linux kernel, whose meaning the model of Linux knows.
    Kernel,
    /// Network packets.
    Packets,
    /// Samples of a profiler, and the processes and mappings that belong to them.
    Samples,
}

/// The actor of an event: a thread of a process, or what a foreign trace names in place of a
/// thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Name of the host; empty if unknown.
    pub host: String,
    /// Component path or process name; empty if unknown.
    pub label: String,
    /// Name of the thread; empty if unknown.
    pub thread: String,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
}

/// Everything interned until now. The catalogue grows while the trace is read; entries never
/// change.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    pub classes: Vec<Class>,
    pub streams: Vec<Stream>,
    pub subjects: Vec<Subject>,
    /// Set if the kernel's events and the probes number threads differently, because they are in
    /// different pid namespaces.
    pub foreign_pids: bool,
    /// Losses that the reader reached since the item before, at most one per stream. Each is
    /// yielded later, at its end; until then its stream yields no event.
    pub losses_ahead: Vec<Loss>,
}

impl Catalogue {
    #[cold]
    pub(crate) fn loss_reached(&mut self, loss: Loss) {
        match self.losses_ahead.iter_mut().find(|known| known.stream == loss.stream) {
            Some(known) => *known = loss,
            None => self.losses_ahead.push(loss),
        }
    }
}

/// One event. `fields` borrows from the reader until the next item is requested.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Unix time in ns, or ns since the origin of a foreign clock.
    pub t_ns: i64,
    pub stream: StreamId,
    pub subject: SubjectId,
    pub class: ClassId,
    /// CPU on which the event happened, if the trace states it.
    pub cpu: Option<u32>,
    /// Values of the fields in [`Class::fields`].
    pub fields: &'a [Value<'a>],
    /// Values that a foreign tracer adds to every event (LTTng: `vpid`, `vtid`, `procname`, …).
    /// Empty if the subject already contains them.
    pub context: &'a [Value<'a>],
    /// Values that a foreign tracer stores once for all events of a packet. Excluded are values
    /// that every packet has (times, sizes, counters), the CPU, and values that are already in the
    /// subject.
    pub packet: PacketValues<'a>,
}

impl Event<'_> {
    /// Returns true if the stream is damaged in this event. The event then has only the fields that
    /// precede the damage.
    #[inline]
    pub fn is_partial(&self, catalogue: &Catalogue) -> bool {
        let class = &catalogue.classes[self.class.0 as usize];
        self.fields.len() < class.fields.len()
    }
}

/// Missing events, which belong somewhere between `begin_ns` and `end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub stream: StreamId,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// Number of lost events; `None` if nothing counted them.
    pub events: Option<u64>,
}

/// An event or a loss.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    Event(Event<'a>),
    /// A loss. It is yielded at its `end_ns`.
    Loss(Loss),
}

impl Item<'_> {
    /// Returns the time in ns by which items are ordered. For a loss this is its end.
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
