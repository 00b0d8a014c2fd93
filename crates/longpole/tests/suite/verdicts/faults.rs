//! Findings from the kernel's events: each test records a live program with one fault, and the same
//! program without the fault.

use crate::support::host::{alone, can_trace};
use crate::support::place::{ok, Place};
use crate::support::schema;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

struct Run {
    place: Place,
    printed: String,
}

impl Run {
    fn of(place: Place, groups: &str, command: &[&str]) -> Run {
        let mut record = place.command(env!("CARGO_BIN_EXE_longpole"));
        let output = ok(record.args(["record", "--stacks", "none", "--kernel", groups, "--"]).args(command).output().unwrap());
        Run { place, printed: String::from_utf8(output.stdout).unwrap().trim().to_owned() }
    }

    fn of_program(groups: &str, means: &str) -> Run {
        let place = Place::new();
        let program = place.build("faults", &[]);
        // A higher priority, so that the result does not depend on the load of the host.
        Run::of(place, groups, &["nice", "-n", "-15", &program, means])
    }

    fn finding(&self, kind: &str, subject: &str) -> Option<Value> {
        let report = self.place.answer("report", &self.place.newest());
        schema::check(&schema::schema("report"), &report);
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["kind"] == kind && finding["subject"].as_str().unwrap().starts_with(subject)).cloned()
    }
}

const CALLS: &str = "sched,irq,softirq,syscall";

#[test]
fn threads_that_pass_one_lock_on_are_a_convoy_and_threads_without_a_lock_are_not() {
    let _alone = alone();
    if !can_trace("a convoy of futexes") {
        return;
    }
    let convoy = Run::of_program(CALLS, "locked").finding("lock_convoy", "faults").expect("four threads queue up for one lock");
    assert!(convoy["advice"].as_str().unwrap().starts_with("4 threads of faults hand a lock"), "{convoy}");
    assert_eq!(Run::of_program(CALLS, "unlocked").finding("lock_convoy", "faults"), None);
    // A thread that waits for items and never passes any on does not wait for a lock.
    let place = Place::new();
    let edges = place.build("edges", &[]);
    assert_eq!(Run::of(place, CALLS, &[&edges, "futex"]).finding("lock_convoy", "edges"), None);
}

#[test]
fn page_faults_for_each_item_are_found() {
    let _alone = alone();
    if !can_trace("missing pages") {
        return;
    }
    let groups = format!("{CALLS},fault");
    let fresh = Run::of_program(&groups, "fresh").finding("faults_on_path", "faults").expect("memory is taken anew for each item");
    // The page faults of 200 items with 512 pages each, and those of the program itself.
    assert!((200 * 512..220 * 512).contains(&fresh["count"].as_u64().unwrap()), "{fresh}");
    assert_eq!(Run::of_program(&groups, "kept").finding("faults_on_path", "faults"), None);
}

#[test]
fn a_thread_that_waits_despite_an_idle_cpu_is_found_unless_it_is_pinned() {
    let _alone = alone();
    if !can_trace("a CPU that is idle next to a thread that waits") {
        return;
    }
    assert_eq!(Run::of_program(CALLS, "alone").finding("idle_cpu_unused", "faults"), None);
    let context = Run::of_program(CALLS, "behind");
    // Milliseconds in which CPU 1 was idle, and in which the thread waited, over 40 rounds of 4 ms.
    let printed: Vec<i64> = context.printed.split(' ').map(|number| number.parse().unwrap()).collect();
    let (idle_ms, waited_ms) = (printed[0], printed[1]);
    match context.finding("idle_cpu_unused", "faults") {
        Some(finding) => assert!(finding["count"].as_u64().unwrap() >= 5 && idle_ms > 0, "{finding}, CPU 1 idle for {idle_ms} ms"),
        // Most kernels move the thread to the idle CPU before its wait is a part of the path.
        None => println!("skipped: a CPU that is idle next to a thread that waits (CPU 1 was idle for {idle_ms} ms, the thread waited for {waited_ms} ms)"),
    }
}

/// Two network namespaces joined by a pair of virtual devices; packets to the second one are
/// handled on CPU 1. Removed when the value is dropped.
struct Net {
    a: String,
    b: String,
}

impl Net {
    fn new() -> Option<Net> {
        let (id, net) = (std::process::id(), |end: &str| format!("lpf{}{end}", std::process::id()));
        let net = Net { a: net("a"), b: net("b") };
        let run = |words: &[&str]| Command::new("ip").args(words).output().is_ok_and(|output| output.status.success());
        let (left, right) = (format!("fl{id}"), format!("fr{id}"));
        let steer = format!("echo 2 > /sys/class/net/{right}/queues/rx-0/rps_cpus");
        let made = run(&["netns", "add", &net.a])
            && run(&["netns", "add", &net.b])
            && run(&["-n", &net.a, "link", "add", &left, "type", "veth", "peer", "name", &right, "netns", &net.b])
            && run(&["-n", &net.a, "address", "add", "10.78.0.1/24", "dev", &left])
            && run(&["-n", &net.b, "address", "add", "10.78.0.2/24", "dev", &right])
            && run(&["-n", &net.a, "link", "set", &left, "up"])
            && run(&["-n", &net.b, "link", "set", &right, "up"])
            && run(&["netns", "exec", &net.b, "sh", "-c", &steer]);
        made.then_some(net)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

const ECHO: &str = "import socket
open('/proc/self/comm', 'w').write('receiver')
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.78.0.2', 7))
while True:
    data, sender = s.recvfrom(64)
    s.sendto(data, sender)
    if data == b'end': break";

const ASK: &str = "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.2)
for i in range(50):
    try:
        s.sendto(b'begin', ('10.78.0.2', 7)); s.recv(64); break
    except OSError: time.sleep(0.1)
s.settimeout(10)
for i in range(6000):
    s.sendto(b'item', ('10.78.0.2', 7)); s.recv(64)
s.sendto(b'end', ('10.78.0.2', 7)); s.recv(64)";

/// The CPUs on which the softirq of received packets woke the receiver, and how often, from the
/// events alone.
fn woken_by_softirq(run: &Run) -> (BTreeSet<u64>, u64) {
    const NET_RX: u64 = 3;
    let names = "*softirq_entry,*softirq_exit,sched_waking";
    let print = ok(run.place.longpole(&["print", "--json", "--names", names]).arg(run.place.newest()).output().unwrap());
    let (mut open, mut cpus, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in String::from_utf8(print.stdout).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let (cpu, fields) = (event["cpu"].as_u64().unwrap(), &event["fields"]);
        match event["name"].as_str().unwrap() {
            "sched_waking" if fields["comm"] == "receiver" && open.contains(&cpu) => {
                cpus.insert(cpu);
                count += 1;
            }
            "sched_waking" => {}
            name if name.ends_with("entry") && fields["vec"] == NET_RX => drop(open.insert(cpu)),
            _ if fields["vec"] == NET_RX => drop(open.remove(&cpu)),
            _ => {}
        }
    }
    (cpus, count)
}

/// The same from the answer of `irq`, after the CPUs on which the receiver then started.
fn woken_in_answer(run: &Run) -> Option<(BTreeSet<u64>, BTreeSet<u64>, u64)> {
    let interrupts = run.place.answer("irq", &run.place.newest());
    schema::check(&schema::schema("irq"), &interrupts);
    let network = interrupts.as_array().unwrap().iter().find(|line| line["name"] == "softirq NET_RX")?;
    let receiver = network["threads"].as_array().unwrap().iter().find(|thread| thread["name"] == "receiver")?;
    let cpus = |key: &str| receiver[key].as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap()).collect();
    Some((cpus("cpus"), cpus("irq_cpus"), receiver["count"].as_u64().unwrap()))
}

/// The load of the host decides if this is worth a finding; the limits of the finding are
/// tested with invented events (`kernel_facts` of the analysis).
#[test]
fn the_cpu_of_a_softirq_and_of_the_thread_that_it_wakes_are_reported() {
    let _alone = alone();
    if !can_trace("an interrupt away from its consumer") {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for cpu in [0, 1] {
        let Some(net) = Net::new().filter(|_| cpus > 1 && Command::new("python3").arg("--version").output().is_ok()) else {
            println!("skipped: an interrupt away from its consumer (needs two CPUs, `ip`, network namespaces and python3)");
            return;
        };
        let place = Place::new();
        let (echo, ask) = (place.path("echoer"), place.path("asker"));
        std::fs::write(&echo, ECHO).unwrap();
        std::fs::write(&ask, ASK).unwrap();
        let both = format!(
            "ip netns exec {} nice -n -15 taskset -c {cpu} python3 {} & ip netns exec {} nice -n -15 taskset -c 0 python3 {}; wait",
            net.b,
            echo.display(),
            net.a,
            ask.display()
        );
        let run = Run::of(place, "sched,irq,softirq,net,syscall", &["sh", "-c", &both]);
        // How often a packet finds the receiver asleep, and whether a softirq or a kernel thread
        // handles it, depends on the load of the host. A receiver that is woken before it has left
        // its CPU does not start.
        let (softirq_cpus, woken) = woken_by_softirq(&run);
        let Some((started, irq_cpus, count)) = woken_in_answer(&run) else {
            assert!(woken < 1_000, "{woken} wake-ups, and none is in the answer");
            println!("skipped: an interrupt away from its consumer (a softirq woke the receiver {woken} times only)");
            continue;
        };
        assert_eq!(started, [cpu].into(), "the receiver may run on CPU {cpu} only");
        assert!(irq_cpus.is_subset(&softirq_cpus), "{irq_cpus:?} in the answer, {softirq_cpus:?} in the events");
        assert!((1..=woken).contains(&count), "{count} starts after {woken} wake-ups");
    }
}

#[test]
fn waiting_for_a_killed_process_leads_to_the_timer_that_killed_it_and_not_to_its_work() {
    let _alone = alone();
    if !can_trace("the end of a thread that is killed") {
        return;
    }
    let command = "timeout 0.4 sh -c 'while :; do :; done'; true";
    let run = Run::of(Place::new(), CALLS, &["nice", "-n", "-15", "sh", "-c", command]);
    let path = run.place.answer("path", &run.place.newest());
    let time = |wanted: &dyn Fn(&str, &str) -> bool| -> u64 {
        let rows = path["criticality"].as_array().unwrap().iter();
        rows.filter(|row| wanted(row["class"].as_str().unwrap(), row["state"].as_str().unwrap()))
            .map(|row| row["ns"].as_u64().unwrap())
            .sum()
    };
    let (sleep, spin) = (time(&|_, state| state.starts_with("timer")), time(&|class, state| class == "sh" && state == "user"));
    assert!(sleep >= 300_000_000 && spin < 100_000_000, "{sleep} ns until the timer, {spin} ns of who was killed: {path}");
    assert!(time(&|class, state| class == "link" && state == "signal") > 0, "{path}");
}

#[test]
fn a_recording_contains_the_pid_of_its_recorder() {
    let place = Place::new();
    let record = place.longpole(&["record", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = record.id();
    // The recording fails because it is empty.
    record.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&std::fs::read(place.newest().join("longpole.json")).unwrap()).unwrap();
    assert_eq!((said["recorder_pid"].as_u64(), said["command_pid"] == said["recorder_pid"]), (Some(u64::from(pid)), false));
}
