//! A map with few entries: comparing their keys one by one is faster than computing a hash.
//!
//! Example: what is known of each host. There are rarely more than two hosts in a trace.

/// Keys and values, in the order of their first use.
#[derive(Clone, Debug)]
pub struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> SmallMap<K, V> {
        SmallMap(Vec::new())
    }
}

impl<K: Copy + PartialEq, V> SmallMap<K, V> {
    /// Returns the value of the key, made at its first use.
    #[inline]
    pub fn of(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.0.iter().position(|entry| entry.0 == key).unwrap_or_else(|| {
            self.0.push((key, make()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    pub fn get(&self, key: K) -> Option<&V> {
        self.0.iter().find(|entry| entry.0 == key).map(|entry| &entry.1)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.0.iter_mut().find(|entry| entry.0 == key).map(|entry| &mut entry.1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }
}
