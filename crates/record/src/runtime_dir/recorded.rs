//! A runtime directory that is being recorded, with its processes.
//!
//! There is the user's own directory. A recorder that runs as root also records the directories of
//! other users and of mount namespaces in which programs have a `/dev/shm` of their own (see
//! [`crate::runtime_dir::foreign`]). Each directory has its own site table, so the same class id
//! has another meaning in each. Therefore the events of each directory have a stream class of their
//! own. All stream classes are in one metadata file, so `user/` is one trace.

use crate::recorder::{Recorder, Subject, TOKEN_DIRECTORY};
use crate::ring::class::Classes;
use crate::ring::sites::Sites;
use crate::runtime_dir::foreign::Identity;
use crate::runtime_dir::session::Held;
use crate::runtime_dir::{Runtime, CONTROL};
use rustix::event::epoll;
use rustix::fs::inotify;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

/// A runtime directory that is being recorded.
#[derive(Debug)]
pub(crate) struct Place {
    pub runtime: Runtime,
    pub held: Held,
    /// Event classes of the site table.
    pub classes: Classes,
    pub sites: Option<Sites>,
    /// The processes, by the stem of their file names.
    pub subjects: HashMap<String, Subject>,
    /// Bytes of the larger rings of its processes, at this turn.
    pub larger: u64,
    /// Number of the CTF stream class of its streams.
    pub stream: u32,
    watch: Option<OwnedFd>,
    /// Identity of the directory; `None` for the recorder's own directory.
    pub elsewhere: Option<Identity>,
    /// Stems of control files whose processes cannot be identified from this namespace; their files
    /// are left alone.
    pub unknown: HashSet<String>,
    /// Number of looks at each control file that had two names, by stem.
    pub awaiting_final_name: HashMap<String, u32>,
    /// Names of control files that the watch has reported and that have not been looked at.
    pub heard: Vec<String>,
    /// Reports were lost or too many, so the whole directory must be listed.
    pub missed: bool,
}

/// Limit of the number of waiting names.
const MOST_HEARD: usize = 1 << 16;

impl Place {
    pub fn new(runtime: Runtime, held: Held, stream: u32, elsewhere: Option<Identity>, epoll: &OwnedFd) -> Place {
        let watch = watch(&runtime);
        if let Some(watch) = &watch {
            let _ = epoll::add(epoll, watch, epoll::EventData::new_u64(TOKEN_DIRECTORY), epoll::EventFlags::IN);
        }
        Place {
            runtime,
            held,
            classes: Classes::new(),
            sites: None,
            subjects: HashMap::new(),
            larger: 0,
            stream,
            watch,
            elsewhere,
            unknown: HashSet::new(),
            awaiting_final_name: HashMap::new(),
            heard: Vec::new(),
            missed: false,
        }
    }

    /// Reads the reports of the directory watch. Only control files count; the number of rings is
    /// in the control file.
    pub fn hear(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        while let Ok(event) = reader.next() {
            self.missed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) || self.heard.len() >= MOST_HEARD;
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if let Some(name) = name.filter(|name| name.ends_with(CONTROL) && self.heard.len() < MOST_HEARD) {
                self.heard.push(name.to_owned());
            }
        }
    }
}

fn watch(runtime: &Runtime) -> Option<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
    // In another mount namespace the path may denote another directory; the descriptor does not.
    let path = format!("/proc/self/fd/{}", runtime.directory().as_raw_fd());
    inotify::add_watch(&watch, path, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO).ok()?;
    Some(watch)
}

impl Recorder {
    /// Runs `work` once for each directory, with `self.place` set to that directory.
    pub(crate) fn in_each_directory<E>(&mut self, mut work: impl FnMut(&mut Recorder) -> Result<(), E>) -> Result<(), E> {
        let mut result = work(self);
        for at in 0..self.others.len() {
            self.exchange(at);
            result = result.and(work(self));
            self.exchange(at);
        }
        result
    }

    /// Exchanges `self.place` with one of the other directories.
    pub(crate) fn exchange(&mut self, at: usize) {
        std::mem::swap(&mut self.place, &mut self.others[at]);
    }
}
