//! `print --follow`: events that are written to a trace while it is printed.

use crate::support::plain_ctf;
use crate::support::plain_ctf::{packet, write, Payload::*, METADATA};
use longpole_testing::user_trace::{Fake, Field, Kind};
use rustix::process::{kill_process, Pid, Signal};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn begin(arguments: &[&str], path: &Path) -> Following {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        command.args(["print", "--follow"]).args(arguments).arg(path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }

    /// Waits for the next `count` lines.
    fn next(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended after {lines:?}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// The remaining text on stdout, the text on stderr, and the exit status.
    fn end(mut self) -> (String, String, Option<i32>) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (rest, String::from_utf8(output.stderr).unwrap(), output.status.code())
    }
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn assert_ends(lines: &[String], ends: &[&str]) {
    assert_eq!(lines.len(), ends.len(), "{lines:?}");
    lines.iter().zip(ends).for_each(|(line, end)| assert!(line.ends_with(end), "{line} {end}"));
}

const fn rx(len: u16) -> plain_ctf::Payload<'static> {
    Rx(len, 0, [0, 0])
}

#[test]
fn new_packets_streams_traces_and_metadata_are_printed() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("first");
    write(&trace, &[("one", vec![packet(0, &[(100, 1, rx(1))])])]);
    let mut following = Following::begin(&["--fields", "len,x"], directory.path());
    assert_ends(&following.next(1), &["{ len = 1 }"]);

    // A packet is printed once it is complete.
    let second = packet(0, &[(200, 1, rx(2)), (300, 1, rx(3))]);
    append(&trace.join("one"), &second[..20]);
    append(&trace.join("two"), &packet(1, &[(250, 1, rx(4))]));
    assert_ends(&following.next(1), &["{ len = 4 }"]);
    append(&trace.join("one"), &second[20..]);
    assert_ends(&following.next(2), &["{ len = 2 }", "{ len = 3 }"]);

    // An event class is added to the metadata, and then an event of this class.
    let more = "event { id = 9; name = \"late\"; stream_id = 0; fields := struct { u8 x; }; };\n";
    append(&trace.join("metadata"), more.as_bytes());
    let mut late = packet(0, &[(400, 1, Unknown)]);
    late.push(77);
    let bits = u32::try_from(late.len() * 8).unwrap().to_le_bytes();
    late[8..12].copy_from_slice(&bits);
    late[12..16].copy_from_slice(&bits);
    append(&trace.join("two"), &late);
    assert_ends(&following.next(1), &["late: { cpu_id = 0 }, { x = 77 }"]);

    // A second trace appears, and the first one is moved, as LTTng moves a trace that it has
    // rotated.
    write(&directory.path().join("second"), &[("one", vec![packet(0, &[(500, 1, rx(5))])])]);
    assert_ends(&following.next(1), &["{ len = 5 }"]);
    fs::rename(&trace, directory.path().join("moved")).unwrap();
    append(&directory.path().join("moved/one"), &packet(0, &[(600, 1, rx(6))]));
    assert_ends(&following.next(1), &["{ len = 6 }"]);

    append(&directory.path().join("second/one"), &second[..30]);
    following.interrupt();
    let (rest, said, status) = following.end();
    assert_eq!((rest.as_str(), status), ("", Some(0)), "{said}");
    assert!(said.contains("second/one ends inside a packet (still being written, or its writer was killed): packet 1 at byte"), "{said}");
}

#[test]
fn a_stream_that_is_one_packet_without_an_end_is_followed_event_by_event() {
    let directory = TempDir::new().unwrap();
    let metadata = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nevent { name = tick; fields := struct { integer { size = 16; } n; }; };\n";
    fs::write(directory.path().join("metadata"), metadata).unwrap();
    fs::write(directory.path().join("stream"), [1, 0, 2]).unwrap();
    let mut following = Following::begin(&[], directory.path());
    assert_ends(&following.next(1), &["tick: { n = 1 }"]);
    append(&directory.path().join("stream"), &[0, 3, 0]);
    assert_ends(&following.next(2), &["tick: { n = 2 }", "tick: { n = 3 }"]);
    following.interrupt();
    let (rest, said, status) = following.end();
    assert_eq!((rest.as_str(), status), ("", Some(0)), "{said}");
}

#[test]
fn tail_prints_the_last_lines_first_and_the_filter_applies_to_all_events() {
    let directory = TempDir::new().unwrap();
    let all = (0..50).map(|n| (1000 + n, 1, rx(n as u16))).collect::<Vec<_>>();
    write(directory.path(), &[("one", vec![packet(0, &all)])]);
    let mut following = Following::begin(&["--tail", "2", "--filter", "len % 1"], directory.path());
    following.child.wait().unwrap();
    assert_eq!(following.end().2, Some(2), "`%` is nothing that a filter knows");
    let mut following = Following::begin(&["--tail", "2", "--filter", "len & 1"], directory.path());
    assert_ends(&following.next(2), &["len = 47, n = 0, part = [ [0] = 0, [1] = 0 ] }", "len = 49, n = 0, part = [ [0] = 0, [1] = 0 ] }"]);
    append(&directory.path().join("one"), &packet(0, &[(2000, 1, rx(60)), (2001, 1, rx(61))]));
    assert!(following.next(1)[0].contains("len = 61,"));
    following.interrupt();
    assert_eq!(following.end().2, Some(0));
}

#[test]
fn a_recording_is_followed_until_its_recorder_ends() {
    let directory = TempDir::new().unwrap();
    let mut fake = Fake::new(directory.path());
    let mark = fake.class("mark:m", &[("n", Kind::U64)]);
    let mut lane = fake.lane("a", "t", 1, 1);
    lane.event(1, mark, &[Field::U64(1)]);
    lane.finish();
    fake.finish();
    let pid = std::process::id();
    fake.describe(&format!(r#"{{"start_ns":5,"recorder_pid":{pid}}}"#));
    let mut following = Following::begin(&[], directory.path());
    assert_ends(&following.next(1), &["mark:m: { n = 1 }"]);
    std::thread::sleep(Duration::from_millis(100));
    assert!(following.child.try_wait().unwrap().is_none(), "the recorder has not ended");
    fs::write(directory.path().join("longpole.json"), r#"{"start_ns":5,"end_ns":6}"#).unwrap();
    let (rest, said, status) = following.end();
    assert_eq!((rest.as_str(), status), ("", Some(0)), "{said}");
}

#[test]
fn a_folder_without_a_trace_is_refused_and_incomplete_metadata_is_followed() {
    let directory = TempDir::new().unwrap();
    let output = Following::begin(&[], directory.path()).end();
    assert_eq!(output.2, Some(1));
    fs::write(directory.path().join("metadata"), &METADATA[..200]).unwrap();
    // Incomplete metadata is not an error, because the tracer may still be writing it.
    let following = Following::begin(&[], directory.path());
    std::thread::sleep(Duration::from_millis(100));
    following.interrupt();
    assert_eq!(following.end().2, Some(0));
}
