//! The conversion of probes' events to interactions: queues, signals, calls, and steps whose
//! timestamp is too early.

use crate::drawn::{draw, draw_with};
use longpole_model::causes::{About, Composer};
use longpole_testing::kernel::{probes, two_cpus, Kernel, Val, BLOCKED};

#[test]
fn a_thread_of_which_only_probes_are_known_is_one_machine() {
    let (mut kernel, one, _) = probes();
    kernel.probe(110, one, "span_begin:fill");
    kernel.probe(120, one, "span_end:fill");
    kernel.counted(130, one, "queue_put:jobs", 1);
    kernel.probe(140, one, "span_end:make");
    assert_eq!(
        draw(&kernel).0,
        ["100 one exists", "100 one is make", "110 one is fill", "120 one is make", "130 one puts 1 into jobs", "140 one is run",]
    );
}

#[test]
fn a_get_with_an_earlier_timestamp_than_its_put_waits_for_the_put() {
    let (mut kernel, one, two) = probes();
    kernel.counted(110, one, "queue_put:jobs", 1);
    kernel.counted(120, two, "queue_get:jobs", 1);
    kernel.counted(130, two, "queue_get:jobs", 1);
    kernel.probe(131, two, "span_begin:use");
    kernel.counted(132, one, "queue_put:jobs", 1);
    let mut composer = Composer::built_in(About::default()).unwrap();
    let drawn = draw_with(&kernel, &mut composer);
    assert_eq!(
        drawn.0[2..],
        [
            "110 one puts 1 into jobs",
            "120 two exists",
            "120 two gets from jobs",
            "120 two is run",
            "132 one puts 1 into jobs",
            "132 two gets from jobs",
            "132 two is use",
        ]
    );
    assert_eq!(composer.counters().from_before, 0);
}

#[test]
fn a_get_from_a_queue_without_a_put_before_it_waits_for_no_put() {
    let (mut kernel, one, two) = probes();
    kernel.counted(120, two, "queue_get:jobs", 1);
    kernel.counted(125, one, "queue_put:jobs", 1);
    let mut composer = Composer::built_in(About::default()).unwrap();
    assert_eq!(draw_with(&kernel, &mut composer).of("two"), "120 is run");
    assert_eq!(composer.counters().from_before, 1);
}

/// Queues whose classes declare this capacity.
fn with_capacity(kernel: &mut Kernel, capacity: u64) {
    for class in kernel.catalogue.classes.iter_mut().filter(|class| class.event_name.starts_with("queue_")) {
        class.attributes.push(("capacity".to_owned(), capacity.to_string()));
    }
}

#[test]
fn a_put_with_an_earlier_timestamp_than_the_get_that_made_room_waits_for_the_get() {
    let (mut kernel, one, two) = probes();
    kernel.counted(110, one, "queue_put:jobs", 2);
    kernel.counted(120, two, "queue_get:jobs", 1);
    // There is room for this one.
    kernel.counted(130, one, "queue_put:jobs", 1);
    kernel.counted(140, one, "queue_put:jobs", 1);
    kernel.counted(145, two, "queue_get:jobs", 1);
    with_capacity(&mut kernel, 2);
    let drawn = draw(&kernel);
    assert_eq!(drawn.of("one"), "100 is make, 110 puts 2 into jobs, 130 puts 1 into jobs, 145 puts 1 into jobs");
    assert_eq!(drawn.of("two"), "120 gets from jobs, 120 is run, 145 gets from jobs");
}

#[test]
fn a_put_into_a_queue_with_room_is_not_held_back() {
    let (mut kernel, one, two) = probes();
    kernel.counted(110, one, "queue_put:jobs", 1);
    kernel.counted(120, two, "queue_get:jobs", 1);
    kernel.counted(130, one, "queue_put:jobs", 1);
    kernel.probe(140, two, "span_begin:use");
    for capacity in [0, 1] {
        with_capacity(&mut kernel, capacity);
        assert!(draw(&kernel).has("130 one puts 1 into jobs"), "{capacity}");
    }
}

#[test]
fn a_step_is_held_back_for_at_most_a_microsecond() {
    let (mut kernel, one, two) = probes();
    kernel.counted(110, one, "queue_put:jobs", 1);
    kernel.counted(120, two, "queue_get:jobs", 1);
    kernel.counted(130, two, "queue_get:jobs", 1);
    kernel.probe(135, two, "span_begin:use");
    kernel.counted(1_131, one, "queue_put:jobs", 1);
    let mut composer = Composer::built_in(About::default()).unwrap();
    let drawn = draw_with(&kernel, &mut composer);
    assert!(drawn.has("135 two is use") && drawn.has("1131 one puts 1 into jobs"), "{:?}", drawn.0);
    assert_eq!(composer.counters().from_before, 1);
}

/// The events of a CPU are in their order, so what its thread did before is not too early.
#[test]
fn a_step_is_not_held_back_beyond_the_next_kernel_event_of_its_cpu() {
    // The thread on CPU 1 takes an item that another one puts after this kernel event.
    let taken_from_before = |tid: i32, event_on: u32| {
        let mut kernel = two_cpus();
        let one = kernel.thread("one", "", 11, 11);
        let two = kernel.thread("two", "", tid, tid);
        kernel.switch(110, 1, 0, 0, 12);
        kernel.counted(115, one, "queue_put:jobs", 1);
        kernel.counted(116, two, "queue_get:jobs", 1);
        kernel.counted(120, two, "queue_get:jobs", 1);
        kernel.syscall(125, event_on, "getpid", None);
        kernel.counted(130, one, "queue_put:jobs", 1);
        let mut composer = Composer::built_in(About::default()).unwrap();
        let drawn = draw_with(&kernel, &mut composer);
        assert_eq!(drawn.has("130 two gets from jobs"), composer.counters().from_before == 0, "{:?}", drawn.0);
        composer.counters().from_before
    };
    assert_eq!([taken_from_before(12, 0), taken_from_before(12, 1)], [0, 1]);
    // A thread without kernel events may be on any CPU.
    assert_eq!([taken_from_before(19, 0), taken_from_before(19, 1)], [0, 0]);
}

#[test]
fn a_call_is_taken_by_the_next_dispatch_of_its_name_or_by_the_one_with_its_id() {
    for id in [None, Some(7)] {
        let (mut kernel, one, two) = probes();
        let mut call = |t: i64, thread: u32, what: &str| {
            let fields: Vec<_> = id.map(|id| ("id", Val::I(id))).into_iter().collect();
            kernel.event(t, thread, &format!("rpc_{what}:read"), &fields);
        };
        call(110, one, "call");
        call(120, two, "dispatch");
        call(130, two, "reply");
        call(140, one, "returned");
        // Nobody has called.
        call(150, two, "dispatch");
        let drawn = draw(&kernel);
        assert_eq!(
            drawn.of("one"),
            "100 is make, 110 puts 1 into rpc:read, 110 waits for rpc read, 140 gets from rpc:read:reply:0",
            "{id:?}"
        );
        assert!(drawn.of("two").starts_with("120 gets from rpc:read, 120 is read, 130 puts 1 into rpc:read:reply:0"), "{:?}", drawn.0);
        assert_eq!(drawn.0.iter().filter(|line| line.contains("two gets")).count(), 1, "{:?}", drawn.0);
    }
}

#[test]
fn calls_without_an_id_are_taken_in_their_order() {
    let (mut kernel, one, two) = probes();
    let three = kernel.thread("three", "", 13, 13);
    kernel.probe(110, one, "rpc_call:read");
    kernel.probe(120, two, "rpc_call:read");
    for t in [130, 150] {
        kernel.probe(t, three, "rpc_dispatch:read");
        kernel.probe(t + 5, three, "rpc_reply:read");
    }
    kernel.probe(160, one, "rpc_returned:read");
    kernel.probe(161, two, "rpc_returned:read");
    let drawn = draw(&kernel);
    for line in ["135 three puts 1 into rpc:read:reply:0", "155 three puts 1 into rpc:read:reply:1"] {
        assert!(drawn.has(line), "{:?}", drawn.0);
    }
    for line in ["160 one gets from rpc:read:reply:0", "161 two gets from rpc:read:reply:1"] {
        assert!(drawn.has(line), "{:?}", drawn.0);
    }
}

/// The first call ends without a server, so the second one gets its slot.
#[test]
fn a_dispatch_takes_no_call_of_another_name() {
    let (mut kernel, one, two) = probes();
    kernel.probe(110, one, "rpc_call:read");
    kernel.probe(120, one, "rpc_returned:read");
    kernel.probe(130, one, "rpc_call:write");
    kernel.probe(140, two, "rpc_dispatch:read");
    kernel.probe(145, two, "rpc_reply:read");
    kernel.probe(150, two, "rpc_dispatch:write");
    let drawn = draw(&kernel);
    assert!(drawn.has("150 two gets from rpc:write"), "{:?}", drawn.0);
    assert_eq!(drawn.0.iter().filter(|line| line.contains("two gets")).count(), 1, "{:?}", drawn.0);
}

/// `t12` waits according to its probes and is woken at 190 in an interrupt, or by `t11`.
fn woken_while_waiting(wait: &str, before: impl FnOnce(&mut Kernel, u32), by_interrupt: bool) -> String {
    let mut kernel = two_cpus();
    let one = kernel.thread("one", "", 11, 11);
    let two = kernel.thread("two", "", 12, 12);
    kernel.switch(110, 1, 0, 0, 12);
    kernel.counted(115, one, "queue_put:jobs", 1);
    kernel.counted(116, two, "queue_get:jobs", 1);
    kernel.probe(120, two, wait);
    kernel.switch(130, 1, 12, BLOCKED, 0);
    before(&mut kernel, one);
    if by_interrupt {
        kernel.irq(185, 0, 36, true);
    }
    kernel.waking(190, 0, 12, 1);
    if by_interrupt {
        kernel.irq(195, 0, 36, false);
    }
    kernel.switch(207, 1, 0, 0, 12);
    draw(&kernel).of("two")
}

#[test]
fn an_interrupt_ends_a_wait_for_tokens_if_there_are_some() {
    let put = |kernel: &mut Kernel, one: u32| kernel.counted(150, one, "queue_put:jobs", 1);
    let woken = "190 is woken by irq 36 dev cpu0";
    assert!(woken_while_waiting("queue_wait_empty:jobs", put, true).contains(woken));
    // The thread continues to wait.
    assert!(!woken_while_waiting("queue_wait_empty:jobs", |_, _| (), true).contains(woken));
    // An interrupt sends no signals.
    let submit = |kernel: &mut Kernel, one: u32| kernel.counted(150, one, "signal_submit:go", 1);
    assert!(!woken_while_waiting("signal_wait:go", submit, true).contains(woken));
}

#[test]
fn a_thread_ends_a_wait_if_it_has_given_what_is_waited_for() {
    let put = |kernel: &mut Kernel, one: u32| kernel.counted(150, one, "queue_put:jobs", 1);
    let submit = |kernel: &mut Kernel, one: u32| kernel.counted(150, one, "signal_submit:go", 1);
    let woken = "190 is woken by one";
    assert!(woken_while_waiting("queue_wait_empty:jobs", put, false).contains(woken));
    assert!(woken_while_waiting("signal_wait:go", submit, false).contains(woken));
    assert!(!woken_while_waiting("queue_wait_empty:jobs", submit, false).contains(woken));
    assert!(!woken_while_waiting("signal_wait:go", |_, _| (), false).contains(woken));
}

/// Only time ends a sleep, so the thread polls and continues to wait.
#[test]
fn a_thread_that_sleeps_within_its_wait_is_not_woken_by_the_one_that_gives_what_it_waits_for() {
    let put_and_sleep = |kernel: &mut Kernel, one: u32| {
        kernel.counted(150, one, "queue_put:jobs", 1);
        kernel.syscall(125, 1, "nanosleep", None);
    };
    let two = woken_while_waiting("queue_wait_empty:jobs", put_and_sleep, false);
    assert!(two.contains("130 waits for empty jobs") && !two.contains("is woken"), "{two}");
}
