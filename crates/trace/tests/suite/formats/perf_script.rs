//! perf.data files recorded with various options, compared with `perf script`: thread, time, CPU,
//! event, and content of the samples.

use longpole_trace::Catalogue;
use longpole_trace::Event;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use longpole_trace::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORK: &str = "for i in 1 2 3; do ls / >/dev/null; sleep 0.005; done";

/// Records a short command into a file or through a pipe. Returns `None` if perf cannot record.
fn recorded(folder: &Path, options: &str, is_pipe: bool) -> Option<PathBuf> {
    let data = folder.join("perf.data");
    // A recording with several threads is a folder.
    let _ = std::fs::remove_dir_all(&data);
    let mut perf = Command::new("perf");
    perf.args(["record", "-q"]).args(options.split(' ')).arg("-o");
    match is_pipe {
        true => perf.arg("-").stdout(std::fs::File::create(&data).unwrap()),
        false => perf.arg(&data),
    };
    match perf.args(["--", "sh", "-c", WORK]).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Some(data),
        told => {
            println!("skipped: perf.data of `{options}` ({told:?})");
            None
        }
    }
}

fn script(data: &Path, fields: &str) -> Vec<String> {
    let output = Command::new("perf").args(["script", "--ns", "--no-inline", "-F", fields, "-i"]).arg(data).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn samples<T>(data: &Path, mut each: impl FnMut(&Event<'_>, &Catalogue) -> T) -> Vec<T> {
    let mut trace = Trace::open(&[data], Options::default()).unwrap();
    let mut out = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        if let Item::Event(event) = item {
            if !catalogue.classes[event.class.0 as usize].event_name.starts_with("PERF_RECORD_") {
                out.push(each(&event, catalogue));
            }
        }
    }
    assert_eq!(trace.diagnostics(), []);
    out
}

/// Returns a field of an event, or one of the other parts of a tracepoint's sample.
fn part<'a>(event: &Event<'a>, catalogue: &Catalogue, name: &str) -> Option<Value<'a>> {
    let class = &catalogue.classes[event.class.0 as usize];
    let context = class.context.iter().zip(event.context).find(|(own, _)| *own == name);
    context.or_else(|| class.fields.iter().zip(event.fields).find(|(own, _)| *own == name)).map(|(_, value)| *value)
}

fn list(value: &Value<'_>) -> Vec<u64> {
    let Value::Nested(nested) = value else { panic!("{value:?}") };
    let mut all = Vec::new();
    let done: Result<(), ()> = nested.each(|_, part| {
        all.extend(part.as_u64());
        Ok(())
    });
    done.unwrap();
    all
}

#[test]
fn thread_and_time_of_samples_equal_those_of_perf_script_for_all_options() {
    let folder = tempfile::tempdir().unwrap();
    for (options, is_pipe, least) in [
        ("-e cpu-clock -F 2000", false, 2),
        ("-e cpu-clock,sched:sched_switch,page-faults -F 1000 --switch-events", false, 10),
        ("-e cpu-clock,page-faults -F 2000 -z", false, 10),
        ("-e page-faults -c 1 -k CLOCK_MONOTONIC -d", false, 10),
        ("-a -e sched:sched_switch,sched:sched_waking", false, 10),
        ("-e sched:sched_switch,cpu-clock -F 999", true, 5),
        ("-e page-faults -c 1 -z", true, 10),
        ("-a -e sched:sched_switch,cpu-clock -F 999 --threads", false, 10),
        ("-a -e sched:sched_switch,page-faults -c 1 --threads=core -z", false, 10),
    ] {
        let Some(data) = recorded(folder.path(), options, is_pipe) else { continue };
        let mut theirs: Vec<String> = script(&data, "comm,pid,tid,time,event,period,ip,sym")
            .iter()
            .map(|line| {
                // `comm pid/tid time: period event: ip symbol`; the name of a thread may contain
                // spaces.
                let (head, rest) = line.split_once(": ").unwrap();
                let (head, time) = head.rsplit_once(' ').unwrap();
                let (comm, ids) = head.trim_end().rsplit_once(' ').unwrap();
                let mut rest = rest.split_whitespace();
                let (period, event, ip) = (rest.next().unwrap(), rest.next().unwrap(), rest.next().unwrap());
                let event = event.trim_end_matches(':').rsplit(':').next().unwrap();
                format!("{} {ids} {} {period} {event} {ip}", comm.trim(), time.replacen('.', "", 1))
            })
            .collect();
        // If the recording contains the conversion to Unix time, Longpole uses it.
        let mut ours = samples(&data, |event, catalogue| {
            let (who, class) = (&catalogue.subjects[event.subject.0 as usize], &catalogue.classes[event.class.0 as usize]);
            // A constant period is not stored with each sample; here it is 1.
            let number = |name| part(event, catalogue, name).map_or(Some(1), |value| value.as_u64()).unwrap();
            let name = class.event_name.rsplit(':').next().unwrap();
            let ids = format!("{}/{}", who.pid.unwrap(), who.tid.unwrap());
            // A thread that ends may have lost its id and its name already.
            let label = if who.label.is_empty() { format!(":{}", who.tid.unwrap()) } else { who.label.clone() };
            (event.t_ns, format!("{label} {ids}"), format!("{} {name} {:x}", number("period"), number("ip")))
        });
        assert!(ours.len() >= least, "{options}: {} samples", ours.len());
        let first: i64 = theirs[0].split(' ').rev().nth(3).unwrap().parse().unwrap();
        let offset = ours[0].0 - first;
        assert!(offset == 0 || options.contains("-k"), "{options}: {offset}");
        let mut ours: Vec<String> = ours.drain(..).map(|(t_ns, who, what)| format!("{who} {} {what}", t_ns - offset)).collect();
        // The order of samples with the same time is undefined.
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{options}");
    }
}

#[test]
fn tracepoint_fields_equal_those_of_perf_script() {
    let folder = tempfile::tempdir().unwrap();
    for is_pipe in [false, true] {
        let Some(data) = recorded(folder.path(), "-a -e sched:sched_switch,sched:sched_process_exec,irq:softirq_entry", is_pipe) else {
            return;
        };
        let theirs = script(&data, "cpu,time,event,trace");
        let ours = samples(&data, |event, catalogue| {
            let class = &catalogue.classes[event.class.0 as usize];
            let fields = class.fields.iter().zip(event.fields).map(|(name, value)| {
                let value = match value {
                    Value::Str(text) => String::from_utf8_lossy(text).into_owned(),
                    Value::Enum { value, .. } => value.to_string(),
                    value => value.as_i64().map_or_else(String::new, |number| number.to_string()),
                };
                format!("{name}={value}")
            });
            (event.t_ns, event.cpu.unwrap(), class.event_name.clone(), fields.collect::<Vec<_>>())
        });
        assert_eq!(ours.len(), theirs.len());
        for (t_ns, cpu, name, fields) in &ours {
            let time = format!(" {}.{:09}: ", t_ns / 1_000_000_000, t_ns % 1_000_000_000);
            let at = |line: &&String| line.contains(&time) && line.contains(&format!("[{cpu:03}]")) && line.contains(&format!(":{name}:"));
            let found: Vec<&String> = theirs.iter().filter(at).collect();
            let told = |line: &&&String| {
                let text = |field: &&String| !field.starts_with("prev_state=") && !field.starts_with("old_pid=");
                fields.iter().filter(text).all(|field| line.contains(field.as_str()))
            };
            assert!(found.iter().any(|line| told(&line)), "{time}{name} {fields:?}: {found:?}");
        }
    }
}

#[test]
fn call_chains_equal_those_of_perf_script() {
    /// Lowest of the markers that separate kernel addresses from user addresses in a call chain.
    const MARKS: u64 = 0xffff_ffff_ffff_f000;
    let folder = tempfile::tempdir().unwrap();
    let Some(data) = recorded(folder.path(), "-e page-faults -c 1 -g", false) else { return };
    let mut theirs: Vec<Vec<u64>> = Vec::new();
    for line in script(&data, "time,ip") {
        match u64::from_str_radix(line.trim(), 16) {
            Ok(address) => theirs.last_mut().unwrap().push(address),
            Err(_) if line.contains(':') => theirs.push(Vec::new()),
            Err(_) => {}
        }
    }
    let ours = samples(&data, |event, catalogue| {
        let chain = part(event, catalogue, "callchain").unwrap();
        list(&chain).into_iter().filter(|address| *address < MARKS).collect::<Vec<_>>()
    });
    assert!(ours.len() > 10 && ours.iter().any(|chain| chain.len() > 3));
    // perf prints the addresses of programs as offsets in their files, which are mapped at page
    // boundaries.
    let in_page = |chains: Vec<Vec<u64>>| -> Vec<Vec<u64>> {
        chains.into_iter().map(|chain| chain.into_iter().map(|address| address & 0xfff).collect()).collect()
    };
    assert_eq!(in_page(ours), in_page(theirs));
}

#[test]
fn registers_stacks_and_counters_have_the_requested_length() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(data) = recorded(folder.path(), "-e page-faults -c 1 --call-graph dwarf,512", false) {
        let parts = samples(&data, |event, catalogue| {
            let registers = list(&part(event, catalogue, "user_regs").unwrap()).len();
            let Some(Value::Bytes(stack)) = part(event, catalogue, "user_stack") else { panic!() };
            (registers, stack.len())
        });
        assert!(parts.iter().any(|(registers, stack)| *registers > 8 && *stack > 64 && *stack <= 512), "{parts:?}");
    }
    if let Some(data) = recorded(folder.path(), "-e {cpu-clock,page-faults}:S -F 2000", false) {
        let counters = samples(&data, |event, catalogue| {
            let Some(Value::Nested(counters)) = part(event, catalogue, "counters") else { panic!() };
            let mut values = 0;
            let done: Result<(), ()> = counters.each(|name, part| {
                if let (Some("values"), Value::Nested(all)) = (name, part) {
                    all.each(|_, _| {
                        values += 1;
                        Ok(())
                    })?;
                }
                Ok(())
            });
            done.unwrap();
            values
        });
        assert!(counters.iter().all(|values| *values == 2), "{counters:?}");
    }
}

#[test]
fn records_about_threads_are_events_next_to_the_samples() {
    let folder = tempfile::tempdir().unwrap();
    let Some(data) = recorded(folder.path(), "-e cpu-clock -F 1000 --switch-events", false) else { return };
    let mut trace = Trace::open(&[&data], Options::default()).unwrap();
    let mut seen = std::collections::BTreeMap::<String, u64>::new();
    let mut named = Vec::new();
    while let Some((item, catalogue)) = trace.next_with_catalogue().unwrap() {
        let Item::Event(event) = item else { continue };
        let name = &catalogue.classes[event.class.0 as usize].event_name;
        *seen.entry(name.clone()).or_default() += 1;
        if name == "PERF_RECORD_COMM" {
            named.push(part(&event, catalogue, "comm").unwrap().text().unwrap().into_owned());
        }
        if name.starts_with("PERF_RECORD_MMAP") {
            assert!(part(&event, catalogue, "filename").unwrap().text().is_some_and(|name| !name.is_empty()));
        }
    }
    for (kind, least) in [("COMM", 2), ("FORK", 2), ("EXIT", 2), ("MMAP2", 4), ("SWITCH", 4)] {
        let found = seen.get(&format!("PERF_RECORD_{kind}")).copied().unwrap_or(0);
        assert!(found >= least, "{kind}: {found} of {seen:?}");
    }
    assert!(named.iter().any(|name| name == "ls") && named.iter().any(|name| name == "sleep"), "{named:?}");
}
