//! The Trace Server Protocol: the shape of each answer, on a machine log whose path is known.

use crate::support;
use crate::support::{many_states, Served, ORIGIN};
use serde_json::{json, Value};

/// Numbers of more than 15 digits are not numbers for the TypeScript client.
const MAX_ID: u64 = 1_000_000_000_000_000;

/// Returns the number of the entry with this name.
fn entry(tree: &Value, name: &str) -> u64 {
    let found = tree["entries"].as_array().unwrap().iter().find(|entry| entry["labels"][0] == name);
    found.unwrap_or_else(|| panic!("no entry {name}: {tree}"))["id"].as_u64().unwrap()
}

fn names(tree: &Value) -> Vec<&str> {
    tree["entries"].as_array().unwrap().iter().map(|entry| entry["labels"][0].as_str().unwrap()).collect()
}

fn range(begin: u64, end: u64, samples: u64) -> Value {
    json!({"start": ORIGIN + begin, "end": ORIGIN + end, "nbTimes": samples})
}

/// Returns the states of a row as begin, end and label.
fn states(model: &Value, entry: u64) -> Vec<(u64, u64, Value)> {
    let row = model["rows"].as_array().unwrap().iter().find(|row| row["entryId"] == entry).unwrap();
    let t = |state: &Value, key: &str| state[key].as_u64().unwrap() - ORIGIN;
    row["states"].as_array().unwrap().iter().map(|state| (t(state, "start"), t(state, "end"), state["label"].clone())).collect()
}

#[test]
fn the_server_describes_itself() {
    let served = Served::new();
    assert_eq!(served.get("health").json(), json!({"status": "UP"}));
    let identifier = served.get("identifier").json();
    assert_eq!(
        (&identifier["tspVersion"], &identifier["productId"], &identifier["os"]),
        (&json!("0.6.0"), &json!("longpole"), &json!("Linux"))
    );
    assert!(identifier["cpuCount"].is_u64() && identifier["maxMemory"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn a_trace_is_opened_once_whatever_its_name_is() {
    let served = Served::new();
    assert_eq!(served.get("traces").json(), json!([]));
    let first = served.open("root/log");
    assert_eq!(first.status, 200);
    let first = first.json();
    for uri in [served.path("root/log"), format!("file://{}", served.path("root/log")), "log".to_owned()] {
        let again = served.post("traces", json!({"name": "another", "uri": uri}));
        assert_eq!((again.status, &again.json()["UUID"]), (200, &first["UUID"]));
    }
    served.experiment(&["root/log"]);
    let all = served.get("traces").json();
    let [trace] = all.as_array().unwrap().as_slice() else { panic!("{all}") };
    assert_eq!(trace, &served.get(&format!("traces/{}", first["UUID"].as_str().unwrap())).json());
    assert_eq!((trace["start"].as_u64(), trace["end"].as_u64()), (Some(ORIGIN), Some(ORIGIN + 1100)));
    assert_eq!((&trace["name"], &trace["indexingStatus"]), (&json!("root/log"), &json!("COMPLETED")));
    assert!(trace["nbEvents"].as_u64().unwrap() >= 15);
    assert_eq!(trace["properties"], json!({"lost events": "3", "verdict": "parser is the bottleneck"}));
}

#[test]
fn a_part_of_a_recording_is_opened_as_the_whole() {
    let served = Served::new();
    let part = served.open("root/recording/part").json();
    assert_eq!(part["UUID"], served.open("root/recording/log").json()["UUID"]);
    let both = json!([part["UUID"], part["UUID"]]);
    assert_eq!(served.post("experiments", json!({"name": "e", "traces": both})).json()["traces"].as_array().unwrap().len(), 1);
}

#[test]
fn a_trace_that_cannot_be_read_is_refused_with_the_reason() {
    let served = Served::new();
    for (name, reason) in [("root/text", "no machine log: line 1"), ("root/panic", "given up")] {
        let answer = served.open(name);
        assert_eq!(answer.status, 406, "{}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains(reason), "{}", answer.body);
    }
    assert_eq!(served.get("traces").json(), json!([]));
    // Once it is complete, it is opened.
    served.write("root/text", &support::log());
    assert_eq!(served.open("root/text").status, 200);
}

#[test]
fn a_trace_without_states_has_the_range_of_its_events_and_empty_outputs() {
    let served = Served::new();
    served.write("root/capture", "events");
    let outputs = served.experiment(&["root/capture"]);
    let trace = &served.get("traces").json()[0];
    assert_eq!((trace["start"].as_u64(), trace["end"].as_u64()), (Some(ORIGIN), Some(ORIGIN + 7)));
    assert_eq!(trace["properties"], json!({"lost events": "2"}));
    assert_eq!(served.model(&format!("{outputs}/timeGraph/longpole.threads/states"), json!({})), json!({"rows": []}));
    assert_eq!(served.model(&format!("{outputs}/timeGraph/longpole.critical-path/arrows"), json!({})), json!([]));
    assert_eq!(served.model(&format!("{outputs}/XY/longpole.running/xy"), json!({}))["series"], json!([]));
    assert_eq!(served.model(&format!("{outputs}/genericXY/longpole.path-shares/xy"), json!({}))["series"][0]["yValues"], json!([]));
    assert_eq!(served.model(&format!("{outputs}/data/longpole.statistics/tree"), json!({}))["entries"], json!([]));
    let lines = served.model(&format!("{outputs}/table/longpole.path-table/lines"), json!({"requested_times": [ORIGIN]}));
    assert_eq!((&lines["size"], &lines["lines"]), (&json!(0), &json!([])));
}

#[test]
fn experiments_are_made_once_and_traces_in_use_are_kept() {
    let served = Served::new();
    let uuid = served.open("root/log").json()["UUID"].clone();
    let parameters = json!({"name": "e", "traces": [uuid]});
    let first = served.post("experiments", parameters.clone());
    let again = served.post("experiments", parameters);
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.json()["UUID"], again.json()["UUID"]);
    let other = served.open("root/recording/log").json()["UUID"].clone();
    let conflict = served.post("experiments", json!({"name": "e", "traces": [other]}));
    assert_eq!((conflict.status, &conflict.json()["experiment"]["UUID"]), (409, &first.json()["UUID"]));
    for (parameters, status) in [
        (json!({"name": "f", "traces": ["unknown"]}), 404),
        (json!({"name": "f", "traces": []}), 400),
        (json!({"name": "f"}), 400),
        (json!({"traces": [other]}), 400),
    ] {
        assert_eq!(served.post("experiments", parameters).status, status);
    }
    let trace = format!("traces/{}", uuid.as_str().unwrap());
    assert_eq!(served.delete(&trace).status, 409);
    assert_eq!(served.delete(&format!("experiments/{}", first.json()["UUID"].as_str().unwrap())).status, 200);
    assert_eq!(served.delete(&format!("{trace}?deleteTrace=true")).status, 403);
    assert_eq!(served.delete(&trace).status, 200);
    assert_eq!(served.get(&trace).status, 404);
    assert!(std::path::Path::new(&served.path("root/log")).exists());
}

#[test]
fn what_does_not_exist_is_not_found() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    for path in [
        "traces/unknown".to_owned(),
        "experiments/unknown".to_owned(),
        "experiments/unknown/outputs".to_owned(),
        "experiments/unknown/outputs/markerSets".to_owned(),
        format!("{outputs}/unknown"),
        format!("{outputs}/unknown/annotations"),
        format!("{outputs}/longpole.cpus/configTypes/unknown"),
        "config/types/unknown".to_owned(),
        "config/types/unknown/configs".to_owned(),
        "unknown".to_owned(),
    ] {
        let answer = served.get(&path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.json()["title"].is_string());
    }
    for path in [
        "timeGraph/longpole.cpu-usage/tree",
        "XY/longpole.threads/tree",
        "data/longpole.path-table/tree",
        "table/longpole.statistics/lines",
    ] {
        assert_eq!(served.post(&format!("{outputs}/{path}"), json!({})).status, 404, "{path}");
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let states = format!("{}/{outputs}/timeGraph/longpole.threads/states", served.place);
    for body in ["[", "{\"parameters\": 1}", "{\"parameters\":{\"requested_timerange\":{\"start\":1}}}"] {
        assert_eq!(served.send("POST", &states, &[], body).status, 400, "{body}");
    }
    for (path, parameters) in [
        ("timeGraph/longpole.threads/tooltip", json!({})),
        ("table/longpole.path-table/lines", json!({"requested_table_count": -1})),
        ("table/longpole.path-table/lines", json!({"requested_table_index": -1})),
        ("table/longpole.path-table/lines", json!({"table_search_expressions": {"99": "a"}})),
        ("table/longpole.path-table/lines", json!({"table_search_expressions": {"2": "a"}, "table_search_direction": "UP"})),
    ] {
        assert_eq!(served.post(&format!("{outputs}/{path}"), parameters).status, 400, "{path}");
    }
    assert_eq!(served.post("traces", json!({"name": "a"})).status, 400);
}

#[test]
fn outputs_are_listed_and_described() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let all = served.get(&outputs).json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 13);
    for output in all {
        assert_eq!(&served.get(&format!("{outputs}/{}", output["id"].as_str().unwrap())).json(), output);
        assert!(["name", "description"].iter().all(|key| output[key].as_str().is_some_and(|text| !text.is_empty())));
        let shape = output["type"].as_str().unwrap();
        assert!(["TIME_GRAPH", "TREE_TIME_XY", "TREE_GENERIC_XY", "DATA_TREE", "TABLE"].contains(&shape));
    }
    let sets = served.get(&format!("{outputs}/markerSets")).json();
    assert_eq!((&sets["model"], &sets["status"]), (&json!([]), &json!("COMPLETED")));
    assert_eq!(served.get("config/types/").json(), json!([]));
    assert_eq!(served.get(&format!("{outputs}/longpole.threads/configTypes")).json(), json!([]));
    assert_eq!(served.post(&format!("{outputs}/longpole.threads"), json!({})).status, 400);
    assert_eq!(served.delete(&format!("{outputs}/longpole.threads/derived")).status, 404);
}

#[test]
fn threads_are_a_tree_with_states() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let graph = format!("{outputs}/timeGraph/longpole.threads");
    let tree = served.model(&format!("{graph}/tree"), json!({}));
    assert_eq!(names(&tree), ["shop", "parser", "writer"]);
    let (process, parser, writer) = (entry(&tree, "shop"), entry(&tree, "parser"), entry(&tree, "writer"));
    for entry in tree["entries"].as_array().unwrap() {
        assert_eq!((entry["start"].as_u64(), entry["end"].as_u64()), (Some(ORIGIN), Some(ORIGIN + 1100)));
        let is_process = entry["id"] == process;
        assert_eq!(entry["hasData"].as_bool(), Some(!is_process));
        assert_eq!(entry["parentId"].as_i64(), Some(if is_process { -1 } else { process as i64 }));
        assert_eq!(entry["labels"].as_array().unwrap().len(), tree["headers"].as_array().unwrap().len());
    }
    let model =
        served.model(&format!("{graph}/states"), json!({"requested_timerange": range(0, 1100, 100), "requested_items": [parser, writer]}));
    let expected = [(0, 400, "parse"), (400, 450, "interrupted"), (450, 600, "parse"), (600, 1100, "<b>clean</b>")];
    assert_eq!(states(&model, parser), expected.map(|(begin, end, label)| (begin, end, json!(label))));
    let blocked = &model["rows"].as_array().unwrap().iter().find(|row| row["entryId"] == writer).unwrap()["states"][1];
    assert_eq!((&blocked["style"]["parentKey"], &blocked["style"]["values"]), (&json!("blocked"), &json!({})));
    // Without items and range, all rows and the whole time.
    let all = served.model(&format!("{graph}/states"), json!({}));
    assert_eq!(states(&all, parser), states(&model, parser));
    assert_eq!(all["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn without_a_known_thread_the_threads_are_the_machines() {
    let served = Served::new();
    served.write("root/many", &many_states(10));
    let outputs = served.experiment(&["root/many"]);
    let tree = |output: &str| served.model(&format!("{outputs}/timeGraph/{output}/tree"), json!({}));
    assert!(names(&tree("longpole.threads")).contains(&"m"));
    assert_eq!(names(&tree("longpole.threads")), names(&tree("longpole.machines")));
}

#[test]
fn there_is_at_most_one_state_per_sample_and_row() {
    let served = Served::new();
    served.write("root/many", &many_states(50_000));
    let outputs = served.experiment(&["root/many"]);
    let graph = format!("{outputs}/timeGraph/longpole.machines");
    let tree = served.model(&format!("{graph}/tree"), json!({}));
    let machine = entry(&tree, "m");
    for (begin, end, samples) in
        [(0, 500_000, 1), (0, 500_000, 7), (0, 500_000, 1000), (1234, 333_333, 100), (100, 200, 1000), (0, 500_000, 65_536)]
    {
        let requested = json!({"requested_timerange": range(begin, end, samples), "requested_items": [machine]});
        let states = states(&served.model(&format!("{graph}/states"), requested), machine);
        assert!(!states.is_empty() && states.len() <= samples as usize + 1, "{samples}: {}", states.len());
        assert!(states.windows(2).all(|two| two[0].1 <= two[1].0) && states.last().unwrap().1 <= 500_000);
        assert!(states.first().unwrap().0 <= begin && states.last().unwrap().1 >= end);
    }
}

#[test]
fn arrows_lead_along_the_critical_path() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let graph = format!("{outputs}/timeGraph/longpole.critical-path");
    let tree = served.model(&format!("{graph}/tree"), json!({}));
    let rows = ["critical path", "parser", "disk", "writer"].map(|name| entry(&tree, name));
    let arrows = served.model(&format!("{graph}/arrows"), json!({"requested_timerange": range(0, 1100, 1000)}));
    let arrows: Vec<_> = arrows
        .as_array()
        .unwrap()
        .iter()
        .map(|arrow| {
            (
                arrow["sourceId"].as_u64().unwrap(),
                arrow["targetId"].as_u64().unwrap(),
                arrow["start"].as_u64().unwrap() - ORIGIN,
                arrow["end"].as_u64().unwrap() - ORIGIN,
            )
        })
        .collect();
    assert_eq!(arrows, [(rows[1], rows[2], 600, 600), (rows[2], rows[3], 800, 800)]);
    let model = served.model(&format!("{graph}/states"), json!({"requested_timerange": range(0, 1100, 1000)}));
    assert_eq!(states(&model, rows[2]), [(600, 800, json!("disk::seek"))]);
    assert_eq!(states(&model, rows[0]).last().unwrap(), &(1000, 1100, json!("writer::flush")));
    assert_eq!(states(&model, rows[0]).len(), states(&model, rows[1]).len() + states(&model, rows[3]).len() + 1);
    // Both ends of an arrow are rows of the output.
    let threads =
        served.model(&format!("{outputs}/timeGraph/longpole.threads/arrows"), json!({"requested_timerange": range(0, 1100, 1000)}));
    assert_eq!(threads, json!([]));
    // With few samples, rows have the time in which they are on the path.
    let coarse = served.model(&format!("{graph}/states"), json!({"requested_timerange": range(0, 1100, 3)}));
    assert!(states(&coarse, rows[2]).iter().all(|state| state.0 < 1024));
}

#[test]
fn a_tooltip_names_the_state() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let graph = format!("{outputs}/timeGraph/longpole.threads");
    let parser = entry(&served.model(&format!("{graph}/tree"), json!({})), "parser");
    let element = json!({"elementType": "state", "time": ORIGIN + 450, "duration": 150});
    let tooltip = served.model(
        &format!("{graph}/tooltip"),
        json!({"requested_times": [ORIGIN + 450], "requested_items": [parser], "requested_element": element}),
    );
    assert_eq!((&tooltip["State"], &tooltip["Class"], &tooltip["Row"]), (&json!("parse"), &json!("running"), &json!("parser tid 11")));
    assert_eq!((&tooltip["Begin"], &tooltip["Duration"]), (&json!(format!("{} ns", ORIGIN + 450)), &json!("150 ns")));
    assert!(tooltip.as_object().unwrap().values().all(Value::is_string));
    let bin = json!({"elementType": "state", "time": ORIGIN + 300, "duration": 300});
    let several = served.model(
        &format!("{graph}/tooltip"),
        json!({"requested_times": [ORIGIN + 300], "requested_items": [parser], "requested_element": bin}),
    );
    assert_eq!((&several["parse"], &several["interrupted"]), (&json!("2 times, 250 ns"), &json!("1 times, 50 ns")));
    let arrow = json!({"elementType": "ARROW", "time": ORIGIN, "duration": 1, "entryId": parser, "destinationId": parser});
    assert_eq!(
        served.model(
            &format!("{graph}/tooltip"),
            json!({"requested_times": [ORIGIN], "requested_items": [parser], "requested_element": arrow})
        ),
        json!({})
    );
}

#[test]
fn a_filter_dims_or_leaves_out_states() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let graph = format!("{outputs}/timeGraph/longpole.threads");
    let parser = entry(&served.model(&format!("{graph}/tree"), json!({})), "parser");
    let filtered = |map: Value| {
        let filter = json!({"strategy": "SAMPLED", "filter_expressions_map": map});
        let parameters =
            json!({"requested_timerange": range(0, 1100, 100), "requested_items": [parser], "filter_query_parameters": filter});
        let model = served.model(&format!("{graph}/states"), parameters);
        model["rows"][0]["states"].as_array().unwrap().iter().map(|state| state["tags"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(filtered(json!({"1": ["PARSE"]})), [1, 1, 1, 1].map(|_: u64| 0), "the row's name matches, too");
    assert_eq!(filtered(json!({"1": ["clean"]})), [1, 1, 1, 0]);
    assert_eq!(filtered(json!({"4": ["duration>200ns"]})), [0, 0]);
}

#[test]
fn running_rows_are_counted() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let chart = format!("{outputs}/XY/longpole.running");
    let tree = served.model(&format!("{chart}/tree"), json!({}));
    assert_eq!((names(&tree).len(), &names(&tree)[..2]), (3, ["all", "shop"].as_slice()));
    let (all, shop) = (entry(&tree, "all"), entry(&tree, "shop"));
    assert!(all < MAX_ID);
    let model = served.model(&format!("{chart}/xy"), json!({"requested_timerange": range(0, 1100, 11), "requested_items": [all, shop]}));
    let series = model["series"].as_array().unwrap();
    assert_eq!(series.iter().map(|one| one["seriesId"].as_u64().unwrap()).collect::<Vec<_>>(), [all, shop]);
    for one in series {
        let (x, y) = (one["xValues"].as_array().unwrap(), one["yValues"].as_array().unwrap());
        assert!(x.len() == y.len() && x.len() <= 11 && x[0] == ORIGIN, "{one}");
        assert!(x.windows(2).all(|two| two[0].as_u64() < two[1].as_u64()));
        assert_eq!(
            (&one["xValuesDescription"]["dataType"], &one["yValuesDescription"]["dataType"]),
            (&json!("TIMESTAMP"), &json!("NUMBER"))
        );
    }
    // parser runs all the time but for the interrupt, writer from 0 to 100 and from 800 on.
    let y: Vec<f64> = series[1]["yValues"].as_array().unwrap().iter().map(|y| y.as_f64().unwrap()).collect();
    assert_eq!((y[1], y[8]), (1.0, 2.0), "{y:?}");
    let t = |at: u64| format!("{chart}/tooltip?xValue={}&seriesId={shop}", ORIGIN + at);
    let tooltip = served.get(&t(900)).json();
    assert!(tooltip["model"]["shop"].as_str().unwrap().starts_with(|first: char| first.is_ascii_digit()), "{tooltip}");
    assert_eq!(served.get(&format!("{chart}/tooltip")).status, 400);
}

#[test]
fn cpu_usage_of_a_log_without_cpus_is_empty() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let chart = format!("{outputs}/XY/longpole.cpu-usage");
    assert_eq!(served.model(&format!("{chart}/tree"), json!({}))["entries"], json!([]));
    let model = served.model(&format!("{chart}/xy"), json!({"requested_timerange": range(0, 1100, 11), "requested_items": [1]}));
    assert_eq!((&model["series"], &model["title"]), (&json!([]), &json!("CPU usage")));
}

#[test]
fn a_queue_has_its_fill_level_over_time() {
    let served = Served::new();
    served.write("root/queue", &support::log_with_cpus());
    let outputs = served.experiment(&["root/queue"]);
    let chart = format!("{outputs}/XY/longpole.queues");
    let tree = served.model(&format!("{chart}/tree"), json!({}));
    assert_eq!(names(&tree), ["queues", "parcels"]);
    let queue = entry(&tree, "parcels");
    let model = served.model(&format!("{chart}/xy"), json!({"requested_timerange": range(0, 1100, 11), "requested_items": [queue]}));
    let series = &model["series"][0];
    let points = series["xValues"].as_array().unwrap().iter().zip(series["yValues"].as_array().unwrap());
    let points: Vec<(u64, f64)> = points.map(|(x, y)| (x.as_u64().unwrap() - ORIGIN, y.as_f64().unwrap())).collect();
    // The bins have 128 ns: 28 ns of the first one have 3 items.
    assert_eq!(points[0], (0, 3.0 * 28.0 / 128.0), "{points:?}");
    assert_eq!((points[1], points[8]), ((128, 3.0), (1024, 1.0)), "{points:?}");
    assert_eq!(series["yValuesDescription"]["unit"], "items");
    let tooltip = served.get(&format!("{chart}/tooltip?xValue={}&seriesId={queue}", ORIGIN + 99)).json();
    assert_eq!(tooltip["model"]["parcels"], "0", "{tooltip}");
    assert_eq!(served.model(&format!("{outputs}/XY/longpole.counters/tree"), json!({}))["entries"], json!([]));
}

#[test]
fn cpus_have_their_usage_and_their_lost_stretches() {
    let served = Served::new();
    served.write("root/cpus", &support::log_with_cpus());
    let outputs = served.experiment(&["root/cpus"]);
    let tree = served.model(&format!("{outputs}/timeGraph/longpole.cpus/tree"), json!({}));
    assert_eq!(names(&tree)[0], "CPUs");
    let (first, second) = (entry(&tree, "CPU 0"), entry(&tree, "CPU 1"));
    let model = served.model(&format!("{outputs}/timeGraph/longpole.cpus/states"), json!({"requested_timerange": range(0, 1100, 100)}));
    assert_eq!(states(&model, first), [(0, 550, json!("idle")), (550, 1100, json!("interrupt"))]);
    let usage = format!("{outputs}/XY/longpole.cpu-usage");
    let all = entry(&served.model(&format!("{usage}/tree"), json!({})), "all CPUs");
    let points =
        served.model(&format!("{usage}/xy"), json!({"requested_timerange": range(0, 1100, 1), "requested_items": [all, first, second]}));
    let value = |at: usize| points["series"][at]["yValues"][0].as_f64().unwrap();
    assert_eq!((value(1), value(2)), (50.0, reported(997.0 / 1100.0)));
    assert!((value(0) - (value(1) + value(2)) / 2.0).abs() < 1e-5, "{points}");
    // A loss of 3 ns is found with bins of 128 ns, on the row of its CPU, and in other outputs on
    // the whole chart.
    let lost = |output: &str, samples: u64| {
        served.model(&format!("{outputs}/{output}/annotations"), json!({"requested_timerange": range(0, 1100, samples)}))["annotations"]
            ["Lost events"]
            .clone()
    };
    let exact = &lost("longpole.cpus", 1100)[0];
    assert_eq!((&exact["time"], &exact["duration"], &exact["entryId"]), (&json!(ORIGIN + 700), &json!(3), &json!(second)));
    for (output, samples, entry) in
        [("longpole.cpus", 2, json!(second)), ("longpole.threads", 2, json!(-1)), ("longpole.threads", 1100, json!(-1))]
    {
        let lost = lost(output, samples);
        let (begin, length) = (lost[0]["time"].as_u64().unwrap() - ORIGIN, lost[0]["duration"].as_u64().unwrap());
        assert!(begin <= 700 && begin + length >= 703, "{output} {samples}: {lost}");
        assert_eq!((lost.as_array().unwrap().len(), &lost[0]["entryId"]), (1, &entry));
    }
}

/// Returns a share as a percentage with six decimals.
fn reported(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[test]
fn the_path_is_shared_among_its_states() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let chart = format!("{outputs}/genericXY/longpole.path-shares");
    let tree = served.model(&format!("{chart}/tree"), json!({}));
    let requested = json!({"start": ORIGIN, "end": ORIGIN + 1100, "nbSamples": 10});
    let model =
        served.model(&format!("{chart}/xy"), json!({"requested_timerange": requested, "requested_items": [tree["entries"][0]["id"]]}));
    let series = &model["series"][0];
    assert_eq!(series["xCategories"][0], "parser::parse");
    let shares: f64 = series["yValues"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).sum();
    assert!((shares - 100.0).abs() < 1e-4);
}

#[test]
fn statistics_sum_up_states_in_a_range() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let data = format!("{outputs}/data/longpole.statistics/tree");
    let tree = served.model(&data, json!({}));
    let line = |tree: &Value, row: &str, state: &str| -> Option<Vec<String>> {
        let row = entry(tree, row);
        let entries = tree["entries"].as_array().unwrap();
        let found = entries.iter().find(|entry| entry["parentId"] == row && entry["labels"][0] == state)?;
        Some(found["labels"].as_array().unwrap().iter().skip(1).map(|label| label.as_str().unwrap().to_owned()).collect())
    };
    assert_eq!(line(&tree, "parser tid 11", "parse").unwrap()[..3], ["2", "550", "275"]);
    assert_eq!(line(&tree, "parser tid 11", "parse").unwrap()[5], "400");
    let part = served.model(&data, json!({"requested_timerange": range(500, 700, 10)}));
    assert_eq!(line(&part, "parser tid 11", "parse").unwrap()[..2], ["1", "100"]);
    assert!(line(&part, "writer tid 12", "write").is_none());
    let ids: std::collections::BTreeSet<u64> =
        tree["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), tree["entries"].as_array().unwrap().len());
    assert!(ids.iter().all(|&id| id < MAX_ID));
    // An entry has the same number in another range.
    let id = |tree: &Value| tree["entries"].as_array().unwrap().iter().find(|entry| entry["labels"][0] == "parse").unwrap()["id"].clone();
    assert_eq!(id(&tree), id(&part));
}

#[test]
fn the_table_has_the_segments_of_the_path() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let table = format!("{outputs}/table/longpole.path-table");
    let columns = served.model(&format!("{table}/columns"), json!({}));
    let columns: Vec<&str> = columns.as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Timestamp ns", "Duration ns", "Row", "State", "Class", "Trace"]);
    let lines = |parameters: Value| served.model(&format!("{table}/lines"), parameters);
    let cells = |line: &Value| -> Vec<String> {
        line["cells"].as_array().unwrap().iter().map(|cell| cell["content"].as_str().unwrap().to_owned()).collect()
    };
    let all = lines(json!({"requested_table_index": 0, "requested_table_count": 100, "requested_table_column_ids": []}));
    let size = all["size"].as_u64().unwrap();
    assert_eq!((all["lines"].as_array().unwrap().len() as u64, &all["lowIndex"]), (size, &json!(0)));
    assert_eq!(cells(&all["lines"][0])[..5], [ORIGIN.to_string().as_str(), "400", "parser tid 11", "parser::parse", "running"]);
    let last = lines(json!({"requested_table_index": size - 1, "requested_table_count": 5, "requested_table_column_ids": [3, 0]}));
    assert_eq!(cells(&last["lines"][0]), ["writer::flush".to_owned(), (ORIGIN + 1000).to_string()]);
    assert_eq!((&last["columnIds"], &last["lines"][0]["index"]), (&json!([3, 0]), &json!(size - 1)));
    let beyond = lines(json!({"requested_table_index": size + 10, "requested_table_count": 5}));
    assert_eq!(beyond["lines"], json!([]));
    // By time: the segment at that moment.
    for (t, begin) in [(0, 0), (1050, 1000), (700, 600), (800, 800)] {
        let at = lines(json!({"requested_times": [ORIGIN + t], "requested_table_count": 1}));
        assert_eq!(cells(&at["lines"][0])[0], (ORIGIN + begin).to_string(), "{t}");
    }
}

#[test]
fn the_table_is_searched_in_both_directions() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let table = format!("{outputs}/table/longpole.path-table/lines");
    let found = |index: u64, column: &str, pattern: &str, direction: &str| {
        let model = served.model(
            &table,
            json!({
                "requested_table_index": index, "requested_table_count": 2, "requested_table_column_ids": [3],
                "table_search_expressions": {column: pattern}, "table_search_direction": direction,
            }),
        );
        model["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| (line["cells"][0]["content"].as_str().unwrap().to_owned(), line["tags"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(0, "3", "wr.*flush$", "NEXT"), [("writer::flush".to_owned(), 8)]);
    assert_eq!(found(0, "3", "seek", "NEXT")[0], ("disk::seek".to_owned(), 8));
    assert_eq!(found(100, "3", "parse", "PREVIOUS")[0], ("parser::parse".to_owned(), 8));
    assert_eq!(found(0, "2", "^disk$", "NEXT")[0].0, "disk::seek");
    assert_eq!(found(0, "3", "nothing", "NEXT"), []);
    // A column of times and one of names must both match.
    let both = json!({"1": "^200$", "3": "writer"});
    let model = served.model(&table, json!({"requested_table_count": 1, "requested_table_column_ids": [3], "table_search_expressions": both, "table_search_direction": "NEXT"}));
    assert_eq!(model["lines"][0]["cells"][0]["content"], "writer::write");
    assert_eq!(found(0, "3", "seek(", "NEXT"), [], "no pattern, so it is searched as it is");
    // Without a direction, lines that match are marked where they are.
    let marked =
        served.model(&table, json!({"requested_table_index": 0, "requested_table_count": 100, "table_search_expressions": {"3": "seek"}}));
    let tags: Vec<u64> = marked["lines"].as_array().unwrap().iter().map(|line| line["tags"].as_u64().unwrap()).collect();
    assert_eq!((tags.iter().filter(|&&tags| tags == 8).count(), tags[0]), (1, 0));
}

#[test]
fn a_table_of_many_segments_is_read_in_the_middle() {
    let served = Served::new();
    served.write("root/many", &many_states(20_000));
    let outputs = served.experiment(&["root/many"]);
    let table = format!("{outputs}/table/longpole.path-table/lines");
    for index in [0, 1, 4095, 4096, 4097, 8191, 12_345, 19_999] {
        let model =
            served.model(&table, json!({"requested_table_index": index, "requested_table_count": 1, "requested_table_column_ids": [0]}));
        assert_eq!((&model["size"], &model["lines"][0]["index"]), (&json!(20_000), &json!(index)));
        assert_eq!(model["lines"][0]["cells"][0]["content"], json!((ORIGIN + index * 10).to_string()));
        let at = served.model(&table, json!({"requested_times": [ORIGIN + index * 10 + 5], "requested_table_count": 1}));
        assert_eq!(at["lowIndex"], json!(index));
    }
}

#[test]
fn findings_with_an_interval_are_annotations() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let place = format!("{outputs}/longpole.threads/annotations");
    let categories = served.get(&place).json();
    assert_eq!(categories["model"]["annotationCategories"], json!(["Lost events", "Findings", "Verdict"]));
    let model = served.model(&place, json!({"requested_timerange": range(0, 1100, 100)}));
    let finding = &model["annotations"]["Findings"];
    assert_eq!(finding.as_array().unwrap().len(), 1);
    assert_eq!((&finding[0]["time"], &finding[0]["duration"], &finding[0]["entryId"]), (&json!(ORIGIN + 600), &json!(200), &json!(-1)));
    assert_eq!((&finding[0]["type"], &finding[0]["label"]), (&json!("CHART"), &json!("disk: slow disk; buy another")));
    assert_eq!(model["annotations"]["Verdict"][0]["label"], "parser is the bottleneck");
    let only = served.model(&place, json!({"requested_timerange": range(0, 100, 100), "requested_marker_categories": ["Findings"]}));
    assert_eq!(only["annotations"], json!({"Findings": []}));
    let none = served.model(&format!("{outputs}/longpole.path-table/annotations"), json!({"requested_timerange": range(0, 1100, 100)}));
    assert_eq!(none["annotations"], json!({}));
}

#[test]
fn each_style_of_a_state_is_described() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let styles = served.model(&format!("{outputs}/longpole.threads/style"), json!({}));
    for class in ["running", "call", "interrupt", "runnable", "blocked", "asleep", "unknown", "lost"] {
        let values = &styles["styles"][class]["values"];
        assert!(values["background-color"].as_str().unwrap().starts_with('#') && values["height"].as_f64().unwrap() <= 1.0, "{class}");
    }
    assert!(["arrow", "loss", "finding"].iter().all(|key| styles["styles"][key]["values"]["color"].is_string()));
}

#[test]
fn bookmarks_are_made_changed_and_deleted() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    let place = outputs.replace("outputs", "bookmarks");
    let made = served.post(&place, json!({"name": "here", "start": ORIGIN, "end": ORIGIN + 5})).json();
    let one = format!("{place}/{}", made["uuid"].as_str().unwrap());
    assert_eq!(served.get(&place).json(), json!([made]));
    let changed = json!({"parameters": {"name": "there", "start": 1, "end": 2}}).to_string();
    let answer = served.send("PUT", &format!("{}/{one}", served.place), &[], &changed);
    assert_eq!((&answer.json()["name"], &answer.json()["uuid"]), (&json!("there"), &made["uuid"]));
    assert_eq!(served.get(&one).json(), answer.json());
    assert_eq!(served.post(&place, json!({"name": "x"})).status, 400);
    assert_eq!((served.delete(&one).status, served.get(&one).status), (200, 404));
}

#[test]
fn several_traces_are_shown_below_their_names() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log", "root/recording/log"]);
    let tree = served.model(&format!("{outputs}/timeGraph/longpole.threads/tree"), json!({}));
    assert_eq!(names(&tree), ["root/log", "shop", "parser", "writer", "root/recording/log", "shop", "parser", "writer"]);
    let entries = tree["entries"].as_array().unwrap();
    let ids: Vec<u64> = entries.iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
    assert!(ids.iter().all(|&id| id < MAX_ID));
    assert_eq!((entries[1]["parentId"].as_u64(), entries[5]["parentId"].as_u64()), (Some(ids[0]), Some(ids[4])));
    let model = served.model(&format!("{outputs}/timeGraph/longpole.threads/states"), json!({"requested_items": [ids[6]]}));
    assert_eq!((model["rows"].as_array().unwrap().len(), states(&model, ids[6]).len()), (1, 4));
    let table = served.model(
        &format!("{outputs}/table/longpole.path-table/lines"),
        json!({"requested_table_count": 100, "requested_table_column_ids": [5]}),
    );
    let traces: Vec<&str> = table["lines"].as_array().unwrap().iter().map(|line| line["cells"][0]["content"].as_str().unwrap()).collect();
    assert_eq!(traces.len() as u64, table["size"].as_u64().unwrap());
    assert_eq!((traces[0], traces[traces.len() - 1]), ("root/log", "root/recording/log"));
    let data = served.model(&format!("{outputs}/data/longpole.statistics/tree"), json!({}));
    let ids: std::collections::BTreeSet<u64> =
        data["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), data["entries"].as_array().unwrap().len());
}

#[test]
fn trailing_slashes_and_empty_bodies_are_accepted() {
    let served = Served::new();
    let outputs = served.experiment(&["root/log"]);
    assert_eq!(served.get("health/").json(), json!({"status": "UP"}));
    let tree = served.send("POST", &format!("{}/{outputs}/timeGraph/longpole.threads/tree/", served.place), &[], "");
    assert_eq!((tree.status, &tree.json()["status"]), (200, &json!("COMPLETED")));
    // Older clients name a list of times.
    let times: Vec<u64> = (0..=11).map(|at| ORIGIN + at * 100).collect();
    let states = served.model(&format!("{outputs}/timeGraph/longpole.threads/states"), json!({"requested_times": times}));
    assert_eq!(states["rows"].as_array().unwrap().len(), 2);
}
