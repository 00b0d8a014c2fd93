//! Lines that differ from an earlier one in nothing but their time, as most lines of a log do.
//!
//! A line counts as the same if it begins `{"t":TIME,` and the rest is the same, byte for byte. So
//! what the caller made of the earlier line serves for this one, which is not parsed.

/// Lines that are kept; a new one takes the place of the one with its hash.
const PLACES: usize = 1 << 10;

/// Longer lines are parsed each time.
const LONGEST: usize = 120;

/// What the caller made of earlier lines, for [`Reader::next_with`](crate::Reader::next_with): a
/// table of 1,024 lines.
///
/// `T` must not depend on the line's time or number, and must stay true.
#[derive(Debug, Default)]
pub struct Repeats<T> {
    /// Empty before the first line.
    places: Vec<Place<T>>,
}

#[derive(Debug)]
pub(crate) struct Place<T> {
    /// What follows the time; not longer than [`LONGEST`], and empty where nothing is kept.
    text: [u8; LONGEST],
    length: u8,
    value: T,
}

/// The time of a line, and what follows it. `None`: the line does not begin as most do, or is long.
#[inline]
pub(crate) fn split(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"t\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (mut t, mut length) = (0u64, 0);
    while let Some(digit) = rest.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        t = t.wrapping_mul(10).wrapping_add(digit.into());
        length += 1;
    }
    // Up to 18 digits are below 2⁶³. JSON has no further digits behind a first 0.
    let is_usual = (1..=18).contains(&length) && (rest[0] != b'0' || length == 1);
    let rest = rest[length..].strip_prefix(b",")?;
    (is_usual && !rest.is_empty() && rest.len() <= LONGEST).then_some((t, rest))
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
    /// The place of a line with this rest.
    #[inline]
    pub(crate) fn place(&mut self, rest: &[u8]) -> &mut Place<T> {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || Place { text: [0; LONGEST], length: 0, value: T::default() });
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
