//! Files of other tools that are text, or that contain other files.

use super::{traces, Target};
use crate::seeds;
use flate2::write::GzEncoder;
use longpole_trace::Options;
use std::io::{Cursor, Write};
use std::path::Path;

fn file(input: &[u8], folder: &Path) {
    let path = folder.join("input");
    if std::fs::write(&path, input).is_ok() {
        traces::read(&path, Options::default());
    }
}

const CHROME: &str = r#"{"displayTimeUnit":"ns","otherData":{"a":[1,2,{"b":"\u00e4\""}]},"traceEvents":[
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"main"}},
{"ph":"X","name":"w\u0000\"","ts":10.5e1,"dur":3.25,"pid":1,"tid":2,"args":{"n":-1,"l":[true,null,{"k":1e300}]}},
{"ph":"s","id":"0x1","name":"f","ts":2,"pid":1,"tid":2,"bp":"e"}],"stackFrames":{}}"#;
const LIST: &str = r#"[{"name":"b","ph":"i","ts":2,"args":7},{"name":"a","ph":"b","ts":1.25,"id2":{"local":"1"},"args":[1]},"#;

pub const JSON: Target = Target {
    name: "json",
    what: "Chrome's JSON, and machine logs as events",
    seeds: |_| {
        let mut all = [CHROME, LIST].map(|text| text.as_bytes().to_vec()).to_vec();
        all.extend(seeds::machine_logs()?.into_iter().take(5));
        Ok(all)
    },
    words: &[
        "{\"traceEvents\":[",
        "\"ph\":\"M\"",
        "\"ts\":",
        "\"args\":{",
        "\"name\":\"process_name\"",
        "\"pid\":",
        "\"tid\":",
        "\\u0000",
        "1e999",
        "[[[[",
        "{}",
        ",",
    ],
    run: file,
};

/// A tar archive with one file.
fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[156] = b'0';
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = [&header[..], content].concat();
    out.resize(out.len().next_multiple_of(512) + 1024, 0);
    out
}

pub const ARCHIVES: Target = Target {
    name: "archives",
    what: "tar and zip archives, gzip and zstd",
    seeds: |_| {
        let plain = tar("run/x.json", LIST.as_bytes());
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&plain)?;
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("run/x.json", zip::write::SimpleFileOptions::default())?;
        zip.write_all(CHROME.as_bytes())?;
        let zstd = ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
        Ok(vec![gzip.finish()?, zip.finish()?.into_inner(), zstd, plain])
    },
    words: &["PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "../", "././@LongLink", "path=", "ustar"],
    run: file,
};
