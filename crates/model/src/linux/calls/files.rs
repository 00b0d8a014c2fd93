//! The kind of file behind each file descriptor: the files that processes had open when the
//! recording began, updated by their system calls.
//!
//! The calls that create two files at once (`pipe`, `socketpair`) write the descriptors to the
//! program's memory, which no event contains. The kernel takes the lowest free numbers, so these
//! are known as long as the last number that it returned was the lowest free one according to this
//! table. They are not known if that number was a different one (the dump is slightly younger than
//! the first events), or if files may have arrived in a message since.

use crate::hash::IdMap;
use crate::names::{NameId, Names};
use std::num::NonZeroU32;

/// The kind of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    Pipe,
    Socket,
    Terminal,
    Device,
    File,
    Event,
    Timer,
    Signal,
    Epoll,
    Notify,
    Other,
}

impl FileKind {
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Pipe => "pipe",
            FileKind::Socket => "socket",
            FileKind::Terminal => "terminal",
            FileKind::Device => "device",
            FileKind::File => "file",
            FileKind::Event => "eventfd",
            FileKind::Timer => "timerfd",
            FileKind::Signal => "signalfd",
            FileKind::Epoll => "epoll",
            FileKind::Notify => "inotify",
            FileKind::Other => "other",
        }
    }

    /// The kind of the file that /proc/PID/fd/NUMBER points to.
    fn of_path(path: &[u8]) -> FileKind {
        let begins = |text: &str| path.starts_with(text.as_bytes());
        let terminal = ["/dev/pts/", "/dev/tty", "/dev/console"].into_iter().any(begins);
        match path {
            _ if begins("pipe:") => FileKind::Pipe,
            _ if begins("socket:") => FileKind::Socket,
            b"anon_inode:[eventfd]" => FileKind::Event,
            b"anon_inode:[timerfd]" => FileKind::Timer,
            b"anon_inode:[signalfd]" => FileKind::Signal,
            b"anon_inode:[eventpoll]" => FileKind::Epoll,
            b"anon_inode:inotify" => FileKind::Notify,
            _ if terminal => FileKind::Terminal,
            _ if begins("/dev/") && !begins("/dev/shm/") => FileKind::Device,
            _ if begins("/") => FileKind::File,
            _ => FileKind::Other,
        }
    }
}

/// The inode in the path of a socket, `socket:[NUMBER]`. The kernel numbers sockets with 32 bits.
fn socket_inode(path: &[u8]) -> Option<NonZeroU32> {
    let number = path.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The effect of a system call on the files of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileEffect {
    None,
    Opens(FileKind),
    OpensTwo(FileKind),
    Duplicates,
    Controls,
    Closes,
    ClosesRange,
    /// The call may receive files in a message.
    Receives,
}

fn effect(call: &str) -> FileEffect {
    match call {
        "open" | "openat" | "openat2" | "creat" | "memfd_create" => FileEffect::Opens(FileKind::File),
        "socket" | "accept" | "accept4" => FileEffect::Opens(FileKind::Socket),
        "eventfd" | "eventfd2" => FileEffect::Opens(FileKind::Event),
        "timerfd_create" => FileEffect::Opens(FileKind::Timer),
        "epoll_create" | "epoll_create1" => FileEffect::Opens(FileKind::Epoll),
        "inotify_init" | "inotify_init1" => FileEffect::Opens(FileKind::Notify),
        "pidfd_open" | "perf_event_open" | "bpf" | "userfaultfd" | "fanotify_init" | "io_uring_setup" => FileEffect::Opens(FileKind::Other),
        "pipe" | "pipe2" => FileEffect::OpensTwo(FileKind::Pipe),
        "socketpair" => FileEffect::OpensTwo(FileKind::Socket),
        "dup" | "dup2" | "dup3" => FileEffect::Duplicates,
        "fcntl" => FileEffect::Controls,
        "close" => FileEffect::Closes,
        "close_range" => FileEffect::ClosesRange,
        "recvmsg" | "recvmmsg" | "pidfd_getfd" | "signalfd" | "signalfd4" => FileEffect::Receives,
        _ => FileEffect::None,
    }
}

/// `O_CLOEXEC`. It is the same bit in all calls that open a file.
const CLOSE_ON_EXEC: i64 = 0o2_000_000;
const F_DUPFD: i64 = 0;
const F_SETFD: i64 = 2;
const F_DUPFD_CLOEXEC: i64 = 1030;
/// Maximum number of files of one process. A process with more is a server, whose table is not
/// tracked completely.
const MAX_FILES: usize = 4096;
/// Number of files at which the recorder's dump of one process ends.
const DUMPED: usize = 256;

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    /// The kind of the file; `None` for a copy of an unknown file.
    kind: Option<FileKind>,
    /// Inode of a socket that was open when the recording began.
    socket: Option<NonZeroU32>,
    closes_on_exec: bool,
}

impl OpenFile {
    fn new(kind: FileKind, closes_on_exec: bool) -> OpenFile {
        OpenFile { kind: Some(kind), socket: None, closes_on_exec }
    }

    /// A copy of a file, which is `None` if it is unknown.
    fn copy(of: Option<OpenFile>, closes_on_exec: bool) -> OpenFile {
        OpenFile { closes_on_exec, ..of.unwrap_or(OpenFile { kind: None, socket: None, closes_on_exec }) }
    }
}

/// The open files of a process, indexed by file descriptor.
#[derive(Clone, Debug, Default)]
struct Table {
    files: Vec<Option<OpenFile>>,
    /// True if no files other than these are open, as far as the last returned number shows.
    complete: bool,
}

impl Table {
    fn put(&mut self, fd: i64, file: Option<OpenFile>) {
        match usize::try_from(fd) {
            Ok(at) if at < MAX_FILES => {
                if self.files.len() <= at {
                    self.files.resize(at + 1, None);
                }
                self.files[at] = file;
            }
            _ => self.complete = false,
        }
    }

    fn get(&self, fd: i64) -> Option<OpenFile> {
        usize::try_from(fd).ok().and_then(|at| self.files.get(at).copied().flatten())
    }

    fn free(&self) -> i64 {
        self.files.iter().position(Option::is_none).unwrap_or(self.files.len()) as i64
    }
}

/// The open files of all processes, and the effects of system calls on them.
#[derive(Debug, Default)]
pub(crate) struct Files {
    processes: IdMap<i32, Table>,
    effects: Vec<Option<FileEffect>>,
}

/// Arguments of a system call: the first one, which says what the call is about, two more by which
/// calls about files, signals, threads and times differ, and the number of bytes to be transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    pub about: Option<i64>,
    pub second: Option<i64>,
    pub third: Option<i64>,
    pub length: Option<i64>,
}

impl Files {
    /// Adds an open file from the dump of the system's state.
    pub fn dumped(&mut self, process: i32, fd: i64, path: &[u8], flags: Option<i64>) {
        let table = self.processes.entry(process).or_insert_with(|| Table { files: Vec::new(), complete: true });
        // Without flags in the dump it is unknown which files the next exec closes.
        let closes_on_exec = flags.unwrap_or(0) & CLOSE_ON_EXEC != 0;
        table.put(fd, Some(OpenFile { socket: socket_inode(path), ..OpenFile::new(FileKind::of_path(path), closes_on_exec) }));
        table.complete &= flags.is_some() && table.files.iter().flatten().count() < DUMPED;
    }

    pub fn forked(&mut self, parent: i32, child: i32) {
        if let Some(table) = self.processes.get(&parent).filter(|_| parent != child).cloned() {
            self.processes.insert(child, table);
        }
    }

    pub fn exec(&mut self, process: i32) {
        if let Some(table) = self.processes.get_mut(&process) {
            table.files.iter_mut().filter(|file| file.is_some_and(|file| file.closes_on_exec)).for_each(|file| *file = None);
        }
    }

    pub fn process_ended(&mut self, process: i32) {
        self.processes.remove(&process);
    }

    pub fn kind(&self, process: i32, fd: i64) -> Option<FileKind> {
        self.processes.get(&process)?.get(fd)?.kind
    }

    /// The inode of a socket that was open when the recording began.
    pub fn older_socket(&self, process: i32, fd: i64) -> Option<u32> {
        self.processes.get(&process)?.get(fd)?.socket.map(NonZeroU32::get)
    }

    /// Applies the effect of a call that has returned.
    pub fn returned(&mut self, process: i32, call: NameId, names: &Names, arguments: Arguments, result: i64) {
        let at = call.0 as usize;
        if self.effects.len() <= at {
            self.effects.resize(at + 1, None);
        }
        let effect = *self.effects[at].get_or_insert_with(|| effect(names.text(call)));
        if effect == FileEffect::None || result < 0 {
            return;
        }
        let Arguments { about, second, third, .. } = arguments;
        let table = self.processes.entry(process).or_default();
        let (second, third) = (second.unwrap_or(0), third.unwrap_or(0));
        match effect {
            FileEffect::None => {}
            FileEffect::Opens(kind) => {
                // The flags are a different argument in each of these calls. Where they are not in
                // the event, the file is assumed to survive an exec.
                let closes_on_exec = (second | third) & CLOSE_ON_EXEC != 0;
                table.complete = result == table.free();
                table.put(result, Some(OpenFile::new(kind, closes_on_exec)));
            }
            FileEffect::OpensTwo(kind) => {
                if table.complete {
                    let closes_on_exec = (about.unwrap_or(0) | second | third) & CLOSE_ON_EXEC != 0;
                    for _ in 0..2 {
                        table.put(table.free(), Some(OpenFile::new(kind, closes_on_exec)));
                    }
                }
            }
            FileEffect::Duplicates => {
                let file = about.and_then(|fd| table.get(fd));
                table.put(result, Some(OpenFile::copy(file, third & CLOSE_ON_EXEC != 0)));
            }
            FileEffect::Controls => match (second, about) {
                (F_DUPFD | F_DUPFD_CLOEXEC, Some(fd)) => {
                    table.put(result, Some(OpenFile::copy(table.get(fd), second == F_DUPFD_CLOEXEC)));
                }
                (F_SETFD, Some(fd)) => {
                    if let Some(file) = table.get(fd) {
                        table.put(fd, Some(OpenFile { closes_on_exec: third & 1 != 0, ..file }));
                    }
                }
                _ => {}
            },
            FileEffect::Closes => match about {
                Some(fd) => table.put(fd, None),
                None => table.complete = false,
            },
            FileEffect::ClosesRange => match (usize::try_from(about.unwrap_or(-1)), third) {
                (Ok(from), 0) => {
                    let end = usize::try_from(second).map_or(MAX_FILES, |last| last.saturating_add(1)).min(table.files.len());
                    (from..end).for_each(|fd| table.files[fd] = None);
                }
                _ => table.complete = false,
            },
            FileEffect::Receives => table.complete = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(files: &mut Files, names: &mut Names, name: &str, arguments: [i64; 3], result: i64) {
        let name = names.intern(name);
        let [about, second, third] = arguments.map(Some);
        files.returned(7, name, names, Arguments { about, second, third, ..Arguments::default() }, result);
    }

    #[test]
    fn a_pipe_has_no_known_numbers_if_the_dump_of_its_process_may_be_incomplete() {
        // The files are numbered from 0 on; the dump ends at a number of files, or lacks flags.
        let pipe_after = |files_in_dump: usize, flags: Option<i64>| {
            let (mut files, mut names) = (Files::default(), Names::default());
            (0..files_in_dump as i64).for_each(|fd| files.dumped(7, fd, b"/tmp/log", flags));
            call(&mut files, &mut names, "pipe2", [0, 0, 0], 0);
            files.kind(7, files_in_dump as i64)
        };
        assert_eq!(pipe_after(DUMPED - 1, Some(0)), Some(FileKind::Pipe));
        assert_eq!(pipe_after(DUMPED, Some(0)), None);
        assert_eq!(pipe_after(3, None), None);
    }

    #[test]
    fn a_pipe_takes_the_lowest_free_numbers_while_all_files_are_known() {
        let (mut files, mut names) = (Files::default(), Names::default());
        for (fd, path) in [(0, "/dev/pts/1"), (1, "pipe:[5]"), (2, "/tmp/log"), (4, "socket:[9]")] {
            files.dumped(7, fd, path.as_bytes(), Some(0));
        }
        assert_eq!(files.kind(7, 0), Some(FileKind::Terminal));
        call(&mut files, &mut names, "pipe2", [CLOSE_ON_EXEC, 0, 0], 0);
        assert_eq!((files.kind(7, 3), files.kind(7, 5)), (Some(FileKind::Pipe), Some(FileKind::Pipe)));
        call(&mut files, &mut names, "dup2", [3, 0, 0], 0);
        call(&mut files, &mut names, "close", [1, 0, 0], 0);
        files.forked(7, 8);
        files.exec(7);
        assert_eq!((files.kind(7, 0), files.kind(7, 1), files.kind(7, 3)), (Some(FileKind::Pipe), None, None));
        assert_eq!(files.kind(8, 3), Some(FileKind::Pipe));
        // Not the lowest free number: there is a file that is not in the dump.
        call(&mut files, &mut names, "openat", [0, 0, 0], 6);
        call(&mut files, &mut names, "pipe2", [0, 0, 0], 0);
        assert_eq!((files.kind(7, 6), files.kind(7, 1)), (Some(FileKind::File), None));
    }
}
