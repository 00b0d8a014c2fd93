//! Requests to a running recorder, through a folder in its recording.
//!
//! A request for a snapshot is a file that gets its final name when it is complete; the answer is
//! another file in the same folder. A request to write all events ([`Flush`]) is an empty file,
//! which the recorder removes when that is done.
//!
//! The folder is `.requests` with mode 0700, which the recorder makes and removes. A user with
//! write access there has write access to the whole recording anyway. Programs with probes, which
//! are not trusted, do not use it.

use crate::files::lock;
use crate::output::folder::Folder;
use rustix::fs::inotify;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const NAME: &str = ".requests";
const REQUEST: &str = "request";
const ANSWER: &str = "answer";
const FLUSH: &str = ".flush";
const MAX_BYTES: u64 = 1 << 20;
/// Limit of the number of requests that are handled at a time.
const MAX_REQUESTS: usize = 64;

/// A request of `longpole snapshot`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Folder for the snapshot's directory; `None` uses the folder that contains the recording.
    pub output: Option<PathBuf>,
    /// Condition to wait for; `None` takes the snapshot now.
    pub when: Option<String>,
    /// Time in ns that the snapshot goes back; `None` includes everything that exists.
    pub pre_ns: Option<u64>,
    /// Time in ns that the snapshot waits after the condition became true.
    pub post_ns: u64,
}

/// The recorder's side.
#[derive(Debug)]
pub(crate) struct Mailbox {
    folder: Folder,
    pub watch: OwnedFd,
}

impl Mailbox {
    pub fn make(recording: &Path) -> io::Result<Mailbox> {
        let path = recording.join(NAME);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Folder::open(&path)?;
        // The owner of a parent folder could have put another folder there.
        if folder.owner()? != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "its folder belongs to another user"));
        }
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        inotify::add_watch(&watch, path, inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE)?;
        Ok(Mailbox { folder, watch })
    }

    /// Reads and discards the reports of the folder's watch; the folder is listed instead.
    pub fn discard_reports(&self) {
        let mut buffer = [0u8; 4096];
        while matches!(rustix::io::read(&self.watch, &mut buffer), Ok(read) if read > 0) {}
    }

    /// Existing requests and their names, oldest first. Requests that cannot be understood are
    /// answered at once.
    pub fn requests(&self) -> Vec<(String, Request)> {
        let names = self.folder.names().unwrap_or_default();
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| !name.starts_with('.') && name.ends_with(REQUEST));
        names.sort();
        let mut all = Vec::new();
        for name in names.into_iter().take(MAX_REQUESTS) {
            let text = self.folder.text(&name, MAX_BYTES).map_err(|error| error.to_string());
            match text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
                Ok(request) => all.push((name, request)),
                Err(error) => self.answer(&name, &Err(format!("the request cannot be understood: {error}"))),
            }
        }
        all
    }

    /// Names of the requests to write all events.
    pub fn flushes(&self) -> Vec<String> {
        let names = self.folder.names().unwrap_or_default();
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        names.filter(|name| name.ends_with(FLUSH)).take(MAX_REQUESTS).collect()
    }

    /// Answers a request to write all events.
    pub fn flushed(&self, name: &str) {
        let _ = self.folder.remove(name);
    }

    /// Removes a request if its process was killed and its lock is gone.
    pub fn remove_if_left(&self, name: &str) {
        if self.folder.read(name).is_ok_and(|file| lock::is_free(&file.into())) {
            let _ = self.folder.remove(name);
        }
    }

    /// Answers a request. If the process that made it is gone, no one reads the answer.
    pub fn answer(&self, name: &str, answer: &Result<Value, String>) {
        let value = match answer {
            Ok(value) => serde_json::json!({ "done": value }),
            Err(error) => serde_json::json!({ "error": error }),
        };
        let _ = self.folder.remove(name);
        let name = name.replace(REQUEST, ANSWER);
        let _ = self.folder.replace(&name, value.to_string().as_bytes());
    }

    /// Moves the folder to the next chunk of the recording.
    pub fn move_to(&self, old: &Path, new: &Path) -> io::Result<()> {
        std::fs::rename(old.join(NAME), new.join(NAME))
    }

    /// Removes the folder; no further requests are answered.
    pub fn close(self, recording: &Path) {
        let _ = std::fs::remove_dir_all(recording.join(NAME));
    }
}

/// Removes the folder of a recorder that was killed.
pub(crate) fn left(recording: &Path) {
    let _ = std::fs::remove_dir_all(recording.join(NAME));
}

/// A request to write all events that happened until now to the files of the recording, also those
/// that would otherwise wait for a page of the kernel to be full. A process that follows the
/// recording makes it.
#[derive(Debug)]
pub struct Flush {
    folder: Folder,
    name: String,
}

impl Flush {
    /// Makes the request. Fails with `NotFound` if the recorder takes no requests or has ended.
    pub fn ask(recording: &Path) -> io::Result<Flush> {
        let folder = Folder::open(&recording.join(NAME))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let name = format!("{now:020}-{}{FLUSH}", std::process::id());
        // The recorder's watch reports files that were renamed.
        let hidden = format!(".{name}.new");
        folder.create(&hidden)?;
        folder.rename(&hidden, &folder, &name)?;
        Ok(Flush { folder, name })
    }

    /// Returns true once all of these events are in the files. Fails with `NotFound` if the
    /// recorder has ended meanwhile.
    pub fn is_done(&self) -> io::Result<bool> {
        if self.folder.holds(&self.name) {
            return Ok(false);
        }
        // The whole folder is removed at the end, before the last events are written.
        std::fs::metadata(self.folder.path()).map(|_| true)
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let _ = self.folder.remove(&self.name);
    }
}

/// A request that was made and is not yet answered.
#[derive(Debug)]
pub struct Asked {
    folder: Folder,
    name: String,
    /// File whose lock shows that a process waits for the answer.
    _file: OwnedFd,
}

impl Asked {
    /// Makes a request. Fails with `NotFound` if the recorder takes no requests or has ended.
    pub fn ask(recording: &Path, request: &Request) -> io::Result<Asked> {
        let folder = Folder::open(&recording.join(NAME))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let name = format!("{now:020}-{}.{REQUEST}", std::process::id());
        let hidden = format!(".{name}");
        let mut file = folder.create(&hidden)?;
        file.write_all(&serde_json::to_vec(request)?)?;
        let file = OwnedFd::from(file);
        // On a file system without locks, a request of a killed process cannot be recognized.
        let _ = lock::take(&file);
        folder.rename(&hidden, &folder, &name)?;
        Ok(Asked { folder, name, _file: file })
    }

    /// The answer; `None` if there is none yet.
    pub fn answer(&self) -> io::Result<Option<Result<Value, String>>> {
        let name = self.name.replace(REQUEST, ANSWER);
        if !self.folder.holds(&name) {
            return Ok(None);
        }
        let mut answer: Value = serde_json::from_str(&self.folder.text(&name, MAX_BYTES)?)?;
        let _ = self.folder.remove(&name);
        Ok(Some(match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["done"].take()),
        }))
    }

    /// Withdraws the request.
    pub fn withdraw(&self) {
        let _ = self.folder.remove(&self.name);
    }
}
