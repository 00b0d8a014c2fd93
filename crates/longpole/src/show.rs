//! Values, times and texts as bytes of output. This is the part of `print` that runs for each field of each event, so it appends to
//! a buffer and leaves the formatting machinery of the standard library to the rare cases.

use longpole_trace::{Nested, Value};
use std::io::Write;

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Appends decimal digits.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[value as usize * 2..value as usize * 2 + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

#[inline]
pub fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Appends exactly nine digits; `value` is below 10⁹.
#[inline]
pub fn nine_digits(out: &mut Vec<u8>, mut value: u32) {
    let mut digits = [0; 9];
    for at in [7, 5, 3, 1] {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    digits[0] = b'0' + (value % 10) as u8;
    out.extend_from_slice(&digits);
}

/// Appends seconds with nine decimals.
#[inline]
pub fn seconds(out: &mut Vec<u8>, ns: u64) {
    unsigned(out, ns / 1_000_000_000);
    out.push(b'.');
    nine_digits(out, (ns % 1_000_000_000) as u32);
}

/// The clock time of day, UTC. Neighbouring events mostly share the second, whose text is kept.
pub struct TimeOfDay {
    second: i64,
    text: [u8; 9],
}

impl Default for TimeOfDay {
    fn default() -> TimeOfDay {
        TimeOfDay { second: 0, text: *b"00:00:00." }
    }
}

impl TimeOfDay {
    #[inline]
    pub fn show(&mut self, out: &mut Vec<u8>, ns: i64) {
        let second = ns.div_euclid(1_000_000_000);
        if second != self.second {
            self.second = second;
            let of_day = second.rem_euclid(86_400) as usize;
            for (at, value) in [(0, of_day / 3600), (3, of_day / 60 % 60), (6, of_day % 60)] {
                self.text[at..at + 2].copy_from_slice(&PAIRS[2 * value..2 * value + 2]);
            }
        }
        out.extend_from_slice(&self.text);
        nine_digits(out, ns.rem_euclid(1_000_000_000) as u32);
    }
}

fn float(out: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    let plain = size == 0.0 || (1e-5..1e16).contains(&size) || !size.is_finite();
    // Writing to a vector cannot fail.
    let _ = if plain { write!(out, "{value}") } else { write!(out, "{value:e}") };
}

/// For people, near to what babeltrace2 prints.
pub fn text(out: &mut Vec<u8>, value: &Value<'_>, base: u8) {
    match value {
        Value::U64(value) if base == 10 => unsigned(out, *value),
        Value::U64(value) => based(out, *value, base),
        Value::I64(value) if base == 10 || *value < 0 => signed(out, *value),
        Value::I64(value) => based(out, *value as u64, base),
        Value::F64(value) => float(out, *value),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Nothing => out.extend_from_slice(b"<none>"),
        Value::Str(value) => quoted(out, value),
        Value::Wide(value) => quoted(out, value.decode().as_bytes()),
        Value::Bytes(bytes) => {
            out.extend_from_slice(b"[ ");
            for byte in *bytes {
                hex(out, *byte);
                out.push(b' ');
            }
            out.push(b']');
        }
        Value::Enum { value, label } => {
            out.extend_from_slice(b"( ");
            if label.is_empty() {
                out.extend_from_slice(b"<unknown>");
            } else {
                quoted(out, label.as_bytes());
            }
            let _ = write!(out, " : container = {value} )");
        }
        Value::Flags { value, flags } => {
            out.extend_from_slice(b"( ");
            let mut known = false;
            for label in flags.set(*value) {
                out.extend_from_slice(if known { b", " } else { b"" });
                quoted(out, label.as_bytes());
                known = true;
            }
            out.extend_from_slice(if known { b"" } else { b"<unknown>" });
            let _ = write!(out, " : container = {value:#x} )");
        }
        Value::Nested(nested) => nested_text(out, nested, base),
    }
}

fn nested_text(out: &mut Vec<u8>, nested: &Nested<'_>, base: u8) {
    let (open, close) = if nested.is_named() { (b'{', b'}') } else { (b'[', b']') };
    out.extend_from_slice(&[open, b' ']);
    let mut index = 0;
    let ended: Result<(), std::convert::Infallible> = nested.each(|name, part| {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        match name {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => {
                out.push(b'[');
                unsigned(out, index);
                out.push(b']');
            }
        }
        out.extend_from_slice(b" = ");
        text(out, &part, base);
        index += 1;
        Ok(())
    });
    let Ok(()) = ended;
    if index > 0 {
        out.push(b' ');
    }
    out.push(close);
}

fn based(out: &mut Vec<u8>, value: u64, base: u8) {
    let _ = match base {
        16 => write!(out, "0x{value:X}"),
        8 => write!(out, "0{value:o}"),
        2 => write!(out, "0b{value:b}"),
        _ => write!(out, "{value}"),
    };
}

fn hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// For programs: bytes are a string of hexadecimal digits, an enumeration is its label (or its number, where it has none),
/// what is no number is null.
pub fn json(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::U64(value) => unsigned(out, *value),
        Value::I64(value) => signed(out, *value),
        Value::F64(value) if value.is_finite() => float(out, *value),
        Value::F64(_) | Value::Nothing => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Str(value) => quoted(out, value),
        Value::Wide(value) => quoted(out, value.decode().as_bytes()),
        Value::Bytes(bytes) => {
            out.push(b'"');
            bytes.iter().for_each(|byte| hex(out, *byte));
            out.push(b'"');
        }
        Value::Enum { value, label: "" } => {
            let _ = write!(out, "{value}");
        }
        Value::Enum { label, .. } => quoted(out, label.as_bytes()),
        Value::Flags { value, flags } => {
            out.push(b'[');
            let mut known = 0;
            for (index, flag) in flags.flags.iter().filter(|flag| value & flag.mask() != 0).enumerate() {
                out.extend_from_slice(if index == 0 { b"" } else { b"," });
                quoted(out, flag.label.as_bytes());
                known |= flag.mask();
            }
            // Bits without a name stand for themselves.
            if value & !known != 0 {
                out.extend_from_slice(if known & value == 0 { b"" } else { b"," });
                unsigned(out, value & !known);
            }
            out.push(b']');
        }
        Value::Nested(nested) => {
            let named = nested.is_named();
            out.push(if named { b'{' } else { b'[' });
            let mut first = true;
            let ended: Result<(), std::convert::Infallible> = nested.each(|name, part| {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                if let Some(name) = name {
                    quoted(out, name.as_bytes());
                    out.push(b':');
                }
                json(out, &part);
                Ok(())
            });
            let Ok(()) = ended;
            out.push(if named { b'}' } else { b']' });
        }
    }
}

/// Appends a JSON string, which is also how texts are shown to people. What is not UTF-8 is replaced.
pub fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) if !text.iter().any(|byte| needs_escape(*byte)) => out.extend_from_slice(text),
        Ok(_) => escaped(out, text),
        Err(_) => escaped(out, String::from_utf8_lossy(text).as_bytes()),
    }
    out.push(b'"');
}

#[inline]
fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || byte == 0x7f
}

fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte if needs_escape(*byte) => {
                out.extend_from_slice(b"\\u00");
                hex(out, *byte);
            }
            byte => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(show: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        show(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_look_as_the_standard_library_writes_them() {
        for value in [0, 9, 10, 99, 100, 12_345, u64::MAX / 2, u64::MAX] {
            assert_eq!(shown(|out| unsigned(out, value)), value.to_string());
        }
        for value in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(shown(|out| signed(out, value)), value.to_string());
        }
        assert_eq!(shown(|out| nine_digits(out, 1_020_304)), "001020304");
        assert_eq!(shown(|out| nine_digits(out, 999_999_999)), "999999999");
        assert_eq!(shown(|out| seconds(out, 1_000_000_007)), "1.000000007");
    }

    #[test]
    fn times_of_day_cross_midnight_and_the_epoch() {
        let mut time = TimeOfDay::default();
        assert_eq!(shown(|out| time.show(out, 1_763_679_845_000_000_001)), "23:04:05.000000001");
        assert_eq!(shown(|out| time.show(out, -1)), "23:59:59.999999999");
        assert_eq!(shown(|out| time.show(out, 5)), "00:00:00.000000005");
    }

    #[test]
    fn every_json_value_is_json() {
        let bytes: Vec<u8> = (0..=255).collect();
        let values = [
            Value::Str(&bytes),
            Value::Str("grün \u{7f}\"\\\n".as_bytes()),
            Value::F64(f64::NAN),
            Value::F64(1e300),
            Value::F64(-0.1),
            Value::Bytes(&[0, 255]),
            Value::Enum { value: 7, label: "" },
            Value::Enum { value: 7, label: "seven" },
        ];
        for value in values {
            let text = shown(|out| json(out, &value));
            serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn integers_keep_their_preferred_base() {
        assert_eq!(shown(|out| text(out, &Value::U64(0x55f5), 16)), "0x55F5");
        assert_eq!(shown(|out| text(out, &Value::I64(-5), 16)), "-5");
        assert_eq!(shown(|out| text(out, &Value::U64(8), 8)), "010");
    }
}
