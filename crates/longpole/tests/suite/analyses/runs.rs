//! `report` on several recordings, over time, and with findings about path and waits; `graph
//! --waits`; a user's own rules for `what-if` and `diff`. Each test goes from the files to the
//! answer.

use crate::support::schema;
use longpole_testing::user_trace::{Fake, Kind};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(arguments: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).args(paths).output().unwrap()
}

fn text(arguments: &[&str], paths: &[&Path]) -> String {
    let output = run(arguments, paths);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str], paths: &[&Path]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat(), paths)).unwrap()
}

fn report(paths: &[&Path]) -> Value {
    let answer = json(&["report"], paths);
    schema::check(&schema::schema(if paths.len() == 1 { "report" } else { "report-runs" }), &answer);
    answer
}

fn store(place: &TempDir, name: &str, log: &str) -> PathBuf {
    let path = place.path().join(name);
    fs::write(&path, log).unwrap();
    path
}

/// A log of a server and its client. For each item of the client the server is in `parse` for
/// `parse` ns and then in `answer` for `answer` ns; the client works for 100 ns between two items.
fn serving(items: u64, parse: u64, answer: u64) -> String {
    let mut log =
        String::from("{\"t\":0,\"machine\":\"server\",\"blocked\":\"idle\"}\n{\"t\":0,\"machine\":\"client\",\"state\":\"think\"}\n");
    let mut t = 0;
    let mut line = |t: u64, machine: &str, what: &str| writeln!(log, "{{\"t\":{t},\"machine\":\"{machine}\",{what}}}").unwrap();
    for _ in 0..items {
        t += 100;
        line(t, "client", "\"put\":\"ask\"");
        line(t, "client", "\"blocked\":\"reply\"");
        line(t, "server", "\"get\":\"ask\",\"state\":\"parse\"");
        t += parse;
        line(t, "server", "\"state\":\"answer\"");
        t += answer;
        line(t, "server", "\"put\":\"back\"");
        line(t, "server", "\"blocked\":\"idle\"");
        line(t, "client", "\"get\":\"back\",\"state\":\"think\"");
    }
    log + &format!("{{\"t\":{t},\"end\":\"client\"}}\n")
}

#[test]
fn several_recordings_give_one_answer_with_their_spread() {
    let place = TempDir::new().unwrap();
    let times = [500, 600, 750];
    let logs: Vec<PathBuf> = times.iter().map(|&parse| store(&place, &format!("{parse}.jsonl"), &serving(300, parse, 200))).collect();
    let logs: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    let answer = report(&logs);
    // Computed by hand: the mean of the shares, and Student's confidence interval of three values
    // (t is 4.303 for two degrees of freedom).
    let shares: Vec<f64> = times.iter().map(|&parse| parse as f64 / (300 + parse) as f64).collect();
    let mean = shares.iter().sum::<f64>() / 3.0;
    let half = 4.303 * (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / 2.0 / 3.0).sqrt();
    let near = |value: &Value, wanted: f64| assert!((value.as_f64().unwrap() - wanted).abs() < 1e-3, "{value} is not {wanted}");
    let row = &answer["criticality"][0];
    assert_eq!((row["machine"].as_str(), row["state"].as_str(), row["runs"].as_u64()), (Some("server"), Some("parse"), Some(3)));
    near(&row["share"], mean);
    near(&row["share_error"], half);
    near(&row["share_min"], shares[0]);
    near(&row["share_max"], shares[2]);
    let verdict = &answer["verdict"];
    assert_eq!(
        (verdict["outcome"].as_str(), verdict["subject"]["name"].as_str(), verdict["state"]["name"].as_str()),
        (Some("bottleneck"), Some("server"), Some("parse"))
    );
    near(&verdict["share"], mean);
    near(&verdict["share_low"], mean - half);
    near(&verdict["share_high"], mean + half);
    near(&answer["agreement"], 1.0);
    assert!(verdict["text"].as_str().unwrap().contains("in all 3 recordings"), "{verdict}");
    // The prediction is the mean of the recordings' own predictions.
    let halved = |answer: &Value| {
        let all = answer["predictions"].as_array().unwrap().iter();
        all.clone().find(|it| it["change"] == "server::parse x0.5").unwrap()["gain"].as_f64().unwrap()
    };
    let own: Vec<f64> = logs.iter().map(|log| halved(&report(&[log]))).collect();
    near(&Value::from(halved(&answer)), own.iter().sum::<f64>() / 3.0);
    assert_eq!(answer["runs"].as_array().unwrap().len(), 3);
    assert_eq!(answer["runs"][1]["verdict"], report(&[logs[1]])["verdict"]);
    let said = text(&["report", "--full"], &logs);
    assert!(said.starts_with("server is the bottleneck in all 3 recordings: parse takes "), "{said}");
    assert!(said.contains("RECORDINGS") && said.contains("600.jsonl"), "{said}");
}

#[test]
fn recordings_with_different_bottlenecks_have_no_common_bottleneck() {
    let place = TempDir::new().unwrap();
    let one = store(&place, "one", &serving(200, 900, 100));
    let other = store(&place, "other", &serving(200, 100, 900));
    let answer = report(&[&one, &other]);
    let verdict = &answer["verdict"];
    assert_eq!((verdict["outcome"].as_str(), verdict["state"]["name"].as_str()), (Some("spread"), None));
    let said = verdict["text"].as_str().unwrap();
    assert!(said.contains("do not agree") && said.contains("server::parse in 1") && said.contains("server::answer in 1"), "{said}");
    assert_eq!(answer["agreement"], 0.5);
    // If two of three agree, their bottleneck is named.
    let third = store(&place, "third", &serving(200, 950, 100));
    let answer = report(&[&one, &other, &third]);
    let verdict = &answer["verdict"];
    assert_eq!((verdict["state"]["name"].as_str(), verdict["outcome"].as_str()), (Some("parse"), Some("bottleneck")));
    assert!(verdict["text"].as_str().unwrap().contains("in 2 of 3 recordings"));
    // An input that cannot be read is named in the error, and there is no answer.
    let nowhere = run(&["report"], &[&one, &place.path().join("nowhere")]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("nowhere"));
}

#[test]
fn the_path_over_time_shows_when_another_state_takes_over() {
    let place = TempDir::new().unwrap();
    // The path is in the first state for forty of sixty windows, then in the second.
    let mut log = String::from("{\"t\":0,\"machine\":\"a\",\"state\":\"first\"}\n{\"t\":0,\"machine\":\"b\",\"blocked\":\"wait\"}\n");
    log += "{\"t\":40000,\"machine\":\"a\",\"put\":\"q\"}\n{\"t\":40000,\"machine\":\"b\",\"get\":\"q\",\"state\":\"second\"}\n{\"t\":60000,\"end\":\"b\"}\n";
    let log = store(&place, "log", &log);
    let answer = report(&[&log]);
    let path = &answer["participation"];
    let shares =
        |at: usize| path["rows"][at]["shares"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!((path["rows"][0]["state"].as_str(), path["rows"][1]["state"].as_str()), (Some("first"), Some("second")));
    assert_eq!(shares(0), [vec![1.0; 40], vec![0.0; 20]].concat());
    assert_eq!(shares(1), [vec![0.0; 40], vec![1.0; 20]].concat());
    // A quarter of the path is fifteen windows. It can begin at 46 windows; if it begins at 0 to
    // 32, it contains more of the first state. Two thirds of the path are not significantly ahead,
    // so stability is reported for the first state of the path.
    assert_eq!(answer["verdict"]["outcome"], "spread");
    assert!((answer["stability"].as_f64().unwrap() - 33.0 / 46.0).abs() < 1e-9, "{}", answer["stability"]);
    let said = text(&["report", "--full"], &[&log]);
    let strip = format!("a::first   {}", "█".repeat(40));
    assert!(said.contains("OVER TIME") && said.contains(&strip), "{said}");
    assert!(said.contains("of all stretches of a quarter of the path, a::first has the largest share in 71.7 %"), "{said}");
    // Windows shorter than 1 ns are not shown.
    for (text, count) in [
        ("{\"t\":5,\"machine\":\"a\"}\n", "1 interaction\n"),
        ("{\"t\":0,\"machine\":\"a\"}\n{\"t\":59,\"end\":\"a\"}\n", "2 interactions\n"),
    ] {
        let said = self::text(&["report", "--full"], &[&store(&place, "short", text)]);
        assert!(!said.contains("OVER TIME") && said.ends_with(&format!("\n{count}")), "{said}");
    }
}

#[test]
fn the_shares_of_each_window_sum_to_one() {
    let place = TempDir::new().unwrap();
    let log = store(&place, "log", &serving(777, 313, 91));
    let path = report(&[&log])["participation"].clone();
    for window in 0..60 {
        let rows = path["rows"].as_array().unwrap().iter().map(|row| row["shares"][window].as_f64().unwrap()).sum::<f64>();
        let sum = rows + path["others"][window].as_f64().unwrap();
        assert!((sum - 1.0).abs() < 1e-9, "{window}: {sum}");
    }
}

fn kinds(answer: &Value) -> Vec<&str> {
    answer["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect()
}

fn finding<'a>(answer: &'a Value, kind: &str) -> &'a Value {
    let found = answer["findings"].as_array().unwrap().iter().find(|finding| finding["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {:?}", kinds(answer)))
}

/// A log of `workers` that each hold the lock for 80 ns and then work for `apart` ns without it.
fn locking(workers: u64, rounds: u64, apart: u64) -> String {
    let mut log = String::from("{\"queue\":\"lock\",\"capacity\":1,\"initial\":1}\n");
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut free = 0;
    // Each worker's next request, served in the order of time.
    let mut requests: Vec<(u64, u64)> = (0..workers).map(|worker| (worker, worker)).collect();
    for _ in 0..workers * rounds {
        requests.sort_unstable();
        let (t, worker) = requests.remove(0);
        let name = format!("w{worker}");
        let from = t.max(free);
        if from > t {
            lines.push((t, format!("\"machine\":\"{name}\",\"blocked\":\"lock\",\"on\":\"lock\"")));
        }
        lines.push((from, format!("\"machine\":\"{name}\",\"get\":\"lock\",\"state\":\"inside\"")));
        free = from + 80;
        lines.push((free, format!("\"machine\":\"{name}\",\"put\":\"lock\",\"state\":\"outside\"")));
        requests.push((free + apart, worker));
    }
    // The sort is stable: a release comes before an acquisition of the same time, in the order in
    // which they were made.
    lines.sort_by_key(|line| line.0);
    for (t, line) in &lines {
        writeln!(log, "{{\"t\":{t},{line}}}").unwrap();
    }
    log
}

#[test]
fn a_lock_with_many_waiters_is_found_and_a_lock_without_waiters_is_not() {
    let place = TempDir::new().unwrap();
    let crowded = report(&[&store(&place, "crowded", &locking(5, 200, 40))]);
    let convoy = finding(&crowded, "lock_convoy");
    assert_eq!(convoy["subject"], "lock");
    assert!(convoy["share"].as_f64().unwrap() > 0.95, "{convoy}");
    let advice = convoy["advice"].as_str().unwrap();
    assert!(advice.contains("hold it for a shorter time"), "{advice}");
    // Each worker that takes the lock waits for the worker that holds it. All workers wait for each
    // other in a circle and for nothing else.
    let mutual_wait = finding(&crowded, "mutual_wait");
    assert_eq!((mutual_wait["count"].as_u64(), mutual_wait["share"].as_f64()), (Some(5), Some(1.0)));
    let lonely = report(&[&store(&place, "lonely", &locking(1, 200, 40))]);
    assert_eq!(kinds(&lonely), Vec::<&str>::new());
}

#[test]
fn waiting_by_sleeping_or_by_polling_is_found() {
    let place = TempDir::new().unwrap();
    let mut log = String::from("{\"t\":0,\"machine\":\"maker\",\"state\":\"make\"}\n{\"t\":0,\"machine\":\"looker\",\"state\":\"look\"}\n");
    let mut sleeper = String::from("{\"t\":0,\"machine\":\"sleeper\",\"state\":\"work\"}\n");
    for round in 0..200u64 {
        let t = round * 1_000;
        for look in 1..=9 {
            writeln!(log, "{{\"t\":{},\"machine\":\"looker\",\"get\":\"box\",\"n\":\"all\"}}", t + 100 * look).unwrap();
        }
        writeln!(log, "{{\"t\":{},\"machine\":\"maker\",\"put\":\"box\"}}", t + 950).unwrap();
        writeln!(sleeper, "{{\"t\":{},\"machine\":\"sleeper\",\"blocked\":\"sleep\"}}", t + 300).unwrap();
        writeln!(sleeper, "{{\"t\":{},\"machine\":\"sleeper\",\"woken_by\":\"sleeper\",\"at\":{},\"link\":\"timer\"}}", t + 1_000, t + 300)
            .unwrap();
        writeln!(sleeper, "{{\"t\":{},\"machine\":\"sleeper\",\"state\":\"work\"}}", t + 1_000).unwrap();
    }
    let looking = report(&[&store(&place, "looking", &(log + "{\"t\":200000,\"end\":\"looker\"}\n"))]);
    let polls = finding(&looking, "polls");
    // Nine times per item the looker polls, and only the first of these polls takes the item.
    assert_eq!((polls["subject"].as_str(), polls["count"].as_u64()), (Some("looker::box"), Some(9 * 200 - 199)));
    let sleeping = report(&[&store(&place, "sleeping", &sleeper)]);
    let sleeps = finding(&sleeping, "sleeps_on_path");
    assert_eq!(sleeps["count"], 200);
    assert!((sleeps["share"].as_f64().unwrap() - 0.7).abs() < 1e-9, "{sleeps}");
    assert_eq!(kinds(&sleeping), ["sleeps_on_path"]);
}

#[test]
fn waiting_for_a_cpu_and_for_a_disk_is_found_with_advice() {
    let place = TempDir::new().unwrap();
    let mut log = String::from("{\"t\":0,\"machine\":\"app\",\"state\":\"user\"}\n{\"t\":0,\"machine\":\"irq\",\"state\":\"run\"}\n");
    for round in 0..100u64 {
        let t = round * 1_000;
        writeln!(log, "{{\"t\":{},\"machine\":\"app\",\"put\":\"disk 8:0\",\"link\":\"disk\"}}", t + 400).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"app\",\"blocked\":\"disk\"}}", t + 400).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"irq\",\"on_top_of\":null}}", t + 700).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"irq\",\"get\":\"disk 8:0\"}}", t + 700).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"app\",\"woken_by\":\"irq\"}}", t + 710).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"irq\",\"pop\":true}}", t + 710).unwrap();
        writeln!(log, "{{\"t\":{},\"machine\":\"app\",\"state\":\"user\"}}", t + 910).unwrap();
    }
    let log = log.replacen("{\"t\":0,\"machine\":\"irq\",\"state\":\"run\"}\n", "", 1) + "{\"t\":100000,\"end\":\"app\"}\n";
    let answer = report(&[&store(&place, "log", &log)]);
    let share = |kind: &str| finding(&answer, kind)["share"].as_f64().unwrap();
    assert!((share("waits_for_cpu") - 0.2).abs() < 1e-9 && (share("waits_for_disk") - 0.3).abs() < 1e-9, "{:?}", answer["findings"]);
    assert!(finding(&answer, "waits_for_cpu")["advice"].as_str().unwrap().contains("taskset"));
    assert_eq!(finding(&answer, "waits_for_disk")["subject"], "disk 8:0");
}

#[test]
fn the_wait_graph_is_that_of_figure_4_of_the_wperf_paper() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/cases/wperf_three.jsonl");
    let answer = json(&["graph", "--waits"], &[&case]);
    schema::check(&schema::schema("graph-waits"), &answer);
    let user = answer["waiters"].as_array().unwrap().iter().find(|it| it["machine"] == "user").unwrap();
    let ends: Vec<(&str, u64)> =
        user["ends"].as_array().unwrap().iter().map(|it| (it["machine"].as_str().unwrap(), it["ns"].as_u64().unwrap())).collect();
    assert_eq!(ends, [("disk", 50), ("network", 30), ("parser", 20)]);
    let said = text(&["graph", "--waits"], &[&case]);
    assert!(said.contains("disk 50.0 %, network 30.0 %, parser 20.0 %"), "{said}");
    assert!(text(&["graph", "--waits", "--format", "dot"], &[&case]).contains("n0 -> n1"));
    let svg = text(&["graph", "--waits", "--format", "svg"], &[&case]);
    assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"), "{svg}");
    for edge in answer["edges"].as_array().unwrap() {
        let [from, to] = ["from", "to"].map(|end| edge[end]["machine"].as_str().unwrap());
        assert!(svg.contains(&format!("<title>{from} waits for {to}: blocked for ")), "{from} {to}: {svg}");
    }
    for mutual_wait in answer["mutual_waits"].as_array().unwrap() {
        let name = mutual_wait["machines"][0]["machine"].as_str().unwrap();
        let named = svg.lines().find(|line| line.contains(&format!("<title>{name}: waits "))).unwrap_or_else(|| panic!("{name}: {svg}"));
        assert!(named.contains("#cc3d31"), "{named}");
    }
    assert_eq!(run(&["graph", "--waits", "--machine", "user"], &[&case]).status.code(), Some(2));
}

/// A program's span that has the same name as a state of the model is a different state.
#[test]
fn a_span_with_the_name_of_a_state_of_the_model_remains_a_span() {
    let place = TempDir::new().unwrap();
    let trace = place.path().join("trace");
    let of_threads = ["run", "user", "kernel", "preempted", "runnable", "asleep", "outside", "interrupted", "UNKNOWN"];
    let of_probes = ["wait", "lost", "re-entry", "signal", "blocked:disk", "wait: call", "span:run"];
    let names = [&of_threads[..], &of_probes].concat();
    let mut fake = Fake::new(&trace);
    let mut class = |name: &&str| [fake.class(&format!("span_begin:{name}"), &[]), fake.class(&format!("span_end:{name}"), &[])];
    let classes: Vec<_> = names.iter().map(&mut class).collect();
    let mut lane = fake.lane("mill", "main", 10, 10);
    for n in 0..160u64 {
        let [begin, end] = classes[n as usize % names.len()];
        lane.event(n * 1_000, begin, &[]);
        lane.event(n * 1_000 + 700, end, &[]);
    }
    lane.finish();
    fake.finish();
    let log = text(&["model"], &[&trace]);
    assert!(!log.contains("x_kernel"), "{log}");
    let json = |verb: &str| -> Value { serde_json::from_str(&text(&[verb, "--json"], &[&trace])).unwrap() };
    let path = json("path");
    let on_path = |state: &str| {
        let mut rows = path["criticality"].as_array().unwrap().iter().filter(|row| row["state"] == *state);
        let row = rows.next().map(|row| (row["ns"].as_u64().unwrap(), row["profile_share"].as_f64()));
        assert!(rows.next().is_none(), "{state}: {path}");
        row
    };
    let cpu = json("cpu");
    let states = cpu["threads"][0]["states"].as_array().unwrap();
    let gain = |state: &str| {
        let change = format!("mill::{state} x0.5");
        let output = run(&["what-if", "--json"], &[&trace, Path::new(&change)]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()[0]["gain"].as_f64()
    };
    for name in &names {
        let state = format!("span:{name}");
        assert!(log.contains(&format!("\"state\":\"{state}\"")), "{state}: {log}");
        let (ns, share) = on_path(&state).unwrap_or_else(|| panic!("{state}: {path}"));
        assert!(ns == 7_000 && share.is_some_and(|share| (0.04..0.05).contains(&share)), "{state}: {ns} {share:?}");
        assert_eq!(states.iter().filter(|row| row["state"] == *state && row["ns"] == 7_000).count(), 1, "{state}: {states:#?}");
        assert!(gain(&state).is_some_and(|gain| (0.02..0.03).contains(&gain)), "{state}: {:?}", gain(&state));
    }
    // The rest of the time no span is open: 300 ns after each span but the last.
    assert_eq!((on_path("run").map(|row| row.0), path["unknown_ns"].as_u64()), (Some(159 * 300), Some(0)), "{path}");
    assert!(gain("run").is_some_and(|gain| (0.15..0.2).contains(&gain)), "{:?}", gain("run"));
    assert!(states.iter().any(|row| row["state"] == "run" && row["ns"] == 159 * 300), "{states:#?}");
    let others = names.iter().filter(|name| !["run", "span:run"].contains(name));
    for name in others {
        assert!(on_path(name).is_none() && !log.contains(&format!("\"state\":\"{name}\"")), "{name}: {path}");
        assert!(states.iter().all(|row| row["state"] != **name), "{name}: {states:#?}");
    }
}

#[test]
fn a_users_rules_also_apply_to_what_if_and_diff() {
    let place = TempDir::new().unwrap();
    let trace = place.path().join("trace");
    let mut fake = Fake::new(&trace);
    let (begin, end) = (fake.class("span_begin:grind", &[]), fake.class("span_end:grind", &[]));
    fake.class("event:unused", &[("count", Kind::U64)]);
    let mut lane = fake.lane("mill", "main", 10, 10);
    for n in 0..50u64 {
        lane.event(n * 1_000, begin, &[]);
        lane.event(n * 1_000 + 700, end, &[]);
    }
    lane.finish();
    fake.finish();
    let rules = store(&place, "mine.toml", "[[rule]]\nevent = \"span_begin:grind\"\ndo = \"begin\"\nname = \"pulverise\"\n\n[[rule]]\nevent = \"span_end:grind\"\ndo = \"end\"\nname = \"pulverise\"\n");
    let named = ["--rules", rules.to_str().unwrap()];
    let diff = |arguments: &[&str]| text(&[&["diff"], arguments].concat(), &[&trace, &trace]);
    assert!(diff(&[]).contains("mill::grind") && !diff(&[]).contains("pulverise"));
    assert!(diff(&named).contains("mill::pulverise") && !diff(&named).contains("mill::grind"), "{}", diff(&named));
    let halved = |state: &str, arguments: &[&str]| {
        let change = format!("mill::{state} x0.5");
        let output = run(&[&["what-if", "--json"], arguments].concat(), &[&trace, Path::new(&change)]);
        output.status.success()
            && serde_json::from_slice::<Value>(&output.stdout).unwrap()[0]["gain"].as_f64().is_some_and(|gain| gain > 0.3)
    };
    assert!(halved("grind", &[]) && halved("pulverise", &named) && !halved("pulverise", &[]));
    let wrong = store(&place, "wrong.toml", "[[rule]]\nevent = \"a\"\ndo = \"blok\"\n");
    for verb in ["what-if", "diff"] {
        let output = run(&[verb, "--rules", wrong.to_str().unwrap()], &vec![trace.as_path(); if verb == "diff" { 2 } else { 1 }]);
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("wrong.toml:3"), "{verb}");
    }
}
