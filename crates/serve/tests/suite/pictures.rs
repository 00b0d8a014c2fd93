//! What the page asks for in addition to the states: stacks, latencies, queues, waits.

use crate::support;
use crate::support::{Served, CALLED, ORIGIN};
use longpole_serve::Options;
use serde_json::{json, Value};

/// A server with a trace that can be read, and one that cannot.
fn served() -> Served {
    let served =
        Served::with(|directory| Options { traces: vec![directory.join("root/log"), directory.join("root/text")], ..Options::default() });
    served.wait_for(1);
    served.wait_for(2);
    served
}

#[test]
fn a_flame_graph_has_the_frames_with_the_most_samples_and_tells_how_many_are_left_out() {
    let served = served();
    let stacks = served.ask("traces/1/stacks").json();
    assert_eq!(stacks["path"], Value::Null);
    let all = &stacks["all"];
    let (names, frames) = (all["names"].as_array().unwrap(), all["frames"].as_array().unwrap());
    let sum = CALLED * (CALLED + 1) / 2;
    assert_eq!((&all["samples"], &all["lost"]), (&json!(sum), &json!(7)));
    assert_eq!((&frames[0], &frames[1]), (&json!([0, 0, 0, sum, 0]), &json!([1, 1, 1, sum, 0])));
    assert!(frames.len() <= 20_000 && frames.len() > 19_000, "{}", frames.len());
    assert_eq!(all["left_out"], json!(CALLED + 2 - frames.len() as u64));
    let least = all["least"].as_u64().unwrap();
    for frame in &frames[2..] {
        let (name, count) = (&names[frame[1].as_u64().unwrap() as usize], frame[3].as_u64().unwrap());
        assert_eq!((name, &frame[2]), (&json!(format!("f{count}")), &json!(2)));
        assert!(count >= least);
    }
}

#[test]
fn a_sampled_wait_is_found_in_its_row_and_has_the_row_of_its_waker() {
    let served = served();
    let rows = served.ask("traces/1/rows").json()["rows"].clone();
    let row = |tid: u64| rows.as_array().unwrap().iter().find(|row| row["tid"] == tid).unwrap()["id"].as_u64().unwrap();
    let marks = |begin: u64, end: u64| served.ask(&format!("traces/1/sampled-waits?begin={begin}&end={end}")).json()["waits"].clone();
    assert_eq!(marks(0, 1000), json!([[row(12), 100, 800]]));
    assert_eq!((marks(0, 100), marks(800, 1000)), (json!([]), json!([])));
    let wait = |tid: u64, begin: u64| {
        served.ask(&format!("traces/1/sampled-wait?row={}&begin={begin}&end={}", row(tid), begin + 10)).json()["wait"].clone()
    };
    let found = wait(12, 700);
    let fields = ["begin", "end", "woken", "waker_row", "kind"].map(|key| found[key].clone());
    assert_eq!(fields, [json!(100), json!(800), json!(790), json!(row(11)), json!("waiting")]);
    assert_eq!((&found["waiter"]["tid"], &found["waker"]["tid"]), (&json!(12), &json!(11)));
    assert_eq!((wait(12, 850), wait(11, 700)), (Value::Null, Value::Null));
}

#[test]
fn stacks_of_a_state_without_rows_are_refused() {
    let answer = served().ask("traces/1/stacks?state=1");
    assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("name the rows of the state: rows=R,R…")));
}

#[test]
fn a_trace_that_cannot_be_read_has_no_pictures() {
    let served = served();
    for (what, expected) in [
        ("stacks", json!({"all": null, "path": null})),
        ("latency", json!({"latencies": []})),
        ("queues", json!({"queues": [], "rows": []})),
        ("waits", json!({"waits": null, "rows": []})),
    ] {
        let answer = served.ask(&format!("traces/2/{what}"));
        assert_eq!((answer.status, answer.json()), (200, expected), "{what}");
    }
}

#[test]
fn a_latency_or_queue_that_does_not_exist_is_refused_with_what_to_do_next() {
    let served = served();
    for what in ["latency", "queues"] {
        let answer = served.ask(&format!("traces/1/{what}/3"));
        assert_eq!(answer.status, 404);
        assert!(answer.json()["error"].as_str().unwrap().ends_with(&format!("GET {what} lists them")), "{}", answer.body);
    }
}

#[test]
fn a_row_of_values_has_its_steps_its_range_and_its_sums() {
    let served = Served::with(|directory| {
        std::fs::write(directory.join("root/queue"), support::log_with_cpus()).unwrap();
        Options { traces: vec![directory.join("root/queue")], ..Options::default() }
    });
    served.wait_for(1);
    let rows = served.ask("traces/1/rows").json();
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "queue").unwrap();
    assert_eq!(row["values"], json!({"min": 0.0, "max": 3.0, "unit": "items", "capacity": 4}));
    let head = rows["rows"].as_array().unwrap().iter().find(|head| head["id"] == row["parent"]).unwrap();
    assert_eq!(head["kind"], "queues");
    let id = &row["id"];
    let origin: u64 = served.ask("traces/1").json()["origin_ns"].as_str().unwrap().parse().unwrap();
    let at = |t: u64| ORIGIN + t - origin;
    let states = served.ask(&format!("traces/1/states?row={id}&begin={}&end={}&limit=10", at(50), at(300))).json();
    let steps = json!([{"begin": at(0), "end": at(100), "value": 0.0}, {"begin": at(100), "end": at(600), "value": 3.0}]);
    assert_eq!(states, json!({"states": steps, "more": false}));
    let sums = served.ask(&format!("traces/1/sums?rows={id}&begin={}&end={}", at(0), at(200))).json();
    let values = json!([{"row": id, "min": 0.0, "max": 3.0, "mean": 1.5, "known_ns": 200, "changes": 2}]);
    assert_eq!(sums, json!({"sums": [], "values": values}));
}

#[test]
fn a_group_that_is_named_many_times_has_as_many_bins() {
    let served = Served::with(|directory| {
        let line = |line: Value| line.to_string() + "\n";
        let states = (0..20).map(|at| line(json!({"t": ORIGIN, "machine": format!("m{at}"), "state": "work"})));
        let log: String = states.chain([line(json!({"t": ORIGIN + 1000, "end": "m0"}))]).collect();
        std::fs::write(directory.join("root/many"), log).unwrap();
        Options { traces: vec![directory.join("root/many")], ..Options::default() }
    });
    served.wait_for(1);
    let rows = served.ask("traces/1/rows").json();
    assert_eq!(rows["generation"], served.ask("traces/1").json()["generation"]);
    let group = rows["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "machines").unwrap()["id"].to_string();
    let rows = vec![&*group; 512].join(",");
    let refused = served.ask(&format!("traces/1/tiles?level=0&first=0&count=2048&rows={rows}"));
    assert_eq!(refused.status, 400);
    assert!(refused.json()["error"].as_str().unwrap().ends_with("ask for fewer groups at once"), "{}", refused.body);
}
