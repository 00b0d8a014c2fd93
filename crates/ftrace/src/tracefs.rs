//! The kernel's tracefs: its path, its events, and their formats.
//!
//! This module only reads. Changes of the kernel's state go through an
//! [`Instance`](crate::Instance).

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{fsconfig_create, fsmount, fsopen, FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::byte_order::ByteOrder;
use crate::error::TraceFsError;
use crate::format::{EventFormat, HeaderEvent};
use crate::page::PageLayout;

/// Name of an event: `subsystem:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventName {
    /// Name of the subsystem.
    pub system: String,
    /// Name of the event within it.
    pub name: String,
}

impl EventName {
    /// Creates the name of an event.
    pub fn new(system: impl Into<String>, name: impl Into<String>) -> EventName {
        EventName { system: system.into(), name: name.into() }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct TraceFs {
    root: PathBuf,
    /// The mount of [`TraceFs::mount`], which ends with the last clone of this value.
    mount: Option<Arc<OwnedFd>>,
}

impl TraceFs {
    /// Looks for tracefs at the two usual paths.
    ///
    /// # Errors
    ///
    /// tracefs is not mounted, or this user may not access it. The message says what to do.
    pub fn find() -> Result<TraceFs, TraceFsError> {
        let mut refused = None;
        for place in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            let path = Path::new(place);
            match fs::metadata(path.join("trace_clock")) {
                Ok(_) => return Ok(TraceFs::at(path)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    refused.get_or_insert_with(|| path.to_owned());
                }
                Err(_) => {}
            }
        }
        Err(refused.map_or(TraceFsError::NotMounted, |path| TraceFsError::NoPermission { path }))
    }

    /// Mounts tracefs for this process alone (Linux 5.2 or newer). No path of the host leads to
    /// this mount. It ends with the last clone of the returned value, at the latest with the
    /// process.
    ///
    /// [`TraceFs::path`] is then valid in this process and its forks only, while a clone exists.
    ///
    /// # Errors
    ///
    /// The kernel refuses the mount: it has no tracefs, or this user lacks CAP_SYS_ADMIN.
    pub fn mount() -> Result<TraceFs, TraceFsError> {
        let mount = || {
            let filesystem = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&filesystem)?;
            fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let mount = mount().map_err(|error| TraceFsError::MountRefused { error: error.into() })?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(TraceFs { root, mount: Some(Arc::new(mount)) })
    }

    /// A directory that is known to be a tracefs, or that has the same structure.
    pub fn at(root: impl Into<PathBuf>) -> TraceFs {
        TraceFs { root: root.into(), mount: None }
    }

    /// True if [`TraceFs::mount`] mounted it, so that other processes cannot use its path.
    pub fn is_private(&self) -> bool {
        self.mount.is_some()
    }

    /// Directory where tracefs is mounted.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// All events of this kernel, sorted.
    pub fn events(&self) -> Result<Vec<EventName>, TraceFsError> {
        let names: BTreeSet<EventName> = self
            .read("available_events")?
            .lines()
            .filter_map(|line| line.trim().split_once(':'))
            .map(|(system, name)| EventName::new(system, name))
            .collect();
        Ok(names.into_iter().collect())
    }

    /// The events that match a pattern: `system:name`, both with `*` and `?`; `name` alone for all
    /// subsystems; `all`. It is an error if there are none.
    pub fn matching(&self, pattern: &str) -> Result<Vec<EventName>, TraceFsError> {
        let (system, name) = match pattern.split_once(':') {
            _ if pattern == "all" => ("*", "*"),
            Some((system, "")) => (system, "*"),
            Some(parts) => parts,
            None => ("*", pattern),
        };
        let mut events = self.events()?;
        events.retain(|e| glob(system.as_bytes(), e.system.as_bytes()) && glob(name.as_bytes(), e.name.as_bytes()));
        if events.is_empty() {
            return Err(TraceFsError::NoSuchEvent(pattern.to_owned()));
        }
        Ok(events)
    }

    /// Returns `true` if an event is enabled anywhere: at the top or in any instance, of any
    /// process.
    ///
    /// # Errors
    ///
    /// A list of enabled events cannot be read.
    pub fn records_events(&self) -> Result<bool, TraceFsError> {
        let mut lists = vec!["set_event".to_owned()];
        let folder = self.root.join("instances");
        for instance in fs::read_dir(&folder).map_err(|error| io_error(&folder, error))? {
            let name = instance.map_err(|error| io_error(&folder, error))?.file_name();
            lists.push(format!("instances/{}/set_event", name.to_string_lossy()));
        }
        for list in &lists {
            match self.read(list) {
                Ok(events) if events.is_empty() => {}
                Ok(_) => return Ok(true),
                // The instance was removed meanwhile.
                Err(_) if !self.root.join(list).exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The text of an event's format, as it should be saved together with recorded pages.
    pub fn format_text(&self, event: &EventName) -> Result<String, TraceFsError> {
        match self.read(&format!("events/{}/{}/format", event.system, event.name)) {
            Err(TraceFsError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                Err(TraceFsError::NoSuchEvent(event.to_string()))
            }
            other => other,
        }
    }

    /// The parsed format of an event.
    pub fn format(&self, event: &EventName) -> Result<EventFormat, TraceFsError> {
        let text = self.format_text(event)?;
        EventFormat::parse(&event.system, &text).map_err(|error| TraceFsError::Format {
            path: self.root.join("events").join(&event.system).join(&event.name).join("format"),
            error,
        })
    }

    /// The layout of the pages of the top buffer. The pages of an instance may have another size:
    /// [`Instance::layout`](crate::Instance::layout).
    pub fn layout(&self) -> Result<PageLayout, TraceFsError> {
        let error = |name: &str| {
            let path = self.root.join(name);
            move |error| TraceFsError::Format { path, error }
        };
        HeaderEvent::parse(&self.read("events/header_event")?).map_err(error("events/header_event"))?;
        PageLayout::parse(&self.read("events/header_page")?, ByteOrder::NATIVE).map_err(error("events/header_page"))
    }

    /// Reads a file as text. `name` is the path in tracefs: `printk_formats`, `saved_cmdlines`.
    pub fn read(&self, name: &str) -> Result<String, TraceFsError> {
        read(&self.root.join(name))
    }
}

/// Reads a file as text. Some files (`header_page`) only return as much as the first read requests,
/// so the first read is large.
pub(crate) fn read(path: &Path) -> Result<String, TraceFsError> {
    const STEP: usize = 64 << 10;
    let mut file = fs::File::open(path).map_err(|error| io_error(path, error))?;
    let mut bytes = Vec::new();
    loop {
        let filled = bytes.len();
        bytes.resize(filled + STEP, 0);
        match file.read(&mut bytes[filled..]) {
            Ok(count) => {
                bytes.truncate(filled + count);
                if count == 0 {
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => bytes.truncate(filled),
            Err(error) => return Err(io_error(path, error)),
        }
    }
}

pub(crate) fn io_error(path: &Path, error: io::Error) -> TraceFsError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        TraceFsError::NoPermission { path: path.to_owned() }
    } else {
        TraceFsError::Io { path: path.to_owned(), error }
    }
}

/// Matches a pattern: `*` is any text, `?` any byte. The number of steps is bounded by the product
/// of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if p < pattern.len() && (pattern[p] == b'?' || (pattern[p] == text[t] && pattern[p] != b'*')) {
            p += 1;
            t += 1;
        } else if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if let Some((at, seen)) = star {
            p = at + 1;
            t = seen + 1;
            star = Some((at, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}
