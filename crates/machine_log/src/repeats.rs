//! Caches lines that differ from an earlier line only in their time, as most lines of a log do.
//!
//! A line is a repetition if it begins with `{"t":TIME,` and the rest is equal, byte for byte. The
//! caller's value for the earlier line is then used again, and the line is not parsed.

/// Number of lines in the cache. A new line replaces the one with the same hash.
const PLACES: usize = 1 << 10;

/// Maximum number of bytes after the time. Longer lines are parsed each time.
const MAX_LINE_BYTES: usize = 120;

/// Values of the caller for earlier lines, for [`Reader::next_with`](crate::Reader::next_with): a
/// cache of 1,024 lines.
///
/// `T` must not depend on the line's time or number, and must remain valid for repetitions.
#[derive(Debug, Default)]
pub struct Repeats<T> {
    /// Cached lines; empty before the first line.
    places: Vec<Place<T>>,
}

#[derive(Debug)]
pub(crate) struct Place<T> {
    /// Bytes after the time, at most [`MAX_LINE_BYTES`]; empty if the place is unused.
    text: [u8; MAX_LINE_BYTES],
    length: u8,
    value: T,
}

/// Splits a line into its time and the bytes after it. Returns `None` if the line does not begin
/// with its time, or is too long.
#[inline]
pub(crate) fn split(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"t\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (mut t, mut length) = (0u64, 0);
    while let Some(digit) = rest.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        t = t.wrapping_mul(10).wrapping_add(digit.into());
        length += 1;
    }
    // Numbers of up to 18 digits are below 2⁶³. JSON allows no digits after a leading 0.
    let is_usual = (1..=18).contains(&length) && (rest[0] != b'0' || length == 1);
    let rest = rest[length..].strip_prefix(b",")?;
    (is_usual && !rest.is_empty() && rest.len() <= MAX_LINE_BYTES).then_some((t, rest))
}

fn place_of(rest: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (chunks, tail) = rest.as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let hash = chunks.iter().fold(rest.len() as u64, |hash, chunk| mix(hash, u64::from_le_bytes(*chunk)));
    let tail = tail.iter().fold(0, |all, &byte| all << 8 | u64::from(byte));
    (mix(hash, tail) >> 40) as usize % PLACES
}

impl<T: Default> Repeats<T> {
    /// Returns the place of a line with this rest.
    #[inline]
    pub(crate) fn place(&mut self, rest: &[u8]) -> &mut Place<T> {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || Place { text: [0; MAX_LINE_BYTES], length: 0, value: T::default() });
        }
        &mut self.places[place_of(rest)]
    }
}

impl<T> Place<T> {
    #[inline]
    pub(crate) fn holds(&self, rest: &[u8]) -> bool {
        self.text[..self.length.into()] == *rest
    }

    #[inline]
    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    pub(crate) fn keep(&mut self, rest: &[u8], value: T) {
        if let Some(text) = self.text.get_mut(..rest.len()) {
            text.copy_from_slice(rest);
            (self.length, self.value) = (rest.len() as u8, value);
        }
    }
}
