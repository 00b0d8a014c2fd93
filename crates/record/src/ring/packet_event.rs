//! Decodes the events by which programs record packets of a network.

use crate::output::pcap::Captured;
use crate::ring::class::Event;
use crate::text::printable;
use longpole_abi::{Field, FieldType};

/// Decodes the event of a packet class; `None` if it does not have the fields of one.
pub fn captured<'a>(event: &Event<'a>) -> Option<Captured<'a>> {
    let mut packet = Captured { interface: event.class.name.clone(), direction: 0, length: 0, bytes: &[] };
    let mut at = 8;
    for Field { kind, name, .. } in &event.class.fields {
        match kind {
            FieldType::U32 => {
                let value = u32::from_ne_bytes(event.bytes.get(at..at + 4)?.try_into().ok()?);
                match name.as_str() {
                    "direction" => packet.direction = value,
                    "length" => packet.length = value,
                    _ => {}
                }
                at += 4;
            }
            FieldType::Bytes => {
                let length = u64::from_ne_bytes(event.bytes.get(at..at + 8)?.try_into().ok()?) as usize;
                packet.bytes = event.bytes.get(at + 8..(at + 8).checked_add(length)?)?;
                at += 8 + length.next_multiple_of(8);
            }
            FieldType::Text => {
                let rest = event.bytes.get(at..)?;
                let length = rest.iter().position(|byte| *byte == 0)?;
                packet.interface = printable(&rest[..length]);
                at += (length + 1).next_multiple_of(8);
            }
            _ => at += 8,
        }
    }
    Some(packet)
}
