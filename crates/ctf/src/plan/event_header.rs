//! Event headers. A header is decoded for every event, so the two layouts that tracers write have a
//! specialized form: a header of fixed layout, and a header whose layout depends on a tag (the
//! compact and large headers of LTTng).

use crate::bits::{Leaf, LeafKind, Load, Window};
use crate::error::SpanError;
use crate::plan::exec::{Executor, RoleValues, Stop};
use crate::plan::refs::{Choices, ScopeRefs};
use crate::plan::{Block, Child, Flattener, Node, NodeMaker, Op};
use crate::types::{ByteOrder, Roles, Scope, StructType, Type, Version};
use std::ops::RangeInclusive;

#[derive(Debug)]
pub(crate) enum HeaderPlan {
    None,
    Fixed(FixedHeader),
    Tagged(Box<TaggedHeader>),
    Any(Block),
}

/// A number at a constant distance from the start of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderField {
    offset: u64,
    leaf: Leaf,
    load: Load,
}

impl HeaderField {
    fn new(offset: u64, leaf: Leaf) -> Option<HeaderField> {
        Load::new(offset, leaf).map(|load| HeaderField { offset, leaf, load })
    }

    /// The value in a header that begins at bit `at`, which must be a byte boundary.
    #[inline(always)]
    fn value(&self, at: u64, window: Window<'_>) -> u64 {
        match self.load.high(window.bytes, window.index(at)) {
            Some(high) => self.load.unsigned(high),
            None => window.raw(at + self.offset, self.leaf),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FixedHeader {
    align: u32,
    bits: u64,
    last: ByteOrder,
    id: Option<HeaderField>,
    time: Option<HeaderField>,
}

#[derive(Debug)]
pub(crate) struct TaggedHeader {
    align: u32,
    /// Number of bits up to the end of the tag.
    bits: u64,
    tag: HeaderField,
    tag_slot: u32,
    tag_is_id: bool,
    choices: Choices,
    /// The layout of the whole header, tag included, for each option.
    options: Vec<FixedHeader>,
}

impl HeaderPlan {
    pub(crate) fn new(version: Version, ty: Option<&StructType>, refs: Option<&ScopeRefs>) -> Result<HeaderPlan, SpanError> {
        let Some(ty) = ty else { return Ok(HeaderPlan::None) };
        let node = || NodeMaker::new(version, Scope::EventHeader, refs).structure(ty);
        if let Some(tagged) = tagged(node()?, refs) {
            return Ok(HeaderPlan::Tagged(Box::new(tagged)));
        }
        let block = flat(node()?);
        // If a header ends within a byte, the byte order of the next bits must be checked.
        Ok(match fixed(&block).filter(|f| f.bits % 8 == 0) {
            Some(fixed) => HeaderPlan::Fixed(fixed),
            None => HeaderPlan::Any(block),
        })
    }

    pub(crate) fn fast(&self) -> Option<FastHeader> {
        let (fixed, id, ids) = match self {
            HeaderPlan::Fixed(fixed) => (fixed, fixed.id?, 0..=u64::MAX),
            HeaderPlan::Tagged(tagged) => tagged.usual()?,
            HeaderPlan::Any(_) | HeaderPlan::None => return None,
        };
        let time = fixed.time?;
        let time_mask = u64::MAX >> (64 - u32::from(time.leaf.bits));
        Some(FastHeader { align: fixed.align, bits: fixed.bits, id: id.load, ids, time: time.load, time_mask })
    }

    pub(crate) fn marks(&self) -> u32 {
        match self {
            HeaderPlan::Any(block) => block.marks,
            _ => 0,
        }
    }

    /// Decodes a header at the executor's cursor into the values of its fields with roles.
    #[inline]
    pub(crate) fn decode(&self, x: &mut Executor<'_, '_>) -> Result<(), Stop> {
        match self {
            HeaderPlan::Fixed(fixed) => {
                let at = x.pass(fixed.align, fixed.bits, fixed.last)?;
                fixed.set(at, x.window, &mut x.role_values);
                Ok(())
            }
            HeaderPlan::Tagged(tagged) => tagged.decode(x),
            HeaderPlan::Any(block) => x.run(&block.ops),
            HeaderPlan::None => Ok(()),
        }
    }
}

impl FixedHeader {
    #[inline(always)]
    fn set(&self, at: u64, window: Window<'_>, role_values: &mut RoleValues) {
        if let Some(id) = self.id {
            role_values.id = Some(id.value(at, window));
        }
        if let Some(time) = self.time {
            role_values.time(time.value(at, window), u32::from(time.leaf.bits));
        }
    }
}

/// A header of fixed layout with an id and a time, for the fast path of the decoder.
#[derive(Clone, Debug)]
pub(crate) struct FastHeader {
    pub align: u32,
    pub bits: u64,
    pub id: Load,
    /// Ids for which the header has this layout.
    pub ids: RangeInclusive<u64>,
    pub time: Load,
    /// Mask of the bits of the clock that the time field records.
    pub time_mask: u64,
}

impl TaggedHeader {
    /// The header of events whose tag is the id itself, and the range of these ids. Tracers write
    /// this option while ids are small.
    fn usual(&self) -> Option<(&FixedHeader, HeaderField, RangeInclusive<u64>)> {
        let choice = self.choices.list.first().filter(|_| self.tag_is_id && !self.choices.signed)?;
        let option = self.options.get(choice.option as usize).filter(|option| option.id.is_none() && option.bits % 8 == 0)?;
        let ids = choice.low.try_into().ok()?..=choice.high.try_into().ok()?;
        Some((option, self.tag, ids))
    }

    #[inline]
    fn decode(&self, x: &mut Executor<'_, '_>) -> Result<(), Stop> {
        let begin = x.at;
        let at = x.pass(self.align, self.bits, self.tag.leaf.order)?;
        let tag = x.window.raw(at + self.tag.offset, self.tag.leaf);
        let value = self.choices.value(tag);
        let Some(option) = self.choices.find(value).and_then(|o| self.options.get(o as usize)) else {
            return Err(Stop::NoOption { at: x.at, tag: value });
        };
        x.at = begin;
        x.pass(self.align, option.bits, option.last)?;
        if let Some(slot) = x.slots.get_mut(self.tag_slot as usize) {
            *slot = tag;
        }
        if self.tag_is_id {
            x.role_values.id = Some(tag);
        }
        option.set(at, x.window, &mut x.role_values);
        Ok(())
    }
}

fn flat(node: Node) -> Block {
    let mut flattener = Flattener::default();
    flattener.scope(Scope::EventHeader, node);
    flattener.finish()
}

/// The header that a block describes, if the block is a single run whose values are not saved.
fn fixed(block: &Block) -> Option<FixedHeader> {
    let (first, rest) = block.ops.split_first()?;
    let Op::Run { align, bits, last, .. } = *first else { return None };
    let mut fixed = FixedHeader { align, bits, last, id: None, time: None };
    for op in rest {
        let Op::SetRole { roles, offset, leaf, .. } = *op else { return None };
        // A signed id would have to be sign-extended; no known tracer writes one.
        let place = Some(HeaderField::new(offset, leaf).filter(|p| p.leaf.kind == LeafKind::Unsigned)?);
        if roles.has(Roles::EVENT_ID) {
            fixed.id = place;
        }
        if roles.has(Roles::TIME) {
            // Several time fields advance the clock one after another, which only the general form
            // handles.
            if fixed.time.is_some() {
                return None;
            }
            fixed.time = place;
        }
    }
    Some(fixed)
}

/// Matches a structure of an integer and a variant that it selects, if all options have a fixed
/// layout.
fn tagged(node: Node, refs: Option<&ScopeRefs>) -> Option<TaggedHeader> {
    // Another saved field would need the general form.
    if refs?.saves.len() != 1 {
        return None;
    }
    let Node::Struct { align, children, .. } = node else { return None };
    let [tag, variant] = <[_; 2]>::try_from(children).ok()?;
    let Node::Number { leaf, align: tag_align, saves, roles } = tag.node else { return None };
    let [tag_slot] = saves[..] else { return None };
    let Node::Variant { slot, choices, options } = variant.node else { return None };
    // A time in the tag itself would need the general form.
    if slot != tag_slot || align < 8 || roles.has(Roles::TIME) {
        return None;
    }
    let whole = |name: &str, node: Option<Node>| {
        let child = |name: &str, ty: &Type, node| Child { name: name.into(), ty: ty.clone(), node };
        let number = Node::Number { leaf, align: tag_align, saves: Vec::new(), roles: Roles::EVENT_ID };
        let mut children = vec![child("tag", &tag.ty, number)];
        children.extend(node.map(|n| child(name, &variant.ty, n)));
        fixed(&flat(Node::structure(align, children)))
    };
    let head = whole("", None)?;
    let mut fixed_options = Vec::with_capacity(options.len());
    for option in options {
        let mut option = whole("option", Some(option.node))?;
        // An id in the option itself comes after the tag and replaces it.
        if let Some(id) = option.id {
            if head.id.is_some_and(|tag| tag.offset == id.offset) {
                option.id = None;
            }
        }
        // If an option is aligned more strictly than the header, its distances depend on where the
        // header begins.
        if option.align != head.align {
            return None;
        }
        fixed_options.push(option);
    }
    Some(TaggedHeader {
        align: head.align,
        bits: head.bits,
        tag: head.id?,
        tag_slot,
        tag_is_id: roles.has(Roles::EVENT_ID),
        choices,
        options: fixed_options,
    })
}
