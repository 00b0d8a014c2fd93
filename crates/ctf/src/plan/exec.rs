//! The executor: runs the steps of a plan over the bytes of a packet.
//!
//! This is the innermost loop of decoding. It allocates only the records of trees. Their number is
//! bounded by the bytes of the packet, except for [`MAX_EMPTY`] elements without bits per array,
//! and by [`MAX_RECORDS`]; so no small input can request much memory.

use crate::bits::{align_up, Leaf, LeafKind, Window};
use crate::clock::{extend, low_bits};
use crate::plan::fixed_layout::FixedLayout;
use crate::plan::refs::Choices;
use crate::plan::{stride, Child, Count, Node, Op, VarInt};
use crate::types::{ByteOrder, Encoding, Roles};

/// Place at which a step found its field: a bit of the packet and, for texts and sequences, the
/// number of bytes or elements. For a variable-length integer `len` is its value. For a tree, `at`
/// is the index of its first record and `len` is the number of its records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub at: u64,
    pub len: u64,
}

/// One node of a walked tree. Parents come before children.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub at: u64,
    /// Depends on the node: bytes of a text, elements of an array, index of a variant's option, 1
    /// for an optional that is present, value of a variable-length integer.
    pub len: u64,
    /// Number of records of this node and all nodes below it.
    pub size: u32,
}

/// Why the executor stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The `bits` bits from bit `at` on extend beyond the limit. If they are a run, `run` is its
    /// mark, from which the affected field can be found.
    Limit {
        at: u64,
        bits: u64,
        run: Option<u32>,
        /// Start and size in bits of the unit that is reported instead if it extends beyond the
        /// content of a packet of known size: a whole byte array, or the padding.
        opaque: Option<(u64, u64)>,
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
    /// A text without a NUL ends within a code unit, which has `unit` bytes.
    CutUnit {
        at: u64,
        unit: u64,
    },
    UnknownEvent {
        at: u64,
        id: u64,
    },
    /// A variable-length integer of more than 64 bits.
    Oversized {
        at: u64,
    },
    /// An event took no bits.
    Empty {
        at: u64,
    },
    /// The event has more tree nodes than [`MAX_RECORDS`].
    TooMany {
        at: u64,
    },
}

/// Number of elements without any bits that an array may have. The number of other elements is
/// bounded by the data.
const MAX_EMPTY: u64 = 1 << 16;

/// Number of tree nodes per event that are recorded; the limit corresponds to some hundred
/// megabytes. No known tracer writes events that large.
const MAX_RECORDS: usize = 1 << 22;

/// State that survives from one step to the next.
pub(crate) struct Executor<'a, 'b> {
    pub window: Window<'a>,
    /// Position of the cursor, in bits from the start of the packet.
    pub at: u64,
    /// First bit that must not be read.
    pub limit: u64,
    /// Byte order of the last bits that were read; checked where they end within a byte.
    pub last: ByteOrder,
    pub marks: &'b mut [Mark],
    pub slots: &'b mut [u64],
    pub records: &'b mut Vec<Record>,
    pub role_values: RoleValues,
}

/// The part of a list of steps that was executed before one failed.
pub(crate) struct Progress {
    /// Number of marks that were stored.
    pub marks: u32,
    /// The mark and start of the run that begins before the limit and ends after it. Its mark is
    /// stored.
    pub open: Option<(u32, u64)>,
    /// True if not even the padding before the first step fits.
    pub nothing: bool,
}

/// Values of the fields that have a role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoleValues {
    /// Id of the event's class.
    pub id: Option<u64>,
    /// Full value of the clock; each field with [`Roles::TIME`] advances it.
    pub clock: u64,
    /// Value of the clock after the first field with [`Roles::TIME`].
    pub time: Option<u64>,
    /// Values that only fields of packets have.
    pub packet: PacketRoleValues,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketRoleValues {
    pub magic: Option<u64>,
    pub stream_id: Option<u64>,
    pub stream_instance: Option<u64>,
    pub packet_size: Option<u64>,
    pub content_size: Option<u64>,
    /// The lowest bits of the clock, and their number.
    pub end_time: Option<(u64, u32)>,
    /// The counter, and its width in bits.
    pub discarded: Option<(u64, u32)>,
    pub sequence: Option<(u64, u32)>,
    pub cpu: Option<u64>,
}

impl RoleValues {
    pub(crate) fn new(clock: u64) -> RoleValues {
        RoleValues { clock, ..RoleValues::default() }
    }

    #[inline]
    pub(crate) fn time(&mut self, low: u64, bits: u32) {
        self.clock = extend(self.clock, low, low_bits(bits));
        self.time.get_or_insert(self.clock);
    }

    #[inline]
    fn set(&mut self, roles: Roles, value: u64, bits: u32) {
        if roles.has(Roles::EVENT_ID) {
            self.id = Some(value);
        }
        if roles.has(Roles::TIME) {
            self.time(value, bits);
        }
        if !roles.within(Roles::OF_PACKETS).is_empty() {
            self.packet.set(roles, value, bits);
        }
    }
}

impl PacketRoleValues {
    #[cold]
    fn set(&mut self, roles: Roles, value: u64, bits: u32) {
        let plain = [
            (Roles::MAGIC, &mut self.magic),
            (Roles::STREAM_ID, &mut self.stream_id),
            (Roles::STREAM_INSTANCE, &mut self.stream_instance),
            (Roles::PACKET_SIZE, &mut self.packet_size),
            (Roles::CONTENT_SIZE, &mut self.content_size),
            (Roles::CPU, &mut self.cpu),
        ];
        for (role, value_of_role) in plain {
            if roles.has(role) {
                *value_of_role = Some(value);
            }
        }
        let counters =
            [(Roles::END_TIME, &mut self.end_time), (Roles::DISCARDED, &mut self.discarded), (Roles::SEQUENCE, &mut self.sequence)];
        for (role, value_of_role) in counters {
            if roles.has(role) {
                *value_of_role = Some((value, bits));
            }
        }
    }
}

impl Executor<'_, '_> {
    /// Moves the cursor behind a run and returns the bit at which the run begins.
    #[inline]
    pub(crate) fn pass(&mut self, align: u32, bits: u64, last: ByteOrder) -> Result<u64, Stop> {
        let at = align_up(self.at, align);
        let end = at + bits;
        if end > self.limit {
            return Err(self.stop_behind_padding(at, bits));
        }
        self.at = end;
        self.last = last;
        Ok(at)
    }

    /// The bit at which the next field of this alignment begins.
    #[inline]
    fn aligned(&self, align: u32) -> Result<u64, Stop> {
        let at = align_up(self.at, align);
        if at > self.limit {
            return Err(self.stop_behind_padding(at, 0));
        }
        Ok(at)
    }

    /// Builds the stop for a field that does not fit. If not even the padding before it fits, the
    /// padding is reported.
    #[cold]
    fn stop_behind_padding(&self, at: u64, bits: u64) -> Stop {
        match at > self.limit {
            true => Stop::Limit { at: self.limit, bits: at - self.limit, run: None, opaque: Some((self.at, at - self.at)) },
            false => self.stop(at, bits),
        }
    }

    #[inline]
    pub(crate) fn run(&mut self, ops: &[Op]) -> Result<(), Stop> {
        for op in ops {
            match op {
                Op::Run { align, bits, mark, last } => match self.pass(*align, *bits, *last) {
                    Ok(at) => self.note(*mark, Mark { at, len: 0 }),
                    Err(Stop::Limit { at, bits, .. }) if at == align_up(self.at, *align) => {
                        return Err(Stop::Limit { at, bits, run: Some(*mark), opaque: None });
                    }
                    Err(stop) => return Err(stop),
                },
                Op::Align(align) => self.at = self.aligned(*align)?,
                Op::Save { slot, mark, offset, leaf } => {
                    let value = self.window.raw(self.marked(*mark) + offset, *leaf);
                    self.save(*slot, value);
                }
                Op::SetRole { roles, mark, offset, leaf } => {
                    let value = self.window.raw(self.marked(*mark) + offset, *leaf);
                    self.role_values.set(*roles, value, u32::from(leaf.bits));
                }
                Op::Text { mark } => {
                    let (at, len) = self.text()?;
                    self.note(*mark, Mark { at, len });
                }
                Op::WideText { mark, unit } => {
                    let (at, len) = self.wide_text(*unit)?;
                    self.note(*mark, Mark { at, len });
                }
                Op::VarInt { mark, int } => {
                    let (at, len) = self.var_int(int)?;
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

    /// Runs the steps of a list that failed, up to the one that fails.
    #[cold]
    pub(crate) fn run_partly(&mut self, ops: &[Op]) -> Progress {
        let mut progress = Progress { marks: 0, open: None, nothing: false };
        for op in ops {
            if self.run(std::slice::from_ref(op)).is_err() {
                if let Op::Run { align, mark, .. } = op {
                    let at = align_up(self.at, *align);
                    progress.nothing = progress.marks == 0 && at > self.limit;
                    if at <= self.limit {
                        self.note(*mark, Mark { at, len: 0 });
                        progress.open = Some((*mark, at));
                    }
                }
                break;
            }
            if !matches!(op, Op::Save { .. } | Op::SetRole { .. } | Op::Align(_)) {
                progress.marks += 1;
            }
        }
        progress
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
        Stop::Limit { at, bits, run: None, opaque: None }
    }

    #[inline]
    fn text(&mut self) -> Result<(u64, u64), Stop> {
        let at = self.aligned(8)?;
        // Only whole bytes count: if the limit is within a byte, the rest of that byte cannot hold
        // the NUL.
        match self.window.text_len(at, self.limit & !7) {
            Some(len) => {
                self.at = at + (len + 1) * 8;
                Ok((at, len))
            }
            None => Err(self.stop(at.max(self.limit & !7), 8)),
        }
    }

    fn wide_text(&mut self, unit: u64) -> Result<(u64, u64), Stop> {
        let at = self.aligned(8)?;
        let limit = self.limit & !7;
        match self.window.wide_text_len(at, limit, unit) {
            Some(len) => {
                self.at = at + (len + unit) * 8;
                Ok((at, len))
            }
            None => {
                let whole = limit.saturating_sub(at) / (unit * 8);
                Err(self.stop(at + whole * unit * 8, unit * 8))
            }
        }
    }

    /// Passes an integer with seven bits per byte, lowest first; all bytes but the last have the
    /// highest bit set (LEB128). Returns the bit at which it begins and its value.
    fn var_int(&mut self, int: &VarInt) -> Result<(u64, u64), Stop> {
        let begin = self.aligned(8)?;
        let (mut at, mut value, mut bits) = (begin, 0u128, 0u32);
        // The tenth byte is the one that exceeds 64 bits.
        let oversized = Stop::Oversized { at: begin + 72 };
        loop {
            if at + 8 > self.limit {
                return Err(self.stop(at, 8));
            }
            let byte = self.window.slice(at, 1).first().copied().unwrap_or(0);
            at += 8;
            // Bytes beyond the tenth could only extend the sign or add zeros. No known tracer
            // writes them, and no 64-bit value needs them.
            if bits == 70 {
                return Err(oversized);
            }
            value |= u128::from(byte & 0x7f) << bits;
            bits += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let value = if int.signed {
            // Sign-extended from its last bit; the result must fit 64 bits.
            let value = (value as i128) << (128 - bits) >> (128 - bits);
            i64::try_from(value).map(|value| value as u64)
        } else {
            u64::try_from(value)
        };
        let value = value.map_err(|_| oversized)?;
        self.at = at;
        int.saves.iter().for_each(|&slot| self.save(slot, value));
        self.role_values.set(int.roles, value, bits.min(64));
        if int.roles.has(Roles::DISCARDED) {
            // The counter is stored with as many bits as its value needs, so it never wraps.
            self.role_values.packet.discarded = Some((value, 64));
        }
        Ok((begin, value))
    }

    /// Passes `len` numbers and returns the bit at which they begin.
    #[inline]
    fn numbers(&mut self, len: u64, leaf: Leaf, stride: u64, align: u32) -> Result<u64, Stop> {
        let at = self.aligned(align)?;
        let room = self.limit - at;
        let bits = match len {
            0 => 0,
            _ => stride.saturating_mul(len - 1).saturating_add(u64::from(leaf.bits)),
        };
        if bits > room {
            return Err(self.stop_in_array(at, leaf, stride, room, bits));
        }
        self.at = at + bits;
        // An empty array has no byte order.
        if len > 0 {
            self.last = leaf.order;
        }
        Ok(at)
    }

    /// Reports the first element that does not fit. `bits` covers all the remaining elements, so
    /// that the caller can make them all visible at once if only the window ends here.
    #[cold]
    fn stop_in_array(&self, at: u64, leaf: Leaf, stride: u64, room: u64, bits: u64) -> Stop {
        let whole = (room + stride).saturating_sub(u64::from(leaf.bits)) / stride;
        let opaque = (leaf.kind == LeafKind::Byte).then_some((at, bits));
        Stop::Limit { at: at + whole * stride, bits: bits.saturating_sub(whole * stride), run: None, opaque }
    }

    fn walk(&mut self, node: &Node) -> Result<(), Stop> {
        let index = self.records.len();
        match node {
            Node::Number { leaf, align, saves, roles } => {
                let at = self.aligned(*align)?;
                let bits = u64::from(leaf.bits);
                if at % 8 != 0 && self.last != leaf.order {
                    return Err(Stop::MixedOrder { at, from: self.last, to: leaf.order });
                }
                if at + bits > self.limit {
                    return Err(self.stop(at, bits));
                }
                self.record(at, 0)?;
                self.at = at + bits;
                self.last = leaf.order;
                if !saves.is_empty() || !roles.is_empty() {
                    let value = self.window.raw(at, *leaf);
                    saves.iter().for_each(|&slot| self.save(slot, value));
                    self.role_values.set(*roles, value, u32::from(leaf.bits));
                }
                return Ok(());
            }
            Node::VarInt(int) => {
                let (at, len) = self.var_int(int)?;
                self.record(at, len)?;
                return Ok(());
            }
            Node::Text(encoding) => {
                let (at, len) = match encoding.unit() {
                    1 => self.text()?,
                    unit => self.wide_text(unit)?,
                };
                self.record(at, len)?;
                return Ok(());
            }
            Node::Struct { align, children, .. } => {
                self.at = self.aligned(*align)?;
                self.record(self.at, 0)?;
                for child in children {
                    self.walk(&child.node)?;
                }
            }
            Node::Array { align, count, element, text } => return self.walk_array(*align, *count, element, *text),
            Node::Variant { slot, choices, options } => {
                let tag = self.saved(*slot);
                let (option, child) = self.choose(tag, choices, options)?;
                self.record(self.at, u64::from(option))?;
                self.walk(&child.node)?;
            }
            Node::Optional { slot, choices, inner } => {
                let there = choices.find(choices.value(self.saved(*slot))).is_some();
                self.record(self.at, u64::from(there))?;
                if there {
                    self.walk(inner)?;
                }
            }
        }
        self.close_record(index);
        Ok(())
    }

    /// Sets the size of a record, after the records below it were added.
    #[inline]
    fn close_record(&mut self, index: usize) {
        let size = self.records.len() - index;
        if let Some(record) = self.records.get_mut(index) {
            record.size = size as u32;
        }
    }

    fn walk_array(&mut self, align: u32, count: Count, element: &Node, text: Encoding) -> Result<(), Stop> {
        let len = match count {
            Count::Fixed(len) => len,
            Count::Slot(slot) => self.saved(slot),
        };
        if let Some((leaf, leaf_align)) = element.plain_leaf() {
            let at = self.aligned(align)?;
            if at % 8 != 0 && self.last != leaf.order && len > 0 {
                return Err(Stop::MixedOrder { at, from: self.last, to: leaf.order });
            }
            let at = self.numbers(len, leaf, stride(leaf, leaf_align), align)?;
            let unit = text.unit();
            if len % unit != 0 && self.window.wide_text_len(at, self.at, unit).is_none() {
                return Err(Stop::CutUnit { at: self.at - len % unit * 8, unit });
            }
            self.record(at, len)?;
            return Ok(());
        }
        self.at = self.aligned(align)?;
        if let Some(fixed_layout) = element.fixed_layout().filter(|_| len > 0) {
            return self.fixed_layout_array(len, element, fixed_layout);
        }
        let index = self.records.len();
        self.record(self.at, len)?;
        let mut empty = 0;
        for _ in 0..len {
            let begin = self.at;
            self.walk(element)?;
            empty += u64::from(self.at == begin);
            if empty > MAX_EMPTY {
                return Err(Stop::Unbacked { at: self.at, length: len });
            }
        }
        self.close_record(index);
        Ok(())
    }

    /// Passes elements at constant distances. They need a single record, however many they are.
    fn fixed_layout_array(&mut self, len: u64, element: &Node, fixed_layout: FixedLayout) -> Result<(), Stop> {
        let at = align_up(self.at, fixed_layout.align);
        let (stride, room) = (fixed_layout.stride(), self.limit.saturating_sub(at));
        let bits = stride.saturating_mul(len - 1).saturating_add(fixed_layout.bits);
        let in_order = at.is_multiple_of(8) || fixed_layout.order == Some(self.last);
        if bits <= room && in_order {
            self.record(at, len)?;
            self.at = at + bits;
            self.last = fixed_layout.order.unwrap_or(self.last);
            return Ok(());
        }
        // The first element that does not fit is walked to find the part of it that fails.
        let whole = if in_order { (room + stride).saturating_sub(fixed_layout.bits) / stride } else { 0 };
        if whole > 0 {
            self.at = at + (whole - 1) * stride + fixed_layout.bits;
            self.last = fixed_layout.order.unwrap_or(self.last);
        }
        self.walk(element)?;
        Err(self.stop(self.at, bits))
    }

    /// Adds the record of a node. The number of the records below it is set when they were walked.
    fn record(&mut self, at: u64, len: u64) -> Result<(), Stop> {
        if self.records.len() >= MAX_RECORDS {
            return Err(Stop::TooMany { at });
        }
        self.records.push(Record { at, len, size: 1 });
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

    /// The option that a tag's value selects; the first one if several match.
    #[inline]
    pub(crate) fn find(&self, tag: i128) -> Option<u32> {
        self.list.iter().find(|c| c.low <= tag && tag <= c.high).map(|c| c.option)
    }
}
