//! Values of fields as the model uses them: numbers and texts. Rules ignore other values
//! (structures, arrays).

use longpole_predicate::Datum;
use longpole_trace::event::Value;

/// The value as a condition compares it.
pub fn datum<'a>(value: &Value<'a>) -> Datum<'a> {
    match *value {
        Value::U64(value) => Datum::Integer(i128::from(value)),
        Value::I64(value) => Datum::Integer(i128::from(value)),
        Value::F64(value) => Datum::Real(value),
        Value::Str(text) => Datum::Text(text),
        Value::Enum { value, label: "" } => Datum::Integer(value),
        Value::Enum { value, label } => Datum::Labelled(value, label.as_bytes()),
        Value::Several { value: number, .. } => Datum::Labelled(number, value.labels().next().unwrap_or_default().as_bytes()),
        Value::Bool(value) => Datum::Integer(i128::from(value)),
        Value::Flags { value, .. } => Datum::Integer(i128::from(value)),
        // No rule compares values that need decoding.
        Value::Nothing | Value::Wide(_) | Value::Bytes(_) | Value::Nested(_) => Datum::Unknown,
    }
}

/// The value as a count; `None` for negative numbers and texts.
#[inline]
pub fn as_u64(value: &Value<'_>) -> Option<u64> {
    match *value {
        Value::U64(value) => Some(value),
        Value::I64(value) => u64::try_from(value).ok(),
        Value::Enum { value, .. } | Value::Several { value, .. } => u64::try_from(value).ok(),
        Value::Bool(value) => Some(u64::from(value)),
        _ => None,
    }
}

pub fn as_f64(value: &Value<'_>) -> Option<f64> {
    datum(value).real()
}
