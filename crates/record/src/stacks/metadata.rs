//! Makes the metadata of `samples/`: CTF 1.8. It is complete when the sampling begins and never
//! changes.

use crate::clock::Clock;
use crate::output::metadata::{schema, version, Uuid};
use crate::output::types::{hexadecimal, printable, recording_clock, sequence, signed, stamp, structure, text as string, unsigned};
use longpole_ctf::types::{EventClass, StreamClass, Type};
use longpole_ctf::{write, EnvValue};

/// Ids of the events.
pub const SAMPLE: u16 = 0;
pub const MAPPING: u16 = 1;
pub const COMM: u16 = 2;
pub const FORK: u16 = 3;
pub const EXIT: u16 = 4;
pub const PROCESS: u16 = 5;
pub const COPIED: u16 = 6;
pub const STACK: u16 = 7;
pub const WAITING_RATE: u16 = 8;

/// Classes of streams: one stream per CPU, and one for the state at the begin.
pub const CPU_STREAM: u32 = 0;
pub const OF_BEGIN: u32 = 1;

type Fields = Vec<(&'static str, Type)>;

/// Id, name and fields of each event.
fn events() -> [(u16, &'static str, Fields); 9] {
    let (word, address) = (|| unsigned(64, 8), || hexadecimal(64, 8));
    let mapping = vec![("start", address()), ("length", address()), ("offset", address()), ("inode", word()), ("path", string())];
    [
        (SAMPLE, "sample", addresses()),
        (MAPPING, "mapping", mapping),
        (COMM, "comm", vec![("exec", unsigned(8, 8)), ("comm", string())]),
        (FORK, "fork", vec![("parent_pid", signed(32, 8)), ("parent_tid", signed(32, 8))]),
        (EXIT, "exit", Vec::new()),
        (PROCESS, "process", vec![("uid", unsigned(32, 8)), ("namespace_pid", signed(32, 8))]),
        (COPIED, "copied", copied()),
        (STACK, "stack", stack()),
        (WAITING_RATE, "waiting_rate", vec![("period_ns", word())]),
    ]
}

/// Fields of the addresses in the kernel and in the program.
fn addresses() -> Fields {
    let address = || hexadecimal(64, 8);
    vec![
        ("kernel_length", unsigned(16, 8)),
        ("kernel", sequence(address(), "kernel_length")),
        ("user_length", unsigned(16, 8)),
        ("user", sequence(address(), "user_length")),
    ]
}

fn copied() -> Fields {
    let mut fields = vec![("cause", unsigned(8, 8)), ("other_tid", signed(32, 8))];
    fields.extend(addresses());
    fields.extend(["ip", "sp", "fp", "lr"].map(|register| (register, hexadecimal(64, 8))));
    fields.push(("stack_length", unsigned(32, 8)));
    fields.push(("stack", sequence(hexadecimal(8, 8), "stack_length")));
    fields
}

/// Fields of `stack`, which replaces `copied` after the recording.
fn stack() -> Fields {
    let mut fields = vec![("cause", unsigned(8, 8)), ("other_tid", signed(32, 8)), ("truncated", unsigned(8, 8))];
    fields.extend(addresses());
    fields
}

/// Returns the metadata. `uuid` is the UUID of this trace and `clock_uuid` that of the recording's
/// clock. They must differ, because readers take traces with the same UUID for parts of one trace.
pub fn text(uuid: &Uuid, clock_uuid: &Uuid, clock: &Clock, host: &str, hz: u32) -> String {
    let text = |text: &str| EnvValue::Text(printable(text));
    let env = [
        ("hostname", text(host)),
        ("domain", text("longpole-samples")),
        ("tracer_name", text("longpole")),
        ("tracer_major", version(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("tracer_minor", version(env!("CARGO_PKG_VERSION_MINOR"))),
        ("clock_source", text(clock.source.name())),
        ("sample_hz", EnvValue::Int(hz.into())),
    ];
    let mut schema = schema(Some(uuid), recording_clock(clock_uuid, clock));
    schema.trace.env = env.map(|(name, value)| (name.to_owned(), value)).into();
    schema.streams = [(CPU_STREAM, "cpu_id"), (OF_BEGIN, "reserved")].map(|(class, last)| stream(class, last)).into();
    write::metadata(&schema)
}

/// A stream class; `last` is the name of the last field of its packets' context.
fn stream(class: u32, last: &str) -> StreamClass {
    let context = [
        ("timestamp_begin", stamp(64, 8)),
        ("timestamp_end", stamp(64, 8)),
        ("content_size", unsigned(64, 8)),
        ("packet_size", unsigned(64, 8)),
        ("packet_seq_num", unsigned(64, 8)),
        ("events_discarded", unsigned(64, 8)),
        (last, unsigned(32, 8)),
    ];
    let event = |(id, name, fields): (u16, &str, Fields)| EventClass {
        id: id.into(),
        name: name.to_owned(),
        payload: structure(1, fields),
        ..EventClass::default()
    };
    StreamClass {
        id: class.into(),
        packet_context: structure(1, context),
        event_header: structure(1, [("id", unsigned(16, 8)), ("timestamp", stamp(64, 8))]),
        event_context: structure(1, [("pid", signed(32, 8)), ("tid", signed(32, 8))]),
        events: events().into_iter().map(event).collect(),
        ..StreamClass::default()
    }
}
