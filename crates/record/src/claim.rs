//! Whose a program is. One recorder at a time orders what a program does and takes what it wrote: the one that holds the lock of its
//! control file.
//!
//! A recorder of whoever comes claims all at first, since newcomers do what it says in `session` before it has looked at them. Those that it
//! does not record it leaves again, once they are silent; those that are another's it leaves alone, and takes up when that one has ended. A
//! recorder of a single process claims that one, and has nothing to do with others.

use crate::error::Error;
use crate::mapping::Access;
use crate::process::Process;
use crate::recorder::{Recorder, Scope, Subject};
use crate::runtime::{Entry, Runtime};
use crate::session::{self, Held, Running, Unfinished};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A process is left when nothing came from it in so many turns, after it was told to say nothing.
const SILENT_TURNS: u32 = 3;
/// A recorder that leaves a process at this moment is waited for.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Recorder {
    /// It records one process, and says nothing to others.
    pub(crate) fn is_alone(&self) -> bool {
        self.options.scope.alone().is_some()
    }

    /// Makes a process this recorder's, if it has to be and is no other's.
    pub(crate) fn claim(&mut self, subject: &mut Subject) -> bool {
        subject.claimed = (subject.order.mask != 0 || !self.is_alone()) && subject.process.claim();
        if !subject.claimed && subject.order.mask != 0 && !subject.told_taken {
            subject.told_taken = true;
            self.total.taken += 1;
            let holder = match holder(&self.place.runtime, subject.process.session()) {
                Some(running) => format!("process {} to {}", running.pid, running.path.display()),
                None => "somebody else".to_owned(),
            };
            let (pid, label) = (subject.process.pid, &subject.process.label);
            self.oddity(format!("process {pid} ({label}) is recorded by {holder}, and not here while that goes on"));
        }
        subject.claimed
    }

    /// A process that is to say nothing and is silent may be another recorder's.
    pub(crate) fn leave_if_silent(&mut self, subject: &mut Subject) {
        let process = &subject.process;
        let silent = subject.order.mask == 0
            && !subject.ended
            && process.control().rings.load(Ordering::Acquire) <= process.rings_seen
            && subject.sources.iter().all(|source| source.broken || !source.fresh_since_look());
        subject.silent_turns = if silent { subject.silent_turns + 1 } else { 0 };
        if subject.silent_turns <= SILENT_TURNS {
            return;
        }
        for mut source in std::mem::take(&mut subject.sources) {
            self.tail_losses(&subject.process, &mut source, false);
            self.total.waited = self.total.waited.saturating_add(source.ring.waited());
            if let Some(lane) = source.lane {
                self.close_lane(lane, false);
            }
        }
        self.count_refused(subject);
        subject.silent_turns = 0;
        subject.process.rings_seen = 0;
        subject.process.missing = 0;
        subject.claimed = false;
        subject.process.leave();
    }

    /// Events of a process that found no memory for a ring.
    pub(crate) fn count_refused(&mut self, subject: &mut Subject) {
        let refused = subject.process.refused();
        if refused == 0 || !subject.wanted || !subject.claimed {
            return;
        }
        subject.process.refused_before = subject.process.refused_before.wrapping_add(refused as u32);
        self.total.refused += refused;
        self.why_refused = why_refused(subject.process.control().refused_errno.load(Ordering::Relaxed));
        self.oddity(format!("{}: {refused} events {}; they are in no stream", subject.process.label, self.why_refused));
    }
}

/// Why a thread has no ring, by the number that its process told.
fn why_refused(errno: u32) -> String {
    match errno as i32 {
        libc::EACCES => "found no way to the runtime directory: the process is another user's than when it began".to_owned(),
        libc::ENOENT => "found no runtime directory: it was removed, or lies outside of what the process sees now (chroot)".to_owned(),
        libc::EAGAIN => "found no ring: other threads of the process kept its table".to_owned(),
        errno => format!("found no memory for a ring ({})", std::io::Error::from_raw_os_error(errno)),
    }
}

/// The recording with this number that is in progress.
fn holder(runtime: &Runtime, number: u64) -> Option<Running> {
    session::running(runtime).ok()?.into_iter().find(|running| running.session == number)
}

/// The session's file of a recorder, unless what it is to record is another's.
pub(crate) fn take(runtime: &Runtime, scope: Scope) -> Result<(Held, Option<Unfinished>), Error> {
    let Some(wanted) = scope.alone() else { return Held::take(runtime, None) };
    let taken = match Held::take(runtime, Some(wanted)) {
        Err(Error::Busy { pid, path }) => return Err(Error::Taken { process: wanted, pid, path }),
        other => other?,
    };
    match other_recorder(runtime, wanted)? {
        None => Ok(taken),
        Some(running) => {
            taken.0.finished(runtime);
            Err(Error::Taken {
                process: wanted,
                pid: running.as_ref().map_or(0, |running| running.pid),
                path: running.map_or_else(String::new, |running| running.path.display().to_string()),
            })
        }
    }
}

/// Whether another recorder has a process for longer than a moment, and which.
fn other_recorder(runtime: &Runtime, wanted: i32) -> Result<Option<Option<Running>>, Error> {
    let mut number = None;
    for _ in 0..TRIES {
        let entries = runtime.entries().map_err(Error::io("list", runtime.path()))?;
        number = entries.iter().find_map(|(name, entry)| match entry {
            Entry::Control { stem, pid } if *pid == wanted => {
                let process = Process::open(runtime, name, stem, *pid, Access::Read).ok()?;
                process.is_taken().then(|| process.session())
            }
            _ => None,
        });
        if number.is_none() {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(number.map(|number| holder(runtime, number)))
}
