//! A server with traces that the tests write as machine logs, and a client of a few lines.

use longpole_analysis::compare::diff::{diff, Side};
use longpole_analysis::critical_path::cpu_holders::Replayed;
use longpole_analysis::critical_path::{CriticalPath, Options as PathOptions};
use longpole_analysis::machine_log::Reader;
use longpole_analysis::pipeline::pictures::Pictures;
use longpole_analysis::pipeline::samples::SampleScope;
use longpole_analysis::pipeline::wait_stacks::{ShownStack, WaitStack};
use longpole_analysis::scheduling::flame_graph::{Code, FlameGraph, FlameGraphs, Frame};
use longpole_analysis::scheduling::sampled_waits::SampledWait;
use longpole_analysis::scheduling::stacks::Counts;
use longpole_analysis::scheduling::time_kind::TimeKind;
use longpole_analysis::timeline::{add_path, CpuRows, RowKind, ThreadFacts, TimelineWriter, ValueSeries};
use longpole_model::interaction::MachineId;
use longpole_model::linux::watch::{ContextId, CpuId, Occupant};
use longpole_model::linux::Linux;
use longpole_serve::{Analyst, EventLine, EventLines, EventQuery, Options, PictureAnswers, Reading, Server, TraceCounts};
use longpole_trace::EventIndex;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Time of the first line of the test's log, in ns.
pub const ORIGIN: u64 = 1_764_000_000_000_000_000;

/// A log of two threads of a process, a disk, and an interrupt. The path is: parser works, the disk
/// answers, writer works.
pub fn log() -> String {
    let lines = [
        json!({"t": 0, "machine": "parser", "state": "parse"}),
        json!({"t": 0, "machine": "writer", "state": "prepare"}),
        json!({"t": 0, "machine": "disk", "blocked": "idle", "on": "orders", "for": "tokens"}),
        json!({"t": 100, "machine": "writer", "blocked": "wait for items"}),
        json!({"t": 400, "machine": "irq 36", "on_top_of": "parser"}),
        json!({"t": 450, "machine": "irq 36", "pop": true}),
        json!({"t": 600, "machine": "parser", "put": "orders"}),
        json!({"t": 600, "machine": "disk", "get": "orders"}),
        json!({"t": 600, "machine": "disk", "state": "seek"}),
        json!({"t": 600, "machine": "parser", "state": "<b>clean</b>"}),
        json!({"t": 800, "machine": "writer", "woken_by": "disk", "link": "answer"}),
        json!({"t": 800, "machine": "disk", "blocked": "idle", "on": "orders", "for": "tokens"}),
        json!({"t": 800, "machine": "writer", "state": "write"}),
        json!({"t": 1000, "machine": "writer", "state": "flush"}),
        json!({"t": 1100, "end": "writer"}),
    ];
    let moved = lines.map(|mut line| {
        line["t"] = (ORIGIN + line["t"].as_u64().unwrap()).into();
        line.to_string() + "\n"
    });
    moved.concat()
}

/// A log in which a machine changes its state `count` times, each for 10 ns.
pub fn many_states(count: u64) -> String {
    let state = |at: u64| json!({"t": ORIGIN + at * 10, "machine": "m", "state": format!("s{}", at % 3)}).to_string() + "\n";
    (0..count).map(state).chain([json!({"t": ORIGIN + count * 10, "end": "m"}).to_string()]).collect()
}

/// Begin of a log whose host has two CPUs.
const CPU_MARK: &str = "{\"queue\":\"cpus\"}";

/// The log with two CPUs: CPU 0 is idle for 550 ns and then in an interrupt, CPU 1 is in one for
/// 1000 ns, of which the events of 3 ns are lost.
pub fn log_with_cpus() -> String {
    format!("{CPU_MARK}\n{}", log())
}

fn add_cpus(reading: &Reading) {
    let linux = Linux::new(0, i64::MAX).unwrap();
    let mut cpus = CpuRows::default();
    let mut cpus = cpus.filled(&reading.timeline, &linux);
    let begin = ORIGIN as i64;
    let interrupt = Occupant::Context(ContextId(0));
    for (cpu, by, from, to) in [
        (0, Occupant::Idle, 0, 550),
        (0, interrupt, 550, 1100),
        (1, interrupt, 0, 700),
        (1, Occupant::Lost, 700, 703),
        (1, interrupt, 703, 1000),
    ] {
        cpus.occupied(CpuId(cpu), by, begin + from, begin + to);
    }
    cpus.finish();
}

/// Adds a queue for 4 items, with 0 from the begin, 3 from 100 and 1 from 600 ns on.
fn add_queue(reading: &Reading) {
    let changes = [(0, 0.0), (100, 3.0), (600, 1.0)];
    let series = ValueSeries {
        kind: RowKind::Queue,
        host: "",
        name: "parcels",
        detail: "capacity 4".to_owned(),
        unit: Some("items"),
        capacity: Some(4),
        each_change: &|visit| {
            changes.iter().for_each(|&(t, value)| visit((ORIGIN + t) as i64, value));
            Ok(())
        },
    };
    reading.timeline.add_values(&series).unwrap();
}

/// The wait of writer, from 100 to 800 ns, whose end was sampled 20 ns later.
fn sampled_wait() -> SampledWait {
    let at = |t: u64| (ORIGIN + t) as i64;
    let (kind, lock) = (TimeKind::Waiting, None);
    SampledWait { t_ns: at(820), tid: 12, begin_ns: at(100), ready_ns: at(790), end_ns: at(800), kind, by_thread: true, lock }
}

/// Number of functions that `main` of the flame graph calls.
pub const CALLED: u64 = 30_000;

/// Samples in which `main` calls many functions: the n-th one has n samples.
fn flame_graph() -> FlameGraph {
    let frame = |depth, name: String, code, count, own| Frame { depth, name, code, count, own };
    let all = CALLED * (CALLED + 1) / 2;
    let callers = [frame(0, "shop".to_owned(), Code::Process, all, 0), frame(1, "main".to_owned(), Code::Program, all, 0)];
    let called = (1..=CALLED).map(|count| frame(2, format!("f{count}"), Code::Kernel, count, count));
    let counts = Counts { busy: all, lost: 7, beyond: 0 };
    FlameGraph { counts, frames: callers.into_iter().chain(called).collect(), least: 1, ..FlameGraph::default() }
}

/// Returns the critical path of a log for a comparison.
fn side(path: &Path) -> Result<Side, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let mut log = Reader::new(text.as_slice());
    let mut path = CriticalPath::new(PathOptions { segments: true, ..PathOptions::default() });
    while let Some(interaction) = log.next_interaction().map_err(|error| format!("no machine log: {error}"))? {
        path.interaction(log.vocabulary(), &interaction);
    }
    let mut side = Side::default();
    side.add_path(&path.answer(log.vocabulary()).map_err(|error| error.to_string())?);
    Ok(side)
}

/// Reads machine logs. A file that is none is refused with its text.
struct LogAnalyst;

impl Analyst for LogAnalyst {
    fn read(&self, path: &Path, reading: &Reading) -> Result<Value, String> {
        let text = fs::read(path).map_err(|error| error.to_string())?;
        if text.starts_with(b"panic") {
            panic!("as the test asked for");
        }
        if text.starts_with(b"events") {
            return Ok(json!({"inputs": {"start_ns": ORIGIN, "end_ns": ORIGIN + 7, "lost": 2}}));
        }
        let mut log = Reader::new(text.as_slice());
        let mut writer = TimelineWriter::new(reading.timeline.clone());
        let mut path = CriticalPath::new(PathOptions { segments: true, ..PathOptions::default() });
        let mut events = 0;
        while let Some(interaction) = log.next_interaction().map_err(|error| format!("no machine log: {error}"))? {
            writer.interaction(log.vocabulary(), &interaction);
            path.interaction(log.vocabulary(), &interaction);
            events += 1;
        }
        let vocabulary = log.vocabulary();
        let facts = |machine: MachineId| {
            let name = vocabulary.machine_name(machine).to_owned();
            let tid = match name.as_str() {
                "parser" => 11,
                "writer" => 12,
                _ => return None,
            };
            let program = "shop".to_owned();
            Some((machine, ThreadFacts { pid: 10, tid, program, role: None, name, is_kernel: false, is_recorder: false }))
        };
        let threads: HashMap<MachineId, ThreadFacts> = vocabulary.machines().filter_map(facts).collect();
        writer.finish(vocabulary, &threads);
        reading.timeline.set_sampled_waits(&[sampled_wait()]);
        if text.starts_with(CPU_MARK.as_bytes()) {
            add_cpus(reading);
            add_queue(reading);
        }
        reading.analyses(TraceCounts { events, lost: 3 });
        let answer = path.answer(vocabulary).map_err(|error| error.to_string())?;
        add_path(&reading.timeline, vocabulary, &answer);
        let pictures = Pictures::default().with_flames(Some(FlameGraphs { all: flame_graph(), on_path: None }));
        reading.keep(PictureAnswers::new(&pictures, ORIGIN), EventIndex::default());
        let evidence = |begin: u64, end: u64| json!({"start_ns": ORIGIN + begin, "end_ns": ORIGIN + end});
        Ok(json!({
            "verdict": {"text": "parser is the bottleneck", "evidence": evidence(0, 600)},
            "findings": [
                {"kind": "slow disk", "subject": "disk", "count": 1, "share": 0.2, "evidence": evidence(600, 800), "advice": "buy another"},
                {"kind": "nowhere", "subject": "disk", "count": 1, "share": 0.2, "evidence": evidence(0, 0), "advice": "none"},
            ],
        }))
    }

    fn events(&self, _: &Path, _: &Reading, _: &EventQuery, _: &dyn Fn(&mut EventLine) -> bool) -> Result<EventLines, String> {
        Ok(EventLines::default())
    }

    fn stacks(&self, _: &Path, _: &Reading, _: Range<i64>, _: SampleScope) -> Result<Option<FlameGraph>, String> {
        Ok(None)
    }

    fn wait_stack(&self, _: &Path, _: &Reading, wait: &SampledWait) -> Result<Option<WaitStack>, String> {
        let stack = |tid: i32| ShownStack { tid, process: "shop".to_owned(), frames: Vec::new(), own: None, truncated: false };
        Ok(Some(WaitStack { kind: wait.kind, waiter: stack(wait.tid), waker: Some(stack(11)), woken_ns: Some(wait.ready_ns) }))
    }

    fn what_if(&self, _: &Path, _: &[String]) -> Result<Value, String> {
        Err("not in this test".to_owned())
    }

    fn diff(&self, base: &Path, new: &Path) -> Result<Value, String> {
        serde_json::to_value(diff(&side(base)?, &side(new)?, 0.5)).map_err(|error| error.to_string())
    }

    fn whole(&self, path: &Path) -> PathBuf {
        if path.ends_with("recording/part") {
            path.with_file_name("log")
        } else {
            path.to_owned()
        }
    }
}

/// A server with one root. It runs until the test's process ends.
pub struct Served {
    pub port: u16,
    /// Path of the protocol, with the token.
    pub place: String,
    directory: TempDir,
}

/// An answer: status, headers in lower case, and body.
pub struct Answered {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        assert_eq!(self.headers.get("content-type").map(String::as_str), Some("application/json"), "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Served {
    pub fn new() -> Served {
        Served::with(|_| Options::default())
    }

    pub fn without_token() -> Served {
        Served::with(|_| Options { without_token: true, ..Options::default() })
    }

    /// Starts a server with further options, which may depend on the directory above the root.
    pub fn with(options: impl Fn(&Path) -> Options) -> Served {
        let directory = tempfile::tempdir().unwrap();
        for name in ["root/recording", "outside"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for (name, text) in [("root/log", log()), ("root/recording/log", log()), ("root/recording/part", log()), ("outside/log", log())] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        fs::write(directory.path().join("root/text"), "no trace").unwrap();
        fs::write(directory.path().join("root/panic"), "panic").unwrap();
        let options = Options { roots: vec![directory.path().join("root")], ..options(directory.path()) };
        let server = Server::start(options, Arc::new(LogAnalyst)).unwrap();
        let address = server.protocol_address();
        thread::spawn(move || server.run());
        let rest = address.strip_prefix("http://127.0.0.1:").unwrap();
        let (port, place) = rest.split_once('/').unwrap();
        Served { port: port.parse().unwrap(), place: format!("/{place}"), directory }
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Sends a request, with these headers in addition to Host and length.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        stream.write_all((request + "\r\n" + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Answered { status, headers: headers.collect(), body: body.to_owned() }
    }

    pub fn get(&self, path: &str) -> Answered {
        self.send("GET", &format!("{}/{path}", self.place), &[], "")
    }

    /// Waits until the trace is read, or given up.
    pub fn wait_for(&self, trace: u32) {
        while !["ready", "failed"].contains(&self.ask(&format!("traces/{trace}")).json()["phase"].as_str().unwrap()) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request of the page, such as `traces`.
    pub fn ask(&self, path: &str) -> Answered {
        self.send("GET", &format!("{}/{path}", self.place.replace("/tsp/api", "/api")), &[], "")
    }

    pub fn delete(&self, path: &str) -> Answered {
        self.send("DELETE", &format!("{}/{path}", self.place), &[], "")
    }

    /// Posts parameters.
    pub fn post(&self, path: &str, parameters: Value) -> Answered {
        self.send(
            "POST",
            &format!("{}/{path}", self.place),
            &[("Content-Type", "application/json")],
            &json!({"parameters": parameters}).to_string(),
        )
    }

    /// Posts parameters, and returns the model of the answer, which must be complete.
    pub fn model(&self, path: &str, parameters: Value) -> Value {
        let answer = self.post(path, parameters);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let answer = answer.json();
        assert_eq!(answer["status"], "COMPLETED", "{path}: {answer}");
        answer["model"].clone()
    }

    pub fn open(&self, name: &str) -> Answered {
        self.post("traces", json!({"name": name, "uri": self.path(name)}))
    }

    /// Opens traces and waits until they are read. Returns the place of the experiment's outputs.
    pub fn experiment(&self, names: &[&str]) -> String {
        let uuids: Vec<Value> = names.iter().map(|name| self.open(name).json()["UUID"].clone()).collect();
        let experiment = self.post("experiments", json!({"name": names.join(" "), "traces": uuids})).json();
        let place = format!("experiments/{}", experiment["UUID"].as_str().unwrap());
        while self.get(&place).json()["indexingStatus"] == "RUNNING" {
            thread::sleep(Duration::from_millis(5));
        }
        format!("{place}/outputs")
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}
