//! Packets: the content of their header and context, and the losses that two consecutive packets
//! reveal.

use std::sync::Arc;

use crate::clock::low_bits;
use crate::value::OwnedValue;

/// A packet of a stream file.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// Index in the stream file, from 0.
    pub index: u64,
    /// Byte of the file at which the packet begins.
    pub offset: u64,
    /// Index of the stream class in the schema.
    pub stream: usize,
    /// Bits from the start of the packet to the end of its events.
    pub content_bits: u64,
    /// Bits from the start of the packet to its end.
    pub packet_bits: u64,
    /// True if the packet records its size; otherwise it is assumed to extend to the end of the
    /// file.
    pub sized: bool,
    /// True if the file ends before the content of the packet does.
    pub truncated: bool,
    /// True if its UUID is not that of the metadata: it may have been written by other metadata.
    pub other_uuid: bool,
    /// Time of its start, in cycles of the stream's clock.
    pub begin: Option<u64>,
    /// Time of its end, in cycles of the stream's clock.
    pub end: Option<u64>,
    /// Time of its start, in nanoseconds from the clock's origin.
    pub begin_ns: Option<i64>,
    /// Time of its end, in nanoseconds from the clock's origin.
    pub end_ns: Option<i64>,
    /// Sequence number in its stream.
    pub sequence: Option<u64>,
    /// Value of the stream's counter of discarded events at the end of the packet.
    pub discarded: Option<u64>,
    /// Number of the CPU on which the packet was recorded.
    pub cpu_id: Option<u64>,
    /// Number of the stream among those of its class.
    pub stream_instance: Option<u64>,
    /// All fields of the packet's context, nested ones with dotted names.
    pub context: Vec<(Arc<str>, OwnedValue)>,
    /// Width of the sequence number, in bits.
    pub sequence_bits: u32,
    /// Width of the counter of discarded events, in bits.
    pub discarded_bits: u32,
}

impl Packet {
    /// A field of the packet's context, by its dotted name.
    pub fn field(&self, name: &str) -> Option<&OwnedValue> {
        self.context.iter().find(|(n, _)| **n == *name).map(|(_, v)| v)
    }

    /// Number of packets from the one with this sequence number to this packet. `None` if this
    /// packet has no number, or a smaller one that cannot be a wrap-around.
    pub fn steps_from(&self, sequence: u64) -> Option<u64> {
        step(sequence, self.sequence?, self.sequence_bits)
    }
}

/// Increase of a counter of `bits` bits. Narrow counters wrap around. `None` if the counter
/// decreased without wrapping around, which means that it was reset.
fn step(before: u64, now: u64, bits: u32) -> Option<u64> {
    if now >= before || bits >= 64 {
        return now.checked_sub(before);
    }
    let step = now.wrapping_sub(before) & low_bits(bits);
    (step < 1 << (bits - 1)).then_some(step)
}

/// Events or packets that were lost between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of lost events or packets; `None` before a stream's first packet, or after a reset of
    /// the counter.
    pub count: Option<u64>,
    /// Start of the time in which they were lost, in cycles.
    pub begin: Option<u64>,
    /// End, in cycles.
    pub end: Option<u64>,
    /// Start, in nanoseconds from the clock's origin.
    pub begin_ns: Option<i64>,
    /// End, in nanoseconds from the clock's origin.
    pub end_ns: Option<i64>,
}

/// The events lost before or in `packet`, given the packet before it. Only differences of a
/// stream's counter are meaningful: the losses that the first packet shows happened at an unknown
/// time before, and that packet may continue an older recording.
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
