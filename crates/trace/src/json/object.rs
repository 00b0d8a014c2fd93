//! One object of JSON as the fields of an event.
//!
//! What the caller looks at itself (names, times, numbers of threads) comes as the text that stands in the file, so that a time of 17 digits
//! keeps all of them; the rest becomes values in the order of the file.

use longpole_ctf::OwnedValue;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// An object, whose memory serves for the next one.
#[derive(Default)]
pub struct Object {
    /// Names of the fields, each ended by a zero byte.
    pub names: Vec<u8>,
    pub values: Vec<OwnedValue>,
}

/// What is wanted of an object.
pub struct Wanted {
    /// Keys whose values are kept as they stand.
    pub raw: &'static [&'static str],
    /// A key whose object's members become fields of their own, named `key.member`.
    pub flat: &'static str,
    /// A key that becomes the first field wherever it stands.
    pub first: &'static str,
}

pub const MOST_RAW: usize = 6;

/// By the index of the key that is wanted.
pub type Raw<'a> = [Option<&'a str>; MOST_RAW];

/// Only what is wanted raw; the rest is passed over, however deep.
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
    /// Reads all of `text`, which must be an object.
    pub fn read<'a>(&mut self, text: &'a [u8], wanted: &Wanted) -> Result<Raw<'a>, serde_json::Error> {
        self.names.clear();
        self.values.clear();
        let mut raw = Raw::default();
        let mut reader = serde_json::Deserializer::from_slice(text);
        Members { object: self, wanted, raw: &mut raw, prefix: "" }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(raw)
    }

    fn push(&mut self, prefix: &str, name: &str, value: OwnedValue, first: bool) {
        let mut bytes = Vec::new();
        let names = if first { &mut bytes } else { &mut self.names };
        if !prefix.is_empty() {
            names.extend_from_slice(prefix.as_bytes());
            names.push(b'.');
        }
        // A zero byte ends a name; one within it would tear it in two.
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

struct Members<'o, 'a> {
    object: &'o mut Object,
    wanted: &'o Wanted,
    raw: &'o mut Raw<'a>,
    prefix: &'o str,
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Below the prefix there may be something else than an object.
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
                map.next_value_seed(Members { object, wanted, raw, prefix: wanted.flat })?;
            } else {
                let Any(value) = map.next_value()?;
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
        // No arguments.
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
        self.alone(OwnedValue::F64(value));
        Ok(())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.alone(OwnedValue::Str(value.as_bytes().to_vec()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let parts = parts(seq)?;
        self.alone(parts);
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
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
