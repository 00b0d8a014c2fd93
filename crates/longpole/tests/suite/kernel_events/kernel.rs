//! The verbs that answer from kernel events, from a trace on disk to the answer.

use crate::support::schema;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(verb: &str, arguments: &[&str], trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
    command.env_remove("LONGPOLE_ROOT").arg(verb).args(arguments).arg(trace).output().unwrap()
}

fn json(verb: &str, arguments: &[&str], trace: &Path) -> Value {
    let output = run(verb, arguments, trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    schema::check(&schema::schema(verb), &answer);
    answer
}

const METADATA: &str = r#"/* CTF 1.8 */
trace {
	major = 1; minor = 8; byte_order = le;
	packet.header := struct { integer { size = 32; align = 8; } magic; integer { size = 32; align = 8; } stream_id; };
};
env { hostname = "h"; domain = "kernel"; tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 10; };
clock { name = monotonic; freq = 1000000000; offset_s = 100; };
stream {
	id = 0;
	packet.context := struct {
		integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp_begin;
		integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp_end;
		integer { size = 64; align = 8; } content_size;
		integer { size = 64; align = 8; } packet_size;
		integer { size = 64; align = 8; } events_discarded;
		integer { size = 32; align = 8; } cpu_id;
	};
	event.header := struct { integer { size = 32; align = 8; } id; integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp; };
};
event { name = "sched_switch"; id = 1; stream_id = 0; fields := struct {
	integer { size = 8; align = 8; encoding = UTF8; } _prev_comm[16];
	integer { size = 32; align = 8; signed = 1; } _prev_tid;
	integer { size = 64; align = 8; signed = 1; } _prev_state;
	integer { size = 8; align = 8; encoding = UTF8; } _next_comm[16];
	integer { size = 32; align = 8; signed = 1; } _next_tid;
}; };
event { name = "sched_waking"; id = 2; stream_id = 0; fields := struct {
	integer { size = 8; align = 8; encoding = UTF8; } _comm[16];
	integer { size = 32; align = 8; signed = 1; } _tid;
	integer { size = 32; align = 8; signed = 1; } _target_cpu;
}; };
event { name = "irq_softirq_entry"; id = 3; stream_id = 0; fields := struct { integer { size = 32; align = 8; } _vec; }; };
event { name = "irq_softirq_exit"; id = 4; stream_id = 0; fields := struct { integer { size = 32; align = 8; } _vec; }; };
event { name = "syscall_entry_read"; id = 5; stream_id = 0; fields := struct { integer { size = 32; align = 8; } _fd; }; };
event { name = "syscall_exit_read"; id = 6; stream_id = 0; fields := struct { integer { size = 64; align = 8; signed = 1; } _ret; }; };
"#;

#[derive(Default)]
struct Cpu(Vec<u8>, u64);

impl Cpu {
    fn event(&mut self, id: u32, t: u64, fields: &[&[u8]]) {
        self.0.extend(id.to_le_bytes());
        self.0.extend(t.to_le_bytes());
        fields.iter().for_each(|field| self.0.extend(*field));
        self.1 = t;
    }

    fn switch(&mut self, t: u64, from: i32, state: i64, to: i32) {
        let (from_name, to_name) = (comm(from), comm(to));
        self.event(1, t, &[&from_name, &from.to_le_bytes(), &state.to_le_bytes(), &to_name, &to.to_le_bytes()]);
    }

    fn write(&self, path: &Path) {
        fs::write(path, self.packet(0, 0)).unwrap();
    }

    fn packet(&self, begin: u64, lost: u64) -> Vec<u8> {
        let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
        let bits = (self.0.len() as u64 + 8 + 44) * 8;
        bytes.extend(0u32.to_le_bytes());
        for word in [begin, self.1, bits, bits, lost] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(&self.0);
        bytes
    }
}

fn comm(tid: i32) -> [u8; 16] {
    let mut name = [0; 16];
    let text = format!("t{tid}");
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// Writes a trace in which thread 10 is in a read call for 5 us. Meanwhile a softirq wakes thread
/// 20, which starts when thread 10 is blocked.
fn trace(directory: &Path) {
    fs::write(directory.join("metadata"), METADATA).unwrap();
    let mut cpu = Cpu::default();
    cpu.switch(0, 0, 0, 10);
    cpu.event(5, 1_000, &[&3u32.to_le_bytes()]);
    cpu.event(3, 2_000, &[&3u32.to_le_bytes()]);
    cpu.event(2, 2_500, &[&comm(20), &20i32.to_le_bytes(), &0i32.to_le_bytes()]);
    cpu.event(4, 3_000, &[&3u32.to_le_bytes()]);
    cpu.event(6, 6_000, &[&(-11i64).to_le_bytes()]);
    cpu.switch(8_000, 10, 1, 20);
    cpu.switch(9_000, 20, 1, 0);
    cpu.switch(10_000, 0, 0, 10);
    cpu.write(&directory.join("cpu0"));
}

#[test]
fn every_verb_answers_from_a_kernel_trace_and_matches_its_schema() {
    let directory = TempDir::new().unwrap();
    trace(directory.path());
    let cpu = json("cpu", &["--json"], directory.path());
    let of = |key: &str| cpu["cpus"][0][key].as_u64().unwrap();
    assert_eq!((of("total_ns"), of("thread_ns"), of("softirq_ns"), of("idle_ns"), of("unknown_ns")), (10_000, 8_000, 1_000, 1_000, 0));
    let ten = cpu["threads"].as_array().unwrap().iter().find(|thread| thread["tid"] == 10).unwrap();
    assert_eq!((&ten["name"], &ten["running_ns"], &ten["kernel"]["interrupted_ns"]), (&"t10".into(), &7_000.into(), &1_000.into()));
    let sched = json("sched", &["--json"], directory.path());
    assert_eq!((&sched[0]["tid"], &sched[0]["count"], &sched[0]["max_ns"]), (&20.into(), &1.into(), &5_500.into()));
    assert_eq!(sched[0]["kept_by"][0]["name"], "t10");
    let irq = json("irq", &["--json"], directory.path());
    assert_eq!(
        (&irq[0]["name"], &irq[0]["total_ns"], &irq[0]["start"]["max_ns"]),
        (&"softirq NET_RX".into(), &1_000.into(), &6_000.into())
    );
    let calls = json("syscalls", &["--json", "--by", "process"], directory.path());
    assert_eq!(
        (&calls[0]["name"], &calls[0]["total_ns"], &calls[0]["errors"][0]["name"]),
        (&"read".into(), &5_000.into(), &"EAGAIN".into())
    );
    for verb in ["cpu", "sched", "irq", "syscalls"] {
        let text = String::from_utf8(run(verb, &[], directory.path()).stdout).unwrap();
        assert!(text.contains("\n9 events in the whole recording, 0 lost\n"), "{verb}: {text}");
    }
}

/// Writes a trace in which thread 20 waits in a call 20 times, and is woken while thread 10
/// computes.
fn interrupted(directory: &Path, metadata: &str) {
    fs::write(directory.join("metadata"), metadata).unwrap();
    let mut cpu = Cpu::default();
    cpu.switch(0, 0, 0, 20);
    for t in (0..20).map(|turn| turn * 100_000) {
        cpu.event(5, t + 1_000, &[&3u32.to_le_bytes()]);
        cpu.switch(t + 2_000, 20, 1, 10);
        cpu.event(2, t + 90_000, &[&comm(20), &20i32.to_le_bytes(), &0i32.to_le_bytes()]);
        cpu.switch(t + 91_000, 10, 0, 20);
        cpu.event(6, t + 92_000, &[&1i64.to_le_bytes()]);
    }
    cpu.write(&directory.join("cpu0"));
}

#[test]
fn a_thread_under_an_unrecorded_interrupt_is_not_taken_for_the_waker() {
    let handler =
        "event { name = \"irq_handler_entry\"; id = 7; stream_id = 0; fields := struct { integer { size = 32; align = 8; } _irq; }; };";
    let all = format!("{METADATA}{handler}\n");
    let without = |what: &str| all.lines().filter(|line| !line.contains(what)).map(|line| format!("{line}\n")).collect::<String>();
    for (metadata, untold) in [(all.clone(), None), (without("irq_handler"), Some("irq")), (without("softirq"), Some("softirq"))] {
        let directory = TempDir::new().unwrap();
        interrupted(directory.path(), &metadata);
        let path = json("path", &["--json", "--machine", "t20"], directory.path());
        let rows = path["criticality"].as_array().unwrap();
        assert_eq!(rows.iter().any(|row| row["machine"] == "t10"), untold.is_none(), "{untold:?}: {rows:?}");
        assert_eq!(untold.map(|group| path["unknown_by"][group].clone()), untold.map(|_| 20.into()), "{}", path["unknown_by"]);
    }
}

#[test]
fn a_range_begins_with_the_state_from_before_it() {
    let directory = TempDir::new().unwrap();
    trace(directory.path());
    let cpu = json("cpu", &["--json", "--begin", "+4us", "--end", "+9us"], directory.path());
    assert_eq!((&cpu["cpus"][0]["total_ns"], &cpu["cpus"][0]["thread_ns"]), (&5_000.into(), &5_000.into()));
    let sched = json("sched", &["--json", "--begin", "+9us"], directory.path());
    assert_eq!(sched.as_array().unwrap().len(), 0);
}

#[test]
fn a_trace_without_kernel_events_is_refused_with_the_command_that_records_them() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("metadata"), METADATA.replace("\"kernel\"", "\"ust\"")).unwrap();
    let mut cpu = Cpu::default();
    cpu.event(5, 1_000, &[&3u32.to_le_bytes()]);
    cpu.write(&directory.path().join("cpu0"));
    for verb in ["sched", "irq", "syscalls"] {
        let output = run(verb, &[], directory.path());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let talk = String::from_utf8(output.stderr).unwrap();
        assert!(talk.contains("as root with `longpole record --kernel sched,"), "{talk}");
    }
}

fn refused(verb: &str, arguments: &[&str], trace: &Path) -> String {
    let output = run(verb, arguments, trace);
    assert_eq!(output.status.code(), Some(1), "{verb}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn cpu_and_sched_refuse_a_trace_with_filtered_switches() {
    let directory = TempDir::new().unwrap();
    trace(directory.path());
    let filter = "name = \"sched_switch\"; id = 1; model.emf.uri = \"longpole:site?filter=prev_prio%20%3C%20100\";";
    let metadata = METADATA.replace("name = \"sched_switch\"; id = 1;", filter);
    fs::write(directory.path().join("metadata"), metadata).unwrap();
    for verb in ["cpu", "sched"] {
        let talk = refused(verb, &["--json"], directory.path());
        assert!(talk.contains("only where `prev_prio < 100`") && talk.contains("--kernel sched"), "{verb}: {talk}");
    }
    // Answers that do not depend on switches are given.
    let irq = json("irq", &["--json"], directory.path());
    assert_eq!((&irq[0]["total_ns"], &irq[0]["start"]["count"]), (&1_000.into(), &0.into()));
}

#[test]
fn cpu_and_sched_refuse_a_kernel_trace_without_switches() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("metadata"), METADATA).unwrap();
    let mut cpu = Cpu::default();
    cpu.event(2, 2_500, &[&comm(20), &20i32.to_le_bytes(), &0i32.to_le_bytes()]);
    cpu.event(5, 3_000, &[&3u32.to_le_bytes()]);
    cpu.write(&directory.path().join("cpu0"));
    for verb in ["cpu", "sched"] {
        let talk = refused(verb, &[], directory.path());
        assert!(talk.contains("holds no switches between threads") && talk.contains("--kernel sched"), "{verb}: {talk}");
    }
}

#[test]
fn a_range_without_events_is_not_reported_as_a_trace_without_events() {
    let directory = TempDir::new().unwrap();
    trace(directory.path());
    for verb in ["irq", "syscalls"] {
        let talk = refused(verb, &["--begin", "+10s"], directory.path());
        assert!(talk.contains("there is nothing in this range; the trace begins at ") && !talk.contains("as root"), "{verb}: {talk}");
    }
    // Events lie in this range, but not those that the verb needs.
    let talk = refused("syscalls", &["--begin", "+10us"], directory.path());
    assert!(talk.contains("the trace holds 2 before it") && !talk.contains("as root"), "{talk}");
}

#[test]
fn kernel_verbs_refuse_two_recordings_at_once() {
    let directory = TempDir::new().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    for path in [&one, &other] {
        fs::create_dir(path).unwrap();
        trace(path);
    }
    for verb in ["cpu", "sched", "irq", "syscalls", "packets"] {
        let talk = refused(verb, &[one.to_str().unwrap()], &other);
        assert!(talk.contains("of 2 recordings") && talk.contains("name one recording"), "{verb}: {talk}");
    }
    assert!(run("report", &[one.to_str().unwrap()], &other).status.success());
}

#[test]
fn lost_kernel_events_are_reported_by_every_verb_and_only_for_their_range() {
    let directory = TempDir::new().unwrap();
    trace(directory.path());
    let path = directory.path().join("cpu0");
    let mut later = Cpu::default();
    later.switch(20_000, 10, 1, 20);
    later.event(3, 30_000, &[&3u32.to_le_bytes()]);
    later.event(4, 31_000, &[&3u32.to_le_bytes()]);
    later.event(5, 40_000, &[&3u32.to_le_bytes()]);
    later.event(6, 41_000, &[&1i64.to_le_bytes()]);
    later.switch(42_000, 20, 1, 10);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(later.packet(20_000, 7));
    // The count in the last packet is the same: no more events were lost.
    let mut last = Cpu::default();
    last.switch(60_000, 10, 1, 20);
    bytes.extend(last.packet(60_000, 7));
    fs::write(&path, bytes).unwrap();
    for verb in ["sched", "irq", "syscalls"] {
        let talk = String::from_utf8(run(verb, &["--json"], directory.path()).stderr).unwrap();
        assert!(talk.contains("7 kernel events are lost"), "{verb}: {talk}");
    }
    let report = json("report", &["--json"], directory.path());
    assert_eq!((&report["inputs"]["lost"], &report["inputs"]["kernel_lost"]), (&0.into(), &7.into()));
    for verb in ["report", "latency", "queues"] {
        let text = String::from_utf8(run(verb, &[], directory.path()).stdout).unwrap();
        assert!(text.contains(" events in the whole recording, 7 lost; none of probes: longpole cpu, sched, irq"), "{verb}: {text}");
    }
    let lost = |begin: &str| json("cpu", &["--json", "--begin", begin], directory.path())["cpus"][0]["lost"].clone();
    assert_eq!((lost("+5us"), lost("+50us")), (7.into(), 0.into()));
}

/// Writes a recording of a command, thread 10, by a recorder, thread 30, next to many other
/// threads. Each one is woken, and calls `read`.
fn command_among_others(directory: &Path) {
    let kernel = directory.join("kernel");
    fs::create_dir(&kernel).unwrap();
    fs::write(kernel.join("metadata"), METADATA).unwrap();
    fs::write(directory.join("longpole.json"), r#"{"host":"h","start_ns":100000000000,"command_pid":10,"recorder_pid":30}"#).unwrap();
    let mut cpu = Cpu::default();
    let mut t = 0;
    for tid in [10, 30].into_iter().chain(100..160) {
        cpu.event(2, t + 100, &[&comm(tid), &tid.to_le_bytes(), &0i32.to_le_bytes()]);
        cpu.switch(t + 200, 0, 0, tid);
        cpu.event(5, t + 300, &[&3u32.to_le_bytes()]);
        cpu.event(6, t + 400, &[&1i64.to_le_bytes()]);
        cpu.switch(t + 500, tid, 1, 0);
        t += 1_000;
    }
    // The CPU was idle, and no event shows the end of that.
    cpu.switch(t, 10, 1, 0);
    cpu.write(&kernel.join("cpu0"));
}

#[test]
fn a_verb_analyses_the_recorded_command_and_with_all_the_host_without_the_recorder() {
    let directory = TempDir::new().unwrap();
    command_among_others(directory.path());
    let tids = |arguments: &[&str]| -> Vec<i64> {
        let answer = json("sched", arguments, directory.path());
        answer.as_array().unwrap().iter().map(|line| line["tid"].as_i64().unwrap()).collect()
    };
    assert_eq!(tids(&["--json"]), [10]);
    let all = tids(&["--json", "--all"]);
    assert!(all.len() == 61 && !all.contains(&30), "{all:?}");
    let calls = |arguments: &[&str]| json("syscalls", arguments, directory.path())[0]["count"].clone();
    assert_eq!((calls(&["--json"]), calls(&["--json", "--all"])), (1.into(), 61.into()));
    for verb in ["sched", "cpu"] {
        let text = |arguments: &[&str]| String::from_utf8(run(verb, arguments, directory.path()).stdout).unwrap();
        let (of_command, all) = (text(&["--full"]), text(&["--full", "--all"]));
        assert!(of_command.contains(" t10 ") && !of_command.contains(" t100 "), "{verb}: {of_command}");
        assert!(of_command.contains("threads of the rest of the host: --all"), "{verb}: {of_command}");
        assert!(all.contains(" t10 ") && all.contains(" t100 ") && !all.contains(" t30 "), "{verb}: {all}");
    }
}

#[test]
fn gaps_that_do_not_change_the_answer_are_mentioned_only_with_verbose() {
    let directory = TempDir::new().unwrap();
    command_among_others(directory.path());
    for verb in ["sched", "cpu", "syscalls"] {
        let text = |arguments: &[&str]| String::from_utf8(run(verb, arguments, directory.path()).stdout).unwrap();
        let gap = "times the end of a CPU's idle time is not in the trace";
        assert!(!text(&[]).contains(gap), "{verb}");
        assert!(text(&["--verbose"]).contains(gap), "{verb}: {}", text(&["--verbose"]));
    }
}

#[test]
fn all_verbs_print_the_same_count_of_events_for_a_recording() {
    let directory = TempDir::new().unwrap();
    command_among_others(directory.path());
    let events = json("info", &["--json"], directory.path())["events"].as_u64().unwrap();
    let line = format!("{events} events in the whole recording, 0 lost");
    for verb in ["report", "path", "sched", "syscalls", "cpu", "latency", "queues"] {
        let text = String::from_utf8(run(verb, &[], directory.path()).stdout).unwrap();
        assert!(text.contains(&line), "{verb}: {text}");
    }
}

#[test]
fn the_first_screen_of_kernel_verbs_fits_80_columns_and_24_lines_and_full_prints_the_rest() {
    let directory = TempDir::new().unwrap();
    command_among_others(directory.path());
    for verb in ["sched", "cpu", "syscalls", "info", "path", "graph", "report"] {
        for columns in [80, 200] {
            let text = |arguments: &[&str]| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_longpole"));
                command.arg(verb).args(arguments).arg(directory.path()).env("COLUMNS", columns.to_string());
                String::from_utf8(command.output().unwrap().stdout).unwrap()
            };
            let (first, full) = (text(&["--all"]), text(&["--all", "--full"]));
            assert!(first.lines().count() <= 24, "{verb}: {first}");
            assert!(!full.contains("more rows: --full"), "{verb}: {full}");
            for text in [&first, &full] {
                assert!(text.lines().all(|line| line.chars().count() <= columns), "{verb}: {text}");
            }
        }
    }
    let full = String::from_utf8(run("sched", &["--all", "--full"], directory.path()).stdout).unwrap();
    assert!((100..160).all(|tid| full.contains(&format!(" t{tid} "))), "{full}");
}
