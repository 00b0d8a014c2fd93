//! Converting the kernel's pages while they are written: step by step the same events as after the
//! recording, in memory that does not grow with it.

use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder, Value as CtfValue};
use longpole_record::kernel::{convert, LivePages};
use serde_json::{json, Value};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernel");
const PAGE: usize = 4096;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A recording whose pages are still to be written.
struct Growing {
    place: tempfile::TempDir,
    /// The pages of each CPU.
    pages: Vec<Vec<u8>>,
}

impl Growing {
    fn new() -> Growing {
        let place = tempfile::tempdir().unwrap();
        copy(Path::new(FIXTURE), place.path());
        let source = place.path().join("kernel/raw/source.json");
        let mut description: Value = serde_json::from_slice(&fs::read(&source).unwrap()).unwrap();
        // The counters are written at the end.
        description["cpus"] = Value::Null;
        description["state_dump"] = json!({ "begin": 0, "end": 0 });
        fs::write(source, description.to_string()).unwrap();
        let take = |cpu: usize| {
            let path = place.path().join(format!("kernel/raw/cpu{cpu}"));
            let pages = fs::read(&path).unwrap();
            fs::write(path, []).unwrap();
            pages
        };
        let pages = (0..2).map(take).collect();
        Growing { place, pages }
    }

    fn raw(&self) -> PathBuf {
        self.place.path().join("kernel/raw")
    }

    fn append(&self, cpu: usize, bytes: &[u8]) {
        OpenOptions::new().append(true).open(self.raw().join(format!("cpu{cpu}"))).unwrap().write_all(bytes).unwrap();
    }

    /// Time of the begin of a page; `None` if there is no such page.
    fn time(&self, cpu: usize, page: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.pages[cpu].get(page * PAGE..)?.first_chunk().copied()?))
    }
}

/// The events in bytes of a stream: time, name and fields.
fn events(metadata: &str, bytes: Vec<u8>) -> Vec<String> {
    let mut decoder = StreamDecoder::new(Arc::new(Metadata::parse(metadata.as_bytes()).unwrap()), BytesSource(bytes));
    let mut events = Vec::new();
    while let Some(item) = decoder.next().unwrap() {
        if let Item::Event(event) = item {
            let mut text = format!("{} {}", event.ns(), event.name());
            event.each(|field, value| match value {
                CtfValue::Str(bytes) => text += &format!(" {}={}", field.name, String::from_utf8_lossy(bytes)),
                value => text += &format!(" {}={:?}", field.name, value.to_owned()),
            });
            events.push(text);
        }
    }
    events
}

/// The events of the finished recording, by CPU.
fn converted() -> Vec<Vec<String>> {
    let place = tempfile::tempdir().unwrap();
    copy(Path::new(FIXTURE), place.path());
    convert(place.path(), &mut |_, _| {}).unwrap();
    let metadata = fs::read_to_string(place.path().join("kernel/metadata")).unwrap();
    (0..2).map(|cpu| events(&metadata, fs::read(place.path().join(format!("kernel/cpu{cpu}"))).unwrap())).collect()
}

#[test]
fn pages_that_are_converted_as_they_come_yield_the_events_of_the_finished_recording() {
    let growing = Growing::new();
    let mut live = LivePages::open(growing.place.path()).unwrap().unwrap();
    let metadata = live.metadata();
    let streams: Vec<(String, PathBuf)> = live.streams().collect();
    assert_eq!(streams.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["kernel/cpu0", "kernel/cpu1"]);
    assert_eq!(live.step(u64::MAX).unwrap(), u64::MAX, "nothing was written yet");
    let (mut found, mut read) = ([Vec::new(), Vec::new()], [0, 0]);
    let count = growing.pages[0].len().max(growing.pages[1].len()) / PAGE;
    for page in 0..count {
        for cpu in 0..2 {
            let Some(bytes) = growing.pages[cpu].get(page * PAGE..(page + 1) * PAGE) else { continue };
            // A page that is only half written is not read.
            growing.append(cpu, &bytes[..PAGE / 2]);
            live.step(0).unwrap();
            growing.append(cpu, &bytes[PAGE / 2..]);
        }
        // No event of a later page is before its begin.
        let until = (0..2).filter_map(|cpu| growing.time(cpu, page + 1)).min().map_or(u64::MAX, |time| time - 1);
        assert_eq!(live.step(until).unwrap(), until);
        for (cpu, (_, path)) in streams.iter().enumerate() {
            let bytes = fs::read(path).unwrap();
            let new = bytes[read[cpu]..].to_vec();
            read[cpu] = bytes.len();
            found[cpu].extend(events(&metadata, new));
        }
    }
    let expected = converted();
    assert!(expected[0].len() > 1000 && expected[1].len() > 900);
    for cpu in 0..2 {
        let differ = found[cpu].iter().zip(&expected[cpu]).position(|(one, other)| one != other);
        assert_eq!(differ.map(|at| (&found[cpu][at], &expected[cpu][at])), None);
        assert_eq!(found[cpu].len(), expected[cpu].len());
    }
    // What was read is freed by the next step.
    live.step(u64::MAX).unwrap();
    let held: u64 = streams.iter().map(|(_, path)| fs::metadata(path).unwrap().blocks() * 512).sum();
    assert!(held <= 2 * PAGE as u64 && read.iter().sum::<usize>() > 10 * PAGE, "{held} bytes of {read:?}");
}

#[test]
fn names_and_kinds_that_are_given_up_during_the_recording_become_events() {
    let growing = Growing::new();
    fs::write(growing.raw().join("names.jsonl"), "").unwrap();
    let mut live = LivePages::open(growing.place.path()).unwrap().unwrap();
    let metadata = live.metadata();
    let path = live.streams().next().unwrap().1;
    (0..2).for_each(|cpu| growing.append(cpu, &growing.pages[cpu]));
    let half = growing.time(0, 6).unwrap();
    live.step(half).unwrap();
    let read = fs::read(&path).unwrap().len();
    let mut names = OpenOptions::new().append(true).open(growing.raw().join("names.jsonl")).unwrap();
    writeln!(names, "{}", json!({ "kind": "title", "pid": 7, "name": "a title" })).unwrap();
    write!(names, "{{\"kind\": \"tit").unwrap();
    let source = growing.raw().join("source.json");
    let mut description: Value = serde_json::from_slice(&fs::read(&source).unwrap()).unwrap();
    description["switched_off"] = json!([{ "begin": half, "what": "timers", "events": ["sched:sched_switch"] }]);
    fs::write(source, description.to_string()).unwrap();
    live.step(u64::MAX).unwrap();
    let events = events(&metadata, fs::read(&path).unwrap()[read..].to_vec());
    let has = |part: &str| events.iter().filter(|event| event.contains(part)).count();
    assert_eq!((has("longpole_statedump_title"), has("a title")), (1, 1));
    assert_eq!((has("longpole_switched_off"), has("timers")), (1, 1));
}

#[test]
fn a_recording_without_pages_or_before_their_begin_has_none_to_convert() {
    let place = tempfile::tempdir().unwrap();
    assert!(LivePages::open(place.path()).unwrap().is_none());
    copy(Path::new(FIXTURE), place.path());
    assert!(LivePages::open(place.path()).unwrap().is_none(), "the state dump is not written yet");
}
