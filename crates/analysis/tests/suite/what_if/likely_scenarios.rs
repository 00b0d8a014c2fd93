//! Guessed scenarios are answered as if they had been requested, and other scenarios are replayed
//! alone.

use longpole_analysis::critical_path::{self, CriticalPath};
use longpole_analysis::machine_log::Reader;
use longpole_analysis::wait_graph::Waits;
use longpole_analysis::what_if::likely_scenarios::{self, Proposals};
use longpole_analysis::what_if::{propose, Answer, FullQueue, Options, Scenario, WhatIf};
use std::fmt::Write;

fn replay(log: &str, scenarios: &[Scenario], guessed: bool) -> Answer {
    let mut reader = Reader::new(log.as_bytes());
    let mut worlds = WhatIf::new(Options { scenarios: scenarios.to_vec(), guessed, ..Options::default() });
    while let Some(interaction) = reader.next_interaction().unwrap() {
        worlds.interaction(reader.vocabulary(), &interaction);
    }
    worlds.answer(reader.vocabulary()).unwrap()
}

fn path(log: &str) -> (critical_path::Answer, Vec<FullQueue>) {
    let mut reader = Reader::new(log.as_bytes());
    let mut path = CriticalPath::new(critical_path::Options { segments: true, ..critical_path::Options::default() });
    let mut waits = Waits::default();
    while let Some(interaction) = reader.next_interaction().unwrap() {
        path.interaction(reader.vocabulary(), &interaction);
        waits.interaction(reader.vocabulary(), &interaction);
    }
    (path.answer(reader.vocabulary()).unwrap(), waits.full(reader.vocabulary()))
}

/// A source that a slow sink holds back through a queue for two items: 1 µs to make an item, 4 µs
/// to use it.
fn two_stages(items: usize) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let (mut puts, mut gets): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut used = 0;
    for item in 0..items {
        let made = puts.last().unwrap_or(&0) + 1000;
        let put = made.max(item.checked_sub(2).map_or(0, |other| gets[other]));
        if made < put {
            lines.push((made, "\"machine\":\"source\",\"blocked\":\"full\",\"on\":\"q\",\"for\":\"space\"".to_owned()));
        }
        let get = put.max(used);
        lines.push((put, "\"machine\":\"source\",\"put\":\"q\",\"state\":\"make\"".to_owned()));
        lines.push((get, "\"machine\":\"sink\",\"get\":\"q\",\"state\":\"use\"".to_owned()));
        used = get + 4000;
        puts.push(put);
        gets.push(get);
    }
    lines.push((used, "\"end\":\"sink\"".to_owned()));
    // A get leaves room for a put at the same time, but the first item must be there.
    lines.sort_by_key(|(t, line)| (*t, *t > 1000 && !line.contains("get")));
    let mut log = "{\"queue\":\"q\",\"capacity\":2}\n".to_owned();
    lines.iter().for_each(|(t, line)| writeln!(log, "{{\"t\":{t},{line}}}").unwrap());
    log
}

#[test]
fn a_guessed_scenario_is_answered_as_if_it_had_been_requested() {
    let log = two_stages(200);
    let (path, full) = path(&log);
    let plain = replay(&log, &[], false);
    assert_eq!(full, plain.full, "both see where somebody waited for room");
    let guessed = likely_scenarios::scenarios(&path, path.segments.as_ref().unwrap(), &full);
    let fix = Scenario::scale("sink", "use", 0.5);
    let mut proposals = propose::first(&plain);
    assert!(proposals.contains(&fix) && proposals.len() > 1, "{proposals:?}");
    let answers = Proposals::new(replay(&log, &guessed, true), Some(&fix)).predictions().unwrap();
    assert_eq!(answers, replay(&log, &proposals, false).predictions);
    // A further scenario with known names is answered last, and one with unknown names is left out.
    let other = Scenario::scale("source", "make", 0.5);
    let (known, unknown) = (Scenario::scale("sink", "use", 0.25), Scenario::scale("nobody", "nothing", 0.5));
    let guessed: Vec<Scenario> = proposals.iter().chain([&other, &known, &unknown]).cloned().collect();
    let told = replay(&log, &guessed, true);
    assert_eq!(Proposals::new(told.clone(), Some(&unknown)).predictions().unwrap(), answers);
    proposals.push(known.clone());
    assert_eq!(Proposals::new(told, Some(&known)).predictions().unwrap(), replay(&log, &proposals, false).predictions);
}

#[test]
fn a_scenario_that_was_not_guessed_is_answered_by_a_replay_of_it_alone() {
    let log = two_stages(200);
    let plain = propose::first(&replay(&log, &[], false));
    let (guessed, rest) = plain.split_at(1);
    assert!(!rest.is_empty(), "{plain:?}");
    let mut proposals = Proposals::new(replay(&log, guessed, true), None);
    assert_eq!(proposals.missed(), rest);
    assert_eq!(proposals.predictions(), None);
    proposals.add(replay(&log, rest, true).predictions);
    assert_eq!(proposals.predictions().unwrap(), replay(&log, &plain, false).predictions);
}
