//! Systems with a known bottleneck: it must be named, whatever everything is called; and where there is none, nothing may be.

mod support;

use longpole_analysis::report::Report;
use longpole_analysis::verdict::VerdictKind;
use support::{pipeline, Costs};

const SEEDS: std::ops::Range<u64> = 1..4;
const LENGTH_NS: i64 = 60_000_000;

fn first(report: &Report) -> Option<(&str, &str)> {
    report.findings.first().map(|finding| (finding.kind.as_str(), finding.subject.as_str()))
}

fn verdict(report: &Report) -> Option<(&str, Option<&str>)> {
    (report.verdict.kind == VerdictKind::Bottleneck)
        .then(|| (report.verdict.machine.as_deref().unwrap_or_default(), report.verdict.state.as_deref()))
}

#[test]
fn a_slow_state_is_named_by_verdict_and_finding() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        let names = &found.names;
        assert_eq!(verdict(&report), Some((names.router.as_str(), Some(names.lookup.as_str()))), "{}", report.verdict.text);
        let subject = format!("{}::{}", names.router, names.lookup);
        assert_eq!(first(&report), Some(("state_dominates_stage", subject.as_str())));
        let share = report.verdict.share.unwrap();
        assert!((0.7..0.95).contains(&share), "{share}");
        assert!(report.verdict.share_error.unwrap() < 0.05);
    }
}

#[test]
fn a_call_per_item_is_named() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { call_per_item: true, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        let names = &found.names;
        let subject = format!("{}::{}", names.router, names.call);
        assert_eq!(first(&report), Some(("called_once_per_item", subject.as_str())), "{}", report.verdict.text);
        assert_eq!(verdict(&report), Some((names.router.as_str(), Some(names.call.as_str()))), "{}", report.verdict.text);
    }
}

#[test]
fn a_small_batch_limit_is_named_and_a_large_one_is_not() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { batch: 4, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(first(&report), Some(("batch_limit_always_hit", found.names.router.as_str())), "{}", report.verdict.text);
        assert!(report.findings[0].advice.contains("after 4 items"), "{}", report.findings[0].advice);
    }
}

#[test]
fn a_signal_per_item_is_named() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { eager: true, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(first(&report), Some(("signalled_once_per_item", found.names.router.as_str())), "{}", report.verdict.text);
    }
}

#[test]
fn a_slow_source_and_a_slow_sink_are_named_too() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { generate: 2_000, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(report.verdict.machine.as_deref(), Some(found.names.source.as_str()), "{}", report.verdict.text);
        let mut found = pipeline(seed, &Costs { consume: 2_000, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(report.verdict.machine.as_deref(), Some(found.names.sink.as_str()), "{}", report.verdict.text);
    }
}

/// The rows of the faults that may not appear without a fault.
fn assert_nothing(report: &Report, what: &str) {
    assert_eq!(verdict(report), None, "{what}: {}", report.verdict.text);
    for finding in &report.findings {
        assert!(finding.kind.starts_with("queue_always"), "{what}: {} {}", finding.kind, finding.subject);
    }
}

#[test]
fn a_slow_stage_whose_time_is_spread_is_no_verdict() {
    for seed in SEEDS {
        let costs = Costs { parse: 400, lookup: 420, copy: 440, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, LENGTH_NS).trace.report(10.0), "spread");
    }
}

#[test]
fn balanced_stages_are_no_verdict() {
    for seed in SEEDS {
        let costs = Costs { generate: 430, consume: 430, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, LENGTH_NS).trace.report(10.0), "balanced");
    }
}

#[test]
fn interruptions_hide_no_bottleneck_and_make_none() {
    for seed in SEEDS {
        let costs = Costs { interruptions: Some(20_000_000), parse: 400, lookup: 420, copy: 440, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, 4 * LENGTH_NS).trace.report(10.0), "interrupted");
        let costs = Costs { interruptions: Some(20_000_000), lookup: 2_500, ..Costs::default() };
        let mut found = pipeline(seed, &costs, 4 * LENGTH_NS);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text);
    }
}

#[test]
fn lost_events_stand_beside_the_verdict_and_do_not_change_it() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
        let begin = found.trace.events.iter().map(|(t, ..)| *t).min().unwrap();
        for part in 1..5 {
            let at = begin + part * LENGTH_NS / 6;
            found.trace.lose(found.router, at, at + LENGTH_NS / 30);
        }
        let lost: u64 = found.trace.losses.iter().filter_map(|loss| loss.events).sum();
        assert!(lost > 1000);
        let report = found.trace.report(10.0);
        assert_eq!(report.verdict.lost, lost);
        assert!(report.verdict.text.contains(&format!("{lost} events lost")), "{}", report.verdict.text);
        assert!(report.verdict.unknown_share.unwrap() > 0.1);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text);
    }
}

#[test]
fn a_recording_that_begins_in_the_middle_names_the_same() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
        let begin = found.trace.events.iter().map(|(t, ..)| *t).min().unwrap();
        found.trace.events.retain(|(t, ..)| *t > begin + LENGTH_NS / 2);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text);
        let queue = report.queues.iter().find(|queue| queue.name == found.names.first).unwrap();
        assert!(queue.depth.p50.unwrap() > 150, "{:?}", queue.depth);
    }
}

#[test]
fn a_thread_alone_is_no_verdict() {
    let mut found = pipeline(1, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
    let router = found.router;
    found.trace.events.retain(|(_, thread, ..)| *thread == router);
    assert_eq!(verdict(&found.trace.report(10.0)), None);
    found.trace.events.clear();
    assert_nothing(&found.trace.report(10.0), "empty");
}

#[test]
fn the_probes_own_cost_is_left_out() {
    // A state whose time is nothing but its probes.
    let mut found = pipeline(3, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
    let free = found.trace.report(0.0);
    let dear = found.trace.report(200.0);
    assert!(dear.verdict.share.unwrap() > free.verdict.share.unwrap());
    assert!(free.verdict.text.contains("probe cost not measured"), "{}", free.verdict.text);
    assert!(dear.verdict.text.contains("probe cost left out"), "{}", dear.verdict.text);
}

#[test]
fn stages_that_never_say_that_they_wait_are_told_by_their_queues() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, batch: 8, ..Costs::default() }, LENGTH_NS);
        let waits = |name: &str| name.starts_with("queue_wait") || name.starts_with("signal");
        let silent: Vec<bool> = found.trace.catalogue.classes.iter().map(|class| waits(&class.event_name)).collect();
        found.trace.events.retain(|(_, _, class, _)| !silent[class.0 as usize]);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text);
    }
}
