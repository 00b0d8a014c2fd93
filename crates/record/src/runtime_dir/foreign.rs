//! Runtime directories other than the recorder's own: those of other users, and those of programs
//! that see another `/dev/shm`, in containers or after `unshare -m`.
//!
//! A recorder that runs as root opens such a directory through `/proc/PID/root`. The rules are
//! stricter than for its own directory, because everything below that root belongs to the user or
//! container that set it up:
//!
//! * No link is followed on the way, and no step leaves that root.
//! * Only file systems that cannot block the recorder are used: the directory must be on a tmpfs,
//!   and no file system that a program serves may be on the way. The recorder holds a descriptor of
//!   each step, and checks the kind of its file system, before it asks that file system anything.
//! * The session file's entry about an earlier recording is ignored.

use crate::runtime_dir::proc_status;
use crate::runtime_dir::RuntimeDir;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Kinds of file systems that are served by a program or another host.
const SERVED: [&str; 9] = ["fuse", "nfs", "cifs", "smb", "9p", "autofs", "ceph", "virtiofs", "afs"];

/// Identity of a directory, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// State of the search for other directories.
#[derive(Debug, Default)]
pub struct Search {
    /// Directories that cannot be used.
    pub refused: HashSet<Identity>,
    /// Directories in which another recorder runs; they are tried again, because it may end.
    pub busy: HashSet<Identity>,
    /// True if some process is in another pid namespace.
    pub pid_namespaces: bool,
    /// Processes, by pid.
    known: HashMap<i32, Known>,
    round: u32,
}

/// Facts about a process as seen from the recorder's namespace.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Id of the mount namespace; `None` if the process has ended or is a zombie.
    mounts: Option<u64>,
    /// Effective uid of the process.
    owner: Option<u32>,
    /// Uid of the owner of its folder in /proc.
    shown: Option<u32>,
    other_pids: bool,
    /// Its environment holds the number of this recording.
    ours: bool,
    /// Number of rounds in which the process was seen.
    rounds: u32,
}

/// Number of rounds in which a new process is examined, because a process enters its namespaces
/// after its start.
const ROUNDS_NEW: u32 = 3;
/// Interval of rounds at which an older process is examined again.
const ROUNDS_OLD: u32 = 8;
/// Limit of the bytes read of an environment.
const MAX_ENVIRONMENT: u64 = 256 << 10;

impl Search {
    /// Updates the facts about all processes. Of thousands of processes, only a part is examined in
    /// each round, because most never change. Zombies show no namespaces.
    pub fn look(&mut self, (name, session): (&str, &str)) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let own = (namespace("self", "pid"), namespace("self", "mnt"));
        let user = rustix::process::geteuid().as_raw();
        let variable = format!("{name}={session}");
        self.round = self.round.wrapping_add(1);
        let mut known = HashMap::with_capacity(self.known.len());
        for pid in proc_status::processes() {
            let shown = std::fs::metadata(format!("/proc/{pid}")).map(|found| found.uid()).ok();
            // A process whose uid changed is treated as a new process.
            let before = self.known.get(&pid).copied().filter(|known| known.shown == shown);
            let rounds = before.map_or(0, |known| known.rounds.saturating_add(1));
            let kept = before.filter(|_| rounds >= ROUNDS_NEW && !(pid as u32).wrapping_add(self.round).is_multiple_of(ROUNDS_OLD));
            let found = kept.unwrap_or_else(|| {
                let mounts = namespace(&pid.to_string(), "mnt");
                let owner = mounts.and(owner(pid, shown));
                let elsewhere = mounts.is_some() && (mounts != own.1 || owner != Some(user));
                let other_pids = namespace(&pid.to_string(), "pid").is_some_and(|found| Some(found) != own.0);
                Known { mounts, owner, shown, other_pids, ours: elsewhere && has_variable(pid, &variable), rounds }
            });
            known.insert(pid, Known { rounds, ..found });
        }
        self.known = known;
        self.pid_namespaces = self.known.values().any(|known| known.other_pids);
    }

    /// Processes of other users and other mount namespaces: pid, owner, id of the namespace, and
    /// whether its environment holds the number of this recording.
    pub fn processes_of_other_directories(&self) -> Vec<(i32, u32, u64, bool)> {
        let (own, user) = (namespace("self", "mnt"), rustix::process::geteuid().as_raw());
        let found = |(pid, known): (&i32, &Known)| {
            let (mounts, owner) = (known.mounts?, known.owner?);
            (own? != mounts || owner != user).then_some((*pid, owner, mounts, known.ours))
        };
        self.known.iter().filter_map(found).collect()
    }
}

/// Effective uid of a process. /proc/PID belongs to root also for a process that gave up root, so
/// its status is read then.
fn owner(pid: i32, shown: Option<u32>) -> Option<u32> {
    if shown != Some(0) {
        return shown;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

fn has_variable(pid: i32, wanted: &str) -> bool {
    use std::io::Read;
    let mut text = Vec::new();
    let read = std::fs::File::open(format!("/proc/{pid}/environ")).and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(&mut text));
    read.is_ok() && text.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Decides whether processes descend from `ancestor`, and remembers the result for each parent on
/// the way.
pub struct Descent {
    ancestor: i32,
    known: HashMap<i32, bool>,
}

impl Descent {
    pub fn from(ancestor: i32) -> Descent {
        Descent { ancestor, known: HashMap::new() }
    }

    pub fn holds(&mut self, pid: i32) -> bool {
        let (mut way, mut current) = (Vec::new(), pid);
        let holds = loop {
            if let Some(known) = self.known.get(&current) {
                break *known;
            }
            if current == self.ancestor {
                break true;
            }
            way.push(current);
            match proc_status::parent(current) {
                Some(next) if next > 1 && way.len() < 64 => current = next,
                _ => break false,
            }
        };
        self.known.extend(way.into_iter().map(|pid| (pid, holds)));
        holds
    }
}

/// A directory of another user or mount namespace.
pub struct Found {
    pub directory: OwnedFd,
    pub identity: Identity,
    pub path: PathBuf,
    pub owner: u32,
}

/// Pid, in this namespace, of the process that knows itself as `inner`. `maps` returns whether the
/// process with a pid maps the control file in question. `None` if there is no such process.
pub fn outer_pid(inner: i32, maps: impl Fn(i32) -> Option<bool>) -> Option<i32> {
    if maps(inner) == Some(true) {
        return Some(inner);
    }
    let others = proc_status::namespaced().into_iter().filter(|(_, theirs)| *theirs == inner);
    others.map(|(ours, _)| ours).find(|pid| maps(*pid) == Some(true))
}

pub fn identity_of(runtime: &RuntimeDir) -> Option<Identity> {
    fs::fstat(runtime.directory()).ok().map(|found| Identity { device: found.st_dev, inode: found.st_ino })
}

/// Id of a namespace of a process.
fn namespace(pid: &str, kind: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok().map(|found| found.ino())
}

/// Path of the runtime directory within the mount namespace of another process.
pub fn path_for(pid: i32, owner: u32) -> Option<PathBuf> {
    match std::env::var_os("LONGPOLE_RUNTIME_DIR") {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        _ => Some(PathBuf::from(format!("/dev/shm/longpole-{}", inner_uid(pid, owner)?))),
    }
}

/// Uid of a user within the user namespace of a process.
fn inner_uid(pid: i32, outer: u32) -> Option<u32> {
    let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
    map.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let (inside, outside, count) = (words.next()??, words.next()??, words.next()??);
        outer.checked_sub(outside).filter(|offset| *offset < count).and_then(|offset| inside.checked_add(offset))
    })
}

pub fn open(pid: i32, path: &Path, owner: u32) -> Option<Found> {
    let mut at = fs::open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut mount = mount_of(pid, &at)?;
    // Without O_DIRECTORY, no automatic mount is triggered on the way.
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for component in path.components() {
        let name = match component {
            Component::RootDir | Component::CurDir => continue,
            Component::Normal(name) => name,
            _ => return None,
        };
        // Looking up a name asks the file system, so its kind must be known before.
        if is_served(&mount) {
            return None;
        }
        at = fs::openat2(&at, name, step, Mode::empty(), resolve).ok()?;
        mount = mount_of(pid, &at)?;
    }
    if mount != "tmpfs" {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = fs::openat2(&at, ".", flags, Mode::empty(), resolve | ResolveFlags::NO_XDEV).ok()?;
    let found = fs::fstat(&directory).ok()?;
    let identity = Identity { device: found.st_dev, inode: found.st_ino };
    let shown = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    Some(Found { directory, identity, path: shown, owner })
}

/// Kind of the file system of a descriptor, from the kernel's lists; the file system itself is not
/// asked.
fn mount_of(pid: i32, at: &OwnedFd) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", at.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
    let mounts = std::fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
    kind_of(&String::from_utf8_lossy(&mounts), id).map(str::to_owned)
}

/// Kind of the mount with this id in the text of a mountinfo file.
fn kind_of(mounts: &str, id: u64) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (before.split(' ').next()?.parse() == Ok(id)).then(|| after.split(' ').next())?
    })
}

fn is_served(kind: &str) -> bool {
    SERVED.iter().any(|served| kind.starts_with(served))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_mount_is_found_by_its_id() {
        let mounts = "1 0 0:3 / / rw - overlay none rw\n12 1 0:4 / /dev/shm rw shared:7 - fuse.hold none rw\nnonsense\n - \n3 - tmpfs\n";
        assert_eq!((kind_of(mounts, 1), kind_of(mounts, 12), kind_of(mounts, 2)), (Some("overlay"), Some("fuse.hold"), None));
        assert!(is_served("fuse.hold") && is_served("nfs4") && !is_served("tmpfs"));
        let own = fs::open("/proc", OFlags::PATH, Mode::empty()).unwrap();
        assert_eq!(mount_of(std::process::id() as i32, &own).as_deref(), Some("proc"));
    }

    #[test]
    fn only_a_tmpfs_is_entered_and_no_link_is_followed() {
        let own = std::process::id() as i32;
        assert!(open(own, Path::new("/proc"), 0).is_none());
        assert!(open(own, Path::new("/proc/self/root/dev/shm"), 0).is_none());
        assert!(open(own, Path::new("/dev/../dev/shm"), 0).is_none());
        if mount_of(own, &fs::open("/dev/shm", OFlags::PATH, Mode::empty()).unwrap()).as_deref() == Some("tmpfs") {
            assert!(open(own, Path::new("/dev/shm"), 0).is_some());
        }
    }

    #[test]
    fn a_uid_is_translated_into_the_user_namespace_of_a_process() {
        // SAFETY: geteuid has no preconditions.
        let own = unsafe { libc::geteuid() };
        assert!(inner_uid(std::process::id() as i32, own).is_some());
        assert_eq!(inner_uid(i32::MAX, 0), None);
    }
}
