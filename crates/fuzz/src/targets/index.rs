//! The index of a long stream, beside a trace that is sound.

use super::Target;
use longpole_trace::{Item, Moment, Options, Trace};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
clock { name = c; freq = 1000000000; };
stream {
  packet.context := struct {
    integer { size = 64; map = clock.c.value; } timestamp_begin; integer { size = 64; map = clock.c.value; } timestamp_end;
    integer { size = 64; } content_size; integer { size = 64; } packet_size; integer { size = 64; } events_discarded;
  };
  event.header := struct { integer { size = 32; map = clock.c.value; } timestamp; };
};
event { name = e; fields := struct { integer { size = 64; } n; }; };
";
const PACKET: usize = 64 << 10;
const PACKETS: u64 = 80;
/// More than are sorted at a time in some of the packets, so that there is something to pass over.
const EVENTS: u64 = 50;
const SECOND: u64 = 1_000_000_000;
/// Magic, size, time of change, and hashes of metadata and of headers.
const FIXED: usize = 8 + 4 * 8;
/// As many packets are looked at.
const CHECKED: usize = 16;

/// The first byte says from where on is read; of the second, whether the rest is the file, or its entries in one that is otherwise right.
pub const INDEX: Target = Target {
    name: "index",
    what: "indexes of a stream's packets, beside one that is sound",
    seeds: |folder| {
        let Sound { index, .. } = sound(folder)?;
        let entries = &index[FIXED..index.len() - 8];
        Ok([100, 200].iter().flat_map(|from| [[&[*from, 0], &index[..]].concat(), [&[*from, 1], entries].concat()]).collect())
    },
    words: &["LPINDEX2"],
    run: |input, folder| {
        let (Some((&[from, how], rest)), Ok(sound)) = (input.split_first_chunk::<2>(), sound(folder)) else { return };
        let is_forged = how & 1 != 0;
        let bytes = if is_forged { forged(sound, rest) } else { rest.to_vec() };
        let begin = (sound.items[0].0).saturating_add((u64::from(from) * PACKETS * SECOND / 256) as i64);
        if fs::write(folder.join("sound/derived/stream.index"), bytes).is_err() {
            return;
        }
        let found = read(&folder.join("sound"), Some(begin));
        // Who knows how checks are made can write an index that leaves something out, but none that does harm.
        if !is_forged || rest == &sound.index[FIXED..sound.index.len() - 8] {
            let expected = sound.items.iter().filter(|(t_ns, _)| *t_ns >= begin);
            assert!(found.unwrap_or_default().iter().eq(expected), "other items from {begin} on");
        }
    },
};

/// A trace, what is in it, and its index.
struct Sound {
    stream: Vec<u8>,
    items: Vec<(i64, String)>,
    index: Vec<u8>,
}

/// Made once.
fn sound(folder: &Path) -> io::Result<&'static Sound> {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    if let Some(sound) = SOUND.get() {
        return Ok(sound);
    }
    let trace = folder.join("sound");
    fs::create_dir(&trace)?;
    fs::write(trace.join("metadata"), METADATA)?;
    let stream: Vec<u8> = (0..PACKETS).flat_map(packet).collect();
    fs::write(trace.join("stream"), &stream)?;
    let items = read(&trace, None).map_err(io::Error::other)?;
    read(&trace, Some(items[items.len() / 2].0)).map_err(io::Error::other)?;
    let index = fs::read(trace.join("derived/stream.index"))?;
    Ok(SOUND.get_or_init(|| Sound { stream, items, index }))
}

/// Some events in half a second, then half a second without any; every tenth packet tells of losses before it.
fn packet(number: u64) -> Vec<u8> {
    let begin = 5_000 * SECOND + number * SECOND;
    let content = 4 + 5 * 8 + EVENTS * 12;
    let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
    for value in [begin, begin + SECOND / 2, content * 8, PACKET as u64 * 8, number / 10 * 7] {
        bytes.extend(value.to_le_bytes());
    }
    for event in 0..EVENTS {
        bytes.extend(((begin + event * SECOND / 100) as u32).to_le_bytes());
        bytes.extend((number * EVENTS + event).to_le_bytes());
    }
    bytes.resize(PACKET, 0);
    bytes
}

fn read(trace: &Path, begin_ns: Option<i64>) -> Result<Vec<(i64, String)>, longpole_trace::Error> {
    let mut trace = Trace::open(&[trace], Options { begin: begin_ns.map(Moment::At), ..Options::default() })?;
    let mut items = Vec::new();
    while let Some(item) = trace.next_item()? {
        items.push(match item {
            Item::Event(event) => (event.t_ns, format!("{:?}", event.fields)),
            Item::Loss(loss) => (loss.end_ns, format!("{} {:?}", loss.begin_ns, loss.events)),
        });
    }
    Ok(items)
}

/// An index with these entries, and all else as it must be.
fn forged(sound: &Sound, entries: &[u8]) -> Vec<u8> {
    let mut headers = DefaultHasher::new();
    let (entries, _) = entries.as_chunks::<24>();
    let step = entries.len().div_ceil(CHECKED).max(1);
    for entry in entries.iter().step_by(step).chain(entries.last()) {
        let offset = entry.first_chunk().map_or(0, |offset| u64::from_le_bytes(*offset));
        let rest = usize::try_from(offset).ok().and_then(|offset| sound.stream.get(offset..)).unwrap_or_default();
        headers.write(&rest[..rest.len().min(64)]);
    }
    let mut bytes = [&sound.index[..FIXED - 8], &headers.finish().to_le_bytes(), entries.as_flattened()].concat();
    let mut all = DefaultHasher::new();
    all.write(&bytes);
    bytes.extend(all.finish().to_le_bytes());
    bytes
}
