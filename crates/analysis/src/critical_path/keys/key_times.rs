//! The time in ns of each key, of a stretch of a path. Most nodes have few entries, some have
//! hundreds.

/// Entries are in the order of keys.
#[derive(Clone, Debug)]
pub struct KeyTimes(Entries);

/// Few entries are stored in the node itself. Memory elsewhere would have left the CPU's caches by
/// the time that the node is freed.
#[derive(Clone, Debug)]
enum Entries {
    Few { count: u8, keys: [u32; WITHIN], ns: [u64; WITHIN] },
    Many(Vec<(u32, u64)>),
}

const WITHIN: usize = 3;

/// Largest number of entries that [`KeyTimes::absorb`] adds one by one instead of merging.
const MAX_ADDED_SINGLY: usize = 4;

impl Default for KeyTimes {
    fn default() -> KeyTimes {
        KeyTimes(Entries::Few { count: 0, keys: [0; WITHIN], ns: [0; WITHIN] })
    }
}

impl KeyTimes {
    pub fn add(&mut self, key: u32, ns: u64) {
        match &mut self.0 {
            Entries::Few { count, keys, ns: times } => {
                let used = usize::from(*count);
                let at = keys[..used].iter().position(|&known| known >= key).unwrap_or(used);
                if at < used && keys[at] == key {
                    times[at] += ns;
                } else if used < WITHIN {
                    keys.copy_within(at..used, at + 1);
                    times.copy_within(at..used, at + 1);
                    (keys[at], times[at], *count) = (key, ns, *count + 1);
                } else {
                    let mut many = Vec::with_capacity(2 * MAX_ADDED_SINGLY);
                    many.extend(keys.iter().copied().zip(times.iter().copied()));
                    many.insert(at, (key, ns));
                    self.0 = Entries::Many(many);
                }
            }
            Entries::Many(many) => match find(many, key) {
                Ok(at) => many[at].1 += ns,
                Err(at) => many.insert(at, (key, ns)),
            },
        }
    }

    /// Subtracts time of a key, not below 0. Returns whether there was enough.
    pub fn subtract(&mut self, key: u32, ns: u64) -> bool {
        match &mut self.0 {
            Entries::Few { count, keys, ns: times } => {
                let used = usize::from(*count);
                let Some(at) = keys[..used].iter().position(|&known| known == key) else { return ns == 0 };
                let enough = times[at] >= ns;
                times[at] = times[at].saturating_sub(ns);
                if times[at] == 0 {
                    keys.copy_within(at + 1..used, at);
                    times.copy_within(at + 1..used, at);
                    *count -= 1;
                }
                enough
            }
            Entries::Many(many) => {
                let Ok(at) = find(many, key) else { return ns == 0 };
                let enough = many[at].1 >= ns;
                many[at].1 = many[at].1.saturating_sub(ns);
                if many[at].1 == 0 {
                    many.remove(at);
                }
                enough
            }
        }
    }

    fn len(&self) -> usize {
        match &self.0 {
            Entries::Few { count, .. } => usize::from(*count),
            Entries::Many(many) => many.len(),
        }
    }

    /// Moves all entries of the other one into this one, the smaller into the larger.
    pub fn absorb(&mut self, other: &mut KeyTimes) {
        if self.len() < other.len() {
            std::mem::swap(self, other);
        }
        match (&mut self.0, &other.0) {
            (Entries::Many(many), Entries::Many(other)) if other.len() > MAX_ADDED_SINGLY => merge(many, other),
            _ => other.iter().for_each(|(key, ns)| self.add(key, ns)),
        }
        other.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (few, many) = match &self.0 {
            Entries::Few { count, keys, ns } => (keys[..usize::from(*count)].iter().zip(ns), &[][..]),
            Entries::Many(many) => ([].iter().zip(&[]), many.as_slice()),
        };
        few.map(|(&key, &ns)| (key, ns)).chain(many.iter().copied())
    }

    /// Removes all entries; the memory stays allocated.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Entries::Few { count, .. } => *count = 0,
            Entries::Many(many) => many.clear(),
        }
    }
}

fn find(many: &[(u32, u64)], key: u32) -> Result<usize, usize> {
    if many.len() <= 8 {
        let at = many.iter().position(|entry| entry.0 >= key).unwrap_or(many.len());
        return if many.get(at).is_some_and(|entry| entry.0 == key) { Ok(at) } else { Err(at) };
    }
    many.binary_search_by_key(&key, |entry| entry.0)
}

/// Merges two lists in the order of keys, from the back, so that each entry is moved once.
fn merge(into: &mut Vec<(u32, u64)>, other: &[(u32, u64)]) {
    let mut from = into.len();
    let own = into.as_slice();
    let mut at = 0;
    let is_new = |&&(key, _): &&(u32, u64)| {
        while own.get(at).is_some_and(|entry| entry.0 < key) {
            at += 1;
        }
        own.get(at).is_none_or(|entry| entry.0 != key)
    };
    let new = other.iter().filter(is_new).count();
    let mut to = from + new;
    into.resize(to, (0, 0));
    for &(key, ns) in other.iter().rev() {
        while from > 0 && into[from - 1].0 > key {
            (from, to) = (from - 1, to - 1);
            into[to] = into[from];
        }
        to -= 1;
        let mut sum = ns;
        if from > 0 && into[from - 1].0 == key {
            from -= 1;
            sum += into[from].1;
        }
        // This place may be the one that was just read, so it is written last.
        into[to] = (key, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn absorbing_times_yields_the_sum_of_both(
            one in prop::collection::vec((0..40u32, 1..9u64), 0..40),
            other in prop::collection::vec((0..40u32, 1..9u64), 0..40),
        ) {
            let (mut sum, mut a, mut b) = (BTreeMap::new(), KeyTimes::default(), KeyTimes::default());
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
