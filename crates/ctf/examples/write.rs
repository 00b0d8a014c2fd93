//! Writes a small trace twice, in CTF 1.8 and in CTF 2, and says where.
//!
//!     write DIR
//!
//! `DIR/ctf1` and `DIR/ctf2` hold the same events: what a schema of CTF 2 says beyond 1.8 (an
//! optional, a text of UTF-16) is lowered.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use longpole_ctf::write::{self, Layout, StreamWriter};
use longpole_ctf::{Metadata, OwnedValue, Packet};

/// A schema may also be put together from [`longpole_ctf::types`]; a text is shorter.
const METADATA: &str = r#"
{"type": "preamble", "version": 2}
{"type": "clock-class", "id": "ns", "frequency": 1000000000, "origin": "unix-epoch"}
{"type": "field-class-alias", "name": "u64", "field-class": {"type": "fixed-length-unsigned-integer", "length": 64, "byte-order": "little-endian", "alignment": 8}}
{"type": "data-stream-class", "default-clock-class-id": "ns",
 "packet-context-field-class": {"type": "structure", "member-classes": [
   {"name": "size", "field-class": {"type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "little-endian", "alignment": 8, "roles": ["packet-total-length"]}},
   {"name": "content", "field-class": {"type": "fixed-length-unsigned-integer", "length": 32, "byte-order": "little-endian", "alignment": 8, "roles": ["packet-content-length"]}},
   {"name": "begin", "field-class": {"type": "fixed-length-unsigned-integer", "length": 64, "byte-order": "little-endian", "alignment": 8, "roles": ["default-clock-timestamp"]}}]},
 "event-record-header-field-class": {"type": "structure", "member-classes": [
   {"name": "when", "field-class": {"type": "fixed-length-unsigned-integer", "length": 24, "byte-order": "little-endian", "alignment": 8, "roles": ["default-clock-timestamp"]}}]}}
{"type": "event-record-class", "name": "request", "payload-field-class": {"type": "structure", "member-classes": [
   {"name": "path", "field-class": {"type": "null-terminated-string", "encoding": "utf-16le"}},
   {"name": "failed", "field-class": {"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian", "alignment": 8}},
   {"name": "code", "field-class": {"type": "optional", "selector-field-location": {"path": ["failed"]}, "field-class": "u64"}}]}}
"#;

/// The metadata and the stream of one trace.
fn write_trace(folder: &Path, layout: Layout) -> Result<(), Box<dyn Error>> {
    let mut writer = StreamWriter::new(Arc::new(layout), 0);
    let text = |text: &str| OwnedValue::Str(text.as_bytes().to_vec());
    let begin = 1_700_000_000_000_000_000;
    writer.begin(&Packet { begin: Some(begin), ..Packet::default() })?;
    for index in 0..10u64 {
        let failed = index % 3 == 2;
        let code = if failed { OwnedValue::U64(500 + index) } else { OwnedValue::Nothing };
        // 24 bits of a time last for 16 ms: where that is not enough the writer begins another
        // packet.
        writer.event(0, begin + index * 10_000_000, &[text("/índice"), OwnedValue::Bool(failed), code])?;
    }
    writer.end()?;
    fs::create_dir_all(folder)?;
    fs::write(folder.join("stream"), writer.take())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1) else { return Err("usage: write DIR".into()) };
    let metadata = Arc::new(Metadata::from_text(METADATA)?);
    for (name, layout) in [("ctf1", Layout::to_ctf1(&metadata)?), ("ctf2", Layout::new(metadata)?)] {
        let folder = Path::new(&folder).join(name);
        let text = write::metadata(layout.metadata());
        write_trace(&folder, layout)?;
        fs::write(folder.join("metadata"), text)?;
        println!("{}", folder.display());
    }
    Ok(())
}
