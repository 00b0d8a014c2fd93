//! Traces that are written and read again: the content must be the same.

use super::{ctf, Target};
use crate::seeds;
use longpole_trace::rewrite;
use longpole_trace::CtfWriter;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Rewritten;
use longpole_trace::Trace;
use longpole_trace::Value;
use longpole_trace::Version;
use std::convert::Infallible;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

pub const REWRITTEN: Target = Target {
    name: "rewritten",
    what: "CTF traces that are written in either version",
    seeds: seeds::ctf_traces,
    words: ctf::WORDS,
    run: |input, folder| {
        let from = ctf::place(input, folder);
        for version in [Version::One, Version::Two] {
            let to = empty(folder);
            match rewrite(&from, &to, version) {
                Ok(Rewritten::Done(written, diagnostics)) if diagnostics.is_empty() => {
                    let is_ours = |name: &str| name.starts_with("tag_of_") || name.starts_with("length_of_");
                    let again = content(&to, is_ours);
                    assert_eq!(again.as_ref().map(|content| content.events), Ok(written.events), "{version:?}");
                    assert!(again == content(&from, is_ours), "{version:?} has other events");
                }
                Ok(_) => {}
                Err(error) => drop(error.to_string()),
            }
        }
    },
};

pub const WRITTEN: Target = Target {
    name: "written",
    what: "traces of any format that are written as CTF",
    seeds: |folder| {
        let mut all = seeds::ctf_traces(folder)?;
        all.extend(seeds::machine_logs()?.into_iter().take(5));
        all.extend([seeds::capture()?, seeds::trace_dat()]);
        all.extend(seeds::corpora("perf-data", 1 << 18));
        Ok(all)
    },
    words: ctf::WORDS,
    run: |input, folder| {
        let path = match input.windows(seeds::BORDER.len()).any(|window| window == seeds::BORDER) {
            true => ctf::place(input, folder),
            false => folder.join("input"),
        };
        if !path.ends_with("ctf") && fs::write(&path, input).is_err() {
            return;
        }
        for version in [Version::One, Version::Two] {
            let to = empty(folder);
            match write(&path, &to, version) {
                // There was nothing to write, and an empty trace is no trace.
                Ok(0) | Err(None) => {}
                Ok(events) => {
                    let is_ours = |name: &str| name.ends_with("_length");
                    let again = content(&to, is_ours);
                    assert_eq!(again.as_ref().map(|content| content.events), Ok(events), "{version:?}");
                    // Events that came too late for the order may be in another order afterwards.
                    let unordered = |content: Result<Content, String>| content.map(|mut content| (content.hashes.sort(), content).1);
                    assert!(unordered(again) == unordered(content(&path, is_ours)), "{version:?} has other events");
                }
                Err(Some(error)) => drop(error),
            }
        }
    },
};

fn empty(folder: &Path) -> PathBuf {
    let to = folder.join("to");
    let _ = fs::remove_dir_all(&to);
    to
}

/// Writes a trace like `convert` does, and returns the number of events. `Err(None)` means a trace
/// that cannot be read completely, or has times that cannot be written.
fn write(from: &Path, to: &Path, version: Version) -> Result<u64, Option<String>> {
    let mut trace = Trace::open(&[from], Options::default()).map_err(|_| None)?;
    let said = |error: longpole_trace::Error| Some(error.to_string());
    let mut writer = CtfWriter::create(to, version, trace.start_ns().unwrap_or(0), Vec::new()).map_err(said)?;
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|_| None)? {
        writer.item(&item, catalogue).map_err(said)?;
    }
    let written = writer.finish().map_err(said)?;
    if written.moved > 0 {
        return Err(None);
    }
    Ok(written.events)
}

/// The content of a trace, for comparison.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    events: u64,
    /// Hashes of the times and values, one per event.
    hashes: Vec<u64>,
}

/// All events of a trace, without fields that the writer added.
fn content(path: &Path, is_ours: impl Fn(&str) -> bool + Copy) -> Result<Content, String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let mut content = Content::default();
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        let Item::Event(event) = item else { continue };
        let class = &catalogue.classes[event.class.0 as usize];
        let mut hash = ValueHash(DefaultHasher::new());
        hash.0.write_i64(event.t_ns);
        for (names, values) in [(&class.context, event.context), (&class.fields, event.fields)] {
            let kept = names.iter().zip(values).filter(|(name, _)| !is_ours(last(name)));
            kept.for_each(|(_, value)| hash.value(value, is_ours));
        }
        content.events += 1;
        content.hashes.push(hash.0.finish());
    }
    Ok(content)
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A hash of numbers and texts that ignores their types: a type that a version lacks is written as
/// the most similar one.
struct ValueHash(DefaultHasher);

impl ValueHash {
    fn value(&mut self, value: &Value<'_>, is_ours: impl Fn(&str) -> bool + Copy) {
        match value {
            Value::Nothing => {}
            Value::F64(value) => self.0.write_u64(if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }),
            Value::Str(text) => self.text(text),
            Value::Wide(text) => self.text(text.decode().as_bytes()),
            Value::Bytes(bytes) => bytes.iter().for_each(|byte| self.number(i128::from(*byte))),
            Value::Nested(nested) => {
                let done: Result<(), Infallible> = nested.each(|name, part| {
                    if !name.is_some_and(is_ours) {
                        self.value(&part, is_ours);
                    }
                    Ok(())
                });
                let Ok(()) = done;
            }
            number => self.number(number.as_i64().map_or_else(|| number.as_u64().unwrap_or(0).into(), i128::from)),
        }
    }

    fn number(&mut self, number: i128) {
        self.0.write_i128(number);
    }

    /// Adds a text up to its end; bytes after a NUL do not belong to it.
    fn text(&mut self, text: &[u8]) {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        self.0.write(&text[..end]);
        self.0.write_u8(0xff);
    }
}
