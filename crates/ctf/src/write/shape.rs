//! A schema prepared for writing: of each scope a tree that says where each value goes, and which others hang on it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::bits::Leaf;
use crate::error::{MetadataError, SpanError};
use crate::metadata::{refs, Metadata, Refs};
use crate::plan::{stride, Child, Count, Node, NodeMaker};
use crate::refs::{Choices, Place, ScopeRefs, ELEMENT};
use crate::types::*;

/// What [`StreamWriter`](super::StreamWriter)s of a trace share.
#[derive(Debug)]
pub struct Layout {
    pub(super) metadata: Arc<Metadata>,
    /// Of the schema in whose terms values are given.
    from: Version,
    pub(super) packet_header: Shape,
    /// The name of the field of the packet header that has the uuid.
    pub(super) uuid: Option<Arc<str>>,
    /// In the order of the schema's streams.
    pub(super) streams: Vec<StreamLayout>,
    /// Of the slots of selectors, values of which each selects another option.
    pub(super) tags: HashMap<u32, Vec<(i128, i128)>>,
    pub(super) slots: usize,
}

#[derive(Debug)]
pub(super) struct StreamLayout {
    pub context: Shape,
    pub event_header: Option<Shape>,
    pub event_context: Option<Shape>,
    /// In the order of the schema's events.
    pub events: Vec<EventLayout>,
    /// What the packet's context tells.
    pub told: Roles,
}

/// An event class that is prepared for writing: one of a schema, or one that appeared later; see [`Layout::event`].
#[derive(Debug)]
pub struct EventLayout {
    pub(super) id: u64,
    /// Its context and its fields, as far as it has them.
    pub(super) scopes: Vec<Shape>,
    /// Where the slots begin that its shapes count from.
    pub(super) first_slot: usize,
    /// So many does it need from there.
    pub(super) slots: usize,
}

/// Which fields of a scope have no value of their own: what they hold follows from the next field.
pub(super) type Made = HashSet<Place>;

/// By the indices of stream and event class, and the scope.
pub(super) type MadeFields = HashMap<(Option<usize>, Option<usize>, Scope), Made>;

/// A type with everything looked up.
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
    /// A structure that only exists so that a made field has a place before the last part, whose value is that of the whole.
    Wrapped {
        align: u32,
        parts: Vec<Part>,
    },
    Array {
        align: u32,
        count: Count,
        element: Box<Shape>,
        text: Encoding,
        /// Of numbers that nothing hangs on: what they are, and their distance.
        plain: Option<(Leaf, u64)>,
    },
    Variant {
        slot: u32,
        choices: Choices,
        options: Vec<Part>,
        /// It stands for an optional: of the first option nothing is there.
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
    /// A layout that writes streams of this metadata.
    pub fn new(metadata: Arc<Metadata>) -> Result<Layout, MetadataError> {
        Layout::with(metadata, &MadeFields::new())
    }

    /// For values of a trace of CTF 2 that become one of CTF 1.8; what its schema then is, [`metadata`](Self::metadata) tells. See the table
    /// of what becomes what in the source of `lower`.
    pub fn to_ctf1(schema: &Schema) -> Result<Layout, MetadataError> {
        let from = schema.version;
        let (schema, made) = match from {
            Version::V1_8 => (schema.clone(), MadeFields::new()),
            Version::V2 => super::lower::lower(schema).map_err(|e| MetadataError::whole(e.message))?,
        };
        Ok(Layout { from, ..Layout::with(Arc::new(Metadata::from_schema(schema)?), &made)? })
    }

    /// For values of a trace of CTF 1.8 that become one of CTF 2; what its schema then is, [`metadata`](Self::metadata) tells.
    pub fn to_ctf2(schema: &Schema) -> Result<Layout, MetadataError> {
        let layout = Layout::new(Arc::new(Metadata::from_schema(super::to_ctf2(schema)?)?))?;
        Ok(Layout { from: schema.version, ..layout })
    }

    /// Prepares an event class that is not in the schema: who learns of classes while events come need not begin anew, and adds them to the
    /// metadata that it writes. `class` is in the terms of the schema that this was made of, and what depends on a field there depends on
    /// one of its own.
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

    /// The metadata of what is written.
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
        let told = context.told();
        streams.push(StreamLayout { context, event_header, event_context, events, told });
    }
    let uuid = metadata.plan.uuid.and_then(|index| metadata.plan.packet_header.fields.get(index)).map(|f| f.name.clone());
    let packet_header = packet_header.unwrap_or_else(empty);
    let from = version;
    Ok(Layout { metadata, from, packet_header, uuid, streams, tags, slots: slots as usize })
}

impl Shape {
    fn told(&self) -> Roles {
        let all = |parts: &[Part]| parts.iter().fold(Roles::NONE, |roles, part| roles.and(part.shape.told()));
        match self {
            Shape::Number { roles, .. } | Shape::VarInt { roles, .. } => *roles,
            Shape::Struct { parts, .. } | Shape::Wrapped { parts, .. } => all(parts),
            _ => Roles::NONE,
        }
    }

    /// What it is, for messages.
    pub fn is_optional(&self) -> bool {
        matches!(self, Shape::Optional { .. } | Shape::Variant { optional: true, .. })
    }
}

struct Shaper<'m> {
    made: &'m Made,
    place: Place,
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
            // A tag of one bit says whether an optional is there; see `lower`.
            if let (Some(Part { shape: Shape::Number { leaf, .. }, made: true, .. }), Shape::Variant { optional, .. }) =
                (parts.last(), &mut shape)
            {
                *optional = leaf.bits == super::lower::OPTIONAL_BITS;
            }
            parts.push(Part { name: child.name, shape, made });
        }
        parts
    }
}
