//! Systems with a known bottleneck, which must be named independently of all names, and systems
//! without one, for which none may be named.

use crate::support::{pipeline, Costs, Trace};
use longpole_analysis::report::Report;
use longpole_analysis::stats::text::number;
use longpole_analysis::verdict::data::{ClassState, Origin, Outcome, Verdict};

const SEEDS: std::ops::Range<u64> = 1..4;
const LENGTH_NS: i64 = 60_000_000;

fn first(report: &Report) -> Option<(&str, &str)> {
    report.findings.first().map(|finding| (finding.kind.as_str(), finding.subject.as_str()))
}

fn subject(verdict: &Verdict) -> Option<&str> {
    verdict.subject.as_ref().map(|subject| subject.name.as_str())
}

fn state(verdict: &Verdict) -> Option<&str> {
    verdict.state.as_ref().map(|state| state.name.as_str())
}

/// Subject and state of a bottleneck.
fn verdict(report: &Report) -> Option<(&str, Option<&str>)> {
    let verdict = &report.verdict;
    (verdict.outcome == Outcome::Bottleneck).then(|| (subject(verdict).unwrap_or_default(), state(verdict)))
}

/// Half of the interval of the share.
fn error(verdict: &Verdict) -> f64 {
    (verdict.share_high.unwrap() - verdict.share_low.unwrap()) / 2.0
}

#[test]
fn a_slow_state_is_named_by_verdict_and_finding() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        let names = &found.names;
        assert_eq!(verdict(&report), Some((names.router.as_str(), Some(names.lookup.as_str()))), "{}", report.verdict.text());
        let subject = format!("{}::{}", names.router, names.lookup);
        assert_eq!(first(&report), Some(("state_dominates_stage", subject.as_str())));
        let share = report.verdict.share.unwrap();
        assert!((0.7..0.95).contains(&share), "{share}");
        assert!(error(&report.verdict) < 0.05);
    }
}

#[test]
fn a_call_per_item_is_named() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { call_per_item: true, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        let names = &found.names;
        let subject = format!("{}::{}", names.router, names.call);
        assert_eq!(first(&report), Some(("called_once_per_item", subject.as_str())), "{}", report.verdict.text());
        assert_eq!(verdict(&report), Some((names.router.as_str(), Some(names.call.as_str()))), "{}", report.verdict.text());
    }
}

#[test]
fn a_small_batch_limit_is_named_and_a_large_one_is_not() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { batch: 4, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(first(&report), Some(("batch_limit_always_hit", found.names.router.as_str())), "{}", report.verdict.text());
        assert!(report.findings[0].advice.contains("after 4 items"), "{}", report.findings[0].advice);
        // The state in which the router signals itself: no probe names one.
        assert_eq!(state(&report.verdict), Some("run"), "{}", report.verdict.text());
    }
}

#[test]
fn a_small_batch_limit_explains_a_state_with_a_smaller_share_of_the_path() {
    let report = |costs: &Costs| pipeline(1, costs, LENGTH_NS).trace.report(10.0).verdict;
    let (limited, slow) = (report(&Costs { batch: 4, ..Costs::default() }), report(&Costs { lookup: 2_500, ..Costs::default() }));
    let of_path = |machine: &str, share: f64| Verdict {
        share: Some(share),
        share_low: Some(share - 0.02),
        share_high: Some(share + 0.02),
        origin: Origin { row: Some(ClassState::new(machine, "a state")), ..Origin::default() },
        ..slow.clone()
    };
    let (share, machine) = (limited.share.unwrap(), subject(&limited).unwrap());
    assert!(limited.explains(&of_path(machine, share / 2.0)), "{}", limited.text());
    assert!(!limited.explains(&of_path(machine, share)), "{}", limited.text());
    assert!(!limited.explains(&of_path("another", share / 2.0)), "{}", limited.text());
    assert!(!slow.explains(&of_path(subject(&slow).unwrap(), 0.3)), "a state is no cause: {}", slow.text());
}

#[test]
fn a_signal_per_item_is_named() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { eager: true, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(first(&report), Some(("signalled_once_per_item", found.names.router.as_str())), "{}", report.verdict.text());
        // No state leads: the finding is the verdict, with its uncertainty like any other.
        let within = error(&report.verdict);
        assert!(within > 0.0 && within < 0.1, "{within}");
        let begin = format!("{} is the bottleneck: it signals others 2.0", found.names.router);
        assert!(report.verdict.text().starts_with(&begin), "{}", report.verdict.text());
        assert!(report.verdict.text().contains(" % ± "), "{}", report.verdict.text());
        assert!(report.verdict.text().contains(" of its time unknown, 0 events lost"), "{}", report.verdict.text());
        assert!(report.verdict.text().contains("; signal once per batch, and only threads that wait."), "{}", report.verdict.text());
        assert_eq!(report.verdict.text().matches(": ").count(), 1, "{}", report.verdict.text());
        let evidence = report.verdict.evidence;
        assert!(evidence.end_ns - evidence.start_ns < LENGTH_NS / 8, "{evidence:?}");
    }
}

#[test]
fn a_slow_source_and_a_slow_sink_are_named() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { generate: 2_000, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(subject(&report.verdict), Some(found.names.source.as_str()), "{}", report.verdict.text());
        let mut found = pipeline(seed, &Costs { consume: 2_000, ..Costs::default() }, LENGTH_NS);
        let report = found.trace.report(10.0);
        assert_eq!(subject(&report.verdict), Some(found.names.sink.as_str()), "{}", report.verdict.text());
    }
}

/// Asserts that the report names no fault.
fn assert_nothing(report: &Report, what: &str) {
    assert_eq!(verdict(report), None, "{what}: {}", report.verdict.text());
    for finding in &report.findings {
        assert!(finding.kind.starts_with("queue_always"), "{what}: {} {}", finding.kind, finding.subject);
    }
}

#[test]
fn a_slow_stage_whose_time_is_spread_has_no_verdict() {
    for seed in SEEDS {
        let costs = Costs { parse: 400, lookup: 420, copy: 440, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, LENGTH_NS).trace.report(10.0), "spread");
    }
}

#[test]
fn balanced_stages_have_no_verdict() {
    for seed in SEEDS {
        let costs = Costs { generate: 430, consume: 430, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, LENGTH_NS).trace.report(10.0), "balanced");
    }
}

#[test]
fn interruptions_neither_hide_nor_create_a_bottleneck() {
    for seed in SEEDS {
        let costs = Costs { interruptions: Some(20_000_000), parse: 400, lookup: 420, copy: 440, ..Costs::default() };
        assert_nothing(&pipeline(seed, &costs, 4 * LENGTH_NS).trace.report(10.0), "interrupted");
        let costs = Costs { interruptions: Some(20_000_000), lookup: 2_500, ..Costs::default() };
        let mut found = pipeline(seed, &costs, 4 * LENGTH_NS);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text());
    }
}

#[test]
fn lost_events_are_reported_with_the_verdict_and_do_not_change_it() {
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
        assert!(report.verdict.text().contains(&format!("{} events lost", number(lost))), "{}", report.verdict.text());
        assert!(report.verdict.unknown_share.unwrap() > 0.1);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text());
    }
}

#[test]
fn a_stage_of_which_little_is_known_is_not_judged() {
    // One thread computes, then fills a queue without a limit and loses nearly all events of that;
    // another thread takes long to empty it.
    let mut trace = Trace::default();
    let (main, logger) = (trace.thread("main"), trace.thread("logger"));
    for item in 0..500 {
        trace.event(1_000_000 * item, main, "span_begin:compute", &[]);
        trace.event(1_000_000 * item + 990_000, main, "span_end:compute", &[]);
        trace.event(1_000_000 * item + 995_000, main, "queue_put:log", &[("count", 1)]);
    }
    for item in 0..6_000 {
        trace.event(500_000_000 + 1_000 * item, main, "queue_put:log", &[("count", 1)]);
    }
    trace.event(2_200_000_000, main, "span_begin:compute", &[]);
    for item in 0..6_500 {
        let t = if item < 500 { 1_000_000 * (item + 1) } else { 501_000_000 + 250_000 * (item - 500) };
        trace.event(t, logger, "queue_get:log", &[("count", 1)]);
        trace.event(t + 1_000, logger, "span_begin:write", &[]);
        trace.event(t + 240_000, logger, "span_end:write", &[]);
        if item < 500 {
            trace.event(t + 241_000, logger, "queue_wait_empty:log", &[]);
        }
    }
    trace.catalogue.classes.iter_mut().for_each(|class| class.attributes.clear());
    trace.lose(main, 501_500_000, 2_100_000_000);
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), None, "{}", report.verdict.text());
    assert!(report.verdict.text().contains("of its time is unknown; record again with --buffer 4MiB"), "{}", report.verdict.text());
    assert!(report.verdict.unknown_share.unwrap() > 0.5);
    assert_eq!(report.findings.iter().filter(|finding| finding.subject.starts_with("main")).count(), 0, "{:?}", report.findings);
}

#[test]
fn a_recording_that_begins_in_the_middle_names_the_same_bottleneck() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
        let begin = found.trace.events.iter().map(|(t, ..)| *t).min().unwrap();
        found.trace.events.retain(|(t, ..)| *t > begin + LENGTH_NS / 2);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text());
        let queue = report.queues.iter().find(|queue| queue.name == found.names.first).unwrap();
        assert!(queue.depth.p50.unwrap() > 150, "{:?}", queue.depth);
    }
}

#[test]
fn a_single_thread_has_no_verdict() {
    let mut found = pipeline(1, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
    let router = found.router;
    found.trace.events.retain(|(_, thread, ..)| *thread == router);
    assert_eq!(verdict(&found.trace.report(10.0)), None);
    found.trace.events.clear();
    assert_nothing(&found.trace.report(10.0), "empty");
}

#[test]
fn the_probes_own_cost_is_left_out() {
    // A state whose time consists of its probes only.
    let mut found = pipeline(3, &Costs { lookup: 2_500, ..Costs::default() }, LENGTH_NS);
    let free = found.trace.report(0.0);
    let dear = found.trace.report(200.0);
    assert!(dear.verdict.share.unwrap() > free.verdict.share.unwrap());
    assert!(free.verdict.text().contains("probe cost not measured"), "{}", free.verdict.text());
    assert!(dear.verdict.text().contains("probe cost left out"), "{}", dear.verdict.text());
}

#[test]
fn stages_without_probes_for_waits_are_judged_by_their_queues() {
    for seed in SEEDS {
        let mut found = pipeline(seed, &Costs { lookup: 2_500, batch: 8, ..Costs::default() }, LENGTH_NS);
        let waits = |name: &str| name.starts_with("queue_wait") || name.starts_with("signal");
        let silent: Vec<bool> = found.trace.catalogue.classes.iter().map(|class| waits(&class.event_name)).collect();
        found.trace.events.retain(|(_, _, class, _)| !silent[class.0 as usize]);
        let report = found.trace.report(10.0);
        let expected = (found.names.router.as_str(), Some(found.names.lookup.as_str()));
        assert_eq!(verdict(&report), Some(expected), "{}", report.verdict.text());
    }
}

/// A source that has finished after a millisecond, and a worker that takes ten for what the source
/// left in a queue without a limit.
fn backlog() -> (Trace, u32) {
    let mut trace = Trace::default();
    let (source, worker) = (trace.thread("feeder"), trace.thread("grinder"));
    for item in 0..1000 {
        let t = 1_000 * item;
        trace.event(t, source, "span_begin:read", &[]);
        trace.event(t + 700, source, "span_end:read", &[]);
        trace.event(t + 800, source, "queue_put:pile", &[("count", 1)]);
        let t = 900 + 10_000 * item;
        trace.event(t, worker, "queue_get:pile", &[("count", 1)]);
        trace.event(t + 100, worker, "span_begin:grind", &[]);
        trace.event(t + 9_000, worker, "span_end:grind", &[]);
    }
    trace.catalogue.classes.iter_mut().for_each(|class| class.attributes.clear());
    (trace, worker)
}

#[test]
fn the_consumer_of_a_queue_without_a_limit_is_named_although_no_thread_ever_waits() {
    let (mut trace, _) = backlog();
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), Some(("grinder", Some("grind"))), "{}", report.verdict.text());
    assert!(report.verdict.text().contains("feeder waits 90.0 % of its time for the remaining items of pile"), "{}", report.verdict.text());
}

#[test]
fn a_recording_that_ends_before_the_queue_is_empty_names_the_same_bottleneck() {
    let (mut trace, _) = backlog();
    trace.events.retain(|(t, ..)| *t < 3_000_000);
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), Some(("grinder", Some("grind"))), "{}", report.verdict.text());
}

/// A producer with 1 ms per item into a queue without a limit, and a consumer with 0.6 ms that has
/// a probe only at each tenth get.
fn sparsely_probed() -> Trace {
    let mut trace = Trace::default();
    let (producer, logger) = (trace.thread("producer"), trace.thread("logger"));
    for item in 0..1000 {
        let t = 1_000_000 * item;
        trace.event(t, producer, "span_begin:make", &[]);
        trace.event(t + 990_000, producer, "span_end:make", &[]);
        trace.event(t + 995_000, producer, "queue_put:log", &[("count", 1)]);
        let t = t + 1_000_000;
        if item % 10 == 0 {
            trace.event(t, logger, "queue_get:log", &[("count", 1)]);
        }
        trace.event(t + 5_000, logger, "span_begin:write", &[]);
        trace.event(t + 600_000, logger, "span_end:write", &[]);
        trace.event(t + 605_000, logger, "queue_wait_empty:log", &[]);
    }
    trace.catalogue.classes.iter_mut().for_each(|class| class.attributes.clear());
    trace
}

#[test]
fn an_item_that_is_taken_shortly_before_its_put_has_no_residence_time() {
    let mut trace = Trace::default();
    let (producer, consumer) = (trace.thread("producer"), trace.thread("consumer"));
    for t in (0..1_000_000).step_by(10_000) {
        // Every tenth get is stamped too early.
        let early = if t % 100_000 == 0 { -50 } else { 400 };
        trace.event(t + 1_000, producer, "queue_put:work", &[("count", 1)]);
        trace.event(t + 1_000 + early, consumer, "queue_get:work", &[("count", 1)]);
    }
    let residence = &trace.report(0.0).queues[0].residence_ns;
    assert_eq!((residence.count, residence.max_ns), (90, Some(400)));
}

#[test]
fn a_queue_that_was_found_empty_has_no_backlog() {
    let mut trace = sparsely_probed();
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), Some(("producer", Some("make"))), "{}", report.verdict.text());
    assert!(!report.verdict.text().contains("remaining items"), "{}", report.verdict.text());
    assert_eq!(report.queues[0].depth.max, Some(1));
    // The same if the recording ends right after a put.
    trace.events.truncate(trace.events.len() - 4);
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), Some(("producer", Some("make"))), "{}", report.verdict.text());
}

#[test]
fn short_lived_producers_leave_no_backlog_while_others_continue() {
    let mut trace = Trace::default();
    let worker = trace.thread("grinder");
    for item in 0..1000 {
        // Each item has a producer of its own, and the worker waits for it.
        let producer = if item % 10 == 0 { trace.thread("request") } else { 1 + (item / 10) as u32 };
        let t = 10_000 * item;
        trace.event(t, producer, "span_begin:prepare", &[]);
        trace.event(t + 9_000, producer, "span_end:prepare", &[]);
        trace.event(t + 9_000, producer, "queue_put:pile", &[("count", 1)]);
        trace.event(t + 9_500, worker, "queue_get:pile", &[("count", 1)]);
        trace.event(t + 9_600, worker, "span_begin:grind", &[]);
        trace.event(t + 9_900, worker, "span_end:grind", &[]);
        trace.event(t + 9_900, worker, "queue_wait_empty:pile", &[]);
    }
    trace.catalogue.classes.iter_mut().for_each(|class| class.attributes.clear());
    let report = trace.report(0.0);
    assert_ne!(subject(&report.verdict), Some("grinder"), "{}", report.verdict.text());
}

#[test]
fn threads_that_share_the_work_are_one_stage() {
    const WORKERS: i64 = 4;
    let mut trace = Trace::default();
    let (source, sink) = (trace.thread("feeder"), trace.thread("shelf"));
    let workers: Vec<u32> = (0..WORKERS).map(|_| trace.thread("grinder")).collect();
    for item in 0..2000 {
        let t = 10_000 * item;
        trace.event(t, source, "queue_wait_full:pile", &[]);
        trace.event(t + 9_000, source, "queue_put:pile", &[("count", 1)]);
        let worker = workers[(item % WORKERS) as usize];
        trace.event(t, worker, "queue_get:pile", &[("count", 1)]);
        trace.event(t + 100, worker, "span_begin:grind", &[]);
        trace.event(t + WORKERS * 9_900, worker, "span_end:grind", &[]);
        trace.event(t + WORKERS * 9_900 + 50, worker, "queue_put:shelf", &[("count", 1)]);
        trace.event(t + WORKERS * 9_900 + 100, sink, "queue_get:shelf", &[("count", 1)]);
        trace.event(t + WORKERS * 9_900 + 200, sink, "queue_wait_empty:shelf", &[]);
    }
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), Some(("grinder/ep", Some("grind"))), "{}", report.verdict.text());
    assert!(report.verdict.text().contains("4 threads do the same"), "{}", report.verdict.text());
    let dominating: Vec<u64> =
        report.findings.iter().filter(|finding| finding.kind == "state_dominates_stage").map(|finding| finding.count).collect();
    assert_eq!(dominating, [2000], "the items of all of them: {:?}", report.findings);
}

#[test]
fn the_waste_of_a_single_thread_is_reported_without_a_bottleneck() {
    let mut trace = Trace::default();
    let server = trace.thread("server");
    for item in 0..1000 {
        let t = 10_000 * item;
        trace.event(t, server, "queue_put:pending", &[("count", 1)]);
        trace.event(t + 100, server, "queue_get:pending", &[("count", 1)]);
        trace.event(t + 200, server, "span_begin:hash", &[]);
        trace.event(t + 9_000, server, "span_end:hash", &[]);
    }
    let report = trace.report(0.0);
    assert_eq!(verdict(&report), None);
    assert!(report.verdict.text().contains("By itself, 88 % of the work of server per item is hash"), "{}", report.verdict.text());
}

/// A worker that gives each item a span with a name of its own.
fn named_items(items: i64) -> Trace {
    let mut trace = Trace::default();
    let (source, worker, sink) = (trace.thread("feeder"), trace.thread("grinder"), trace.thread("shelf"));
    for item in 0..items {
        let t = 10_000 * item;
        trace.event(t, source, "queue_wait_full:pile", &[]);
        trace.event(t + 9_000, source, "queue_put:pile", &[("count", 1)]);
        trace.event(t + 9_100, worker, "queue_get:pile", &[("count", 1)]);
        trace.event(t + 9_200, worker, &format!("span_begin:job {item}"), &[]);
        trace.event(t + 18_900, worker, &format!("span_end:job {item}"), &[]);
        trace.event(t + 18_950, worker, "queue_put:done", &[("count", 1)]);
        trace.event(t + 18_960, sink, "queue_get:done", &[("count", 1)]);
        trace.event(t + 18_970, sink, "queue_wait_empty:done", &[]);
    }
    trace
}

/// With a comparison of each name with each other one, this would not end in reasonable time.
#[test]
fn a_report_on_ten_thousand_names_made_at_run_time_is_possible() {
    let pass = named_items(10_000).pass();
    let report = pass.report(Some(10.0));
    assert_eq!(verdict(&report), None, "{}", report.verdict.text());
    assert!(report.verdict.text().contains("of its work is spread over very many names"), "{}", report.verdict.text());
    // The number of names is limited, the others are merged into one, and their events are counted.
    assert!(report.inputs.other_names > 10_000, "{}", report.inputs.other_names);
    assert!(report.latency.len() < 3_000 && report.latency.iter().any(|line| line.name == "(other names)"), "{}", report.latency.len());
    let spans: u64 = report.latency.iter().map(|line| line.times.count).filter(|&count| count != 20_000).sum();
    assert!(spans >= 10_000, "{spans}");
    assert!(pass.cpu(Some(10.0)).threads.iter().all(|thread| thread.states.len() < 3_000));
}

#[test]
fn a_batch_that_no_wait_ended_is_counted_at_the_end() {
    let (mut trace, _) = backlog();
    let report = trace.report(0.0);
    let batch = &report.queues[0].batch;
    assert_eq!((batch.count, batch.max), (1, Some(1000)));
}

#[test]
fn a_queue_finding_counts_the_puts_and_shows_where_threads_waited_for_the_queue() {
    let costs = Costs { generate: 430, consume: 430, ..Costs::default() };
    let report = pipeline(1, &costs, LENGTH_NS / 4).trace.report(10.0);
    for finding in report.findings.iter().filter(|finding| finding.kind.starts_with("queue_always")) {
        let queue = report.queues.iter().find(|queue| queue.name == finding.subject).unwrap();
        assert_eq!(finding.count, queue.puts);
    }
}

/// The documentation gives the same figures as the rules.
#[test]
fn the_documentation_gives_the_rules_figures() {
    let doc = include_str!("../../../../docs/internals/analysis.md");
    let rules: toml::Table = include_str!("../../rules/findings.toml").parse().unwrap();
    let said = |text: &str, value: f64| text.contains(&format!("{} %", (value * 100.0).round())) || text.contains(&value.to_string());
    for rule in rules["finding"].as_array().unwrap() {
        let (kind, when) = (rule["kind"].as_str().unwrap(), rule["when"].as_str().unwrap());
        // A kind may have several rules.
        let lines: Vec<_> = doc.lines().filter(|line| line.starts_with('|') && line.contains(&format!("`{kind}`"))).collect();
        let limits: Vec<f64> = when.split(">= ").skip(1).filter_map(|rest| rest.split([' ', ')']).next()?.parse().ok()).collect();
        let tells = |line: &&str| limits.iter().all(|&limit| said(line, limit)) && line.matches(" %").count() <= limits.len();
        assert!(lines.iter().any(tells), "{kind}: {limits:?} in {lines:?}");
    }
    let of_path = doc.split_once("### Rules for the path").unwrap().1.split_once("### Rules for the stages").unwrap().0;
    for (name, value) in rules["path"].as_table().unwrap() {
        match value {
            toml::Value::Float(value) => assert!(said(of_path, *value), "{name} = {value}"),
            leads => leads.as_array().unwrap().iter().for_each(|needed| {
                let (share, lead) = (needed["share"].as_float().unwrap(), needed["lead"].as_float().unwrap());
                assert!(said(of_path, share) && (lead <= 1.0 || said(of_path, lead)), "{needed}");
            }),
        }
    }
    let promised = rules["path"]["min_of_promise"].as_float().unwrap();
    for page in [doc, include_str!("../../../../docs/decisions/0018-verdict-limits.md")] {
        assert!(page.contains(&format!("{} % of what its share promises", promised * 100.0)), "{promised}");
    }
    let rest = doc.split_once("### Rules for the stages").unwrap().1;
    for (name, value) in rules["stages"].as_table().unwrap() {
        let part = if name == "min_stage_blame" { rest } else { rest.split_once("## Errors").unwrap().0 };
        match value {
            // This threshold only distinguishes states of waking others, and is no figure of the
            // verdict.
            toml::Value::Float(_) if name == "min_signalling" => {}
            toml::Value::Float(value) => assert!(said(part, *value), "{name} = {value}"),
            leads => leads.as_array().unwrap().iter().for_each(|lead| {
                assert!(said(part, lead["share"].as_float().unwrap()) && said(part, lead["lead"].as_float().unwrap()), "{lead}");
            }),
        }
    }
}
