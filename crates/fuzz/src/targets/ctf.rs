//! CTF of either version: metadata and streams.

use super::{traces::read, Target};
use crate::seeds::{self, BORDER};
use longpole_ctf::write::{self, Layout};
use longpole_ctf::Metadata;
use longpole_trace::Options;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const CTF_METADATA: Target = Target {
    name: "ctf_metadata",
    what: "CTF 1.8's description of events, also written again in either version",
    seeds: |folder| Ok(seeds::ctf_traces(folder)?.into_iter().filter(|trace| !is_ctf2(trace)).map(first).collect()),
    words: WORDS,
    run: describe,
};

pub const CTF2_METADATA: Target = Target {
    name: "ctf2_metadata",
    what: "CTF 2's, too",
    seeds: |folder| Ok(seeds::ctf_traces(folder)?.into_iter().filter(|trace| is_ctf2(trace)).map(first).collect()),
    words: WORDS_2,
    run: describe,
};

pub const CTF: Target = Target {
    name: "ctf",
    what: "CTF 1.8 traces: metadata and up to three streams",
    seeds: |folder| Ok(seeds::ctf_traces(folder)?.into_iter().filter(|trace| !is_ctf2(trace)).collect()),
    words: WORDS,
    run: |input, folder| read(&place(input, folder), Options::default()),
};

pub const CTF2: Target = Target {
    name: "ctf2",
    what: "CTF 2 traces",
    seeds: |folder| Ok(seeds::ctf_traces(folder)?.into_iter().filter(|trace| is_ctf2(trace)).collect()),
    words: WORDS_2,
    run: |input, folder| read(&place(input, folder), Options::default()),
};

fn is_ctf2(trace: &[u8]) -> bool {
    matches!(trace.first(), Some(0x1e | b'{'))
}

fn first(trace: Vec<u8>) -> Vec<u8> {
    trace.windows(BORDER.len()).position(|window| window == BORDER).map_or_else(|| trace.clone(), |at| trace[..at].to_vec())
}

/// Checks that metadata that could be parsed can be written in either version and parsed again.
fn describe(input: &[u8], _: &Path) {
    let metadata = match Metadata::parse(input) {
        Ok(metadata) => Arc::new(metadata),
        Err(error) => return drop(error.to_string()),
    };
    for layout in [Layout::new(metadata.clone()), Layout::to_ctf1(&metadata), Layout::to_ctf2(&metadata)] {
        match layout {
            Ok(layout) => {
                let text = write::metadata(layout.metadata());
                let again = Metadata::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(again.streams.len(), metadata.streams.len());
            }
            Err(error) => drop(error.to_string()),
        }
    }
}

/// Writes the metadata and streams of an input into a folder.
pub fn place(input: &[u8], folder: &Path) -> PathBuf {
    seeds::part(input, &folder.join("ctf"), &["metadata", "stream0", "stream1", "stream2"])
}

pub const WORDS: &[&str] = &[
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

const WORDS_2: &[&str] = &[
    "\x1e{\"type\":\"preamble\",\"version\":2}",
    "\x1e{\"type\":\"event-record-class\",",
    "\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"byte-order\":\"big-endian\"",
    "\"type\":\"variable-length-signed-integer\"",
    "\"type\":\"fixed-length-floating-point-number\",\"length\":16,\"byte-order\":\"little-endian\"",
    "\"type\":\"fixed-length-bit-map\",\"flags\":{\"a\":[[0,1]]}",
    "\"type\":\"null-terminated-string\"",
    "\"type\":\"static-length-string\",\"length\":3",
    "\"type\":\"dynamic-length-blob\",\"length-field-location\":{\"path\":[\"n\"]}",
    "\"type\":\"dynamic-length-array\"",
    "\"type\":\"static-length-array\",\"length\":1000000000000",
    "\"type\":\"optional\"",
    "\"type\":\"variant\",\"options\":[",
    "\"type\":\"structure\",\"member-classes\":[",
    "\"selector-field-location\":{\"origin\":\"event-record-payload\",\"path\":[\"n\"]}",
    "\"selector-field-ranges\":[[0,3]]",
    "\"path\":[null,\"n\"]",
    "\"minimum-alignment\":64",
    "\"bit-order\":\"last-to-first\"",
    "\"encoding\":\"utf-16le\"",
    "\"mappings\":{\"a\":[[-1,1]]}",
    "\"roles\":[\"packet-content-length\"]",
    "\"packet-total-length\"",
    "\"default-clock-timestamp\"",
    "\"packet-end-default-clock-timestamp\"",
    "\"discarded-event-record-counter-snapshot\"",
    "\"event-record-class-id\"",
    "\"attributes\":{}",
    "\"field-class\":",
    "\"name\":\"n\",",
    "\\u0000",
    "18446744073709551615",
];
