//! `view`: flame graphs of a range and of a state, and the stacks of single waits.

use crate::support::host::{alone, can_sample, can_trace};
use crate::support::place::{ok, Place};
use crate::support::view::View;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Rate of samples of running code, per second, and the time between two of them.
const HZ: &str = "999";
const PERIOD_NS: u64 = 1_001_001;

/// Records two threads that need one lock. `None` if this host does not permit what is needed.
fn recorded(place: &Place) -> Option<PathBuf> {
    if !can_trace("stacks of waits in the viewer") || !can_sample("stacks of waits in the viewer") {
        return None;
    }
    let program = place.build("places", &["-O2", "-g", "-fomit-frame-pointer", "-pthread", "-fno-optimize-sibling-calls"]);
    let kernel = "sched,irq,softirq,timer,syscall";
    let _alone = alone();
    let arguments = ["record", "--kernel", kernel, "--stacks", HZ, "--stacks-waiting", HZ, "--", &program, "lock", "2"];
    ok(place.command(env!("CARGO_BIN_EXE_longpole")).args(arguments).output().unwrap());
    let recording = place.newest();
    let names = &place.answer("info", &recording)["names"];
    if names.get("waiting_rate").is_none() || names.get("stack").is_none() {
        println!("skipped: stacks of waits in the viewer (none are recorded, or unwound, on this host)");
        return None;
    }
    Some(recording)
}

fn opened(place: &Place, recording: &Path) -> View {
    let view = View::start(&mut place.longpole(&[]), &[recording.to_str().unwrap()]);
    assert_eq!(view.end()["phase"], "ready");
    view
}

/// The lines that `cpu --folded` prints, with their counts.
fn printed(place: &Place, recording: &Path, arguments: &[&str]) -> BTreeMap<String, u64> {
    let output = ok(place.longpole(&["cpu", "--folded"]).args(arguments).arg(recording).output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.rsplit_once(' ').map(|(stack, count)| (stack.to_owned(), count.parse().unwrap())).unwrap();
    text.lines().map(line).collect()
}

/// The same lines from a flame graph.
fn folded(graph: &Value) -> BTreeMap<String, u64> {
    let names = graph["names"].as_array().unwrap_or_else(|| panic!("{graph}"));
    let (mut lines, mut stack) = (BTreeMap::new(), Vec::new());
    for frame in graph["frames"].as_array().unwrap() {
        let number = |at: usize| frame[at].as_u64().unwrap();
        let name = names[number(1) as usize].as_str().unwrap();
        stack.truncate(number(0) as usize);
        stack.push(match number(2) {
            0 | 1 => name.to_owned(),
            2 => format!("{name}_[k]"),
            3 => format!("{name}_[j]"),
            _ if name == "[truncated]" => name.to_owned(),
            _ => format!("[{name}]"),
        });
        if number(4) > 0 {
            lines.insert(stack.join(";"), number(4));
        }
    }
    lines
}

fn waits_of(lines: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let is_wait = |line: &str| line.rsplit(';').next().is_some_and(|last| last.starts_with("[waits"));
    lines.iter().filter(|(line, _)| is_wait(line)).map(|(line, ns)| (line.clone(), *ns)).collect()
}

/// Rows of the program's threads, and the row of its process.
fn threads(view: &View) -> (Vec<Value>, Value) {
    let rows = view.get("/rows")["rows"].as_array().unwrap().clone();
    let process = rows.iter().find(|row| row["kind"] == "process" && row["name"] == "places").unwrap().clone();
    (rows.into_iter().filter(|row| row["parent"] == process["id"]).collect(), process)
}

#[test]
fn the_flame_graph_of_a_range_is_what_the_command_prints_and_that_of_a_state_is_its_part() {
    let place = Place::new();
    let Some(recording) = recorded(&place) else { return };
    let view = opened(&place, &recording);
    let (threads, process) = threads(&view);
    let pid = threads.iter().map(|row| row["tid"].as_i64().unwrap()).min().unwrap().to_string();
    let end = view.trace()["end"].as_u64().unwrap();
    let (begin, end) = (end / 3, end / 3 * 2 + 1);
    let on_clock = |t: u64| (view.origin() + t as i64).to_string();
    // The end of a part belongs to it.
    let range = ["--begin", &on_clock(begin), "--end", &on_clock(end - 1), "-p", &pid];

    let stacks = |query: &str| view.get(&format!("/stacks?{query}"))["all"].clone();
    let in_range = stacks(&format!("begin={begin}&end={end}&rows={}", process["id"]));
    assert_eq!(in_range["unit"], "ns");
    let shown = folded(&in_range);
    let waits = printed(&place, &recording, &[&range[..], &["--off-cpu"]].concat());
    let running = printed(&place, &recording, &range);
    assert!(!running.is_empty() && waits.keys().any(|line| line.contains(";takes_lock")), "{waits:?}");
    let running = running.into_iter().map(|(line, samples)| (line, samples * PERIOD_NS));
    let expected: BTreeMap<String, u64> = waits.clone().into_iter().chain(running).collect();
    assert_eq!(shown, expected);

    // The flame graph of the whole recording has waits, too.
    let recorded = view.get("/stacks")["all"].clone();
    assert_eq!(recorded["unit"], "ns");
    let since = ["--begin", &on_clock(0)];
    let running = printed(&place, &recording, &since).into_iter().map(|(line, samples)| (line, samples * PERIOD_NS));
    let expected = running.chain(printed(&place, &recording, &[&since[..], &["--off-cpu"]].concat())).collect();
    // The waits of other programs may have begun before the command.
    let of_program = |lines: BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        lines.into_iter().filter(|(line, _)| line.starts_with("places;")).collect()
    };
    // If other programs have many stacks, the flame graph has no room for the rarest of all.
    if recorded["left_out"] == 0 {
        assert_eq!(of_program(folded(&recorded)), of_program(expected));
    } else {
        println!("skipped: the flame graph of a whole recording (the stacks of other programs fill it)");
    }

    // Without a range, the page shows all since the command's begin.
    let whole = printed(&place, &recording, &["--off-cpu", "--begin", &on_clock(0), "-p", &pid]);
    assert!(waits.values().sum::<u64>() < whole.values().sum::<u64>());
    assert_eq!(waits_of(&folded(&stacks(&format!("rows={}", process["id"])))), whole);

    // The states of a thread divide its waits.
    let states = view.get("/rows")["states"].clone();
    let row = &threads[0]["id"];
    let all = waits_of(&folded(&stacks(&format!("rows={row}"))));
    let sums = view.get(&format!("/sums?rows={row}"))["sums"].clone();
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for state in sums.as_array().unwrap().iter().map(|sum| &sum["state"]) {
        let of_state = folded(&stacks(&format!("rows={row}&state={state}")));
        let class = states[state.as_u64().unwrap() as usize]["class"].as_str().unwrap();
        // The clocks of samples and of switches differ a little, so a few samples of running code
        // are in the state before or after.
        let time = |lines: &BTreeMap<String, u64>| lines.values().sum::<u64>();
        let (waiting, in_all) = (time(&waits_of(&of_state)), time(&of_state));
        if ["asleep", "blocked", "runnable"].contains(&class) {
            assert!(in_all - waiting <= (in_all / 5).max(5 * PERIOD_NS), "{class}: {of_state:?}");
        }
        waits_of(&of_state).into_iter().for_each(|(line, ns)| *sum.entry(line).or_default() += ns);
    }
    let sample_count = stacks(&format!("rows={row}"))["samples"].as_u64().unwrap();
    for (line, ns) in &all {
        // Each part of a wait is rounded to whole nanoseconds.
        let parts = sum.get(line).copied().unwrap_or(0);
        assert!(parts.abs_diff(*ns) <= 2 * sample_count, "{line}: {parts} of {ns}");
    }
}

#[test]
fn sampled_waits_have_their_stacks_and_those_of_their_wakers_also_when_the_trace_is_opened_again() {
    let place = Place::new();
    let Some(recording) = recorded(&place) else { return };
    let answers = |view: &View| -> (Value, Vec<Value>) {
        let (threads, _) = threads(view);
        let ids: HashSet<u64> = threads.iter().map(|row| row["id"].as_u64().unwrap()).collect();
        let marks = view.get(&format!("/sampled-waits?begin=0&end={}", view.trace()["end"]));
        let number = |mark: &Value, at: usize| mark[at].as_u64().unwrap();
        let of_threads = marks["waits"].as_array().unwrap().iter().filter(|mark| ids.contains(&number(mark, 0)));
        let waits = of_threads.map(|mark| {
            let range = format!("row={}&begin={}&end={}", mark[0], mark[1], mark[2]);
            view.get(&format!("/sampled-wait?{range}"))["wait"].clone()
        });
        (marks.clone(), waits.collect())
    };
    let first = opened(&place, &recording);
    let (marks, waits) = answers(&first);
    let own = |stack: &Value| stack["own"].as_u64().map(|own| stack["frames"][own as usize].clone()).unwrap_or_default();
    let mut pairs = BTreeSet::new();
    for wait in &waits {
        let (waiter, waker) = (own(&wait["waiter"]), own(&wait["waker"]));
        if waiter["function"] == "takes_lock" || waiter["function"] == "holds_lock" {
            assert!(waiter["file"].as_str().unwrap().ends_with("places.c") && waiter["line"].is_u64(), "{wait}");
        }
        if waiter["function"] == "holds_lock" {
            // It sleeps, or loses its CPU before it sleeps.
            assert!(wait["waker"].is_null() && (wait["kind"] == "timer" || wait["kind"] == "cpu"), "{wait}");
        }
        if let (Some(waits), Some(wakes)) = (waiter["function"].as_str(), waker["function"].as_str()) {
            pairs.insert((waits.to_owned(), wakes.to_owned()));
            assert!(wait["woken"].as_u64() <= wait["end"].as_u64() && wait["waker_row"].is_u64(), "{wait}");
        }
    }
    assert!(pairs.contains(&("takes_lock".to_owned(), "releases_lock".to_owned())), "{pairs:?}: {waits:?}");
    // The timeline is kept, with the waits in it, shortly after the report is known.
    let kept = recording.join("derived/timeline");
    while !kept.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    drop(first);
    assert_eq!(answers(&opened(&place, &recording)), (marks, waits));
}
