//! Other tools can read the recording at any moment.

use crate::support;
use crate::support::{numbered, tool, Place, Running};
use longpole_pcapng::{Block, Direction, Reader};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Copies a recording while it is written, like any copying program, with the metadata last: no
/// packet of the copy needs a class that the copied metadata lacks.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_by_key(|name| name == "metadata");
    for name in names.iter().filter(|name| !name.to_string_lossy().starts_with('.')) {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Numbers of events and lost events, as counted by babeltrace2.
fn babeltrace(user: &Path) -> Option<(u64, u64)> {
    let (good, text) = tool("babeltrace2", &[user])?;
    assert!(good, "{}", text.lines().rev().take(30).collect::<Vec<_>>().join("\n"));
    let lost = text.lines().filter_map(|line| line.split("Tracer discarded ").nth(1)?.split(' ').next()?.parse::<u64>().ok()).sum();
    let events = text.lines().filter(|line| line.starts_with('[')).count() as u64;
    Some((events, lost))
}

#[test]
fn babeltrace_reads_copies_made_during_and_after_the_recording_and_after_a_kill() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let program = Running::start(&mut place.numbered(3, 0, 20, 3000, "p"));
    support::until(|| numbered(&recorder.path).len() == 3);
    for round in 0..3 {
        let to = place.directory.path().join(format!("copy-{round}"));
        copy(&recorder.path.join("user"), &to.join("user"));
        let counts = numbered(&to);
        let own = counts.values().fold((0, 0), |sum, count| (sum.0 + count.recorded, sum.1 + count.lost));
        assert!(own.0 > 0);
        if let Some(other) = babeltrace(&to.join("user")) {
            assert_eq!(other, own);
        }
        std::thread::sleep(Duration::from_millis(60));
    }
    let path = recorder.kill();
    let counts = numbered(&path);
    let own = counts.values().fold((0, 0), |sum, count| (sum.0 + count.recorded, sum.1 + count.lost));
    if let Some(other) = babeltrace(&path.join("user")) {
        assert_eq!(other, own);
    }
    // The next recorder completes the recording of the killed one.
    let recorder = place.recorder("0", None);
    assert_eq!(numbered(&path), counts);
    let text = fs::read_to_string(path.join("longpole.json")).unwrap();
    assert!(!text.contains("\"end_ns\": null"), "{text}");
    program.kill();
    let ended = recorder.finish();
    let own = numbered(&ended.path).values().fold((0, 0), |sum, count| (sum.0 + count.recorded, sum.1 + count.lost));
    if let Some(other) = babeltrace(&ended.path.join("user")) {
        assert_eq!(other, own);
    }
}

#[test]
fn captured_packets_come_as_pcapng_with_interface_direction_and_length() {
    let place = Place::new();
    let recorder = place.recorder("0", None);
    let status = place.program("packets", &["50"]).status().unwrap();
    assert!(status.success());
    let ended = recorder.finish();
    assert_eq!(ended.lost, 0);
    let path = ended.path.join("packets/init_->_nic_router.pcapng");
    let mut reader = Reader::new(fs::File::open(&path).unwrap());
    let mut packets = 0;
    let mut statistics = 0;
    let mut newest = 0;
    while let Some(block) = reader.next_block().unwrap() {
        match block {
            Block::Packet(packet) => {
                let inbound = packets % 2 == 0;
                assert_eq!(packet.info.name.as_deref(), Some(if inbound { "eth0" } else { "eth1" }));
                assert_eq!(packet.direction(), if inbound { Direction::Inbound } else { Direction::Outbound });
                let number = packets / 2;
                let length = if inbound { 200 } else { 60 + number % 10 };
                assert_eq!(packet.original_len, length);
                assert_eq!(packet.data.len(), length.min(100) as usize);
                assert!(packet.data.iter().all(|byte| *byte == number as u8));
                assert!(packet.time_ns().unwrap() >= newest);
                newest = packet.time_ns().unwrap();
                packets += 1;
            }
            Block::Statistics(found) => {
                assert_eq!((found.received, found.dropped, found.delivered), (None, Some(0), Some(50)));
                statistics += 1;
            }
            _ => {}
        }
    }
    assert_eq!((packets, statistics), (100, 2));
    if let Some((good, text)) = tool("capinfos", &[&path]) {
        assert!(good && text.contains("Number of packets:   100"), "{text}");
    }
    if let Some((events, lost)) = babeltrace(&ended.path.join("user")) {
        assert_eq!((events, lost), (150, 0));
    }
    // The last packet has the same time in both files.
    if let Ok(output) = Command::new("babeltrace2").arg("--clock-seconds").arg(ended.path.join("user")).output() {
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().rfind(|line| line.contains("packet:eth1")).unwrap();
        let seconds: f64 = last[1..last.find(']').unwrap()].parse().unwrap();
        assert!((seconds * 1e9 - newest as f64).abs() < 1e3 + 512.0, "{last} {newest}");
    }
}
