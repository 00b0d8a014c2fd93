//! Events whose fields the program defines, and more names than there are class ids. The recorded
//! values are those that the program passed.

use crate::support::place::{ok, Place};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn program(place: &Place, name: &str) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = place.path(name);
    let run = Command::new("g++")
        .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(repository.join("include"))
        .arg(repository.join("tests/programs").join(name).with_extension("cc"))
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    output.to_str().unwrap().to_owned()
}

fn printed(place: &Place) -> Vec<Value> {
    let output = ok(place.longpole(&["print", "--json"]).arg(place.newest()).output().unwrap());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn bit_fields_functions_and_null_pointers_are_valid_values() {
    let place = Place::new();
    for language in ["c", "cpp"] {
        let program = place.build_as(language, "unusual_values", &["-pedantic"]);
        ok(place.longpole(&["record", "--", &program]).output().unwrap());
        let events = printed(&place);
        let fields = |name: &str| {
            let all: Vec<&Value> = events.iter().filter(|event| event["name"] == name).map(|event| &event["fields"]).collect();
            assert_eq!(all.len(), 1, "{language}, {name}: {events:#?}");
            all[0]
        };
        let value = |name: &str| &fields(&format!("counter:{name}"))["value"];
        let counters = ["narrow", "negative", "wide", "changing", "evaluated"].map(value);
        assert_eq!(counters, [&json!(5), &json!(-3), &json!(1u64 << 39), &json!(7), &json!(2)]);
        assert_eq!(value("real"), &json!(1.5));
        let mark = |name: &str| fields(&format!("mark:mark of {name}"));
        assert_eq!((&mark("bits")["data"], &mark("bits")["object"]), (&json!(1u64 << 39), &json!(5)));
        let function = &mark("a function")["object"];
        assert_ne!((function, &mark("nothing")["object"]), (&json!(0), &json!(1)));
        assert_eq!(mark("nothing")["object"], json!(0));
        assert_eq!(&fields("link")["from"], function);
        assert_eq!(fields("event:bits"), &json!({"narrow": 5, "negative": -3, "wide": 1u64 << 39}));
        assert_eq!(fields("event:pointers"), &json!({"function": function, "nothing": 0}));
        assert_eq!(fields("event:evaluated"), &json!({"count": 1}));
        assert_eq!(fields("event:unusual_values"), &json!({}));
        let sixteen = fields("event:sixteen");
        let numbers = ["a", "b", "c", "d", "e", "g", "h", "i", "j", "k", "l", "m", "n", "o"].map(|name| sixteen[name].as_i64().unwrap());
        assert_eq!(numbers, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!((&sixteen["f"], &sixteen["p"]), (&json!("six"), &json!([16])));
    }
}

#[test]
fn fields_of_every_kind_are_read_as_they_were_written() {
    let place = Place::new();
    let program = program(&place, "typed");
    ok(place.longpole(&["record", "--", &program]).output().unwrap());
    let events = printed(&place);
    let fields =
        |name: &str| -> Vec<Value> { events.iter().filter(|event| event["name"] == name).map(|event| event["fields"].clone()).collect() };
    let all = fields("event:ranges");
    assert_eq!(all.len(), 1, "{events:#?}");
    assert_eq!(all[0]["samples"], json!([-1, 2, 32767]));
    assert_eq!(all[0]["reals"], json!([0.5, -1e300]));
    assert_eq!((&all[0]["none"], &all[0]["last"]), (&json!([]), &json!("end")));
    let all = fields("event:pointers");
    assert_eq!((&all[0]["part"], &all[0]["number"], &all[0]["null"]), (&json!([1, 4, 9]), &json!(u64::MAX), &json!([])));
    let colours = fields("event:colour");
    let raw: Vec<&Value> = colours.iter().map(|colour| &colour["raw"]).collect();
    assert_eq!((raw, &colours[2]["bad"]), (vec![&json!(-1), &json!(5), &json!(7)], &json!(7)));
    let as_text = |colour: &Value| colour["as"].to_string();
    assert!(as_text(&colours[0]).contains("red") && as_text(&colours[1]).contains("dark green"), "{colours:#?}");
    assert!(!as_text(&colours[2]).contains("red") && as_text(&colours[2]).contains('7'), "{colours:#?}");
    let cut = &fields("event:cut")[0];
    let many = cut["many"].as_array().unwrap();
    assert!(many.len() > 900 && many.len() < 1024, "{}", many.len());
    assert!(many.iter().enumerate().all(|(at, value)| *value == json!(at * at)));
    assert_eq!((&cut["many_length"], &cut["text"]), (&json!(3), &json!("")));
    assert_eq!(fields("event:twins"), [json!({"a_b": 1, "a_b_1": 2, "c_4": 3, "c": 4, "c_4_4": 5, "_5": 6})]);
    assert_eq!(fields("event:held"), [json!({"whole": -3, "part": 0.5, "constant": -7, "fixed": "full", "after": "no"})]);
    let both = &fields("event:enumerations")[0];
    assert_eq!((&both["bytes"], &both["colours"]), (&json!("01ff"), &json!([-1, 5])));
    assert_eq!((fields("counter:held"), fields("mark:held")), (vec![json!({"value": 0.5})], vec![json!({"data": u64::MAX - 2})]));
    assert_eq!(fields("event").iter().map(|event| &event["name"]).collect::<Vec<_>>(), [&json!("too long"), &json!("made at run time")]);
    // The events without fields are counted.
    assert_eq!(place.answer("info", &place.newest())["without_fields"], 2);
    assert_eq!(fields("event:handle 7").len(), 1);
    babeltrace_agrees(&place, events.len());
}

/// Checks that babeltrace2 reads all events and shows the same elements.
fn babeltrace_agrees(place: &Place, count: usize) {
    let Ok(run) = Command::new("babeltrace2").arg(place.newest().join("user")).output() else {
        println!("skipped: typed events read by babeltrace2 (not installed)");
        return;
    };
    let text = String::from_utf8(ok(run).stdout).unwrap();
    assert_eq!(text.lines().count(), count, "{text}");
    let line = |name: &str| text.lines().find(|line| line.contains(&format!("event:{name}:"))).unwrap_or_else(|| panic!("{name}: {text}"));
    for part in ["[0] = -1", "[1] = 2", "[2] = 32767", "[0] = 0.5", "[1] = -1e+300", "[2] = 255", "last = \"end\""] {
        assert!(line("ranges").contains(part), "{part}: {}", line("ranges"));
    }
    assert!(line("colour").contains("\"red\"") && text.contains("\"dark green\""), "{text}");
    assert!(line("cut").contains("text = \"\""));
}

#[test]
fn names_beyond_the_class_ids_are_stored_with_their_events() {
    let place = Place::new();
    let program = place.build("many_names", &[]);
    let count = 70_000;
    ok(place.longpole(&["record", "--buffer", "16MiB", "--", &program, &count.to_string()]).output().unwrap());
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut overflowed = 0;
    for event in printed(&place) {
        let name = event["name"].as_str().unwrap();
        let called = match name.strip_prefix("counter:") {
            Some(called) => called.to_owned(),
            None => {
                assert_eq!(name, "counter", "{event}");
                overflowed += 1;
                event["fields"]["name"].as_str().unwrap().to_owned()
            }
        };
        assert!(seen.insert(called, event["fields"]["value"].clone()).is_none(), "{event}");
    }
    assert_eq!(seen.len(), count, "each name once");
    assert!((count - 65_536..count - 60_000).contains(&overflowed), "{overflowed}");
    assert!((0..count).all(|number| seen[&format!("name {number}")] == json!(number)));
}

#[test]
fn an_object_is_identified_by_process_and_address_and_an_address_can_be_reused() {
    let place = Place::new();
    let program = place.build("objects", &[]);
    for (arguments, lives) in [(&["processes"][..], 2), (&["again", "140000"], 140_001)] {
        ok(place.longpole(&["record", "--buffer", "16MiB", "--", &program]).args(arguments).output().unwrap());
        assert_eq!(place.answer("info", &place.newest())["lost"], 0);
        let told = place.answer("latency", &place.newest());
        let objects: Vec<&Value> = told.as_array().unwrap().iter().filter(|line| line["kind"] == "object").collect();
        assert_eq!((objects.len(), &objects[0]["count"]), (1, &json!(lives)), "{told}");
    }
}

#[test]
fn probes_in_headers_are_the_same_in_every_file_with_any_compiler() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let include = repository.join("include");
    let source = repository.join("tests/programs/inline.cc");
    for compilers in [["g++", "g++"], ["g++", "clang++"]] {
        let place = Place::new();
        let mut link = Command::new("g++");
        for (compiler, (name, options)) in compilers.iter().zip([("first.o", &["-O2"][..]), ("second.o", &["-O0", "-DSECOND"])]) {
            let mut compile = Command::new(compiler);
            compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-I"]).arg(&include).args(options).arg(&source);
            let Ok(run) = compile.arg("-o").arg(place.path(name)).output() else {
                println!("skipped: probes in headers with {compiler} (not installed)");
                return;
            };
            ok(run);
            link.arg(place.path(name));
        }
        ok(link.arg("-o").arg(place.path("inline")).output().unwrap());
        ok(place.longpole(&["record", "--", place.path("inline").to_str().unwrap()]).output().unwrap());
        let told: Vec<(String, Value)> =
            printed(&place).into_iter().map(|event| (event["name"].as_str().unwrap().to_owned(), event["fields"].clone())).collect();
        let of_one = |x: i32| {
            [
                ("mark:first", json!({"data": x})),
                ("mark:second", json!({"data": x})),
                ("span_begin:outer", json!({})),
                ("span_begin:inner", json!({"arg": x})),
                ("counter:third", json!({"value": x})),
                ("event:fourth", json!({"y": x})),
                ("span_end:inner", json!({})),
                ("span_end:outer", json!({})),
                ("event:any", json!({"value": x})),
                ("mark:of a template", json!({})),
                ("event:any", json!({"value": "text"})),
                ("mark:of a template", json!({})),
                ("mark:made", json!({})),
                ("span_begin:number", json!({})),
                ("span_end:number", json!({})),
                ("mark:rare", json!({"data": 5 + x})),
                ("mark:gone", json!({})),
            ]
        };
        let expected: Vec<(String, Value)> = [1, 2].into_iter().flat_map(of_one).map(|(name, fields)| (name.to_owned(), fields)).collect();
        assert_eq!(told, expected, "{compilers:?}");
    }
}
