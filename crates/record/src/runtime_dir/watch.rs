//! The runtime directories of other users beside the recorder's own: root hears at once when one appears, or when somebody comes to one that it has
//! not taken up, and need not wait for its next search.

use crate::recorder::TOKEN_NEIGHBOURS;
use crate::runtime_dir::{user_of, USERS};
use rustix::event::epoll;
use rustix::fs::inotify;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Searches take no more than one part in so many of the time, whatever is heard.
const SHARE: u32 = 20;
const MOST: usize = 1024;

#[derive(Debug)]
pub(crate) struct RuntimeWatch {
    watch: OwnedFd,
    /// By what the kernel calls their watches; that of the folder itself is none of them.
    directories: HashMap<i32, PathBuf>,
    /// Something was heard that a search may explain.
    pub due: bool,
    next: Instant,
}

impl RuntimeWatch {
    /// None for who may not look into them, and where the directory was named.
    pub fn new(epoll: &OwnedFd) -> Option<RuntimeWatch> {
        let named = std::env::var_os("LONGPOLE_RUNTIME_DIR").is_some_and(|path| !path.is_empty());
        if named || !rustix::process::geteuid().is_root() {
            return None;
        }
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, USERS, flags).ok()?;
        epoll::add(epoll, &watch, epoll::EventData::new_u64(TOKEN_NEIGHBOURS), epoll::EventFlags::IN).ok()?;
        let mut neighbours = RuntimeWatch { watch, directories: HashMap::new(), due: false, next: Instant::now() };
        neighbours.list();
        Some(neighbours)
    }

    fn list(&mut self) {
        let flags =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR | inotify::WatchFlags::DONT_FOLLOW;
        for entry in std::fs::read_dir(USERS).into_iter().flatten().flatten() {
            let path = entry.path();
            if user_of(&path).is_some() && self.directories.len() < MOST {
                if let Ok(number) = inotify::add_watch(&self.watch, &path, flags) {
                    self.directories.insert(number, path);
                }
            }
        }
    }

    /// Takes what was heard. `taken`: the directories that a recorder watches itself.
    pub fn hear(&mut self, taken: impl Fn(&Path) -> bool) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        let (mut new, mut due) = (false, false);
        while let Ok(event) = reader.next() {
            match self.directories.get(&event.wd()) {
                None => new = true,
                Some(_) if event.events().contains(inotify::ReadFlags::IGNORED) => {
                    self.directories.remove(&event.wd());
                }
                Some(path) => due |= !taken(path),
            }
        }
        if new {
            let before = self.directories.len();
            self.list();
            due |= self.directories.len() > before;
        }
        self.due |= due;
    }

    /// Whether a search is to be made now.
    pub fn asks(&mut self, now: Instant) -> bool {
        self.due && now >= self.next && std::mem::take(&mut self.due)
    }

    pub fn searched(&mut self, began: Instant) {
        let now = Instant::now();
        self.next = now + (now - began) * SHARE;
    }

    /// How long the next search may wait at most.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.due.then(|| self.next.saturating_duration_since(now))
    }
}
