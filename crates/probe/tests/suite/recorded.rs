//! Rust programs under `longpole record`: they record the same events as C programs, and each event
//! is recorded once or counted as lost, whichever threads, processes and libraries start or end.

use crate::support::{example, numbers, ok, repository, Place};
use serde_json::{json, Value};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Name and fields of every event, without the parts that differ between runs: addresses and the
/// path of the program.
fn essence(events: &[Value], program: &str, source: &str) -> Vec<(String, Value)> {
    let neutral = |text: &str| text.replace(program, "PROGRAM").replace(source, "SOURCE");
    let essence = |event: &Value| {
        let mut fields = event["fields"].clone();
        for (name, value) in fields.as_object_mut().unwrap() {
            *value = match value.as_str() {
                Some(text) => json!(neutral(text)),
                None if name == "object" || name == "pointer" => json!("ADDRESS"),
                None => value.clone(),
            };
        }
        (neutral(event["name"].as_str().unwrap()), fields)
    };
    events.iter().map(essence).collect()
}

#[test]
fn every_probe_of_rust_records_the_same_as_that_of_c() {
    let place = Place::new();
    let (rust, source) = (example("every_probe"), "tests/programs/every_probe.c");
    place.record(&[], &rust, &[]);
    let events = place.events();
    assert!(events.iter().all(|event| event["context"]["label"] == "tests -> every probe"));
    let ours = essence(&events, rust.to_str().unwrap(), "crates/probe/tests/programs/every_probe.rs");
    let read = place.babeltrace();
    let c = place.compile(&repository().join(source), "every_probe", &[]);
    place.record(&[], &c, &[]);
    let path = repository().join(source);
    let mut theirs = essence(&place.events(), c.to_str().unwrap(), path.to_str().unwrap());
    // Only C and C++ have this event with arrays and enumerations.
    theirs.retain(|(name, _)| name != "event:event with arrays");
    assert_eq!(ours.len(), 550);
    for (nth, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "event {nth}");
    }
    assert_eq!(ours.len(), theirs.len());
    // babeltrace2 reads the same events with the same fields.
    if let Some(read) = read {
        assert_eq!(read.len(), ours.len());
        for (line, (name, fields)) in read.iter().zip(&ours) {
            assert!(line.contains(&name.replace("SOURCE", "crates/probe/tests/programs/every_probe.rs")), "{name}: {line}");
            for field in fields.as_object().unwrap().keys() {
                assert!(line.contains(&format!("{field} = ")), "{field}: {line}");
            }
        }
    }
}

#[test]
fn probes_that_only_rust_has_are_recorded() {
    let place = Place::new();
    place.record(&[], &example("every_probe"), &["more"]);
    let events = place.events();
    let of = |name: &str| events.iter().filter(|event| event["name"] == name).map(|event| event["fields"].clone()).collect::<Vec<_>>();
    assert_eq!(of("span_begin:of many places"), [json!({})]);
    assert_eq!(of("span_end:of many places"), [json!({"arg": 0})]);
    assert_eq!(of("mark:more"), [json!({"data": 5})], "a closure is named as the function around");
    let bytes = of("event:bytes");
    assert_eq!((bytes.len(), &bytes[0]["type"]), (1, &json!(1)), "{bytes:?}");
    assert_eq!((of("mark:own"), of("mark:of_the_program")), (vec![json!({"data": 6})], vec![json!({"data": 9})]));
    assert_eq!((of("span_begin:own"), of("counter:own")), (vec![json!({"arg": 7})], vec![json!({"value": 8})]));
    assert_eq!((of("event:own"), of("event:of_the_program")), (vec![json!({"site": 6, "here": 9})], vec![json!({"here": 9})]));
    assert_eq!((of("counter:of_the_program"), of("rpc_call:of_the_program")), (vec![json!({"value": 9})], vec![json!({"id": 9})]));
    let texts = of("log");
    assert_eq!(texts.last().unwrap(), &json!({"text": "number 0 of 10"}));
    if let Some(read) = place.babeltrace() {
        assert!(read.iter().any(|line| line.contains("bytes = [ [0] = 1, [1] = 2, [2] = 3 ]")), "{read:?}");
    }
}

#[test]
fn events_of_threads_are_recorded_in_order_or_counted_as_lost() {
    let place = Place::new();
    // A small ring is replaced by larger ones meanwhile.
    for options in [&["--buffer", "64KiB"][..], &[]] {
        let met: u64 = place.record(options, &example("subject"), &["threads", "4", "50000"]).trim().parse().unwrap();
        assert_eq!(met, 200_000);
        let threads = numbers(&place.events(), "mark:numbered");
        assert_eq!(threads.len(), 4);
        let (counts, lost) = place.counts();
        assert_eq!(counts["mark:numbered"] + lost, met, "{options:?}");
        for numbers in threads.values() {
            assert!(numbers.is_sorted_by(|before, after| before < after));
        }
    }
}

#[test]
fn rings_that_overwrite_or_block_lose_as_many_events_as_they_report() {
    let place = Place::new();
    for mode in ["overwrite", "block"] {
        let options = ["--mode", mode, "--buffer", "32KiB"];
        let met: u64 = place.record(&options, &example("subject"), &["threads", "2", "100000"]).trim().parse().unwrap();
        let (counts, lost) = place.counts();
        assert_eq!(counts["mark:numbered"] + lost, met, "{mode}");
        for numbers in numbers(&place.events(), "mark:numbered").values() {
            assert!(numbers.is_sorted_by(|before, after| before < after), "{mode}");
            // The newest events are present, however many were overwritten.
            assert_eq!(numbers.last(), Some(&99_999), "{mode}");
        }
    }
}

#[test]
fn probes_in_signal_handlers_are_recorded_or_counted_as_lost() {
    let place = Place::new();
    for options in [&["--buffer", "4MiB"][..], &[]] {
        let text = place.record(options, &example("subject"), &["handlers", "600"]);
        let words: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let (main, handler) = (words[0], words[1]);
        let (counts, lost) = place.counts();
        let recorded = counts["mark:main"] + counts["mark:handler"] + counts.get("log").copied().unwrap_or(0);
        // Every tenth handler, beginning with the first, also records a text.
        assert_eq!(recorded + lost, main + handler + handler.div_ceil(10), "{options:?} {counts:?}");
        let read = place.babeltrace();
        assert!(read.is_none_or(|read| read.len() as u64 == recorded));
    }
}

#[test]
fn threads_and_processes_are_recorded_from_their_first_event_on() {
    let place = Place::new();
    place.record(&[], &example("subject"), &["churn", "40", "20", "3"]);
    let (counts, lost) = place.counts();
    // Half of the processes execute the program again.
    assert_eq!((counts["mark:numbered"], lost), ((40 + 20 + 10) * 3, 0));
    let lanes = std::fs::read_dir(place.recording().join("user")).unwrap().count() - 1;
    assert!(lanes < 40 + 20 + 10, "threads that come after each other share lanes: {lanes}");
}

#[test]
fn children_of_a_raw_clone_write_into_rings_of_their_own() {
    let place = Place::new();
    let (count, events) = (40, 100);
    let text = place.record(&["--buffer", "4MiB"], &example("subject"), &["clones", &count.to_string(), &events.to_string()]);
    let words: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let (counts, lost) = place.counts();
    assert_eq!((counts["mark:child"], counts["mark:numbered"] + lost, lost), (words[0], words[1], 0));
    let children = numbers(&place.events(), "mark:child");
    // The parent (children of vfork count as the parent) and half of the children.
    assert_eq!(children.len(), 1 + count / 2);
    for numbers in children.values() {
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), numbers.len(), "none came twice");
        assert!(numbers.len() == events || numbers.len() == 1 + count * events + count / 2 * events);
    }
}

#[test]
fn a_killed_program_leaves_the_events_that_it_recorded() {
    let place = Place::new();
    let newest = place.path("newest");
    let mut child = place.command(example("subject")).arg("endless").arg(&newest).spawn().unwrap();
    // The program has been running for a while when the recorder starts.
    sleep(Duration::from_millis(100));
    let mut recorder = place.recorder(&["--all"]).stderr(Stdio::null()).spawn().unwrap();
    // Waits until the program is recorded.
    let rings = || std::fs::read_dir(place.path("runtime")).unwrap().any(|e| e.unwrap().path().extension().is_some_and(|e| e == "ring"));
    let mut patience = 600;
    while !rings() && patience > 0 {
        sleep(Duration::from_millis(50));
        patience -= 1;
    }
    sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    ok(Command::new("kill").arg("-INT").arg(recorder.id().to_string()).output().unwrap());
    assert!(recorder.wait().unwrap().success());
    let said = u64::from_ne_bytes(std::fs::read(&newest).unwrap()[..8].try_into().unwrap());
    let threads = numbers(&place.events(), "mark:numbered");
    let (counts, lost) = place.counts();
    let numbers = threads.values().next().unwrap();
    // The program may have been killed between an event and the note of its number.
    let first = numbers[0];
    assert!(first > 0);
    let emitted = counts["mark:numbered"] + lost;
    assert!(emitted == said - first || emitted == said + 1 - first, "{emitted} of {first} to {said}");
    assert!(numbers.is_sorted_by(|before, after| before < after));
}

#[test]
fn a_rust_library_shares_the_ring_of_a_c_program() {
    let place = Place::new();
    let loader = place.compile(&repository().join("tests/programs/loader.c"), "loader", &["-ldl"]);
    place.record(&[], &loader, &[example("librust_library.so").to_str().unwrap(), "150"]);
    let (counts, lost) = place.counts();
    assert_eq!((counts["mark:library"], counts["mark:program"], lost), (150, 150, 0));
    let lanes = std::fs::read_dir(place.recording().join("user")).unwrap().count() - 1;
    assert_eq!(lanes, 1, "one thread, one lane");
}

#[test]
fn probes_of_rust_and_c_in_one_library_share_their_state() {
    let place = Place::new();
    let source = place.path("mixed.c");
    let text = "#include <longpole/longpole.h>\n#include <stdlib.h>\nvoid probe_of_library(uint64_t number);\nint main(void)\n{\n\
                \tfor (uint64_t i = 0; i < 1000; i++) {\n\t\tLONGPOLE_MARK(\"program\", i);\n\t\tprobe_of_library(i);\n\t}\n\treturn 0;\n}\n";
    std::fs::write(&source, text).unwrap();
    let library = example("librust_library.a");
    let options = [library.to_str().unwrap(), "-ldl", "-lm"];
    let program = place.compile(&source, "mixed", &options);
    // There is one page and one thread pointer, because the linker dropped the other copies.
    let symbols = String::from_utf8(ok(Command::new("nm").arg(&program).output().unwrap()).stdout).unwrap();
    for name in ["longpole_page", "longpole_library", "longpole_thread"] {
        assert_eq!(symbols.lines().filter(|line| line.ends_with(&format!(" {name}"))).count(), 1, "{name}");
    }
    place.record(&["--buffer", "1MiB"], &program, &[]);
    let events = place.events();
    let (ours, theirs) = (numbers(&events, "mark:library"), numbers(&events, "mark:program"));
    assert_eq!(ours, theirs);
    assert_eq!(ours.values().next().unwrap().len(), 1000);
    assert_eq!(place.info()["streams"].as_array().unwrap().len(), 1);
}

#[test]
fn names_that_find_no_room_in_the_table_are_part_of_their_events() {
    let place = Place::new();
    place.record(&["--buffer", "4MiB"], &example("subject"), &["sites"]);
    let (counts, lost) = place.counts();
    let own = counts.keys().filter(|name| name.starts_with("rpc_call:name ")).count() as u64;
    assert!(own > 50_000, "{own}");
    assert!(counts["rpc_call"] > 0);
    assert_eq!(counts.values().sum::<u64>() + lost, 70_000);
}

#[test]
fn arrays_and_enumerations_are_recorded_like_those_of_cpp() {
    let place = Place::new();
    let fields = |place: &Place| -> Vec<(String, serde_json::Value)> {
        let told = place.events().into_iter().map(|event| (event["name"].as_str().unwrap().to_owned(), event["fields"].clone()));
        told.collect()
    };
    place.record(&[], &example("typed"), &[]);
    let ours = fields(&place);
    let program = place.path("typed");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O2", "-I"]).arg(repository().join("include")).arg(repository().join("tests/programs/typed.cc"));
    ok(compiler.arg("-o").arg(&program).output().unwrap());
    place.record(&[], &program, &[]);
    let theirs = fields(&place);
    let shared = ["event:ranges", "event:pointers", "event:colour", "event:cut"];
    let mut compared = 0;
    for name in shared {
        let of =
            |all: &[(String, serde_json::Value)]| all.iter().filter(|(other, _)| other == name).map(|it| it.1.clone()).collect::<Vec<_>>();
        let (ours, theirs) = (of(&ours), of(&theirs));
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for (field, value) in ours.as_object().unwrap() {
                // `as` is a keyword of Rust.
                let other = &theirs[if field == "as_" { "as" } else { field }];
                assert_eq!(value, other, "{name} {field}: {theirs}");
                compared += 1;
            }
        }
    }
    // Arrays also have a field for their length.
    assert_eq!(compared, 7 + 3 + 3 * 2 + 4);
    let narrow = &ours.iter().find(|(name, _)| name == "event:narrow").unwrap().1;
    let [signed, single, text] = ["signed", "single", "text"].map(|field| narrow[field].to_string());
    assert_eq!([&*signed, &*single, &*text], ["[-1,1]", "[1.5,-0.25]", "\"end\""]);
    let read = place.babeltrace();
    assert!(read.is_none_or(|read| read.iter().any(|line| line.contains("samples = [ [0] = -1, [1] = 2, [2] = 32767 ]"))));
}
