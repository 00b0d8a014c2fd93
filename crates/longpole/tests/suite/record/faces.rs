//! `record --log` and `record --capture-output`: the events that are shown during a recording, and
//! the lines of the command's own output that become events.

use crate::support::place::{ok, wait_for, Place, Running};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// The output of `print`.
fn printed(place: &Place, recording: &Path) -> String {
    String::from_utf8(ok(place.longpole(&["print"]).arg(recording).output().unwrap()).stdout).unwrap()
}

/// The lines of each thread, without the time since the previous line. On a host so busy that the
/// recorder is late, the log may show lines of different threads in another order than `print`.
fn by_thread(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut threads: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let (time, rest) = line.split_once("] (").unwrap_or_else(|| panic!("{line}"));
        let (who, what) = rest.split_once(") ").unwrap().1.split_once(": ").unwrap();
        threads.entry(who.to_owned()).or_default().push(format!("{time} {what}"));
    }
    threads
}

/// Panics with the first lines that differ. The order is compared within each thread only.
fn assert_same_lines(log: &str, told: &str) {
    let (log, told) = (by_thread(log), by_thread(told));
    assert!(log.keys().eq(told.keys()), "threads: {:?} in the log, {:?} printed", log.keys(), told.keys());
    for (who, lines) in &log {
        let printed = &told[who];
        let differs = lines.iter().zip(printed).position(|(a, b)| a != b).unwrap_or(lines.len().min(printed.len()));
        let near = |lines: &[String]| lines[differs.saturating_sub(1)..lines.len().min(differs + 3)].to_vec();
        assert!(lines == printed, "{who}, line {differs}: {:?} in the log, {:?} printed", near(lines), near(printed));
    }
}

/// Number of events and number of lost events, as `info` counts them.
fn counted(place: &Place, recording: &Path) -> (u64, u64) {
    let info = place.answer("info", recording);
    (info["events"].as_u64().unwrap(), info["lost"].as_u64().unwrap())
}

/// Number of events that the threads of `numbered` report at their end.
fn emitted(said: &str) -> u64 {
    said.lines().filter_map(|line| line.strip_prefix("emitted ")?.split(' ').nth(1)?.parse::<u64>().ok()).sum()
}

/// A command that runs `numbered` and writes its report into a file, so that it does not mix with
/// the lines of the log.
fn numbered(place: &Place, arguments: &str) -> Vec<String> {
    let program = place.build("numbered", &[]);
    let said = place.path("said");
    ["sh", "-c", &format!("{program} {arguments} > {}", said.display())].map(str::to_owned).to_vec()
}

#[test]
fn the_log_equals_the_output_of_print_on_the_finished_recording() {
    let place = Place::new();
    for arguments in ["4 20000 100 10", "300 20"] {
        let run = ok(place.longpole(&["record", "--log", "--"]).args(numbered(&place, arguments)).output().unwrap());
        let log = String::from_utf8(run.stdout).unwrap();
        let told = printed(&place, &place.newest());
        assert_eq!(log.lines().count(), told.lines().count());
        assert_same_lines(&log, &told);
    }
}

#[test]
fn losses_have_the_same_times_in_the_log_as_in_the_finished_recording() {
    let place = Place::new();
    let command = numbered(&place, "2 200000");
    let run = ok(place.longpole(&["record", "--log", "--buffer", "4KiB", "--"]).args(command).output().unwrap());
    let log = String::from_utf8(run.stdout).unwrap();
    let (_, lost) = counted(&place, &place.newest());
    assert!(lost > 0 && log.contains(" events lost since ["), "{lost} events are lost");
    assert_same_lines(&log, &printed(&place, &place.newest()));
}

#[test]
fn events_are_in_the_log_while_the_command_still_runs() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let script = format!("{program} 1 3 > /dev/null; read line");
    let mut run = Running::start(
        place.longpole(&["record", "--log", "--", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()),
    );
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    for number in 0..3 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.ends_with(&format!("mark:numbered: {{ data = {number} }}")), "{line}");
    }
    // The command waits for the end of its stdin.
    drop(run.stdin.take());
    assert!(lines.next().is_none());
    run.wait().unwrap();
}

#[test]
fn a_reader_of_the_log_that_stops_or_is_late_causes_no_uncounted_loss() {
    let place = Place::new();
    let start = || {
        let mut command = place.longpole(&["record", "--log", "--"]);
        Running::start(command.args(numbered(&place, "2 50000 1000 1000")).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let mut stopped = start();
    let mut first = String::new();
    BufReader::new(stopped.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("mark:numbered"), "{first}");
    let mut told = String::new();
    stopped.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(stopped.wait().unwrap().success(), "{told}");
    let whole = |said: &str| {
        let (events, lost) = counted(&place, &place.newest());
        assert_eq!(events + lost, emitted(said));
    };
    whole(&std::fs::read_to_string(place.path("said")).unwrap());

    let before = place.recordings().len();
    let late = start();
    let done = || {
        let description = std::fs::read_to_string(place.newest().join("longpole.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&description).is_ok_and(|description| description["end_ns"].is_u64())
    };
    wait_for(|| place.recordings().len() > before && done());
    let log = String::from_utf8(late.output().stdout).unwrap();
    assert_same_lines(&log, &printed(&place, &place.newest()));
    whole(&std::fs::read_to_string(place.path("said")).unwrap());
}

/// The texts of the log events of one stream, as babeltrace2 reads them. `None` if babeltrace2 is
/// not installed.
fn texts(recording: &Path, stream: &str) -> Option<Vec<String>> {
    let Ok(run) = Command::new("babeltrace2").arg(recording.join("user")).output() else {
        println!("skipped: texts by another reader: there is no babeltrace2");
        return None;
    };
    let text = String::from_utf8(ok(run).stdout).unwrap();
    let of_stream = text.lines().filter(|line| line.contains(&format!("thread = \"{stream}\"")));
    let texts = of_stream.map(|line| line.split_once("text = \"").unwrap().1.split("\", align0").next().unwrap().to_owned());
    Some(texts.collect())
}

#[test]
fn the_output_of_a_command_is_passed_on_and_its_lines_are_recorded() {
    let place = Place::new();
    let script = "echo one; echo a problem >&2; sleep 0.01; printf 'two\\n\\nthree'; exit 7";
    let run = place.longpole(&["record", "--capture-output", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(run.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "one\ntwo\n\nthree");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("\na problem\n"), "{said}");
    let told = printed(&place, &place.newest());
    assert!(told.contains(" sh:stderr(-2) log: { text = \"a problem\" }"), "{told}");
    if let Some(texts) = texts(&place.newest(), "stdout") {
        assert_eq!(texts, ["one", "two", "", "three"]);
    }
    assert_eq!(counted(&place, &place.newest()), (5, 0));
}

#[test]
fn binary_output_is_passed_on_unchanged_and_too_many_lines_are_counted_as_lost() {
    let place = Place::new();
    let path = place.path("bytes");
    let mut bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bytes.push(b'x');
    std::fs::write(&path, &bytes).unwrap();
    let run = ok(place.longpole(&["record", "--capture-output", "--", "cat", path.to_str().unwrap()]).output().unwrap());
    assert!(run.stdout == bytes);

    // Prints more lines than the recorder buffers in one period: each line is an event or a lost
    // event.
    let count = 20_000_000u64;
    let command = format!("yes | head -n {count}");
    let mut run = Running::start(
        place.longpole(&["record", "--capture-output", "--", "sh", "-c", &command]).stdout(Stdio::piped()).stderr(Stdio::null()),
    );
    let passed = std::io::copy(&mut run.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(passed, 2 * count);
    let (events, lost) = counted(&place, &place.newest());
    assert_eq!(events + lost, count);
    assert!(lost > 0 && events > 0, "{events} events, {lost} lost");
}

#[test]
fn the_end_of_the_reader_and_output_after_the_end_are_as_without_a_recorder() {
    let place = Place::new();
    // A command whose reader is gone is ended by SIGPIPE.
    let mut run = Running::start(place.longpole(&["record", "--capture-output", "--", "yes"]).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut first = [0; 4];
    run.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"y\ny\n");
    assert_eq!(run.wait().unwrap().code(), Some(128 + 13));

    // Processes that the command leaves behind can still print.
    let script = "(sleep 1; echo late; echo later >&2) & echo now";
    let run = ok(place.longpole(&["record", "--capture-output", "--", "sh", "-c", script]).output().unwrap());
    assert_eq!(String::from_utf8_lossy(&run.stdout), "now\nlate\n");
    assert!(String::from_utf8_lossy(&run.stderr).ends_with("later\n"));
}

#[test]
fn a_command_recorded_on_a_terminal_gets_a_terminal_of_the_same_size() {
    let place = Place::new();
    let longpole = place.longpole(&["record", "--capture-output", "--"]);
    let words: Vec<_> = [longpole.get_program()].into_iter().chain(longpole.get_args()).map(|word| word.to_str().unwrap()).collect();
    let check = "test -t 0 && test -t 1 && test -t 2 && stty size <&1 && printf 'a\\nb'";
    let script = format!("stty rows 33 cols 111; {} sh -c \"{check}\"", words.join(" "));
    let run = ok(place.command("script").args(["-qec", &script, "/dev/null"]).stdin(Stdio::null()).output().unwrap());
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(shown.contains("33 111\r\na\r\nb"), "{shown:?}");
}

#[test]
fn capturing_output_without_a_command_is_wrong_usage() {
    let place = Place::new();
    let run = place.longpole(&["record", "--capture-output", "--for", "1s"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(place.recordings().is_empty());
}
