//! The difference of two traces that `serve` answers is that of `diff`.

use serde_json::{json, Value};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Writes the machine log of a worker that takes `work` ns for each of 200 items, and waits 100 ns.
fn log(place: &TempDir, name: &str, work: u64) -> PathBuf {
    let (mut text, mut t) = (String::new(), 0);
    for item in 0..200 {
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"worker\",\"state\":\"work\"}}");
        t += work + item * 7 % 11;
        let _ = writeln!(text, "{{\"t\":{t},\"machine\":\"worker\",\"state\":\"rest\"}}");
        t += 100;
    }
    let _ = writeln!(text, "{{\"t\":{t},\"end\":\"worker\"}}");
    let path = place.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// A server for the traces in a directory, which ends with the test.
struct Served {
    child: Child,
    authority: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn new(place: &TempDir) -> Served {
        let arguments = ["serve", "--no-token", "--root"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
        let mut child = command.args(arguments).arg(place.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let authority = address.trim().strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Served { child, authority }
    }

    /// Returns the status and the body of an answer.
    fn send(&self, request: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.authority);
        write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    fn open(&self, path: &Path) {
        let body = json!({"parameters": {"uri": path}}).to_string();
        let (status, answer) = self.send("POST /tsp/api/traces", &body);
        assert_eq!(status, 200, "{answer}");
    }

    /// Asks until both traces are read.
    fn diff(&self, base: u32, new: u32) -> Value {
        loop {
            match self.send(&format!("GET /api/diff?base={base}&new={new}"), "") {
                (202, _) => thread::sleep(Duration::from_millis(5)),
                (status, answer) => {
                    assert_eq!(status, 200, "{answer}");
                    return answer;
                }
            }
        }
    }
}

/// Returns the answer of the command, without the version of its form.
fn printed(a: &Path, b: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).args(["diff", "--json"]).args([a, b]).output().unwrap();
    let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer.as_object_mut().unwrap().remove("schema_version");
    answer
}

#[test]
fn the_server_answers_what_diff_prints_in_both_directions() {
    let place = TempDir::new().unwrap();
    let (before, after) = (log(&place, "before", 100), log(&place, "after", 300));
    let served = Served::new(&place);
    served.open(&before);
    served.open(&after);
    let expected = printed(&before, &after);
    assert_eq!(expected["verdict"]["kind"], "changed");
    assert_eq!(served.diff(1, 2), expected);
    assert_eq!(served.diff(2, 1), printed(&after, &before));
    assert_eq!(served.diff(1, 1)["verdict"]["kind"], "nothing");
}
