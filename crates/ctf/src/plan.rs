//! The compiled form of a schema: per event class, the shortest list of steps that locates all its fields.
//!
//! A step moves the cursor and notes a *mark*; a field is a mark plus a constant distance. All fields whose distances are
//! known beforehand, whatever their number, share one *run*: one alignment, one check of the bounds, one mark. So an event
//! class of fixed layout is a single step, and its fields are decoded only when somebody looks at them. Strings and
//! sequences are steps of their own. What cannot be flat (variants, arrays of structures, bits at unknown places) is a
//! *tree*, which the executor walks node by node.

use std::sync::Arc;

use crate::bits::{align_up, Leaf, LeafKind, Load};
use crate::error::SpanError;
use crate::refs::{Choices, Place, ScopeRefs, Use, ELEMENT};
use crate::types::*;

/// What a field of the event header tells the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Nothing,
    EventId,
    /// The lowest bits of a clock's value.
    Time,
}

#[derive(Debug)]
pub(crate) enum Op {
    /// Aligns, checks that `bits` are there, notes the begin.
    Run {
        align: u32,
        bits: u64,
        mark: u32,
        last: ByteOrder,
    },
    /// Saves the value of an integer located before.
    Save {
        slot: u32,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// Tells the value of an integer located before.
    Tell {
        role: Role,
        mark: u32,
        offset: u64,
        leaf: Leaf,
    },
    /// A text up to its NUL.
    Text {
        mark: u32,
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
    Number { leaf: Leaf, align: u32, save: Option<u32>, role: Role },
    Text,
    Struct { align: u32, children: Vec<Child> },
    Array { align: u32, count: Count, element: Box<Node>, text: bool, least_bits: u64 },
    Variant { slot: u32, choices: Choices, options: Vec<Child> },
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
    /// The least bits that this takes, not counting its alignment.
    fn least_bits(&self) -> u64 {
        match self {
            Node::Number { leaf, .. } => u64::from(leaf.bits),
            Node::Text => 8,
            Node::Struct { children, .. } => children.iter().fold(0, |sum, c| c.node.least_bits().saturating_add(sum)),
            Node::Array { count: Count::Fixed(n), least_bits, .. } => n.saturating_mul(*least_bits),
            Node::Array { .. } => 0,
            Node::Variant { options, .. } => options.iter().map(|o| o.node.least_bits()).min().unwrap_or(0),
        }
    }

    /// A number that nobody but the reader of its value cares for.
    pub(crate) fn plain_leaf(&self) -> Option<(Leaf, u32)> {
        match self {
            Node::Number { leaf, align, save: None, role: Role::Nothing } => Some((*leaf, *align)),
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
    Array { leaf: Leaf, stride: u64, count: u64, text: bool },
    Sequence { leaf: Leaf, stride: u64, text: bool },
    Text,
    Tree(Arc<Node>),
}

/// A field of an event class or a packet: nested structures are flat, with dotted names.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name to show: without the leading underscore of LTTng, nested ones as `outer.inner`.
    pub name: Arc<str>,
    pub ty: Type,
    pub scope: Scope,
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
            Shape::Array { leaf, stride: 8, text: true, .. } if leaf.bits == 8 => {
                return Quick { load: Load::default(), kind: QuickKind::Text };
            }
            Shape::Number(leaf) => Load::new(offset, *leaf).map(|load| (load, *leaf)),
            _ => None,
        };
        let Some((load, leaf)) = leaf else { return Quick { load: Load::default(), kind: QuickKind::No } };
        let kind = match leaf.kind {
            LeafKind::Unsigned => QuickKind::Unsigned,
            LeafKind::Signed => QuickKind::Signed,
            LeafKind::Float => QuickKind::No,
        };
        Quick { load, kind }
    }
}

impl Field {
    /// The labels of an enumeration's value.
    pub fn labels(&self, value: i128) -> Vec<&str> {
        match &self.ty {
            Type::Enum(e) => e.labels(value).collect(),
            _ => Vec::new(),
        }
    }

    /// For a field of a run that begins at bit `begin`: its first part that does not fit before `limit`, and its bits.
    pub(crate) fn first_beyond(&self, begin: u64, limit: u64) -> Option<(u64, u64)> {
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
        (whole < count).then(|| (at + whole * stride, bits))
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
            _ => 10,
        }
    }
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
    pub refs: Option<&'r ScopeRefs>,
    /// Whether fields may have roles: only in the event header.
    pub header: bool,
    pub place: Place,
}

impl NodeMaker<'_> {
    fn save(&self) -> Option<u32> {
        self.refs.and_then(|r| r.saves.get(&self.place).copied())
    }

    fn role(&self, name: &str, int: &IntType) -> Role {
        match (self.header, name) {
            (false, _) => Role::Nothing,
            (true, "id") => Role::EventId,
            // Without a mapping the name decides, as babeltrace2 does.
            (true, name) if int.clock.is_some() || name == "timestamp" => Role::Time,
            _ => Role::Nothing,
        }
    }

    pub(crate) fn structure(&mut self, ty: &StructType) -> Result<Node, SpanError> {
        Ok(Node::Struct { align: ty.align(), children: self.children(ty.fields())? })
    }

    fn children(&mut self, members: &[Member]) -> Result<Vec<Child>, SpanError> {
        let mut children = Vec::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            self.place.push(index as u32);
            let name = display_name(&member.name);
            let node = self.node(&member.ty, name)?;
            self.place.pop();
            children.push(Child { name: Arc::from(name), ty: member.ty.clone(), node });
        }
        Ok(children)
    }

    fn node(&mut self, ty: &Type, name: &str) -> Result<Node, SpanError> {
        let number = |int: &IntType| {
            let kind = if int.signed { LeafKind::Signed } else { LeafKind::Unsigned };
            let leaf = Leaf { bits: int.size as u8, order: int.byte_order, kind };
            Node::Number { leaf, align: int.align, save: self.save(), role: self.role(name, int) }
        };
        Ok(match ty {
            Type::Int(int) => number(int),
            Type::Enum(e) => number(&e.int),
            Type::Float(float) => {
                let leaf = Leaf { bits: float.size as u8, order: float.byte_order, kind: LeafKind::Float };
                Node::Number { leaf, align: float.align, save: None, role: Role::Nothing }
            }
            Type::String(_) => Node::Text,
            Type::Struct(s) => self.structure(s)?,
            Type::Array(array) => {
                let count = match (array.length(), self.refs.and_then(|r| r.uses.get(&self.place))) {
                    (Length::Fixed(count), _) => Count::Fixed(*count),
                    (Length::Field(_), Some(Use::Length { slot })) => Count::Slot(*slot),
                    _ => return Err(SpanError::new(array.span(), "this length refers to nothing")),
                };
                self.place.push(ELEMENT);
                let element = Box::new(self.node(array.element(), "")?);
                self.place.pop();
                let text = matches!(array.element(), Type::Int(i) if i.encoding != Encoding::None && i.size == 8 && i.align == 8);
                let least_bits = element.least_bits();
                Node::Array { align: array.element().align(), count, element, text, least_bits }
            }
            Type::Variant(variant) => {
                let Some(Use::Tag { slot, choices }) = self.refs.and_then(|r| r.uses.get(&self.place)).cloned() else {
                    return Err(SpanError::new(variant.tag().span, "this tag refers to nothing"));
                };
                Node::Variant { slot, choices, options: self.children(variant.options())? }
            }
        })
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
            if run.bits % 8 != 0 && run.last != leaf.order {
                return None;
            }
        }
        let run = self.run.as_mut()?;
        // A run of more than 2⁴⁸ bits is no run: the walk of the tree will find its end.
        let end = run.bits.checked_add(bits).filter(|end| *end < 1 << 48)?;
        let at = run.bits;
        run.bits = end;
        run.last = leaf.order;
        Some((run.mark, at))
    }

    fn field(&mut self, scope: Scope, name: String, ty: Option<Type>, mark: u32, offset: u64, shape: Shape) {
        if let Some(ty) = ty {
            let quick = Quick::new(offset, &shape);
            self.block.fields.push(Field { name: Arc::from(name), ty, scope, mark, offset, quick, shape });
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
            Node::Struct { align, children } => {
                if align > 1 {
                    self.aligned(align);
                }
                for child in children {
                    let path = if name.is_empty() { child.name.to_string() } else { format!("{name}.{}", child.name) };
                    self.flatten(scope, path, child.node, Some(child.ty));
                }
            }
            Node::Number { leaf, align, save, role } => {
                let Some((mark, offset)) = self.extend(leaf, align, u64::from(leaf.bits)) else {
                    return self.tree(scope, name, ty, node);
                };
                let run = self.run.as_mut();
                if let Some(run) = run {
                    if let Some(slot) = save {
                        run.after.push(Op::Save { slot, mark, offset, leaf });
                    }
                    if role != Role::Nothing {
                        run.after.push(Op::Tell { role, mark, offset, leaf });
                    }
                }
                self.field(scope, name, ty, mark, offset, Shape::Number(leaf));
            }
            Node::Text => {
                self.close();
                let mark = self.mark();
                self.block.ops.push(Op::Text { mark });
                self.at_byte = true;
                self.field(scope, name, ty, mark, 0, Shape::Text);
            }
            Node::Array { count, ref element, text, .. } => {
                let Some((leaf, align)) = element.plain_leaf() else {
                    return self.tree(scope, name, ty, node);
                };
                let stride = stride(leaf, align);
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
                        self.block.ops.push(Op::Sequence { mark, slot, leaf, stride, align });
                        self.at_byte = leaf.bits % 8 == 0;
                        self.field(scope, name, ty, mark, 0, Shape::Sequence { leaf, stride, text });
                    }
                }
            }
            Node::Variant { .. } => self.tree(scope, name, ty, node),
        }
    }
}
