//! Predictions for machines that share CPUs, callees or servers, compared with systems that are
//! simulated again with the change.

use crate::worlds::{ns, predicted};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

/// Workers that sleep and work in turns, 50 times; the first ready worker gets a CPU first. `main`
/// waits for all. Returns the log, and the time of the end.
fn on_cpus(cpus: usize, work: &[u64], sleep: &[u64]) -> (String, u64) {
    let mut log = String::from("{\"t\":0,\"machine\":\"main\",\"blocked\":\"join\",\"on\":\"done\"}\n");
    let (mut events, mut number) = (BTreeSet::new(), work.len());
    let (mut rounds, mut slept, mut queue, mut free) = (vec![0; work.len()], vec![0; work.len()], VecDeque::new(), cpus);
    for (w, &sleep) in sleep.iter().enumerate() {
        let _ = writeln!(log, "{{\"t\":0,\"machine\":\"w{w}\",\"blocked\":\"sleep\"}}");
        events.insert((sleep, w, w, true));
    }
    let mut end = 0;
    while let Some((t, _, w, wakes)) = events.pop_first() {
        end = t;
        if wakes {
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"w{w}\",\"woken_by\":\"w{w}\",\"at\":{},\"link\":\"timer\"}}", slept[w]);
            if free == 0 {
                let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"w{w}\",\"state\":\"runnable\"}}");
            }
            queue.push_back(w);
        } else {
            (free, rounds[w], slept[w]) = (free + 1, rounds[w] + 1, t);
            if rounds[w] < 50 {
                let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"w{w}\",\"blocked\":\"sleep\"}}");
                events.insert((t + sleep[w], number, w, true));
            } else {
                let _ =
                    writeln!(log, "{{\"t\":{t},\"machine\":\"w{w}\",\"put\":\"done\"}}\n{{\"t\":{t},\"machine\":\"w{w}\",\"stop\":true}}");
            }
        }
        while free > 0 {
            let Some(w) = queue.pop_front() else { break };
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"w{w}\",\"state\":\"work\"}}");
            free -= 1;
            events.insert((t + work[w], number + 1, w, false));
        }
        number += 2;
    }
    let _ = writeln!(log, "{{\"t\":{end},\"machine\":\"main\",\"get\":\"done\",\"n\":{}}}\n{{\"t\":{end},\"end\":\"main\"}}", work.len());
    (log, end)
}

/// One CPU that is always busy: a shorter sleep, or no wait for the CPU, reduces no work on it.
/// With another CPU, the end is earlier.
#[test]
fn the_end_is_not_before_the_cpus_have_done_the_work() {
    let work = [50, 20, 10, 10];
    let (log, _) = on_cpus(1, &work, &[10, 30, 40, 60]);
    let truth = on_cpus(1, &work, &[5, 15, 20, 30]).1;
    let all = 50 * work.iter().sum::<u64>();
    let found = predicted(&log, "link::timer x0.5");
    assert!(truth.abs_diff(found.predicted_ns.unwrap()) < truth / 500, "{found:?} instead of {truth}");
    assert_eq!((found.gain_low, found.gain_high), (found.gain, found.gain));
    assert_eq!(found.next.unwrap().machine, "cpus");
    assert_eq!(ns(&log, "w0::runnable x0"), all);
    assert_eq!(ns(&log, "w0::work x0.5 and link::timer x0"), all - 50 * 25);
    assert_eq!(ns(&log, "link::timer x0 and cpus +1"), 50 * 50);
    // Work of a machine after the end delays no one.
    let until = log.lines().position(|line| line.contains("\"w1\",\"put\"")).unwrap();
    let cut: Vec<&str> = log.lines().take(until).collect();
    let early = cut.join("\n") + &format!("\n{{\"t\":{},\"end\":\"w1\"}}\n", cut.last().unwrap()[5..].split(',').next().unwrap());
    assert!(ns(&early, "w0::runnable x0") < ns(&early, "w0::work x1"));
}

/// A machine that works, then arms and calls once per `per` items; the call takes `wire` ns to
/// arrive.
fn arming(per: u64, wire: u64) -> (String, u64) {
    let mut log = String::from("{\"t\":0,\"machine\":\"T\",\"blocked\":\"empty\"}\n{\"t\":0,\"machine\":\"S\",\"state\":\"work\"}\n");
    let mut t = 0;
    for item in 1..=120 {
        t += 10;
        let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"S\",\"put\":\"out\"}}");
        if item % per == 0 {
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"S\",\"state\":\"arm\"}}");
            let _ = writeln!(log, "{{\"t\":{},\"machine\":\"S\",\"put\":\"rpc:T\",\"link\":\"wire\"}}", t + 2);
            let _ = writeln!(log, "{{\"t\":{},\"machine\":\"S\",\"blocked\":\"reply\"}}", t + 2);
            t += 2 + wire;
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"T\",\"get\":\"rpc:T\",\"state\":\"serve\"}}");
            t += 20;
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"T\",\"put\":\"rpc:T:reply:1\"}}");
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"S\",\"get\":\"rpc:T:reply:1\",\"state\":\"work\"}}");
            let _ = writeln!(log, "{{\"t\":{t},\"machine\":\"T\",\"blocked\":\"empty\"}}");
        }
    }
    let _ = writeln!(log, "{{\"t\":{t},\"end\":\"S\"}}");
    (log, t)
}

/// Only probes show the call, and the named state contains the wait for it: the callee's work is
/// paid once.
#[test]
fn a_call_within_a_paid_state_is_paid_once() {
    for wire in [0, 3] {
        let (log, _) = arming(1, wire);
        for per in [2, 4, 10] {
            assert_eq!(ns(&log, &format!("batch S::arm {per}")), arming(per, wire).1, "{per} items, {wire} ns");
            assert!(ns(&log, &format!("batch S {per}")).abs_diff(arming(per, wire).1) < 10, "{per} items, {wire} ns");
        }
    }
}

/// Clients of one server: each prepares, calls, and uses the reply. Returns the log until the first
/// client has made this number of calls, and that time.
fn clients(prepare: [u64; 2], serve: u64, calls: u64) -> (String, u64) {
    let mut log = String::from("{\"t\":0,\"machine\":\"srv\",\"blocked\":\"empty\"}\n");
    let (mut next, mut free, mut count) = (prepare, 0, 0);
    let _ = writeln!(log, "{{\"t\":0,\"machine\":\"c0\",\"state\":\"prep\"}}\n{{\"t\":0,\"machine\":\"c1\",\"state\":\"prep\"}}");
    let mut lines: Vec<(u64, u64, String)> = Vec::new();
    let mut end = 0;
    while count < calls {
        let c = usize::from(next[1] < next[0]);
        let (came, begin) = (next[c], next[c].max(free));
        let number = lines.len() as u64;
        let mut say = |t: u64, order: u64, text: String| lines.push((t, 4 * number + order, text));
        say(came, 0, format!("\"machine\":\"c{c}\",\"put\":\"rpc:X\""));
        say(came, 1, format!("\"machine\":\"c{c}\",\"blocked\":\"reply\""));
        say(begin, 2, "\"machine\":\"srv\",\"get\":\"rpc:X\",\"state\":\"serve\"".to_owned());
        free = begin + serve;
        say(free, 3, format!("\"machine\":\"srv\",\"put\":\"rpc:X:reply:{c}\""));
        say(free, 4, format!("\"machine\":\"c{c}\",\"get\":\"rpc:X:reply:{c}\",\"state\":\"prep\""));
        // The server waits only if the other client has not called by then.
        next[c] = free + prepare[c];
        if next[0].min(next[1]) > free {
            say(free, 5, "\"machine\":\"srv\",\"blocked\":\"empty\"".to_owned());
        }
        count += u64::from(c == 0);
        end = if c == 0 { free } else { end };
    }
    lines.sort();
    for (t, _, text) in lines.iter().filter(|line| line.0 <= end) {
        let _ = writeln!(log, "{{\"t\":{t},{text}}}");
    }
    let _ = writeln!(log, "{{\"t\":{end},\"end\":\"c0\"}}");
    (log, end)
}

/// A client that calls sooner than in the trace is served before another one, which calls more
/// rarely and keeps its times. The order of the trace is one end of the interval, and this order
/// the other.
#[test]
fn the_order_in_which_a_server_serves_is_within_the_interval() {
    for (prepare, serve) in [([100, 300], 20)] {
        let (log, before) = clients(prepare, serve, 200);
        for (change, of) in [("c0::prep x0.1", 10), ("c0::prep x0.5", 50), ("c0::prep x0.8", 80)] {
            let truth = clients([of, prepare[1]], serve, 200).1;
            let gain = before as f64 / truth as f64 - 1.0;
            let found = predicted(&log, change);
            let (low, high) = (found.gain_low.unwrap(), found.gain_high.unwrap());
            assert!(low <= gain && 1.0 + gain <= 1.1 * (1.0 + high), "{prepare:?} {change}: {gain} and not from {low} to {high}");
        }
    }
}

/// Two threads share a CPU. A thread with half of the work is preempted half as often, and a thread
/// that shares the CPU with one with half of the work waits half as long. The time at which the
/// first one got the CPU is unknown.
#[test]
fn a_preempted_thread_waits_in_proportion_to_its_work() {
    let mut text = String::from("{\"t\":0,\"machine\":\"hog\",\"state\":\"runnable\"}\n{\"t\":0,\"machine\":\"w\",\"state\":\"runnable\"}\n{\"t\":1,\"machine\":\"w\",\"state\":\"work\"}\n");
    for round in 0..4u64 {
        for (t, off, on) in [(11, "w", "hog"), (31, "hog", "w")] {
            let t = 30 * round + t;
            let _ = writeln!(
                text,
                "{{\"t\":{t},\"machine\":\"{off}\",\"state\":\"preempted\"}}\n{{\"t\":{t},\"machine\":\"{on}\",\"state\":\"work\"}}"
            );
        }
    }
    text += "{\"t\":131,\"end\":\"w\"}\n";
    assert_eq!(["w::work x1", "w::work x0.5", "w::work x2", "hog::work x0.5"].map(|change| ns(&text, change)), [131, 76, 241, 91]);
    // A change of the wait itself, like a quota that is lifted: it ends independently of the other
    // thread's work.
    assert_eq!(["w::preempted x0.5", "w::preempted x0"].map(|change| ns(&text, change)), [91, 51]);
}

/// The recorder runs when a timer or a disk lets it, however little it has to do. Without a
/// recorder, the threads that share its CPU still exclude each other, and a preempted thread
/// continues.
#[test]
fn no_thread_waits_for_the_recorder_or_for_a_cpu_that_it_had() {
    let after = |recorder: &str| {
        let mut text = format!("{{\"t\":0,\"machine\":\"{recorder}\",\"blocked\":\"timer\"}}\n");
        text += "{\"t\":0,\"machine\":\"b\",\"blocked\":\"x\"}\n{\"t\":0,\"machine\":\"a\",\"state\":\"runnable\"}\n{\"t\":0,\"machine\":\"a\",\"state\":\"work\"}
{\"t\":5,\"machine\":\"b\",\"woken_by\":\"a\"}\n";
        let _ =
            writeln!(text, "{{\"t\":8,\"machine\":\"{recorder}\",\"woken_by\":null}}\n{{\"t\":10,\"machine\":\"a\",\"blocked\":\"y\"}}");
        let _ = writeln!(
            text,
            "{{\"t\":10,\"machine\":\"{recorder}\",\"state\":\"drain\"}}\n{{\"t\":30,\"machine\":\"{recorder}\",\"blocked\":\"timer\"}}"
        );
        text + "{\"t\":30,\"machine\":\"b\",\"state\":\"rest\"}\n{\"t\":40,\"end\":\"b\"}\n"
    };
    let times = |text: &str, change: &str| {
        let predicted = predicted(text, change);
        let gain = predicted.gain.unwrap_or_else(|| panic!("{predicted:?}"));
        (predicted.baseline_ns, predicted.replayed_ns, (predicted.replayed_ns as f64 / (1.0 + gain)).round() as u64)
    };
    assert_eq!(
        ["a::work x1", "a::work x0.5", "a::work x0"].map(|change| times(&after("longpole"), change)),
        [(40, 20, 20), (40, 20, 15), (40, 20, 10)]
    );
    assert_eq!(["a::work x1", "a::work x0.5"].map(|change| times(&after("other"), change)), [(40, 40, 40), (40, 40, 38)]);
    // A thread that the recorder preempts.
    let mut text = String::from("{\"t\":0,\"machine\":\"longpole\",\"state\":\"runnable\"}\n{\"t\":0,\"machine\":\"w\",\"state\":\"runnable\"}\n{\"t\":1,\"machine\":\"w\",\"state\":\"work\"}\n");
    for round in 0..4u64 {
        for (t, off, on) in [(11, "w", "longpole"), (31, "longpole", "w")] {
            let t = 30 * round + t;
            let _ = writeln!(
                text,
                "{{\"t\":{t},\"machine\":\"{off}\",\"state\":\"preempted\"}}\n{{\"t\":{t},\"machine\":\"{on}\",\"state\":\"work\"}}"
            );
        }
    }
    text += "{\"t\":131,\"end\":\"w\"}\n";
    assert_eq!(
        ["w::work x1", "w::work x0.5", "longpole::work x0"].map(|change| times(&text, change)),
        [(131, 51, 51), (131, 51, 26), (131, 51, 51)]
    );
}

/// Workers of one class on one CPU, with the given work, in turns of 10 ns, the first after 1 ns.
/// Returns the log, and the time at which the last worker has finished.
fn in_turns(work: &[u64]) -> (String, u64) {
    let mut text: String =
        (0..work.len()).map(|w| format!("{{\"t\":0,\"machine\":\"w{w}\",\"class\":\"w\",\"state\":\"runnable\"}}\n")).collect();
    let mut queue: std::collections::VecDeque<(usize, u64)> = work.iter().copied().enumerate().collect();
    let (mut t, mut last) = (1, 0);
    while let Some((w, left)) = queue.pop_front() {
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"w{w}\",\"state\":\"work\"}}");
        t += left.min(10);
        last = w;
        match left > 10 {
            true => queue.push_back((w, left - 10)),
            false => {
                let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"w{w}\",\"blocked\":\"over\"}}");
                continue;
            }
        }
        if queue.len() > 1 {
            let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"w{w}\",\"state\":\"preempted\"}}");
        }
    }
    let _ = writeln!(text, "{{\"t\":{t},\"end\":\"w{last}\"}}");
    (text, t)
}

/// All threads that share a CPU become faster: each is preempted less often, and the others finish
/// in fewer turns. That is the same saving, and counts once.
#[test]
fn threads_that_take_turns_and_all_become_faster_gain_no_more_than_that() {
    for of in [1, 2, 3, 4] {
        let work = |ns: u64| in_turns(&vec![ns; of]);
        let ((text, _), (_, halved), (_, doubled)) = (work(4000), work(2000), work(8000));
        let near = |change: &str, truth: u64| {
            let error = ns(&text, change) as f64 / truth as f64 - 1.0;
            assert!((-0.001..0.03).contains(&error), "{of} workers, {change}: {error}");
        };
        near("w::work x0.5", halved);
        near("w::work x2", doubled);
        assert!(predicted(&text, "w::work x0.5").gain.unwrap() <= 1.0);
    }
    // One of two threads becomes faster: until it has finished, it has the CPU as often as the
    // other.
    let (text, _) = in_turns(&[4000, 4000]);
    let truth = in_turns(&[4000, 2000]).1;
    let found = ns(&text, "w0::work x0.5");
    assert!(found.abs_diff(truth) < truth / 30, "{found} instead of {truth}");
}
