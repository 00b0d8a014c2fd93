//! Parses any line with a complete JSON parser. This is slower than [`crate::quick`], but every
//! error has a reason and a place.

use crate::error::{Fault, LineErrorKind};
use crate::fields::{Fields, KERNEL_THREAD, KEYS, KIND};
use crate::line::{Amount, Flow, Text};
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Parses the fields of a line.
pub fn parse(bytes: &[u8]) -> Result<Fields<'_>, Fault> {
    let place = Place::default();
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let fields = Object(&place).deserialize(&mut from).and_then(|fields| from.end().map(|()| fields));
    fields.map_err(|error| {
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned();
        let kind = match (place.fault.take(), place.key.get()) {
            (Some(fault), _) => fault,
            (None, "") => LineErrorKind::Json(what),
            (None, key) => LineErrorKind::Value { key, what },
        };
        Fault { kind, column: error.column() as u64 }
    })
}

/// Position for errors: the key whose value is being read, and what is wrong with a key.
#[derive(Default)]
struct Place {
    key: Cell<&'static str>,
    fault: Cell<Option<LineErrorKind>>,
}

impl Place {
    fn refuse<E: de::Error>(&self, fault: LineErrorKind) -> E {
        let error = E::custom(&fault);
        self.fault.set(Some(fault));
        error
    }
}

/// The object of a line.
struct Object<'c>(&'c Place);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key_seed(AnyText)? {
            let Some(at) = KEYS.iter().position(|key| *key == name) else {
                // Values of other types are ignored, because the writer of a log may use `x_` keys
                // for anything.
                if name == KERNEL_THREAD {
                    fields.is_kernel_thread = map.next_value::<serde_json::Value>()? == true;
                    continue;
                }
                if name == KIND {
                    fields.kind = map.next_value::<serde_json::Value>()?.as_str().map(|kind| kind.to_owned().into());
                    continue;
                }
                if name.starts_with("x_") {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                return Err(self.0.refuse(LineErrorKind::UnknownKey(name.into_owned())));
            };
            if fields.keys & 1 << at != 0 {
                return Err(self.0.refuse(LineErrorKind::KeyTwice(KEYS[at])));
            }
            fields.keys |= 1 << at;
            self.0.key.set(KEYS[at]);
            match KEYS[at] {
                "t" => fields.t = Some(map.next_value_seed(Integer)?),
                "host" => fields.host = Some(map.next_value_seed(AnyText)?),
                "machine" => fields.machine = Some(map.next_value_seed(AnyText)?),
                "class" => fields.class = Some(map.next_value_seed(AnyText)?),
                "state" => fields.state = Some(map.next_value_seed(AnyText)?),
                "blocked" => fields.blocked = Some(map.next_value_seed(AnyText)?),
                "on" => fields.on = Some(map.next_value_seed(AnyText)?),
                "for" => fields.wants = Some(map.next_value_seed(AnyText)?),
                "put" => fields.put = Some(map.next_value_seed(AnyText)?),
                "get" => fields.get = Some(map.next_value_seed(AnyText)?),
                "peek" => fields.peek = Some(map.next_value_seed(AnyText)?),
                "reserve" => fields.reserve = Some(map.next_value_seed(AnyText)?),
                "n" => fields.n = Some(map.next_value_seed(Units)?),
                "flow" => fields.flow = Some(map.next_value_seed(AnyFlow)?),
                "woken_by" => fields.woken_by = Some(map.next_value_seed(Nullable)?),
                "forked_by" => fields.forked_by = Some(map.next_value_seed(Nullable)?),
                "at" => fields.at = Some(map.next_value_seed(Integer)?),
                "link" => fields.link = Some(map.next_value_seed(AnyText)?),
                "on_top_of" => fields.on_top_of = Some(map.next_value_seed(Nullable)?),
                "pop" => fields.pop = map.next_value_seed(True)?,
                "stop" => fields.stop = map.next_value_seed(True)?,
                "end" => fields.end = Some(map.next_value_seed(AnyText)?),
                "queue" => fields.queue = Some(map.next_value_seed(AnyText)?),
                "capacity" => fields.capacity = Some(map.next_value_seed(Integer)?),
                "order" => fields.order = Some(map.next_value_seed(AnyText)?),
                "unit" => fields.unit = Some(map.next_value_seed(AnyText)?),
                "initial" => fields.initial = Some(map.next_value_seed(Integer)?),
                _ => fields.merge = map.next_value::<bool>()?,
            }
            self.0.key.set("");
        }
        Ok(fields)
    }
}

struct AnyText;

impl<'de> DeserializeSeed<'de> for AnyText {
    type Value = Text<'de>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Text<'de>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for AnyText {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A string or null.
struct Nullable;

impl<'de> DeserializeSeed<'de> for Nullable {
    type Value = Option<Text<'de>>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nullable {
    type Value = Option<Text<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a machine, or null")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }
}

/// A string or an integer.
struct AnyFlow;

impl<'de> DeserializeSeed<'de> for AnyFlow {
    type Value = Flow<'de>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Flow<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyFlow {
    type Value = Flow<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Flow<'de>, E> {
        Ok(Flow::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Flow<'de>, E> {
        Ok(Flow::Number(number.into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Flow<'de>, E> {
        Ok(Flow::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Flow<'de>, E> {
        Ok(Flow::Text(Cow::Owned(text.to_owned())))
    }
}

/// An integer from 0 to 2⁶³ − 1.
struct Integer;

impl<'de> DeserializeSeed<'de> for Integer {
    type Value = u64;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Integer {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 0 to 2^63 - 1")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        match number {
            0..=0x7fff_ffff_ffff_ffff => Ok(number),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }
}

/// A number of units, or "all".
struct Units;

impl<'de> DeserializeSeed<'de> for Units {
    type Value = Amount;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Amount, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Units {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 1 to 2^63 - 1, or \"all\"")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
        match number {
            1..=0x7fff_ffff_ffff_ffff => Ok(Amount::Units(number)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        match text {
            "all" => Ok(Amount::All),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

struct True;

impl<'de> DeserializeSeed<'de> for True {
    type Value = bool;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_bool(self)
    }
}

impl Visitor<'_> for True {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
        match value {
            true => Ok(true),
            false => Err(E::invalid_value(de::Unexpected::Bool(false), &self)),
        }
    }
}
