//! A ring as its reader sees it: the events that can be taken now, and their times.
//!
//! A *ring* is a file with a header and a circular data area of `size` bytes, divided into
//! *sub-buffers*. One thread writes it, the recorder reads it. `head` and `tail` are byte positions
//! that only grow; a position's place in the data area is the position modulo `size`. A sub-buffer
//! begins with a header (its first time, the events lost before it, its thread) and holds whole
//! events.
//!
//! The geometry is copied once, when the ring is opened, and never read again, because the program
//! may write anything there. Of the values that are read later, only `head` moves the reader,
//! within the geometry, and only the begin and the length of a sub-buffer are used, within the
//! sub-buffer.
//!
//! This folder holds what concerns rings: the next events (`slice`), rings that overwrite
//! (`history`), larger rings (`resize`), and the meaning of events (`class`, `sites`,
//! `packet_event`). Taking events and writing them belongs in `drain`.

pub(crate) mod class;
pub(crate) mod history;
pub(crate) mod packet_event;
pub(crate) mod resize;
pub(crate) mod sites;
mod slice;

pub use slice::RingSlice;

use crate::clock::ClockSource;
use crate::files::mapping::{Access, Headed, Mapping};
use crate::runtime_dir::{Opened, RuntimeDir};
use longpole_abi::{
    Ring as Layout, Subbuffer, CLOCK_MONO_RAW, MAGIC, MODE_OVERWRITE, RING_DATA, RING_ENDED, RING_MINIMUM, SIDE_ENTRIES, VERSION,
};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{fence, AtomicU8, Ordering};

/// Largest data area of a ring in bytes.
const MAX_RING_BYTES: u64 = 1 << 30;
/// Attempts to read the newest event and the head consistently while the thread keeps writing; used
/// for rings that overwrite.
const OVERWRITING_ATTEMPTS: u32 = 1000;
/// Largest valid position: no real ring reaches it, and no sum of a position and a ring's size
/// overflows.
const MAX_POSITION: u64 = 1 << 62;

/// A ring as its reader sees it: the mapped file, its geometry, and the reader's position.
#[derive(Debug)]
pub struct Ring {
    pub name: String,
    /// Number in the file's name.
    pub number: u32,
    /// True if a thread of the process made the ring, not a recorder.
    pub own: bool,
    /// Bytes of the data area, a power of two.
    pub size: u64,
    /// Number of the clock of its times.
    pub clock: u32,
    /// True if the thread overwrites the oldest sub-buffer and ignores `tail`.
    pub overwrites: bool,
    /// Bytes per sub-buffer.
    subbuffer: u64,
    memory: Headed<Layout>,
    /// Position up to which everything has been taken.
    pub tail: u64,
    /// The part of the ring's `lost` counter that is already in the trace.
    pub reported: u64,
    /// Number of events before `tail`; only for rings that overwrite.
    pub taken: u64,
    /// Nanoseconds that the thread had waited for room before the ring was opened.
    pub waited_before: u64,
}

/// The reason why a ring is not read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its file was cut off")]
    Gone,
    #[error("its head is at an impossible position")]
    Head,
    #[error("a sub-buffer has an impossible length")]
    Content,
    #[error("its thread overwrote events while they were read")]
    Lapped,
}

/// State of a ring at one look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub head: u64,
    /// Clock at the look. Events that are new since the previous look were written around this
    /// time.
    pub now: u64,
    /// Header word of the newest event, if `head` is the position after that event.
    pub last: Option<u64>,
    /// `RING_OWNED`, `RING_IDLE` or `RING_ENDED`.
    pub state: u32,
    /// The ring's `lost` counter.
    pub lost: u64,
    /// The ring's `events` counter, which may be ahead of `head`.
    pub events: u64,
}

impl Ring {
    /// Opens and maps a ring. Fails if the file or its geometry is not that of a ring.
    pub fn open(runtime: &RuntimeDir, name: &str, number: u32, own: bool, access: Access) -> io::Result<Ring> {
        let opened = match access {
            Access::Read => runtime.open_readable(name)?,
            _ => runtime.open_writable(name)?,
        };
        Ring::from_file(opened, name, number, own, access)
    }

    fn from_file(opened: Opened, name: &str, number: u32, own: bool, access: Access) -> io::Result<Ring> {
        let data = opened.size.wrapping_sub(RING_DATA as u64);
        if opened.size <= RING_DATA as u64 || !(RING_MINIMUM..=MAX_RING_BYTES).contains(&data) || !data.is_power_of_two() {
            return Err(io::Error::other("the file does not have the size of a ring"));
        }
        let mapping = Mapping::new(opened.file.as_fd(), opened.size as usize, access)?;
        let Some(memory) = Headed::<Layout>::new(mapping) else { return Err(io::Error::other("no room for a ring's header")) };
        let layout = memory.first();
        if layout.magic.load(Ordering::Acquire) != MAGIC || layout.version.load(Ordering::Relaxed) != VERSION {
            return Err(io::Error::other("the header is of another version"));
        }
        let (size, subbuffer) = (layout.size.load(Ordering::Relaxed), layout.subbuffer.load(Ordering::Relaxed));
        let fits = size == data && subbuffer.is_power_of_two() && (4096..=size / 2).contains(&subbuffer);
        if !fits || layout.mask.load(Ordering::Relaxed) != size - 1 {
            return Err(io::Error::other("the header contradicts the size of the file"));
        }
        let tail = layout.tail.load(Ordering::Relaxed);
        let reported = layout.lost_reported.load(Ordering::Relaxed);
        let clock = layout.clock.load(Ordering::Relaxed);
        let overwrites = layout.mode.load(Ordering::Relaxed) == MODE_OVERWRITE;
        let taken = layout.taken.load(Ordering::Relaxed);
        let waited_before = layout.waited.load(Ordering::Relaxed);
        if tail > MAX_POSITION {
            return Err(io::Error::other("its tail is at an impossible position"));
        }
        Ok(Ring { name: name.to_owned(), number, own, size, clock, overwrites, subbuffer, memory, tail, reported, taken, waited_before })
    }

    pub fn layout(&self) -> &Layout {
        self.memory.first()
    }

    pub fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    /// Value of `ring` in the context of the ring's packets.
    pub fn packet_number(&self) -> u32 {
        self.number << 1 | u32::from(!self.own)
    }

    pub fn tid(&self) -> i32 {
        self.layout().tid.load(Ordering::Relaxed)
    }

    /// Reads the ring's state, head and counters. The state is read first, because the head of an
    /// ended ring is final.
    ///
    /// Fails if the file shrank or the head is not a possible position.
    pub fn look(&self) -> Result<Look, Fault> {
        let layout = self.layout();
        let state = layout.state.load(Ordering::Acquire);
        let mut head = layout.head.load(Ordering::Acquire);
        let mut last = None;
        let mut events = 0;
        let tries = if self.overwrites { OVERWRITING_ATTEMPTS } else { 4 };
        for _ in 0..tries {
            let header = layout.last.load(Ordering::Relaxed);
            events = layout.events.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            let again = layout.head.load(Ordering::Acquire);
            if again == head {
                last = Some(header);
                break;
            }
            head = again;
        }
        let lost = layout.lost.load(Ordering::Acquire);
        if self.mapping().poisoned() {
            return Err(Fault::Gone);
        }
        let ahead = head.checked_sub(self.tail).ok_or(Fault::Head)?;
        if (ahead > self.size && !self.overwrites) || head > MAX_POSITION || !head.is_multiple_of(8) {
            return Err(Fault::Head);
        }
        let clock = if self.clock == CLOCK_MONO_RAW { ClockSource::MonoRaw } else { ClockSource::Counter };
        Ok(Look { head, now: clock.now(), last, state, lost, events })
    }

    pub(crate) fn subbuffer_at(&self, position: u64) -> Result<&Subbuffer, Fault> {
        self.mapping().get::<Subbuffer>(self.offset(position)).ok_or(Fault::Head)
    }

    /// Bytes per sub-buffer.
    pub fn subbuffer(&self) -> u64 {
        self.subbuffer
    }

    /// Begin of the sub-buffer after the one that contains the position.
    pub fn next_subbuffer(&self, position: u64) -> u64 {
        position - position % self.subbuffer + self.subbuffer
    }

    /// Begin of the sub-buffer that contains `tail`.
    pub fn begun(&self) -> u64 {
        self.tail - self.tail % self.subbuffer
    }

    /// Offset of a position in the mapping.
    pub fn offset(&self, position: u64) -> usize {
        RING_DATA + (position & (self.size - 1)) as usize
    }

    /// Returns the room up to `tail` to the thread.
    pub fn release(&mut self, tail: u64, reported: u64) {
        self.tail = tail;
        self.reported = reported;
        let layout = self.layout();
        layout.lost_reported.store(reported, Ordering::Relaxed);
        layout.taken.store(self.taken, Ordering::Relaxed);
        layout.tail.store(tail, Ordering::Release);
    }

    /// Number of events of signal handlers that were set aside and not merged, because the program
    /// was killed before the interrupted probe could merge them. The ring's `lost` does not include
    /// them.
    pub fn unmerged_side_events(&self) -> u64 {
        let layout = self.layout();
        let count = usize::from(layout.nested.load(Ordering::Relaxed)).min(SIDE_ENTRIES);
        if self.mapping().poisoned() {
            return 0;
        }
        // The probe merges these events by time, in order, so those not younger than the newest
        // event are already in the ring. An interrupted event that is too large for an entry is
        // written first, with the earliest time.
        let newest = layout.last.load(Ordering::Relaxed);
        let merged = |entry: &&[AtomicU8; 64]| {
            let mut bytes = [0; 8];
            for (byte, from) in bytes.iter_mut().zip(entry.iter()) {
                *byte = from.load(Ordering::Relaxed);
            }
            let header = u64::from_ne_bytes(bytes);
            let younger = ((header >> 16).wrapping_sub(newest >> 16) << 16) as i64;
            // An event that did not fit into its entry has no header.
            let taken = entry[56..].iter().all(|byte| byte.load(Ordering::Relaxed) == u8::MAX);
            taken || header != 0 && (younger < 0 || header == newest)
        };
        (count - layout.side[..count].iter().filter(merged).count()) as u64
    }

    /// Nanoseconds that the thread has waited for room during this recording.
    pub fn waited(&self) -> u64 {
        self.layout().waited.load(Ordering::Relaxed).saturating_sub(self.waited_before)
    }

    pub fn is_ended(&self) -> bool {
        self.layout().state.load(Ordering::Relaxed) == RING_ENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const SIZE: usize = 32768;

    /// A ring whose words `fill` sets. Offset 0 is the begin of the header; `RING_DATA` the begin
    /// of the data.
    fn ring(fill: impl FnOnce(&mut dyn FnMut(usize, u64))) -> (tempfile::TempDir, Ring) {
        let mut bytes = vec![0u8; RING_DATA + SIZE];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        for (at, word) in [(16, SIZE as u64 - 1), (128, MAGIC), (136, u64::from(VERSION)), (144, SIZE as u64), (152, SIZE as u64 / 4)] {
            put(at, word);
        }
        fill(&mut put);
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::private(directory.path());
        std::fs::write(directory.path().join("1-a.0.ring"), bytes).unwrap();
        let ring = Ring::open(&runtime, "1-a.0.ring", 0, true, Access::Write).unwrap();
        (directory, ring)
    }

    /// Header word of an event of class 100.
    fn header(time: u64) -> u64 {
        time << 16 | 100
    }

    #[test]
    fn events_after_any_silence_get_their_time_when_the_last_slice_ended_at_the_head_of_an_idle_thread() {
        let begun = 1u64 << 50;
        for silence in [0, 1 << 20, 1 << 47, 1 << 48, 3 << 48, (5 << 48) - 1] {
            let (first, second) = (begun + silence, begun + silence + 1000);
            let (_directory, mut ring) = ring(|put| {
                put(RING_DATA, begun);
                put(RING_DATA + 256, header(begun));
                put(RING_DATA + 264, header(first));
                put(RING_DATA + 272, header(second));
            });
            let look = |head, now, last| Look { head, now, last: Some(header(last)), state: 0, lost: 0, events: 0 };
            // Within a period the recorder takes the events that exist; the slice ends at the head.
            let slice = ring.next(&look(264, begun + 50, begun), 0, true).unwrap().unwrap();
            assert_eq!((slice.begin, slice.end, slice.tail), (begun, begun, 264));
            ring.release(slice.tail, 0);
            assert_eq!(ring.next(&look(264, second - 1, begun), slice.end, true).unwrap(), None);
            let slice = ring.next(&look(280, second + 20, second), slice.end, true).unwrap().unwrap();
            assert_eq!((slice.begin, slice.end, slice.from, slice.to), (first, second, 264, 280), "{silence}");
        }
    }

    #[test]
    fn a_complete_sub_buffer_ends_with_its_last_event_however_late_the_next_one_begins() {
        const NEXT: usize = RING_DATA + SIZE / 4;
        let begun = 1u64 << 50;
        // A plausible time; no time, as from programs with an older header; and an impossible time.
        for (size, end) in [(header(begun + 90), begun + 90), (0, begun + 5_000), (header(begun + 6_000), begun + 5_000)] {
            let (_directory, ring) = ring(|put| {
                for (at, word) in [(0, begun), (8, 272), (248, size), (256, header(begun)), (264, header(begun + 90))] {
                    put(RING_DATA + at, word);
                }
                for (at, word) in [(0, begun + 5_000), (16, 7), (256, header(begun + 5_000))] {
                    put(NEXT + at, word);
                }
            });
            let next = SIZE as u64 / 4;
            let look = Look { head: next + 264, now: begun + 6_000, last: Some(header(begun + 5_000)), state: 0, lost: 7, events: 0 };
            let slice = ring.next(&look, 0, true).unwrap().unwrap();
            assert_eq!((slice.begin, slice.end, slice.tail, slice.lost), (begun, end, next, 0));
        }
    }

    #[test]
    fn no_position_of_a_hostile_ring_overflows_or_keeps_its_reader_in_a_loop() {
        let words = [
            0,
            8,
            255,
            256,
            264,
            8192,
            8448,
            8456,
            32760,
            32768,
            MAX_POSITION - 8,
            MAX_POSITION,
            MAX_POSITION + 8,
            1 << 63,
            u64::MAX - 7,
            u64::MAX,
        ];
        for tail in words {
            for head in words {
                for content in [0, 256, 264, 8192, 8200, u64::MAX] {
                    // `Ring::open` refuses a ring whose tail is beyond `MAX_POSITION`.
                    if tail > MAX_POSITION {
                        continue;
                    }
                    let (_directory, mut ring) = ring(|put| {
                        put(0, head);
                        put(64, tail);
                        for subbuffer in 0..4 {
                            put(RING_DATA + subbuffer * SIZE / 4, u64::MAX);
                            put(RING_DATA + subbuffer * SIZE / 4 + 8, content);
                        }
                    });
                    let Ok(look) = ring.look() else { continue };
                    let mut turns = 0;
                    let done = loop {
                        turns += 1;
                        assert!(turns < 10, "{tail} {head} {content}");
                        match ring.next(&look, u64::MAX, true) {
                            Ok(Some(slice)) => {
                                assert!(slice.from < slice.to && slice.to <= look.head && slice.tail <= look.head);
                                ring.release(slice.tail, 0);
                            }
                            Ok(None) => break true,
                            Err(_) => break false,
                        }
                    };
                    assert!(!done || ring.tail == look.head, "neither taken nor given up: {tail} {head} {content}");
                }
            }
        }
    }

    #[test]
    fn only_events_set_aside_and_not_merged_are_counted() {
        // No event merged; events up to the second merged; all merged; one event that did not fit
        // into its entry.
        for (last, times, aside) in [(10, [11, 12, 13], 3), (12, [11, 12, 13], 1), (13, [11, 12, 13], 0), (13, [11, 0, 13], 1)] {
            let (_directory, ring) = ring(|put| {
                put(24, header(last));
                put(48, 3 << 8);
                for (at, time) in times.into_iter().enumerate() {
                    put(1024 + 64 * at, if time == 0 { 0 } else { header(time) });
                }
            });
            assert_eq!(ring.unmerged_side_events(), aside, "{last} {times:?}");
        }
        // The interrupted event was too large for an entry: it got the earliest time of those set
        // aside, and has another class.
        let (_directory, ring) = ring(|put| {
            put(24, header(11) + 1);
            put(48, 2 << 8);
            put(1024, header(11));
            put(1088, header(12));
        });
        assert_eq!(ring.unmerged_side_events(), 2);
        // A counter that exceeds the number of entries.
        let (_directory, ring) = ring_of_nested(255);
        assert_eq!(ring.unmerged_side_events(), SIDE_ENTRIES as u64);
    }

    fn ring_of_nested(count: u64) -> (tempfile::TempDir, Ring) {
        ring(|put| put(48, count << 8))
    }

    #[test]
    fn the_offsets_in_these_tests_are_those_of_the_layout() {
        let (_directory, ring) = ring(|put| put(0, 8));
        let base = std::ptr::from_ref(ring.layout()) as usize;
        let at = |field: &AtomicU64| std::ptr::from_ref(field) as usize - base;
        assert_eq!((at(&ring.layout().last), at(&ring.layout().tail)), (24, 64));
        assert_eq!(std::ptr::from_ref(&ring.layout().nested) as usize - base, 49);
        assert_eq!(std::ptr::from_ref(&ring.layout().side) as usize - base, 1024);
    }
}
