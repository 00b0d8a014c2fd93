//! The payload of an event: what its `fields` text means, and how many bytes an event takes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Type of one field. Everything but [`FieldType::U32`] takes a multiple of 8 bytes; U32 fields come in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    U64,
    /// Shown in hexadecimal.
    Hex,
    I64,
    F64,
    /// Kind of a mark: an enumeration over uint64.
    MarkKind,
    U32,
    /// NUL-terminated, padded to 8 bytes.
    Text,
    /// A uint64 length, that many bytes, padded to 8.
    Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub kind: FieldType,
    pub name: String,
}

/// Parses `type:name,…`; the empty text means no field. `None` if it is malformed: unknown type, a name that is no C identifier or
/// stands twice, an odd run of U32.
pub fn parse(text: &str) -> Option<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    if text.is_empty() {
        return Some(fields);
    }
    let mut words = 0u32;
    for part in text.split(',') {
        let (kind, name) = part.split_once(':')?;
        let kind = match kind {
            "u" => FieldType::U64,
            "x" => FieldType::Hex,
            "i" => FieldType::I64,
            "d" => FieldType::F64,
            "k" => FieldType::MarkKind,
            "w" => FieldType::U32,
            "s" => FieldType::Text,
            "b" => FieldType::Bytes,
            _ => return None,
        };
        let identifier =
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if !identifier || fields.iter().any(|field| field.name == name) {
            return None;
        }
        match kind {
            FieldType::U32 => words += 1,
            _ if words % 2 == 1 => return None,
            _ => {}
        }
        fields.push(Field { kind, name: name.to_owned() });
    }
    (words % 2 == 0).then_some(fields)
}

/// Bytes of the event that begins at `event` (its 8-byte header included), or `None` if it does not end within `event`.
pub fn event_size(fields: &[Field], event: &[u8]) -> Option<usize> {
    let mut at = 8usize;
    for field in fields {
        match field.kind {
            FieldType::U32 => at += 4,
            FieldType::Text => {
                let length = event.get(at..)?.iter().position(|&b| b == 0)?;
                at += (length + 1).next_multiple_of(8);
            }
            FieldType::Bytes => {
                let raw = event.get(at..at + 8)?;
                let length = u64::from_ne_bytes(raw.try_into().ok()?);
                if length > event.len() as u64 {
                    return None;
                }
                at += 8 + (length as usize).next_multiple_of(8);
            }
            _ => at += 8,
        }
    }
    (at <= event.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn fields_of_every_overflow_class_parse() {
        for kind in Kind::ALL {
            assert!(parse(kind.overflow_fields()).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn malformed_fields_are_refused() {
        for text in [",", "u", "q:a", "u:", "u:1a", "u:a b", "u:a,u:a", "w:a", "w:a,u:b", "u:a,"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_text_or_a_length_beyond_the_end_is_no_event() {
        let text = parse("s:t").expect("valid");
        assert_eq!(event_size(&text, &[0, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h']), None);
        let bytes = parse("b:t").expect("valid");
        let mut event = [0u8; 24];
        event[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(event_size(&bytes, &event), None);
        event[8..16].copy_from_slice(&5u64.to_ne_bytes());
        assert_eq!(event_size(&bytes, &event), Some(24));
    }
}
