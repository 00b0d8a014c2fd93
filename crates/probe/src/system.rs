//! The few system calls and library functions that probes need.
//!
//! A probe must not change errno, must not call functions that are unsafe in a signal handler, and
//! must work without `std`. Therefore system calls are made directly (they return -errno), and the
//! few functions of the C library, which every program on Linux has, are declared here.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use core::mem::{size_of, zeroed};
use core::ptr::null_mut;

extern "C" {
    pub fn pthread_key_create(key: *mut c_uint, destructor: extern "C" fn(*mut c_void)) -> c_int;
    pub fn pthread_key_delete(key: c_uint) -> c_int;
    pub fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    #[cfg(feature = "std")]
    pub fn atexit(function: extern "C" fn()) -> c_int;
    fn pthread_self() -> c_ulong;
    fn pthread_getcpuclockid(thread: c_ulong, clock: *mut c_int) -> c_int;
    pub fn getauxval(kind: c_ulong) -> c_ulong;
    fn secure_getenv(name: *const c_char) -> *const c_char;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
}

/// Numbers of the system calls.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub mod number {
    pub const CLOSE: usize = 3; pub const MMAP: usize = 9; pub const MUNMAP: usize = 11; pub const SIGPROCMASK: usize = 14;
    pub const PREAD: usize = 17; pub const MADVISE: usize = 28; pub const NANOSLEEP: usize = 35; pub const GETPID: usize = 39;
    pub const FCNTL: usize = 72; pub const FLOCK: usize = 73; pub const FCHMOD: usize = 91; pub const GETEUID: usize = 107;
    pub const PRCTL: usize = 157; pub const GETTID: usize = 186; pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258; pub const UNLINKAT: usize = 263; pub const LINKAT: usize = 265; pub const READLINKAT: usize = 267;
    pub const FALLOCATE: usize = 285; pub const STATX: usize = 332; pub const MREMAP: usize = 25; pub const SIGALTSTACK: usize = 131;
    pub const TKILL: usize = 200; pub const KILL: usize = 62; pub const GETCWD: usize = 79; pub const GETDENTS: usize = 217;
    #[cfg(feature = "std")]
    pub const WRITE: usize = 1;
}
#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
pub mod number {
    pub const CLOSE: usize = 57; pub const MMAP: usize = 222; pub const MUNMAP: usize = 215; pub const SIGPROCMASK: usize = 135;
    pub const PREAD: usize = 67; pub const MADVISE: usize = 233; pub const NANOSLEEP: usize = 101; pub const GETPID: usize = 172;
    pub const FCNTL: usize = 25; pub const FLOCK: usize = 32; pub const FCHMOD: usize = 52; pub const GETEUID: usize = 175;
    pub const PRCTL: usize = 167; pub const GETTID: usize = 178; pub const OPENAT: usize = 56;
    pub const MKDIRAT: usize = 34; pub const UNLINKAT: usize = 35; pub const LINKAT: usize = 37; pub const READLINKAT: usize = 78;
    pub const FALLOCATE: usize = 47; pub const STATX: usize = 291; pub const MREMAP: usize = 216; pub const SIGALTSTACK: usize = 132;
    pub const TKILL: usize = 130; pub const KILL: usize = 129; pub const GETCWD: usize = 17; pub const GETDENTS: usize = 61;
    #[cfg(feature = "std")]
    pub const WRITE: usize = 64;
}

pub const ENOENT: isize = -2;
pub const ESRCH: isize = -3;
pub const EAGAIN: u32 = 11;
pub const ENOMEM: isize = -12;
pub const EACCES: isize = -13;
const EFAULT: isize = -14;

const AT_FDCWD: usize = -100isize as usize;
const O_RDONLY: usize = 0;
const O_RDWR: usize = 2;
const O_CREAT: usize = 0o100;
const O_EXCL: usize = 0o200;
const O_NONBLOCK: usize = 0o4000;
const O_CLOEXEC: usize = 0o2_000_000;
#[cfg(target_arch = "aarch64")]
const O_DIRECTORY: usize = 0o40_000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: usize = 0o100_000;
#[cfg(target_arch = "x86_64")]
const O_DIRECTORY: usize = 0o200_000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: usize = 0o400_000;

/// Makes a system call. Missing arguments, of at most six, are 0.
///
/// # Safety
/// The requirements of the system call: pointers passed to the kernel must be valid for it.
#[inline]
pub unsafe fn call(number: usize, arguments: &[usize]) -> isize {
    let argument = |nth: usize| arguments.get(nth).copied().unwrap_or(0);
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel changes only rax, rcx and r11; the caller guarantees that pointers are
    // valid.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") argument(0), in("rsi") argument(1), in("rdx") argument(2),
             in("r10") argument(3), in("r8") argument(4), in("r9") argument(5), lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel changes only x0; the caller guarantees that pointers are valid.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") argument(0) as isize => result, in("x1") argument(1), in("x2") argument(2),
             in("x3") argument(3), in("x4") argument(4), in("x5") argument(5), options(nostack));
    }
    result
}

/// Defines functions for system calls without pointer arguments.
macro_rules! plain {
    ($($name:ident($($argument:ident),*) = $number:ident;)*) => { $(
        #[inline]
        pub fn $name($($argument: usize),*) -> isize {
            // SAFETY: no argument is a pointer.
            unsafe { call(number::$number, &[$($argument),*]) }
        }
    )* };
}

plain! {
    getpid() = GETPID;
    gettid() = GETTID;
    geteuid() = GETEUID;
    fchmod(file, mode) = FCHMOD;
    flock(file, how) = FLOCK;
    fallocate(file, mode, offset, length) = FALLOCATE;
    kill(pid, signal) = KILL;
    tkill(tid, signal) = TKILL;
}

pub const LOCK_SH: usize = 1;
pub const LOCK_NB: usize = 4;
pub const LOCK_UN: usize = 8;

/// A text of bounded size that ends with NUL. Bytes that do not fit are dropped.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Text { bytes: [0; N], length: 0 }
    }

    pub fn of(parts: &[&[u8]]) -> Self {
        let mut text = Text::new();
        for part in parts {
            text.push(part);
        }
        text
    }

    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.length + 1 < N {
                self.bytes[self.length] = *byte;
                self.length += 1;
            }
        }
    }

    pub fn push_number(&mut self, mut number: u64, base: u64, mut digits: i32) {
        let mut text = [0u8; 24];
        let mut at = text.len();
        loop {
            at -= 1;
            text[at] = b"0123456789abcdef"[(number % base) as usize & 15];
            number /= base;
            digits -= 1;
            if (number == 0 && digits <= 0) || at == 0 {
                break;
            }
        }
        self.push(&text[at..]);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

/// The bytes of a C string, without its NUL and up to a maximum.
///
/// # Safety
/// `text` is null or points to bytes that end with NUL and outlive the result.
pub unsafe fn c_bytes<'a>(text: *const u8, maximum: usize) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the text is read only up to its NUL.
    unsafe {
        while !text.is_null() && length < maximum && *text.add(length) != 0 {
            length += 1;
        }
        if text.is_null() {
            &[]
        } else {
            core::slice::from_raw_parts(text, length)
        }
    }
}

/// A variable of the environment.
pub fn variable(name: &'static core::ffi::CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with NUL. The value is read at the start and in the child of a fork,
    // before the program can change it.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| c_bytes(value.cast(), 4096))
    }
}

/// An open file; closed when dropped.
pub struct File(pub usize);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the number is that of a file that this type opened.
        unsafe { call(number::CLOSE, &[self.0]) };
    }
}

#[repr(C)]
pub struct Stat {
    head: [u32; 4],
    links: u32,
    pub user: u32,
    group: u32,
    pub mode: u16,
    spare: u16,
    inode: u64,
    pub size: u64,
    rest: [u64; 26],
}

impl File {
    /// Opens a file without blocking: a pipe with this name must not stop the program.
    fn open<const N: usize>(directory: usize, name: &Text<N>, flags: usize, mode: usize) -> Result<File, isize> {
        let flags = flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        // SAFETY: the name ends with NUL.
        let file = unsafe { call(number::OPENAT, &[directory, name.address(), flags, mode]) };
        if file < 0 {
            Err(file)
        } else {
            Ok(File(file as usize))
        }
    }

    pub fn open_read<const N: usize>(directory: &File, name: &Text<N>) -> Result<File, isize> {
        File::open(directory.0, name, O_RDONLY, 0)
    }

    pub fn open_write<const N: usize>(directory: &File, name: &Text<N>) -> Result<File, isize> {
        File::open(directory.0, name, O_RDWR, 0)
    }

    pub fn make<const N: usize>(directory: &File, name: &Text<N>) -> Result<File, isize> {
        File::open(directory.0, name, O_RDWR | O_CREAT | O_EXCL, 0o400)
    }

    /// Makes a directory if it does not exist.
    pub fn make_directory<const N: usize>(path: &Text<N>) {
        // SAFETY: the path ends with NUL.
        unsafe { call(number::MKDIRAT, &[AT_FDCWD, path.address(), 0o700]) };
    }

    pub fn directory<const N: usize>(path: &Text<N>) -> Result<File, isize> {
        File::open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
    }

    pub fn stat(&self) -> Option<Stat> {
        // SAFETY: the structure has the size of statx and consists of integers.
        unsafe {
            let mut stat: Stat = zeroed();
            const { assert!(size_of::<Stat>() == 256) };
            let result = call(number::STATX, &[self.0, c"".as_ptr() as usize, 0x1000 /* AT_EMPTY_PATH */, 0x7ff, &raw mut stat as usize]);
            (result >= 0).then_some(stat)
        }
    }

    pub fn link<const A: usize, const B: usize>(&self, from: &Text<A>, to: &Text<B>) -> isize {
        // SAFETY: both names end with NUL.
        unsafe { call(number::LINKAT, &[self.0, from.address(), self.0, to.address(), 0]) }
    }

    pub fn unlink<const N: usize>(&self, name: &Text<N>) {
        // SAFETY: the name ends with NUL.
        unsafe { call(number::UNLINKAT, &[self.0, name.address(), 0]) };
    }

    /// Maps the file as shared, readable and writable memory; null on failure.
    pub fn map(&self, size: usize, populate: bool) -> *mut u8 {
        // SAFETY: the kernel chooses a free address.
        unsafe { map(0, size, 0x01 | 0x4000 | if populate { 0x8000 } else { 0 }, self.0) }
    }

    /// Like `map`, behind a private page of `head` bytes that is wiped in the child of a fork.
    /// Returns the address of the file; null on failure.
    pub fn map_behind(&self, head: usize, size: usize) -> *mut u8 {
        let page = map_private(head + size);
        if page.is_null() {
            return null_mut();
        }
        wipe_on_fork(page, head);
        // SAFETY: both parts belong to the mapping that was just made, which no other code knows.
        unsafe {
            let place = map(page as usize + head, size, 0x01 | 0x10 | 0x4000 | 0x8000, self.0);
            if place.is_null() {
                unmap(page, head + size);
            }
            place
        }
    }

    /// Like `map`, in place of the memory at `place`.
    ///
    /// # Safety
    /// The `size` bytes at `place` are whole pages that no other code uses.
    pub unsafe fn map_over(&self, place: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        unsafe { map(place as usize, size, 0x01 | 0x10 | 0x4000, self.0) }
    }
}

/// # Safety
/// The requirements of mmap: MAP_FIXED (0x10) replaces existing mappings.
unsafe fn map(place: usize, size: usize, flags: usize, file: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let result = unsafe { call(number::MMAP, &[place, size, 3, flags, file, 0]) };
    if result < 0 && result > -4096 {
        null_mut()
    } else {
        result as *mut u8
    }
}

/// Private zero-initialised memory; null on failure.
pub fn map_private(size: usize) -> *mut u8 {
    // SAFETY: the kernel chooses a free address.
    unsafe { map(0, size, 0x02 | 0x20 | 0x4000, usize::MAX) }
}

/// # Safety
/// The `size` bytes at `place` are whole pages that no other code uses.
pub unsafe fn map_private_over(place: *mut u8, size: usize) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { !map(place as usize, size, 0x02 | 0x10 | 0x20 | 0x4000, usize::MAX).is_null() }
}

/// # Safety
/// No code uses the mapping any more.
pub unsafe fn unmap(place: *mut u8, size: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { call(number::MUNMAP, &[place as usize, size]) };
}

/// Replaces a mapping by another one of the same size.
///
/// # Safety
/// The `size` bytes at both addresses are whole pages; those at `from` belong to the caller alone.
pub unsafe fn move_over(from: *mut u8, place: *mut u8, size: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { call(number::MREMAP, &[from as usize, size, size, 3 /* MAYMOVE, FIXED */, place as usize]) };
}

/// Returns `true` if 8 bytes can be read at this address, according to the kernel.
pub fn is_readable(place: usize) -> bool {
    const NO_SUCH_WAY: usize = 99;
    // SAFETY: the kernel reads the address itself, and then rejects the call because of the invalid
    // argument.
    unsafe { call(number::SIGPROCMASK, &[NO_SUCH_WAY, place, 0, 8]) != EFAULT }
}

/// Start and size of the alternate signal stack; `None` if this code runs on it.
pub fn handlers_stack() -> Option<(usize, usize)> {
    #[repr(C)]
    struct Stack {
        begin: usize,
        flags: i32,
        size: usize,
    }
    let mut stack = Stack { begin: 0, flags: 0, size: 0 };
    // SAFETY: the structure has the layout of stack_t.
    let result = unsafe { call(number::SIGALTSTACK, &[0, &raw mut stack as usize]) };
    (result >= 0 && stack.flags & 1 /* SS_ONSTACK */ == 0).then_some((stack.begin, stack.size))
}

/// The current stack pointer.
#[inline(always)]
pub fn here() -> usize {
    let here: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        asm!("mov {}, rsp", lateout(reg) here, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        asm!("mov {}, sp", lateout(reg) here, options(nomem, nostack, preserves_flags));
    }
    here
}

/// The id of this thread as the C library knows it: in the child of a vfork, that of the thread
/// that waits for the child.
pub fn thread_of_library() -> Option<i32> {
    let mut clock: c_int = 0;
    // SAFETY: the kernel writes only the given variable.
    (unsafe { pthread_getcpuclockid(pthread_self(), &raw mut clock) } == 0).then_some(!(clock >> 3))
}

/// Marks memory to be zeroed in the child of a fork.
pub fn wipe_on_fork(place: *mut u8, size: usize) {
    // SAFETY: madvise changes nothing in this process.
    unsafe { call(number::MADVISE, &[place as usize, size, 18]) };
}

pub fn read_at(file: &File, bytes: &mut [u8], offset: usize) -> isize {
    // SAFETY: the bytes are exclusively borrowed.
    unsafe { call(number::PREAD, &[file.0, bytes.as_mut_ptr() as usize, bytes.len(), offset]) }
}

/// Calls `visit` for each name in a directory that was just opened.
pub fn names(directory: &File, mut visit: impl FnMut(&[u8])) {
    const HEAD: usize = 19;
    let mut entries = [0u8; 2048];
    loop {
        // SAFETY: the bytes are exclusively borrowed.
        let size = unsafe { call(number::GETDENTS, &[directory.0, entries.as_mut_ptr() as usize, entries.len()]) };
        let mut left = entries.get(..size.max(0) as usize).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        while left.len() > HEAD {
            let whole = usize::from(u16::from_ne_bytes([left[16], left[17]])).clamp(HEAD, left.len());
            visit(left[HEAD..whole].split(|byte| *byte == 0).next().unwrap_or_default());
            left = &left[whole..];
        }
    }
}

/// Writes bytes; errors and short writes are ignored.
#[cfg(feature = "std")]
pub fn write(file: usize, bytes: &[u8]) {
    // SAFETY: the kernel only reads the bytes.
    unsafe { call(number::WRITE, &[file, bytes.as_ptr() as usize, bytes.len()]) };
}

/// Returns `true` if a process holds an open-file-description write lock on the file.
pub fn is_locked(file: &File) -> bool {
    #[repr(C)]
    struct Lock {
        kind: i16,
        whence: i16,
        start: i64,
        length: i64,
        pid: i32,
    }
    let mut lock = Lock { kind: 0 /* F_RDLCK */, whence: 0, start: 0, length: 0, pid: 0 };
    // SAFETY: the structure has the layout of struct flock.
    let result = unsafe { call(number::FCNTL, &[file.0, 36 /* F_OFD_GETLK */, &raw mut lock as usize]) };
    result == 0 && lock.kind == 1 /* F_WRLCK */
}

/// Reads the target of a symbolic link; returns its length, 0 on failure.
pub fn link_target(path: &'static core::ffi::CStr, bytes: &mut [u8]) -> usize {
    // SAFETY: the path ends with NUL, and the bytes are exclusively borrowed.
    let size = unsafe { call(number::READLINKAT, &[AT_FDCWD, path.as_ptr() as usize, bytes.as_mut_ptr() as usize, bytes.len()]) };
    size.max(0) as usize
}

/// Reads the path of the current directory. The bytes stay unchanged if the path is too long.
pub fn current_directory(bytes: &mut [u8]) {
    // SAFETY: the bytes are exclusively borrowed.
    unsafe { call(number::GETCWD, &[bytes.as_mut_ptr() as usize, bytes.len()]) };
}

/// Reads the name of this thread, of at most 15 bytes.
pub fn thread_name(bytes: &mut [u8; 32]) {
    // SAFETY: PR_GET_NAME writes 16 bytes.
    unsafe { call(number::PRCTL, &[16, bytes.as_mut_ptr() as usize]) };
}

pub fn sleep_ns(ns: i64) {
    let time = [0i64, ns];
    // SAFETY: the structure has the layout of struct timespec.
    unsafe { call(number::NANOSLEEP, &[&raw const time as usize, 0]) };
}

/// Blocks signals until the end of the scope, so that a handler cannot enter the same code a second
/// time.
pub struct Blocked(u64);

impl Blocked {
    pub fn new() -> Blocked {
        let (all, mut before) = (u64::MAX, 0u64);
        // SAFETY: the kernel's signal set has 8 bytes.
        unsafe { call(number::SIGPROCMASK, &[0 /* SIG_BLOCK */, &raw const all as usize, &raw mut before as usize, 8]) };
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { call(number::SIGPROCMASK, &[2 /* SIG_SETMASK */, &raw const self.0 as usize, 0, 8]) };
    }
}

/// The raw time-stamp counter, not serialised: the measured times are microseconds, and a fence
/// would cost more than the event.
#[inline(always)]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has this instruction.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: Linux allows programs to read the counter.
    unsafe {
        let value: u64;
        asm!("mrs {}, cntvct_el0", out(reg) value, options(nostack, nomem, preserves_flags));
        value
    }
}

/// CLOCK_MONOTONIC_RAW in nanoseconds, for hosts whose counter cannot be used as a clock.
pub fn mono_raw() -> u64 {
    let mut time = [0i64; 2];
    // SAFETY: the structure has the layout of struct timespec.
    unsafe { clock_gettime(4, &raw mut time) };
    (time[0] as u64).wrapping_mul(1_000_000_000).wrapping_add(time[1] as u64)
}
