//! What all libraries of a process share: the control file, whose first page is mapped over a page
//! of .bss so that checking if anything is recorded is one load, and the table of the rings.
//!
//! Together with `connection` and `loading`, this module must match `include/longpole/process.h`
//! exactly. Page, library and thread pointer are the same COMDAT symbols in both, so Rust and C
//! code that is linked into one library shares them, and different libraries meet in the process's
//! table. Nothing here makes the program fail: if a resource is not available, the process is not
//! recorded.

pub(crate) mod connection;
mod loading;
pub(crate) mod runtime_directory;
pub(crate) mod thread;
pub(crate) mod thread_ring;

use crate::system::{self, c_bytes, Text};
use core::arch::asm;
use core::ffi::c_void;
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering::*};
use longpole_abi::{Control, Sites};

// Declared here, defined in `loading`.
extern "C" {
    pub static longpole_page: Control;
    static longpole_library: Library;
}

/// A thread's ring as this process sees it. The libraries of the process share it.
#[repr(C)]
pub struct Entry {
    pub ring: AtomicPtr<longpole_abi::Ring>,
    /// Thread id of the owner; 0 if the owner has ended and another thread may take the ring.
    pub tid: AtomicI32,
    /// One bit for each library that uses the ring in that thread.
    pub users: AtomicU32,
}

pub const ENTRIES: usize = 65536;

/// Private memory of the process that fork wipes: a child finds `alive == 0`, even if it was made
/// by a raw clone.
#[repr(C)]
pub struct Process {
    pub alive: AtomicU32,
    pub lock: AtomicU32,
    pub entries: AtomicU32,
    /// One bit for each connected library.
    pub libraries: AtomicU32,
    /// Counter value at which making a ring may be tried again after memory ran out.
    pub retry: AtomicU64,
    pub sites: AtomicPtr<Sites>,
    pub directory: [AtomicU8; 208],
    pub stem: [AtomicU8; 32],
    pub entry: [Entry; ENTRIES],
}

/// The state of one library.
#[repr(C)]
pub struct Library {
    pub process: AtomicPtr<Process>,
    /// 0: untouched, 1: being set up, 2: set up (even if that failed), 3: unloaded.
    pub state: AtomicU32,
    /// Key of the destructor that runs at the end of a thread, plus one; 0 if there is none.
    pub key: AtomicU32,
    atfork: u32,
    /// 1 while a thread connects the process again after a fork.
    pub forking: AtomicU32,
    /// The library's bit among the libraries of the process.
    pub slot: AtomicU32,
    /// User id under which the library connected, if the path of the directory contains it;
    /// otherwise `ANY_USER`.
    pub user: AtomicU32,
    spare: [u32; 6],
    /// Always 0: the word before the header of the closed ring, see `Ring::none`.
    closed: AtomicU64,
}

// The layout is the same in C, because code of both languages shares these structures.
const _: () = assert!(
    size_of::<Library>() == 64 && offset_of!(Library, forking) == 20 && offset_of!(Library, user) == 28 && size_of::<Entry>() == 16
);
const _: () = assert!(offset_of!(Process, directory) == 32 && offset_of!(Process, stem) == 240 && offset_of!(Process, entry) == 272);

/// The page of the control file; it holds zeros if there is no control file.
pub fn page() -> &'static Control {
    // SAFETY: the page is as large as the structure, lives as long as the library, and is written
    // only by atomic stores.
    unsafe { &longpole_page }
}

pub fn library() -> &'static Library {
    // SAFETY: as for the page.
    unsafe { &longpole_library }
}

/// The enable word, read with one load. The symbol is addressed directly, because an external
/// static would be looked up first.
#[inline(always)]
pub fn mask() -> u32 {
    let mask: u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a word of the page, which is changed only by atomic stores.
    unsafe {
        asm!("mov {0:e}, dword ptr [rip + {1}]", lateout(reg) mask, sym longpole_page, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!("adrp {0:x}, {1}", "ldr {0:w}, [{0:x}, :lo12:{1}]", lateout(reg) mask, sym longpole_page,
             options(nostack, readonly, preserves_flags));
    }
    mask
}

/// The bit that all libraries share for which there is no bit left. It is never cleared, because it
/// is not known which other libraries have it.
pub const SLOT_OF_MANY: u32 = 1 << 31;

impl Library {
    /// The bit that this library may clear when it leaves; 0 if it shares its bit with others.
    pub fn own_slot(&self) -> u32 {
        self.slot.load(Relaxed) & !SLOT_OF_MANY
    }

    /// The table of this process. The table of a parent process reads as zeros.
    pub fn process(&self) -> Option<&'static Process> {
        // SAFETY: once stored here, the table is never unmapped; after a fork it reads as zeros.
        unsafe { self.process.load(Relaxed).as_ref() }
    }
}

impl Process {
    pub fn is_alive(&self) -> bool {
        self.alive.load(Relaxed) != 0
    }

    pub fn directory(&self) -> Text<208> {
        // SAFETY: the text ends with NUL, and does not change after the table was published.
        Text::of(&[unsafe { c_bytes(self.directory.as_ptr().cast(), 207) }])
    }

    pub fn stem(&self) -> Text<32> {
        // SAFETY: as above.
        Text::of(&[unsafe { c_bytes(self.stem.as_ptr().cast(), 31) }])
    }
}

/// Makes the C library call the destructor of threads with this value when the thread ends.
pub fn call_at_exit(value: *const c_void) {
    let key = library().key.load(Relaxed);
    if key != 0 {
        // SAFETY: the key belongs to this library.
        unsafe { system::pthread_setspecific(key - 1, value) };
    }
}
