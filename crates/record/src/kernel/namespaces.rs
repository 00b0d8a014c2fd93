//! Finds the network namespaces of this host: those to which a thread, an open file or a mount of
//! ours leads.
//!
//! A namespace is identified by its cookie (`SO_NETNS_COOKIE`), which is never used again. The
//! inode does not identify it, because a new namespace may get the inode of a dead one. No code
//! here keeps a namespace alive, because that would also keep the devices of a namespace that
//! should be gone.

use super::exclude_self::SelfExclusion;
use super::netlink;
use super::state_reader::{names, numbers};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const OWN: &str = "/proc/thread-self/ns/net";
/// Largest number of namespaces that are entered.
const MAX_NAMESPACES: usize = 256;
/// Number of attempts to find a namespace again if it could not be entered.
const TRIES: usize = 4;
/// Largest number of open files, over all processes, that are looked at.
const MAX_FILES: usize = 100_000;

/// A namespace that was entered.
pub struct Namespace<'a> {
    /// Cookie of the namespace; 0 on kernels before 5.14, which have none.
    pub cookie: u64,
    /// File by which the namespace was found. `None` for our own.
    path: Option<&'a Path>,
}

/// Namespaces that could not be entered.
#[derive(Debug, Default)]
pub struct Missed {
    pub names: Vec<String>,
    /// True if not all open files could be looked at, so there may be more namespaces.
    pub files: bool,
}

impl Missed {
    /// True if no namespace was missed.
    pub fn none(&self) -> bool {
        self.names.is_empty() && !self.files
    }
}

impl Namespace<'_> {
    /// Returns the name: `blue` as in `ip netns`, or `pid:1234`. Empty for our own namespace.
    pub fn name(&self) -> String {
        self.path.map_or_else(String::new, name)
    }

    pub fn is_own(&self) -> bool {
        self.path.is_none()
    }
}

fn name(path: &Path) -> String {
    let parts: Vec<Component<'_>> = path.components().collect();
    match parts.as_slice() {
        [_, Component::Normal(top), Component::Normal(pid), ..] if *top == "proc" => format!("pid:{}", pid.to_string_lossy()),
        _ => path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

/// Does `work` in each network namespace that can be entered, our own first. A namespace that
/// begins or ends meanwhile may be left out.
pub fn in_each(work: &mut (dyn FnMut(&Namespace<'_>) + Send)) -> Missed {
    let (mut found, mut missed) = all();
    let own = fs::metadata(OWN).map(|file| file.ino()).unwrap_or_default();
    let names = &mut missed;
    // A thread that has entered a namespace may not be able to return, so a new thread does the
    // work.
    let done = std::thread::scope(|scope| {
        let quiet = SelfExclusion::here();
        let inside = move || {
            if let Some(quiet) = quiet {
                quiet.join();
            }
            work(&Namespace { cookie: cookie(), path: None });
            let mut done = BTreeSet::from([own]);
            for tries in (0..TRIES).rev() {
                let mut again = false;
                for (inode, path) in found.iter().filter(|(inode, _)| !done.contains(*inode)).collect::<Vec<_>>() {
                    let full = done.len() > MAX_NAMESPACES;
                    match enter(path, *inode) {
                        // The file is gone; another one may lead to the same namespace.
                        Err(error) if is_gone(&error) && tries > 0 && !full => {
                            again = true;
                            continue;
                        }
                        Ok(()) if !full => work(&Namespace { cookie: cookie(), path: Some(path) }),
                        _ => names.names.push(name(path)),
                    }
                    done.insert(*inode);
                }
                if !again {
                    break;
                }
                found = all().0;
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, inside).is_ok_and(|thread| thread.join().is_ok())
    });
    missed.files |= !done;
    missed
}

/// Finds each namespace once. Returns by inode a file that leads to it, preferably one with a name.
fn all() -> (BTreeMap<u64, PathBuf>, Missed) {
    let (mut found, mut missed) = (BTreeMap::new(), Missed::default());
    // `ip netns` may leave an empty file after a namespace ended; such a file is on another device.
    let device = fs::metadata(OWN).map(|file| file.dev()).ok();
    let names = names("/run/netns").into_iter().map(|name| PathBuf::from("/run/netns").join(name));
    for path in names.chain(mounted(&fs::read("/proc/thread-self/mountinfo").unwrap_or_default())) {
        if let Some(file) = fs::metadata(&path).ok().filter(|file| Some(file.dev()) == device) {
            found.entry(file.ino()).or_insert(path);
        }
    }
    let mut add = |path: PathBuf| {
        if let Some(inode) = linked(&path) {
            found.entry(inode).or_insert(path);
        }
    };
    let mut files = 0;
    for pid in numbers("/proc") {
        add(PathBuf::from(format!("/proc/{pid}/ns/net")));
        numbers(&format!("/proc/{pid}/task"))
            .into_iter()
            .filter(|tid| *tid != pid)
            .map(|tid| PathBuf::from(format!("/proc/{pid}/task/{tid}/ns/net")))
            .for_each(&mut add);
        for fd in numbers(&format!("/proc/{pid}/fd")) {
            files += 1;
            if files > MAX_FILES {
                missed.files = true;
                break;
            }
            add(PathBuf::from(format!("/proc/{pid}/fd/{fd}")));
        }
    }
    (found, missed)
}

/// Returns the inode of the namespace to which a link in /proc leads. The link's text is parsed,
/// because stat(2) on its target takes twice as long.
fn linked(path: &Path) -> Option<u64> {
    let target = fs::read_link(path).ok()?;
    target.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns where network namespaces are mounted, from proc(5)'s `mountinfo`. The fourth word of a
/// line is what is mounted, the fifth is where.
fn mounted(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ').skip(3);
        let (what, place) = (words.next()?, words.next()?);
        what.starts_with(b"net:[").then(|| PathBuf::from(std::ffi::OsStr::from_bytes(&unescaped(place))))
    });
    lines.collect()
}

/// Decodes the octal escapes of `mountinfo`, where a space is `\040`.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let digits = rest.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (out.push(byte), text = &rest[3..]),
            None => (out.push(first), text = rest),
        };
    }
    out
}

fn enter(path: &Path, inode: u64) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.ino() != inode {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: the descriptor is open; the result is checked.
    match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Returns the cookie of this thread's namespace; 0 if the kernel has none.
fn cookie() -> u64 {
    let Ok(socket) = netlink::socket() else { return 0 };
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    let place = (&raw mut cookie).cast();
    // SAFETY: `place` has the stated number of bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, place, &raw mut size) };
    if result == 0 {
        cookie
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_is_entered_first_and_each_only_once() {
        let mut cookies = Vec::new();
        let mut own = Vec::new();
        in_each(&mut |namespace| {
            cookies.push(namespace.cookie);
            own.push(namespace.is_own() && namespace.name().is_empty());
        });
        assert!(own[0] && own[1..].iter().all(|own| !own), "{own:?}");
        let count = cookies.len();
        cookies.sort_unstable();
        cookies.dedup();
        assert_eq!(cookies.len(), count);
    }

    #[test]
    fn names_and_mounts_are_parsed() {
        assert_eq!((name(Path::new("/proc/12/ns/net")), name(Path::new("/run/netns/blue"))), ("pid:12".to_owned(), "blue".to_owned()));
        let text =
            b"25 1 0:4 / /proc rw - proc proc rw\n26 1 0:5 net:[4026532001] /run/a\\040b rw - nsfs nsfs rw\n27 1 0:5 mnt:[1] /x rw\n9 9\n";
        assert_eq!(mounted(text), [PathBuf::from("/run/a b")]);
        assert_eq!((unescaped(b"a\\04"), unescaped(b"\\999")), (b"a\\04".to_vec(), b"\\999".to_vec()));
    }
}
