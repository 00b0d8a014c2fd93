//! Vectors that are indexed by the numbers of threads, CPUs or the like, and grow with them.

/// Returns the entry with this index; the vector grows to it with default values.
#[inline]
pub fn entry<T: Default>(all: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if all.len() <= index {
        all.resize_with(index + 1, T::default);
    }
    &mut all[index]
}
