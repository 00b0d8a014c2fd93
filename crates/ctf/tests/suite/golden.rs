//! Single-file cases in `tests/golden/`: metadata, the bytes of a stream in hexadecimal, and the
//! expected events, or the expected error with its position. Files whose names begin with `fail-`
//! end in an error, all others do not.
//!
//! With `LONGPOLE_BLESS=1` the files are rewritten instead; review the difference.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use longpole_ctf::{BytesSource, FileSource, Metadata};

const BYTES: &str = "--- bytes\n";
const EXPECT: &str = "--- expect\n";

#[test]
fn every_golden_case_yields_its_expected_dump() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let (metadata, rest) = text.split_once(BYTES).unwrap_or((text.split(EXPECT).next().unwrap(), ""));
        let (hex, expected) = rest.split_once(EXPECT).unwrap_or(("", text.split_once(EXPECT).unwrap().1));
        let (found, failed) = run(metadata, &bytes(hex));
        count += 1;
        if std::env::var_os("LONGPOLE_BLESS").is_some() {
            std::fs::write(&path, text[..text.len() - expected.len()].to_owned() + &found).unwrap();
        } else if found != expected {
            wrong.push(format!("{name}: expected\n{expected}found\n{found}"));
        }
        if failed != name.starts_with("fail-") {
            wrong.push(format!("{name}: failed: {failed}\n{found}"));
        }
    }
    assert!(count > 20, "only {count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(metadata: &str, bytes: &[u8]) -> (String, bool) {
    let metadata = match Metadata::parse(metadata.as_bytes()) {
        Ok(metadata) => Arc::new(metadata),
        Err(e) => return (format!("{e}\n"), true),
    };
    let (dump, end) = common::dump(&metadata, BytesSource(bytes));
    // Reading through a file and a window must yield the same.
    let path = std::env::temp_dir().join(format!("longpole-ctf-golden-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let source = FileSource::new(std::fs::File::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (from_file, file_end) = common::dump(&metadata, source);
    assert_eq!(dump, from_file);
    let rows = common::dump_rows(&metadata, BytesSource(bytes));
    assert_eq!(common::dump_columns(&metadata, BytesSource(bytes)), rows);
    assert_eq!(common::dump_headers(&metadata, BytesSource(bytes)), common::headers_of(&rows));
    let text = |end: &Result<u64, Box<longpole_ctf::DecodeError>>| match end {
        Ok(events) => format!("{events} events\n"),
        Err(e) => format!("error: {e}\n"),
    };
    assert_eq!(text(&end), text(&file_end));
    (dump + &text(&end), end.is_err())
}

/// Pairs of hexadecimal digits; `#` begins a comment, `"…"` is a text.
fn bytes(hex: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in hex.lines() {
        let line = line.split('#').next().unwrap();
        for (index, part) in line.split('"').enumerate() {
            if index % 2 == 1 {
                out.extend_from_slice(part.as_bytes());
                continue;
            }
            let digits: Vec<char> = part.chars().filter(|c| !c.is_whitespace()).collect();
            for pair in digits.chunks(2) {
                out.push(u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap());
            }
        }
    }
    out
}
