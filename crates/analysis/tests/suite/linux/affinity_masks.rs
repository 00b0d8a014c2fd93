//! The CPUs on which a thread may run, and the reason if they are unknown, as the analyses report
//! them. The model's knowledge is tested in `crates/model/tests/suite/affinity_masks.rs`.

use crate::support::linux::{text, Kernel, Val};
use crate::support::passes::thread;

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
    assert_eq!(
        found(13),
        (both, None, vec![(None, Some("the recorder did not ask: it does not watch these calls while many events come"))])
    );
    assert_eq!(found(14), (Some(vec![3]), None, vec![]));
}
