//! How a recorder that runs beside you is asked for something: a folder in its recording.
//!
//! A request is a file that appears under its name when it is complete; the answer is another one beside it. Both lie in `.requests`, mode 0700,
//! which the recorder makes and removes: who may write there may write the whole recording. Programs with probes, which nobody trusts, have no
//! part in it.

use crate::output::folder::Folder;
use crate::runtime_dir::lock;
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
const MOST_BYTES: u64 = 1 << 20;
/// Requests that are answered at the same time.
const MOST_REQUESTS: usize = 64;

/// What `longpole snapshot` asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// In which the snapshot's directory is made; else beside the recording.
    pub output: Option<PathBuf>,
    /// What has to happen first; nothing: now.
    pub when: Option<String>,
    /// How far back it goes; everything that there is.
    pub pre_ns: Option<u64>,
    /// How long it goes on after what was waited for.
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
        // Whoever owns a folder above could have put another one there.
        if folder.owner()? != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "its folder belongs to another user"));
        }
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        inotify::add_watch(&watch, path, inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE)?;
        Ok(Mailbox { folder, watch })
    }

    pub fn heard(&self) {
        let mut buffer = [0u8; 4096];
        while matches!(rustix::io::read(&self.watch, &mut buffer), Ok(read) if read > 0) {}
    }

    /// Requests that are there, by name, oldest first. Those that cannot be understood are answered at once.
    pub fn requests(&self) -> Vec<(String, Request)> {
        let names = self.folder.names().unwrap_or_default();
        let mut names: Vec<String> = names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| !name.starts_with('.') && name.ends_with(REQUEST));
        names.sort();
        let mut all = Vec::new();
        for name in names.into_iter().take(MOST_REQUESTS) {
            let text = self.folder.text(&name, MOST_BYTES).map_err(|error| error.to_string());
            match text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())) {
                Ok(request) => all.push((name, request)),
                Err(error) => self.answer(&name, &Err(format!("the request cannot be understood: {error}"))),
            }
        }
        all
    }

    /// Removes a request whose asker was killed: then its lock is gone.
    pub fn remove_if_left(&self, name: &str) {
        if self.folder.read(name).is_ok_and(|file| lock::is_free(&file.into())) {
            let _ = self.folder.remove(name);
        }
    }

    /// Who asked may have gone away; then nobody reads it.
    pub fn answer(&self, name: &str, answer: &Result<Value, String>) {
        let value = match answer {
            Ok(value) => serde_json::json!({ "done": value }),
            Err(error) => serde_json::json!({ "error": error }),
        };
        let _ = self.folder.remove(name);
        let name = name.replace(REQUEST, ANSWER);
        let _ = self.folder.replace(&name, value.to_string().as_bytes());
    }

    /// Goes along with the recording.
    pub fn move_to(&self, old: &Path, new: &Path) -> io::Result<()> {
        std::fs::rename(old.join(NAME), new.join(NAME))
    }

    /// Nothing is answered any more.
    pub fn close(self, recording: &Path) {
        let _ = std::fs::remove_dir_all(recording.join(NAME));
    }
}

/// What a recorder that was killed left of it.
pub(crate) fn left(recording: &Path) {
    let _ = std::fs::remove_dir_all(recording.join(NAME));
}

/// A request that was made, and not yet answered.
#[derive(Debug)]
pub struct Asked {
    folder: Folder,
    name: String,
    /// Its lock says that somebody waits for the answer.
    _file: OwnedFd,
}

impl Asked {
    /// `NotFound`: the recorder does not take requests, or has ended.
    pub fn ask(recording: &Path, request: &Request) -> io::Result<Asked> {
        let folder = Folder::open(&recording.join(NAME))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let name = format!("{now:020}-{}.{REQUEST}", std::process::id());
        let hidden = format!(".{name}");
        let mut file = folder.create(&hidden)?;
        file.write_all(&serde_json::to_vec(request)?)?;
        let file = OwnedFd::from(file);
        // Where the file system has no locks, nobody sees that who asked was killed.
        let _ = lock::take(&file);
        folder.rename(&hidden, &folder, &name)?;
        Ok(Asked { folder, name, _file: file })
    }

    /// None: not yet.
    pub fn answer(&self) -> io::Result<Option<Result<Value, String>>> {
        let name = self.name.replace(REQUEST, ANSWER);
        if !self.folder.holds(&name) {
            return Ok(None);
        }
        let mut answer: Value = serde_json::from_str(&self.folder.text(&name, MOST_BYTES)?)?;
        let _ = self.folder.remove(&name);
        Ok(Some(match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["done"].take()),
        }))
    }

    /// Nobody waits for it any more.
    pub fn withdraw(&self) {
        let _ = self.folder.remove(&self.name);
    }
}
