//! Seeds of inputs: files as our own generators and other tools write them.

use anyhow::Context;
use longpole_ctf::write::{self, Layout};
use longpole_ctf::Metadata;
use longpole_pcapng::{Direction, Interface, Packet, Section, Statistics, Writer};
use longpole_sim::{ctf::Ctf, engine, log::Log, scenarios};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const FORMAT: &str = include_str!("../../ftrace/tests/fixtures/sched.sched_switch.format");
pub const HEADER_PAGE: &str = include_str!("../../ftrace/tests/fixtures/header_page");
const HEADER_EVENT: &str = include_str!("../../ftrace/tests/fixtures/header_event");
pub const PAGES: &[u8] = include_bytes!("../../ftrace/tests/fixtures/cpu0");

/// Separator between the files of one input.
pub const BORDER: &[u8] = b"\n%%%%\n";

/// Writes the files of an input into a folder and returns the folder. Missing files are empty.
pub fn part(input: &[u8], folder: &Path, names: &[&str]) -> PathBuf {
    let mut rest = input;
    for name in names {
        let border = rest.windows(BORDER.len()).position(|window| window == BORDER);
        let part = &rest[..border.unwrap_or(rest.len())];
        if std::fs::write(folder.join(name), part).is_err() {
            let _ = std::fs::create_dir(folder);
            let _ = std::fs::write(folder.join(name), part);
        }
        rest = border.map_or(&[], |at| &rest[at + BORDER.len()..]);
    }
    folder.to_owned()
}

/// A CTF 1.8 description that uses every feature, with lengths and tags that mutation makes absurd.
const EVERYTHING: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; integer { size = 8; } stream_id; }; };
clock { name = c; freq = 1234567; offset_s = 9; };
typealias integer { size = 64; } := u64;
typealias integer { size = 8; } := u8;
typealias integer { size = 27; align = 1; map = clock.c.value; } := stamp;
stream {
    id = 0;
    packet.context := struct { u64 packet_size; u64 content_size; u64 timestamp_begin; u8 events_discarded; u8 packet_seq_num; };
    event.header := struct {
        enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
        variant <id> { struct { stamp timestamp; } compact; struct { u8 id; u64 timestamp; } extended; } v;
    } align(8);
    event.context := struct { u8 n; };
};
event { name = a; id = 0; fields := struct { u64 n; u64 list[n]; string s; }; };
event { name = b; id = 1; fields := struct { u8 n; struct { u8 m; struct { } inner[m]; string names[m]; } list[n]; }; };
event { name = c; id = 2; fields := struct { integer { size = 3; } x; integer { size = 61; align = 1; } y; enum : u8 { A = 0 ... 99, B } t; variant <t> { u8 A; string B; } v; }; };
event { name = d; id = 3; fields := struct { u64 n; struct { } list[n]; integer { size = 8; encoding = UTF8; } text[1000000000000]; }; };
"#;

/// The same for features that only CTF 2 has.
const FRAGMENTS: [&str; 7] = [
    r#"{"type":"preamble","version":2}"#,
    r#"{"type":"field-class-alias","name":"u8","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}}"#,
    r#"{"type":"trace-class","packet-header-field-class":{"type":"structure","member-classes":[
 {"name":"magic","field-class":{"type":"fixed-length-unsigned-integer","length":32,"byte-order":"little-endian","roles":["packet-magic-number"]}},
 {"name":"id","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian","roles":["data-stream-class-id"]}}]}}"#,
    r#"{"type":"clock-class","id":"c","frequency":1234567,"offset-from-origin":{"seconds":9,"cycles":5},"origin":"unix-epoch"}"#,
    r#"{"type":"data-stream-class","default-clock-class-id":"c",
 "packet-context-field-class":{"type":"structure","member-classes":[
  {"name":"size","field-class":{"type":"fixed-length-unsigned-integer","length":64,"byte-order":"little-endian","roles":["packet-total-length"]}},
  {"name":"content","field-class":{"type":"fixed-length-unsigned-integer","length":64,"byte-order":"little-endian","roles":["packet-content-length"]}},
  {"name":"lost","field-class":{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"big-endian","roles":["discarded-event-record-counter-snapshot"]}}]},
 "event-record-header-field-class":{"type":"structure","member-classes":[
  {"name":"id","field-class":{"type":"variable-length-unsigned-integer","roles":["event-record-class-id"]}},
  {"name":"t","field-class":{"type":"fixed-length-unsigned-integer","length":27,"byte-order":"little-endian","roles":["default-clock-timestamp"]}}]},
 "event-record-common-context-field-class":{"type":"structure","member-classes":[{"name":"n","field-class":"u8"}]}}"#,
    r#"{"type":"event-record-class","id":7,"name":"a","payload-field-class":{"type":"structure","member-classes":[
 {"name":"n","field-class":{"type":"variable-length-signed-integer","mappings":{"x":[[0,9]],"y":[[-1,-1]]}}},
 {"name":"has","field-class":{"type":"fixed-length-boolean","length":8,"byte-order":"little-endian"}},
 {"name":"maybe","field-class":{"type":"optional","selector-field-location":{"path":["has"]},"field-class":{"type":"static-length-string","length":4,"encoding":"utf-16be"}}},
 {"name":"blob","field-class":{"type":"dynamic-length-blob","length-field-location":{"origin":"event-record-common-context","path":["n"]},"media-type":"x/y"}},
 {"name":"list","field-class":{"type":"dynamic-length-array","minimum-alignment":16,"length-field-location":{"origin":"event-record-common-context","path":["n"]},
  "element-field-class":{"type":"structure","member-classes":[{"name":"deep","field-class":{"type":"dynamic-length-string","length-field-location":{"origin":"event-record-common-context","path":["n"]}}}]}}},
 {"name":"bits","field-class":{"type":"fixed-length-bit-map","length":5,"byte-order":"little-endian","bit-order":"last-to-first","flags":{"f":[[0,2]],"g":[[3,4]]}}}]}}"#,
    r#"{"type":"event-record-class","id":1,"name":"b","payload-field-class":{"type":"structure","minimum-alignment":32,"member-classes":[
 {"name":"tag","field-class":"u8"},
 {"name":"v","field-class":{"type":"variant","selector-field-location":{"path":["tag"]},"options":[
  {"name":"p","selector-field-ranges":[[0,3]],"field-class":{"type":"null-terminated-string","encoding":"utf-32le"}},
  {"selector-field-ranges":[[4,200]],"field-class":{"type":"fixed-length-floating-point-number","length":16,"byte-order":"big-endian"}}]}},
 {"name":"s","field-class":{"type":"static-length-array","length":3,"element-field-class":{"type":"static-length-blob","length":2}}}]}}"#,
];

/// Files of other tools with at most `largest` bytes each; empty unless `LONGPOLE_CORPORA` is set.
pub fn corpora(folder: &str, largest: u64) -> Vec<Vec<u8>> {
    let Some(root) = std::env::var_os("LONGPOLE_CORPORA") else { return Vec::new() };
    let mut files = Vec::new();
    collect(&PathBuf::from(root).join(folder), &mut files, 0);
    files.sort();
    files
        .iter()
        .filter(|path| path.metadata().is_ok_and(|found| found.len() <= largest))
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>, depth: usize) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < 8 => collect(&entry.path(), files, depth + 1),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// The CTF traces below a folder: the metadata, and the begin of some streams.
fn ctf_below(root: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    collect(root, &mut files, 0);
    files.sort();
    let traces = files.iter().filter(|path| path.file_name().is_some_and(|name| name == "metadata"));
    let whole = |metadata: &PathBuf| {
        let mut input = std::fs::read(metadata).ok().filter(|text| text.len() < 64 << 10)?;
        let folder = metadata.parent();
        for stream in files.iter().filter(|path| path.parent() == folder && *path != metadata).take(3) {
            input.extend_from_slice(BORDER);
            let bytes = std::fs::read(stream).ok()?;
            input.extend_from_slice(&bytes[..bytes.len().min(16 << 10)]);
        }
        Some(input)
    };
    traces.filter_map(whole).collect()
}

/// Machine logs of simulated systems.
pub fn machine_logs() -> anyhow::Result<Vec<Vec<u8>>> {
    let log = |scenario| {
        let sketch = scenarios::build(scenario, 1, Some(20));
        let mut log = Log::new(Vec::new());
        // A log that was cut is a valid seed, too.
        let _ = engine::run(&sketch.system, &mut log);
        log.finish().context("a log in memory")
    };
    scenarios::ALL.iter().map(log).collect()
}

/// The simulated systems as traces that probes would have recorded.
pub fn simulated_traces(folder: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    for scenario in scenarios::ALL {
        let sketch = scenarios::build(scenario, 1, Some(20));
        if Ctf::cannot_tell(&sketch.system).is_none() {
            let mut ctf = Ctf::create(&folder.join(scenario.name))?;
            let _ = engine::run(&sketch.system, &mut ctf);
            ctf.finish()?;
        }
    }
    Ok(ctf_below(folder))
}

/// All available CTF traces, of both versions.
pub fn ctf_traces(folder: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut all = simulated_traces(folder)?;
    // A packet of the first stream class, with correct sizes.
    let with_packet = |metadata: &str, number: u8| {
        let magic_and_class = [0xc1, 0x1f, 0xfc, 0xc1, 0];
        let sizes = (100u64 * 8).to_le_bytes();
        [metadata.as_bytes(), BORDER, &magic_and_class, &sizes, &sizes, &[number; 79]].concat()
    };
    let one = Arc::new(Metadata::from_text(EVERYTHING)?);
    let two = write::metadata(Layout::to_ctf2(&one)?.metadata());
    let fragments: String = FRAGMENTS.iter().map(|fragment| format!("\x1e{fragment}\n")).collect();
    for text in [EVERYTHING, &fragments, &two] {
        all.extend([with_packet(text, 7), with_packet(text, 1), with_packet(text, 0x42)]);
    }
    if let Some(root) = std::env::var_os("LONGPOLE_CORPORA").map(PathBuf::from) {
        for folder in ["babeltrace", "yactfr", "tracecompass-test-traces", "genode"] {
            all.extend(ctf_below(&root.join(folder)));
        }
    }
    Ok(all)
}

pub fn capture() -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &Section { os: "seed", ..Section::default() })?;
    let ids = [writer.add_interface(&Interface::ethernet("eth0", 96))?, writer.add_interface(&Interface::ethernet("eth1", 0))?];
    for number in 0..6u64 {
        let data: Vec<u8> = (0..40 + number as u8).collect();
        writer.packet(&Packet {
            interface: ids[number as usize % 2],
            time_ns: 1_700_000_000_000_000_000 + number * 1000,
            data: &data,
            original_len: data.len() as u32 + 7,
            direction: if number % 3 == 0 { Direction::Inbound } else { Direction::Outbound },
            drop_count: (number == 3).then_some(2),
            packet_id: Some(number),
            comment: (number == 4).then_some("a comment"),
        })?;
    }
    for id in ids {
        writer.statistics(&Statistics { received: Some(3), ..Statistics::new(id, 1_700_000_000_000_100_000) })?;
    }
    Ok(writer.into_inner())
}

/// pcap files of either byte order and resolution.
pub fn old_captures() -> Vec<Vec<u8>> {
    let file = |magic: u32, word: fn(u32) -> [u8; 4]| {
        let mut bytes = word(magic).to_vec();
        bytes.extend([0, 2, 0, 4]);
        if word(1)[0] == 1 {
            bytes[4..8].copy_from_slice(&[2, 0, 4, 0]);
        }
        [0, 0, 65_535, 1].iter().for_each(|value| bytes.extend(word(*value)));
        for number in 0..4 {
            [1_700_000_000 + number, 17 * number, 20, 60].iter().for_each(|value| bytes.extend(word(*value)));
            bytes.extend([number as u8; 20]);
        }
        bytes
    };
    vec![file(0xa1b2_c3d4, u32::to_le_bytes), file(0xa1b2_c3d4, u32::to_be_bytes), file(0xa1b2_3c4d, u32::to_le_bytes)]
}

/// A trace.dat of version 6 with one CPU and one event format.
pub fn trace_dat() -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    bytes.extend(4096u32.to_le_bytes());
    for (name, text) in [("header_page\0", HEADER_PAGE), ("header_event\0", HEADER_EVENT)] {
        bytes.extend(name.bytes());
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(b"sched\0");
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((FORMAT.len() as u64).to_le_bytes());
    bytes.extend(FORMAT.bytes());
    // Symbols, formats of texts, command lines.
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    let names = b"1 init\n27 worker\n";
    bytes.extend((names.len() as u64).to_le_bytes());
    bytes.extend(names);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(b"flyrecord\0");
    let begin = (bytes.len() + 16).next_multiple_of(4096);
    bytes.extend((begin as u64).to_le_bytes());
    bytes.extend((PAGES.len() as u64).to_le_bytes());
    bytes.resize(begin, 0);
    bytes.extend(PAGES);
    bytes
}

/// A perf.data as if several threads had written it: its records are repeated in additional files
/// next to it.
pub fn perf_folder(file: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| file.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes).map(|word| word as usize);
    let records = file.get(word(40)?..)?.get(..word(48)?)?;
    Some([file, BORDER, records, BORDER, &records[..records.len().min(2000)]].concat())
}

/// A file written by `perf record`; empty if perf is not installed or not permitted.
pub fn perf_data(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("perf.data");
    let run = std::process::Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-g", "-F", "999", "-o"])
        .arg(&path)
        .args(["--", "true"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    match run {
        Ok(status) if status.success() => std::fs::read(&path).into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_ftrace::{Dat, Item};
    use std::io::Cursor;

    #[test]
    fn the_trace_dat_seed_contains_events() {
        let dat = Dat::open(Cursor::new(trace_dat())).unwrap();
        let mut events = 0;
        dat.stream(0, 0).unwrap().for_each(|item| events += usize::from(matches!(item, Item::Event(_))), |error| panic!("{error}"));
        assert!(events > 10, "{events}");
    }

    #[test]
    fn simulated_systems_yield_logs_and_traces() {
        let folder = tempfile::tempdir().unwrap();
        assert!(machine_logs().unwrap().iter().all(|log| log.len() > 100));
        let traces = simulated_traces(folder.path()).unwrap();
        assert!(traces.len() > 3 && traces.iter().all(|trace| trace.windows(BORDER.len()).any(|window| window == BORDER)));
    }
}
