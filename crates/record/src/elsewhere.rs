//! Programs that see another `/dev/shm` than the recorder: those in containers, or behind `unshare -m`.
//!
//! They meet in a runtime directory that the recorder's path does not lead to. Root finds it through `/proc/PID/root`. The
//! rules for it are stricter than for the own one, since everything below that root belongs to whoever set it up:
//!
//! * No link is followed on the way, and nothing leads out of that root.
//! * Only mounts that cannot hold us are crossed: the directory must lie on a tmpfs, and no file system that a program serves is on the way.
//! * What its session file says of earlier recordings is not believed.

use crate::comm;
use crate::error::Error;
use crate::metadata;
use crate::place::Place;
use crate::recorder::{Recorder, Scope};
use crate::runtime::Runtime;
use crate::session::Held;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Places beside the own one.
const MOST: usize = 256;
/// File systems that some program or another machine answers for.
const SERVED: [&str; 9] = ["fuse", "nfs", "cifs", "smb", "9p", "autofs", "ceph", "virtiofs", "afs"];

/// A directory, whatever its path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// What was met on the search.
#[derive(Debug, Default)]
pub struct Search {
    /// Of the directories that nothing can be made of.
    refused: HashSet<Identity>,
    /// Some processes have a pid namespace of their own.
    pub pid_namespaces: bool,
}

impl Search {
    /// Zombies have none to show.
    pub fn look_for_pid_namespaces(&mut self) {
        let own = namespace("self", "pid");
        let is_other = |pid: i32| namespace(&pid.to_string(), "pid").is_some_and(|found| Some(found) != own);
        self.pid_namespaces = rustix::process::geteuid().is_root() && comm::processes().any(is_other);
    }
}

/// A directory of another mount namespace.
struct Found {
    directory: OwnedFd,
    identity: Identity,
    path: PathBuf,
    owner: u32,
}

impl Recorder {
    /// Takes up the runtime directories of other mount namespaces, and leaves those whose processes are gone. `start`: nothing was recorded yet.
    pub(crate) fn search_elsewhere(&mut self, start: bool) -> Result<(), Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let Some(own_namespace) = namespace("self", "mnt") else { return Ok(()) };
        let own = identity_of(&self.place.runtime);
        self.search.look_for_pid_namespaces();
        let (mut namespaces, mut living) = (HashSet::new(), HashSet::new());
        for pid in comm::processes() {
            let wanted = match (self.options.scope, self.ancestor) {
                (Scope::Everything, _) => true,
                (Scope::Process(wanted), _) => pid == wanted,
                (Scope::Descendants, ancestor) => ancestor.is_some_and(|ancestor| comm::descends(pid, ancestor)),
            };
            let Some(namespace) = namespace(&pid.to_string(), "mnt").filter(|found| wanted && *found != own_namespace) else {
                continue;
            };
            let Ok(owner) = std::fs::metadata(format!("/proc/{pid}")).map(|found| found.uid()) else { continue };
            // All processes of a user there see the same.
            if !namespaces.insert((namespace, owner)) {
                continue;
            }
            let Some(path) = path_for(pid, owner) else { continue };
            let Some(found) = open(pid, &path, owner) else { continue };
            living.insert(found.identity);
            let known = Some(found.identity) == own || self.others.iter().any(|place| place.elsewhere == Some(found.identity));
            if known || self.search.refused.contains(&found.identity) {
                continue;
            }
            let (identity, path) = (found.identity, found.path.clone());
            if let Err(error) = self.settle(found, start) {
                self.search.refused.insert(identity);
                self.oddity(format!("programs of the mount namespace of process {pid} are not recorded: {}: {error}", path.display()));
            }
        }
        // Its memory is given back when nobody has it open.
        let gone = |place: &Place| place.subjects.is_empty() && place.elsewhere.is_some_and(|identity| !living.contains(&identity));
        let followed = self.options.scope != Scope::Everything;
        self.others.retain(|place| {
            let leave = !followed && gone(place);
            if leave {
                place.held.finished();
            }
            !leave
        });
        Ok(())
    }

    fn settle(&mut self, found: Found, start: bool) -> Result<(), Error> {
        if self.others.len() >= MOST {
            return Err(Error::Foreign(format!("there are more than {MOST} such directories")));
        }
        let runtime = Runtime::at(found.directory, &found.path, found.owner)?;
        let (held, _) = Held::take(&runtime)?;
        self.streams += 1;
        let mut text = String::new();
        metadata::place(&mut text, self.streams);
        // Should the disk not take it now, it waits, and packets wait for it.
        if let Err(error) = self.metadata.append(&text) {
            self.oddity(format!("the metadata cannot be extended: {error}"));
        }
        self.others.push(Place::new(runtime, held, self.streams, Some(found.identity), &self.epoll));
        let last = self.others.len() - 1;
        self.exchange(last);
        let taken = self.tidy();
        self.place.held.publish(&self.path, &self.default_order());
        self.exchange(last);
        self.directory_changed |= !start;
        taken
    }
}

/// The pid, here, of a process that calls itself `inner`; `maps` says whether a process maps its control file. None: nobody has it.
pub fn outer_pid(inner: i32, maps: impl Fn(i32) -> Option<bool>) -> Option<i32> {
    if maps(inner) == Some(true) {
        return Some(inner);
    }
    let others = comm::namespaced().into_iter().filter(|(_, theirs)| *theirs == inner);
    others.map(|(ours, _)| ours).find(|pid| maps(*pid) == Some(true))
}

fn identity_of(runtime: &Runtime) -> Option<Identity> {
    fs::fstat(runtime.directory()).ok().map(|found| Identity { device: found.st_dev, inode: found.st_ino })
}

/// As a number.
fn namespace(pid: &str, kind: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok().map(|found| found.ino())
}

/// The path of the runtime directory as a process of another namespace has it.
fn path_for(pid: i32, owner: u32) -> Option<PathBuf> {
    match std::env::var_os("LONGPOLE_RUNTIME_DIR") {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        _ => Some(PathBuf::from(format!("/dev/shm/longpole-{}", inner_uid(pid, owner)?))),
    }
}

/// The user as its own namespace knows it.
fn inner_uid(pid: i32, outer: u32) -> Option<u32> {
    let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
    map.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let (inside, outside, count) = (words.next()??, words.next()??, words.next()??);
        outer.checked_sub(outside).filter(|offset| *offset < count).and_then(|offset| inside.checked_add(offset))
    })
}

fn open(pid: i32, path: &Path, owner: u32) -> Option<Found> {
    let mounts = std::fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
    if !is_harmless(&String::from_utf8_lossy(&mounts), path) {
        return None;
    }
    let root = fs::open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let directory = fs::openat2(&root, path, flags, Mode::empty(), resolve).ok()?;
    let found = fs::fstat(&directory).ok()?;
    let identity = Identity { device: found.st_dev, inode: found.st_ino };
    let shown = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    Some(Found { directory, identity, path: shown, owner })
}

/// Whether `path` lies on a tmpfs, and no served file system is mounted above it, by a process's list of mounts.
fn is_harmless(mounts: &str, path: &Path) -> bool {
    let mut covering: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        if !path.starts_with(point) {
            continue;
        }
        if SERVED.iter().any(|served| kind.starts_with(served)) {
            return false;
        }
        // A later mount of the same point covers the earlier one.
        if covering.is_none_or(|(length, _)| point.len() >= length) {
            covering = Some((point.len(), kind));
        }
    }
    covering.is_some_and(|(_, kind)| kind == "tmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tmpfs_without_served_file_systems_on_the_way_is_entered() {
        let line = |point: &str, kind: &str| format!("1 2 0:3 / {point} rw - {kind} none rw\n");
        let path = Path::new("/dev/shm/longpole-0");
        let root = line("/", "overlay");
        assert!(!is_harmless(&root, path));
        assert!(is_harmless(&(root.clone() + &line("/dev", "devtmpfs") + &line("/dev/shm", "tmpfs")), path));
        assert!(is_harmless(&(root.clone() + &line("/dev", "tmpfs") + &line("/dev/shmx", "fuse.x")), path));
        assert!(!is_harmless(&(root.clone() + &line("/dev", "fuse.hold") + &line("/dev/shm", "tmpfs")), path));
        assert!(!is_harmless(&(root + &line("/dev/shm", "tmpfs") + &line("/dev/shm/longpole-0", "ext4")), path));
        assert!(!is_harmless("nonsense\n - \n1 2 3 - tmpfs\n", path));
    }

    #[test]
    fn users_are_those_of_their_namespace() {
        // SAFETY: geteuid has no preconditions.
        let own = unsafe { libc::geteuid() };
        assert!(inner_uid(std::process::id() as i32, own).is_some());
        assert_eq!(inner_uid(i32::MAX, 0), None);
    }
}
