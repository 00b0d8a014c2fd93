//! Processes: threads that take their leader's id, reused ids, and families of processes.

use crate::support::linux::{text, Kernel, Val};
use crate::support::passes::{exit, fork, pass, ALL};
use longpole_analysis::scheduling::cpus::CpuTimes;
use longpole_analysis::scheduling::family::Family;
use longpole_analysis::scheduling::system_calls::Calls;
use longpole_model::linux::Linux;
use longpole_trace::event::Item;

/// A thread that is not the leader executes a program; the kernel gives it the leader's id before
/// the event.
#[test]
fn a_thread_that_executes_a_program_continues_under_its_leaders_id() {
    for seen_before in [false, true] {
        let mut kernel = Kernel::new(1);
        for tid in [10, 11] {
            let ids = [("parent_tid", 0), ("parent_pid", 0), ("child_tid", tid), ("child_pid", 10)].map(|(name, id)| (name, Val::I(id)));
            kernel.event(0, 0, "sched_process_fork", &ids);
        }
        kernel.switch(0, 0, 1, 0, 10);
        kernel.event(90, 0, "sched_process_exit", &[("tid", Val::I(10))]);
        kernel.switch(100, 0, 10, 16, 11);
        let mut rest = 500;
        if seen_before {
            kernel.switch(300, 0, 10, 2, 0);
            kernel.switch(400, 0, 0, 0, 10);
            rest = 400;
        }
        kernel.event(500, 0, "sched_process_exec", &[("tid", Val::I(10)), ("old_tid", Val::I(11)), ("filename", text("/bin/new"))]);
        kernel.switch(700, 0, 10, 1, 0);
        let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
        assert_eq!(linux.counts.contradictions, 0);
        let found: Vec<_> =
            times.threads(&linux).into_iter().filter(|thread| thread.running_ns > 0).map(|t| (t.tid, t.name, t.running_ns)).collect();
        let expected = [(10, "t10".to_owned(), rest + 100), (10, "t10".to_owned(), 100)];
        assert!(found.len() == 2 && expected.iter().all(|row| found.contains(row)), "{found:?}");
    }
}

#[test]
fn a_process_with_a_reused_id_is_another_process() {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 1, 1, 10);
    for (turn, calls) in [(0, 1), (1000, 2)] {
        fork(&mut kernel, turn + 10, 10, 20, 20);
        kernel.switch(turn + 20, 0, 10, 1, 20);
        // Its second thread ends after the first one.
        fork(&mut kernel, turn + 30, 20, 21 + turn as i32, 20);
        kernel.switch(turn + 40, 0, 20, 1, 21 + turn as i32);
        kernel.syscall(turn + 50, 0, "read", None);
        kernel.syscall(turn + 60, 0, "read", Some(1));
        kernel.switch(turn + 70, 0, 21 + turn as i32, 1, 20);
        for call in 0..calls {
            kernel.syscall(turn + 100 + 20 * call, 0, "read", None);
            kernel.syscall(turn + 110 + 20 * call, 0, "read", Some(1));
        }
        exit(&mut kernel, turn + 300, 20);
        kernel.switch(turn + 310, 0, 20, 16, 10);
    }
    let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
    let mut calls = Calls::new(true);
    kernel.replay(|catalogue, item| {
        if let Item::Event(event) = item {
            linux.event(catalogue, event, &mut calls);
        }
    });
    let mut found: Vec<(Option<i32>, u64)> = calls.answer(&linux).iter().map(|line| (line.pid, line.count)).collect();
    found.sort_unstable();
    assert_eq!(found, [(Some(20), 2), (Some(20), 3)]);
}

#[test]
fn a_family_ends_with_the_last_thread_of_its_first_process() {
    for executes in [false, true] {
        let mut kernel = Kernel::new(1);
        fork(&mut kernel, 100, 1, 10, 10);
        fork(&mut kernel, 110, 10, 11, 10);
        fork(&mut kernel, 120, 11, 12, 12);
        exit(&mut kernel, 200, 10);
        if executes {
            kernel.event(300, 0, "sched_process_exec", &[("tid", Val::I(10)), ("old_tid", Val::I(11)), ("filename", text("/bin/new"))]);
        }
        fork(&mut kernel, 400, if executes { 10 } else { 11 }, 13, 13);
        exit(&mut kernel, 500, if executes { 10 } else { 11 });
        exit(&mut kernel, 600, 12);
        let mut family = Family::new(10);
        kernel.replay(|catalogue, item| {
            if let Item::Event(event) = item {
                family.event(catalogue, event);
            }
        });
        assert_eq!((family.begin_ns, family.end_ns), (Some(100), Some(500)), "{executes}");
        assert_eq!(family.members.iter().copied().collect::<Vec<_>>(), [10, 11, 12, 13], "{executes}");
    }
}
