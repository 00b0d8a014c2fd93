//! The session file: which process records, the path of the recording, and the orders for processes
//! that start now.
//!
//! A recorder of all programs has the file `session`. A recorder of a single process has
//! `session-<pid>` and gives no orders to new processes, so several such recorders can run next to
//! one of all programs. A recorder of a command that finds `session` in use has
//! `session-c<number>` with the number of its recording. Only processes that the command starts
//! read it, because they find the number in their environment.
//!
//! The recorder holds an open-file-description lock on the file, which the kernel releases when the
//! recorder dies. The orders in the file are valid only while the lock is held.

use crate::error::Error;
use crate::files::lock;
use crate::files::mapping::{Access, Mapping};
use crate::runtime_dir::proc_status;
use crate::runtime_dir::RuntimeDir;
use longpole_abi::{Orders, Session as Layout, MAGIC, VERSION};
use std::io;
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

const NAME: &str = "session";
const SIZE: u64 = 4096;
const _: () = assert!(size_of::<Layout>() <= SIZE as usize);

/// Number of attempts if the file is removed while it is being opened.
const TRIES: u32 = 100;

/// The processes for which a recorder is responsible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Responsibility {
    /// All programs; the recorder may leave some out.
    All,
    /// A single process, by its pid.
    Process(i32),
    /// The processes of a command, next to a recorder of all programs; holds the number of the
    /// recording.
    Command(u64),
}

impl Responsibility {
    fn name(self) -> String {
        match self {
            Responsibility::All => NAME.to_owned(),
            Responsibility::Process(pid) => format!("{NAME}-{pid}"),
            Responsibility::Command(number) => format!("{NAME}-c{number}"),
        }
    }
}

/// The responsibility that a session file's name states; `None` for other files.
pub(crate) fn parse_name(name: &str) -> Option<Responsibility> {
    let rest = name.strip_prefix(NAME)?;
    let responsibility = match (rest, rest.strip_prefix("-c"), rest.strip_prefix('-')) {
        ("", ..) => Responsibility::All,
        (_, Some(number), _) => Responsibility::Command(number.parse().ok().filter(|number| *number > 0)?),
        (_, _, Some(pid)) => Responsibility::Process(pid.parse().ok().filter(|pid| *pid > 0)?),
        _ => return None,
    };
    (responsibility.name() == name).then_some(responsibility)
}

/// Instructions for a process: what to record, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Order {
    /// Bit mask of the event categories to record; 0 records nothing.
    pub mask: u32,
    /// Action of a full ring, `MODE_DISCARD`, `MODE_OVERWRITE` or `MODE_BLOCK`.
    pub mode: u32,
    /// Bytes of a new ring.
    pub ring_size: u32,
    /// Bytes recorded of each captured packet.
    pub snaplen: u32,
    /// Number of the clock, see [`ClockSource::number`](crate::ClockSource::number).
    pub clock: u32,
    /// Limit in microseconds for a thread that waits for room.
    pub block_limit: u32,
    /// Number of the recording.
    pub session: u64,
}

impl Order {
    /// Writes the values that differ, the mask last, so that a thread that sees new categories sees
    /// the other values too. A probe that is already enabled may see a mixture of old and new
    /// values. Each value is valid on its own, and the values with which a ring was made are in the
    /// ring.
    pub fn apply(&self, orders: &Orders) {
        let same = orders.mode.load(Ordering::Relaxed) == self.mode
            && orders.ring_size.load(Ordering::Relaxed) == self.ring_size
            && orders.snaplen.load(Ordering::Relaxed) == self.snaplen
            && orders.clock.load(Ordering::Relaxed) == self.clock
            && orders.block_limit.load(Ordering::Relaxed) == self.block_limit
            && orders.session.load(Ordering::Relaxed) == self.session;
        if !same {
            // The session comes first, because a starting process writes its own orders only if it
            // finds no session.
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

/// A recording that the previous recorder did not end.
#[derive(Clone, Debug)]
pub struct Unfinished {
    pub session: u64,
    pub path: PathBuf,
}

/// The session file, with its lock held.
#[derive(Debug)]
pub struct HeldSession {
    responsibility: Responsibility,
    _file: OwnedFd,
    mapping: Mapping,
}

impl HeldSession {
    /// Takes the lock. If another recorder holds it, the error names that recorder. Returns also
    /// the recording that the previous holder of the lock did not end.
    pub fn take(runtime: &RuntimeDir, responsibility: Responsibility) -> Result<(HeldSession, Option<Unfinished>), Error> {
        let name = responsibility.name();
        let path = runtime.path().join(&name);
        let mut tries = 0;
        let (file, mapping) = loop {
            let file = match runtime.open_writable(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => match runtime.make(&name, SIZE) {
                    Ok(_) => runtime.open_writable(&name),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => runtime.open_writable(&name),
                    Err(error) => Err(error),
                },
                other => other,
            };
            let file = file.map_err(Error::io("open", &path))?;
            if file.size < SIZE {
                // The file was cut, so no recorder can have used it. Its memory is allocated first,
                // because a store without memory would kill this process.
                let all = rustix::fs::FallocateFlags::empty();
                rustix::fs::fallocate(&file.file, all, 0, SIZE).map_err(|error| Error::io("extend", &path)(error.into()))?;
            }
            let mapping =
                Mapping::new(std::os::fd::AsFd::as_fd(&file.file), SIZE as usize, Access::Write).map_err(Error::io("map", &path))?;
            if !lock::take(&file.file).map_err(Error::io("lock", &path))? {
                let running = layout(&mapping).map(|layout| read(layout, responsibility));
                return Err(Error::Busy {
                    pid: running.as_ref().map_or(0, |running| running.pid),
                    path: running.map_or_else(String::new, |running| running.path.display().to_string()),
                });
            }
            // The previous holder may have removed the file meanwhile.
            if tries == TRIES || runtime.open_readable(&name).is_ok_and(|found| found.inode == file.inode) {
                break (file, mapping);
            }
            tries += 1;
        };
        let held = HeldSession { responsibility, _file: file.file, mapping };
        let mut unfinished = None;
        if let Some(layout) = layout(&held.mapping) {
            let session = layout.orders.session.load(Ordering::Relaxed);
            if layout.magic.load(Ordering::Relaxed) == MAGIC && layout.version.load(Ordering::Relaxed) == VERSION && session != 0 {
                unfinished = Some(Unfinished { session, path: read(layout, responsibility).path });
            }
            layout.orders.mask.store(0, Ordering::Release);
        }
        Ok((held, unfinished))
    }

    pub fn responsibility(&self) -> Responsibility {
        self.responsibility
    }

    /// Publishes the path of the recording and the orders that are valid from now on.
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

    /// Publishes a new path of the recording.
    pub fn set_path(&self, path: &std::path::Path) {
        use std::os::unix::ffi::OsStrExt;
        if let Some(layout) = layout(&self.mapping) {
            store(&layout.path, path.as_os_str().as_bytes());
        }
    }

    /// Changes the orders. A process that starts meanwhile gets the old or the new orders.
    pub fn set_orders(&self, order: &Order) {
        if let Some(layout) = layout(&self.mapping) {
            order.apply(&layout.orders);
        }
    }

    /// Withdraws the orders: nothing is recorded from now on.
    pub fn withdraw_orders(&self) {
        if let Some(layout) = layout(&self.mapping) {
            layout.orders.mask.store(0, Ordering::SeqCst);
        }
    }

    /// Marks the recording as complete, so that no later recorder tries to recover it.
    pub fn mark_finished(&self, runtime: &RuntimeDir) {
        if let Some(layout) = layout(&self.mapping) {
            layout.orders.mask.store(0, Ordering::SeqCst);
            layout.orders.session.store(0, Ordering::SeqCst);
        }
        if self.responsibility != Responsibility::All {
            runtime.remove(&self.responsibility.name());
        }
    }
}

/// A recording in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRecording {
    /// Pid of the recorder.
    pub pid: i32,
    pub path: PathBuf,
    pub session: u64,
    pub responsibility: Responsibility,
}

impl RunningRecording {
    /// The recorded process, if the recorder records a single one.
    pub fn of(&self) -> Option<i32> {
        match self.responsibility {
            Responsibility::Process(pid) => Some(pid),
            _ => None,
        }
    }
}

/// The recordings in progress in this runtime directory: first that of all programs, then those of
/// single processes, then those of commands.
pub fn running(runtime: &RuntimeDir) -> Result<Vec<RunningRecording>, Error> {
    let names = runtime.sessions().map_err(Error::io("list", runtime.path()))?;
    let mut all = Vec::new();
    for (name, responsibility) in names {
        all.extend(of_file(runtime, &name, responsibility)?);
    }
    all.sort_by_key(|running| running.responsibility);
    Ok(all)
}

/// Returns whether a recorder with this responsibility is running.
pub(crate) fn is_held(runtime: &RuntimeDir, responsibility: Responsibility) -> bool {
    runtime.open_readable(&responsibility.name()).is_ok_and(|file| lock::is_taken(&file.file))
}

fn of_file(runtime: &RuntimeDir, name: &str, responsibility: Responsibility) -> Result<Option<RunningRecording>, Error> {
    let path = runtime.path().join(name);
    let file = match runtime.open_readable(name) {
        Ok(file) if file.size >= SIZE => file,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    if !lock::is_taken(&file.file) {
        return Ok(None);
    }
    let mapping = Mapping::new(std::os::fd::AsFd::as_fd(&file.file), SIZE as usize, Access::Read).map_err(Error::io("map", path))?;
    // Between taking the lock and publishing its first orders, the recorder has not stored its
    // identity.
    Ok(layout(&mapping)
        .map(|layout| read(layout, responsibility))
        .filter(|running| running.session != 0 && proc_status::alive(running.pid)))
}

/// Removes session files of killed recorders that cannot be recovered: those of processes that are
/// gone, and those of commands.
pub(crate) fn tidy(runtime: &RuntimeDir) {
    for (name, responsibility) in runtime.sessions().unwrap_or_default() {
        let over = match responsibility {
            Responsibility::All => false,
            Responsibility::Process(pid) => !proc_status::alive(pid),
            Responsibility::Command(_) => true,
        };
        if over && runtime.open_readable(&name).is_ok_and(|file| !lock::is_taken(&file.file)) {
            runtime.remove(&name);
        }
    }
}

fn layout(mapping: &Mapping) -> Option<&Layout> {
    mapping.get::<Layout>(0)
}

fn read(layout: &Layout, responsibility: Responsibility) -> RunningRecording {
    use std::os::unix::ffi::OsStringExt;
    let mut path: Vec<u8> = layout.path.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
    RunningRecording {
        pid: layout.recorder.load(Ordering::Relaxed),
        path: PathBuf::from(std::ffi::OsString::from_vec(path)),
        session: layout.orders.session.load(Ordering::Relaxed),
        responsibility,
    }
}

/// Stores a text, cut to the room and terminated by NUL.
fn store(place: &[AtomicU8], text: &[u8]) {
    let length = text.len().min(place.len() - 1);
    for (at, byte) in place.iter().enumerate() {
        byte.store(if at < length { text[at] } else { 0 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_recorder_is_refused_with_the_pid_and_path_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::private(directory.path());
        assert_eq!(running(&runtime).unwrap(), []);
        let (held, unfinished) = HeldSession::take(&runtime, Responsibility::All).unwrap();
        assert!(unfinished.is_none());
        held.publish(std::path::Path::new("/some/where"), &Order { mask: 1, session: 7, ..Order::default() });
        let expected = RunningRecording {
            pid: std::process::id() as i32,
            path: "/some/where".into(),
            session: 7,
            responsibility: Responsibility::All,
        };
        assert_eq!(running(&runtime).unwrap(), [expected]);
        match HeldSession::take(&runtime, Responsibility::All) {
            Err(Error::Busy { pid, path }) => assert_eq!((pid, path.as_str()), (std::process::id() as i32, "/some/where")),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert_eq!(running(&runtime).unwrap(), []);
        let (held, unfinished) = HeldSession::take(&runtime, Responsibility::All).unwrap();
        assert_eq!(unfinished.map(|unfinished| unfinished.session), Some(7));
        held.mark_finished(&runtime);
        drop(held);
        assert!(HeldSession::take(&runtime, Responsibility::All).unwrap().1.is_none());
    }
    #[test]
    fn recorders_of_processes_and_commands_run_next_to_one_of_all_programs_and_leave_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::private(directory.path());
        let order = |session| Order { session, ..Order::default() };
        let begin = |responsibility, session| {
            let (held, _) = HeldSession::take(&runtime, responsibility).unwrap();
            held.publish(std::path::Path::new("/some/where"), &order(session));
            held
        };
        let held = [
            begin(Responsibility::Process(30), 1),
            begin(Responsibility::Command(9), 4),
            begin(Responsibility::All, 2),
            begin(Responsibility::Process(4), 3),
        ];
        let all: Vec<_> = running(&runtime).unwrap().into_iter().map(|running| (running.responsibility, running.session)).collect();
        assert_eq!(
            all,
            [(Responsibility::All, 2), (Responsibility::Process(4), 3), (Responsibility::Process(30), 1), (Responsibility::Command(9), 4)]
        );
        assert!(matches!(HeldSession::take(&runtime, Responsibility::Process(4)), Err(Error::Busy { .. })));
        assert_eq!(runtime.entries().unwrap(), [], "none of their files is a program's, or foreign");
        held.iter().for_each(|held| held.mark_finished(&runtime));
        drop(held);
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
    }

    #[test]
    fn the_session_file_of_a_killed_recorder_is_removed_unless_its_process_is_alive() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = crate::runtime_dir::private(directory.path());
        let own = std::process::id() as i32;
        for responsibility in [Responsibility::Process(own), Responsibility::Process(i32::MAX), Responsibility::Command(7)] {
            let (held, _) = HeldSession::take(&runtime, responsibility).unwrap();
            held.publish(std::path::Path::new("/some/where"), &Order { session: 1, ..Order::default() });
        }
        tidy(&runtime);
        assert_eq!(runtime.sessions().unwrap(), [(format!("{NAME}-{own}"), Responsibility::Process(own))]);
        assert_eq!(
            HeldSession::take(&runtime, Responsibility::Process(own)).unwrap().1.map(|unfinished| unfinished.session),
            Some(1),
            "recovery is possible"
        );
    }

    #[test]
    fn only_names_of_the_layout_are_session_files() {
        assert_eq!((parse_name("session"), parse_name("session-7")), (Some(Responsibility::All), Some(Responsibility::Process(7))));
        assert_eq!(parse_name("session-c7"), Some(Responsibility::Command(7)));
        for name in [
            "sessions",
            "session-",
            "session-07",
            "session--7",
            "session-0",
            "session-7-8",
            "session-c",
            "session-c0",
            "session-c07",
            "session-c-7",
            "x",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
