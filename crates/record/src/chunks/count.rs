//! Counts the contents of a chunk before it is deleted, because its events become a known loss.

use super::Removed;
use crate::kernel;
use crate::output::metadata::Uuid;
use crate::output::packet::{Header, HEADER, RESERVED_POSITION};
use crate::ring::class::Classes;
use longpole_ftrace::{ByteOrder, EventFormat, Item, PageLayout, PageStream};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of a recording on the disk, without files that it shares with other recordings by hard
/// links (the kernel's symbols).
pub fn size(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    let own = found.blocks() * 512;
    match found.is_dir() {
        true => own + fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>(),
        false if found.nlink() > 1 => 0,
        false => own,
    }
}

/// Bytes of the stack samples and of the packets of network devices.
pub fn context(path: &Path) -> u64 {
    let samples = fs::read_dir(path.join(crate::stacks::FOLDER)).into_iter().flatten().flatten();
    let samples: u64 = samples.map(|entry| entry.metadata().map_or(0, |found| found.len())).sum();
    samples + fs::metadata(path.join("packets/interfaces.pcapng")).map_or(0, |found| found.len())
}

/// Counts the contents of a chunk, and deletes it.
pub fn remove(path: &Path, end_ns: u64, classes: &HashMap<u32, Classes>) -> Removed {
    let mut removed = Removed { chunks: 1, until_ns: end_ns, ..Removed::default() };
    let text = fs::read(path.join("longpole.json")).unwrap_or_default();
    let description: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    removed.lost = description["loss"]["events"].as_u64().unwrap_or(0);
    match description["uuid"].as_str().and_then(Uuid::parse) {
        Some(uuid) => {
            for entry in fs::read_dir(path.join("user")).into_iter().flatten().flatten() {
                match entry.file_name() == "metadata" {
                    true => {}
                    false => match events(&entry.path(), &uuid, classes) {
                        Some(events) => removed.events += events,
                        None => removed.uncounted = true,
                    },
                }
            }
        }
        None => removed.uncounted = true,
    }
    let raw = path.join(kernel::RAW);
    if raw.is_dir() {
        match pages(&raw) {
            Some(events) => removed.kernel_events = events,
            None => removed.uncounted = true,
        }
    } else {
        // A reader has already converted the chunk's pages.
        removed.uncounted |= path.join("kernel").is_dir();
    }
    // If something remains, it is a readable recording.
    let _ = fs::remove_dir_all(path);
    removed
}

/// Number of events in a stream file; `None` if some of it cannot be understood.
fn events(path: &Path, uuid: &Uuid, classes: &HashMap<u32, Classes>) -> Option<u64> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let (mut at, mut events) = (0, 0);
    let mut bytes = Vec::new();
    while at < length {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, at).ok()?;
        let header = Header::decode(&header, uuid).filter(|header| header.size > 0 && header.content <= length)?;
        if header.position != RESERVED_POSITION {
            bytes.resize((header.content - HEADER as u64) as usize, 0);
            file.read_exact_at(&mut bytes, at + HEADER as u64).ok()?;
            events += classes.get(&header.stream)?.count(&bytes).ok()?;
        }
        at = at.checked_add(header.size)?;
    }
    Some(events)
}

fn pages(raw: &Path) -> Option<u64> {
    let header = fs::read_to_string(raw.join("header_page")).ok()?;
    let description: Value = serde_json::from_slice(&fs::read(raw.join(kernel::DESCRIPTION)).ok()?).ok()?;
    let mut layout = PageLayout::parse(&header, ByteOrder::NATIVE).ok()?.with_page_size(description["page_size"].as_u64()? as usize);
    let system = fs::read_dir(raw.join("events")).ok()?.next()?.ok()?;
    let event = fs::read_dir(system.path()).ok()?.next()?.ok()?;
    let format = EventFormat::parse(system.file_name().to_str()?, &fs::read_to_string(event.path()).ok()?).ok()?;
    layout = layout.with_ids_of(&format);
    let (mut events, mut damaged) = (0, false);
    for entry in fs::read_dir(raw).ok()?.flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok()).is_some() {
            let mut stream = PageStream::new(File::open(entry.path()).ok()?, layout);
            stream.for_each(|item| events += u64::from(matches!(item, Item::Event(_))), |_| damaged = true);
        }
    }
    (!damaged).then_some(events)
}
