//! A layer for `tracing` that records spans and events of a program, in addition to its other
//! layers.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(longpole_probe::tracing::layer()).init();
//! ```
//!
//! | `tracing` | in the trace |
//! |---|---|
//! | a span is entered, left | `span_begin:NAME` with `arg`, the span's number; `span_end:NAME`; in the thread that does it |
//! | a span is made with fields, or is given some later | `event:NAME` with `span`, its number, and the fields |
//! | an event with fields | `event:NAME` with `level`, `message` and the fields, typed; NAME is its target, unless it was given a name |
//! | an event that is a message only, and a record of `log` (by `tracing-log`) | `log`: `LEVEL target: message` |
//! | `follows_from` | `event:NAME` with `span`, the span's number, and `follows_from`, the number of the earlier span |
//! | a span is made, closed | with [`Layer::with_lives`], `mark:NAME` with the parent's number as `data`, its own as `object`, and the `kind` |
//!
//! Integers, floating point numbers, `bool`, texts and byte arrays keep their type. Values recorded
//! by `Debug` or `Display` become texts, which are formatted only if they are recorded, without
//! allocating memory. A span that several threads enter one after the other (a task of an
//! asynchronous program) begins and ends in each of them; its number shows that it is the same
//! span. The filters of `tracing-subscriber` select levels and targets:
//! `layer().with_filter(LevelFilter::INFO)`, `layer().with_filter(Targets::new()…)`.

use crate::event::{describe, fit, Buffer, FIELDS};
use crate::name::{cut, emit_named, on, Class, BEGIN_ARG, END, EVENT, MARK_KIND};
use crate::plain::MarkKind;
use crate::ring::{emit, emit_parts, Part};
use crate::value::Type;
use crate::site::{resolve, Key};
use core::fmt::{self, Debug, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use longpole_abi::kind::Category;
use longpole_abi::{Kind, FIELDS_MAXIMUM, FIRST_SITE_ID};
use std::error::Error;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

const FIRST: u32 = FIRST_SITE_ID as u32;

/// A layer that records spans and events. A program may have several such layers, but each records
/// every event that passes its filters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layer {
    lives: bool,
}

/// Creates a layer that records the spans and events that pass its filters.
pub fn layer() -> Layer {
    Layer::default()
}

impl Layer {
    /// Also records the lifetime of each span, from its creation to its closing, like that of an
    /// object. Then `longpole latency` can show how long a task took on which several threads
    /// worked. This adds two events per span.
    #[must_use]
    pub fn with_lives(self, lives: bool) -> Layer {
        Layer { lives }
    }

    /// Records that a span is created or closed.
    fn life<S: Subscriber + for<'a> LookupSpan<'a>>(self, id: &Id, parent: u64, kind: MarkKind, context: &Context<'_, S>) {
        let wanted = self.lives && on(Category::Mark);
        if let Some(metadata) = wanted.then(|| context.metadata(id)).flatten() {
            edge(metadata, &MARK_KIND, [parent, id.into_u64(), kind as u64]);
        }
    }
}

/// Cache of the class ids of `tracing` call sites, indexed by the address of the call site's
/// metadata, which never moves. No thread waits, and entries are never removed; a call site that
/// finds no slot is looked up in the site table of the runtime directory each time.
struct Known {
    /// Address of the metadata; 0: free; 1: being filled.
    metadata: AtomicUsize,
    signature: [AtomicU64; 2],
    id: AtomicU32,
}

/// Distinguishes the classes of one call site: the kind of the probe and a bit per field that is
/// present; the types of the fields, four bits each.
type Signature = [u64; 2];

const SLOTS: usize = 4096;
const LOOKED_AT: usize = 32;
static KNOWN: [Known; SLOTS] = [const {
    Known { metadata: AtomicUsize::new(0), signature: [const { AtomicU64::new(0) }; 2], id: AtomicU32::new(0) }
}; SLOTS];

/// The class id of a call site for events with this signature. `signature` is `None` if there are
/// too many fields for one; then the cache is not used.
fn class_id(metadata: &'static Metadata<'static>, signature: Option<Signature>, make: impl FnOnce() -> u32) -> u32 {
    let Some([fields, types]) = signature else { return make() };
    let address = core::ptr::from_ref(metadata).addr();
    let start = (address as u64 ^ fields.rotate_left(8) ^ types).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for at in 0..LOOKED_AT {
        let known = &KNOWN[(start as usize + at) % SLOTS];
        match known.metadata.load(Acquire) {
            0 => {
                let id = make();
                if id >= FIRST && known.metadata.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
                    known.signature[0].store(fields, Relaxed);
                    known.signature[1].store(types, Relaxed);
                    known.id.store(id, Relaxed);
                    known.metadata.store(address, Release);
                }
                return id;
            }
            other if other == address && known.signature[0].load(Relaxed) == fields && known.signature[1].load(Relaxed) == types => {
                return known.id.load(Relaxed);
            }
            _ => {}
        }
    }
    make()
}

fn key<'a>(metadata: &'a Metadata<'a>, kind: u32, name: &'a str, fields: &'a [u8]) -> Key<'a> {
    let file = metadata.file().unwrap_or_default().as_bytes();
    Key { kind, line: metadata.line().unwrap_or_default(), name: name.as_bytes(), fields, file, attributes: b"" }
}

/// Records the start, end or lifetime of a span.
fn edge<const N: usize>(metadata: &'static Metadata<'static>, class: &Class, words: [u64; N]) {
    let make = || resolve(key(metadata, class.kind, metadata.name(), class.fields.as_bytes()));
    let id = class_id(metadata, Some([u64::from(class.kind) << 56, 0]), make);
    if id >= FIRST {
        emit(id, words);
    } else {
        emit_named(class, &words, metadata.name().as_bytes());
    }
}

/// The value of one field. Texts and byte arrays are ranges of the common buffer.
#[derive(Clone, Copy)]
enum Value {
    Word(u64),
    Text(usize, usize),
    Bytes(usize, usize),
}

/// Maximum number of fields: those of a call site, and the level of the event or the number of the
/// span.
const MAX_FIELDS: usize = FIELDS + 1;

/// The fields of one event or span.
struct Fields {
    list: [(&'static str, u8, Value); MAX_FIELDS],
    count: usize,
    /// One bit for each field of the call site that is present.
    present: u64,
    /// `true` if there is no field except `message` (and `level`).
    message_only: bool,
    buffer: Buffer,
}

impl Fields {
    fn new() -> Fields {
        Fields { list: [("", 0, Value::Word(0)); MAX_FIELDS], count: 0, present: 0, message_only: true, buffer: Buffer::new() }
    }

    fn visit(&mut self, field: &Field, kind: u8, value: Value) {
        self.present |= 1 << (field.index() % 32);
        self.push(field.name(), kind, value);
    }

    fn push(&mut self, name: &'static str, kind: u8, value: Value) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = (name, kind, value);
            self.count += 1;
            self.message_only &= name == "message" && kind == b's';
        }
    }

    /// The text of a field; empty if there is no such field.
    fn said(&self, name: &str) -> &[u8] {
        match self.list[..self.count].iter().find(|(known, _, _)| *known == name) {
            Some((_, _, Value::Text(begin, end))) => &self.buffer.bytes()[*begin..*end],
            _ => &[],
        }
    }

    fn text(&mut self, field: &Field, write: impl FnOnce(&mut Buffer) -> fmt::Result) {
        let begin = self.buffer.bytes().len();
        // A text that is too long is cut.
        let _ = write(&mut self.buffer);
        self.visit(field, b's', Value::Text(begin, self.buffer.bytes().len()));
    }

    /// The signature of these fields; `None` if there are more than 16.
    fn signature(&self) -> Option<Signature> {
        let list = self.list.get(..self.count).filter(|list| list.len() <= 16)?;
        let code = |kind: u8| b"?uidsb".iter().position(|known| *known == kind).unwrap_or(0) as u64;
        let types = list.iter().fold(0, |sum, (_, kind, _)| sum << 4 | code(*kind));
        Some([u64::from(EVENT.kind) << 56 | self.present, types])
    }

    /// Records an event with these fields.
    fn emit(&self, metadata: &'static Metadata<'static>, name: &str) {
        let list = &self.list[..self.count];
        let mut parts = [Part::Word(0); MAX_FIELDS];
        for (part, (_, _, value)) in parts.iter_mut().zip(list) {
            *part = match *value {
                Value::Word(word) => Part::Word(word),
                Value::Text(begin, end) => Part::text(&self.buffer.bytes()[begin..end]),
                Value::Bytes(begin, end) => Part::Bytes(&self.buffer.bytes()[begin..end]),
            };
        }
        let parts = &mut parts[..list.len()];
        fit(parts);
        let make = || {
            let fields = describe(list.iter().map(|(name, kind, _)| (Type::Plain(*kind), *name)));
            let whole = fields.bytes().len() <= FIELDS_MAXIMUM;
            if whole {
                resolve(key(metadata, EVENT.kind, name, fields.bytes()))
            } else {
                EVENT.kind
            }
        };
        let id = class_id(metadata, self.signature(), make);
        if id >= FIRST {
            emit_parts(id, parts, false);
        } else {
            // Without a class there is no description of the fields, so only the name of the event
            // is recorded.
            emit_parts(EVENT.kind, &[cut(name.as_bytes())], false);
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.visit(field, b'd', Value::Word(value.to_bits()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.visit(field, b'i', Value::Word(value as u64));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.visit(field, b'u', Value::Word(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.visit(field, b'u', Value::Word(u64::from(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, |buffer| buffer.write_str(value));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        let begin = self.buffer.bytes().len();
        self.buffer.push(value);
        self.visit(field, b'b', Value::Bytes(begin, self.buffer.bytes().len()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field, |buffer| write!(buffer, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, |buffer| write!(buffer, "{value:?}"));
    }
}

/// Returns `true` if an event is a record of `log`, forwarded by `tracing-log`: there is one call
/// site per level, and the origin of the record is in its fields.
fn is_record(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "log" && metadata.name() == "log event"
}

/// The name of an event. `tracing` names events without a name `event FILE:LINE`; these get the
/// name of their target.
fn event_name(metadata: &'static Metadata<'static>) -> &'static str {
    let name = metadata.name();
    if name.starts_with("event ") && name.contains(':') {
        metadata.target()
    } else {
        name
    }
}

/// Records the fields with which a span was created, or that it got later.
fn span_fields(metadata: &'static Metadata<'static>, id: &Id, record: impl FnOnce(&mut Fields)) {
    let mut fields = Fields::new();
    fields.push("span", b'u', Value::Word(id.into_u64()));
    record(&mut fields);
    if fields.count > 1 {
        fields.emit(metadata, metadata.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if self.lives {
            let around = || attributes.is_contextual().then(|| context.lookup_current()).flatten().map(|span| span.id());
            let parent = attributes.parent().cloned().or_else(around).map_or(0, |parent| parent.into_u64());
            self.life(id, parent, MarkKind::ObjectNew, &context);
        }
        if on(Category::Event) && !attributes.values().is_empty() {
            span_fields(attributes.metadata(), id, |fields| attributes.record(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(metadata) = on(Category::Event).then(|| context.metadata(id)).flatten() {
            span_fields(metadata, id, |fields| values.record(fields));
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let Some(metadata) = on(Category::Event).then(|| context.metadata(id)).flatten() {
            span_fields(metadata, id, |fields| fields.push("follows_from", b'u', Value::Word(follows.into_u64())));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.life(&id, 0, MarkKind::ObjectDelete, &context);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !on(Category::Event) && !on(Category::Log) {
            return;
        }
        let metadata = event.metadata();
        let mut fields = Fields::new();
        fields.push("level", b's', Value::Text(0, metadata.level().as_str().len()));
        fields.buffer.push(metadata.level().as_str().as_bytes());
        fields.message_only = true;
        event.record(&mut fields);
        let foreign = is_record(metadata);
        if !foreign && (!fields.message_only || fields.count != 2) {
            if on(Category::Event) {
                fields.emit(metadata, event_name(metadata));
            }
        } else if on(Category::Log) {
            let mut text = Buffer::new();
            text.push(metadata.level().as_str().as_bytes());
            text.push(b" ");
            text.push(if foreign { fields.said("log.target") } else { metadata.target().as_bytes() });
            text.push(b": ");
            text.push(fields.said("message"));
            emit_parts(Kind::Log as u32, &[Part::text(text.bytes())], false);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(metadata) = on(Category::Span).then(|| context.metadata(id)).flatten() {
            edge(metadata, &BEGIN_ARG, [id.into_u64()]);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(metadata) = on(Category::Span).then(|| context.metadata(id)).flatten() {
            edge(metadata, &END, []);
        }
    }
}
