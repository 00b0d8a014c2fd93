//! A sparse profile: how many ns of each key. Few entries in most nodes, hundreds in some.

#[derive(Clone, Debug, Default)]
pub struct Profile(Vec<(u32, u64)>);

impl Profile {
    pub fn add(&mut self, key: u32, ns: u64) {
        match self.find(key) {
            Ok(at) => self.0[at].1 += ns,
            Err(at) => self.0.insert(at, (key, ns)),
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
        for &(key, ns) in &other.0 {
            self.add(key, ns);
        }
        other.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
