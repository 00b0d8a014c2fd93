//! Rewriting of streams, and a common form of values in which both versions can be compared.

use std::sync::Arc;

use longpole_ctf::write::{Layout, StreamWriter};
use longpole_ctf::{BytesSource, Item, Metadata, OwnedValue, StreamDecoder};

use super::oracle;

/// The value in a form that can be compared: bytes as a list, and floating point numbers as
/// texts of their bits, so that NaN equals NaN.
pub fn plain(value: OwnedValue) -> OwnedValue {
    match value {
        OwnedValue::Bytes(bytes) => OwnedValue::List(bytes.into_iter().map(|b| OwnedValue::U64(u64::from(b))).collect()),
        OwnedValue::F64(v) if v.is_nan() => OwnedValue::Str(b"NaN".to_vec()),
        OwnedValue::F64(v) => OwnedValue::Str(format!("{:x}", v.to_bits()).into_bytes()),
        OwnedValue::List(list) => OwnedValue::List(list.into_iter().map(plain).collect()),
        OwnedValue::Fields(fields) => OwnedValue::Fields(fields.into_iter().map(|(n, v)| (n, plain(v))).collect()),
        other => other,
    }
}

pub fn plain_events(events: &oracle::Events) -> oracle::Events {
    events.iter().map(|(class, time, values)| (*class, *time, values.iter().cloned().map(plain).collect())).collect()
}

/// Reads a stream and writes it again, possibly in another layout, directly from the reader's
/// values.
pub fn copied(metadata: &Arc<Metadata>, bytes: &[u8], to: Arc<Layout>, class: usize) -> Result<Vec<u8>, String> {
    let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(bytes));
    let mut writer = StreamWriter::new(to, class);
    while let Some(item) = stream.next().map_err(|e| e.to_string())? {
        match item {
            Item::PacketBegin(packet) => writer.begin(packet).map_err(|e| e.to_string())?,
            Item::Event(event) => writer.event(event.class_index(), event.cycles(), event.values()).map_err(|e| e.to_string())?,
            Item::PacketEnd(_) => writer.end().map_err(|e| e.to_string())?,
            _ => {}
        }
    }
    Ok(writer.take())
}

/// Converts a value of a lowered trace back to that of CTF 2, without made fields.
pub fn lifted(value: OwnedValue) -> OwnedValue {
    match plain(value) {
        OwnedValue::Bool(v) => OwnedValue::U64(u64::from(v)),
        OwnedValue::List(list) => OwnedValue::List(list.into_iter().map(lifted).collect()),
        OwnedValue::Fields(fields) => {
            let fields: Vec<_> = fields.into_iter().filter(|(name, _)| !is_made(name)).map(|(n, v)| (n, lifted(v))).collect();
            match &fields[..] {
                [(name, _)] if **name == *"none" => OwnedValue::Nothing,
                [(name, value)] if **name == *"content" => value.clone(),
                _ => OwnedValue::Fields(fields),
            }
        }
        other => other,
    }
}

pub fn is_made(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name);
    name.starts_with("tag_of_") || name.starts_with("length_of_")
}

/// Converts events of a lowered trace back to CTF 2.
pub fn lifted_events(metadata: &Metadata, stream: usize, events: &oracle::Events) -> oracle::Events {
    let values = |class: usize, values: &[OwnedValue]| {
        let named = metadata.fields(stream, class).iter().zip(values);
        named.filter(|(field, _)| !is_made(&field.name)).map(|(_, value)| lifted(value.clone())).collect()
    };
    events.iter().map(|(class, time, of)| (*class, *time, values(*class, of))).collect()
}
