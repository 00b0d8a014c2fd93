//! The wait-for graph of machine logs: wPerf's figures, mutual waits, and random systems compared
//! with the active path of each machine.

use crate::support::walk;
use crate::support::walk::{system, Line, Op};
use longpole_analysis::critical_path::{CriticalPath, Mode, Options};
use longpole_analysis::machine_log::Reader;
use longpole_analysis::wait_graph::{Answer, EndKind, Waits};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

fn waits(log: &str) -> Answer {
    let mut reader = Reader::new(log.as_bytes());
    let mut waits = Waits::default();
    while let Some(interaction) = reader.next_interaction().unwrap() {
        waits.interaction(reader.vocabulary(), &interaction);
    }
    waits.answer(reader.vocabulary()).unwrap()
}

fn case(name: &str) -> Answer {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/cases").join(name);
    waits(&fs::read_to_string(path).unwrap())
}

/// Returns the machines for which a machine finally waited, with the times.
fn ends(answer: &Answer, machine: &str) -> Vec<(String, u64)> {
    let waiter = answer.waiters.iter().find(|waiter| waiter.who.machine == machine).unwrap();
    assert_eq!(waiter.ends.iter().map(|end| end.ns).sum::<u64>(), waiter.waited_ns);
    waiter.ends.iter().map(|end| (end.who.machine.clone(), end.ns)).collect()
}

fn named(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect()
}

fn edges(answer: &Answer) -> Vec<(String, String, u64, u64)> {
    let told =
        |it: &longpole_analysis::wait_graph::Edge| (it.from.machine.clone(), it.to.machine.clone(), it.direct_ns, it.redistributed_ns);
    answer.edges.iter().map(told).collect()
}

#[test]
fn a_wait_for_a_waiting_machine_is_redistributed_as_in_figure_4_of_wperf() {
    let two = case("wperf_two.jsonl");
    assert_eq!(ends(&two, "user"), named(&[("network", 80), ("parser", 20)]));
    assert_eq!(ends(&two, "parser"), named(&[("network", 80)]));
    let three = case("wperf_three.jsonl");
    assert_eq!(ends(&three, "user"), named(&[("disk", 50), ("network", 30), ("parser", 20)]));
    let edge = |from: &str, to: &str, direct, last| (from.to_owned(), to.to_owned(), direct, last);
    // Three machines wait through the last edge: the user, the parser and the network. Only the
    // user waits through the first one, while the parser runs.
    assert_eq!(edges(&three), [edge("network", "disk", 50, 150), edge("parser", "network", 80, 60), edge("user", "parser", 100, 20)]);
    // No machines wait for each other in turn: all waits end at the machine that never waits.
    assert_eq!(three.mutual_waits.len(), 1);
    assert_eq!(three.mutual_waits[0].machines[0].who.machine, "disk");
    assert_eq!((three.mutual_waits[0].waited_ns, two.mutual_waits[0].machines[0].who.machine.as_str()), (150, "network"));
}

/// `a` and `b` pass work back and forth; `user` waits for `a` all the time, `idle` for no machine.
fn circle(rounds: u64) -> String {
    let mut log =
        String::from("{\"t\":0,\"machine\":\"user\",\"blocked\":\"wait\"}\n{\"t\":0,\"machine\":\"idle\",\"blocked\":\"sleep\"}\n");
    log += "{\"t\":0,\"machine\":\"b\",\"blocked\":\"wait\"}\n{\"t\":0,\"machine\":\"a\",\"state\":\"run\"}\n";
    for round in 0..rounds {
        let t = round * 100;
        log += &format!(
            "{{\"t\":{},\"machine\":\"a\",\"put\":\"to b\"}}\n{{\"t\":{},\"machine\":\"a\",\"blocked\":\"wait\"}}\n",
            t + 30,
            t + 30
        );
        log += &format!("{{\"t\":{},\"machine\":\"b\",\"get\":\"to b\"}}\n", t + 30);
        log += &format!(
            "{{\"t\":{},\"machine\":\"b\",\"put\":\"to a\"}}\n{{\"t\":{},\"machine\":\"b\",\"blocked\":\"wait\"}}\n",
            t + 100,
            t + 100
        );
        log += &format!("{{\"t\":{},\"machine\":\"a\",\"get\":\"to a\"}}\n", t + 100);
    }
    log + &format!("{{\"t\":{},\"machine\":\"user\",\"woken_by\":\"a\"}}\n{{\"t\":{},\"end\":\"user\"}}\n", rounds * 100, rounds * 100)
}

#[test]
fn machines_that_wait_for_each_other_in_turn_are_a_mutual_wait_and_a_machine_that_waits_for_them_is_not() {
    let answer = waits(&circle(50));
    let mutual_waits: Vec<Vec<&str>> =
        answer.mutual_waits.iter().map(|it| it.machines.iter().map(|member| member.who.machine.as_str()).collect()).collect();
    assert_eq!(mutual_waits, [["b", "a"]]);
    // a works 30 and b 70 of each 100; the user waits for the one that works.
    assert_eq!(ends(&answer, "user"), named(&[("b", 3_500), ("a", 1_500)]));
    assert_eq!(ends(&answer, "a"), named(&[("b", 3_500)]));
    assert_eq!(ends(&answer, "b"), named(&[("a", 1_500)]));
    assert_eq!((answer.mutual_waits[0].waited_ns, answer.mutual_waits[0].share), (10_000, 1.0));
    let idle = answer.waiters.iter().find(|waiter| waiter.who.machine == "idle").unwrap();
    assert_eq!((idle.waited_ns, idle.unexplained_ns), (0, 5_000));
}

#[test]
fn a_chain_beyond_the_limit_is_unknown_and_counted() {
    let answer = waits(&circle(20_000));
    let user = answer.waiters.iter().find(|waiter| waiter.who.machine == "user").unwrap();
    let unknown: u64 = user.ends.iter().filter(|end| end.kind == EndKind::Unknown).map(|end| end.ns).sum();
    assert!(answer.cut > 0 && unknown > 0, "{}", answer.cut);
    assert_eq!(user.ends.iter().map(|end| end.ns).sum::<u64>(), 2_000_000);
    // Short chains are exact to the nanosecond.
    assert_eq!(ends(&answer, "a"), named(&[("b", 1_400_000)]));
}

/// Times for which each machine was blocked: from a block to the next line of its own.
fn blocks(lines: &[Line]) -> HashMap<u8, Vec<(u64, u64)>> {
    let (mut open, mut out, mut t) = (HashMap::new(), HashMap::<u8, Vec<(u64, u64)>>::new(), 0);
    for (gap, machine, op) in lines {
        t += u64::from(*gap);
        match (op, open.get(machine)) {
            (Op::Block(_), _) => {
                open.entry(*machine).or_insert(t);
            }
            (Op::Fork { .. }, _) => {}
            (_, Some(_)) => out.entry(*machine).or_default().extend(open.remove(machine).map(|start| (start, t))),
            _ => {}
        }
    }
    for (machine, start) in open {
        out.entry(machine).or_default().push((start, t));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_waits_of_a_machine_equal_its_active_path_during_its_blocks((kinds, lines) in system()) {
        let log = walk::log(&kinds, &lines);
        let answer = waits(&log);
        for (machine, blocks) in blocks(&lines) {
            let name = format!("m{machine}");
            let mut reader = Reader::new(log.as_bytes());
            let mut critical_path = CriticalPath::new(Options { mode: Mode::Active, machine: Some(name.clone()), segments: true, ..Options::default() });
            while let Some(interaction) = reader.next_interaction().unwrap() {
                critical_path.interaction(reader.vocabulary(), &interaction);
            }
            let active = critical_path.answer(reader.vocabulary()).unwrap();
            let mut want: BTreeMap<String, u64> = BTreeMap::new();
            for segment in active.segments.as_ref().unwrap().segments() {
                for &(start, end) in &blocks {
                    let ns = segment.end_ns.min(end).saturating_sub(segment.start_ns.max(start));
                    if ns > 0 {
                        *want.entry(segment.machine.to_owned()).or_default() += ns;
                    }
                }
            }
            let mut got: BTreeMap<String, u64> = BTreeMap::new();
            if let Some(waiter) = answer.waiters.iter().find(|waiter| waiter.who.machine == name) {
                for end in &waiter.ends {
                    *got.entry(end.who.machine.clone()).or_default() += end.ns;
                }
                *got.entry(name.clone()).or_default() += waiter.unexplained_ns;
            }
            got.retain(|_, ns| *ns > 0);
            prop_assert_eq!(got, want, "{}: {}", name, log);
        }
    }
}
