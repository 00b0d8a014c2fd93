//! A runtime directory that is recorded, with the processes that meet there.
//!
//! There is the user's own, and, for root, one for each further mount namespace in which programs have a `/dev/shm` of their own (see
//! [`crate::runtime_dir::foreign`]). Each has a site table, so the same class id means something else in each: the events of a place are of a stream
//! class of their own. All stream classes stand in one metadata, so `user/` stays one trace.

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

#[derive(Debug)]
pub(crate) struct Place {
    pub runtime: Runtime,
    pub held: Held,
    pub classes: Classes,
    pub sites: Option<Sites>,
    pub subjects: HashMap<String, Subject>,
    /// Bytes of the larger rings of its processes, as of this turn.
    pub larger: u64,
    /// Class of its streams.
    pub stream: u32,
    watch: Option<OwnedFd>,
    /// Not the recorder's own.
    pub elsewhere: Option<Identity>,
    /// Processes there of which nobody knows who they are here; their files are left alone.
    pub unknown: HashSet<String>,
    /// Looks at control files that had two names.
    pub being_named: HashMap<String, u32>,
    /// Control files of which was heard and that nobody has looked at.
    pub heard: Vec<String>,
    /// More than that came: only a look at all files tells.
    pub missed: bool,
}

/// Names that wait to be looked at.
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
            being_named: HashMap::new(),
            heard: Vec::new(),
            missed: false,
        }
    }

    /// Takes what is told of files that appear. Rings are known by what their process says.
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
    // The path may lead elsewhere in another mount namespace, the descriptor does not.
    let path = format!("/proc/self/fd/{}", runtime.directory().as_raw_fd());
    inotify::add_watch(&watch, path, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO).ok()?;
    Some(watch)
}

impl Recorder {
    /// Does something for each place: `self.place` is the one in question meanwhile.
    pub(crate) fn in_each_place<E>(&mut self, mut work: impl FnMut(&mut Recorder) -> Result<(), E>) -> Result<(), E> {
        let mut result = work(self);
        for at in 0..self.others.len() {
            self.exchange(at);
            result = result.and(work(self));
            self.exchange(at);
        }
        result
    }

    pub(crate) fn exchange(&mut self, at: usize) {
        std::mem::swap(&mut self.place, &mut self.others[at]);
    }
}
