//! Writes the state dump (processes, files and devices at the start of the recording) as LTTng's
//! `lttng_statedump_*` events.
//!
//! The recorder took the state from /proc, so some of LTTng's fields are not known. They get the
//! value that LTTng uses for "unknown" or "none".

use super::super::ctf::Stream;
use super::super::layout::encode::integer;
use super::super::layout::known_threads::{KnownThread, KnownThreads};
use super::super::layout::{Int, Kind, Layout, I32, MAX_RT_PRIO};
use super::Converted;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

const START: usize = 0;
const PROCESS: usize = 1;
const FILE: usize = 2;
const INTERRUPT: usize = 3;
const INTERFACE: usize = 4;
const BLOCK: usize = 5;
const END: usize = 6;
const QDISC: usize = 7;
const SOCKET: usize = 8;
const FUNCTION: usize = 9;
const SCRIPT: usize = 10;
const TITLE: usize = 11;
const CGROUP: usize = 12;

/// Longest accepted line of a state dump, in bytes.
const MAX_LINE: u64 = 1 << 20;
/// Longest text that is written, in bytes.
const MAX_TEXT: usize = 4096;

const I64: Int = Int { signed: true, ..Int::unsigned(64) };
const U32: Int = Int::unsigned(32);
const OCTAL: Int = Int { base: 8, ..Int::unsigned(32) };
const ADDRESS: Int = Int { base: 16, ..Int::unsigned(64) };
const HEX: Int = Int { base: 16, ..Int::unsigned(32) };

/// Values of lttng-modules' state dump.
const USER_THREAD: i64 = 0;
const KERNEL_THREAD: i64 = 1;
const MODE_UNKNOWN: i64 = 5;
const NO_SUBMODE: i64 = 0;
const UNNAMED: i64 = 0;
const WAIT_CPU: i64 = 2;
const ZOMBIE: i64 = 4;
const WAIT: i64 = 5;
const DEAD: i64 = 7;
/// Pid of `kthreadd`, the parent of all kernel threads.
const KTHREADD: i64 = 2;

/// Names and fields of the classes, in the order of the constants above. Fields after LTTng's are
/// ours.
pub fn classes() -> Vec<(String, Vec<(String, Kind)>)> {
    let named =
        |name: String, fields: &[(&str, Kind)]| (name, fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect());
    let class = |name: &str, fields: &[(&str, Kind)]| named(format!("lttng_statedump_{name}"), fields);
    // LTTng has no counterpart of these classes.
    let own = |name: &str, fields: &[(&str, Kind)]| named(format!("longpole_statedump_{name}"), fields);
    const INT: Kind = Kind::Int(I32);
    const UNSIGNED: Kind = Kind::Int(U32);
    vec![
        class("start", &[]),
        class(
            "process_state",
            &[
                ("tid", INT),
                ("vtid", INT),
                ("pid", INT),
                ("vpid", INT),
                ("ppid", INT),
                ("vppid", INT),
                ("name", Kind::Text(16)),
                ("type", INT),
                ("mode", INT),
                ("submode", INT),
                ("status", INT),
                ("ns_level", INT),
                ("ns_inum", UNSIGNED),
                ("cpu", UNSIGNED),
                ("prio", INT),
                ("policy", INT),
                ("cpus_allowed", Kind::String),
                ("exe", Kind::String),
                ("call", Kind::String),
                ("call_about", Kind::Int(I64)),
            ],
        ),
        class(
            "file_descriptor",
            &[("pid", INT), ("fd", INT), ("flags", Kind::Int(OCTAL)), ("fmode", Kind::Int(HEX)), ("filename", Kind::String)],
        ),
        class("interrupt", &[("irq", UNSIGNED), ("name", Kind::String), ("action", Kind::String), ("affinity", Kind::String)]),
        class("network_interface", &[("name", Kind::String), ("address_ipv4", Kind::Int(Int { big: true, ..HEX })), ("ifindex", UNSIGNED)]),
        class("block_device", &[("dev", UNSIGNED), ("diskname", Kind::String)]),
        class("end", &[]),
        own("qdisc", &[("dev", Kind::String), ("kind", Kind::String), ("ifindex", UNSIGNED), ("handle", UNSIGNED), ("parent", UNSIGNED)]),
        own(
            "socket",
            &[
                ("pid", INT),
                ("protocol", UNSIGNED),
                ("port", UNSIGNED),
                ("inode", Kind::Int(Int::unsigned(64))),
                // Numbers as in `include/net/tcp_states.h`.
                ("state", UNSIGNED),
            ],
        ),
        own("function", &[("address", Kind::Int(ADDRESS)), ("name", Kind::String)]),
        own("script", &[("pid", INT), ("name", Kind::String)]),
        own("title", &[("pid", INT), ("name", Kind::String)]),
        own("cgroup", &[("pid", INT), ("path", Kind::String)]),
    ]
}

/// Destination of the state dump's events.
pub struct StateEvents<'a> {
    pub stream: &'a mut Stream,
    pub time: u64,
    /// Id of the first class of the state dump.
    pub first: u16,
    /// Number of events by class, for all classes of the trace.
    pub counts: &'a mut [u64],
    /// Bytes of the context before each payload.
    pub context: Vec<u8>,
    /// Tables with the names of system calls.
    pub layout: &'a Layout,
}

impl StateEvents<'_> {
    fn event(&mut self, kind: usize, payload: &[u8]) -> io::Result<()> {
        let id = self.first + kind as u16;
        self.counts[usize::from(id)] += 1;
        let out = self.stream.event(self.time, id)?;
        out.extend_from_slice(&self.context);
        out.extend_from_slice(payload);
        Ok(())
    }

    /// Writes the state and the names of processes, which were collected until the end, as events
    /// of one moment. A missing dump or a broken line is reported and costs only itself.
    pub fn write(
        &mut self,
        file: io::Result<File>,
        names: io::Result<File>,
        threads: &mut KnownThreads,
        done: &mut Converted,
    ) -> io::Result<()> {
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                done.note(format!("no state dump: {error}"));
                return Ok(());
            }
        };
        self.event(START, &[])?;
        // Recordings of older recorders have no names.
        let names: Box<dyn Read> = names.map_or_else(|_| Box::new(io::empty()) as Box<dyn Read>, |file| Box::new(file));
        let broken = self.lines(BufReader::new(file.chain(names)), threads)?;
        self.event(END, &[])?;
        if broken > 0 {
            done.note(format!("{broken} lines of the state dump are not JSON"));
        }
        Ok(())
    }

    /// Writes an event for each line. Returns the number of broken lines.
    pub fn lines(&mut self, mut reader: impl BufRead, threads: &mut KnownThreads) -> io::Result<u64> {
        let (mut line, mut payload, mut broken) = (Vec::new(), Vec::new(), 0u64);
        loop {
            line.clear();
            if (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Ok(value) = serde_json::from_slice::<Value>(&line) else {
                broken += 1;
                continue;
            };
            payload.clear();
            let kind = match value["kind"].as_str() {
                Some("process") => {
                    process(&value, self.layout, threads, &mut payload);
                    PROCESS
                }
                Some("file_descriptor") => {
                    integer(&mut payload, number(&value["pid"], 0), I32);
                    integer(&mut payload, number(&value["fd"], 0), I32);
                    integer(&mut payload, number(&value["flags"], 0), U32);
                    integer(&mut payload, number(&value["fmode"], 0), HEX);
                    text(&mut payload, &value["path"]);
                    FILE
                }
                Some("interrupt") => {
                    integer(&mut payload, number(&value["irq"], 0), U32);
                    text(&mut payload, &value["chip"]);
                    text(&mut payload, &value["name"]);
                    text(&mut payload, &value["affinity"]);
                    INTERRUPT
                }
                Some("network_interface") => {
                    text(&mut payload, &value["name"]);
                    payload.extend_from_slice(&address(&value["address_ipv4"]));
                    integer(&mut payload, number(&value["ifindex"], 0), U32);
                    INTERFACE
                }
                Some("block_device") => {
                    integer(&mut payload, device(&value["dev"]), U32);
                    text(&mut payload, &value["name"]);
                    BLOCK
                }
                Some("qdisc") => {
                    text(&mut payload, &value["dev"]);
                    text(&mut payload, &value["name"]);
                    for name in ["ifindex", "handle", "parent"] {
                        integer(&mut payload, number(&value[name], 0), U32);
                    }
                    QDISC
                }
                Some("socket") => {
                    integer(&mut payload, number(&value["pid"], 0), I32);
                    integer(&mut payload, number(&value["protocol"], 0), U32);
                    integer(&mut payload, number(&value["port"], 0), U32);
                    integer(&mut payload, number(&value["inode"], 0), Int::unsigned(64));
                    integer(&mut payload, number(&value["state"], 0), U32);
                    SOCKET
                }
                Some("function") => {
                    integer(&mut payload, value["address"].as_u64().unwrap_or(0) as i64, ADDRESS);
                    text(&mut payload, &value["name"]);
                    FUNCTION
                }
                Some(kind @ ("script" | "title" | "cgroup")) => {
                    integer(&mut payload, number(&value["pid"], 0), I32);
                    text(&mut payload, &value["name"]);
                    match kind {
                        "script" => SCRIPT,
                        "title" => TITLE,
                        _ => CGROUP,
                    }
                }
                // Ignored: a later recorder may write other kinds.
                _ => continue,
            };
            self.event(kind, &payload)?;
        }
        Ok(broken)
    }
}

fn process(value: &Value, layout: &Layout, threads: &mut KnownThreads, out: &mut Vec<u8>) {
    let tid = number(&value["tid"], 0);
    let pid = number(&value["pid"], tid);
    let parent = number(&value["ppid"], 0);
    let prio = number(&value["prio"], 120);
    let name = value["comm"].as_str().unwrap_or("").as_bytes();
    let mut comm = [0; 16];
    let size = name.len().min(15);
    comm[..size].copy_from_slice(&name[..size]);
    threads.insert(tid as i32, KnownThread { pid: pid as i32, ppid: parent as i32, comm, prio: prio as i32 });
    // Both lists go from the recorder's pid namespace down to the thread's own.
    let inner = |key: &str, otherwise: i64| value[key].as_array().and_then(|all| all.last()?.as_i64()).unwrap_or(otherwise);
    let level = value["vtids"].as_array().map_or(0, |all| all.len().saturating_sub(1)) as i64;
    for number in [tid, inner("vtids", tid), pid, inner("vpids", pid), parent, parent] {
        integer(out, number, I32);
    }
    out.extend_from_slice(&comm);
    let kernel = value["kernel_thread"].as_bool().unwrap_or(pid == KTHREADD || parent == KTHREADD);
    let kind = if kernel { KERNEL_THREAD } else { USER_THREAD };
    let status = match value["state"].as_str().and_then(|state| state.chars().next()) {
        Some('R') => WAIT_CPU,
        Some('S' | 'D' | 'I' | 'K' | 'W') => WAIT,
        Some('Z') => ZOMBIE,
        Some('X' | 'x') => DEAD,
        _ => UNNAMED,
    };
    for number in [kind, MODE_UNKNOWN, NO_SUBMODE, status, level] {
        integer(out, number, I32);
    }
    integer(out, number(&value["ns_inum"], 0), U32);
    integer(out, number(&value["cpu"], 0), U32);
    integer(out, prio - MAX_RT_PRIO, I32);
    integer(out, number(&value["policy"], -1), I32);
    text(out, &value["cpus_allowed"]);
    text(out, &value["exe"]);
    let number = value["call"].as_u64().and_then(|number| u32::try_from(number).ok());
    let call = number.and_then(|number| layout.calls.iter().find(|call| call.number == number));
    out.extend_from_slice(call.map_or("", |call| call.name.as_str()).as_bytes());
    out.push(0);
    let first = call.and_then(|call| call.args.first()).filter(|first| FILE_ARGUMENTS.contains(&first.name.as_str()));
    integer(out, first.and(value["call_about"].as_i64()).unwrap_or(-1), I64);
}

/// Names by which system calls have an open file as their first argument.
const FILE_ARGUMENTS: [&str; 6] = ["fd", "fildes", "oldfd", "epfd", "fd_in", "in_fd"];

fn number(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(otherwise)
}

fn text(out: &mut Vec<u8>, value: &Value) {
    let bytes = value.as_str().unwrap_or("").as_bytes();
    out.extend(bytes.iter().take(MAX_TEXT).take_while(|byte| **byte != 0));
    out.push(0);
}

fn address(value: &Value) -> [u8; 4] {
    value.as_str().and_then(|text| text.parse::<std::net::Ipv4Addr>().ok()).map_or([0; 4], |address| address.octets())
}

/// Device number in the kernel's internal form: 12 bits major, 20 bits minor.
fn device(value: &Value) -> i64 {
    let pair = value.as_str().and_then(|text| text.split_once(':'));
    match pair.and_then(|(major, minor)| Some((major.parse::<i64>().ok()?, minor.parse::<i64>().ok()?))) {
        Some((major, minor)) => major << 20 | minor & 0xf_ffff,
        None => number(value, 0),
    }
}
