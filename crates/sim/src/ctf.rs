//! Writes a simulation as the trace that probes in its programs would have recorded
//! (docs/formats/user-trace.md).
//!
//! Each machine is a process with one thread and a stream of its own. Work is a span; queues, calls
//! and signals are recorded by their probes. What only the kernel could record (which thread has a
//! CPU, timers, other hosts) is not in such a trace, and a system that needs it is rejected.
//! Readers order the events of several streams by time alone, so no two events have the same time:
//! events at one instant are one nanosecond apart.

use crate::sink::{Effect, Sink, Wait};
use crate::system::{each_step, Id, Step, System};
use longpole_ctf::types::{
    ArrayType, ByteOrder, Encoding, EnvValue, EventClass, IntType, Length, Member, Schema, StreamClass, StructType, TraceClass, Type,
    Version,
};
use longpole_ctf::{write, Clock, Span};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const UUID: [u8; 16] = *b"longpole-sim-ctf";
/// 2026-01-01, in seconds since the Unix epoch.
const EPOCH_S: i64 = 1_767_225_600;
const HEADER: usize = 256;
const PAGE: usize = 4096;
const PACKET: usize = 60_000;
/// Process id of the first machine.
const FIRST_PID: i32 = 1001;

/// A sink that writes a CTF trace into a directory.
pub struct Ctf {
    directory: PathBuf,
    lanes: Vec<Lane>,
    queues: Vec<Queue>,
    states: Vec<String>,
    classes: Vec<EventClass>,
    ids: HashMap<String, u16>,
    last: u64,
    error: Option<io::Error>,
}

struct Queue {
    /// Name without the prefix `rpc:` or `signal:`.
    name: String,
    uri: String,
    is_call: bool,
    is_signal: bool,
    /// Ids of calls that no server has taken yet.
    calls: VecDeque<u64>,
    /// Ids of open calls, by caller.
    open: HashMap<Id, u64>,
}

struct Lane {
    file: Option<File>,
    name: String,
    pid: i32,
    label: String,
    events: Vec<u8>,
    begin: Option<u64>,
    end: u64,
    packets: u64,
    span: Option<Id>,
    calls: u64,
}

impl Ctf {
    /// The reason why probes alone cannot record this system; `None` if they can.
    pub fn cannot_tell(system: &System) -> Option<String> {
        let mut sleeps = false;
        for machine in &system.machines {
            each_step(&mut machine.program.clone(), &mut |step| sleeps |= matches!(step, Step::Sleep { .. } | Step::Tick { .. }));
        }
        let host = system.machines.first().map(|machine| &machine.host);
        let what = if sleeps {
            "timers"
        } else if !system.pools.is_empty() {
            "who waits for a CPU"
        } else if system.machines.iter().any(|machine| Some(&machine.host) != host) {
            "other hosts"
        } else {
            return None;
        };
        Some(format!("probes do not describe {what}; take its machine log"))
    }

    pub fn create(directory: &Path) -> io::Result<Ctf> {
        fs::create_dir_all(directory)?;
        Ok(Ctf {
            directory: directory.to_owned(),
            lanes: Vec::new(),
            queues: Vec::new(),
            states: Vec::new(),
            classes: Vec::new(),
            ids: HashMap::new(),
            last: 0,
            error: None,
        })
    }

    pub fn finish(mut self) -> io::Result<()> {
        for lane in &mut self.lanes {
            if !lane.events.is_empty() {
                lane.packet(&self.directory)?;
            }
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        fs::write(self.directory.join("metadata"), write::metadata(&schema(self.classes)))
    }

    fn event(&mut self, machine: Id, name: &str, uri: Option<&str>, fields: &[(&str, u64)]) {
        let next = self.ids.len() as u16 + 1;
        let id = *self.ids.entry(name.to_owned()).or_insert_with(|| {
            let member = |field: &(&str, u64)| Member { name: format!("_{}", field.0), ty: Type::unsigned(64, 64, ByteOrder::Little) };
            self.classes.push(EventClass {
                id: u64::from(next),
                name: name.to_owned(),
                loglevel: None,
                model_emf_uri: uri.map(str::to_owned),
                payload: Some(Arc::new(StructType::new(64, fields.iter().map(member).collect()))),
                ..EventClass::default()
            });
            next
        });
        let (t, lane) = (self.last, &mut self.lanes[machine as usize]);
        lane.begin.get_or_insert(t);
        lane.end = t;
        lane.events.extend_from_slice(&(t << 16 | u64::from(id)).to_le_bytes());
        fields.iter().for_each(|field| lane.events.extend_from_slice(&field.1.to_le_bytes()));
        if lane.events.len() >= PACKET && self.error.is_none() {
            self.error = lane.packet(&self.directory).err();
        }
    }

    fn span(&mut self, machine: Id, kind: &str, state: Id) {
        let name = format!("span_{kind}:{}", self.states[state as usize]);
        self.event(machine, &name, Some("longpole:site?file=simulated.c&line=1"), &[]);
    }

    fn queue(&mut self, machine: Id, queue: Id, kind: &str, count: Option<u64>) {
        let Queue { name, uri, .. } = &self.queues[queue as usize];
        let (name, uri) = (format!("queue_{kind}:{name}"), uri.clone());
        let field = count.map(|count| ("count", count));
        self.event(machine, &name, Some(&uri), field.as_slice());
    }

    fn named(&mut self, machine: Id, queue: Id, kind: &str, field: Option<(&str, u64)>) {
        let name = format!("{kind}:{}", self.queues[queue as usize].name);
        self.event(machine, &name, Some("longpole:site?file=simulated.c&line=2"), field.as_slice());
    }
}

impl Sink for Ctf {
    fn begin(&mut self, system: &System) {
        self.states = system.states.clone();
        for (at, machine) in system.machines.iter().enumerate() {
            let mut lane = Lane {
                file: None,
                name: format!("{}-{at}", machine.class.replace(['/', ' '], "_")),
                pid: FIRST_PID + at as i32,
                label: machine.class.clone(),
                events: Vec::new(),
                begin: None,
                end: 0,
                packets: 0,
                span: None,
                calls: 0,
            };
            self.error = self.error.take().or(lane.packet(&self.directory).err());
            self.lanes.push(lane);
        }
        for queue in &system.queues {
            let name = queue.name.strip_prefix("rpc:").or(queue.name.strip_prefix("signal:")).unwrap_or(&queue.name);
            let capacity = queue.capacity.map_or(String::new(), |capacity| format!("&capacity={capacity}"));
            let (order, unit) = (if queue.lifo { "lifo" } else { "fifo" }, if queue.bytes { "bytes" } else { "items" });
            self.queues.push(Queue {
                name: name.to_owned(),
                uri: format!("longpole:site?file=simulated.c&line=3&order={order}&unit={unit}{capacity}"),
                is_call: queue.is_call(),
                is_signal: queue.merge,
                calls: VecDeque::new(),
                open: HashMap::new(),
            });
        }
    }

    fn effect(&mut self, t: u64, machine: Id, effect: Effect) {
        if matches!(effect, Effect::Here | Effect::End | Effect::Stop | Effect::Fork(_) | Effect::Runnable | Effect::Timer(_))
            && self.last >= t
        {
            return;
        }
        self.last = t.max(self.last + 1);
        // A put or signal at the end of a state belongs to the state, as if the probe of the span
        // surrounded both.
        if !matches!(effect, Effect::Put(queue, _) if !self.queues[queue as usize].is_call) {
            if let Some(open) = self.lanes[machine as usize].span.take() {
                self.span(machine, "end", open);
                self.last += 1;
            }
        }
        match effect {
            Effect::State(state) => {
                self.lanes[machine as usize].span = Some(state);
                self.span(machine, "begin", state);
            }
            Effect::Blocked(Wait::Tokens(queue) | Wait::Poll(queue)) => {
                let Queue { is_call, is_signal, .. } = self.queues[queue as usize];
                if is_signal {
                    self.named(machine, queue, "signal_wait", None);
                } else if !is_call {
                    self.queue(machine, queue, "wait_empty", None);
                }
            }
            Effect::Blocked(Wait::Space(queue)) => self.queue(machine, queue, "wait_full", None),
            Effect::Put(queue, n) if self.queues[queue as usize].is_call => {
                let lane = &mut self.lanes[machine as usize];
                lane.calls += 1;
                let id = (machine as u64) << 40 | lane.calls;
                let calls = &mut self.queues[queue as usize];
                calls.calls.extend(std::iter::repeat_n(id, n as usize));
                calls.open.insert(machine, id);
                self.named(machine, queue, "rpc_call", Some(("id", id)));
            }
            Effect::Get(queue, _) if self.queues[queue as usize].is_call => {
                let id = self.queues[queue as usize].calls.pop_front().unwrap_or(0);
                self.named(machine, queue, "rpc_dispatch", Some(("id", id)));
            }
            Effect::Reply(queue, caller) => {
                let id = self.queues[queue as usize].open.get(&caller).copied().unwrap_or(0);
                self.named(machine, queue, "rpc_reply", Some(("id", id)));
            }
            Effect::Replied(queue) => {
                let id = self.queues[queue as usize].open.remove(&machine).unwrap_or(0);
                self.named(machine, queue, "rpc_returned", Some(("id", id)));
            }
            Effect::Put(queue, n) if self.queues[queue as usize].is_signal => {
                self.named(machine, queue, "signal_submit", Some(("count", n)))
            }
            Effect::Get(queue, n) if self.queues[queue as usize].is_signal => {
                self.named(machine, queue, "signal_receive", Some(("count", n)))
            }
            Effect::Put(queue, n) => self.queue(machine, queue, "put", Some(n)),
            Effect::Get(queue, n) => self.queue(machine, queue, "get", Some(n)),
            Effect::Peek(queue, n) => self.queue(machine, queue, "peek", Some(n)),
            Effect::Reserve(queue, n) => self.queue(machine, queue, "reserve", Some(n)),
            // The call of the caller shows that it waits for the reply. A sleep would be recorded
            // by the kernel only.
            Effect::Blocked(Wait::Reply(_) | Wait::Sleep) => {}
            Effect::Here | Effect::End | Effect::Stop | Effect::Fork(_) | Effect::Runnable | Effect::Timer(_) => {}
        }
    }

    fn wants_all_work(&self) -> bool {
        true
    }

    fn is_over(&self) -> bool {
        self.error.is_some()
    }
}

impl Lane {
    /// Ends the packet of the events written since the last one. The first packet is empty.
    fn packet(&mut self, directory: &Path) -> io::Result<()> {
        let content = HEADER + self.events.len();
        let size = content.next_multiple_of(PAGE);
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(&0xc1fc_1fc1_u32.to_le_bytes());
        out.extend_from_slice(&UUID);
        out.extend_from_slice(&0_u32.to_le_bytes());
        let begin = self.begin.take().unwrap_or(self.end);
        for value in [begin, self.end, content as u64 * 8, size as u64 * 8, self.packets, 0] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&0_u64.to_le_bytes());
        for (text, room) in [(&self.label, 128), (&self.label, 32)] {
            let end = out.len() + room;
            out.extend(text.bytes().take(room - 1));
            out.resize(end, 0);
        }
        out.resize(HEADER, 0);
        out.append(&mut self.events);
        out.resize(size, 0);
        self.packets += 1;
        if self.file.is_none() {
            let path = directory.join(&self.name);
            self.file = Some(OpenOptions::new().write(true).create_new(true).open(path)?);
        }
        match &mut self.file {
            Some(file) => file.write_all(&out),
            None => Ok(()),
        }
    }
}

fn member(name: &str, ty: Type) -> Member {
    Member { name: name.to_owned(), ty }
}

fn schema(events: Vec<EventClass>) -> Schema {
    let order = ByteOrder::Little;
    let int = |size, align, of: &dyn Fn(IntType) -> IntType| match Type::unsigned(size, align, order) {
        Type::Int(int) => Type::Int(of(int)),
        other => other,
    };
    let plain = |size| Type::unsigned(size, 8, order);
    let time = |size, align| int(size, align, &|int| IntType { clock: Some(0), ..int });
    let array = |element, length| Type::Array(Arc::new(ArrayType::new(element, Length::Fixed(length), Span::default())));
    let text = |length| array(int(8, 8, &|int| IntType { encoding: Encoding::Utf8, ..int }), length);
    let signed = || int(32, 8, &|int| IntType { signed: true, ..int });
    let header = vec![member("magic", plain(32)), member("uuid", array(plain(8), 16)), member("stream_id", plain(32))];
    let mut context = vec![member("timestamp_begin", time(64, 8)), member("timestamp_end", time(64, 8))];
    context.extend(["content_size", "packet_size", "packet_seq_num", "events_discarded"].map(|name| member(name, plain(64))));
    context.extend(["pid", "tid"].map(|name| member(name, signed())));
    context.extend([
        member("position", plain(64)),
        member("label", text(128)),
        member("thread", text(32)),
        member("reserved", array(plain(8), 8)),
    ]);
    let text = |name: &str, value: &str| (name.to_owned(), EnvValue::Text(value.to_owned()));
    let number = |name: &str, value| (name.to_owned(), EnvValue::Int(value));
    let mut clock = Clock::new("longpole", 1_000_000_000);
    (clock.offset_s, clock.absolute, clock.uuid) = (EPOCH_S, true, Some(UUID));
    Schema {
        version: Version::V1_8,
        trace: TraceClass {
            uuid: Some(UUID),
            byte_order: order,
            packet_header: Some(Arc::new(StructType::new(1, header))),
            env: vec![
                text("hostname", "simulated"),
                text("domain", "longpole-user"),
                text("tracer_name", "longpole"),
                number("tracer_major", 0),
                number("tracer_minor", 1),
                number("probe_cost_ps", 0),
                text("clock_source", "mono_raw"),
            ],
            ..TraceClass::default()
        },
        clocks: vec![clock],
        streams: vec![StreamClass {
            id: 0,
            packet_context: Some(Arc::new(StructType::new(1, context))),
            event_header: Some(Arc::new(StructType::new(64, vec![member("id", plain(16)), member("timestamp", time(48, 8))]))),
            events,
            ..StreamClass::default()
        }],
    }
}
