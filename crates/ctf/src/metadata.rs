//! Metadata that is parsed, checked and compiled into plans.

pub(crate) mod json;
mod metadata_text;
mod tsdl;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::clock::Converter;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::error::{MetadataError, Span, SpanError};
use crate::metadata::json::Draft;
use crate::metadata::metadata_text::MetadataText;
use crate::plan::event_header::{FastHeader, HeaderPlan};
use crate::plan::exec::Mark;
use crate::plan::packet_signature::PacketSignature;
use crate::plan::refs::{find, Counters, ScopeRefs, Scopes};
use crate::plan::{Block, Field, Flattener, NodeMaker};
use crate::types::*;

/// The metadata of a trace, ready to decode its streams. Dereferences to the [`Schema`].
#[derive(Debug)]
pub struct Metadata {
    schema: Schema,
    diagnostics: Vec<Diagnostic>,
    pub(crate) plan: TracePlan,
}

impl Deref for Metadata {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.schema
    }
}

/// All plans of a trace.
#[derive(Debug)]
pub(crate) struct TracePlan {
    pub packet_header: Block,
    /// Index of the packet header's field that holds the UUID.
    pub uuid: Option<usize>,
    /// The bytes by which the start of a packet is recognized.
    pub sign: Option<PacketSignature>,
    /// Plans in the order of [`Schema::streams`].
    pub streams: Vec<Arc<StreamPlan>>,
    pub by_id: HashMap<u64, usize>,
    /// Number of slots that a decoder needs.
    pub slots: usize,
    /// Number of marks that a decoder needs.
    pub marks: usize,
}

#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub packet_context: Block,
    pub header: HeaderPlan,
    pub fast_header: Option<FastHeader>,
    /// Alignment of the start of an event, in bits.
    pub event_align: u32,
    /// Plans in the order of [`StreamClass::events`].
    pub events: Vec<Block>,
    pub ids: EventIds,
    /// Index of the clock of this stream's timestamps.
    pub clock: Option<usize>,
    pub converter: Converter,
}

impl StreamPlan {
    /// Index of the class of an event, from the id in its header. Without an id in the header, the
    /// class with id 0 or the only class.
    #[inline]
    pub(crate) fn class_of(&self, id: Option<u64>) -> Option<usize> {
        match id {
            Some(id) => self.ids.get(id),
            None => self.ids.get(0).or_else(|| (self.events.len() == 1).then_some(0)),
        }
    }
}

/// Map from the id of an event to the index of its class.
#[derive(Debug, Default)]
pub(crate) struct EventIds {
    /// Entries for ids below the length of this table.
    dense: Vec<DenseEvent>,
    sparse: HashMap<u64, u32>,
}

/// Entry for an event class, as small as possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseEvent {
    /// Index of the class, or `NONE`.
    class: u32,
    /// Alignment of an event of fixed layout, in bits; otherwise 0.
    align: u32,
    bits: u64,
}

const NONE: u32 = u32::MAX;

/// An event class of fixed layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastClass {
    pub index: usize,
    pub align: u32,
    /// Size of the fields after the header, in bits.
    pub bits: u64,
}

impl FastClass {
    /// The class while there is none. No event of 2^60 bits fits, so the fast path fails, and the
    /// slow path looks up the class.
    pub const NONE: FastClass = FastClass { index: 0, align: 1, bits: 1 << 60 };
}

impl EventIds {
    fn new(events: &[EventClass], plans: &[Block]) -> EventIds {
        // The table is at most eight times as long as the number of events (or 65,536), so that
        // metadata with a huge id cannot make it large.
        let room = (events.len() as u64 * 8).max(1 << 16);
        let len = events.iter().map(|e| e.id.saturating_add(1)).filter(|l| *l <= room).max().unwrap_or(0);
        let nothing = DenseEvent { class: NONE, align: 0, bits: 0 };
        let mut ids = EventIds { dense: vec![nothing; len as usize], sparse: HashMap::new() };
        for (index, (event, plan)) in events.iter().zip(plans).enumerate() {
            match usize::try_from(event.id).ok().and_then(|id| ids.dense.get_mut(id)) {
                Some(entry) => {
                    let (align, bits) = plan.single.unwrap_or((0, 0));
                    *entry = DenseEvent { class: index as u32, align, bits };
                }
                None => {
                    ids.sparse.insert(event.id, index as u32);
                }
            }
        }
        ids
    }

    /// The event class with this id, if its layout is fixed.
    #[inline(always)]
    pub(crate) fn fast_class(&self, id: u64) -> Option<FastClass> {
        let entry = self.dense.get(id as usize)?;
        (entry.align != 0).then_some(FastClass { index: entry.class as usize, align: entry.align, bits: entry.bits })
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<usize> {
        match usize::try_from(id).ok().and_then(|id| self.dense.get(id)) {
            Some(entry) => (entry.class != NONE).then_some(entry.class as usize),
            None => self.sparse.get(&id).map(|i| *i as usize),
        }
    }
}

impl Metadata {
    /// Parses the bytes of a `metadata` file: plain text or packets. What the specification does
    /// not allow, but has only one meaning, is accepted and listed in
    /// [`diagnostics`](Self::diagnostics).
    ///
    /// # Errors
    ///
    /// Metadata that cannot be parsed or compiled, and packets whose byte order differs from the
    /// trace's.
    pub fn parse(bytes: &[u8]) -> Result<Metadata, MetadataError> {
        let found = MetadataText::read(bytes)?;
        let (schema, drafts) = schema(&found.text)?;
        let mut metadata = compile(schema).map_err(|e| MetadataError::at(&found.text, e.span, e.message))?;
        if let Some(packets) = found.order.filter(|_| !json::is_text_sequence(&found.text)) {
            let own = metadata.trace.byte_order;
            if packets != own {
                return Err(MetadataError::whole(format!(
                    "the packets of the metadata are {packets:?} endian, the trace is {own:?} endian"
                )));
            }
        }
        metadata.diagnostics = diagnostics(&found, &drafts);
        Ok(metadata)
    }

    /// Parses metadata text.
    ///
    /// # Errors
    ///
    /// Metadata that cannot be parsed or compiled.
    pub fn from_text(text: &str) -> Result<Metadata, MetadataError> {
        Metadata::parse(text.as_bytes())
    }

    /// Compiles a schema that was not parsed from text.
    pub fn from_schema(schema: Schema) -> Result<Metadata, MetadataError> {
        compile(schema).map_err(|e| MetadataError::whole(e.message))
    }

    /// The text in the bytes of a `metadata` file, without packet headers and padding. Invalid
    /// UTF-8 is replaced.
    pub fn text(bytes: &[u8]) -> Result<String, MetadataError> {
        Ok(MetadataText::read(bytes)?.text)
    }

    /// Deviations from the specification that were accepted, in the order of the file, one for each
    /// kind.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The types that the metadata describes.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The fields of an event class, flattened: those of the stream's event context, of the event's
    /// context and of the payload. Both arguments are indices.
    pub fn fields(&self, stream: usize, event: usize) -> &[Field] {
        self.plan.streams.get(stream).and_then(|s| s.events.get(event)).map_or(&[], |b| &b.fields)
    }

    /// The fields of the packet context of a stream class, flattened, in the order of
    /// [`Packet::context`](crate::Packet::context). `stream` is an index.
    pub fn packet_fields(&self, stream: usize) -> &[Field] {
        self.plan.streams.get(stream).map_or(&[], |s| &s.packet_context.fields)
    }

    /// Index of the clock of a stream class's timestamps.
    pub fn stream_clock(&self, stream: usize) -> Option<usize> {
        self.plan.streams.get(stream).and_then(|s| s.clock)
    }

    /// Returns true if each event of the stream class has a timestamp.
    pub fn has_times(&self, stream: usize) -> bool {
        self.schema().streams.get(stream).and_then(|s| s.event_header.as_ref()).is_some_and(|header| mapped_clock(header).is_some())
    }
}

/// Maximum number of fields in all events together. Far above what tools write: the events of
/// LTTng's kernel tracer have some ten thousand fields.
const MAX_FIELDS: u64 = 1 << 20;

/// Refuses a schema whose types are too large together, because a small text can use one large type
/// again and again.
fn check_total_size(schema: &Schema) -> Result<(), SpanError> {
    let weight = |ty: &Option<Arc<StructType>>| ty.as_ref().map_or(0, |ty| u64::from(Type::Struct(ty.clone()).weight()));
    let mut sum = weight(&schema.trace.packet_header);
    for stream in &schema.streams {
        sum += weight(&stream.packet_context) + weight(&stream.event_header);
        for event in &stream.events {
            sum += weight(&stream.event_context) + weight(&event.context) + weight(&event.payload);
            if sum > MAX_FIELDS {
                return Err(SpanError::new(Span::default(), format!("more than {MAX_FIELDS} fields in all events together")));
            }
        }
    }
    Ok(())
}

/// All references of a schema.
pub(crate) struct Refs {
    pub header: HashMap<Scope, ScopeRefs>,
    /// References in the order of [`Schema::streams`].
    pub streams: Vec<StreamRefs>,
    /// Number of slots that all of them need.
    pub slots: u32,
}

pub(crate) struct StreamRefs {
    pub shared: HashMap<Scope, ScopeRefs>,
    /// References in the order of [`StreamClass::events`].
    pub events: Vec<HashMap<Scope, ScopeRefs>>,
}

/// Resolves all references of a schema before its plans are compiled: an event may refer to a field
/// of any earlier scope, including the header of the packet.
pub(crate) fn refs(schema: &Schema) -> Result<Refs, SpanError> {
    let mut counters = Counters::default();
    let mut header_refs: HashMap<Scope, ScopeRefs> = HashMap::new();
    let header = schema.trace.packet_header.as_deref();
    check_total_size(schema)?;
    let mut found = Vec::with_capacity(schema.streams.len());
    let mut most_local = 0;
    if let Some(header) = header {
        let scopes = Scopes { roots: vec![(Scope::PacketHeader, header)] };
        find(&scopes, 0, &mut header_refs, &mut counters)?;
    }
    for stream in &schema.streams {
        let mut roots: Vec<(Scope, &StructType)> = Vec::new();
        roots.extend(header.map(|h| (Scope::PacketHeader, h)));
        let first = roots.len();
        roots.extend(stream.packet_context.as_deref().map(|s| (Scope::PacketContext, s)));
        roots.extend(stream.event_header.as_deref().map(|s| (Scope::EventHeader, s)));
        roots.extend(stream.event_context.as_deref().map(|s| (Scope::StreamEventContext, s)));
        let mut scopes = Scopes { roots };
        let shared_roots = scopes.roots.len();
        let mut refs = std::mem::take(&mut header_refs);
        for index in first..shared_roots {
            find(&scopes, index, &mut refs, &mut counters)?;
        }
        let mut events = Vec::with_capacity(stream.events.len());
        for event in &stream.events {
            counters.local = 0;
            scopes.roots.truncate(shared_roots);
            scopes.roots.extend(event.context.as_deref().map(|s| (Scope::EventContext, s)));
            scopes.roots.extend(event.payload.as_deref().map(|s| (Scope::EventFields, s)));
            for index in shared_roots..scopes.roots.len() {
                find(&scopes, index, &mut refs, &mut counters)?;
            }
            let own = [Scope::EventContext, Scope::EventFields];
            events.push(own.into_iter().filter_map(|s| refs.remove(&s).map(|r| (s, r))).collect());
            most_local = most_local.max(counters.local);
        }
        header_refs.extend(refs.remove(&Scope::PacketHeader).map(|r| (Scope::PacketHeader, r)));
        found.push(StreamRefs { shared: refs, events });
    }

    let shared = counters.shared;
    for stream in &mut found {
        stream.events.iter_mut().flat_map(HashMap::values_mut).for_each(|refs| refs.number(shared));
    }
    Ok(Refs { header: header_refs, streams: found, slots: shared + most_local })
}

/// Parses the text by the language in which it is written.
fn schema(text: &str) -> Result<(Schema, Vec<Draft>), MetadataError> {
    match json::is_text_sequence(text) {
        true => json::parse(text),
        false => Ok((tsdl::parse(text)?, Vec::new())),
    }
}

/// One diagnostic for each kind of deviation.
fn diagnostics(found: &MetadataText, drafts: &[Draft]) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    for Draft { span, kind } in drafts {
        match diagnostics.iter_mut().find(|known| known.kind == *kind) {
            Some(known) => known.times += 1,
            None => {
                let error = MetadataError::at(&found.text, *span, kind.to_string());
                diagnostics.push(Diagnostic { kind: *kind, byte: found.byte(span.start), times: 1, error });
            }
        }
    }
    if !found.trailing.is_empty() {
        let (bytes, byte) = (found.trailing.len() as u64, found.trailing.start as u64);
        let kind = DiagnosticKind::TrailingBytes { bytes };
        let error = MetadataError::whole(format!("byte {byte}: {kind}"));
        diagnostics.push(Diagnostic { kind, byte, times: 1, error });
    }
    diagnostics
}

fn compile(schema: Schema) -> Result<Metadata, SpanError> {
    let Refs { header: header_refs, streams: found, slots } = refs(&schema)?;
    let header = schema.trace.packet_header.as_deref();
    let version = schema.version;
    let packet_header = block(version, [(Scope::PacketHeader, header)], &header_refs, &HashMap::new())?;
    let mut marks = packet_header.marks;
    let mut streams = Vec::with_capacity(schema.streams.len());
    for (stream, found) in schema.streams.iter().zip(found) {
        let refs = &found.shared;
        let packet_context = block(version, [(Scope::PacketContext, stream.packet_context.as_deref())], refs, refs)?;
        let header = HeaderPlan::new(version, stream.event_header.as_deref(), refs.get(&Scope::EventHeader))?;
        let mut events = Vec::with_capacity(stream.events.len());
        for (event, own) in stream.events.iter().zip(&found.events) {
            let roots = [
                (Scope::StreamEventContext, stream.event_context.as_deref()),
                (Scope::EventContext, event.context.as_deref()),
                (Scope::EventFields, event.payload.as_deref()),
            ];
            let plan = block(version, roots, refs, own)?;
            marks = marks.max(plan.marks);
            events.push(plan);
        }
        marks = marks.max(packet_context.marks).max(header.marks());
        let clock = match version {
            Version::V1_8 => stream_clock(stream, schema.clocks.len()),
            Version::V2 => stream.clock,
        };
        let converter = match clock.and_then(|c| schema.clocks.get(c)) {
            Some(clock) => Converter::new(clock),
            None => Converter::new(&crate::clock::Clock::new("default", 1_000_000_000)),
        };
        let ids = EventIds::new(&stream.events, &events);
        streams.push(Arc::new(StreamPlan {
            packet_context,
            fast_header: header.fast(),
            header,
            event_align: stream.event_header.as_ref().map_or(1, |h| h.align()),
            events,
            ids,
            clock,
            converter,
        }));
    }
    let by_id = schema.streams.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
    let uuid = packet_header.fields.iter().position(|field| match (version, &field.ty) {
        (Version::V2, Type::Blob(blob)) => blob.roles.has(Roles::UUID),
        (Version::V2, _) => false,
        (Version::V1_8, _) => field.name.rsplit('.').next() == Some("uuid"),
    });
    let sign = PacketSignature::of(&packet_header, uuid.zip(schema.trace.uuid));
    let plan = TracePlan { packet_header, uuid, sign, streams, by_id, slots: slots as usize, marks: marks as usize };
    Ok(Metadata { schema, diagnostics: Vec::new(), plan })
}

/// Flattens the given scopes into one block.
fn block<const N: usize>(
    version: Version,
    roots: [(Scope, Option<&StructType>); N],
    shared: &HashMap<Scope, ScopeRefs>,
    own: &HashMap<Scope, ScopeRefs>,
) -> Result<Block, SpanError> {
    let mut flattener = Flattener::default();
    for (scope, root) in roots {
        let Some(root) = root else { continue };
        let refs = own.get(&scope).or_else(|| shared.get(&scope));
        flattener.scope(scope, NodeMaker::new(version, scope, refs).structure(root)?);
    }
    Ok(flattener.finish())
}

/// Index of the clock of a stream's timestamps: the first one that the event header or the packet
/// context names; otherwise the only clock of the trace.
pub(crate) fn stream_clock(stream: &StreamClass, clocks: usize) -> Option<usize> {
    let named = [&stream.event_header, &stream.packet_context].into_iter().flatten().find_map(|s| mapped_clock(s));
    named.or((clocks == 1).then_some(0))
}

/// The clock of the first member that holds a clock value.
fn mapped_clock(ty: &StructType) -> Option<usize> {
    fn of(ty: &Type) -> Option<usize> {
        match ty {
            Type::Int(int) => int.clock,
            Type::Enum(e) => e.int.clock,
            Type::Struct(s) => mapped_clock(s),
            Type::Variant(v) => v.options().iter().find_map(|o| of(&o.ty)),
            _ => None,
        }
    }
    ty.fields().iter().find_map(|f| of(&f.ty))
}

/// Marks for any plan of the trace.
pub(crate) fn marks(plan: &TracePlan) -> Vec<Mark> {
    vec![Mark::default(); plan.marks.max(1)]
}
