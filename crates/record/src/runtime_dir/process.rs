//! A process with probes, as seen through its control file.

use crate::files::lock;
use crate::files::mapping::{Access, Headed, Mapping};
use crate::runtime_dir::proc_status::{self, Mapped};
use crate::runtime_dir::RuntimeDir;
use longpole_abi::{Control, CONTROL_SIZE, MAGIC, VERSION};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{fence, AtomicU8, Ordering};

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
    pub next_larger: u32,
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
    pub fn open(runtime: &RuntimeDir, name: &str, stem: &str, pid: i32, access: Access) -> io::Result<Process> {
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
            next_larger: 0,
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
    pub fn set_pid(&mut self, pid: i32) {
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
        if tids.len() >= MAX_TIDS {
            tids.clear();
        }
        tids.extend(proc_status::threads_by_inner_tid(self.pid));
        tids.get(&tid).copied().unwrap_or(tid.saturating_neg())
    }

    /// Pid, in this namespace, for a pid that is stored in one of the process's rings.
    pub fn pid_of(&self, reported: i32) -> i32 {
        if self.pid == self.inner {
            reported
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

    /// Returns true if this process still maps its control file; `None` if that cannot be seen.
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
    pub fn recording_of_command(&self) -> u64 {
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
const MAX_TIDS: usize = 1 << 16;

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
