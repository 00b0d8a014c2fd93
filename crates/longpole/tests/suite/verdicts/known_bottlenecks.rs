//! The verdict on live programs without probes that have one known bottleneck: its subject, the
//! mechanism by which it limits the system, and what ends the run.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;

/// The report on the program `limited`, recorded with the default event groups; `None` if it cannot
/// be recorded here.
fn report(means: &str) -> Option<Value> {
    reports(means, &[&[]]).map(|mut reports| reports.remove(0))
}

/// Number of attempts. Other programs may take the CPUs meanwhile; then the verdict has a caveat
/// about bystanders, and the program is recorded again.
const TRIES: usize = 3;

/// The reports on one recording, one for each set of options.
fn reports(means: &str, options: &[&[&str]]) -> Option<Vec<Value>> {
    let _alone = alone();
    if !can_trace("the verdict on a live program") {
        return None;
    }
    let place = Place::new();
    let program = place.build("limited", &[]);
    let of = |options: &&[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
        let output = ok(command.args(["report", "--json"]).args(*options).arg(place.newest()).output().unwrap());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check(&schema::schema("report"), &report);
        report
    };
    let mut said = Value::Null;
    for _ in 0..TRIES {
        let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
        ok(record.args(["record", "--", "nice", "-n", "-15", &program, means]).output().unwrap());
        let reports: Vec<Value> = options.iter().map(of).collect();
        if !reports[0]["verdict"]["caveats"].as_array().unwrap().iter().any(|caveat| caveat["kind"] == "bystanders") {
            return Some(reports);
        }
        said = reports[0]["verdict"]["text"].clone();
    }
    println!("skipped: the verdict on \"limited {means}\" (this host is busy: {said})");
    None
}

/// Outcome, subject and mechanism of the verdict.
fn named(report: &Value) -> [&str; 3] {
    let verdict = &report["verdict"];
    [&verdict["outcome"], &verdict["subject"]["name"], &verdict["mechanism"]].map(|value| value.as_str().unwrap_or("none"))
}

#[test]
fn a_request_in_two_writes_waits_for_a_delayed_acknowledgement_and_one_in_one_write_does_not() {
    let Some(writes) = report("writes") else { return };
    assert_eq!(named(&writes), ["bottleneck", "limited", "delayed_ack"], "{}", writes["verdict"]["text"]);
    let Some(whole) = report("whole") else { return };
    assert_ne!(whole["verdict"]["mechanism"], "delayed_ack", "{}", whole["verdict"]["text"]);
}

#[test]
fn processes_that_sleep_for_a_lock_are_reported_as_a_convoy_however_often_one_takes_it_again() {
    for means in ["lock", "greedy"] {
        let Some(lock) = report(means) else { return };
        assert_eq!(named(&lock), ["bottleneck", "limited", "lock_convoy"], "{means}: {}", lock["verdict"]["text"]);
        let convoy = lock["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "convoy").unwrap();
        assert_eq!(convoy["members"], 4, "{means}: {convoy}");
    }
}

#[test]
fn two_sides_that_sleep_and_look_again_are_reported_as_polling() {
    let Some(reports) = reports("polls", &[&[], &["--sensitivity"]]) else { return };
    let [polls, varied] = reports.try_into().unwrap();
    assert_eq!((&polls["sensitivity"], &polls["verdict"]), (&Value::Null, &varied["verdict"]));
    for sensitive in varied["sensitivity"].as_array().unwrap() {
        assert!([0.8, 1.2].contains(&sensitive["factor"].as_f64().unwrap()), "{sensitive}");
        assert_ne!(sensitive["text"], varied["verdict"]["text"]);
    }
    assert_eq!(named(&polls), ["bottleneck", "limited", "polling"], "{}", polls["verdict"]["text"]);
}

#[test]
fn a_thread_that_works_until_another_one_that_polls_finds_that_it_has_stopped_is_the_bottleneck() {
    let Some(polled) = report("polled") else { return };
    assert_eq!(named(&polled), ["bottleneck", "limited/compute", "polled_work"], "{}", polled["verdict"]["text"]);
    let because = polled["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "polled_by").unwrap();
    assert!(because["rows"].as_u64().unwrap() > 90 && because["count"].as_u64() > because["rows"].as_u64(), "{because}");
}

#[test]
fn a_small_receive_buffer_is_reported_as_window_limited() {
    let Some(window) = report("window") else { return };
    assert_eq!(named(&window)[2], "window_limited", "{}", window["verdict"]["text"]);
}

#[test]
fn items_handed_over_one_by_one_are_reported_and_items_in_chunks_are_not() {
    let Some(items) = report("items") else { return };
    assert_eq!(named(&items), ["bottleneck", "limited", "hand_over_per_item"], "{}", items["verdict"]["text"]);
    let because = items["verdict"]["because"].as_array().unwrap();
    let hand_overs = because.iter().find(|because| because["kind"] == "hand_overs").unwrap();
    // At least some hundred. A thread that finds the next number at once is not woken and does not
    // count.
    assert!(hand_overs["count"].as_u64().unwrap() > 200, "{hand_overs}");
    assert!(hand_overs["work_ns"].as_u64() < hand_overs["cost_ns"].as_u64(), "{hand_overs}");
    let Some(chunks) = report("chunks") else { return };
    assert_ne!(chunks["verdict"]["mechanism"], "hand_over_per_item", "{}", chunks["verdict"]["text"]);
}

#[test]
fn a_connection_per_request_is_reported_if_its_begin_takes_most_of_the_work() {
    let Some(greets) = report("greets") else { return };
    assert_eq!(named(&greets), ["bottleneck", "limited", "connection_per_request"], "{}", greets["verdict"]["text"]);
    let because = greets["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "accepts").unwrap();
    assert!(because["connections"].as_u64().unwrap() > 300 && because["first"].as_f64().unwrap() > 0.8, "{because}");
    let Some(stays) = report("stays") else { return };
    assert_ne!(stays["verdict"]["mechanism"], "connection_per_request", "{}", stays["verdict"]["text"]);
}

#[test]
fn a_priority_inversion_is_reported_and_a_lock_with_priority_inheritance_has_none() {
    let may = std::process::Command::new("chrt").args(["-f", "10", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: a priority inversion (needs SCHED_FIFO and chrt)");
        return;
    }
    let Some(inverts) = report("inverts") else { return };
    assert_eq!(named(&inverts), ["bottleneck", "limited/holder", "priority_inversion"], "{}", inverts["verdict"]["text"]);
    let because = inverts["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "inversion").unwrap();
    assert_eq!([&because["waiter"]["name"], &because["instead"]["name"]], ["limited/important", "limited/between"], "{because}");
    let Some(inherits) = report("inherits") else { return };
    assert_ne!(inherits["verdict"]["mechanism"], "priority_inversion", "{}", inherits["verdict"]["text"]);
}

#[test]
fn a_program_that_must_free_memory_before_it_reads_is_reported_as_memory_reclaim() {
    if std::fs::metadata("/sys/fs/cgroup/memory/memory.limit_in_bytes").is_err() {
        println!("skipped: a memory limit (needs a control group of version 1 for memory)");
        return;
    }
    let Some(memory) = report("memory") else { return };
    assert_eq!(named(&memory), ["bottleneck", "limited", "memory_reclaim"], "{}", memory["verdict"]["text"]);
    let because = memory["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "reclaims").unwrap();
    assert!(because["count"].as_u64().unwrap() > 100, "{because}");
}

#[test]
fn a_full_link_is_reported_with_its_rate() {
    let tbf = ["-n", "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "100mbit", "burst", "128k", "limit", "8mb"];
    if !std::process::Command::new("unshare").args(tbf).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: a full link (needs unshare, tc and the queueing discipline tbf)");
        return;
    }
    let Some(link) = report("link") else { return };
    assert_eq!(named(&link), ["bottleneck", "limited0", "slow_link"], "{}", link["verdict"]["text"]);
    let because = link["verdict"]["because"].as_array().unwrap().iter().find(|because| because["kind"] == "link").unwrap();
    assert_eq!(because["discipline"], "tbf", "{because}");
    // The rate includes headers and is the configured one, even on a busy host.
    let rate = because["bits_per_second"].as_f64().unwrap();
    assert!((60e6..120e6).contains(&rate), "{because}");
}

#[test]
fn a_thread_that_sleeps_next_to_full_cpus_is_no_bottleneck() {
    let Some(minded) = report("minded") else { return };
    assert_eq!(named(&minded)[..2], ["bottleneck", "limited"], "{}", minded["verdict"]["text"]);
    assert_ne!(minded["verdict"]["state"]["kind"], "sleep", "{}", minded["verdict"]["text"]);
}

#[test]
fn a_run_that_a_timer_ends_is_judged_by_its_rate_of_replies() {
    let progress = ["--progress", "name ~ \"syscall_exit_*\" && ret > 0"];
    let Some(reports) = reports("timed", &[&[], &progress]) else { return };
    let [timed, progressed] = reports.try_into().unwrap();
    let verdict = &timed["verdict"];
    assert_eq!(named(&timed)[..2], ["bottleneck", "limited"], "{}", verdict["text"]);
    assert_eq!(timed["run"]["kind"], "fixed_time", "{}", timed["run"]);
    // With half of the server's sleep the rate of replies nearly doubles, while the end stays the
    // same.
    assert_eq!(verdict["gain"]["of"], "rate", "{}", verdict["gain"]);
    assert!(verdict["gain"]["gain"].as_f64().unwrap() > 0.5, "{}", verdict["gain"]);
    // With `--progress`, any event of any program can count as progress.
    let run = &progressed["run"];
    assert!(run["progress"].as_str().unwrap().starts_with("name ~ \"syscall_exit_*\" && ret > 0 of "), "{run}");
    assert_eq!(progressed["verdict"]["gain"]["of"], "rate", "{}", progressed["verdict"]["gain"]);
}

#[test]
fn requests_that_wait_for_one_another_are_reported_at_the_server_where_they_wait() {
    let Some(turns) = report("turns") else { return };
    assert_eq!(named(&turns), ["bottleneck", "limited", "serialisation"], "{}", turns["verdict"]["text"]);
    let because = turns["verdict"]["because"].as_array().unwrap();
    let serialised = because.iter().find(|because| because["kind"] == "serialised").unwrap();
    // The server before the one that sleeps has only one request open.
    assert!(serialised["open"].as_f64().unwrap() > 3.0, "{serialised}");
    assert_ne!(serialised["at"]["port"], turns["verdict"]["subject"]["port"], "{serialised}");
}

#[test]
fn an_event_loop_that_waits_for_each_reply_itself_is_reported_and_one_that_does_not_is_not() {
    let blocks = |means: &str| {
        let verdict = report(means)?["verdict"].clone();
        let because = verdict["because"].as_array().unwrap();
        let of_kind = |kind: &'static str| because.iter().filter(move |because| because["kind"] == kind);
        assert_eq!(verdict["state"]["kind"], "sleep", "{}", verdict["text"]);
        assert!(of_kind("sleeps").all(|sleeps| sleeps["waited_for_by"]["port"].is_u64()), "{}", verdict["text"]);
        Some(of_kind("blocks_its_loop").count())
    };
    let Some(found) = blocks("blocks").zip(blocks("relays")) else { return };
    assert_eq!(found, (1, 0));
}
