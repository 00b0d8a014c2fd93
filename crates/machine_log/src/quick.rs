//! Parses the common forms of a line in one pass: keys and strings without escapes, integers
//! without signs.
//!
//! Every other line, valid or not, is left to the complete JSON parser ([`crate::json`]), which
//! also knows the reasons of errors. Therefore this parser may give up at any time, but it must
//! never accept a line that the other one would refuse.

use crate::fields::{bit, Fields, KIND};
use crate::line::{Amount, Flow, Text};
use std::borrow::Cow;

struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Parses a line into empty fields. Returns `None` if the line has another form; the content of the
/// fields is then meaningless.
pub fn parse<'a>(bytes: &'a [u8], fields: &mut Fields<'a>) -> Option<()> {
    let mut from = Cursor { text: std::str::from_utf8(bytes).ok()?, bytes, at: 0 };
    from.expect(b'{')?;
    loop {
        let key = from.text()?;
        from.expect(b':')?;
        let bit = match key {
            "t" => {
                fields.t = Some(from.integer()?);
                const { bit("t") }
            }
            "at" => {
                fields.at = Some(from.integer()?);
                const { bit("at") }
            }
            "capacity" => {
                fields.capacity = Some(from.integer()?);
                const { bit("capacity") }
            }
            "initial" => {
                fields.initial = Some(from.integer()?);
                const { bit("initial") }
            }
            "host" => {
                fields.host = from.cow()?;
                const { bit("host") }
            }
            "machine" => {
                fields.machine = from.cow()?;
                const { bit("machine") }
            }
            "class" => {
                fields.class = from.cow()?;
                const { bit("class") }
            }
            "state" => {
                fields.state = from.cow()?;
                const { bit("state") }
            }
            "blocked" => {
                fields.blocked = from.cow()?;
                const { bit("blocked") }
            }
            "on" => {
                fields.on = from.cow()?;
                const { bit("on") }
            }
            "for" => {
                fields.wants = from.cow()?;
                const { bit("for") }
            }
            "put" => {
                fields.put = from.cow()?;
                const { bit("put") }
            }
            "get" => {
                fields.get = from.cow()?;
                const { bit("get") }
            }
            "peek" => {
                fields.peek = from.cow()?;
                const { bit("peek") }
            }
            "reserve" => {
                fields.reserve = from.cow()?;
                const { bit("reserve") }
            }
            "link" => {
                fields.link = from.cow()?;
                const { bit("link") }
            }
            "end" => {
                fields.end = from.cow()?;
                const { bit("end") }
            }
            "queue" => {
                fields.queue = from.cow()?;
                const { bit("queue") }
            }
            "order" => {
                fields.order = from.cow()?;
                const { bit("order") }
            }
            "unit" => {
                fields.unit = from.cow()?;
                const { bit("unit") }
            }
            "n" => {
                fields.n = Some(from.amount()?);
                const { bit("n") }
            }
            "flow" => {
                fields.flow = Some(from.flow()?);
                const { bit("flow") }
            }
            "woken_by" => {
                fields.woken_by = Some(from.nullable()?);
                const { bit("woken_by") }
            }
            "forked_by" => {
                fields.forked_by = Some(from.nullable()?);
                const { bit("forked_by") }
            }
            "on_top_of" => {
                fields.on_top_of = Some(from.nullable()?);
                const { bit("on_top_of") }
            }
            "pop" => {
                fields.pop = from.word(b"true")?;
                const { bit("pop") }
            }
            "stop" => {
                fields.stop = from.word(b"true")?;
                const { bit("stop") }
            }
            "merge" => {
                fields.merge = from.word(b"true")?;
                const { bit("merge") }
            }
            KIND if fields.kind.is_none() => {
                fields.kind = from.cow()?;
                0
            }
            _ => return None,
        };
        if fields.keys & bit != 0 {
            return None;
        }
        fields.keys |= bit;
        match from.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    from.skip();
    (from.at == bytes.len()).then_some(())
}

/// Marks, at their highest bits, the bytes of a word that end a plain text. Only the lowest mark is
/// exact.
fn ends(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = LOW << 7;
    let is = |byte: u8| {
        let other = word ^ (LOW * u64::from(byte));
        other.wrapping_sub(LOW) & !other
    };
    (is(b'"') | is(b'\\') | word.wrapping_sub(LOW * u64::from(b' ')) & !word) & HIGH
}

impl<'a> Cursor<'a> {
    fn skip(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Returns the next byte that is not whitespace.
    fn next(&mut self) -> Option<u8> {
        self.skip();
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn expect_here(&mut self, byte: u8) -> Option<()> {
        (*self.bytes.get(self.at)? == byte).then(|| self.at += 1)
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.bytes.get(self.at).copied()
    }

    fn word(&mut self, word: &[u8]) -> Option<bool> {
        self.skip();
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())?;
        Some(true)
    }

    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let begin = self.at;
        while let Some(word) = self.bytes[self.at..].first_chunk() {
            let ends = ends(u64::from_le_bytes(*word));
            self.at += ends.trailing_zeros() as usize / 8;
            if ends != 0 {
                break;
            }
        }
        self.at += self.bytes[self.at..].iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let end = self.at;
        self.expect_here(b'"')?;
        self.text.get(begin..end)
    }

    fn cow(&mut self) -> Option<Option<Text<'a>>> {
        self.text().map(|text| Some(Cow::Borrowed(text)))
    }

    fn nullable(&mut self) -> Option<Option<Text<'a>>> {
        match self.peek()? {
            b'"' => Some(Some(Cow::Borrowed(self.text()?))),
            _ => self.word(b"null").map(|_| None),
        }
    }

    /// Parses an integer of at most 18 digits, which is below 2⁶³.
    fn integer(&mut self) -> Option<u64> {
        self.skip();
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let is_usual = (1..=18).contains(&length) && (rest[0] != b'0' || length == 1);
        if !is_usual || matches!(rest[length], b'.' | b'e' | b'E') {
            return None;
        }
        self.at += length;
        Some(rest[..length].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    fn amount(&mut self) -> Option<Amount> {
        match self.peek()? {
            b'"' => (self.text()? == "all").then_some(Amount::All),
            _ => self.integer().filter(|&n| n > 0).map(Amount::Units),
        }
    }

    fn flow(&mut self) -> Option<Flow<'a>> {
        match self.peek()? {
            b'"' => Some(Flow::Text(Cow::Borrowed(self.text()?))),
            _ => Some(Flow::Number(self.integer()?.into())),
        }
    }
}
