//! The directories and files of the mounted file system, and the contents of the files.
//!
//! The root has a directory for each label, which has one for each process, which has one for each
//! thread. Each of these has the files of [`Kind`]. This module knows nothing of FUSE.

use super::text::Texts;
use longpole_record::control::selection::{SelectedPart, Selection};
use longpole_record::file_name;
use longpole_record::parse_size;
use longpole_record::ring_size;
use longpole_record::subjects::list::{self as subjects, Subject};
use longpole_record::RuntimeDir;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

/// Time in which the list of subjects is not read again.
const FRESH: Duration = Duration::from_millis(200);
/// Size in bytes of a thread's first ring.
const FIRST_RING: u64 = 32 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Root,
    /// The directory of a label, a process, or a thread.
    Folder(SelectedPart),
    File(SelectedPart, Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Enable,
    BufferSize,
    Events,
    /// The name of a thread; only threads have this file.
    Name,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Enable, Kind::BufferSize, Kind::Events, Kind::Name];

    fn name(self) -> &'static str {
        match self {
            Kind::Enable => "enable",
            Kind::BufferSize => "buffer_size",
            Kind::Events => "events",
            Kind::Name => "name",
        }
    }

    fn is_of(self, part: &SelectedPart) -> bool {
        self != Kind::Name || part.tid.is_some()
    }

    pub fn is_writable(self, part: &SelectedPart) -> bool {
        match self {
            Kind::Enable => true,
            // The size of rings is set per process, so it cannot be written for one thread.
            Kind::BufferSize => part.tid.is_none(),
            Kind::Events | Kind::Name => false,
        }
    }
}

pub struct Tree {
    runtime: RuntimeDir,
    selection: Selection,
    pub texts: Texts,
    subjects: Vec<Subject>,
    looked: Option<Instant>,
    /// Names of the labels' directories, by label; they never change.
    names: HashMap<String, String>,
    /// Set when recording was enabled for any subject.
    pub used: bool,
}

impl Tree {
    pub fn new(runtime: RuntimeDir, selection: Selection) -> Tree {
        let (texts, names) = (Texts::default(), HashMap::new());
        Tree { runtime, selection, texts, subjects: Vec::new(), looked: None, names, used: false }
    }

    /// Returns the contents of a directory, by name. `None` if the node is a file, or no longer
    /// exists.
    pub fn children(&mut self, node: &Node) -> Option<BTreeMap<String, Node>> {
        self.look();
        let folder = |part: SelectedPart| Node::Folder(part);
        match node {
            Node::File(..) => None,
            Node::Root => {
                let labels: Vec<String> = self.parts().map(|part| part.label).collect();
                Some(labels.into_iter().map(|label| (self.name(&label), folder(SelectedPart::label(&label)))).collect())
            }
            Node::Folder(part) if !self.is_there(part) => None,
            Node::Folder(part) => {
                let files = Kind::ALL.into_iter().filter(|kind| kind.is_of(part));
                let mut children: BTreeMap<String, Node> =
                    files.map(|kind| (kind.name().to_owned(), Node::File(part.clone(), kind))).collect();
                for other in self.parts().filter(|other| other.label == part.label) {
                    match (part.pid, part.tid, other.pid, other.tid) {
                        (None, _, Some(pid), _) => children.insert(pid.to_string(), folder(SelectedPart::process(&part.label, pid))),
                        (Some(pid), None, Some(of), Some(tid)) if pid == of => children.insert(tid.to_string(), folder(other)),
                        _ => None,
                    };
                }
                Some(children)
            }
        }
    }

    /// Returns the content of a file. `None` if it no longer exists.
    pub fn content(&mut self, part: &SelectedPart, kind: Kind) -> Option<Vec<u8>> {
        self.look();
        if !self.is_there(part) {
            return None;
        }
        Some(match kind {
            Kind::Enable => {
                let enabled = if part.tid.is_some() { self.selection.is_enabled(part) } else { self.selection.touches(part) };
                format!("{}\n", u8::from(enabled)).into_bytes()
            }
            Kind::BufferSize => {
                let largest = self.threads(part).map(|thread| thread.buffer).max();
                let requested = self.selection.buffer(part).filter(|_| part.tid.is_none());
                format!("{}\n", requested.or(largest).unwrap_or(FIRST_RING)).into_bytes()
            }
            Kind::Name => {
                let name = self.threads(part).next().map(|thread| thread.thread.clone());
                format!("{}\n", crate::render::table::plain(name.unwrap_or_default())).into_bytes()
            }
            Kind::Events => self.texts.get(part).map_or_else(Vec::new, |text| text.bytes().to_vec()),
        })
    }

    /// Returns a part of an `events` file.
    pub fn events(&self, part: &SelectedPart, offset: u64, size: usize) -> &[u8] {
        let bytes = self.texts.get(part).map_or(&[][..], |text| text.bytes());
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        &bytes[from..bytes.len().min(from.saturating_add(size))]
    }

    /// Returns the size of a file in bytes, and the time of its last change if it is known.
    pub fn extent(&mut self, part: &SelectedPart, kind: Kind) -> Option<(u64, Option<SystemTime>)> {
        match kind {
            Kind::Events => {
                self.look();
                let text = self.texts.get(part);
                self.is_there(part).then(|| text.map_or((0, None), |text| (text.bytes().len() as u64, text.changed())))
            }
            _ => self.content(part, kind).map(|content| (content.len() as u64, None)),
        }
    }

    /// Writes to a file. Returns false if the data is not valid for it.
    pub fn write(&mut self, part: &SelectedPart, kind: Kind, data: &[u8]) -> bool {
        let text = String::from_utf8_lossy(data);
        match (kind, text.trim()) {
            (Kind::Enable, "0") => self.selection.enable(part, false),
            (Kind::Enable, "1") => {
                self.used = true;
                self.selection.enable(part, true);
            }
            (Kind::BufferSize, size) => match parse_size(size).and_then(ring_size) {
                Some(size) => self.selection.set_buffer(part, size),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Reads the list of subjects, unless that was done recently. If it cannot be read, the
    /// previous list stays valid until the next time.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < FRESH) {
            return;
        }
        if let Ok((subjects, _)) = subjects::list(&self.runtime) {
            self.subjects = subjects;
        }
        self.looked = Some(Instant::now());
    }

    /// Returns the living processes and their threads, and those of which recorded text exists.
    fn parts(&self) -> impl Iterator<Item = SelectedPart> + '_ {
        let living = self.subjects.iter().flat_map(|subject| {
            let threads = subject.threads.iter().map(|thread| SelectedPart::thread(&subject.label, subject.pid, thread.tid));
            [SelectedPart::process(&subject.label, subject.pid)].into_iter().chain(threads)
        });
        living.chain(self.texts.parts().cloned())
    }

    fn is_there(&self, part: &SelectedPart) -> bool {
        self.parts().any(|other| {
            other.label == part.label
                && part.pid.is_none_or(|pid| other.pid == Some(pid))
                && part.tid.is_none_or(|tid| other.tid == Some(tid))
        })
    }

    fn threads<'a>(&'a self, part: &'a SelectedPart) -> impl Iterator<Item = &'a subjects::Thread> + 'a {
        let subjects = self.subjects.iter().filter(|subject| subject.label == part.label && part.pid.is_none_or(|pid| subject.pid == pid));
        subjects.flat_map(|subject| &subject.threads).filter(|thread| part.tid.is_none_or(|tid| thread.tid == tid))
    }

    /// Returns the name of a label's directory. Two labels never have the same name.
    fn name(&mut self, label: &str) -> String {
        if let Some(name) = self.names.get(label) {
            return name.clone();
        }
        let plain = file_name(label);
        let taken = |name: &String| self.names.values().any(|other| other == name);
        let name = (1u32..).map(|number| if number == 1 { plain.clone() } else { format!("{plain}~{number}") }).find(|name| !taken(name));
        let name = name.unwrap_or(plain);
        self.names.insert(label.to_owned(), name.clone());
        name
    }
}
