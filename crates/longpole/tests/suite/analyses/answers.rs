//! The verbs `report`, `latency`, `queues` and `cpu`, from a trace on disk to the answer.

use crate::support::schema;
use longpole_testing::user_trace::{corpus, Fake, Field, Kind};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(verb: &str, arguments: &[&str], trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.env_remove("LONGPOLE_ROOT").arg(verb).args(arguments).arg(trace).output().unwrap()
}

fn json(verb: &str, arguments: &[&str], trace: &Path) -> Value {
    let output = run(verb, arguments, trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes a recording of a producer that waits for space, and of a consumer that makes one call and
/// spends most of its time in one state.
fn recording(directory: &Path) {
    let mut fake = Fake::new(directory);
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let get = fake.class("queue_get:q", &[("count", Kind::U64)]);
    let full = fake.class("queue_wait_full:q", &[]);
    let begin = fake.class("span_begin:slow", &[]);
    let end = fake.class("span_end:slow", &[]);
    let call = fake.class("rpc_call:ask", &[("id", Kind::U64)]);
    let returned = fake.class("rpc_returned:ask", &[("id", Kind::U64)]);
    let mut producer = fake.lane("producer", "main", 10, 10);
    for n in 0..4_000u64 {
        producer.event(n * 1_000, put, &[Field::U64(1)]);
        producer.event(n * 1_000 + 50, full, &[]);
    }
    producer.finish();
    let mut consumer = fake.lane("consumer", "main", 20, 20);
    consumer.event(10, call, &[Field::U64(7)]);
    consumer.event(110, returned, &[Field::U64(7)]);
    for n in 0..4_000u64 {
        consumer.event(n * 1_000 + 150, get, &[Field::U64(1)]);
        consumer.event(n * 1_000 + 200, begin, &[]);
        consumer.event(n * 1_000 + 990, end, &[]);
    }
    consumer.finish();
    fake.finish();
    fake.describe(r#"{"host":"h","start_ns":5,"end_ns":6}"#);
}

#[test]
fn the_json_of_each_verb_matches_its_schema() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let mut traces = vec![directory.path().to_owned()];
    for name in ["genode/ctf", "genode/tree", "tracecompass-test-traces/context-switches"] {
        traces.extend(corpus(name));
    }
    for trace in traces {
        for verb in ["report", "latency", "queues", "cpu"] {
            schema::check(&schema::schema(verb), &json(verb, &["--json"], &trace));
        }
    }
}

#[test]
fn an_answer_that_is_an_object_begins_with_its_schema_version() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    for verb in ["report", "cpu", "info", "check", "path", "graph", "packets"] {
        let said = String::from_utf8(run(verb, &["--json"], directory.path()).stdout).unwrap();
        let first: String = said.chars().filter(|letter| !letter.is_whitespace()).take(18).collect();
        assert_eq!(first, "{\"schema_version\":", "{verb}: {said}");
        let answer: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(answer["schema_version"], 1, "{verb}");
        assert_eq!(said.matches("schema_version").count(), 1, "{verb}: only the whole answer has it");
    }
    for verb in ["latency", "queues"] {
        let said = String::from_utf8(run(verb, &["--json"], directory.path()).stdout).unwrap();
        assert!(said.starts_with("[") && !said.contains("schema_version"), "{verb}: {said}");
    }
    for verb in ["list", "status"] {
        let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args([verb, "--json"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("{\"schema_version\":1,") && said.ends_with("}\n"), "{verb}: {said}");
    }
}

#[test]
fn each_schema_of_an_object_requires_the_version() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json");
    let mut objects = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        if schema["type"] == "object" {
            let required = schema["required"].as_array().unwrap();
            assert!(required.contains(&"schema_version".into()), "{}", path.display());
            assert_eq!(schema["properties"]["schema_version"]["enum"], serde_json::json!([1]), "{}", path.display());
            objects += 1;
        }
    }
    assert!(objects > 10);
}

#[test]
fn an_empty_range_is_refused_with_the_traces_own_begin_end_and_length() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let own = json("info", &["--json"], directory.path());
    let own = |key: &str| own[key].as_i64().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let output = elsewhere.path().join("written");
    let into = ["--to", "json", "-o", output.to_str().unwrap()];
    for (verb, more) in [
        ("report", &[][..]),
        ("path", &[]),
        ("what-if", &[]),
        ("graph", &[]),
        ("graph", &["--waits"]),
        ("cpu", &[]),
        ("irq", &[]),
        ("sched", &[]),
        ("syscalls", &[]),
        ("latency", &[]),
        ("queues", &[]),
        ("packets", &[]),
        ("info", &[]),
        ("print", &[]),
        ("convert", &into),
    ] {
        for range in [&["--begin", "+1h"][..], &["--end", "1"], &["--begin", "+1h", "--end", "+2h"]] {
            let output = run(verb, &[more, range].concat(), directory.path());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{verb} {range:?}: {said}");
            assert!(output.stdout.is_empty(), "{verb} {range:?}");
            assert!(said.contains(": there is nothing in this range; the trace begins at "), "{verb} {range:?}: {said}");
            for time in ["start_ns", "end_ns"] {
                assert!(said.contains(&format!(" ({} ns)", own(time))), "{verb} {range:?}: {said}");
            }
            assert!(said.contains(" and is 4.00 ms long; name a part of that with --begin and --end"), "{verb} {range:?}: {said}");
            assert_eq!(said.matches("there is nothing in this range").count(), 1, "{verb} {range:?}: {said}");
        }
    }
    assert!(!output.exists(), "no empty file is written");
}

#[test]
fn help_lists_the_verbs_in_groups_and_begins_with_those_to_start_with() {
    let help = |argument: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_longpole")).arg(argument).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let text = help("--help");
    assert_eq!(text, help("-h"));
    let places = ["\nstart here\n", "\nmeasure\n", "\nread and convert traces\n", "\nset up, and control recordings in the background\n"];
    let found: Vec<usize> = places.iter().map(|heading| text.find(heading).unwrap_or_else(|| panic!("{heading}: {text}"))).collect();
    assert!(found.is_sorted(), "{text}");
    let verbs = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("  ")).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    assert_eq!(verbs(&text[found[0]..found[1]]), ["record", "report", "path", "what-if", "diff", "view", "top"]);
    assert!(text.contains("\nUsage: longpole") && text.contains("--version"), "{text}");
    // Each verb of the manual is in a group.
    let all = verbs(text.split("\nOptions:").next().unwrap());
    let manual = Command::new(env!("CARGO_BIN_EXE_longpole")).arg("man").output().unwrap().stdout;
    let manual = String::from_utf8(manual).unwrap();
    assert_eq!(manual.matches(".TP\nlongpole\\-").count(), all.len(), "{manual}");
}

#[test]
fn the_report_begins_with_its_verdict() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let report = json("report", &["--json"], directory.path());
    assert_eq!(report["verdict"]["subject"]["name"], "consumer", "{}", report["verdict"]["text"]);
    assert_eq!(report["verdict"]["state"]["name"], "slow");
    assert_eq!(report["findings"][0]["kind"], "state_dominates_stage");
    let text = String::from_utf8(run("report", &[], directory.path()).stdout).unwrap();
    assert!(text.starts_with("consumer is the bottleneck: slow takes "), "{text}");
    assert!(text.contains("0 lost"), "{text}");
}

#[test]
fn latencies_are_measured_between_any_two_events() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let arguments = ["--json", "--from", "rpc_call:ask:id == 7", "--to", "rpc_returned:ask", "--by", "id"];
    let latency = json("latency", &arguments, directory.path());
    assert_eq!((&latency[0]["count"], &latency[0]["max_ns"]), (&1.into(), &100.into()));
    let none = ["--json", "--from", "rpc_call:ask:id == 8", "--to", "rpc_returned:ask"];
    assert_eq!(json("latency", &none, directory.path())[0]["count"], 0);
    let wrong = run("latency", &["--from", "rpc_call:ask:id = 7", "--to", "x"], directory.path());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("column 17"));
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_known_names() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let refused = |arguments: &[&str]| {
        let output = run("latency", arguments, directory.path());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let talk = String::from_utf8(output.stderr).unwrap();
        // If the trace has no events at all, a note with the reason comes first.
        assert_eq!(talk.lines().filter(|line| !line.starts_with("longpole: note: ")).count(), 1, "{talk}");
        talk
    };
    let talk = refused(&["--from", "rpc_cal:ask", "--to", "rpc_returned:ask"]);
    assert!(talk.contains("no event `rpc_cal:ask` occurs in what was read; the nearest to it: `rpc_call:ask`"), "{talk}");
    let talk = refused(&["--from", "rpc_call:ask", "--to", "rpc_returned:Ask", "--json"]);
    assert!(talk.contains("`rpc_returned:Ask`") && talk.contains("`rpc_returned:ask`"), "{talk}");
    let talk = refused(&["--from", "rpc_call:ask:ident == 7", "--to", "rpc_returned:ask"]);
    assert!(talk.contains("the event `rpc_call:ask` has no field `ident`; it has: `id`"), "{talk}");
    let talk = refused(&["--from", "rpc_call:ask", "--to", "rpc_returned:ask", "--by", "key"]);
    assert!(talk.contains("no field `key`; it has: `id`"), "{talk}");
    let talk = refused(&["--from", "rpc_call:ask", "--to", "rpc_returned:ask", "--begin", "+1h"]);
    assert!(talk.contains("there is nothing in this range; the trace begins at "), "{talk}");
}

#[test]
fn lost_gets_do_not_raise_the_depth_above_the_capacity_and_the_uncertain_share_is_reported() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let uri = Some("longpole:site?capacity=100");
    let put = fake.class_at("queue_put:q", &[("count", Kind::U64)], uri);
    let get = fake.class_at("queue_get:q", &[("count", Kind::U64)], uri);
    let empty = fake.class_at("queue_wait_empty:q", &[], uri);
    let mut producer = fake.lane("producer", "main", 10, 10);
    for n in 0..1_000u64 {
        producer.event(n * 1_000, put, &[Field::U64(1)]);
    }
    producer.finish();
    let mut consumer = fake.lane("consumer", "main", 20, 20);
    consumer.event(10, empty, &[]);
    for n in (0..1_000u64).filter(|n| !(300..700).contains(n)) {
        if n == 700 {
            consumer.packet();
            consumer.discarded = 400;
        }
        consumer.event(n * 1_000 + 150, get, &[Field::U64(1)]);
    }
    consumer.finish();
    fake.finish();
    let queue = &json("queues", &["--json"], directory.path())[0];
    assert_eq!((&queue["capacity"], &queue["lost"]), (&100.into(), &400.into()), "{queue}");
    assert!(queue["depth"]["max"].as_u64().unwrap() <= 100, "{queue}");
    // The depth is uncertain from the last packet before the loss to the end of the trace: the loss
    // is reported only at the end of the packet that follows it.
    let uncertain = queue["uncertain_share"].as_f64().unwrap();
    assert!((0.69..0.71).contains(&uncertain), "{queue}");
    let text = String::from_utf8(run("queues", &[], directory.path()).stdout).unwrap();
    assert!(text.contains("q: after lost events the depth was not reported again for "), "{text}");
}

#[test]
fn the_time_of_a_thread_is_the_sum_of_its_states() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    for thread in json("cpu", &["--json"], directory.path())["threads"].as_array().unwrap() {
        let sum: u64 = thread["states"].as_array().unwrap().iter().map(|state| state["ns"].as_u64().unwrap()).sum();
        assert_eq!(thread["total_ns"], sum);
    }
}

#[test]
fn the_first_screen_of_the_report_fits_a_terminal_of_80_by_24_and_full_prints_the_rest() {
    let directory = TempDir::new().unwrap();
    recording(directory.path());
    let shown = |columns: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        let output = command.arg("report").args(arguments).arg(directory.path()).env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let first = shown("80", &[]);
    assert!(first.lines().count() <= 24, "{first}");
    for columns in [80, 200] {
        for arguments in [&[][..], &["--full"]] {
            let text = shown(&columns.to_string(), arguments);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
    }
    assert!(!first.contains("FINDINGS") && first.contains("longpole report --full"), "{first}");
    let full = shown("80", &["--full"]);
    assert!(full.contains("FINDINGS") && full.contains("QUEUES"), "{full}");
}
