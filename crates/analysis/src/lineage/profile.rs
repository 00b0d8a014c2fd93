//! A sparse profile: how many ns of each key. Few entries in most nodes, hundreds in some.

#[derive(Clone, Debug, Default)]
pub struct Profile(Vec<(u32, u64)>);

/// Entries that are sought one by one.
const FEW: usize = 4;

impl Profile {
    pub fn add(&mut self, key: u32, ns: u64) {
        match self.find(key) {
            Ok(at) => self.0[at].1 += ns,
            Err(at) => {
                // A token's profile has often one entry, and there may be a million of them.
                if self.0.capacity() == 0 {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (key, ns));
            }
        }
    }

    /// Says whether there was as much.
    pub fn subtract(&mut self, key: u32, ns: u64) -> bool {
        let Ok(at) = self.find(key) else { return ns == 0 };
        let enough = self.0[at].1 >= ns;
        self.0[at].1 = self.0[at].1.saturating_sub(ns);
        if self.0[at].1 == 0 {
            self.0.remove(at);
        }
        enough
    }

    fn find(&self, key: u32) -> Result<usize, usize> {
        if self.0.len() <= 8 {
            let at = self.0.iter().position(|entry| entry.0 >= key).unwrap_or(self.0.len());
            return if self.0.get(at).is_some_and(|entry| entry.0 == key) { Ok(at) } else { Err(at) };
        }
        self.0.binary_search_by_key(&key, |entry| entry.0)
    }

    /// Takes over all of the other one, the smaller into the larger.
    pub fn absorb(&mut self, other: &mut Profile) {
        if self.0.len() < other.0.len() {
            std::mem::swap(self, other);
        }
        match other.0.len() {
            0..=FEW => other.0.iter().for_each(|&(key, ns)| self.add(key, ns)),
            _ => self.merge(&other.0),
        }
        other.0.clear();
    }

    /// Both are in the order of keys: from the back, so that each entry is moved once.
    fn merge(&mut self, other: &[(u32, u64)]) {
        let mut from = self.0.len();
        let own = self.0.as_slice();
        let mut at = 0;
        let is_new = |&&(key, _): &&(u32, u64)| {
            while own.get(at).is_some_and(|entry| entry.0 < key) {
                at += 1;
            }
            own.get(at).is_none_or(|entry| entry.0 != key)
        };
        let new = other.iter().filter(is_new).count();
        let mut to = from + new;
        self.0.resize(to, (0, 0));
        for &(key, ns) in other.iter().rev() {
            while from > 0 && self.0[from - 1].0 > key {
                (from, to) = (from - 1, to - 1);
                self.0[to] = self.0[from];
            }
            to -= 1;
            let mut sum = ns;
            if from > 0 && self.0[from - 1].0 == key {
                from -= 1;
                sum += self.0[from].1;
            }
            // Its place may be the one that was just read.
            self.0[to] = (key, sum);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn one_profile_in_another_is_the_sum_of_both(
            one in prop::collection::vec((0..40u32, 1..9u64), 0..40),
            other in prop::collection::vec((0..40u32, 1..9u64), 0..40),
        ) {
            let (mut sum, mut a, mut b) = (BTreeMap::new(), Profile::default(), Profile::default());
            for &(key, ns) in one.iter().chain(&other) {
                *sum.entry(key).or_insert(0) += ns;
            }
            one.iter().for_each(|&(key, ns)| a.add(key, ns));
            other.iter().for_each(|&(key, ns)| b.add(key, ns));
            a.absorb(&mut b);
            prop_assert_eq!(a.iter().collect::<Vec<_>>(), sum.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(b.iter().count(), 0);
        }
    }
}
