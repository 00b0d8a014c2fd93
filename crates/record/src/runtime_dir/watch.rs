//! Watches the runtime directories of other users. A recorder that runs as root is notified at once
//! if such a directory is made, or if a process appears in one that it has not taken up, instead of
//! waiting for its next search.

use crate::files::wakeups::{Wakeup, Wakeups};
use crate::runtime_dir::{user_of, USERS};
use rustix::fs::inotify;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Searches take at most 1/20 (5 %) of the recorder's time.
const SEARCH_SHARE_DIVISOR: u32 = 20;
/// Limit of the number of watched directories.
const MAX_WATCHED: usize = 1024;

/// Watch of the runtime directories of other users.
#[derive(Debug)]
pub(crate) struct RuntimeWatch {
    watch: OwnedFd,
    /// Watched directories, by watch descriptor; does not contain the parent directory.
    directories: HashMap<i32, PathBuf>,
    /// True if a search is needed.
    pub due: bool,
    next: Instant,
}

impl RuntimeWatch {
    /// `None` if this process is not root, or if `LONGPOLE_RUNTIME_DIR` names the only directory.
    pub fn new(wakeups: &Wakeups) -> Option<RuntimeWatch> {
        let named = std::env::var_os("LONGPOLE_RUNTIME_DIR").is_some_and(|path| !path.is_empty());
        if named || !rustix::process::geteuid().is_root() {
            return None;
        }
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, USERS, flags).ok()?;
        wakeups.watch(&watch, Wakeup::OtherDirectories).ok()?;
        let mut watch_of_others = RuntimeWatch { watch, directories: HashMap::new(), due: false, next: Instant::now() };
        watch_of_others.list();
        Some(watch_of_others)
    }

    fn list(&mut self) {
        let flags =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR | inotify::WatchFlags::DONT_FOLLOW;
        for entry in std::fs::read_dir(USERS).into_iter().flatten().flatten() {
            let path = entry.path();
            if user_of(&path).is_some() && self.directories.len() < MAX_WATCHED {
                if let Ok(number) = inotify::add_watch(&self.watch, &path, flags) {
                    self.directories.insert(number, path);
                }
            }
        }
    }

    /// Reads the reports. `taken`: directories that the recorder has already taken up and watches
    /// itself.
    pub fn read_reports(&mut self, taken: impl Fn(&Path) -> bool) {
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

    /// Returns whether a search must run now, and resets the request.
    pub fn take_due(&mut self, now: Instant) -> bool {
        self.due && now >= self.next && std::mem::take(&mut self.due)
    }

    /// Sets the time of the next search after one has ended.
    pub fn set_next_search(&mut self, began: Instant) {
        let now = Instant::now();
        self.next = now + (now - began) * SEARCH_SHARE_DIVISOR;
    }

    /// Longest time until the next search; `None` if none is needed.
    pub fn time_until_search(&self, now: Instant) -> Option<Duration> {
        self.due.then(|| self.next.saturating_duration_since(now))
    }
}
