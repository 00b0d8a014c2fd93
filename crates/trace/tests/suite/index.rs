//! The index of a long stream: reading from a late moment skips what is before it, and yields the
//! same items.

use longpole_trace::Item;
use longpole_trace::Moment;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
const PACKET: usize = 4096;
const PACKETS: u64 = 3000;
const SECOND: u64 = 1_000_000_000;

/// Makes a packet with twenty events in half a second. The half second until the next packet has no
/// events, and every tenth packet reports losses before it.
fn packet(number: u64) -> Vec<u8> {
    let begin = 5_000 * SECOND + number * SECOND;
    let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
    let content = 4 + 5 * 8 + 20 * 12;
    for value in [begin, begin + SECOND / 2, content * 8, PACKET as u64 * 8, number / 10 * 7] {
        bytes.extend(value.to_le_bytes());
    }
    for event in 0..20 {
        bytes.extend(((begin + event * 20_000_000) as u32).to_le_bytes());
        bytes.extend((number * 20 + event).to_le_bytes());
    }
    bytes.resize(PACKET, 0);
    bytes
}

fn read(trace: &Path, begin_ns: Option<i64>) -> (Vec<(i64, String)>, Vec<String>) {
    let begin = begin_ns.map(Moment::At);
    let mut trace = Trace::open(&[trace], Options { begin, ..Options::default() }).unwrap();
    let mut items = Vec::new();
    while let Some(item) = trace.next_item().unwrap() {
        items.push(match item {
            Item::Event(event) => (event.t_ns, format!("{:?}", event.fields)),
            Item::Loss(loss) => (loss.end_ns, format!("{} {:?}", loss.begin_ns, loss.events)),
        });
    }
    (items, trace.diagnostics().iter().map(ToString::to_string).collect())
}

/// Overwrites bytes without changing the file's size or modification time.
fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
    file.set_modified(before).unwrap();
}

#[test]
fn items_found_by_the_index_equal_those_of_the_whole_stream() {
    let folder = tempfile::tempdir().unwrap();
    std::env::set_var("XDG_CACHE_HOME", folder.path().join("cache"));
    let trace = folder.path().join("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(trace.join("metadata"), METADATA).unwrap();
    let stream = trace.join("stream");
    fs::write(&stream, (0..PACKETS).flat_map(packet).collect::<Vec<u8>>()).unwrap();
    let whole = read(&trace, None).0;
    assert_eq!(whole.iter().filter(|(_, what)| what.contains("U64")).count() as u64, PACKETS * 20);
    let index = trace.join("derived/stream.index");
    assert!(!index.exists(), "nobody asked for a moment");

    let from = |begin: i64| whole.iter().filter(|(t_ns, _)| *t_ns >= begin).cloned().collect::<Vec<_>>();
    let at = |packet: u64, ns: u64| (5_000 * SECOND + packet * SECOND + ns) as i64;
    // Within a packet, at its first event, between two packets, at a loss, at the begin, and after
    // the end.
    let moments = [at(2500, 33_000_000), at(1234, 0), at(700, 700_000_000), at(2009, 900_000_000), at(1, 0), at(0, 0), at(PACKETS, 0)];
    for begin in moments {
        // First the index is built, then it is read.
        for _ in 0..2 {
            assert!(read(&trace, Some(begin)).0 == from(begin), "from {begin}");
            assert!(begin == at(0, 0) || index.exists());
        }
    }

    // A packet that can be skipped is not read.
    let good = packet(100);
    overwrite(&stream, 100 * PACKET as u64, &[0xff; 200]);
    let (items, diagnostics) = read(&trace, Some(moments[0]));
    assert!(items == from(moments[0]));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert!(!read(&trace, None).1.is_empty());

    // A damaged index, or one that does not fit the headers, is built again. Building passes over
    // all packets, so it meets the damage in the stream.
    let kept = fs::read(&index).unwrap();
    overwrite(&index, kept.len() as u64 / 2, &[!kept[kept.len() / 2]]);
    assert!(!read(&trace, Some(moments[0])).1.is_empty());
    overwrite(&stream, 100 * PACKET as u64, &good);
    fs::write(&index, b"LPINDEX1").unwrap();
    assert!(read(&trace, Some(moments[0])) == (from(moments[0]), Vec::new()));
    assert_eq!(fs::read(&index).unwrap(), kept);

    // The index does not fit a stream that has grown.
    OpenOptions::new().append(true).open(&stream).unwrap().write_all(&packet(PACKETS)).unwrap();
    let more = read(&trace, Some(moments[0])).0;
    assert!(more.len() >= from(moments[0]).len() + 20 && more[..from(moments[0]).len()] == from(moments[0])[..]);
    assert_ne!(fs::read(&index).unwrap(), kept);

    // If no index can be stored next to the trace, it is stored in the cache folder.
    fs::remove_dir_all(trace.join("derived")).unwrap();
    File::create(trace.join("derived")).unwrap();
    let again = read(&trace, Some(moments[0])).0;
    assert!(again == more);
    let cached: Vec<PathBuf> =
        fs::read_dir(folder.path().join("cache/longpole/index")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(cached.len(), 1);
    assert!(read(&trace, Some(moments[0])).0 == more);
}

/// Writes packets of several threads into one file, so that they overlap in time: one thread for
/// the whole time, one at the begin only, one at both ends, and four alternating ones. The context
/// names the thread.
fn threads(trace: &Path, packets: u64) {
    const SIZE: usize = 512;
    let of = |number: u64| match number {
        0 => ("all", packets),
        1 => ("early", 1),
        n if n == 2 || n == packets - 1 => ("twice", 1),
        n => (["w0", "w1", "w2", "w3"][n as usize % 4], 2),
    };
    let packet = |number: u64| {
        let (thread, seconds) = of(number);
        let begin = 5_000 * SECOND + number * SECOND;
        let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
        let content = 4 + 8 + 5 * 8 + 20 * 12;
        bytes.extend(format!("{thread:\0<8}").bytes());
        for value in [begin, begin + seconds * SECOND, content * 8, SIZE as u64 * 8, number / 10 * 7] {
            bytes.extend(value.to_le_bytes());
        }
        for event in 0..20 {
            bytes.extend(((begin + event * 20_000_000) as u32).to_le_bytes());
            bytes.extend((number * 20 + event).to_le_bytes());
        }
        bytes.resize(SIZE, 0);
        bytes
    };
    fs::create_dir(trace).unwrap();
    let context = "packet.context := struct {";
    fs::write(trace.join("metadata"), METADATA.replace(context, &format!("{context} integer {{ size = 8; encoding = UTF8; }} thread[8];")))
        .unwrap();
    fs::write(trace.join("stream"), (0..packets).flat_map(packet).collect::<Vec<u8>>()).unwrap();
}

/// Returns the number of bytes that this thread has read from files.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Returns the number of items in two seconds from a moment on, and the number of bytes that were
/// read for them.
fn two_seconds(trace: &Path, begin_ns: i64) -> (usize, u64) {
    let before = bytes_read();
    let (begin, end) = (Some(Moment::At(begin_ns)), Some(Moment::At(begin_ns + 2 * SECOND as i64)));
    let mut trace = Trace::open(&[trace], Options { begin, end, ..Options::default() }).unwrap();
    let mut items = 0;
    while trace.next_item().unwrap().is_some() {
        items += 1;
    }
    (items, bytes_read() - before)
}

#[test]
fn items_found_by_the_index_are_the_same_if_packets_overlap() {
    const PACKETS: u64 = 9000;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    threads(&trace, PACKETS);
    let (whole, diagnostics) = read(&trace, None);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(whole.iter().filter(|(_, what)| what.contains("U64")).count() as u64, PACKETS * 20);
    let from = |begin: i64| whole.iter().filter(|(t_ns, _)| *t_ns >= begin).cloned().collect::<Vec<_>>();
    let at = |second: u64, ns: u64| ((5_000 + second) * SECOND + ns) as i64;
    let index = trace.join("derived/stream.index");
    for begin in [at(4500, 33_000_000), at(8998, 0), at(3, 700_000_000), at(0, 0), at(9001, 0)] {
        for _ in 0..2 {
            assert!(read(&trace, Some(begin)).0 == from(begin), "from {begin}");
            assert!(index.exists());
        }
    }

    // Damage in any block of the index is detected.
    let kept = fs::read(&index).unwrap();
    for block in (0..kept.len() / 4096).step_by(5) {
        overwrite(&index, block as u64 * 4096 + 24, &[0xff; 16]);
        let begin = at(100 * block as u64, 0);
        assert!(read(&trace, Some(begin)).0 == from(begin), "block {block}");
        fs::write(&index, &kept).unwrap();
    }
}

#[test]
fn cost_of_finding_a_moment_does_not_grow_with_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut costs = Vec::new();
    for packets in [10_000, 120_000] {
        let trace = folder.path().join(packets.to_string());
        threads(&trace, packets);
        let begin = ((5_000 + packets / 2) * SECOND) as i64;
        let (first, built) = two_seconds(&trace, begin);
        let (items, cost) = two_seconds(&trace, begin);
        assert_eq!(items, first);
        assert!(items > 40 && built > fs::metadata(trace.join("stream")).unwrap().len(), "{items} items, {built} bytes");
        costs.push(cost);
    }
    // Twelve times as many packets need four more steps of a search, of 4 KiB at most, for each of
    // seven threads.
    assert!(costs[1] < costs[0] + 7 * 4 * 4096, "{costs:?}");
}
