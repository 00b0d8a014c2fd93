//! Converts CTF traces to another version of the format, with everything that their metadata
//! describe: types, contexts, packets and their counters.
//!
//! Only whole CTF traces are converted here. Other formats, and selected parts of a trace, are
//! exported by [`CtfWriter`](crate::CtfWriter), which only knows values.

use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::export::{empty_folder, ExportCounts, Version};
use crate::files::directory::stream_files;
use crate::files::file::StreamFile;
use crate::formats::ctf::{decoder, read_metadata};
use crate::open::recognise::recognise;
use longpole_ctf::write::{self, Layout, StreamWriter, WriteError};
use longpole_ctf::{Metadata, Step};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a conversion.
#[derive(Debug)]
pub enum Rewritten {
    Done(ExportCounts, Vec<Diagnostic>),
    /// The path holds something other than CTF traces. Nothing is written.
    Other,
    /// The events of this stream are not in the order of time, which other readers require. Nothing
    /// is written.
    Disordered(PathBuf),
}

/// Writes all CTF traces at or below `path` to the same relative paths below `directory`, which is
/// created or must be empty.
pub fn rewrite(path: &Path, directory: &Path, version: Version) -> Result<Rewritten, Error> {
    // A path that cannot be recognised is reported when it is opened as a trace.
    let Some(found) = path.is_dir().then(|| recognise(path).ok()).flatten() else { return Ok(Rewritten::Other) };
    if found.ctf.is_empty() || found.recording.is_some() || !found.files.is_empty() || found.copied_from_tracer.is_some() {
        return Ok(Rewritten::Other);
    }
    empty_folder(directory)?;
    let (mut written, mut diagnostics) = (ExportCounts::default(), Vec::new());
    for trace in &found.ctf {
        let place = trace.strip_prefix(path).map_or(directory.to_owned(), |below| directory.join(below));
        fs::create_dir_all(&place).map_err(Error::io(&place))?;
        match one(trace, &place, version, &mut written, &mut diagnostics) {
            // A trace that cannot be read becomes a diagnostic if there are others. If it is the
            // only one, its error is returned.
            Err(error @ (Error::Metadata { .. } | Error::NotATrace { .. })) if found.ctf.len() > 1 => {
                let _ = fs::remove_dir(&place);
                diagnostics.push(Diagnostic::CannotOpen { path: trace.clone(), error: error.to_string() });
            }
            done => {
                if let Some(stream) = done? {
                    empty(directory)?;
                    return Ok(Rewritten::Disordered(stream));
                }
            }
        }
    }
    Ok(Rewritten::Done(written, diagnostics))
}

/// Removes the content of a folder that was empty before.
fn empty(directory: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        let path = entry.map_err(Error::io(directory))?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(Error::write(&path))?;
    }
    Ok(())
}

/// Converts one trace. If a stream is not in the order of time, returns that stream and writes no
/// metadata.
fn one(
    trace: &Path,
    place: &Path,
    version: Version,
    written: &mut ExportCounts,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<PathBuf>, Error> {
    let metadata = Arc::new(read_metadata(&trace.join("metadata"))?);
    let layout = match version {
        Version::One => Layout::to_ctf1(&metadata),
        Version::Two => Layout::to_ctf2(&metadata),
    };
    let layout = Arc::new(layout.map_err(|source| Error::Metadata { path: trace.join("metadata"), source })?);
    for path in stream_files(trace)? {
        let to = place.join(path.file_name().unwrap_or_default());
        if !stream(&metadata, &layout, &path, &to, written, diagnostics)? {
            return Ok(Some(path));
        }
    }
    // Metadata is written last, so an unfinished conversion is not mistaken for a trace.
    let to = place.join("metadata");
    fs::write(&to, write::metadata(layout.metadata())).map_err(Error::write(&to))?;
    Ok(None)
}

/// Writer for the packets of one stream class.
struct Part {
    writer: StreamWriter,
    /// Index of the file, once there is a packet.
    file: Option<usize>,
    /// Time of the last event, or of the packet's begin, in cycles.
    last: u64,
}

impl Part {
    /// Takes the next time. Returns false if it is before the last one.
    fn follows(&mut self, cycles: u64) -> bool {
        let before = std::mem::replace(&mut self.last, cycles);
        cycles >= before
    }

    /// Ends the packet. Some tracers write an end that is before the last event or after the next
    /// packet's begin. Other readers refuse this, so the end is corrected.
    fn end(&mut self, next: Option<u64>) -> Result<Vec<u8>, Box<WriteError>> {
        let packet = self.writer.packet_mut();
        packet.end = packet.end.map(|end| next.map_or(end, |next| end.min(next)).max(self.last));
        self.writer.end()?;
        Ok(self.writer.take())
    }
}

/// Converts one stream. Returns false if its times are not in order; only a part of it is then
/// written.
fn stream(
    metadata: &Arc<Metadata>,
    layout: &Arc<Layout>,
    path: &Path,
    to: &Path,
    written: &mut ExportCounts,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<bool, Error> {
    let unwritable = |source: Box<WriteError>| Error::Unwritable { path: path.to_owned(), source };
    let mut decoder = decoder(metadata, &StreamFile::look(path).map_err(Error::io(path))?, 1)?;
    let mut files = vec![Out::create(to.to_owned())?];
    let mut begun = false;
    // Other readers of CTF 1.8 require all packets of a file to be of one stream class, so each
    // class gets a file. Packets without times cannot be moved, because only their order in the
    // file shows their order in time.
    let timed = (0..metadata.streams.len()).all(|class| metadata.has_times(class));
    let file_per_class = timed && layout.metadata().schema().version == longpole_ctf::types::Version::V1_8;
    // Writers for the stream classes that have packets in the file.
    let mut parts: HashMap<usize, Part> = HashMap::new();
    // Class of the packet that has ended. Its end is written late, because the next packet may
    // correct it.
    let mut ended: Option<usize> = None;
    loop {
        let step = decoder.advance();
        let class = decoder.packet().stream;
        if let Some(ended) = ended.take_if(|_| matches!(step, Ok(None | Some(Step::PacketBegin)) | Err(_))) {
            let next = decoder.packet().begin.filter(|_| ended == class && matches!(step, Ok(Some(_))));
            if let Some(part) = parts.get_mut(&ended) {
                let bytes = part.end(next).map_err(unwritable)?;
                files[part.file.unwrap_or(0)].put(&bytes)?;
            }
        }
        let part = parts.entry(class).or_insert_with(|| Part { writer: StreamWriter::new(layout.clone(), class), file: None, last: 0 });
        match step {
            Ok(None) => break,
            Ok(Some(Step::PacketBegin)) => {
                if part.file.is_none() {
                    if file_per_class && begun {
                        files.push(Out::create(free(path, to))?);
                    }
                    (part.file, begun) = (Some(files.len() - 1), true);
                }
                part.writer.begin(decoder.packet()).map_err(unwritable)?;
                if decoder.packet().begin.is_some_and(|begin| !part.follows(begin)) {
                    return Ok(false);
                }
            }
            Ok(Some(Step::Event)) => {
                let event = decoder.event();
                if !part.follows(event.cycles()) {
                    return Ok(false);
                }
                part.writer.event(event.class_index(), event.cycles(), event.values()).map_err(unwritable)?;
                written.events += 1;
            }
            Ok(Some(Step::PacketEnd)) => ended = Some(class),
            Ok(Some(Step::DiscardedEvents(loss))) => match loss.count {
                Some(count) => written.lost = written.lost.saturating_add(count),
                None => written.uncounted += 1,
            },
            Ok(Some(Step::DiscardedPackets(_))) => written.uncounted += 1,
            Err(error) => {
                diagnostics.push(Diagnostic::of_packet(path, &error, decoder.next_packet()));
                // The packet ends with the last event that could be decoded.
                if error.event.is_some() {
                    let bytes = part.end(None).map_err(unwritable)?;
                    files[part.file.unwrap_or(0)].put(&bytes)?;
                }
                decoder.skip_packet();
            }
        }
    }
    files.iter_mut().try_for_each(Out::end)?;
    Ok(true)
}

/// Returns a name like that of `to` that no file has, neither next to `to` nor next to `from`,
/// whose files are converted to the same folder.
fn free(from: &Path, to: &Path) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let names = (2u64..).map(|number| format!("{name}.{number}"));
    let is_free = |name: &String| !to.with_file_name(name).exists() && !from.with_file_name(name).exists();
    to.with_file_name(names.into_iter().find(is_free).unwrap_or_default())
}

/// A stream file that is being written.
struct Out {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Out {
    fn create(path: PathBuf) -> Result<Out, Error> {
        let file = File::create_new(&path).map_err(Error::write(&path))?;
        Ok(Out { path, file: BufWriter::new(file) })
    }

    fn put(&mut self, packet: &[u8]) -> Result<(), Error> {
        self.file.write_all(packet).map_err(Error::write(&self.path))
    }

    fn end(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::write(&self.path))
    }
}
