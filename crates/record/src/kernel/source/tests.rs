use super::*;
use crate::kernel::plan::{Plan, Request};
use crate::kernel::Group;
use longpole_ftrace::{ByteOrder, EventFormat, Item, PageLayout, PageStream};
use std::fs;

/// Counts the events in the pages of a CPU, and the missing events that the pages contain a
/// count of.
fn count(raw: &Path, cpu: u32, page_size: usize) -> (u64, u64) {
    let text = fs::read_to_string(raw.join("header_page")).unwrap();
    let mut layout = PageLayout::parse(&text, ByteOrder::NATIVE).unwrap().with_page_size(page_size);
    for system in fs::read_dir(raw.join("events")).unwrap().map(Result::unwrap) {
        for event in fs::read_dir(system.path()).unwrap().map(Result::unwrap) {
            let text = fs::read_to_string(event.path()).unwrap();
            // A file may have several formats.
            let text = text.split("\nname: ").next().unwrap();
            layout = layout.with_ids_of(&EventFormat::parse(system.file_name().to_str().unwrap(), text).unwrap());
        }
    }
    let file = File::open(raw.join(format!("cpu{cpu}"))).unwrap();
    let (mut events, mut lost) = (0, 0);
    PageStream::new(file, layout).for_each(
        |item| match item {
            Item::Event(_) => events += 1,
            Item::Loss { loss, .. } => lost += loss.count.unwrap_or(0),
        },
        |error| panic!("{error}"),
    );
    (events, lost)
}

fn work(rounds: u32) {
    for _ in 0..rounds {
        std::process::Command::new("true").status().unwrap();
        for _ in 0..500 {
            std::thread::yield_now();
        }
    }
}

/// Returns true if the condition ends soon. A child that another test has forked at this moment
/// holds copies of all descriptors, and so the locks, until it executes its program.
fn ends(condition: impl Fn() -> bool) -> bool {
    (0..1_000).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        !condition()
    })
}

fn live(what: &str) -> bool {
    let possible = rustix::process::geteuid().is_root() && crate::kernel::available().is_ok();
    if !possible {
        println!("skipped: {what} (needs root and tracefs)");
    }
    possible
}

#[test]
fn the_pages_hold_what_the_kernel_counted_and_the_instance_is_removed() {
    if !live("recording the kernel") {
        return;
    }
    // A buffer that holds all events, and one that loses some.
    for (buffer, rounds) in [(4 << 20, 20), (64 << 10, 60)] {
        let recording = tempfile::tempdir().unwrap();
        let request = Request { groups: vec![Group::Sched, Group::Syscall], buffer: Some(buffer), ..Request::default() };
        let plan = Plan::make(&request, ClockSource::choose()).unwrap();
        let clock = plan.clock.1;
        let mut source = KernelSource::prepare(plan, recording.path()).unwrap();
        let instance = source.instance.as_ref().unwrap().path().to_owned();
        assert!(reap::is_going_on(recording.path()));
        source.begin(clock).unwrap();
        work(rounds);
        let drained = source.stop();
        assert!(!instance.exists());
        assert!(ends(|| reap::is_going_on(recording.path())), "the lock of the recording is still held");
        assert!(drained.diagnostics.iter().all(|note| note.starts_with("this kernel has no event")), "{:?}", drained.diagnostics);
        let raw = recording.path().join(crate::kernel::RAW);
        let description: Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
        let page_size = description["page_size"].as_u64().unwrap() as usize;
        for cpu in &drained.cpus {
            let (events, lost) = count(&raw, cpu.cpu, page_size);
            assert_eq!((events, cpu.stats.entries), (cpu.stats.read, 0), "{cpu:?}");
            assert!(lost <= cpu.stats.lost(), "{lost} {cpu:?}");
        }
        assert!(drained.events() > 1000, "{drained:?}");
        assert_eq!(description["cpus"].as_array().unwrap().len(), drained.cpus.len());
        assert!(raw.join("state.jsonl").exists() && raw.join("events/sched/sched_switch").exists());
    }
}

#[test]
fn events_that_cannot_be_stored_are_given_up_in_order_and_switches_are_recorded_to_the_end() {
    if !live("an overload") {
        return;
    }
    let recording = tempfile::tempdir().unwrap();
    let request = Request { groups: Group::DEFAULT.to_vec(), light: true, buffer: Some(1 << 20), ..Request::default() };
    let plan = Plan::make(&request, ClockSource::choose()).unwrap();
    let clock = plan.clock.1;
    let mut source = KernelSource::prepare(plan, recording.path()).unwrap();
    let instance = source.instance.as_ref().unwrap().path().to_owned();
    let expected: Vec<&str> = source.steps.iter().map(|step| step.what).collect();
    // Pipes that nobody reads act as a disk that takes nothing.
    let mut disks = Vec::new();
    for reader in &mut source.readers {
        let (disk, to) = io::pipe().unwrap();
        reader.file = File::from(OwnedFd::from(to));
        disks.push((reader.reader.cpu(), disk));
    }
    source.begin(clock).unwrap();
    let mut rounds = 0;
    while source.switched_off().len() < 2 {
        work(1);
        rounds += 1;
        assert!(rounds < 100_000, "nothing is given up");
    }
    // From here on the disk takes everything.
    let raw = recording.path().join(crate::kernel::RAW);
    let stored: Vec<_> = disks
        .into_iter()
        .map(|(cpu, mut disk)| {
            let mut file = File::create(raw.join(format!("cpu{cpu}"))).unwrap();
            std::thread::spawn(move || io::copy(&mut disk, &mut file).unwrap())
        })
        .collect();
    work(20);
    source.stop_overload_thread();
    let off = source.switched_off();
    let enabled = |event: &str| {
        let one = event.replace('*', "getppid").replace(':', "/");
        fs::read_to_string(instance.join("events").join(one).join("enable")).unwrap()
    };
    for event in off.iter().filter(|off| off.step.filter.is_none()).flat_map(|off| &off.step.events) {
        assert_eq!(enabled(event).trim(), "0", "{event}");
    }
    assert_eq!(enabled("sched:sched_switch").trim(), "1");
    let description = source.description(&crate::clock::Calibration::begin(clock).finish());
    let drained = source.stop();
    stored.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
    let whats: Vec<&str> = off.iter().map(|off| off.step.what).collect();
    assert_eq!(whats, expected[..whats.len()]);
    assert_eq!(description["switched_off"].as_array().unwrap().len(), whats.len());
    assert!(drained.lost() > 0, "{drained:?}");
    let description: Value = serde_json::from_slice(&fs::read(raw.join("source.json")).unwrap()).unwrap();
    assert_eq!(description["switched_off"].as_array().unwrap().len(), whats.len());
    assert_eq!(description["switched_off"][0]["what"], "page faults");
}

#[test]
fn with_keep_all_no_kind_of_event_is_given_up() {
    if !live("a refused relief") {
        return;
    }
    let recording = tempfile::tempdir().unwrap();
    let request = Request { groups: Group::DEFAULT.to_vec(), light: true, buffer: Some(64 << 10), keep_all: true, ..Request::default() };
    let plan = Plan::make(&request, ClockSource::choose()).unwrap();
    let clock = plan.clock.1;
    let mut source = KernelSource::prepare(plan, recording.path()).unwrap();
    source.begin(clock).unwrap();
    work(1);
    assert!(source.overload_thread.is_none());
    source.stop();
}

#[test]
fn the_recorders_own_calls_are_excluded_and_the_users_filters_are_restored_afterwards() {
    if !live("filters while the state is dumped") {
        return;
    }
    let recording = tempfile::tempdir().unwrap();
    let events = vec!["raw_syscalls:sys_exit:id != 9999".parse().unwrap(), "raw_syscalls:sys_enter".parse().unwrap()];
    let plan = Plan::make(&Request { events, ..Request::default() }, ClockSource::choose()).unwrap();
    let clock = plan.clock.1;
    let mut source = KernelSource::prepare(plan, recording.path()).unwrap();
    let filter = |source: &KernelSource, name: &str| {
        source.instance.as_ref().unwrap().get(&format!("events/raw_syscalls/{name}/filter")).unwrap().trim().to_owned()
    };
    let exclusion = source.exclude_self(source.instance.as_ref().unwrap());
    let tid = rustix::thread::gettid().as_raw_nonzero();
    assert_eq!(filter(&source, "sys_exit"), format!("(id != 9999) && common_pid != {tid}"));
    assert_eq!(filter(&source, "sys_enter"), format!("common_pid != {tid}"));
    let helper = SelfExclusion::here().unwrap();
    let other = std::thread::spawn(move || {
        helper.join();
        rustix::thread::gettid().as_raw_nonzero()
    });
    let other = other.join().unwrap();
    assert_eq!(filter(&source, "sys_enter"), format!("common_pid != {tid} && common_pid != {other}"));
    let late = exclusion.clone();
    exclusion.end().unwrap();
    late.join();
    assert_eq!((filter(&source, "sys_exit").as_str(), filter(&source, "sys_enter").as_str()), ("id != 9999", "none"));
    source.begin(clock).unwrap();
    assert_eq!((filter(&source, "sys_exit").as_str(), filter(&source, "sys_enter").as_str()), ("id != 9999", "none"));
    source.stop();
}

#[test]
fn a_refused_filter_is_reported_with_the_kernels_message() {
    if !live("a refused filter") {
        return;
    }
    let recording = tempfile::tempdir().unwrap();
    let events = vec!["sched:sched_switch:no_such_field == 1".parse().unwrap()];
    let plan = Plan::make(&Request { events, ..Request::default() }, ClockSource::choose()).unwrap();
    let error = KernelSource::prepare(plan, recording.path()).unwrap_err();
    assert!(error.is_wrong_request());
    assert!(error.to_string().contains("Field not found"), "{error}");
}

#[test]
fn a_full_disk_keeps_the_pages_that_are_there_and_is_reported() {
    if !live("pages on a full disk") {
        return;
    }
    let recording = tempfile::tempdir().unwrap();
    let request = Request { groups: vec![Group::Sched, Group::Syscall], ..Request::default() };
    let plan = Plan::make(&request, ClockSource::choose()).unwrap();
    let clock = plan.clock.1;
    let mut source = KernelSource::prepare(plan, recording.path()).unwrap();
    let page = source.readers[0].reader.page_size();
    // A file that cannot grow beyond three pages acts as a full disk.
    let small = File::from(rustix::fs::memfd_create("small", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap());
    small.set_len(3 * page as u64).unwrap();
    rustix::fs::fcntl_add_seals(&small, rustix::fs::SealFlags::GROW).unwrap();
    let held = small.try_clone().unwrap();
    source.readers[0].file = small;
    let mut there = rustix::thread::CpuSet::new();
    there.set(source.readers[0].reader.cpu() as usize);
    source.begin(clock).unwrap();
    // Work on the CPU whose file is full, even if the rest of the host works elsewhere.
    rustix::thread::sched_setaffinity(None, &there).unwrap();
    work(20);
    let drained = source.stop();
    assert!(drained.diagnostics.iter().any(|note| note.starts_with("cannot write") && note.contains("cpu0")), "{:?}", drained.diagnostics);
    let mut times = [0; 3];
    for (index, time) in times.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&held, &mut bytes, (index * page) as u64).unwrap();
        *time = u64::from_ne_bytes(bytes);
    }
    assert!(0 < times[0] && times.is_sorted(), "{times:?}");
    for cpu in &drained.cpus[1..] {
        let length = fs::metadata(recording.path().join(crate::kernel::RAW).join(format!("cpu{}", cpu.cpu))).unwrap().len();
        assert_eq!(length % page as u64, 0);
    }
}
