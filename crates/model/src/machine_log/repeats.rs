//! Lines that differ from an earlier one in nothing but their time, as most lines of a log do: what they say is known without reading them.
//!
//! A line counts as the same if it begins `{"t":TIME,` and what follows is the same, byte for byte. Only what stays true is kept: nothing of a queue that is one
//! call's for a while, and no declaration, which comes once.

use crate::interaction::{Deed, Interaction};

/// A line takes the place of its hash from whoever had it.
const PLACES: usize = 1 << 10;

/// Longer lines, and those with more deeds, are read each time.
const LONGEST: usize = 120;
const MOST: usize = 2;

#[derive(Default)]
pub struct Repeats {
    /// None are there before the first line.
    places: Vec<Place>,
}

#[derive(Clone)]
struct Place {
    text: [u8; LONGEST],
    length: u8,
    count: u8,
    deeds: [Deed; MOST],
}

const NOTHING: Place = Place { text: [0; LONGEST], length: 0, count: 0, deeds: [Deed::Now; MOST] };

/// The time of a line, and what stands behind it. None: it does not begin as most do.
#[inline]
pub fn split(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"t\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (mut t, mut length) = (0u64, 0);
    while let Some(digit) = rest.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        t = t.wrapping_mul(10).wrapping_add(digit.into());
        length += 1;
    }
    // Up to 18 digits are below 2⁶³; one 0 more in front is an error that somebody else tells.
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

impl Repeats {
    /// Adds what a line with this behind its time does, if that is known.
    #[inline]
    pub fn find(&self, rest: &[u8], t: u64, line: u64, steps: &mut Vec<Interaction>) -> bool {
        let known = self.places.get(place_of(rest)).filter(|place| place.text[..place.length.into()] == *rest);
        let Some(place) = known else { return false };
        steps.extend(place.deeds[..place.count.into()].iter().map(|&deed| Interaction { t, line, deed }));
        true
    }

    /// These are all steps of a line with this behind its time.
    pub fn keep(&mut self, rest: &[u8], steps: &[Interaction]) {
        if steps.len() > MOST || rest.len() > LONGEST {
            return;
        }
        if self.places.is_empty() {
            self.places.resize(PLACES, NOTHING);
        }
        let place = &mut self.places[place_of(rest)];
        place.text[..rest.len()].copy_from_slice(rest);
        (place.length, place.count) = (rest.len() as u8, steps.len() as u8);
        for (deed, step) in place.deeds.iter_mut().zip(steps) {
            *deed = step.deed;
        }
    }
}
