//! What babeltrace2 accepts is read if nothing is lost by it, with a diagnostic that names the
//! place. If damage is to be an error, it is one.

use longpole_trace::Contradiction;
use longpole_trace::Damage;
use longpole_trace::Diagnostic;
use longpole_trace::Error;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const METADATA: &str = "/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; uuid = \"11111111-1111-1111-1111-111111111111\";
  packet.header := struct { integer { size = 32; } magic; integer { size = 8; } uuid[16]; integer { size = 32; } stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := time;
stream {
  id = 0;
  packet.context := struct { integer { size = 32; } content_size; integer { size = 32; } packet_size; };
  event.header := struct { time timestamp; };
};
event { name = e; stream_id = 0; };
";
/// Size of a packet in bytes.
const PACKET: u64 = 4 + 16 + 4 + 8 + 8;

/// A packet with one event.
fn packet(uuid: u8, t_ns: u64) -> Vec<u8> {
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend([uuid; 16]);
    bytes.extend(0u32.to_le_bytes());
    bytes.extend([8 * PACKET as u32; 2].map(u32::to_le_bytes).concat());
    bytes.extend(t_ns.to_le_bytes());
    bytes
}

fn trace(metadata: &[u8], packets: &[Vec<u8>]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("metadata"), metadata).unwrap();
    fs::write(place.path().join("s"), packets.concat()).unwrap();
    place
}

/// Metadata as one packet.
fn packetised() -> Vec<u8> {
    let mut bytes = 0x75d1_1d57_u32.to_le_bytes().to_vec();
    bytes.extend([0; 20]);
    bytes.extend([8 * (37 + METADATA.len() as u32); 2].map(u32::to_le_bytes).concat());
    bytes.extend([0, 0, 0, 1, 8]);
    bytes.extend(METADATA.as_bytes());
    bytes
}

/// Number of events and the diagnostics, or the error.
fn read(path: &Path, damage: Damage) -> Result<(u64, Vec<Diagnostic>), Error> {
    let mut trace = Trace::open(&[path], Options { damage, ..Options::default() })?;
    let mut events = 0;
    while trace.next_item()?.is_some() {
        events += 1;
    }
    Ok((events, trace.diagnostics().to_vec()))
}

#[test]
fn packets_with_another_uuid_are_read_and_reported_once_with_the_place_of_the_first() {
    let place = trace(METADATA.as_bytes(), &[packet(0x11, 1), packet(0x22, 2), packet(0x22, 3)]);
    let (events, diagnostics) = read(place.path(), Damage::Pass).unwrap();
    let told = diagnostics.iter().find_map(|diagnostic| match diagnostic {
        Diagnostic::Contradiction { path, what: Contradiction::OtherUuid, times, at } => {
            Some((path.clone(), *times, at.packet, at.packet_offset))
        }
        _ => None,
    });
    assert_eq!((events, told), (3, Some((place.path().join("s"), 2, 1, PACKET))));
    assert!(!diagnostics.iter().any(Diagnostic::is_damage), "{diagnostics:?}");
    let error = read(place.path(), Damage::IsError).unwrap_err();
    let Error::Damaged(damage) = &error else { panic!("{error}") };
    let (path, at) = damage.place().unwrap();
    assert_eq!((path, at.map(|at| at.packet_offset)), (&*place.path().join("s"), Some(PACKET)));
}

#[test]
fn bytes_after_the_metadata_are_reported_with_their_offset() {
    let whole = packetised();
    let place = trace(&[&whole[..], b"abc"].concat(), &[packet(0x11, 1)]);
    let (events, diagnostics) = read(place.path(), Damage::Pass).unwrap();
    let metadata = place.path().join("metadata");
    let told = diagnostics.iter().find(|diagnostic| matches!(diagnostic, Diagnostic::Nonstandard { .. })).unwrap();
    assert_eq!(events, 1);
    let at = whole.len();
    assert_eq!(told.to_string(), format!("{}: byte {at}: 3 bytes follow the last packet of the metadata", metadata.display()));
    for damage in [Damage::EndsStream, Damage::EndsTrace, Damage::IsError] {
        let error = read(place.path(), damage).unwrap_err();
        assert!(matches!(error, Error::Metadata { .. }), "{error}");
        assert!(error.to_string().contains(&format!("byte {at}")), "{error}");
    }
}

#[test]
fn damage_is_an_error_if_that_is_requested_also_at_the_end_of_a_file() {
    let mut packets = [packet(0x11, 1), packet(0x11, 2)];
    assert_eq!(read(trace(METADATA.as_bytes(), &packets).path(), Damage::IsError).unwrap().0, 2);
    packets[1].truncate(30);
    let place = trace(METADATA.as_bytes(), &packets);
    let error = read(place.path(), Damage::IsError).unwrap_err();
    assert!(matches!(&error, Error::Damaged(diagnostic) if diagnostic.is_cut()), "{error}");
    assert_eq!(read(place.path(), Damage::Pass).unwrap().0, 1);
}

/// Copies a trace's files.
fn copy(from: &Path) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::write(place.path().join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
        }
    }
    place
}

/// Number of events that babeltrace2 prints.
fn babeltrace2(path: &Path) -> Option<u64> {
    let output = Command::new("timeout").args(["60", "babeltrace2"]).arg(path).output().ok()?;
    output.status.success().then(|| output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
}

/// Real traces of other tools, damaged so that babeltrace2 still reads all of them.
#[test]
fn damaged_copies_of_traces_of_other_tools_are_read_as_babeltrace2_reads_them() {
    let Some(corpora) = std::env::var_os("LONGPOLE_CORPORA").map(PathBuf::from) else {
        eprintln!("skipped: damaged copies of other tools' traces (LONGPOLE_CORPORA is not set)");
        return;
    };
    let traces = ["babeltrace/ctf-traces/1/succeed/succeed1", "tracecompass-test-traces/one-event", "tracecompass-test-traces/ros2"];
    for name in traces {
        let place = copy(&corpora.join(name));
        let Some(expected) = babeltrace2(place.path()) else {
            eprintln!("skipped: {name} (babeltrace2 is not here)");
            continue;
        };
        for entry in fs::read_dir(place.path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            match path.ends_with("metadata") {
                true if bytes.starts_with(&0x75d1_1d57_u32.to_le_bytes()) => bytes.extend(b"abc"),
                true => {}
                // Byte 5 of a packet is in its UUID.
                false => bytes[5] ^= 0xff,
            }
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(babeltrace2(place.path()), Some(expected), "{name}");
        let (items, diagnostics) = read(place.path(), Damage::Pass).unwrap();
        assert_eq!(items, expected, "{name}");
        assert!(
            diagnostics.iter().any(|told| matches!(told, Diagnostic::Contradiction { what: Contradiction::OtherUuid, .. })),
            "{name}: {diagnostics:?}"
        );
        assert!(read(place.path(), Damage::IsError).is_err(), "{name}");
    }
}
