//! Replaces a ring that is too small by a larger one.
//!
//! The recorder makes the file of the new ring, complete and with its memory allocated, and stores
//! its number in the old ring. The thread switches to it at the end of a sub-buffer and marks the
//! old ring as ended. Until then nothing is taken from the new ring, because the remaining events
//! of the old one come first.

use crate::control::policy::FullRingAction;
use crate::mapping::Access;
use crate::recorder::{Recorder, Subject};
use crate::ring::Ring;
use crate::runtime_dir::process::{Source, Verdict};
use crate::runtime_dir::{ring_name, Runtime};
use longpole_abi::{Ring as Layout, MAGIC, RING_DATA, RING_OWNED, RING_SUBBUFFERS, VERSION};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

/// Size in bytes of the first larger ring of a busy thread.
pub const BUSY: u64 = 256 << 10;
/// Largest size in bytes that a thread gets without a request of the user.
const LARGEST: u64 = 4 << 20;
/// Number of periods after which a thread may get a larger ring before it is busy, subject to the
/// two limits below.
const SETTLED: u32 = 1;
/// Number of such rings that are always allowed; more are allowed up to the number of CPUs.
const EARLY: u64 = 4;
/// Required free memory for such a ring, as a multiple of its size.
const PLENTY: u64 = 16;
/// Bytes of memory that all larger rings of a session may use together.
const SESSION: u64 = 512 << 20;

/// Limit in bytes for larger rings of threads that are not busy yet. The number of CPUs is
/// determined only once, because that reads files of control groups.
fn most_early() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| EARLY.max(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)) * LARGEST)
}

/// Next size in bytes for a ring of `size` bytes that was too small; `None` if it is the largest.
pub fn larger(size: u64) -> Option<u64> {
    match size {
        size if size < BUSY => Some(BUSY),
        // Each change of size costs events, so the next size is the largest one.
        size if size < LARGEST => Some(LARGEST),
        _ => None,
    }
}

/// Bytes of the larger rings of these sources.
pub fn memory<'a>(sources: impl Iterator<Item = &'a Source>) -> u64 {
    let rings = sources.flat_map(|source| [Some(&source.ring), source.successor.as_ref()]);
    rings.flatten().filter(|ring| !ring.own).map(|ring| ring.size).sum()
}

impl Recorder {
    /// Bytes of the larger rings in all runtime directories.
    fn larger_rings(&self) -> u64 {
        self.others.iter().fold(self.place.larger, |sum, place| sum + place.larger)
    }

    /// Size of a larger ring for a thread that is not busy yet; called once a period.
    ///
    /// A thread's first ring fills within milliseconds, but the recorder looks at a nearly empty
    /// ring only once a period. A thread that suddenly becomes busy would lose most of the events
    /// of that period. Therefore the first threads get the larger ring in advance, within the
    /// limits above.
    pub(crate) fn early(&self, source: &mut Source) -> Option<u64> {
        source.periods = source.periods.saturating_add(1);
        let may = source.periods > SETTLED
            && source.ring.size < LARGEST
            && !source.ring.overwrites
            && source.successor.is_none()
            && !source.settled;
        (may && self.larger_rings() + LARGEST <= most_early() && self.place.runtime.free_memory() / PLENTY >= LARGEST).then_some(LARGEST)
    }

    /// Offers a larger ring to a thread if its ring should be larger or has the wrong mode.
    pub(crate) fn consider_successor(&mut self, subject: &mut Subject, at: usize, larger: Option<u64>) {
        let requested = subject.buffer;
        let source = &mut subject.sources[at];
        if source.successor.is_some() && source.ring.layout().successor.load(Ordering::Acquire) == 0 {
            // The thread has read the number of its new ring. Either it is about to switch and
            // writes no more events here, or it could not map the file; then it continues here and
            // is not asked again.
            let now = source.ring.layout().head.load(Ordering::Acquire);
            match source.answered {
                None => source.answered = Some(None),
                Some(None) => source.answered = Some(Some(now)),
                Some(Some(head)) if now != head && !source.ring.is_ended() => {
                    source.answered = None;
                    source.settled = true;
                    if let Some(untaken) = source.successor.take() {
                        self.place.runtime.remove(&untaken.name);
                        let (label, size) = (&subject.process.label, source.ring.size >> 10);
                        let text = format!("{label}: a thread could not go over to a larger ring, and stays in one of {size} KiB; --buffer gives it a larger one from the begin");
                        self.diagnostic(text);
                    }
                }
                Some(Some(_)) => {}
            }
        }
        let manner = self.manner_of(source.verdict);
        let other = self.adjust(source, manner);
        if source.successor.is_some() || source.settled || source.verdict == Verdict::Unwanted {
            return;
        }
        let size = match requested {
            Some(requested) => requested,
            None if other => source.ring.size,
            None => match larger {
                Some(size) => size,
                None => return,
            },
        };
        if size <= source.ring.size && !other {
            return;
        }
        let size = size.max(source.ring.size);
        if requested.is_none() && self.larger_rings() + size > SESSION {
            // Memory becomes free when other threads end.
            if !std::mem::replace(&mut source.denied, true) {
                self.diagnostic("a ring was too small, and the session's memory for larger ones was used up".to_owned());
            }
            return;
        }
        let number = subject.process.next_successor;
        // The number came from a foreign file name. The ring stores the number plus 1, which would
        // overflow.
        let Some(next) = number.checked_add(1) else {
            source.settled = true;
            return;
        };
        subject.process.next_successor = next;
        match make(&self.place.runtime, &subject.process.stem, number, &source.ring, (size, manner)) {
            Ok(ring) => {
                self.place.larger += size;
                source.answered = None;
                source.successor = Some(ring);
            }
            Err(error) => {
                source.settled = true;
                self.diagnostic(format!("{}: no larger ring: {error}", source.ring.name));
            }
        }
    }
}

/// Makes a ring of `size` bytes to replace `ring`, and stores its number in `ring`.
fn make(runtime: &Runtime, stem: &str, number: u32, ring: &Ring, (size, manner): (u64, FullRingAction)) -> io::Result<Ring> {
    // Enough memory must remain for the rings that threads make for themselves.
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
