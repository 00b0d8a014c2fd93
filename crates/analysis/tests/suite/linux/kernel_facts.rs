//! Findings from kernel events: small systems by hand with one fault each, compared with the same
//! system without it.

use crate::support::linux;
use crate::support::linux::{text, Kernel, Val, BLOCKED, DEAD};
use longpole_analysis::critical_path::participation::Participation;
use longpole_analysis::critical_path::{Answer, CriticalPath, Options};
use longpole_analysis::findings::kernel_facts::{ClassesOnPath, Contention, KernelFacts};
use longpole_analysis::findings::{Finding, Rules};
use longpole_analysis::report::Critical;
use longpole_analysis::wait_graph::Waits;
use longpole_model::causes::{About, Composer, RunsOn};
use longpole_model::linux::Linux;
use longpole_trace::event::Item;
use std::collections::HashMap;

const US: i64 = 1_000;

struct Answers {
    findings: Vec<Finding>,
    path: String,
    recorders: Vec<String>,
    contention: Vec<Contention>,
}

fn answers(kernel: &Kernel, about: About) -> Answers {
    let mut composer = Composer::built_in(about).unwrap();
    let mut critical_path = CriticalPath::new(Options { segments: true, ..Options::default() });
    let mut waits = Waits::default();
    let (mut linux, mut facts) = (Linux::new(i64::MIN, i64::MAX).unwrap(), KernelFacts::default());
    let mut drain = |composer: &mut Composer| {
        while let Some(interaction) = composer.next_interaction() {
            critical_path.interaction(composer.vocabulary(), &interaction);
            waits.interaction(composer.vocabulary(), &interaction);
        }
    };
    kernel.replay(|catalogue, item| {
        composer.item(catalogue, item);
        drain(&mut composer);
        match item {
            Item::Event(event) => linux.event(catalogue, event, &mut facts),
            Item::Loss(loss) => linux.loss(catalogue, loss, &mut facts),
        }
        facts.after(&linux);
    });
    composer.finish(&kernel.catalogue);
    drain(&mut composer);
    linux.finish(&mut facts);
    facts.after(&linux);
    let answer = critical_path.answer(composer.vocabulary()).unwrap();
    let waits = waits.answer(composer.vocabulary()).unwrap();
    let mut runs_on: HashMap<&str, Vec<RunsOn>> = HashMap::new();
    for &(machine, place) in composer.runs_on() {
        runs_on.entry(composer.vocabulary().machine_name(machine)).or_default().push(place);
    }
    let path = answer.segments.as_ref().unwrap();
    let on_path = ClassesOnPath::new(path, (answer.start_ns, answer.length_ns), &runs_on);
    let rules = Rules::built_in().unwrap();
    let findings = Critical::findings(&Participation::new(&answer, path), &waits, Some((&facts, &linux, &on_path)), &rules);
    let mut recorders: Vec<String> = composer.recorders().map(str::to_owned).collect();
    recorders.sort();
    Answers { findings, path: drawn(&answer), recorders, contention: facts.contention() }
}

fn drawn(answer: &Answer) -> String {
    let segments = answer.segments.as_ref().unwrap().segments();
    segments.map(|it| format!("{}-{} {}::{}", it.start_ns, it.end_ns, it.machine, it.state)).collect::<Vec<_>>().join(", ")
}

fn found(kernel: &Kernel, kind: &str) -> Option<Finding> {
    answers(kernel, About::default()).findings.into_iter().find(|finding| finding.kind == kind)
}

fn near(found: f64, truth: f64) -> bool {
    (found - truth).abs() < 0.02
}

fn may_run(kernel: &mut Kernel, tid: i32, cpus: &str) {
    let number = Val::I(i64::from(tid));
    let fields = [("tid", number.clone()), ("pid", number), ("name", text(&format!("t{tid}"))), ("cpus_allowed", text(cpus))];
    kernel.event(90, 0, "lttng_statedump_process_state", &fields);
}

/// In turns of 1 ms, `t11` works for 200 µs, wakes `t12`, and works for another 500 µs before `t12`
/// gets CPU 0, the only CPU that they share. `other` has CPU 1.
fn behind(allowed: &str, other: i32) -> Kernel {
    let mut kernel = Kernel::new(2);
    may_run(&mut kernel, 12, allowed);
    kernel.switch(100, 1, 0, 0, other);
    kernel.switch(100, 0, 0, 0, 12);
    kernel.switch(110, 0, 12, BLOCKED, 11);
    for round in 0..20 {
        let t = 1_000 * US * (round + 1);
        kernel.waking(t + 200 * US, 0, 12, 0);
        kernel.wakeup(t + 200 * US, 0, 12, 0);
        kernel.switch(t + 700 * US, 0, 11, BLOCKED, 12);
        kernel.waking(t + 990 * US, 0, 11, 0);
        kernel.wakeup(t + 990 * US, 0, 11, 0);
        kernel.switch(t + 1_000 * US, 0, 12, BLOCKED, 11);
    }
    kernel
}

#[test]
fn a_thread_that_waits_while_another_cpu_is_idle_is_found() {
    let context = found(&behind("0-1", 0), "idle_cpu_unused").unwrap();
    assert_eq!((context.subject.as_str(), context.count), ("t12", 20));
    assert!(near(context.share, 10.0 / 21.0), "{context:?}");
    for (allowed, other) in [("0", 0), ("0-1", 13), ("", 0)] {
        assert_eq!(found(&behind(allowed, other), "idle_cpu_unused"), None, "may run on {allowed:?}, CPU 1 has {other}");
        assert!(found(&behind(allowed, other), "waits_for_cpu").is_some());
    }
}

/// In turns of 10 ms, `t11` gives `t12` work for 3 ms. After 1 ms the quota of `t12` is used up,
/// and it loses the CPU for 5 ms, in which `other` has it.
fn quota(other: i32) -> Kernel {
    let mut kernel = Kernel::new(2);
    may_run(&mut kernel, 12, "0");
    kernel.switch(100, 1, 0, 0, 11);
    kernel.switch(100, 0, 0, 0, 0);
    for round in 1..=20 {
        let t = 10_000 * US * round;
        kernel.waking(t, 1, 12, 0);
        kernel.wakeup(t, 1, 12, 0);
        kernel.switch(t + 10 * US, 0, 0, 0, 12);
        kernel.switch(t + 20 * US, 1, 11, BLOCKED, 0);
        kernel.switch(t + 1_000 * US, 0, 12, 0, other);
        kernel.switch(t + 6_000 * US, 0, other, 0, 12);
        kernel.waking(t + 8_000 * US, 0, 11, 1);
        kernel.wakeup(t + 8_000 * US, 0, 11, 1);
        kernel.switch(t + 8_010 * US, 1, 0, 0, 11);
        kernel.switch(t + 8_020 * US, 0, 12, BLOCKED, 0);
    }
    kernel
}

#[test]
fn a_thread_that_a_quota_holds_back_is_found() {
    let held = found(&quota(0), "held_back").unwrap();
    assert_eq!((held.subject.as_str(), held.count), ("t12", 20));
    assert!(near(held.share, 0.5), "{held:?}");
    assert_eq!(found(&quota(13), "held_back"), None);
}

/// Every 100 µs, `t12` on CPU 0 issues a disk request. The disk's interrupt on CPU `on`, or a
/// softirq that the interrupt raises, wakes it, and 20 µs later it starts.
fn interrupts(on: u32, softirq: bool) -> Kernel {
    let mut kernel = Kernel::new(2);
    kernel.switch(100, 1, 0, 0, 0);
    kernel.switch(100, 0, 0, 0, 12);
    for round in 1..=300 {
        let t = 100 * US * round;
        let request = [("dev", Val::I(8 << 20)), ("sector", Val::I(round))];
        kernel.event(t, 0, "block_rq_issue", &request);
        kernel.switch(t + 2 * US, 0, 12, 2, 0);
        kernel.irq(t + 20 * US, on, 36, true);
        if softirq {
            kernel.softirq(t + 21 * US, on, 4, "raise");
            kernel.irq(t + 21 * US, on, 36, false);
            kernel.softirq(t + 21 * US, on, 4, "entry");
        }
        kernel.event(t + 22 * US, on, "block_rq_complete", &request);
        kernel.waking(t + 50 * US, on, 12, 0);
        match softirq {
            true => kernel.softirq(t + 52 * US, on, 4, "exit"),
            false => kernel.irq(t + 52 * US, on, 36, false),
        }
        kernel.switch(t + 70 * US, 0, 0, 0, 12);
    }
    kernel.syscall(100 * US * 301, 0, "getpid", None);
    kernel
}

/// `t12` on CPU 0 and `t11` on CPU 1 send to each other; the sender's call raises the softirq that
/// wakes the receiver.
fn sending() -> Kernel {
    let mut kernel = Kernel::new(2);
    kernel.switch(100, 1, 0, 0, 0);
    kernel.switch(100, 0, 0, 0, 12);
    for round in 1..=600 {
        let t = 50 * US * round;
        let (from, to, receiver) = if round % 2 == 0 { (1, 0, 12) } else { (0, 1, 11) };
        kernel.syscall(t, from, "sendto", None);
        kernel.softirq(t + US, from, 3, "raise");
        kernel.softirq(t + 2 * US, from, 3, "entry");
        kernel.waking(t + 5 * US, from, receiver, to);
        kernel.softirq(t + 6 * US, from, 3, "exit");
        kernel.syscall(t + 7 * US, from, "sendto", Some(1));
        kernel.switch(t + 8 * US, from, 23 - receiver, BLOCKED, 0);
        kernel.switch(t + 35 * US, to, 0, 0, receiver);
    }
    kernel
}

#[test]
fn an_interrupt_on_another_cpu_than_the_thread_that_it_wakes_is_found() {
    for softirq in [false, true] {
        let away = found(&interrupts(1, softirq), "interrupt_away_from_consumer").unwrap();
        assert_eq!((away.subject.as_str(), away.count), ("t12", 300));
        assert!(near(away.share, 0.2), "{away:?}");
        assert!(away.advice.starts_with(if softirq { "softirq BLOCK" } else { "irq 36 dev" }), "{away:?}");
        assert_eq!(found(&interrupts(0, softirq), "interrupt_away_from_consumer"), None);
    }
    // The sender has raised the softirq in its own call: there is no interrupt that could be moved.
    assert_eq!(found(&sending(), "interrupt_away_from_consumer"), None);
    assert!(found(&sending(), "waits_for_cpu").is_some());
}

#[test]
fn interrupts_on_the_path_and_on_top_of_its_threads_are_found() {
    let on_path = found(&interrupts(1, false), "interrupt_on_path").unwrap();
    assert!(on_path.subject.starts_with("irq 36 dev") && near(on_path.share, 0.28), "{on_path:?}");
    let interrupted = |every: i64| {
        let mut kernel = Kernel::new(1);
        kernel.switch(100, 0, 0, 0, 11);
        for round in 1..=100 {
            kernel.irq(every * US * round, 0, 36, true);
            kernel.irq(every * US * round + 20 * US, 0, 36, false);
        }
        kernel.syscall(every * US * 101, 0, "getpid", None);
        found(&kernel, "interrupted_on_path")
    };
    let often = interrupted(100).unwrap();
    assert!(often.subject == "t11" && near(often.share, 0.2), "{often:?}");
    assert_eq!(interrupted(1_000), None);
}

#[test]
fn a_timer_that_is_set_for_each_item_is_found() {
    let setting = |every: i64| {
        let mut kernel = Kernel::new(1);
        kernel.switch(100, 0, 0, 0, 11);
        for item in 1..=100 {
            let t = 100 * US * item;
            if item % every == 0 {
                kernel.syscall(t, 0, "timerfd_settime", None);
                kernel.syscall(t + 30 * US, 0, "timerfd_settime", Some(0));
            }
        }
        kernel.syscall(101 * 100 * US, 0, "getpid", None);
        found(&kernel, "timer_set_per_item")
    };
    let each = setting(1).unwrap();
    assert_eq!((each.subject.as_str(), each.count), ("t11::timerfd_settime", 100));
    assert!(near(each.share, 0.3), "{each:?}");
    assert_eq!(setting(20), None);
}

/// `t11` and `t12` wait for one address in turn, and the holder wakes `woken` of the waiters.
fn futexes(woken: i64, both_wake: bool) -> Kernel {
    let mut kernel = Kernel::new(3);
    let join = [("uaddr", Val::I(0x8000)), ("op", Val::I(265)), ("val", Val::I(11))];
    let call = |kernel: &mut Kernel, t: i64, cpu: u32, op: i64, val: i64| {
        kernel.event(t, cpu, "syscall_entry_futex", &[("uaddr", Val::I(0x7000)), ("op", Val::I(op)), ("val", Val::I(val))]);
    };
    for tid in [11, 12, 13] {
        let fields = [("tid", Val::I(tid)), ("pid", Val::I(11)), ("name", text("t11")), ("cpus_allowed", text("0-1"))];
        kernel.event(90, 0, "lttng_statedump_process_state", &fields);
    }
    kernel.switch(100, 0, 0, 0, 11);
    kernel.switch(100, 1, 0, 0, 12);
    // Meanwhile another thread waits for the end of a thread.
    kernel.switch(100, 2, 0, 0, 13);
    kernel.event(110, 2, "syscall_entry_futex", &join);
    kernel.switch(120, 2, 13, BLOCKED, 0);
    call(&mut kernel, 200, 1, 128, 2);
    kernel.switch(300, 1, 12, BLOCKED, 0);
    for round in 0..100i64 {
        let t = 100 * US * (round + 1);
        // The holder, on CPU `has`, passes the futex on and waits for it; the other thread works.
        let (has, other) = if round % 2 == 0 { (0u32, 12) } else { (1, 11) };
        let op = if both_wake || has == 0 { 129 } else { 0x80 | 3 };
        call(&mut kernel, t, has, op, woken);
        kernel.waking(t + US, has, other, 1 - has);
        kernel.event(t + 2 * US, has, "syscall_exit_futex", &[("ret", Val::I(1))]);
        kernel.switch(t + 5 * US, 1 - has, 0, 0, other);
        kernel.event(t + 6 * US, 1 - has, "syscall_exit_futex", &[("ret", Val::I(0))]);
        call(&mut kernel, t + 7 * US, has, 128, 2);
        kernel.switch(t + 8 * US, has, if has == 0 { 11 } else { 12 }, BLOCKED, 0);
    }
    let end = 100 * US * 101;
    kernel.waking(end, 0, 13, 2);
    kernel.switch(end + US, 2, 0, 0, 13);
    kernel.event(end + 2 * US, 2, "syscall_exit_futex", &[("ret", Val::I(0))]);
    kernel
}

#[test]
fn a_futex_that_passes_from_thread_to_thread_is_a_convoy() {
    let convoy = found(&futexes(1, true), "lock_convoy").unwrap();
    assert_eq!((convoy.subject.as_str(), convoy.count), ("t11", 100));
    assert!(convoy.share > 0.95 && convoy.advice.contains("0x7000"), "{convoy:?}");
    // At a barrier all are woken at once; a thread that is only woken waits for work, not for a
    // lock.
    assert_eq!(found(&futexes(i64::from(i32::MAX), true), "lock_convoy"), None);
    assert_eq!(found(&futexes(1, false), "lock_convoy"), None);
}

#[test]
fn a_lock_is_identified_by_its_process_and_address() {
    // The wait at the other address is for the end of a thread.
    let locks = answers(&futexes(1, true), About::default()).contention;
    let [lock] = locks[..] else { panic!("{locks:?}") };
    assert_eq!((lock.process, lock.address, lock.is_private), (11, 0x7000, true));
    assert!((80 * 100 * US..100 * 100 * US).contains(&(lock.waited_ns as i64)), "{lock:?}");
    // At a barrier all are woken at once.
    assert_eq!(answers(&futexes(i64::from(i32::MAX), true), About::default()).contention, []);
}

#[test]
fn page_faults_of_a_thread_on_the_path_are_found_if_there_are_many() {
    let faulting = |every: i64| {
        let mut kernel = Kernel::new(1);
        kernel.switch(100, 0, 0, 0, 11);
        for fault in 0..2_000 / every {
            kernel.event(200 + 2 * US * every * fault, 0, "x86_exceptions_page_fault_user", &[("address", Val::I(4096))]);
        }
        kernel.switch(4_000 * US, 0, 11, BLOCKED, 0);
        found(&kernel, "faults_on_path")
    };
    let many = faulting(1).unwrap();
    assert_eq!((many.subject.as_str(), many.count), ("t11", 2_000));
    // One fault in 2 µs, which takes at least half a microsecond.
    assert!(near(many.share, 0.25), "{many:?}");
    assert_eq!(faulting(20), None);
}

/// `t13` waits for its child `t12`, which works. `t11`, another child, works on CPU 0 and sends
/// `signal` at 200. With `outlived`, the child continues after it.
fn killing(by: &str, signal: i64, outlived: bool, asked: bool) -> String {
    let mut kernel = Kernel::new(2);
    let process = [("tid", Val::I(13)), ("pid", Val::I(13)), ("name", text("t13")), ("status", Val::I(5)), ("cpu", Val::I(1))];
    kernel.event(90, 0, "lttng_statedump_process_state", &process);
    for child in [11, 12] {
        let fork = [
            ("parent_comm", text("t13")),
            ("parent_tid", Val::I(13)),
            ("child_comm", text(&linux::comm(child))),
            ("child_tid", Val::I(i64::from(child))),
            ("child_pid", Val::I(i64::from(child))),
        ];
        kernel.event(91, 1, "sched_process_fork", &fork);
    }
    kernel.switch(100, 0, 0, 0, 11);
    kernel.switch(100, 1, 0, 0, 13);
    kernel.syscall(110, 1, "wait4", None);
    kernel.switch(120, 1, 13, BLOCKED, 12);
    kernel.syscall(130, 1, "getpid", None);
    kernel.syscall(131, 1, "getpid", Some(12));
    let kill = |kernel: &mut Kernel, to: i64| kernel.event(200, 0, "syscall_entry_kill", &[("pid", Val::I(to)), ("sig", Val::I(signal))]);
    if let Some(call) = by.strip_prefix("after ") {
        kernel.event(140, 1, &format!("syscall_entry_{call}"), &[]);
        kernel.syscall(141, 1, call, Some(12));
    }
    match by {
        "kill" => kill(&mut kernel, 12),
        "kill of the group" | "after setsid" | "after setpgid" => kill(&mut kernel, -13),
        // The value in the register of an int.
        "kill of the group, unsigned" => kill(&mut kernel, 0xffff_fff3),
        "kill of the own group" => kill(&mut kernel, 0),
        "kill of all" => kill(&mut kernel, -1),
        _ => kernel.event(200, 0, "signal_generate", &[("sig", Val::I(signal)), ("pid", Val::I(12))]),
    }
    if outlived {
        kernel.syscall(210, 1, "getpid", None);
        kernel.syscall(211, 1, "getpid", Some(12));
    }
    if asked {
        kernel.syscall(215, 1, "exit_group", None);
    }
    kernel.event(220, 1, "sched_process_exit", &[("tid", Val::I(12))]);
    kernel.waking(230, 1, 13, 1);
    kernel.switch(240, 1, 12, DEAD, 13);
    kernel.syscall(250, 1, "wait4", Some(12));
    kernel.switch(300, 0, 11, BLOCKED, 0);
    kernel.switch(310, 1, 13, BLOCKED, 0);
    // `t13` is the last thread that does anything.
    answers(&kernel, About::default()).path
}

#[test]
fn a_thread_that_is_killed_at_work_has_its_end_from_the_killer() {
    for by in ["kill", "kill of the group", "kill of the group, unsigned", "kill of the own group", "signal_generate"] {
        for signal in [9, 15] {
            let path = killing(by, signal, false, false);
            let begin = if by != "signal_generate" {
                "100-200 t11::run, 200-220 link::signal, 220-230 t12::"
            } else {
                "100-200 t11::run, 200-220 link::signal"
            };
            assert!(path.contains(begin), "{by} {signal}: {path}");
        }
        // The thread has caught the signal, or exits by itself.
        for (signal, outlived, asked) in [(15, true, false), (15, false, true), (9, false, true), (17, false, false)] {
            let path = killing(by, signal, outlived, asked);
            assert!(!path.contains("t11") && !path.contains("signal"), "{by} {signal} {outlived} {asked}: {path}");
        }
    }
}

#[test]
fn a_thread_that_has_left_the_group_is_not_killed_with_it() {
    for by in ["after setsid", "after setpgid", "kill of all"] {
        let path = killing(by, 9, false, false);
        assert!(!path.contains("t11") && !path.contains("signal"), "{by}: {path}");
    }
}

#[test]
fn the_recorder_is_identified_by_its_process_and_not_by_its_name() {
    let recording = |program: &str| {
        let mut kernel = Kernel::new(1);
        kernel.switch(100, 0, 0, 0, 50);
        let fork = [("parent_tid", Val::I(50)), ("child_tid", Val::I(60)), ("child_pid", Val::I(60)), ("child_comm", text("t50"))];
        kernel.event(150, 0, "sched_process_fork", &fork);
        kernel.event(151, 0, "sched_wakeup_new", &[("comm", text("t50")), ("tid", Val::I(60)), ("target_cpu", Val::I(0))]);
        let switch = |kernel: &mut Kernel, t: i64, from: (i32, &str), to: (i32, &str)| {
            let fields = [
                ("prev_comm", text(from.1)),
                ("prev_tid", Val::I(i64::from(from.0))),
                ("prev_prio", Val::I(20)),
                ("prev_state", Val::I(BLOCKED)),
                ("next_comm", text(to.1)),
                ("next_tid", Val::I(i64::from(to.0))),
                ("next_prio", Val::I(20)),
            ];
            kernel.event(t, 0, "sched_switch", &fields);
        };
        switch(&mut kernel, 200, (50, "t50"), (60, "t50"));
        if !program.is_empty() {
            kernel.event(250, 0, "sched_process_exec", &[("tid", Val::I(60)), ("filename", text(program))]);
        }
        let name = program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("t50");
        switch(&mut kernel, 400, (60, name), (0, "swapper/0"));
        kernel
    };
    let of = |program: &str, recorder: Option<i32>| answers(&recording(program), About { recorder, ..About::default() }).recorders;
    // A child of the recorder belongs to it until it executes a program, even one with the same
    // name.
    assert_eq!(of("", Some(50)), ["t50", "t50.60"]);
    assert_eq!(of("/bin/t50", Some(50)), ["t50"]);
    assert!(!of("/bin/longpole", Some(50)).contains(&"longpole".to_owned()));
    // Foreign traces do not record their recorder.
    assert_eq!(of("/bin/ls", None), Vec::<String>::new());
    assert_eq!(of("/bin/longpole", None), ["longpole"]);
}

#[test]
fn system_calls_of_old_lttng_and_of_kernel_tracepoints_are_understood() {
    let reading = |names: [&str; 3]| {
        let mut kernel = Kernel::new(1);
        kernel.switch(100, 0, 0, 0, 11);
        kernel.event(120, 0, names[0], &[("fd", Val::I(3))]);
        kernel.event(200, 0, names[1], &[("ret", Val::I(1))]);
        kernel.event(300, 0, names[2], &[("error_code", Val::I(0))]);
        kernel.switch(400, 0, 11, BLOCKED, 0);
        answers(&kernel, About::default()).path
    };
    let newer = reading(["syscall_entry_read", "syscall_exit_read", "syscall_entry_exit_group"]);
    assert_eq!(newer, "100-120 t11::run, 120-200 t11::read, 200-300 t11::user, 300-400 t11::exit_group");
    assert_eq!(reading(["sys_read", "exit_syscall", "sys_exit_group"]), newer);
    assert_eq!(reading(["sys_enter_read", "sys_exit_read", "sys_enter_exit_group"]), newer);
    assert_eq!(reading(["compat_sys_read", "exit_syscall", "sys_exit"]), newer.replace("exit_group", "exit"));
    // Without the names of the calls.
    assert_eq!(reading(["sys_enter", "sys_exit", "sys_enter"]), newer.replace("read", "unknown").replace("exit_group", "unknown"));
}
