//! The executor: runs the steps of a plan over the bytes of a packet. This is the loop that runs a billion times; it
//! allocates nothing but what a tree needs, and what it needs is backed by bytes of the packet.

use crate::bits::{align_up, Leaf, Window};
use crate::plan::{stride, Child, Count, Node, Op, Role};
use crate::refs::Choices;
use crate::types::ByteOrder;

/// Where a step found its field: a bit of the packet and, for texts and sequences, how many bytes or elements. For a tree,
/// the first of its records and their number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub at: u64,
    pub len: u64,
}

/// One node of a walked tree, parents before children.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub at: u64,
    /// Bytes of a text, elements of an array, option of a variant.
    pub len: u64,
    /// Records of this node with all below it.
    pub size: u32,
}

/// Why the executor stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// `bits` from `at` on go beyond the limit. If they are a run, its mark tells which field it is.
    Limit {
        at: u64,
        bits: u64,
        run: Option<u32>,
    },
    MixedOrder {
        at: u64,
        from: ByteOrder,
        to: ByteOrder,
    },
    NoOption {
        at: u64,
        tag: i128,
    },
    Unbacked {
        at: u64,
        length: u64,
    },
    UnknownEvent {
        at: u64,
        id: u64,
    },
    /// An event took no bits.
    Empty {
        at: u64,
    },
}

/// An array whose elements may take no bits may have this many, more than any tool writes.
const MAX_UNBACKED: u64 = 1 << 12;

/// What survives from one step to the next.
pub(crate) struct Executor<'a, 'b> {
    pub window: Window<'a>,
    /// Bits from the packet's begin.
    pub at: u64,
    /// The first bit that may not be read.
    pub limit: u64,
    /// Byte order of the last bits, where they ended within a byte.
    pub last: ByteOrder,
    pub marks: &'b mut [Mark],
    pub slots: &'b mut [u64],
    pub records: &'b mut Vec<Record>,
    pub told: Told,
}

/// What fields with a role said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub id: Option<u64>,
    /// The value of a clock's lowest bits, and how many.
    pub time: Option<(u64, u32)>,
}

impl Told {
    #[inline]
    fn tell(&mut self, role: Role, value: u64, leaf: Leaf) {
        match role {
            Role::Nothing => {}
            Role::EventId => self.id = Some(value),
            Role::Time => self.time = Some((value, u32::from(leaf.bits))),
        }
    }
}

impl Executor<'_, '_> {
    /// Passes a run; returns where it begins.
    #[inline]
    pub(crate) fn pass(&mut self, align: u32, bits: u64, last: ByteOrder) -> Result<u64, Stop> {
        let at = align_up(self.at, align);
        let end = at + bits;
        if end > self.limit {
            return Err(self.stop(at, bits));
        }
        self.at = end;
        self.last = last;
        Ok(at)
    }

    #[inline]
    pub(crate) fn run(&mut self, ops: &[Op]) -> Result<(), Stop> {
        for op in ops {
            match op {
                Op::Run { align, bits, mark, last } => match self.pass(*align, *bits, *last) {
                    Ok(at) => self.note(*mark, Mark { at, len: 0 }),
                    Err(Stop::Limit { at, bits, .. }) => return Err(Stop::Limit { at, bits, run: Some(*mark) }),
                    Err(stop) => return Err(stop),
                },
                Op::Save { slot, mark, offset, leaf } => {
                    let value = self.window.raw(self.marked(*mark) + offset, *leaf);
                    self.save(*slot, value);
                }
                Op::Tell { role, mark, offset, leaf } => {
                    let value = self.window.raw(self.marked(*mark) + offset, *leaf);
                    self.told.tell(*role, value, *leaf);
                }
                Op::Text { mark } => {
                    let (at, len) = self.text()?;
                    self.note(*mark, Mark { at, len });
                }
                Op::Sequence { mark, slot, leaf, stride, align } => {
                    let len = self.saved(*slot);
                    let at = self.numbers(len, *leaf, *stride, *align)?;
                    self.note(*mark, Mark { at, len });
                }
                Op::Tree { mark, node } => {
                    let first = self.records.len() as u64;
                    self.walk(node)?;
                    self.note(*mark, Mark { at: first, len: self.records.len() as u64 - first });
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, mark: u32, value: Mark) {
        if let Some(slot) = self.marks.get_mut(mark as usize) {
            *slot = value;
        }
    }

    #[inline]
    fn marked(&self, mark: u32) -> u64 {
        self.marks.get(mark as usize).map_or(0, |m| m.at)
    }

    #[inline]
    fn save(&mut self, slot: u32, value: u64) {
        if let Some(s) = self.slots.get_mut(slot as usize) {
            *s = value;
        }
    }

    #[inline]
    fn saved(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).copied().unwrap_or(0)
    }

    #[cold]
    fn stop(&self, at: u64, bits: u64) -> Stop {
        Stop::Limit { at, bits, run: None }
    }

    #[inline]
    fn text(&mut self) -> Result<(u64, u64), Stop> {
        let at = align_up(self.at, 8);
        // Only whole bytes count: a limit within a byte leaves none for the text's end.
        match self.window.text_len(at, self.limit & !7) {
            Some(len) => {
                self.at = at + (len + 1) * 8;
                Ok((at, len))
            }
            None => Err(self.stop(at.max(self.limit & !7), 8)),
        }
    }

    /// Passes `len` numbers; returns where they begin.
    #[inline]
    fn numbers(&mut self, len: u64, leaf: Leaf, stride: u64, align: u32) -> Result<u64, Stop> {
        let at = align_up(self.at, align);
        let room = self.limit.saturating_sub(at);
        let bits = match len {
            0 => 0,
            _ => stride.saturating_mul(len - 1).saturating_add(u64::from(leaf.bits)),
        };
        if bits > room || at > self.limit {
            return Err(self.stop_in_array(at, leaf, stride, room, bits));
        }
        self.at = at + bits;
        self.last = leaf.order;
        Ok(at)
    }

    /// The place of the first element that does not fit. If the data merely ends in the window, all bits count.
    #[cold]
    fn stop_in_array(&self, at: u64, leaf: Leaf, stride: u64, room: u64, bits: u64) -> Stop {
        let whole = (room + stride).saturating_sub(u64::from(leaf.bits)) / stride;
        Stop::Limit { at: at + whole * stride, bits: bits.saturating_sub(whole * stride), run: None }
    }

    fn walk(&mut self, node: &Node) -> Result<(), Stop> {
        let index = self.records.len();
        match node {
            Node::Number { leaf, align, save, role } => {
                let at = align_up(self.at, *align);
                let bits = u64::from(leaf.bits);
                if at % 8 != 0 && self.last != leaf.order {
                    return Err(Stop::MixedOrder { at, from: self.last, to: leaf.order });
                }
                if at + bits > self.limit {
                    return Err(self.stop(at, bits));
                }
                self.records.push(Record { at, len: 0, size: 1 });
                self.at = at + bits;
                self.last = leaf.order;
                if save.is_some() || *role != Role::Nothing {
                    let value = self.window.raw(at, *leaf);
                    if let Some(slot) = save {
                        self.save(*slot, value);
                    }
                    self.told.tell(*role, value, *leaf);
                }
                return Ok(());
            }
            Node::Text => {
                let (at, len) = self.text()?;
                self.records.push(Record { at, len, size: 1 });
                return Ok(());
            }
            Node::Struct { align, children } => {
                self.at = align_up(self.at, *align);
                self.records.push(Record { at: self.at, len: 0, size: 1 });
                for child in children {
                    self.walk(&child.node)?;
                }
            }
            Node::Array { align, count, element, least_bits, .. } => {
                let len = match count {
                    Count::Fixed(len) => *len,
                    Count::Slot(slot) => self.saved(*slot),
                };
                if let Some((leaf, leaf_align)) = element.plain_leaf() {
                    let at = align_up(self.at, leaf_align);
                    if at % 8 != 0 && self.last != leaf.order && len > 0 {
                        return Err(Stop::MixedOrder { at, from: self.last, to: leaf.order });
                    }
                    let at = self.numbers(len, leaf, stride(leaf, leaf_align), leaf_align)?;
                    self.records.push(Record { at, len, size: 1 });
                    return Ok(());
                }
                self.at = align_up(self.at, *align);
                self.records.push(Record { at: self.at, len, size: 1 });
                if *least_bits == 0 && len > MAX_UNBACKED {
                    return Err(Stop::Unbacked { at: self.at, length: len });
                }
                for _ in 0..len {
                    // Arrays of nothing in arrays of nothing multiply.
                    if *least_bits == 0 && self.records.len() as u64 > MAX_UNBACKED + self.limit {
                        return Err(Stop::Unbacked { at: self.at, length: len });
                    }
                    self.walk(element)?;
                }
            }
            Node::Variant { slot, choices, options } => {
                let tag = self.saved(*slot);
                let (option, child) = self.choose(tag, choices, options)?;
                self.records.push(Record { at: self.at, len: u64::from(option), size: 1 });
                self.walk(&child.node)?;
            }
        }
        let size = self.records.len() - index;
        if let Some(record) = self.records.get_mut(index) {
            record.size = size as u32;
        }
        Ok(())
    }

    fn choose<'c>(&self, tag: u64, choices: &Choices, options: &'c [Child]) -> Result<(u32, &'c Child), Stop> {
        let tag = choices.value(tag);
        choices
            .find(tag)
            .and_then(|option| options.get(option as usize).map(|child| (option, child)))
            .ok_or(Stop::NoOption { at: self.at, tag })
    }
}

impl Choices {
    #[inline]
    pub(crate) fn value(&self, raw: u64) -> i128 {
        if self.signed {
            i128::from(raw as i64)
        } else {
            i128::from(raw)
        }
    }

    /// The option of a tag's value; of several the first.
    #[inline]
    pub(crate) fn find(&self, tag: i128) -> Option<u32> {
        self.list.iter().find(|c| c.low <= tag && tag <= c.high).map(|c| c.option)
    }
}
