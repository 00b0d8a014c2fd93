//! The conversion of probe events to interactions, with and without the kernel's events: waits for
//! tokens, calls and signals.

use crate::support::composed::{compose, drawn, path, probes, two_cpus, Composed, BLOCKED};
use crate::support::linux::{Kernel, Val};
use longpole_model::causes::About;

/// A worker on CPU 1 whose probes name its waits; `t11` feeds it from CPU 0.
fn worker() -> (Kernel, u32, u32) {
    let mut kernel = two_cpus();
    let feeder = kernel.thread("feeder", "", 11, 11);
    let worker = kernel.thread("worker", "", 12, 12);
    kernel.switch(101, 1, 0, 0, 12);
    kernel.probe(110, worker, "queue_wait_empty:work");
    (kernel, feeder, worker)
}

#[test]
fn a_block_in_a_named_wait_has_the_queues_name_and_ends_with_the_put() {
    let (mut kernel, feeder, worker) = worker();
    kernel.switch(120, 1, 12, BLOCKED, 0);
    kernel.counted(190, feeder, "queue_put:work", 1);
    kernel.waking(200, 0, 12, 1);
    kernel.switch(210, 1, 0, 0, 12);
    kernel.counted(220, worker, "queue_get:work", 1);
    kernel.probe(230, worker, "span_begin:job");
    kernel.probe(300, worker, "span_end:job");
    let composed = compose(&kernel, About::default());
    assert!(composed.log.contains(r#""blocked":"empty work","on":"work","for":"tokens""#), "{}", composed.log);
    assert_eq!(drawn(&composed.answer), "100-200 feeder::run, 200-210 worker::runnable, 210-230 worker::run, 230-300 worker::job");
}

/// No event shows what the worker waited for, and the waker has done much before the worker runs:
/// the kernel's wake-up is still found.
#[test]
fn a_wake_up_that_turns_out_to_be_the_cause_is_remembered() {
    let (mut kernel, feeder, worker) = worker();
    kernel.switch(120, 1, 12, BLOCKED, 0);
    kernel.waking(200, 0, 12, 1);
    for at in 0..2000 {
        kernel.probe(210 + 2 * at, feeder, "span_begin:job");
        kernel.probe(211 + 2 * at, feeder, "span_end:job");
    }
    kernel.switch(5000, 1, 0, 0, 12);
    kernel.probe(5010, worker, "span_begin:other");
    kernel.probe(5100, worker, "span_end:other");
    let composed = compose(&kernel, About::default());
    assert_eq!(drawn(&composed.answer), "100-200 feeder::run, 200-5010 link::wakeup, 5010-5100 worker::other");
    assert_eq!(composed.answer.forgotten_causes, 0);
}

#[test]
fn the_timer_of_a_polling_loop_is_not_the_object_of_the_wait() {
    let (mut kernel, feeder, worker) = worker();
    for t in [120, 140, 160] {
        kernel.syscall(t, 1, "nanosleep", None);
        kernel.switch(t + 1, 1, 12, BLOCKED, 0);
        kernel.waking(t + 10, 0, 12, 1);
        kernel.switch(t + 12, 1, 0, 0, 12);
        kernel.syscall(t + 13, 1, "nanosleep", Some(0));
    }
    kernel.counted(165, feeder, "queue_put:work", 1);
    kernel.counted(220, worker, "queue_get:work", 1);
    kernel.probe(300, worker, "mark:end");
    assert_eq!(path(&kernel), "100-165 feeder::run, 165-220 work::queued, 220-300 worker::user");
}

#[test]
fn a_thread_that_polls_without_blocking_has_waited_as_well() {
    let (mut kernel, feeder, worker) = worker();
    kernel.counted(165, feeder, "queue_put:work", 1);
    kernel.counted(220, worker, "queue_get:work", 1);
    kernel.probe(300, worker, "mark:end");
    assert_eq!(path(&kernel), "100-165 feeder::run, 165-220 work::queued, 220-300 worker::run");
}

#[test]
fn without_kernel_events_the_waits_are_the_blocks() {
    let (mut kernel, one, two) = probes();
    kernel.probe(100, two, "queue_wait_empty:work");
    kernel.counted(200, one, "queue_put:work", 2);
    kernel.counted(210, two, "queue_get:work", 1);
    kernel.probe(215, two, "span_begin:use");
    kernel.probe(300, two, "span_end:use");
    assert_eq!(path(&kernel), "100-200 one::make, 200-210 work::queued, 210-215 two::run, 215-300 two::use");
}

#[test]
fn work_that_begins_before_the_get_ends_the_wait() {
    let (mut kernel, one, two) = probes();
    kernel.probe(100, two, "queue_wait_empty:work");
    kernel.counted(200, one, "queue_put:work", 1);
    kernel.probe(210, two, "span_begin:use");
    kernel.probe(300, two, "span_end:use");
    kernel.counted(300, two, "queue_get:work", 1);
    assert_eq!(path(&kernel), "100-200 one::make, 200-210 work::queued, 210-300 two::use");
}

#[test]
fn a_caller_waits_for_its_reply_and_the_server_for_the_call() {
    let (mut kernel, one, two) = probes();
    let id = [("id", Val::I(7))];
    kernel.event(150, one, "rpc_call:ask", &id);
    kernel.event(160, two, "rpc_dispatch:ask", &id);
    kernel.event(250, two, "rpc_reply:ask", &id);
    kernel.event(270, one, "rpc_returned:ask", &id);
    kernel.probe(300, one, "span_end:make");
    // The server begins with the call: its activity before its first event is unknown.
    assert!(path(&kernel).ends_with("160-250 two::ask, 250-270 rpc:ask:reply:0::queued, 270-300 one::make"), "{}", path(&kernel));
    // From the second call on, the server is known to have waited for it.
    kernel.event(350, one, "rpc_call:ask", &id);
    kernel.event(360, two, "rpc_dispatch:ask", &id);
    kernel.event(450, two, "rpc_reply:ask", &id);
    kernel.event(470, one, "rpc_returned:ask", &id);
    let path = path(&kernel);
    assert!(path.contains("350-360 rpc:ask::queued, 360-450 two::ask, 450-470 rpc:ask:reply:0::queued"), "{path}");
}

#[test]
fn a_signal_ends_the_wait_for_it_and_merged_signals_are_one() {
    let (mut kernel, one, two) = probes();
    kernel.probe(100, two, "signal_wait:ready");
    kernel.counted(200, one, "signal_submit:ready", 1);
    kernel.counted(205, one, "signal_submit:ready", 1);
    kernel.counted(210, two, "signal_receive:ready", 2);
    kernel.probe(300, two, "mark:end");
    assert_eq!(path(&kernel), "100-200 one::make, 200-210 signal:ready::queued, 210-300 two::run");
}

#[test]
fn a_signal_in_transit_during_a_receive_is_received_next() {
    let (mut kernel, one, two) = probes();
    kernel.probe(200, two, "signal_wait:ready");
    kernel.counted(1000, one, "signal_submit:ready", 1);
    kernel.counted(1990, one, "signal_submit:ready", 1);
    kernel.counted(2000, two, "signal_receive:ready", 1);
    kernel.probe(2100, two, "signal_wait:ready");
    kernel.counted(2200, two, "signal_receive:ready", 1);
    kernel.probe(3000, two, "mark:end");
    let composed = compose(&kernel, About::default());
    assert_eq!(drawn(&composed.answer), "100-2000 one::make, 2000-2200 signal:ready::queued, 2200-3000 two::run");
    assert_eq!((composed.counters.from_before, composed.answer.unknown_ns), (0, 0));
}

#[test]
fn items_that_were_put_before_the_trace_began_are_no_contradiction() {
    let (mut kernel, _, two) = probes();
    kernel.probe(100, two, "queue_wait_empty:work");
    kernel.counted(200, two, "queue_get:work", 5);
    kernel.probe(300, two, "mark:end");
    let composed = compose(&kernel, About::default());
    assert_eq!((composed.answer.contradictions, composed.counters.from_before), (0, 5));
    assert_eq!(drawn(&composed.answer), "100-200 two::blocked:empty work, 200-300 two::run");
    assert_eq!(composed.answer.unknown_ns, 100);
}

/// `one` puts at 1,000 and at 5,000; `two` takes the first item at 1,100, and waits for more from
/// 3,000 to 6,500. The queue holds one item.
fn one_at_a_time(between: impl Fn(&mut Kernel, u32, u32)) -> Composed {
    let (mut kernel, one, two) = probes();
    kernel.counted(1000, one, "queue_put:work", 1);
    kernel.catalogue.classes.iter_mut().filter(|class| class.event_name == "queue_put:work").for_each(|class| {
        class.attributes.push(("capacity".to_owned(), "1".to_owned()));
    });
    kernel.counted(1100, two, "queue_get:work", 1);
    between(&mut kernel, one, two);
    kernel.probe(3000, two, "queue_wait_empty:work");
    kernel.counted(5000, one, "queue_put:work", 1);
    kernel.counted(6500, two, "queue_get:work", 1);
    kernel.probe(7000, two, "mark:end");
    compose(&kernel, About::default())
}

#[test]
fn an_event_stamped_shortly_before_its_cause_still_follows_from_it() {
    let get_first = one_at_a_time(|kernel, one, two| {
        kernel.counted(2000, two, "queue_get:work", 1);
        kernel.probe(2010, two, "span_begin:use");
        kernel.counted(2050, one, "queue_put:work", 1);
        kernel.probe(2060, two, "span_end:use");
    });
    let put_first = one_at_a_time(|kernel, one, two| {
        kernel.counted(1900, one, "queue_put:work", 1);
        kernel.counted(2000, one, "queue_put:work", 1);
        kernel.counted(2050, two, "queue_get:work", 1);
        kernel.counted(2060, two, "queue_get:work", 1);
    });
    for composed in [get_first, put_first] {
        assert_eq!(drawn(&composed.answer), "100-5000 one::make, 5000-6500 work::queued, 6500-7000 two::run", "{}", composed.log);
        assert_eq!((composed.answer.contradictions, composed.counters.from_before), (0, 0));
    }
}

#[test]
fn a_cause_that_does_not_come_within_a_moment_is_missing() {
    let taken = one_at_a_time(|kernel, one, two| {
        kernel.counted(1200, two, "queue_get:work", 1);
        kernel.counted(2900, one, "queue_put:work", 1);
    });
    assert_eq!((taken.answer.contradictions, taken.counters.from_before), (1, 1));
    let put = one_at_a_time(|kernel, one, two| {
        kernel.counted(1200, one, "queue_put:work", 1);
        kernel.counted(1300, one, "queue_put:work", 1);
        kernel.counted(2900, two, "queue_get:work", 1);
    });
    assert_eq!((put.answer.contradictions, put.counters.from_before), (2, 0));
}

#[test]
fn actions_of_a_thread_before_it_left_its_cpu_precede_that_switch() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    let (one, two) = (kernel.thread("one", "", 11, 11), kernel.thread("two", "", 12, 12));
    kernel.counted(1000, one, "queue_put:work", 1);
    kernel.counted(1100, two, "queue_get:work", 1);
    kernel.counted(2000, two, "queue_get:work", 1);
    kernel.switch(2020, 1, 12, BLOCKED, 0);
    kernel.counted(2050, one, "queue_put:work", 1);
    kernel.waking(2100, 0, 12, 1);
    kernel.switch(2200, 1, 0, 0, 12);
    kernel.probe(2300, two, "mark:end");
    let composed = compose(&kernel, About::default());
    assert_eq!((composed.counters.from_before, composed.answer.ignored_wakeups), (1, 0), "{}", composed.log);
    assert!(
        drawn(&composed.answer).ends_with("-2100 one::run, 2100-2200 two::runnable, 2200-2300 two::run"),
        "{}",
        drawn(&composed.answer)
    );
}

/// A probe precedes the action that it reports, so a reader of the size may find fewer items than
/// were put, and more than remain.
#[test]
fn a_size_is_a_mismatch_only_if_no_thread_can_hold_the_difference() {
    let mismatches = |size: i64| {
        let (mut kernel, one, two) = probes();
        kernel.counted(1000, one, "queue_put:work", 8);
        kernel.counted(1100, one, "queue_put:work", 8);
        kernel.counted(1200, two, "queue_get:work", 1);
        kernel.counted(1300, two, "queue_size:work", size);
        kernel.probe(5000, two, "mark:end");
        compose(&kernel, About::default()).counters.size_mismatches
    };
    assert_eq!([6, 7, 15, 16].map(mismatches), [1, 0, 0, 1]);
}

#[test]
fn machines_with_equal_names_are_distinguished_while_they_live_and_fold_by_class() {
    let mut kernel = Kernel::new(0);
    let first = kernel.thread("same", "", 11, 11);
    let second = kernel.thread("same", "", 12, 12);
    kernel.probe(100, first, "span_begin:a");
    kernel.probe(110, second, "span_begin:a");
    let log = compose(&kernel, About::default()).log;
    assert!(log.contains(r#""machine":"same.12","class":"same""#), "{log}");
}
