//! A schema prepared for writing: for each scope a tree that describes where each value goes and
//! which other values depend on it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::bits::Leaf;
use crate::error::{MetadataError, SpanError};
use crate::metadata::{refs, Metadata, Refs};
use crate::plan::refs::{Choices, ScopeRefs, TypePath, ELEMENT};
use crate::plan::{stride, Child, Count, Node, NodeMaker};
use crate::types::*;

/// The data that all [`StreamWriter`](super::StreamWriter)s of a trace share.
#[derive(Debug)]
pub struct Layout {
    pub(super) metadata: Arc<Metadata>,
    /// Version of the schema in whose terms values are supplied.
    from: Version,
    pub(super) packet_header: Shape,
    /// Name of the packet header's field that holds the UUID.
    pub(super) uuid: Option<Arc<str>>,
    /// Layouts in the order of the schema's streams.
    pub(super) streams: Vec<StreamLayout>,
    /// Slot of a selector → the ranges of values that select an option.
    pub(super) tags: HashMap<u32, Vec<(i128, i128)>>,
    pub(super) slots: usize,
}

#[derive(Debug)]
pub(super) struct StreamLayout {
    pub context: Shape,
    pub event_header: Option<Shape>,
    pub event_context: Option<Shape>,
    /// Layouts in the order of the schema's events.
    pub events: Vec<EventLayout>,
    /// Roles of the fields of the packet context.
    pub roles: Roles,
}

/// An event class that is prepared for writing: one of the schema, or one that appeared later; see
/// [`Layout::event`].
#[derive(Debug)]
pub struct EventLayout {
    pub(super) id: u64,
    /// Shapes of the context and of the payload, if the class has them.
    pub(super) scopes: Vec<Shape>,
    /// First of the slots of the class; its shapes count slots from there.
    pub(super) first_slot: usize,
    /// Number of slots that the class needs.
    pub(super) slots: usize,
}

/// Places of the fields of a scope that were made: their values follow from the next field.
pub(super) type Made = HashSet<TypePath>;

/// Made fields by index of the stream class, index of the event class, and scope.
pub(super) type MadeFields = HashMap<(Option<usize>, Option<usize>, Scope), Made>;

/// A type with all references resolved.
#[derive(Debug)]
pub(super) enum Shape {
    Number {
        leaf: Leaf,
        align: u32,
        saves: Vec<u32>,
        roles: Roles,
    },
    VarInt {
        signed: bool,
        saves: Vec<u32>,
        roles: Roles,
    },
    Text(Encoding),
    Struct {
        align: u32,
        parts: Vec<Part>,
    },
    /// A structure that was added only to make room for a made field before its last part. Its
    /// value is that of the last part.
    Wrapped {
        align: u32,
        parts: Vec<Part>,
    },
    Array {
        align: u32,
        count: Count,
        element: Box<Shape>,
        text: Encoding,
        /// Leaf and distance in bits, if the elements are numbers on which no other field depends.
        plain: Option<(Leaf, u64)>,
    },
    Variant {
        slot: u32,
        choices: Choices,
        options: Vec<Part>,
        /// True if the variant represents an optional: its first option means that the value is
        /// absent.
        optional: bool,
    },
    Optional {
        slot: u32,
        choices: Choices,
        inner: Box<Shape>,
    },
}

#[derive(Debug)]
pub(super) struct Part {
    pub name: Arc<str>,
    pub shape: Shape,
    pub made: bool,
}

impl Layout {
    /// Creates a layout that writes streams of this metadata.
    pub fn new(metadata: Arc<Metadata>) -> Result<Layout, MetadataError> {
        Layout::with(metadata, &MadeFields::new())
    }

    /// Creates a layout that takes values in the terms of a CTF 2 schema and writes a CTF 1.8
    /// trace. [`metadata`](Self::metadata) returns the resulting schema. The table in the source of
    /// `write/to_ctf1.rs` lists how types are converted.
    pub fn to_ctf1(schema: &Schema) -> Result<Layout, MetadataError> {
        let from = schema.version;
        let (schema, made) = match from {
            Version::V1_8 => (schema.clone(), MadeFields::new()),
            Version::V2 => super::to_ctf1::to_ctf1(schema).map_err(|e| MetadataError::whole(e.message))?,
        };
        Ok(Layout { from, ..Layout::with(Arc::new(Metadata::from_schema(schema)?), &made)? })
    }

    /// Creates a layout that takes values in the terms of a CTF 1.8 schema and writes a CTF 2
    /// trace. [`metadata`](Self::metadata) returns the resulting schema.
    pub fn to_ctf2(schema: &Schema) -> Result<Layout, MetadataError> {
        let layout = Layout::new(Arc::new(Metadata::from_schema(super::to_ctf2(schema)?)?))?;
        Ok(Layout { from: schema.version, ..layout })
    }

    /// Prepares an event class that is not in the schema, for callers that learn of classes while
    /// they write; they must append the class to the metadata that they write. `class` is in the
    /// terms of the schema from which this layout was made, and it may refer only to its own
    /// fields.
    pub fn event(&self, class: &EventClass) -> Result<EventLayout, MetadataError> {
        let alone = Schema {
            version: self.from,
            trace: TraceClass { byte_order: self.metadata.trace.byte_order, ..TraceClass::default() },
            clocks: Vec::new(),
            streams: vec![StreamClass { events: vec![EventClass { id: 0, ..class.clone() }], ..StreamClass::default() }],
        };
        let mut layout = match self.metadata.version {
            Version::V1_8 => Layout::to_ctf1(&alone)?,
            Version::V2 => Layout::to_ctf2(&alone)?,
        };
        let prepared = layout.streams.pop().and_then(|mut stream| stream.events.pop());
        let scopes = prepared.map_or(Vec::new(), |event| event.scopes);
        Ok(EventLayout { id: class.id, scopes, first_slot: self.slots, slots: layout.slots })
    }

    fn with(metadata: Arc<Metadata>, made: &MadeFields) -> Result<Layout, MetadataError> {
        build(metadata, made).map_err(|e| MetadataError::whole(e.message))
    }

    /// The metadata of the trace that is written.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }
}

fn build(metadata: Arc<Metadata>, made: &MadeFields) -> Result<Layout, SpanError> {
    let schema = metadata.schema();
    let Refs { header: header_refs, streams: found, slots } = refs(schema)?;
    let version = schema.version;
    let nothing = Made::new();
    let mut tags = HashMap::new();
    let mut shape = |at: (Option<usize>, Option<usize>), scope, ty: Option<&StructType>, refs: Option<&ScopeRefs>| {
        let Some(ty) = ty else { return Ok(None) };
        let made = made.get(&(at.0, at.1, scope)).unwrap_or(&nothing);
        let node = NodeMaker::new(version, scope, refs).structure(ty)?;
        Ok(Some(Shaper { made, place: Vec::new(), tags: &mut tags }.shape(node)))
    };
    let empty = || Shape::Struct { align: 1, parts: Vec::new() };
    let header = schema.trace.packet_header.as_deref();
    let packet_header = shape((None, None), Scope::PacketHeader, header, header_refs.get(&Scope::PacketHeader))?;
    let mut streams = Vec::with_capacity(schema.streams.len());
    for (index, (stream, found)) in schema.streams.iter().zip(&found).enumerate() {
        let mut shared = |scope, ty: Option<&StructType>| shape((Some(index), None), scope, ty, found.shared.get(&scope));
        let context = shared(Scope::PacketContext, stream.packet_context.as_deref())?.unwrap_or_else(empty);
        let event_header = shared(Scope::EventHeader, stream.event_header.as_deref())?;
        let event_context = shared(Scope::StreamEventContext, stream.event_context.as_deref())?;
        let mut events = Vec::with_capacity(stream.events.len());
        for (class, (event, own)) in stream.events.iter().zip(&found.events).enumerate() {
            let mut scopes = Vec::new();
            for (scope, ty) in [(Scope::EventContext, event.context.as_deref()), (Scope::EventFields, event.payload.as_deref())] {
                scopes.extend(shape((Some(index), Some(class)), scope, ty, own.get(&scope))?);
            }
            events.push(EventLayout { id: event.id, scopes, first_slot: 0, slots: slots as usize });
        }
        let roles = context.roles();
        streams.push(StreamLayout { context, event_header, event_context, events, roles });
    }
    let uuid = metadata.plan.uuid.and_then(|index| metadata.plan.packet_header.fields.get(index)).map(|f| f.name.clone());
    let packet_header = packet_header.unwrap_or_else(empty);
    let from = version;
    Ok(Layout { metadata, from, packet_header, uuid, streams, tags, slots: slots as usize })
}

impl Shape {
    fn roles(&self) -> Roles {
        let all = |parts: &[Part]| parts.iter().fold(Roles::NONE, |roles, part| roles.and(part.shape.roles()));
        match self {
            Shape::Number { roles, .. } | Shape::VarInt { roles, .. } => *roles,
            Shape::Struct { parts, .. } | Shape::Wrapped { parts, .. } => all(parts),
            _ => Roles::NONE,
        }
    }

    /// Returns true if this is an optional, or a variant that represents one.
    pub fn is_optional(&self) -> bool {
        matches!(self, Shape::Optional { .. } | Shape::Variant { optional: true, .. })
    }
}

struct Shaper<'m> {
    made: &'m Made,
    place: TypePath,
    tags: &'m mut HashMap<u32, Vec<(i128, i128)>>,
}

impl Shaper<'_> {
    fn shape(&mut self, node: Node) -> Shape {
        match node {
            Node::Number { leaf, align, saves, roles } => Shape::Number { leaf, align, saves, roles },
            Node::VarInt(int) => Shape::VarInt { signed: int.signed, saves: int.saves, roles: int.roles },
            Node::Text(encoding) => Shape::Text(encoding),
            Node::Struct { align, children, .. } => {
                let wrapped = self.made.contains(&self.place);
                let parts = self.parts(children);
                match wrapped {
                    true => Shape::Wrapped { align, parts },
                    false => Shape::Struct { align, parts },
                }
            }
            Node::Array { align, count, element, text } => {
                let plain = element.plain_leaf().map(|(leaf, align)| (leaf, stride(leaf, align)));
                let element = Box::new(self.within(ELEMENT, *element));
                Shape::Array { align, count, element, text, plain }
            }
            Node::Variant { slot, choices, options } => {
                self.tag(slot, &choices);
                Shape::Variant { slot, choices, options: self.parts(options), optional: false }
            }
            Node::Optional { slot, choices, inner } => {
                self.tag(slot, &choices);
                Shape::Optional { slot, choices, inner: Box::new(self.within(0, *inner)) }
            }
        }
    }

    fn tag(&mut self, slot: u32, choices: &Choices) {
        self.tags.entry(slot).or_insert_with(|| choices.list.iter().map(|c| (c.low, c.high)).collect());
    }

    fn within(&mut self, part: u32, node: Node) -> Shape {
        self.place.push(part);
        let shape = self.shape(node);
        self.place.pop();
        shape
    }

    fn parts(&mut self, children: Vec<Child>) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(children.len());
        for (index, child) in children.into_iter().enumerate() {
            let mut shape = self.within(index as u32, child.node);
            self.place.push(index as u32);
            let made = !matches!(shape, Shape::Struct { .. } | Shape::Wrapped { .. }) && self.made.contains(&self.place);
            self.place.pop();
            // A made tag of [`OPTIONAL_BITS`](super::to_ctf1::OPTIONAL_BITS) bits belongs to a
            // variant that represents an optional; see `to_ctf1`.
            if let (Some(Part { shape: Shape::Number { leaf, .. }, made: true, .. }), Shape::Variant { optional, .. }) =
                (parts.last(), &mut shape)
            {
                *optional = leaf.bits == super::to_ctf1::OPTIONAL_BITS;
            }
            parts.push(Part { name: child.name, shape, made });
        }
        parts
    }
}
