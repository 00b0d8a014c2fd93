//! The structures of `include/longpole/abi.h`, byte for byte; their fields are documented there.
//! Words that probes and recorder access concurrently are atomics.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicU8};

pub const MAGIC: u64 = 0x454c_4f50_474e_4f4c;
pub const VERSION: u32 = 1;

#[cfg(target_arch = "aarch64")]
pub const CONTROL_SIZE: usize = 65536;
#[cfg(not(target_arch = "aarch64"))]
pub const CONTROL_SIZE: usize = 4096;

pub const FIRST_SITE_ID: u16 = 64;

pub const MODE_DISCARD: u32 = 0;
pub const MODE_OVERWRITE: u32 = 1;
pub const MODE_BLOCK: u32 = 2;

pub const CLOCK_COUNTER: u32 = 0;
pub const CLOCK_MONO_RAW: u32 = 1;

pub const RING_DATA: usize = 4096;
pub const SIDE_ENTRIES: usize = 16;
pub const RING_SUBBUFFERS: u64 = 4;
pub const RING_MINIMUM: u64 = 32768;
pub const SUBBUFFER_HEADER: u64 = 256;

pub const RING_OWNED: u32 = 0;
pub const RING_IDLE: u32 = 1;
pub const RING_ENDED: u32 = 2;

pub const SITE_SLOTS: usize = 65536;
pub const SITE_ATTEMPTS: u32 = 64;
pub const SITE_ARENA_STEP: u64 = 1 << 20;
pub const SITE_ARENA_MAXIMUM: u64 = 64 << 20;
pub const NAME_MAXIMUM: usize = 255;
pub const FIELDS_MAXIMUM: usize = 1023;

/// The orders of a recorder. `mask` is the enable word; it is written last, with release order, so
/// that a probe that sees it also sees the other orders.
#[repr(C)]
pub struct Orders {
    pub mask: AtomicU32,
    pub mode: AtomicU32,
    pub ring_size: AtomicU32,
    pub snaplen: AtomicU32,
    pub clock: AtomicU32,
    /// Maximum time in microseconds for which a thread waits for room in its ring.
    pub block_limit: AtomicU32,
    pub session: AtomicU64,
    pub spare: [AtomicU64; 4],
}

/// The content of the file `session`: the orders for processes that start later.
#[repr(C)]
pub struct Session {
    pub orders: Orders,
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub recorder: AtomicI32,
    pub path: [AtomicU8; 1024],
}

/// The first bytes of a control file.
#[repr(C)]
pub struct Control {
    pub orders: Orders,
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub pid: AtomicI32,
    pub birth: AtomicU64,
    pub process: AtomicU64,
    pub rings: AtomicU32,
    pub refused: AtomicU32,
    pub refused_errno: AtomicU32,
    pub label_version: AtomicU32,
    pub label: [AtomicU8; 256],
    pub executable: [AtomicU8; 256],
    pub scope: AtomicU64,
}

/// The first 4 KiB of a ring file.
#[repr(C)]
pub struct Ring {
    pub head: AtomicU64,
    pub limit: AtomicU64,
    pub mask: AtomicU64,
    pub last: AtomicU64,
    pub lost: AtomicU64,
    pub busy: AtomicU64,
    pub spare_byte: AtomicU8,
    pub nested: AtomicU8,
    pub packets: AtomicU8,
    pub second_spare_byte: AtomicU8,
    pub state: AtomicU32,
    pub events: AtomicU64,

    pub tail: AtomicU64,
    pub pending_tail: AtomicU64,
    pub pending_offset: AtomicU64,
    pub lost_reported: AtomicU64,
    pub lane: AtomicU32,
    pub successor: AtomicU32,
    pub session: AtomicU64,
    pub pending_lost: AtomicU64,
    pub pending_discarded: AtomicU64,

    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub number: AtomicU32,
    pub size: AtomicU64,
    pub subbuffer: AtomicU64,
    pub pid: AtomicI32,
    pub tid: AtomicI32,
    pub clock: AtomicU32,
    pub nested_lost: AtomicU32,
    pub thread: [AtomicU8; 32],
    pub mode: AtomicU32,
    pub block_limit: AtomicU32,
    pub gave_up: AtomicU64,
    pub waited: AtomicU64,
    pub taken: AtomicU64,
    pub end: AtomicU64,
    pub unused: [AtomicU8; 776],

    pub side: [[AtomicU8; 64]; SIDE_ENTRIES],
    pub rest: [AtomicU8; 2048],
}

/// The header of every sub-buffer.
#[repr(C)]
pub struct Subbuffer {
    pub begin: AtomicU64,
    pub content: AtomicU64,
    pub lost: AtomicU64,
    pub position: AtomicU64,
    pub pid: AtomicI32,
    pub tid: AtomicI32,
    pub thread: [AtomicU8; 32],
    pub events: AtomicU64,
    pub unused: [AtomicU8; 168],
    pub last: AtomicU64,
}

/// The head of the file `sites`. The arena follows it.
#[repr(C)]
pub struct Sites {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub used: AtomicU32,
    pub arena_next: AtomicU64,
    pub arena_size: AtomicU64,
    pub unused: [AtomicU8; 4096 - 32],
    pub slots: [AtomicU32; SITE_SLOTS],
}

/// The fixed part of an arena entry. The texts of the site follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteEntry {
    pub size: u32,
    pub kind: u16,
    pub name_size: u16,
    pub fields_size: u16,
    pub file_size: u16,
    pub attributes_size: u16,
    pub reserved: u16,
    pub line: u32,
    pub hash: u32,
}
