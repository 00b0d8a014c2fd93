//! Damaged files in the runtime directory: the recorder continues and records the programs that
//! behave correctly.

use crate::support;
use crate::support::{numbered, Place, Running};
use fastrand::Rng;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{symlink, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

fn random_bytes(random: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.u8(..)).collect()
}

/// Makes a file with the mode that programs use.
fn make(path: &Path, bytes: &[u8], length: u64) -> File {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.set_len(length).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o400)).unwrap();
    file
}

const MAGIC: u64 = 0x454c_4f50_474e_4f4c;

/// A control file of this test's own process, which is alive.
fn control(rings: u32) -> Vec<u8> {
    control_of(std::process::id(), rings)
}

fn control_of(pid: u32, rings: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[64..72].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[72..76].copy_from_slice(&1u32.to_ne_bytes());
    bytes[76..80].copy_from_slice(&pid.to_ne_bytes());
    bytes[96..100].copy_from_slice(&rings.to_ne_bytes());
    bytes
}

/// A ring that can be opened. Everything after the geometry is set by the caller.
fn ring(size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096 + size as usize];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    put(16, size - 1);
    put(128, MAGIC);
    put(136, 1);
    put(144, size);
    put(152, size / 4);
    bytes
}

fn record_next_to(place: &Place, meanwhile: impl FnOnce()) -> support::Ended {
    let mut recorder = place.recorder("0", None);
    meanwhile();
    let program = Running::start(&mut place.numbered(2, 5_000, 100, 1000, "p"));
    let pid = program.pid();
    program.succeed();
    assert!(recorder.is_alive(), "the recorder died");
    let ended = recorder.finish();
    assert_eq!(numbered_of(&ended.path, pid), 10_000, "{:?}", ended.diagnostics);
    ended
}

/// Number of recorded and lost events of one process, whatever else is in the recording.
fn numbered_of(recording: &Path, pid: i32) -> u64 {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("user")).unwrap();
    for entry in fs::read_dir(recording.join("user")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == "metadata" || name.starts_with("numbered") {
            fs::copy(entry.path(), copy.path().join("user").join(name)).unwrap();
        }
    }
    let counts = numbered(copy.path());
    counts.iter().filter(|(key, _)| key.0 == pid).map(|(_, count)| count.recorded + count.lost).sum()
}

#[test]
fn random_bytes_in_headers_harm_no_other_program() {
    let mut random = Rng::with_seed(0x1234_5678);
    for _ in 0..3 {
        let place = Place::new();
        // The streams of those rings may hold anything.
        place.damages();
        let runtime = place.runtime();
        record_next_to(&place, || {
            let own = std::process::id();
            make(&runtime.join(format!("{own}-00000001.control")), &random_bytes(&mut random, 4096), 4096);
            make(&runtime.join(format!("{own}-00000002.control")), &control(40), 4096);
            for number in 0..20 {
                let mut bytes = ring(32768);
                // Head, limit, last, lost, end, state, and all words that the recorder writes.
                let noise = random_bytes(&mut random, 128);
                for at in (0..128).filter(|at| !(16..24).contains(at)) {
                    bytes[at] = noise[at];
                }
                if number % 2 == 0 {
                    // A head within the geometry, and sub-buffers of random bytes.
                    bytes[0..8].copy_from_slice(&(random.u64(..) % 32768 / 8 * 8).to_ne_bytes());
                    bytes[64..128].fill(0);
                    let noise = random_bytes(&mut random, 32768);
                    bytes[4096..].copy_from_slice(&noise);
                }
                make(&runtime.join(format!("{own}-00000002.{number}.ring")), &bytes, bytes.len() as u64);
            }
            for number in 20..30 {
                make(&runtime.join(format!("{own}-00000002.{number}.ring")), &random_bytes(&mut random, 8192), 4096 + 32768);
            }
            make(&runtime.join(format!("{own}-00000002.s4000000000.ring")), &random_bytes(&mut random, 8192), 4096 + 32768);
        });
    }
}

#[test]
fn a_wrong_number_of_rings_does_not_block_the_recorder() {
    let place = Place::new();
    let path = place.runtime().join(format!("{}-00000003.control", std::process::id()));
    let ended = record_next_to(&place, || {
        make(&path, &control(u32::MAX), 4096);
    });
    assert!(ended.diagnostics.iter().all(|diagnostic| !diagnostic.contains("numbered")), "{:?}", ended.diagnostics);
}

#[test]
fn links_pipes_directories_and_foreign_files_are_left_alone() {
    let place = Place::new();
    let runtime = place.runtime();
    let precious = place.directory.path().join("precious");
    fs::write(&precious, "do not touch").unwrap();
    let ended = record_next_to(&place, || {
        let own = std::process::id();
        symlink(&precious, runtime.join(format!("{own}-00000001.control"))).unwrap();
        symlink("/dev/zero", runtime.join(format!("{own}-00000002.control"))).unwrap();
        fs::create_dir(runtime.join(format!("{own}-00000003.control"))).unwrap();
        fs::write(runtime.join("notes.txt"), "mine").unwrap();
        fs::write(runtime.join(format!("{own}-../../../x.control")), "mine").unwrap_or_default();
        make(&runtime.join(format!("{own}-00000004.control")), &[], 10);
    });
    assert_eq!(fs::read_to_string(&precious).unwrap(), "do not touch");
    assert_eq!(fs::read_to_string(runtime.join("notes.txt")).unwrap(), "mine");
    assert!(ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("not part of its layout")), "{:?}", ended.diagnostics);
    assert!(ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("00000004.control was ignored")), "{:?}", ended.diagnostics);
}

#[test]
fn a_truncated_ring_costs_only_itself() {
    let place = Place::new();
    let runtime = place.runtime();
    let own = std::process::id();
    let ended = record_next_to(&place, || {
        make(&runtime.join(format!("{own}-00000001.control")), &control(1), 4096);
        let mut bytes = ring(32768);
        bytes[0..8].copy_from_slice(&264u64.to_ne_bytes());
        let name = runtime.join(format!("{own}-00000001.0.ring"));
        let file = make(&name, &bytes, bytes.len() as u64);
        std::thread::sleep(Duration::from_millis(250));
        file.set_len(0).unwrap();
        std::thread::sleep(Duration::from_millis(250));
    });
    assert!(ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("cut off")), "{:?}", ended.diagnostics);
}

#[test]
fn a_site_table_of_random_bytes_costs_only_the_names() {
    let place = Place::new();
    let mut random = Rng::with_seed(99);
    let mut bytes = vec![0; 4096 + 262_144 + (1 << 20)];
    bytes[0..8].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
    let noise = random_bytes(&mut random, 40_000);
    bytes[4096..4096 + 40_000].copy_from_slice(&noise);
    let mut recorder = place.recorder("0", None);
    make(&place.runtime().join("sites"), &bytes, bytes.len() as u64);
    Running::start(&mut place.numbered(1, 1000, 0, 0, "p")).succeed();
    assert!(recorder.is_alive());
    let ended = recorder.finish();
    assert!(ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("site table")), "{:?}", ended.diagnostics);
    for packets in support::lanes(&ended.path).values() {
        assert!(!packets.is_empty());
    }
}

#[test]
fn a_runtime_directory_that_others_may_enter_is_refused() {
    let place = Place::new();
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = std::panic::catch_unwind(|| place.recorder("0", None));
    assert!(refused.is_err());
    assert!(!place.root().exists());
}

#[test]
fn the_rings_of_a_dead_process_are_reaped_whatever_their_heads_are() {
    let place = Place::new();
    let runtime = place.runtime();
    // At a sub-buffer's begin, after its header, within it, after its first event; far away; and
    // where sums overflow.
    let heads = [0, 8, 248, 256, 264, 8192, 8448, 8456, 32768, 1 << 40, 1 << 62, u64::MAX - 7, u64::MAX];
    let ended = record_next_to(&place, || {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let stem = format!("{}-00000001", sleeper.id());
        make(&runtime.join(format!("{stem}.control")), &control_of(sleeper.id(), 2 * heads.len() as u32), 4096);
        for (number, head) in heads.iter().enumerate() {
            // Once as if nothing had been taken, and once as if all but the last bytes had been
            // taken.
            for (at, tail) in [(2 * number, 0), (2 * number + 1, head.saturating_sub(256) / 8 * 8)] {
                let mut bytes = ring(32768);
                bytes[0..8].copy_from_slice(&head.to_ne_bytes());
                bytes[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
                bytes[64..72].copy_from_slice(&tail.to_ne_bytes());
                make(&runtime.join(format!("{stem}.{at}.ring")), &bytes, bytes.len() as u64);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let left = || fs::read_dir(&runtime).unwrap().any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with(&stem));
        support::until(|| !left());
    });
    assert!(
        ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("its head is at an impossible position")),
        "{:?}",
        ended.diagnostics
    );
}

#[test]
fn events_before_an_undecodable_one_are_recorded_and_the_rest_counts_as_at_least_one() {
    for (before, behind) in [(10, 0), (10, 25), (1, 100)] {
        let place = Place::new();
        let recorder = place.recorder("0", None);
        let status = place.program("malformed", &[&before.to_string(), &behind.to_string()]).status().unwrap();
        assert!(status.success());
        let ended = recorder.finish();
        let counts = numbered(&ended.path);
        assert_eq!(counts.values().map(|count| count.recorded).sum::<u64>(), before, "{:?}", ended.diagnostics);
        assert_eq!((ended.recorded, ended.lost), (before * 16, 1), "{:?}", ended.diagnostics);
        assert!(ended.diagnostics.iter().any(|diagnostic| diagnostic.contains("more may be missing")), "{:?}", ended.diagnostics);
    }
}
