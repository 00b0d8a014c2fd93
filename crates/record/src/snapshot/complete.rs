//! The second half of a snapshot: the process that requested it copies the files that the recording
//! had on the disk at the pause.
//!
//! Packets and pages that end before the window are left out. The recording continues meanwhile;
//! its files only grow, and the snapshot's description holds the lengths that they had at the
//! pause.

use crate::clock::ClockSource;
use crate::error::Error;
use crate::kernel;
use crate::output::metadata::Uuid;
use crate::output::packet::{Header, HEADER, PAGE, RESERVED_POSITION};
use crate::output::recording;
use serde_json::{json, Value};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// Result of completing a snapshot.
#[derive(Debug, Default)]
pub struct Completed {
    pub bytes: u64,
    /// Messages about files that could not be copied.
    pub notes: Vec<String>,
}

/// Copies the files of the recording into its snapshot. Does nothing if the snapshot is already
/// complete.
pub fn complete(path: &Path) -> Result<Completed, Error> {
    let mut done = Completed::default();
    let file = path.join("longpole.json");
    let bytes = fs::read(&file).map_err(Error::io("read", &file))?;
    let mut description: Value = serde_json::from_slice(&bytes).map_err(|error| Error::io("read", &file)(error.into()))?;
    let Some(files) = description["snapshot"]["pending"].as_array().cloned() else { return Ok(done) };
    let of = PathBuf::from(description["snapshot"]["of"].as_str().unwrap_or(""));
    let window = description["snapshot"]["window"].as_u64().unwrap_or(0);
    let uuid = description["uuid"].as_str().and_then(Uuid::parse);
    let mut lanes = description["lanes"].as_array().cloned().unwrap_or_default();
    let mut lost = description["loss"]["events"].as_u64().unwrap_or(0);
    for file in &files {
        let (Some(name), Some(length)) = (file["file"].as_str().filter(|name| is_inside(name)), file["bytes"].as_u64()) else { continue };
        let copied = match name.starts_with("user/") {
            true => lane(&of.join(name), length, (uuid, uuid), window, &path.join(name)).map(|lane| {
                if let Some(lane) = lane {
                    lost = lost.saturating_add(lane.lost);
                    done.bytes += lane.bytes;
                    lanes.push(lane.describe(name));
                }
            }),
            // A file with packets from rings may already have this name.
            false if path.join(name).exists() => whole(&of.join(name), length, &path.join(before(name))).map(|bytes| done.bytes += bytes),
            false => whole(&of.join(name), length, &path.join(name)).map(|bytes| done.bytes += bytes),
        };
        if let Err(error) = copied {
            done.notes.push(format!("{name} of {} is not in it: {error}", of.display()));
        }
    }
    let chunks = description["snapshot"]["earlier"].as_array().cloned().unwrap_or_default();
    let chunks: Vec<PathBuf> = chunks.iter().filter_map(|chunk| Some(PathBuf::from(chunk.as_str()?))).collect();
    for (number, chunk) in chunks.iter().enumerate() {
        let copied = earlier(chunk, number, (uuid, window), path).map(|copied| {
            for (name, copied) in copied {
                lost = lost.saturating_add(copied.lost);
                done.bytes += copied.bytes;
                lanes.push(copied.describe(&name));
            }
        });
        if let Err(error) = copied {
            done.notes.push(format!("the content of {} is not in it: {error}", chunk.display()));
        }
    }
    let paused = description["snapshot"]["kernel"].clone();
    if !paused.is_null() {
        match pages((&of, &chunks), path, &paused, window, &description) {
            Ok(missing) => {
                let note = |chunk: &Path| {
                    format!("the kernel's events of {} are not in it: its pages are gone, or were converted", chunk.display())
                };
                done.notes.extend(missing.into_iter().map(note));
            }
            Err(error) => {
                done.notes.push(format!("the kernel's events are not in it: {error}"));
                let _ = fs::remove_dir_all(path.join("kernel"));
            }
        }
    }
    description["loss"]["events"] = lost.into();
    description["lanes"] = lanes.into();
    if let Some(snapshot) = description["snapshot"].as_object_mut() {
        snapshot.remove("pending");
        snapshot.remove("earlier");
    }
    if let Some(diagnostics) = description["diagnostics"].as_array_mut() {
        diagnostics.extend(done.notes.iter().map(|note| json!(note)));
    }
    recording::describe(path, &description).map_err(Error::io("write", file))?;
    Ok(done)
}

fn before(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}-before.{extension}"),
        None => format!("{name}-before"),
    }
}

/// Accepts only two plain components, so that no name leads out of the recording.
fn is_inside(name: &str) -> bool {
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    parts.len() == 2 && parts.iter().all(|part| matches!(part, Component::Normal(_)))
}

/// Sums of a copied stream file.
struct Copied {
    bytes: u64,
    lost: u64,
    recorded: u64,
    last: Header,
}

impl Copied {
    fn describe(&self, file: &str) -> Value {
        json!({
            "file": file,
            "label": crate::text::printable(&self.last.label),
            "pid": self.last.pid,
            "tid": self.last.tid,
            "thread": crate::text::printable(&self.last.thread),
            "recorded_bytes": self.recorded,
            "bytes": self.bytes,
            "lost": self.lost,
        })
    }
}

/// Copies the packets of a stream file that reach into the window. `None` if there are none.
fn lane(from: &Path, length: u64, uuids: (Option<Uuid>, Option<Uuid>), window: u64, to: &Path) -> io::Result<Option<Copied>> {
    let file = File::open(from)?;
    let (Some(theirs), Some(uuid)) = uuids else { return Err(io::Error::other("the recording has no uuid")) };
    let mut copied: Option<(BufWriter<File>, Copied)> = None;
    // Losses in packets before the window are not counted.
    let (mut at, mut before, mut sequence) = (0, 0, 0);
    let mut bytes = Vec::new();
    while at < length {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, at)?;
        let Some(header) = Header::decode(&header, &theirs).filter(|header| header.size > 0 && at + header.size <= length) else { break };
        let begin = at;
        at += header.size;
        if header.position == RESERVED_POSITION {
            continue;
        }
        if copied.is_none() && (header.end < window || (header.content == HEADER as u64 && header.discarded == before)) {
            before = header.discarded;
            continue;
        }
        let (out, done) = match &mut copied {
            Some(copied) => copied,
            None => {
                let mut out = BufWriter::with_capacity(1 << 20, File::create_new(to)?);
                let (content, size) = (HEADER as u64, PAGE as u64);
                let first = Header { end: header.begin, content, size, discarded: 0, position: 0, sequence: 0, ..header.clone() };
                out.write_all(&first.encode(&uuid))?;
                out.write_all(&[0; PAGE - HEADER])?;
                copied.insert((out, Copied { bytes: size, lost: 0, recorded: 0, last: first }))
            }
        };
        sequence += 1;
        let header = Header { discarded: header.discarded.saturating_sub(before), sequence, ..header };
        bytes.resize((header.size - HEADER as u64) as usize, 0);
        file.read_exact_at(&mut bytes, begin + HEADER as u64)?;
        out.write_all(&header.encode(&uuid))?;
        out.write_all(&bytes)?;
        done.bytes += header.size;
        done.recorded += header.content - HEADER as u64;
        done.lost = header.discarded;
        done.last = header;
    }
    match copied {
        None => Ok(None),
        Some((mut out, done)) => {
            out.flush()?;
            Ok(Some(done))
        }
    }
}

/// Copies the stream files of an earlier chunk. Its classes are those of the whole recording; its
/// UUID is a different one.
fn earlier(chunk: &Path, number: usize, (uuid, window): (Option<Uuid>, u64), path: &Path) -> io::Result<Vec<(String, Copied)>> {
    let description: Value = serde_json::from_slice(&fs::read(chunk.join("longpole.json"))?)?;
    let theirs = description["uuid"].as_str().and_then(Uuid::parse);
    let mut all = Vec::new();
    for entry in fs::read_dir(chunk.join("user"))? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().filter(|name| *name != "metadata" && !name.starts_with('.')).map(str::to_owned) else {
            continue;
        };
        let name = format!("user/{name}-{number}");
        let copied = lane(&entry.path(), entry.metadata()?.len(), (theirs, uuid), window, &path.join(&name))?;
        all.extend(copied.map(|copied| (name, copied)));
    }
    Ok(all)
}

fn whole(from: &Path, length: u64, to: &Path) -> io::Result<u64> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    io::copy(&mut io::Read::take(File::open(from)?, length), &mut File::create_new(to)?)
}

/// Copies the descriptions of the kernel's pages, and the pages that were on the disk. Returns the
/// chunks whose pages no longer exist.
fn pages<'a>(
    (of, chunks): (&Path, &'a [PathBuf]),
    path: &Path,
    paused: &Value,
    window: u64,
    description: &Value,
) -> io::Result<Vec<&'a Path>> {
    let (from, to) = (of.join(kernel::RAW), path.join(kernel::RAW));
    fs::create_dir_all(&to)?;
    let mut source: Value = serde_json::from_slice(&fs::read(from.join(kernel::DESCRIPTION))?)?;
    for name in ["header_page", "header_event"] {
        fs::copy(from.join(name), to.join(name))?;
    }
    for system in fs::read_dir(from.join("events"))? {
        let system = system?;
        let folder = to.join("events").join(system.file_name());
        fs::create_dir_all(&folder)?;
        for event in fs::read_dir(system.path())? {
            let event = event?;
            fs::copy(event.path(), folder.join(event.file_name()))?;
        }
    }
    let symbols = Path::new("symbols/kallsyms");
    if of.join(symbols).exists() {
        whole(&of.join(symbols), u64::MAX, &path.join(symbols))?;
    }
    let size = source["page_size"].as_u64().filter(|size| *size >= 64).unwrap_or(4096);
    // Pages of overwriting buffers are already in the snapshot; none were on the disk.
    let files = paused["pages"].as_object().filter(|files| !files.is_empty());
    let (earlier, missing) = match files {
        Some(_) => earlier_pages(chunks),
        None => (Vec::new(), Vec::new()),
    };
    let mut cut: Vec<&str> = Vec::new();
    for (name, length) in files.into_iter().flatten() {
        if let (true, Some(length)) = (is_inside(&format!("raw/{name}")), length.as_u64()) {
            let mut out = File::create_new(to.join(name))?;
            let mut left_out = false;
            for (raw, _) in &earlier {
                let file = raw.join(name);
                left_out |= tail_of_pages(&file, fs::metadata(&file)?.len(), size, window, &mut out)?;
            }
            if tail_of_pages(&from.join(name), length, size, window, &mut out)? || left_out {
                cut.push(name.trim_start_matches("cpu"));
            }
        }
    }
    // The processes that exist now. Those at the start of the recording may have ended long ago.
    let clock = match description["clock"]["source"].as_str() {
        Some("mono_raw") => ClockSource::MonoRaw,
        _ => ClockSource::Counter,
    };
    kernel::dump_state(File::create_new(to.join("state.jsonl"))?, kernel::has_foreign_pids(), &|| clock.now())?;
    if !kernel::has_foreign_pids() {
        kernel::write_names(File::create_new(to.join("names.jsonl"))?)?;
    }
    let begin = source["begin"].as_u64().unwrap_or(0).max(window);
    source["state_dump"] = json!({ "begin": begin, "end": begin });
    source["instance"] = Value::Null;
    source["end"] = paused["end"].clone();
    source["cpus"] = match missing.is_empty() {
        true => counts(&paused["cpus"], &earlier, &cut),
        false => Value::Null,
    };
    let mut text = serde_json::to_vec_pretty(&source)?;
    text.push(b'\n');
    fs::write(to.join(kernel::DESCRIPTION), text)?;
    Ok(missing)
}

/// The page folders of the chunks, each with the kernel's counters; and the chunks that have none
/// any more.
fn earlier_pages(chunks: &[PathBuf]) -> (Vec<(PathBuf, Value)>, Vec<&Path>) {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let raw = chunk.join(kernel::RAW);
        match fs::read(raw.join(kernel::DESCRIPTION)).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()) {
            Some(source) => there.push((raw, source["cpus"].clone())),
            None => missing.push(chunk.as_path()),
        }
    }
    (there, missing)
}

/// Sums of the kernel's counters over all these pages. For a CPU that is `cut`, pages were left
/// out, so the sums count more events than the pages hold.
fn counts(newest: &Value, earlier: &[(PathBuf, Value)], cut: &[&str]) -> Value {
    let of = |counts: &Value, cpu: &Value| counts.as_array().into_iter().flatten().find(|counted| counted["cpu"] == *cpu).cloned();
    let sum = |newest: &Value| {
        let mut all = newest.clone();
        for (_, counts) in earlier {
            let before = of(counts, &newest["cpu"])?;
            for key in ["overrun", "commit_overrun", "dropped", "read"] {
                all[key] = all[key].as_u64()?.saturating_add(before[key].as_u64()?).into();
            }
        }
        all["cut"] = cut.contains(&newest["cpu"].to_string().as_str()).into();
        Some(all)
    };
    newest.as_array().into_iter().flatten().filter_map(sum).collect()
}

/// Copies the pages from the last one that begins before the window. A page begins at the time of
/// its first event and ends where the next one begins. Returns whether pages were left out.
fn tail_of_pages(from: &Path, length: u64, size: u64, window: u64, to: &mut File) -> io::Result<bool> {
    let file = File::open(from)?;
    let count = length / size;
    let time = |page: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, page * size).map(|()| u64::from_ne_bytes(bytes))
    };
    // Binary search for the last page that begins before the window, because there may be millions
    // of pages.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        match time(middle)? < window {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let first = low.saturating_sub(1);
    let mut rest = File::open(from)?;
    io::Seek::seek(&mut rest, io::SeekFrom::Start(first * size))?;
    io::copy(&mut io::Read::take(rest, (count - first) * size), to)?;
    Ok(first > 0)
}
