//! Each reason and each caveat of a verdict conforms to the JSON schema.

use crate::support::schema;
use longpole_analysis::verdict::data::because::Because;
use longpole_analysis::verdict::data::caveat::{Caveat, Contradictions};
use longpole_analysis::verdict::data::figures::{Agreed, Change, Found, Measured, RequiredShare, StateShare, WaitedFor};
use longpole_analysis::verdict::data::{Basis, Locks, Named, Outcome, RunnerUp, StateNamed, SubjectLevel, SubjectState, Verdict};
use longpole_analysis::verdict::not_recorded::NotRecorded;

fn reasons() -> Vec<Because> {
    let name = || "a".to_owned();
    let named = || Named::of_name(SubjectLevel::Thread, "a");
    let state = || StateNamed { kind: SubjectState::Declared, name: name() };
    let measured = || Measured { subject: named(), state: state(), share: 0.5, error: 0.1 };
    let state_share = || StateShare { state: state(), share: 0.5, error: 0.1 };
    let rival = || RunnerUp { subject: named(), state: state(), share: 0.5 };
    let found = |error| Found { finding: name(), count: 1, share: 0.5, error, what: name(), remedy: name() };
    let agreed = |subject, state| Agreed { subject, state, runs: 1 };
    let little = |rival, other| Because::LittleGain { change: name(), gain: 0.0, rival, other };
    let locks = || Locks { count: 1, address: "0x7f00".to_owned(), share: 0.9 };
    let waits = |waits_for| Because::Waits { waiter: named(), share: 0.5, waits_for, queue: name() };
    vec![
        Because::Largest { part: measured(), whole: None },
        Because::Largest { part: measured(), whole: Some(0.7) },
        Because::NothingHappens,
        Because::WaitUnknown,
        Because::TransitUnknown,
        Because::OwnTimer { sets_pace: true, gain: Some(0.1) },
        Because::NotAhead { next: measured() },
        Because::TooSmall { enough: vec![RequiredShare { share: 0.2, lead: 1.3 }] },
        Because::NobodyWaits,
        little(Some(rival()), None),
        little(None, Some(Change { change: name(), gain: 0.1 })),
        Because::CpuIdle { share: 0.5 },
        Because::NoProbes,
        Because::NoStages,
        Because::LittleWaiting { share: 0.01 },
        Because::NoSingleCause { most: named(), share: 0.4 },
        Because::MoreThreads { threads: 3.5, cpus: 2 },
        Because::Threads { groups: vec![("worker".to_owned(), 0.4), (String::new(), 0.3)] },
        Because::LowerPriority { waits: named(), user: named(), levels: 19 },
        Because::IdleSleeps { sleepers: vec![named()], share: 0.5, gain: 0.005 },
        Because::FileLock { call: name(), waiter: named(), holder: named(), count: 1, mean_ns: 9 },
        Because::LittleWork { stage: named(), share: 0.4 },
        Because::LittleKnown { stage: named(), share: 0.6 },
        Because::SlowestStage { stage: named() },
        Because::NoWork,
        Because::ManyNames { share: 0.5 },
        Because::WorkNotNamed { share: 0.5 },
        Because::NoStateLeads { first: state_share(), next: Some(state_share()), is_ahead: false },
        Because::NoStateLeads { first: state_share(), next: None, is_ahead: true },
        Because::FewCalls { call: name() },
        Because::CalledBy { caller: named(), call: name() },
        Because::Finding(found(Some(0.1))),
        Because::ByItself(found(None)),
        Because::ProbeCost { share: None },
        Because::SameThreads { count: 4 },
        waits(WaitedFor::Space),
        waits(WaitedFor::Items),
        waits(WaitedFor::Backlog),
        Because::LostPackets { count: 9, share: 0.1, remedy: name() },
        Because::Recordings { count: 3, agreeing: 2 },
        Because::Disagreement { verdicts: vec![agreed(Some(named()), Some(state())), agreed(None, None)] },
        Because::Waits { waiter: named(), share: 0.5, waits_for: WaitedFor::Items, queue: name() },
        Because::Processes { by: named(), count: 3, mean_ns: 9 },
        Because::Affinity { allowed: 1, cpus: 2, idle: 0.4 },
        Because::Sleeps { call: name(), mean_ns: 9, count: 3, waited_for_by: Some(named()), outstanding: Some(1.5) },
        Because::Convoy {
            pool: named(),
            waiters: 2.5,
            members: 4,
            are_processes: true,
            wait: name(),
            holder: Some(named()),
            locks: Some(locks()),
        },
        Because::Serialised { at: named(), open: 8.0, at_a_time: 1.0, callee: Some(named()), threads: 1 },
        Because::Schedule { interval_ns: 60_000_000, count: 66 },
        Because::Occupied { at: named(), processes: 6, open: 20.5 },
        Because::HeldRequests { at: named(), waiting: 2.5, call: "futex".to_owned(), is_passed_on: true },
        Because::BlocksItsLoop { at: named() },
        Because::OpenRequests { at: named(), open: 2.5 },
        Because::OnlyTogether { changes: vec![name(), name()], states: vec![name(), name()], gains: vec![0.1, -0.1], gain: 0.7 },
        Because::PolledBy { by: named(), rows: 30, mean_ns: 9, count: 200 },
        Because::Polls { sides: vec![named(), named()], mean_ns: 9, count: 3 },
        Because::Unanswered { requests: 1, connects: 2, mean_ns: 9, count: 3 },
        Because::SerialStep { step: named(), share: 0.5, idle: 0.4, most: Some(rival()) },
        Because::Window { port: 80, peer: 4000, bytes: 900, count: 300, filled: 0.9 },
        Because::RoundTrips { asker: Some(named()), count: 3, mean_ns: 9, callee: Some(named()), per_request: Some(12.5), most: None },
        Because::RoundTrips { asker: None, count: 3, mean_ns: 9, callee: None, per_request: None, most: Some(rival()) },
        Because::KernelTimer { timer: name(), mean_ns: 9, count: 3, between: vec![named(), named()] },
        Because::LostAt { place: name(), count: 3 },
        Because::Corked,
        Because::ShortSends { by: named(), count: 3 },
        Because::Outside { mean_ns: 9, count: 3 },
        Because::Disk { call: name(), mean_ns: 9, count: 3 },
        Because::Divided { parts: vec![(state(), 0.5)] },
        Because::Alone { threads: 4, cpus: 2, idle: 0.5 },
        Because::CpuUsers { waits: named(), users: vec![(named(), 0.9)], idle: 0.1 },
        Because::Faults { count: 3, share: 0.4 },
        Because::Lock { count: 3, share: 0.4, locks: Some(locks()) },
        Because::Quota { count: 3, is_reserved: true },
        Because::HandOvers { sides: vec![named(), named()], count: 3, per_second: 7.5, work_ns: 8, cost_ns: 9 },
        Because::Link { device: name(), discipline: Some(name()), bits_per_second: 1e6, busy: 0.9, mean_ns: 9, waits: Some(named()) },
        Because::Accepts { connections: 3, per_second: 7.5, exchanges: 1.5, first: 0.9, cpu_ns: 9, by: Some(named()) },
        Because::Inversion { waiter: named(), holder: named(), instead: named(), count: 3, mean_ns: 9 },
        Because::Reclaims { count: 3, mean_ns: 9, share: 0.4 },
        Because::First { parts: vec![rival()] },
    ]
}

/// Values of the property `kind` in the schemas of reasons.
fn kinds_in(schema: &serde_json::Value) -> Vec<&str> {
    let reasons =
        schema["properties"]["because"]["items"]["oneOf"].as_array().or(schema["properties"]["because"]["items"]["anyOf"].as_array());
    let kinds = reasons.unwrap().iter().flat_map(|reason| reason["properties"]["kind"]["enum"].as_array().unwrap());
    kinds.map(|kind| kind.as_str().unwrap()).collect()
}

fn caveats() -> Vec<Caveat> {
    let name = || "a".to_owned();
    vec![
        Caveat::LostEvents { count: 1, remedy: name() },
        Caveat::UnknownTime { share: 0.1, contradictory: true },
        Caveat::Contradictions(Contradictions { contradictions: 1, negative_links: 2, ignored_wakeups: 3 }),
        Caveat::RunningUnknown,
        Caveat::Timer { machine: name(), call: name() },
        Caveat::Bystanders { share: 0.1, example: Named::of_name(SubjectLevel::Thread, "a") },
        Caveat::SwitchedOff { kinds: vec![NotRecorded { what: name(), since_ns: 1 }] },
    ]
}

#[test]
fn each_reason_and_each_caveat_conforms_to_the_schema() {
    for verb in ["report", "report-runs"] {
        let whole = schema::schema(verb);
        let mut of_verdict = whole["properties"]["verdict"].clone();
        of_verdict["$defs"] = whole["$defs"].clone();
        // A reason refers to this part of the whole schema.
        of_verdict["properties"]["verdict"]["properties"]["runner_up"] = of_verdict["properties"]["runner_up"].clone();
        for because in reasons() {
            let verdict = Verdict { because: vec![because], caveats: caveats(), ..Verdict::new(Outcome::Spread, Basis::States) };
            let verdict = serde_json::to_value(&verdict).unwrap();
            schema::check(&of_verdict, &verdict);
            assert!(verdict["text"].as_str().unwrap().ends_with('.'), "{verdict}");
        }
    }
}

#[test]
fn each_reason_of_the_schema_has_a_sample_and_says_something() {
    // Each reason belongs to verdicts of some outcomes on some basis.
    let outcomes = [Outcome::Bottleneck, Outcome::Paced, Outcome::Spread, Outcome::Unknown];
    let bases = [Basis::Subjects, Basis::States, Basis::Stages, Basis::Probes];
    let says = |because: &Because| {
        let of = |because, outcome, basis| Verdict { because, ..Verdict::new(outcome, basis) }.about("machine", None).text();
        let in_one = |outcome, basis| of(vec![because.clone()], outcome, basis) != of(Vec::new(), outcome, basis);
        outcomes.into_iter().any(|outcome| bases.into_iter().any(|basis| in_one(outcome, basis)))
    };
    let mut of_samples = std::collections::BTreeSet::new();
    for because in reasons() {
        let kind = serde_json::to_value(&because).unwrap()["kind"].as_str().unwrap().to_owned();
        assert!(says(&because), "{kind} is left out of the sentence");
        of_samples.insert(kind);
    }
    let whole = schema::schema("report");
    let missing: Vec<&str> = kinds_in(&whole["properties"]["verdict"]).into_iter().filter(|kind| !of_samples.contains(*kind)).collect();
    assert!(missing.is_empty(), "no sample of {missing:?}");
}

#[test]
fn the_page_of_report_explains_each_mechanism() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(root.join("docs/json/report.schema.json")).unwrap()).unwrap();
    let page = std::fs::read_to_string(root.join("docs/reference/verbs/report.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1)).collect();
    let names = schema["properties"]["verdict"]["properties"]["mechanism"]["enum"].as_array().unwrap();
    let missing: Vec<&str> = names
        .iter()
        .filter_map(serde_json::Value::as_str)
        .filter(|name| !rows.iter().any(|row| row.contains(&format!("`{name}`"))))
        .collect();
    assert!(names.len() > 30 && missing.is_empty(), "{missing:?}");
}
