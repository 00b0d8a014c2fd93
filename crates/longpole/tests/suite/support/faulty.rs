//! A file system that fails on request: a FUSE mount that passes a folder through. It runs in the
//! process of the test.
//!
//! The test switches a [`Fault`] on and off while the program under test uses the mount.
// A closure ends at a `?` of its body.
#![allow(clippy::redundant_closure_call)]

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::ZERO;

/// The fault that the file system shows now; set by the test.
#[derive(Default)]
pub struct Fault {
    /// True while requests wait, all except `flush` and `statfs`.
    stalls: AtomicBool,
    /// Errno with which every request that changes something fails; 0 for none.
    error: AtomicI32,
    /// Number of requests that had to wait or were refused.
    pub hit: AtomicU64,
}

impl Fault {
    /// Makes all requests wait, or lets them continue.
    pub fn stall(&self, on: bool) {
        self.stalls.store(on, Ordering::SeqCst);
    }

    /// Makes requests that change something fail with `errno`; 0 lets them succeed again.
    pub fn fail(&self, errno: i32) {
        self.error.store(errno, Ordering::SeqCst);
    }

    pub fn hits(&self) -> u64 {
        self.hit.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        if self.stalls.load(Ordering::SeqCst) {
            self.hit.fetch_add(1, Ordering::SeqCst);
        }
        while self.stalls.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn change(&self) -> Result<(), Errno> {
        self.pass();
        match self.error.load(Ordering::SeqCst) {
            0 => Ok(()),
            errno => {
                self.hit.fetch_add(1, Ordering::SeqCst);
                Err(Errno::from_i32(errno))
            }
        }
    }
}

/// A mounted file system; unmounted when the value is dropped.
pub struct FaultyMount {
    pub fault: Arc<Fault>,
    session: Option<BackgroundSession>,
    path: PathBuf,
}

impl FaultyMount {
    /// Shows the folder `backing` at `path`. Returns `None` and prints a note if this process
    /// cannot mount; `what` is the name of the test in that note.
    pub fn mount(backing: &Path, path: &Path, what: &str) -> Option<FaultyMount> {
        let root = rustix::process::geteuid().is_root();
        if !root || !Path::new("/dev/fuse").exists() {
            println!("skipped: {what} (needs root and /dev/fuse)");
            return None;
        }
        fs::create_dir_all(backing).unwrap();
        fs::create_dir_all(path).unwrap();
        let fault = Arc::new(Fault::default());
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faulty".to_owned())];
        let nodes = Mutex::new(HashMap::from([(1, PathBuf::new())]));
        let session = fuser::spawn_mount(Shown { backing: backing.to_owned(), nodes, fault: fault.clone() }, path, &config).unwrap();
        Some(FaultyMount { fault, session: Some(session), path: path.to_owned() })
    }
}

impl Drop for FaultyMount {
    fn drop(&mut self) {
        self.fault.stall(false);
        self.fault.fail(0);
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.path).stderr(std::process::Stdio::null()).status();
        drop(self.session.take());
    }
}

struct Shown {
    backing: PathBuf,
    /// Paths relative to `backing`, by inode number.
    nodes: Mutex<HashMap<u64, PathBuf>>,
    fault: Arc<Fault>,
}

impl Shown {
    fn name(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        self.nodes.lock().unwrap().get(&number.0).cloned().ok_or(Errno::ENOENT)
    }

    fn real(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        Ok(self.backing.join(self.name(number)?))
    }

    fn below(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.name(parent)?.join(name))
    }

    /// Attributes of a path. The path can be found by its inode number afterwards.
    fn look(&self, path: PathBuf) -> Result<FileAttr, Errno> {
        let found = fs::symlink_metadata(self.backing.join(&path)).map_err(errno)?;
        let number = if path.as_os_str().is_empty() { 1 } else { found.ino() };
        self.nodes.lock().unwrap().insert(number, path);
        Ok(attributes(number, &found))
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn attributes(number: u64, found: &fs::Metadata) -> FileAttr {
    let at = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds.max(0) as u64);
    FileAttr {
        ino: INodeNo(number),
        size: found.size(),
        blocks: found.blocks(),
        atime: at(found.atime()),
        mtime: at(found.mtime()),
        ctime: at(found.ctime()),
        crtime: UNIX_EPOCH,
        kind: if found.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

macro_rules! answer {
    ($reply:ident, $result:expr, $value:ident => $done:expr) => {
        match (|| $result)() {
            Ok($value) => $done,
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for Shown {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.fault.pass();
        answer!(reply, self.look(self.below(parent, name)?), found => reply.entry(&TTL, &found, Generation(0)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.fault.pass();
        answer!(reply, self.look(self.name(ino)?), found => reply.attr(&TTL, &found));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || {
            self.fault.change()?;
            let real = self.real(ino)?;
            if let Some(mode) = mode {
                fs::set_permissions(&real, fs::Permissions::from_mode(mode & 0o7777)).map_err(errno)?;
            }
            if let Some(size) = size {
                File::options().write(true).open(&real).and_then(|file| file.set_len(size)).map_err(errno)?;
            }
            self.look(self.name(ino)?)
        };
        answer!(reply, change(), found => reply.attr(&TTL, &found));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let make = || {
            self.fault.change()?;
            let path = self.below(parent, name)?;
            let real = self.backing.join(&path);
            fs::create_dir(&real)
                .and_then(|()| fs::set_permissions(&real, fs::Permissions::from_mode(mode & !umask & 0o7777)))
                .map_err(errno)?;
            self.look(path)
        };
        answer!(reply, make(), found => reply.entry(&TTL, &found, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || {
            self.fault.change()?;
            fs::remove_file(self.backing.join(self.below(parent, name)?)).map_err(errno)
        };
        answer!(reply, remove(), _done => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || {
            self.fault.change()?;
            fs::remove_dir(self.backing.join(self.below(parent, name)?)).map_err(errno)
        };
        answer!(reply, remove(), _done => reply.ok());
    }

    fn rename(&self, _: &Request, parent: INodeNo, name: &OsStr, to: INodeNo, new: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        let rename = || {
            self.fault.change()?;
            let (from, to) = (self.below(parent, name)?, self.below(to, new)?);
            fs::rename(self.backing.join(&from), self.backing.join(&to)).map_err(errno)?;
            for path in self.nodes.lock().unwrap().values_mut() {
                if let Ok(rest) = path.strip_prefix(&from) {
                    *path = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                }
            }
            Ok(())
        };
        answer!(reply, rename(), _done => reply.ok());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.fault.pass();
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        let make = || {
            self.fault.change()?;
            let path = self.below(parent, name)?;
            let real = self.backing.join(&path);
            let made = File::options().write(true).create(true).truncate(true).open(&real);
            made.and_then(|file| file.set_permissions(fs::Permissions::from_mode(mode & !umask & 0o7777))).map_err(errno)?;
            self.look(path)
        };
        answer!(reply, make(), found => reply.created(&TTL, &found, Generation(0), FileHandle(0), FopenFlags::FOPEN_DIRECT_IO));
    }

    fn read(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, size: u32, _: OpenFlags, _: Option<LockOwner>, reply: ReplyData) {
        self.fault.pass();
        let read = || {
            let mut bytes = vec![0; size as usize];
            let read = File::open(self.real(ino)?).and_then(|file| file.read_at(&mut bytes, offset)).map_err(errno)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        answer!(reply, read(), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || {
            self.fault.change()?;
            File::options().write(true).open(self.real(ino)?).and_then(|file| file.write_all_at(data, offset)).map_err(errno)
        };
        answer!(reply, write(), _done => reply.written(data.len() as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.fault.pass();
        let list = || {
            let folder = self.name(ino)?;
            let mut all = Vec::new();
            for entry in fs::read_dir(self.backing.join(&folder)).map_err(errno)? {
                let name = entry.map_err(errno)?.file_name();
                let found = self.look(folder.join(&name))?;
                all.push((found, name));
            }
            all.sort_by(|a, b| a.1.cmp(&b.1));
            Ok(all)
        };
        answer!(reply, list(), all => {
            for (at, (found, name)) in all.iter().enumerate().skip(offset as usize) {
                if reply.add(found.ino, at as u64 + 1, found.kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
