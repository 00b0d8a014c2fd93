//! A mapped ring, and the pointer of this thread to its ring.

use crate::process::{library, page};
use crate::process::runtime_directory::store_bytes;
use crate::sync::has_room;
use crate::system::{self, File};
use core::arch::asm;
use core::mem::offset_of;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering::*};
use longpole_abi::{Subbuffer, CLOCK_MONO_RAW, CONTROL_SIZE, MODE_DISCARD, MODE_OVERWRITE, RING_DATA, RING_MINIMUM, RING_OWNED};

/// A mapped ring, or the closed ring. The header stays mapped as long as the process lives.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ring(pub *mut longpole_abi::Ring);

impl Ring {
    /// The closed ring, which every thread has that has no ring yet.
    pub fn none() -> Ring {
        Ring((&raw const *library()).wrapping_add(1).cast_mut().cast())
    }

    /// Returns `true` if the thread has a ring that belongs to this process. The word before the
    /// header of a ring is in a private page that a fork wipes. So a single load is enough for a
    /// thread to see if it has a ring, and for a child, even one made by a raw clone, to see that
    /// the ring is its parent's, which it must not touch.
    #[inline(always)]
    pub fn is_open(self) -> bool {
        // SAFETY: the word before a header stays mapped, and so does the word before `none`.
        unsafe { (*self.0.cast::<AtomicU64>().sub(1)).load(Relaxed) != 0 }
    }

    /// Takes the ring, and stores the stack pointer of the probe in `busy`. That costs no more than
    /// storing a flag, and shows later if the probe can still be running.
    #[inline(always)]
    pub fn occupy(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the header stays mapped, and only this thread writes the word.
        unsafe {
            asm!("mov qword ptr [{0} + {1}], rsp", in(reg) self.0, const offset_of!(longpole_abi::Ring, busy), options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.busy.store(system::here() as u64, Relaxed);
    }

    /// The address of a position.
    #[inline(always)]
    pub fn place(self, position: u64) -> *mut u64 {
        // SAFETY: the mapping consists of RING_DATA bytes and mask + 1 bytes of data.
        unsafe { self.0.cast::<u8>().add(RING_DATA + (position & self.mask.load(Relaxed)) as usize).cast() }
    }

    pub fn subbuffer_at(&self, position: u64) -> &Subbuffer {
        // SAFETY: sub-buffers begin with this structure, at multiples of their size.
        unsafe { &*self.place(position).cast() }
    }

    /// Position at which the next sub-buffer begins.
    pub fn next_subbuffer(self) -> u64 {
        let size = self.subbuffer.load(Relaxed).max(1);
        (self.head.load(Relaxed).wrapping_add(size - 1) / size).wrapping_mul(size)
    }

    pub fn next_is_free(self) -> bool {
        let end = self.next_subbuffer().wrapping_add(self.subbuffer.load(Relaxed));
        has_room(&self.tail, end, self.size.load(Relaxed))
    }

    /// Returns `true` if the next sub-buffer may be begun. In overwrite mode the recorder does not
    /// have to take its old content first.
    pub fn has_room(self) -> bool {
        self.mode.load(Relaxed) == MODE_OVERWRITE || self.next_is_free()
    }

    /// Closes the current sub-buffer early: the next event begins another one.
    pub fn seal(self) {
        self.end.store(self.head.load(Relaxed), Relaxed);
        self.limit.store(0, Relaxed);
    }

    pub fn now(self) -> u64 {
        if self.clock.load(Relaxed) == CLOCK_MONO_RAW {
            system::mono_raw()
        } else {
            system::counter()
        }
    }

    pub fn own(self, tid: i32) {
        self.pid.store(page().pid.load(Relaxed), Relaxed);
        self.tid.store(tid, Relaxed);
        self.nested.store(0, Relaxed);
        self.busy.store(0, Relaxed);
        let mut name = [0u8; 32];
        system::thread_name(&mut name);
        store_bytes(&self.thread, &name);
        self.state.store(RING_OWNED, Release);
    }
}

impl Deref for Ring {
    type Target = longpole_abi::Ring;

    #[inline(always)]
    fn deref(&self) -> &longpole_abi::Ring {
        // SAFETY: callers use only open rings; their header stays mapped.
        unsafe { &*self.0 }
    }
}

impl Ring {
    /// Maps the file of a ring, of `whole` bytes, behind a private page.
    pub fn map(file: &File, whole: usize) -> Option<Ring> {
        let ring: *mut longpole_abi::Ring = file.map_behind(CONTROL_SIZE, whole).cast();
        if ring.is_null() {
            return None;
        }
        // SAFETY: the word is in the page before the ring, which no other code knows yet.
        unsafe { (*ring.cast::<AtomicU64>().sub(1)).store(1, Relaxed) };
        Some(Ring(ring))
    }

    /// # Safety
    /// No code uses the ring, whose file has `whole` bytes.
    pub unsafe fn unmap(self, whole: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { system::unmap(self.0.cast::<u8>().sub(CONTROL_SIZE), CONTROL_SIZE + whole) };
    }

    /// Handles the side area after a probe was abandoned. The probe may already have moved some
    /// entries into the ring; since it moves them in the order of their times, these are not later
    /// than the newest event. Marks those entries as moved, and returns the number of the others.
    pub fn mark_moved_side_entries(self) -> u64 {
        const ID: u64 = 0xffff;
        let last = self.last.load(Relaxed);
        let mut others = 0;
        for side in self.side.iter().take(usize::from(self.nested.load(Relaxed))) {
            let word = |at: usize| side[8 * at..8 * at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(byte.load(Relaxed)));
            let (header, size) = (word(0), word(7));
            let younger = (header & !ID).wrapping_sub(last & !ID) as i64;
            if header != 0 && (younger < 0 || header == last) {
                side[56..].iter().for_each(|byte| byte.store(u8::MAX, Relaxed));
            } else if size <= SIDE_WORDS {
                others += 1;
            }
        }
        others
    }
}

/// Maximum number of words of an event in the side area. A larger number marks an entry that was
/// moved into the ring.
pub const SIDE_WORDS: u64 = 6;

/// Protects the ring of the parent from a child that was forked in a handler which interrupted a
/// probe. The handler may return into that probe, which continues to write; so its ring is replaced
/// by a private copy that is never read. The copy is not freed, because it is not known when the
/// handler returns.
pub fn disown(ring: Ring) {
    let size = ring.size.load(Relaxed);
    if !(RING_MINIMUM..=1 << 30).contains(&size) || !size.is_power_of_two() || ring.mask.load(Relaxed) != size - 1 {
        return;
    }
    let whole = RING_DATA + size as usize;
    let copy = system::map_private(whole);
    if copy.is_null() {
        return;
    }
    // SAFETY: both are mapped and have this size. What the parent changes meanwhile may be torn,
    // but the copy is never read.
    unsafe {
        core::ptr::copy_nonoverlapping(ring.0.cast::<u8>(), copy, RING_DATA);
        let own = Ring(copy.cast());
        own.successor.store(0, Relaxed);
        own.mode.store(MODE_DISCARD, Relaxed);
        system::move_over(copy, ring.0.cast(), whole);
    }
}

/// This thread's ring, in one load of thread-local storage (initial-exec model).
#[inline(always)]
pub fn current() -> Ring {
    let ring: *mut longpole_abi::Ring;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the offset of the variable is fixed when the library is loaded; only this thread
    // writes it.
    unsafe {
        asm!("mov {0}, qword ptr [rip + longpole_thread@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", lateout(reg) ring,
             options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("adrp {0}, :gottprel:longpole_thread", "ldr {0}, [{0}, :gottprel_lo12:longpole_thread]", "mrs {1}, tpidr_el0",
             "ldr {0}, [{1}, {0}]", out(reg) ring, out(reg) _, options(nostack, readonly, preserves_flags));
    }
    Ring(ring)
}

pub fn set(ring: Ring) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `current`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + longpole_thread@GOTTPOFF]", "mov qword ptr fs:[{0}], {1}", out(reg) _, in(reg) ring.0,
             options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for `current`.
    unsafe {
        asm!("adrp {0}, :gottprel:longpole_thread", "ldr {0}, [{0}, :gottprel_lo12:longpole_thread]", "mrs {1}, tpidr_el0",
             "str {2}, [{1}, {0}]", out(reg) _, out(reg) _, in(reg) ring.0, options(nostack, preserves_flags));
    }
}

