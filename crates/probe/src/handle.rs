//! Names that are made at run time or used in several places ([`Name`], [`Queue`]). They hold the
//! class ids of their events.

use crate::plain::{Order, Unit};
use crate::system::Text;
use core::fmt::{self, Debug, Formatter};
use core::ops::Deref;
use core::sync::atomic::AtomicU32;
use longpole_abi::NAME_MAXIMUM;

/// Number of event classes per kind: a probe has different classes with and without arguments, at
/// most four.
const VARIANTS: usize = 4;
const KINDS: usize = 25;

/// A name that is made at run time or used in several places. Its events are as small as those of a
/// literal: 8 bytes plus arguments. The text is copied, up to 255 bytes.
///
/// ```
/// use longpole_probe as longpole;
/// static FIND: longpole::Name = longpole::Name::new("find");
/// longpole::begin!(FIND);
/// longpole::end!(FIND);
/// ```
pub struct Name {
    text: [u8; NAME_MAXIMUM],
    length: u8,
    queue: Option<(Order, Unit, u64)>,
    ids: [AtomicU32; KINDS * VARIANTS],
}

impl Name {
    pub const fn new(name: &str) -> Name {
        let bytes = name.as_bytes();
        let mut text = [0; NAME_MAXIMUM];
        let mut length = 0;
        while length < bytes.len() && length < NAME_MAXIMUM && bytes[length] != 0 {
            text[length] = bytes[length];
            length += 1;
        }
        Name { text, length: length as u8, queue: None, ids: [const { AtomicU32::new(0) }; KINDS * VARIANTS] }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.text.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// The class id for a kind of probe, 0 until it is resolved.
    #[inline(always)]
    pub(crate) fn id(&self, kind: u32, variant: u32) -> &AtomicU32 {
        &self.ids[(kind as usize % KINDS) * VARIANTS + variant as usize % VARIANTS]
    }

    pub(crate) fn attributes(&self) -> Text<96> {
        let mut text = Text::new();
        if let Some((order, unit, capacity)) = self.queue {
            text.push(if order == Order::Lifo { b"order=lifo" } else { b"order=fifo" });
            text.push(if unit == Unit::Bytes { b"&unit=bytes" } else { b"&unit=items" });
            if capacity != 0 {
                text.push(b"&capacity=");
                text.push_number(capacity, 10, 0);
            }
        }
        text
    }
}

impl Debug for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Name").field(&core::str::from_utf8(self.bytes()).unwrap_or_default()).finish()
    }
}

/// A queue: its name and its properties.
pub struct Queue(Name);

impl Debug for Queue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&core::str::from_utf8(self.bytes()).unwrap_or_default()).finish()
    }
}

impl Queue {
    /// Creates a queue of items, first in, first out. Capacity 0 means unlimited or unknown.
    pub const fn new(name: &str, capacity: u64) -> Queue {
        Queue::with(name, capacity, Order::Fifo, Unit::Items)
    }

    pub const fn with(name: &str, capacity: u64, order: Order, unit: Unit) -> Queue {
        let mut name = Name::new(name);
        name.queue = Some((order, unit, capacity));
        Queue(name)
    }
}

impl Deref for Queue {
    type Target = Name;

    #[inline(always)]
    fn deref(&self) -> &Name {
        &self.0
    }
}
