//! Values, times and texts as bytes of output.
//!
//! This is the part of `print` that runs for each field of each event. It therefore appends to a
//! buffer, and uses the formatting of the standard library only for rare kinds of values.

use longpole_trace::Nested;
use longpole_trace::Value;
use std::io::Write;

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Bytes that are written often. Up to [`Piece::SHORT`] of them are copied as a block of constant
/// size, which is then truncated; this needs no call of a copy function.
#[derive(Default)]
pub struct Piece {
    block: [u8; Piece::SHORT],
    bytes: Vec<u8>,
}

impl Piece {
    const SHORT: usize = 32;

    #[inline(always)]
    pub fn put(&self, out: &mut Vec<u8>) {
        if self.bytes.len() <= Piece::SHORT {
            put_first(out, &self.block, self.bytes.len());
        } else {
            out.extend_from_slice(&self.bytes);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Piece {
        let mut block = [0; Piece::SHORT];
        let short = bytes.len().min(Piece::SHORT);
        block[..short].copy_from_slice(&bytes[..short]);
        Piece { block, bytes }
    }
}

#[inline(always)]
fn put_first<const N: usize>(out: &mut Vec<u8>, block: &[u8; N], count: usize) {
    let end = out.len() + count;
    out.extend_from_slice(block);
    out.truncate(end);
}

const EIGHT: u64 = 100_000_000;

/// Returns the eight decimal digits of a number below 10⁸, as bytes from 0 to 9, the first digit in
/// the lowest byte. Each of three steps splits every part of the word into halves.
#[inline(always)]
fn eight_digits(value: u64) -> u64 {
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = ((fours - hundreds * 100) << 16) | hundreds;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    ((twos - tens * 10) << 8) | tens
}

const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

/// Appends decimal digits.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, value: u64) {
    if value < 10 {
        return out.push(b'0' + value as u8);
    }
    let (first, second) = (value / EIGHT, value % EIGHT);
    if first == 0 {
        return up_to_eight(out, second);
    }
    let (top, first) = (first / EIGHT, first % EIGHT);
    if top > 0 {
        up_to_eight(out, top);
        return out.extend_from_slice(&sixteen_digits(first, second).to_le_bytes());
    }
    let digits = sixteen_digits(first, second);
    let zeros = leading_zeros(digits as u64);
    put_first(out, &(digits >> (8 * zeros)).to_le_bytes(), 16 - zeros);
}

/// Appends the digits of a number below 10⁸, without leading zeros.
#[inline(always)]
fn up_to_eight(out: &mut Vec<u8>, value: u64) {
    let digits = eight_digits(value) | ZEROS;
    let zeros = leading_zeros(digits);
    put_first(out, &(digits >> (8 * zeros)).to_le_bytes(), 8 - zeros);
}

#[inline(always)]
fn sixteen_digits(first: u64, second: u64) -> u128 {
    u128::from(eight_digits(first) | ZEROS) | u128::from(eight_digits(second) | ZEROS) << 64
}

/// Returns the number of leading zeros of eight digits. The last digit never counts, so that 0 has
/// one digit.
#[inline(always)]
fn leading_zeros(digits: u64) -> usize {
    (((digits ^ ZEROS) | 1 << 56).trailing_zeros() / 8) as usize
}

#[inline]
pub fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Writes exactly nine digits; `value` must be below 10⁹.
#[inline(always)]
fn put_nine_digits(place: &mut [u8], value: u64) {
    place[0] = b'0' + (value / EIGHT) as u8;
    place[1..].copy_from_slice(&(eight_digits(value % EIGHT) | ZEROS).to_le_bytes());
}

/// Appends bytes, and returns them so that the caller can overwrite them.
#[inline(always)]
fn put<'a, const N: usize>(out: &'a mut Vec<u8>, bytes: &[u8; N]) -> &'a mut [u8; N] {
    out.extend_from_slice(bytes);
    out.last_chunk_mut().expect("this number of bytes was appended")
}

/// Appends seconds with nine decimals.
#[inline]
pub fn seconds(out: &mut Vec<u8>, ns: u64) {
    unsigned(out, ns / SECOND);
    let [_, decimals @ ..] = put(out, b".000000000");
    put_nine_digits(decimals, ns % SECOND);
}

const SECOND: u64 = 1_000_000_000;

/// Formats the time of day in UTC. Consecutive events are mostly within one second, so the text of
/// the last second is stored.
pub struct TimeOfDay {
    begin_ns: i64,
    text: [u8; 9],
}

impl Default for TimeOfDay {
    fn default() -> TimeOfDay {
        TimeOfDay { begin_ns: 0, text: *b"00:00:00." }
    }
}

impl TimeOfDay {
    #[inline]
    pub fn show(&mut self, out: &mut Vec<u8>, ns: i64) {
        self.write(put(out, b"00:00:00.000000000"), ns);
    }

    #[inline(always)]
    fn write(&mut self, place: &mut [u8], ns: i64) {
        let mut within = ns.wrapping_sub(self.begin_ns) as u64;
        if within >= SECOND {
            within = self.turn_to(ns);
        }
        let (second, decimals) = place.split_at_mut(9);
        second.copy_from_slice(&self.text);
        put_nine_digits(decimals, within);
    }

    /// Makes the text of the second that contains `ns`, and returns the nanoseconds within it.
    #[cold]
    fn turn_to(&mut self, ns: i64) -> u64 {
        let within = ns.rem_euclid(SECOND as i64);
        // The first second of all begins before the lowest `i64`, so the subtraction must wrap.
        self.begin_ns = ns.wrapping_sub(within);
        let of_day = ns.div_euclid(SECOND as i64).rem_euclid(86_400) as usize;
        for (at, value) in [(0, of_day / 3600), (3, of_day / 60 % 60), (6, of_day % 60)] {
            self.text[at..at + 2].copy_from_slice(&PAIRS[2 * value..2 * value + 2]);
        }
        within as u64
    }

    /// Appends `[time] (+since) `, where `since` is the time since the last event; it is shown as
    /// `?` if there was none.
    #[inline]
    pub fn show_since(&mut self, out: &mut Vec<u8>, ns: i64, last_ns: Option<i64>) {
        match last_ns {
            Some(last) if ns.abs_diff(last) < SECOND => {
                let line = put(out, b"[00:00:00.000000000] (+0.000000000) ");
                self.write(&mut line[1..19], ns);
                if ns < last {
                    line[22] = b'-';
                }
                put_nine_digits(&mut line[25..34], ns.abs_diff(last));
            }
            _ => {
                self.write(&mut put(out, b"[00:00:00.000000000] (")[1..19], ns);
                match last_ns {
                    None => out.extend_from_slice(b"+?.?????????) "),
                    Some(last) => {
                        out.push(if ns < last { b'-' } else { b'+' });
                        seconds(out, ns.abs_diff(last));
                        out.extend_from_slice(b") ");
                    }
                }
            }
        }
    }
}

/// Appends a number. Infinities are `inf` and `-inf`; a value that is not a number is `NaN`.
fn float(out: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    let plain = size == 0.0 || (1e-5..1e16).contains(&size) || !size.is_finite();
    // Writing to a vector cannot fail.
    let _ = if plain { write!(out, "{value}") } else { write!(out, "{value:e}") };
}

/// Appends a value for people, similar to babeltrace2's output.
#[inline(always)]
pub fn text(out: &mut Vec<u8>, value: &Value<'_>, base: u8) {
    match value {
        Value::U64(value) if base == 10 => unsigned(out, *value),
        value => other_text(out, value, base),
    }
}

fn other_text(out: &mut Vec<u8>, value: &Value<'_>, base: u8) {
    match value {
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
            container(out, *value, base);
        }
        Value::Several { value: number, .. } => {
            labels_text(out, value);
            container(out, *number, base);
        }
        Value::Flags { value: bits, .. } => {
            labels_text(out, value);
            let _ = write!(out, " : container = {bits:#x} )");
        }
        Value::Nested(nested) => nested_text(out, nested, base),
    }
}

fn labels_text(out: &mut Vec<u8>, value: &Value<'_>) {
    out.extend_from_slice(b"( ");
    let begin = out.len();
    for label in value.labels() {
        out.extend_from_slice(if out.len() > begin { b", " } else { b"" });
        quoted(out, label.as_bytes());
    }
    out.extend_from_slice(if out.len() > begin { b"" } else { b"<unknown>" });
}

fn container(out: &mut Vec<u8>, value: i128, base: u8) {
    out.extend_from_slice(b" : container = ");
    match u64::try_from(value) {
        Ok(value) => based(out, value, base),
        Err(_) => drop(write!(out, "{value}")),
    }
    out.extend_from_slice(b" )");
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

/// Appends a value for programs. Bytes are a string of hexadecimal digits. An enumeration is its
/// label (the first one if it has several), or its number if it has none. Numbers that JSON does
/// not have, such as infinity, are strings.
pub fn json(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::U64(value) => unsigned(out, *value),
        Value::I64(value) => signed(out, *value),
        Value::F64(value) if value.is_finite() => float(out, *value),
        Value::F64(value) => {
            out.push(b'"');
            float(out, *value);
            out.push(b'"');
        }
        Value::Nothing => out.extend_from_slice(b"null"),
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
        Value::Enum { .. } | Value::Several { .. } => quoted(out, value.labels().next().unwrap_or_default().as_bytes()),
        Value::Flags { value, flags } => {
            out.push(b'[');
            let mut known = 0;
            for (index, flag) in flags.flags.iter().filter(|flag| value & flag.mask() != 0).enumerate() {
                out.extend_from_slice(if index == 0 { b"" } else { b"," });
                quoted(out, flag.label.as_bytes());
                known |= flag.mask();
            }
            // Bits without a label are shown as their number.
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

/// Returns true if [`labelled`] may have something to append for the value.
#[inline]
pub fn may_be_labelled(value: &Value<'_>) -> bool {
    match value {
        Value::Enum { .. } | Value::Several { .. } | Value::Flags { .. } => true,
        Value::Nested(nested) => nested.may_have_labels(),
        _ => false,
    }
}

/// Appends, for programs, a member for each enumeration and bit map in `value`, with its number and
/// all of its labels. The member's name is what a filter calls the value; `path` is that name for
/// `value` itself.
pub fn labelled(out: &mut Vec<u8>, path: &mut String, value: &Value<'_>) {
    let number = match value {
        Value::Enum { value, .. } | Value::Several { value, .. } => *value,
        Value::Flags { value, .. } => i128::from(*value),
        Value::Nested(nested) if nested.may_have_labels() => {
            let (length, mut index) = (path.len(), 0);
            let ended: Result<(), std::convert::Infallible> = nested.each(|name, part| {
                match name {
                    Some(name) => path.extend([".", name]),
                    None => path.push_str(&format!("[{index}]")),
                }
                labelled(out, path, &part);
                path.truncate(length);
                index += 1;
                Ok(())
            });
            let Ok(()) = ended;
            return;
        }
        _ => return,
    };
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    quoted(out, path.as_bytes());
    let _ = write!(out, ":{{\"value\":{number},\"labels\":[");
    for (index, label) in value.labels().enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"," });
        quoted(out, label.as_bytes());
    }
    out.extend_from_slice(b"]}");
}

/// Appends a JSON string; people see texts in the same form. Bytes that are not UTF-8 are replaced.
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
    fn numbers_are_formatted_as_by_the_standard_library() {
        for value in [0, 9, 10, 99, 100, 12_345, u64::MAX / 2, u64::MAX] {
            assert_eq!(shown(|out| unsigned(out, value)), value.to_string());
        }
        for value in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(shown(|out| signed(out, value)), value.to_string());
        }
        let mut value = 1u64;
        while let Some(next) = value.checked_mul(7) {
            for value in [value, value.next_power_of_two() % value, 10u64.pow(value.ilog10()), 10u64.pow(value.ilog10()) - 1] {
                assert_eq!(shown(|out| unsigned(out, value)), value.to_string());
                let mut decimals = [0; 9];
                put_nine_digits(&mut decimals, value % SECOND);
                assert_eq!(decimals.as_slice(), format!("{:09}", value % SECOND).as_bytes());
            }
            value = next;
        }
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
    fn a_time_is_shown_with_the_time_since_the_last_one() {
        let mut time = TimeOfDay::default();
        let mut line = |ns, last| shown(|out| time.show_since(out, ns, last));
        assert_eq!(line(5, None), "[00:00:00.000000005] (+?.?????????) ");
        assert_eq!(line(1_000_000_004, Some(5)), "[00:00:01.000000004] (+0.999999999) ");
        assert_eq!(line(1_000_000_004, Some(4)), "[00:00:01.000000004] (+1.000000000) ");
        assert_eq!(line(7, Some(1_000_000_004)), "[00:00:00.000000007] (-0.999999997) ");
        assert_eq!(line(i64::MIN, Some(i64::MAX)), "[00:12:43.145224192] (-18446744073.709551615) ");
    }

    #[test]
    fn every_value_is_written_as_valid_json() {
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
    fn integers_are_shown_in_their_preferred_base() {
        assert_eq!(shown(|out| text(out, &Value::U64(0x55f5), 16)), "0x55F5");
        assert_eq!(shown(|out| text(out, &Value::I64(-5), 16)), "-5");
        assert_eq!(shown(|out| text(out, &Value::U64(8), 8)), "010");
    }
}
