//! A JSON object as the fields of an event.
//!
//! Values that the caller interprets itself (names, times, numbers of threads) are returned as
//! written in the file, so that a time of 17 digits keeps all of them. All others become values in
//! the order of the file. Integers of 64 bits keep all digits. A number that fits neither 64 bits
//! nor a floating point number becomes its text. Such numbers are rare, so an object is searched
//! for them only if it seems to have one.

use longpole_ctf::OwnedValue;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Fields of an object. Its memory is reused for the next object.
#[derive(Default)]
pub struct Object {
    /// Names of the fields, each terminated by a zero byte.
    pub names: Vec<u8>,
    pub values: Vec<OwnedValue>,
    /// Number of the object's numbers that became text.
    pub texts: u64,
    /// Set if an integer may have become a floating point number.
    rounded: bool,
    /// Set in the second pass, which examines numbers as written.
    exact: bool,
}

/// Parts of an object that the caller handles specially.
pub struct Wanted {
    /// Keys whose values are returned as written.
    pub raw: &'static [&'static str],
    /// Key of an object whose members become fields named `key.member`.
    pub flat: &'static str,
    /// Key that becomes the first field, wherever it is in the object.
    pub first: &'static str,
}

pub const MAX_RAW: usize = 6;

/// Values as written, by index in [`Wanted::raw`].
pub type Raw<'a> = [Option<&'a str>; MAX_RAW];

/// Returns only the values of `keys`, as written. All others are skipped, at any depth.
pub fn brief<'a>(text: &'a [u8], keys: &'static [&'static str]) -> Result<Raw<'a>, serde_json::Error> {
    struct Brief<'o, 'a>(&'o mut Raw<'a>, &'static [&'static str]);

    impl<'de> Visitor<'de> for Brief<'_, 'de> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(Key(key)) = map.next_key()? {
                match self.1.iter().position(|name| *name == key) {
                    Some(at) => self.0[at] = Some(map.next_value::<&RawValue>()?.get()),
                    None => drop(map.next_value::<de::IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }

    let mut raw = Raw::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.deserialize_map(Brief(&mut raw, keys))?;
    reader.end()?;
    Ok(raw)
}

impl Object {
    /// Reads `text`, all of which must be one object.
    pub fn read<'a>(&mut self, text: &'a [u8], wanted: &Wanted) -> Result<Raw<'a>, serde_json::Error> {
        (self.texts, self.rounded, self.exact) = (0, false, false);
        match self.pass(text, wanted) {
            Ok(raw) if !self.rounded => Ok(raw),
            // The first pass fails on a number that is out of range, so a failure also leads to the
            // second pass.
            _ => {
                self.exact = true;
                self.pass(text, wanted)
            }
        }
    }

    fn pass<'a>(&mut self, text: &'a [u8], wanted: &Wanted) -> Result<Raw<'a>, serde_json::Error> {
        self.names.clear();
        self.values.clear();
        let mut raw = Raw::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        Members { object: self, wanted, raw: &mut raw, prefix: "" }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(raw)
    }

    /// Converts a value, checking numbers as written.
    fn exactly(&mut self, raw: &RawValue, depth: u32) -> Result<OwnedValue, serde_json::Error> {
        let text = raw.get();
        let deeper = || depth.checked_sub(1).ok_or_else(|| de::Error::custom("it is nested too deep"));
        match text.as_bytes().first() {
            Some(b'[') => {
                let parts: Vec<&RawValue> = serde_json::from_str(text)?;
                let depth = deeper()?;
                Ok(OwnedValue::List(parts.into_iter().map(|part| self.exactly(part, depth)).collect::<Result<_, _>>()?))
            }
            Some(b'{') => {
                let Parts(parts) = serde_json::from_str(text)?;
                let depth = deeper()?;
                let part = |(Key(key), part)| Ok((key.as_ref().into(), self.exactly(part, depth)?));
                Ok(OwnedValue::Fields(parts.into_iter().map(part).collect::<Result<_, serde_json::Error>>()?))
            }
            Some(b'-' | b'0'..=b'9') => Ok(match serde_json::from_str(text) {
                Ok(Any(value)) if !(may_be_rounded(&value) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())) => value,
                _ => {
                    self.texts += 1;
                    OwnedValue::Str(text.as_bytes().to_vec())
                }
            }),
            _ => serde_json::from_str(text).map(|Any(value)| value),
        }
    }

    fn push(&mut self, prefix: &str, name: &str, value: OwnedValue, first: bool) {
        let mut bytes = Vec::new();
        let names = if first { &mut bytes } else { &mut self.names };
        if !prefix.is_empty() {
            names.extend_from_slice(prefix.as_bytes());
            names.push(b'.');
        }
        // A zero byte terminates a name, so those in the name are dropped.
        names.extend(name.bytes().filter(|&byte| byte != 0));
        names.push(0);
        if first {
            self.names.splice(0..0, bytes);
            self.values.insert(0, value);
        } else {
            self.values.push(value);
        }
    }

    pub fn names(&self) -> Vec<String> {
        let names = self.names.split(|&byte| byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
        names.take(self.values.len()).collect()
    }
}

/// Maximum number of levels of nesting, which is also the limit of the JSON parser.
const MAX_DEPTH: u32 = 127;

/// Returns true if the value is, or contains, a number that may have been an integer beyond 64
/// bits.
fn may_be_rounded(value: &OwnedValue) -> bool {
    match value {
        OwnedValue::F64(value) => value.abs() >= 9.0e18,
        OwnedValue::List(parts) => parts.iter().any(may_be_rounded),
        OwnedValue::Fields(parts) => parts.iter().any(|(_, part)| may_be_rounded(part)),
        _ => false,
    }
}

struct Members<'o, 'a> {
    object: &'o mut Object,
    wanted: &'o Wanted,
    raw: &'o mut Raw<'a>,
    prefix: &'o str,
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // The value of the flattened key may be something other than an object.
        if self.prefix.is_empty() {
            deserializer.deserialize_map(self)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

impl Members<'_, '_> {
    fn alone(self, value: OwnedValue) {
        let prefix = self.prefix;
        self.object.push("", prefix, value, false);
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            let top = self.prefix.is_empty();
            if let Some(at) = self.wanted.raw.iter().position(|name| top && *name == key) {
                self.raw[at] = Some(map.next_value::<&RawValue>()?.get());
            } else if top && !self.wanted.flat.is_empty() && key == self.wanted.flat {
                let Members { object, wanted, raw, .. } = &mut self;
                let prefix = wanted.flat;
                if object.exact {
                    let text: &RawValue = map.next_value()?;
                    if text.get().starts_with('{') {
                        let mut reader = serde_json::Deserializer::from_str(text.get());
                        Members { object, wanted, raw, prefix }.deserialize(&mut reader).map_err(de::Error::custom)?;
                    } else if text.get() != "null" {
                        let value = object.exactly(text, MAX_DEPTH).map_err(de::Error::custom)?;
                        object.push("", prefix, value, false);
                    }
                } else {
                    map.next_value_seed(Members { object, wanted, raw, prefix })?;
                }
            } else {
                let value = if self.object.exact {
                    self.object.exactly(map.next_value()?, MAX_DEPTH).map_err(de::Error::custom)?
                } else {
                    let Any(value) = map.next_value()?;
                    self.object.rounded |= may_be_rounded(&value);
                    value
                };
                self.object.push(self.prefix, &key, value, top && key == self.wanted.first);
            }
        }
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.alone(OwnedValue::Bool(value));
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        // `null` means that there are no arguments.
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.alone(OwnedValue::U64(value));
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.alone(OwnedValue::I64(value));
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let value = OwnedValue::F64(value);
        self.object.rounded |= may_be_rounded(&value);
        self.alone(value);
        Ok(())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.alone(OwnedValue::Str(value.as_bytes().to_vec()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let parts = parts(seq)?;
        self.object.rounded |= may_be_rounded(&parts);
        self.alone(parts);
        Ok(())
    }
}

/// A key, borrowed if it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key<'de>, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Visit)
    }
}

/// A value of any kind.
struct Any(OwnedValue);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Any, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Any;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
                Ok(Any(OwnedValue::Bool(value)))
            }

            fn visit_unit<E>(self) -> Result<Any, E> {
                Ok(Any(OwnedValue::Nothing))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Any, E> {
                Ok(Any(OwnedValue::U64(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
                Ok(Any(OwnedValue::I64(value)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
                Ok(Any(OwnedValue::F64(value)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Any, E> {
                Ok(Any(OwnedValue::Str(text.as_bytes().to_vec())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Any, A::Error> {
                parts(seq).map(Any)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Any, A::Error> {
                members(map).map(Any)
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

/// The members of an object, each as written.
struct Parts<'a>(Vec<(Key<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parts<'de>, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = map.next_entry()? {
                    parts.push(part);
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

fn parts<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<OwnedValue, A::Error> {
    let mut parts = Vec::new();
    while let Some(Any(part)) = seq.next_element()? {
        parts.push(part);
    }
    Ok(OwnedValue::List(parts))
}

fn members<'de, A: MapAccess<'de>>(mut map: A) -> Result<OwnedValue, A::Error> {
    let mut parts = Vec::new();
    while let Some(Key(key)) = map.next_key()? {
        let Any(part) = map.next_value()?;
        parts.push((key.as_ref().into(), part));
    }
    Ok(OwnedValue::Fields(parts))
}
