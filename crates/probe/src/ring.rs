//! The hot path: a thread writes an event into its own ring.
//!
//! A ring has one writer and one reader. The fast path needs no lock, no atomic read-modify-write
//! and no system call. The first cache line of the ring header (the thread's line) holds everything
//! that it needs; the recorder's line is read only between two sub-buffers. If a probe in a signal
//! handler interrupts another probe, it finds the ring busy and stores its event in the side area.
//! The interrupted probe moves it from there into the ring.
//!
//! Arithmetic on numbers in shared memory wraps, because another process may have overwritten them
//! with any value, and that must not make the program panic.

use crate::process::page;
use crate::sync::make_visible;
use crate::system;
use crate::process::thread::{adopt_larger_ring, attach, switch_to_larger_ring};
use crate::process::thread_ring::{current, Ring, SIDE_WORDS};
use core::ptr::{copy_nonoverlapping, write_bytes};
use core::sync::atomic::{compiler_fence, fence, Ordering::*};
use longpole_abi::{CLOCK_MONO_RAW, MODE_BLOCK, RING_ENDED, SIDE_ENTRIES, SUBBUFFER_HEADER};

/// Maximum size of an event in bytes.
pub const EVENT_MAXIMUM: usize = 4096;

const ID: u64 = 0xffff;
/// Maximum time in microseconds for which a thread waits for room, whatever the recorder orders.
const BLOCK_MAXIMUM: u32 = 10_000_000;

#[inline(always)]
fn event_header(id: u32, time: u64) -> u64 {
    (time << 16) | u64::from(id)
}

/// Returns `true` if the event of one header is earlier than that of the other, by their 48-bit
/// times.
fn is_before(one: u64, other: u64) -> bool {
    ((one & !ID).wrapping_sub(other & !ID) as i64) < 0
}

/// Prevents the compiler, but not the processor, from reordering memory accesses. That is
/// sufficient for signal handlers of the same thread, which see memory in program order.
#[inline(always)]
fn in_order() {
    compiler_fence(SeqCst);
}

fn count_lost(ring: Ring) {
    ring.lost.fetch_add(1, Release);
}

/// Waits for a bounded time until the recorder has taken data; returns `false` if it did not. The
/// ring is busy meanwhile, so probes in signal handlers use the side area. If the recorder is gone,
/// only one event waits, not every event: `gave_up` stores for which tail a wait failed.
#[cold]
fn wait_for_room(ring: Ring) -> bool {
    if ring.gave_up.load(Relaxed) == ring.tail.load(Acquire).wrapping_add(1) {
        return false;
    }
    let begin = system::mono_raw();
    let longest = u64::from(ring.block_limit.load(Relaxed).min(BLOCK_MAXIMUM)) * 1000;
    let (waited, done) = loop {
        system::sleep_ns(50_000);
        let done = ring.next_is_free() || ring.successor.load(Acquire) != 0;
        let waited = system::mono_raw().wrapping_sub(begin);
        if done || waited >= longest || page().orders.mask.load(Relaxed) == 0 {
            break (waited, done);
        }
    };
    ring.waited.store(ring.waited.load(Relaxed).wrapping_add(waited), Relaxed);
    ring.gave_up.store(if done { 0 } else { ring.tail.load(Acquire).wrapping_add(1) }, Relaxed);
    done
}

/// Finds room for an event of `size` bytes when the fast path could not, and begins the next
/// sub-buffer if it is free. The ring must be busy. Returns the position to write at, or `None`
/// after counting the event as lost. `current` may be replaced by a larger ring.
#[cold]
fn advance(current: &mut Ring, size: u64) -> Option<u64> {
    let mut ring = *current;
    let head = ring.head.load(Relaxed);
    if head.wrapping_add(size) <= ring.end.load(Relaxed) {
        return Some(head);
    }
    let mut next = ring.next_subbuffer();
    if head != 0 {
        let begin = next.wrapping_sub(ring.subbuffer.load(Relaxed));
        let complete = ring.subbuffer_at(begin);
        complete.content.store(head.wrapping_sub(begin), Relaxed);
        // The next sub-buffer may begin much later. Events that are lost in between are later than
        // this one.
        complete.last.store(ring.last.load(Relaxed), Relaxed);
    }
    loop {
        let successor = ring.successor.load(Acquire);
        if successor != 0 {
            ring = switch_to_larger_ring(ring, successor);
            *current = ring;
            next = ring.next_subbuffer();
        }
        let fits = size <= ring.subbuffer.load(Relaxed).saturating_sub(SUBBUFFER_HEADER);
        if fits && ring.has_room() {
            break;
        }
        if fits && ring.mode.load(Relaxed) == MODE_BLOCK && wait_for_room(ring) {
            continue;
        }
        count_lost(ring);
        // Seal the sub-buffer, so that later smaller events do not fit into its rest: the loss must
        // be counted before any later event.
        if fits {
            ring.seal();
        }
        return None;
    }
    let begun = ring.subbuffer_at(next);
    // A reader that copies the old content must see that it is gone before it changes.
    begun.position.store(next.wrapping_add(1), Relaxed);
    fence(Release);
    begun.begin.store(ring.now(), Relaxed);
    begun.content.store(0, Relaxed);
    begun.last.store(0, Relaxed);
    begun.lost.store(ring.lost.load(Relaxed), Relaxed);
    begun.pid.store(ring.pid.load(Relaxed), Relaxed);
    begun.tid.store(ring.tid.load(Relaxed), Relaxed);
    for (to, from) in begun.thread.iter().zip(&ring.thread) {
        to.store(from.load(Relaxed), Relaxed);
    }
    begun.events.store(ring.events.load(Relaxed), Relaxed);
    begun.position.store(next, Release);
    let end = next.wrapping_add(ring.subbuffer.load(Relaxed));
    ring.end.store(end, Relaxed);
    // If the clock is not the counter, a limit of 0 makes every event take the slow path, so the
    // fast path does not have to check the clock.
    ring.limit.store(if ring.clock.load(Relaxed) == CLOCK_MONO_RAW { 0 } else { end }, Relaxed);
    Some(next.wrapping_add(SUBBUFFER_HEADER))
}

/// Moves the time of an event back to that of the earliest event in the side area, before which it
/// is written.
#[cold]
fn restamp(ring: Ring, mut header: u64) -> u64 {
    for entry in ring.side.iter().take(usize::from(ring.nested.load(Relaxed))) {
        let mut bytes = [0u8; 8];
        for (to, from) in bytes.iter_mut().zip(entry) {
            *to = from.load(Relaxed);
        }
        let other = u64::from_ne_bytes(bytes);
        // An event that did not fit into the side area has no time.
        if other != 0 && is_before(other, header) {
            header = (other & !ID) | (header & ID);
        }
    }
    header
}

/// Moves the start of a sub-buffer back to the time of its first event, if that event was dated
/// back by `restamp`.
fn move_begin_back(ring: Ring, position: u64, header: u64) {
    let begin = position.wrapping_sub(SUBBUFFER_HEADER);
    if begin.is_multiple_of(ring.subbuffer.load(Relaxed).max(1)) {
        let begun = ring.subbuffer_at(begin);
        let time = begun.begin.load(Relaxed);
        let late = ((time << 16).wrapping_sub(header & !ID) as i64) >> 16;
        if late > 0 {
            begun.begin.store(time.wrapping_sub(late as u64), Relaxed);
        }
    }
}

/// Stores an event as the next entry of the side area; returns `false` if the area is full. An
/// entry consists of a header, up to 6 words, and the number of words. An event with more words has
/// the header 0, and is counted as lost when it is taken out.
#[cold]
fn store_in_side_area(ring: Ring, header: u64, words: &[u64]) -> bool {
    let at = usize::from(ring.nested.fetch_add(1, Relaxed));
    let Some(side) = ring.side.get(at) else {
        ring.nested.fetch_sub(1, Relaxed);
        return false;
    };
    let mut entry = [0u64; 8];
    if words.len() as u64 <= SIDE_WORDS {
        entry[0] = header;
        entry[7] = words.len() as u64;
        for (to, from) in entry[1..7].iter_mut().zip(words) {
            *to = *from;
        }
    }
    for (to, from) in side.iter().zip(entry.iter().flat_map(|word| word.to_ne_bytes())) {
        to.store(from, Relaxed);
    }
    true
}

/// The rest of `commit`, if there are events in the side area. They are from handlers that
/// interrupted this probe, or from before this probe if it is in a handler that came just before
/// the interrupted probe moved them. The event of this probe becomes another entry, so that the
/// move sorts all by time. An event that is too large for an entry is written first, with the
/// earliest time in the area; `take` has moved all entries from before such an event.
#[cold]
#[inline(never)]
extern "C" fn commit_nested(ring: Ring, place: *mut u64, header: u64, head: u64, size: u64) {
    let count = size / 8 - 1;
    let mut words = [0u64; SIDE_WORDS as usize];
    if count <= SIDE_WORDS && ring.head.load(Relaxed).wrapping_add(size) == head {
        let words = &mut words[..count as usize];
        // SAFETY: the event's words are behind its header, within the data of the ring.
        unsafe { copy_nonoverlapping(place.add(1), words.as_mut_ptr(), words.len()) };
        if store_in_side_area(ring, header, words) {
            return flush_nested(ring);
        }
    }
    let header = restamp(ring, header);
    // SAFETY: `place` is the event's place within the data of the ring.
    unsafe { place.write(header) };
    make_visible(&ring.last, &ring.events, &ring.head, header, head);
    flush_nested(ring);
}

/// Makes the event written at `place` visible and releases the ring. Rare cases are tail calls: if
/// there were anything to do after such a call, the compiler would save registers for it in every
/// probe.
#[inline(always)]
fn commit(ring: Ring, place: *mut u64, header: u64, head: u64, size: u64) {
    in_order();
    if ring.nested.load(Relaxed) != 0 {
        return commit_nested(ring, place, header, head, size);
    }
    // SAFETY: `place` is the event's place within the data of the ring.
    unsafe { place.write(header) };
    make_visible(&ring.last, &ring.events, &ring.head, header, head);
    release_ring(ring);
}

/// Ends a probe: releases the ring and moves the events that handlers left into it.
#[inline(always)]
fn release_ring(ring: Ring) {
    in_order();
    ring.busy.store(0, Release);
    in_order();
    if ring.nested.load(Relaxed) != 0 {
        flush_nested(ring);
    }
}

/// Stores the event of a probe in a handler that interrupted another probe.
#[cold]
fn emit_nested(ring: Ring, id: u32, words: &[u64]) {
    if !store_in_side_area(ring, event_header(id, ring.now()), words) {
        ring.nested_lost.fetch_add(1, Relaxed);
        count_lost(ring);
    }
}

/// The words of one side entry.
fn side_entry(ring: Ring, at: usize) -> [u64; 8] {
    let mut entry = [0u64; 8];
    if let Some(side) = ring.side.get(at) {
        for (word, bytes) in entry.iter_mut().zip(side.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(byte.load(Relaxed)));
        }
    }
    entry
}

/// Moves the events that handlers left in the side area into the ring, sorted by time.
#[cold]
#[inline(never)]
extern "C" fn flush_nested(mut ring: Ring) {
    while ring.nested.load(Relaxed) != 0 {
        ring.occupy();
        in_order();
        let mut count = ring.nested.load(Relaxed);
        let mut done = 0usize;
        // Handlers may add more entries meanwhile; then the compare-and-exchange fails and those
        // are moved, too.
        loop {
            let mut entries = [[0u64; 8]; SIDE_ENTRIES];
            let mut known = 0;
            while done < usize::from(count).min(SIDE_ENTRIES) {
                let entry = side_entry(ring, done);
                done += 1;
                if entry[7] > SIDE_WORDS {
                    continue;
                }
                if entry[0] == 0 {
                    ring.nested_lost.fetch_add(1, Relaxed);
                    count_lost(ring);
                    ring.side[done - 1][56..].iter().for_each(|byte| byte.store(u8::MAX, Relaxed));
                    continue;
                }
                entries[known] = entry;
                known += 1;
                let mut at = known - 1;
                while at > 0 && (entries[at - 1][0].wrapping_sub(entries[at][0]) as i64) > 0 {
                    entries.swap(at - 1, at);
                    at -= 1;
                }
            }
            for entry in &entries[..known] {
                let words = 1 + (entry[7] as usize).min(6);
                let Some(position) = advance(&mut ring, 8 * words as u64) else { continue };
                move_begin_back(ring, position, entry[0]);
                // SAFETY: there is room for `words` words at this position.
                unsafe { copy_nonoverlapping(entry.as_ptr(), ring.place(position), words) };
                make_visible(&ring.last, &ring.events, &ring.head, entry[0], position.wrapping_add(8 * words as u64));
            }
            match ring.nested.compare_exchange(count, 0, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(more) => count = more,
            }
        }
        in_order();
        ring.busy.store(0, Release);
        in_order();
    }
}

/// Limit in bytes for the distance between the stack pointers of two probes. The kernel leaves more
/// than this between an interrupted function and its handler, and the frames of a probe itself take
/// less.
const SIGNAL_FRAME: usize = if cfg!(target_arch = "x86_64") { 1024 } else { 4096 };

/// Returns `true` if the probe that took the ring will never continue: its handler was left by a
/// jump (`longjmp`), its thread is being cancelled, or the child of a vfork ended in it. In these
/// cases the new probe, whose stack pointer is `here`, is not deeper on the stack than the old one.
/// On an alternate signal stack stack pointers cannot be compared, so the result is `false`.
#[cold]
fn was_abandoned(ring: Ring, here: usize) -> bool {
    let taken = ring.busy.load(Relaxed) as usize;
    let shallow = here.saturating_add(SIGNAL_FRAME) > taken;
    if !shallow && usize::from(ring.nested.load(Relaxed)) < SIDE_ENTRIES {
        return false;
    }
    system::handlers_stack().is_some_and(|(begin, size)| shallow || taken.wrapping_sub(begin) < size)
}

/// This thread's ring, as a probe finds it.
enum Taken {
    /// The probe has taken the ring; only this probe writes it until it is released.
    Free(Ring),
    /// The ring is taken by the probe that the handler of this one interrupted.
    Nested(Ring),
    None,
}

/// Takes this thread's ring; attaches one if the thread has none.
#[cold]
fn take() -> Taken {
    let here = system::here();
    loop {
        // The thread has no ring yet, or only that of its parent process.
        let own = Some(current()).filter(|ring| ring.is_open());
        let Some(ring) = own.or_else(attach) else { return Taken::None };
        if ring.busy.load(Relaxed) != 0 {
            if !was_abandoned(ring, here) {
                return Taken::Nested(ring);
            }
            // The event of the abandoned probe was either completed or never visible. The events
            // that handlers left in the side area are moved into the ring. A sub-buffer without any
            // event is begun again.
            ring.mark_moved_side_entries();
            if ring.end.load(Relaxed).wrapping_sub(ring.head.load(Relaxed)) > ring.subbuffer.load(Relaxed) - SUBBUFFER_HEADER {
                ring.seal();
            }
            release_ring(ring);
            continue;
        }
        ring.occupy();
        in_order();
        let ended = ring.state.load(Relaxed) == RING_ENDED;
        if current() == ring && !ended {
            if ring.nested.load(Relaxed) == 0 {
                return Taken::Free(ring);
            }
            // These events are from before this probe: it is in a handler that came just before the
            // interrupted probe moved them.
            flush_nested(ring);
            continue;
        }
        // A handler replaced the ring by a larger one in the meantime, or another library did so
        // before.
        ring.busy.store(0, Relaxed);
        if ended && current() == ring && !adopt_larger_ring(ring) {
            return Taken::None;
        }
    }
}

/// Writes one event into a ring that is taken, and releases the ring: finds room, lets `fill` write
/// the payload, and makes the event visible.
fn write(mut ring: Ring, id: u32, size: u64, fill: impl FnOnce(Ring, *mut u64)) {
    let Some(position) = advance(&mut ring, size) else { return release_ring(ring) };
    let header = restamp(ring, event_header(id, ring.now()));
    move_begin_back(ring, position, header);
    let place = ring.place(position);
    // SAFETY: there is room for `size` bytes, of which the header is the first word.
    fill(ring, unsafe { place.add(1) });
    commit(ring, place, header, position.wrapping_add(size), size);
}

/// The slow path of a probe: the thread has no ring yet, the ring is busy, the sub-buffer is full,
/// or the clock is not the counter.
#[cold]
pub fn emit_slow(id: u32, words: &[u64]) {
    match take() {
        Taken::None => {}
        Taken::Nested(ring) => emit_nested(ring, id, words),
        Taken::Free(ring) => write(ring, id, 8 + 8 * words.len() as u64, |_, place| {
            // SAFETY: there is room for the words.
            unsafe { copy_nonoverlapping(words.as_ptr(), place, words.len()) }
        }),
    }
}

/// Up to 3 words as an array of 3, so that each can be passed in a register.
#[inline(always)]
pub fn three<const N: usize>(words: [u64; N]) -> [u64; 3] {
    const { assert!(N <= 3) };
    let word = |nth: usize| if nth < N { words[nth] } else { 0 };
    [word(0), word(1), word(2)]
}

/// The slow path with its words in registers. If it took them from memory, every probe would store
/// them there, also on the fast path.
#[cold]
#[inline(never)]
extern "C" fn emit_words(id: u32, count: usize, a: u64, b: u64, c: u64) {
    let words = [a, b, c];
    emit_slow(id, &words[..count.min(3)]);
}

/// The fast path, for events of up to 3 words after the header.
#[inline(always)]
pub fn emit<const N: usize>(id: u32, words: [u64; N]) {
    let ring = current();
    let size = 8 + 8 * N as u64;
    if ring.is_open() && ring.busy.load(Relaxed) == 0 {
        ring.occupy();
        in_order();
        let position = ring.head.load(Relaxed);
        let head = position.wrapping_add(size);
        if head <= ring.limit.load(Relaxed) {
            let place = ring.place(position);
            let header = event_header(id, system::counter());
            for (nth, word) in words.iter().enumerate() {
                // SAFETY: below the limit there is room for the whole event at its position.
                unsafe { place.add(1 + nth).write(*word) };
            }
            return commit(ring, place, header, head, size);
        }
        // The slow path takes the ring again. It also moves events that handlers left in the side
        // area since the ring was taken.
        in_order();
        ring.busy.store(0, Release);
        in_order();
    }
    let [a, b, c] = three(words);
    emit_words(id, N, a, b, c);
}

/// A part of an event whose size is known only at run time. Every part is padded to a multiple of 8
/// bytes.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    Word(u64),
    /// A length, followed by as many bytes.
    Bytes(&'a [u8]),
    /// The number of elements, followed by the bytes of the elements, each of which has the given
    /// width.
    Array(&'a [u8], usize),
    /// A text without NUL; a NUL is appended.
    Text(&'a [u8]),
}

impl<'a> Part<'a> {
    pub fn text(text: &'a [u8]) -> Part<'a> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Part::Text(&text[..end])
    }

    fn size(&self) -> usize {
        match self {
            Part::Word(_) => 8,
            Part::Bytes(bytes) | Part::Array(bytes, _) => 8 + bytes.len().next_multiple_of(8),
            Part::Text(text) => (text.len() + 1).next_multiple_of(8),
        }
    }

    /// # Safety
    /// There is room for the part's size at `place`.
    unsafe fn write(&self, mut place: *mut u64) {
        let (bytes, padded) = match self {
            Part::Word(word) => {
                // SAFETY: the caller's promise.
                unsafe { place.write(*word) };
                return;
            }
            Part::Bytes(bytes) | Part::Array(bytes, _) => {
                let width = if let Part::Array(_, width) = self { *width } else { 1 };
                // SAFETY: the caller's promise.
                unsafe {
                    place.write((bytes.len() / width) as u64);
                    place = place.add(1);
                }
                (*bytes, self.size() - 8)
            }
            Part::Text(text) => (*text, self.size()),
        };
        // SAFETY: the caller's promise.
        unsafe {
            if padded != 0 {
                write_bytes(place.add(padded / 8 - 1), 0, 1);
            }
            copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len());
        }
    }
}

/// # Safety
/// There is room for all parts at `place`.
unsafe fn write_parts(parts: &[Part], mut place: *mut u64) {
    for part in parts {
        // SAFETY: the caller's promise; sizes are multiples of 8.
        unsafe {
            part.write(place);
            place = place.add(part.size() / 8);
        }
    }
}

/// Writes an event that consists of parts. The caller must have cut them so that the event fits
/// into [`EVENT_MAXIMUM`].
#[cold]
#[inline(never)]
pub fn emit_parts(id: u32, parts: &[Part], packet: bool) {
    let payload: usize = parts.iter().map(Part::size).sum();
    match take() {
        Taken::None => {}
        Taken::Nested(ring) => {
            let mut words = [0u64; 7];
            let count = if payload <= 48 {
                // SAFETY: 6 words have room for 48 bytes.
                unsafe { write_parts(parts, words.as_mut_ptr()) };
                payload / 8
            } else {
                7
            };
            ring.packets.store(ring.packets.load(Relaxed) | u8::from(packet), Relaxed);
            emit_nested(ring, id, &words[..count]);
        }
        Taken::Free(ring) => write(ring, id, 8 + payload as u64, |ring, place| {
            // Must come after the ring may have been replaced and before the event becomes visible.
            ring.packets.store(ring.packets.load(Relaxed) | u8::from(packet), Relaxed);
            // SAFETY: there is room for the payload.
            unsafe { write_parts(parts, place) };
        }),
    }
}
