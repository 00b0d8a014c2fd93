//! Finds the ends of JSON values without parsing them.
//!
//! A file consists of small values or of a few huge ones. A value that is skipped is never in
//! memory; a value that is requested takes memory for its actual length, up to a limit. Only
//! brackets and strings are examined here; the parser that reads the value checks the rest.

use std::io::{self, Read};

/// Maximum number of bytes of a value. A longer one is skipped.
pub const MAX_VALUE_BYTES: usize = 16 << 20;
const WINDOW: usize = 256 << 10;

/// A problem, with its offset in the file in bytes.
#[derive(Debug)]
pub enum Fault {
    Io(io::Error),
    /// The file ends inside a value.
    Ends {
        at: u64,
    },
    Wrong {
        at: u64,
        what: String,
    },
}

impl Fault {
    pub fn wrong(at: u64, what: impl Into<String>) -> Fault {
        Fault::Wrong { at, what: what.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "cannot be read: {error}"),
            Fault::Ends { at } => write!(f, "the file ends at byte {at}"),
            Fault::Wrong { at, what } => write!(f, "at byte {at}: {what}"),
        }
    }
}

/// Bytes that open or close something, or change the meaning of the next byte.
const MEANS: [bool; 256] = {
    let mut means = [false; 256];
    let mut at = 0;
    while at < 6 {
        means[b"\"\\{}[]"[at] as usize] = true;
        at += 1;
    }
    means
};

/// State of scanning one value, which may come in several pieces.
#[derive(Default)]
struct Scan {
    depth: u64,
    begun: bool,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Scans further bytes. Returns how many of them belong to the value, if it ends among them.
    fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            // Within brackets, most bytes have no effect on the scan.
            if self.depth > 0 && !self.escaped {
                at += bytes[at..].iter().take_while(|byte| !MEANS[usize::from(**byte)]).count();
                if at == bytes.len() {
                    break;
                }
            }
            let byte = bytes[at];
            at += 1;
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                } else if byte == b'\\' {
                    self.escaped = true;
                } else if byte == b'"' {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth <= 1 => return Some(if self.depth == 1 { at } else { (at - 1).max(usize::from(!self.begun)) }),
                b'}' | b']' => self.depth -= 1,
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 => return Some((at - 1).max(usize::from(!self.begun))),
                _ => {}
            }
            self.begun = true;
        }
        None
    }

    /// Returns true if the value may end at the end of the file, as a number does.
    fn may_end(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}

/// The text of a file, through a window.
pub struct Text<R> {
    input: R,
    window: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the file.
    offset: u64,
}

impl<R: Read> Text<R> {
    pub fn new(input: R) -> Text<R> {
        Text { input, window: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads more bytes. Returns false at the end of the file.
    fn more(&mut self) -> Result<bool, Fault> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.window.len() {
            if self.start > 0 {
                self.window.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else {
                let size = (self.window.len() * 2).max(WINDOW);
                self.window.resize(size, 0);
            }
        }
        loop {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(count) => {
                    self.end = (self.end + count).min(self.window.len());
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error)),
            }
        }
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// Returns the next byte that is not whitespace, without consuming it; `None` at the end of the
    /// file.
    pub fn peek(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            let blanks = self.window[self.start..self.end].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.consume(blanks);
            if self.start < self.end {
                // A byte order mark is not part of JSON, but some programs write it.
                if self.offset == 0 && self.window[self.start] == 0xef {
                    while self.end - self.start < 3 && self.more()? {}
                    if self.window[self.start..self.end].starts_with(b"\xef\xbb\xbf") {
                        self.consume(3);
                        continue;
                    }
                }
                return Ok(Some(self.window[self.start]));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Returns the length of the value that begins here, and loads it into the window. Returns
    /// `None` if it is longer than [`MAX_VALUE_BYTES`]; the value is then skipped.
    pub fn value(&mut self) -> Result<Option<usize>, Fault> {
        let mut scan = Scan::default();
        let mut seen = 0;
        loop {
            if let Some(length) = scan.feed(&self.window[self.start + seen..self.end]) {
                return Ok(Some(seen + length));
            }
            seen = self.end - self.start;
            if seen > MAX_VALUE_BYTES {
                self.consume(seen);
                self.pass(scan)?;
                return Ok(None);
            }
            if !self.more()? {
                return if scan.may_end() { Ok(Some(seen)) } else { Err(Fault::Ends { at: self.offset + seen as u64 }) };
            }
        }
    }

    /// Returns the bytes of a value of known length.
    pub fn bytes(&self, length: usize) -> &[u8] {
        &self.window[self.start..self.start + length]
    }

    /// Skips the value that begins here, whatever its length.
    pub fn skip(&mut self) -> Result<(), Fault> {
        self.pass(Scan::default())
    }

    fn pass(&mut self, mut scan: Scan) -> Result<(), Fault> {
        loop {
            if let Some(length) = scan.feed(&self.window[self.start..self.end]) {
                self.consume(length);
                return Ok(());
            }
            self.consume(self.end - self.start);
            if !self.more()? {
                return if scan.may_end() { Ok(()) } else { Err(Fault::Ends { at: self.offset }) };
            }
        }
    }

    /// Returns the length of the next line without its end, and the number of bytes to consume. The
    /// length is `None` if the line is too long; the result is `None` at the end of the file.
    #[allow(clippy::type_complexity)]
    pub fn line(&mut self, longest: usize) -> Result<Option<(Option<usize>, usize)>, Fault> {
        let mut seen = 0;
        loop {
            let window = &self.window[self.start + seen..self.end];
            if let Some(at) = window.iter().position(|&byte| byte == b'\n') {
                let length = seen + at;
                return Ok(Some(((length <= longest).then_some(length), length + 1)));
            }
            seen = self.end - self.start;
            if seen > longest {
                return Ok(Some((None, seen)));
            }
            if !self.more()? {
                return Ok((seen > 0).then_some((Some(seen), seen)));
            }
        }
    }
}

/// Keys of the object that begins in some bytes.
pub enum Keys {
    /// All keys; the object ends within the bytes.
    All(Vec<String>),
    /// The first keys; the object continues after the bytes.
    Some(Vec<String>),
    Wrong,
}

/// Returns the keys of an object whose first bytes are known.
pub fn keys(bytes: &[u8]) -> Keys {
    let mut text = Text::new(bytes);
    let mut found = Vec::new();
    let mut read = || -> Result<bool, Fault> {
        if text.peek()? != Some(b'{') {
            return Ok(false);
        }
        text.consume(1);
        loop {
            match text.peek()? {
                Some(b'}') => return Ok(true),
                Some(b',') => text.consume(1),
                Some(b'"') => {
                    let Some(key) = key(&mut text)? else { return Ok(false) };
                    found.push(key);
                    text.skip()?;
                }
                Some(_) => return Ok(false),
                None => return Err(Fault::Ends { at: 0 }),
            }
        }
    };
    match read() {
        Ok(true) => Keys::All(found),
        Ok(false) => Keys::Wrong,
        Err(_) => Keys::Some(found),
    }
}

/// Reads a key and the colon after it. Returns `None` if there is something else.
pub fn key<R: Read>(text: &mut Text<R>) -> Result<Option<String>, Fault> {
    let Some(length) = text.value()? else { return Ok(None) };
    let key = serde_json::from_slice::<String>(text.bytes(length)).ok();
    text.consume(length);
    if text.peek()? != Some(b':') {
        return Ok(None);
    }
    text.consume(1);
    text.peek()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time, so that a window may end anywhere.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match (self.0.split_first(), into.first_mut()) {
                (Some((first, rest)), Some(place)) => {
                    *place = *first;
                    self.0 = rest;
                    Ok(1)
                }
                _ => Ok(0),
            }
        }
    }

    fn values(text: &str) -> Vec<String> {
        let mut text = Text::new(Drip(text.as_bytes()));
        let mut out = Vec::new();
        while text.peek().unwrap().is_some() {
            let length = text.value().unwrap().unwrap();
            out.push(String::from_utf8(text.bytes(length).to_vec()).unwrap());
            text.consume(length);
        }
        out
    }

    #[test]
    fn value_ends_with_its_brackets_or_string() {
        assert_eq!(values(r#" {"a":"}\"]"} [1,[2]] "x" 12 true"#), [r#"{"a":"}\"]"}"#, "[1,[2]]", r#""x""#, "12", "true"]);
    }

    #[test]
    fn unmatched_closing_bracket_is_a_value_of_one_byte_so_that_scanning_continues() {
        assert_eq!(values("}],"), ["}", "]", ","]);
    }

    #[test]
    fn unterminated_value_is_reported_with_its_offset() {
        let mut text = Text::new(&br#"{"a":"#[..]);
        assert!(matches!(text.value(), Err(Fault::Ends { at: 5 })));
    }
}
