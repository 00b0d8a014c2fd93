//! The thread that moves whole pages of events of every CPU to the disk.
//!
//! The kernel wakes the thread when a quarter of a buffer is full; otherwise the thread looks ten
//! times a second. Pages are moved by splice(2), so recording costs the host one copy into the page
//! cache and no work per event. The pages of a flight recorder stay in the kernel until an order
//! takes them; see `pause`. The thread shares only [`Shared`] with the recorder.

use super::cpu_loss::CpuLoss;
use super::pause::{self, Moved, Order, PageDestination};
use crate::kernel::overload::SwitchedOff;
use longpole_ftrace::RawReader;
use rustix::event::{poll, PollFd, PollFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest time that a finished page waits in the kernel.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes moved by one splice: what the reader's pipe holds. After each of them, the thread updates
/// its byte counters.
const CHUNK: usize = 1 << 20;
/// Pause after a wake-up that brought no page (for example because a CPU went offline), so that the
/// thread does not spin.
const PAUSE: Duration = Duration::from_millis(10);

/// Page files by CPU, with their paths.
pub(super) type PageFiles = BTreeMap<u32, (File, PathBuf)>;

/// Data shared with the thread that moves the pages and the thread that switches off events.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Shared {
    stop: AtomicBool,
    order: Mutex<Option<Order>>,
    bytes: AtomicU64,
    /// Numbers of the last flush that was asked for, and of the last one that is complete.
    flush_wanted: AtomicU64,
    flush_done: AtomicU64,
    troubles: Mutex<BTreeMap<String, u64>>,
    /// Steps by which events were given up, in order of time.
    pub(in crate::kernel) switched_off: Mutex<Vec<SwitchedOff>>,
}

impl Shared {
    /// Notes a problem, to be reported once with its count at the end.
    pub(in crate::kernel) fn trouble(&self, text: String) {
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_insert(0) += 1;
    }

    /// Returns the problems that were noted, each with its count, and forgets them.
    pub(super) fn take_troubles(&self) -> Vec<String> {
        let troubles = std::mem::take(&mut *self.troubles.lock().unwrap_or_else(PoisonError::into_inner));
        let times = |(text, count)| match count {
            1 => text,
            count => format!("{text} ({count} times)"),
        };
        troubles.into_iter().map(times).collect()
    }

    /// Steps by which events were given up until now.
    pub(super) fn switched_off(&self) -> Vec<SwitchedOff> {
        self.switched_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of pages that were moved until now.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the thread that moves the pages, after a last turn.
    pub(super) fn stop(&self, wake: &OwnedFd) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }

    /// Lets the thread move all events that were recorded until now. Returns the number of this
    /// flush.
    pub(super) fn begin_flush(&self, wake: &OwnedFd) -> u64 {
        let number = self.flush_wanted.fetch_add(1, Ordering::AcqRel) + 1;
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        number
    }

    /// Number of the last flush that is complete.
    pub(super) fn flushed(&self) -> u64 {
        self.flush_done.load(Ordering::Acquire)
    }

    /// Gives an order to the thread that moves the pages.
    pub(super) fn order(&self, order: Order, wake: &OwnedFd) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
    }

    /// Takes the order that waits, if there is one.
    pub(super) fn take_order(&self) -> Option<Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reader and page file of one CPU.
#[derive(Debug)]
pub(super) struct CpuReader {
    pub reader: RawReader,
    pub file: File,
    pub path: PathBuf,
    /// Size of the buffer in bytes. At most this much is moved before the next CPU is served.
    pub most: usize,
    /// Bytes that were moved.
    pub taken: Arc<AtomicU64>,
}

/// Body of the thread that moves the pages, until it is stopped. A flight recorder's pages are
/// moved only by order.
pub(super) fn move_all(mut readers: Vec<CpuReader>, wake: &OwnedFd, shared: &Shared, overwrites: bool) {
    let period = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(PERIOD.subsec_nanos()) };
    while !shared.stop.load(Ordering::Acquire) {
        let mut ready: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
        ready.extend(readers.iter().filter(|_| !overwrites).map(|cpu| PollFd::from_borrowed_fd(cpu.reader.as_fd(), PollFlags::IN)));
        let woken = poll(&mut ready, Some(&period)).unwrap_or(0);
        drop(ready);
        if woken > 0 {
            let _ = rustix::io::read(wake, &mut [0u8; 8]);
        }
        if let Some(order) = shared.take_order() {
            let mut order = order;
            let mut all = Moved::default();
            let moved = readers.iter_mut().try_for_each(|reader| reader.carry_out_order(shared, order.what(), overwrites, &mut all));
            order.answer(moved.map(|()| all));
            continue;
        }
        let flush = shared.flush_wanted.load(Ordering::Acquire);
        let flushes = flush != shared.flushed();
        let mut moved = 0;
        for reader in readers.iter_mut().filter(|_| !overwrites) {
            moved += reader.turn(shared);
            if flushes {
                // No finished page is left, so what was recorded before is in the next page.
                moved += reader.move_pages(shared, |reader, file| reader.copy_page_to(file.as_fd()));
            }
        }
        shared.flush_done.store(flush, Ordering::Release);
        if woken > 0 && moved == 0 && !shared.stop.load(Ordering::Acquire) {
            std::thread::sleep(PAUSE);
        }
    }
    for reader in &mut readers {
        reader.move_pages(shared, |reader, file| reader.drain_to(file.as_fd()));
        reader.close();
    }
}

impl CpuReader {
    /// Moves the finished pages, at most as much as a full buffer holds.
    fn turn(&mut self, shared: &Shared) -> usize {
        let mut all = 0;
        while all < self.most {
            match self.move_pages(shared, |reader, file| reader.splice_to(file.as_fd(), CHUNK)) {
                0 => break,
                moved => all += moved,
            }
        }
        all
    }

    fn move_pages(&mut self, shared: &Shared, by: impl FnOnce(&mut RawReader, &File) -> io::Result<usize>) -> usize {
        match by(&mut self.reader, &self.file) {
            Ok(moved) => {
                shared.bytes.fetch_add(moved as u64, Ordering::Relaxed);
                self.taken.fetch_add(moved as u64, Ordering::Relaxed);
                moved
            }
            Err(error) => {
                // The reader keeps what it took for the next call, and the kernel counts what it
                // overwrites meanwhile. What the reader still has at the end is counted as lost.
                shared.trouble(format!("cannot write the kernel's pages to {}: {error}; the pages before are kept", self.path.display()));
                0
            }
        }
    }

    /// Carries out an order for this CPU, and adds the result to `all`.
    fn carry_out_order(&mut self, shared: &Shared, what: &mut PageDestination, overwrites: bool, all: &mut Moved) -> io::Result<()> {
        let moved = match what {
            PageDestination::Out => self.move_pages(shared, pause::empty),
            PageDestination::Into(files) => match files.get(&self.reader.cpu()) {
                Some(file) => pause::empty(&mut self.reader, file)?,
                None => 0,
            },
            PageDestination::Shift(files) => {
                let moved = match overwrites {
                    true => 0,
                    // The page that is being filled, too: otherwise events of this chunk would be
                    // in the next one, on a quiet CPU even in a chunk much later.
                    false => self.turn(shared) + self.move_pages(shared, |reader, file| reader.copy_page_to(file.as_fd())),
                };
                if let Some((file, path)) = files.remove(&self.reader.cpu()) {
                    self.close();
                    (self.file, self.path) = (file, path);
                }
                // Only this thread reads pages, so the counters fit what was moved.
                all.cpus.extend(pause::counted(&self.reader).map(|stats| CpuLoss { cpu: self.reader.cpu(), stats }));
                moved
            }
        };
        all.bytes += moved as u64;
        Ok(())
    }

    /// Cuts off an incomplete page at the end of the file, which is left when the disk is full.
    fn close(&self) {
        let page = self.reader.page_size() as u64;
        if let Ok(found) = self.file.metadata() {
            if found.len() % page != 0 {
                let _ = self.file.set_len(found.len() - found.len() % page);
            }
        }
    }
}
