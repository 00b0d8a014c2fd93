//! Words that several threads or processes access concurrently. The steps by which they hand over
//! data are written against the trait [`Shared`], so that a model checker can run them with its own
//! implementation.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::*};

/// A word of shared memory.
pub trait Shared<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
}

macro_rules! shared {
    ($($word:ty, $atomic:ty;)*) => { $(
        impl Shared<$word> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $word {
                <$atomic>::load(self, order)
            }

            #[inline(always)]
            fn store(&self, value: $word, order: Ordering) {
                <$atomic>::store(self, value, order);
            }

            #[inline(always)]
            fn compare_exchange(&self, current: $word, new: $word, success: Ordering, failure: Ordering) -> Result<$word, $word> {
                <$atomic>::compare_exchange(self, current, new, success, failure)
            }
        }
    )* };
}

shared! { u32, AtomicU32; u64, AtomicU64; }

/// Makes everything before `end` visible to the recorder. The event with this header becomes the
/// newest one, and the number of events increases by one. The event itself must be stored before.
#[inline(always)]
pub fn make_visible(last: &impl Shared<u64>, events: &impl Shared<u64>, head: &impl Shared<u64>, header: u64, end: u64) {
    last.store(header, Relaxed);
    events.store(events.load(Relaxed).wrapping_add(1), Relaxed);
    head.store(end, Release);
}

/// Returns `true` if an event that ends at `end` fits into a ring of `size` bytes: the recorder has
/// finished reading the old data in its place.
#[inline(always)]
pub fn has_room(tail: &impl Shared<u64>, end: u64, size: u64) -> bool {
    end <= tail.load(Acquire).wrapping_add(size)
}
