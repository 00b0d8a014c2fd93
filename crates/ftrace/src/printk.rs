//! Formats the events of `trace_printk`. The kernel stores the address of a format text and the raw
//! arguments; the texts are listed in `printk_formats`.
//!
//! Arguments are stored one after the other, as the kernel's `vbin_printf` writes them. Numbers of
//! up to four bytes and single characters are aligned to their size; a number of 8 bytes is stored
//! as two words and aligned to 4. Texts are stored with their zero byte. Newer kernels print
//! extended forms of `%p` into the buffer, so these are stored as texts.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::byte_order::ByteOrder;

/// Format texts by their addresses, which are part of the events.
#[derive(Clone, Debug, Default)]
pub struct Printk {
    texts: HashMap<u64, Vec<u8>>,
}

impl Printk {
    /// Parses lines of `0xADDRESS : "TEXT"` with escapes in the text. Other lines are ignored.
    pub fn parse(lines: &[u8]) -> Printk {
        let mut texts = HashMap::new();
        for line in lines.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let address = String::from_utf8_lossy(&line[..colon]);
            let address = address.trim().trim_start_matches("0x");
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            let text = line[colon + 1..].trim_ascii();
            let text = text.strip_prefix(b"\"").unwrap_or(text);
            let text = text.strip_suffix(b"\"").unwrap_or(text);
            texts.insert(address, unescape(text));
        }
        Printk { texts }
    }

    /// The text at an address.
    pub fn text(&self, address: u64) -> Option<&[u8]> {
        self.texts.get(&address).map(Vec::as_slice)
    }

    /// Formats arguments by a format text. Missing arguments are printed as nothing. `long` is the
    /// size of the kernel's `long` in bytes.
    pub fn print(&self, text: &[u8], arguments: &[u8], order: ByteOrder, long: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text;
        let mut from = Arguments { bytes: arguments, at: 0, order };
        while let Some(percent) = rest.iter().position(|&byte| byte == b'%') {
            out.extend_from_slice(&rest[..percent]);
            rest = &rest[percent..];
            match Conversion::parse(rest) {
                Some((conversion, length)) => {
                    rest = &rest[length..];
                    conversion.print(&mut out, &mut from, long);
                }
                None => {
                    out.push(b'%');
                    rest = &rest[1..];
                }
            }
        }
        out.extend_from_slice(rest);
        while out.last().is_some_and(|&byte| byte == b'\n') {
            out.pop();
        }
        out
    }
}

/// Replaces the escapes `\n`, `\t`, `\"` and `\\`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, byte == b'\\') {
            (_, true) => match bytes.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(&other) => out.push(other),
                None => out.push(b'\\'),
            },
            (byte, false) => out.push(byte),
        }
    }
    out
}

struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Arguments<'a> {
    /// Reads a number of `size` bytes.
    fn number(&mut self, size: usize) -> Option<u64> {
        let align = size.min(4);
        let at = self.at.next_multiple_of(align);
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        self.at = at + size;
        self.order.unsigned(bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        self.at += end + 1;
        Some(&rest[..end])
    }
}

/// A conversion `%…` of a format text.
#[derive(Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    zero: bool,
    alternate: bool,
    width: Option<Size>,
    precision: Option<Size>,
    /// Size of the number in bytes; 0 means the size of a `long`.
    size: usize,
    kind: u8,
    /// First character after `%p`; 0 if there is none.
    more: u8,
}

enum Size {
    Said(usize),
    Argument,
}

/// Maximum width in columns, to bound memory.
const MAX_WIDTH: usize = 1024;

impl Conversion {
    /// Parses the conversion at the start of a text; also returns its length.
    fn parse(text: &[u8]) -> Option<(Conversion, usize)> {
        let mut conversion = Conversion { size: 4, ..Conversion::default() };
        let mut at = 1;
        loop {
            match text.get(at)? {
                b'-' => conversion.left = true,
                b'+' => conversion.plus = true,
                b' ' => conversion.space = true,
                b'0' => conversion.zero = true,
                b'#' => conversion.alternate = true,
                _ => break,
            }
            at += 1;
        }
        let size = |at: &mut usize| -> Option<Size> {
            if text.get(*at) == Some(&b'*') {
                *at += 1;
                return Some(Size::Argument);
            }
            let digits = text[*at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&text[*at..*at + digits]).ok()?.parse::<usize>().ok();
            *at += digits;
            number.map(|number| Size::Said(number.min(MAX_WIDTH)))
        };
        conversion.width = size(&mut at);
        if text.get(at) == Some(&b'.') {
            at += 1;
            conversion.precision = Some(size(&mut at).unwrap_or(Size::Said(0)));
        }
        loop {
            match text.get(at)? {
                b'h' if conversion.size == 2 => conversion.size = 1,
                b'h' => conversion.size = 2,
                b'l' if conversion.size == 0 => conversion.size = 8,
                b'l' | b'z' | b't' | b'Z' => conversion.size = 0,
                b'L' | b'q' | b'j' => conversion.size = 8,
                _ => break,
            }
            at += 1;
        }
        conversion.kind = *text.get(at)?;
        at += 1;
        if conversion.kind == b'p' {
            let more = text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            conversion.more = text.get(at).copied().filter(|_| more > 0).unwrap_or(0);
            at += more;
        }
        b"diuxXocsp%".contains(&conversion.kind).then_some((conversion, at))
    }

    fn print(&self, out: &mut Vec<u8>, from: &mut Arguments<'_>, long: usize) {
        let mut of = |size: &Option<Size>| match size {
            Some(Size::Said(number)) => Some(*number),
            Some(Size::Argument) => from.number(4).map(|number| (number as u32 as usize).min(MAX_WIDTH)),
            None => None,
        };
        let (width, precision) = (of(&self.width), of(&self.precision));
        let size = if self.size == 0 { long } else { self.size };
        let (sign, digits): (&str, Cow<'_, [u8]>) = match self.kind {
            b'%' => ("", Cow::Borrowed(b"%")),
            b'c' => ("", Cow::Owned(from.number(1).map(|byte| vec![byte as u8]).unwrap_or_default())),
            b's' => {
                let text = from.text().unwrap_or_default();
                ("", Cow::Borrowed(&text[..precision.unwrap_or(text.len()).min(text.len())]))
            }
            // These print the name of a function or an address, which cannot be resolved from the
            // file alone, so they are printed as numbers. All others are already texts.
            b'p' if matches!(self.more, 0 | b'K' | b'x' | b's' | b'S' | b'f' | b'F' | b'B') => match from.number(long) {
                Some(address) => ("0x", Cow::Owned(format!("{address:x}").into_bytes())),
                None => ("", Cow::Borrowed(b"")),
            },
            b'p' => ("", Cow::Borrowed(from.text().unwrap_or_default())),
            kind => {
                let Some(number) = from.number(size) else { return };
                let unused = 64 - 8 * size.min(8) as u32;
                let signed = ((number << unused) as i64) >> unused;
                let mut digits = match kind {
                    b'd' | b'i' => signed.unsigned_abs().to_string(),
                    b'x' => format!("{number:x}"),
                    b'X' => format!("{number:X}"),
                    b'o' => format!("{number:o}"),
                    _ => number.to_string(),
                };
                if let Some(precision) = precision {
                    digits = format!("{digits:0>precision$}");
                }
                let sign = match kind {
                    b'd' | b'i' if signed < 0 => "-",
                    b'd' | b'i' if self.plus => "+",
                    b'd' | b'i' if self.space => " ",
                    b'x' if self.alternate => "0x",
                    b'X' if self.alternate => "0X",
                    b'o' if self.alternate => "0",
                    _ => "",
                };
                (sign, Cow::Owned(digits.into_bytes()))
            }
        };
        let fill = width.unwrap_or(0).saturating_sub(sign.len() + digits.len());
        let zeroes = self.zero && !self.left && precision.is_none() && !matches!(self.kind, b's' | b'c');
        let pad = |out: &mut Vec<u8>, with: u8| out.resize(out.len() + fill, with);
        if !self.left && !zeroes {
            pad(out, b' ');
        }
        out.extend_from_slice(sign.as_bytes());
        if zeroes {
            pad(out, b'0');
        }
        out.extend_from_slice(&digits);
        if self.left {
            pad(out, b' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, arguments: &[u8]) -> String {
        let printk = Printk::parse(format!("0xffffffff81a00000 : \"{text}\"\n").as_bytes());
        let text = printk.text(0xffff_ffff_81a0_0000).unwrap();
        String::from_utf8(printk.print(text, arguments, ByteOrder::Little, 8)).unwrap()
    }

    #[test]
    fn arguments_are_printed_as_the_kernel_prints_them() {
        assert_eq!(printed("cpu: %d freq: %u\\n", &[3, 0, 0, 0, 0, 0x35, 0xc, 0]), "cpu: 3 freq: 800000");
        assert_eq!(printed("%s %5d|%-5d|%05d|%x", b"two\0\xff\xff\xff\xff\x07\0\0\0\x08\0\0\0\x1f\0\0\0"), "two    -1|7    |00008|1f");
        assert_eq!(printed("%lu %hhd %c%%", &[1, 0, 0, 0, 0, 0, 0, 0, 0xff, b'x']), "1 -1 x%");
        assert_eq!(printed("%llx %p %pS", &[[1; 8], [2; 8], [3; 8]].concat()), "101010101010101 0x202020202020202 0x303030303030303");
        assert_eq!(printed("%*d %.2s %#x", &[3, 0, 0, 0, 9, 0, 0, 0, b'a', b'b', b'c', 0, 16, 0, 0, 0]), "  9 ab 0x10");
    }

    #[test]
    fn a_text_without_its_arguments_and_one_that_ends_early_are_printed_as_far_as_they_go() {
        for cut in 0..12 {
            let text = "%-8s %08lx %*.*d %pM %";
            printed(&text[..text.len() - cut.min(text.len())], &vec![b'a'; cut]);
        }
        assert_eq!(printed("%s|%d|%q", b""), "||%q");
        assert!(Printk::parse(b"nothing\n0xzz : \"a\"\n: \"b\"\n\xff\xfe:").texts.is_empty());
    }
}
