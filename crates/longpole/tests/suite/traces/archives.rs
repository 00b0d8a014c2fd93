//! Archives that are named as traces: answers show the name of the archive, and the unpacked files
//! are removed however the command ends.

use longpole_pcapng::{Interface, Packet, Section, Writer};
use longpole_testing::tar_entry::tar_entry;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A tar archive with a capture of `packets` packets.
fn archive(place: &Path, packets: u64) -> PathBuf {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Section::default()).unwrap();
    let interface = writer.add_interface(&Interface::ethernet("wire", 64)).unwrap();
    for time in 0..packets {
        writer.packet(&Packet::new(interface, time, &[0x5a; 64])).unwrap();
    }
    drop(writer);
    let path = place.join("taken.tar");
    fs::write(&path, [tar_entry("run/net.pcapng", b'0', "", &bytes), vec![0; 1024]].concat()).unwrap();
    path
}

fn longpole(place: &Path, arguments: &[&str], archive: &Path) -> Command {
    let scratch = place.join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.env("TMPDIR", scratch).env_remove("LONGPOLE_ROOT").args(arguments).arg(archive);
    command
}

fn left(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place.join("scratch")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn answers_name_the_archive_and_no_unpacked_files_are_left() {
    let place = TempDir::new().unwrap();
    let archive = archive(place.path(), 3);
    let named = archive.to_str().unwrap();
    for verb in [&["info"][..], &["print", "--json"], &["check"], &["packets"]] {
        let output = longpole(place.path(), verb, &archive).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("scratch"), "{verb:?}: {said}");
        assert_eq!(left(place.path()), [""; 0], "{verb:?}");
    }
    let output = longpole(place.path(), &["info", "--json"], &archive).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer["path"].as_str(), answer["streams"][0]["name"].as_str()), (Some(named), Some("run/net.pcapng")));

    // Damage in the archive is reported as damage of the trace, with its position.
    let whole = fs::read(&archive).unwrap();
    fs::write(&archive, &whole[..whole.len() - 1200]).unwrap();
    let output = longpole(place.path(), &["check"], &archive).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(named) && said.contains("run/net.pcapng") && said.contains("2 events"), "{said}");
    assert!(said.contains(&format!("it ends at byte {}", whole.len() - 1200)), "{said}");
    let out = place.path().join("out");
    let output = longpole(place.path(), &["convert", "--to", "ctf", "-o", out.to_str().unwrap()], &archive).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("it ends at byte"));
    assert_eq!(left(place.path()), [""; 0]);
}

/// Starts `print` with more output than a pipe holds, and returns once it has begun to print.
/// Nothing reads the rest, so the command blocks, and its unpacked archive stays on disk.
fn held(place: &Path, archive: &Path) -> Child {
    let mut child = longpole(place, &["print"], archive).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    assert_eq!(left(place).len(), 1);
    child
}

#[test]
fn the_unpacked_folder_is_removed_if_the_command_is_killed() {
    let place = TempDir::new().unwrap();
    let archive = archive(place.path(), 20_000);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let mut child = held(place.path(), &archive);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        // Another process removes the folder shortly afterwards.
        while !left(place.path()).is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn the_next_archive_removes_a_leftover_folder_but_none_that_is_in_use() {
    let place = TempDir::new().unwrap();
    let archive = archive(place.path(), 20_000);
    let mut child = held(place.path(), &archive);
    let used = left(place.path());
    let old = place.path().join("scratch/longpole-unpacked-old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join(".lock"), "").unwrap();
    fs::create_dir(place.path().join("scratch/longpole-of-somebody")).unwrap();
    assert!(longpole(place.path(), &["info"], &archive).output().unwrap().status.success());
    let mut after = left(place.path());
    after.sort();
    assert_eq!(after, [&["longpole-of-somebody".to_owned()][..], &used].concat());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_compressed_machine_log_is_read_as_a_machine_log() {
    let place = TempDir::new().unwrap();
    let lines = "{\"t\":0,\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":9,\"end\":\"A\"}\n";
    let packed = place.path().join("log.jsonl.gz");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::default());
    gzip.write_all(lines.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let said = |verb: &str, of: &Path| {
        let output = longpole(place.path(), &[verb], of).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("path", &packed).contains("path to the end of A: 9 ns"), "{}", said("path", &packed));
    assert!(said("info", &packed).contains("log.jsonl"));
    let cpu = said("cpu", &packed);
    assert!(cpu.contains(&format!("{} is a machine log, which this verb does not read", packed.display())), "{cpu}");
    // A tar archive may contain other files too, so the log inside must be named by the user.
    let tar = place.path().join("log.tar");
    fs::write(&tar, [tar_entry("log.jsonl", b'0', "", lines.as_bytes()), vec![0; 1024]].concat()).unwrap();
    assert!(said("path", &tar).contains("name the log itself"), "{}", said("path", &tar));
    assert!(said("print", &tar).contains("A state: {"));
    assert_eq!(left(place.path()), [""; 0]);
}
