//! The common shapes of a line, read in one go: keys without escapes, strings without escapes, integers without signs.
//!
//! What is not of these shapes, right or wrong, is for the reader that knows all of JSON ([`super::line`]) and says what is wrong with it. So this
//! one may give up at any time, and never accepts what the other one would refuse.

use super::line::{bit, kind_of_word, By, Line, Number, KIND, NUMBERED};
use std::borrow::Cow;

struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Into an empty line. None: somebody else is to read it, and what is in the line by now says nothing.
pub fn parse<'a>(bytes: &'a [u8], line: &mut Line<'a>) -> Option<()> {
    let mut from = Cursor { text: std::str::from_utf8(bytes).ok()?, bytes, at: 0 };
    from.expect(b'{')?;
    loop {
        let key = from.text()?;
        from.expect(b':')?;
        let bit = match key {
            "t" => {
                line.t = Some(from.integer()?);
                const { bit("t") }
            }
            "at" => {
                line.at = Some(from.integer()?);
                const { bit("at") }
            }
            "capacity" => {
                line.capacity = Some(from.integer()?);
                const { bit("capacity") }
            }
            "initial" => {
                line.initial = Some(from.integer()?);
                const { bit("initial") }
            }
            "host" => {
                line.host = from.cow()?;
                const { bit("host") }
            }
            "machine" => {
                line.machine = from.cow()?;
                const { bit("machine") }
            }
            "class" => {
                line.class = from.cow()?;
                const { bit("class") }
            }
            "state" => {
                line.state = from.cow()?;
                const { bit("state") }
            }
            "blocked" => {
                line.blocked = from.cow()?;
                const { bit("blocked") }
            }
            "on" => {
                line.on = from.cow()?;
                const { bit("on") }
            }
            "for" => {
                line.wants = from.cow()?;
                const { bit("for") }
            }
            "put" => {
                line.put = from.cow()?;
                const { bit("put") }
            }
            "get" => {
                line.get = from.cow()?;
                const { bit("get") }
            }
            "peek" => {
                line.peek = from.cow()?;
                const { bit("peek") }
            }
            "reserve" => {
                line.reserve = from.cow()?;
                const { bit("reserve") }
            }
            "link" => {
                line.link = from.cow()?;
                const { bit("link") }
            }
            "end" => {
                line.end = from.cow()?;
                const { bit("end") }
            }
            "queue" => {
                line.queue = from.cow()?;
                const { bit("queue") }
            }
            "order" => {
                line.order = from.cow()?;
                const { bit("order") }
            }
            "unit" => {
                line.unit = from.cow()?;
                const { bit("unit") }
            }
            "n" => {
                line.n = Some(from.number()?);
                const { bit("n") }
            }
            "flow" => {
                line.flow = Some(from.flow()?);
                const { bit("flow") }
            }
            "woken_by" => {
                line.woken_by = Some(By(from.nullable()?));
                const { bit("woken_by") }
            }
            "forked_by" => {
                line.forked_by = Some(By(from.nullable()?));
                const { bit("forked_by") }
            }
            "on_top_of" => {
                line.on_top_of = Some(from.nullable()?);
                const { bit("on_top_of") }
            }
            "pop" => {
                line.pop = from.word(b"true")?;
                const { bit("pop") }
            }
            "stop" => {
                line.stop = from.word(b"true")?;
                const { bit("stop") }
            }
            "merge" => {
                line.merge = from.word(b"true")?;
                const { bit("merge") }
            }
            KIND if line.kind.is_none() => {
                line.kind = Some(kind_of_word(from.text()?)?);
                0
            }
            _ => return None,
        };
        if line.keys & bit != 0 {
            return None;
        }
        line.keys |= bit;
        match from.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    from.skip();
    (from.at == bytes.len()).then_some(())
}

/// Of each byte of a word: whether it ends a plain text, at its highest bit. The lowest mark is exact.
fn ends(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = LOW << 7;
    let is = |byte: u8| {
        let other = word ^ LOW * u64::from(byte);
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

    /// The next byte that is no space.
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

    fn cow(&mut self) -> Option<Option<Cow<'a, str>>> {
        self.text().map(|text| Some(Cow::Borrowed(text)))
    }

    fn nullable(&mut self) -> Option<Option<Cow<'a, str>>> {
        match self.peek()? {
            b'"' => Some(Some(Cow::Borrowed(self.text()?))),
            _ => self.word(b"null").map(|_| None),
        }
    }

    /// At most 18 digits, so that it is below 2⁶³.
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

    fn number(&mut self) -> Option<Number> {
        match self.peek()? {
            b'"' => (self.text()? == "all").then_some(Number::All),
            _ => self.integer().filter(|&n| n > 0).map(Number::Units),
        }
    }

    fn flow(&mut self) -> Option<Cow<'a, str>> {
        match self.peek()? {
            b'"' => Some(Cow::Borrowed(self.text()?)),
            _ => Some(Cow::Owned(format!("{NUMBERED}{}", self.integer()?))),
        }
    }
}
