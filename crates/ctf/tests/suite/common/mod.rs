//! Shared by the tests: dumps of the content of a stream, and the directory of corpora.

pub mod generate;
pub mod oracle;
pub mod values;

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use longpole_ctf::types::Type;
use longpole_ctf::{Batch, CompoundKind, DecodeError, EventRef, Headers, Item, Metadata, OwnedValue, Source, Step, StreamDecoder, Value};

/// Every item of a stream as a line of text, and the error that ended the stream, if any.
pub fn dump<S: Source>(metadata: &Arc<Metadata>, source: S) -> (String, Result<u64, Box<DecodeError>>) {
    let mut stream = StreamDecoder::new(metadata.clone(), source);
    let mut out = String::new();
    let mut events = 0;
    loop {
        match stream.next() {
            Ok(None) => return (out, Ok(events)),
            Err(e) => {
                if let Some(event) = stream.partial() {
                    show_event(&mut out, "part of event", &event);
                }
                return (out, Err(e));
            }
            Ok(Some(Item::Event(event))) => {
                events += 1;
                show_event(&mut out, "event", &event);
            }
            Ok(Some(Item::PacketBegin(packet))) => {
                let _ = write!(
                    out,
                    "packet {} at byte {}, stream {}, content {} of {} bits",
                    packet.index, packet.offset, packet.stream, packet.content_bits, packet.packet_bits
                );
                for (what, value) in [("begin", packet.begin), ("end", packet.end), ("cpu", packet.cpu_id)] {
                    if let Some(value) = value {
                        let _ = write!(out, ", {what} {value}");
                    }
                }
                out.push('\n');
            }
            Ok(Some(Item::PacketEnd(packet))) => {
                let _ = writeln!(out, "end of packet {}", packet.index);
            }
            Ok(Some(Item::DiscardedEvents(loss))) => {
                let _ = writeln!(out, "discarded events: {:?} from {:?} to {:?}", loss.count, loss.begin, loss.end);
            }
            Ok(Some(Item::DiscardedPackets(loss))) => {
                let _ = writeln!(out, "discarded packets: {:?} from {:?} to {:?}", loss.count, loss.begin, loss.end);
            }
        }
    }
}

/// The events of the same stream read by columns, as lines of [`dump`] in their original order,
/// without packets and losses.
pub fn dump_columns<S: Source>(metadata: &Arc<Metadata>, source: S) -> (Vec<String>, Result<u64, String>) {
    let mut stream = StreamDecoder::new(metadata.clone(), source);
    let mut batch = Batch::new();
    let (mut lines, mut events) = (Vec::new(), 0);
    loop {
        match stream.advance_batch(&mut batch) {
            Ok(None) => return (lines, Ok(events)),
            Err(e) => return (lines, Err(e.to_string())),
            Ok(Some(Step::Event)) => {
                let mut rows = vec![String::new(); batch.len()];
                for table in batch.tables() {
                    let fields = metadata.fields(batch.stream_index(), table.class_index());
                    for (row, order) in table.order().iter().enumerate() {
                        let mut line = format!("{} {} {}", table.class_index(), table.cycles()[row], table.ns()[row]);
                        for (field, column) in fields.iter().zip(table.columns()) {
                            assert_eq!(column.len(), table.len());
                            let _ = write!(line, " {}={:?}", field.name, plain(column.get(row).unwrap()));
                        }
                        rows[*order as usize] = line;
                    }
                }
                events += batch.len() as u64;
                lines.append(&mut rows);
            }
            Ok(Some(_)) => {}
        }
    }
}

/// The expected result of [`dump_columns`], from reading single events.
pub fn dump_rows<S: Source>(metadata: &Arc<Metadata>, source: S) -> (Vec<String>, Result<u64, String>) {
    let mut stream = StreamDecoder::new(metadata.clone(), source);
    let (mut lines, mut events) = (Vec::new(), 0);
    loop {
        match stream.advance() {
            Ok(None) => return (lines, Ok(events)),
            Err(e) => return (lines, Err(e.to_string())),
            Ok(Some(Step::Event)) => {
                let event = stream.event();
                let mut line = format!("{} {} {}", event.class_index(), event.cycles(), event.ns());
                for (field, value) in event.fields().iter().zip(event.values()) {
                    let _ = write!(line, " {}={:?}", field.name, plain(value.to_owned()));
                }
                lines.push(line);
                events += 1;
            }
            Ok(Some(_)) => {}
        }
    }
}

/// The headers of the same events, read without their fields, as lines `CLASS CYCLES NS`.
pub fn dump_headers<S: Source>(metadata: &Arc<Metadata>, source: S) -> (Vec<String>, Result<u64, String>) {
    let mut stream = StreamDecoder::new(metadata.clone(), source);
    let mut headers = Headers::new();
    let mut lines = Vec::new();
    loop {
        match stream.advance_headers(&mut headers) {
            Ok(None) => {
                let events = lines.len() as u64;
                return (lines, Ok(events));
            }
            Err(e) => return (lines, Err(e.to_string())),
            Ok(Some(Step::Event)) => {
                assert_eq!(headers.is_ordered(), headers.cycles().is_sorted());
                let events = headers.classes().iter().zip(headers.cycles()).enumerate();
                lines.extend(events.map(|(index, (class, cycles))| format!("{class} {cycles} {}", headers.ns(index).unwrap())));
            }
            Ok(Some(_)) => {}
        }
    }
}

/// The expected result of [`dump_headers`], from that of [`dump_rows`].
pub fn headers_of((lines, ended): &(Vec<String>, Result<u64, String>)) -> (Vec<String>, Result<u64, String>) {
    let headers = lines.iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" "));
    (headers.collect(), ended.clone())
}

/// The value as in a column, where texts are bytes.
fn plain(value: OwnedValue) -> OwnedValue {
    match value {
        OwnedValue::Str(text) => OwnedValue::Bytes(text),
        other => other,
    }
}

fn show_event(out: &mut String, what: &str, event: &EventRef<'_>) {
    let _ = write!(out, "{what} {} {} at {} = {} ns", event.class().id, event.name(), event.cycles(), event.ns());
    for (field, value) in event.fields().iter().zip(event.values()) {
        let _ = write!(out, ", {}: {}", field.name, show(&value));
        if let Some(number) = value.as_i64() {
            let labels = field.labels(i128::from(number));
            if !labels.is_empty() && matches!(field.ty, Type::Bits(_) | Type::VarInt(_)) {
                let _ = write!(out, " ({})", labels.join(", "));
            }
        }
    }
    out.push('\n');
}

pub fn show(value: &Value<'_>) -> String {
    match value {
        Value::U64(v) => v.to_string(),
        Value::I64(v) => format!("{v:+}"),
        Value::F64(v) => format!("{v:?}f"),
        Value::Bool(v) => v.to_string(),
        Value::Nothing => "nothing".to_owned(),
        Value::Wide(v) => format!("{:?} of {:?}", v.decode(), v.encoding()),
        Value::Str(v) => format!("{:?}", String::from_utf8_lossy(v)),
        Value::Bytes(v) => format!("bytes {v:02x?}"),
        Value::Array(a) => format!("[{}]", a.iter().map(|v| show(&v)).collect::<Vec<_>>().join(", ")),
        Value::Compound(c) => {
            let parts: Vec<String> = c.iter().map(|(name, v)| name.map_or(String::new(), |n| format!("{n}: ")) + &show(&v)).collect();
            match c.kind() {
                CompoundKind::Array => format!("[{}]", parts.join(", ")),
                CompoundKind::Struct => format!("{{{}}}", parts.join(", ")),
                CompoundKind::Variant => format!("<{}>", parts.join(", ")),
            }
        }
    }
}

/// The directory with traces of other tools; without it the test reports that it was skipped.
pub fn corpora(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LONGPOLE_CORPORA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("not at hand: traces of other tools (LONGPOLE_CORPORA): {what}");
    }
    folder
}
