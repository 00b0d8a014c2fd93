//! Traces in JSON: Chrome's Trace Event Format and machine logs. Both are read value by value, and
//! a file is never in memory as a whole.

pub(crate) mod chrome;
pub(crate) mod lines;
mod names;
mod object;
mod order;
mod scan;

use crate::diagnostic::{Diagnostic, MAX_ERRORS};
use crate::event::{Event, Item, Loss, StreamId};
use crate::files::head::Head;
use crate::shared::Shared;
use crate::value_buffer::ValueBuffer;
use longpole_ctf::OwnedValue;
use scan::{Fault, Keys};
use std::path::Path;

/// Kind of a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chrome,
    MachineLog,
    /// The file is not JSON.
    No,
}

/// Keys that only occur next to `traceEvents`.
const CONTEXT: [&str; 6] =
    ["displayTimeUnit", "systemTraceEvents", "otherData", "stackFrames", "controllerTraceDataKey", "powerTraceAsString"];

/// Returns the kind of a file with these first bytes. For JSON of another kind, the error explains
/// why it is no trace.
pub(crate) fn kind(head: &Head) -> Result<Kind, String> {
    let text = head.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head.bytes).trim_ascii_start();
    match text.first() {
        Some(b'[') => list(text[1..].trim_ascii_start(), head.whole),
        Some(b'{') => object(text, head.whole),
        _ => Ok(Kind::No),
    }
}

fn list(rest: &[u8], whole: bool) -> Result<Kind, String> {
    match rest.first() {
        None if whole => Ok(Kind::Chrome),
        Some(b']') => Ok(Kind::Chrome),
        Some(b'{') => match scan::keys(rest) {
            Keys::All(keys) if keys.is_empty() || keys.iter().any(|key| key == "ph") => Ok(Kind::Chrome),
            Keys::All(keys) => Err(format!("it is a list of objects, but the first has no `ph`, only {}", listed(&keys))),
            // The first event is long, or the file ends in it.
            Keys::Some(keys) if !whole || keys.iter().any(|key| key == "ph") => Ok(Kind::Chrome),
            Keys::Some(_) => Err("it is JSON that ends inside its first object".to_owned()),
            Keys::Wrong => Ok(Kind::No),
        },
        _ => Ok(Kind::No),
    }
}

fn object(text: &[u8], whole: bool) -> Result<Kind, String> {
    let (keys, all) = match scan::keys(text) {
        Keys::All(keys) => (keys, true),
        Keys::Some(keys) => (keys, false),
        Keys::Wrong => return Ok(Kind::No),
    };
    let has = |names: &[&str]| keys.iter().any(|key| names.contains(&key.as_str()));
    if has(&["traceEvents"]) || has(&CONTEXT) {
        return Ok(Kind::Chrome);
    }
    // In a machine log each line is one object, so the first object must end with its line.
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if has(&["t", "queue"]) && (matches!(scan::keys(first), Keys::All(_)) || !all && first.len() == text.len()) {
        return Ok(Kind::MachineLog);
    }
    match all || whole {
        true if keys.is_empty() => Err("it is an object of JSON with neither `traceEvents` nor `t`".to_owned()),
        true => Err(format!("it is an object of JSON with neither `traceEvents` nor `t`, only {}", listed(&keys))),
        // The first members are long. The reader searches the whole file for the events.
        false => Ok(Kind::Chrome),
    }
}

fn listed(keys: &[String]) -> String {
    const SHOWN_KEYS: usize = 6;
    let mut shown: Vec<String> = keys.iter().take(SHOWN_KEYS).map(|key| format!("`{}`", key.escape_debug())).collect();
    if keys.len() > SHOWN_KEYS {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// Reports what is wrong in a file, up to [`MAX_ERRORS`] times.
fn report(shared: &mut Shared, path: &Path, errors: &mut u32, fault: &Fault) {
    *errors += 1;
    if *errors > MAX_ERRORS {
        return;
    }
    shared.diagnostics.push(match fault {
        Fault::Ends { .. } => Diagnostic::Truncated { path: path.to_owned(), place: fault.to_string(), at: None },
        fault => Diagnostic::UndecodableRecord { path: path.to_owned(), error: fault.to_string() },
    });
}

/// Reports at the end how many numbers were stored as text.
fn report_texts(shared: &mut Shared, path: &Path, texts: &mut u64) {
    if let numbers @ 1.. = std::mem::take(texts) {
        shared.diagnostics.push(Diagnostic::NumbersOutOfRange { path: path.to_owned(), numbers });
    }
}

/// Returns the event that was read last, with its values.
fn item<'a>(event: &Option<Event<'static>>, stream: StreamId, value_buffer: &'a mut ValueBuffer, values: &'a [OwnedValue]) -> Item<'a> {
    match event {
        Some(event) => Item::Event(Event { fields: value_buffer.put(values.iter().map(Into::into)), ..*event }),
        // Not reached: the trace requests only items that `advance` found.
        None => Item::Loss(Loss { stream, begin_ns: 0, end_ns: 0, events: Some(0) }),
    }
}
