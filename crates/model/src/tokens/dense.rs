//! A table indexed by small consecutive numbers, most of which have an entry.

/// A vector of optional entries that grows on access.
#[derive(Clone, Debug)]
pub struct Dense<T>(Vec<Option<T>>);

impl<T> Default for Dense<T> {
    fn default() -> Dense<T> {
        Dense(Vec::new())
    }
}

impl<T> Dense<T> {
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize)?.as_mut()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// The entry of a number, which may be empty.
    #[inline]
    pub fn slot(&mut self, at: u32) -> &mut Option<T> {
        let at = at as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        &mut self.0[at]
    }
}
