//! Snapshots with a condition: they are taken when the condition becomes true, not before, and
//! contain the events that led to it.

use crate::support::commanded::{counted, description, numbers, path, snapshot, CommandedProgram, Session};
use crate::support::place::{ok, wait_for, Place, Running};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// A `longpole snapshot` that waits for its condition.
struct Waiting<'a>(&'a Place, Running);

impl Waiting<'_> {
    fn start<'a>(place: &'a Place, arguments: &[&str]) -> Waiting<'a> {
        let child = Running::start(place.longpole(&["snapshot"]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let waiting = Waiting(place, child);
        // The recorder reads the request a moment after the file exists.
        wait_for(|| waiting.requests() > 0);
        sleep(Duration::from_millis(50));
        waiting
    }

    fn requests(&self) -> usize {
        let recording = self.0.recordings().into_iter().find(|path| path.join(".requests").exists());
        recording.map_or(0, |path| std::fs::read_dir(path.join(".requests")).unwrap().count())
    }

    fn still_waits(&mut self) -> bool {
        self.1.try_wait().unwrap().is_none()
    }

    fn made(self) -> PathBuf {
        path(&ok(self.1.output()))
    }
}

#[test]
fn a_span_that_takes_too_long_triggers_a_snapshot_of_what_led_to_it() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let session = Session::start(&place, &["--mode", "overwrite"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("span 1000");
    let mut waiting = Waiting::start(&place, &["--when", "span('request') > 100ms"]);
    for _ in 0..20 {
        commanded.does("span 1000");
    }
    let before = commanded.does("marks 3");
    assert!(waiting.still_waits());
    commanded.does("span 150000");
    let made = waiting.made();
    let told = &description(&made)["snapshot"];
    assert_eq!(told["when"], "span(\"request\") > 100000000ns");
    assert!(told["cause"].as_str().unwrap().starts_with("span request of thread"), "{told}");
    let (event, frozen) = (told["event_ns"].as_i64().unwrap(), told["frozen_ns"].as_i64().unwrap());
    assert!(event <= frozen && told["latency_ns"].as_i64().unwrap() <= frozen - event + 1_000_000, "{told}");
    assert_eq!(numbers(&made), (0..before).collect::<Vec<u64>>());
    assert_eq!(counted(&made, "span_begin:request"), (22, 0));
    // The span that took too long was not yet ended at that moment.
    assert_eq!(counted(&made, "span_end:request").0, 21);
    commanded.end();
    session.stop();
}

#[test]
fn a_snapshot_contains_the_time_after_its_trigger_and_nothing_too_far_back() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let _session = Session::start(&place, &[]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 10");
    sleep(Duration::from_millis(500));
    let waiting = Waiting::start(&place, &["--when", "counter('level') > 9", "--pre", "200ms", "--post", "300ms"]);
    commanded.does("counter 9");
    let from = commanded.does("marks 10");
    commanded.does("counter 10");
    let to = commanded.does("marks 10");
    let made = waiting.made();
    let (first, last) = (numbers(&made)[0], *numbers(&made).last().unwrap());
    assert!(first >= 10 && first <= from, "{first}");
    assert_eq!(last, to - 1);
    assert_eq!(description(&made)["snapshot"]["cause"], "counter level is 10");
    let info = place.answer("info", &made);
    assert_eq!((info["events"].as_u64().unwrap(), info["lost"].as_u64().unwrap()), {
        let (marks, lost) = counted(&made, "mark:numbered");
        (marks + counted(&made, "counter:level").0, lost)
    });
}

#[test]
fn full_queues_and_rates_can_be_waited_for_and_overwriting_is_no_loss() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let _session = Session::start(&place, &["--mode", "overwrite"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 1");

    let mut full = Waiting::start(&place, &["--when", "full('line') > 80ms || lost"]);
    commanded.does("full 1000");
    assert!(full.still_waits());
    commanded.does("full 200000");
    assert!(description(&full.made())["snapshot"]["cause"].as_str().unwrap().starts_with("queue line has been full for"));

    let mut rate = Waiting::start(&place, &["--when", "rate('beat') < 5"]);
    commanded.does("beats 60 20000");
    assert!(rate.still_waits(), "60 in 1.2 s");
    // No further event is emitted.
    assert!(description(&rate.made())["snapshot"]["cause"].as_str().unwrap().ends_with("events beat in a second"));

    // A ring in mode overwrite loses no event by overwriting old ones.
    let mut lost = Waiting::start(&place, &["--when", "lost", "--for", "300ms"]);
    commanded.does("marks 100000");
    assert!(!lost.1.wait().unwrap().success());
}

#[test]
fn a_loss_can_be_waited_for_if_the_newest_events_are_discarded() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let _session = Session::start(&place, &["--buffer", "32KiB"]);
    let mut commanded = CommandedProgram::start(&place, &program);
    commanded.does("marks 1");
    let lost = Waiting::start(&place, &["--when", "lost"]);
    commanded.does("marks 3000000");
    let made = lost.made();
    assert!(description(&made)["snapshot"]["cause"].as_str().unwrap().ends_with("were lost"));
    assert!(counted(&made, "mark:numbered").1 > 0);
}

#[test]
fn a_request_of_a_killed_command_is_dropped() {
    let place = Place::new();
    let _session = Session::start(&place, &["--mode", "overwrite"]);
    let mut killed = Waiting::start(&place, &["--when", "lost"]);
    let mut waits = Waiting::start(&place, &["--when", "lost"]);
    assert_eq!(waits.requests(), 2);
    killed.1.kill().unwrap();
    wait_for(|| waits.requests() == 1);
    sleep(Duration::from_millis(1500));
    assert!(waits.still_waits() && waits.requests() == 1);
}

#[test]
fn a_snapshot_without_a_recording_and_a_wrong_condition_are_refused() {
    let place = Place::new();
    let nobody = place.longpole(&["snapshot"]).output().unwrap();
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("nothing is being recorded"));
    let wrong = place.longpole(&["snapshot", "--when", "span('x') > soon"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("this is not a time"));
    let _session = Session::start(&place, &[]);
    assert!(snapshot(&place, &[]).join("longpole.json").exists());
}
