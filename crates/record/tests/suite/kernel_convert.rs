//! Converting the kernel's pages to a trace that other tools read: every event with its time and
//! fields, every loss, and no panic whatever the directory holds. The last test of this file
//! recorded `fixtures/kernel` (as root, with LONGPOLE_FIXTURES=DIR).

use longpole_ftrace::{ByteOrder, CpuStats, EventFormat, EventName, Formats, Instance, Item, PageLayout, PageStream, TraceFs};
use longpole_record::kernel::{convert, convert_while, is_pending, ConvertError, Converted};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kernel");
const PREFIX: &str = "longpole-convert-test";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
}

/// A copy of the fixture that a test may change.
fn recording() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    copy(Path::new(FIXTURE), place.path());
    place
}

fn done(recording: &Path) -> Converted {
    convert(recording, &mut |_, _| {}).unwrap()
}

fn edit(recording: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let path = recording.join(name);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
}

/// Contents of the pages, decoded by this test itself.
struct Direct {
    /// Time in ticks, CPU, id of the format, record.
    events: Vec<(u64, u32, u16, Vec<u8>)>,
    formats: Formats,
    lost: u64,
}

fn direct(raw: &Path) -> Direct {
    let mut formats = Formats::default();
    for system in fs::read_dir(raw.join("events")).unwrap() {
        let system = system.unwrap();
        for event in fs::read_dir(system.path()).unwrap() {
            let text = fs::read_to_string(event.unwrap().path()).unwrap();
            formats.add(EventFormat::parse(system.file_name().to_str().unwrap(), &text).unwrap());
        }
    }
    let layout = PageLayout::parse(&fs::read_to_string(raw.join("header_page")).unwrap(), ByteOrder::NATIVE).unwrap();
    let mut found = Direct { events: Vec::new(), formats, lost: 0 };
    for cpu in 0..64 {
        let Ok(file) = File::open(raw.join(format!("cpu{cpu}"))) else { continue };
        let mut pages = PageStream::new(file, layout);
        while let Some(item) = pages.next_item().unwrap() {
            match item {
                Item::Event(record) => found.events.push((record.time, cpu, record.id, record.data.to_vec())),
                Item::Loss { loss, .. } => found.lost += loss.count.unwrap_or(1),
            }
        }
    }
    found.events.sort_by_key(|event| (event.0, event.1));
    found
}

/// One event as printed by babeltrace2.
#[derive(Debug)]
struct Printed {
    ns: i128,
    cpu: u32,
    name: String,
    fields: String,
}

impl Printed {
    fn field(&self, name: &str) -> &str {
        let at = self.fields.find(&format!("{name} = ")).unwrap_or_else(|| panic!("no {name} in {self:?}")) + name.len() + 3;
        let rest = &self.fields[at..];
        match rest.strip_prefix('"') {
            Some(text) => &text[..text.find('"').unwrap()],
            None => rest[..rest.find([',', ' ']).unwrap_or(rest.len())].trim(),
        }
    }

    fn number(&self, name: &str) -> i128 {
        let mut text = self.field(name);
        if text == "(" {
            // An enumeration: `( "A" : container = 1 )`.
            let rest = &self.fields[self.fields.find(&format!("{name} = (")).unwrap()..];
            text = rest.split_once("container = ").unwrap().1.split(' ').next().unwrap();
        }
        match text.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        }
    }
}

/// All events of a trace, and the number of lost events that it states. `None` if babeltrace2 is
/// not installed.
fn babeltrace(trace: &Path) -> Option<(Vec<Printed>, u64)> {
    let Ok(run) = Command::new("babeltrace2").args(["--clock-seconds", "--no-delta"]).arg(trace).output() else {
        println!("skipped: comparing with babeltrace2 (not installed)");
        return None;
    };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{said}");
    let mut lost = 0;
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        // The only allowed warning is the one about lost events.
        let count = line.split("Tracer discarded ").nth(1).unwrap_or_else(|| panic!("{line}"));
        lost += count.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    }
    let text = String::from_utf8_lossy(&run.stdout);
    let printed = text.lines().map(|line| {
        let (time, rest) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
        let (seconds, ns) = time.split_once('.').unwrap();
        let (head, rest) = rest.split_once(": { cpu_id = ").unwrap_or_else(|| panic!("{line}"));
        let (cpu, fields) = rest.split_once(" }, ").unwrap();
        Printed {
            ns: seconds.parse::<i128>().unwrap() * 1_000_000_000 + ns.parse::<i128>().unwrap(),
            cpu: cpu.parse().unwrap(),
            name: head.rsplit(' ').next().unwrap().to_owned(),
            fields: fields.to_owned(),
        }
    });
    Some((printed.collect(), lost))
}

/// Written by hand, so that an error in the converter's table is noticed.
fn lttngs_name(system: &str, name: &str) -> String {
    match (system, name) {
        ("irq", name) if name.starts_with("softirq") => format!("irq_{name}"),
        ("timer", name) if name.starts_with("hrtimer_setup") => "timer_hrtimer_init".to_owned(),
        ("timer", name) if name.starts_with("hrtimer") || name.starts_with("itimer") => format!("timer_{name}"),
        ("net", name) if name.starts_with("netif_") => name.replace("netif_", "net_if_"),
        ("net", name) if name.starts_with("napi_") => format!("net_{name}"),
        ("skb", "kfree_skb") => "skb_kfree".to_owned(),
        ("skb", "consume_skb") => "skb_consume".to_owned(),
        (_, name) => name.to_owned(),
    }
}

/// Compares a converted recording with the contents of its pages.
fn compare(recording: &Path, held: &Direct, converted: &Converted) {
    let whole: Value = serde_json::from_slice(&fs::read(recording.join("longpole.json")).unwrap()).unwrap();
    let frequency = i128::from(whole["clock"]["frequency_hz"].as_u64().unwrap());
    let offset = i128::from(whole["clock"]["offset_ns"].as_i64().unwrap());
    assert_eq!(converted.events as usize, held.events.len());
    assert_eq!((converted.damaged_pages, converted.unknown, converted.short, converted.moved), (0, 0, 0, 0), "{converted:?}");
    let Some((printed, _)) = babeltrace(&recording.join("kernel")) else { return };
    let dumped = printed.iter().filter(|event| event.name.starts_with("lttng_statedump")).count();
    // Events that no page holds: the state at the begin, and threads that appear in no switch.
    let own = |event: &Printed| event.name.starts_with("lttng_statedump") || event.name.starts_with("longpole_");
    let mut printed: Vec<Printed> = printed.into_iter().filter(|event| !own(event)).collect();
    assert_eq!(printed.len(), held.events.len());
    assert!(dumped > 10);
    printed.sort_by_key(|event| event.ns);
    // Events of several CPUs at the same time may be in any order.
    let mut by_cpu: BTreeMap<u32, Vec<&Printed>> = BTreeMap::new();
    for event in &printed {
        by_cpu.entry(event.cpu).or_default().push(event);
    }
    let mut next: BTreeMap<u32, usize> = BTreeMap::new();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for (time, cpu, id, record) in &held.events {
        let at = next.entry(*cpu).or_insert(0);
        let event = by_cpu[cpu][*at];
        *at += 1;
        let expected = offset + i128::from(*time) * 1_000_000_000 / frequency;
        // The test and the converter each round twice.
        assert!((event.ns - expected).abs() <= 2, "{event:?} at {} instead of {expected}", event.ns);
        let format = held.formats.by_id(*id).unwrap();
        let int = |name: &str| format.field(name).unwrap().int(record, ByteOrder::NATIVE).unwrap();
        let text = |name: &str| String::from_utf8_lossy(format.field(name).unwrap().text(record, ByteOrder::NATIVE).unwrap()).into_owned();
        if format.system == "raw_syscalls" {
            let way = if format.name == "sys_enter" { "syscall_entry_" } else { "syscall_exit_" };
            assert!(event.name.starts_with(way), "{event:?}");
            if format.name == "sys_exit" {
                assert_eq!(event.number("ret"), int("ret"));
            } else if event.name == "syscall_entry_write" {
                assert_eq!(int("id"), 1);
                let words: Vec<i128> = format.field("args").unwrap().ints(record, ByteOrder::NATIVE, 8).unwrap().collect();
                assert_eq!(event.number("fd"), words[0] & 0xffff_ffff);
                assert_eq!(event.number("count"), words[2]);
            }
        } else {
            assert_eq!(event.name, lttngs_name(&format.system, &format.name));
        }
        match format.name.as_str() {
            "sched_switch" => {
                assert_eq!(event.number("prev_tid"), int("prev_pid"));
                assert_eq!(event.number("prev_prio"), int("prev_prio") - 100);
                assert_eq!(event.number("prev_state"), int("prev_state") & 0xff);
                assert_eq!(event.field("next_comm"), text("next_comm"));
                assert_eq!(event.number("next_tid"), int("next_pid"));
                *seen.entry("switch").or_default() += 1;
                if int("prev_state") == 0x100 {
                    *seen.entry("preempted").or_default() += 1;
                }
            }
            "sched_waking" => {
                assert_eq!(event.number("tid"), int("pid"));
                assert_eq!(event.number("target_cpu"), int("target_cpu"));
                *seen.entry("waking").or_default() += 1;
            }
            "softirq_entry" => {
                assert_eq!(event.number("vec"), int("vec"));
                *seen.entry("softirq").or_default() += 1;
            }
            "hrtimer_start" => {
                assert_eq!(event.number("hrtimer"), int("hrtimer") & i128::from(u64::MAX));
                assert_eq!(event.number("expires"), int("expires"));
                *seen.entry("hrtimer").or_default() += 1;
            }
            "net_dev_queue" => {
                assert_eq!(event.number("len"), int("len"));
                assert_eq!(event.field("name"), text("name"));
                *seen.entry("net").or_default() += 1;
            }
            "kfree_skb" => assert_eq!(event.number("reason"), int("reason")),
            "sched_process_fork" => {
                assert_eq!(event.number("child_tid"), int("child_pid"));
                *seen.entry("fork").or_default() += 1;
            }
            _ => {}
        }
    }
    println!("compared {} events: {seen:?}", held.events.len());
    for kind in ["switch", "waking", "softirq", "hrtimer", "net", "fork"] {
        assert!(seen.contains_key(kind), "no {kind} among the events: {seen:?}");
    }
}

#[test]
fn every_event_of_the_pages_is_in_the_trace_with_its_time_and_fields() {
    let place = recording();
    let held = direct(&place.path().join("kernel/raw"));
    let converted = done(place.path());
    assert!(!is_pending(place.path()));
    compare(place.path(), &held, &converted);
}

#[test]
fn a_thread_belongs_to_the_process_that_made_it() {
    let place = recording();
    done(place.path());
    let Some((printed, _)) = babeltrace(&place.path().join("kernel")) else { return };
    let forks: Vec<&Printed> = printed.iter().filter(|event| event.name == "sched_process_fork").collect();
    let (threads, processes): (Vec<_>, Vec<_>) = forks.into_iter().partition(|fork| fork.number("child_tid") != fork.number("child_pid"));
    assert!(!threads.is_empty() && !processes.is_empty());
    for thread in threads {
        assert_eq!(thread.number("child_pid"), thread.number("parent_pid"));
    }
}

#[test]
fn the_requested_context_is_in_every_event() {
    let place = recording();
    edit(place.path(), "kernel/raw/source.json", |source| source["context"] = json!(["pid", "comm", "prio", "ppid"]));
    let held = direct(&place.path().join("kernel/raw"));
    done(place.path());
    let Some((printed, _)) = babeltrace(&place.path().join("kernel")) else { return };
    assert_eq!(printed.iter().filter(|event| !event.name.starts_with("lttng_statedump")).count(), held.events.len());
    for event in printed.iter().filter(|event| event.name == "sched_switch") {
        assert_eq!(event.number("tid"), event.number("prev_tid"));
        let (context, fields) = event.fields.split_once(" }, ").unwrap();
        assert!(context.contains("procname = ") && context.contains("ppid = ") && context.contains("prio = "), "{context}");
        assert!(fields.contains("prev_comm"));
    }
}

/// Sets the mark of a loss in a page's header, and the number of lost events after the events, if
/// given.
fn lose(path: &Path, page: usize, count: Option<u64>) {
    let mut bytes = fs::read(path).unwrap();
    let at = page * 4096;
    let commit = u64::from_ne_bytes(bytes[at + 8..at + 16].try_into().unwrap());
    let mut mark = commit | 1 << 31;
    if let Some(count) = count {
        mark |= 1 << 30;
        let end = at + 16 + (commit & 0xfff_ffff) as usize;
        assert!(end + 8 <= at + 4096, "no room for the number");
        bytes[end..end + 8].copy_from_slice(&count.to_ne_bytes());
    }
    bytes[at + 8..at + 16].copy_from_slice(&mark.to_ne_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn lost_events_are_counted_where_they_were_lost_and_sum_up_to_the_kernels_count() {
    let place = recording();
    let raw = place.path().join("kernel/raw");
    // Pages with room for the number.
    let bytes = fs::read(raw.join("cpu0")).unwrap();
    let roomy: Vec<usize> = (1..bytes.len() / 4096)
        .filter(|page| u64::from_ne_bytes(bytes[page * 4096 + 8..page * 4096 + 16].try_into().unwrap()) & 0xfff_ffff <= 4072)
        .collect();
    lose(&raw.join("cpu0"), roomy[0], Some(1000));
    lose(&raw.join("cpu1"), 1, None);
    edit(place.path(), "kernel/raw/source.json", |source| {
        for cpu in source["cpus"].as_array_mut().unwrap() {
            cpu["overrun"] = json!(if cpu["cpu"] == 0 { 1005 } else { 20 });
            cpu["dropped"] = json!(3);
        }
    });
    let held = direct(&raw);
    assert_eq!(held.lost, 1001);
    let converted = done(place.path());
    assert_eq!(converted.lost, 1005 + 20 + 3 + 3);
    assert_eq!(converted.events as usize, held.events.len());
    let Some((printed, lost)) = babeltrace(&place.path().join("kernel")) else { return };
    assert_eq!(lost, converted.lost);
    assert!(printed.len() > held.events.len());
}

#[test]
fn the_losses_of_an_overrun_buffer_are_those_that_the_kernel_counted() {
    let place = recording();
    let raw = place.path().join("kernel/raw");
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ftrace/tests/fixtures");
    for name in ["events", "cpu1"] {
        let _ = fs::remove_dir_all(raw.join(name)).or_else(|_| fs::remove_file(raw.join(name)));
    }
    fs::copy(pages.join("overrun"), raw.join("cpu0")).unwrap();
    for entry in fs::read_dir(&pages).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((system, event)) = name.strip_suffix(".format").and_then(|name| name.split_once('.')) {
            fs::create_dir_all(raw.join("events").join(system)).unwrap();
            fs::copy(pages.join(&name), raw.join("events").join(system).join(event)).unwrap();
        }
    }
    let stats = CpuStats::parse(&fs::read_to_string(pages.join("overrun.stats")).unwrap()).unwrap();
    edit(place.path(), "kernel/raw/source.json", |source| {
        source["cpus"] = json!([{
            "cpu": 0, "entries": stats.entries, "overrun": stats.overrun, "commit_overrun": stats.commit_overrun, "dropped": stats.dropped,
        }]);
    });
    let held = direct(&raw);
    assert!(held.lost > 0);
    let converted = done(place.path());
    assert_eq!(converted.events as usize, held.events.len());
    assert_eq!(converted.lost, stats.lost() + stats.entries);
    let Some((_, lost)) = babeltrace(&place.path().join("kernel")) else { return };
    assert_eq!(lost, converted.lost);
}

#[test]
fn an_interrupted_conversion_starts_again_and_gives_the_same_result() {
    let whole = recording();
    done(whole.path());
    let place = recording();
    let result = convert_while(place.path(), &mut |_, _| false);
    assert!(matches!(result, Err(ConvertError::Ended)), "{result:?}");
    assert!(is_pending(place.path()) && !place.path().join("kernel/metadata").exists());
    // A process that was killed in the middle leaves a part of the result, and perhaps moved stream
    // files.
    let part = place.path().join("kernel/.converting");
    fs::create_dir_all(&part).unwrap();
    fs::write(part.join("cpu0"), b"part").unwrap();
    fs::write(part.join("metadata"), b"part").unwrap();
    fs::write(place.path().join("kernel/cpu1"), b"part").unwrap();
    done(place.path());
    assert!(!is_pending(place.path()) && !part.exists());
    for name in ["metadata", "cpu0", "cpu1"] {
        let read = |place: &tempfile::TempDir| fs::read(place.path().join("kernel").join(name)).unwrap();
        assert!(read(&place) == read(&whole), "{name} differs");
    }
}

#[test]
fn a_conversion_that_was_interrupted_while_removing_pages_only_removes_them() {
    let place = recording();
    fs::write(place.path().join("kernel/metadata"), b"env {\n\tlongpole_version = \"0\";\n};").unwrap();
    assert_eq!(done(place.path()), Converted::default());
    assert!(!is_pending(place.path()));
    assert_eq!(fs::read(place.path().join("kernel/metadata")).unwrap(), b"env {\n\tlongpole_version = \"0\";\n};");
    assert_eq!(done(place.path()), Converted::default());
}

#[test]
fn pages_that_another_process_has_locked_are_left_alone() {
    let place = recording();
    let held = File::open(place.path().join("kernel/raw")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(matches!(convert(place.path(), &mut |_, _| {}), Err(ConvertError::Busy { .. })));
    drop(held);
    done(place.path());
}

#[test]
fn events_without_a_format_are_converted_as_bytes() {
    let place = recording();
    let raw = place.path().join("kernel/raw");
    let held = direct(&raw);
    let gone = held.formats.by_name("sched", "sched_waking").unwrap().id;
    let expected = held.events.iter().filter(|event| event.2 == gone).count() as u64;
    fs::remove_file(raw.join("events/sched/sched_waking")).unwrap();
    fs::write(raw.join("events/sched/sched_wakeup"), "no format").unwrap();
    let converted = done(place.path());
    assert!(converted.unknown >= expected && expected > 0);
    assert_eq!(converted.events as usize, held.events.len());
    assert_eq!(converted.names["unknown"], converted.unknown);
    assert_eq!(converted.diagnostics.len(), 1, "{:?}", converted.diagnostics);
    let Some((printed, _)) = babeltrace(&place.path().join("kernel")) else { return };
    assert!(printed.iter().any(|event| event.name == "unknown" && event.number("id") == i128::from(gone)));
}

/// A field has another name, and one is missing, as in another version of the kernel.
#[test]
fn an_event_with_changed_fields_has_all_values_that_the_kernel_recorded() {
    let place = recording();
    let raw = place.path().join("kernel/raw");
    let held = direct(&raw);
    let id = held.formats.by_name("sched", "sched_waking").unwrap().id;
    let expected = held.events.iter().filter(|event| event.2 == id).count();
    let path = raw.join("events/sched/sched_waking");
    let text = fs::read_to_string(&path).unwrap();
    let changed: Vec<&str> = text.lines().filter(|line| !line.contains("field:int prio;")).collect();
    fs::write(&path, changed.join("\n").replace("int target_cpu;", "int chosen_cpu;")).unwrap();
    let converted = done(place.path());
    assert_eq!((converted.events as usize, converted.unknown), (held.events.len(), 0));
    let Some((printed, _)) = babeltrace(&place.path().join("kernel")) else { return };
    let printed: Vec<&Printed> = printed.iter().filter(|event| event.name == "sched_waking").collect();
    assert_eq!(printed.len(), expected);
    for event in printed {
        // Fields in the layout's table have the layout's name, unknown fields the kernel's name,
        // and missing fields do not appear.
        assert!(event.number("tid") >= 0 && !event.field("comm").is_empty(), "{event:?}");
        assert!(
            event.fields.contains("chosen_cpu = ") && !event.fields.contains("target_cpu = ") && !event.fields.contains("prio = "),
            "{event:?}"
        );
    }
}

/// Ids, field names and the kernel's release come from the files, not from the kernel of this host.
#[test]
fn pages_of_another_kernel_version_are_read_by_the_formats_next_to_them() {
    let (place, other) = (recording(), recording());
    let expected = done(place.path());
    edit(other.path(), "longpole.json", |told| told["kernel"] = json!("9.99.1-other"));
    let raw = other.path().join("kernel/raw");
    for (system, event, from, to) in [
        ("sched", "sched_waking", "int target_cpu;", "int chosen_cpu;"),
        ("sched", "sched_switch", "prev_prio;", "prev_priority;"),
        ("irq", "softirq_entry", "print fmt:", "print fmt: \"new\", 0, "),
    ] {
        let path = raw.join("events").join(system).join(event);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }
    let converted = done(other.path());
    assert_eq!((converted.events, converted.unknown, converted.short, converted.lost), (expected.events, 0, expected.short, expected.lost));
    assert_eq!(converted.names, expected.names);
    let metadata = fs::read_to_string(other.path().join("kernel/metadata")).unwrap();
    assert!(metadata.contains("9.99.1-other") && metadata.contains("chosen_cpu") && metadata.contains("prev_priority"));
}

/// The pages of a CPU that went offline end there. A CPU that came online has a file that begins
/// later, or no file.
#[test]
fn a_cpu_that_goes_offline_or_online_does_not_affect_the_others() {
    // `counted`: the kernel handed out exactly the existing events. Otherwise it handed out more,
    // and the rest is lost.
    for (gone, counted) in [("half", true), ("half", false), ("empty", true), ("empty", false), ("missing", true)] {
        let place = recording();
        let raw = place.path().join("kernel/raw");
        let path = raw.join("cpu1");
        let pages = fs::read(&path).unwrap().len() / 4096;
        assert!(pages >= 2);
        match gone {
            "half" => File::options().write(true).open(&path).unwrap().set_len((pages / 2 * 4096) as u64).unwrap(),
            "empty" => fs::write(&path, b"").unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let held = direct(&raw);
        let left = held.events.iter().filter(|event| event.1 == 1).count() as u64;
        let mut handed_out = 0;
        edit(place.path(), "kernel/raw/source.json", |source| {
            let cpus = source["cpus"].as_array_mut().unwrap();
            if gone == "missing" {
                cpus.retain(|cpu| cpu["cpu"] != 1);
            }
            for cpu in cpus.iter_mut().filter(|cpu| cpu["cpu"] == 1) {
                if counted {
                    cpu["read"] = json!(left);
                }
                handed_out = cpu["read"].as_u64().unwrap();
            }
        });
        let converted = done(place.path());
        assert_eq!(converted.lost, handed_out.saturating_sub(left), "{gone} {counted}");
        assert!(counted || converted.lost > 300, "{gone}: {}", converted.lost);
        assert_eq!(converted.events as usize, held.events.len(), "{gone}");
        assert_eq!(converted.damaged_pages, 0, "{gone}");
        let Some((printed, _)) = babeltrace(&place.path().join("kernel")) else { return };
        assert!(printed.iter().filter(|event| event.cpu == 0 && !event.name.starts_with("lttng_")).count() > 100, "{gone}");
    }
}

#[test]
fn no_contents_of_the_directory_cause_a_panic() {
    let place = recording();
    // Small files, so that many rounds are possible.
    let raw = place.path().join("kernel/raw");
    for cpu in ["cpu0", "cpu1"] {
        let bytes = fs::read(raw.join(cpu)).unwrap();
        fs::write(raw.join(cpu), &bytes[..bytes.len().min(4 * 4096)]).unwrap();
    }
    let mut seed = 0x1234_5678_9abc_def0u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let small = ["cpu0", "cpu1", "source.json", "state.jsonl", "header_page", "header_event", "events/sched/sched_switch"];
    for turn in 0..120 {
        let copied = tempfile::tempdir().unwrap();
        copy(place.path(), copied.path());
        let target = copied.path().join("kernel/raw").join(small[turn % small.len()]);
        let mut bytes = fs::read(&target).unwrap();
        for _ in 0..1 + random() % 20 {
            let at = (random() % bytes.len() as u64) as usize;
            // Damage to page headers has the largest effect.
            let at = if turn % 3 == 0 { at / 4096 * 4096 + at % 24 } else { at }.min(bytes.len() - 1);
            bytes[at] = random() as u8;
        }
        if turn % 5 == 0 {
            bytes.truncate((random() % bytes.len() as u64) as usize);
        }
        fs::write(&target, bytes).unwrap();
        if let Err(error) = convert(copied.path(), &mut |_, _| {}) {
            assert!(is_pending(copied.path()), "{error}: the pages are gone");
        }
    }
    for name in ["header_page", "header_event", "source.json", "state.jsonl", "events", "cpu0"] {
        let copied = tempfile::tempdir().unwrap();
        copy(place.path(), copied.path());
        let target = copied.path().join("kernel/raw").join(name);
        let _ = fs::remove_file(&target).or_else(|_| fs::remove_dir_all(&target));
        let _ = convert(copied.path(), &mut |_, _| {});
    }
}

#[test]
fn a_full_disk_does_not_remove_the_pages() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: converting on a full disk (needs root)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mount = |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(place.path()).output().unwrap();
    let run = mount("size=700k");
    if !run.status.success() {
        println!("skipped: converting on a full disk (no tmpfs can be mounted)");
        return;
    }
    copy(Path::new(FIXTURE), place.path());
    let filler = place.path().join("filler");
    let mut size = 400 << 10;
    while size > 0 && fs::write(&filler, vec![1; size]).is_err() {
        size -= 16 << 10;
    }
    let result = convert(place.path(), &mut |_, _| {});
    let left = place.path().join("kernel/.converting").exists();
    let pending = is_pending(place.path());
    fs::remove_file(&filler).unwrap();
    let again = mount("remount,size=8m").status.success().then(|| convert(place.path(), &mut |_, _| {}));
    Command::new("umount").arg(place.path()).output().unwrap();
    assert!(matches!(result, Err(ConvertError::Full { .. })), "{result:?}");
    assert!(pending && !left);
    assert!(again.is_none_or(|again| again.is_ok_and(|done| done.events > 0)));
}

fn events(tracefs: &TraceFs) -> Vec<EventName> {
    let patterns = [
        "sched:*",
        "irq:*",
        "timer:*",
        "net:net_dev_*",
        "net:netif_r*",
        "skb:*",
        "block:block_rq_*",
        "raw_syscalls:*",
        "task:task_newtask",
    ];
    patterns.iter().flat_map(|pattern| tracefs.matching(pattern).unwrap_or_default()).collect()
}

fn work() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    Command::new("true").status().unwrap();
    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(1))).join().unwrap();
    // No process listens on this port.
    let _ = sender.send_to(b"lost", "127.0.0.1:9");
    for _ in 0..10 {
        sender.send_to(b"longpole", to).unwrap();
        receiver.recv(&mut [0; 16]).unwrap();
    }
}

/// Runs `work` on each CPU, at most two.
fn work_everywhere(cpus: &[u32]) {
    for &cpu in &cpus[..cpus.len().min(2)] {
        let pinned = std::thread::spawn(move || {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu as usize);
            rustix::thread::sched_setaffinity(None, &set).unwrap();
            work();
        });
        pinned.join().unwrap();
    }
}

/// The recorder's part in short: makes the files that a conversion reads.
fn record(to: &Path, tracefs: &TraceFs) -> PathBuf {
    for dead in Instance::dead(tracefs, PREFIX).unwrap() {
        let _ = dead.remove();
    }
    let raw = to.join("kernel/raw");
    fs::create_dir_all(&raw).unwrap();
    let instance = Instance::create(tracefs, PREFIX).unwrap();
    instance.set_clock(&["x86-tsc"]).unwrap();
    instance.set_buffer_size_kb(4096).unwrap();
    for event in events(tracefs) {
        instance.enable(&event, None).unwrap();
        let place = raw.join("events").join(&event.system);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(&event.name), tracefs.format_text(&event).unwrap()).unwrap();
    }
    for name in ["header_page", "header_event"] {
        fs::write(raw.join(name), instance.get(&format!("events/{name}")).unwrap()).unwrap();
    }
    let cpus = instance.cpus().unwrap();
    let mut readers: Vec<_> =
        cpus.iter().map(|cpu| (instance.reader(*cpu).unwrap(), File::create(raw.join(format!("cpu{cpu}"))).unwrap())).collect();
    instance.start().unwrap();
    work_everywhere(&cpus);
    instance.stop().unwrap();
    for (reader, file) in &mut readers {
        reader.drain_to(file.as_fd()).unwrap();
    }
    drop(readers);
    let mut told = Vec::new();
    for cpu in &cpus {
        let stats = instance.stats(*cpu).unwrap();
        told.push(json!({"cpu": cpu, "entries": stats.entries, "overrun": stats.overrun, "commit_overrun": stats.commit_overrun, "dropped": stats.dropped, "read": stats.read}));
    }
    instance.remove().unwrap();
    let mut dump = String::new();
    for tid in 1..40 {
        let comm = if tid == 2 { "kthreadd" } else { "some thread" };
        dump += &format!("{}\n", json!({"kind": "process", "tid": tid, "pid": tid, "ppid": 0, "comm": comm, "state": "S", "cpu": 0}));
    }
    dump += &format!("{}\n", json!({"kind": "file_descriptor", "pid": 1, "fd": 0, "path": "/dev/null"}));
    dump += &format!("{}\n", json!({"kind": "interrupt", "irq": 9, "name": "acpi", "chip": "IO-APIC"}));
    dump += &format!("{}\n", json!({"kind": "network_interface", "name": "lo", "ifindex": 1, "address_ipv4": "127.0.0.1"}));
    dump += &format!("{}\n", json!({"kind": "block_device", "name": "vda", "dev": 254 << 20}));
    fs::write(raw.join("state.jsonl"), dump).unwrap();
    let source = json!({"version": 1, "clock": "x86-tsc", "page_size": 4096, "events": [], "groups": [], "cpus": told});
    fs::write(raw.join("source.json"), serde_json::to_vec_pretty(&source).unwrap()).unwrap();
    let whole = json!({
        "uuid": "6f6e6720-706f-4c65-a000-00000000000a",
        "host": "fixture",
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim(),
        "clock": {"source": "tsc", "frequency_hz": 2_499_998_765u64, "offset_ns": 1_700_000_000_123_456_789i64},
        "start_ns": 1_700_000_000_123_456_789i64,
        "end_ns": 1_700_000_001_123_456_789i64,
    });
    fs::write(to.join("longpole.json"), serde_json::to_vec_pretty(&whole).unwrap()).unwrap();
    raw
}

#[test]
fn events_that_the_kernel_of_this_host_records_are_in_the_trace() {
    // SAFETY: geteuid has no preconditions.
    let (Ok(tracefs), 0) = (TraceFs::find(), unsafe { libc::geteuid() }) else {
        println!("skipped: converting what this kernel records (needs root and tracefs)");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let raw = record(place.path(), &tracefs);
    if let Some(keep) = std::env::var_os("LONGPOLE_FIXTURES") {
        copy(place.path(), &PathBuf::from(keep).join("kernel"));
    }
    let held = direct(&raw);
    let source: Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
    let sum = |key: &str| source["cpus"].as_array().unwrap().iter().map(|cpu| cpu[key].as_u64().unwrap()).sum::<u64>();
    let converted = done(place.path());
    assert_eq!(converted.events, sum("read"));
    assert_eq!(converted.lost, sum("overrun") + sum("commit_overrun") + sum("dropped") + sum("entries"));
    compare(place.path(), &held, &converted);
}
