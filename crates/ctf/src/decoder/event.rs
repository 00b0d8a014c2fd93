//! The current event of a decoder: its class, its time, and its values, which are decoded when a
//! caller asks for them.

use crate::metadata::Metadata;
use crate::packet::{Loss, Packet};
use crate::plan::Field;
use crate::types::EventClass;
use crate::value::{Located, Value, Values};

/// A [`Step`](crate::Step) together with its data: what
/// [`StreamDecoder::next`](crate::StreamDecoder::next) returns.
#[derive(Debug)]
pub enum Item<'a> {
    /// The recorder discarded events.
    DiscardedEvents(Box<Loss>),
    /// Packets of the stream are missing.
    DiscardedPackets(Box<Loss>),
    /// A packet begins.
    PacketBegin(&'a Packet),
    /// An event.
    Event(EventRef<'a>),
    /// A packet ends.
    PacketEnd(&'a Packet),
}

/// The current event. It borrows from the decoder.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    pub(crate) metadata: &'a Metadata,
    pub(crate) stream: usize,
    pub(crate) class: usize,
    pub(crate) cycles: u64,
    pub(crate) ns: i64,
    pub(crate) located: Located<'a>,
    pub(crate) fields: &'a [Field],
}

impl<'a> EventRef<'a> {
    /// Index of the stream class in the schema.
    #[inline]
    pub fn stream_index(&self) -> usize {
        self.stream
    }

    /// Index of the event class in its stream class.
    #[inline]
    pub fn class_index(&self) -> usize {
        self.class
    }

    /// Class of the event.
    pub fn class(&self) -> &'a EventClass {
        &self.metadata.schema().streams[self.stream].events[self.class]
    }

    /// Name of the event.
    pub fn name(&self) -> &'a str {
        &self.class().name
    }

    /// The full value of the clock; 0 in a stream without timestamps.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Nanoseconds from the clock's origin.
    #[inline]
    pub fn ns(&self) -> i64 {
        self.ns
    }

    /// The fields of the event, in the order of the indices of [`value`](Self::value): contexts
    /// first, then the payload.
    #[inline]
    pub fn fields(&self) -> &'a [Field] {
        self.fields
    }

    /// The value of a field by its index in [`fields`](Self::fields).
    #[inline]
    pub fn value(&self, index: usize) -> Option<Value<'a>> {
        self.fields.get(index).map(|f| self.located.value(f))
    }

    /// All values, in the order of [`fields`](Self::fields).
    #[inline]
    pub fn values(&self) -> Values<'a> {
        Values { located: self.located, fields: self.fields.iter() }
    }

    /// Calls `see` for every field with its value. This is the fastest way to read all fields.
    #[inline(always)]
    pub fn each(&self, mut see: impl FnMut(&'a Field, Value<'a>)) {
        for field in self.fields {
            self.located.with(field, |value| see(field, value));
        }
    }

    /// A value by the name of its field. If several fields have this name, the last one, which
    /// belongs to the payload.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.fields.iter().rev().find(|f| *f.name == *name).map(|f| self.located.value(f))
    }
}
