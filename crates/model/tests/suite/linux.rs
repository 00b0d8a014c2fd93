//! The state machine of a Linux system: what it reports about CPUs, queues, wake-ups and calls.

use longpole_model::linux::net::Hop;
use longpole_model::linux::watch::{Base, CpuId, CpuWait, Handling, ThreadId, ThreadState, Wake, Waker, Watch};
use longpole_model::linux::{FileKind, Linux};
use longpole_testing::kernel::{fork, pass, text, two_cpus, Kernel, Val, ALL, BLOCKED};
use longpole_trace::event::Item;

/// What was reported, with threads and CPUs by their numbers in [`Linux`].
#[derive(Debug, Default)]
struct Reports {
    /// Waits in queues: the thread id, the CPU, begin and end.
    waits: Vec<(i32, u32, i64, i64)>,
    /// States of threads other than running: thread, state, begin and end.
    states: Vec<(u32, ThreadState, i64, i64)>,
    /// Wake-ups: thread and time.
    woken: Vec<(u32, i64)>,
    /// Claimed times: CPU and duration.
    claimed: Vec<(u32, u64)>,
    /// Begin of each finished run of a handler.
    handled: Vec<i64>,
    /// Times of packets' steps.
    hops: Vec<i64>,
}

impl Watch for Reports {
    fn waited(&mut self, wait: &CpuWait) {
        self.waits.push((wait.tid, wait.cpu.0, wait.begin_ns, wait.end_ns));
    }

    fn was(&mut self, thread: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        self.states.push((thread.0, state, begin_ns, end_ns));
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        self.woken.push((thread.0, wake.t_ns));
    }

    fn claimed(&mut self, cpu: CpuId, _base: Base, ns: u64, _interrupts_ns: u64) {
        self.claimed.push((cpu.0, ns));
    }

    fn handled(&mut self, handling: &Handling) {
        self.handled.push(handling.begin_ns);
    }

    fn hopped(&mut self, hop: &Hop<'_>) {
        self.hops.push(hop.t_ns);
    }
}

fn thread(linux: &Linux, tid: i32) -> u32 {
    linux.thread_of(tid).unwrap().0
}

#[test]
fn a_thread_waits_in_the_queue_that_its_wake_up_names_until_it_migrates() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.switch(130, 1, 12, BLOCKED, 13);
    kernel.wakeup(200, 0, 12, 1);
    kernel.switch(210, 1, 13, BLOCKED, 12);
    kernel.switch(220, 1, 12, BLOCKED, 13);
    // It enters the other CPU's queue, and returns.
    kernel.wakeup(300, 1, 12, 0);
    kernel.migrate(310, 0, 12, 0, 1);
    kernel.switch(330, 1, 13, BLOCKED, 12);
    let (linux, reports) = pass::<Reports>(&kernel, ALL);
    assert_eq!(
        reports.waits,
        [(12, 1, 200, 210), (12, 0, 300, 310), (12, 1, 310, 330)].map(|(tid, number, begin, end)| {
            let cpu = linux.cpus.iter().position(|cpu| cpu.number == number).unwrap();
            (tid, cpu as u32, begin, end)
        })
    );
}

/// The thread may run all the time; a wake-up of a running thread has no effect.
#[test]
fn a_wake_up_does_not_show_that_an_unknown_thread_did_not_run() {
    let mut kernel = Kernel::new(2);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.irq(0, 1, 36, true);
    kernel.irq(0, 1, 36, false);
    kernel.wakeup(100, 0, 30, 1);
    kernel.switch(200, 1, 30, BLOCKED, 0);
    kernel.switch(300, 0, 10, BLOCKED, 0);
    let (linux, reports) = pass::<Reports>(&kernel, ALL);
    assert_eq!(reports.woken, []);
    assert!(reports.states.iter().all(|&(of, state, ..)| of != thread(&linux, 30) || state != ThreadState::Runnable), "{reports:?}");
    assert!(reports.claimed.contains(&(1, 200)), "{reports:?}");
}

#[test]
fn a_wake_up_that_ends_while_its_thread_runs_does_not_end_a_later_block() {
    for (ends, runnable) in [(true, 0), (false, 1)] {
        let mut kernel = two_cpus();
        kernel.waking(150, 1, 11, 0);
        if ends {
            kernel.wakeup(155, 1, 11, 0);
        }
        kernel.switch(200, 0, 11, BLOCKED, 0);
        kernel.switch(300, 0, 0, 0, 11);
        let reports = pass::<Reports>(&kernel, ALL).1;
        let found = reports.states.iter().filter(|(_, state, ..)| *state == ThreadState::Runnable).count();
        assert_eq!(found, runnable, "{reports:?}");
    }
}

/// The waker of each wake-up.
#[derive(Debug, Default)]
struct Wakers(Vec<Waker>);

impl Watch for Wakers {
    fn woken(&mut self, _thread: ThreadId, wake: &Wake) {
        self.0.push(wake.waker);
    }
}

#[test]
fn a_wake_up_by_an_interrupt_that_is_not_traced_is_none_of_the_thread_on_the_cpu() {
    // A hardware interrupt, one that cannot be masked, a softirq, need of a switch, nothing.
    for (flags, by_thread) in [(0x08, false), (0x40, false), (0x10, true), (0x04, true), (0, true)] {
        let mut kernel = two_cpus();
        kernel.switch(110, 1, 0, 0, 12);
        kernel.switch(130, 1, 12, BLOCKED, 13);
        let fields = [("comm", text("t12")), ("tid", Val::I(12)), ("target_cpu", Val::I(1)), ("common_flags", Val::I(flags))];
        kernel.event(200, 1, "sched_waking", &fields);
        let (linux, Wakers(wakers)) = pass::<Wakers>(&kernel, ALL);
        let expected = if by_thread { Waker::Thread(linux.thread_of(13).unwrap()) } else { Waker::UntracedInterrupt };
        assert_eq!(wakers, [expected], "{flags:#x}");
    }
}

#[test]
fn a_thread_that_is_new_is_ready_from_its_wake_up_on() {
    let mut kernel = two_cpus();
    kernel.event(200, 0, "sched_wakeup_new", &[("comm", text("t30")), ("tid", Val::I(30)), ("target_cpu", Val::I(1))]);
    kernel.switch(220, 1, 0, 0, 30);
    let (linux, reports) = pass::<Reports>(&kernel, ALL);
    assert_eq!(reports.woken, [(thread(&linux, 30), 200)]);
    assert_eq!(reports.states, [(thread(&linux, 30), ThreadState::Runnable, 200, 220)]);
}

#[test]
fn a_cpu_is_idle_until_it_runs_a_thread_or_one_waits_in_its_queue() {
    let mut kernel = two_cpus();
    kernel.wakeup(150, 0, 12, 1);
    kernel.switch(160, 1, 0, 0, 12);
    kernel.switch(170, 1, 12, BLOCKED, 0);
    kernel.wakeup(180, 0, 12, 1);
    let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
    let mut idle = Vec::new();
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            linux.event(catalogue, event, &mut ());
            let of_number = |number: u32| linux.cpus.iter().position(|cpu| cpu.number == number);
            idle.push((event.t_ns, [0, 1].map(|number| of_number(number).and_then(|cpu| linux.idle_since(CpuId(cpu as u32))))));
        }
    });
    // `t12` is unknown at 150, so it may not have to wait.
    let expected = [
        (100, [None, Some(100)]),
        (100, [None, Some(100)]),
        (150, [None, Some(100)]),
        (160, [None, None]),
        (170, [None, Some(170)]),
        (180, [None, None]),
    ];
    assert_eq!(idle, expected);
    assert_eq!(linux.idle_since(CpuId(2)), None);
}

#[test]
fn a_process_that_executes_a_program_keeps_the_files_that_do_not_close_then() {
    const CLOSE_ON_EXEC: i64 = 0o2_000_000;
    let mut kernel = two_cpus();
    for (fd, path, flags) in [(0, "pipe:[1]", 0), (1, "socket:[2]", CLOSE_ON_EXEC)] {
        let fields = [("pid", Val::I(10)), ("fd", Val::I(fd)), ("filename", text(path)), ("flags", Val::I(flags))];
        kernel.event(50, 0, "lttng_statedump_file_descriptor", &fields);
    }
    // A thread of the process 10.
    kernel.dump(60, 11, 5, 0);
    fork(&mut kernel, 150, 11, 30, 30);
    kernel.switch(200, 0, 11, BLOCKED, 30);
    kernel.event(250, 0, "sched_process_exec", &[("tid", Val::I(30)), ("filename", text("/bin/new"))]);
    let linux = pass::<()>(&kernel, ALL).0;
    let files = |process: i32| [0, 1].map(|fd| linux.file_kind(process, fd));
    assert_eq!(files(10), [Some(FileKind::Pipe), Some(FileKind::Socket)]);
    assert_eq!(files(30), [Some(FileKind::Pipe), None]);
}

#[test]
fn a_copied_descriptor_is_of_the_same_older_socket() {
    let mut kernel = two_cpus();
    let fields = [("pid", Val::I(10)), ("fd", Val::I(4)), ("filename", text("socket:[71]")), ("flags", Val::I(0))];
    kernel.event(50, 0, "lttng_statedump_file_descriptor", &fields);
    kernel.dump(60, 10, 5, 0);
    kernel.switch(100, 0, 0, 0, 10);
    kernel.event(200, 0, "syscall_entry_dup", &[("fildes", Val::I(4))]);
    kernel.event(210, 0, "syscall_exit_dup", &[("ret", Val::I(9))]);
    kernel.event(220, 0, "syscall_entry_close", &[("fd", Val::I(4))]);
    kernel.event(230, 0, "syscall_exit_close", &[("ret", Val::I(0))]);
    let linux = pass::<()>(&kernel, ALL).0;
    assert_eq!([4, 9].map(|fd| linux.older_socket(10, fd)), [None, Some(71)]);
}

#[test]
fn events_of_classes_that_are_switched_off_are_ignored_and_the_others_are_not() {
    let mut kernel = two_cpus();
    let off = |kernel: &mut Kernel, t: i64, what: &str, events: &str, calls: &str| {
        let fields = [("what", text(what)), ("events", text(events)), ("calls", text(calls)), ("ago_ns", Val::I(0))];
        kernel.event(t, 0, "longpole_switched_off", &fields);
    };
    let round = |kernel: &mut Kernel, t: i64| {
        kernel.irq(t, 0, 36, true);
        kernel.irq(t + 1, 0, 36, false);
        kernel.softirq(t + 2, 0, 3, "entry");
        kernel.softirq(t + 3, 0, 3, "exit");
        kernel.event(t + 8, 0, "net_dev_queue", &[("skbaddr", Val::I(64)), ("len", Val::I(100)), ("name", text("eth0"))]);
        for (call, at) in [("read", 4), ("write", 6)] {
            kernel.syscall(t + at, 0, call, None);
            kernel.syscall(t + at + 1, 0, call, Some(1));
        }
    };
    round(&mut kernel, 200);
    off(&mut kernel, 300, "interrupts", "irq_handler_*", "");
    round(&mut kernel, 400);
    off(&mut kernel, 500, "calls", "syscall_entry_* syscall_exit_*", "read");
    round(&mut kernel, 600);
    off(&mut kernel, 700, "packets", "net_*", "read");
    round(&mut kernel, 800);
    let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
    let (mut reports, mut calls) = (Reports::default(), Vec::new());
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            linux.event(catalogue, event, &mut reports);
            calls.push((event.t_ns, linux.counts.system_calls.in_all));
        }
    });
    assert_eq!(reports.handled, [200, 202, 402, 602, 802]);
    assert_eq!(reports.hops, [208, 408, 608]);
    let at = |t: i64| calls.iter().rfind(|(of, _)| *of <= t).unwrap().1;
    assert_eq!([at(299), at(499), at(699)], [4, 8, 10]);
    assert_eq!(
        linux.switched_off().iter().map(|off| (off.t_ns, off.what.as_str())).collect::<Vec<_>>(),
        [(300, "interrupts"), (500, "calls"), (700, "packets")]
    );
}

/// In another namespace, the number 2 is another thread than in the events.
#[test]
fn a_child_numbers_threads_as_in_the_events_unless_a_call_may_have_created_a_pid_namespace() {
    const NEW_PIDS: i64 = 0x2000_0000;
    const NEW_FILES: i64 = 0x2_0000;
    let changes_by_child = |call: &str, field: &str, flags: i64, result: i64| {
        let mut kernel = Kernel::new(1);
        for tid in [2, 10] {
            let fields = [("tid", Val::I(tid)), ("pid", Val::I(tid)), ("cpus_allowed", text("0-3")), ("ns_level", Val::I(0))];
            kernel.event(0, 0, "lttng_statedump_process_state", &fields);
        }
        kernel.switch(10, 0, 0, 0, 10);
        kernel.event(100, 0, &format!("syscall_entry_{call}"), &[(field, Val::I(flags))]);
        if call == "clone" {
            fork(&mut kernel, 105, 10, 60, 60);
        }
        kernel.event(110, 0, &format!("syscall_exit_{call}"), &[("ret", Val::I(result))]);
        if call != "clone" {
            fork(&mut kernel, 120, 10, 60, 60);
        }
        kernel.switch(130, 0, 10, BLOCKED, 60);
        kernel.event(140, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(2)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
        kernel.event(145, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
        let linux = pass::<()>(&kernel, ALL).0;
        linux.threads[thread(&linux, 2) as usize].mask.count()
    };
    for (call, field, flags, result, changes) in [
        ("unshare", "unshare_flags", NEW_PIDS, 0, 0),
        ("unshare", "unshare_flags", NEW_PIDS, -1, 1),
        ("unshare", "unshare_flags", NEW_FILES, 0, 1),
        ("unshare", "other", 0, 0, 1),
        ("setns", "nstype", NEW_PIDS, 0, 0),
        ("setns", "nstype", NEW_FILES, 0, 1),
        // A namespace of any kind.
        ("setns", "nstype", 0, 0, 0),
        ("setns", "other", 0, 0, 0),
        ("clone", "clone_flags", NEW_PIDS | NEW_FILES, 60, 0),
        ("clone", "clone_flags", NEW_FILES, 60, 1),
        ("getpid", "unshare_flags", NEW_PIDS, 0, 1),
    ] {
        assert_eq!(changes_by_child(call, field, flags, result), changes, "{call} {field} {flags:#x} {result}");
    }
}
