//! One line of the log as text: which keys it has, of which type, and which of them go together.

use super::quick;
use crate::kinds::StateKind;
use longpole_trace::MACHINE_LOG_KEYS as KEYS;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

type Text<'a> = Cow<'a, str>;

/// Who; `null` is said, too.
#[derive(Debug, PartialEq)]
pub struct By<'a>(pub Option<Text<'a>>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Units(u64),
    All,
}

#[derive(Debug, Default, PartialEq)]
pub struct Line<'a> {
    pub is_empty: bool,
    pub t: Option<u64>,
    pub host: Option<Text<'a>>,
    pub machine: Option<Text<'a>>,
    pub class: Option<Text<'a>>,
    pub state: Option<Text<'a>>,
    pub blocked: Option<Text<'a>>,
    pub on: Option<Text<'a>>,
    pub wants: Option<Text<'a>>,
    pub put: Option<Text<'a>>,
    pub get: Option<Text<'a>>,
    pub peek: Option<Text<'a>>,
    pub reserve: Option<Text<'a>>,
    pub n: Option<Number>,
    pub flow: Option<Text<'a>>,
    pub woken_by: Option<By<'a>>,
    pub forked_by: Option<By<'a>>,
    pub at: Option<u64>,
    pub link: Option<Text<'a>>,
    pub on_top_of: Option<Option<Text<'a>>>,
    pub pop: bool,
    pub stop: bool,
    pub end: Option<Text<'a>>,
    pub queue: Option<Text<'a>>,
    pub capacity: Option<u64>,
    pub order: Option<Text<'a>>,
    pub unit: Option<Text<'a>>,
    pub initial: Option<u64>,
    pub merge: bool,
    /// It says `x_kernel`.
    pub of_kernel: bool,
    /// What it says of its state's kind.
    pub kind: Option<StateKind>,
    /// The keys that it has, as bits by their place in [`KEYS`].
    pub(super) keys: u32,
}

/// The machine is a thread of the kernel.
pub const OF_KERNEL: &str = "x_kernel";
/// The kind of the line's state, where its name does not tell it.
pub const KIND: &str = "x_kind";

/// Kinds that a name tells are not to be said.
pub(super) fn kind_of_word(word: &str) -> Option<StateKind> {
    StateKind::of_word(word).filter(|kind| kind.is_of_any_name())
}

pub(super) const fn bit(name: &str) -> u32 {
    let mut at = 0;
    while at < KEYS.len() {
        if same(KEYS[at].as_bytes(), name.as_bytes()) {
            return 1 << at;
        }
        at += 1;
    }
    0
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// What a line does; at most one of them in a line.
const DEEDS: u32 = bit("blocked") | bit("put") | bit("get") | bit("peek") | bit("reserve") | bit("woken_by") | bit("pop") | bit("stop");

/// Keys that only say more of another one.
const DETAILS: [(u32, u32, &str, &str); 6] = [
    (bit("n"), bit("put") | bit("get") | bit("peek") | bit("reserve"), "n", "put, get, peek or reserve"),
    (bit("flow"), bit("put") | bit("get") | bit("peek"), "flow", "put, get or peek"),
    (bit("link"), bit("put") | bit("woken_by") | bit("forked_by"), "link", "put, woken_by or forked_by"),
    (bit("at"), bit("woken_by") | bit("forked_by"), "at", "woken_by or forked_by"),
    (bit("on"), bit("blocked"), "on", "blocked"),
    (bit("for"), bit("blocked"), "for", "blocked"),
];

impl<'a> Line<'a> {
    /// Into an empty line: it is large, and there are many.
    #[inline]
    pub fn parse(&mut self, bytes: &'a [u8]) -> Result<(), String> {
        if quick::parse(bytes, self).is_some() {
            return Ok(());
        }
        *self = match bytes.trim_ascii() {
            b"" => Line { is_empty: true, ..Line::default() },
            _ => Line::parse_any(bytes)?,
        };
        Ok(())
    }

    /// Whatever JSON it is.
    pub fn parse_any(bytes: &'a [u8]) -> Result<Line<'a>, String> {
        let key = Cell::new("");
        let mut from = serde_json::Deserializer::from_slice(bytes);
        let line = Keys(&key).deserialize(&mut from).and_then(|line| from.end().map(|()| line));
        line.map_err(|error| {
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
            match (key.get(), error.column()) {
                ("", 0) => what.to_owned(),
                ("", column) => format!("{what}, at column {column}"),
                (key, _) => format!("`{key}`: {what}"),
            }
        })
    }

    fn has(&self, keys: u32) -> bool {
        self.keys & keys != 0
    }

    /// Refuses all but these keys, beside time and host.
    pub fn only(&self, names: &[&str]) -> Result<(), String> {
        let allowed = names.iter().fold(bit("t") | bit("host"), |all, name| all | bit(name));
        match self.keys & !allowed {
            0 => Ok(()),
            more => Err(format!("`{}` does not go with `{}`", named(more), names[0])),
        }
    }

    pub fn deeds(&self) -> u32 {
        (self.keys & const { DEEDS | bit("state") | bit("on_top_of") | bit("forked_by") }).count_ones()
    }

    /// A line of a machine: one deed, with what belongs to it.
    pub fn check(&self) -> Result<(), String> {
        let queue_keys = const { bit("capacity") | bit("order") | bit("unit") | bit("initial") | bit("merge") | bit("end") };
        if self.has(queue_keys) {
            return Err(format!("`{}` does not go with `machine`", named(self.keys & queue_keys)));
        }
        let deeds = self.keys & DEEDS;
        if deeds.count_ones() > 1 {
            let first = 1 << deeds.trailing_zeros();
            return Err(format!("`{}` and `{}` in one line; write two lines of the same `t`", named(first), named(deeds & !first)));
        }
        if self.has(const { bit("state") }) && self.has(const { bit("blocked") | bit("pop") | bit("stop") }) {
            return Err(format!("`state` does not go with `{}`", named(deeds)));
        }
        if self.has(const { bit("pop") | bit("stop") }) && self.has(const { bit("on_top_of") | bit("forked_by") }) {
            return Err(format!("`{}` does not go with `on_top_of` or `forked_by`", named(deeds)));
        }
        if self.has(const { bit("at") | bit("link") })
            && self.has(const { bit("forked_by") })
            && self.has(const { bit("woken_by") | bit("put") })
        {
            return Err("`at` or `link` with two causes in one line; write two lines of the same `t`".to_owned());
        }
        for (key, owners, name, written) in DETAILS {
            if self.has(key) && !self.has(owners) {
                return Err(format!("`{name}` without {written}"));
            }
        }
        Ok(())
    }
}

/// The first of these keys.
fn named(keys: u32) -> &'static str {
    KEYS.get(keys.trailing_zeros() as usize).copied().unwrap_or("")
}

/// Reads the object; the cell says at which key it stands, for the error.
struct Keys<'c>(&'c Cell<&'static str>);

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = Line<'de>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Line<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
        let mut line = Line::default();
        while let Some(name) = map.next_key_seed(AnyText)? {
            let Some(at) = KEYS.iter().position(|key| *key == name) else {
                if name == OF_KERNEL {
                    // Of another type, it is somebody else's.
                    line.of_kernel = map.next_value::<serde_json::Value>()? == true;
                    continue;
                }
                if name == KIND {
                    line.kind = map.next_value::<serde_json::Value>()?.as_str().and_then(kind_of_word);
                    continue;
                }
                if name.starts_with("x_") {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                return Err(de::Error::custom(format_args!("unknown key `{}` (own keys begin with x_)", name.escape_debug())));
            };
            if line.keys & 1 << at != 0 {
                return Err(de::Error::custom(format_args!("key `{name}` twice")));
            }
            line.keys |= 1 << at;
            self.0.set(KEYS[at]);
            match KEYS[at] {
                "t" => line.t = Some(map.next_value_seed(Integer(0))?),
                "host" => line.host = Some(map.next_value_seed(AnyText)?),
                "machine" => line.machine = Some(map.next_value_seed(AnyText)?),
                "class" => line.class = Some(map.next_value_seed(AnyText)?),
                "state" => line.state = Some(map.next_value_seed(AnyText)?),
                "blocked" => line.blocked = Some(map.next_value_seed(AnyText)?),
                "on" => line.on = Some(map.next_value_seed(AnyText)?),
                "for" => line.wants = Some(map.next_value_seed(AnyText)?),
                "put" => line.put = Some(map.next_value_seed(AnyText)?),
                "get" => line.get = Some(map.next_value_seed(AnyText)?),
                "peek" => line.peek = Some(map.next_value_seed(AnyText)?),
                "reserve" => line.reserve = Some(map.next_value_seed(AnyText)?),
                "n" => line.n = Some(map.next_value_seed(Units)?),
                "flow" => line.flow = Some(map.next_value_seed(Flow)?),
                "woken_by" => line.woken_by = Some(By(map.next_value_seed(Nullable)?)),
                "forked_by" => line.forked_by = Some(By(map.next_value_seed(Nullable)?)),
                "at" => line.at = Some(map.next_value_seed(Integer(0))?),
                "link" => line.link = Some(map.next_value_seed(AnyText)?),
                "on_top_of" => line.on_top_of = Some(map.next_value_seed(Nullable)?),
                "pop" => line.pop = map.next_value_seed(True)?,
                "stop" => line.stop = map.next_value_seed(True)?,
                "end" => line.end = Some(map.next_value_seed(AnyText)?),
                "queue" => line.queue = Some(map.next_value_seed(AnyText)?),
                "capacity" => line.capacity = Some(map.next_value_seed(Integer(0))?),
                "order" => line.order = Some(map.next_value_seed(AnyText)?),
                "unit" => line.unit = Some(map.next_value_seed(AnyText)?),
                "initial" => line.initial = Some(map.next_value_seed(Integer(0))?),
                _ => line.merge = map.next_value::<bool>()?,
            }
            self.0.set("");
        }
        Ok(line)
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

/// A string or an integer; `1` and `"1"` are different flows.
struct Flow;

impl<'de> DeserializeSeed<'de> for Flow {
    type Value = Text<'de>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Text<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Flow {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Cow::Owned(format!("{NUMBERED}{number}")))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Cow::Owned(format!("{NUMBERED}{number}")))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        match text.starts_with(NUMBERED) {
            true => Ok(Cow::Owned(format!("{NUMBERED}{text}"))),
            false => Ok(Cow::Borrowed(text)),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        let mark = if text.starts_with(NUMBERED) { NUMBERED } else { "" };
        Ok(Cow::Owned(format!("{mark}{text}")))
    }
}

/// Before the digits of a flow that was given as a number, and once more before a text that begins so itself.
pub const NUMBERED: &str = "\u{0}";

/// From this to 2⁶³ − 1.
struct Integer(u64);

impl<'de> DeserializeSeed<'de> for Integer {
    type Value = u64;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Integer {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an integer from {} to 2^63 - 1", self.0)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        match number {
            number if number >= self.0 && number <= i64::MAX as u64 => Ok(number),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }
}

/// A number of units, or "all".
struct Units;

impl<'de> DeserializeSeed<'de> for Units {
    type Value = Number;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Units {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 1 to 2^63 - 1, or \"all\"")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        match number {
            1..=0x7fff_ffff_ffff_ffff => Ok(Number::Units(number)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        match text {
            "all" => Ok(Number::All),
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
