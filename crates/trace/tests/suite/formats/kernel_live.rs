//! The kernel's own tracer, as root: a private instance records, and its text, its raw pages and a
//! trace.dat made of them are compared.

use longpole_ftrace::{Instance, TraceFs};
use longpole_testing::trace_dat::{Buffer, Compression, Machine, TraceDat};
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

const PREFIX: &str = "longpole-trace-test";

/// Returns time in microseconds, CPU, thread and name of each event, and the number of losses.
fn read(path: &Path) -> (Vec<String>, usize) {
    let mut trace = Trace::open(&[path], Options::default()).unwrap();
    let (mut events, mut losses) = (Vec::new(), 0);
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else {
            losses += 1;
            continue;
        };
        let (who, class) = (&catalogue.subjects[event.subject.0 as usize], &catalogue.classes[event.class.0 as usize]);
        // The text rounds times to microseconds.
        let micros = (event.t_ns + 500) / 1000;
        let known: &[&str] = match class.event_name.as_str() {
            "sched_switch" => &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => &["comm", "pid", "prio", "target_cpu"],
            "sched_process_exit" | "sched_process_free" | "sched_process_wait" => &["comm", "pid", "prio"],
            "sched_process_fork" => &["child_comm", "child_pid"],
            "sched_process_exec" => &["filename", "pid", "old_pid"],
            "sched_migrate_task" => &["comm", "pid", "orig_cpu", "dest_cpu"],
            "sched_stat_runtime" => &["comm", "pid"],
            _ => &["id", "vec"],
        };
        let places = known.iter().filter_map(|known| Some((known, class.fields.iter().position(|name| name == known)?)));
        let told =
            |value: &Value<'_>| value.as_i64().map_or_else(|| value.text().unwrap_or_default().into_owned(), |number| number.to_string());
        let fields: String = places.map(|(name, at)| format!(" {name}={}", told(&event.fields[at]))).collect();
        events.push(format!("{micros} cpu{} {:?} {}{fields}", event.cpu.unwrap(), who.tid, class.event_name));
    }
    assert_eq!(trace.diagnostics(), []);
    // The order of events in the same microsecond is undefined.
    events.sort();
    (events, losses)
}

#[test]
fn text_pages_and_trace_dat_of_one_recording_have_the_same_events() {
    // SAFETY: geteuid has no preconditions.
    let (Ok(tracefs), 0) = (TraceFs::find(), unsafe { libc::geteuid() }) else {
        println!("skipped: a recording of this kernel (needs root and tracefs)");
        return;
    };
    for dead in Instance::dead(&tracefs, PREFIX).unwrap() {
        dead.remove().unwrap();
    }
    let instance = Instance::create(&tracefs, PREFIX).unwrap();
    instance.set_buffer_size_kb(4096).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw");
    let mut systems = Vec::new();
    for system in ["sched", "irq", "raw_syscalls"] {
        let mut formats = Vec::new();
        for event in tracefs.matching(&format!("{system}:*")).unwrap() {
            let text = fs::read_to_string(instance.path().join(format!("events/{system}/{}/format", event.name))).unwrap();
            let place = raw.join(format!("events/{system}/{}", event.name));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("format"), &text).unwrap();
            formats.push(text);
            instance.enable(&event, None).unwrap();
        }
        systems.push((system, formats));
    }
    // The kernel returns this file only to a single call of read.
    let mut header = vec![0; 4096];
    let length = File::open(tracefs.path().join("events/header_page")).unwrap().read(&mut header).unwrap();
    let header = String::from_utf8(header[..length].to_vec()).unwrap();
    fs::write(raw.join("events/header_page"), &header).unwrap();
    let cpus = instance.cpus().unwrap();
    let mut readers: Vec<_> = cpus.iter().map(|&cpu| instance.reader(cpu).unwrap()).collect();
    instance.start().unwrap();
    for _ in 0..20 {
        Command::new("true").status().unwrap();
    }
    // Threads may have names that look like fields.
    for name in ["a pid=7 b=1", " ==> x=1 pid=2 ", "[,(", "prev_state=S", "007"] {
        let sleeps = || std::thread::sleep(std::time::Duration::from_millis(1));
        std::thread::Builder::new().name(name.to_owned()).spawn(sleeps).unwrap().join().unwrap();
    }
    instance.stop().unwrap();
    fs::write(folder.path().join("trace.txt"), instance.get("trace").unwrap()).unwrap();
    let mut pages = Vec::new();
    for (reader, cpu) in readers.iter_mut().zip(&cpus) {
        let place = raw.join(format!("per_cpu/cpu{cpu}"));
        fs::create_dir_all(&place).unwrap();
        let file = File::create(place.join("trace_pipe_raw")).unwrap();
        reader.drain_to(file.as_fd()).unwrap();
        pages.push((*cpu, fs::read(place.join("trace_pipe_raw")).unwrap()));
    }
    drop(readers);
    instance.remove().unwrap();

    let (from_text, _) = read(&folder.path().join("trace.txt"));
    assert!(from_text.len() > 100, "{} events", from_text.len());
    assert!(from_text.iter().any(|event| event.contains("comm=a pid=7 b=1 ")), "{from_text:?}");
    let (from_pages, _) = read(&raw);
    assert_eq!(from_pages, from_text);
    let machine = Machine { big: cfg!(target_endian = "big"), long: size_of::<usize>() };
    if header == machine.header_page() {
        let file = TraceDat {
            machine,
            of_ftrace: Vec::new(),
            systems,
            printk: String::new(),
            cmdlines: String::new(),
            options: Vec::new(),
            buffers: vec![Buffer { name: "", clock: "local", cpus: pages }],
            text: None,
        };
        for bytes in [file.version_6(), file.version_7(Compression::NONE)] {
            let path = folder.path().join("trace.dat");
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path).0, from_text);
        }
    }
}
