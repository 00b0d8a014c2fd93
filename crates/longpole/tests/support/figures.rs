//! The line of figures that each test of reliability ends with.
#![allow(dead_code)]

use crate::place::{alike, Place};
use longpole_trace::event::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// `make soak`: the long form.
pub fn soak() -> bool {
    std::env::var_os("LONGPOLE_SOAK").is_some()
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub tried: u64,
    pub recorded: u64,
    pub lost: u64,
    /// Numbers that did not increase, or that were never given.
    pub torn: u64,
    /// Programs that did not end as they should.
    pub faults: u64,
    /// Bytes of files that appeared elsewhere than in recordings.
    pub outside: u64,
}

impl Figures {
    /// What a recording has of `numbered` programs. babeltrace2 reads it as we do.
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

    /// What `numbered` says that it tried, and how it ended.
    pub fn ended(&mut self, output: &Output) {
        let text = String::from_utf8_lossy(&output.stdout);
        let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        self.tried += words.filter(|words| words[0] == "emitted").map(|words| words[2].parse::<u64>().unwrap()).sum::<u64>();
        self.faults += u64::from(!output.status.success());
    }

    /// What stands in the place that belongs neither to recordings nor to rings.
    pub fn look_outside(&mut self, place: &Place, known: &[&str]) {
        for entry in std::fs::read_dir(place.path("")).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if !["runtime", "traces"].contains(&name.as_str()) && !known.contains(&name.as_str()) {
                println!("outside: {name}");
                self.outside += entry.metadata().unwrap().len().max(1);
            }
        }
    }

    /// Tells them, and that they are what they have to be.
    pub fn hold(&self, what: &str) {
        let Figures { tried, recorded, lost, torn, faults, outside } = self;
        println!("figures: {what}: tried {tried}, recorded {recorded}, lost {lost}, torn {torn}, faults {faults}, bytes outside {outside}");
        assert_eq!(*tried, recorded + lost, "{what}: {self:?}");
        assert_eq!((*torn, *faults, *outside), (0, 0, 0), "{what}");
    }
}
