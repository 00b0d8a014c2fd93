//! Comparison of trace.dat with `trace-cmd report`: CPU, time, name, pid and command of every
//! event, in both versions of the format.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use longpole_ftrace::{Dat, DatErrorKind, Item};

fn corpora(what: &str) -> Option<PathBuf> {
    let found = std::env::var_os("LONGPOLE_CORPORA").map(|p| PathBuf::from(p).join("ftrace"));
    if found.is_none() {
        println!("skipped: {what} (LONGPOLE_CORPORA is not set)");
    }
    found
}

fn has_trace_cmd(what: &str) -> bool {
    let found = Command::new("trace-cmd").arg("-h").output().is_ok();
    if !found {
        println!("skipped: {what} (trace-cmd is not installed)");
    }
    found
}

/// Lines `comm-pid [cpu] time name`, ordered by CPU and by their place in its data.
fn ours(path: &Path) -> Vec<(u32, u64, String)> {
    let dat = Dat::open(File::open(path).unwrap()).unwrap();
    let names: HashMap<i32, &str> = dat.cmdlines().collect();
    let mut out = Vec::new();
    for cpu in &dat.buffers()[0].cpus {
        dat.stream(0, cpu.cpu).unwrap().for_each(
            |item| {
                let Item::Event(record) = item else { return };
                let format = dat.formats().by_id(record.id).unwrap();
                let pid = format.field("common_pid").unwrap().i64(record.data, dat.order()).unwrap() as i32;
                let comm = if pid == 0 { "<idle>" } else { names.get(&pid).copied().unwrap_or("<...>") };
                out.push((cpu.cpu, record.time, format!("{comm}-{pid} {}", format.name)));
            },
            |error| panic!("{error}"),
        );
    }
    out
}

fn theirs(path: &Path) -> Vec<(u32, u64, String)> {
    let output = Command::new("trace-cmd").args(["report", "-t", "-N", "-R", "-i"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut out = Vec::new();
    for line in text.lines() {
        // The further lines of an event of several lines have no CPU.
        let Some((task, rest)) = line.split_once(" [") else {
            continue;
        };
        let Some((cpu, rest)) = rest.split_once(']') else {
            continue;
        };
        let Some((time, rest)) = rest.split_once(": ") else {
            continue;
        };
        // Some runs of trace-cmd 3.1 print whole nanoseconds without the requested decimal point.
        let (Ok(cpu), Ok(time)) = (cpu.parse(), time.trim().replacen('.', "", 1).parse::<u64>()) else {
            continue;
        };
        let name = rest.split(':').next().unwrap().trim();
        out.push((cpu, time, format!("{} {name}", task.trim())));
    }
    // The report is ordered by time over all CPUs. The sort is stable, so the order within each CPU
    // stays.
    out.sort_by_key(|e| e.0);
    out
}

fn same(path: &Path, least: usize) {
    let (ours, theirs) = (ours(path), theirs(path));
    assert!(ours.len() >= least, "{} events in {}", ours.len(), path.display());
    for (index, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(our, their, "event {index} of {}", path.display());
    }
    assert_eq!(ours.len(), theirs.len(), "{}", path.display());
}

#[test]
fn every_event_of_version_6_is_read_as_trace_cmd_reports_it() {
    let what = "trace.dat version 6 next to trace-cmd";
    let Some(folder) = corpora(what) else { return };
    if has_trace_cmd(what) {
        same(&folder.join("trace.dat"), 500);
        same(&folder.join("raw_trace.dat"), 5);
    }
}

#[test]
fn every_event_of_version_7_is_read_as_trace_cmd_reports_it_compressed_or_not() {
    let what = "trace.dat version 7 next to trace-cmd";
    let Some(folder) = corpora(what) else { return };
    if !has_trace_cmd(what) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let before = ours(&folder.join("trace.dat"));
    for method in ["none", "zstd"] {
        let path = place.path().join(method);
        let status = Command::new("trace-cmd")
            .args(["convert", "--file-version", "7", "--compression", method, "-i"])
            .arg(folder.join("trace.dat"))
            .arg("-o")
            .arg(&path)
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        same(&path, 500);
        assert_eq!(ours(&path), before, "conversion changes no event");
        let dat = Dat::open(File::open(&path).unwrap()).unwrap();
        assert_eq!((dat.version(), dat.buffers()[0].clock.as_deref()), (7, Some("local")));
        assert!(dat.kallsyms().len() > 1 << 20, "symbols are there: {}", dat.kallsyms().len());
        // Damage at any place yields an error or other events, never a panic; an unknown
        // compression method is named.
        let mut bytes = std::fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 40) {
            let kept = std::mem::replace(&mut bytes[at], 0xa5);
            if let Ok(dat) = Dat::open(std::io::Cursor::new(&bytes)) {
                for cpu in &dat.buffers()[0].cpus {
                    dat.stream(0, cpu.cpu).unwrap().for_each(|_| {}, |_| {});
                }
            }
            bytes[at] = kept;
        }
        if method == "zstd" {
            let at = bytes.windows(5).position(|w| w == b"zstd\0").unwrap();
            bytes[at..at + 4].copy_from_slice(b"lzma");
            let refused = Dat::open(std::io::Cursor::new(&bytes)).unwrap_err();
            assert!(matches!(refused.kind, DatErrorKind::Compression(ref name) if name == "lzma"), "{refused}");
        }
    }
}

/// The text versions were printed by another version of trace-cmd, and contain a selection of the
/// events.
#[test]
fn the_events_of_the_text_versions_are_in_the_files() {
    let Some(folder) = corpora("trace.dat next to its text twins") else {
        return;
    };
    let twin = std::fs::read_to_string(folder.join("raw_trace.txt")).unwrap();
    let events = ours(&folder.join("raw_trace.dat"));
    let mut found = 0;
    for line in twin.lines().filter(|l| l.contains(']')) {
        let (task, rest) = line.split_once(" [").unwrap();
        let (cpu, rest) = rest.split_once(']').unwrap();
        let (time, rest) = rest.split_once(": ").unwrap();
        let (seconds, micros) = time.trim().split_once('.').unwrap();
        let micros = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
        let what = format!("{} {}", task.trim(), rest.split(':').next().unwrap());
        let cpu: u32 = cpu.parse().unwrap();
        assert!(events.iter().any(|e| e.0 == cpu && (e.1 + 500) / 1000 == micros && e.2 == what), "{line}");
        found += 1;
    }
    assert_eq!(found, 3);
}

#[test]
fn other_files_than_trace_dat_are_rejected() {
    for (bytes, kind) in [
        (&b"PERFILE2 and more"[..], "not a trace.dat"),
        (b"\x17\x08\x44tracing5\0\0\x08\0\x10\0\0", "version"),
        (b"\x17\x08", "not a trace.dat"),
    ] {
        let error = Dat::open(std::io::Cursor::new(bytes)).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
}
