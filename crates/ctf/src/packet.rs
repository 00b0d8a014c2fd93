//! Packets: what their header and context say, and what can be concluded from two of them about loss.

use std::sync::Arc;

use crate::clock::low_bits;
use crate::value::OwnedValue;

/// A packet of a stream file.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// Index in the stream file, from 0.
    pub index: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Index of the stream class in the schema.
    pub stream: usize,
    /// Bits from its begin to the end of its events.
    pub content_bits: u64,
    /// Bits from its begin to its end.
    pub packet_bits: u64,
    /// Whether the packet itself tells a size; else it is taken to reach to the file's end.
    pub sized: bool,
    /// The file ends before the packet's content does.
    pub truncated: bool,
    /// In cycles of the stream's clock.
    pub begin: Option<u64>,
    /// Time of its end, in cycles of the stream's clock.
    pub end: Option<u64>,
    /// In nanoseconds from the clock's origin.
    pub begin_ns: Option<i64>,
    /// Time of its end, in nanoseconds from the clock's origin.
    pub end_ns: Option<i64>,
    /// Sequence number in its stream.
    pub sequence: Option<u64>,
    /// Snapshot of the stream's counter of discarded events at the packet's end.
    pub discarded: Option<u64>,
    /// Number of the CPU that it was recorded on.
    pub cpu_id: Option<u64>,
    /// Number of the stream among those of its class.
    pub stream_instance: Option<u64>,
    /// All fields of the packet's context, nested ones with dotted names.
    pub context: Vec<(Arc<str>, OwnedValue)>,
    /// Widths of the two counters, in bits.
    pub sequence_bits: u32,
    /// Width of the counter of discarded events, in bits.
    pub discarded_bits: u32,
}

impl Packet {
    /// A field of the packet's context.
    pub fn field(&self, name: &str) -> Option<&OwnedValue> {
        self.context.iter().find(|(n, _)| **n == *name).map(|(_, v)| v)
    }

    /// How many packets after the one with this sequence number it was written; none if its number is a smaller one that is no wrap.
    pub fn steps_from(&self, sequence: u64) -> Option<u64> {
        step(sequence, self.sequence?, self.sequence_bits)
    }
}

/// How far a counter went on. A narrow one wraps; one that falls otherwise was set anew, and then nobody knows.
fn step(before: u64, now: u64, bits: u32) -> Option<u64> {
    if now >= before || bits >= 64 {
        return now.checked_sub(before);
    }
    let step = now.wrapping_sub(before) & low_bits(bits);
    (step < 1 << (bits - 1)).then_some(step)
}

/// Something that was lost between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How many; unknown before a stream's first packet.
    pub count: Option<u64>,
    /// The time in which it happened, in cycles and in nanoseconds.
    pub begin: Option<u64>,
    /// End, in cycles.
    pub end: Option<u64>,
    /// Begin, in nanoseconds from the clock's origin.
    pub begin_ns: Option<i64>,
    /// End, in nanoseconds from the clock's origin.
    pub end_ns: Option<i64>,
}

/// The events lost before or in `packet`, given the packet before it. A stream's counter only tells steps: what it
/// holds in the first packet happened at an unknown time before, and that packet may continue an older recording.
pub(crate) fn discarded_events(previous: Option<&Packet>, packet: &Packet) -> Option<Loss> {
    let now = packet.discarded?;
    let before = previous.and_then(|p| p.discarded);
    let count = match before {
        None if now == 0 => return None,
        None => None,
        Some(before) if before == now => return None,
        Some(before) => step(before, now, packet.discarded_bits),
    };
    let from_previous = previous.filter(|p| p.end.is_some());
    Some(Loss {
        count,
        begin: from_previous.map_or(packet.begin, |p| p.end),
        end: packet.end,
        begin_ns: from_previous.map_or(packet.begin_ns, |p| p.end_ns),
        end_ns: packet.end_ns,
    })
}

/// The packets lost before `packet`.
pub(crate) fn discarded_packets(previous: Option<&Packet>, packet: &Packet) -> Option<Loss> {
    let previous = previous?;
    let step = packet.steps_from(previous.sequence?)?;
    (step > 1).then(|| Loss {
        count: Some(step - 1),
        begin: previous.end,
        end: packet.begin,
        begin_ns: previous.end_ns,
        end_ns: packet.begin_ns,
    })
}
