//! Threads that a signal of another thread ends.

use longpole_model::linux::watch::{Moment, ThreadId, Watch};
use longpole_testing::kernel::{exit, fork, pass, Kernel, Val, ALL, BLOCKED};

/// Reported ends: the thread, its killer, and the time of the signal.
#[derive(Debug, Default)]
struct Killed(Vec<(ThreadId, ThreadId, i64)>);

impl Watch for Killed {
    fn moment(&mut self, moment: Moment) {
        if let Moment::Killed { thread, by, t_ns } = moment {
            self.0.push((thread, by, t_ns));
        }
    }
}

#[test]
fn a_process_that_its_own_signal_ends_has_no_killer() {
    // A thread that is not the main one sends to itself, to its process, or to another process.
    for (to, by_itself) in [(11, true), (10, true), (20, false)] {
        let mut kernel = Kernel::new(2);
        [10, 11, 20].into_iter().for_each(|tid| kernel.dump(0, tid, 5, 0));
        kernel.switch(100, 0, 0, 0, 11);
        kernel.switch(100, 1, 0, 0, 20);
        kernel.syscall(110, 1, "getpid", Some(20));
        kernel.event(200, 0, "syscall_entry_kill", &[("pid", Val::I(to)), ("sig", Val::I(9))]);
        kernel.event(201, 0, "syscall_exit_kill", &[("ret", Val::I(0))]);
        let at = kernel.events.len();
        [11, 20].into_iter().for_each(|tid| exit(&mut kernel, 220, tid));
        kernel.events[at + 1].1 = 1;
        let killed = pass::<Killed>(&kernel, ALL).1 .0;
        assert_eq!(killed.is_empty(), by_itself, "{to} {killed:?}");
    }
}

/// The process 10 has created the process 12, which works and ends. Before that, 10 makes the call
/// with these arguments. Returns the killer of 12 and the time of the signal.
fn killer(call: &str, arguments: &[(&str, i64)], left_group: bool) -> Option<(i32, i64)> {
    let mut kernel = Kernel::new(2);
    kernel.dump(0, 10, 5, 0);
    fork(&mut kernel, 50, 10, 12, 12);
    kernel.switch(100, 0, 0, 0, 10);
    kernel.switch(100, 1, 0, 0, 12);
    let own_call = if left_group { "setsid" } else { "getpid" };
    kernel.event(110, 1, &format!("syscall_entry_{own_call}"), &[]);
    kernel.event(111, 1, &format!("syscall_exit_{own_call}"), &[("ret", Val::I(12))]);
    let fields: Vec<_> = arguments.iter().map(|&(name, value)| (name, Val::I(value))).collect();
    kernel.event(200, 0, &format!("syscall_entry_{call}"), &fields);
    kernel.event(201, 0, &format!("syscall_exit_{call}"), &[("ret", Val::I(0))]);
    let at = kernel.events.len();
    exit(&mut kernel, 220, 12);
    kernel.events[at].1 = 1;
    kernel.switch(300, 0, 10, BLOCKED, 0);
    let (linux, killed) = pass::<Killed>(&kernel, ALL);
    let tid = |thread: ThreadId| linux.threads[thread.0 as usize].tid;
    let of_child: Vec<_> = killed.0.iter().filter(|(thread, ..)| tid(*thread) == 12).collect();
    assert!(of_child.len() <= 1, "{killed:?}");
    of_child.first().map(|&&(_, by, t_ns)| (tid(by), t_ns))
}

#[test]
fn a_call_that_sends_a_signal_is_the_cause_of_the_end_of_the_threads_that_it_reaches() {
    let sent = Some((10, 200));
    for (call, to, found) in [
        ("kill", 12, sent),
        ("kill", 13, None),
        ("tkill", 12, sent),
        // The group of 10, by its number and by 0; a group's number as an unsigned register.
        ("kill", -10, sent),
        ("kill", 0, sent),
        ("kill", 0xffff_fff6, sent),
        // The group of 12, which has no members; all processes.
        ("kill", -12, None),
        ("kill", -1, None),
        // Only `kill` reaches groups.
        ("tkill", -10, None),
        ("tkill", 0, None),
        ("getpriority", 12, None),
    ] {
        for signal in [9, 15] {
            assert_eq!(killer(call, &[("pid", to), ("sig", signal)], false), found, "{call} {to} {signal}");
        }
        // A signal that ends no thread, and none at all.
        for signal in [17, 0] {
            assert_eq!(killer(call, &[("pid", to), ("sig", signal)], false), None, "{call} {to} {signal}");
        }
    }
    assert_eq!(killer("tgkill", &[("tgid", 12), ("pid", 12), ("sig", 9)], false), sent);
}

#[test]
fn a_process_in_a_session_of_its_own_is_reached_by_its_own_groups_number_only() {
    assert_eq!(killer("kill", &[("pid", -10), ("sig", 9)], true), None);
    assert_eq!(killer("kill", &[("pid", 0), ("sig", 9)], true), None);
    assert_eq!(killer("kill", &[("pid", -12), ("sig", 9)], true), Some((10, 200)));
}
