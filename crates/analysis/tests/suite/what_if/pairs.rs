//! Two changes that bring much only together are found, and other pairs are not.

use crate::worlds::ask;
use longpole_analysis::verdict::limits::Limits;
use longpole_analysis::verdict::pairs::{PairPrediction, Pairs};
use longpole_analysis::what_if::Scenario;
use std::fmt::Write;

/// A line of stages with these times for each of 200 items, with unbounded queues between them.
fn stages(times: &[u64]) -> String {
    let mut lines: Vec<(u64, usize, String)> = Vec::new();
    let mut came = vec![0; 200];
    for (stage, &time) in times.iter().enumerate() {
        let mut free = 0;
        lines.push((0, stage, format!("\"machine\":\"m{stage}\",\"state\":\"work\"")));
        for came in &mut came {
            if *came > free {
                lines.push((free, stage, format!("\"machine\":\"m{stage}\",\"blocked\":\"empty\"")));
            }
            let begin = free.max(*came);
            if stage > 0 {
                lines.push((begin, stage, format!("\"machine\":\"m{stage}\",\"get\":\"q{stage}\",\"state\":\"work\"")));
            }
            free = begin + time;
            *came = free;
            lines.push((free, stage, format!("\"machine\":\"m{stage}\",\"put\":\"q{}\"", stage + 1)));
        }
    }
    lines.sort_by_key(|line| (line.0, line.1));
    let mut log = String::new();
    for (t, _, text) in &lines {
        let _ = writeln!(log, "{{\"t\":{t},{text}}}");
    }
    let (t, last) = (lines.last().map_or(0, |line| line.0), times.len() - 1);
    let _ = writeln!(log, "{{\"t\":{t},\"end\":\"m{last}\"}}");
    log
}

fn best(log: &str, changes: &[&str]) -> Option<PairPrediction> {
    let scenarios: Vec<Scenario> = changes.iter().map(|change| Scenario::parse(change).unwrap()).collect();
    let pairs = Pairs::of(&scenarios, &[]);
    let texts: Vec<String> = scenarios.iter().map(|it| it.text.clone()).chain(pairs.scenarios().map(|it| it.text)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    pairs.best(&ask(log, &texts).unwrap().predictions, &Limits::built_in().unwrap())
}

#[test]
fn two_stages_that_take_equally_long_limit_the_pace_only_together() {
    let log = stages(&[10, 100, 20, 100, 10]);
    let found = best(&log, &["m0::work x0.5", "m1::work x0.5", "m3::work x0.5"]).unwrap();
    assert_eq!(found.both.change, "m1::work x0.5 and m3::work x0.5");
    assert!(found.both.gain.unwrap() > 0.9, "{found:?}");
    assert!(found.alone.iter().all(|alone| alone.gain.unwrap() < 0.05), "{found:?}");
}

#[test]
fn changes_of_states_that_follow_one_another_are_no_pair() {
    // One machine does two things for each item: halving both saves the sum of what each saves.
    let mut log = String::new();
    for item in 0..100u64 {
        let _ = writeln!(log, "{{\"t\":{},\"machine\":\"m\",\"state\":\"read\"}}", 200 * item);
        let _ = writeln!(log, "{{\"t\":{},\"machine\":\"m\",\"state\":\"write\"}}", 200 * item + 100);
    }
    let _ = writeln!(log, "{{\"t\":20000,\"end\":\"m\"}}");
    assert_eq!(best(&log, &["m::read x0.5", "m::write x0.5"]), None);
    // A stage that leads and another one are no pair either.
    assert_eq!(best(&stages(&[10, 100, 20]), &["m0::work x0.5", "m1::work x0.5", "m2::work x0.5"]), None);
}
