//! The rings of threads: a ring is made, taken by a thread, released at the end of the thread,
//! and replaced by a larger one.
//!
//! All of this is rare and may enter the kernel. Signals are blocked while the process's table is
//! changed, and the program continues normally if there is no memory. The code never waits for the
//! recorder; it waits for other threads of the program only for a bounded time.

use crate::process::connection::{own_process, read_orders};
use crate::process::{call_at_exit, library, page, Entry, Process, ENTRIES};
use crate::process::runtime_directory::{create, open_directory, open_writable, publish};
use crate::system::{self, Blocked, File, Text};
use crate::process::thread_ring::{current, set, Ring};
use core::ffi::c_void;
use core::sync::atomic::Ordering::*;
use longpole_abi::{MAGIC, RING_DATA, RING_ENDED, RING_IDLE, RING_MINIMUM, RING_OWNED, RING_SUBBUFFERS, VERSION};

/// Time to wait for the lock in nanoseconds: 0.1 s. Its holder may not get a CPU at all, or may
/// have been killed while holding it.
const LOCK_NS: i64 = 100_000_000;
/// Cycles until a failed attempt is repeated (about 0.1 s at 2.5 GHz), so that not every event pays
/// for it.
const RETRY: u64 = 1 << 28;

/// The thread id for the owner of a ring. The child of a vfork shares all memory with the thread
/// that waits for it, including the pointer to its ring, so its events belong to that thread. Only
/// the C library knows the id of that thread then.
fn own_tid() -> i32 {
    let known = || system::thread_of_library().filter(|_| system::getpid() as i32 != page().pid.load(Relaxed));
    known().unwrap_or_else(|| system::gettid() as i32)
}

/// Total size of unread rings of ended threads, in bytes, from which on no more rings are made: if
/// there is no recorder, and if there is one.
const IDLE_MANY: u64 = 16 << 20;
const IDLE_MAXIMUM: u64 = 256 << 20;

/// Returns `true` if a recorder records this process, or if one wants to record all new processes
/// and will find this one.
fn has_recorder(process: &Process) -> bool {
    let Ok(directory) = open_directory(&process.directory()) else { return false };
    let name = Text::<64>::of(&[process.stem().bytes(), b".control"]);
    let comes = read_orders(&directory).is_some_and(|session| session.orders.mask.load(Relaxed) != 0);
    comes || File::open_read(&directory, &name).is_ok_and(|file| system::is_locked(&file))
}

/// The process's table, locked. Callers block signals meanwhile.
struct Locked<'a> {
    process: &'a Process,
}

impl<'a> Locked<'a> {
    /// Takes the lock; `None` if it gave up. The lock is a counter that is incremented by each lock
    /// and each unlock, so its lowest bit is 1 while taken. A waiting thread therefore sees that
    /// other threads make progress, and does not give up: when a thousand threads start at once,
    /// none fails only because others were faster.
    fn new(process: &'a Process) -> Option<Self> {
        Self::within(process, LOCK_NS)
    }

    /// Takes the lock; `None` if no other thread made progress for `ns` nanoseconds.
    fn within(process: &'a Process, ns: i64) -> Option<Self> {
        let (mut pause, mut left, mut all) = (50_000, ns, 100 * ns);
        let mut seen = process.lock.load(Relaxed);
        loop {
            let now = process.lock.load(Relaxed);
            if now & 1 == 0 && process.lock.compare_exchange(now, now.wrapping_add(1), Acquire, Relaxed).is_ok() {
                return Some(Locked { process });
            }
            if now != seen {
                left = ns;
            }
            seen = now;
            if left <= 0 || all <= 0 {
                return None;
            }
            // Sleeps instead of yielding, because the holder may have a lower priority. The pause
            // grows, because hundreds of polling threads would keep the holder from the CPUs.
            system::sleep_ns(pause);
            left -= pause;
            all -= pause;
            if pause < 3_000_000 {
                pause *= 2;
            }
        }
    }

    /// The entries in use.
    fn entries(&self) -> &'a [Entry] {
        let count = (self.process.entries.load(Relaxed) as usize).min(ENTRIES);
        &self.process.entry[..count]
    }

    /// The entry of a ring whose thread has ended. Returns one with room. If too many unread rings
    /// wait for a recorder, returns also one without room: its events are counted as lost, and
    /// memory stays bounded.
    fn idle(&self) -> Option<&'a Entry> {
        let (mut full, mut waiting) = (None, 0);
        for entry in self.entries().iter().filter(|entry| entry.tid.load(Relaxed) == 0) {
            if entry.ring().has_room() {
                return Some(entry);
            }
            full = Some(entry);
            waiting += entry.ring().size.load(Relaxed).min(IDLE_MAXIMUM);
        }
        full.filter(|_| waiting >= IDLE_MAXIMUM || (waiting >= IDLE_MANY && !has_recorder(self.process)))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.process.lock.fetch_add(1, Release);
    }
}

impl Entry {
    fn ring(&self) -> Ring {
        Ring(self.ring.load(Relaxed))
    }

    /// Makes the ring available to other threads after its thread has ended.
    fn return_ring(&self) {
        // The thread may have ended in a probe, or in a handler that interrupted one. The entries
        // that this probe would have moved are lost.
        self.ring().lost.fetch_add(self.ring().mark_moved_side_entries(), Release);
        self.ring().nested.store(0, Relaxed);
        self.ring().busy.store(0, Relaxed);
        self.ring().seal();
        self.ring().state.store(RING_IDLE, Release);
        self.tid.store(0, Relaxed);
        self.users.store(0, Relaxed);
    }
}

/// Makes a ring file for this thread. If there is no memory, the reason is stored in the control
/// file.
#[cold]
fn make_ring(process: &Process) -> Option<Ring> {
    let control = page();
    let refuse = |error: isize| {
        control.refused_errno.store(error.unsigned_abs() as u32, Relaxed);
        None
    };
    let wanted = u64::from(control.orders.ring_size.load(Relaxed));
    let size = if (RING_MINIMUM..=1 << 30).contains(&wanted) && wanted.is_power_of_two() { wanted } else { RING_MINIMUM };
    let whole = RING_DATA + size as usize;
    let directory = match open_directory(&process.directory()) {
        Ok(directory) => directory,
        Err(error) => return refuse(error),
    };
    let (file, temporary) = match create(&directory, whole) {
        Ok(made) => made,
        Err(error) => return refuse(error),
    };
    let ring = Ring::map(&file, whole);
    drop(file);
    let Some(ring) = ring else {
        directory.unlink(&temporary);
        return refuse(system::ENOMEM);
    };
    let number = control.rings.load(Relaxed);
    ring.mask.store(size - 1, Relaxed);
    ring.magic.store(MAGIC, Relaxed);
    ring.version.store(VERSION, Relaxed);
    ring.number.store(number, Relaxed);
    ring.size.store(size, Relaxed);
    ring.subbuffer.store(size / RING_SUBBUFFERS, Relaxed);
    ring.clock.store(control.orders.clock.load(Relaxed), Relaxed);
    ring.mode.store(control.orders.mode.load(Relaxed), Relaxed);
    ring.block_limit.store(control.orders.block_limit.load(Relaxed), Relaxed);
    ring.own(own_tid());
    let mut name = Text::<64>::of(&[process.stem().bytes(), b"."]);
    name.push_number(u64::from(number), 10, 0);
    name.push(b".ring");
    let published = publish(&directory, &temporary, &name);
    if published < 0 {
        // SAFETY: no other code knows the ring.
        unsafe { ring.unmap(whole) };
        return refuse(published);
    }
    control.rings.store(number.wrapping_add(1), Release);
    Some(ring)
}

/// Frees the entries of threads that ended without running destructors, so that their rings serve
/// other threads.
#[cold]
fn reclaim(table: &Locked) {
    for entry in table.entries() {
        let tid = entry.tid.load(Relaxed);
        // A task that shares our memory is not necessarily a thread of our process.
        if tid != 0 && system::tkill(tid as usize, 0) == system::ESRCH {
            entry.return_ring();
        }
    }
}

/// The entry of this thread, from the pool or new, with this library as a user; `None` if there is
/// no memory.
#[cold]
fn take_entry<'a>(table: &Locked<'a>) -> Option<&'a Entry> {
    let (process, tid) = (table.process, own_tid());
    if let Some(own) = table.entries().iter().find(|entry| entry.tid.load(Relaxed) == tid) {
        own.users.fetch_or(library().slot.load(Relaxed), Relaxed);
        return Some(own);
    }
    let count = table.entries().len();
    let mut idle = table.idle();
    if idle.is_none() && count >= 8 && count.is_power_of_two() {
        reclaim(table);
        idle = table.idle();
    }
    let entry = match idle {
        Some(entry) => {
            entry.ring().own(tid);
            entry
        }
        None => {
            let retry = process.retry.load(Relaxed);
            let entry = process.entry.get(count)?;
            // EAGAIN means that a thread gave up waiting for the table, which is unrelated to
            // memory.
            let memory = page().refused_errno.load(Relaxed) != system::EAGAIN;
            if retry != 0 && memory && system::counter() < retry {
                return None;
            }
            let Some(ring) = make_ring(process) else {
                process.retry.store(system::counter() + RETRY, Relaxed);
                return None;
            };
            process.retry.store(0, Relaxed);
            entry.ring.store(ring.0, Relaxed);
            process.entries.store(count as u32 + 1, Relaxed);
            entry
        }
    };
    entry.tid.store(tid, Relaxed);
    entry.users.store(library().slot.load(Relaxed), Relaxed);
    Some(entry)
}

/// Gives this thread a ring.
#[cold]
pub fn attach() -> Option<Ring> {
    let process = own_process()?;
    let control = page();
    if control.orders.mask.load(Acquire) == 0 {
        return None;
    }
    let signals = Blocked::new();
    // If a thread gave up waiting a moment ago, threads do not wait again at every event; each only
    // tries the lock once.
    let stuck = control.refused_errno.load(Relaxed) == system::EAGAIN && system::counter() < process.retry.load(Relaxed);
    // A handler may have attached a ring in the meantime.
    if !current().is_open() {
        match Locked::within(process, if stuck { 0 } else { LOCK_NS }) {
            Some(table) => {
                if stuck {
                    process.retry.store(0, Relaxed);
                }
                if let Some(entry) = take_entry(&table) {
                    set(entry.ring());
                }
            }
            None if stuck => {}
            None => {
                process.retry.store(system::counter() + RETRY, Relaxed);
                control.refused_errno.store(system::EAGAIN, Relaxed);
            }
        }
        if current().is_open() {
            call_at_exit(current().0.cast_const().cast::<c_void>());
        }
    }
    drop(signals);
    let ring = current();
    if ring.is_open() {
        return Some(ring);
    }
    control.refused.fetch_add(1, Relaxed);
    None
}

/// Called when the library is unloaded or the process ends while its threads continue: they keep
/// their rings for other libraries.
pub fn leave(process: &Process) {
    let _signals = Blocked::new();
    let Some(table) = Locked::new(process) else { return };
    let others = !library().own_slot();
    for entry in table.entries() {
        entry.users.fetch_and(others, Relaxed);
    }
    process.libraries.fetch_and(others, AcqRel);
}

/// Called when the thread ends: its ring goes to the pool if no other library uses it.
pub extern "C" fn exit(_: *mut c_void) {
    let ring = current();
    set(Ring::none());
    let Some(process) = library().process().filter(|process| process.is_alive()) else { return };
    if !ring.is_open() {
        return;
    }
    let _signals = Blocked::new();
    let tid = system::gettid() as i32;
    // If the lock cannot be had, the ring goes to the pool when another thread finds that this
    // thread has ended.
    let Some(table) = Locked::new(process) else { return };
    for entry in table.entries().iter().filter(|entry| entry.tid.load(Relaxed) == tid) {
        let users = entry.users.load(Relaxed) & !library().own_slot();
        entry.users.store(users, Relaxed);
        if users == 0 {
            entry.return_ring();
        }
    }
}

/// Maps the larger ring that the recorder has made for this thread; also returns the size of its
/// file in bytes.
fn map_larger_ring(process: &Process, number: u32) -> Option<(Ring, usize)> {
    let directory = open_directory(&process.directory()).ok()?;
    let mut name = Text::<64>::of(&[process.stem().bytes(), b".s"]);
    name.push_number(u64::from(number.wrapping_sub(1)), 10, 0);
    name.push(b".ring");
    let file = open_writable(&directory, &name).ok()?;
    let whole = usize::try_from(file.stat()?.size).ok().filter(|size| *size > RING_DATA)?;
    let ring = Ring::map(&file, whole)?;
    let (size, subbuffer) = (ring.size.load(Relaxed), ring.subbuffer.load(Relaxed));
    let sound = ring.magic.load(Relaxed) == MAGIC
        && size == (whole - RING_DATA) as u64
        && ring.mask.load(Relaxed) == size.wrapping_sub(1)
        && subbuffer != 0
        && size % subbuffer == 0;
    if !sound {
        // SAFETY: no other code in this process knows the mapping.
        unsafe { ring.unmap(whole) };
        return None;
    }
    Some((ring, whole))
}

/// Moves this thread to the larger ring that the recorder has made for it; returns the ring to use.
/// Signals are blocked for the whole function, so that a handler that exits by a jump, or that ends
/// the thread, cannot leak a file, memory or the lock.
#[cold]
pub fn switch_to_larger_ring(ring: Ring, successor: u32) -> Ring {
    let _signals = Blocked::new();
    ring.successor.store(0, Relaxed);
    let Some(process) = library().process() else { return ring };
    let Some((next, whole)) = map_larger_ring(process, successor) else { return ring };
    let table = Locked::new(process);
    let found = table.as_ref().and_then(|table| table.entries().iter().find(|entry| entry.ring() == ring));
    if let Some(entry) = found {
        next.own(ring.tid.load(Relaxed));
        next.busy.store(ring.busy.load(Relaxed), Relaxed);
        entry.ring.store(next.0, Relaxed);
        set(next);
        // The events that handlers left in the old side area are moved as well.
        for (to, from) in next.side.iter().flatten().zip(ring.side.iter().flatten()) {
            to.store(from.load(Relaxed), Relaxed);
        }
        next.nested.store(ring.nested.load(Relaxed), Relaxed);
        next.packets.store(ring.packets.load(Relaxed), Relaxed);
        ring.nested.store(0, Relaxed);
        ring.seal();
        ring.busy.store(0, Relaxed);
        ring.state.store(RING_ENDED, Release);
    }
    let moved = found.is_some();
    drop(table);
    if !moved {
        // SAFETY: no other code in this process knows the mapping.
        unsafe { next.unmap(whole) };
        return ring;
    }
    // The old header stays mapped and sealed: this may be a handler that interrupted a probe
    // between reading the pointer and taking the ring, and other libraries of the thread still have
    // the old address. A probe that comes there finds no room, and that the ring has ended.
    // SAFETY: code that writes into the data of the old ring checks for room first, and finds none.
    unsafe { system::unmap(ring.0.cast::<u8>().add(RING_DATA), ring.size.load(Relaxed) as usize) };
    next
}

/// Moves this library to the larger ring that another library of this thread already uses. Returns
/// `false` if the table could not be locked; then the event is counted as refused.
#[cold]
pub fn adopt_larger_ring(ring: Ring) -> bool {
    let _signals = Blocked::new();
    let Some(table) = library().process().and_then(Locked::new) else {
        page().refused.fetch_add(1, Relaxed);
        return false;
    };
    let tid = ring.tid.load(Relaxed);
    let found = table.entries().iter().rfind(|entry| entry.tid.load(Relaxed) == tid);
    let next = found.map_or(Ring::none(), Entry::ring);
    set(next);
    if next == ring {
        // The state was overwritten by another program; restores it.
        ring.state.store(RING_OWNED, Relaxed);
    }
    true
}
