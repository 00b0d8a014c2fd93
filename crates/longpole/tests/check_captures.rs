//! `longpole check` of captures: packets that contradict the cap of their interface.

use longpole_pcapng::{Interface, Packet, Section, Writer};
use std::path::Path;
use std::process::Command;

/// Bytes that are kept of each packet.
const CAP: u32 = 77;

/// Exit status and what is said of it.
fn check(path: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).arg("check").arg(path).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn packets_that_hold_more_than_their_cap_are_damage_and_so_is_what_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &Section::default()).unwrap();
    let interface = writer.add_interface(&Interface::ethernet("wire", CAP)).unwrap();
    for time in 0..3 {
        writer.packet(&Packet { original_len: 1400, ..Packet::new(interface, time, &[0; 200]) }).unwrap();
    }
    drop(writer);
    assert_eq!(check(&path).0, Some(0), "{}", check(&path).1);

    let sound = std::fs::read(&path).unwrap();
    let at = sound.windows(4).position(|bytes| bytes == CAP.to_ne_bytes()).unwrap();
    let mut lower = sound.clone();
    lower[at..at + 4].copy_from_slice(&60u32.to_ne_bytes());
    std::fs::write(&path, lower).unwrap();
    let (code, said) = check(&path);
    assert!(said.contains("3 packets of wire hold more than its cap (60 bytes)") && said.contains("damaged"), "{said}");
    assert_eq!(code, Some(1));

    // 0 is no cap.
    let mut none = sound;
    none[at..at + 4].copy_from_slice(&0u32.to_ne_bytes());
    std::fs::write(&path, none).unwrap();
    assert_eq!(check(&path).0, Some(0), "{}", check(&path).1);
}
