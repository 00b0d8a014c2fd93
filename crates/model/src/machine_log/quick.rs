//! The common shapes of a line, read in one go: keys without escapes, strings without escapes, integers without signs.
//!
//! What is not of these shapes, right or wrong, is for the reader that knows all of JSON ([`super::line`]) and says what is wrong with it. So this
//! one may give up at any time, and never accepts what the other one would refuse.

use super::line::{By, Line, Number, KEYS, NUMBERED};
use std::borrow::Cow;

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// None: somebody else is to read it.
pub fn parse(bytes: &[u8]) -> Option<Line<'_>> {
    let mut from = Cursor { bytes, at: 0 };
    let mut line = Line::default();
    from.expect(b'{')?;
    loop {
        let key = from.text()?;
        let at = KEYS.iter().position(|known| *known == key)?;
        if line.keys & 1 << at != 0 {
            return None;
        }
        line.keys |= 1 << at;
        from.expect(b':')?;
        match KEYS[at] {
            "t" => line.t = Some(from.integer()?),
            "at" => line.at = Some(from.integer()?),
            "capacity" => line.capacity = Some(from.integer()?),
            "initial" => line.initial = Some(from.integer()?),
            "n" => line.n = Some(from.number()?),
            "flow" => line.flow = Some(from.flow()?),
            "woken_by" => line.woken_by = Some(By(from.nullable()?)),
            "forked_by" => line.forked_by = Some(By(from.nullable()?)),
            "on_top_of" => line.on_top_of = Some(from.nullable()?),
            "pop" => line.pop = from.word(b"true")?,
            "stop" => line.stop = from.word(b"true")?,
            "merge" => line.merge = from.word(b"true")?,
            _ => *line.text_of(at)? = Some(Cow::Borrowed(from.text()?)),
        }
        match from.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    from.skip();
    (from.at == bytes.len()).then_some(line)
}

impl<'a> Line<'a> {
    /// Where the text of a key goes.
    fn text_of(&mut self, key: usize) -> Option<&mut Option<Cow<'a, str>>> {
        Some(match KEYS[key] {
            "host" => &mut self.host,
            "machine" => &mut self.machine,
            "class" => &mut self.class,
            "state" => &mut self.state,
            "blocked" => &mut self.blocked,
            "on" => &mut self.on,
            "for" => &mut self.wants,
            "put" => &mut self.put,
            "get" => &mut self.get,
            "peek" => &mut self.peek,
            "reserve" => &mut self.reserve,
            "link" => &mut self.link,
            "end" => &mut self.end,
            "queue" => &mut self.queue,
            "order" => &mut self.order,
            "unit" => &mut self.unit,
            _ => return None,
        })
    }
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

    fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.bytes.get(self.at).copied()
    }

    fn word(&mut self, word: &[u8]) -> Option<bool> {
        self.skip();
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())?;
        Some(true)
    }

    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        if rest[length] != b'"' {
            return None;
        }
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).ok()
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
