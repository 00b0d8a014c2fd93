//! The difference of two traces, as the page asks for it.

use crate::support;
use crate::support::{log, Answered, Served};
use longpole_serve::Options;
use serde_json::{json, Value};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Opens traces. Returns their numbers.
fn opened(served: &Served, names: &[&str]) -> Vec<u64> {
    names.iter().for_each(|name| assert_eq!(served.open(name).status, 200));
    let traces = served.ask("traces").json();
    let all = traces["traces"].as_array().unwrap();
    let id = |name: &&str| all.iter().find(|trace| trace["path"] == served.path(name).as_str()).unwrap()["id"].as_u64().unwrap();
    names.iter().map(id).collect()
}

/// Asks until both traces are read.
fn ask(served: &Served, base: u64, new: u64) -> Answered {
    loop {
        let answer = served.ask(&format!("diff?base={base}&new={new}"));
        if answer.status != 202 {
            return answer;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn diff(served: &Served, base: u64, new: u64) -> Value {
    let answer = ask(served, base, new);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// A log in which parser takes 600 ns more for its part of the path.
fn slower_log() -> String {
    let later = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let t = line["t"].as_u64().unwrap();
        if t >= support::ORIGIN + 600 {
            line["t"] = (t + 600).into();
        }
        line.to_string() + "\n"
    };
    log().lines().map(later).collect()
}

#[test]
fn the_difference_has_both_shares_of_each_state() {
    let served = Served::new();
    served.write("root/slower", &slower_log());
    let ids = opened(&served, &["root/log", "root/slower"]);
    let there = diff(&served, ids[0], ids[1]);
    let parse = |diff: &Value| diff["states"].as_array().unwrap().iter().find(|it| it["state"] == "parse").unwrap().clone();
    // An interrupt takes 50 ns of it.
    let (before, after) = (550.0 / 1100.0, 1150.0 / 1700.0);
    assert_eq!((parse(&there)["share_a"].as_f64(), parse(&there)["share_b"].as_f64()), (Some(before), Some(after)));
    let back = diff(&served, ids[1], ids[0]);
    assert_eq!((parse(&back)["share_a"].as_f64(), parse(&back)["share_b"].as_f64()), (Some(after), Some(before)));
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let served = Served::new();
    let ids = opened(&served, &["root/log"]);
    let same = diff(&served, ids[0], ids[0]);
    assert_eq!(same["verdict"]["kind"], json!("nothing"));
    assert!(same["states"].as_array().unwrap().iter().all(|state| state["change"] == json!(0.0)), "{same}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let traces = |directory: &Path| ["root/log", "root/text"].map(|name| directory.join(name)).to_vec();
    let served = Served::with(|directory| Options { traces: traces(directory), ..Options::default() });
    let missing = served.ask("diff?base=1&new=999");
    assert_eq!((missing.status, missing.json()["error"].as_str()), (404, Some("there is no trace 999; GET api/traces lists them")));
    let damaged = ask(&served, 1, 2);
    assert_eq!(damaged.status, 400);
    assert!(damaged.json()["error"].as_str().unwrap().contains("no machine log"), "{}", damaged.body);
    assert_eq!(served.ask("diff?base=1").status, 400);
}
