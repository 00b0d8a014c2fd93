//! The file `session`: who records, where to, and what processes that are born now shall do.
//!
//! The recorder holds an open-file-description lock on it, which the kernel takes away when it dies. Only what stands in the file
//! under such a lock is an order.

use crate::comm;
use crate::error::Error;
use crate::mapping::{Access, Mapping};
use crate::runtime::Runtime;
use longpole_abi::{Orders, Session as Layout, MAGIC, VERSION};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

const NAME: &str = "session";
const SIZE: u64 = 4096;
const _: () = assert!(size_of::<Layout>() <= SIZE as usize);

/// What a process is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Order {
    pub mask: u32,
    pub mode: u32,
    pub ring_size: u32,
    pub snaplen: u32,
    pub clock: u32,
    /// Microseconds.
    pub block_limit: u32,
    pub session: u64,
}

impl Order {
    /// Writes what differs, the mask last: whoever sees new categories sees the rest, too. A probe that is on already may meet some values
    /// old and some new; each of them is good by itself, and what a ring was made with stands in the ring.
    pub fn apply(&self, orders: &Orders) {
        let same = orders.mode.load(Ordering::Relaxed) == self.mode
            && orders.ring_size.load(Ordering::Relaxed) == self.ring_size
            && orders.snaplen.load(Ordering::Relaxed) == self.snaplen
            && orders.clock.load(Ordering::Relaxed) == self.clock
            && orders.block_limit.load(Ordering::Relaxed) == self.block_limit
            && orders.session.load(Ordering::Relaxed) == self.session;
        if !same {
            // First of all: a process that is being born gives way to orders that have a session.
            orders.session.store(self.session, Ordering::SeqCst);
            orders.mode.store(self.mode, Ordering::Relaxed);
            orders.ring_size.store(self.ring_size, Ordering::Relaxed);
            orders.snaplen.store(self.snaplen, Ordering::Relaxed);
            orders.clock.store(self.clock, Ordering::Relaxed);
            orders.block_limit.store(self.block_limit, Ordering::Relaxed);
        }
        if orders.mask.load(Ordering::Relaxed) != self.mask {
            orders.mask.store(self.mask, Ordering::Release);
        }
    }
}

/// The predecessor that did not come to an end.
#[derive(Clone, Debug)]
pub struct Unfinished {
    pub session: u64,
    pub path: PathBuf,
}

/// The lock, held.
#[derive(Debug)]
pub struct Held {
    _file: OwnedFd,
    mapping: Mapping,
}

impl Held {
    /// Takes the lock, or says who holds it.
    pub fn take(runtime: &Runtime) -> Result<(Held, Option<Unfinished>), Error> {
        let path = runtime.path().join(NAME);
        let file = match runtime.open_writable(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match runtime.make(NAME, SIZE) {
                Ok(_) => runtime.open_writable(NAME),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => runtime.open_writable(NAME),
                Err(error) => Err(error),
            },
            other => other,
        };
        let file = file.map_err(Error::io("open", &path))?;
        if file.size < SIZE {
            // Somebody cut it. Nobody can have recorded with it.
            rustix::fs::ftruncate(&file.file, SIZE).map_err(|error| Error::io("extend", &path)(error.into()))?;
        }
        let mapping = Mapping::new(std::os::fd::AsFd::as_fd(&file.file), SIZE as usize, Access::Write).map_err(Error::io("map", &path))?;
        if !lock(&file.file).map_err(Error::io("lock", &path))? {
            let running = layout(&mapping).map(read);
            return Err(Error::Busy {
                pid: running.as_ref().map_or(0, |running| running.pid),
                path: running.map_or_else(String::new, |running| running.path.display().to_string()),
            });
        }
        let held = Held { _file: file.file, mapping };
        let mut unfinished = None;
        if let Some(layout) = layout(&held.mapping) {
            let session = layout.orders.session.load(Ordering::Relaxed);
            if layout.magic.load(Ordering::Relaxed) == MAGIC && layout.version.load(Ordering::Relaxed) == VERSION && session != 0 {
                unfinished = Some(Unfinished { session, path: read(layout).path });
            }
            layout.orders.mask.store(0, Ordering::Release);
        }
        Ok((held, unfinished))
    }

    /// Says where the recording is and what is to be done from now on.
    pub fn publish(&self, path: &std::path::Path, order: &Order) {
        use std::os::unix::ffi::OsStrExt;
        let Some(layout) = layout(&self.mapping) else { return };
        layout.orders.mask.store(0, Ordering::SeqCst);
        store(&layout.path, path.as_os_str().as_bytes());
        layout.recorder.store(std::process::id() as i32, Ordering::Relaxed);
        layout.version.store(VERSION, Ordering::Relaxed);
        layout.magic.store(MAGIC, Ordering::Relaxed);
        order.apply(&layout.orders);
    }

    /// The recording goes on at `path`.
    pub fn moves(&self, path: &std::path::Path) {
        use std::os::unix::ffi::OsStrExt;
        if let Some(layout) = layout(&self.mapping) {
            store(&layout.path, path.as_os_str().as_bytes());
        }
    }

    /// Changes what is to be done; a process that is born meanwhile gets the old or the new orders.
    pub fn order(&self, order: &Order) {
        if let Some(layout) = layout(&self.mapping) {
            order.apply(&layout.orders);
        }
    }

    /// From here on nothing is to be recorded.
    pub fn quiet(&self) {
        if let Some(layout) = layout(&self.mapping) {
            layout.orders.mask.store(0, Ordering::SeqCst);
        }
    }

    /// The recording is complete: there is nothing for a successor to take over.
    pub fn finished(&self) {
        if let Some(layout) = layout(&self.mapping) {
            layout.orders.mask.store(0, Ordering::SeqCst);
            layout.orders.session.store(0, Ordering::SeqCst);
        }
    }
}

/// A recording in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: i32,
    pub path: PathBuf,
    pub session: u64,
}

/// The recording that is in progress for this runtime directory.
pub fn running(runtime: &Runtime) -> Result<Option<Running>, Error> {
    let path = runtime.path().join(NAME);
    let file = match runtime.open_readable(NAME) {
        Ok(file) if file.size >= SIZE => file,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    if !is_locked(&file.file) {
        return Ok(None);
    }
    let mapping = Mapping::new(std::os::fd::AsFd::as_fd(&file.file), SIZE as usize, Access::Read).map_err(Error::io("map", path))?;
    // Between taking the lock and its first orders the recorder has not said who it is.
    Ok(layout(&mapping).map(read).filter(|running| running.session != 0 && comm::alive(running.pid)))
}

fn layout(mapping: &Mapping) -> Option<&Layout> {
    mapping.get::<Layout>(0)
}

fn read(layout: &Layout) -> Running {
    use std::os::unix::ffi::OsStringExt;
    let mut path: Vec<u8> = layout.path.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
    Running {
        pid: layout.recorder.load(Ordering::Relaxed),
        path: PathBuf::from(std::ffi::OsString::from_vec(path)),
        session: layout.orders.session.load(Ordering::Relaxed),
    }
}

/// Stores a NUL-terminated text.
fn store(place: &[AtomicU8], text: &[u8]) {
    let length = text.len().min(place.len() - 1);
    for (at, byte) in place.iter().enumerate() {
        byte.store(if at < length { text[at] } else { 0 }, Ordering::Relaxed);
    }
}

fn request(kind: i32) -> libc::flock {
    // SAFETY: all bits zero is a valid flock: the whole file from its begin.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as i16;
    request.l_whence = libc::SEEK_SET as i16;
    request
}

/// False: somebody else has it.
fn lock(file: &OwnedFd) -> io::Result<bool> {
    let request = request(libc::F_WRLCK);
    // SAFETY: a valid descriptor and a valid request.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

fn is_locked(file: &OwnedFd) -> bool {
    let mut request = request(libc::F_RDLCK);
    // SAFETY: as above; the kernel writes the answer into the request.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut request) };
    result == 0 && i32::from(request.l_type) == libc::F_WRLCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_recorder_is_refused_and_told_who_the_first_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime::private(directory.path());
        assert_eq!(running(&runtime).unwrap(), None);
        let (held, unfinished) = Held::take(&runtime).unwrap();
        assert!(unfinished.is_none());
        held.publish(std::path::Path::new("/some/where"), &Order { mask: 1, session: 7, ..Order::default() });
        let expected = Running { pid: std::process::id() as i32, path: "/some/where".into(), session: 7 };
        assert_eq!(running(&runtime).unwrap(), Some(expected));
        match Held::take(&runtime) {
            Err(Error::Busy { pid, path }) => assert_eq!((pid, path.as_str()), (std::process::id() as i32, "/some/where")),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert_eq!(running(&runtime).unwrap(), None);
        let (held, unfinished) = Held::take(&runtime).unwrap();
        assert_eq!(unfinished.map(|unfinished| unfinished.session), Some(7));
        held.finished();
        drop(held);
        assert!(Held::take(&runtime).unwrap().1.is_none());
    }
}
