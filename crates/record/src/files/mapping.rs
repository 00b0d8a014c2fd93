//! A file of the runtime directory in memory, shared with programs that may write anything at any
//! time.
//!
//! Therefore no references to plain bytes exist: words are read as atomics, and ranges of bytes are
//! copied out. Every access is checked against the mapped length. A file that shrinks is handled by
//! [`crate::files::mapping::sigbus_guard`].

pub(crate) mod sigbus_guard;

use longpole_abi::{Control, Ring, Session, Sites, Subbuffer};
use sigbus_guard::Guard;
use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// Structures that live in shared memory.
///
/// # Safety
/// Every field is an atomic, so any bit pattern is valid and may change under a shared reference.
pub unsafe trait Shared {}
// SAFETY: see the definitions in longpole-abi: all of these consist of atomics.
unsafe impl Shared for Control {}
// SAFETY: as above.
unsafe impl Shared for Ring {}
// SAFETY: as above.
unsafe impl Shared for Session {}
// SAFETY: as above.
unsafe impl Shared for Sites {}
// SAFETY: as above.
unsafe impl Shared for Subbuffer {}
// SAFETY: an atomic itself.
unsafe impl Shared for AtomicU64 {}

/// A mapped file of the runtime directory.
#[derive(Debug)]
pub struct Mapping {
    guard: Guard,
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; it is only read as atomics or copied.
unsafe impl Send for Mapping {}

/// Kind of access to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Write access, with all pages allocated at once.
    Populate,
}

impl Mapping {
    pub fn new(file: BorrowedFd<'_>, length: usize, access: Access) -> io::Result<Mapping> {
        let protection = match access {
            Access::Read => libc::PROT_READ,
            Access::Write | Access::Populate => libc::PROT_READ | libc::PROT_WRITE,
        };
        let populate = if access == Access::Populate { libc::MAP_POPULATE } else { 0 };
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED | populate, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        match Guard::new(base.as_ptr(), length) {
            Ok(guard) => Ok(Mapping { guard, base, length }),
            Err(error) => {
                // SAFETY: mapped above, and nothing refers to it.
                unsafe { libc::munmap(base.as_ptr().cast(), length) };
                Err(error)
            }
        }
    }

    /// Address of the mapping in this process.
    pub fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the file shrank. Reads since then may have returned zeros.
    pub fn poisoned(&self) -> bool {
        self.guard.hit()
    }

    /// The structure at `offset`; `None` if it is not within the mapping or not aligned.
    pub fn get<T: Shared>(&self, offset: usize) -> Option<&T> {
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.length || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`; aligned, because the base is
        // page-aligned; `Shared` admits any bits.
        Some(unsafe { &*self.base.as_ptr().add(offset).cast::<T>() })
    }

    /// Copies bytes to `to`. Returns false if they are not within the mapping.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> bool {
        match offset.checked_add(to.len()) {
            Some(end) if end <= self.length => {
                // SAFETY: the source is within the mapping, the target belongs to the caller, and
                // they cannot overlap. Another process may write meanwhile; the bytes are then a
                // mixture, which their user checks.
                unsafe { ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), to.as_mut_ptr(), to.len()) };
                true
            }
            _ => false,
        }
    }

    /// The range as an argument of a system call that reads it; `None` if it is not within the
    /// mapping.
    pub fn io_vector(&self, offset: usize, length: usize) -> Option<libc::iovec> {
        let end = offset.checked_add(length)?;
        if end > self.length {
            return None;
        }
        // SAFETY: within the mapping.
        let base = unsafe { self.base.as_ptr().add(offset) };
        Some(libc::iovec { iov_base: base.cast(), iov_len: length })
    }
}

/// A mapping that begins with the structure `T`.
pub struct Headed<T> {
    mapping: Mapping,
    first: NonNull<T>,
}

// SAFETY: as for the mapping.
unsafe impl<T: Shared> Send for Headed<T> {}

impl<T: Shared> Headed<T> {
    /// `None` if the mapping is shorter than `T`.
    pub fn new(mapping: Mapping) -> Option<Headed<T>> {
        let first = NonNull::from(mapping.get::<T>(0)?);
        Some(Headed { mapping, first })
    }

    pub fn first(&self) -> &T {
        // SAFETY: checked by `new`; a mapping's memory neither moves nor changes its size, and
        // lives as long as `self`.
        unsafe { self.first.as_ref() }
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

impl<T> std::fmt::Debug for Headed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.mapping.fmt(f)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard.disarm();
        // SAFETY: mapped by `new` and unmapped only here.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
