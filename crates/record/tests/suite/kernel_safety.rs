//! A hostile recording cannot make a conversion write to other places or use much memory. Made from
//! a fixture.

use longpole_record::kernel::{convert, is_pending, ConvertError};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernel");

/// A copy of the fixture in `place`, and a folder next to it that must not be changed.
fn recording(place: &Path) -> (PathBuf, PathBuf) {
    let (recording, outside) = (place.join("recording"), place.join("outside"));
    assert!(Command::new("cp").args(["-r", FIXTURE]).arg(&recording).status().unwrap().success());
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("metadata"), b"kept").unwrap();
    (recording, outside)
}

fn is_untouched(outside: &Path) -> bool {
    fs::read(outside.join("metadata")).is_ok_and(|text| text == b"kept") && fs::read_dir(outside).unwrap().count() == 1
}

#[test]
fn if_a_folder_of_the_recording_is_a_link_nothing_is_converted_or_removed() {
    for name in ["kernel", "kernel/raw"] {
        let place = tempfile::tempdir().unwrap();
        let (recording, outside) = recording(place.path());
        let moved = place.path().join("moved");
        fs::rename(recording.join(name), &moved).unwrap();
        symlink(&moved, recording.join(name)).unwrap();
        let result = convert(&recording, &mut |_, _| {});
        assert!(matches!(result, Err(ConvertError::Io { .. })), "{result:?}");
        let pages = if name == "kernel" { moved.join("raw") } else { moved };
        assert!(pages.join("cpu0").exists() && !pages.join("../metadata").exists() && is_untouched(&outside), "{name}");
    }
}

#[test]
fn links_at_paths_that_the_conversion_writes_are_replaced_and_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (recording, outside) = recording(place.path());
    let kernel = recording.join("kernel");
    symlink(&outside, kernel.join(".converting")).unwrap();
    symlink(outside.join("metadata"), kernel.join("cpu0")).unwrap();
    symlink(&outside, kernel.join("raw/inner")).unwrap();
    assert!(convert(&recording, &mut |_, _| {}).unwrap().events > 0);
    assert!(is_untouched(&outside) && !is_pending(&recording));
    for name in ["cpu0", "metadata"] {
        assert!(fs::symlink_metadata(kernel.join(name)).unwrap().is_file(), "{name}");
    }
    assert!(fs::symlink_metadata(kernel.join(".converting")).is_err());
}

#[test]
fn pages_next_to_metadata_of_other_origin_are_not_removed() {
    let place = tempfile::tempdir().unwrap();
    let (recording, outside) = recording(place.path());
    symlink(outside.join("metadata"), recording.join("kernel/metadata")).unwrap();
    assert!(convert(&recording, &mut |_, _| {}).is_err());
    fs::remove_file(recording.join("kernel/metadata")).unwrap();
    fs::write(recording.join("kernel/metadata"), b"/* CTF 1.8 */").unwrap();
    let error = convert(&recording, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("no conversion wrote this"), "{error}");
    assert!(is_pending(&recording) && recording.join("kernel/raw/cpu0").exists() && is_untouched(&outside));
}

#[test]
fn root_does_not_convert_pages_of_another_user() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: another user's recording (needs root)");
        return;
    }
    for name in ["", "kernel", "kernel/raw"] {
        let place = tempfile::tempdir().unwrap();
        let (recording, _) = recording(place.path());
        chown(recording.join(name), Some(65534), None).unwrap();
        let error = convert(&recording, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, ConvertError::Foreign { owner: 65534, .. }), "{error}");
        assert!(error.to_string().contains("as that user"), "{error}");
        assert!(is_pending(&recording) && !recording.join("kernel/metadata").exists());
    }
}

/// Peak memory of this process in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn small_files_that_claim_large_pages_use_no_memory_for_them() {
    for (size, is_possible) in [(2 << 20, true), (16 << 20, false)] {
        let place = tempfile::tempdir().unwrap();
        let (recording, _) = recording(place.path());
        let raw = recording.join("kernel/raw");
        let header = fs::read_to_string(raw.join("header_page")).unwrap();
        let is_data = |line: &&str| line.contains("char data;");
        let data = header.lines().find(is_data).unwrap();
        let large = format!("\tfield: char data;\toffset:16;\tsize:{};\tsigned:1;", size - 16);
        fs::write(raw.join("header_page"), header.replace(data, &large)).unwrap();
        let mut source: serde_json::Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
        (source["page_size"], source["cpus"]) = (size.into(), serde_json::Value::Null);
        fs::write(raw.join("source.json"), source.to_string()).unwrap();
        for cpu in 0..200 {
            fs::write(raw.join(format!("cpu{cpu}")), [b'x'; 64]).unwrap();
        }
        let before = peak();
        let result = convert(&recording, &mut |_, _| {});
        assert_eq!(result.is_ok(), is_possible, "{result:?}");
        assert!(peak() - before < 300 << 10, "{} KiB", peak() - before);
    }
}
