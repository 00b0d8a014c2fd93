//! The CPUs on which a thread may run: what is known after calls that set a mask, answers of the
//! kernel, and the masks at the end.

#[path = "support/linux.rs"]
mod linux_support;
#[path = "support/passes.rs"]
mod passes;
mod support;

use linux_support::{text, Kernel, Val};
use longpole_analysis::scheduling::cpus::CpuTimes;
use passes::{fork, pass, thread, ALL};

#[test]
fn an_affinity_mask_is_known_after_an_answer_and_otherwise_has_a_reason() {
    let mut kernel = Kernel::new(1);
    let call = |kernel: &mut Kernel, t: i64, tid: i64, result: i64| {
        kernel.event(t, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(tid)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
        kernel.event(t + 5, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(result))]);
    };
    let told = |kernel: &mut Kernel, t: i64, tid: i64, cpus: &str| {
        kernel.event(t, 0, "longpole_affinity", &[("tid", Val::I(tid)), ("cpus_allowed", text(cpus))]);
    };
    kernel.event(0, 0, "lttng_statedump_process_state", &[("tid", Val::I(10)), ("pid", Val::I(10)), ("cpus_allowed", text("0-3"))]);
    kernel.switch(10, 0, 0, 0, 10);
    call(&mut kernel, 100, 0, 0);
    told(&mut kernel, 110, 10, "1,3");
    // Its child inherits the mask.
    let fork = [("parent_tid", 10), ("parent_pid", 10), ("child_tid", 20), ("child_pid", 20)].map(|(name, id)| (name, Val::I(id)));
    kernel.event(120, 0, "sched_process_fork", &fork);
    // Two changes before the answer: the answer is that of the second.
    call(&mut kernel, 200, 0, 0);
    call(&mut kernel, 210, 0, 0);
    told(&mut kernel, 220, 10, "2");
    told(&mut kernel, 221, 10, "2");
    // Another thread, which has ended; an unknown thread; a call that failed; invalid answers.
    call(&mut kernel, 300, 20, 0);
    told(&mut kernel, 310, 20, "");
    told(&mut kernel, 311, 999, "0");
    call(&mut kernel, 320, 0, -22);
    call(&mut kernel, 400, 0, 0);
    told(&mut kernel, 410, 10, "9-1,x");
    kernel.switch(500, 0, 10, 1, 0);
    let masks = |tid| {
        let changes = thread(&kernel, tid).allowed_changes.into_iter();
        changes.map(|change| (change.t_ns, change.allowed_cpus, change.why_unknown)).collect::<Vec<_>>()
    };
    let again = Some("it was changed again before the thread answered");
    let damaged = Some("the answer of the thread is damaged");
    let expected = [(105, Some(vec![1, 3]), None), (205, None, again), (215, Some(vec![2]), None), (405, None, damaged)];
    assert_eq!(masks(10), expected);
    assert_eq!(thread(&kernel, 20).allowed_cpus, Some(vec![1, 3]));
    assert_eq!(masks(20), [(305, None, Some("the thread was gone before it could be asked"))]);
}

#[test]
fn an_answer_counts_only_if_no_other_call_can_have_come_between() {
    let mut kernel = Kernel::new(2);
    let enter = |kernel: &mut Kernel, t: i64, cpu: u32, tid: i64| {
        kernel.event(t, cpu, "syscall_entry_sched_setaffinity", &[("pid", Val::I(tid)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
    };
    let leave = |kernel: &mut Kernel, t: i64, cpu: u32| kernel.event(t, cpu, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
    let told = |kernel: &mut Kernel, t: i64, waited: i64, cpus: &str| {
        let fields = [("tid", Val::I(10)), ("cpus_allowed", text(cpus)), ("by_tid", Val::I(10)), ("waited_ns", Val::I(waited))];
        kernel.event(t, 1, "longpole_affinity", &fields);
    };
    kernel.event(0, 0, "lttng_statedump_process_state", &[("tid", Val::I(10)), ("pid", Val::I(10)), ("cpus_allowed", text("0-3"))]);
    kernel.switch(10, 0, 0, 0, 10);
    kernel.switch(10, 1, 0, 0, 20);
    // Answered when the second call had already set the mask.
    enter(&mut kernel, 100, 0, 0);
    leave(&mut kernel, 110, 0);
    enter(&mut kernel, 120, 0, 0);
    told(&mut kernel, 125, 2, "1");
    leave(&mut kernel, 130, 0);
    told(&mut kernel, 140, 5, "1");
    // The same by another thread.
    enter(&mut kernel, 200, 0, 0);
    leave(&mut kernel, 210, 0);
    enter(&mut kernel, 215, 1, 10);
    told(&mut kernel, 220, 2, "2");
    leave(&mut kernel, 225, 1);
    told(&mut kernel, 230, 4, "2");
    // Asked before the second call, and answered after it.
    enter(&mut kernel, 300, 0, 0);
    leave(&mut kernel, 310, 0);
    enter(&mut kernel, 320, 0, 0);
    leave(&mut kernel, 330, 0);
    told(&mut kernel, 335, 20, "3");
    // A call that concerns another thread does not matter.
    enter(&mut kernel, 400, 0, 0);
    leave(&mut kernel, 410, 0);
    enter(&mut kernel, 415, 1, 0);
    told(&mut kernel, 420, 5, "0");
    leave(&mut kernel, 425, 1);
    // The call itself is not in the trace.
    told(&mut kernel, 500, 5, "1");
    let masks: Vec<_> =
        thread(&kernel, 10).allowed_changes.into_iter().map(|change| (change.t_ns, change.allowed_cpus, change.by_tid)).collect();
    let expected = [
        (110, None, 10),
        (130, Some(vec![1]), 10),
        (210, None, 10),
        (225, Some(vec![2]), 20),
        (310, None, 10),
        (330, None, 10),
        (410, Some(vec![0]), 10),
        (500, Some(vec![1]), 10),
    ];
    assert_eq!(masks, expected.map(|(t, cpus, by)| (t, cpus, Some(by))));
    let why: Vec<_> = thread(&kernel, 10).allowed_changes.into_iter().filter_map(|change| change.why_unknown).collect();
    let (changing, again) = ("it was being changed when the thread was asked", "it was changed again before the thread answered");
    assert_eq!(why, [changing, changing, again, changing]);
}

#[test]
fn a_thread_id_from_another_pid_namespace_is_resolved_by_the_answer_or_not_at_all() {
    let mut kernel = Kernel::new(1);
    for (tid, level) in [(1, 0), (2, 0), (10, 0), (30, 1), (31, 1)] {
        let fields = [("tid", Val::I(tid)), ("pid", Val::I(tid)), ("cpus_allowed", text("0-3")), ("ns_level", Val::I(level))];
        kernel.event(0, 0, "lttng_statedump_process_state", &fields);
    }
    let call = |kernel: &mut Kernel, t: i64, about: i64| {
        kernel.event(t, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(about)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
        kernel.event(t + 5, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
    };
    let told = |kernel: &mut Kernel, t: i64, tid: i64, by: i64, about: i64, numbers: i64| {
        let of_caller = [("by_tid", Val::I(by)), ("about", Val::I(about)), ("own_numbers", Val::I(numbers)), ("waited_ns", Val::I(2))];
        let cpus = text(if tid == 0 { "" } else { "1" });
        kernel.event(t, 0, "longpole_affinity", &[&[("tid", Val::I(tid)), ("cpus_allowed", cpus)], &of_caller[..]].concat());
    };
    // Known from the dump.
    kernel.switch(10, 0, 0, 0, 30);
    call(&mut kernel, 100, 2);
    told(&mut kernel, 120, 31, 30, 2, 0);
    // Created by `clone3`, for which there is no event: the answer corrects it.
    fork(&mut kernel, 130, 30, 39, 39);
    kernel.switch(140, 0, 30, 1, 10);
    fork(&mut kernel, 150, 10, 50, 50);
    fork(&mut kernel, 151, 10, 51, 51);
    kernel.switch(160, 0, 10, 1, 50);
    call(&mut kernel, 200, 2);
    told(&mut kernel, 220, 51, 50, 2, 0);
    let changes = |kernel: &Kernel, tid: i32| {
        let found = thread(kernel, tid);
        let changes: Vec<_> =
            found.allowed_changes.iter().map(|change| (change.t_ns, change.allowed_cpus.clone(), change.by_tid)).collect();
        (found.allowed_cpus, found.allowed_change_count, changes)
    };
    let all = Some(vec![0, 1, 2, 3]);
    assert_eq!(changes(&kernel, 31), (all.clone(), 1, vec![(105, Some(vec![1]), Some(30))]));
    assert_eq!(changes(&kernel, 51), (all.clone(), 1, vec![(205, Some(vec![1]), Some(50))]));
    assert_eq!(changes(&kernel, 2), (all.clone(), 0, vec![]));
    // Into a new namespace by `unshare`; the caller had ended before it was examined.
    kernel.switch(300, 0, 50, 1, 10);
    kernel.event(310, 0, "syscall_entry_unshare", &[("unshare_flags", Val::I(0x2000_0000))]);
    kernel.event(311, 0, "syscall_exit_unshare", &[("ret", Val::I(0))]);
    fork(&mut kernel, 320, 10, 60, 60);
    kernel.switch(330, 0, 10, 1, 60);
    call(&mut kernel, 400, 1);
    told(&mut kernel, 420, 1, 60, 1, -1);
    kernel.switch(430, 0, 60, 1, 0);
    assert_eq!((changes(&kernel, 1), changes(&kernel, 10)), ((all.clone(), 0, vec![]), (all, 0, vec![])));
    let why = "the mask of an unknown thread in another pid namespace was changed later";
    for tid in [30, 39, 60] {
        assert_eq!((thread(&kernel, tid).allowed_cpus, thread(&kernel, tid).allowed_why_unknown), (None, Some(why)), "{tid}");
    }
    let last = thread(&kernel, 31).allowed_changes.pop().unwrap();
    assert_eq!((last.allowed_cpus, last.why_unknown), (None, Some(why)));
}

#[test]
fn a_mask_that_differs_at_the_end_without_a_recorded_call_is_unknown() {
    let mut kernel = Kernel::new(1);
    for (tid, cpus) in [(10, "0-1"), (11, "0-3"), (12, "0-1"), (13, "0-1"), (14, "3")] {
        kernel.event(0, 0, "lttng_statedump_process_state", &[("tid", Val::I(tid)), ("pid", Val::I(tid)), ("cpus_allowed", text(cpus))]);
    }
    kernel.switch(10, 0, 0, 0, 12);
    let call = |kernel: &mut Kernel, t: i64| {
        kernel.event(t, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(0)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
        kernel.event(t + 5, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
    };
    call(&mut kernel, 100);
    kernel.event(110, 0, "longpole_affinity", &[("tid", Val::I(12)), ("cpus_allowed", text("0-1")), ("waited_ns", Val::I(2))]);
    kernel.switch(120, 0, 12, 1, 13);
    let end = |kernel: &mut Kernel, t: i64, tid: i64, cpus: &str| {
        let fields = [("tid", Val::I(tid)), ("cpus_allowed", text(cpus)), ("waited_ns", Val::I(5))];
        kernel.event(t, 0, "longpole_affinity_end", &fields);
    };
    // CPUs 2 and 3 do not exist: the kernel leaves them out.
    end(&mut kernel, 900, 0, "0-1");
    end(&mut kernel, 901, 10, "0");
    end(&mut kernel, 902, 11, "0-1");
    end(&mut kernel, 903, 12, "1");
    end(&mut kernel, 904, 14, "");
    // Asked before the call of the thread, or within it.
    call(&mut kernel, 905);
    end(&mut kernel, 912, 13, "0");
    end(&mut kernel, 913, 999, "0");
    kernel.switch(950, 0, 13, 1, 0);
    let why = Some("it was different at the end of the recording, without a call: a cpuset changed, or a CPU went offline");
    let found = |tid| {
        let thread = thread(&kernel, tid);
        let changes: Vec<_> = thread.allowed_changes.into_iter().map(|change| (change.allowed_cpus, change.why_unknown)).collect();
        (thread.allowed_cpus, thread.allowed_why_unknown, changes)
    };
    let both = Some(vec![0, 1]);
    assert_eq!(found(10), (None, why, vec![]));
    assert_eq!(found(11), (Some(vec![0, 1, 2, 3]), None, vec![]));
    assert_eq!(found(12), (both.clone(), None, vec![(None, why)]));
    assert_eq!(found(13), (both, None, vec![(None, Some("the trace has no answer of the thread"))]));
    assert_eq!(found(14), (Some(vec![3]), None, vec![]));
}

#[test]
fn beyond_the_limit_changes_are_counted_and_the_mask_at_the_begin_of_a_part_is_right() {
    let mut kernel = Kernel::new(2);
    kernel.event(0, 0, "lttng_statedump_process_state", &[("tid", Val::I(10)), ("pid", Val::I(10)), ("cpus_allowed", text("0-3"))]);
    kernel.switch(0, 0, 0, 0, 10);
    for call in 0..100 {
        let t = 10 * call;
        kernel.event(t + 1, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(0)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
        kernel.event(t + 2, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
        let fields = [("tid", Val::I(10)), ("cpus_allowed", text(if call % 2 == 0 { "0" } else { "1" })), ("waited_ns", Val::I(1))];
        kernel.event(t + 5, 1, "longpole_affinity", &fields);
    }
    kernel.switch(1000, 0, 10, 1, 0);
    let of_part = |begin, end| {
        let (linux, times) = pass::<CpuTimes>(&kernel, (begin, end));
        let found = times.threads(&linux).into_iter().find(|thread| thread.tid == 10).unwrap();
        let known = found.allowed_changes.iter().filter(|change| change.allowed_cpus.is_some()).count();
        (found.allowed_cpus, found.allowed_change_count, found.allowed_changes.len(), known)
    };
    assert_eq!(of_part(ALL.0, ALL.1), (Some(vec![0, 1, 2, 3]), 100, 64, 64));
    // After the 81st change, which sets mask 0; and between a call and its answer.
    assert_eq!(of_part(806, 2000), (Some(vec![0]), 19, 19, 19));
    assert_eq!(of_part(814, 836), (Some(vec![1]), 2, 2, 2));
}
