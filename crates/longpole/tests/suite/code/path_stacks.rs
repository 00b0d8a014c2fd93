//! Pictures and texts of the stacks on paths of real recordings: the difference of two, and the
//! functions of the folded graph.

use crate::support::host::{can_sample, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FRAMES: [&str; 2] = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

/// Records a program of three functions, built with these options. `None` if this host does not
/// permit what is needed.
fn record(place: &Place, options: &[&str]) -> Option<PathBuf> {
    if !can_trace("stacks on paths") || !can_sample("stacks on paths") {
        return None;
    }
    let program = place.build("sampled", &[&FRAMES, options].concat());
    let record = ["record", "--kernel", "sched,irq,softirq", "--stacks", "1999", "--", &program, "shares", "0.3"];
    let output = ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(record).output().unwrap());
    // Shown if the test fails.
    println!("{}", String::from_utf8_lossy(&output.stderr));
    Some(place.newest())
}

fn text(place: &Place, arguments: &[&str], traces: &[&Path]) -> String {
    String::from_utf8(ok(place.longpole(arguments).args(traces).output().unwrap()).stdout).unwrap()
}

/// The frames of a picture: name, share of the width, colour, and what the title says after the
/// name.
fn frames(svg: &str) -> Vec<(String, f64, String, String)> {
    let attribute = |text: &str, name: &str| text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let frame = |text: &str| {
        let title = text.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
        let name = attribute(text, "data-n");
        let about = title.strip_prefix(&name).unwrap().to_owned();
        (name, attribute(text, "data-w").parse().unwrap(), attribute(text, "fill"), about)
    };
    svg.split("<g ").skip(1).map(frame).collect()
}

/// Red minus blue of a colour `#rrggbb`.
fn redness(colour: &str) -> i64 {
    let part = |at: usize| i64::from_str_radix(&colour[at..at + 2], 16).unwrap();
    part(1) - part(5)
}

#[test]
fn the_difference_of_two_paths_shows_new_stacks_in_red_and_both_times_folded() {
    let place = Place::new();
    let Some(first) = record(&place, &[]) else { return };
    let second = record(&place, &["-Dwork_of_six=work_of_seven"]).unwrap();
    // The columns are the folded stacks of each path.
    let column = |text: &str, last: bool| -> BTreeMap<String, u64> {
        let line = |line: &str| {
            let (rest, b) = line.rsplit_once(' ').unwrap();
            let (stack, a) = rest.rsplit_once(' ').unwrap();
            (stack.to_owned(), if last { b } else { a }.parse().unwrap())
        };
        text.lines().map(line).filter(|(_, ns)| *ns > 0).collect()
    };
    let alone = |recording: &Path| -> BTreeMap<String, u64> {
        let of_path = text(&place, &["path", "--folded"], &[recording]);
        let line = |line: &str| line.rsplit_once(' ').map(|(stack, ns)| (stack.to_owned(), ns.parse().unwrap())).unwrap();
        of_path.lines().map(line).filter(|(_, ns)| *ns > 0).collect()
    };
    let both = text(&place, &["diff", "--folded"], &[&first, &second]);
    let (before, stacks) = (alone(&first), alone(&second));
    assert_eq!(column(&both, false), before);
    assert_eq!(column(&both, true), stacks);

    let picture = place.path("change.svg");
    text(&place, &["diff", "--flame", picture.to_str().unwrap()], &[&first, &second]);
    let svg = fs::read_to_string(&picture).unwrap();
    let all = frames(&svg);
    let of = |name: &'static str| all.iter().filter(move |frame| frame.0 == name);
    // The width is the share of the second path, of which `path --folded` has the stacks.
    let of_seven: u64 = stacks.iter().filter(|(stack, _)| stack.contains(";work_of_seven")).map(|(_, ns)| ns).sum();
    let share = of_seven as f64 / stacks.values().sum::<u64>() as f64;
    let width: f64 = of("work_of_seven").map(|frame| frame.1).sum();
    assert!((width - share).abs() < 1e-6 && share > 0.1, "{width} {share}");
    assert!(of("work_of_seven").all(|frame| frame.3.contains("not in the first")), "{all:?}");
    assert!(of("work_of_six").next().is_none() && svg.contains("not drawn, only in the first: "), "{all:?}");
    // On a host that is too busy to unwind them, the stacks of one recording may end early.
    let below = |stacks: &BTreeMap<String, u64>| -> BTreeSet<String> {
        stacks.keys().filter_map(|stack| stack.find(";work_of_three").map(|at| stack[..at].to_owned())).collect()
    };
    let in_both = below(&before).intersection(&below(&stacks)).next().is_some();
    assert_eq!(of("work_of_three").any(|frame| frame.3.contains(" of the first (")), in_both, "{all:?}");
    // What grew is red, what shrank is blue.
    for (_, _, colour, about) in &all {
        let points: f64 = about.rsplit_once('(').unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert!(points.abs() < 1.0 || redness(colour).signum() as f64 == points.signum(), "{colour} {about}");
    }
    assert!(svg.contains("points</text>") && svg.contains("same share</text>"));

    // Compared with itself, a path has no change.
    text(&place, &["diff", "--flame", picture.to_str().unwrap()], &[&second, &second]);
    let same = frames(&fs::read_to_string(&picture).unwrap());
    assert!(same.iter().all(|(_, _, colour, about)| colour == "#f7f7f7" && about.contains("(+0.0 points)")), "{same:?}");
}

#[test]
fn a_difference_without_sampled_stacks_is_an_error_that_says_how_to_record_them() {
    let place = Place::new();
    let log = place.path("log.jsonl");
    fs::write(&log, "{\"t\":0,\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":9,\"end\":\"A\"}\n").unwrap();
    let output = place.longpole(&["diff", "--folded"]).args([&log, &log]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("longpole record --stacks"), "{error}");
    let output = place.longpole(&["graph", "--functions"]).arg(&log).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && error.contains("a machine log has none"), "{error}");
    let output = place.longpole(&["diff", "--folded", "--json"]).args([&log, &log]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn nodes_of_the_folded_graph_have_the_functions_of_their_states() {
    let place = Place::new();
    let Some(recording) = record(&place, &[]) else { return };
    let graph: Value = serde_json::from_str(&text(&place, &["graph", "--functions", "--json"], &[&recording])).unwrap();
    schema::check(&schema::schema("graph"), &graph);
    let path: Value = serde_json::from_str(&text(&place, &["path", "--functions", "--json", "--no-segments"], &[&recording])).unwrap();
    schema::check(&schema::schema("path"), &path);
    assert_eq!(graph["stack_gaps"], path["stack_gaps"]);
    let nodes = graph["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["functions"][0]["function"] == "work_of_six").unwrap_or_else(|| panic!("{nodes:#?}"));
    let functions = node["functions"].as_array().unwrap();
    let of_three = functions.iter().find(|function| function["function"] == "work_of_three");
    // Other functions wait for a CPU if the host is busy.
    assert!(of_three.is_some_and(|function| function["share"].as_f64() > Some(0.1)), "{node:#}");
    // The program has one thread, whose state is a row of the path.
    let row = path["criticality"].as_array().unwrap().iter().find(|row| row["state"] == node["state"] && row["class"] == node["class"]);
    assert_eq!(row.unwrap()["function"], functions[0]);

    let function = |text: &str| text.lines().any(|line| line.contains("work_of_six ") && line.contains(" % - "));
    let shown = text(&place, &["graph", "--functions"], &[&recording]);
    assert!(shown.contains("function (sampled)") && function(&shown), "{shown}");
    for format in ["dot", "svg"] {
        let shown = text(&place, &["graph", "--functions", "--format", format], &[&recording]);
        assert!(function(&shown) && shown.contains("work_of_three "), "{format}: {shown}");
    }
    // Without the option, nobody reads the samples.
    let without: Value = serde_json::from_str(&text(&place, &["graph", "--json"], &[&recording])).unwrap();
    schema::check(&schema::schema("graph"), &without);
    assert!(without.get("stack_gaps").is_none() && without["nodes"].as_array().unwrap().iter().all(|node| node.get("functions").is_none()));
}
