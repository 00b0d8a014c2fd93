//! perf.data files compared with perf's own reading, and damaged in every place.

use longpole_trace::Diagnostic;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the number of events by name, and the number of lost events.
fn counts(path: &Path) -> Result<(BTreeMap<String, u64>, u64), String> {
    let mut trace = Trace::open(&[path], Options::default()).map_err(|error| error.to_string())?;
    let (mut counts, mut lost, mut last, mut is_ordered) = (BTreeMap::new(), 0, i64::MIN, true);
    while let Some((item, catalogue)) = trace.next_with_catalogue().map_err(|error| error.to_string())? {
        match item {
            Item::Event(event) => {
                is_ordered &= event.t_ns >= last;
                last = event.t_ns;
                *counts.entry(catalogue.classes[event.class.0 as usize].event_name.clone()).or_default() += 1;
            }
            Item::Loss(loss) => lost += loss.events.unwrap_or(0),
        }
    }
    assert!(is_ordered || trace.diagnostics().iter().any(|diagnostic| matches!(diagnostic, Diagnostic::Late { .. })));
    Ok((counts, lost))
}

fn recorded(folder: &Path) -> Option<std::path::PathBuf> {
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-R", "-e", "sched:sched_switch,sched:sched_waking", "-o"]).arg(&data);
    let missing = match perf.args(["--", "sh", "-c", "for i in 1 2 3 4 5; do sleep 0.002; done"]).output() {
        Ok(made) if made.status.success() && data.exists() => return Some(data),
        Ok(made) => format!("it cannot record here: {}", String::from_utf8_lossy(&made.stderr).trim().lines().last().unwrap_or_default()),
        Err(error) => format!("it cannot be run: {error}"),
    };
    println!("skipped: perf.data next to perf ({missing})");
    None
}

#[test]
fn events_equal_those_that_perf_reads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(data) = recorded(folder.path()) else { return };
    let script = Command::new("perf").args(["script", "-F", "event", "-i"]).arg(&data).stderr(Stdio::null()).output().unwrap();
    let mut theirs = BTreeMap::new();
    for line in String::from_utf8_lossy(&script.stdout).lines() {
        let name = line.trim().trim_end_matches(':').trim_start_matches("sched:").to_owned();
        *theirs.entry(name).or_default() += 1;
    }
    let (mut ours, _) = counts(&data).unwrap();
    ours.retain(|name, _| !name.starts_with("PERF_RECORD_"));
    assert!(ours["sched_switch"] > 5);
    assert_eq!(ours, theirs);
}

#[test]
fn damage_leads_to_an_error_or_to_fewer_events() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let Some(data) = recorded(folder.path()) else { return };
    let whole = std::fs::read(&data).unwrap();
    let all: u64 = counts(&data).unwrap().0.values().sum();
    let damaged = folder.path().join("damaged");
    for at in (0..1600).chain((1600..whole.len()).step_by(whole.len() / 300)) {
        for value in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            std::fs::write(&damaged, &bytes).unwrap();
            let _ = counts(&damaged);
        }
    }
    for length in (0..whole.len()).step_by(whole.len() / 100) {
        std::fs::write(&damaged, &whole[..length]).unwrap();
        if let Ok((counts, _)) = counts(&damaged) {
            assert!(counts.values().sum::<u64>() <= all);
        }
    }
}

#[test]
fn header_with_false_sizes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let mut head = b"PERFILE2".to_vec();
    head.extend(104u64.to_le_bytes());
    head.resize(104, 0);
    let told = |head: &[u8]| {
        std::fs::write(&file, head).unwrap();
        counts(&file).unwrap_err()
    };
    assert!(told(&head[..60]).contains("ends within its head"));
    assert!(told(&head).contains("attributes claim to have 0 bytes"));
    head[16..24].copy_from_slice(&136u64.to_le_bytes());
    // A description of four billion events in eight bytes.
    let mut described = head.clone();
    described[72 + 1] = 1 << 4;
    described.extend([0; 32]);
    described[40..48].copy_from_slice(&104u64.to_le_bytes());
    described[48..56].copy_from_slice(&8u64.to_le_bytes());
    described[112..120].copy_from_slice(&128u64.to_le_bytes());
    described[120..128].copy_from_slice(&8u64.to_le_bytes());
    described[128..132].fill(0xff);
    described[132..136].copy_from_slice(&136u32.to_le_bytes());
    assert!(told(&described).contains("shorter than it says"));
    head[48..56].copy_from_slice(&(1u64 << 62).to_le_bytes());
    assert!(told(&head).contains("section of data should be 4611686018427387904 bytes"));
    head[8] = 17;
    assert!(told(&head).contains("its header claims to have 17 bytes"));
}

#[test]
fn call_chain_longer_than_its_sample_is_damage() {
    const IP_TID_TIME_CALLCHAIN: u64 = 1 | 2 | 4 | 0x20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let put = |bytes: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Lengths whose size in bytes overflows 64 bits to the 8 bytes that are left.
    for (length, events) in [(1, 2), (2, 1), ((1 << 61) + 1, 1), (u64::MAX, 1)] {
        let mut data = Vec::new();
        for (time, length) in [(1000, 1), (2000, length)] {
            put(&mut data, &[9 | 48 << 48, 0x1000, 7 << 32 | 7, time, length, 0x2000]);
        }
        let mut bytes = b"PERFILE2".to_vec();
        put(&mut bytes, &[104, 144, 104, 144, 248, data.len() as u64]);
        bytes.resize(104, 0);
        put(&mut bytes, &[1 | 128 << 32, 0, 1000, IP_TID_TIME_CALLCHAIN]);
        bytes.resize(248, 0);
        bytes.extend(data);
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(counts(&file).unwrap().0.values().sum::<u64>(), events, "a chain of {length}");
    }
}
