//! A CTF trace as another tracer writes it: packets with a CPU number, events with a context,
//! nested fields.

use std::fs;
use std::path::Path;

/// The metadata: event classes `sched_switch` (id 0) and `net:rx` (id 1).
pub const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 16; align = 8; signed = false; } := u16;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le;
    packet.header := struct { u32 magic; u32 stream_id; }; };
env { hostname = "far"; tracer_name = "other"; };
clock { name = c; freq = 1000000000; offset_s = 1700000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp;
stream { id = 0;
    packet.context := struct { u32 content_size; u32 packet_size; stamp timestamp_begin; stamp timestamp_end; u32 cpu_id; };
    event.header := struct { u16 id; stamp timestamp; };
    event.context := struct { u32 _vtid; integer { size = 32; align = 8; signed = false; base = 16; } _ip; }; };
event { id = 0; name = "sched_switch"; stream_id = 0;
    fields := struct { string _prev_comm; integer { size = 32; align = 8; signed = true; } _prev_prio;
        enum : u8 { run = 0, blocked = 2 } _state; struct { u16 x; u16 y; } _at; }; };
event { id = 1; name = "net:rx"; stream_id = 0;
    fields := struct { u16 _len; u8 _n; u16 _part[2]; }; };
"#;

/// The fields of an event.
pub enum Payload<'a> {
    /// Fields `prev_comm`, `prev_prio`, `state`, `at` of `sched_switch`.
    Switch(&'a str, i32, u8, (u16, u16)),
    /// Fields `len`, `n`, `part` of `net:rx`.
    Rx(u16, u8, [u16; 2]),
    /// An event with id 9, for which the metadata has no event class.
    Unknown,
}

/// A packet with events, each given as time, `vtid` and payload.
pub fn packet(cpu: u32, events: &[(u64, u32, Payload<'_>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (t, vtid, payload) in events {
        let id: u16 = match payload {
            Payload::Switch(..) => 0,
            Payload::Rx(..) => 1,
            Payload::Unknown => 9,
        };
        body.extend(id.to_le_bytes());
        body.extend(t.to_le_bytes());
        body.extend(vtid.to_le_bytes());
        body.extend(0xabcu32.to_le_bytes());
        match payload {
            Payload::Switch(comm, prio, state, (x, y)) => {
                body.extend(comm.as_bytes());
                body.push(0);
                body.extend(prio.to_le_bytes());
                body.push(*state);
                body.extend(x.to_le_bytes());
                body.extend(y.to_le_bytes());
            }
            Payload::Rx(len, n, part) => {
                body.extend(len.to_le_bytes());
                body.push(*n);
                part.iter().for_each(|part| body.extend(part.to_le_bytes()));
            }
            Payload::Unknown => {}
        }
    }
    const HEAD: usize = 8 + 8 + 16 + 4;
    let bits = ((HEAD + body.len()) * 8) as u32;
    let (first, last) = (events.first().map_or(0, |event| event.0), events.last().map_or(0, |event| event.0));
    let mut packet = Vec::new();
    packet.extend(0xC1FC_1FC1u32.to_le_bytes());
    packet.extend(0u32.to_le_bytes());
    packet.extend(bits.to_le_bytes());
    packet.extend(bits.to_le_bytes());
    packet.extend(first.to_le_bytes());
    packet.extend(last.to_le_bytes());
    packet.extend(cpu.to_le_bytes());
    packet.extend(body);
    packet
}

/// Writes a trace with these streams, each given as file name and packets.
pub fn write(directory: &Path, streams: &[(&str, Vec<Vec<u8>>)]) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("metadata"), METADATA).unwrap();
    for (name, packets) in streams {
        fs::write(directory.join(name), packets.concat()).unwrap();
    }
}
