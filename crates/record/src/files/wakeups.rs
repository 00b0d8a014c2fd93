//! The descriptors that wake the recorder between two turns, and what each of them means.
//!
//! A source of wake-ups registers its descriptor with a [`Wakeup`]; the recorder sleeps in
//! [`Wakeups::wait`], which returns the meanings of the descriptors that are ready. The descriptors
//! themselves are read by their owners.

use rustix::event::epoll;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Limit of the number of wake-ups that one wait returns.
const MAX_WAKEUPS: usize = 64;

/// Meaning of a descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// A watched runtime directory has changed.
    Directory,
    /// A signal arrived.
    Stop,
    /// A recorded process has ended.
    Process,
    /// A request arrived or was withdrawn.
    Request,
    /// Something changed in the runtime directories of other users.
    OtherDirectories,
}

impl Wakeup {
    const ALL: [Wakeup; 5] = [Wakeup::Directory, Wakeup::Stop, Wakeup::Process, Wakeup::Request, Wakeup::OtherDirectories];

    fn number(self) -> u64 {
        self as u64
    }
}

/// The set of descriptors that wake the recorder.
#[derive(Debug)]
pub struct Wakeups(OwnedFd);

impl Wakeups {
    pub fn new() -> io::Result<Wakeups> {
        Ok(Wakeups(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Registers a descriptor. It is removed from the set when it is closed.
    pub fn watch(&self, descriptor: impl AsFd, meaning: Wakeup) -> io::Result<()> {
        self.add(descriptor, meaning, epoll::EventFlags::IN)
    }

    /// Registers a descriptor that wakes the recorder only once, because it stays ready.
    pub fn watch_once(&self, descriptor: impl AsFd, meaning: Wakeup) -> io::Result<()> {
        self.add(descriptor, meaning, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT)
    }

    fn add(&self, descriptor: impl AsFd, meaning: Wakeup, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.0, descriptor, epoll::EventData::new_u64(meaning.number()), flags)?)
    }

    /// Sleeps until a descriptor is ready, at most for `longest`. Returns the meanings of the ready
    /// ones; an interrupted sleep returns none.
    pub fn wait(&self, longest: Duration) -> Vec<Wakeup> {
        let timeout = rustix::time::Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let mut events = [MaybeUninit::uninit(); MAX_WAKEUPS];
        let Ok((ready, _)) = epoll::wait(&self.0, &mut events, Some(&timeout)) else { return Vec::new() };
        let meaning = |event: &epoll::Event| Wakeup::ALL.into_iter().find(|meaning| meaning.number() == event.data.u64());
        ready.iter().filter_map(meaning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_returns_the_meanings_of_the_ready_descriptors_only() {
        let wakeups = Wakeups::new().unwrap();
        let (quiet, _open) = io::pipe().unwrap();
        let (ended, end) = io::pipe().unwrap();
        wakeups.watch(&quiet, Wakeup::Request).unwrap();
        wakeups.watch_once(&ended, Wakeup::Process).unwrap();
        assert_eq!(wakeups.wait(Duration::ZERO), []);
        drop(end);
        assert_eq!(wakeups.wait(Duration::from_secs(10)), [Wakeup::Process]);
        assert_eq!(wakeups.wait(Duration::ZERO), []);
    }
}
