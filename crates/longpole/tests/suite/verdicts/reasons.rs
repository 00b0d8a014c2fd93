//! The reason why `report` finds no bottleneck: either no part of the known path clearly leads, or
//! too little is known.

use crate::support::schema;
use longpole_testing::user_trace::{Fake, Field, Kind};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The verdict as JSON, and the first line of the text.
fn verdict(trace: &Path) -> (Value, String) {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        let output = command.env_remove("LONGPOLE_ROOT").arg("report").args(arguments).arg(trace).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let report: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    schema::check(&schema::schema("report"), &report);
    (report["verdict"].clone(), run(&[]).lines().next().unwrap().to_owned())
}

/// A log of two machines that take turns of equal length. The put of every `every`th hand-over is
/// missing in the log.
fn turns(place: &TempDir, every: u64) -> std::path::PathBuf {
    let mut text =
        String::from("{\"t\":0,\"machine\":\"a\",\"state\":\"work\"}\n{\"t\":0,\"machine\":\"b\",\"blocked\":\"turn\",\"on\":\"to b\"}\n");
    for n in 0..300u64 {
        let (one, other) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let t = 10 * n + 10;
        if n % every != every - 1 {
            let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"put\":\"to {other}\"}}");
        }
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"{one}\",\"blocked\":\"turn\",\"on\":\"to {one}\"}}");
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"{other}\",\"get\":\"to {other}\",\"state\":\"work\"}}");
    }
    text += "{\"t\":3010,\"end\":\"a\"}\n";
    let path = place.path().join("turns.jsonl");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_balanced_path_has_no_bottleneck_and_a_path_with_gaps_cannot_be_judged() {
    let place = TempDir::new().unwrap();
    let (known, text) = verdict(&turns(&place, u64::MAX));
    assert_eq!(known["outcome"], "spread", "{known}");
    assert!(text.starts_with("Nothing stands out: "), "{text}");
    let (torn, text) = verdict(&turns(&place, 3));
    assert_eq!(torn["outcome"], "unknown", "{torn}");
    assert!(torn["unknown_share"].as_f64().unwrap() > 0.05, "{torn}");
    assert!(
        text.starts_with("The bottleneck cannot be determined: ") && text.contains("; `longpole path` lists the contradictions"),
        "{text}"
    );
}

/// A log of two machines with a queue of capacity 4 between them. `a` makes an item in 100 ns, and
/// `b` needs `takes(n)` ns for the item `n`.
fn tandem(place: &TempDir, takes: &dyn Fn(usize) -> u64) -> std::path::PathBuf {
    let mut lines = vec![
        (0, "\"queue\":\"q\",\"capacity\":4".to_owned()),
        (0, "\"machine\":\"a\",\"state\":\"work\"".to_owned()),
        (0, "\"machine\":\"b\",\"blocked\":\"empty\",\"on\":\"q\"".to_owned()),
    ];
    let (mut made, mut free, mut gets) = (0, 0, Vec::<u64>::new());
    for n in 0..240usize {
        made += 100;
        if let Some(&room) = n.checked_sub(4).and_then(|before| gets.get(before)).filter(|&&room| room >= made) {
            lines.push((made, "\"machine\":\"a\",\"blocked\":\"full\",\"on\":\"q\",\"for\":\"space\"".to_owned()));
            made = room + 1;
        }
        lines.push((made, "\"machine\":\"a\",\"put\":\"q\",\"state\":\"work\"".to_owned()));
        if made >= free {
            if n > 0 {
                lines.push((free, "\"machine\":\"b\",\"blocked\":\"empty\",\"on\":\"q\"".to_owned()));
            }
            free = made + 1;
        }
        lines.push((free, "\"machine\":\"b\",\"get\":\"q\",\"state\":\"work\"".to_owned()));
        gets.push(free);
        free += takes(n);
    }
    lines.push((free, "\"end\":\"b\"".to_owned()));
    lines.sort_by_key(|&(t, _)| t);
    let text: String = lines.into_iter().map(|(t, what)| format!("{{\"t\":{t},{what}}}\n")).collect();
    let path = place.path().join("tandem.jsonl");
    fs::write(&path, text.replacen("\"t\":0,", "", 1)).unwrap();
    path
}

/// A log of a server that needs 800 ns for each item of its client. The client's clock is wrong by
/// `skew` ns. The lines `more` are added while the client thinks.
fn served(place: &TempDir, skew: u64, more: &[&str]) -> std::path::PathBuf {
    let mut lines = vec![(0, "\"machine\":\"server\",\"blocked\":\"idle\"".to_owned()), (0, "\"machine\":\"client\"".to_owned())];
    for n in 0..300u64 {
        let t = 1_000 * n;
        lines.push((t + 100 + skew, "\"machine\":\"client\",\"put\":\"ask\"".to_owned()));
        lines.push((t + 100 + skew, "\"machine\":\"client\",\"blocked\":\"reply\"".to_owned()));
        lines.push((t + 150, "\"machine\":\"server\",\"get\":\"ask\",\"state\":\"parse\"".to_owned()));
        lines.push((t + 950, "\"machine\":\"server\",\"put\":\"back\"".to_owned()));
        lines.push((t + 950, "\"machine\":\"server\",\"blocked\":\"idle\"".to_owned()));
        lines.push((t + 1_000 + skew, "\"machine\":\"client\",\"get\":\"back\",\"state\":\"think\"".to_owned()));
    }
    lines.extend(more.iter().map(|what| (299_050, (*what).to_owned())));
    lines.sort_by_key(|(t, _)| *t);
    let mut text: String = lines.iter().map(|(t, what)| format!("{{\"t\":{t},{what}}}\n")).collect();
    text += "{\"t\":301000,\"end\":\"client\"}\n";
    let path = place.path().join("served.jsonl");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn contradictions_in_a_trace_are_reported_with_the_verdict() {
    let place = TempDir::new().unwrap();
    let said = "in the trace: clocks, losses or misplaced probes.";
    let (clean, text) = verdict(&served(&place, 0, &[]));
    assert_eq!((&clean["outcome"], &clean["state"]["name"]), (&"bottleneck".into(), &"parse".into()), "{clean}");
    assert_eq!(clean["doubts"], serde_json::json!({"contradictions": 0, "negative_links": 0, "ignored_wakeups": 0}));
    assert!(!text.contains(said), "{text}");
    // A get of a token that was never put, and two wake-ups of a machine that does not wait.
    let unusual = ["\"machine\":\"stranger\",\"get\":\"nothing\"", "\"machine\":\"client\",\"woken_by\":\"server\""];
    let (unusual, text) = verdict(&served(&place, 0, &[unusual[0], unusual[1], unusual[1]]));
    assert_eq!((&unusual["outcome"], &unusual["state"]["name"]), (&"bottleneck".into(), &"parse".into()), "{unusual}");
    assert_eq!(unusual["doubts"], serde_json::json!({"contradictions": 1, "negative_links": 0, "ignored_wakeups": 2}));
    assert!(text.ends_with(&format!("; 1 contradiction, 2 wake-ups of threads that did not wait {said}")), "{text}");
    // With contradictions, the verdict must not be `spread`.
    let log = turns(&place, u64::MAX);
    let unusual =
        fs::read_to_string(&log).unwrap().replace("{\"t\":3010", "{\"t\":3005,\"machine\":\"stranger\",\"get\":\"nothing\"}\n{\"t\":3010");
    fs::write(&log, unusual).unwrap();
    let (balanced, text) = verdict(&log);
    assert!(balanced["unknown_share"].as_f64() < Some(0.05), "{balanced}");
    assert_eq!(balanced["outcome"], "unknown", "{balanced}");
    assert!(text.starts_with("The bottleneck cannot be determined: ") && text.ends_with(said), "{text}");
    // With this skew the put of the client is later than the get of the server.
    let (skewed, text) = verdict(&served(&place, 60, &[]));
    assert!(skewed["doubts"]["contradictions"].as_u64() > Some(0) && text.ends_with(said), "{text}");
}

#[test]
fn a_machine_must_be_slower_throughout_to_be_the_bottleneck() {
    let place = TempDir::new().unwrap();
    let (turns, text) = verdict(&tandem(&place, &|n| if n < 200 { 90 } else { 120 }));
    assert_eq!(turns["outcome"], "spread", "{turns}");
    assert!(text.contains("a::work has the most") && text.contains("since b::work is nearly as slow"), "{text}");
    let (slower, text) = verdict(&tandem(&place, &|_| 90));
    assert_eq!((&slower["subject"]["name"], &slower["state"]["name"]), (&"a".into(), &"work".into()), "{text}");
}

/// A log of a client that calls a server. The server runs five functions, of which the last one
/// takes `last` ns and each other one 20 ns.
fn of_five(place: &TempDir, last: u64) -> std::path::PathBuf {
    let (mut text, mut t) = (String::from("{\"t\":0,\"machine\":\"server\",\"blocked\":\"call\"}\n"), 0);
    for _ in 0..400 {
        let mut say = |t: u64, what: &str| text += &format!("{{\"t\":{t},{what}}}\n");
        say(t, "\"machine\":\"client\",\"state\":\"ask\"");
        say(t + 1, "\"machine\":\"client\",\"put\":\"rpc:f\"");
        say(t + 1, "\"machine\":\"client\",\"blocked\":\"rpc\"");
        say(t + 1, "\"machine\":\"server\",\"get\":\"rpc:f\"");
        t += 1;
        for (function, time) in [20, 20, 20, 20, last].into_iter().enumerate() {
            say(t, &format!("\"machine\":\"server\",\"state\":\"f{function}\""));
            t += time;
        }
        say(t, "\"machine\":\"server\",\"put\":\"rpc:f:reply:1\"");
        say(t, "\"machine\":\"server\",\"blocked\":\"call\"");
        say(t, "\"machine\":\"client\",\"get\":\"rpc:f:reply:1\"");
    }
    text += &format!("{{\"t\":{t},\"end\":\"client\"}}\n");
    let path = place.path().join("five.jsonl");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_smaller_share_is_enough_if_the_next_one_is_far_behind() {
    let place = TempDir::new().unwrap();
    let (slow, text) = verdict(&of_five(&place, 30));
    assert_eq!((&slow["subject"]["name"], &slow["state"]["name"]), (&"server".into(), &"f4".into()), "{text}");
    let (slower, text) = verdict(&of_five(&place, 25));
    assert_eq!(slower["outcome"], "spread", "{slower}");
    assert!(
        text.contains("and f4 is the largest part (")
            && text.contains("does not exceed 28.0 % or 1.3 times the next (and 20.0 %) beyond the noise"),
        "{text}"
    );
    let (even, text) = verdict(&of_five(&place, 20));
    assert_eq!(even["outcome"], "spread", "{text}");
}

/// A log of a server that waits for a CPU before it begins, and is preempted in the middle.
fn without_a_cpu(place: &TempDir) -> std::path::PathBuf {
    let mut text = String::new();
    let mut say = |t: u64, said: &str| text.push_str(&format!("{{\"t\":{t},{said}}}\n"));
    let mut t = 0;
    for _ in 0..200 {
        say(t, "\"machine\":\"server\",\"blocked\":\"call\"");
        say(t, "\"machine\":\"client\",\"state\":\"work\"");
        t += 30;
        say(t, "\"machine\":\"client\",\"put\":\"jobs\"");
        say(t, "\"machine\":\"client\",\"blocked\":\"reply\"");
        say(t, "\"machine\":\"server\",\"get\":\"jobs\"");
        for (state, time) in [("runnable", 26), ("work", 10), ("preempted", 24), ("work", 10)] {
            say(t, &format!("\"machine\":\"server\",\"state\":\"{state}\""));
            t += time;
        }
        say(t, "\"machine\":\"server\",\"put\":\"replies\"");
        say(t, "\"machine\":\"client\",\"get\":\"replies\"");
    }
    say(t, "\"end\":\"client\"");
    let path = place.path().join("without.jsonl");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn all_waits_for_a_cpu_count_together() {
    let place = TempDir::new().unwrap();
    let (_, text) = verdict(&without_a_cpu(&place));
    assert!(text.contains("server has 70.0 % of the critical path, and runnable is the largest part (50.0 %"), "{text}");
    assert!(text.contains("but the predicted gain of cpus +1 is 0.0 % only"), "{text}");
}

/// A log of a program that computes, and once waits for a page.
fn alone(place: &TempDir) -> std::path::PathBuf {
    let of_one = |t: u64, said: &str| format!("{{\"t\":{t},\"machine\":\"one\",{said}}}\n");
    let of_disk = |t: u64, said: &str| format!("{{\"t\":{t},\"machine\":\"softirq BLOCK cpu0\",{said}}}\n");
    let text = [
        of_one(0, "\"state\":\"compute\""),
        of_one(1_000_000, "\"blocked\":\"page\""),
        of_disk(1_000_100, "\"on_top_of\":null"),
        of_disk(1_000_100, "\"state\":\"BLOCK\""),
        of_disk(1_000_200, "\"woken_by\":\"one\",\"at\":1000000"),
        of_one(1_000_500, "\"woken_by\":\"softirq BLOCK cpu0\""),
        of_one(1_000_600, "\"state\":\"compute\""),
        of_disk(1_000_700, "\"pop\":true"),
        "{\"t\":1000000000,\"end\":\"one\"}\n".to_owned(),
    ];
    let log = place.path().join("alone.jsonl");
    fs::write(&log, text.concat()).unwrap();
    log
}

#[test]
fn a_program_that_only_computes_is_no_bottleneck_because_of_one_read_page() {
    let place = TempDir::new().unwrap();
    let (alone, text) = verdict(&alone(&place));
    assert_eq!(alone["outcome"], "spread", "{text}");
    assert!(text.contains("no machine waits for another"), "{text}");
}

/// A log of a loop that takes one item after the other from a feeder. For the first item it makes
/// the call `call`.
fn a_loop(place: &TempDir, call: &str) -> std::path::PathBuf {
    let mut text = String::from(
        "{\"t\":0,\"machine\":\"feeder\",\"state\":\"work\"}\n{\"t\":0,\"machine\":\"loop\",\"state\":\"user\"}\n\
         {\"t\":5,\"machine\":\"loop\",\"blocked\":\"item\",\"on\":\"items\"}\n",
    );
    for n in 0..300u64 {
        let t = 110 * n + 10;
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"feeder\",\"put\":\"items\"}}");
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"feeder\",\"blocked\":\"done\",\"on\":\"dones\"}}");
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"loop\",\"get\":\"items\",\"state\":\"user\"}}");
        if n == 0 {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"loop\",\"state\":\"{call}\"}}", t + 50);
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"loop\",\"state\":\"user\"}}", t + 55);
        }
        let _ = writeln!(text, "{{\"t\":{},\"machine\":\"loop\",\"put\":\"dones\"}}", t + 100);
        if n < 299 {
            let _ = writeln!(text, "{{\"t\":{},\"machine\":\"loop\",\"blocked\":\"item\",\"on\":\"items\"}}", t + 100);
        }
        let _ = writeln!(text, "{{\"t\":{},\"machine\":\"feeder\",\"get\":\"dones\",\"state\":\"work\"}}", t + 100);
    }
    text += "{\"t\":33010,\"end\":\"loop\"}\n";
    let path = place.path().join("loop.jsonl");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_verdict_mentions_a_timer_that_may_end_the_bottlenecks_program() {
    let place = TempDir::new().unwrap();
    let (verdict_of, text) = verdict(&a_loop(&place, "read"));
    assert_eq!((&verdict_of["outcome"], &verdict_of["subject"]["name"]), (&"bottleneck".into(), &"loop".into()), "{verdict_of}");
    assert!(!text.contains("timer"), "{text}");
    for call in ["alarm", "setitimer", "timer_settime"] {
        let (verdict_of, text) = verdict(&a_loop(&place, call));
        assert_eq!((&verdict_of["outcome"], &verdict_of["subject"]["name"]), (&"bottleneck".into(), &"loop".into()), "{verdict_of}");
        let said = format!("; loop has set a timer ({call}); if the timer ends the run, no change makes it shorter.");
        assert!(text.ends_with(&said), "{text}");
    }
}

/// A trace of a source that hands items to a sink, with equal work for both. The events of the sink
/// are missing for `lost` of every ten groups of 100 items, as if its ring were too small.
fn rings(directory: &Path, lost: u64) {
    let mut fake = Fake::new(directory);
    let put = fake.class("queue_put:q", &[("count", Kind::U64)]);
    let get = fake.class("queue_get:q", &[("count", Kind::U64)]);
    let (begin, end) = (fake.class("span_begin:work", &[]), fake.class("span_end:work", &[]));
    let mut source = fake.lane("source", "main", 10, 10);
    for n in 0..2_000u64 {
        source.event(n * 1_000, begin, &[]);
        source.event(n * 1_000 + 900, end, &[]);
        source.event(n * 1_000 + 950, put, &[Field::U64(1)]);
    }
    source.finish();
    let mut sink = fake.lane("sink", "main", 20, 20);
    let mut missing = 0;
    for n in 0..2_000u64 {
        if n / 100 % 10 < lost {
            missing += 3;
            continue;
        }
        if missing > 0 {
            sink.packet();
            sink.discarded += std::mem::take(&mut missing);
        }
        sink.event(n * 1_000 + 960, get, &[Field::U64(1)]);
        sink.event(n * 1_000 + 970, begin, &[]);
        sink.event(n * 1_000 + 1_900, end, &[]);
    }
    sink.finish();
    fake.finish();
    fake.describe(r#"{"host":"h","start_ns":5,"end_ns":6}"#);
}

#[test]
fn with_many_lost_events_the_system_is_not_called_balanced() {
    let whole = TempDir::new().unwrap();
    rings(whole.path(), 0);
    let (known, text) = verdict(whole.path());
    assert_eq!(known["outcome"], "spread", "{text}");
    let torn = TempDir::new().unwrap();
    rings(torn.path(), 5);
    let (verdict, text) = verdict(torn.path());
    assert!(verdict["lost"].as_u64().unwrap() > 2_000, "{verdict}");
    assert_eq!(verdict["outcome"], "unknown", "{verdict}");
    assert!(text.starts_with("The bottleneck cannot be determined: ") && text.contains("record again with --buffer 4MiB"), "{text}");
}

/// A log of fork and join. In each round `lead` hands one item to `long` and one to `short`, which
/// work in parallel, and takes both results.
fn fork_join(place: &TempDir, lead: u64, long: u64, short: u64) -> std::path::PathBuf {
    let mut log: Vec<(u64, String)> = Vec::new();
    for round in 0..400 {
        let begin = round * (lead + long);
        let mut say = |at: u64, machine: &str, what: &str| log.push((begin + at, format!("\"machine\":\"{machine}\",{what}")));
        say(0, "lead", "\"state\":\"share_out\"");
        for (machine, time) in [("long", long), ("short", short)] {
            say(lead, "lead", &format!("\"put\":\"to_{machine}\""));
            say(lead, machine, &format!("\"get\":\"to_{machine}\",\"state\":\"work\""));
            say(lead + time, machine, "\"put\":\"back\"");
            say(lead + time, machine, &format!("\"blocked\":\"empty\",\"on\":\"to_{machine}\""));
        }
        say(lead, "lead", "\"blocked\":\"empty\",\"on\":\"back\"");
        say(lead + long, "lead", "\"get\":\"back\",\"n\":2");
    }
    log.push((400 * (lead + long), "\"end\":\"lead\"".to_owned()));
    log.sort_by_key(|(t, _)| *t);
    let path = place.path().join("fork_join.jsonl");
    fs::write(&path, log.iter().map(|(t, what)| format!("{{\"t\":{t},{what}}}\n")).collect::<String>()).unwrap();
    path
}

#[test]
fn the_largest_part_of_the_path_is_no_bottleneck_if_halving_another_part_gains_more() {
    let place = TempDir::new().unwrap();
    let (alone, text) = verdict(&fork_join(&place, 10, 30, 5));
    assert_eq!((&alone["subject"]["name"], &alone["state"]["name"]), (&"long".into(), &"work".into()), "{text}");
    let (two, text) = verdict(&fork_join(&place, 10, 30, 26));
    assert_eq!(two["outcome"], "spread", "{text}");
    assert!(
        text.contains("long::work has the most")
            && text.contains("the predicted gain of long::work x0.5 is 11.1 % only, and that of lead::share_out x0.5 is 14.2 %"),
        "{text}"
    );
}
