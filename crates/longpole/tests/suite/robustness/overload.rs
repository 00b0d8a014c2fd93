//! A system that emits more events than its recorder can store. The kinds of events that the
//! recorder gives up are reported in every answer, and the other kinds are recorded to the end.

use crate::support::host::can_trace;
use crate::support::place::{ok, Place};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Stops its recorder while a storm emits more events than the buffers hold, and repeats this until
/// the recorder has given up `$2` kinds of events. Then it runs a program while the recorder has
/// all the time it needs.
const SCRIPT: &str = r#"
given_up() { grep -c '"since_ns"' "$LONGPOLE_ROOT"/*/longpole.json; }
turns=0
while [ $turns -eq 0 ] || [ "$(given_up)" -lt "$2" ]; do
    turns=$((turns + 1))
    [ $turns -lt 100 ] || exit 3
    kill -STOP $PPID
    "$1" 1 5000 5
    kill -CONT $PPID
    sleep 0.3
done
sleep 0.1
"#;

fn record(place: &Place, options: &[&str], kinds: &str) -> Output {
    let storm = place.build("storm", &[]);
    let config = place.path("small.toml");
    std::fs::write(&config, "kernel_buffer = \"1MiB\"\n").unwrap();
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    command.args(["record", "--stacks", "none", "-c"]).arg(config).args(options).args(["--", "sh", "-c", SCRIPT, "sh", &storm, kinds]);
    command.output().unwrap()
}

/// The kernel's events as `print --json` prints them.
fn events(place: &Place, recording: &Path) -> Vec<Value> {
    let printed = ok(place.longpole(&["print", "--json"]).arg(recording.join("kernel")).output().unwrap());
    String::from_utf8(printed.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn unstorable_event_kinds_are_given_up_and_reported_while_switches_are_recorded_to_the_end() {
    if !can_trace("a recording under overload") {
        return;
    }
    let place = Place::new();
    let recorded = ok(record(&place, &[], "2"));
    let said = String::from_utf8(recorded.stderr).unwrap();
    assert!(said.contains("page faults (from +") && said.contains(" were not recorded: the kernel emitted more events than"), "{said}");
    let recording = place.newest();

    let told: Value = serde_json::from_slice(&std::fs::read(recording.join("longpole.json")).unwrap()).unwrap();
    let off = told["kernel_events"]["switched_off"].as_array().unwrap();
    assert_eq!(off[0]["what"], "page faults");
    assert_eq!(off[0]["events"], serde_json::json!(["exceptions:page_fault_user"]));
    assert!(off.len() >= 2 && off.iter().all(|off| !off["events"].to_string().contains("sched:sched_switch")), "{off:?}");

    let info = place.answer("info", &recording);
    assert_eq!(info["switched_off"].as_array().unwrap().len(), off.len());
    assert_eq!(info["switched_off"][0]["what"], "page faults");
    let report = place.answer("report", &recording);
    let caveats = report["verdict"]["caveats"].as_array().unwrap();
    let caveat = caveats.iter().find(|caveat| caveat["kind"] == "switched_off").unwrap_or_else(|| panic!("{caveats:?}"));
    assert!(caveat["text"].as_str().unwrap().starts_with("page faults (from +"), "{caveat}");
    let calls = String::from_utf8(ok(place.longpole(&["syscalls"]).arg(&recording).output().unwrap()).stdout).unwrap();
    assert!(calls.contains("page faults (from +") && calls.contains("not recorded by default: epoll_ctl"), "{calls}");

    // The last program begins after the last kind was given up.
    let events = events(&place, &recording);
    let begins = |event: &&Value| {
        event["name"] == "sched_process_exec" && event["fields"]["filename"].as_str().is_some_and(|name| name.ends_with("/sleep"))
    };
    let last = events.iter().rfind(begins).unwrap()["t_ns"].as_i64().unwrap();
    let after = |name: &str| events.iter().filter(|event| event["name"] == name && event["t_ns"].as_i64() > Some(last)).count();
    assert_eq!((after("x86_exceptions_page_fault_user"), after("sched_wakeup"), after("longpole_switched_off")), (0, 0, 0));
    assert!(after("sched_switch") > 0 && after("sched_waking") > 0);
    assert_eq!(events.iter().filter(|event| event["name"] == "longpole_switched_off").count(), off.len());
}

#[test]
fn with_keep_all_every_kind_loses_events_and_no_kind_is_given_up() {
    if !can_trace("a recording under overload that gives up nothing") {
        return;
    }
    let place = Place::new();
    // No kind is given up, so one storm is enough.
    let recorded = ok(record(&place, &["--keep-all"], "0"));
    assert!(!String::from_utf8(recorded.stderr).unwrap().contains("were not recorded"));
    let info = place.answer("info", &place.newest());
    assert_eq!(info["switched_off"], serde_json::json!([]));
    assert!(info["lost"].as_u64().unwrap() > 0, "{info}");
    let refused =
        place.command(env!("CARGO_BIN_EXE_longpole")).args(["record", "--kernel", "none", "--keep-all", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}
