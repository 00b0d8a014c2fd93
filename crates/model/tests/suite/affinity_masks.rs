//! The CPUs on which a thread may run: what is known after calls that set a mask, and after answers
//! of the kernel.

use longpole_model::linux::watch::UnknownReason;
use longpole_model::linux::{CpuSet, Linux, Mask};
use longpole_testing::kernel::{fork, pass, text, Kernel, Val, ALL};

/// What is known about a thread's mask.
#[derive(Debug, PartialEq)]
struct Known {
    at_begin: Option<Vec<u32>>,
    why: Option<UnknownReason>,
    count: u64,
    changes: Vec<Change>,
}

/// A change of a mask: its time in ns, the new mask, why that is unknown, and the thread that made
/// the change.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    t_ns: i64,
    cpus: Option<Vec<u32>>,
    why: Option<UnknownReason>,
    by: Option<i32>,
}

fn known(linux: &Linux, tid: i32) -> Known {
    let list = |cpus: &CpuSet| cpus.to_vec();
    let mask: &Mask = &linux.threads[linux.thread_of(tid).unwrap().0 as usize].mask;
    let changes = mask.changes().iter().map(|change| Change {
        t_ns: change.t_ns,
        cpus: change.cpus.as_ref().map(list),
        why: change.why,
        by: change.by.map(|by| linux.threads[by.0 as usize].tid),
    });
    Known { at_begin: mask.at_begin().map(list), why: mask.why(), count: mask.count(), changes: changes.collect() }
}

fn mask(kernel: &Kernel, tid: i32) -> Known {
    known(&pass::<()>(kernel, ALL).0, tid)
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
    let changes = mask(&kernel, 10).changes;
    let masks: Vec<_> = changes.iter().map(|change| (change.t_ns, change.cpus.clone(), change.by)).collect();
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
    let why: Vec<_> = changes.iter().filter_map(|change| change.why).collect();
    let (changing, again) = (UnknownReason::Changing, UnknownReason::Again);
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
        let found = mask(kernel, tid);
        let changes: Vec<_> = found.changes.iter().map(|change| (change.t_ns, change.cpus.clone(), change.by)).collect();
        (found.at_begin, found.count, changes)
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
    let why = Some(UnknownReason::ForeignRuntime);
    for tid in [30, 39, 60] {
        assert_eq!((mask(&kernel, tid).at_begin, mask(&kernel, tid).why), (None, why), "{tid}");
    }
    let last = mask(&kernel, 31).changes.pop().unwrap();
    assert_eq!((last.cpus, last.why), (None, why));
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
        let found = known(&pass::<()>(&kernel, (begin, end)).0, 10);
        let answered = found.changes.iter().filter(|change| change.cpus.is_some()).count();
        (found.at_begin, found.count, found.changes.len(), answered)
    };
    assert_eq!(of_part(ALL.0, ALL.1), (Some(vec![0, 1, 2, 3]), 100, 64, 64));
    // After the 81st change, which sets mask 0; and between a call and its answer.
    assert_eq!(of_part(806, 2000), (Some(vec![0]), 19, 19, 19));
    assert_eq!(of_part(814, 836), (Some(vec![1]), 2, 2, 2));
}
