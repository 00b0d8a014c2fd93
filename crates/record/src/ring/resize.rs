//! Makes a larger ring that replaces one.
//!
//! The recorder makes the file of the new ring, complete and with its memory allocated, and stores
//! its number in the old ring. The thread switches to it at the end of a sub-buffer and marks the
//! old ring as ended.

use crate::control::policy::FullRingAction;
use crate::files::mapping::{Access, Mapping};
use crate::ring::Ring;
use crate::runtime_dir::{ring_name, RuntimeDir};
use longpole_abi::{Ring as Layout, MAGIC, RING_DATA, RING_OWNED, RING_SUBBUFFERS, VERSION};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Makes a ring of `size` bytes to replace `ring`, and stores its number in `ring`.
pub fn make(runtime: &RuntimeDir, stem: &str, number: u32, ring: &Ring, (size, action): (u64, FullRingAction)) -> io::Result<Ring> {
    // Enough memory must remain for the rings that threads make for themselves.
    if runtime.free_memory() / 4 < size {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = ring_name(stem, number, false);
    let file = runtime.make(&name, RING_DATA as u64 + size)?;
    let mapping = Mapping::new(file.as_fd(), RING_DATA + size as usize, Access::Populate)?;
    let Some(layout) = mapping.get::<Layout>(0) else { return Err(io::Error::other("no room for a ring's header")) };
    let old = ring.layout();
    layout.mask.store(size - 1, Ordering::Relaxed);
    layout.state.store(RING_OWNED, Ordering::Relaxed);
    layout.version.store(VERSION, Ordering::Relaxed);
    layout.number.store(number, Ordering::Relaxed);
    layout.size.store(size, Ordering::Relaxed);
    layout.subbuffer.store(size / RING_SUBBUFFERS, Ordering::Relaxed);
    layout.clock.store(ring.clock, Ordering::Relaxed);
    layout.mode.store(action.mode.number(), Ordering::Relaxed);
    layout.block_limit.store(action.limit(), Ordering::Relaxed);
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
