//! Reads CTF traces while their tracers still write them: files that grow, new files, new traces
//! and metadata that grows.
//!
//! The reader knows nothing of the tracer except its files. A packet with a length is read when all
//! of it is there. In a stream that is one packet without an end, each event is read when it is
//! there. Each file has one decoder, which continues where it reached the end, so everything that a
//! reader of the finished file reports is also reported here.
//!
//! Items that are new in one refresh are yielded in the order of time. If a tracer writes an event
//! after later ones, it is yielded later, with its own time. For Longpole's own recordings, about
//! which more is known, use [`crate::RecordingFollower`].

mod tail;

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::{Catalogue, Item};
use crate::files::directory::stream_files;
use crate::files::file::StreamFile;
use crate::formats::ctf::{self, decoder, metadata_and_cut, CtfSource, Plan};
use crate::formats::source::Source;
use crate::merge::clock_shift::{Shift, Shifts};
use crate::merge::common_clock::CommonClocks;
use crate::merge::sort_window::Window;
use crate::merge::{Heap, Key};
use crate::open::recognise::recognise;
use crate::shared::Shared;
use crate::trace::{stream_name, Slot};
use crate::value_buffer::ValueBuffer;
use longpole_ctf::Metadata;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tail::{Identity, Look, Tail};

/// Time between two searches for new traces.
const SEARCH: Duration = Duration::from_millis(500);
/// Time after which a missing file, or one that does not fit, is taken to be final instead of being
/// moved or written.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Maximum number of diagnostics that are kept; each is reported once.
const MAX_DIAGNOSTICS: usize = 1000;

/// Reads CTF traces while they are written. The module's documentation explains how.
pub struct Live {
    paths: Vec<PathBuf>,
    shifts: Shifts,
    clocks: CommonClocks,
    shared: Shared,
    searched: Option<Instant>,
    /// Diagnostic for files that belong to no trace, by path.
    context: Vec<Option<Diagnostic>>,
    traces: Vec<Growing>,
    tails: Vec<Tail>,
    /// Index of the tail by file identity. A file keeps its identity when its tracer moves it, as
    /// LTTng does with rotated files.
    known: HashMap<Identity, usize>,
    idle: Vec<usize>,
    heap: Heap,
    current: Option<usize>,
    value_buffer: ValueBuffer,
    /// Set if no further refresh follows.
    last: bool,
    reported: bool,
}

/// A CTF directory that grows.
struct Growing {
    directory: PathBuf,
    /// Index of the path below which the directory was found.
    root: usize,
    /// Length and modification time of the metadata that was read last.
    stamp: Option<(u64, Option<SystemTime>)>,
    /// Metadata and plan; `None` if they cannot be read yet.
    read: Option<(Arc<Metadata>, Rc<Plan>)>,
    /// Diagnostic for the end of the metadata that could not be read.
    cut: Option<Diagnostic>,
    common: Shift,
    /// Set if the current metadata is not an extension of the earlier one. It is either being
    /// written, or belongs to another trace.
    unsettled: bool,
    /// Set if the current metadata belongs to another trace.
    replaced: bool,
}

impl Live {
    /// Opens the CTF traces at or below the paths. Events that were written earlier are read, too.
    ///
    /// # Errors
    ///
    /// [`Error::NotATrace`] if one of the paths holds no CTF trace, or is a recording.
    pub fn open<P: AsRef<Path>>(paths: &[P], shifts: Shifts) -> Result<Live, Error> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let mut live = Live {
            context: vec![None; paths.len()],
            paths,
            shifts,
            clocks: CommonClocks::default(),
            shared: Shared::default(),
            searched: None,
            traces: Vec::new(),
            tails: Vec::new(),
            known: HashMap::new(),
            idle: Vec::new(),
            heap: Heap::default(),
            current: None,
            value_buffer: ValueBuffer::default(),
            last: false,
            reported: false,
        };
        live.shared.partial_events = true;
        for path in &live.paths {
            let found = recognise(path)?;
            if found.ctf.is_empty() || found.recording.is_some() {
                let tried = "only a CTF trace can be followed while it is written".to_owned();
                return Err(Error::NotATrace { path: path.clone(), tried });
            }
        }
        live.refresh()?;
        Ok(live)
    }

    /// Looks for what was written since the last call.
    pub fn refresh(&mut self) -> Result<(), Error> {
        if self.last || self.searched.is_none_or(|searched| searched.elapsed() >= SEARCH) {
            self.searched = Some(Instant::now());
            self.search();
        }
        for trace in 0..self.traces.len() {
            self.learn(trace);
            self.list(trace)?;
        }
        for index in std::mem::take(&mut self.idle) {
            self.decode(index)?;
        }
        self.shared.diagnostics.truncate(MAX_DIAGNOSTICS);
        Ok(())
    }

    /// Like [`Live::refresh`], as the last call: also reads what is not a whole packet yet, as far
    /// as possible. Diagnostics about whole files and streams are available once [`Live::next`]
    /// returns `None`.
    pub fn refresh_all(&mut self) -> Result<(), Error> {
        self.last = true;
        self.refresh()
    }

    /// Returns the next item of what was there at the last refresh, in the order of time.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(Item<'_>, &Catalogue)>, Error> {
        if let Some(current) = self.current.take() {
            self.decode(current)?;
        }
        let Some(key) = self.heap.pop() else {
            self.report();
            return Ok(None);
        };
        let index = key.slot as usize;
        self.current = Some(index);
        Ok(Some((self.tails[index].slot.item(&mut self.value_buffer), &self.shared.catalogue)))
    }

    /// Returns what was wrong until now.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.shared.diagnostics
    }

    /// Adds the diagnostics that are known only at the end.
    fn report(&mut self) {
        if !self.last || std::mem::replace(&mut self.reported, true) {
            return;
        }
        self.shared.diagnostics.extend(self.context.iter().flatten().cloned());
        for (index, trace) in self.traces.iter().enumerate() {
            let file = |tail: &Tail| StreamFile { path: tail.path.clone(), length: tail.seen };
            let files: Vec<_> = self.tails.iter().filter(|tail| tail.trace == index).map(file).collect();
            self.shared.diagnostics.extend(ctf::empty(&trace.directory, &files));
            self.shared.diagnostics.extend(trace.cut.clone());
        }
        for tail in &mut self.tails {
            tail.report(&mut self.shared);
        }
    }

    /// Takes up new traces. A path that is being moved or removed is searched again the next time.
    fn search(&mut self) {
        for root in 0..self.paths.len() {
            let Ok(found) = recognise(&self.paths[root]) else { continue };
            self.context[root] = found.unrelated;
            for directory in found.ctf {
                if !self.traces.iter().any(|trace| trace.directory == directory) {
                    self.add(directory, root);
                }
            }
        }
    }

    fn add(&mut self, directory: PathBuf, root: usize) {
        let common = Shift::default();
        self.traces.push(Growing { directory, root, stamp: None, read: None, cut: None, common, unsettled: false, replaced: false });
    }

    /// Reads the metadata of a trace again if it has grown. Metadata that cannot be parsed is being
    /// written.
    fn learn(&mut self, index: usize) {
        let trace = &mut self.traces[index];
        let path = trace.directory.join("metadata");
        let Ok(found) = fs::metadata(&path) else { return };
        let stamp = Some((found.len(), found.modified().ok()));
        if trace.replaced || stamp == trace.stamp {
            return;
        }
        let Ok((metadata, cut)) = metadata_and_cut(&path) else { return };
        match &trace.read {
            None => {
                self.shared.diagnostics.extend(ctf::nonstandard(&path, &metadata));
                self.shared.diagnostics.extend(ctf::diagnostics(&trace.directory, &metadata));
                let ctf_trace = ctf::ctf_trace(&trace.directory, &metadata);
                trace.common = Shift::by(self.clocks.shift(trace.root, &ctf_trace, &mut self.shared.diagnostics));
            }
            Some((before, _)) if grew(before, &metadata) => {}
            Some(_) => {
                trace.unsettled = true;
                if found.modified().ok().and_then(|modified| modified.elapsed().ok()).is_some_and(|since| since >= SETTLE_TIME) {
                    trace.replaced = true;
                    let (directory, root) = (trace.directory.clone(), trace.root);
                    self.add(directory, root);
                }
                return;
            }
        }
        let plan = Rc::new(Plan::grown(&metadata, &mut self.shared, trace.read.as_ref().map(|(_, plan)| &**plan)));
        (trace.read, trace.cut, trace.stamp, trace.unsettled) = (Some((Arc::new(metadata), plan)), cut, stamp, false);
    }

    /// Takes up the stream files of a trace.
    fn list(&mut self, index: usize) -> Result<(), Error> {
        let trace = &self.traces[index];
        let Some((metadata, plan)) = trace.read.as_ref().filter(|_| !trace.replaced && !trace.unsettled) else { return Ok(()) };
        let Ok(files) = stream_files(&trace.directory) else { return Ok(()) };
        for path in files {
            let Ok(found) = fs::metadata(&path) else { continue };
            let identity = Identity::of(&found);
            if let Some(&known) = self.known.get(&identity) {
                let tail = &mut self.tails[known];
                tail.set_path(&path);
                if !tail.is_replaced() {
                    continue;
                }
            }
            let name = stream_name(&self.paths[trace.root], &path, self.paths.len() > 1);
            let stream = self.shared.stream(name, ctf::kind(metadata));
            let nothing = StreamFile { path: path.clone(), length: 0 };
            let shift = Some(self.shifts.of(&path)).filter(|shift| !shift.is_none()).unwrap_or(trace.common);
            let source =
                Source::Ctf(Box::new(CtfSource::new(decoder(metadata, &nothing, usize::MAX)?, plan.clone(), stream, path.clone())));
            let window = (!ctf::Tracer::of(metadata).orders_events()).then(Window::default);
            self.known.insert(identity, self.tails.len());
            self.idle.push(self.tails.len());
            self.tails.push(Tail::new(index, path, identity, Slot { source, window, shift }, metadata.clone()));
        }
        Ok(())
    }

    /// Decodes the next item of a stream from what was there at the last refresh.
    fn decode(&mut self, index: usize) -> Result<(), Error> {
        let streams = self.tails.len();
        let tail = &mut self.tails[index];
        loop {
            if let Some(t_ns) = tail.slot.advance(&mut self.shared, &mut self.value_buffer)? {
                self.heap.push(Key { t_ns, slot: index as u32 });
                return Ok(());
            }
            let trace = &self.traces[tail.trace];
            let Some(read) = &trace.read else { return Ok(()) };
            let look = Look { read, streams, last: self.last };
            if !tail.read_more(&look, &mut self.shared)? {
                self.idle.push(index);
                return Ok(());
            }
        }
    }
}

/// Returns true if the new metadata contains everything of the earlier one at the same indices, and
/// possibly more.
fn grew(before: &Metadata, now: &Metadata) -> bool {
    let same = |stream: usize| {
        let (before_class, class) = (&before.streams[stream], &now.streams[stream]);
        let same = |event: usize| {
            let fields = before.fields(stream, event).iter().zip(now.fields(stream, event));
            let count = before.fields(stream, event).len() == now.fields(stream, event).len();
            let (event, now_event) = (&before_class.events[event], &class.events[event]);
            (event.id, &event.name) == (now_event.id, &now_event.name) && count && fields.into_iter().all(|(one, other)| one.ty == other.ty)
        };
        before_class.id == class.id && before_class.events.len() <= class.events.len() && (0..before_class.events.len()).all(same)
    };
    let uuid = before.trace.uuid == now.trace.uuid;
    uuid && before.streams.len() <= now.streams.len() && (0..before.streams.len()).all(same)
}
