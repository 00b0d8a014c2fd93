//! Parses JSON text to values with their positions.

use super::RECORD_SEPARATOR;
use crate::error::{Span, SpanError};

type Result<T> = std::result::Result<T, SpanError>;

#[derive(Clone, Debug)]
pub(crate) struct Json {
    pub span: Span,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Null,
    /// A boolean. No property of CTF 2 metadata has such a value.
    Bool,
    Int(i128),
    /// Any other number. No property of CTF 2 metadata has such a value.
    Real,
    Text(String),
    List(Vec<Json>),
    Object(Vec<Member>),
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub name: String,
    pub value: Json,
}

/// Maximum depth of nesting: more than any tool writes, and small enough for the stack of a thread.
/// Deeper types use aliases.
const MAX_DEPTH: usize = 256;

/// Parses all texts of a sequence.
pub(crate) fn sequence(text: &str) -> Result<Vec<Json>> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, depth: 0 };
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    let mut texts = Vec::new();
    loop {
        reader.blank();
        while reader.rest().starts_with(RECORD_SEPARATOR) {
            reader.at += RECORD_SEPARATOR.len_utf8();
            reader.blank();
        }
        if reader.at == text.len() {
            return Ok(texts);
        }
        texts.push(reader.value()?);
    }
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.blank();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T> {
        let next = self.rest().chars().next();
        let found = match next {
            None => "the end of the metadata".to_owned(),
            Some(RECORD_SEPARATOR) => "the begin of the next fragment".to_owned(),
            Some(c) => format!("{c:?}"),
        };
        let span = Span { start: self.at, end: self.at + next.map_or(0, char::len_utf8) };
        Err(SpanError::new(span, format!("expected {wanted}, found {found}")))
    }

    fn value(&mut self) -> Result<Json> {
        self.blank();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => {
                let words = [("null", Kind::Null), ("true", Kind::Bool), ("false", Kind::Bool)];
                let Some((word, kind)) = words.into_iter().find(|(word, _)| self.rest().starts_with(word)) else {
                    return self.wrong("a JSON value");
                };
                self.at += word.len();
                kind
            }
        };
        Ok(Json { span: Span { start, end: self.at }, kind })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Kind>) -> Result<Kind> {
        if self.depth == MAX_DEPTH {
            return Err(SpanError::new(Span { start: self.at, end: self.at + 1 }, format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.depth += 1;
        self.at += 1;
        let kind = read(self);
        self.depth -= 1;
        kind
    }

    fn list(&mut self) -> Result<Kind> {
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(Kind::List(items));
        }
        loop {
            items.push(self.value()?);
            if !self.more(b']', "`,` or `]`")? {
                return Ok(Kind::List(items));
            }
        }
    }

    fn object(&mut self) -> Result<Kind> {
        let mut members: Vec<Member> = Vec::new();
        if self.eat(b'}') {
            return Ok(Kind::Object(members));
        }
        loop {
            self.blank();
            if self.peek() != Some(b'"') {
                return self.wrong("a property's name in quotes");
            }
            let start = self.at;
            let name = self.string()?;
            let span = Span { start, end: self.at };
            if !self.eat(b':') {
                return self.wrong("`:`");
            }
            // JSON does not define the meaning of duplicate properties, so they are errors. The
            // search is quadratic; it is skipped beyond 1000 properties.
            if members.len() < 1000 && members.iter().any(|m| m.name == name) {
                return Err(SpanError::new(span, format!("a second property `{name}`")));
            }
            let value = self.value()?;
            members.push(Member { name, value });
            if !self.more(b'}', "`,` or `}`")? {
                return Ok(Kind::Object(members));
            }
        }
    }

    /// Returns true if another item follows. JSON does not allow a comma after the last item, but
    /// people write it, and json-c accepts it.
    fn more(&mut self, end: u8, wanted: &str) -> Result<bool> {
        let comma = self.eat(b',');
        if self.eat(end) {
            return Ok(false);
        }
        if comma {
            Ok(true)
        } else {
            self.wrong(wanted)
        }
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            reader.at - from
        };
        self.at += usize::from(self.peek() == Some(b'-'));
        let zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 {
            return self.wrong("a digit");
        }
        if zero && whole > 1 {
            return Err(SpanError::new(Span { start, end: self.at }, "a number does not begin with 0"));
        }
        let mut real = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            real = true;
            if digits(self) == 0 {
                return self.wrong("a digit");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            real = true;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if digits(self) == 0 {
                return self.wrong("a digit");
            }
        }
        if real {
            return Ok(Kind::Real);
        }
        // An integer beyond 128 bits is out of range for every property, like any other number of
        // type [`Kind::Real`].
        Ok(self.text.get(start..self.at).and_then(|digits| digits.parse().ok()).map_or(Kind::Real, Kind::Int))
    }

    fn string(&mut self) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.rest().find(['"', '\\']).unwrap_or(self.rest().len());
            if let Some(control) = self.rest().as_bytes().iter().take(plain).position(|b| *b < 0x20) {
                let span = Span { start: self.at + control, end: self.at + control + 1 };
                return Err(SpanError::new(span, "a text may hold a control character only as an escape"));
            }
            out.push_str(self.text.get(self.at..self.at + plain).unwrap_or(""));
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(_) => out.push(self.escape()?),
                None => return Err(SpanError::new(Span { start, end: start + 1 }, "this text has no end")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let unknown = |at: usize| SpanError::new(Span { start, end: at }, "unknown escape");
        let escape = self.bytes.get(self.at + 1).copied().unwrap_or(b' ');
        self.at += 2;
        Ok(match escape {
            b'"' | b'\\' | b'/' => escape as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex().ok_or_else(|| unknown(start + 2))?;
                let code = match unit {
                    0xd800..=0xdbff if self.rest().starts_with("\\u") => {
                        self.at += 2;
                        let low = self.hex().filter(|low| (0xdc00..=0xdfff).contains(low)).ok_or_else(|| unknown(self.at))?;
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    unit => unit,
                };
                char::from_u32(code).ok_or_else(|| unknown(self.at))?
            }
            _ => return Err(unknown(start + 1)),
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}
