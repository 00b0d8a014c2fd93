//! Serves the tree to the kernel through FUSE.

use super::tree::{Kind, Node, Tree};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenAccMode, OpenFlags, RenameFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time for which the kernel may cache entries and attributes: none, because subjects and texts
/// change all the time.
const CACHE_TIME: Duration = Duration::ZERO;

/// Error for all operations that would make or remove a directory or file. Only programs do that,
/// by starting and ending.
const NOT_MADE_HERE: Errno = Errno::EPERM;

pub struct FuseServer {
    tree: Arc<Mutex<Tree>>,
    nodes: Mutex<Nodes>,
    mounted: SystemTime,
}

/// Numbers of nodes (inodes). A node never changes its number.
struct Nodes {
    numbers: HashMap<Node, u64>,
    /// The nodes, in the order of their numbers, which begin with 1.
    all: Vec<Node>,
}

impl Nodes {
    fn number(&mut self, node: &Node) -> INodeNo {
        if let Some(number) = self.numbers.get(node) {
            return INodeNo(*number);
        }
        self.all.push(node.clone());
        let number = self.all.len() as u64;
        self.numbers.insert(node.clone(), number);
        INodeNo(number)
    }

    fn node(&self, number: INodeNo) -> Option<Node> {
        self.all.get(usize::try_from(number.0).ok()?.checked_sub(1)?).cloned()
    }
}

impl FuseServer {
    pub fn new(tree: Arc<Mutex<Tree>>) -> FuseServer {
        let mut nodes = Nodes { numbers: HashMap::new(), all: Vec::new() };
        nodes.number(&Node::Root);
        FuseServer { tree, nodes: Mutex::new(nodes), mounted: SystemTime::now() }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: INodeNo) -> Result<(longpole_record::control::selection::SelectedPart, Kind), Errno> {
        match self.nodes().node(number) {
            Some(Node::File(part, kind)) => Ok((part, kind)),
            Some(_) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn attributes(&self, node: &Node) -> Option<FileAttr> {
        let ino = self.nodes().number(node);
        let (size, changed, kind, perm) = match node {
            Node::Root => (0, None, FileType::Directory, 0o500),
            Node::Folder(_) => {
                self.tree().children(node)?;
                (0, None, FileType::Directory, 0o500)
            }
            Node::File(part, kind) => {
                let (size, changed) = self.tree().extent(part, *kind)?;
                (size, changed, FileType::RegularFile, if kind.is_writable(part) { 0o600 } else { 0o400 })
            }
        };
        let time = changed.unwrap_or(self.mounted);
        Some(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for FuseServer {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || {
            let parent = self.nodes().node(parent)?;
            let node = self.tree().children(&parent)?.remove(name.to_str()?)?;
            self.attributes(&node)
        };
        match found() {
            Some(attributes) => reply.entry(&CACHE_TIME, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.nodes().node(ino);
        match node.and_then(|node| self.attributes(&node)) {
            Some(attributes) => reply.attr(&CACHE_TIME, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Accepts a change of the size without any effect, because a shell truncates a file before it
    /// writes to it. All other attributes are fixed.
    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match mode.or(uid).or(gid) {
            Some(_) => reply.error(Errno::EPERM),
            None => self.getattr(request, ino, handle, reply),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.file(ino) {
            Ok((part, kind)) if flags.acc_mode() != OpenAccMode::O_RDONLY && !kind.is_writable(&part) => reply.error(Errno::EACCES),
            // The content may have grown at the next read, so the kernel must not cache it.
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, size: u32, _: OpenFlags, _: Option<LockOwner>, reply: ReplyData) {
        let (part, kind) = match self.file(ino) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        let mut tree = self.tree();
        if kind == Kind::Events {
            return reply.data(tree.events(&part, offset, size as usize));
        }
        match tree.content(&part, kind) {
            Some(content) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
                reply.data(&content[from..content.len().min(from.saturating_add(size as usize))]);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(ino) {
            Ok((part, kind)) if self.tree().write(&part, kind, data) => reply.written(data.len() as u32),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(NOT_MADE_HERE);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(NOT_MADE_HERE);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &std::path::Path, reply: ReplyEntry) {
        reply.error(NOT_MADE_HERE);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(NOT_MADE_HERE);
    }

    fn rename(&self, _: &Request, _: INodeNo, _: &OsStr, _: INodeNo, _: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        reply.error(NOT_MADE_HERE);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(NOT_MADE_HERE);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(NOT_MADE_HERE);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let found = || {
            let node = self.nodes().node(ino)?;
            self.tree().children(&node)
        };
        let Some(children) = found() else { return reply.error(Errno::ENOENT) };
        let dots = [".", ".."].map(|name| (name.to_owned(), ino, FileType::Directory));
        let mut nodes = self.nodes();
        let rest = children.into_iter().map(|(name, node)| {
            let kind = if matches!(node, Node::File(..)) { FileType::RegularFile } else { FileType::Directory };
            (name, nodes.number(&node), kind)
        });
        for (at, (name, ino, kind)) in dots.into_iter().chain(rest).enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            if reply.add(ino, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
