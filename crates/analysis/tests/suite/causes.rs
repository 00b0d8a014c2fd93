//! The conversion of events to interactions: small systems by hand with known machines and paths,
//! and a toy kernel with random events.

use crate::support::composed::{compose, drawn, options, path, two_cpus, BLOCKED};
use crate::support::linux::{each_interaction, simulate, text, Kernel, Val, DEAD, RCU};
use longpole_analysis::critical_path::{Answer, CriticalPath};
use longpole_analysis::machine_log::{Reader, Writer};
use longpole_model::causes::{About, Composer};
use longpole_model::rules::Rules;
use proptest::prelude::*;

fn of_log(log: &str) -> Answer {
    let mut reader = Reader::new(log.as_bytes());
    let mut critical_path = CriticalPath::new(options());
    while let Some(interaction) = reader.next_interaction().unwrap() {
        critical_path.interaction(reader.vocabulary(), &interaction);
    }
    critical_path.answer(reader.vocabulary()).unwrap()
}

#[test]
fn a_woken_thread_has_waited_for_the_wakers_work_and_then_for_its_cpu() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.syscall(120, 1, "read", None);
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.syscall(150, 0, "write", None);
    kernel.waking(200, 0, 12, 1);
    kernel.switch(207, 1, 0, 0, 12);
    kernel.syscall(210, 1, "read", Some(1));
    kernel.syscall(300, 1, "getpid", None);
    assert_eq!(path(&kernel), "100-150 t11::run, 150-200 t11::write, 200-207 t12::runnable, 207-210 t12::read, 210-300 t12::user");
}

#[test]
fn a_wake_up_before_the_thread_has_left_its_cpu_ends_the_block_at_once() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.waking(200, 0, 12, 1);
    kernel.switch(205, 1, 12, BLOCKED, 0);
    kernel.wakeup(208, 0, 12, 1);
    kernel.switch(210, 1, 0, 0, 12);
    kernel.syscall(250, 1, "getpid", None);
    assert_eq!(path(&kernel), "100-200 t11::run, 200-208 link::wakeup, 208-210 t12::runnable, 210-250 t12::run");
}

#[test]
fn a_softirq_is_caused_by_the_thread_that_raised_it_and_a_sleep_by_the_sleeper() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.softirq(180, 0, 3, "raise");
    kernel.softirq(190, 0, 3, "entry");
    kernel.waking(200, 0, 12, 1);
    kernel.softirq(210, 0, 3, "exit");
    kernel.switch(220, 1, 0, 0, 12);
    kernel.syscall(230, 1, "nanosleep", None);
    kernel.switch(240, 1, 12, BLOCKED, 0);
    // A thread that is interrupted by an untraced interrupt is not the cause.
    kernel.waking(300, 0, 12, 1);
    kernel.switch(310, 1, 0, 0, 12);
    assert_eq!(
        path(&kernel),
        "100-180 t11::run, 180-190 link::raise, 190-200 softirq NET_RX cpu0::NET_RX, 200-220 t12::runnable, 220-230 t12::run, \
         230-240 t12::nanosleep, 240-300 t12::asleep, 300-310 t12::runnable"
    );
}

#[test]
fn a_select_without_files_is_a_sleep_and_one_with_files_or_without_a_timeout_is_a_wait() {
    let state = |fields: &[(&str, Val)]| {
        let mut kernel = two_cpus();
        kernel.switch(110, 1, 0, 0, 12);
        kernel.event(120, 1, "syscall_entry_pselect6", fields);
        kernel.switch(130, 1, 12, BLOCKED, 0);
        kernel.waking(200, 0, 12, 1);
        kernel.switch(210, 1, 0, 0, 12);
        kernel.syscall(220, 1, "getpid", None);
        path(&kernel)
    };
    let sleeps = [vec![("n", Val::I(0)), ("sig", Val::I(0))], vec![("n", Val::I(0)), ("tsp", Val::I(0x7ffc_1000))]];
    for fields in sleeps {
        let sleeps = state(&fields);
        assert!(sleeps.contains("t12::asleep"), "{fields:?}: {sleeps}");
    }
    for fields in [[("n", Val::I(4)), ("sig", Val::I(0))], [("n", Val::I(0)), ("tsp", Val::I(0))]] {
        let waits = state(&fields);
        assert!(!waits.contains("asleep"), "{fields:?}: {waits}");
    }
}

#[test]
fn a_block_device_has_the_name_that_the_dump_of_the_systems_state_gives_it() {
    let mut kernel = two_cpus();
    for (dev, name) in [(8 << 20, "sda"), (254 << 20, "vda")] {
        kernel.event(110, 1, "lttng_statedump_block_device", &[("dev", Val::I(dev)), ("diskname", Val::S(name.to_owned()))]);
    }
    let request = [("dev", Val::I(254 << 20)), ("sector", Val::I(77))];
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_rq_issue", &request);
    kernel.switch(140, 0, 11, 2, 0);
    kernel.irq(500, 1, 36, true);
    kernel.event(510, 1, "block_rq_complete", &request);
    kernel.waking(520, 1, 11, 0);
    kernel.irq(530, 1, 36, false);
    kernel.switch(540, 0, 0, 0, 11);
    let path = path(&kernel);
    assert!(path.contains("130-510 vda::disk"), "{path}");
}

/// The path if `t11` waits from 130 on for a request of its own.
const OWN_REQUEST: &str =
    "100-120 t11::run, 120-130 t11::fsync, 130-510 disk 8:0::disk, 510-520 irq 36 dev cpu1::dev, 520-540 t11::runnable";

/// Returns the path if the disk's interrupt completes the request at 510, and wakes `t11`.
fn path_of_request(mut kernel: Kernel, request: &[(&'static str, Val)]) -> String {
    kernel.irq(500, 1, 36, true);
    kernel.event(510, 1, "block_rq_complete", request);
    kernel.waking(520, 1, 11, 0);
    kernel.irq(530, 1, 36, false);
    kernel.switch(540, 0, 0, 0, 11);
    path(&kernel)
}

#[test]
fn an_interrupt_continues_the_critical_path_of_the_request_that_it_completes() {
    let mut kernel = two_cpus();
    let request = [("dev", Val::I(8 << 20)), ("sector", Val::I(77))];
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_rq_issue", &request);
    kernel.switch(140, 0, 11, 2, 0);
    assert_eq!(path_of_request(kernel, &request), OWN_REQUEST);
}

/// The device is busy, so a kernel worker issues the request of `t11` when another request is
/// complete. The request still belongs to `t11`.
#[test]
fn a_request_that_waits_in_the_queue_belongs_to_the_thread_that_inserted_it() {
    let mut kernel = two_cpus();
    let of = |sector| [("dev", Val::I(8 << 20)), ("sector", Val::I(sector))];
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_rq_insert", &of(77));
    kernel.switch(140, 0, 11, 2, 0);
    kernel.switch(200, 1, 0, 0, 12);
    kernel.event(210, 1, "block_rq_issue", &of(77));
    kernel.event(215, 1, "block_rq_requeue", &of(77));
    kernel.event(300, 1, "block_rq_issue", &of(77));
    kernel.switch(310, 1, 12, BLOCKED, 0);
    assert_eq!(path_of_request(kernel, &of(77)), OWN_REQUEST);
}

/// The kernel issues a flush of the device's cache later, for the thread that asked for it.
#[test]
fn a_flush_belongs_to_the_thread_that_asked_for_it() {
    let mut kernel = two_cpus();
    let flush = [("dev", Val::I(8 << 20)), ("sector", Val::I(0))];
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(125, 0, "block_getrq", &[("dev", Val::I(8 << 20)), ("sector", Val::I(77))]);
    kernel.event(130, 0, "block_getrq", &flush);
    kernel.switch(140, 0, 11, 2, 0);
    kernel.switch(200, 1, 0, 0, 12);
    kernel.event(210, 1, "block_rq_issue", &flush);
    kernel.switch(310, 1, 12, BLOCKED, 0);
    assert_eq!(path_of_request(kernel, &flush), OWN_REQUEST);
}

/// `t11` asks for a flush while the one of `t14` is under way, which completes first.
#[test]
fn a_flush_that_is_asked_for_during_another_one_has_its_own_owner() {
    let mut kernel = two_cpus();
    let flush = [("dev", Val::I(8 << 20)), ("sector", Val::I(0))];
    kernel.switch(101, 1, 0, 0, 14);
    kernel.event(105, 1, "block_getrq", &flush);
    kernel.event(106, 1, "block_rq_issue", &flush);
    kernel.switch(110, 1, 14, 2, 0);
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_getrq", &flush);
    kernel.switch(140, 0, 11, 2, 0);
    kernel.irq(300, 1, 36, true);
    kernel.event(310, 1, "block_rq_complete", &flush);
    kernel.event(311, 1, "block_rq_complete", &flush);
    kernel.waking(312, 1, 14, 1);
    kernel.event(315, 1, "block_rq_issue", &flush);
    kernel.irq(320, 1, 36, false);
    assert_eq!(path_of_request(kernel, &flush), OWN_REQUEST);
}

/// `t14` asks for a flush after the device has made that of `t11`, and before its completion.
#[test]
fn a_flush_that_is_asked_for_between_the_two_completions_of_another_one_has_its_own_owner() {
    let mut kernel = two_cpus();
    let flush = |sector| [("dev", Val::I(8 << 20)), ("sector", Val::I(sector))];
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_getrq", &flush(0));
    kernel.event(132, 0, "block_rq_issue", &flush(0));
    kernel.switch(140, 0, 11, 2, 0);
    kernel.switch(400, 0, 0, 0, 14);
    kernel.irq(500, 1, 36, true);
    kernel.event(505, 1, "block_rq_complete", &flush(-1));
    kernel.event(507, 0, "block_getrq", &flush(0));
    kernel.event(510, 1, "block_rq_complete", &flush(0));
    kernel.waking(520, 1, 11, 0);
    kernel.irq(530, 1, 36, false);
    kernel.switch(540, 0, 14, 2, 11);
    assert_eq!(path(&kernel), OWN_REQUEST);
}

/// The flush before that of `t11` was for a write, which completes under its own sector.
#[test]
fn a_flush_for_a_write_leaves_nothing_to_the_next_one() {
    let mut kernel = two_cpus();
    let of = |sector| [("dev", Val::I(8 << 20)), ("sector", Val::I(sector))];
    kernel.switch(101, 1, 0, 0, 14);
    kernel.event(106, 1, "block_rq_issue", &of(0));
    kernel.switch(107, 1, 14, 2, 0);
    kernel.irq(110, 1, 36, true);
    kernel.event(111, 1, "block_rq_complete", &of(-1));
    kernel.irq(112, 1, 36, false);
    kernel.syscall(120, 0, "fsync", None);
    kernel.event(130, 0, "block_getrq", &of(0));
    kernel.switch(140, 0, 11, 2, 0);
    kernel.event(200, 1, "block_rq_issue", &of(0));
    assert_eq!(path_of_request(kernel, &of(0)), OWN_REQUEST);
}

/// A thread issues many requests: the effects of one request do not depend on the others.
#[test]
fn each_request_that_a_softirq_completes_has_its_own_effects() {
    let mut kernel = two_cpus();
    let requests = [77, 88].map(|sector| [("dev", Val::I(8 << 20)), ("sector", Val::I(sector))]);
    kernel.event(110, 0, "block_rq_issue", &requests[0]);
    kernel.event(130, 0, "block_rq_issue", &requests[1]);
    kernel.switch(140, 0, 11, 2, 0);
    kernel.softirq(500, 1, 4, "entry");
    kernel.event(510, 1, "block_rq_complete", &requests[0]);
    kernel.event(515, 1, "block_rq_complete", &requests[1]);
    kernel.waking(520, 1, 11, 0);
    kernel.softirq(530, 1, 4, "exit");
    kernel.switch(540, 0, 0, 0, 11);
    assert_eq!(path(&kernel), "100-130 t11::run, 130-515 disk 8:0::disk, 515-520 softirq BLOCK cpu1::BLOCK, 520-540 t11::runnable");
}

/// `t11` queues a piece of work at 150, and the worker `t12` begins with it at 175, independently
/// of its waker. `t14` waits for its result.
fn queued(woken: impl FnOnce(&mut Kernel)) -> String {
    let work = [("work", Val::I(7)), ("function", Val::I(1))];
    let mut kernel = two_cpus();
    kernel.switch(101, 1, 0, 0, 12);
    kernel.switch(102, 1, 12, BLOCKED, 14);
    kernel.switch(105, 1, 14, BLOCKED, 13);
    kernel.event(150, 0, "workqueue_queue_work", &work);
    woken(&mut kernel);
    kernel.switch(170, 1, 13, BLOCKED, 12);
    kernel.event(175, 1, "workqueue_execute_start", &work);
    kernel.waking(200, 1, 14, 1);
    kernel.switch(210, 1, 12, BLOCKED, 14);
    kernel.syscall(300, 1, "getpid", None);
    path(&kernel)
}

#[test]
fn work_of_a_kernel_worker_leads_to_the_thread_that_queued_it_and_not_to_the_workers_waker() {
    let by_another = queued(|kernel| kernel.waking(160, 1, 12, 1));
    assert_eq!(by_another, "100-150 t11::run, 150-175 link::workqueue, 175-200 t12::run, 200-210 t14::runnable, 210-300 t14::run");
    let for_it = queued(|kernel| kernel.waking(151, 0, 12, 1));
    assert_eq!(for_it, "100-151 t11::run, 151-170 t12::runnable, 170-200 t12::run, 200-210 t14::runnable, 210-300 t14::run");
}

#[test]
fn work_that_an_interrupt_queued_long_ago_leads_to_its_device() {
    let drawn = queued(|kernel| {
        // This replaces the work that `t11` queues.
        kernel.irq(140, 0, 39, true);
        kernel.event(150, 0, "workqueue_queue_work", &[("work", Val::I(7)), ("function", Val::I(1))]);
        for n in 0..4 {
            kernel.irq(152 + 2 * n, 0, 39, false);
            kernel.irq(153 + 2 * n, 0, 39, true);
        }
        kernel.waking(160, 1, 12, 1);
    });
    let expected = "100-140 device dev::UNKNOWN, 140-150 device dev::outside, 150-175 link::workqueue, 175-200 t12::run, 200-210 t14::runnable, 210-300 t14::run";
    assert_eq!(drawn, expected);
}

/// Threads 11 and 12 each wait for a grace period on CPU 0; `between` is what 11 does after its own
/// has ended.
fn two_grace_periods(between: impl FnOnce(&mut Kernel)) -> String {
    let mut kernel = two_cpus();
    let dumped = [("tid", RCU), ("pid", RCU), ("status", 5), ("cpu", 1), ("type", 1)].map(|(name, value)| (name, Val::I(i64::from(value))));
    kernel.event(101, 1, "lttng_statedump_process_state", &[&dumped[..], &[("name", text("rcu_exp"))]].concat());
    kernel.syscall(105, 0, "umount", None);
    let asks = |kernel: &mut Kernel, t: i64, tid: i32| {
        kernel.waking(t, 0, RCU, 1);
        kernel.switch(t + 10, 0, tid, BLOCKED, 0);
        kernel.switch(t + 10, 1, 0, 0, RCU);
        kernel.waking(t + 20, 1, tid, 0);
        kernel.switch(t + 25, 1, RCU, BLOCKED, 0);
        kernel.switch(t + 30, 0, 0, 0, tid);
    };
    asks(&mut kernel, 110, 11);
    between(&mut kernel);
    kernel.switch(500, 0, 0, 0, 12);
    kernel.syscall(600, 0, "umount", None);
    asks(&mut kernel, 610, 12);
    kernel.syscall(700, 0, "umount", Some(0));
    path(&kernel)
}

#[test]
fn a_thread_whose_grace_period_has_ended_does_not_wait_for_the_next_one() {
    let end = "610-620 rcu_exp::runnable, 620-630 rcu_exp::kernel, 630-640 t12::runnable, 640-700 t12::umount";
    let waits = two_grace_periods(|kernel| {
        kernel.syscall(150, 0, "read", None);
        kernel.switch(160, 0, 11, BLOCKED, 0);
    });
    assert!(waits.ends_with(&format!("600-610 t12::umount, {end}")), "{waits}");
}

/// The data that thread 11 writes is sent when a timer expires that was set meanwhile, which wakes
/// thread 12 on the other CPU. `set` sets the timer, and `goes_off` writes its expiry.
fn sent_by_a_timer(set: impl FnOnce(&mut Kernel), goes_off: impl FnOnce(&mut Kernel)) -> String {
    let packet = |length: i64| [("skbaddr", Val::I(0x1000)), ("len", Val::I(length)), ("name", text("left"))];
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.switch(130, 1, 12, BLOCKED, 0);
    kernel.syscall(150, 0, "write", None);
    set(&mut kernel);
    kernel.syscall(170, 0, "write", Some(1));
    kernel.syscall(250, 0, "pause", None);
    kernel.switch(260, 0, 11, BLOCKED, 0);
    kernel.softirq(300, 0, 8, "entry");
    goes_off(&mut kernel);
    kernel.event(320, 0, "net_dev_queue", &packet(114));
    kernel.softirq(325, 0, 3, "raise");
    kernel.softirq(330, 0, 8, "exit");
    kernel.softirq(340, 0, 3, "entry");
    kernel.event(350, 0, "net_if_receive_skb", &packet(100));
    kernel.waking(360, 0, 12, 1);
    kernel.softirq(370, 0, 3, "exit");
    kernel.switch(400, 1, 0, 0, 12);
    path(&kernel)
}

#[test]
fn packets_that_the_kernel_sends_at_a_timers_expiry_lead_to_the_thread_that_set_the_timer() {
    let timer = [("hrtimer", Val::I(0x77)), ("softexpires", Val::I(1300)), ("expires", Val::I(1300))];
    let off = [("hrtimer", Val::I(0x77)), ("now", Val::I(1310)), ("function", Val::I(0x99))];
    let set = |kernel: &mut Kernel| kernel.event(160, 0, "timer_hrtimer_start", &timer);
    let known = sent_by_a_timer(set, |kernel| kernel.event(310, 0, "timer_hrtimer_expire_entry", &off));
    assert_eq!(
        known,
        "100-150 t11::run, 150-160 t11::write, 160-310 link::timer, 310-325 softirq HRTIMER cpu0::HRTIMER, 325-340 link::raise, \
         340-360 softirq NET_RX cpu0::NET_RX, 360-400 t12::runnable"
    );
    // For another timer, the thread that set it is unknown.
    let other = [("hrtimer", Val::I(0x78)), ("now", Val::I(1310)), ("function", Val::I(0x99))];
    let unknown = sent_by_a_timer(set, |kernel| kernel.event(310, 0, "timer_hrtimer_expire_entry", &other));
    assert!(!unknown.contains("t11"), "{unknown}");
}

#[test]
fn a_wait_for_input_from_outside_begins_with_the_wait_itself() {
    let mut kernel = two_cpus();
    kernel.irq(105, 1, 36, true);
    kernel.irq(106, 1, 36, false);
    kernel.switch(140, 0, 11, BLOCKED, 0);
    kernel.irq(500, 1, 36, true);
    kernel.waking(520, 1, 11, 0);
    kernel.irq(530, 1, 36, false);
    kernel.switch(540, 0, 0, 0, 11);
    assert_eq!(path(&kernel), "100-140 t11::run, 140-520 link::outside dev, 520-540 t11::runnable");
}

#[test]
fn a_child_continues_its_parents_critical_path_under_its_program_name_and_the_parent_waits_for_its_end() {
    let mut kernel = two_cpus();
    let fork = [("parent_tid", Val::I(11)), ("child_tid", Val::I(12)), ("child_pid", Val::I(12)), ("child_comm", text("t11"))];
    kernel.event(150, 0, "sched_process_fork", &fork);
    kernel.event(151, 0, "sched_wakeup_new", &[("comm", text("t11")), ("tid", Val::I(12)), ("target_cpu", Val::I(1))]);
    kernel.syscall(160, 0, "wait4", None);
    kernel.switch(170, 0, 11, BLOCKED, 0);
    kernel.switch(200, 1, 0, 0, 12);
    kernel.event(250, 1, "sched_process_exec", &[("tid", Val::I(12)), ("filename", text("/bin/ls"))]);
    kernel.event(400, 1, "sched_process_exit", &[("tid", Val::I(12))]);
    kernel.waking(410, 1, 11, 0);
    kernel.switch(420, 1, 12, DEAD, 0);
    kernel.switch(430, 0, 0, 0, 11);
    let composed = compose(&kernel, About::default());
    let path = drawn(&composed.answer);
    assert_eq!(path, "100-150 t11::run, 150-200 t11.12::runnable, 200-250 t12::run, 250-410 ls::run, 410-430 t11::runnable");
    assert_eq!(composed.answer.contradictions, 0, "{}", composed.log);
}

#[test]
fn the_commands_end_is_the_end_and_later_events_do_not_count() {
    let mut kernel = two_cpus();
    kernel.event(150, 0, "sched_process_exit", &[("tid", Val::I(11))]);
    kernel.switch(160, 0, 11, DEAD, 0);
    kernel.switch(500, 0, 0, 0, 12);
    kernel.switch(600, 0, 12, BLOCKED, 0);
    let composed = compose(&kernel, About { command: Some(11), ..About::default() });
    assert_eq!((composed.answer.end_machine.as_str(), composed.answer.end_ns), ("t11", 160));
}

/// With a user's rules: returns the operations on the queue `box`, and the states `busy`.
fn ruled(kernel: &Kernel, rules: &str) -> String {
    let mut own = Rules::default();
    own.add("mine.toml", rules).unwrap();
    let mut composer = Composer::with_rules(own.with_built_in().unwrap(), About::default()).unwrap();
    let mut log = Vec::new();
    let mut writer = Writer::new(&mut log);
    each_interaction(kernel, &mut composer, |vocabulary, interaction| writer.write(vocabulary, interaction).unwrap());
    let log = String::from_utf8(log).unwrap();
    assert_eq!(of_log(&log).contradictions, 0, "{log}");
    log.lines().filter(|line| ["box", "busy"].iter().any(|word| line.contains(word))).map(|line| line.to_owned() + "\n").collect()
}

fn rule(event: &str, what: &str, name: &str) -> String {
    format!("[[rule]]\nevent = \"{event}\"\ndo = \"{what}\"\nname = \"{name}\"\n")
}

#[test]
fn an_effect_of_a_users_rule_for_a_kernel_event_belongs_to_the_thread_on_its_cpu() {
    let mut kernel = two_cpus();
    kernel.switch(110, 1, 0, 0, 12);
    kernel.syscall(150, 0, "write", None);
    kernel.syscall(160, 0, "write", Some(1));
    kernel.syscall(170, 1, "read", None);
    kernel.syscall(180, 1, "read", Some(1));
    // A thread that leaves its CPU has done so itself.
    kernel.switch(200, 0, 11, BLOCKED, 13);
    let rules =
        [rule("syscall_exit_write", "put", "box"), rule("syscall_exit_read", "get", "box"), rule("syscall_entry_write", "begin", "busy")];
    assert_eq!(
        ruled(&kernel, &rules.concat()),
        "{\"t\":150,\"machine\":\"t11\",\"state\":\"busy\",\"x_kind\":\"span\"}\n{\"t\":160,\"machine\":\"t11\",\"put\":\"box\"}\n\
         {\"t\":180,\"machine\":\"t12\",\"get\":\"box\"}\n"
    );
    let switches = format!("{}when = \"prev_tid == 11\"\n", rule("sched_switch", "put", "box"));
    assert_eq!(ruled(&kernel, &switches), "{\"t\":200,\"machine\":\"t11\",\"put\":\"box\"}\n");
    let named = format!("{}as = \"clerk\"\n", rule("syscall_exit_write", "put", "box"));
    assert_eq!(ruled(&kernel, &named), "{\"t\":160,\"machine\":\"clerk\",\"put\":\"box\"}\n");
}

#[test]
fn an_effect_of_a_users_rule_for_an_event_in_an_interrupt_belongs_to_the_interrupt() {
    let mut kernel = two_cpus();
    kernel.irq(120, 0, 36, true);
    kernel.event(130, 0, "device_read", &[("count", Val::I(2))]);
    kernel.irq(140, 0, 36, false);
    kernel.syscall(150, 0, "read", None);
    kernel.syscall(160, 0, "read", Some(1));
    let rules = [rule("irq_handler_entry", "begin", "busy"), rule("device_read", "put", "box"), rule("syscall_exit_read", "get", "box")];
    let told = ruled(&kernel, &rules.concat());
    let irq = "irq 36 dev cpu0";
    assert!(told.starts_with(&format!("{{\"t\":120,\"machine\":\"{irq}\",\"state\":\"busy\",\"x_kind\":\"span\"}}\n")), "{told}");
    assert!(told.contains(&format!("{{\"t\":130,\"machine\":\"{irq}\",\"put\":\"box\"}}")), "{told}");
    assert!(told.ends_with("{\"t\":160,\"machine\":\"t11\",\"get\":\"box\"}\n"), "{told}");
    // The exit event still belongs to the interrupt, and its last state is over when it occurs
    // again.
    kernel.irq(220, 0, 36, true);
    kernel.irq(240, 0, 36, false);
    let told = ruled(&kernel, &[rule("irq_handler_exit", "put", "box"), rule("device_read", "begin", "busy")].concat());
    assert_eq!(told.matches(&format!("\"machine\":\"{irq}\",\"put\":\"box\"")).count(), 2, "{told}");
    assert!(told.contains("busy") && !told.lines().any(|line| line.starts_with("{\"t\":2") && line.contains("busy")), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The path is complete, there are no contradictions, and the machine log yields the same
    /// answer.
    #[test]
    fn a_toy_kernel_becomes_a_system_without_contradictions(
        seed in any::<u64>(), cpus in 1u32..5, threads in 1i32..12, steps in 200usize..2000, lose in any::<bool>(),
    ) {
        let (mut kernel, _) = simulate(seed, cpus, threads, steps, (i64::MIN, i64::MAX));
        if lose {
            let (begin, end) = (kernel.events[kernel.events.len() / 3].0, kernel.events[kernel.events.len() / 2].0);
            kernel.lose(seed as u32 % cpus, begin, end);
        }
        let composed = compose(&kernel, About::default());
        prop_assert_eq!(composed.answer.contradictions, 0, "{:?}", composed.answer.contradiction_list);
        prop_assert_eq!(composed.answer.ignored_wakeups, 0);
        prop_assert_eq!(composed.answer.negative_links, 0);
        let again = of_log(&composed.log);
        prop_assert_eq!(&again.segments, &composed.answer.segments);
        prop_assert_eq!(&again.criticality, &composed.answer.criticality);
    }
}

/// Addresses of two timer functions of the kernel, from the state dump.
fn functions(kernel: &mut Kernel) {
    for (address, name) in [(0x99, "tcp_delack_timer"), (0x98, "tcp_write_timer")] {
        kernel.event(101, 0, "longpole_statedump_function", &[("address", Val::I(address)), ("name", text(name))]);
    }
}

#[test]
fn the_time_until_a_kernel_timer_expires_has_the_name_of_its_purpose() {
    let timer = [("timer", Val::I(0x77)), ("function", Val::I(0)), ("expires", Val::I(10))];
    let off = |function: i64| [("timer", Val::I(0x77)), ("now", Val::I(10)), ("function", Val::I(function))];
    let set = |kernel: &mut Kernel| {
        functions(kernel);
        kernel.event(160, 0, "timer_start", &timer);
    };
    let path = |function: i64, more: &dyn Fn(&mut Kernel)| {
        sent_by_a_timer(set, |kernel| {
            kernel.event(310, 0, "timer_expire_entry", &off(function));
            more(kernel);
        })
    };
    let link = |path: &str| path.split("160-310 link::").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or(path).to_owned();
    assert_eq!(link(&path(0x99, &|_| ())), "delayed ACK");
    assert_eq!(link(&path(0x12, &|_| ())), "kernel timer");
    // TCP reports a retransmission only after it has been sent.
    let again = sent_by_a_timer(
        |kernel| {
            set(kernel);
            kernel.event(326, 0, "tcp_retransmit_skb", &[("skbaddr", Val::I(0x1000))]);
        },
        |kernel| kernel.event(310, 0, "timer_expire_entry", &off(0x98)),
    );
    assert_eq!(link(&again), "retransmission timer");
    assert_eq!(link(&path(0x98, &|_| ())), "window probe");
}

#[test]
fn a_timer_that_a_thread_set_for_itself_has_the_name_of_the_call_in_which_it_waits() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "poll", None);
    kernel.switch(160, 0, 11, BLOCKED, 0);
    kernel.softirq(300, 0, 1, "entry");
    kernel.waking(310, 0, 11, 0);
    kernel.softirq(320, 0, 1, "exit");
    kernel.switch(330, 0, 0, 0, 11);
    assert_eq!(path(&kernel), "100-150 t11::run, 150-160 t11::poll, 160-310 link::timer poll, 310-330 t11::runnable");
}

#[test]
fn a_runnable_thread_that_leaves_an_idle_cpu_is_throttled() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "getpid", Some(1));
    kernel.switch(200, 0, 11, 0, 0);
    kernel.switch(300, 0, 0, 0, 11);
    kernel.syscall(310, 0, "getpid", None);
    assert_eq!(path(&kernel), "100-150 t11::run, 150-200 t11::user, 200-300 t11::throttled, 300-310 t11::user");
}

#[test]
fn a_page_fault_takes_at_least_its_assumed_time() {
    let mut kernel = two_cpus();
    kernel.syscall(150, 0, "getpid", Some(1));
    let fault = [("address", Val::I(1)), ("ip", Val::I(1)), ("error_code", Val::I(6))];
    kernel.event(200, 0, "x86_exceptions_page_fault_user", &fault);
    // Another CPU's event occurs before the fault is over; the thread's own system call occurs
    // before the second fault is.
    kernel.event(220, 1, "longpole_statedump_function", &[("address", Val::I(1)), ("name", text("f"))]);
    kernel.event(400, 0, "x86_exceptions_page_fault_user", &fault);
    kernel.syscall(430, 0, "read", None);
    kernel.syscall(500, 0, "read", Some(1));
    kernel.syscall(510, 0, "read", None);
    let composed = compose(&kernel, About { page_fault_ns: Some(50), ..About::default() });
    assert_eq!(
        drawn(&composed.answer),
        "100-150 t11::run, 150-200 t11::user, 200-250 t11::page fault, 250-400 t11::user, 400-430 t11::page fault, \
         430-500 t11::read, 500-510 t11::user"
    );
}
