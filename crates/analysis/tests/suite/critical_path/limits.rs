//! Limits of the critical path: forgotten causes are counted, and many machines, queues and ends
//! cost no more than few.

use longpole_analysis::critical_path::{Answer, CriticalPath, Options};
use longpole_analysis::machine_log::Reader;
use std::fmt::Write as _;

fn with(options: Options, log: &str) -> Answer {
    let mut reader = Reader::new(log.as_bytes());
    let mut critical_path = CriticalPath::new(options);
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
    }
    critical_path.answer(reader.vocabulary()).unwrap()
}

#[test]
fn a_cause_before_the_remembered_past_is_counted() {
    let mut log = String::from("{\"t\":0,\"machine\":\"A\"}\n{\"t\":100,\"machine\":\"A\",\"blocked\":\"w\"}\n");
    log += "{\"t\":150,\"machine\":\"B\",\"state\":\"mid\"}\n{\"t\":150,\"machine\":\"C\"}\n";
    let mut t = 200;
    for _ in 0..100 {
        let _ =
            writeln!(log, "{{\"t\":{t},\"machine\":\"B\",\"blocked\":\"z\"}}\n{{\"t\":{},\"machine\":\"B\",\"woken_by\":\"C\"}}", t + 2);
        t += 4;
    }
    for at in [160, 120] {
        let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"A\",\"woken_by\":\"B\",\"at\":{at}}}");
        t += 4;
        let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"A\",\"blocked\":\"w\"}}");
    }
    // The first cause is within B's life, but before the remembered part; the second one is before
    // its life.
    let count = |most_past| with(Options { most_past, ..Options::default() }, &log).forgotten_causes;
    assert_eq!(count(48), 1);
    assert_eq!(count(1 << 20), 0);
}

/// A line without any effect marks a moment, which is kept however much the machine does before
/// another machine refers to it.
#[test]
fn a_marked_moment_is_not_forgotten() {
    // Enough segments that they are cleared and renumbered meanwhile.
    let (states, end) = (200_000, 400_200);
    let of = |mark: &str| {
        let mut log = String::from("{\"t\":0,\"machine\":\"A\",\"blocked\":\"w\"}\n{\"t\":0,\"machine\":\"B\",\"state\":\"work\"}\n");
        log += mark;
        for (at, t) in (0..states).map(|at| (at, 200 + 2 * at)) {
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"B\",\"state\":\"{}\"}}", if at % 2 == 0 { "more" } else { "work" });
            // Most of this is needed by no machine.
            if at % 10 == 0 {
                let _ = writeln!(
                    log,
                    "{{\"t\":{t},\"machine\":\"B\",\"blocked\":\"w\"}}\n{{\"t\":{},\"machine\":\"B\",\"woken_by\":\"C\"}}",
                    t + 1
                );
            }
        }
        let log = log.replacen('{', "{\"t\":0,\"machine\":\"C\",\"state\":\"idle\"}\n{", 1);
        let last = format!("{{\"t\":{end},\"machine\":\"A\",\"woken_by\":\"B\",\"at\":150}}\n{{\"t\":{},\"end\":\"A\"}}\n", end + 1);
        with(Options { segments: true, ..Options::default() }, &(log + &last))
    };
    let answer = of("{\"t\":150,\"machine\":\"B\"}\n");
    let drawn: Vec<String> =
        answer.segments.as_ref().unwrap().segments().map(|it| format!("{}::{} {}", it.machine, it.state, it.end_ns)).collect();
    assert_eq!(drawn, ["B::work 150".to_owned(), format!("link::wakeup {end}"), format!("A::runnable {}", end + 1)]);
    assert_eq!(answer.forgotten_causes, 0);
    assert_eq!(of("").forgotten_causes, 1);
}

#[test]
fn unread_tokens_of_many_queues_are_forgotten_without_a_search_through_all_queues() {
    // A search through all queues for each of these puts would be some 10^11 steps.
    let (queues, most) = (400_000, 1 << 15);
    let mut log = String::from("{\"t\":0,\"machine\":\"A\"}\n");
    for at in 0..queues {
        let _ = writeln!(log, "{{\"t\":{at},\"machine\":\"A\",\"put\":\"q{at}\"}}");
    }
    let first = "{\"t\":400000,\"machine\":\"B\",\"get\":\"q0\"}\n";
    let last = "{\"t\":400000,\"machine\":\"B\",\"get\":\"q399999\"}\n";
    let block = "{\"t\":399999,\"machine\":\"B\",\"blocked\":\"w\"}\n";
    let answer = |get: &str| with(Options { most_tokens: most, ..Options::default() }, &format!("{log}{block}{get}"));
    let (old, new) = (answer(first), answer(last));
    assert!(old.forgotten_causes >= queues - most as u64, "{}", old.forgotten_causes);
    // The last put is remembered longest.
    assert_eq!((old.unknown_ns, new.unknown_ns), (400_000, 0));
}

#[test]
fn many_ends_of_many_machines_need_no_search_through_all_machines() {
    // A search through all machines at each end would be some 10^10 steps.
    let (machines, ends) = (100_000, 100_000);
    let mut log = String::new();
    for at in 0..machines {
        let _ = writeln!(log, "{{\"t\":0,\"machine\":\"m{at}\",\"state\":\"s{}\"}}", at % 3);
    }
    for at in 0..ends {
        let _ = writeln!(log, "{{\"t\":{at},\"end\":\"m0\"}}");
    }
    // All of this is after the last end.
    for at in 0..machines {
        let _ = writeln!(log, "{{\"t\":{},\"machine\":\"m{at}\",\"state\":\"s0\"}}", ends + at);
    }
    let answer = with(Options::default(), &log);
    assert_eq!((answer.end_machine.as_str(), answer.length_ns), ("m0", ends - 1));
    // A third of the machines is in each state, from begin to end.
    let share = |state: &str| answer.profile.iter().find(|it| it.state == state).unwrap().profile_share;
    for (state, count) in [("s0", 33_334.0), ("s1", 33_333.0), ("s2", 33_333.0)] {
        assert!((share(state) - count / 100_000.0).abs() < 1e-12, "{state} {}", share(state));
    }
}

#[test]
fn a_state_named_like_a_block_is_a_state() {
    let log =
        "{\"t\":0,\"machine\":\"A\",\"state\":\"blocked:x\"}\n{\"t\":5,\"machine\":\"A\",\"blocked\":\"y\"}\n{\"t\":9,\"end\":\"A\"}\n";
    let answer = with(Options::default(), log);
    assert_eq!(answer.unknown_ns, 4);
    let ranks: Vec<_> = answer.criticality.iter().map(|row| (row.state.as_str(), row.profile_rank)).collect();
    assert_eq!(ranks, [("blocked:x", Some(1)), ("blocked:y", None)]);
}

#[test]
fn the_sum_of_the_times_of_many_machines_may_exceed_64_bits() {
    let mut log = String::new();
    for at in 0..4 {
        let _ = writeln!(log, "{{\"t\":0,\"machine\":\"m{at}\",\"state\":\"s{}\"}}", at / 3);
    }
    let _ = writeln!(log, "{{\"t\":{},\"end\":\"m0\"}}", i64::MAX);
    let answer = with(Options::default(), &log);
    let shares: Vec<_> = answer.profile.iter().map(|it| it.profile_share).collect();
    assert!((shares[0] - 0.75).abs() < 1e-9 && (shares[1] - 0.25).abs() < 1e-9, "{shares:?}");
}

/// B works for A, and stops; then others live and stop; then B's last action wakes A.
fn after_others(others: u64, again: bool) -> String {
    let mut log = String::from(
        "{\"t\":0,\"machine\":\"A\"}\n{\"t\":0,\"machine\":\"B\",\"state\":\"work\"}\n{\"t\":1,\"machine\":\"A\",\"blocked\":\"w\"}\n",
    );
    log += "{\"t\":100,\"machine\":\"B\",\"stop\":true}\n";
    for at in 0..others {
        let _ = writeln!(log, "{{\"t\":100,\"machine\":\"m{at}\"}}\n{{\"t\":100,\"machine\":\"m{at}\",\"stop\":true}}");
    }
    if again {
        log += "{\"t\":100,\"machine\":\"B\",\"forked_by\":\"A\"}\n";
    }
    log + "{\"t\":100,\"machine\":\"A\",\"woken_by\":\"B\"}\n{\"t\":110,\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":110,\"end\":\"A\"}\n"
}

#[test]
fn a_machine_that_stopped_long_ago_is_an_unknown_cause_and_counted() {
    let answer = |others, again| with(Options { most_stopped: 4, ..Options::default() }, &after_others(others, again));
    let (soon, late) = (answer(3, false), answer(8, false));
    assert_eq!((soon.forgotten_causes, soon.unknown_ns), (0, 0));
    assert_eq!((late.forgotten_causes, late.unknown_ns), (1, 100));
    assert_eq!((soon.contradictions, late.contradictions), (0, 0));
    // A machine that starts again is no longer the one that stopped.
    let again = answer(8, true);
    assert_eq!((again.forgotten_causes, again.contradictions), (0, 0));
}

#[test]
fn stopped_machines_do_not_keep_critical_paths_forever() {
    let tips = |machines: u64| {
        let mut critical_path = CriticalPath::new(Options { most_stopped: 100, ..Options::default() });
        let mut log = String::from("{\"t\":0,\"machine\":\"A\"}\n");
        for at in 0..machines {
            let t = 10 * at;
            let _ = writeln!(
                log,
                "{{\"t\":{t},\"machine\":\"m{at}\",\"forked_by\":\"A\"}}\n{{\"t\":{t},\"machine\":\"m{at}\",\"state\":\"s\"}}"
            );
            let _ = writeln!(log, "{{\"t\":{},\"machine\":\"m{at}\",\"stop\":true}}", t + 5);
        }
        let mut reader = Reader::new(log.as_bytes());
        while let Some(interaction) = reader.next_interaction().unwrap() {
            critical_path.interaction(reader.vocabulary(), &interaction);
        }
        critical_path.sizes().tips
    };
    assert!(tips(5000) < tips(1000) + 10, "{} {}", tips(1000), tips(5000));
}
