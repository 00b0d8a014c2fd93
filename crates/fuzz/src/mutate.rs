//! Mutates inputs: changes some bytes of a known one, or combines pieces of two.

use fastrand::Rng;

/// Maximum size of an input in bytes. Larger inputs find nothing more and only take longer.
pub const MAX_INPUT_BYTES: usize = 1 << 18;
const MAX_STEPS: usize = 8;

/// Numbers at which lengths, counts and times overflow or change their encoding.
const NUMBERS: [u64; 22] = [
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    31,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 48,
    (1 << 63) - 1,
    u64::MAX,
];

/// Characters that end, begin or join something in the texts that the targets read.
const LETTERS: &[u8] = b"{}[]()<>:;,.=\"'\\/*#-+ \n\t\0_0123456789aezAZ\x80\xff";

/// A mutated copy of one of `all`, which must not be empty. `words` are pieces of the format.
pub fn mutate(random: &mut Rng, all: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = random.choice(all).cloned().unwrap_or_default();
    for _ in 0..=random.usize(..MAX_STEPS) {
        step(random, &mut bytes, all, words);
    }
    bytes.truncate(MAX_INPUT_BYTES);
    bytes
}

fn step(random: &mut Rng, bytes: &mut Vec<u8>, all: &[Vec<u8>], words: &[&str]) {
    let at = random.usize(..=bytes.len());
    let length = range(random, bytes.len() - at);
    match random.usize(..13) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.usize(..8),
        1 if at < bytes.len() => bytes[at] = random.u8(..),
        2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1).wrapping_sub(2 * random.usize(..2) as u8),
        3 | 4 => number(random, bytes, at),
        5 => drop(bytes.drain(at..at + length)),
        6 => {
            let piece = bytes[at..at + length].to_vec();
            let to = random.usize(..=bytes.len());
            bytes.splice(to..to, piece);
        }
        7 => {
            let to = random.usize(..=bytes.len()).min(bytes.len() - length);
            bytes.copy_within(at..at + length, to);
        }
        8 => bytes.truncate(at),
        9 => {
            let letters: Vec<u8> = (0..1 + random.usize(..3)).map(|_| LETTERS[random.usize(..LETTERS.len())]).collect();
            bytes.splice(at..at, letters);
        }
        10 => {
            let Some(word) = random.choice(words) else { return };
            let over = if random.usize(..2) == 0 { 0 } else { length.min(word.len()) };
            bytes.splice(at..at + over, word.bytes());
        }
        11 => digits(random, bytes, at),
        _ => {
            let Some(other) = random.choice(all) else { return };
            let from = random.usize(..=other.len());
            let piece = range(random, other.len() - from);
            bytes.splice(at..at + length, other[from..from + piece].iter().copied());
        }
    }
}

/// A random length up to `most`, mostly a short one.
fn range(random: &mut Rng, most: usize) -> usize {
    match random.usize(..4) {
        0 => random.usize(..=most),
        1 => random.usize(..=most.min(256)),
        _ => random.usize(..=most.min(16)),
    }
}

/// Overwrites a binary number, in either byte order.
fn number(random: &mut Rng, bytes: &mut [u8], at: usize) {
    let width = [1, 2, 4, 8][random.usize(..4)];
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    let mut value = match random.usize(..3) {
        0 => random.u64(..) >> random.usize(..64),
        _ => NUMBERS[random.usize(..NUMBERS.len())].wrapping_add(random.usize(..3) as u64).wrapping_sub(1),
    };
    if random.usize(..3) == 0 {
        let mut word = [0; 8];
        word[..width].copy_from_slice(place);
        value = u64::from_le_bytes(word).wrapping_add(random.usize(..65) as u64).wrapping_sub(32);
    }
    let little = random.usize(..4) != 0;
    let word = if little { value.to_le_bytes() } else { value.to_be_bytes() };
    let word = if little { &word[..width] } else { &word[8 - width..] };
    place.copy_from_slice(word);
}

/// Replaces the next number in decimal digits after `at`.
fn digits(random: &mut Rng, bytes: &mut Vec<u8>, at: usize) {
    let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
    let length = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = match random.usize(..8) {
        0 => "-1".to_owned(),
        1 => "1e308".to_owned(),
        2 => "99999999999999999999999999".to_owned(),
        _ => NUMBERS[random.usize(..NUMBERS.len())].wrapping_add(random.usize(..2) as u64).to_string(),
    };
    bytes.splice(begin..begin + length, text.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_mutates_an_input_in_the_same_way_within_the_size_limit() {
        for seed in 0..2000 {
            let all = [Vec::new(), b"event { id = 12; };".to_vec(), vec![7; 100]];
            let one = mutate(&mut Rng::with_seed(seed), &all, &["stream", "["]);
            assert_eq!(one, mutate(&mut Rng::with_seed(seed), &all, &["stream", "["]));
            assert!(one.len() <= MAX_INPUT_BYTES);
        }
    }
}
