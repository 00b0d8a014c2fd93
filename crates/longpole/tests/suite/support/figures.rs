//! The line of figures with which each reliability test ends: events tried, recorded and lost,
//! faults, and bytes outside of the recordings.

use super::place::Place;
use longpole_testing::alike;
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// True for the long form of the tests, which `make soak` runs.
pub fn soak() -> bool {
    std::env::var_os("LONGPOLE_SOAK").is_some()
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub tried: u64,
    pub recorded: u64,
    pub lost: u64,
    /// Events whose number is not larger than the previous one of the same thread.
    pub torn: u64,
    /// Programs that ended with a failure.
    pub faults: u64,
    /// Bytes of files outside of the runtime directory and the recordings.
    pub outside: u64,
}

impl Figures {
    /// The figures of a recording of `numbered` programs, which babeltrace2 must read in the same
    /// way.
    pub fn of(recording: &Path) -> Figures {
        if alike::hold(Path::new(env!("CARGO_BIN_EXE_longpole")), recording).is_none() {
            println!("skipped: comparing recordings with babeltrace2 (it is not installed)");
        }
        let mut trace = Trace::open(&[recording], Options::default()).unwrap();
        let mut newest: BTreeMap<(i32, i32), u64> = BTreeMap::new();
        let mut figures = Figures::default();
        while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
            match item {
                Item::Event(event) if catalogue.classes[event.class.0 as usize].event_name.ends_with(":numbered") => {
                    let subject = &catalogue.subjects[event.subject.0 as usize];
                    let number = event.fields[0].as_u64().unwrap();
                    let before = newest.insert((subject.pid.unwrap(), subject.tid.unwrap()), number);
                    figures.torn += u64::from(before.is_some_and(|before| before >= number));
                    figures.recorded += 1;
                }
                Item::Event(_) => {}
                Item::Loss(loss) => figures.lost += loss.events.expect("a lane counts its losses"),
            }
        }
        assert!(!trace.is_damaged(), "{:?}", trace.diagnostics());
        figures
    }

    pub fn add(&mut self, other: Figures) {
        self.tried += other.tried;
        self.recorded += other.recorded;
        self.lost += other.lost;
        self.torn += other.torn;
        self.faults += other.faults;
        self.outside += other.outside;
    }

    /// Adds the events that a `numbered` program reports to have tried, and its failure if it
    /// failed.
    pub fn ended(&mut self, output: &Output) {
        let text = String::from_utf8_lossy(&output.stdout);
        let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        self.tried += words.filter(|words| words[0] == "emitted").map(|words| words[2].parse::<u64>().unwrap()).sum::<u64>();
        self.faults += u64::from(!output.status.success());
    }

    /// Adds the bytes of all files in the test's folder that are neither recordings nor in the
    /// runtime directory, and whose names are not `known`.
    pub fn add_bytes_outside(&mut self, place: &Place, known: &[&str]) {
        for entry in std::fs::read_dir(place.path("")).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if !["runtime", "traces"].contains(&name.as_str()) && !known.contains(&name.as_str()) {
                println!("outside: {name}");
                self.outside += entry.metadata().unwrap().len().max(1);
            }
        }
    }

    /// Prints the figures and asserts that each event is recorded or lost and nothing went wrong.
    pub fn hold(&self, what: &str) {
        let Figures { tried, recorded, lost, torn, faults, outside } = self;
        println!("figures: {what}: tried {tried}, recorded {recorded}, lost {lost}, torn {torn}, faults {faults}, bytes outside {outside}");
        assert_eq!(*tried, recorded + lost, "{what}: {self:?}");
        assert_eq!((*torn, *faults, *outside), (0, 0, 0), "{what}");
    }
}
