//! Random systems compared with slow and simple computations of the same answers.

use crate::support;
use crate::support::{pipeline, Costs, Random, Trace};
use longpole_analysis::latency::Kind;
use proptest::prelude::*;
use std::collections::HashMap;

/// Random events of three threads, with every kind of probe, sometimes nested wrongly.
fn noise(seed: u64, count: usize) -> Trace {
    let mut random = Random::new(seed);
    let mut trace = Trace::default();
    for label in ["a", "b", "c"] {
        trace.thread(label);
    }
    let kinds = [
        "span_begin:x",
        "span_end:x",
        "span_begin:y",
        "span_end:y",
        "rpc_call:f",
        "rpc_dispatch:f",
        "rpc_reply:f",
        "rpc_returned:f",
        "signal_submit:s",
        "signal_receive:s",
        "signal_wait:s",
        "queue_put:q",
        "queue_get:q",
        "queue_wait_empty:q",
        "queue_wait_full:q",
        "state:m::u",
        "state:m::v",
        "mark:k",
        "event:other",
    ];
    let mut t = 1_000;
    for _ in 0..count {
        t += random.below(1_000) as i64;
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let fields: &[(&str, u64)] = match kind.split(':').next() {
            Some("rpc_call" | "rpc_dispatch" | "rpc_reply" | "rpc_returned") => &[("id", random.below(4))],
            Some("signal_submit" | "signal_receive" | "queue_put" | "queue_get") => &[("count", 1 + random.below(3))],
            _ => &[],
        };
        let thread = random.below(3) as u32;
        trace.event(t, thread, kind, fields);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    // A thread known only by the states of one declared machine would get that machine's name.
    fn the_states_of_a_thread_sum_exactly_to_its_time(seed in any::<u64>(), count in 200usize..2000) {
        let mut trace = noise(seed, count);
        let pass = trace.pass();
        let cpu = pass.cpu(None);
        for thread in &cpu.threads {
            let of = trace.catalogue.subjects.iter().position(|subject| subject.label == thread.name).unwrap() as u32;
            let times = || trace.events.iter().filter(|(_, by, ..)| *by == of).map(|(t, ..)| *t);
            let lived = (times().max().unwrap() - times().min().unwrap()) as u64;
            prop_assert_eq!(thread.total_ns, lived);
            prop_assert_eq!(thread.states.iter().map(|state| state.ns).sum::<u64>(), lived);
            prop_assert_eq!(thread.running_ns.unwrap() + thread.blocked_ns.unwrap(), lived);
        }
    }

    #[test]
    fn the_sum_of_states_is_exact_with_losses(seed in any::<u64>(), count in 10usize..2000, from in 0u64..100, length in 1u64..100) {
        let mut trace = noise(seed, count);
        let (begin, end) = (trace.events[0].0, trace.events[count - 1].0);
        let at = begin + (end - begin) * from as i64 / 100;
        trace.lose(1, at, at + (end - begin) * length as i64 / 100);
        let pass = trace.pass();
        for thread in pass.cpu(None).threads {
            prop_assert_eq!(thread.states.iter().map(|state| state.ns).sum::<u64>(), thread.total_ns);
        }
    }

    #[test]
    fn depth_equals_the_sum_over_all_intervals(seed in any::<u64>()) {
        let mut found = pipeline(seed, &Costs::default(), 2_000_000);
        let pass = found.trace.pass();
        let name = &found.names.first;
        let end = found.trace.events.iter().map(|(t, ..)| *t).max().unwrap();
        let mut depth = 0i64;
        let mut last: Option<i64> = None;
        let mut times: HashMap<i64, i64> = HashMap::new();
        for (t, _, class, fields) in &found.trace.events {
            let event = &found.trace.catalogue.classes[class.0 as usize].event_name;
            let by = if *event == format!("queue_put:{name}") { fields[0] as i64 }
                else if *event == format!("queue_get:{name}") { -(fields[0] as i64) } else { continue };
            if let Some(last) = last {
                *times.entry(depth).or_default() += t - last;
            }
            (last, depth) = (Some(*t), depth + by);
        }
        *times.entry(depth).or_default() += end - last.unwrap();
        let total: i64 = times.values().sum();
        let mean = times.iter().map(|(depth, ns)| *depth as f64 * *ns as f64).sum::<f64>() / total as f64;
        let queues = pass.queues();
        let queue = queues.iter().find(|queue| queue.name == *name).unwrap();
        prop_assert!((queue.depth.mean.unwrap() - mean).abs() <= mean * 0.01 + 0.5, "{:?} {mean}", queue.depth.mean);
        let full = times.iter().filter(|(depth, _)| **depth >= support::CAPACITY as i64).map(|(_, ns)| ns).sum::<i64>();
        prop_assert!((queue.full_share.unwrap() - full as f64 / total as f64).abs() < 0.02);
    }

    #[test]
    fn calls_pair_by_id_and_their_parts_sum_to_the_whole(seed in any::<u64>()) {
        let mut found = pipeline(seed, &Costs { call_per_item: true, ..Costs::default() }, 2_000_000);
        let pass = found.trace.pass();
        let mut open: HashMap<u64, i64> = HashMap::new();
        let (mut count, mut total) = (0, 0);
        for (t, _, class, fields) in &found.trace.events {
            let event = &found.trace.catalogue.classes[class.0 as usize].event_name;
            if event.starts_with("rpc_call:") {
                open.insert(fields[0], *t);
            } else if event.starts_with("rpc_returned:") {
                count += 1;
                total += t - open.remove(&fields[0]).unwrap();
            }
        }
        let latency = pass.latency();
        let call = latency.iter().find(|line| line.kind == Kind::Rpc).unwrap();
        prop_assert_eq!((call.times.count, call.times.total_ns), (count, total as u64));
        let parts = ["dispatch", "service", "return"].map(|part| match call.parts.get(part).unwrap() {
            longpole_analysis::latency::Part::Times(times) => times.total_ns,
            longpole_analysis::latency::Part::Count(_) => 0,
        });
        prop_assert_eq!(parts.iter().sum::<u64>(), total as u64);
        prop_assert_eq!(call.peer.as_deref(), Some(found.names.server.as_str()));
    }
}
