//! The cycle counters that need no recorder. They must pass the tests that
//! `crates/abi/tests/suite/cycles.rs` applies to those of C, with the same programs.

use crate::support;
use crate::support::{example, Place};
use std::collections::BTreeMap;
use std::process::Output;

fn run(arguments: &[&str], label: &str) -> (String, String) {
    let place = Place::new();
    let mut command = place.command(example("cycles"));
    command.args(arguments).env_remove("LONGPOLE_LABEL");
    if !label.is_empty() {
        command.env("LONGPOLE_LABEL", label);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success());
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Parses `[label] TSC name: SUM (CALLS calls, last LAST)`; numbers with a unit are expanded.
fn line(text: &str) -> (&str, &str, [u64; 3]) {
    let (label, rest) = text.strip_prefix('[').unwrap().split_once("] TSC ").unwrap();
    let (name, rest) = rest.split_once(": ").unwrap();
    let (sum, rest) = rest.split_once(" (").unwrap();
    let (calls, rest) = rest.split_once(" calls, last ").unwrap();
    let last = rest.strip_suffix(')').unwrap();
    let number = |text: &str| {
        let number: u64 = text.trim_end_matches(['K', 'M', 'G']).parse().unwrap();
        match text.chars().last().and_then(|unit| "KMG".find(unit)) {
            Some(unit) => number * [1_000, 1_000_000, 1_000_000_000][unit],
            None => number,
        }
    };
    (label, name, [number(sum), number(calls), number(last)])
}

#[test]
fn a_scope_prints_its_sum_its_calls_and_the_last_of_them() {
    let (whole, said) = run(&["calls"], "system -> part");
    let lines: Vec<_> = said.lines().map(line).collect();
    assert_eq!(lines.iter().map(|line| line.2[1]).collect::<Vec<_>>(), [3, 6, 9], "{said}");
    assert!(lines.iter().all(|line| (line.0, line.1) == ("system -> part", "calls")), "{said}");
    let [first, second, third] = [lines[0].2, lines[1].2, lines[2].2];
    assert!(first[2] >= 20_000 && first[0] >= 60_000 && second[0] + 1_000 > first[0] + 60_000, "{said}");
    // The ninth call took 30 million cycles.
    assert!(third[2] >= 30_000_000 && third[0] >= second[0] + 30_000_000 && third[0] <= whole.trim().parse().unwrap(), "{said}");
}

#[test]
fn recursion_counts_every_call_and_the_time_of_the_outermost() {
    let (whole, said) = run(&["recursion"], "");
    let (label, name, [sum, calls, last]) = line(said.trim_end());
    assert_eq!((label, name, calls), ("cycles", "fib", 21_891), "{said}");
    assert!(sum == last && sum <= whole.trim().parse().unwrap(), "{said}{whole}");
}

#[test]
fn threads_lose_no_call_without_a_lock() {
    let (_, said) = run(&["threads"], "");
    let lines: Vec<_> = said.lines().map(line).collect();
    // Twice by each thread, and once by the main thread after the others had added their sums.
    assert_eq!((lines.len(), lines[8].2[1]), (9, 110_000), "{said}");
    assert!(lines.iter().all(|line| line.1 == "shared" && line.2[1] % 5_000 == 0), "{said}");
}

#[test]
fn names_of_any_length_yield_one_line() {
    let (_, said) = run(&["names"], &"l".repeat(400));
    let lines: Vec<_> = said.lines().map(line).collect();
    assert_eq!(lines.iter().map(|line| line.2[1]).collect::<Vec<_>>(), [1, 2, 1], "{said}");
    assert!(lines.iter().all(|line| line.0.len() >= 200 && line.0.chars().all(|c| c == 'l')), "{said}");
    assert!(lines[0].1.len() >= 200 && lines[0].1.chars().all(|c| c == 'x') && lines[2].1.is_empty(), "{said}");
}

#[test]
fn lines_in_the_recording_equal_those_of_c() {
    let place = Place::new();
    let source = support::repository().join("tests/programs/tsc.c");
    let written_in_c = place.compile(&source, "cycles", &[]);
    let texts = |program: &std::path::Path| {
        assert!(!place.record(&[], program, &["trace"]).is_empty());
        let events = place.events();
        let logs = events.iter().filter(|event| event["name"] == "log");
        // Cycles differ in each run.
        let kept = |event: &serde_json::Value| {
            let text = event["fields"]["text"].as_str().unwrap().to_owned();
            let (label, name, [_, calls, _]) = line(&text);
            format!("{label} {name} {calls}")
        };
        logs.map(kept).collect::<Vec<_>>()
    };
    let here = texts(&example("cycles"));
    assert_eq!(here, ["cycles traced 2", "cycles a name 2", "cycles traced 4", "cycles a name 4"]);
    assert_eq!(here, texts(&written_in_c));
}

/// Samples, minimum, maximum, mean, sigma, sigma in percent, cost, cost around it.
fn results(text: &str) -> BTreeMap<u32, [f64; 8]> {
    let row = |line: &str| {
        let words: Vec<f64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        (words[0] as u32, words[1..].try_into().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn trace_points_nest_interleave_and_count_pairs_only() {
    let (told, said) = run(&["points"], "");
    assert_eq!(said, "", "what was reset is not printed at the end");
    let points = results(&told);
    let samples: Vec<(u32, f64)> = points.iter().map(|(&number, row)| (number, row[0])).collect();
    assert_eq!(samples, [(0, 2000.0), (1, 2000.0), (2, 2000.0), (3, 500.0), (5, 6000.0), (7, 1.0)], "{told}");
    let [_, minimum, maximum, mean, sigma, percent, cost, _] = points[&2];
    assert!(cost > 0.0 && cost < 1000.0, "{told}");
    // 1000 and 5000 cycles alternately; more if the thread loses its CPU.
    assert!((900.0..1500.0).contains(&minimum) && maximum >= 4900.0 && mean >= 2900.0 && sigma >= 1900.0, "{told}");
    assert!((percent - 100.0 * sigma / mean).abs() < 0.01, "{told}");
    let (outer, inner) = (points[&0], points[&1]);
    assert!(inner[1] >= 1900.0 && outer[1] >= 2900.0 && outer[3] >= inner[3] + 2000.0, "{told}");
    // There is no code between the second start and its stop.
    assert!(points[&7][1] < 500_000.0 && points[&5][1] < 500.0, "{told}");
    assert_eq!(points[&7][4], 0.0, "one sample has no deviation");
}

#[test]
fn results_first_requested_at_the_end_exclude_the_cost_of_counting_as_well() {
    let (_, said) = run(&["unasked"], "");
    let (_, rest) = said.split_once("what an empty pair shows is subtracted: ").unwrap();
    let (cost, _) = rest.split_once(';').unwrap();
    assert!(cost.parse::<u64>().unwrap() > 0, "{said}");
}

#[test]
fn the_end_of_the_program_prints_results_that_were_not_printed() {
    let (told, said) = run(&["rest"], "the label");
    assert!(said.starts_with("[the label] trace points, in cycles\n"), "{said}");
    let rows: Vec<Vec<&str>> = said.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    for (number, row) in results(&told) {
        let printed = rows.iter().find(|words| words[0] == number.to_string()).unwrap_or_else(|| panic!("{number}: {said}"));
        let whole: Vec<f64> = printed[1..].iter().map(|word| word.parse().unwrap()).collect();
        assert_eq!(whole[..3], row[..3], "{said}{told}");
        assert!(whole[3..].iter().zip(&row[3..]).all(|(a, b)| (a - b).abs() < 0.11), "{said}{told}");
    }
}
