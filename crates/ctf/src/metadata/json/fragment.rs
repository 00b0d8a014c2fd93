//! Converts fragments, the texts of the sequence in their order, to a schema.

use super::class::Aliases;
use super::syntax::{Json, Kind, Member};
use super::value::{fail, list, number, text, Object, Result};
use crate::clock::{Clock, Origin};
use crate::error::Span;
use crate::types::*;
use std::collections::{HashMap, HashSet};

pub(super) fn schema(texts: &[Json], source: &str) -> Result<Schema> {
    let Some((preamble, rest)) = texts.split_first() else { return fail(Span::default(), "there is no preamble fragment") };
    let mut builder = Builder { source, ..Builder::default() };
    builder.preamble(Object::of(preamble, "a fragment")?)?;
    for text in rest {
        builder.fragment(Object::of(text, "a fragment")?)?;
    }
    builder.finish()
}

#[derive(Default)]
struct Builder<'s> {
    source: &'s str,
    schema: Schema,
    aliases: Aliases,
    /// Index of each clock class by its id.
    clocks: HashMap<String, usize>,
    streams: HashMap<u64, usize>,
    /// Ids of the event classes of each stream.
    events: Vec<HashSet<u64>>,
    /// True if there is a trace class, or if it is too late for one because a stream class came.
    trace: bool,
}

impl Builder<'_> {
    fn preamble(&mut self, object: Object<'_>) -> Result<()> {
        let object = object.called("a preamble fragment");
        let of = object.need("type")?;
        if text(of, "type")? != "preamble" {
            return fail(of.span, "the first fragment is the preamble");
        }
        let version = object.need("version")?;
        match number::<u64>(version, "version")? {
            2 => {}
            other => return fail(version.span, format!("version {other} of the format is not read, only 1.8 and 2")),
        }
        if let Some(json) = object.get("uuid") {
            self.schema.trace.uuid = Some(uuid(json)?);
        }
        object.plain()?;
        self.schema.version = Version::V2;
        Ok(())
    }

    fn fragment(&mut self, object: Object<'_>) -> Result<()> {
        let of = object.called("a fragment").need("type")?;
        object.plain()?;
        match text(of, "type")? {
            "preamble" => fail(of.span, "there is a second preamble"),
            "field-class-alias" => {
                let object = object.called("a field class alias fragment");
                let ty = self.aliases.ty(object.need("field-class")?)?;
                self.aliases.add(object.need("name")?, ty)
            }
            "clock-class" => self.clock(object.called("a clock class fragment")),
            "trace-class" => self.trace(object.called("a trace class fragment")),
            "data-stream-class" => self.stream(object.called("a data stream class fragment")),
            "event-record-class" => self.event(object.called("an event record class fragment")),
            other => fail(of.span, format!("there is no fragment of the type `{other}`")),
        }
    }

    fn clock(&mut self, object: Object<'_>) -> Result<()> {
        let mut clock = Clock::new("", 1);
        clock.identity = identity(object)?;
        clock.uuid = clock.identity.uid.as_deref().and_then(text_uuid);
        // In release candidates of the specification clock classes had names instead of ids.
        let id = match object.get("id") {
            Some(_) => object.need("id")?,
            None if object.get("name").is_some() => object.need("name")?,
            None => object.need("id")?,
        };
        let id_text = text(id, "id")?;
        clock.name = object.text("name")?.unwrap_or(id_text).to_owned();
        clock.description = object.text("description")?.unwrap_or("").to_owned();
        clock.frequency = object.need_number("frequency")?;
        if clock.frequency == 0 {
            return fail(object.need("frequency")?.span, "a clock's frequency cannot be 0");
        }
        clock.precision = object.number("precision")?.unwrap_or(0);
        clock.accuracy = object.number("accuracy")?;
        if let Some(offset) = object.object("offset-from-origin")? {
            clock.offset_s = offset.number("seconds")?.unwrap_or(0);
            let cycles: u64 = offset.number("cycles")?.unwrap_or(0);
            if cycles >= clock.frequency {
                return fail(offset.need("cycles")?.span, "an offset in cycles is less than a second: less than the frequency");
            }
            clock.offset = i64::try_from(cycles).or_else(|_| fail(offset.span, "this offset is out of range"))?;
        }
        if let Some(json) = object.get("origin") {
            clock.origin = match &json.kind {
                Kind::Text(origin) if origin == "unix-epoch" => Origin::UnixEpoch,
                Kind::Text(_) => return fail(json.span, "an origin is `unix-epoch` or an object"),
                _ => {
                    let origin = Object::of(json, "an origin")?;
                    let (name, uid) = (origin.need_text("name")?.to_owned(), origin.need_text("uid")?.to_owned());
                    Origin::Custom { namespace: origin.owned_text("namespace")?, name, uid }
                }
            };
        }
        clock.absolute = clock.origin == Origin::UnixEpoch;
        if self.clocks.insert(id_text.to_owned(), self.schema.clocks.len()).is_some() {
            return fail(id.span, "a second clock class with this id");
        }
        self.schema.clocks.push(clock);
        Ok(())
    }

    fn trace(&mut self, object: Object<'_>) -> Result<()> {
        if std::mem::replace(&mut self.trace, true) {
            return fail(object.need("type")?.span, "there is at most one trace class, and it is before the data stream classes");
        }
        let trace = &mut self.schema.trace;
        trace.name = object.owned_text("name")?;
        trace.identity = identity(object)?;
        for Member { name, value } in object.object("environment")?.map_or(&[][..], |object| object.members()) {
            let value = match &value.kind {
                Kind::Text(text) => EnvValue::Text(text.clone()),
                _ => EnvValue::integer(number(value, name)?),
            };
            trace.env.push((name.clone(), value));
        }
        if let Some(json) = object.get("packet-header-field-class") {
            let header = self.aliases.structure(json)?;
            magic_is_first(&header, json.span)?;
            if trace.uuid.is_none() && header.has_roles(Roles::UUID) {
                return fail(json.span, "the uuid of the metadata stream is in here, and the preamble has no `uuid`");
            }
            trace.packet_header = Some(header);
        }
        Ok(())
    }

    fn stream(&mut self, object: Object<'_>) -> Result<()> {
        self.trace = true;
        let id = object.number("id")?.unwrap_or(0);
        if self.streams.insert(id, self.schema.streams.len()).is_some() {
            return fail(object.get("id").map_or(object.span, |id| id.span), format!("a second data stream class with the id {id}"));
        }
        let clock = object.get("default-clock-class-id").or_else(|| object.get("default-clock-class-name"));
        let clock = match clock {
            None => None,
            Some(json) => match self.clocks.get(text(json, "default-clock-class-id")?) {
                Some(&index) => Some(index),
                None => return fail(json.span, "there is no clock class with this id before this"),
            },
        };
        let scope = |name: &str| object.get(name).map(|json| self.aliases.structure(json)).transpose();
        for name in ["packet-context-field-class", "event-record-header-field-class"] {
            let timed = scope(name)?.is_some_and(|scope| scope.has_time());
            if let (true, None, Some(json)) = (timed, clock, object.get(name)) {
                return fail(
                    Span { end: json.span.start + 1, ..json.span },
                    "a time is in here, and the data stream class has no default clock class",
                );
            }
        }
        let stream = StreamClass {
            id,
            name: object.owned_text("name")?,
            identity: identity(object)?,
            clock,
            packet_context: scope("packet-context-field-class")?,
            event_header: scope("event-record-header-field-class")?,
            event_context: scope("event-record-common-context-field-class")?,
            events: Vec::new(),
        };
        self.schema.streams.push(stream);
        self.events.push(HashSet::new());
        Ok(())
    }

    fn event(&mut self, object: Object<'_>) -> Result<()> {
        let id = object.number("id")?.unwrap_or(0);
        let stream: u64 = object.number("data-stream-class-id")?.unwrap_or(0);
        let Some(&index) = self.streams.get(&stream) else {
            let span = object.get("data-stream-class-id").or_else(|| object.get("type")).map_or(object.span, |json| json.span);
            return fail(span, format!("there is no data stream class with the id {stream} before this"));
        };
        if !self.events[index].insert(id) {
            let span = object.get("id").or_else(|| object.get("type")).map_or(object.span, |json| json.span);
            return fail(span, format!("a second event record class with the id {id} in its data stream class"));
        }
        let scope = |name: &str| object.get(name).map(|json| self.aliases.structure(json)).transpose();
        let attributes = object.get("attributes");
        let event = EventClass {
            id,
            name: object.text("name")?.unwrap_or("").to_owned(),
            identity: identity(object)?,
            loglevel: attributes.and_then(|json| found(json, "log-level")).and_then(loglevel),
            model_emf_uri: attributes
                .and_then(|json| found(json, "emf-uri"))
                .and_then(|json| text(json, "emf-uri").ok())
                .map(str::to_owned),
            attributes: attributes.and_then(|json| self.source.get(json.span.start..json.span.end)).map(str::to_owned),
            context: scope("specific-context-field-class")?,
            payload: scope("payload-field-class")?,
        };
        self.schema.streams[index].events.push(event);
        Ok(())
    }

    fn finish(self) -> Result<Schema> {
        if self.schema.streams.is_empty() {
            let end = self.source.trim_end().len();
            return fail(Span { start: end, end }, "there is no data stream class fragment");
        }
        Ok(self.schema)
    }
}

fn identity(object: Object<'_>) -> Result<Identity> {
    Ok(Identity { namespace: object.owned_text("namespace")?, uid: object.owned_text("uid")? })
}

/// Returns an error if a magic number is not the first field. From it a reader knows the byte
/// order, and that a packet begins there.
fn magic_is_first(header: &StructType, span: Span) -> Result<()> {
    for (index, member) in header.fields().iter().enumerate().filter(|(_, member)| member.ty.has_roles(Roles::MAGIC)) {
        match &member.ty {
            Type::Int(int) if index == 0 && int.size == 32 => {}
            Type::Int(_) if index == 0 => return fail(span, "the packet's magic number has 32 bits"),
            _ => return fail(span, "the packet's magic number is the first member of the packet header"),
        }
    }
    Ok(())
}

fn uuid(json: &Json) -> Result<[u8; 16]> {
    let items = list(json, "uuid")?;
    let mut uuid = [0; 16];
    if items.len() != uuid.len() {
        return fail(json.span, "a uuid is an array of 16 integers");
    }
    for (byte, item) in uuid.iter_mut().zip(items) {
        *byte = number(item, "uuid")?;
    }
    Ok(uuid)
}

/// The UUID in its usual text form.
fn text_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let value = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32 && text.len() == 36)?;
    Some(value.to_be_bytes())
}

/// A property in any namespace of the attributes.
fn found<'j>(attributes: &'j Json, name: &str) -> Option<&'j Json> {
    let Kind::Object(namespaces) = &attributes.kind else { return None };
    namespaces.iter().find_map(|Member { value, .. }| Object::of(value, "").ok()?.get(name))
}

/// A log level: a number, or one of the names that LTTng uses.
fn loglevel(json: &Json) -> Option<i64> {
    const NAMES: [&str; 15] = [
        "emergency",
        "alert",
        "critical",
        "error",
        "warning",
        "notice",
        "info",
        "debug:system",
        "debug:program",
        "debug:process",
        "debug:module",
        "debug:unit",
        "debug:function",
        "debug:line",
        "debug",
    ];
    match &json.kind {
        Kind::Int(level) => i64::try_from(*level).ok(),
        Kind::Text(name) => NAMES.iter().position(|known| known == name).map(|level| level as i64),
        _ => None,
    }
}
