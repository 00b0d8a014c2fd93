//! A process with probes, as seen through its control file and its rings.

use crate::files::lock;
use crate::mapping::{Access, Headed, Mapping};
use crate::output::disk::Waiting;
use crate::ring::{Look, Ring};
use crate::runtime_dir::proc_status::{self, Mapped};
use crate::runtime_dir::Runtime;
use longpole_abi::{Control, CONTROL_SIZE, MAGIC, RING_OWNED, VERSION};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{fence, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// A process with probes.
#[derive(Debug)]
pub struct Process {
    /// Common part of its file names: `<pid>-<tag>`.
    pub stem: String,
    /// The process's pid in this namespace; negative if it has none here any more.
    pub pid: i32,
    /// Identity of the control file, to find it among the process's mappings.
    file: Mapped,
    /// The control file. The recorder that holds its lock writes the process's orders and takes its
    /// events.
    lock: OwnedFd,
    control: Headed<Control>,
    /// A pidfd; becomes readable when the process has ended.
    pub handle: Option<OwnedFd>,
    /// Name of the program for users and policies.
    pub label: String,
    label_version: u32,
    /// Number of its own ring files that have been looked for.
    pub rings_seen: u32,
    /// Number of looks at a ring file that was announced but does not exist.
    pub missing: u32,
    /// Number of the next ring that the recorder makes for the process.
    pub next_successor: u32,
    /// Value of the counter of refused events up to which they are accounted for.
    pub refused_before: u32,
    /// The process's pid in its own pid namespace.
    inner: i32,
    /// Tids of its threads in this namespace, by their tids in the process's namespace. Empty if
    /// both namespaces are the same.
    tids: RefCell<HashMap<i32, i32>>,
}

impl Process {
    /// Opens and maps a control file. Fails if it is too short or of another version.
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

    /// Sets the pid under which this namespace knows the process. A negative number means that the
    /// process has no pid here any more.
    pub fn is_known_as(&mut self, pid: i32) {
        if pid != self.pid {
            self.pid = pid;
            self.handle = pidfd(pid);
            if self.label.is_empty() {
                self.label = self.executable();
            }
        }
    }

    /// Returns whether the process with this pid maps the control file; `None` if that cannot be
    /// seen.
    pub fn maps_as(&self, pid: i32) -> Option<bool> {
        proc_status::maps(pid, &self.file)
    }

    /// Tid, in this namespace, of the thread that knows itself as `tid`. A thread of another pid
    /// namespace that ended before it was seen gets its own tid as a negative number, which no
    /// thread here has.
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

    /// Pid, in this namespace, for a pid that is stored in one of the process's rings.
    pub fn pid_of(&self, told: i32) -> i32 {
        if self.pid == self.inner {
            told
        } else {
            self.pid
        }
    }

    /// Forgets a thread's tid, because it may belong to another thread now.
    pub fn forget_thread(&self, tid: i32) {
        self.tids.borrow_mut().remove(&tid);
    }

    /// Takes the process for this recorder, unless another running recorder holds it. Returns
    /// whether that succeeded.
    pub fn claim(&self) -> bool {
        lock::take(&self.lock).unwrap_or(false)
    }

    /// Releases the process, so that another recorder may take it.
    pub fn leave(&self) {
        lock::leave(&self.lock);
    }

    /// Returns whether another recorder holds the process.
    pub fn is_taken(&self) -> bool {
        lock::is_taken(&self.lock)
    }

    /// Number of the recording for which the process last got orders.
    pub fn session(&self) -> u64 {
        self.control().orders.session.load(Ordering::Relaxed)
    }

    pub fn control(&self) -> &Control {
        self.control.first()
    }

    /// Returns whether the control file has shrunk.
    pub fn poisoned(&self) -> bool {
        self.control.mapping().poisoned()
    }

    /// Reads the label again if its version has changed. Returns whether the label is different.
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
        // The label is being changed now, or the process died while changing it and its version
        // stays incomplete.
        if self.label.is_empty() {
            self.label = self.executable();
        }
        false
    }

    /// File name of the executable, without its folder.
    fn executable(&self) -> String {
        let path = text(&self.control().executable);
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
        match path.rsplit('/').next() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => proc_status::thread_name(self.pid, self.pid).unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    /// Returns whether the process that made this control file is alive. `exec` does not change the
    /// pid; then the new program does not map the file.
    pub fn lives(&self) -> bool {
        self.handle_lives() && self.maps() != Some(false)
    }

    /// Returns whether the process with this pid maps the control file; `None` if that cannot be
    /// seen.
    pub fn maps(&self) -> Option<bool> {
        proc_status::maps(self.pid, &self.file)
    }

    /// Returns whether the pid still belongs to the process that had it when the file was opened.
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

    /// Number of the recording whose command started this process, from the process's environment;
    /// 0 if there is none.
    pub fn scope(&self) -> u64 {
        self.control().scope.load(Ordering::Relaxed)
    }

    /// Excludes the events refused until now from this recording.
    pub fn forget_refused(&mut self) {
        self.refused_before = self.control().refused.load(Ordering::Relaxed);
    }

    /// Number of refused events that are not accounted for yet.
    pub fn refused(&self) -> u64 {
        u64::from(self.control().refused.load(Ordering::Relaxed).wrapping_sub(self.refused_before))
    }
}

/// Limit of the number of stored tids.
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
    crate::text::printable(&bytes)
}

/// Time after which a thread's name is read for the second time.
const FIRST_NAME: Duration = Duration::from_millis(1);

/// Number of periods between two reads of the name of a thread that writes nothing. With hundreds
/// of such threads, more frequent reads would be most of an idle recorder's work.
const SILENT: u32 = 64;

/// A ring of a process, with the recorder's decisions and counters.
#[derive(Debug)]
pub struct Source {
    /// The ring that is being read.
    pub ring: Ring,
    /// Larger ring that replaces `ring` once the thread has switched.
    pub successor: Option<Ring>,
    /// The thread did not take a larger ring; it is not offered another.
    pub settled: bool,
    /// A larger ring was refused for lack of memory; the diagnostic is written only once.
    pub denied: bool,
    /// Index of the ring's stream file; `None` before its first packet.
    pub lane: Option<usize>,
    /// Decision whether the events of the ring are recorded.
    pub verdict: Verdict,
    /// Name of the thread, padded with NUL.
    pub thread: [u8; 32],
    /// Time of the next read of the thread's name. Afterwards the interval doubles, up to one
    /// period, or up to [`SILENT`] periods while the thread writes nothing, because most names are
    /// set soon after the start of a thread.
    name_due: Instant,
    name_step: Duration,
    /// Tid of the thread, in its own pid namespace.
    pub tid: i32,
    /// Number of lost events that are in none of the ring's counters.
    pub extra_lost: u64,
    /// Number of lost events that are already in the capture file but not yet in the stream file.
    pub captured: u64,
    /// The ring's `lost` counter at the previous look.
    pub lost_before: u64,
    /// The head at the newest look; only for rings that overwrite.
    pub head_before: u64,
    /// Clock at the last look that found new events; only for rings that overwrite.
    pub quiet_since: Option<u64>,
    /// Position up to which triggers have seen the ring; `None` while there are no triggers.
    pub watched: Option<u64>,
    /// The ring's `events` counter at `watched`.
    pub seen_events: u64,
    /// State of the offer of a larger ring: the thread was seen to have read it, and then the head
    /// one turn later.
    pub answered: Option<Option<u64>>,
    /// The ring cannot be read any further.
    pub broken: bool,
    /// The disk is too slow for this ring, so its packets go through the page cache.
    pub hurried: bool,
    /// The ring is not nearly full and loses nothing.
    pub has_room: bool,
    /// Time of the newest look.
    pub looked: Instant,
    /// The ring is ended, empty, and has no replacement.
    pub over: bool,
    /// State of the ring at this turn's look.
    pub look: Option<Look>,
    /// Bytes of events taken in this turn.
    pub content: u64,
    /// Number of periods in which the ring was looked at.
    pub periods: u32,
    /// Time from which the events of an unfinished sub-buffer are taken as well.
    pub partial: Instant,
    /// Begin of the sub-buffer that contained `tail` when `partial` was last reached.
    pub begun: u64,
}

/// Decision whether the events of a ring are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided yet.
    Open,
    /// Recorded, because there are no policies.
    Everything,
    /// Recorded by the policy with this index.
    Policy(usize),
    /// Not recorded.
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

    /// The ring's state for the estimate of the disk's speed, from the newest look.
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

    /// Returns whether there is something that the newest look did not show, because the ring has
    /// changed since.
    pub fn fresh_since_look(&self) -> bool {
        let ended = self.successor.is_some() && self.ring.is_ended();
        ended || self.ring.layout().head.load(Ordering::Acquire) != self.ring.tail
    }

    /// Assigns the ring to another thread that has taken it over.
    pub fn taken(&mut self, tid: i32, thread: [u8; 32]) {
        (self.tid, self.thread, self.name_step) = (tid, thread, FIRST_NAME);
        self.name_due = Instant::now();
    }

    /// Reads the thread's name if that is due. The ring holds the name at the thread's first event,
    /// and threads are often named later. Returns whether the name has changed. `news`: the ring
    /// has new events, whose policy depends on the name.
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
        crate::text::printable(&self.thread)
    }
}
