//! Tests with the kernel itself, as root: a private instance from its creation to its removal. With
//! LONGPOLE_FIXTURES=DIR the recording is written there; `tests/fixtures` was made in this way, and
//! `fixtures.rs` reads it without root.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use longpole_ftrace::{EventName, Formats, Instance, Item, PageStream, TraceFs, TraceFsError};

const PREFIX: &str = "longpole-ftrace-test";

fn tracefs(what: &str) -> Option<TraceFs> {
    let found = TraceFs::find();
    // SAFETY: geteuid has no preconditions.
    if let (Ok(tracefs), 0) = (found, unsafe { libc::geteuid() }) {
        // Removes instances of earlier runs that were killed.
        for dead in Instance::dead(&tracefs, PREFIX).unwrap() {
            dead.remove().unwrap();
        }
        return Some(tracefs);
    }
    println!("skipped: {what} (needs root and tracefs)");
    None
}

/// Makes enough system calls and process changes for a few pages on each CPU.
fn work() {
    for _ in 0..20 {
        Command::new("true").status().unwrap();
    }
    for _ in 0..3000 {
        std::thread::yield_now();
    }
}

#[test]
fn a_private_instance_records_every_event_that_the_kernel_counts() {
    let Some(tracefs) = tracefs("recording from a private instance") else {
        return;
    };
    let instance = Instance::create(&tracefs, PREFIX).unwrap();
    let path = instance.path().to_owned();
    let clock = instance.set_clock(&["x86-tsc", "mono_raw"]).unwrap();
    instance.set_buffer_size_kb(1024).unwrap();
    instance.set_option("overwrite", false).unwrap();
    let events: Vec<EventName> = ["sched:sched_switch", "sched:sched_wak*", "sched:sched_process_*", "raw_syscalls:sys_enter"]
        .iter()
        .flat_map(|p| tracefs.matching(p).unwrap())
        .collect();
    let mut formats = Formats::default();
    let mut layout = instance.layout().unwrap();
    for event in &events {
        let format = tracefs.format(event).unwrap();
        layout = layout.with_ids_of(&format);
        formats.add(format);
        let own = format!("common_pid == {}", rustix::thread::gettid());
        let filter = (event.system == "raw_syscalls").then_some(own.as_str());
        instance.enable(event, filter).unwrap();
    }
    assert!(tracefs.records_events().unwrap());
    let cpus = instance.cpus().unwrap();
    let mut readers: Vec<_> = cpus.iter().map(|&cpu| instance.reader(cpu).unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<File> = cpus.iter().map(|cpu| File::create(folder.path().join(format!("cpu{cpu}"))).unwrap()).collect();
    instance.start().unwrap();
    work();
    let mut spliced = 0;
    for (reader, file) in readers.iter_mut().zip(&files) {
        spliced += reader.splice_to(file.as_fd(), usize::MAX).unwrap();
    }
    assert!(spliced > 0 && spliced % layout.page_size() == 0, "whole pages come by splice: {spliced}");
    work();
    instance.stop().unwrap();
    let mut seen = 0;
    for ((reader, file), &cpu) in readers.iter_mut().zip(&files).zip(&cpus) {
        reader.drain_to(file.as_fd()).unwrap();
        let stats = instance.stats(cpu).unwrap();
        let (mut count, mut lost, mut last) = (0, 0, 0);
        let file = File::open(folder.path().join(format!("cpu{cpu}"))).unwrap();
        PageStream::new(file, layout).for_each(
            |item| match item {
                Item::Event(record) => {
                    assert!(record.time >= last, "the times of a CPU never fall");
                    last = record.time;
                    assert!(formats.by_id(record.id).is_some(), "only enabled events are there, not {}", record.id);
                    count += 1;
                }
                Item::Loss { loss, .. } => lost += loss.count.unwrap_or(0),
            },
            |error| panic!("{error}"),
        );
        assert_eq!((count, stats.entries), (stats.read, 0), "cpu {cpu}: {stats:?}");
        assert!(lost <= stats.lost());
        seen += count;
    }
    assert!(seen > 1000, "{seen} events");
    if let Some(place) = std::env::var_os("LONGPOLE_FIXTURES") {
        save(Path::new(&place), &tracefs, &instance, &events, clock, folder.path(), &cpus, layout.page_size());
    }
    drop(readers);
    drop(instance);
    assert!(!path.exists(), "dropping removes the instance");
}

#[allow(clippy::too_many_arguments)]
fn save(to: &Path, tracefs: &TraceFs, instance: &Instance, events: &[EventName], clock: &str, from: &Path, cpus: &[u32], page: usize) {
    fs::create_dir_all(to).unwrap();
    fs::write(to.join("clock"), clock).unwrap();
    for name in ["header_page", "header_event"] {
        fs::write(to.join(name), instance.get(&format!("events/{name}")).unwrap()).unwrap();
    }
    for event in events {
        fs::write(to.join(format!("{}.{}.format", event.system, event.name)), tracefs.format_text(event).unwrap()).unwrap();
    }
    for cpu in cpus {
        let pages = fs::read(from.join(format!("cpu{cpu}"))).unwrap();
        // The first pages, and the last one, which is not full.
        let mut some = pages[..pages.len().min(6 * page)].to_vec();
        some.extend_from_slice(&pages[pages.len() - page..]);
        fs::write(to.join(format!("cpu{cpu}")), some).unwrap();
        fs::write(to.join(format!("cpu{cpu}.stats")), instance.get(&format!("per_cpu/cpu{cpu}/stats")).unwrap()).unwrap();
    }
}

#[test]
fn the_format_of_every_event_of_this_kernel_is_parsed() {
    let Some(tracefs) = tracefs("the formats of this kernel") else {
        return;
    };
    let events = tracefs.matching("all").unwrap();
    for event in &events {
        let format = tracefs.format(event).unwrap();
        assert_eq!(format.name, event.name);
        assert!(format.common.iter().any(|f| f.name == "common_type" && f.offset == 0 && f.size == 2));
        for field in &format.fields {
            let plain = field.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(plain && !field.type_text.is_empty(), "{event}: {field:?}");
        }
    }
    assert!(events.len() > 500, "{}", events.len());
}

#[test]
fn a_rejected_filter_is_reported_with_the_kernels_message() {
    let Some(tracefs) = tracefs("a refused filter") else {
        return;
    };
    let instance = Instance::create(&tracefs, PREFIX).unwrap();
    let event = EventName::new("sched", "sched_switch");
    let refused = instance.enable(&event, Some("no_such_field == 1")).unwrap_err();
    let TraceFsError::Refused { said, .. } = &refused else { panic!("{refused}") };
    assert!(said.contains("Field not found") && said.contains("no_such_field"), "{said}");
    let none = instance.enable(&EventName::new("sched", "no_such_event"), None).unwrap_err();
    assert!(matches!(none, TraceFsError::NoSuchEvent(_)), "{none}");
    assert!(matches!(tracefs.matching("nothing:*"), Err(TraceFsError::NoSuchEvent(_))));
    assert!(matches!(instance.set_clock(&["sundial"]), Err(TraceFsError::NoClock { .. })));
}

#[test]
fn an_overrun_buffer_reports_the_losses_that_the_kernel_counted() {
    let Some(tracefs) = tracefs("buffer overrun") else {
        return;
    };
    // Records of sys_enter fill a page to its last byte, so it has no room for the number of events
    // lost before it.
    for (event, overwrite, counted) in [("sys_exit", true, true), ("sys_enter", true, false), ("sys_exit", false, true)] {
        let instance = Instance::create(&tracefs, PREFIX).unwrap();
        instance.set_buffer_size_kb(16).unwrap();
        instance.set_option("overwrite", overwrite).unwrap();
        let own = format!("common_pid == {}", rustix::thread::gettid());
        instance.enable(&EventName::new("raw_syscalls", event), Some(&own)).unwrap();
        instance.start().unwrap();
        for _ in 0..5000 {
            std::thread::yield_now();
        }
        instance.stop().unwrap();
        let layout = instance.layout().unwrap();
        let (mut lost, mut told, mut untold) = (0, 0, 0);
        for cpu in instance.cpus().unwrap() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("pages");
            let mut reader = instance.reader(cpu).unwrap();
            reader.drain_to(File::create(&path).unwrap().as_fd()).unwrap();
            let stats = instance.stats(cpu).unwrap();
            lost += stats.lost();
            if let (Some(place), true, true) = (std::env::var_os("LONGPOLE_FIXTURES"), overwrite, counted) {
                if stats.lost() > 0 {
                    let place = Path::new(&place);
                    fs::copy(&path, place.join("overrun")).unwrap();
                    let text = instance.get(&format!("per_cpu/cpu{cpu}/stats")).unwrap();
                    fs::write(place.join("overrun.stats"), text).unwrap();
                }
            }
            PageStream::new(File::open(&path).unwrap(), layout).for_each(
                |item| {
                    if let Item::Loss { loss, .. } = item {
                        told += loss.count.unwrap_or(0);
                        untold += u64::from(loss.count.is_none());
                    }
                },
                |error| panic!("{error}"),
            );
        }
        assert!(lost > 1000, "{lost} lost");
        if overwrite && !counted {
            // If the host kept the thread from its CPU for long, an event has a longer time, and
            // its page ends differently.
            assert!(untold > 0 || told == lost, "the loss is reported without its count: {told} of {lost}");
        } else if overwrite {
            assert_eq!((told, untold), (lost, 0), "what was overwritten is reported by the page after it");
        } else {
            assert_eq!(told, 0, "what was refused at the end comes before no page: only the statistics tell it");
        }
    }
}

#[test]
fn only_instances_of_dead_processes_are_removed() {
    let Some(tracefs) = tracefs("tidying after a killed recorder") else {
        return;
    };
    const OWN: &str = "longpole-ftrace-dead";
    let living = Instance::create(&tracefs, OWN).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let folder = tracefs.path().join("instances");
    let dead = folder.join(format!("{OWN}-{pid}-1"));
    let foreign = folder.join(format!("{OWN}-notes-{pid}"));
    fs::create_dir(&dead).unwrap();
    fs::create_dir(&foreign).unwrap();
    // A test that was killed earlier may have left instances, too.
    let mut found = Instance::dead(&tracefs, OWN).unwrap();
    assert!(found.iter().all(|dead| dead.pid != std::process::id() as i32), "a living process");
    found.retain(|dead| dead.pid == pid as i32);
    assert_eq!(found.len(), 1);
    let held = File::open(dead.join("per_cpu/cpu0/trace_pipe_raw")).unwrap();
    assert!(!found[0].remove().unwrap(), "what is in use stays");
    drop(held);
    let adopted = found[0].clone().adopt().unwrap();
    adopted.remove().unwrap();
    assert!(!dead.exists() && foreign.exists() && living.path().exists());
    fs::remove_dir(&foreign).unwrap();
}

#[test]
fn pages_of_another_size_are_read_in_the_layout_that_the_kernel_states() {
    let Some(tracefs) = tracefs("pages of 16 KiB") else {
        return;
    };
    let instance = Instance::create(&tracefs, PREFIX).unwrap();
    instance.set_buffer_size_kb(512).unwrap();
    if let Err(error) = instance.set_page_size_kb(16) {
        println!("skipped: pages of 16 KiB ({error})");
        return;
    }
    let layout = instance.layout().unwrap();
    assert_eq!(layout.page_size(), 16 << 10);
    instance.enable(&EventName::new("raw_syscalls", "sys_enter"), None).unwrap();
    instance.start().unwrap();
    work();
    instance.stop().unwrap();
    let mut total = 0;
    for cpu in instance.cpus().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        instance.reader(cpu).unwrap().drain_to(File::create(&path).unwrap().as_fd()).unwrap();
        let mut count = 0;
        PageStream::new(File::open(&path).unwrap(), layout)
            .for_each(|item| count += u64::from(matches!(item, Item::Event(_))), |error| panic!("{error}"));
        assert_eq!(count, instance.stats(cpu).unwrap().read);
        total += count;
    }
    assert!(total > 1000, "{total}");
}

#[test]
fn data_refused_by_a_file_is_written_by_the_next_call_and_pages_of_a_dead_recorder_are_saved() {
    let Some(tracefs) = tracefs("saving pages of a dead recorder") else {
        return;
    };
    const OWN: &str = "longpole-ftrace-salvage";
    for dead in Instance::dead(&tracefs, OWN).unwrap() {
        dead.remove().unwrap();
    }
    // An instance like that of a recorder that was killed while tracing.
    let path = tracefs.path().join("instances").join(format!("{OWN}-999999999-1"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("events/raw_syscalls/sys_enter/enable"), "1").unwrap();
    work();
    let mut found = Instance::dead(&tracefs, OWN).unwrap();
    let instance = found.pop().unwrap().adopt().unwrap();
    let layout = instance.layout().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut total = 0;
    for cpu in instance.cpus().unwrap() {
        let path = folder.path().join(format!("cpu{cpu}"));
        let file = File::create(&path).unwrap();
        let read_only = File::open(&path).unwrap();
        let mut reader = instance.reader(cpu).unwrap();
        let finished = instance.stats(cpu).unwrap().bytes > 4 * layout.page_size() as u64;
        let refused = reader.splice_to(read_only.as_fd(), usize::MAX);
        assert!(!finished || refused.is_err());
        reader.drain_to(file.as_fd()).unwrap();
        let mut count = 0;
        PageStream::new(File::open(&path).unwrap(), layout)
            .for_each(|item| count += u64::from(matches!(item, Item::Event(_))), |error| panic!("{error}"));
        let stats = instance.stats(cpu).unwrap();
        assert_eq!((count, stats.entries), (stats.read, 0), "cpu {cpu}");
        total += count;
    }
    assert!(total > 1000, "{total}");
    instance.remove().unwrap();
    assert!(!path.exists());
}
