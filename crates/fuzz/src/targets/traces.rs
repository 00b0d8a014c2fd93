//! Traces as files: our own, and those of other tools.

use super::Target;
use crate::seeds::{self, BORDER};
use longpole_trace::ByteOrder;
use longpole_trace::Dump;
use longpole_trace::Item;
use longpole_trace::Log;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use longpole_trace::Word;
use std::path::Path;

/// Reads the whole trace. An error is a valid result.
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
    trace.diagnostics().iter().for_each(|diagnostic| drop(diagnostic.to_string()));
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
    what: "perf.data, and folders of them",
    seeds: |folder| {
        let mut all = seeds::perf_data(folder);
        all.extend(seeds::corpora("perf-data", 1 << 20));
        all.extend(all.iter().filter_map(|file| seeds::perf_folder(file)).collect::<Vec<_>>());
        all.push(b"PERFILE2\x68\0\0\0\0\0\0\0\x88\0\0\0\0\0\0\0".to_vec());
        Ok(all)
    },
    words: &["PERFILE2", "2ELIFREP", "\n%%%%\n"],
    run: |input, folder| match input.windows(BORDER.len()).any(|window| window == BORDER) {
        true => read(&seeds::part(input, &folder.join("perf"), &["data", "data.0", "data.1"]), Options::default()),
        false => file(input, folder, Options::default()),
    },
};

/// The first byte selects the layout of the rest.
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
