//! Our recordings as other tools read them: events by babeltrace2, captured packets by tshark. The
//! recordings certainly lose events, because their recorder is stopped for a while.

use crate::support::place::{ok, signal, wait_for, Place};
use longpole_testing::user_trace::babeltrace2;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn copies_made_during_and_after_a_recording_with_losses_have_babeltraces_counts() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let mut recorder = place.recorder(&["--all", "--buffer", "64KiB"]);
    let mut child = place.command(&program).args(["4", "1000000000", "4000", "400"]).stdout(Stdio::null()).spawn().unwrap();
    let recording = place.newest();
    wait_for(|| place.answer("info", &recording)["events"].as_u64() > Some(0));
    // Each thread fills its ring several times during this pause.
    signal(&recorder, "-STOP");
    sleep(Duration::from_millis(500));
    signal(&recorder, "-CONT");
    let (during, after) = (place.path("during"), place.path("after"));
    wait_for(|| {
        copy(&recording, &during);
        place.answer("info", &during)["lost"].as_u64() > Some(0)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());
    copy(&recording, &after);
    let mut counts = Vec::new();
    for path in [during, after] {
        let info = place.answer("info", &path);
        let ours = (info["events"].as_u64().unwrap(), info["lost"].as_u64().unwrap());
        assert!(ours.0 > 0 && ours.1 > 0, "{ours:?}");
        if let Some(theirs) = babeltrace2(&path.join("user")) {
            assert_eq!(ours, theirs, "events and lost events of {}", path.display());
        }
        counts.push(ours);
    }
    assert!(counts[0].0 < counts[1].0 && counts[0].1 <= counts[1].1, "{counts:?}");
}

/// A frame as tshark prints it.
#[derive(Debug)]
struct Frame {
    t_ns: i64,
    interface: String,
    direction: u64,
    length: u64,
    captured: u64,
}

fn frames(capture: &Path) -> Option<Vec<Frame>> {
    let fields = ["frame.time_epoch", "frame.interface_name", "frame.packet_flags_direction", "frame.len", "frame.cap_len"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field])).arg("-r").arg(capture);
    let output = match tshark.env("HOME", "/nonexistent").output() {
        Ok(output) => ok(output),
        Err(_) => {
            println!("skipped: comparison of captured packets with tshark (it is not installed)");
            return None;
        }
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let frame = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let (seconds, rest) = cells[0].split_once('.').unwrap();
        let t_ns = seconds.parse::<i64>().unwrap() * 1_000_000_000 + format!("{rest:0<9}").parse::<i64>().unwrap();
        Frame { t_ns, interface: cells[1].to_owned(), direction: number(cells[2]), length: number(cells[3]), captured: number(cells[4]) }
    };
    Some(String::from_utf8(output.stdout).unwrap().lines().map(frame).collect())
}

#[test]
fn captured_frames_match_packet_events_within_a_microsecond_and_drops_match_lost_events() {
    let place = Place::new();
    let program = place.build("frames", &[]);
    let mut recorder = place.recorder(&["--all", "--buffer", "64KiB"]);
    let mut child = place.command(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut capture = |count: u32| {
        writeln!(input, "{count}").unwrap();
        input.flush().unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    };
    let recording = place.newest();
    capture(100);
    wait_for(|| place.answer("info", &recording)["events"].as_u64() == Some(200));
    signal(&recorder, "-STOP");
    capture(50_000);
    signal(&recorder, "-CONT");
    // The ring has room again after the recorder has taken the events written during the pause.
    wait_for(|| place.answer("info", &recording)["events"].as_u64() > Some(200));
    sleep(Duration::from_millis(300));
    capture(100);
    drop(input);
    child.wait().unwrap();
    signal(&recorder, "-INT");
    assert!(recorder.wait().unwrap().success());

    let info = place.answer("info", &recording);
    let lost = info["lost"].as_u64().unwrap();
    assert!(lost > 0);
    let print = ok(place.longpole(&["print", "--json"]).arg(&recording).output().unwrap());
    let lines = String::from_utf8(print.stdout).unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&Value> = events.iter().filter(|line| line["name"].is_string()).collect();
    let capture = std::fs::read_dir(recording.join("packets")).unwrap().next().unwrap().unwrap().path();

    let mut counted: BTreeMap<(String, &str), u64> = BTreeMap::new();
    let packets = place.answer("packets", &recording)["interfaces"].clone();
    // A lost event does not contain its interface, so each is counted once, for one of the
    // interfaces.
    let dropped = packets.as_array().unwrap().iter().filter_map(|interface| interface["dropped"].as_u64());
    assert_eq!(dropped.sum::<u64>(), lost, "{packets}");
    for interface in packets.as_array().unwrap() {
        for way in interface["directions"].as_array().unwrap() {
            let direction = if way["direction"] == "in" { "in" } else { "out" };
            counted.insert((interface["interface"].as_str().unwrap().to_owned(), direction), way["packets"].as_u64().unwrap());
        }
    }
    let mut emitted: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for event in &events {
        let interface = event["name"].as_str().unwrap().strip_prefix("packet:").unwrap().to_owned();
        *emitted.entry((interface, if event["fields"]["direction"] == 1 { "in" } else { "out" })).or_default() += 1;
    }
    assert_eq!(counted, emitted);
    assert_eq!(emitted.keys().map(|(name, way)| (name.as_str(), *way)).collect::<Vec<_>>(), [("eth0", "in"), ("eth1", "out")]);

    let Some(frames) = frames(&capture) else { return };
    assert_eq!(frames.len(), events.len());
    for (at, (frame, event)) in frames.iter().zip(&events).enumerate() {
        assert_eq!(event["name"], format!("packet:{}", frame.interface), "frame {at}");
        assert_eq!(event["fields"]["direction"], frame.direction, "frame {at}");
        assert_eq!(event["fields"]["length"], frame.length, "frame {at}");
        assert_eq!(frame.captured, frame.length.min(100), "frame {at}");
        let apart = event["t_ns"].as_i64().unwrap().abs_diff(frame.t_ns);
        assert!(apart <= 1_000, "frame {at} is {apart} ns from its event");
    }
}
