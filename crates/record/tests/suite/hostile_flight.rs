//! Damaged rings that overwrite. Such a ring also holds the position of each sub-buffer and the
//! number of events. Whatever these values are, the recorder continues, takes snapshots, and counts
//! the events of programs that behave correctly.

use crate::support;
use crate::support::{Place, Running};
use fastrand::Rng;
use longpole_record::snapshot;
use longpole_record::Asked;
use longpole_record::Request;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MAGIC: u64 = 0x454c_4f50_474e_4f4c;
const SIZE: u64 = 32768;

fn make(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o400)).unwrap();
}

/// A ring that overwrites, in which only the geometry is valid.
fn liar(random: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..4096 + SIZE as usize).map(|_| random.u8(..)).collect();
    let part = SIZE / 4;
    let head = match random.u64(..) % 4 {
        0 => random.u64(..) % (1 << 20) / 8 * 8,
        1 => part * (random.u64(..) % 64) + 256 + random.u64(..) % (part - 256) / 8 * 8,
        2 => (1 << 62) - random.u64(..) % 100 * 8,
        _ => random.u64(..),
    };
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    for (at, value) in [(0, head), (16, SIZE - 1), (48, 0), (56, random.u64(..)), (64, 0), (128, MAGIC), (136, 1), (144, SIZE), (152, part)]
    {
        put(at, value);
    }
    // No successor, counter as the clock, overwriting.
    put(104, 0);
    put(168, 0);
    put(208, 1);
    put(232, random.u64(..) % 3 * 1000);
    let current = head.saturating_sub(1) / part * part;
    for back in 0..4 {
        let position = current.wrapping_sub(back * part);
        let at = 4096 + (position & (SIZE - 1)) as usize;
        let shift = u64::from(random.u64(..).is_multiple_of(8));
        put(at + 24, position.wrapping_add(shift));
        put(at + 8, if random.u64(..).is_multiple_of(3) { random.u64(..) } else { 256 + random.u64(..) % 1000 * 8 });
        put(at + 80, if random.u64(..).is_multiple_of(2) { random.u64(..) } else { random.u64(..) % 5000 });
    }
    bytes
}

/// Requests a snapshot and completes it.
fn snapshot_of(recording: &Path, when: Option<&str>) -> Result<PathBuf, String> {
    let request = Request { when: when.map(str::to_owned), ..Request::default() };
    let asked = Asked::ask(recording, &request).unwrap();
    let begin = Instant::now();
    loop {
        if let Some(answer) = asked.answer().unwrap() {
            let path = PathBuf::from(answer?["path"].as_str().unwrap());
            snapshot::complete(&path).unwrap();
            return Ok(path);
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no answer");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn rings_with_wrong_contents_spoil_no_snapshot_and_no_count() {
    let mut random = Rng::with_seed(0x5eed);
    for round in 0..2 {
        let place = Place::new();
        // The streams of those rings may hold anything.
        place.damages();
        let config = place.progress("config.toml");
        fs::write(&config, "mode = \"overwrite\"\n").unwrap();
        let mut recorder = place.recorder("0", Some(&config));
        let mut control = vec![0; 4096];
        for (at, value) in [(64, MAGIC), (72, 1 | u64::from(std::process::id()) << 32), (96, 40)] {
            control[at..at + 8].copy_from_slice(&u64::to_ne_bytes(value));
        }
        let stem = format!("{}-{round:08}", std::process::id());
        let rings: Vec<PathBuf> = (0..40).map(|number| place.runtime().join(format!("{stem}.{number}.ring"))).collect();
        for ring in &rings {
            make(ring, &liar(&mut random));
        }
        make(&place.runtime().join(format!("{stem}.control")), &control);
        let program = Running::start(&mut place.numbered(2, 20_000, 100, 100, "p"));
        let pid = program.pid();
        let mut made = vec![snapshot_of(&recorder.path, None).unwrap()];
        // Snapshots while the rings are overwritten, and while a request waits for a condition.
        for ring in &rings {
            fs::set_permissions(ring, fs::Permissions::from_mode(0o600)).unwrap();
            let file = OpenOptions::new().write(true).open(ring).unwrap();
            file.write_all_at(&liar(&mut random), 0).unwrap();
        }
        let _ = snapshot_of(&recorder.path, Some("rate nobody < 1"));
        assert!(snapshot_of(&recorder.path, Some("nonsense")).is_err());
        program.succeed();
        made.push(snapshot_of(&recorder.path, None).unwrap());
        assert!(recorder.is_alive(), "the recorder died");
        let ended = recorder.finish();
        made.push(ended.path.clone());
        for (at, recording) in made.iter().enumerate() {
            // The format of each lane is valid, whatever its events are.
            let lanes = support::lanes(recording);
            let honest = lanes.values().flatten().filter(|packet| packet.pid == pid);
            let recorded: usize = honest.map(|packet| packet.events.len() / 16).sum();
            let lost: u64 = lanes.values().filter(|lane| lane[0].pid == pid).map(|lane| lane.last().unwrap().discarded).sum();
            if at > 0 {
                assert_eq!(recorded as u64 + lost, 40_000, "{:?}", ended.diagnostics);
            }
        }
    }
}
