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
    /// A uint64 number of elements, these, padded to 8.
    Array(Element),
    /// An int64 whose values have names.
    Enumeration,
}

/// Element of an array.
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
    /// Of an enumeration: names of values, in the order in which the program has them.
    pub labels: Vec<(String, i64)>,
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
    (words % 2 == 0).then_some(fields)
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

/// `red=0;green=1`. A name or a value that stands there twice is none the second time: readers take neither.
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
    fn fields_of_every_overflow_class_parse() {
        for kind in Kind::ALL {
            assert!(parse(kind.overflow_fields()).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn malformed_fields_are_refused() {
        for text in [
            ",", "u", "q:a", "u:", "u:1a", "u:a b", "u:a,u:a", "w:a", "w:a,u:b", "u:a,", "u3[]:a", "u4[3]:a", "u4[:a", "e[]:a", "e[x]:a",
            "e[=1]:a", "e[x=y]:a", "]:a",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn arrays_and_enumerations_have_their_parts() {
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
