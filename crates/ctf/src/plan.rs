//! The compiled form of a schema: for each event class, the shortest list of steps that locates all
//! its fields.
//!
//! A *step* ([`Op`]) moves the cursor through the packet and stores a *mark*: the bit at which the
//! step found its data. A field is described by a mark plus a constant distance in bits. All
//! consecutive fields whose distances are known at compile time share one *run*, however many they
//! are: one alignment, one bounds check, one mark. For example, an event class with the fields `u32
//! a; u64 b; u8 c[16];` is a single run; its fields are decoded only when a caller asks for their
//! values.
//!
//! Strings and sequences are steps of their own, because their lengths depend on the data. Types
//! that cannot be flattened (variants, arrays of structures, bit fields at unknown positions)
//! become a *tree*, which the executor walks node by node.
//!
//! [`exec`] runs the steps. The other files compile what the steps need: references ([`refs`]),
//! headers ([`event_header`]), and the begin of a packet ([`packet_signature`]).

pub(crate) mod event_header;
pub(crate) mod exec;
pub(crate) mod fixed_layout;
pub(crate) mod packet_signature;
pub(crate) mod refs;

use std::borrow::Cow;
use std::sync::Arc;

use crate::bits::{align_up, Leaf, LeafKind, Load};
use crate::error::{Span, SpanError};
use crate::plan::fixed_layout::FixedLayout;
use crate::plan::refs::{Choices, ScopeRefs, TypePath, Use, ELEMENT};
use crate::types::*;

#[derive(Debug)]
pub(crate) enum Op {
    /// Aligns the cursor, checks that `bits` bits are available, and stores where they begin.
    Run {
        align: u32,
        bits: u64,
        mark: u32,
        last: ByteOrder,
    },
    /// Aligns the cursor within a byte, at a position that is not known at compile time and
    /// therefore cannot be part of a run.
    Align(u32),
    /// Saves the value of an integer that an earlier step located.
    Save {
        slot: u32,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// Reports the value of an integer with a role that an earlier step located.
    SetRole {
        roles: Roles,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// A text up to its NUL, in code units of one byte.
    Text {
        mark: u32,
    },
    /// A text up to its NUL, in code units of `unit` bytes.
    WideText {
        mark: u32,
        unit: u64,
    },
    /// A variable-length integer. The mark stores its value, because its width is not constant.
    VarInt {
        mark: u32,
        int: VarInt,
    },
    /// An array of numbers whose length is the value saved in `slot`.
    Sequence {
        mark: u32,
        slot: u32,
        leaf: Leaf,
        stride: u64,
        align: u32,
    },
    Tree {
        mark: u32,
        node: Arc<Node>,
    },
}

/// A type with all references resolved.
#[derive(Debug)]
pub(crate) enum Node {
    Number { leaf: Leaf, align: u32, saves: Vec<u32>, roles: Roles },
    VarInt(VarInt),
    Text(Encoding),
    Struct { align: u32, children: Vec<Child>, fixed_layout: Option<FixedLayout> },
    Array { align: u32, count: Count, element: Box<Node>, text: Encoding },
    Variant { slot: u32, choices: Choices, options: Vec<Child> },
    Optional { slot: u32, choices: Choices, inner: Box<Node> },
}

#[derive(Clone, Debug)]
pub(crate) struct VarInt {
    pub signed: bool,
    pub saves: Vec<u32>,
    pub roles: Roles,
}

#[derive(Debug)]
pub(crate) struct Child {
    pub name: Arc<str>,
    pub ty: Type,
    pub node: Node,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Fixed(u64),
    Slot(u32),
}

impl Node {
    pub(crate) fn structure(align: u32, children: Vec<Child>) -> Node {
        let fixed_layout = FixedLayout::of_structure(align, children.iter().map(|child| child.node.fixed_layout()));
        Node::Struct { align, children, fixed_layout }
    }

    /// The leaf and alignment of a number whose value no other field and no role needs, so that
    /// decoding it may be postponed until a caller asks for it.
    pub(crate) fn plain_leaf(&self) -> Option<(Leaf, u32)> {
        match self {
            Node::Number { leaf, align, saves, roles } if saves.is_empty() && roles.is_empty() => Some((*leaf, *align)),
            _ => None,
        }
    }

    /// The constant distances of the node's parts, if all of them are constant.
    pub(crate) fn fixed_layout(&self) -> Option<FixedLayout> {
        match self {
            Node::Number { leaf, .. } => {
                let (leaf, align) = self.plain_leaf().filter(|_| leaf.bits > 0)?;
                Some(FixedLayout { align, bits: u64::from(leaf.bits), order: Some(leaf.order) })
            }
            Node::Struct { fixed_layout, .. } => *fixed_layout,
            Node::Array { align, count: Count::Fixed(count), element, .. } => {
                FixedLayout::of_array(*align, *count, element.fixed_layout()?)
            }
            Node::Array { .. } | Node::VarInt(_) | Node::Text(_) | Node::Variant { .. } | Node::Optional { .. } => None,
        }
    }
}

/// Distance between the elements of an array of numbers, in bits.
pub(crate) fn stride(leaf: Leaf, align: u32) -> u64 {
    align_up(u64::from(leaf.bits), align)
}

/// The way in which the value of a field is computed from its mark.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Number(Leaf),
    Array { leaf: Leaf, stride: u64, count: u64, text: Encoding },
    Sequence { leaf: Leaf, stride: u64, text: Encoding },
    Text(Encoding),
    VarInt { signed: bool },
    Tree(Arc<Node>),
}

/// A field of an event class or of a packet. Nested structures are flattened, with dotted names. A
/// structure without fields is a field itself, unless it has an alignment: then it is padding.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name to show: without the leading underscore that LTTng adds, nested ones as
    /// `outer.inner`.
    pub name: Arc<str>,
    /// Type of the field.
    pub ty: Type,
    /// Scope of the field.
    pub scope: Scope,
    /// The meanings that the field has for the decoder, for example packet size or event id.
    pub roles: Roles,
    pub(crate) mark: u32,
    /// Distance from the mark, in bits.
    pub(crate) offset: u64,
    /// The fast path to the value.
    pub(crate) fast: FastLoad,
    pub(crate) shape: Shape,
}

/// The fast path to the value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastLoad {
    pub load: Load,
    pub kind: FastKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastKind {
    Unsigned,
    Signed,
    /// A text of at most as many bytes as the array has, if the array begins at a byte boundary.
    Text,
    /// No fast path: the field is neither an integer nor a text, or it is an integer that spans
    /// nine bytes.
    No,
}

impl FastLoad {
    fn new(offset: u64, shape: &Shape) -> FastLoad {
        let leaf = match shape {
            Shape::Array { leaf, stride: 8, text: Encoding::Utf8 | Encoding::Ascii, .. } if leaf.bits == 8 => {
                return FastLoad { load: Load::default(), kind: FastKind::Text };
            }
            Shape::Number(leaf) => Load::new(offset, *leaf).map(|load| (load, *leaf)),
            _ => None,
        };
        let Some((load, leaf)) = leaf else { return FastLoad { load: Load::default(), kind: FastKind::No } };
        let kind = match leaf.kind {
            LeafKind::Unsigned | LeafKind::Named | LeafKind::Byte => FastKind::Unsigned,
            LeafKind::Signed => FastKind::Signed,
            LeafKind::Float | LeafKind::Bool => FastKind::No,
        };
        FastLoad { load, kind }
    }
}

impl Field {
    /// The labels of an enumeration's value, or of the bits that are set in a bit map.
    pub fn labels(&self, value: i128) -> Vec<&str> {
        match &self.ty {
            Type::Enum(e) => e.mappings.labels(value).collect(),
            Type::VarInt(int) => int.mappings.labels(value).collect(),
            Type::Bits(bits) => bits.set(value as u64).collect(),
            _ => Vec::new(),
        }
    }

    /// The first part of this field that does not fit before bit `limit`, with its size in bits.
    /// Only for a field of a run; `begin` is the bit at which the run begins.
    pub(crate) fn first_beyond(&self, begin: u64, limit: u64) -> Option<Beyond> {
        let at = begin + self.offset;
        let (leaf, stride, count) = match &self.shape {
            Shape::Number(leaf) => (leaf, 1, 1),
            Shape::Array { leaf, stride, count, .. } => (leaf, *stride, *count),
            _ => return None,
        };
        let bits = u64::from(leaf.bits);
        let whole = if stride == 1 && count == 1 {
            u64::from(at + bits <= limit)
        } else {
            limit.saturating_sub(at).saturating_add(stride).saturating_sub(bits) / stride
        };
        let opaque = (leaf.kind == LeafKind::Byte).then_some((at, stride.saturating_mul(count)));
        (whole < count).then(|| Beyond { at: at + whole * stride, bits, opaque })
    }

    /// Returns true if the value is bytes or a text in every event: an array of bytes that always
    /// begins at a byte boundary.
    pub(crate) fn is_bytes(&self) -> bool {
        match &self.shape {
            Shape::Array { leaf, stride, text, .. } | Shape::Sequence { leaf, stride, text } => {
                let of_bytes = leaf.bits == 8 && *stride == 8 && !leaf.reversed && self.offset.is_multiple_of(8);
                of_bytes && (*text != Encoding::None || matches!(leaf.kind, LeafKind::Unsigned | LeafKind::Byte))
            }
            _ => false,
        }
    }

    /// The bit at which this field ends. Only for a field of a run; `begin` is the bit at which the
    /// run begins.
    pub(crate) fn end(&self, begin: u64) -> Option<u64> {
        let at = begin + self.offset;
        match &self.shape {
            Shape::Number(leaf) => Some(at + u64::from(leaf.bits)),
            Shape::Array { count: 0, .. } => Some(at),
            Shape::Array { leaf, stride, count, .. } => Some(at + stride * (count - 1) + u64::from(leaf.bits)),
            _ => None,
        }
    }

    /// The preferred base for display: 2, 8, 10 or 16. An array has the base of its elements.
    pub fn base(&self) -> u8 {
        let mut ty = &self.ty;
        while let Type::Array(array) = ty {
            ty = array.element();
        }
        match ty {
            Type::Int(i) => i.base,
            Type::Enum(e) => e.int.base,
            Type::VarInt(i) => i.base,
            Type::Bits(bits) => bits.int.base,
            _ => 10,
        }
    }
}

/// The first part of a field that does not fit.
pub(crate) struct Beyond {
    pub at: u64,
    pub bits: u64,
    /// See [`Stop::Limit`](crate::plan::exec::Stop::Limit).
    pub opaque: Option<(u64, u64)>,
}

/// One or more scopes, flattened.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub ops: Vec<Op>,
    pub fields: Vec<Field>,
    pub marks: u32,
    /// Alignment and size in bits, if the block is a single run of whole bytes without saved values
    /// or roles. An empty block is a run of zero bits with alignment 1.
    pub single: Option<(u32, u64)>,
}

/// Builds the nodes for the types of one scope.
pub(crate) struct NodeMaker<'r> {
    refs: Option<&'r ScopeRefs>,
    version: Version,
    scope: Scope,
    place: TypePath,
}

/// The roles that the names of CTF 1.8 give to an integer.
pub(crate) fn roles_by_name(scope: Scope, name: &str, int: &IntType) -> Roles {
    match (scope, name) {
        (Scope::EventHeader, "id") => Roles::EVENT_ID,
        // Without a mapped clock the name `timestamp` decides, as in babeltrace2.
        (Scope::EventHeader, name) if int.clock.is_some() || name == "timestamp" => Roles::TIME,
        (Scope::PacketHeader | Scope::PacketContext, _) if int.signed => Roles::NONE,
        (Scope::PacketHeader, "magic") => Roles::MAGIC,
        (Scope::PacketHeader, "stream_id") => Roles::STREAM_ID,
        (Scope::PacketHeader, "stream_instance_id") => Roles::STREAM_INSTANCE,
        (Scope::PacketContext, "content_size") => Roles::CONTENT_SIZE,
        (Scope::PacketContext, "packet_size") => Roles::PACKET_SIZE,
        (Scope::PacketContext, "timestamp_begin") => Roles::TIME,
        (Scope::PacketContext, "timestamp_end") => Roles::END_TIME,
        (Scope::PacketContext, "events_discarded") => Roles::DISCARDED,
        (Scope::PacketContext, "packet_seq_num") => Roles::SEQUENCE,
        (Scope::PacketContext, "cpu_id") => Roles::CPU,
        (Scope::PacketContext, _) if int.clock.is_some() => Roles::TIME,
        _ => Roles::NONE,
    }
}

impl<'r> NodeMaker<'r> {
    pub(crate) fn new(version: Version, scope: Scope, refs: Option<&'r ScopeRefs>) -> NodeMaker<'r> {
        NodeMaker { refs, version, scope, place: Vec::new() }
    }

    fn saves(&self) -> Vec<u32> {
        self.refs.and_then(|r| r.saves.get(&self.place)).cloned().unwrap_or_default()
    }

    fn roles(&self, name: &str, int: &IntType) -> Roles {
        match self.version {
            // CTF 2 defines no role for the CPU, so the name `cpu_id` decides in both versions.
            Version::V2 if (self.scope, name) == (Scope::PacketContext, "cpu_id") && !int.signed && int.roles.is_empty() => Roles::CPU,
            Version::V2 => self.valid_in_scope(int.roles),
            Version::V1_8 => roles_by_name(self.scope, name, int),
        }
    }

    /// Drops the roles that have no meaning in this scope.
    fn valid_in_scope(&self, roles: Roles) -> Roles {
        const HEADER: Roles = Roles::MAGIC.and(Roles::UUID).and(Roles::STREAM_ID).and(Roles::STREAM_INSTANCE);
        const CONTEXT: Roles = Roles::PACKET_SIZE
            .and(Roles::CONTENT_SIZE)
            .and(Roles::TIME)
            .and(Roles::END_TIME)
            .and(Roles::DISCARDED)
            .and(Roles::SEQUENCE)
            .and(Roles::CPU);
        roles.within(match self.scope {
            Scope::PacketHeader => HEADER,
            Scope::PacketContext => CONTEXT,
            Scope::EventHeader => Roles::TIME.and(Roles::EVENT_ID),
            Scope::StreamEventContext | Scope::EventContext | Scope::EventFields => Roles::NONE,
        })
    }

    pub(crate) fn structure(&mut self, ty: &StructType) -> Result<Node, SpanError> {
        Ok(Node::structure(ty.align(), self.children(ty.fields())?))
    }

    fn children(&mut self, members: &[Member]) -> Result<Vec<Child>, SpanError> {
        let mut children = Vec::with_capacity(members.len());
        let names = match self.version {
            Version::V1_8 => display_names(members).into_iter().map(Cow::Borrowed).collect(),
            Version::V2 => undotted_names(members),
        };
        for (index, (member, name)) in members.iter().zip(names).enumerate() {
            self.place.push(index as u32);
            let node = self.node(&member.ty, &name)?;
            self.place.pop();
            children.push(Child { name: Arc::from(name), ty: member.ty.clone(), node });
        }
        Ok(children)
    }

    fn number(&self, int: &IntType, kind: LeafKind, roles: Roles) -> Node {
        let leaf = Leaf { bits: int.size as u8, order: int.byte_order, kind, reversed: int.reversed };
        Node::Number { leaf, align: int.align, saves: self.saves(), roles }
    }

    fn node(&mut self, ty: &Type, name: &str) -> Result<Node, SpanError> {
        let kind = |int: &IntType| match (int.signed, int.encoding) {
            (true, _) => LeafKind::Signed,
            (false, Encoding::None) => LeafKind::Unsigned,
            (false, _) => LeafKind::Byte,
        };
        Ok(match ty {
            Type::Int(int) => self.number(int, kind(int), self.roles(name, int)),
            Type::Enum(e) => self.number(&e.int, kind(&e.int), self.roles(name, &e.int)),
            Type::Bool(int) => self.number(int, LeafKind::Bool, Roles::NONE),
            Type::Bits(bits) => self.number(&bits.int, LeafKind::Unsigned, Roles::NONE),
            Type::VarInt(int) => {
                let roles = if self.version == Version::V2 { self.valid_in_scope(int.roles) } else { Roles::NONE };
                Node::VarInt(VarInt { signed: int.signed, saves: self.saves(), roles })
            }
            Type::Float(float) => {
                let leaf = Leaf { bits: float.size as u8, order: float.byte_order, kind: LeafKind::Float, reversed: float.reversed };
                Node::Number { leaf, align: float.align, saves: Vec::new(), roles: Roles::NONE }
            }
            Type::String(encoding) => Node::Text(*encoding),
            Type::Text(text) => {
                let encoding = if text.encoding == Encoding::None { Encoding::Utf8 } else { text.encoding };
                self.bytes(&text.length, encoding, text.span)?
            }
            Type::Blob(blob) => self.bytes(&blob.length, Encoding::None, blob.span)?,
            Type::Struct(s) => self.structure(s)?,
            Type::Array(array) => {
                let count = self.count(array.length(), array.span())?;
                self.place.push(ELEMENT);
                let mut element = Box::new(self.node(array.element(), "")?);
                self.place.pop();
                if let (Node::Number { leaf, .. }, true) = (&mut *element, array.element().has_names()) {
                    leaf.kind = if leaf.kind == LeafKind::Unsigned { LeafKind::Named } else { leaf.kind };
                }
                let text = match array.element() {
                    Type::Int(i) if i.size == 8 && i.align == 8 && !i.reversed => i.encoding,
                    _ => Encoding::None,
                };
                Node::Array { align: array.align(), count, element, text }
            }
            Type::Variant(variant) => {
                let Some(Use::Tag { slot, choices }) = self.usage() else {
                    return Err(SpanError::new(variant.tag().span, "this tag refers to nothing"));
                };
                Node::Variant { slot, choices, options: self.children(variant.options())? }
            }
            Type::Optional(optional) => {
                let Some(Use::Tag { slot, choices }) = self.usage() else {
                    return Err(SpanError::new(optional.selector().span, "this selector refers to nothing"));
                };
                self.place.push(0);
                let inner = Box::new(self.node(optional.ty(), name)?);
                self.place.pop();
                Node::Optional { slot, choices, inner }
            }
        })
    }

    fn usage(&self) -> Option<Use> {
        self.refs.and_then(|r| r.uses.get(&self.place)).cloned()
    }

    fn count(&self, length: &Length, span: Span) -> Result<Count, SpanError> {
        match (length, self.usage()) {
            (Length::Fixed(count), _) => Ok(Count::Fixed(*count)),
            (Length::Field(_), Some(Use::Length { slot })) => Ok(Count::Slot(slot)),
            _ => Err(SpanError::new(span, "this length refers to nothing")),
        }
    }

    fn bytes(&self, length: &Length, text: Encoding, span: Span) -> Result<Node, SpanError> {
        let leaf = Leaf { bits: 8, order: ByteOrder::Little, kind: LeafKind::Byte, reversed: false };
        let element = Box::new(Node::Number { leaf, align: 8, saves: Vec::new(), roles: Roles::NONE });
        Ok(Node::Array { align: 8, count: self.count(length, span)?, element, text })
    }
}

struct OpenRun {
    align: u32,
    bits: u64,
    mark: u32,
    /// Steps that need the bits of the run, and therefore follow it.
    after: Vec<Op>,
    last: ByteOrder,
}

/// Flattens scopes one after another into a block.
#[derive(Default)]
pub(crate) struct Flattener {
    block: Block,
    run: Option<OpenRun>,
    /// Only without an open run: true if the cursor is known to be at a byte boundary.
    at_byte: bool,
}

impl Flattener {
    pub(crate) fn scope(&mut self, scope: Scope, root: Node) {
        self.flatten(scope, String::new(), root, None);
    }

    pub(crate) fn finish(mut self) -> Block {
        self.close();
        self.block.single = match self.block.ops[..] {
            [] => Some((1, 0)),
            // If the bits end within a byte, the byte order of the next field must be checked,
            // which only the general path does.
            [Op::Run { align, bits, mark: 0, .. }] if bits % 8 == 0 => Some((align, bits)),
            _ => None,
        };
        self.block
    }

    fn mark(&mut self) -> u32 {
        self.block.marks += 1;
        self.block.marks - 1
    }

    fn close(&mut self) {
        if let Some(run) = self.run.take() {
            self.block.ops.push(Op::Run { align: run.align, bits: run.bits, mark: run.mark, last: run.last });
            self.block.ops.extend(run.after);
            self.at_byte = run.bits % 8 == 0;
        }
    }

    /// Rounds the end of the open run up to a multiple of `align`. Returns false if the position
    /// is not known at compile time, so that no run can contain it.
    fn aligned(&mut self, align: u32) -> bool {
        if let Some(run) = &mut self.run {
            if align <= run.align {
                run.bits = align_up(run.bits, align);
                return true;
            }
            self.close();
        }
        if align < 8 && !self.at_byte {
            return false;
        }
        let mark = self.mark();
        let align = align.max(8);
        self.run = Some(OpenRun { align, bits: 0, mark, after: Vec::new(), last: ByteOrder::Little });
        true
    }

    /// Appends `bits` bits to the open run and returns its mark and the distance from it. Returns
    /// `None` if they cannot be part of a run.
    fn extend(&mut self, leaf: Leaf, align: u32, bits: u64) -> Option<(u32, u64)> {
        if !self.aligned(align) {
            return None;
        }
        if let Some(run) = &self.run {
            // The byte order changes within a byte. That is an error in the data, which the walk of
            // the tree reports.
            if run.bits % 8 != 0 && run.last != leaf.order && bits > 0 {
                return None;
            }
        }
        let run = self.run.as_mut()?;
        // A run is limited to 2⁴⁸ bits, so that its arithmetic cannot overflow. A larger type
        // becomes a tree; its walk finds where the data ends.
        let end = run.bits.checked_add(bits).filter(|end| *end < 1 << 48)?;
        let at = run.bits;
        run.bits = end;
        if bits > 0 {
            run.last = leaf.order;
        }
        Some((run.mark, at))
    }

    fn field(&mut self, scope: Scope, name: String, ty: Option<Type>, mark: u32, offset: u64, shape: Shape) {
        if let Some(ty) = ty {
            let fast = FastLoad::new(offset, &shape);
            let roles = Roles::NONE;
            self.block.fields.push(Field { name: Arc::from(name), ty, scope, roles, mark, offset, fast, shape });
        }
    }

    /// Sets the roles of the field that was added last.
    fn set_roles(&mut self, roles: Roles) {
        if let Some(field) = self.block.fields.last_mut() {
            field.roles = roles;
        }
    }

    fn tree(&mut self, scope: Scope, name: String, ty: Option<Type>, node: Node) {
        self.close();
        let mark = self.mark();
        let node = Arc::new(node);
        self.block.ops.push(Op::Tree { mark, node: node.clone() });
        self.at_byte = false;
        self.field(scope, name, ty, mark, 0, Shape::Tree(node));
    }

    /// Appends a node to the block. `ty` is `None` for the root, which is not a field.
    fn flatten(&mut self, scope: Scope, name: String, node: Node, ty: Option<Type>) {
        match node {
            // A structure without fields is a value itself, unless it exists to align the field
            // after it.
            Node::Struct { align: ..=1, ref children, .. } if children.is_empty() && ty.is_some() => self.tree(scope, name, ty, node),
            Node::Struct { align, children, .. } => {
                if align > 1 && !self.aligned(align) {
                    self.block.ops.push(Op::Align(align));
                }
                for child in children {
                    let path = if name.is_empty() { child.name.to_string() } else { format!("{name}.{}", child.name) };
                    self.flatten(scope, path, child.node, Some(child.ty));
                }
            }
            Node::Number { leaf, align, ref saves, roles } => {
                let Some((mark, offset)) = self.extend(leaf, align, u64::from(leaf.bits)) else {
                    return self.tree(scope, name, ty, node);
                };
                let run = self.run.as_mut();
                if let Some(run) = run {
                    run.after.extend(saves.iter().map(|&slot| Op::Save { slot, mark, offset, leaf }));
                    if !roles.is_empty() {
                        run.after.push(Op::SetRole { roles, mark, offset, leaf });
                    }
                }
                self.field(scope, name, ty, mark, offset, Shape::Number(leaf));
                self.set_roles(roles);
            }
            Node::VarInt(int) => {
                self.close();
                let mark = self.mark();
                let (signed, roles) = (int.signed, int.roles);
                self.block.ops.push(Op::VarInt { mark, int });
                self.at_byte = true;
                self.field(scope, name, ty, mark, 0, Shape::VarInt { signed });
                self.set_roles(roles);
            }
            Node::Text(encoding) => {
                self.close();
                let mark = self.mark();
                self.block.ops.push(match encoding.unit() {
                    1 => Op::Text { mark },
                    unit => Op::WideText { mark, unit },
                });
                self.at_byte = true;
                self.field(scope, name, ty, mark, 0, Shape::Text(encoding));
            }
            Node::Array { .. } => self.flatten_array(scope, name, node, ty),
            Node::Variant { .. } | Node::Optional { .. } => self.tree(scope, name, ty, node),
        }
    }

    /// Appends an array: as steps if its elements are numbers, otherwise as a tree.
    fn flatten_array(&mut self, scope: Scope, name: String, node: Node, ty: Option<Type>) {
        let Node::Array { align: outer, count, ref element, text } = node else {
            return self.tree(scope, name, ty, node);
        };
        let Some((leaf, align)) = element.plain_leaf() else {
            return self.tree(scope, name, ty, node);
        };
        let stride = stride(leaf, align);
        // Only the walk of the tree checks that a text does not end within a code unit.
        let whole = matches!(count, Count::Fixed(bytes) if bytes % text.unit() == 0);
        if text.unit() > 1 && !whole {
            return self.tree(scope, name, ty, node);
        }
        // The array is aligned more strictly than its elements. Where the position is not
        // known at compile time, the walk of the tree aligns it.
        if outer > align && !self.aligned(outer) {
            return self.tree(scope, name, ty, node);
        }
        match count {
            Count::Fixed(count) => {
                let bits = match count {
                    0 => Some(0),
                    _ => stride.checked_mul(count - 1).and_then(|b| b.checked_add(u64::from(leaf.bits))),
                };
                match bits.and_then(|bits| self.extend(leaf, align, bits)) {
                    Some((mark, offset)) => {
                        self.field(scope, name, ty, mark, offset, Shape::Array { leaf, stride, count, text });
                    }
                    None => self.tree(scope, name, ty, node),
                }
            }
            Count::Slot(slot) => {
                // The elements may begin within a byte, where the byte order must be
                // checked; only the walk of the tree does that.
                if align < 8 {
                    return self.tree(scope, name, ty, node);
                }
                self.close();
                let mark = self.mark();
                self.block.ops.push(Op::Sequence { mark, slot, leaf, stride, align: align.max(outer) });
                self.at_byte = leaf.bits % 8 == 0;
                self.field(scope, name, ty, mark, 0, Shape::Sequence { leaf, stride, text });
            }
        }
    }
}
