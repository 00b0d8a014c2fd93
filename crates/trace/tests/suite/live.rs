//! Reading a trace while it is written yields the same items and diagnostics as reading the
//! finished trace.

use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::Live;
use longpole_trace::Options;
use longpole_trace::Shifts;
use longpole_trace::Trace;
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
stream { id = 0;
    packet.context := struct { u32 content_size; u32 packet_size; stamp timestamp_begin; stamp timestamp_end; u32 packet_seq_num; u32 events_discarded; };
    event.header := struct { u8 id; stamp timestamp; }; };
event { id = 0; name = tick; stream_id = 0; fields := struct { u8 n; }; };
"#;
const LATE: &str = "event { id = 1; name = late; stream_id = 0; fields := struct { u8 n; }; };\n";

/// Makes a packet with events of these ids and times.
fn packet(begin: u64, end: u64, sequence: u32, discarded: u32, events: &[(u8, u64)]) -> Vec<u8> {
    let body: Vec<u8> = events.iter().flat_map(|(id, t)| [&[*id][..], &t.to_le_bytes(), &[7]].concat()).collect();
    let bits = ((8 + 8 + 16 + 8 + body.len()) * 8) as u32;
    let mut packet = Vec::new();
    for word in [0xC1FC_1FC1, 0, bits, bits] {
        packet.extend(u32::to_le_bytes(word));
    }
    packet.extend([begin.to_le_bytes(), end.to_le_bytes()].concat());
    packet.extend([sequence.to_le_bytes(), discarded.to_le_bytes()].concat());
    packet.extend(body);
    packet
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn line(item: &Item<'_>, catalogue: &Catalogue) -> (i64, String) {
    match item {
        Item::Event(event) => {
            let class = &catalogue.classes[event.class.0 as usize];
            let stream = &catalogue.streams[event.stream.0 as usize].name;
            (event.t_ns, format!("{} {stream} {} {:?}", event.t_ns, class.event_name, event.fields))
        }
        Item::Loss(loss) => (loss.end_ns, format!("{loss:?}")),
    }
}

/// Reads all items that are available.
fn drain(live: &mut Live, lines: &mut Vec<(i64, String)>) {
    while let Some((item, catalogue)) = live.next().unwrap() {
        lines.push(line(&item, catalogue));
    }
}

fn followed(mut live: Live, mut lines: Vec<(i64, String)>) -> (Vec<(i64, String)>, Vec<String>) {
    live.refresh_all().unwrap();
    drain(&mut live, &mut lines);
    (sorted(lines), said(live.diagnostics()))
}

fn read(path: &Path) -> (Vec<(i64, String)>, Vec<String>) {
    let mut trace = Trace::open(&[path], Options::default().as_stored()).unwrap();
    let mut lines = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        lines.push(line(&item, catalogue));
    }
    (sorted(lines), said(trace.diagnostics()))
}

fn sorted(mut lines: Vec<(i64, String)>) -> Vec<(i64, String)> {
    lines.sort();
    lines
}

fn said<T: ToString>(diagnostics: &[T]) -> Vec<String> {
    let mut said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    said.sort();
    said
}

fn open(path: &Path) -> Live {
    Live::open(&[path], Shifts::default()).unwrap()
}

/// Refreshes until the condition holds, which may take more than a second.
fn until(live: &mut Live, lines: &mut Vec<(i64, String)>, what: impl Fn(&Live, &[(i64, String)]) -> bool) {
    let begun = Instant::now();
    while !what(live, lines) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{lines:?} {:?}", live.diagnostics());
        std::thread::sleep(Duration::from_millis(20));
        live.refresh().unwrap();
        drain(live, lines);
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Whole,
    Gap,
    Discarded,
    BadMagic,
    UnknownEvent,
    Contradiction,
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        4 => Just(Whole), 1 => Just(Gap), 1 => Just(Discarded), 1 => Just(BadMagic), 1 => Just(UnknownEvent), 1 => Just(Contradiction)
    ]
}

/// Makes a stream of such packets.
fn stream(pieces: &[Piece]) -> Vec<u8> {
    let (mut bytes, mut sequence, mut discarded) = (Vec::new(), 0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        let begin = 100 * (at as u64 + 1);
        sequence += if matches!(piece, Piece::Gap) { 3 } else { 1 };
        discarded += if matches!(piece, Piece::Discarded) { 5 } else { 0 };
        let end = if matches!(piece, Piece::Contradiction) { begin + 15 } else { begin + 90 };
        let id = if matches!(piece, Piece::UnknownEvent) { 9 } else { 0 };
        let mut made = packet(begin, end, sequence, discarded, &[(0, begin + 10), (id, begin + 20), (0, begin + 30)]);
        if matches!(piece, Piece::BadMagic) {
            made[1] ^= 0xff;
        }
        bytes.extend(made);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn following_a_trace_equals_reading_the_finished_trace(
        pieces in prop::collection::vec(piece(), 1..12),
        cuts in prop::collection::vec(1usize..150, 1..20),
        torn in 0usize..60,
    ) {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("metadata"), METADATA).unwrap();
        let mut bytes = stream(&pieces);
        // A packet follows, because an unknown event at the end would wait for new metadata.
        bytes.extend(packet(9000, 9050, 1000, 1000, &[(0, 9010)]));
        bytes.extend(&packet(9900, 9990, 1001, 1000, &[(0, 9910), (0, 9920), (0, 9930)])[..torn]);
        let file = directory.path().join("s");
        fs::write(&file, b"").unwrap();
        let mut live = open(directory.path());
        let (mut lines, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            append(&file, now);
            live.refresh().unwrap();
            drain(&mut live, &mut lines);
            rest = later;
        }
        prop_assert_eq!(followed(live, lines), read(directory.path()));
    }
}

#[test]
fn damaged_header_is_skipped_and_reported_when_the_next_packet_appears() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("metadata"), METADATA).unwrap();
    let file = directory.path().join("s");
    fs::write(&file, packet(100, 190, 0, 0, &[(0, 110)])).unwrap();
    let mut live = open(directory.path());
    let mut lines = Vec::new();
    drain(&mut live, &mut lines);
    append(&file, &[0xee; 100]);
    live.refresh().unwrap();
    drain(&mut live, &mut lines);
    assert!(lines.len() == 1 && live.diagnostics().is_empty(), "{:?}", live.diagnostics());
    append(&file, &packet(300, 390, 4, 2, &[(0, 310)]));
    live.refresh().unwrap();
    drain(&mut live, &mut lines);
    assert!(lines.iter().any(|(t_ns, _)| *t_ns == 310), "{lines:?}");
    assert!(said(live.diagnostics())[0].contains("wrong magic number 0xeeeeeeee; 100 bytes up to the next packet are not read"));
    assert_eq!(followed(live, lines), read(directory.path()));
}

#[test]
fn event_waits_for_the_metadata_that_describes_it() {
    let directory = TempDir::new().unwrap();
    let metadata = directory.path().join("metadata");
    fs::write(&metadata, METADATA).unwrap();
    let file = directory.path().join("s");
    fs::write(&file, packet(100, 190, 0, 0, &[(0, 110), (1, 120), (0, 130)])).unwrap();
    let mut live = open(directory.path());
    let mut lines = Vec::new();
    drain(&mut live, &mut lines);
    assert!(lines.len() == 1 && live.diagnostics().is_empty(), "{lines:?} {:?}", live.diagnostics());
    append(&metadata, LATE.as_bytes());
    live.refresh().unwrap();
    drain(&mut live, &mut lines);
    assert_eq!(lines.len(), 3);
    // An event that the metadata never describes is damage after a while.
    append(&file, &packet(200, 290, 1, 0, &[(5, 210)]));
    append(&file, &packet(300, 390, 2, 0, &[(0, 310)]));
    until(&mut live, &mut lines, |_, lines| lines.len() == 4);
    assert_eq!(followed(live, lines), read(directory.path()));
}

#[test]
fn unfinished_metadata_is_reported_at_the_end() {
    let place = TempDir::new().unwrap();
    let metadata = place.path().join("metadata");
    fs::write(&metadata, METADATA.to_owned() + "env {\n};\nevent { id = 1; name").unwrap();
    append(&place.path().join("stream"), &packet(10, 30, 0, 0, &[(0, 20)]));
    let followed = followed(open(place.path()), Vec::new());
    assert_eq!(followed, read(place.path()));
    let told = format!("{}:14: the metadata end inside this block", metadata.display());
    assert!(followed.1.len() == 1 && followed.1[0].starts_with(&told), "{:?}", followed.1);
}

#[test]
fn stream_without_packets_continues_inside_an_event() {
    let directory = TempDir::new().unwrap();
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nevent { name = tick; fields := struct { integer { size = 16; } n; integer { size = 8; } l; integer { size = 8; } a[l]; }; };\n";
    fs::write(directory.path().join("metadata"), metadata).unwrap();
    let file = directory.path().join("s");
    let mut live = None;
    let mut lines = Vec::new();
    for byte in [1, 0, 2, 5, 6, 2, 0, 0, 3, 0, 1, 9, 4] {
        append(&file, &[byte]);
        let live = live.get_or_insert_with(|| open(directory.path()));
        live.refresh().unwrap();
        drain(live, &mut lines);
    }
    assert_eq!(lines.len(), 3);
    assert_eq!(followed(live.unwrap(), lines), read(directory.path()));
}

#[test]
fn shortened_removed_and_replaced_files_are_reported_once() {
    let directory = TempDir::new().unwrap();
    let place = |name: &str| directory.path().join("trace").join(name);
    fs::create_dir(directory.path().join("trace")).unwrap();
    fs::write(place("metadata"), METADATA).unwrap();
    let first = packet(100, 190, 0, 0, &[(0, 110)]);
    for name in ["cut", "gone", "over", "new", "moved"] {
        fs::write(place(name), [first.clone(), packet(200, 290, 1, 0, &[(0, 210)])].concat()).unwrap();
    }
    let mut live = open(directory.path());
    let mut lines = Vec::new();
    drain(&mut live, &mut lines);
    assert_eq!(lines.len(), 10);
    OpenOptions::new().write(true).open(place("cut")).unwrap().set_len(first.len() as u64).unwrap();
    fs::remove_file(place("gone")).unwrap();
    // Packets of another trace in the same file, and in another file of the same name.
    fs::write(place("over"), packet(310, 390, 0, 0, &[(0, 311)])).unwrap();
    fs::write(place("other"), packet(320, 390, 0, 0, &[(0, 321), (0, 322), (0, 323)])).unwrap();
    fs::rename(place("other"), place("new")).unwrap();
    let archive = directory.path().join("archive");
    fs::create_dir(&archive).unwrap();
    fs::copy(place("metadata"), archive.join("metadata")).unwrap();
    fs::rename(place("moved"), archive.join("moved")).unwrap();
    append(&archive.join("moved"), &packet(330, 390, 2, 0, &[(0, 331)]));
    until(&mut live, &mut lines, |live, lines| lines.len() == 15 && live.diagnostics().len() == 4);
    lines.sort();
    let said = said(live.diagnostics());
    assert_eq!(lines[10..].iter().map(|(t_ns, _)| *t_ns).collect::<Vec<_>>(), [311, 321, 322, 323, 331]);
    assert_eq!(said.len(), 4, "{said:?}");
    for (name, words) in [("cut", "was made shorter"), ("gone", "was removed"), ("over", "was removed or replaced"), ("new", "replaced")] {
        let name = format!("/{name} ");
        assert_eq!(said.iter().filter(|said| said.contains(&name) && said.contains(words)).count(), 1, "{name} {said:?}");
    }
}

#[test]
fn trace_that_replaces_another_is_read_with_its_own_metadata() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("metadata"), METADATA).unwrap();
    fs::write(directory.path().join("s"), packet(100, 190, 0, 0, &[(0, 110)])).unwrap();
    let mut live = open(directory.path());
    let mut lines = Vec::new();
    drain(&mut live, &mut lines);
    fs::remove_file(directory.path().join("s")).unwrap();
    fs::write(directory.path().join("metadata"), METADATA.replace("tick", "tock")).unwrap();
    fs::write(directory.path().join("t"), packet(200, 290, 0, 0, &[(0, 210)])).unwrap();
    until(&mut live, &mut lines, |_, lines| lines.iter().any(|(_, line)| line.contains("tock")));
    assert!(lines.iter().all(|(t_ns, line)| line.contains("tick") == (*t_ns == 110)), "{lines:?}");
}
