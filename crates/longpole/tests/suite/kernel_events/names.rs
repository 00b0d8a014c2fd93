//! Names of processes and locks in recordings of live programs: titles of processes, control
//! groups, and addresses of locks.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The text that the command printed, and the recording. The command has the highest priority,
/// because other programs may run on this host.
fn recorded(place: &Place, command: &[&str]) -> (String, PathBuf) {
    let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = ok(record.args(["record", "--stacks", "none", "--", "nice", "-n", "-20"]).args(command).output().unwrap());
    (String::from_utf8(output.stdout).unwrap(), place.newest())
}

fn report(place: &Place, trace: &Path) -> Value {
    let answer = place.answer("report", trace);
    schema::check(&schema::schema("report"), &answer);
    answer["verdict"].clone()
}

/// The lines that `print` has for the events with this name.
fn printed(place: &Place, trace: &Path, event: &str) -> Vec<String> {
    let text = ok(place.longpole(&["print"]).arg(trace).output().unwrap()).stdout;
    String::from_utf8_lossy(&text).lines().filter(|line| line.contains(event)).map(str::to_owned).collect()
}

/// A control group for one test; it is removed when dropped.
struct Group(PathBuf);

impl Group {
    /// `None` if this host has no cgroup hierarchy of version 2, or none that can be written.
    fn new(name: &str) -> Option<Group> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let is_meant = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let path = PathBuf::from(mounts.lines().find(is_meant)?.split(' ').nth(1)?).join(name);
        fs::create_dir(&path).ok()?;
        Some(Group(path))
    }

    fn file(&self) -> String {
        self.0.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended may remain in the group for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn processes_are_known_by_their_titles() {
    let _alone = alone();
    if !can_trace("titles of processes") {
        return;
    }
    let place = Place::new();
    let program = place.build("titled", &[]);
    let (_, trace) = recorded(&place, &[&program, "2000"]);
    let titles = printed(&place, &trace, "longpole_statedump_title");
    for title in ["\"shop: cook 4711 busy\"", "\"shop: cook 4712 busy\"", "\"shop: waiter\""] {
        assert!(titles.iter().any(|line| line.contains(title)), "{title}: {titles:?}");
    }
    assert!(!titles.iter().any(|line| line.contains("secret")), "{titles:?}");
    // A title without its varying part is a valid name. A title with it is not.
    for (name, code) in [("shop: cook", 0), ("shop: waiter", 0), ("shop: cook 4711", 2)] {
        let output = place.longpole(&["report", "--process", name]).arg(&trace).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let verdict = report(&place, &trace);
    let subject = &verdict["subject"];
    if subject["name"] != "titled" {
        println!("skipped: who is named (this host is busy: {})", verdict["text"]);
        return;
    }
    assert_eq!((&subject["level"], &subject["title"]), (&Value::from("pool"), &Value::from("shop: cook")), "{verdict}");
    assert!(verdict["text"].as_str().unwrap().starts_with("shop: cook is the bottleneck"), "{verdict}");
}

#[test]
fn the_unit_of_a_process_is_derived_from_its_control_group() {
    let _alone = alone();
    if !can_trace("units of processes") {
        return;
    }
    let unit = format!("longpole-test-{}.service", std::process::id());
    let Some(group) = Group::new(&unit) else {
        println!("skipped: units of processes (needs a cgroup2 file system that can be written)");
        return;
    };
    let place = Place::new();
    let program = place.build("titled", &[]);
    let (_, trace) = recorded(&place, &[&program, "2000", &group.file()]);
    let groups = printed(&place, &trace, "longpole_statedump_cgroup");
    assert!(groups.iter().filter(|line| line.contains(&format!("/{unit}\""))).count() >= 3, "{groups:?}");
    let verdict = report(&place, &trace);
    if verdict["subject"]["name"] != "titled" {
        println!("skipped: the unit of who is named (this host is busy: {})", verdict["text"]);
        return;
    }
    assert_eq!((verdict["subject"]["unit"].as_str(), &verdict["subject"]["container"]), (Some(unit.as_str()), &Value::Null));
    // The unit is not in the text, because no other process has the same name.
    assert!(!verdict["text"].as_str().unwrap().contains(&unit), "{verdict}");
}

#[test]
fn the_lock_that_threads_wait_for_is_identified_by_its_address() {
    let _alone = alone();
    if !can_trace("addresses of locks") {
        return;
    }
    for (used, count) in [("one", 1), ("both", 2)] {
        let place = Place::new();
        let program = place.build("two_locks", &["-pthread"]);
        let (address, trace) = recorded(&place, &[&program, used, "1000"]);
        let verdict = report(&place, &trace);
        let locks = verdict["because"].as_array().unwrap().iter().map(|because| &because["locks"]).find(|locks| !locks.is_null());
        let Some(locks) = locks else {
            println!("skipped: the locks of {used} (this host is busy: {})", verdict["text"]);
            continue;
        };
        assert_eq!(locks["count"], count, "{verdict}");
        let said = if count == 1 { "on one lock that" } else { "on 2 locks that" };
        assert!(verdict["text"].as_str().unwrap().contains(said), "{verdict}");
        if count == 1 {
            assert_eq!(locks["address"], address.trim());
            assert!(locks["share"].as_f64() > Some(0.85), "{locks}");
        }
    }
}
