//! Merges streams by time: a heap of one key per stream, ordered by (time, stream).
//!
//! Events of one stream come in bursts, so the most frequent step is "the same stream again". That
//! step costs one comparison: the current stream's key is kept outside of the heap and compared
//! with the top of the heap. The heap changes only when another stream takes over.
//!
//! The other modules of this folder make a stream fit for the merge: they correct its clock
//! ([`clock_shift`], [`common_clock`]), sort its items ([`sort_window`], [`lookahead`]), and
//! check times and packets ([`out_of_range`], [`packet_checks`]).

pub(crate) mod clock_shift;
pub(crate) mod common_clock;
pub(crate) mod lookahead;
pub(crate) mod out_of_range;
pub(crate) mod packet_checks;
pub(crate) mod sort_window;

/// Time of a slot's next item. A slot holds a source, such as one stream. Slots with equal times
/// are ordered by index; within a slot its own order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub t_ns: i64,
    /// Index of the slot.
    pub slot: u32,
}

/// A min-heap of keys. It is used instead of `BinaryHeap` because replacing the top is its one hot
/// operation.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    keys: Vec<Key>,
}

impl Heap {
    /// Returns all keys. The first one is the least; the others are in heap order.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub fn push(&mut self, key: Key) {
        self.keys.push(key);
        let mut at = self.keys.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.keys[parent] <= self.keys[at] {
                break;
            }
            self.keys.swap(parent, at);
            at = parent;
        }
    }

    pub fn peek(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    pub fn pop(&mut self) -> Option<Key> {
        let last = self.keys.pop()?;
        match self.keys.first_mut() {
            None => Some(last),
            Some(top) => {
                let least = std::mem::replace(top, last);
                self.sink();
                Some(least)
            }
        }
    }

    /// Inserts `key` and removes the least key, which may be `key` itself.
    #[inline]
    pub fn exchange(&mut self, key: Key) -> Key {
        match self.keys.first_mut() {
            Some(top) if *top < key => {
                let least = std::mem::replace(top, key);
                self.sink();
                least
            }
            _ => key,
        }
    }

    /// Restores the heap order after the top was replaced by a larger key.
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut least) = self.keys.get(left).map(|_| left) else { return };
            if self.keys.get(right).is_some_and(|key| *key < self.keys[left]) {
                least = right;
            }
            if self.keys[at] <= self.keys[least] {
                return;
            }
            self.keys.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_with_a_heap_equals_sorting(streams in prop::collection::vec(prop::collection::vec(0i64..50, 0..20), 0..9)) {
            let mut expected = Vec::new();
            let mut rest = Vec::new();
            let mut heap = Heap::default();
            for (stream, times) in streams.iter().enumerate() {
                let mut times = times.clone();
                times.sort_unstable();
                expected.extend(times.iter().map(|&t_ns| Key { t_ns, slot: stream as u32 }));
                let mut times = times.into_iter();
                if let Some(t_ns) = times.next() {
                    heap.push(Key { t_ns, slot: stream as u32 });
                }
                rest.push(times);
            }
            expected.sort();
            let mut merged = Vec::new();
            let mut current = heap.pop();
            while let Some(key) = current {
                merged.push(key);
                current = match rest[key.slot as usize].next() {
                    Some(t_ns) => Some(heap.exchange(Key { t_ns, ..key })),
                    None => heap.pop(),
                };
            }
            prop_assert_eq!(merged, expected);
        }
    }
}
