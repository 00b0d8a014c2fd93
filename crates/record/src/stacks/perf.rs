//! Interface to perf_event_open(2): one event per CPU that samples it by the clock, and the ring
//! into which the kernel writes the records.
//!
//! A sample may also hold the registers of the program and a copy of its stack, from which its
//! frames are found later ([`SampleKind::Copy`]).
//!
//! All numbers are from `linux/perf_event.h`, which is a stable interface of the kernel.

use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU64, Ordering};

const TYPE_SOFTWARE: u32 = 1;
const COUNT_SW_CPU_CLOCK: u64 = 0;
const COUNT_SW_BPF_OUTPUT: u64 = 10;
const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
/// Bits of the attributes: what the event does.
const DISABLED: u64 = 1;
/// Idle CPUs have no ticks. Without ticks, the kernel would count their samples as too many and
/// stop them.
const EXCLUDE_IDLE: u64 = 1 << 7;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQ: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;
/// With this bit, `read` also returns the number of lost records (since Linux 6.0).
const FORMAT_LOST: u64 = 1 << 4;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// Offsets of the ring's positions in its first page.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// `struct perf_event_attr` up to `sample_max_stack` (PERF_ATTR_SIZE_VER5, 112 bytes). The kernel
/// must know at least `clockid` (PERF_ATTR_SIZE_VER3).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_freq: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Size in bytes of the end of every record except for samples: pid, tid, time, CPU.
pub const TRAILER: usize = 24;
/// The registers that a sample holds, as bits of the kernel's numbers (`asm/perf_regs.h`), and
/// where each of them is among those registers.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: Registers = Registers { mask: 1 << 6 | 1 << 7 | 1 << 8, fp: 0, sp: 1, ip: 2, lr: None };
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: Registers = Registers { mask: 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32, fp: 0, sp: 2, ip: 3, lr: Some(1) };
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const REGISTERS: Registers = Registers { mask: 0, fp: 0, sp: 0, ip: 0, lr: None };

/// Positions of registers in a sample. `lr` is `None` if the processor has no such register.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub mask: u64,
    pub fp: usize,
    pub sp: usize,
    pub ip: usize,
    pub lr: Option<usize>,
}

/// Content of a ring's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Addresses that the kernel found by frame pointers.
    Addresses,
    /// These addresses, data of a BPF program, registers of the program, and at most `bytes` bytes
    /// of its stack.
    Copy { bytes: u32 },
}

impl SampleKind {
    fn sample_type(self) -> u64 {
        let common = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_CALLCHAIN;
        match self {
            SampleKind::Addresses => common,
            SampleKind::Copy { .. } => common | SAMPLE_RAW | SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        }
    }

    /// Fills in the fields that determine the content of samples.
    fn set(self, attributes: &mut Attributes) {
        attributes.sample_type = self.sample_type();
        if let SampleKind::Copy { bytes } = self {
            (attributes.sample_regs_user, attributes.sample_stack_user) = (REGISTERS.mask, bytes & !7);
        }
    }
}

/// The perf event and the ring of one CPU.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    base: NonNull<u8>,
    page: usize,
    /// Size of the data area in bytes, a power of two.
    size: usize,
    /// True if the kernel returns the number of lost records.
    tells_losses: bool,
    kind: SampleKind,
    /// Event whose samples are taken by BPF programs and are written into the same ring.
    output: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a disabled event. `size` is the size of the ring in bytes, rounded up to a power of
    /// two and at least a page.
    pub fn open(cpu: u32, hz: u32, kind: SampleKind, size: usize) -> io::Result<Ring> {
        let page = page_size();
        let size = size.next_power_of_two().max(page);
        let mut attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: COUNT_SW_CPU_CLOCK,
            sample_freq: u64::from(hz),
            read_format: FORMAT_LOST,
            flags: DISABLED | EXCLUDE_IDLE | MMAP | COMM | FREQ | TASK | WATERMARK | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC | USE_CLOCKID,
            wakeup_watermark: (size / 4) as u32,
            clockid: libc::CLOCK_MONOTONIC_RAW,
            ..Attributes::default()
        };
        kind.set(&mut attributes);
        let fd = match open(&attributes, cpu) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                attributes.read_format = 0;
                open(&attributes, cpu)?
            }
            other => other?,
        };
        let length = page + size;
        // SAFETY: this is a new mapping of our own descriptor, at an address that the kernel
        // chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { fd, base, page, size, tells_losses: attributes.read_format != 0, kind, output: None })
    }

    /// Content of the samples.
    pub fn kind(&self) -> SampleKind {
        self.kind
    }

    /// Opens a disabled event whose samples BPF programs take. They have copies of at most `bytes`
    /// bytes of the stack and go into the same ring, whose samples must have copies, too.
    pub fn open_output(&mut self, cpu: u32, bytes: u32) -> io::Result<&OwnedFd> {
        let mut attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: COUNT_SW_BPF_OUTPUT,
            // Here it is the period: each call of a program is a sample.
            sample_freq: 1,
            read_format: if self.tells_losses { FORMAT_LOST } else { 0 },
            flags: DISABLED | WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID,
            wakeup_watermark: (self.size / 4) as u32,
            clockid: libc::CLOCK_MONOTONIC_RAW,
            ..Attributes::default()
        };
        SampleKind::Copy { bytes }.set(&mut attributes);
        let output = open(&attributes, cpu)?;
        control(&output, IOC_SET_OUTPUT, self.fd.as_raw_fd())?;
        Ok(self.output.insert(output))
    }

    /// Starts the sampling.
    pub fn enable(&self) -> io::Result<()> {
        self.events().try_for_each(|event| control(event, IOC_ENABLE, 0))
    }

    /// Stops the sampling.
    pub fn disable(&self) -> io::Result<()> {
        self.events().try_for_each(|event| control(event, IOC_DISABLE, 0))
    }

    fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.fd).chain(&self.output)
    }

    /// Returns the number of records that the kernel lost since the begin. `None` on kernels that
    /// do not count them.
    pub fn lost(&self) -> Option<u64> {
        let lost = |event: &OwnedFd| {
            let mut words = [0u8; 16];
            let read = rustix::io::read(event, &mut words).ok()?;
            let count = u64::from_ne_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| words[at]));
            (self.tells_losses && read == words.len()).then_some(count)
        };
        self.events().map(lost).sum()
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped while this value lives, and the kernel keeps an aligned
        // 64-bit position there.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Calls `take` with each complete record, and then frees the space of all of them. `scratch`
    /// holds a copy of the record, which may continue at the start of the ring.
    pub fn drain(&mut self, scratch: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= 8 && head.wrapping_sub(tail) <= self.size as u64 {
            scratch.clear();
            self.copy(tail, 8, scratch);
            let size = usize::from(u16::from_ne_bytes([scratch[6], scratch[7]]));
            if size < 8 || size as u64 > head.wrapping_sub(tail) {
                break;
            }
            self.copy(tail.wrapping_add(8), size - 8, scratch);
            take(scratch);
            tail = tail.wrapping_add(size as u64);
        }
        // A record with an impossible size has no known end, so all the rest is skipped.
        let rest = head.wrapping_sub(tail);
        if rest > 0 {
            tail = head;
        }
        fence(Ordering::AcqRel);
        self.position(DATA_TAIL).store(tail, Ordering::Release);
    }

    fn copy(&self, position: u64, length: usize, to: &mut Vec<u8>) {
        let at = (position % self.size as u64) as usize;
        let first = length.min(self.size - at);
        // SAFETY: both ranges are in the data area after the first page, and the kernel does not
        // write between tail and head.
        unsafe {
            let data = self.base.as_ptr().add(self.page);
            to.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            to.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `open`, with its length; no reference into it exists
        // any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.page + self.size) };
    }
}

fn control(event: &OwnedFd, request: libc::c_ulong, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: these requests take a plain number or a descriptor and access no memory of ours.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn open(attributes: &Attributes, cpu: u32) -> io::Result<OwnedFd> {
    let whole: *const Attributes = attributes;
    // SAFETY: the kernel reads as many bytes of the attributes as their `size` field says, which is
    // their true size.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, whole, -1, cpu as libc::c_int, -1, FLAG_FD_CLOEXEC) };
    match i32::try_from(fd) {
        // SAFETY: a new descriptor, which has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn page_size() -> usize {
    // SAFETY: `sysconf` takes and returns a number; no memory is passed.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
