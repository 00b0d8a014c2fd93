//! Sparse files in the pax format. A tar stores only the parts of them that are not holes. The
//! positions of the parts are in the header (versions 0.0 and 0.1) or at the begin of the entry
//! (1.0), as described in "Storing Sparse Files" of the GNU tar manual.

use std::collections::VecDeque;
use std::io::{self, Read};

/// Maximum number of parts of a file, because each is stored in memory.
const MAX_PARTS: usize = 1 << 20;
const BLOCK: u64 = 512;

/// Description of a sparse file in the header.
#[derive(Default)]
pub struct Sparse {
    pub name: Vec<u8>,
    length: u64,
    numbers: Vec<u64>,
    /// Set if the positions are before the content, at the begin of the entry.
    within: bool,
}

impl Sparse {
    /// Reads the description from an entry's extensions. Returns `None` if the file is not sparse.
    pub fn of<'a>(extensions: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Sparse> {
        let (mut sparse, mut found) = (Sparse::default(), false);
        for (key, value) in extensions {
            let Some(key) = key.strip_prefix("GNU.sparse.") else { continue };
            let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            found = true;
            match key {
                "name" => sparse.name = value.to_vec(),
                "realsize" | "size" => sparse.length = number(),
                "major" => sparse.within = number() > 0,
                "offset" | "numbytes" => sparse.numbers.push(number()),
                "map" => {
                    let text = String::from_utf8_lossy(value);
                    sparse.numbers.extend(text.split(',').map(|number| number.parse::<u64>().unwrap_or(0)));
                }
                _ => {}
            }
        }
        found.then_some(sparse)
    }

    /// Returns a reader of the whole content, with zeros for holes.
    pub fn read<R: Read>(self, mut input: R) -> io::Result<Whole<R>> {
        let numbers = if self.within { map(&mut input)? } else { self.numbers };
        let parts = numbers.chunks_exact(2).map(|part| (part[0], part[1])).collect();
        Ok(Whole { input, parts, at: 0, length: self.length })
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("a sparse file {what}"))
}

/// Reads the positions before the content: one number per line, first the number of parts, then
/// offset and length of each part.
fn map(input: &mut impl Read) -> io::Result<Vec<u64>> {
    let mut read = 0u64;
    let mut number = || {
        let mut value = 0u64;
        loop {
            let mut byte = [0];
            input.read_exact(&mut byte)?;
            read += 1;
            match byte[0] {
                b'\n' => return Ok::<u64, io::Error>(value),
                digit @ b'0'..=b'9' => {
                    let more = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
                    value = more.ok_or_else(|| wrong("has parts of an impossible length"))?;
                }
                _ => return Err(wrong("does not say where its parts lie")),
            }
        }
    };
    let count = usize::try_from(number()?).ok().filter(|count| *count <= MAX_PARTS).ok_or_else(|| wrong("has too many parts"))?;
    let mut numbers = Vec::new();
    for _ in 0..2 * count {
        numbers.push(number()?);
    }
    let rest = read.next_multiple_of(BLOCK) - read;
    io::copy(&mut input.take(rest), &mut io::sink())?;
    Ok(numbers)
}

/// Reader of a sparse file, with zeros for holes.
pub struct Whole<R> {
    input: R,
    parts: VecDeque<(u64, u64)>,
    at: u64,
    length: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = |left: u64| into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        while let Some((begin, length)) = self.parts.front_mut() {
            if self.at >= *begin && *length > 0 {
                let most = most(*length);
                let count = self.input.read(&mut into[..most])?;
                if count == 0 && most > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *length -= count as u64;
                // The next byte of the part is at the next position.
                *begin += count as u64;
                self.at += count as u64;
                return Ok(count);
            }
            if *length > 0 {
                let count = most(*begin - self.at);
                return Ok(self.hole(into, count));
            }
            self.parts.pop_front();
            if self.parts.front().is_some_and(|(begin, _)| *begin < self.at) {
                return Err(wrong("has parts that overlap"));
            }
        }
        let count = most(self.length.saturating_sub(self.at));
        Ok(self.hole(into, count))
    }
}

impl<R> Whole<R> {
    fn hole(&mut self, into: &mut [u8], count: usize) -> usize {
        into[..count].fill(0);
        self.at += count as u64;
        count
    }
}
