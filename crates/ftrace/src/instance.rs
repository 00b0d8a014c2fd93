//! A private instance of the tracer with its own buffers, clock, events and filters. It does not
//! affect other users of the tracer.
//!
//! The name of an instance is `<prefix>-<pid>-<start time>[-<n>]`. So an instance that a killed
//! process left behind can be recognized without other records: the process with that pid and start
//! time (field 22 of /proc/PID/stat) does not exist any more. Only such instances are removed. A
//! process that this one cannot see, because it is in another pid namespace, is safe: it keeps a
//! file of its instance open, so the kernel refuses to remove the instance.
//!
//! Dropping an instance removes it. Readers must be dropped first, because the kernel does not
//! remove an instance with open files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::byte_order::ByteOrder;
use crate::error::TraceFsError;
use crate::format::HeaderEvent;
use crate::page::PageLayout;
use crate::raw::RawReader;
use crate::tracefs::{io_error, read, EventName, TraceFs};

/// An instance that belongs to this process.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    /// An open file of the instance. While it is open, the kernel does not remove the instance, so
    /// a recorder in another pid namespace, which considers this process dead, cannot do so.
    held: Option<File>,
    removed: bool,
}

/// An instance whose process does not exist any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadInstance {
    /// Name of the instance.
    pub name: String,
    /// Pid of the process that made it.
    pub pid: i32,
    /// Start time of the process, in clock ticks since the boot of the host.
    pub start_time: u64,
    path: PathBuf,
}

/// Number of attempts to remove an instance in use, and, below, the time between them.
const REMOVALS: u32 = 20;
const BETWEEN_REMOVALS: std::time::Duration = std::time::Duration::from_millis(10);

/// Counters of a CPU, from `per_cpu/cpuN/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Events in the buffer, not yet read.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt could not finish in time.
    pub commit_overrun: u64,
    /// Events refused because the buffer was full (`overwrite` off).
    pub dropped: u64,
    /// Bytes in the buffer, not yet read.
    pub bytes: u64,
    /// Events that were read.
    pub read: u64,
}

impl CpuStats {
    /// Number of events that are in no page.
    pub fn lost(&self) -> u64 {
        self.overrun + self.commit_overrun + self.dropped
    }

    /// Parses the text of a stats file. Unknown lines of other kernels are ignored. The error is
    /// the line that cannot be parsed.
    pub fn parse(text: &str) -> Result<CpuStats, String> {
        let mut stats = CpuStats::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let target = match key.trim() {
                "entries" => &mut stats.entries,
                "overrun" => &mut stats.overrun,
                "commit overrun" => &mut stats.commit_overrun,
                "dropped events" => &mut stats.dropped,
                "bytes" => &mut stats.bytes,
                "read events" => &mut stats.read,
                _ => continue,
            };
            *target = value.trim().parse().map_err(|_| line.to_owned())?;
        }
        Ok(stats)
    }
}

impl Instance {
    /// Makes an instance. Tracing is off.
    pub fn create(tracefs: &TraceFs, prefix: &str) -> Result<Instance, TraceFsError> {
        let pid = std::process::id() as i32;
        let start = start_time(pid)
            .ok_or_else(|| TraceFsError::Io { path: PathBuf::from("/proc/self/stat"), error: io::ErrorKind::NotFound.into() })?;
        let folder = tracefs.path().join("instances");
        for number in 0u32.. {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("{prefix}-{pid}-{start}{suffix}"));
            match fs::create_dir(&path) {
                Ok(()) => match hold(&path) {
                    Ok(file) => {
                        let instance = Instance { path, held: Some(file), removed: false };
                        instance.set("tracing_on", "0")?;
                        return Ok(instance);
                    }
                    // A process in another pid namespace removed the instance before its file was
                    // open; tries the next name.
                    Err(_) if !path.exists() => {}
                    Err(error) => {
                        let _ = fs::remove_dir(&path);
                        return Err(io_error(&path, error));
                    }
                },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&folder, error)),
            }
        }
        Err(TraceFsError::Io { path: folder, error: io::ErrorKind::AlreadyExists.into() })
    }

    /// Finds the instances with this prefix whose process does not exist any more.
    pub fn dead(tracefs: &TraceFs, prefix: &str) -> Result<Vec<DeadInstance>, TraceFsError> {
        let folder = tracefs.path().join("instances");
        let mut dead = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|e| io_error(&folder, e))? {
            let entry = entry.map_err(|e| io_error(&folder, e))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let Some((pid, start)) = owner(&name, prefix) else {
                continue;
            };
            if start_time(pid) != Some(start) {
                dead.push(DeadInstance { name, pid, start_time: start, path: entry.path() });
            }
        }
        dead.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(dead)
    }

    /// Directory of the instance.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the instance.
    pub fn name(&self) -> String {
        self.path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned())
    }

    /// Sets the first of the given clocks that this kernel has, and returns it. Example:
    /// `&["x86-tsc", "mono_raw"]`.
    pub fn set_clock<'a>(&self, wanted: &[&'a str]) -> Result<&'a str, TraceFsError> {
        let has = self.get("trace_clock")?;
        let known: Vec<&str> = has.split_whitespace().map(|c| c.trim_matches(['[', ']'])).collect();
        let Some(clock) = wanted.iter().find(|c| known.contains(c)) else {
            return Err(TraceFsError::NoClock { wanted: wanted.join(" "), has: has.trim().to_owned() });
        };
        self.set("trace_clock", clock)?;
        Ok(clock)
    }

    /// Sets the size of each CPU's buffer, in KiB.
    pub fn set_buffer_size_kb(&self, kb: u64) -> Result<(), TraceFsError> {
        self.set("buffer_size_kb", &kb.to_string())
    }

    /// Sets the size of a page of the buffer, in KiB (kernel 6.8 or later). Must be called before
    /// readers are opened.
    pub fn set_page_size_kb(&self, kb: u64) -> Result<(), TraceFsError> {
        self.set("buffer_subbuf_size_kb", &kb.to_string())
    }

    /// The layout of this instance's pages, as stated by the kernel.
    pub fn layout(&self) -> Result<PageLayout, TraceFsError> {
        let wrap = |name: &str| {
            let path = self.path.join(name);
            move |error| TraceFsError::Format { path, error }
        };
        let text = |name: &str| match self.get(name) {
            // Older kernels state the layout only once for all buffers, whose pages then have the
            // same size.
            Err(TraceFsError::Io { .. }) => read(&self.path.join("../..").join(name)),
            other => other,
        };
        HeaderEvent::parse(&text("events/header_event")?).map_err(wrap("events/header_event"))?;
        PageLayout::parse(&text("events/header_page")?, ByteOrder::NATIVE).map_err(wrap("events/header_page"))
    }

    /// Enables an event, with an optional filter in the kernel's language. If the kernel refuses,
    /// the error contains its own message.
    pub fn enable(&self, event: &EventName, filter: Option<&str>) -> Result<(), TraceFsError> {
        let folder = format!("events/{}/{}", event.system, event.name);
        if !self.path.join(&folder).is_dir() {
            return Err(TraceFsError::NoSuchEvent(event.to_string()));
        }
        if let Some(filter) = filter {
            self.set(&format!("{folder}/filter"), filter)?;
        }
        // A few events (mainly those of the function tracer) cannot be enabled and have no such
        // file.
        self.set(&format!("{folder}/enable"), "1")
    }

    /// Disables an event.
    pub fn disable(&self, event: &EventName) -> Result<(), TraceFsError> {
        self.set(&format!("events/{}/{}/enable", event.system, event.name), "0")
    }

    /// Sets an option such as `overwrite`, `record-cmd`, `record-tgid` or `event-fork`.
    ///
    /// Changing `record-cmd` or `record-tgid` also acts on the events that are enabled elsewhere. A
    /// caller that does not want that first checks [`TraceFs::records_events`].
    pub fn set_option(&self, name: &str, on: bool) -> Result<(), TraceFsError> {
        // The folder `options` of an instance lacks the options that the kernel has as global ones,
        // although each instance has its own value of them.
        self.set("trace_options", &format!("{}{name}", if on { "" } else { "no" }))
    }

    /// Starts recording events.
    pub fn start(&self) -> Result<(), TraceFsError> {
        self.set("tracing_on", "1")
    }

    /// Stops recording events. The content of the buffers stays.
    pub fn stop(&self) -> Result<(), TraceFsError> {
        self.set("tracing_on", "0")
    }

    /// CPUs that can have events, sorted.
    pub fn cpus(&self) -> Result<Vec<u32>, TraceFsError> {
        let folder = self.path.join("per_cpu");
        let mut cpus = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|e| io_error(&folder, e))? {
            let name = entry.map_err(|e| io_error(&folder, e))?.file_name();
            cpus.extend(name.to_str().and_then(|n| n.strip_prefix("cpu")).and_then(|n| n.parse::<u32>().ok()));
        }
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Opens the pages of a CPU.
    pub fn reader(&self, cpu: u32) -> Result<RawReader, TraceFsError> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        RawReader::open(&path, cpu, self.layout()?.page_size())
    }

    /// Counters of a CPU.
    pub fn stats(&self, cpu: u32) -> Result<CpuStats, TraceFsError> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/stats"));
        CpuStats::parse(&read(&path)?).map_err(|line| TraceFsError::Stats { path, line })
    }

    /// Reads a file of the instance.
    pub fn get(&self, name: &str) -> Result<String, TraceFsError> {
        read(&self.path.join(name))
    }

    /// Writes a file of the instance in one write. If the kernel refuses, the error contains what
    /// the kernel logged about it.
    pub fn set(&self, name: &str, text: &str) -> Result<(), TraceFsError> {
        let path = self.path.join(name);
        let log = self.path.join("error_log");
        let mut file = OpenOptions::new().write(true).open(&path).map_err(|e| io_error(&path, e))?;
        let before = fs::read_to_string(&log).unwrap_or_default();
        // The kernel accepts or refuses the text as a whole, so it must be one write.
        match file.write_all(text.as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => {
                let after = fs::read_to_string(&log).unwrap_or_default();
                // The log holds the last few errors, the newest one at its end.
                let said = if after == before { String::new() } else { last_entry(&after) };
                Err(TraceFsError::Refused { path, text: text.to_owned(), error, said })
            }
        }
    }

    /// Removes the instance and returns an error if that fails; dropping it ignores errors.
    pub fn remove(mut self) -> Result<(), TraceFsError> {
        self.removed = true;
        self.held = None;
        remove_folder(&self.path).map_err(|error| io_error(&self.path, error))
    }
}

impl Instance {
    /// Leaves the instance in place, because the content of its buffers could not be saved. A later
    /// process can adopt it after this process has ended.
    pub fn leave(mut self) {
        self.removed = true;
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.removed {
            self.held = None;
            // Fails only while another process has a file of the instance open for long. Then the
            // instance is found as a dead one after this process has ended.
            let _ = remove_folder(&self.path);
        }
    }
}

impl DeadInstance {
    /// Takes the instance over and stops tracing, so that the content of its buffers can be saved.
    /// After that, it is removed like an own instance. If two processes adopted the same instance,
    /// they would share its pages; callers must ensure that only one does.
    pub fn adopt(self) -> Result<Instance, TraceFsError> {
        let held = hold(&self.path).map_err(|error| io_error(&self.path, error))?;
        let mut instance = Instance { path: self.path, held: Some(held), removed: true };
        instance.stop()?;
        instance.removed = false;
        Ok(instance)
    }

    /// Removes the instance. Returns `false` if it was not removed: it is still in use, so its
    /// owner is alive but not visible to this process, or another process has just removed it.
    pub fn remove(&self) -> Result<bool, TraceFsError> {
        match fs::remove_dir(&self.path) {
            Ok(()) => Ok(true),
            // If another process removes the instance between the lookup and the removal, the
            // kernel returns ENODEV.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENOENT | libc::ENODEV)) => Ok(false),
            Err(error) => Err(io_error(&self.path, error)),
        }
    }

    /// Returns `true` if the instance still exists.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }
}

/// Removes an instance of this process.
fn remove_folder(instance: &Path) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        match fs::remove_dir(instance) {
            // Another process has one of its files open for a moment.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempts < REMOVALS => attempts += 1,
            result => return result,
        }
        std::thread::sleep(BETWEEN_REMOVALS);
    }
}

/// Opens a file of the instance that has no side effects.
fn hold(instance: &Path) -> io::Result<File> {
    File::open(instance.join("tracing_on"))
}

/// Parses pid and start time from `<prefix>-<pid>-<start>[-<n>]`.
fn owner(name: &str, prefix: &str) -> Option<(i32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    match (parts.next(), parts.next()) {
        (None, _) => Some(owner),
        (Some(number), None) if number.parse::<u32>().is_ok() => Some(owner),
        _ => None,
    }
}

/// Start time of a process, in clock ticks since the boot of the host; `None` if the process does
/// not exist or is a zombie.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    // The name may contain anything, including brackets; the numbers follow the last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The last entry of an error log. Entries begin with a time in brackets.
fn last_entry(log: &str) -> String {
    let begin = log.rmatch_indices('[').map(|(at, _)| at).find(|&at| at == 0 || log.as_bytes()[at - 1] == b'\n');
    log[begin.unwrap_or(0)..].trim_end().to_owned()
}
