//! Streams written again, and how to tell that they hold the same: values of both versions in one form.

use std::sync::Arc;

use longpole_ctf::write::{Layout, StreamWriter};
use longpole_ctf::{BytesSource, Item, Metadata, OwnedValue, StreamDecoder};

use super::oracle;

/// Bytes as a list, and all that is not a number the same, so that values compare.
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

/// Reads a stream and writes it again, in another layout perhaps, without a tree of values between.
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

/// A value of a lowered trace as that of CTF 2 which it was, without what was made for it.
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

/// Events of a lowered trace in terms of CTF 2.
pub fn lifted_events(metadata: &Metadata, stream: usize, events: &oracle::Events) -> oracle::Events {
    let values = |class: usize, values: &[OwnedValue]| {
        let named = metadata.fields(stream, class).iter().zip(values);
        named.filter(|(field, _)| !is_made(&field.name)).map(|(_, value)| lifted(value.clone())).collect()
    };
    events.iter().map(|(class, time, of)| (*class, *time, values(*class, of))).collect()
}
