//! Completes the probes' part of a recording whose recorder was killed. What the kernel's tracer
//! still holds is saved by `kernel::reap`.
//!
//! The recording is readable as it is; here its reserved bytes are cut off and its description is
//! completed. The rings still hold the events that were not taken. Only one packet is uncertain:
//! the one that the recorder was writing. The ring holds the offset and the header values of that
//! packet, and the file shows whether it was committed.

use crate::output::metadata::Uuid;
use crate::output::packet::{Header, HEADER, MAX_DISCARDED, RESERVED_POSITION};
use crate::ring::Ring;
use crate::runtime_dir::session::Unfinished;
use rustix::fs::OFlags;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Limit of the number of packets that are followed in a stream file.
const MAX_PACKETS: u64 = 1 << 40;

/// Recording of a recorder that was killed.
#[derive(Debug)]
pub struct KilledRecording {
    pub session: u64,
    pub path: PathBuf,
    uuid: Uuid,
    /// Name and file of each lane, by lane number.
    lanes: HashMap<u32, (String, File)>,
}

/// Contents of a stream file, from its packet headers.
struct Walked {
    file: String,
    header: Option<Header>,
    end: u64,
    recorded: u64,
}

impl KilledRecording {
    /// `None` if the directory is gone or was not made by a recorder.
    pub fn open(unfinished: &Unfinished) -> Option<KilledRecording> {
        let path = unfinished.path.clone();
        let description: Value = serde_json::from_slice(&read(&path.join("longpole.json"))?).ok()?;
        if description.get("session")?.as_u64()? != unfinished.session {
            return None;
        }
        let uuid = Uuid::parse(description.get("uuid")?.as_str()?)?;
        let mut lanes = HashMap::new();
        for entry in fs::read_dir(path.join("user")).ok()?.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let number = name.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
            let Some(number) = number.filter(|_| !name.starts_with('.')) else { continue };
            let file = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(entry.path());
            match file {
                Ok(file) if file.metadata().is_ok_and(|found| found.is_file()) => {
                    lanes.insert(number, (name, file));
                }
                _ => {}
            }
        }
        Some(KilledRecording { session: unfinished.session, path, uuid, lanes })
    }

    /// Sets a ring's `tail` to the position where the previous recording ends.
    pub fn set_tail(&self, ring: &mut Ring) {
        let layout = ring.layout();
        let tail = layout.pending_tail.load(Ordering::Relaxed);
        let lost = layout.pending_lost.load(Ordering::Relaxed);
        let discarded = layout.pending_discarded.load(Ordering::Relaxed).min(MAX_DISCARDED);
        let offset = layout.pending_offset.load(Ordering::Relaxed);
        let lane = layout.lane.load(Ordering::Relaxed);
        let Some((_, file)) = lane.checked_sub(1).and_then(|lane| self.lanes.get(&lane)) else { return };
        let Some(first) = header_at(file, offset, &self.uuid) else { return };
        // If two packets were written together, the ring's values describe the second one; its
        // header follows the first one's packet.
        let header = match first.position {
            RESERVED_POSITION => None,
            position if position == tail => Some(first),
            _ => offset.checked_add(first.size).and_then(|next| header_at(file, next, &self.uuid)),
        };
        let is_it = |header: Header| header.position == tail && header.discarded == discarded && header.ring == ring.packet_number();
        if header.is_some_and(is_it) {
            let tail = ring.tail.max(tail);
            let reported = ring.reported.max(lost);
            ring.release(tail, reported);
        }
    }

    /// Truncates the stream files to their packets and completes the description.
    pub fn close(self) {
        let mut walked: Vec<Walked> = Vec::new();
        for (name, file) in self.lanes.values() {
            let lane = walk(name, file, &self.uuid);
            // If this fails, the reserved bytes remain, and the file is still readable.
            let _ = file.set_len(lane.end);
            walked.push(lane);
        }
        let _ = fs::remove_file(self.path.join(".reserve"));
        crate::control::mailbox::left(&self.path);
        walked.sort_by(|a, b| a.file.cmp(&b.file));
        let _ = self.complete(&walked);
    }

    fn complete(&self, walked: &[Walked]) -> Option<()> {
        let mut description: Value = serde_json::from_slice(&read(&self.path.join("longpole.json"))?).ok()?;
        let clock = description.get("clock")?;
        let (frequency, offset) = (clock.get("frequency_hz")?.as_u64()?, clock.get("offset_ns")?.as_i64()?);
        let last = walked.iter().filter_map(|lane| lane.header.as_ref()).map(|header| header.end).max();
        let end = last.map(|end| {
            offset.saturating_add(i64::try_from(u128::from(end) * 1_000_000_000 / u128::from(frequency.max(1))).unwrap_or(i64::MAX))
        });
        let lanes: Vec<Value> = walked.iter().map(describe).collect();
        let discarded = walked.iter().filter_map(|lane| lane.header.as_ref()).map(|header| header.discarded);
        let lost = discarded.fold(0, u64::saturating_add);
        let all = description.as_object_mut()?;
        all.insert("end_ns".into(), end.map_or(all.get("start_ns").cloned().unwrap_or(Value::Null), |end| json!(end)));
        all.insert("lanes".into(), Value::Array(lanes));
        // What else was counted until then, such as captured packets, remains.
        match all.get_mut("loss").and_then(Value::as_object_mut) {
            Some(loss) => drop(loss.insert("events".into(), json!(lost))),
            None => drop(all.insert("loss".into(), json!({ "events": lost }))),
        }
        let note = json!("the recorder ended before its recording; events that it had not taken are in the next recording");
        match all.get_mut("diagnostics").and_then(Value::as_array_mut) {
            Some(diagnostics) => diagnostics.push(note),
            None => {
                all.insert("diagnostics".into(), json!([note]));
            }
        }
        crate::output::recording::describe(&self.path, &description).ok()
    }
}

fn describe(lane: &Walked) -> Value {
    let header = lane.header.as_ref();
    json!({
        "file": format!("user/{}", lane.file),
        "label": header.map(|header| crate::text::printable(&header.label)),
        "pid": header.map(|header| header.pid),
        "tid": header.map(|header| header.tid),
        "thread": header.map(|header| crate::text::printable(&header.thread)),
        "recorded_bytes": lane.recorded,
        "lost": header.map(|header| header.discarded),
    })
}

fn walk(name: &str, file: &File, uuid: &Uuid) -> Walked {
    let length = file.metadata().map_or(0, |found| found.len());
    let mut lane = Walked { file: name.to_owned(), header: None, end: 0, recorded: 0 };
    let mut at = 0;
    for _ in 0..MAX_PACKETS {
        let Some(header) = header_at(file, at, uuid) else { break };
        let Some(next) = at.checked_add(header.size).filter(|next| *next <= length) else { break };
        if header.position != RESERVED_POSITION {
            lane.end = next;
            lane.recorded += header.content - HEADER as u64;
            lane.header = Some(header);
        }
        at = next;
    }
    lane
}

fn header_at(file: &File, offset: u64, uuid: &Uuid) -> Option<Header> {
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Header::decode(&bytes, uuid)
}

/// Reads a file of limited size that is not a link.
fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(64 << 20).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::mapping::Access;
    use crate::output::packet::PAGE;
    use longpole_abi::{MAGIC, RING_DATA, VERSION};

    const SIZE: u64 = 32 << 10;
    const QUARTER: u64 = SIZE / 4;

    fn ring(directory: &Path) -> Ring {
        let runtime = crate::runtime_dir::private(directory);
        let mut bytes = vec![0; RING_DATA + SIZE as usize];
        for (at, word) in [(16, SIZE - 1), (128, MAGIC), (136, u64::from(VERSION)), (144, SIZE), (152, QUARTER)] {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        fs::write(directory.join("1-a.0.ring"), bytes).unwrap();
        Ring::open(&runtime, "1-a.0.ring", 0, true, Access::Write).unwrap()
    }

    fn header(ring: &Ring, position: u64, discarded: u64) -> Header {
        Header {
            begin: 1,
            end: 2,
            content: HEADER as u64,
            size: PAGE as u64,
            sequence: 1,
            discarded,
            pid: 1,
            tid: 1,
            position,
            label: [0; 128],
            thread: [0; 32],
            lane: 0,
            ring: ring.packet_number(),
            stream: 0,
        }
    }

    /// The ring's tail after recovery. `packets`: tail and losses of the packets that begin at the
    /// pending offset. `pending`: pending tail and losses that the ring holds.
    fn tail_after(packets: &[(u64, u64)], pending: (u64, u64)) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        let mut ring = ring(directory.path());
        let uuid = Uuid::parse("00010203-0405-4607-8809-0a0b0c0d0e0f").unwrap();
        let path = directory.path().join("p-0");
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        for (at, (position, discarded)) in packets.iter().enumerate() {
            file.write_all_at(&header(&ring, *position, *discarded).encode(&uuid), ((at + 1) * PAGE) as u64).unwrap();
        }
        let layout = ring.layout();
        layout.lane.store(1, Ordering::Relaxed);
        layout.pending_offset.store(PAGE as u64, Ordering::Relaxed);
        layout.pending_tail.store(pending.0, Ordering::Relaxed);
        layout.pending_discarded.store(pending.1, Ordering::Relaxed);
        KilledRecording { session: 1, path, uuid, lanes: HashMap::from([(0, ("p-0".to_owned(), file))]) }.set_tail(&mut ring);
        ring.tail
    }

    #[test]
    fn committed_events_are_not_taken_again_and_others_are() {
        assert_eq!(tail_after(&[(QUARTER, 0)], (QUARTER, 0)), QUARTER);
        assert_eq!(tail_after(&[], (QUARTER, 0)), 0);
        // An empty packet covers the offset.
        assert_eq!(tail_after(&[(RESERVED_POSITION, 0)], (QUARTER, 0)), 0);
        // A different packet, or the same packet with different losses.
        assert_eq!(tail_after(&[(QUARTER, 0)], (2 * QUARTER, 0)), 0);
        assert_eq!(tail_after(&[(QUARTER, 5)], (QUARTER, 6)), 0);
    }

    #[test]
    fn the_header_of_the_first_of_two_packets_written_together_commits_both() {
        assert_eq!(tail_after(&[(QUARTER, 3), (2 * QUARTER, 7)], (2 * QUARTER, 7)), 2 * QUARTER);
        // The second packet is written before the first one is committed.
        assert_eq!(tail_after(&[(RESERVED_POSITION, 0), (2 * QUARTER, 7)], (2 * QUARTER, 7)), 0);
        assert_eq!(tail_after(&[(QUARTER, 3), (2 * QUARTER, 8)], (2 * QUARTER, 7)), 0);
        assert_eq!(tail_after(&[(QUARTER, 3), (RESERVED_POSITION, 7)], (2 * QUARTER, 7)), 0);
    }
}
