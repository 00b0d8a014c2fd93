//! Predictions for servers or locks that let several do at once what they do one at a time,
//! compared with the laws of a closed queueing system, and with systems that are simulated again.

use crate::worlds::{ask, ns, predicted};
use longpole_analysis::machine_log::Reader;
use longpole_analysis::what_if::{Options, Prediction, Scenario, WhatIf};
use std::collections::BTreeSet;
use std::fmt::Write;

const ROUNDS: u64 = 60;

/// A closed system: `clients` each think for `think`, then need one of `places` for `serve`, first
/// come, first served, each `ROUNDS` times. Returns the times of each round, in the order of the
/// ends, as (client, came, begin, end).
fn closed(clients: u64, think: impl Fn(u64) -> u64, serve: impl Fn(u64) -> u64, places: usize) -> Vec<(u64, u64, u64, u64)> {
    let mut coming: BTreeSet<(u64, u64)> = (0..clients).map(|client| (think(client) + client, client)).collect();
    let mut free = vec![0; places];
    let mut left = vec![ROUNDS; clients as usize];
    let mut rounds = Vec::new();
    while let Some((came, client)) = coming.pop_first() {
        let place = free.iter_mut().min().unwrap();
        let begin = came.max(*place);
        *place = begin + serve(client);
        rounds.push((client, came, begin, *place));
        left[client as usize] -= 1;
        if left[client as usize] > 0 {
            coming.insert((*place + think(client), client));
        }
    }
    rounds
}

fn end(rounds: &[(u64, u64, u64, u64)]) -> u64 {
    rounds.iter().map(|round| round.3).max().unwrap()
}

/// Returns the lines in the order of time.
fn log(mut lines: Vec<(u64, String)>, end: u64) -> String {
    lines.sort_by_key(|line| line.0);
    let mut log = String::new();
    for (t, text) in lines {
        let _ = writeln!(log, "{{\"t\":{t},{text}}}");
    }
    let _ = writeln!(log, "{{\"t\":{end},\"machine\":\"main\",\"get\":\"done\",\"n\":\"all\"}}\n{{\"t\":{end},\"end\":\"main\"}}");
    log
}

/// Returns the log of such rounds at one server.
fn at_server(rounds: &[(u64, u64, u64, u64)], clients: u64) -> String {
    let mut lines = vec![
        (0, "\"machine\":\"srv\",\"blocked\":\"empty\"".to_owned()),
        (0, "\"machine\":\"main\",\"blocked\":\"join\",\"on\":\"done\"".to_owned()),
    ];
    lines.extend((0..clients).map(|client| (0, format!("\"machine\":\"c{client}\",\"state\":\"think\""))));
    let mut last = vec![0; clients as usize];
    for &(client, came, begin, end) in rounds {
        last[client as usize] = last[client as usize].max(end);
        lines.push((came, format!("\"machine\":\"c{client}\",\"put\":\"rpc:X\"")));
        lines.push((came, format!("\"machine\":\"c{client}\",\"blocked\":\"reply\"")));
        lines.push((begin, "\"machine\":\"srv\",\"get\":\"rpc:X\",\"state\":\"serve\"".to_owned()));
        lines.push((end, format!("\"machine\":\"srv\",\"put\":\"rpc:X:reply:{client}\"")));
        lines.push((end, format!("\"machine\":\"c{client}\",\"get\":\"rpc:X:reply:{client}\",\"state\":\"think\"")));
        if rounds.iter().all(|other| other.1 > end || other.2 < end) {
            lines.push((end, "\"machine\":\"srv\",\"blocked\":\"empty\"".to_owned()));
        }
    }
    for (client, &end) in last.iter().enumerate() {
        lines.push((end, format!("\"machine\":\"c{client}\",\"put\":\"done\"")));
    }
    log(lines, end(rounds))
}

/// Returns the log of such rounds under one lock, in which each thread works itself.
fn under_lock(rounds: &[(u64, u64, u64, u64)], clients: u64) -> String {
    let mut lines = vec![
        (0, "\"queue\":\"accounts\",\"capacity\":1,\"initial\":1".to_owned()),
        (0, "\"machine\":\"main\",\"blocked\":\"join\",\"on\":\"done\"".to_owned()),
    ];
    lines.extend((0..clients).map(|client| (0, format!("\"machine\":\"c{client}\",\"state\":\"think\""))));
    let mut last = vec![0; clients as usize];
    for &(client, came, begin, end) in rounds {
        last[client as usize] = last[client as usize].max(end);
        if begin > came {
            lines.push((came, format!("\"machine\":\"c{client}\",\"blocked\":\"lock\",\"on\":\"accounts\"")));
        }
        lines.push((begin, format!("\"machine\":\"c{client}\",\"get\":\"accounts\",\"state\":\"hold\"")));
        lines.push((end, format!("\"machine\":\"c{client}\",\"put\":\"accounts\",\"state\":\"think\"")));
    }
    // The next holder takes the lock after it was released.
    lines.sort_by_key(|line| (line.0, line.1.contains("\"get\"")));
    for (client, &end) in last.iter().enumerate() {
        lines.push((end, format!("\"machine\":\"c{client}\",\"put\":\"done\"")));
    }
    log(lines, end(rounds))
}

/// The rate of a closed system with constant times is the smaller of `N / s` and `n / (s + z)`.
#[test]
fn a_server_with_more_places_follows_the_law_of_closed_systems() {
    let (clients, think, serve) = (8, 300, 100);
    let before = closed(clients, |_| think, |_| serve, 1);
    let log = at_server(&before, clients);
    for places in [1, 2, 3, 4, 8] {
        let truth = end(&closed(clients, |_| think, |_| serve, places as usize));
        let found = ns(&log, &format!("concurrency srv {places}"));
        assert!(found.abs_diff(truth) <= truth / 50, "{places} places: {found} instead of {truth}");
        let law = (places as f64 / serve as f64).min(clients as f64 / (serve + think) as f64);
        let rate = (clients * ROUNDS) as f64 / found as f64;
        assert!((rate / law - 1.0).abs() < 0.05, "{places} places: {rate} and not {law}");
    }
}

#[test]
fn a_server_with_more_places_agrees_with_a_new_simulation() {
    for (clients, think, serve) in [(5, 40, 100), (6, 10, 50), (3, 500, 100)] {
        let think = |client: u64| think + 7 * client;
        let serve = |client: u64| serve + 11 * (client % 3);
        let before = closed(clients, think, serve, 1);
        let log = at_server(&before, clients);
        for places in [2, 3, 5] {
            let truth = end(&closed(clients, think, serve, places as usize));
            let found = predicted(&log, &format!("concurrency srv {places}"));
            let gain = end(&before) as f64 / truth as f64 - 1.0;
            let (low, high) = (found.gain_low.unwrap(), found.gain_high.unwrap());
            let holds = low - 0.03 <= gain && gain <= high + 0.03;
            assert!(holds, "{clients} clients, {places} places: {gain} and not from {low} to {high}");
            assert!(found.predicted_ns.unwrap().abs_diff(truth) <= truth / 8, "{found:?} instead of {truth}");
        }
    }
}

#[test]
fn with_a_split_lock_each_thread_only_does_its_own_work() {
    let (clients, think, hold) = (6, 50, 100);
    let before = closed(clients, |_| think, |_| hold, 1);
    let log = under_lock(&before, clients);
    for (change, places) in [("lock accounts split", 6), ("concurrency accounts 2", 2), ("concurrency accounts 1", 1)] {
        let truth = end(&closed(clients, |_| think, |_| hold, places));
        let found = ns(&log, change);
        assert!(found.abs_diff(truth) <= truth / 50, "{change}: {found} instead of {truth}");
    }
    // Other changes may be combined with it: then only the holds remain.
    let alone = ns(
        &log,
        "lock accounts split and c0::think x0 and c1::think x0 and c2::think x0 and c3::think x0 and c4::think x0 and c5::think x0",
    );
    assert!(alone.abs_diff(ROUNDS * hold) <= hold, "{alone}");
}

#[test]
fn a_scenario_next_to_it_is_independent_of_the_places() {
    let log = at_server(&closed(5, |_| 40, |_| 100, 1), 5);
    let alone = predicted(&log, "c0::think x0.5");
    let context = ask(&log, &["concurrency srv 4", "c0::think x0.5"]).unwrap().predictions.remove(1);
    assert_eq!((alone.predicted_ns, alone.gain), (context.predicted_ns, context.gain));
}

#[test]
fn a_machine_that_is_neither_a_lock_nor_a_server_cannot_have_more_places() {
    let log = at_server(&closed(3, |_| 40, |_| 100, 1), 3);
    let said = |change: &str| ask(&log, &[change]).unwrap_err().to_string();
    assert!(said("concurrency c0 4").contains("c0 is neither a lock nor a server"), "{}", said("concurrency c0 4"));
    assert!(said("lock srw split").contains("no lock \"srw\" occurs"), "{}", said("lock srw split"));
    assert!(said("concurrency srw 4").contains("no machine or lock \"srw\" occurs; the nearest: srv"), "{}", said("concurrency srw 4"));
}

/// Predictions on two CPUs for 100 items. Each waits for `wait_ns` of 100,000 ns, then sleeps until
/// a timer, and works for 100 ns.
fn for_items(wait_ns: u64, changes: &[&str]) -> Vec<Prediction> {
    let mut log = String::new();
    for begin in (0..100).map(|item| 100_000 * item) {
        let (sleeps, wakes) = (begin + wait_ns, begin + 99_900);
        let _ = writeln!(log, "{{\"t\":{begin},\"machine\":\"m\",\"state\":\"wait\"}}");
        if sleeps < wakes {
            let _ = writeln!(log, "{{\"t\":{sleeps},\"machine\":\"m\",\"blocked\":\"sleep\"}}");
            let _ = writeln!(log, "{{\"t\":{wakes},\"machine\":\"m\",\"woken_by\":\"m\",\"at\":{sleeps},\"link\":\"timer\"}}");
        }
        let _ = writeln!(log, "{{\"t\":{wakes},\"machine\":\"m\",\"state\":\"work\"}}");
    }
    let _ = writeln!(log, "{{\"t\":10000000,\"end\":\"m\"}}");
    let scenarios = changes.iter().map(|text| Scenario::parse(text).unwrap()).collect();
    let mut reader = Reader::new(log.as_bytes());
    let mut worlds = WhatIf::new(Options { scenarios, cpus: 2, ..Options::default() });
    while let Some(interaction) = reader.next_interaction().unwrap() {
        worlds.interaction(reader.vocabulary(), &interaction);
    }
    worlds.answer(reader.vocabulary()).unwrap().predictions
}

#[test]
fn a_prediction_too_far_from_the_recording_is_refused_with_its_limit() {
    let predictions = for_items(30_000, &["m::wait x0.001", "m::wait x0.5"]);
    let why = predictions[0].refused.as_deref().unwrap_or_else(|| panic!("{predictions:?}"));
    assert!(why.contains("too far from the recording") && why.contains(" allows "), "{why}");
    assert_eq!((predictions[0].gain, predictions[0].gain_low, predictions[0].gain_high), (None, None, None));
    assert!(predictions[1].refused.is_none() && predictions[1].gain.is_some(), "{predictions:?}");
}

#[test]
fn a_wide_interval_from_a_doubling_on_is_given_and_that_of_a_removed_state_is_wider() {
    let predictions = for_items(99_900, &["m::wait x0.001", "m::wait x0"]);
    let [shorter, left_out] = [0, 1].map(|at| (predictions[at].gain_low.unwrap(), predictions[at].gain_high.unwrap()));
    assert!(shorter.0 >= 1.0 && 1.0 + shorter.1 > 20.0 * (1.0 + shorter.0), "{predictions:?}");
    // Removing the state may also remove up to four fifths of the rest.
    let rate = 1.0 + predictions[1].gain.unwrap();
    assert!(left_out.0 >= shorter.0 && 1.0 + left_out.1 > 4.9 * rate, "{predictions:?}");
}
