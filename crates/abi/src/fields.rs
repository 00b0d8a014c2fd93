//! The payload of an event: the meaning of the `fields` text of its class, and the size of an event
//! in bytes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Type of a field. Every type except [`FieldType::U32`] takes a multiple of 8 bytes; U32 fields
/// come in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    U64,
    /// An unsigned 64-bit integer that is shown in hexadecimal.
    Hex,
    I64,
    F64,
    /// The kind of a mark: an enumeration stored in 64 bits.
    MarkKind,
    U32,
    /// A NUL-terminated text, padded to a multiple of 8 bytes.
    Text,
    /// A length of 64 bits, then as many bytes, padded to a multiple of 8.
    Bytes,
    /// The number of elements in 64 bits, then the elements, padded to a multiple of 8 bytes.
    Array(Element),
    /// A signed 64-bit integer whose values have names.
    Enumeration,
}

/// Type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Unsigned(Width),
    Signed(Width),
    F32,
    F64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    pub fn bytes(self) -> usize {
        match self {
            Width::One => 1,
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

impl Element {
    pub fn bytes(self) -> usize {
        match self {
            Element::Unsigned(width) | Element::Signed(width) => width.bytes(),
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    pub kind: FieldType,
    pub name: String,
    /// Names of values, in the order given by the program. Empty if the field is not an
    /// enumeration.
    pub labels: Vec<(String, i64)>,
}

/// Parses `type:name,…`; the empty text means that there are no fields. Returns `None` if the text
/// is malformed: an unknown type, a name that is not a C identifier or that occurs twice, or a
/// group of consecutive U32 fields whose number is not a multiple of 2.
pub fn parse(text: &str) -> Option<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    if text.is_empty() {
        return Some(fields);
    }
    let mut words = 0u32;
    for part in text.split(',') {
        let (kind, name) = part.split_once(':')?;
        let mut named = Vec::new();
        let kind = match kind {
            "u" => FieldType::U64,
            "x" => FieldType::Hex,
            "i" => FieldType::I64,
            "d" => FieldType::F64,
            "k" => FieldType::MarkKind,
            "w" => FieldType::U32,
            "s" => FieldType::Text,
            "b" => FieldType::Bytes,
            _ => match kind.strip_suffix(']')?.split_once('[')? {
                ("e", values) => {
                    named = labels(values)?;
                    FieldType::Enumeration
                }
                (element, "") => FieldType::Array(self::element(element)?),
                _ => return None,
            },
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
        fields.push(Field { kind, name: name.to_owned(), labels: named });
    }
    words.is_multiple_of(2).then_some(fields)
}

fn element(text: &str) -> Option<Element> {
    Some(match text {
        "u1" => Element::Unsigned(Width::One),
        "u2" => Element::Unsigned(Width::Two),
        "u4" => Element::Unsigned(Width::Four),
        "u8" => Element::Unsigned(Width::Eight),
        "i1" => Element::Signed(Width::One),
        "i2" => Element::Signed(Width::Two),
        "i4" => Element::Signed(Width::Four),
        "i8" => Element::Signed(Width::Eight),
        "d4" => Element::F32,
        "d8" => Element::F64,
        _ => return None,
    })
}

/// Parses `red=0;green=1`. Entries that repeat a name or a value are dropped, because readers
/// accept neither.
fn labels(text: &str) -> Option<Vec<(String, i64)>> {
    let mut all: Vec<(String, i64)> = Vec::new();
    for part in text.split(';') {
        let (name, value) = part.split_once('=')?;
        let value = value.parse().ok()?;
        if name.is_empty() {
            return None;
        }
        if !all.iter().any(|(known, number)| known == name || *number == value) {
            all.push((name.to_owned(), value));
        }
    }
    Some(all)
}

/// Size in bytes of the event at the start of `event`, including its header of 8 bytes. `None` if
/// the event does not end within `event`.
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
            FieldType::Array(element) => {
                let raw = event.get(at..at + 8)?;
                let count = u64::from_ne_bytes(raw.try_into().ok()?);
                if count > event.len() as u64 {
                    return None;
                }
                at += 8 + (count as usize * element.bytes()).next_multiple_of(8);
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
    fn the_fields_of_every_overflow_class_parse() {
        for kind in Kind::ALL {
            assert!(parse(kind.overflow_fields()).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn malformed_field_descriptions_are_refused() {
        for text in [
            ",", "u", "q:a", "u:", "u:1a", "u:a b", "u:a,u:a", "w:a", "w:a,u:b", "u:a,", "u3[]:a", "u4[3]:a", "u4[:a", "e[]:a", "e[x]:a",
            "e[=1]:a", "e[x=y]:a", "]:a",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn arrays_and_enumerations_are_parsed_and_measured() {
        let fields = parse("u2[]:a,e[red=0;green=-1;red=2;blue=0]:b,d4[]:c").expect("valid");
        assert_eq!(fields[0].kind, FieldType::Array(Element::Unsigned(Width::Two)));
        assert_eq!((fields[1].kind, &fields[1].labels), (FieldType::Enumeration, &[("red".into(), 0), ("green".into(), -1)].into()));
        let words = [0u64, 3, 7, 1, 1, 5];
        let event: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(event_size(&fields, &event), Some(48), "header, count and 6 of 8 bytes, value, count and 4 of 8");
        assert_eq!(event_size(&fields, &event[..40]), None);
        let endless: Vec<u8> = [0, u64::MAX / 2].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(event_size(&fields, &endless), None);
    }

    #[test]
    fn an_event_whose_text_or_length_exceeds_the_data_is_refused() {
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
