//! Interactions in a few bytes each, for an analysis that reads them again. No other program reads
//! this form, and it does not outlive the process, so it needs no version.
//!
//! A piece has the content of one [`Block`]. It begins with a time and a line. Each interaction
//! then consists of a byte for its kind, the differences of time and line to the previous one, and
//! its parts, all as numbers of variable size (7 bits per byte). The names behind the ids are those
//! of the vocabulary; only the current names of passing queues are contained.

use crate::interaction::block::Block;
use crate::interaction::{Cause, Effect, Interaction, MachineId, QueueId, Vocabulary, Wants};
use crate::names::NameId;
use crate::tokens::{Amount, Order, Shape, Unit};
use std::sync::Arc;

/// Kind of an entry that renames a passing queue; the other kinds are effects.
const RENAME: u8 = 15;
/// Flags: the line is the same as that of the previous interaction, or the next one.
const SAME_LINE: u8 = 0x40;
const NEXT_LINE: u8 = 0x80;
/// Flags of some kinds, with a meaning per kind.
const FIRST: u8 = 0x10;
const SECOND: u8 = 0x20;

/// Appends the bytes of a block to `out`.
pub fn pack(block: &Block, out: &mut Vec<u8>) {
    let first = block.interactions.first();
    let mut pack = Pack { t: first.map_or(0, |first| first.t), line: first.map_or(0, |first| first.line), out };
    let (t, line) = (pack.t, pack.line);
    pack.number(t);
    pack.number(line);
    let (mut renames, mut text) = (block.renames.iter().peekable(), 0);
    for (at, interaction) in block.interactions.iter().enumerate() {
        while let Some(rename) = renames.next_if(|rename| rename.before == at) {
            pack.out.push(RENAME);
            pack.number(rename.queue.0.into());
            let name = &block.texts.as_bytes()[text..rename.end];
            pack.number(name.len() as u64);
            pack.out.extend_from_slice(name);
            text = rename.end;
        }
        pack.interaction(interaction);
    }
}

struct Pack<'a> {
    t: u64,
    line: u64,
    out: &'a mut Vec<u8>,
}

impl Pack<'_> {
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    /// Writes the number plus one, or 0 for `None`.
    #[inline]
    fn maybe(&mut self, number: Option<u32>) {
        self.number(number.map_or(0, |number| u64::from(number) + 1));
    }

    fn name(&mut self, name: Option<NameId>) {
        self.maybe(name.map(|name| name.0));
    }

    fn cause(&mut self, cause: Cause) {
        self.number(cause.by.0.into());
        // The time may be later than now if clocks differ; the wrapping difference restores it.
        match cause.at {
            None => self.number(0),
            Some(at) => {
                self.number(1);
                let back = self.t.wrapping_sub(at);
                self.number(back);
            }
        }
        self.name(cause.link);
    }

    fn amount(&mut self, amount: Amount) {
        match amount {
            Amount::All => self.number(0),
            Amount::Units(n) => {
                self.number(1);
                self.number(n);
            }
        }
    }

    #[inline]
    fn interaction(&mut self, interaction: &Interaction) {
        let Interaction { t, line, effect } = *interaction;
        let (steps, lines) = (t.wrapping_sub(self.t), line.wrapping_sub(self.line));
        (self.t, self.line) = (t, line);
        let (kind, machine) = kind(&effect);
        let lines_known = [SAME_LINE, NEXT_LINE].get(lines as usize).copied().unwrap_or(0);
        self.out.push(kind | lines_known);
        self.number(steps);
        if lines_known == 0 {
            self.number(lines);
        }
        if let Some(machine) = machine {
            self.number(machine.0.into());
        }
        match effect {
            Effect::Now | Effect::Here { .. } | Effect::Remember { .. } | Effect::Pop { .. } | Effect::Stop { .. } | Effect::End { .. } => {
            }
            Effect::Declare { queue, shape } => {
                self.number(queue.0.into());
                self.number(shape.capacity.is_some().into());
                self.number(shape.capacity.unwrap_or(0));
                self.number(
                    u64::from(shape.order == Order::Lifo) | u64::from(shape.unit == Unit::Bytes) << 1 | u64::from(shape.merge) << 2,
                );
                self.number(shape.initial);
            }
            Effect::Class { class: name, .. } | Effect::State { state: name, .. } => self.number(name.0.into()),
            Effect::Fork { cause, .. } | Effect::Wake { cause: Some(cause), .. } => self.cause(cause),
            Effect::Wake { cause: None, .. } => {}
            Effect::Block { why, on, wants, .. } => {
                self.number(why.0.into());
                self.maybe(on.map(|on| on.0));
                self.maybe(wants.map(|wants| u32::from(wants == Wants::Space)));
            }
            Effect::Put { queue, n, flow, link, .. } => {
                self.number(queue.0.into());
                self.number(n);
                self.name(flow);
                self.name(link);
            }
            Effect::Get { queue, amount, flow, .. } | Effect::Peek { queue, amount, flow, .. } => {
                self.number(queue.0.into());
                self.amount(amount);
                self.name(flow);
            }
            Effect::Reserve { queue, n, .. } => {
                self.number(queue.0.into());
                self.number(n);
            }
            Effect::Push { below, cause, .. } => {
                self.maybe(below.map(|below| below.0));
                if let Some(Some(cause)) = cause {
                    self.cause(cause);
                }
            }
        }
    }
}

/// The byte for the kind of an effect, and the machine of the effect.
#[inline]
fn kind(effect: &Effect) -> (u8, Option<MachineId>) {
    match *effect {
        Effect::Now => (0, None),
        Effect::Declare { .. } => (1, None),
        Effect::Class { machine, .. } => (2, Some(machine)),
        Effect::Here { machine } => (3, Some(machine)),
        Effect::Remember { machine } => (3 | FIRST, Some(machine)),
        Effect::Fork { machine, .. } => (4, Some(machine)),
        Effect::State { machine, .. } => (5, Some(machine)),
        Effect::Block { machine, .. } => (6, Some(machine)),
        Effect::Put { machine, .. } => (7, Some(machine)),
        Effect::Get { machine, .. } => (8, Some(machine)),
        Effect::Peek { machine, .. } => (9, Some(machine)),
        Effect::Reserve { machine, .. } => (10, Some(machine)),
        Effect::Wake { machine, cause } => (if cause.is_some() { 11 | FIRST } else { 11 }, Some(machine)),
        Effect::Push { machine, cause, .. } => {
            let has_cause = if cause.is_some() { FIRST } else { 0 };
            let known = if cause.flatten().is_some() { SECOND } else { 0 };
            (12 | has_cause | known, Some(machine))
        }
        Effect::Pop { machine } => (13, Some(machine)),
        // `Stop` and `End` share a kind, and so do `Here` and `Remember`: all 16 numbers are used,
        // 15 as [`RENAME`].
        Effect::Stop { machine } => (14, Some(machine)),
        Effect::End { machine } => (14 | FIRST, Some(machine)),
    }
}

/// A reader of the bytes of a piece.
#[derive(Debug, Default)]
pub struct Unpack {
    bytes: Vec<u8>,
    at: usize,
    t: u64,
    line: u64,
}

impl Unpack {
    /// Begins with the next piece. `fill` gets an empty buffer and writes the piece into it.
    pub fn turn<E>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.bytes.clear();
        self.at = 0;
        fill(&mut self.bytes)?;
        self.t = self.number().unwrap_or(0);
        self.line = self.number().unwrap_or(0);
        Ok(())
    }

    /// The next interaction of the piece. Renames of passing queues are applied to the vocabulary.
    #[inline]
    pub fn next(&mut self, vocabulary: &mut Arc<Vocabulary>) -> Option<Interaction> {
        loop {
            let head = *self.bytes.get(self.at)?;
            self.at += 1;
            if head & 0xf != RENAME {
                return self.interaction(head);
            }
            let queue = QueueId(self.small()?);
            let length = self.number()? as usize;
            let name = self.bytes.get(self.at..self.at.checked_add(length)?)?;
            Arc::make_mut(vocabulary).rename(queue, std::str::from_utf8(name).ok()?);
            self.at += length;
        }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        self.at += 1;
        if first < 0x80 {
            return Some(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    #[inline]
    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    #[inline]
    fn maybe(&mut self) -> Option<Option<u32>> {
        match self.number()? {
            0 => Some(None),
            number => Some(Some((number - 1).try_into().ok()?)),
        }
    }

    fn name(&mut self) -> Option<Option<NameId>> {
        Some(self.maybe()?.map(NameId))
    }

    fn cause(&mut self) -> Option<Cause> {
        let by = MachineId(self.small()?);
        let at = match self.number()? {
            0 => None,
            _ => Some(self.t.wrapping_sub(self.number()?)),
        };
        Some(Cause { by, at, link: self.name()? })
    }

    fn amount(&mut self) -> Option<Amount> {
        match self.number()? {
            0 => Some(Amount::All),
            _ => Some(Amount::Units(self.number()?)),
        }
    }

    #[inline]
    fn interaction(&mut self, head: u8) -> Option<Interaction> {
        self.t = self.t.wrapping_add(self.number()?);
        self.line = self.line.wrapping_add(match head & (SAME_LINE | NEXT_LINE) {
            0 => self.number()?,
            NEXT_LINE => 1,
            _ => 0,
        });
        let kind = head & 0xf;
        let machine = MachineId(if kind < 2 { 0 } else { self.small()? });
        let effect = match kind {
            0 => Effect::Now,
            1 => {
                let queue = QueueId(self.small()?);
                let (bounded, capacity, bits) = (self.number()?, self.number()?, self.number()?);
                let order = if bits & 1 != 0 { Order::Lifo } else { Order::Fifo };
                let unit = if bits & 2 != 0 { Unit::Bytes } else { Unit::Items };
                let capacity = (bounded != 0).then_some(capacity);
                Effect::Declare { queue, shape: Shape { capacity, order, unit, initial: self.number()?, merge: bits & 4 != 0 } }
            }
            2 => Effect::Class { machine, class: NameId(self.small()?) },
            3 if head & FIRST != 0 => Effect::Remember { machine },
            3 => Effect::Here { machine },
            4 => Effect::Fork { machine, cause: self.cause()? },
            5 => Effect::State { machine, state: NameId(self.small()?) },
            6 => {
                let (why, on) = (NameId(self.small()?), self.maybe()?.map(QueueId));
                let wants = self.maybe()?.map(|wants| if wants == 0 { Wants::Tokens } else { Wants::Space });
                Effect::Block { machine, why, on, wants }
            }
            7 => Effect::Put { machine, queue: QueueId(self.small()?), n: self.number()?, flow: self.name()?, link: self.name()? },
            8 => Effect::Get { machine, queue: QueueId(self.small()?), amount: self.amount()?, flow: self.name()? },
            9 => Effect::Peek { machine, queue: QueueId(self.small()?), amount: self.amount()?, flow: self.name()? },
            10 => Effect::Reserve { machine, queue: QueueId(self.small()?), n: self.number()? },
            11 if head & FIRST != 0 => Effect::Wake { machine, cause: Some(self.cause()?) },
            11 => Effect::Wake { machine, cause: None },
            12 => {
                let below = self.maybe()?.map(MachineId);
                let cause = match (head & FIRST != 0, head & SECOND != 0) {
                    (true, true) => Some(Some(self.cause()?)),
                    (has_cause, _) => has_cause.then_some(None),
                };
                Effect::Push { machine, below, cause }
            }
            13 => Effect::Pop { machine },
            _ if head & FIRST != 0 => Effect::End { machine },
            _ => Effect::Stop { machine },
        };
        Some(Interaction { t: self.t, line: self.line, effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::block::VocabularySize;
    use proptest::prelude::*;

    fn cause() -> impl Strategy<Value = Cause> {
        (0u32..300, any::<Option<u64>>(), any::<Option<u32>>()).prop_map(|(by, at, link)| Cause {
            by: MachineId(by),
            at,
            link: link.map(|link| NameId(link.min(u32::MAX - 1))),
        })
    }

    fn effect() -> impl Strategy<Value = Effect> {
        let (small, wide) = (0u32..200, 0u32..u32::MAX);
        let parts = (small, wide, any::<u64>(), prop::option::of(0u32..u32::MAX), prop::option::of(0u32..500), cause());
        (0..21, parts).prop_map(|(which, (machine, wide, n, flow, link, cause))| {
            let (machine, queue, name) = (MachineId(machine), QueueId(wide), NameId(wide));
            let (flow, link) = (flow.map(NameId), link.map(NameId));
            let amount = if link.is_some() { Amount::Units(n) } else { Amount::All };
            let (order, unit) = if n % 2 == 0 { (Order::Lifo, Unit::Items) } else { (Order::Fifo, Unit::Bytes) };
            let shape = Shape { capacity: link.map(|_| n), order, unit, initial: n / 3, merge: n % 3 == 0 };
            match which {
                0 => Effect::Now,
                1 => Effect::Declare { queue, shape },
                2 => Effect::Class { machine, class: name },
                3 => Effect::Here { machine },
                4 => Effect::Fork { machine, cause },
                5 => Effect::State { machine, state: name },
                6 => Effect::Block { machine, why: name, on: None, wants: None },
                7 => Effect::Block { machine, why: name, on: Some(queue), wants: Some(Wants::Space) },
                8 => Effect::Block { machine, why: name, on: Some(queue), wants: Some(Wants::Tokens) },
                9 => Effect::Put { machine, queue, n, flow, link },
                10 => Effect::Get { machine, queue, amount, flow },
                11 => Effect::Peek { machine, queue, amount, flow },
                12 => Effect::Reserve { machine, queue, n },
                13 => Effect::Wake { machine, cause: None },
                14 => Effect::Wake { machine, cause: Some(cause) },
                15 => Effect::Push { machine, below: flow.map(|flow| MachineId(flow.0)), cause: link.map(|_| Some(cause)) },
                16 => Effect::Push { machine, below: None, cause: Some(None) },
                17 => Effect::Pop { machine },
                18 => Effect::Stop { machine },
                19 => Effect::Remember { machine },
                _ => Effect::End { machine },
            }
        })
    }

    proptest! {
        #[test]
        fn unpacking_returns_the_packed_interactions(effects in prop::collection::vec((0u64..1 << 40, 0u64..4, effect(), prop::option::of("[a-z:*]{0,9}")), 0..200)) {
            let mut source = Vocabulary::default();
            source.note_renames();
            let shared = source.names.intern("shared");
            let passing = [source.passing_queue("one", shared, None), source.passing_queue("other", shared, None)];
            let (mut block, mut t, mut line) = (Block::default(), 0u64, 0);
            let (mut expected, mut called) = (Vec::new(), Vec::new());
            for (at, (steps, lines, effect, name)) in effects.into_iter().enumerate() {
                (t, line) = (t + steps, line + lines);
                if let Some(name) = name {
                    source.passing_queue(&name, shared, Some(passing[at % 2]));
                }
                called.push(passing.map(|queue| source.queue_name(queue).to_owned()));
                expected.push(Interaction { t, line, effect });
                block.note_renames(&mut source, at);
                block.interactions.push(Interaction { t, line, effect });
            }
            block.close(&source, &mut VocabularySize::default());
            let mut bytes = Vec::new();
            pack(&block, &mut bytes);
            let mut unpack = Unpack::default();
            unpack.turn(|buffer| { buffer.extend_from_slice(&bytes); Ok::<_, ()>(()) }).unwrap();
            let (mut found, mut found_called) = (Vec::new(), Vec::new());
            let mut vocabulary = Arc::new(source.clone());
            while let Some(interaction) = unpack.next(&mut vocabulary) {
                found.push(interaction);
                found_called.push(passing.map(|queue| vocabulary.queue_name(queue).to_owned()));
            }
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(&found_called, &called);
            // Another vocabulary that has read only the blocks yields the same result.
            let (mut found, mut found_called, mut reader) = (Vec::new(), Vec::new(), Vocabulary::default());
            block.each(&mut reader, |vocabulary, interaction| {
                found.push(*interaction);
                found_called.push(passing.map(|queue| vocabulary.queue_name(queue).to_owned()));
            });
            prop_assert_eq!((found, found_called), (expected, called));
        }
    }
}
