//! Checks a JSON value against a schema of docs/json. The checker supports the keywords that those
//! schemas use and refuses all others, so that no schema contains a rule that nothing checks.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// The schema of a verb's JSON answer.
pub fn schema(verb: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/json/{verb}.schema.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Panics with the path of the first violation.
pub fn check(schema: &Value, value: &Value) {
    if let Err(violation) = (At { root: schema }).check("$", schema, value) {
        panic!("{violation}\nin {value:#}");
    }
}

/// A check against one schema document; `root` is the document that `$ref` refers to.
struct At<'a> {
    root: &'a Value,
}

impl At<'_> {
    fn check(&self, place: &str, schema: &Value, value: &Value) -> Result<(), String> {
        for (word, rule) in schema.as_object().ok_or(format!("{place}: the schema is no object"))? {
            match word.as_str() {
                "$schema" | "$defs" | "title" | "description" => {}
                "$ref" => {
                    let pointer = rule.as_str().and_then(|rule| rule.strip_prefix('#')).unwrap_or_default();
                    let meant = self.root.pointer(pointer).ok_or(format!("{place}: the schema has no {rule}"))?;
                    self.check(place, meant, value)?;
                }
                "type" => {
                    let allowed = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                    if !allowed.iter().any(|name| is(name.as_str().unwrap_or(""), value)) {
                        return Err(format!("{place}: {value} is not of type {rule}"));
                    }
                }
                "enum" => {
                    if !rule.as_array().is_some_and(|values| values.contains(value)) {
                        return Err(format!("{place}: {value} is none of {rule}"));
                    }
                }
                "minimum" | "maximum" => {
                    if let (Some(limit), Some(number)) = (rule.as_f64(), value.as_f64()) {
                        if (word == "minimum" && number < limit) || (word == "maximum" && number > limit) {
                            return Err(format!("{place}: {number} is beyond the {word} of {limit}"));
                        }
                    }
                }
                "required" => {
                    for name in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                        if value.as_object().is_some_and(|object| !object.contains_key(name)) {
                            return Err(format!("{place}: `{name}` is missing"));
                        }
                    }
                }
                "properties" => {
                    for (name, rule) in rule.as_object().into_iter().flatten() {
                        if let Some(member) = value.get(name) {
                            self.check(&format!("{place}.{name}"), rule, member)?;
                        }
                    }
                }
                "additionalProperties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        if schema["properties"].get(name).is_some() {
                            continue;
                        }
                        match rule {
                            Value::Bool(true) => {}
                            Value::Bool(false) => return Err(format!("{place}: `{name}` is not in the schema")),
                            rule => self.check(&format!("{place}.{name}"), rule, member)?,
                        }
                    }
                }
                "items" => {
                    for (index, element) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(&format!("{place}[{index}]"), rule, element)?;
                    }
                }
                "anyOf" => {
                    let outcomes: Vec<_> = rule.as_array().into_iter().flatten().map(|rule| self.check(place, rule, value)).collect();
                    if !outcomes.iter().any(Result::is_ok) {
                        let reasons: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
                        return Err(reasons.join("; "));
                    }
                }
                word => return Err(format!("{place}: the checker does not know `{word}`")),
            }
        }
        Ok(())
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}
