//! Text to tokens. Keywords are ordinary words here, because in TSDL `string` may be a type, the
//! name of an event or a field.

use crate::error::{Span, SpanError};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    /// A literal without its sign.
    Int(u64),
    Text(String),
    /// Punctuation, at most three characters.
    Mark(&'static str),
}

impl Token {
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(w) => format!("`{w}`"),
            Token::Int(i) => format!("`{i}`"),
            Token::Text(_) => "a text literal".to_owned(),
            Token::Mark(m) => format!("`{m}`"),
        }
    }
}

pub(crate) type Tokens = Vec<(Token, Span)>;

/// Ordered so that longer ones come first: `...` before `.`.
const MARKS: [&str; 19] = ["...", "->", ":=", "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", "=", ",", ".", "*", "-", "+"];

pub(crate) fn tokens(text: &str) -> Result<Tokens, SpanError> {
    let bytes = text.as_bytes();
    signature(text)?;
    if let Some(at) = bytes.iter().position(|&b| b == 0) {
        return Err(SpanError::new(Span { start: at, end: at + 1 }, "a NUL byte is no text"));
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let here = |len: usize| Span { start: at, end: at + len };
        match rest[0] {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => at += 1,
            b'\\' if rest.starts_with(b"\\\n") => at += 2,
            b'\\' if rest.starts_with(b"\\\r\n") => at += 3,
            b'/' if rest.starts_with(b"//") => at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => match rest[2..].windows(2).position(|w| w == b"*/") {
                Some(len) => at += len + 4,
                None => return Err(SpanError::new(here(rest.len()), "this comment has no end")),
            },
            b'_' | b'a'..=b'z' | b'A'..=b'Z' if !is_text_start(rest) => {
                let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                out.push((Token::Word(text[at..at + len].to_owned()), here(len)));
                at += len;
            }
            b'0'..=b'9' => {
                let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                out.push((Token::Int(integer(&text[at..at + len], here(len))?), here(len)));
                at += len;
            }
            b'"' | b'L' => {
                let prefix = usize::from(rest[0] == b'L') + 1;
                let (value, len) = quoted(bytes, at + prefix, b'"')?;
                out.push((Token::Text(value), here(prefix + len)));
                at += prefix + len;
            }
            b'\'' => {
                let (value, len) = quoted(bytes, at + 1, b'\'')?;
                let mut characters = value.chars();
                match (characters.next(), characters.next()) {
                    (Some(c), None) => out.push((Token::Int(u64::from(c)), here(1 + len))),
                    _ => return Err(SpanError::new(here(1 + len), "a character literal holds exactly one character")),
                }
                at += 1 + len;
            }
            _ => match MARKS.iter().find(|m| rest.starts_with(m.as_bytes())) {
                Some(mark) => {
                    out.push((Token::Mark(mark), here(mark.len())));
                    at += mark.len();
                }
                None => {
                    let c = text[at..].chars().next().unwrap_or('\u{fffd}');
                    return Err(SpanError::new(here(c.len_utf8()), format!("unexpected character {c:?}")));
                }
            },
        }
    }
    Ok(out)
}

/// Checks the version in the comment with which metadata may begin.
fn signature(text: &str) -> Result<(), SpanError> {
    let start = text.len() - text.trim_start().len();
    let Some(version) = text[start..].strip_prefix("/* CTF ") else { return Ok(()) };
    let end = version.find("*/").unwrap_or(0);
    if version[..end].trim() == "1.8" {
        return Ok(());
    }
    let line = text[start..].lines().next().unwrap_or("").len();
    let len = if end == 0 { line } else { "/* CTF ".len() + end + 2 };
    Err(SpanError::new(Span { start, end: start + len }, "only version 1.8 of the format has this syntax"))
}

/// `L"…"` is a text literal; any other word that begins with L is a word.
fn is_text_start(rest: &[u8]) -> bool {
    rest.starts_with(b"L\"")
}

fn integer(literal: &str, span: Span) -> Result<u64, SpanError> {
    let digits = literal.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        (hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b").or_else(|| digits.strip_prefix("0B")) {
        (binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (digits, 10)
    };
    u64::from_str_radix(digits, radix).map_err(|e| {
        SpanError::new(
            span,
            match e.kind() {
                std::num::IntErrorKind::PosOverflow => format!("integer `{literal}` needs more than 64 bits"),
                _ => format!("`{literal}` is no integer"),
            },
        )
    })
}

/// The value of a literal whose opening quote is located before `start`, and its length including
/// the closing quote.
fn quoted(bytes: &[u8], start: usize, quote: u8) -> Result<(String, usize), SpanError> {
    let mut value: Vec<u8> = Vec::new();
    let mut at = start;
    let unended = |end: usize| SpanError::new(Span { start: start - 1, end }, "this literal has no end");
    let cut = || unended(bytes.len());
    loop {
        let &byte = bytes.get(at).ok_or_else(cut)?;
        at += 1;
        if byte == quote {
            return Ok((String::from_utf8_lossy(&value).into_owned(), at - start));
        }
        match byte {
            b'\n' => return Err(unended(start)),
            b'\\' => {
                let &escape = bytes.get(at).ok_or_else(cut)?;
                at += 1;
                let digits = |from: usize, most: usize, radix: u32| {
                    let digits = bytes[from..].iter().take(most).take_while(|b| (**b as char).is_digit(radix)).count();
                    let value = bytes[from..from + digits].iter().fold(0u32, |v, b| v * radix + (*b as char).to_digit(radix).unwrap_or(0));
                    (value, digits)
                };
                match escape {
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'r' => value.push(b'\r'),
                    b'a' => value.push(7),
                    b'b' => value.push(8),
                    b'f' => value.push(12),
                    b'v' => value.push(11),
                    b'\\' | b'\'' | b'"' | b'?' => value.push(escape),
                    b'0'..=b'7' => {
                        let (v, len) = digits(at - 1, 3, 8);
                        at += len - 1;
                        value.push(v as u8);
                    }
                    b'x' if bytes.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                        // At most three digits, as in babeltrace. C has no limit, but more digits
                        // do not fit a byte.
                        let (v, len) = digits(at, 3, 16);
                        at += len;
                        value.push(v as u8);
                    }
                    b'u' | b'U' if bytes.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                        let (v, len) = digits(at, if escape == b'u' { 4 } else { 8 }, 16);
                        at += len;
                        let c = char::from_u32(v).unwrap_or(char::REPLACEMENT_CHARACTER);
                        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    // Unknown escapes are kept verbatim, because tracers write texts of programs
                    // without escaping: a path may contain backslashes.
                    _ => value.extend_from_slice(&[b'\\', escape]),
                }
            }
            _ => value.push(byte),
        }
    }
}
