//! Traces as files: of ours, and of other tools.

use super::Target;
use crate::seeds::{self, BORDER};
use longpole_ctf::Metadata;
use longpole_trace::{ByteOrder, Dump, Item, Log, Options, Trace, Value, Word};
use std::path::Path;

/// Reads all of it; an error is an answer.
pub fn read(path: &Path, options: Options) {
    let Ok(mut trace) = Trace::open(&[path], options).map_err(|error| error.to_string()) else { return };
    loop {
        match trace.next_with_catalogue() {
            Ok(Some((item, catalogue))) => {
                if let Item::Event(event) = item {
                    let class = &catalogue.classes[event.class.0 as usize];
                    assert!(event.fields.len() <= class.fields.len());
                    event.fields.iter().for_each(touch);
                }
            }
            Ok(None) => break,
            Err(error) => {
                drop(error.to_string());
                break;
            }
        }
    }
    trace.oddities().iter().for_each(|oddity| drop(oddity.to_string()));
}

fn touch(value: &Value<'_>) {
    let _ = (value.as_u64(), format!("{value:?}"));
}

pub(super) fn file(input: &[u8], folder: &Path, options: Options) {
    let path = folder.join("input");
    if std::fs::write(&path, input).is_ok() {
        read(&path, options);
    }
}

pub const CTF_METADATA: Target = Target {
    name: "ctf_metadata",
    what: "CTF's description of events",
    seeds: |folder| {
        let first = |trace: Vec<u8>| {
            trace.windows(BORDER.len()).position(|window| window == BORDER).map_or(trace.clone(), |at| trace[..at].to_vec())
        };
        let mut all: Vec<Vec<u8>> = seeds::simulated_traces(folder)?.into_iter().map(first).collect();
        all.truncate(3);
        all.push(EVERYTHING.as_bytes().to_vec());
        all.extend(seeds::corpora_ctf("babeltrace").into_iter().map(first).take(200));
        Ok(all)
    },
    words: WORDS,
    run: |input, _| match Metadata::parse(input) {
        Ok(_) => {}
        Err(error) => drop(error.to_string()),
    },
};

const WORDS: &[&str] = &[
    "trace {",
    "clock {",
    "stream {",
    "event {",
    "env {",
    "typealias",
    ":= ",
    "struct {",
    "variant <",
    "enum : ",
    "integer {",
    "floating_point {",
    "string",
    "size = 64;",
    "align = 8;",
    "signed = true;",
    "base = 16;",
    "encoding = UTF8;",
    "map = clock.c.value;",
    "byte_order = be;",
    "major = 1; minor = 8;",
    "packet.header",
    "packet.context",
    "event.header",
    "event.context",
    "fields",
    "content_size",
    "packet_size",
    "timestamp_begin",
    "timestamp_end",
    "events_discarded",
    "stream_id",
    "[1000000000000]",
    "typedef",
    "...",
    "/*",
    "*/",
    "//",
];

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

pub const CTF: Target = Target {
    name: "ctf",
    what: "CTF traces: metadata and up to three streams",
    seeds: |folder| {
        let mut all = seeds::simulated_traces(folder)?;
        let mut whole = EVERYTHING.as_bytes().to_vec();
        whole.extend(BORDER);
        whole.extend([0xc1, 0x1f, 0xfc, 0xc1, 0]);
        whole.extend((100u64 * 8).to_le_bytes());
        whole.extend((100u64 * 8).to_le_bytes());
        whole.extend([7; 79]);
        all.push(whole);
        all.extend(seeds::corpora_ctf("babeltrace").into_iter().take(200));
        all.extend(seeds::corpora_ctf("tracecompass-test-traces").into_iter().take(50));
        all.extend(seeds::corpora_ctf("genode"));
        Ok(all)
    },
    words: WORDS,
    run: |input, folder| {
        let mut rest = input;
        for name in ["metadata", "stream0", "stream1", "stream2"] {
            let border = rest.windows(BORDER.len()).position(|window| window == BORDER);
            let part = &rest[..border.unwrap_or(rest.len())];
            if std::fs::write(folder.join("ctf").join(name), part).is_err() {
                let _ = std::fs::create_dir(folder.join("ctf"));
                let _ = std::fs::write(folder.join("ctf").join(name), part);
            }
            rest = border.map_or(&[], |at| &rest[at + BORDER.len()..]);
        }
        read(&folder.join("ctf"), Options::default());
    },
};

pub const PCAPNG: Target = Target {
    name: "pcapng",
    what: "captures: pcapng and pcap",
    seeds: |_| {
        let mut all = vec![seeds::capture()?];
        all.extend(seeds::old_captures());
        all.extend(seeds::corpora("pcapng", 16 << 10));
        Ok(all)
    },
    words: &["\x0a\x0d\x0d\x0a", "\x4d\x3c\x2b\x1a", "\x06\0\0\0", "\x01\0\0\0", "\x05\0\0\0", "\x03\0\0\0", "\x04\0\0\0"],
    run: |input, folder| file(input, folder, Options::default()),
};

pub const PERF: Target = Target {
    name: "perf",
    what: "perf.data",
    seeds: |folder| {
        let mut all = seeds::perf_data(folder);
        all.extend(seeds::corpora("perf-data", 1 << 20));
        all.push(b"PERFILE2\x68\0\0\0\0\0\0\0\x88\0\0\0\0\0\0\0".to_vec());
        Ok(all)
    },
    words: &["PERFILE2", "2ELIFREP"],
    run: |input, folder| file(input, folder, Options::default()),
};

/// The first byte says how the rest is laid out.
pub const SEL4: Target = Target {
    name: "sel4",
    what: "raw logs of the seL4 kernel",
    seeds: |_| {
        let with = |how: u8, log: &[u8]| [&[how][..], log].concat();
        Ok(vec![
            with(0, include_bytes!("../../../trace/tests/fixtures/sel4/x86_64.entries")),
            with(1, include_bytes!("../../../trace/tests/fixtures/sel4/x86_64.points")),
            with(2, include_bytes!("../../../trace/tests/fixtures/sel4/armv7.entries")),
            with(3, include_bytes!("../../../trace/tests/fixtures/sel4/armv7.points")),
            with(4, include_bytes!("../../../trace/tests/fixtures/sel4/aarch64_be.entries")),
            with(7, include_bytes!("../../../trace/tests/fixtures/sel4/armeb.points")),
        ])
    },
    words: &[],
    run: |input, folder| {
        let Some((&how, log)) = input.split_first() else { return };
        let is = |bit: u8| how & bit != 0;
        let dump = Dump {
            log: if is(1) { Log::Tracepoints } else { Log::KernelEntries },
            word: if is(2) { Word::Bits32 } else { Word::Bits64 },
            order: if is(4) { ByteOrder::Big } else { ByteOrder::Little },
            frequency_hz: is(8).then_some(1 + u64::from(how) * 1_000_003),
            entries: is(16).then_some(u64::from(how)),
            mcs: is(32),
            ends: is(64),
        };
        file(log, folder, Options { dump: Some(dump), ..Options::default() });
    },
};
