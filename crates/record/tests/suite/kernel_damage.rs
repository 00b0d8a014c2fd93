//! Damaged, missing or incomplete pages of the kernel: no event is counted twice or missed by the
//! counts, no event is moved in time, and nothing that another tool could still read is removed.
//! The pages are those of `kernel_convert`.

use crate::support;
use crate::support::live;
use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
use longpole_record::kernel::{complete, convert, is_pending, ConvertError, Converted};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernel");
const PAGE: usize = 4096;

fn copy(from: &Path, to: &Path) {
    let run = Command::new("cp").arg("-r").arg(from.join(".")).arg(to).status().unwrap();
    assert!(run.success());
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A copy of the fixture whose description states the begin and the end of its pages.
struct Broken {
    place: tempfile::TempDir,
    /// Number of events in its pages, as counted by the kernel.
    read: u64,
    times: (u64, u64),
    second: u64,
}

impl Broken {
    fn new() -> Broken {
        let place = tempfile::tempdir().unwrap();
        copy(Path::new(FIXTURE), place.path());
        let second = json_of(&place.path().join("longpole.json"))["clock"]["frequency_hz"].as_u64().unwrap();
        let mut broken = Broken { place, read: 0, times: (u64::MAX, 0), second };
        for cpu in ["cpu0", "cpu1"] {
            for page in fs::read(broken.raw().join(cpu)).unwrap().chunks(PAGE) {
                let time = u64::from_ne_bytes(page[..8].try_into().unwrap());
                broken.times = (broken.times.0.min(time), broken.times.1.max(time));
            }
        }
        let (begin, end) = broken.times;
        broken.edit(|source| {
            source["state_dump"] = json!({ "begin": begin });
            source["end"] = json!(end);
        });
        let source = json_of(&broken.raw().join("source.json"));
        broken.read = source["cpus"].as_array().unwrap().iter().map(|cpu| cpu["read"].as_u64().unwrap()).sum();
        broken
    }

    fn raw(&self) -> PathBuf {
        self.place.path().join("kernel/raw")
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let path = self.raw().join("source.json");
        let mut value = json_of(&path);
        change(&mut value);
        fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
    }

    fn change(&self, cpu: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.raw().join(cpu);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    fn convert(&self) -> Result<Converted, ConvertError> {
        convert(self.place.path(), &mut |_, _| {})
    }

    fn trace(&self) -> Content {
        content(&self.place.path().join("kernel"))
    }

    /// Checks that every event of the pages is in the trace or lost, and that none is outside of
    /// the recording's time.
    fn check(&self, converted: &Converted) {
        let content = self.trace();
        assert_eq!(converted.events + converted.lost, self.read, "{converted:?}");
        assert_eq!(content.lost, converted.lost);
        assert!(content.gaps >= converted.damaged_pages, "{} gaps of {converted:?}", content.gaps);
        let outside = |time: &u64| *time + 2 * self.second < self.times.0 || *time > self.times.1 + 2 * self.second;
        assert_eq!(content.times.iter().find(|(_, time)| outside(time)), None, "{:?}", self.times);
    }
}

/// Contents of a trace, with times in ticks.
struct Content {
    times: BTreeSet<(String, u64)>,
    lost: u64,
    /// Number of losses of unknown size.
    gaps: u64,
    damaged: bool,
}

fn content(kernel: &Path) -> Content {
    let text = fs::read_to_string(kernel.join("metadata")).unwrap();
    let damaged = text.contains("damaged_pages = ");
    let metadata = Arc::new(Metadata::from_text(&text).unwrap());
    let mut content = Content { times: BTreeSet::new(), lost: 0, gaps: 0, damaged };
    for cpu in ["cpu0", "cpu1"] {
        let Ok(bytes) = fs::read(kernel.join(cpu)) else { continue };
        let mut decoder = StreamDecoder::new(Arc::clone(&metadata), BytesSource(bytes));
        while let Some(item) = decoder.next().unwrap() {
            match item {
                Item::Event(event) => {
                    content.times.insert((cpu.to_owned(), event.cycles()));
                }
                Item::DiscardedEvents(loss) => content.lost += loss.count.unwrap(),
                Item::DiscardedPackets(_) => content.gaps += 1,
                _ => {}
            }
        }
    }
    content
}

#[test]
fn pages_older_than_their_chunk_but_not_than_the_tracer_are_valid() {
    let late = Broken::new();
    let (begin, end) = late.times;
    late.edit(|source| {
        source["begin"] = json!(begin);
        source["state_dump"] = json!({ "begin": end + 2 * late.second });
        source["end"] = json!(end + 3 * late.second);
    });
    let converted = late.convert().unwrap();
    late.check(&converted);
    assert_eq!((converted.damaged_pages, late.trace().gaps), (0, 0), "{converted:?}");
}

#[test]
fn events_of_pages_that_a_snapshot_left_out_are_no_loss() {
    let cut = Broken::new();
    cut.edit(|source| {
        for cpu in source["cpus"].as_array_mut().unwrap() {
            cpu["read"] = json!(cpu["read"].as_u64().unwrap() + 1000);
            cpu["overrun"] = json!(1000);
            cpu["cut"] = json!(true);
        }
    });
    let converted = cut.convert().unwrap();
    cut.check(&converted);
    assert_eq!((converted.lost, cut.trace().gaps), (0, 0), "{converted:?}");
}

#[test]
fn one_damaged_bit_in_a_pages_time_costs_that_page_and_moves_no_event() {
    let whole = Broken::new();
    whole.check(&whole.convert().unwrap());
    let whole = whole.trace();
    assert!(!whole.damaged && whole.gaps == 0);
    let pages = fs::read(Path::new(FIXTURE).join("kernel/raw/cpu0")).unwrap().len() / PAGE;
    for page in 0..pages {
        // Years ahead, and back as far as a set bit allows.
        for bit in [52, 44, 38] {
            let broken = Broken::new();
            broken.change("cpu0", |bytes| bytes[page * PAGE + bit / 8] ^= 1 << (bit % 8));
            let converted = broken.convert().unwrap();
            assert_eq!((converted.damaged_pages, converted.moved), (1, 0), "page {page}, bit {bit}: {converted:?}");
            broken.check(&converted);
            let content = broken.trace();
            assert!(content.damaged);
            assert!(content.times.is_subset(&whole.times), "page {page}, bit {bit}: times that the pages do not hold");
            assert!(!is_pending(broken.place.path()));
            let kept = fs::read(broken.place.path().join("kernel/damaged/cpu0")).unwrap();
            assert_eq!(kept.len(), pages * PAGE);
        }
    }
}

#[test]
fn a_truncated_or_undecodable_page_is_a_loss_of_known_size() {
    for damage in ["cut", "header", "event"] {
        let broken = Broken::new();
        broken.change("cpu0", |bytes| match damage {
            "cut" => bytes.truncate(bytes.len() - 2 * PAGE + 100),
            "header" => bytes[3 * PAGE + 8..3 * PAGE + 12].fill(0xff),
            _ => bytes[3 * PAGE + 16..3 * PAGE + 24].fill(0xff),
        });
        let converted = broken.convert().unwrap();
        assert_eq!(converted.damaged_pages, 1, "{damage}: {converted:?}");
        assert!(converted.lost > 10, "{damage}: {converted:?}");
        broken.check(&converted);
        assert!(broken.trace().damaged && broken.place.path().join("kernel/damaged/cpu0").exists());
    }
}

#[test]
fn an_impossible_count_of_lost_events_is_damage() {
    let broken = Broken::new();
    broken.change("cpu0", |bytes| {
        let roomy =
            (1..bytes.len() / PAGE).find(|page| u16::from_ne_bytes(bytes[page * PAGE + 8..page * PAGE + 10].try_into().unwrap()) <= 4072);
        let at = roomy.unwrap() * PAGE;
        let end = at + 16 + usize::from(u16::from_ne_bytes(bytes[at + 8..at + 10].try_into().unwrap()));
        bytes[at + 11] |= 0xc0;
        bytes[end..end + 8].fill(0x7f);
    });
    let converted = broken.convert().unwrap();
    assert_eq!(converted.damaged_pages, 1, "{converted:?}");
    broken.check(&converted);
}

#[test]
fn files_that_contradict_the_pages_are_an_error_and_the_pages_remain() {
    type Change = fn(&Broken);
    let cases: [(&str, Change, &str); 6] = [
        ("page size", |broken| broken.edit(|source| source["page_size"] = json!(8192)), "contradict header_page"),
        ("no formats", |broken| fs::remove_dir_all(broken.raw().join("events")).unwrap(), "no format of an event"),
        ("no header", |broken| fs::remove_file(broken.raw().join("header_page")).unwrap(), "header_page"),
        ("pipe as header", |broken| pipe(&broken.raw().join("header_page")), "no regular file"),
        ("pipe as header of events", |broken| pipe(&broken.raw().join("header_event")), "no regular file"),
        (
            "large header",
            |broken| File::options().write(true).open(broken.raw().join("header_page")).unwrap().set_len(60 << 20).unwrap(),
            "more than",
        ),
    ];
    for (name, change, expected) in cases {
        let broken = Broken::new();
        change(&broken);
        let error = broken.convert().unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(is_pending(broken.place.path()) && broken.raw().join("cpu0").exists(), "{name}");
        assert!(!broken.place.path().join("kernel/.converting").exists(), "{name}");
    }
}

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pages_that_are_a_link_a_pipe_or_missing_are_reported_and_count_as_lost() {
    for kind in ["link", "pipe", "missing"] {
        let broken = Broken::new();
        let path = broken.raw().join("cpu1");
        match kind {
            "link" => {
                let elsewhere = broken.place.path().join("elsewhere");
                fs::rename(&path, &elsewhere).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
            }
            "pipe" => pipe(&path),
            _ => fs::remove_file(&path).unwrap(),
        }
        let converted = broken.convert().unwrap();
        assert!(converted.diagnostics.iter().any(|note| note.contains("cpu1")), "{kind}: {converted:?}");
        assert_eq!(converted.events + converted.lost, broken.read, "{kind}");
        assert!(broken.trace().damaged, "{kind}");
        assert!(broken.place.path().join("kernel/damaged/cpu0").exists(), "{kind}");
    }
}

#[test]
fn descriptions_that_are_pipes_or_too_large_are_left_out_and_reported() {
    for name in ["source.json", "state.jsonl"] {
        let broken = Broken::new();
        pipe(&broken.raw().join(name));
        let converted = broken.convert().unwrap();
        assert_eq!(converted.events, broken.read);
        assert!(!converted.diagnostics.is_empty());
    }
    let broken = Broken::new();
    broken.edit(|source| source["filler"] = json!(vec![0; 4 << 20]));
    let converted = broken.convert().unwrap();
    assert!(converted.diagnostics.iter().any(|note| note.contains("more than")), "{converted:?}");
}

#[test]
fn a_loss_of_unknown_size_is_reported_as_such() {
    let broken = Broken::new();
    broken.edit(|source| source["cpus"] = Value::Null);
    let converted = broken.convert().unwrap();
    let content = broken.trace();
    assert_eq!((converted.events, content.gaps, content.damaged), (broken.read, 2, false));
    assert!(converted.diagnostics.iter().any(|note| note.contains("how many events are missing is not known")), "{converted:?}");
}

#[test]
fn if_the_pages_description_has_no_counts_those_of_the_recording_are_used() {
    let broken = Broken::new();
    let cpus = json_of(&broken.raw().join("source.json"))["cpus"].clone();
    broken.edit(|source| source["cpus"] = Value::Null);
    let path = broken.place.path().join("longpole.json");
    let mut whole = json_of(&path);
    whole["kernel_events"]["cpus"] = cpus;
    whole["kernel_events"]["cpus"][1]["overrun"] = json!(70);
    fs::write(&path, whole.to_string()).unwrap();
    let converted = broken.convert().unwrap();
    assert_eq!((converted.lost, broken.trace().lost, broken.trace().gaps), (70, 70, 0));
}

/// For any damage to the pages, the events in the trace are within the recording's time, and
/// together with the lost events they are all that the kernel counted.
#[test]
fn random_damage_of_pages_leaves_no_event_uncounted() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    for turn in 0..40 {
        let broken = Broken::new();
        for cpu in ["cpu0", "cpu1"] {
            broken.change(cpu, |bytes| {
                for _ in 0..1 + random() % 12 {
                    let at = random() % bytes.len();
                    // Damage to page headers has the largest effect.
                    let at = if turn % 2 == 0 { at / PAGE * PAGE + at % 16 } else { at };
                    bytes[at] = random() as u8;
                }
            });
        }
        let converted = broken.convert().unwrap();
        let content = broken.trace();
        // Damage within a page can turn one event into two.
        assert!(converted.events + converted.lost >= broken.read, "turn {turn}: {converted:?}");
        assert!(converted.lost <= broken.read, "turn {turn}: {converted:?}");
        assert_eq!(content.lost, converted.lost, "turn {turn}");
        let outside = |time: &u64| *time + 2 * broken.second < broken.times.0 || *time > broken.times.1 + 2 * broken.second;
        assert_eq!(content.times.iter().find(|(_, time)| outside(time)), None, "turn {turn}");
    }
}

#[test]
fn losses_on_a_full_disk_are_those_that_the_kernel_counted() {
    if !live("the kernel's events on a full disk") {
        return;
    }
    let place = support::Place::new();
    fs::create_dir(place.root()).unwrap();
    let mount = |words: &[&str]| Command::new("mount").args(words).arg(place.root()).output().unwrap().status.success();
    if !mount(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"]) {
        println!("skipped: the kernel's events on a full disk (no tmpfs can be mounted)");
        return;
    }
    let _mounted = Mounted(place.root());
    let recorder = support::kernel::Recorder::start(&place, &[]);
    let recording = recorder.path.clone();
    let filler = place.root().join("filler");
    // Write more than the space that is reserved for the end.
    let pages = || {
        ["cpu0", "cpu1"].iter().map(|cpu| fs::metadata(recording.join("kernel/raw").join(cpu)).map_or(0, |found| found.len())).sum::<u64>()
    };
    while pages() < 3 << 20 {
        Command::new("true").status().unwrap();
    }
    let _ = fs::write(&filler, vec![1; 24 << 20]);
    for _ in 0..100 {
        Command::new("true").status().unwrap();
    }
    let said = recorder.interrupt();
    let source = json_of(&recording.join("kernel/raw/source.json"));
    let cpus = source["cpus"].as_array().unwrap_or_else(|| panic!("no counts: {source} {said}"));
    let sum = |keys: &[&str]| cpus.iter().flat_map(|cpu| keys.iter().map(|key| cpu[*key].as_u64().unwrap())).sum::<u64>();
    fs::remove_file(&filler).unwrap();
    assert!(mount(&["-o", "remount,size=64m"]));
    let converted = convert(&recording, &mut |_, _| {}).unwrap();
    assert!(converted.events < sum(&["read"]), "all pages found room: {converted:?} {said}");
    assert_eq!(converted.events + converted.lost, sum(&["read", "overrun", "commit_overrun", "dropped", "entries"]), "{said}");
    assert_eq!(content(&recording.join("kernel")).lost, converted.lost);
}

/// The recorder is killed while the disk is full: what the tracer still holds stays there until it
/// can be saved, and nothing is converted before.
#[test]
fn pages_that_a_killed_recorder_left_are_saved_when_the_disk_has_space_again() {
    if !live("the kernel's events of a killed recorder on a full disk") {
        return;
    }
    let place = support::Place::new();
    fs::create_dir(place.root()).unwrap();
    let mount = |words: &[&str]| Command::new("mount").args(words).arg(place.root()).output().unwrap().status.success();
    if !mount(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"]) {
        println!("skipped: the kernel's events of a killed recorder on a full disk (no tmpfs can be mounted)");
        return;
    }
    let _mounted = Mounted(place.root());
    let mut recorder = support::kernel::Recorder::start(&place, &[]);
    let recording = recorder.path.clone();
    let raw = recording.join("kernel/raw");
    while ["cpu0", "cpu1"].iter().map(|cpu| fs::metadata(raw.join(cpu)).map_or(0, |found| found.len())).sum::<u64>() < 1 << 20 {
        Command::new("true").status().unwrap();
    }
    let filler = place.root().join("filler");
    let _ = fs::write(&filler, vec![1; 24 << 20]);
    recorder.signal(libc::SIGKILL);
    recorder.child.wait().unwrap();
    for _ in 0..100 {
        Command::new("true").status().unwrap();
    }
    let instances = recorder.instances();
    assert_eq!(instances.len(), 1);
    let instance = Path::new(support::kernel::TRACEFS).join("instances").join(&instances[0]);
    fs::write(instance.join("tracing_on"), "0").unwrap();
    let cpus = fs::read_dir(instance.join("per_cpu")).unwrap().map(|cpu| cpu.unwrap().path().join("stats"));
    let stats: Vec<String> =
        cpus.flat_map(|stats| fs::read_to_string(stats).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let sum = |names: &[&str]| {
        let of = |line: &String| Some(line.split_once(": ").filter(|(name, _)| names.contains(name))?.1.trim().parse::<u64>().unwrap());
        stats.iter().filter_map(of).sum::<u64>()
    };
    assert!(sum(&["entries"]) > 0, "the tracer holds nothing: {stats:?}");
    let refused = complete(&recording, &mut |_, _| true).unwrap_err();
    assert!(matches!(refused, ConvertError::NotSaved(_)), "{refused}");
    assert!(refused.to_string().contains("free some space"), "{refused}");
    assert!(raw.join("source.json").exists() && recorder.instances() == instances);
    fs::remove_file(&filler).unwrap();
    assert!(mount(&["-o", "remount,size=64m"]));
    let converted = complete(&recording, &mut |_, _| true).unwrap();
    assert_eq!(recorder.instances(), Vec::<String>::new());
    assert!(converted.events >= sum(&["entries"]), "{converted:?} {stats:?}");
    let emitted = sum(&["entries", "read events", "overrun", "commit overrun", "dropped events"]);
    assert_eq!(converted.events + converted.lost, emitted, "{converted:?}");
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}
