//! The conversion of kernel events to interactions: threads, their names, and what ends a wait.

use crate::drawn::{draw, draw_with};
use longpole_model::causes::{About, Composer};
use longpole_model::rules::Rules;
use longpole_testing::kernel::{fork, text, two_cpus, Kernel, Val, BLOCKED};

/// `t12` blocks on CPU 1 at 130, in this system call if there is one, and is woken at 190 by what
/// happens on CPU 0.
fn woken_in(call: Option<&str>, wakes: impl FnOnce(&mut Kernel)) -> Kernel {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    if let Some(call) = call {
        kernel.syscall(120, 1, call, None);
    }
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.syscall(150, 0, "write", None);
    wakes(&mut kernel);
    kernel.switch(207, 1, 0, 0, 12);
    kernel
}

/// An interrupt of this name on CPU 0 wakes `t12`.
fn interrupt(kernel: &mut Kernel, name: &str) {
    kernel.event(180, 0, "irq_handler_entry", &[("irq", Val::I(36)), ("name", text(name))]);
    kernel.waking(190, 0, 12, 1);
    kernel.event(195, 0, "irq_handler_exit", &[("irq", Val::I(36)), ("ret", Val::I(1))]);
}

#[test]
fn a_thread_is_woken_by_the_thread_in_which_the_wake_up_happens() {
    let drawn = draw(&woken_in(Some("read"), |kernel| kernel.waking(190, 0, 12, 1)));
    assert_eq!(drawn.of("t11"), "100 is run, 150 is write");
    assert_eq!(drawn.of("t12"), "110 is run, 120 is read, 130 waits for read, 190 is woken by t11, 207 is read");
}

#[test]
fn a_thread_waits_since_its_block_for_the_device_whose_interrupt_wakes_it() {
    let drawn = draw(&woken_in(Some("read"), |kernel| interrupt(kernel, "disk")));
    assert!(drawn.has("190 t12 is woken by t12 at 130 through outside disk"), "{:?}", drawn.0);
    assert_eq!(drawn.of("irq 36 disk cpu0"), "180 begins on top of t11, 180 is disk, 195 ends");
}

#[test]
fn a_thread_that_a_timers_interrupt_wakes_has_set_the_timer_itself() {
    let drawn = draw(&woken_in(Some("poll"), |kernel| interrupt(kernel, "timer")));
    assert!(drawn.has("190 t12 is woken by t12 at 130 through timer poll"), "{:?}", drawn.0);
}

/// A device's interrupt cannot end a sleep.
#[test]
fn a_sleep_is_a_state_of_its_thread_whatever_wakes_it() {
    for wakes in [|kernel: &mut Kernel| interrupt(kernel, "disk"), |kernel: &mut Kernel| kernel.waking(190, 0, 12, 1)] {
        let drawn = draw(&woken_in(Some("nanosleep"), wakes));
        assert_eq!(drawn.of("t12"), "110 is run, 120 is nanosleep, 130 is asleep, 190 is runnable, 207 is nanosleep");
    }
}

#[test]
fn a_call_that_waits_for_no_files_is_a_sleep_if_it_has_a_timeout() {
    for (call, arguments, sleeps) in [
        ("select", [("n", 0), ("tvp", 0x7000)], true),
        ("select", [("n", 3), ("tvp", 0x7000)], false),
        ("select", [("n", 0), ("tvp", 0)], false),
        ("poll", [("nfds", 0), ("timeout_msecs", 5)], true),
        ("poll", [("nfds", 0), ("timeout_msecs", -1)], false),
        ("read", [("nfds", 0), ("timeout_msecs", 5)], false),
    ] {
        let mut kernel = two_cpus();
        kernel.switch(110, 1, 0, 0, 12);
        let fields = arguments.map(|(name, value)| (name, Val::I(value)));
        kernel.event(120, 1, &format!("syscall_entry_{call}"), &fields);
        kernel.switch(130, 1, 12, BLOCKED, 0);
        let drawn = draw(&kernel);
        assert_eq!(drawn.has("130 t12 is asleep"), sleeps, "{call} {arguments:?} {:?}", drawn.0);
        assert_eq!(drawn.has(&format!("130 t12 waits for {call}")), !sleeps, "{call} {arguments:?} {:?}", drawn.0);
    }
}

#[test]
fn a_page_fault_lasts_for_its_minimum_duration_or_until_the_thread_does_something_else() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "getpid", Some(1));
    for t in [200, 400] {
        kernel.event(t, 0, "x86_exceptions_page_fault_user", &[("address", Val::I(1))]);
    }
    kernel.syscall(430, 0, "read", None);
    kernel.syscall(470, 0, "read", Some(1));
    let mut composer = Composer::built_in(About { page_fault_ns: Some(50), ..About::default() }).unwrap();
    let drawn = draw_with(&kernel, &mut composer);
    assert_eq!(drawn.of("t11"), "100 is run, 150 is user, 200 is page fault, 250 is user, 400 is page fault, 430 is read, 470 is user");
}

#[test]
fn a_page_fault_right_after_another_one_lasts_for_its_own_duration() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "getpid", Some(1));
    for t in [200, 220] {
        kernel.event(t, 0, "x86_exceptions_page_fault_user", &[("address", Val::I(1))]);
    }
    kernel.syscall(430, 0, "read", None);
    let mut composer = Composer::built_in(About { page_fault_ns: Some(50), ..About::default() }).unwrap();
    let faults = "200 is page fault, 220 is user, 220 is page fault, 270 is user, 430 is read";
    assert!(draw_with(&kernel, &mut composer).of("t11").ends_with(faults));
}

#[test]
fn a_thread_that_is_not_the_main_one_is_named_after_its_program_and_itself() {
    let mut kernel = Kernel::new(1);
    kernel.dump(50, 20, 5, 0);
    kernel.dump(50, 21, 5, 0);
    // The main thread of this process is not in the trace.
    kernel.dump(50, 33, 5, 0);
    for (t, from, to) in [(100, 0, 20), (200, 20, 21), (300, 21, 33)] {
        kernel.switch(t, 0, from, BLOCKED, to);
    }
    let mut composer = Composer::built_in(About::default()).unwrap();
    let drawn = draw_with(&kernel, &mut composer);
    for line in ["100 t20 is run", "200 t20/t21 is run", "300 t33 is run"] {
        assert!(drawn.has(line), "{:?}", drawn.0);
    }
    let programs: Vec<_> = composer.threads_of_machines().iter().map(|thread| (thread.tid, thread.program.as_str())).collect();
    assert_eq!(programs, [(20, "t20"), (21, "t20"), (33, "t33")]);
}

#[test]
fn a_thread_that_executes_a_program_continues_as_another_machine() {
    let mut kernel = two_cpus();
    fork(&mut kernel, 110, 11, 30, 30);
    kernel.switch(200, 0, 11, BLOCKED, 30);
    kernel.event(250, 0, "sched_process_exec", &[("tid", Val::I(30)), ("filename", text("/usr/bin/a-name-of-more-than-15-bytes"))]);
    kernel.syscall(300, 0, "read", None);
    let drawn = draw(&kernel);
    assert_eq!(drawn.of("a-name-of-more-"), "250 begins by t30, 250 is run, 300 is read");
    assert!(drawn.has("250 t30 stops"), "{:?}", drawn.0);
}

/// In an interrupt, the thread that the event names is the interrupted one, which does nothing.
#[test]
fn an_effect_of_a_users_rule_belongs_to_the_thread_that_the_event_names() {
    let rule = "[[rule]]\nevent = \"job\"\ndo = \"put\"\nname = \"box\"\n";
    let ruled = |in_interrupt: bool| {
        let mut kernel = two_cpus();
        kernel.switch(110, 1, 0, 0, 12);
        kernel.switch(120, 1, 12, 0, 13);
        kernel.catalogue.subjects[0].tid = Some(12);
        if in_interrupt {
            kernel.irq(140, 1, 36, true);
        }
        kernel.event(150, 1, "job", &[]);
        let mut rules = Rules::default();
        rules.add("mine.toml", rule).unwrap();
        let mut composer = Composer::with_rules(rules.with_built_in().unwrap(), About::default()).unwrap();
        draw_with(&kernel, &mut composer)
    };
    assert!(ruled(false).has("150 t12 puts 1 into box"), "{:?}", ruled(false).0);
    assert!(ruled(true).has("150 irq 36 dev cpu1 puts 1 into box"), "{:?}", ruled(true).0);
}
