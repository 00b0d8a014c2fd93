//! Conversion of attribute values: the texts, numbers, booleans and words that TSDL assignments may
//! hold. Errors have the position of the value.

use std::collections::HashSet;

use super::syntax::*;
use crate::error::{Span, SpanError};
use crate::types::*;

pub(super) type Result<T> = std::result::Result<T, SpanError>;

pub(super) fn fail<T>(span: Span, message: impl Into<String>) -> Result<T> {
    Err(SpanError::new(span, message))
}

pub(super) fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Path(path) if path.len() == 1 => Some(&path[0]),
        _ => None,
    }
}

/// The value as a text, with or without quotes.
pub(super) fn text(value: &Value, span: Span) -> Result<String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Path(path) => Ok(path.join(".")),
        Value::Int(_) => fail(span, "expected a text"),
    }
}

pub(super) fn number<T: TryFrom<i128>>(value: &Value, span: Span, what: &str) -> Result<T> {
    match value {
        Value::Int(i) => T::try_from(*i).or_else(|_| fail(span, format!("{i} is out of range for {what}"))),
        _ => fail(span, format!("expected an integer for {what}")),
    }
}

pub(super) fn truth(value: &Value, span: Span) -> Result<bool> {
    match value {
        Value::Int(i @ (0 | 1)) => Ok(*i == 1),
        _ => match word(value) {
            Some("true" | "TRUE") => Ok(true),
            Some("false" | "FALSE") => Ok(false),
            _ => fail(span, "expected `true` or `false`"),
        },
    }
}

pub(super) fn uuid(value: &Value, span: Span) -> Result<[u8; 16]> {
    let text = text(value, span)?;
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut uuid = [0; 16];
    if parts != [8, 4, 4, 4, 12] || digits.len() != 32 {
        return fail(span, "a uuid has 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12");
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or("");
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    Ok(uuid)
}

/// Returns an error if a block assigns an attribute twice.
pub(super) fn unique(items: &[Item]) -> Result<()> {
    let mut said = HashSet::new();
    for item in items {
        if let ItemKind::Assign { left, .. } | ItemKind::AssignType { left, .. } = &item.kind {
            if !said.insert(left.as_str()) {
                return fail(item.span, format!("a second `{left}` in the same block"));
            }
        }
    }
    Ok(())
}

/// The least and greatest value of an integer type.
pub(super) fn range(int: &IntType) -> (i128, i128) {
    match int.signed {
        true => (-(1 << (int.size - 1)), (1 << (int.size - 1)) - 1),
        false => (0, (1 << int.size) - 1),
    }
}

pub(super) fn assignments(items: &[Item]) -> impl Iterator<Item = (&str, &Value, Span)> {
    items.iter().filter_map(|item| match &item.kind {
        ItemKind::Assign { left, value, value_span } => Some((left.as_str(), value, *value_span)),
        _ => None,
    })
}

pub(super) fn alignment(value: i128, span: Span) -> Result<u32> {
    match u32::try_from(value) {
        Ok(bits) if bits.is_power_of_two() => Ok(bits),
        _ => fail(span, "an alignment is a power of two"),
    }
}

pub(super) fn base(value: &Value, span: Span) -> Result<u8> {
    match value {
        Value::Int(base @ (2 | 8 | 10 | 16)) => Ok(*base as u8),
        _ => match word(value) {
            Some("decimal" | "dec" | "d" | "i" | "u") => Ok(10),
            Some("hexadecimal" | "hex" | "x" | "X" | "p") => Ok(16),
            Some("octal" | "oct" | "o") => Ok(8),
            Some("binary" | "bin" | "b") => Ok(2),
            _ => fail(span, "a base is 2, 8, 10 or 16"),
        },
    }
}

pub(super) fn encoding(value: &Value, span: Span) -> Result<Encoding> {
    match word(value).map(str::to_ascii_lowercase).as_deref() {
        Some("none") => Ok(Encoding::None),
        Some("utf8") => Ok(Encoding::Utf8),
        Some("ascii") => Ok(Encoding::Ascii),
        _ => fail(span, "an encoding is `none`, `UTF8` or `ASCII`"),
    }
}

pub(super) fn field_path(names: &[String], span: Span) -> FieldPath {
    const SCOPES: [Scope; 6] =
        [Scope::PacketHeader, Scope::PacketContext, Scope::EventHeader, Scope::StreamEventContext, Scope::EventContext, Scope::EventFields];
    for scope in SCOPES {
        let prefix = scope.path().split('.');
        let len = prefix.clone().count();
        if names.len() > len && prefix.eq(names[..len].iter().map(String::as_str)) {
            return FieldPath { scope: Some(scope), names: names[len..].to_vec(), span, up: None };
        }
    }
    FieldPath { names: names.to_vec(), span, ..FieldPath::default() }
}
