//! The index of a long stream, next to a sound trace.

use super::Target;
use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Trace;
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
/// Events per packet. A part of the packets already has more events than the reader sorts at once
/// (1024), so that it has packets to skip.
const EVENTS: u64 = 50;
const SECOND: u64 = 1_000_000_000;
/// Bytes of content in a block, before its checksum.
const CONTENT: usize = 511 * 8;
/// Bytes of the magic, size, time of change and metadata, without which an index is not read.
const IDENTITY: usize = 4 * 8;
/// Position in the first block of the checksum of packet headers. `CHECKED` is the position of the
/// headers' offsets in the stream, which follow their number.
const HEADERS: usize = 6 * 8;
const CHECKED: usize = 8 * 8;

/// The first byte selects the time from which the trace is read. The second byte selects if the
/// rest is the index file itself, or the content of blocks to which correct checksums are added.
pub const INDEX: Target = Target {
    name: "index",
    what: "indexes of a stream's packets, next to a sound one",
    seeds: |folder| {
        let Sound { index, .. } = sound(folder)?;
        let contents = contents(index);
        Ok([100, 200].iter().flat_map(|from| [[&[*from, 0], &index[..]].concat(), [&[*from, 1], &contents[..]].concat()]).collect())
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
        // An index with correct checksums may have been forged so that it omits events, but it must
        // not cause harm.
        if !is_forged || rest == contents(&sound.index) {
            let expected = sound.items.iter().filter(|(t_ns, _)| *t_ns >= begin);
            assert!(found.unwrap_or_default().iter().eq(expected), "other items from {begin} on");
        }
    },
};

/// A trace, its items, and its index.
struct Sound {
    stream: Vec<u8>,
    items: Vec<(i64, String)>,
    index: Vec<u8>,
}

/// The sound trace, made once.
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

/// A packet with some events in half a second, followed by half a second without any. Every tenth
/// packet reports a loss before it.
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

/// The content of the blocks of an index, without the checksums.
fn contents(index: &[u8]) -> Vec<u8> {
    index.chunks(CONTENT + 8).flat_map(|block| &block[..block.len() - 8]).copied().collect()
}

/// An index of this stream whose blocks have this content, with all checksums correct.
fn forged(sound: &Sound, contents: &[u8]) -> Vec<u8> {
    let mut contents = contents.to_vec();
    contents.resize(contents.len().next_multiple_of(CONTENT).max(CONTENT), 0);
    contents[..IDENTITY].copy_from_slice(&sound.index[..IDENTITY]);
    let (offsets, _) = contents[CHECKED..CONTENT].as_chunks::<8>();
    let count = u64::from_le_bytes(*contents[CHECKED - 8..].first_chunk().expect("a block is longer"));
    let mut headers = DefaultHasher::new();
    for offset in offsets.iter().take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let rest = usize::try_from(u64::from_le_bytes(*offset)).ok().and_then(|offset| sound.stream.get(offset..)).unwrap_or_default();
        headers.write(&rest[..rest.len().min(64)]);
    }
    contents[HEADERS..HEADERS + 8].copy_from_slice(&headers.finish().to_le_bytes());
    let mut bytes = Vec::new();
    for content in contents.chunks(CONTENT) {
        let mut sum = DefaultHasher::new();
        sum.write(content);
        bytes.extend(content);
        bytes.extend(sum.finish().to_le_bytes());
    }
    bytes
}
