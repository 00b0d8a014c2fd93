//! Traces of other tools, rewritten unchanged and in the other version of the format. Reading them
//! again must yield the same events.

use crate::common;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::oracle::Events;
use crate::common::values::{copied, lifted_events, plain};
use longpole_ctf::write::{self, Layout};
use longpole_ctf::{BytesSource, Item, Metadata, OwnedValue, StreamDecoder};

/// Collects the directories that contain a file `metadata`.
fn traces(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            traces(&path, out);
        } else if path.file_name().is_some_and(|name| name == "metadata") {
            out.push(folder.to_owned());
        }
    }
}

/// The events of a stream and the index of its class; `None` if it is damaged or has packets of
/// several classes.
fn read(metadata: &Arc<Metadata>, bytes: &[u8]) -> Option<(usize, Events)> {
    let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(bytes));
    let (mut class, mut events) = (None, Vec::new());
    while let Some(item) = stream.next().ok()? {
        match item {
            Item::PacketBegin(packet) if class.replace(packet.stream).is_some_and(|class| class != packet.stream) => return None,
            Item::Event(event) => {
                events.push((event.class_index(), event.cycles(), event.values().map(|v| plain(v.to_owned())).collect()));
            }
            _ => {}
        }
    }
    Some((class?, events))
}

/// The value without the names of fields, some of which are not identifiers.
fn nameless(value: OwnedValue) -> OwnedValue {
    match value {
        OwnedValue::List(list) => OwnedValue::List(list.into_iter().map(nameless).collect()),
        OwnedValue::Fields(fields) => OwnedValue::Fields(fields.into_iter().map(|(_, value)| ("".into(), nameless(value))).collect()),
        other => other,
    }
}

fn alike(metadata: &Metadata, class: usize, events: &Events) -> Events {
    let events = lifted_events(metadata, class, events);
    events.into_iter().map(|(class, time, values)| (class, time, values.into_iter().map(nameless).collect())).collect()
}

/// Number of events and streams that were compared.
fn rewrite(trace: &Path) -> (usize, usize) {
    let Ok(metadata) = Metadata::parse(&std::fs::read(trace.join("metadata")).unwrap()).map(Arc::new) else { return (0, 0) };
    let layouts = [Layout::new(metadata.clone()), Layout::to_ctf1(&metadata), Layout::to_ctf2(&metadata)].map(|layout| {
        let layout = Arc::new(layout.unwrap_or_else(|e| panic!("{}: {e}", trace.display())));
        let text = write::metadata(layout.metadata());
        let read = Metadata::from_text(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", trace.display()));
        (layout, Arc::new(read))
    });
    let mut sums = (0, 0);
    for entry in std::fs::read_dir(trace).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() || path.file_name().is_some_and(|name| name == "metadata" || name == "expect.txt") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let Some((class, events)) = read(&metadata, &bytes) else { continue };
        let events = alike(&metadata, class, &events);
        for (layout, other) in &layouts {
            let copy = copied(&metadata, &bytes, layout.clone(), class).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let Some((_, again)) = read(other, &copy) else { panic!("{}: {:?} is not read", path.display(), other.version) };
            assert!(alike(other, class, &again) == events, "{}: {:?}", path.display(), other.version);
        }
        sums = (sums.0 + events.len(), sums.1 + 1);
    }
    sums
}

#[test]
fn traces_of_other_tools_keep_their_events_in_both_versions() {
    let Some(folder) = common::corpora("traces written again") else { return };
    let mut paths = Vec::new();
    traces(&folder, &mut paths);
    let sums = paths.iter().map(|path| rewrite(path)).fold((0, 0), |sums, (events, streams)| (sums.0 + events, sums.1 + streams));
    eprintln!("{} events of {} streams", sums.0, sums.1);
    assert!(sums.0 > 1000 && sums.1 > 50, "{sums:?}");
}
