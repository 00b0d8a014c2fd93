//! `longpole check` of captures: packets that contradict the capture limit (snaplen) of their
//! interface.

use longpole_pcapng::{Interface, Packet, Section, Writer};
use std::path::Path;
use std::process::Command;

/// Capture limit: the number of bytes that are recorded of each packet.
const CAP: u32 = 77;

/// Exit status and output of `check`.
fn check(path: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).arg("check").arg(path).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn packets_with_more_bytes_than_the_capture_limit_are_damage() {
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

    // 0 means that there is no limit.
    let mut none = sound;
    none[at..at + 4].copy_from_slice(&0u32.to_ne_bytes());
    std::fs::write(&path, none).unwrap();
    assert_eq!(check(&path).0, Some(0), "{}", check(&path).1);
}

/// The capture has many sections, each with one interface and one packet.
#[test]
fn many_sections_need_no_more_memory_than_one_and_each_is_checked() {
    let measure = "import resource,subprocess,sys
print(subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    if Command::new("python3").arg("-V").output().is_err() {
        println!("skipped: many sections (needs `python3`)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.pcapng");
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.add_interface(&Interface::ethernet("wire", CAP)).unwrap();
    writer.packet(&Packet { original_len: 1400, ..Packet::new(interface, 1, &[0; 70]) }).unwrap();
    let section = writer.into_inner();
    // Exit status, and the largest resident size in KiB.
    let checked = |sections: usize, verb: &str| {
        std::fs::write(&path, section.repeat(sections)).unwrap();
        let output = Command::new("python3").args(["-c", measure, env!("CARGO_BIN_EXE_longpole"), verb]).arg(&path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        (numbers[0], numbers[1])
    };
    for verb in ["check", "info", "packets"] {
        let (one, many) = (checked(1, verb), checked(100_000, verb));
        assert_eq!((one.0, many.0), (0, 0), "{verb}");
        assert!(many.1 < one.1 + 8192, "{verb}: {many:?} KiB, of one section {one:?}");
    }

    // Only one section has a packet beyond its capture limit.
    let at = section.windows(4).position(|bytes| bytes == CAP.to_ne_bytes()).unwrap();
    let mut lower = section.clone();
    lower[at..at + 4].copy_from_slice(&60u32.to_ne_bytes());
    for last in [true, false] {
        let parts = if last { [section.repeat(20), lower.clone()] } else { [lower.clone(), section.repeat(20)] };
        std::fs::write(&path, parts.concat()).unwrap();
        let (code, said) = check(&path);
        assert!(said.contains("1 packet of wire holds more than its cap (60 bytes)") && code == Some(1), "{last}: {said}");
    }
}
