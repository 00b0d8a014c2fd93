//! A fast hash for integer keys.
//!
//! Most tables of a trace have keys that this program assigned itself, in the order of first
//! appearance; some have addresses of kernel objects (timers, packets, work items). For such keys
//! the protection of the standard hash against chosen keys is of little use, and these tables are
//! where it would cost most. Keys that a program chooses freely (call ids, objects) use the
//! standard hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

#[derive(Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0, value);
    }
}

/// The hash of everything that `hash` covers, followed by `value`.
#[inline]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    fn different<K: Hash>(keys: impl Iterator<Item = K>) -> usize {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        keys.map(|key| hasher.hash_one(key)).collect::<HashSet<u64>>().len()
    }

    /// Otherwise each look-up would compare the key with many others.
    #[test]
    fn keys_have_different_hashes() {
        assert_eq!(different(0u32..1_000), 1_000);
        assert_eq!(different((0u64..1_000).map(|at| 0xffff_8880_0000_0000 + (at << 8))), 1_000);
        assert_eq!(different((0i32..1_000).map(|at| (at % 10, at / 10))), 1_000);
    }
}
