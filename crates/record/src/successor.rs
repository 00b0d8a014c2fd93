//! A larger ring for a thread that needs one.
//!
//! The recorder makes the file, complete and with memory behind it, and names it in the old ring; the thread goes over at the end of a
//! sub-buffer. Until the thread has said so, nothing is taken from the new ring: the old one's rest comes first.

use crate::mapping::Access;
use crate::policy::Manner;
use crate::ring::Ring;
use crate::runtime::{ring_name, Runtime};
use longpole_abi::{Ring as Layout, MAGIC, RING_DATA, RING_OWNED, RING_SUBBUFFERS, VERSION};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// What a busy thread gets first.
pub const BUSY: u64 = 256 << 10;
/// What it gets at most without anybody having asked for more.
pub const LARGEST: u64 = 4 << 20;
/// Memory that all larger rings of a session may take together.
pub const SESSION: u64 = 512 << 20;

/// The size that should follow, given that a ring was too small.
pub fn larger(size: u64) -> Option<u64> {
    match size {
        size if size < BUSY => Some(BUSY),
        // Steps between would cost events at each.
        size if size < LARGEST => Some(LARGEST),
        _ => None,
    }
}

/// Makes a ring of `size` bytes to follow `ring`, and says so in `ring`.
pub fn make(runtime: &Runtime, stem: &str, number: u32, ring: &Ring, (size, manner): (u64, Manner)) -> io::Result<Ring> {
    // Whatever is taken here must leave room for the rings that threads make for themselves.
    if runtime.free_memory() / 4 < size {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = ring_name(stem, number, false);
    let file = runtime.make(&name, RING_DATA as u64 + size)?;
    let mapping = crate::mapping::Mapping::new(file.as_fd(), RING_DATA + size as usize, Access::Populate)?;
    let Some(layout) = mapping.get::<Layout>(0) else { return Err(io::Error::other("no room for a ring's header")) };
    let old = ring.layout();
    layout.mask.store(size - 1, Ordering::Relaxed);
    layout.state.store(RING_OWNED, Ordering::Relaxed);
    layout.version.store(VERSION, Ordering::Relaxed);
    layout.number.store(number, Ordering::Relaxed);
    layout.size.store(size, Ordering::Relaxed);
    layout.subbuffer.store(size / RING_SUBBUFFERS, Ordering::Relaxed);
    layout.clock.store(ring.clock, Ordering::Relaxed);
    layout.mode.store(manner.mode.number(), Ordering::Relaxed);
    layout.block_limit.store(manner.limit(), Ordering::Relaxed);
    layout.pid.store(old.pid.load(Ordering::Relaxed), Ordering::Relaxed);
    layout.tid.store(old.tid.load(Ordering::Relaxed), Ordering::Relaxed);
    layout.session.store(old.session.load(Ordering::Relaxed), Ordering::Relaxed);
    layout.lane.store(old.lane.load(Ordering::Relaxed), Ordering::Relaxed);
    layout.magic.store(MAGIC, Ordering::Release);
    drop(mapping);
    let made = Ring::open(runtime, &name, number, false, Access::Write)?;
    old.successor.store(number + 1, Ordering::Release);
    Ok(made)
}
