//! A process with probes, as its control file and its rings show it.

use crate::output::disk::Waiting;
use crate::ring::{Look, Ring};
use crate::runtime_dir::lock;
use crate::runtime_dir::mapping::{Access, Headed, Mapping};
use crate::runtime_dir::proc_status::{self, Mapped};
use crate::runtime_dir::Runtime;
use longpole_abi::{Control, CONTROL_SIZE, MAGIC, RING_OWNED, VERSION};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{fence, AtomicU8, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Process {
    /// `<pid>-<tag>`
    pub stem: String,
    pub pid: i32,
    file: Mapped,
    /// The control file: whoever holds its lock orders what the process does, and takes what it wrote.
    lock: OwnedFd,
    control: Headed<Control>,
    /// Becomes readable when the process has ended.
    pub handle: Option<OwnedFd>,
    pub label: String,
    label_version: u32,
    /// Number of ring files of its own that have been looked for.
    pub rings_seen: u32,
    /// Looks at a ring file that was announced but is not there.
    pub missing: u32,
    pub next_successor: u32,
    pub refused_before: u32,
    /// Its pid as it knows it itself: in its own pid namespace.
    inner: i32,
    /// Its threads' tids, by what they are in its namespace; where that is another than ours.
    tids: RefCell<HashMap<i32, i32>>,
}

impl Process {
    pub fn open(runtime: &Runtime, name: &str, stem: &str, pid: i32, access: Access) -> io::Result<Process> {
        let opened = match access {
            Access::Read => runtime.open_readable(name)?,
            _ => runtime.open_writable(name)?,
        };
        if opened.size < CONTROL_SIZE as u64 {
            return Err(io::Error::other("the control file is cut off"));
        }
        let mapping = Mapping::new(opened.file.as_fd(), CONTROL_SIZE, access)?;
        let Some(control) = Headed::<Control>::new(mapping) else { return Err(io::Error::other("the control file is cut off")) };
        let mut process = Process {
            stem: stem.to_owned(),
            pid,
            file: runtime.mapped(opened.inode, control.mapping()),
            lock: opened.file,
            control,
            handle: pidfd(pid),
            label: String::new(),
            label_version: 1,
            rings_seen: 0,
            missing: 0,
            next_successor: 0,
            refused_before: 0,
            inner: pid,
            tids: RefCell::default(),
        };
        let control = process.control();
        if control.magic.load(Ordering::Acquire) != MAGIC || control.version.load(Ordering::Relaxed) != VERSION {
            return Err(io::Error::other("the control file is of another version"));
        }
        process.refresh_label();
        Ok(process)
    }

    /// What this process's file says of itself is of another pid namespace: here it has this pid; negative: none any more.
    pub fn is_known_as(&mut self, pid: i32) {
        if pid != self.pid {
            self.pid = pid;
            self.handle = pidfd(pid);
            if self.label.is_empty() {
                self.label = self.executable();
            }
        }
    }

    /// Whether the process with this pid maps the control file.
    pub fn maps_as(&self, pid: i32) -> Option<bool> {
        proc_status::maps(pid, &self.file)
    }

    /// The tid, as we know it, of a thread that calls itself `tid`. One of another pid namespace that has ended and was never seen has none:
    /// then it is what the thread called itself, as a negative number, which no thread has here.
    pub fn tid(&self, tid: i32) -> i32 {
        if self.pid == self.inner {
            return tid;
        }
        if tid == self.inner {
            return self.pid;
        }
        if let Some(known) = self.tids.borrow().get(&tid) {
            return *known;
        }
        let mut tids = self.tids.borrow_mut();
        if tids.len() >= MOST_TIDS {
            tids.clear();
        }
        tids.extend(proc_status::threads_by_inner_tid(self.pid));
        tids.get(&tid).copied().unwrap_or(tid.saturating_neg())
    }

    /// The pid, as we know it, that stands in one of its rings.
    pub fn pid_of(&self, told: i32) -> i32 {
        if self.pid == self.inner {
            told
        } else {
            self.pid
        }
    }

    /// The number may be that of another thread now.
    pub fn forget_thread(&self, tid: i32) {
        self.tids.borrow_mut().remove(&tid);
    }

    /// Makes this recorder the one that records it, if there is no other. One that has ended is no other any more.
    pub fn claim(&self) -> bool {
        lock::take(&self.lock).unwrap_or(false)
    }

    /// It may be another recorder's.
    pub fn leave(&self) {
        lock::leave(&self.lock);
    }

    /// Whether another recorder has it.
    pub fn is_taken(&self) -> bool {
        lock::is_taken(&self.lock)
    }

    /// The recording for which it was told to record last.
    pub fn session(&self) -> u64 {
        self.control().orders.session.load(Ordering::Relaxed)
    }

    pub fn control(&self) -> &Control {
        self.control.first()
    }

    pub fn poisoned(&self) -> bool {
        self.control.mapping().poisoned()
    }

    /// Reads the label again if it has changed. True: it has.
    pub fn refresh_label(&mut self) -> bool {
        let control = self.control();
        for _ in 0..4 {
            let version = control.label_version.load(Ordering::Acquire);
            if version == self.label_version {
                return false;
            }
            if version % 2 == 1 {
                continue;
            }
            let label = text(&control.label);
            fence(Ordering::Acquire);
            if control.label_version.load(Ordering::Relaxed) == version {
                let label = if label.is_empty() { self.executable() } else { label };
                let changed = label != self.label;
                self.label = label;
                self.label_version = version;
                return changed;
            }
        }
        // Being changed right now, or for ever.
        if self.label.is_empty() {
            self.label = self.executable();
        }
        false
    }

    /// Base name of the executable.
    fn executable(&self) -> String {
        let path = text(&self.control().executable);
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
        match path.rsplit('/').next() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => proc_status::thread_name(self.pid, self.pid).unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    /// Whether the process that made this control file lives. `exec` keeps the pid: then the new program does not map the file.
    pub fn lives(&self) -> bool {
        self.handle_lives() && self.maps() != Some(false)
    }

    /// Whether the process with this pid maps the control file. None: one cannot see.
    pub fn maps(&self) -> Option<bool> {
        proc_status::maps(self.pid, &self.file)
    }

    /// Whether the pid still belongs to the process that had it when the file was opened.
    pub fn handle_lives(&self) -> bool {
        match &self.handle {
            None if self.pid <= 0 => false,
            Some(handle) => {
                let mut poll = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
                !matches!(rustix::event::poll(&mut poll, Some(&ZERO)), Ok(ready) if ready > 0)
            }
            None => proc_status::alive(self.pid) && !is_zombie(self.pid),
        }
    }

    /// The recording whose command started this process, as it says itself; 0: none.
    pub fn scope(&self) -> u64 {
        self.control().scope.load(Ordering::Relaxed)
    }

    /// What was refused until now is none of this recording's.
    pub fn forget_refused(&mut self) {
        self.refused_before = self.control().refused.load(Ordering::Relaxed);
    }

    pub fn refused(&self) -> u64 {
        u64::from(self.control().refused.load(Ordering::Relaxed).wrapping_sub(self.refused_before))
    }
}

/// Threads whose numbers are kept.
const MOST_TIDS: usize = 1 << 16;

const ZERO: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };

fn pidfd(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

fn is_zombie(pid: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

pub fn text(bytes: &[AtomicU8]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    proc_status::printable(&bytes)
}

/// Time after which a thread's name is looked up for the second time.
const FIRST_NAME: Duration = Duration::from_millis(1);

/// Periods between two looks at the name of a thread that writes nothing: hundreds of them are a recorder's whole work while nothing happens.
const SILENT: u32 = 64;

/// A ring of a process, with what the recorder decided about it.
#[derive(Debug)]
pub struct Source {
    pub ring: Ring,
    /// Follows `ring` once its thread has gone over.
    pub successor: Option<Ring>,
    /// The thread did not take a successor; it is not offered another.
    pub settled: bool,
    /// There was no memory for a larger one when it needed one.
    pub denied: bool,
    pub lane: Option<usize>,
    /// Index of the policy that wants it; none wants it: None.
    pub verdict: Verdict,
    pub thread: [u8; 32],
    /// The name is looked up again then, and after that in twice the time, up to a period, or to [`SILENT`] of them where the thread writes nothing:
    /// most names are given soon after the begin.
    name_due: Instant,
    name_step: Duration,
    pub tid: i32,
    /// Losses that are in none of the ring's counters.
    pub extra_lost: u64,
    /// Losses that were told to the capture and not yet to the lane.
    pub captured: u64,
    pub lost_before: u64,
    /// Overwriting: the head as of the newest look.
    pub head_before: u64,
    /// Overwriting: the counter when it was seen to write last.
    pub quiet_since: Option<u64>,
    /// How far triggers have seen it, while there are any; and the ring's `events` there.
    pub watched: Option<u64>,
    pub seen_events: u64,
    /// The thread was seen to have looked at its successor; and where the head stood a turn later.
    pub answered: Option<Option<u64>>,
    pub broken: bool,
    /// It must not wait for the disk.
    pub hurried: bool,
    /// It is not nearly full, and loses nothing.
    pub has_room: bool,
    /// When it was last looked at.
    pub looked: Instant,
    /// Ended, empty, and without a successor.
    pub over: bool,
    /// Of this turn.
    pub look: Option<Look>,
    /// Bytes of events that were taken in this turn.
    pub content: u64,
    /// In which it was looked at.
    pub periods: u32,
    /// From then on, what is in an unfinished sub-buffer is taken as well.
    pub partial: Instant,
    /// The sub-buffer that `tail` was in when that moment came last.
    pub begun: u64,
}

/// Whether a ring's events are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided yet.
    Open,
    /// There are no policies.
    Everything,
    /// Index of the policy.
    Policy(usize),
    Unwanted,
}

impl Source {
    pub fn new(ring: Ring) -> Source {
        let mut thread = [0; 32];
        for (byte, from) in thread.iter_mut().zip(&ring.layout().thread) {
            *byte = from.load(Ordering::Relaxed);
        }
        let tid = ring.tid();
        let lost_before = ring.reported;
        Source {
            ring,
            successor: None,
            settled: false,
            denied: false,
            lane: None,
            verdict: Verdict::Open,
            thread,
            name_due: Instant::now(),
            name_step: FIRST_NAME,
            tid,
            extra_lost: 0,
            captured: 0,
            lost_before,
            head_before: 0,
            quiet_since: None,
            watched: None,
            seen_events: 0,
            answered: None,
            broken: false,
            hurried: false,
            has_room: false,
            looked: Instant::now(),
            over: false,
            look: None,
            content: 0,
            periods: 0,
            partial: Instant::now(),
            begun: 0,
        }
    }

    /// What is to be written of it, by the newest look.
    pub fn waiting(&mut self, now: Instant) -> Waiting {
        let since = now.duration_since(std::mem::replace(&mut self.looked, now));
        match &self.look {
            Some(look) if !self.ring.overwrites && self.verdict != Verdict::Unwanted => {
                let content = look.head - self.ring.tail;
                Waiting { size: self.ring.size, content, since, is_full: look.lost > self.lost_before }
            }
            _ => Waiting::default(),
        }
    }

    /// Whether there is something that the newest look did not show: the ring has been exchanged since.
    pub fn fresh_since_look(&self) -> bool {
        let ended = self.successor.is_some() && self.ring.is_ended();
        ended || self.ring.layout().head.load(Ordering::Acquire) != self.ring.tail
    }

    /// Another thread has taken the ring.
    pub fn taken(&mut self, tid: i32, thread: [u8; 32]) {
        (self.tid, self.thread, self.name_step) = (tid, thread, FIRST_NAME);
        self.name_due = Instant::now();
    }

    /// Threads are often named after their first event: the ring knows the name that they had then. True: it has another now.
    /// `news`: there are events that the name decides on.
    pub fn refresh_name(&mut self, process: &Process, period: Duration, news: bool, last: bool) -> bool {
        let now = Instant::now();
        let overdue = news && self.name_step > period;
        if now < self.name_due && !overdue && !last {
            return false;
        }
        let longest = if news { period } else { period * SILENT };
        self.name_step = self.name_step.min(longest);
        self.name_due = now + self.name_step;
        self.name_step = (self.name_step * 2).min(longest);
        let layout = self.ring.layout();
        if layout.state.load(Ordering::Relaxed) != RING_OWNED || self.ring.tid() != self.tid {
            return false;
        }
        let Some(name) = proc_status::thread_name(process.pid, process.tid(self.tid)) else { return false };
        let before = std::mem::replace(&mut self.thread, crate::output::packet::padded(&name));
        before != self.thread
    }

    pub fn thread_name(&self) -> String {
        proc_status::printable(&self.thread)
    }
}
