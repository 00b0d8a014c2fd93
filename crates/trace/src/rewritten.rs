//! CTF traces in another version of the format, with everything that their metadata says: types, contexts, packets and their counters. What
//! comes from other formats, or is chosen from, [`CtfWriter`](crate::CtfWriter) writes, which knows values only.

use crate::ctf::{decoder, read_metadata};
use crate::error::Error;
use crate::file::StreamFile;
use crate::oddity::Oddity;
use crate::recognise::{recognise, stream_files};
use crate::written::{empty_folder, Version, Written};
use longpole_ctf::write::{self, Layout, StreamWriter, WriteError};
use longpole_ctf::{Metadata, Step};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Writes all CTF traces at or below `path` to the same places below `directory`, which is made, or is empty. None, with nothing written,
/// if something else than CTF traces is there.
pub fn rewrite(path: &Path, directory: &Path, version: Version) -> Result<Option<(Written, Vec<Oddity>)>, Error> {
    // Who opens it says what is wrong with it.
    let Some(found) = path.is_dir().then(|| recognise(path).ok()).flatten() else { return Ok(None) };
    if found.ctf.is_empty() || found.recording.is_some() || !found.files.is_empty() || found.pages.is_some() {
        return Ok(None);
    }
    empty_folder(directory)?;
    let (mut written, mut oddities) = (Written::default(), Vec::new());
    for trace in &found.ctf {
        let place = trace.strip_prefix(path).map_or(directory.to_owned(), |below| directory.join(below));
        fs::create_dir_all(&place).map_err(Error::io(&place))?;
        match one(trace, &place, version, &mut written, &mut oddities) {
            // Beside others one that cannot be read hides none of them; alone it is why nothing is written.
            Err(error @ (Error::Metadata { .. } | Error::NotATrace { .. })) if found.ctf.len() > 1 => {
                let _ = fs::remove_dir(&place);
                oddities.push(Oddity::Closed { path: trace.clone(), error: error.to_string() });
            }
            done => done?,
        }
    }
    Ok(Some((written, oddities)))
}

fn one(trace: &Path, place: &Path, version: Version, written: &mut Written, oddities: &mut Vec<Oddity>) -> Result<(), Error> {
    let metadata = Arc::new(read_metadata(&trace.join("metadata"))?);
    let layout = match version {
        Version::One => Layout::to_ctf1(&metadata),
        Version::Two => Layout::to_ctf2(&metadata),
    };
    let layout = Arc::new(layout.map_err(|source| Error::Metadata { path: trace.join("metadata"), source })?);
    for path in stream_files(trace)? {
        let to = place.join(path.file_name().unwrap_or_default());
        stream(&metadata, &layout, &path, &to, written, oddities)?;
    }
    // Last: what is not finished is no trace.
    let to = place.join("metadata");
    fs::write(&to, write::metadata(layout.metadata())).map_err(Error::io(&to))
}

fn stream(
    metadata: &Arc<Metadata>,
    layout: &Arc<Layout>,
    path: &Path,
    to: &Path,
    written: &mut Written,
    oddities: &mut Vec<Oddity>,
) -> Result<(), Error> {
    let unwritable = |source: Box<WriteError>| Error::Unwritable { path: path.to_owned(), source };
    let mut decoder = decoder(metadata, &StreamFile::look(path).map_err(Error::io(path))?, 1)?;
    let mut out = BufWriter::new(File::create_new(to).map_err(Error::io(to))?);
    // One for each class of streams that has packets in the file.
    let mut writers: HashMap<usize, StreamWriter> = HashMap::new();
    loop {
        let step = decoder.advance();
        let class = decoder.packet().stream;
        let writer = writers.entry(class).or_insert_with(|| StreamWriter::new(layout.clone(), class));
        match step {
            Ok(None) => break,
            Ok(Some(Step::PacketBegin)) => writer.begin(decoder.packet()).map_err(unwritable)?,
            Ok(Some(Step::Event)) => {
                let event = decoder.event();
                writer.event(event.class_index(), event.cycles(), event.values()).map_err(unwritable)?;
                written.events += 1;
            }
            Ok(Some(Step::PacketEnd)) => {
                writer.end().map_err(unwritable)?;
                out.write_all(&writer.take()).map_err(Error::io(to))?;
            }
            Ok(Some(Step::DiscardedEvents(loss))) => match loss.count {
                Some(count) => written.lost = written.lost.saturating_add(count),
                None => written.uncounted += 1,
            },
            Ok(Some(Step::DiscardedPackets(_))) => written.uncounted += 1,
            Err(error) => {
                oddities.push(Oddity::of_packet(path, &error, decoder.next_packet()));
                // The packet ends with the last event that could be read.
                if error.event.is_some() {
                    writer.end().map_err(unwritable)?;
                    out.write_all(&writer.take()).map_err(Error::io(to))?;
                }
                decoder.skip_packet();
            }
        }
    }
    out.flush().map_err(Error::io(to))
}
