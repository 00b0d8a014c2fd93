//! Programs may choose the names of threads, spans, states, calls, signals and queues freely: a
//! program that uses the model's own words is analysed like any other.

use crate::support::composed::{options, BLOCKED};
use crate::support::linux::{each_interaction, Kernel, Val};
use longpole_analysis::critical_path::{Answer, CriticalPath};
use longpole_analysis::latency::LatenciesOfMachines;
use longpole_analysis::machine_log::{Reader, Writer};
use longpole_analysis::queues::QueuesOfMachines;
use longpole_analysis::verdict::questions::machine_states::candidates;
use longpole_analysis::what_if::{self, Scenario, WhatIf};
use longpole_model::causes::{About, Composer};
use longpole_model::interaction::{Interaction, Vocabulary};
use longpole_model::kinds::{LinkKind, SegmentKind, StateKind};
use std::collections::BTreeSet;

/// Words that the model itself uses for states, links, machines and queues, or that begin such
/// names.
const RESERVED: [&str; 32] = [
    "run",
    "user",
    "kernel",
    "runnable",
    "preempted",
    "asleep",
    "outside",
    "interrupted",
    "UNKNOWN",
    "blocked:x",
    "blocked:",
    "wait",
    "wait: x",
    "re-entry",
    "lost",
    "signal",
    "link",
    "cpus",
    "lost events",
    "rpc:x",
    "rpc:x:reply:1",
    "x:reply:1",
    "signal:x",
    "span:run",
    "span:x",
    "queue:rpc:x",
    "thread:link",
    "timer",
    "queued",
    "wakeup",
    "wire",
    "raise",
];

/// A word that the model does not use.
const HARMLESS: &str = "harmless";

/// A program with two threads, one per CPU. All its names, and that of the second thread, are
/// `name`. Runs with or without kernel events.
fn program(name: &str, has_kernel: bool) -> Kernel {
    let mut kernel = Kernel::new(if has_kernel { 2 } else { 0 });
    let feeder = kernel.thread("feeder", "", 11, 11);
    let worker = kernel.thread(name, "", 12, 12);
    // Without kernel events, a thread that does nothing else answers calls, so that its waits for
    // them are known.
    let server = if has_kernel { worker } else { kernel.thread("server", "", 13, 13) };
    let probe = |kernel: &mut Kernel, t: i64, of: u32, what: &str| kernel.probe(t, of, &format!("{what}:{name}"));
    if has_kernel {
        kernel.switch(10, 0, 0, 0, 11);
        kernel.switch(12, 1, 0, 0, 12);
    }
    for round in 0..20 {
        let t = 1000 * round;
        // The worker waits for the feeder's item, works on it in a span and in a declared state,
        // and loses its CPU.
        probe(&mut kernel, t + 115, worker, "queue_wait_empty");
        if has_kernel {
            kernel.switch(t + 120, 1, 12, BLOCKED, 0);
        }
        probe(&mut kernel, t + 130, feeder, "span_begin");
        probe(&mut kernel, t + 180, feeder, "span_end");
        kernel.counted(t + 190, feeder, &format!("queue_put:{name}"), 1);
        if has_kernel {
            kernel.waking(t + 200, 0, 12, 1);
            kernel.switch(t + 210, 1, 0, 0, 12);
        }
        kernel.counted(t + 220, worker, &format!("queue_get:{name}"), 1);
        probe(&mut kernel, t + 230, worker, "span_begin");
        if has_kernel {
            kernel.switch(t + 260, 1, 12, 0, 13);
            kernel.switch(t + 275, 1, 13, 0, 12);
        }
        probe(&mut kernel, t + 300, worker, "span_end");
        if round >= 10 {
            probe(&mut kernel, t + 310, worker, &format!("state:{name}:"));
        }
        // The worker is in system calls whose names its spans may have as well, and sleeps.
        if has_kernel {
            kernel.syscall(t + 330, 1, "read", None);
            kernel.syscall(t + 350, 1, "read", Some(1));
            kernel.syscall(t + 360, 1, "nanosleep", None);
            kernel.switch(t + 365, 1, 12, BLOCKED, 0);
            kernel.waking(t + 400, 0, 12, 1);
            kernel.switch(t + 405, 1, 0, 0, 12);
            kernel.syscall(t + 410, 1, "nanosleep", Some(0));
            kernel.syscall(t + 420, 0, "write", None);
            kernel.syscall(t + 440, 0, "write", Some(1));
        }
        // The feeder calls the worker and waits for the reply.
        let id = [("id", Val::I(round))];
        kernel.event(t + 500, feeder, &format!("rpc_call:{name}"), &id);
        if has_kernel {
            kernel.switch(t + 505, 0, 11, BLOCKED, 0);
        }
        kernel.event(t + 520, server, &format!("rpc_dispatch:{name}"), &id);
        kernel.event(t + 560, server, &format!("rpc_reply:{name}"), &id);
        if has_kernel {
            kernel.waking(t + 562, 1, 11, 0);
            kernel.switch(t + 570, 0, 0, 0, 11);
        }
        kernel.event(t + 575, feeder, &format!("rpc_returned:{name}"), &id);
        // The worker waits for a signal.
        probe(&mut kernel, t + 590, worker, "signal_wait");
        if has_kernel {
            kernel.switch(t + 595, 1, 12, BLOCKED, 0);
        }
        kernel.counted(t + 640, feeder, &format!("signal_submit:{name}"), 1);
        if has_kernel {
            kernel.waking(t + 641, 0, 12, 1);
            kernel.switch(t + 650, 1, 0, 0, 12);
        }
        kernel.counted(t + 660, worker, &format!("signal_receive:{name}"), 1);
        probe(&mut kernel, t + 700, worker, "mark");
    }
    kernel
}

/// The interactions and the machine log of a program, with the vocabulary at the end.
struct Composed {
    composer: Composer,
    interactions: Vec<Interaction>,
    log: String,
}

fn compose(kernel: &Kernel) -> Composed {
    let mut composer = Composer::built_in(About::default()).unwrap();
    let (mut interactions, mut log) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut log);
    each_interaction(kernel, &mut composer, |vocabulary, interaction| {
        interactions.push(*interaction);
        writer.write(vocabulary, interaction).unwrap();
    });
    Composed { composer, interactions, log: String::from_utf8(log).unwrap() }
}

fn path(vocabulary: &Vocabulary, interactions: &[Interaction]) -> Answer {
    let mut critical_path = CriticalPath::new(options());
    interactions.iter().for_each(|interaction| critical_path.interaction(vocabulary, interaction));
    critical_path.answer(vocabulary).unwrap()
}

fn replay(vocabulary: &Vocabulary, interactions: &[Interaction], scenarios: Vec<Scenario>) -> what_if::Answer {
    try_replay(vocabulary, interactions, scenarios).unwrap()
}

fn try_replay(
    vocabulary: &Vocabulary,
    interactions: &[Interaction],
    scenarios: Vec<Scenario>,
) -> Result<what_if::Answer, what_if::NoAnswer> {
    let mut worlds = WhatIf::new(what_if::Options { scenarios, ..what_if::Options::default() });
    interactions.iter().for_each(|interaction| worlds.interaction(vocabulary, interaction));
    worlds.answer(vocabulary)
}

/// Replaces the program's name, in the form of each role, by `@`; other text is unchanged.
struct Renamed<'a> {
    name: &'a str,
    state: String,
    queue: String,
    machine: String,
    call: String,
}

impl<'a> Renamed<'a> {
    fn new(name: &'a str) -> Renamed<'a> {
        use longpole_model::kinds::{call_label, machine_label, queue_label, state_label};
        Renamed {
            name,
            state: state_label(name).into_owned(),
            queue: queue_label(name).into_owned(),
            machine: machine_label(name).into_owned(),
            call: call_label(name).into_owned(),
        }
    }

    fn machine(&self, text: &str) -> String {
        if text == self.machine {
            "@".to_owned()
        } else {
            text.to_owned()
        }
    }

    fn queue(&self, text: &str) -> String {
        let of_call = text.strip_prefix("rpc:").and_then(|rest| rest.strip_prefix(&self.call));
        match (text, of_call) {
            _ if text == self.queue => "@".to_owned(),
            (_, Some(rest)) if rest.is_empty() || rest.starts_with(":reply") => format!("rpc:@{rest}"),
            _ if text == format!("signal:{}", self.name) => "signal:@".to_owned(),
            _ => text.to_owned(),
        }
    }

    fn state(&self, kind: SegmentKind, text: &str) -> String {
        match kind {
            SegmentKind::State(StateKind::Span | StateKind::Call | StateKind::Declared) if text == self.state => "@".to_owned(),
            SegmentKind::State(StateKind::Blocked | StateKind::Waits) => {
                let (begin, why) =
                    if kind == SegmentKind::State(StateKind::Blocked) { text.split_at("blocked:".len()) } else { ("", text) };
                let named = [("empty", &self.queue), ("full", &self.queue), ("rpc", &self.name.to_owned())];
                let is = named.iter().find(|(what, of)| why == format!("{what} {of}"));
                is.map_or_else(|| text.to_owned(), |(what, _)| format!("{begin}{what} @"))
            }
            _ => text.to_owned(),
        }
    }

    fn place(&self, kind: SegmentKind, machine: &str, state: &str) -> String {
        let machine = if kind.is_link() { self.queue(machine) } else { self.machine(machine) };
        format!("{machine}::{}", self.state(kind, state))
    }
}

/// Returns all results for the program, with `@` for its name.
fn found(name: &str, has_kernel: bool) -> BTreeSet<String> {
    let renamed = Renamed::new(name);
    let Composed { composer, interactions, log } = compose(&program(name, has_kernel));
    let vocabulary = composer.vocabulary();
    let answer = path(vocabulary, &interactions);
    let mut found = BTreeSet::new();
    for row in &answer.criticality {
        let place = renamed.place(row.kind, &row.machine, &row.state);
        let class = if row.kind.is_link() { row.class.clone() } else { renamed.machine(&row.class) };
        let owner = if row.kind.is_link() { renamed.queue(&row.owner) } else { renamed.machine(&row.owner) };
        found.insert(format!(
            "row {place} {class} {owner} {:?} {} {} {:?} {:?} {:?} {:?}",
            row.kind, row.ns, row.share, row.profile_rank, row.profile_share, row.slack_ns, row.near_critical_share
        ));
    }
    let segments = answer.segments.as_ref().unwrap();
    for segment in segments.segments() {
        let place = renamed.place(segment.kind, segment.machine, segment.state);
        found.insert(format!("segment {} {} {place} {:?}", segment.start_ns, segment.end_ns, segment.kind));
    }
    for candidate in candidates(&answer, segments) {
        let class = if candidate.segment.is_link() && !candidate.is_call {
            renamed.queue(&candidate.class)
        } else {
            renamed.machine(&candidate.class)
        };
        let state = match candidate.is_call {
            true => candidate.state.replace(renamed.name, "@"),
            false => renamed.state(candidate.segment, &candidate.state),
        };
        // Nothing is predicted for a wait.
        let fix = try_replay(vocabulary, &interactions, vec![candidate.fix()]).map(|mut answer| answer.predictions.remove(0).predicted_ns);
        found.insert(format!("fix of {class} {state} {:?} {:?}", candidate.segment, fix.ok()));
        found.insert(format!(
            "candidate {class} {state} {:?} {} {} {}",
            candidate.segment, candidate.is_call, candidate.share, candidate.error
        ));
    }
    found.insert(format!("{} {} {}", answer.length_ns, answer.unknown_ns, answer.contradictions));
    what_ifs(&renamed, vocabulary, &interactions, &mut found);
    latencies(&renamed, vocabulary, &interactions, &mut found);
    of_log(&log, &answer);
    found
}

/// Adds the predictions for halving each state, and for the queue's capacity.
fn what_ifs(renamed: &Renamed<'_>, vocabulary: &Vocabulary, interactions: &[Interaction], found: &mut BTreeSet<String>) {
    let shares = replay(vocabulary, interactions, Vec::new()).shares;
    for share in &shares {
        let place = renamed.place(share.kind, &share.machine, &share.state);
        found.insert(format!("share {place} {:?} {} {}", share.kind, share.share, share.scales));
        if share.scales {
            // In the form in which a user types it.
            let scenario = Scenario::parse(&Scenario::scale(&share.machine, &share.state, 0.5).text).unwrap();
            let prediction = replay(vocabulary, interactions, vec![scenario]).predictions.remove(0);
            let next = prediction.next.unwrap();
            let next = next.kind.map(|kind| renamed.place(kind, &next.machine, &next.state));
            found.insert(format!("{place} x0.5 {:?} {:?} {:?}", prediction.predicted_ns, prediction.gain, next));
        }
    }
    let batch = Scenario::batch("feeder", &renamed.state, 4);
    let changes = [Scenario::capacity(&renamed.queue, 1), batch, Scenario::cpus(1)];
    for (at, change) in changes.into_iter().enumerate() {
        let prediction = replay(vocabulary, interactions, vec![change]).predictions.remove(0);
        found.insert(format!("change {at} {:?} {:?} {}", prediction.predicted_ns, prediction.gain, prediction.refused.is_some()));
    }
}

fn latencies(renamed: &Renamed<'_>, vocabulary: &Vocabulary, interactions: &[Interaction], found: &mut BTreeSet<String>) {
    let (mut latency, mut queues) = (LatenciesOfMachines::default(), QueuesOfMachines::default());
    for interaction in interactions {
        latency.interaction(vocabulary, interaction);
        queues.interaction(interaction);
    }
    for line in latency.answer(vocabulary) {
        let of = |machine: &Option<String>| machine.as_deref().map(|machine| renamed.machine(machine));
        let name = match format!("{:?}", line.kind).as_str() {
            "Rpc" => line.name.replace(renamed.name, "@"),
            "Signal" => line.name.replace(renamed.name, "@"),
            "Span" if line.name == renamed.state => "@".to_owned(),
            "Activity" => renamed.machine(&line.name),
            _ => renamed.state(SegmentKind::State(StateKind::Waits), &line.name),
        };
        found.insert(format!("latency {:?} {name} {:?} {:?} {:?}", line.kind, of(&line.machine), of(&line.peer), line.times));
    }
    for queue in queues.answer(vocabulary) {
        found.insert(format!("queue {} {} {}", renamed.queue(&queue.name), queue.puts, queue.gets));
    }
}

/// Asserts that the machine log yields the same answer, including kinds.
fn of_log(log: &str, answer: &Answer) {
    let mut reader = Reader::new(log.as_bytes());
    let mut critical_path = CriticalPath::new(options());
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
    }
    let again = critical_path.answer(reader.vocabulary()).unwrap();
    assert_eq!(again.criticality, answer.criticality, "{log}");
    assert!(again.segments == answer.segments, "{log}");
}

#[test]
fn a_program_that_uses_the_models_words_is_analysed_like_any_other() {
    for has_kernel in [true, false] {
        let harmless = found(HARMLESS, has_kernel);
        assert!(harmless.iter().any(|line| line.starts_with("row @::@ @ @ State(")), "{harmless:#?}");
        let call = "candidate feeder @ Link(Queued) true";
        assert_eq!(harmless.iter().any(|line| line.starts_with(call)), !has_kernel, "the kernel records the way: {harmless:#?}");
        for name in RESERVED {
            let reserved = found(name, has_kernel);
            let (more, less): (Vec<_>, Vec<_>) = (reserved.difference(&harmless).collect(), harmless.difference(&reserved).collect());
            assert!(more.is_empty() && less.is_empty(), "{name}: {more:#?} instead of {less:#?}");
        }
    }
}

#[test]
fn a_span_with_the_name_of_a_system_call_is_a_row_of_its_own() {
    let mut kernel = Kernel::new(1);
    let worker = kernel.thread("worker", "", 11, 11);
    kernel.switch(10, 0, 0, 0, 11);
    kernel.probe(20, worker, "span_begin:read");
    kernel.probe(120, worker, "span_end:read");
    kernel.syscall(130, 0, "read", None);
    kernel.syscall(180, 0, "read", Some(1));
    kernel.probe(200, worker, "mark:end");
    let Composed { composer, interactions, .. } = compose(&kernel);
    let answer = path(composer.vocabulary(), &interactions);
    let rows: Vec<_> = answer.criticality.iter().filter(|row| row.state == "read").map(|row| (row.kind, row.ns)).collect();
    assert_eq!(rows, [StateKind::Span, StateKind::SystemCall].map(SegmentKind::State).into_iter().zip([100, 50]).collect::<Vec<_>>());
}

#[test]
fn links_in_a_log_have_the_kind_that_their_text_names() {
    let log = [
        r#"{"t":0,"machine":"a","state":"work"}"#,
        r#"{"t":0,"machine":"b","state":"work"}"#,
        r#"{"t":10,"machine":"b","blocked":"x"}"#,
        r#"{"t":20,"machine":"b","woken_by":"a","at":15,"link":"timer"}"#,
        r#"{"t":30,"machine":"b","state":"work","x_kind":"system_call"}"#,
        r#"{"t":40,"end":"b"}"#,
    ];
    let log = log.join("\n");
    let mut reader = Reader::new(log.as_bytes());
    let mut critical_path = CriticalPath::new(options());
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
    }
    let answer = critical_path.answer(reader.vocabulary()).unwrap();
    let kinds: Vec<_> = answer.segments.unwrap().segments().map(|segment| segment.kind).collect();
    let states = [StateKind::Named, StateKind::Runnable, StateKind::SystemCall].map(SegmentKind::State);
    assert_eq!(kinds, [states[0], SegmentKind::Link(LinkKind::Timer), states[1], states[2]]);
}
