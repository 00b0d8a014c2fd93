//! A running `longpole view`, and requests to it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The program ends when this is dropped.
pub struct View {
    server: Child,
    port: String,
    /// The part of the address after the port.
    token: String,
}

impl View {
    /// Starts `longpole`; the command has no arguments yet.
    pub fn start(longpole: &mut Command, arguments: &[&str]) -> View {
        let mut server = longpole.args(["view", "--no-open"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let (port, token) = address.trim().strip_prefix("http://127.0.0.1:").expect("an address").split_once('/').unwrap();
        View { server, port: port.to_owned(), token: format!("/{token}") }
    }

    /// Returns the answer to a request about the first trace.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.parse().unwrap())).unwrap();
        write!(stream, "GET {}api/traces/1{path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", self.token, self.port).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        answer.split_off(head)
    }

    pub fn get(&self, path: &str) -> Value {
        serde_json::from_slice(&self.bytes(path)).unwrap()
    }

    pub fn trace(&self) -> Value {
        self.get("")
    }

    /// Waits until this holds for the trace. The reading may take long on a busy host.
    pub fn wait(&self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let trace = self.trace();
            if holds(&trace) {
                return trace;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the trace is read to its end. Returns it.
    pub fn end(&self) -> Value {
        self.wait(|trace| matches!(trace["phase"].as_str(), Some("ready" | "failed")))
    }

    /// Returns the time of the timeline's begin in ns.
    pub fn origin(&self) -> i64 {
        self.trace()["origin_ns"].as_str().unwrap().parse().unwrap()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
