//! A map with few entries: comparing them one by one is faster than computing a hash.

/// Entries in the order of their first use.
#[derive(Clone, Debug)]
pub struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Few<K, V> {
        Few(Vec::new())
    }
}

impl<K: Copy + PartialEq, V> Few<K, V> {
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
