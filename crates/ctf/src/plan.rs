//! The compiled form of a schema: per event class, the shortest list of steps that locates all its fields.
//!
//! A step moves the cursor and notes a *mark*; a field is a mark plus a constant distance. All fields whose distances are
//! known beforehand, whatever their number, share one *run*: one alignment, one check of the bounds, one mark. So an event
//! class of fixed layout is a single step, and its fields are decoded only when somebody looks at them. Strings and
//! sequences are steps of their own. What cannot be flat (variants, arrays of structures, bits at unknown places) is a
//! *tree*, which the executor walks node by node.

use std::borrow::Cow;
use std::sync::Arc;

use crate::bits::{align_up, Leaf, LeafKind, Load};
use crate::error::{Span, SpanError};
use crate::fixed_layout::FixedLayout;
use crate::refs::{Choices, Place, ScopeRefs, Use, ELEMENT};
use crate::types::*;

#[derive(Debug)]
pub(crate) enum Op {
    /// Aligns, checks that `bits` are there, notes the begin.
    Run {
        align: u32,
        bits: u64,
        mark: u32,
        last: ByteOrder,
    },
    /// Goes to an alignment within a byte, which no run can know of.
    Align(u32),
    /// Saves the value of an integer located before.
    Save {
        slot: u32,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// Tells the value of an integer located before.
    Tell {
        roles: Roles,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// A text up to its NUL.
    Text {
        mark: u32,
    },
    /// The same of wider code units, of so many bytes.
    WideText {
        mark: u32,
        unit: u64,
    },
    /// An integer of as many bytes as it needs; its value is what is noted.
    VarInt {
        mark: u32,
        int: VarInt,
    },
    /// As many numbers as a slot says.
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

/// A type with everything looked up.
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
        let fixed_layout = FixedLayout::of_structure(align, &children);
        Node::Struct { align, children, fixed_layout }
    }

    /// A number that nobody but the reader of its value cares for.
    pub(crate) fn plain_leaf(&self) -> Option<(Leaf, u32)> {
        match self {
            Node::Number { leaf, align, saves, roles } if saves.is_empty() && roles.is_empty() => Some((*leaf, *align)),
            _ => None,
        }
    }
}

/// Distance of the elements of an array of numbers, in bits.
pub(crate) fn stride(leaf: Leaf, align: u32) -> u64 {
    align_up(u64::from(leaf.bits), align)
}

/// How a field's value is made from its mark.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Number(Leaf),
    Array { leaf: Leaf, stride: u64, count: u64, text: Encoding },
    Sequence { leaf: Leaf, stride: u64, text: Encoding },
    Text(Encoding),
    VarInt { signed: bool },
    Tree(Arc<Node>),
}

/// A field of an event class or a packet: nested structures are flat, with dotted names. One without fields is a field itself, unless it has an
/// alignment: then it is padding.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name to show: without the leading underscore of LTTng, nested ones as `outer.inner`.
    pub name: Arc<str>,
    /// Type of the field.
    pub ty: Type,
    /// Scope of the field.
    pub scope: Scope,
    /// What it tells the reader of the stream.
    pub roles: Roles,
    pub(crate) mark: u32,
    /// Bits from the mark.
    pub(crate) offset: u64,
    pub(crate) quick: Quick,
    pub(crate) shape: Shape,
}

/// The shortest way to a field's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quick {
    pub load: Load,
    pub kind: QuickKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuickKind {
    Unsigned,
    Signed,
    /// A text of so many bytes at most, if it begins with one.
    Text,
    /// There is none: the field is neither, or an integer over nine bytes.
    No,
}

impl Quick {
    fn new(offset: u64, shape: &Shape) -> Quick {
        let leaf = match shape {
            Shape::Array { leaf, stride: 8, text: Encoding::Utf8 | Encoding::Ascii, .. } if leaf.bits == 8 => {
                return Quick { load: Load::default(), kind: QuickKind::Text };
            }
            Shape::Number(leaf) => Load::new(offset, *leaf).map(|load| (load, *leaf)),
            _ => None,
        };
        let Some((load, leaf)) = leaf else { return Quick { load: Load::default(), kind: QuickKind::No } };
        let kind = match leaf.kind {
            LeafKind::Unsigned | LeafKind::Named | LeafKind::Byte => QuickKind::Unsigned,
            LeafKind::Signed => QuickKind::Signed,
            LeafKind::Float | LeafKind::Bool => QuickKind::No,
        };
        Quick { load, kind }
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

    /// For a field of a run that begins at bit `begin`: its first part that does not fit before `limit`, and its bits.
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

    /// Whether its value is bytes or a text whatever the event: an array of bytes that begins with one.
    pub(crate) fn is_bytes(&self) -> bool {
        match &self.shape {
            Shape::Array { leaf, stride, text, .. } | Shape::Sequence { leaf, stride, text } => {
                let of_bytes = leaf.bits == 8 && *stride == 8 && !leaf.reversed && self.offset % 8 == 0;
                of_bytes && (*text != Encoding::None || matches!(leaf.kind, LeafKind::Unsigned | LeafKind::Byte))
            }
            _ => false,
        }
    }

    /// For a field of a run that begins at bit `begin`: where it ends.
    pub(crate) fn end(&self, begin: u64) -> Option<u64> {
        let at = begin + self.offset;
        match &self.shape {
            Shape::Number(leaf) => Some(at + u64::from(leaf.bits)),
            Shape::Array { count: 0, .. } => Some(at),
            Shape::Array { leaf, stride, count, .. } => Some(at + stride * (count - 1) + u64::from(leaf.bits)),
            _ => None,
        }
    }

    /// The preferred base for display: 2, 8, 10 or 16. That of an array is its elements'.
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
    /// See [`Stop::Limit`](crate::exec::Stop::Limit).
    pub opaque: Option<(u64, u64)>,
}

/// One or more scopes, flat.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub ops: Vec<Op>,
    pub fields: Vec<Field>,
    pub marks: u32,
    /// Alignment and bits, if all is one run whose values nobody saves; an empty block is a run of nothing.
    pub single: Option<(u32, u64)>,
}

/// Makes nodes of the types of one scope.
pub(crate) struct NodeMaker<'r> {
    refs: Option<&'r ScopeRefs>,
    version: Version,
    scope: Scope,
    place: Place,
}

/// What an integer tells by the names of CTF 1.8.
pub(crate) fn roles_by_name(scope: Scope, name: &str, int: &IntType) -> Roles {
    match (scope, name) {
        (Scope::EventHeader, "id") => Roles::EVENT_ID,
        // Without a mapping the name decides, as babeltrace2 does.
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
            // There is no role for a CPU: of that the name tells in either version.
            Version::V2 if (self.scope, name) == (Scope::PacketContext, "cpu_id") && !int.signed && int.roles.is_empty() => Roles::CPU,
            Version::V2 => self.told_here(int.roles),
            Version::V1_8 => roles_by_name(self.scope, name, int),
        }
    }

    /// A role elsewhere than in its scope means nothing.
    fn told_here(&self, roles: Roles) -> Roles {
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
                let roles = if self.version == Version::V2 { self.told_here(int.roles) } else { Roles::NONE };
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
    /// Steps that need the run's bits.
    after: Vec<Op>,
    last: ByteOrder,
}

/// Flattens scopes one after another into a block.
#[derive(Default)]
pub(crate) struct Flattener {
    block: Block,
    run: Option<OpenRun>,
    /// Without an open run: whether the cursor is known to stand at a byte's begin.
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
            // Whose bits end within a byte, the order of the next must be checked.
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

    /// Makes the end of the open run a multiple of `align`; false if no run can know such a place.
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

    /// Adds `bits` to the open run; false if that cannot be.
    fn extend(&mut self, leaf: Leaf, align: u32, bits: u64) -> Option<(u32, u64)> {
        if !self.aligned(align) {
            return None;
        }
        if let Some(run) = &self.run {
            // An error of the data, which the walk of the tree reports.
            if run.bits % 8 != 0 && run.last != leaf.order && bits > 0 {
                return None;
            }
        }
        let run = self.run.as_mut()?;
        // A run of more than 2⁴⁸ bits is no run: the walk of the tree will find its end.
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
            let quick = Quick::new(offset, &shape);
            let roles = Roles::NONE;
            self.block.fields.push(Field { name: Arc::from(name), ty, scope, roles, mark, offset, quick, shape });
        }
    }

    /// Says what the field that was added last tells.
    fn tells(&mut self, roles: Roles) {
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

    /// `ty` is missing for the root, which is no field.
    fn flatten(&mut self, scope: Scope, name: String, node: Node, ty: Option<Type>) {
        match node {
            // One without fields is a value itself, unless it is there to align what follows.
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
                        run.after.push(Op::Tell { roles, mark, offset, leaf });
                    }
                }
                self.field(scope, name, ty, mark, offset, Shape::Number(leaf));
                self.tells(roles);
            }
            Node::VarInt(int) => {
                self.close();
                let mark = self.mark();
                let (signed, roles) = (int.signed, int.roles);
                self.block.ops.push(Op::VarInt { mark, int });
                self.at_byte = true;
                self.field(scope, name, ty, mark, 0, Shape::VarInt { signed });
                self.tells(roles);
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
            Node::Array { align: outer, count, ref element, text, .. } => {
                let Some((leaf, align)) = element.plain_leaf() else {
                    return self.tree(scope, name, ty, node);
                };
                let stride = stride(leaf, align);
                // Only a walk looks whether a text ends within a code unit.
                let whole = matches!(count, Count::Fixed(bytes) if bytes % text.unit() == 0);
                if text.unit() > 1 && !whole {
                    return self.tree(scope, name, ty, node);
                }
                // Beyond that of its elements; where no run can know the place, the walk of the tree aligns.
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
                        // The elements may begin within a byte, where the order of the bits matters.
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
            Node::Variant { .. } | Node::Optional { .. } => self.tree(scope, name, ty, node),
        }
    }
}
