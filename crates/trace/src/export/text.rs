//! Values as JSON, for events without a class of their own. The form is that of `print --json`.

use crate::value::Value;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// Returns a JSON object with these names and values.
pub fn object(names: &[String], values: &[Value<'_>]) -> Vec<u8> {
    serde_json::to_vec(&Members(names, values)).unwrap_or_default()
}

struct Members<'a>(&'a [String], &'a [Value<'a>]);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, value) in self.1.iter().enumerate() {
            match self.0.get(at) {
                Some(name) => map.serialize_entry(name, &Json(value))?,
                None => map.serialize_entry(&at.to_string(), &Json(value))?,
            }
        }
        map.end()
    }
}

struct Json<'a>(&'a Value<'a>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U64(value) | Value::Flags { value, .. } => serializer.serialize_u64(*value),
            Value::I64(value) => serializer.serialize_i64(*value),
            Value::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::F64(value) => serializer.collect_str(value),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Nothing => serializer.serialize_unit(),
            Value::Str(text) => serializer.serialize_str(&String::from_utf8_lossy(text)),
            Value::Wide(text) => serializer.serialize_str(&text.decode()),
            Value::Bytes(bytes) => serializer.serialize_str(&bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))),
            Value::Enum { value, label: "" } => serializer.serialize_i128(*value),
            Value::Enum { .. } | Value::Several { .. } => serializer.serialize_str(self.0.labels().next().unwrap_or_default()),
            Value::Nested(nested) if nested.is_named() => {
                let mut map = serializer.serialize_map(None)?;
                nested.each(|name, part| map.serialize_entry(name.unwrap_or_default(), &Json(&part)))?;
                map.end()
            }
            Value::Nested(nested) => {
                let mut seq = serializer.serialize_seq(None)?;
                nested.each(|_, part| seq.serialize_element(&Json(&part)))?;
                seq.end()
            }
        }
    }
}
