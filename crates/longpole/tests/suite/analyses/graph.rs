//! `graph`, from a machine log to text, JSON, DOT and SVG.

use crate::support::schema;
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn run(verb: &str, arguments: &[&str], log: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").arg(verb).args(arguments).arg(log).output().unwrap()
}

fn text(arguments: &[&str], log: &Path) -> String {
    let output = run("graph", arguments, log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(verb: &str, arguments: &[&str], log: &Path) -> Value {
    let output = run(verb, arguments, log);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn log(place: &TempDir, text: &str) -> PathBuf {
    let path = place.path().join("log.jsonl");
    fs::write(&path, text).unwrap();
    path
}

/// A machine log of two workers of one class that pass an item back and forth, `rounds` times, in
/// `states` different states.
fn ping_pong(rounds: usize, states: usize) -> String {
    let mut text = String::new();
    let mut t = 0;
    for (machine, why) in [("a", "idle"), ("b", "idle")] {
        writeln!(text, "{{\"t\":0,\"machine\":\"{machine}\",\"class\":\"worker\",\"blocked\":\"{why}\"}}").unwrap();
    }
    writeln!(text, "{{\"t\":0,\"machine\":\"a\",\"state\":\"begin\"}}").unwrap();
    for round in 0..rounds {
        let (one, other) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        t += 10 + round % 3;
        writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"put\":\"to {other}\"}}").unwrap();
        writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"blocked\":\"idle\"}}").unwrap();
        t += 2;
        writeln!(text, "{{\"t\":{t},\"machine\":\"{other}\",\"get\":\"to {other}\",\"n\":1}}").unwrap();
        writeln!(text, "{{\"t\":{t},\"machine\":\"{other}\",\"state\":\"work {}\"}}", (round * round + round / 7) % states).unwrap();
    }
    text
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array().unwrap().iter().map(|it| it[key].as_u64().unwrap()).sum()
}

#[test]
fn nodes_are_classes_with_states_and_edges_join_those_in_sequence_on_the_path() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &ping_pong(5, 1));
    let graph = json("graph", &["--json"], &log);
    schema::check(&schema::schema("graph"), &graph);
    let nodes: Vec<(&str, &str, u64, u64)> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (it["class"].as_str().unwrap(), it["state"].as_str().unwrap(), it["count"].as_u64().unwrap(), it["total_ns"].as_u64().unwrap())
        })
        .collect();
    // The rounds take 10, 11, 12, 10 and 11 ns, each followed by a link of 2 ns. After the last
    // link the log ends, so the state there has no time.
    assert_eq!(nodes, [("worker", "work 0", 4, 44), ("worker", "begin", 1, 10), ("to b", "queued", 3, 6), ("to a", "queued", 2, 4)]);
    assert_eq!((&graph["length_ns"], &graph["segments"]), (&Value::from(64), &Value::from(10)));
    let kinds: Vec<&Value> = graph["nodes"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["running", "running", "link", "link"]);
    assert_eq!(graph["nodes"][0]["machines"], 2);
    let named = |at: &Value| graph["nodes"][at.as_u64().unwrap() as usize]["state"].as_str().unwrap().to_owned();
    let edges: HashSet<(String, String, u64)> =
        graph["edges"].as_array().unwrap().iter().map(|it| (named(&it["from"]), named(&it["to"]), it["count"].as_u64().unwrap())).collect();
    assert!(edges.contains(&("begin".to_owned(), "queued".to_owned(), 1)), "{edges:?}");
    assert_eq!(edges.len(), graph["edges"].as_array().unwrap().len() - 2, "to and fro look alike without the queue");
    assert_eq!(named(&graph["first"]), "begin");
}

#[test]
fn times_of_nodes_edges_and_loops_agree_with_the_path() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &ping_pong(3000, 4));
    let graph = json("graph", &["--json", "--top", "1000"], &log);
    let path = json("path", &["--json"], &log);
    assert_eq!(graph["segments"].as_u64().unwrap() as usize, path["segments"].as_array().unwrap().len());
    assert_eq!(sum(&graph["nodes"], "total_ns"), path["length_ns"].as_u64().unwrap());
    for node in graph["nodes"].as_array().unwrap().iter().filter(|node| node["kind"] != "link") {
        let rows =
            path["criticality"].as_array().unwrap().iter().filter(|row| row["class"] == node["class"] && row["state"] == node["state"]);
        assert_eq!(rows.map(|row| row["ns"].as_u64().unwrap()).sum::<u64>(), node["total_ns"].as_u64().unwrap());
    }
    let last = path["segments"].as_array().unwrap().last().unwrap();
    let rest = last["end_ns"].as_u64().unwrap() - last["start_ns"].as_u64().unwrap();
    assert_eq!(sum(&graph["edges"], "total_ns") + rest, path["length_ns"].as_u64().unwrap());
    let (steps, loops) = (sum(&graph["edges"], "count"), graph["loops"].as_array().unwrap());
    assert_eq!(steps + 1, graph["segments"].as_u64().unwrap());
    let in_loops: u64 = loops.iter().map(|it| it["count"].as_u64().unwrap() * it["nodes"].as_array().unwrap().len() as u64).sum();
    assert!(in_loops <= steps && in_loops + graph["nodes"].as_array().unwrap().len() as u64 > steps);
    assert!(sum(&graph["loops"], "total_ns") <= path["length_ns"].as_u64().unwrap());
}

#[test]
fn no_node_or_edge_occurs_twice_and_rare_ones_are_merged_without_loss_of_time() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &ping_pong(4000, 900));
    for most in [6, 20, 545] {
        let graph = json("graph", &["--json", "--most", &most.to_string()], &log);
        schema::check(&schema::schema("graph"), &graph);
        let (nodes, edges) = (graph["nodes"].as_array().unwrap(), graph["edges"].as_array().unwrap());
        assert!(nodes.len() + edges.len() <= most, "{most}: {} {}", nodes.len(), edges.len());
        let distinct: HashSet<(&Value, &Value)> = nodes.iter().map(|node| (&node["class"], &node["state"])).collect();
        assert_eq!(distinct.len(), nodes.len());
        let distinct: HashSet<(&Value, &Value)> = edges.iter().map(|edge| (&edge["from"], &edge["to"])).collect();
        assert_eq!(distinct.len(), edges.len());
        assert_eq!(sum(&graph["nodes"], "total_ns"), graph["length_ns"].as_u64().unwrap());
        assert_eq!(sum(&graph["edges"], "count") + graph["rare_edges"]["count"].as_u64().unwrap() + 1, graph["segments"].as_u64().unwrap());
        assert!(graph["rare_nodes"].as_u64().unwrap() > 0 && nodes.last().unwrap()["state"].is_null());
    }
}

/// A machine log in which the threads of `processes` pass work on, each in one of `states` states
/// that become rarer.
fn relay(processes: usize, states: usize, rounds: usize) -> String {
    let machine = |at: usize| format!("p{at}/worker{at}");
    let mut text: String = (0..processes).map(|at| format!("{{\"t\":0,\"machine\":\"{}\",\"blocked\":\"idle\"}}\n", machine(at))).collect();
    writeln!(text, "{{\"t\":0,\"machine\":\"{}\",\"state\":\"begin\"}}", machine(0)).unwrap();
    let (mut t, mut at) = (0, 0);
    for round in 0..rounds {
        let spread = (round * 7919 + round / 5) % (states * states);
        let state = states - 1 - (spread as f64).sqrt() as usize;
        let (one, next) = (machine(at), (at + 1 + round % 2) % processes);
        t += 10 + round % 7;
        writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"state\":\"state {state} of {at}\"}}").unwrap();
        t += 20;
        writeln!(text, "{{\"t\":{t},\"machine\":\"{}\",\"woken_by\":\"{one}\"}}", machine(next)).unwrap();
        writeln!(text, "{{\"t\":{t},\"machine\":\"{}\",\"state\":\"begin\"}}", machine(next)).unwrap();
        writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"blocked\":\"idle\"}}").unwrap();
        at = next;
    }
    text
}

#[test]
fn rare_states_are_one_node_per_process_and_every_node_has_an_edge() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &relay(5, 60, 6000));
    for most in [6, 40, 150, 545] {
        let graph = json("graph", &["--json", "--most", &most.to_string()], &log);
        schema::check(&schema::schema("graph"), &graph);
        let (nodes, edges) = (graph["nodes"].as_array().unwrap(), graph["edges"].as_array().unwrap());
        assert!(nodes.len() + edges.len() <= most, "{most}: {} {}", nodes.len(), edges.len());
        let gathering: Vec<&Value> = nodes.iter().filter(|node| node["state"].is_null()).collect();
        assert_eq!(sum(&gathering.iter().copied().cloned().collect(), "states"), graph["rare_nodes"].as_u64().unwrap());
        let processes: HashSet<&Value> = gathering.iter().map(|node| &node["class"]).collect();
        assert_eq!(processes.len(), gathering.len(), "one node per process");
        if most == 150 {
            let names: HashSet<&str> = processes.iter().filter_map(|process| process.as_str()).collect();
            assert_eq!(names, HashSet::from(["p0", "p1", "p2", "p3", "p4"]));
        }
        for at in 0..nodes.len() as u64 {
            let joins = |edge: &&Value| edge["from"] != edge["to"] && (edge["from"] == at || edge["to"] == at);
            assert!(edges.iter().any(|edge| joins(&edge)), "{most}: {}", nodes[at as usize]);
        }
    }
}

#[test]
fn a_picture_of_50_states_is_at_most_1600_pixels_wide_and_has_no_node_without_an_arrow() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &relay(5, 40, 6000));
    let svg = text(&["--format", "svg"], &log);
    let width: f64 = svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert!(width <= 1600.0, "{width}");
    let graph = json("graph", &["--json", "--most", "150"], &log);
    let nodes = graph["nodes"].as_array().unwrap();
    assert!(nodes.len() >= 50, "{}", nodes.len());
    let arrows: Vec<&str> = svg.lines().filter(|line| line.starts_with("<g opacity")).collect();
    for node in nodes.iter().filter(|node| node["state"].is_string()) {
        let name = format!("{}::{}", node["class"].as_str().unwrap(), node["state"].as_str().unwrap());
        let joins = |arrow: &&str| arrow.contains(&format!("<title>{name} →")) || arrow.contains(&format!("→ {name}:"));
        assert!(arrows.iter().any(joins), "{name}");
    }
}

#[test]
fn a_picture_is_well_formed_for_any_name() {
    let place = TempDir::new().unwrap();
    let hostile = ping_pong(40, 3).replace("work 1", "a<b>&\\\"\\u0007\\n]]>--").replace("to b", "<svg onload=x>");
    let log = log(&place, &hostile);
    let svg = text(&["--format", "svg"], &log);
    assert!(!svg.contains("<svg onload") && !svg.contains('\u{7}'));
    let read = "import sys, xml.dom.minidom as m; print(len(m.parse(sys.stdin.buffer).getElementsByTagName('rect')))";
    let counted = fed("python3", &["-c", read], &svg).expect("python3 is at hand wherever the oracle runs");
    // Rectangles of the background, the hatching, the nodes and the legend.
    assert!(counted.trim().parse::<usize>().unwrap() > 6, "{counted}");
    let dot = text(&["--format", "dot"], &log);
    match fed("dot", &["-Tplain"], &dot) {
        Some(plain) => assert_eq!(plain.lines().filter(|line| line.starts_with("node ")).count(), dot.matches("fillcolor").count()),
        None => println!("skipped: a look of Graphviz at --format dot (no dot here)"),
    }
}

/// Output of a program for this input; `None` if the program is not installed.
fn fed(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    use std::io::Write as _;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "{program} refuses it");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_text_shows_nodes_edges_and_loops_and_can_be_written_to_a_file() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &ping_pong(50, 1));
    let said = text(&[], &log);
    for part in ["NODES", "worker::work 0", "EDGES", "to b::queued", "LOOPS"] {
        assert!(said.contains(part), "{said}");
    }
    let file = place.path().join("graph.txt");
    let output = run("graph", &["-o", file.to_str().unwrap()], &log);
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), said);
    let output = run("graph", &["-o", "/nowhere/graph.txt"], &log);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/graph.txt cannot be written"));
}

#[test]
fn the_suffix_of_the_output_gives_its_format_and_an_unknown_one_is_refused() {
    let place = TempDir::new().unwrap();
    let log = log(&place, &ping_pong(50, 1));
    let written = |name: &str, more: &[&str]| {
        let file = place.path().join(name);
        let output = run("graph", &[&["-o", file.to_str().unwrap()], more].concat(), &log);
        assert!(output.status.success() && output.stdout.is_empty(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(&file).unwrap()
    };
    for (name, format) in [("g.svg", "svg"), ("g.SVG", "svg"), ("g.dot", "dot"), ("g.gv", "dot"), ("g.json", "json"), ("g", "text")] {
        assert_eq!(written(name, &[]), text(&["--format", format], &log), "{name}");
    }
    assert!(written("waits.svg", &["--waits"]).starts_with("<svg"));
    assert_eq!(written("g.out", &["--format", "dot"]), text(&["--format", "dot"], &log), "--format decides if it is given");
    let file = place.path().join("g.png");
    let output = run("graph", &["-o", file.to_str().unwrap()], &log);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no format has the suffix .png; the known ones are .txt, .json, .dot, .gv and .svg"), "{said}");
    assert!(!file.exists());
}
