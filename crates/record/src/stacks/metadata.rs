//! Makes the metadata of `samples/`: TSDL text of CTF 1.8. It is complete when the sampling begins
//! and never changes.

use crate::clock::Clock;
use crate::output::metadata::{clock_block, literal, Uuid};

/// Ids of the events.
pub const SAMPLE: u16 = 0;
pub const MAPPING: u16 = 1;
pub const COMM: u16 = 2;
pub const FORK: u16 = 3;
pub const EXIT: u16 = 4;
pub const PROCESS: u16 = 5;

/// Classes of streams: one stream per CPU, and one for the state at the begin.
pub const CPU_STREAM: u32 = 0;
pub const OF_BEGIN: u32 = 1;

/// Id, name and fields of each event.
const EVENTS: [(u16, &str, &str); 6] = [
    (SAMPLE, "sample", "uint16_t kernel_length; hex64_t kernel[kernel_length]; uint16_t user_length; hex64_t user[user_length];"),
    (MAPPING, "mapping", "hex64_t start; hex64_t length; hex64_t offset; uint64_t inode; string path;"),
    (COMM, "comm", "uint8_t exec; string comm;"),
    (FORK, "fork", "int32_t parent_pid; int32_t parent_tid;"),
    (EXIT, "exit", ""),
    (PROCESS, "process", "uint32_t uid; int32_t namespace_pid;"),
];

/// Returns the metadata. `uuid` is the UUID of this trace and `clock_uuid` that of the recording's
/// clock. They must differ, because readers take traces with the same UUID for parts of one trace.
pub fn text(uuid: &Uuid, clock_uuid: &Uuid, clock: &Clock, host: &str, hz: u32) -> String {
    let order = if cfg!(target_endian = "big") { "be" } else { "le" };
    let mut text = format!(
        r#"/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 64; align = 8; signed = false; base = 16; }} := hex64_t;
trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = {order};
	packet.header := struct {{
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t stream_id;
	}};
}};
env {{
	hostname = "{host}";
	domain = "longpole-samples";
	tracer_name = "longpole";
	tracer_major = {major};
	tracer_minor = {minor};
	clock_source = "{source}";
	sample_hz = {hz};
}};
{clock}typealias integer {{ size = 64; align = 8; signed = false; map = clock.longpole.value; }} := time64_t;
"#,
        host = literal(host),
        major = env!("CARGO_PKG_VERSION_MAJOR"),
        minor = env!("CARGO_PKG_VERSION_MINOR"),
        source = clock.source.name(),
        clock = clock_block(clock_uuid, clock),
    );
    for (class, last) in [(CPU_STREAM, "cpu_id"), (OF_BEGIN, "reserved")] {
        text.push_str(&format!(
            r#"stream {{
	id = {class};
	event.header := struct {{
		uint16_t id;
		time64_t timestamp;
	}};
	event.context := struct {{
		int32_t pid;
		int32_t tid;
	}};
	packet.context := struct {{
		time64_t timestamp_begin;
		time64_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		uint32_t {last};
	}};
}};
"#
        ));
        for (id, name, fields) in EVENTS {
            text.push_str(&format!(
                "event {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = {class};\n\tfields := struct {{ {fields} }};\n}};\n"
            ));
        }
    }
    text
}
