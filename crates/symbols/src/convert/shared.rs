//! Memory that the sandbox shares with the process that watches it: how far it is, and what it
//! works on.

use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
struct Words {
    /// Number of bytes of the stream that are converted.
    done: AtomicU64,
    /// Time and process of the current stack, and address of the current frame; 0 between frames.
    time: AtomicU64,
    pid: AtomicU64,
    address: AtomicU64,
    /// Number of the system's error that ended the conversion; 0 for none.
    error: AtomicU64,
    /// Number of modules whose unwinding tables were too large.
    too_large: AtomicU64,
}

/// A page with [`Words`].
#[derive(Debug)]
pub struct Shared(NonNull<Words>);

const SIZE: usize = size_of::<Words>();

impl Shared {
    pub fn new() -> io::Result<Shared> {
        // SAFETY: a new mapping, of which nothing else has a pointer. It is filled with zeros,
        // which are valid words.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), SIZE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED) }?;
        NonNull::new(page.cast()).map(Shared).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping lives as long as `self`, and all accesses are atomic.
        unsafe { self.0.as_ref() }
    }

    pub fn set_done(&self, bytes: u64) {
        self.words().done.store(bytes, Relaxed);
    }

    pub fn done(&self) -> u64 {
        self.words().done.load(Relaxed)
    }

    pub fn set_too_large(&self, modules: u64) {
        self.words().too_large.store(modules, Relaxed);
    }

    pub fn too_large(&self) -> u64 {
        self.words().too_large.load(Relaxed)
    }

    /// Notes an error of reading or writing a stream.
    pub fn set_error(&self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        self.words().error.store(u64::from(number.unsigned_abs()), Relaxed);
    }

    /// Returns the error of reading or writing a stream.
    pub fn error(&self) -> Option<io::Error> {
        let number = i32::try_from(self.words().error.load(Relaxed)).unwrap_or(0);
        (number != 0).then(|| io::Error::from_raw_os_error(number))
    }

    pub fn set_event(&self, time: u64, pid: i32) {
        self.words().time.store(time, Relaxed);
        self.words().pid.store(pid as u32 as u64, Relaxed);
        self.set_address(0);
    }

    pub fn set_address(&self, address: u64) {
        self.words().address.store(address, Relaxed);
    }

    /// Returns time and process of the current stack, and the address of the current frame. `None`
    /// between frames, where no module is the cause of a failure.
    pub fn at(&self) -> Option<(u64, i32, u64)> {
        let words = self.words();
        let address = words.address.load(Relaxed);
        (address != 0).then(|| (words.time.load(Relaxed), words.pid.load(Relaxed) as u32 as i32, address))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and no reference to it is left.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
    }
}

// SAFETY: all accesses are atomic.
unsafe impl Send for Shared {}
// SAFETY: all accesses are atomic.
unsafe impl Sync for Shared {}
