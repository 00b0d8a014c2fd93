//! A program under `longpole record`: the events that it reports to have tried, and the events in
//! the recording.

use super::place::{Place, Running};
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// True for the long form of the tests, which `make soak` runs.
pub fn soak() -> bool {
    std::env::var_os("LONGPOLE_SOAK").is_some()
}

/// `long` in the long form of the tests, `short` otherwise.
pub fn long_or_short(long: u64, short: u64) -> String {
    if soak() { long } else { short }.to_string()
}

/// Events with one name.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Events {
    pub recorded: u64,
    /// Events whose number is not larger than the previous one of the same thread and series. Such
    /// an event shows that two threads wrote into one ring.
    pub torn: u64,
    /// Number of events by pid and tid of the thread that the trace names as their origin.
    pub threads: BTreeMap<(i32, i32), u64>,
    /// Series whose numbers occur; the series is the upper half of a number.
    pub series: BTreeSet<u64>,
}

impl Events {
    /// Adds the events of another class with the same name.
    fn add(&mut self, other: Events) {
        self.recorded += other.recorded;
        self.torn += other.torn;
        for (thread, count) in other.threads {
            *self.threads.entry(thread).or_default() += count;
        }
        self.series.extend(other.series);
    }
}

/// Content of a recording.
#[derive(Default)]
pub struct Held {
    pub events: BTreeMap<String, Events>,
    pub lost: u64,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        for (name, events) in &self.events {
            let Events { recorded, torn, threads, series } = events;
            write!(f, "{name}: {recorded} recorded, {torn} torn, {} threads, {} series; ", threads.len(), series.len())?;
        }
        write!(f, "{} lost", self.lost)
    }
}

impl Held {
    /// Reads a whole trace. Panics if it is damaged.
    pub fn read(recording: &Path) -> Held {
        let mut trace = Trace::open(&[recording], Options::default()).unwrap();
        let mut held = Held::default();
        let mut newest: HashMap<(u32, i32, i32, u64), u64> = HashMap::new();
        let mut names: HashMap<u32, Events> = HashMap::new();
        while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
            match item {
                Item::Event(event) => {
                    let subject = &catalogue.subjects[event.subject.0 as usize];
                    let (pid, tid) = (subject.pid.unwrap(), subject.tid.unwrap());
                    let events = names.entry(event.class.0).or_default();
                    events.recorded += 1;
                    *events.threads.entry((pid, tid)).or_default() += 1;
                    // An event whose first field is a text has no number.
                    let Some(number) = event.fields.first().and_then(|field| field.as_u64()) else { continue };
                    events.series.insert(number >> 32);
                    let before = newest.insert((event.class.0, pid, tid, number >> 32), number);
                    events.torn += u64::from(before.is_some_and(|before| before >= number));
                }
                Item::Loss(loss) => held.lost += loss.events.expect("a lane counts its losses"),
            }
        }
        assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
        for (class, events) in names {
            let name = &trace.catalogue().classes[class as usize].event_name;
            held.events.entry(name.strip_prefix("mark:").unwrap_or(name).to_owned()).or_default().add(events);
        }
        held
    }

    /// The events with this name; none if the name does not occur.
    pub fn of(&self, name: &str) -> Events {
        self.events.get(name).cloned().unwrap_or_default()
    }

    pub fn recorded(&self) -> u64 {
        self.events.values().map(|events| events.recorded).sum()
    }

    pub fn torn(&self) -> u64 {
        self.events.values().map(|events| events.torn).sum()
    }
}

/// A recording of one command from its start to its end, and what it left behind.
pub struct Tried {
    /// Numbers that the program printed in lines `NAME COUNT`, by name.
    pub said: BTreeMap<String, u64>,
    pub held: Held,
    pub recording: PathBuf,
    /// Events without a ring, because their thread gave up waiting for other threads of its
    /// process.
    pub refused: u64,
    /// Largest number of open descriptors of the recorder, sampled every 10 ms.
    pub files: usize,
    /// Largest resident memory of the recorder, in KiB.
    pub resident_kib: u64,
    /// Files in the runtime directory after the recording, except for the site table and the
    /// session file.
    pub left: Vec<String>,
    /// Bytes written outside of the recordings and the runtime directory.
    pub outside: u64,
    /// 1 if `longpole record` failed, which it also does if its command failed; else 0.
    pub faults: u64,
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| if entry.path().is_dir() { bytes_below(&entry.path()) } else { entry.metadata().map_or(0, |found| found.len()) })
        .sum()
}

/// Files in the runtime directory except for the site table and the session file.
pub fn left_behind(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.path("runtime")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "sites" && name != "session").collect()
}

impl Tried {
    /// Records a command that must succeed. The recorder has a working directory, home and folder
    /// for temporary files of its own, so that files written there are noticed.
    pub fn record(place: &Place, options: &[&str], command: &[&str]) -> Tried {
        let own = place.path("own");
        std::fs::create_dir_all(&own).unwrap();
        let mut recorder = place.longpole(&["record"]);
        recorder.args(options).arg("--").args(command).current_dir(&own).env("HOME", &own).env("TMPDIR", &own);
        let mut child = Running::start(recorder.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let (mut files, mut resident_kib) = (0, 0);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            let proc = PathBuf::from(format!("/proc/{}", child.id()));
            files = files.max(std::fs::read_dir(proc.join("fd")).map_or(0, |entries| entries.count()));
            let told = std::fs::read_to_string(proc.join("status")).unwrap_or_default();
            let high =
                told.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|line| line.trim().split(' ').next()?.parse().ok());
            resident_kib = resident_kib.max(high.unwrap_or(0));
            sleep(Duration::from_millis(10));
        };
        let (mut said, mut told) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let faults = u64::from(!status.success());
        assert_eq!(faults, 0, "{command:?}: {status}: {said}{told}");
        let said = said.lines().filter_map(|line| line.split_once(' ')).map(|(name, count)| (name.to_owned(), count.parse().unwrap()));
        let note = |line: &str| line.split_once(" events had no ring")?.0.rsplit(' ').next()?.parse::<u64>().ok();
        let refused = told.lines().filter_map(note).sum();
        let recording = place.newest();
        let outside = bytes_below(&own);
        let (said, held) = (said.collect(), Held::read(&recording));
        Tried { said, held, recording, refused, files, resident_kib, left: left_behind(place), outside, faults }
    }

    /// Number of events with these names that the program reports to have tried.
    pub fn tried(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.said[*name]).sum()
    }

    /// Asserts that each event was recorded or counted as lost, none twice, and that no files are
    /// left behind. `left` is the number of probes that never returned; each of them may have left
    /// out its event.
    pub fn assert_all_counted(&self, what: &str, names: &[&str], left: u64) {
        let (tried, recorded, lost) = (self.tried(names), self.held.recorded(), self.held.lost);
        let torn = self.held.torn();
        if soak() {
            println!(
                "figures: {what}: {tried} events tried, {recorded} recorded, {lost} lost, {} without a ring, {left} probes that did not return, {torn} torn, {} faults, {} bytes outside, recorder {} files {} KiB",
                self.refused, self.faults, self.outside, self.files, self.resident_kib
            );
        }
        let known = recorded + lost + self.refused;
        assert!(
            (tried - left..=tried).contains(&known),
            "{what}: {tried} tried, {recorded} recorded, {lost} lost, {} without a ring, {left} left: {:?}",
            self.refused,
            self.held
        );
        assert_eq!((torn, self.faults, self.outside), (0, 0, 0), "{what}: {:?}", self.held);
        assert!(self.left.is_empty(), "{what}: {:?}", self.left);
    }
}
