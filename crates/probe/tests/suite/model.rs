//! Model checking of all interleavings of threads and processes: a class id belongs to one site,
//! and the recorder sees only whole events. The steps are those of the probes, run on words of the
//! model checker, which also detects concurrent accesses to the same memory.

use longpole_probe::__model::{find, has_room, make_visible, Shared, Table};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::*};
use loom::sync::Arc;
use loom::thread;
use std::collections::BTreeSet;

struct Word32(AtomicU32);
struct Word64(AtomicU64);

macro_rules! shared {
    ($name:ident, $word:ty) => {
        impl Shared<$word> for $name {
            fn load(&self, order: Ordering) -> $word {
                self.0.load(order)
            }

            fn store(&self, value: $word, order: Ordering) {
                self.0.store(value, order);
            }

            fn compare_exchange(&self, current: $word, new: $word, success: Ordering, failure: Ordering) -> Result<$word, $word> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
}

shared!(Word32, u32);
shared!(Word64, u64);

const FIRST: u32 = 64;
const SLOTS: usize = 4;

/// A table of a few slots. Entries are numbers that are written before they are published.
struct Sites {
    slots: [Word32; SLOTS],
    next: AtomicU32,
    arena: [UnsafeCell<u64>; 8],
}

struct Asked<'a> {
    sites: &'a Sites,
    key: u64,
}

impl Table for Asked<'_> {
    type Slot = Word32;

    fn slot(&self, id: u32) -> Option<&Word32> {
        self.sites.slots.get((id - FIRST) as usize)
    }

    fn make(&self) -> Option<u32> {
        let at = self.sites.next.fetch_add(1, Relaxed);
        // SAFETY: only this thread accesses the place; the model checker verifies it.
        self.sites.arena[at as usize].with_mut(|place| unsafe { *place = self.key });
        Some(at + 1)
    }

    fn published(&self) {}

    fn is(&self, entry: u32) -> bool {
        // SAFETY: published entries never change; the model checker verifies it.
        self.sites.arena[entry as usize - 1].with(|place| unsafe { *place == self.key })
    }
}

/// Runs all interleavings with at most two preemptions.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

/// Threads that look up these keys, all with the same hash, concurrently.
fn ask(keys: &'static [&'static [u64]]) {
    model(move || {
        let sites = Arc::new(Sites {
            slots: std::array::from_fn(|_| Word32(AtomicU32::new(0))),
            next: AtomicU32::new(0),
            arena: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let threads: Vec<_> = keys
            .iter()
            .map(|keys| {
                let sites = sites.clone();
                thread::spawn(move || keys.iter().map(|key| (*key, find(&Asked { sites: &sites, key: *key }, 0))).collect::<Vec<_>>())
            })
            .collect();
        let found: BTreeSet<(u64, u32)> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).map(|(key, id)| (key, id.unwrap())).collect();
        let wanted: BTreeSet<u64> = keys.iter().flat_map(|keys| keys.iter().copied()).collect();
        let ids: BTreeSet<u32> = found.iter().map(|(_, id)| *id).collect();
        assert_eq!((found.len(), ids.len()), (wanted.len(), wanted.len()), "one id for each, and each its own: {found:?}");
    });
}

#[test]
fn one_site_has_one_id_whichever_thread_asks_first() {
    ask(&[&[7], &[7], &[7]]);
}

#[test]
fn sites_that_collide_in_one_slot_have_different_ids() {
    ask(&[&[7, 8], &[8, 7]]);
    ask(&[&[7], &[8], &[7]]);
}

const ROOM: u64 = 2;

/// A ring of two events; positions count events.
struct Ring {
    head: Word64,
    last: Word64,
    events: Word64,
    tail: Word64,
    data: [UnsafeCell<u64>; ROOM as usize],
}

#[test]
fn the_recorder_sees_whole_events_in_order_and_none_that_is_overwritten() {
    model(|| {
        let ring = Arc::new(Ring {
            head: Word64(AtomicU64::new(0)),
            last: Word64(AtomicU64::new(0)),
            events: Word64(AtomicU64::new(0)),
            tail: Word64(AtomicU64::new(0)),
            data: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let recorder = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut taken = Vec::new();
                for _ in 0..2 {
                    let (tail, head) = (ring.tail.load(Relaxed), ring.head.load(Acquire));
                    for at in tail..head {
                        // SAFETY: the writer does not access the place until the tail has passed
                        // it; the model checker verifies it.
                        taken.push(ring.data[(at % ROOM) as usize].with(|place| unsafe { *place }));
                    }
                    // The newest event may be newer than the observed head, but never older than
                    // the events before the head.
                    assert!(ring.events.load(Relaxed) >= head);
                    assert!(ring.last.load(Relaxed) >= taken.last().copied().unwrap_or(0));
                    ring.tail.store(head, Release);
                }
                taken
            })
        };
        let (mut head, mut lost) = (0, 0);
        for event in 1..=4u64 {
            if has_room(&ring.tail, head + 1, ROOM) {
                // SAFETY: the reader does not access the place before the head has passed it; the
                // model checker verifies it.
                ring.data[(head % ROOM) as usize].with_mut(|place| unsafe { *place = event });
                head += 1;
                make_visible(&ring.last, &ring.events, &ring.head, event, head);
            } else {
                lost += 1;
            }
        }
        let taken = recorder.join().unwrap();
        assert!(taken.is_sorted_by(|before, after| before < after), "{taken:?}");
        assert!(taken.len() as u64 <= head && head + lost == 4);
    });
}
