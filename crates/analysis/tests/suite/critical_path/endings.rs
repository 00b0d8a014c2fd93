//! The machine and time at which the path ends, in traces by hand of a command (process 10) and of
//! other programs on the host.

use crate::support::linux;
use crate::support::linux::{each_interaction, Kernel, BLOCKED, DEAD};
use longpole_analysis::critical_path::{CriticalPath, Options};
use longpole_model::causes::{About, Composer};

const RUNS: i64 = 3;
const WAITS: i64 = 5;

/// Returns the machine and the time at which the path ends.
fn end_of(kernel: &Kernel, command: Option<i32>) -> (String, u64) {
    let mut composer = Composer::built_in(About { command, ..About::default() }).unwrap();
    let mut critical_path = CriticalPath::new(Options::default());
    each_interaction(kernel, &mut composer, |vocabulary, interaction| critical_path.interaction(vocabulary, interaction));
    let answer = critical_path.answer(composer.vocabulary()).unwrap();
    (answer.end_machine, answer.end_ns)
}

/// The command's threads 10 and 11, and thread 20 of another program, which runs on CPU 1 from 500
/// on, and does the last thing of all.
fn next_to_another() -> Kernel {
    let mut kernel = Kernel::new(2);
    for tid in [10, 11, 20] {
        kernel.dump(90, tid, if tid == 11 { RUNS } else { WAITS }, 0);
    }
    kernel.switch(100, 1, 0, 0, 0);
    kernel.switch(100, 0, 0, 0, 11);
    kernel.switch(500, 1, 0, 0, 20);
    kernel.syscall(2000, 1, "getpid", None);
    kernel
}

fn of_command(end: &str, t: u64) -> (String, u64) {
    (end.to_owned(), t)
}

#[test]
fn a_command_that_is_cut_off_ends_with_its_own_thread_and_not_with_the_last_running_one() {
    let mut kernel = next_to_another();
    kernel.syscall(1000, 0, "getppid", None);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10/t11", 2000));
    assert_eq!(end_of(&kernel, None), of_command("t20", 2000));
}

#[test]
fn the_main_thread_precedes_the_others_unless_it_waits_for_them() {
    let mut kernel = next_to_another();
    kernel.switch(1000, 0, 11, 0, 10);
    kernel.switch(1500, 0, 10, 0, 11);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10", 2000));
    let mut kernel = next_to_another();
    kernel.switch(1000, 0, 11, 0, 10);
    kernel.switch(1500, 0, 10, BLOCKED, 11);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10/t11", 2000));
    // All of them wait: the path still does not end in another program.
    kernel.switch(1600, 0, 11, BLOCKED, 0);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10", 2000));
}

#[test]
fn a_command_ends_with_its_main_thread_if_the_others_are_killed_with_it() {
    let mut kernel = next_to_another();
    kernel.switch(1000, 0, 11, 0, 10);
    kernel.switch(1500, 0, 10, DEAD, 11);
    kernel.switch(1510, 0, 11, DEAD, 0);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10", 1500));
}

#[test]
fn a_command_whose_main_thread_has_exited_ends_with_the_last_of_the_others() {
    let mut kernel = next_to_another();
    kernel.switch(1000, 0, 11, 0, 10);
    kernel.switch(1100, 0, 10, DEAD, 11);
    kernel.syscall(1200, 0, "getppid", None);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10/t11", 2000));
    kernel.switch(1700, 0, 11, DEAD, 0);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t10/t11", 1700));
}

#[test]
fn a_process_that_a_waiting_command_started_is_its_end() {
    let mut kernel = next_to_another();
    kernel.switch(200, 0, 11, 0, 10);
    let birth = [
        ("parent_comm", linux::text("t10")),
        ("parent_tid", linux::Val::I(10)),
        ("parent_pid", linux::Val::I(10)),
        ("child_comm", linux::text("t30")),
        ("child_tid", linux::Val::I(30)),
        ("child_pid", linux::Val::I(30)),
    ];
    kernel.event(300, 0, "sched_process_fork", &birth);
    kernel.switch(400, 0, 10, BLOCKED, 30);
    kernel.switch(1500, 0, 30, 0, 11);
    kernel.switch(1510, 0, 11, BLOCKED, 30);
    assert_eq!(end_of(&kernel, Some(10)), of_command("t30", 2000));
}

#[test]
fn among_several_programs_with_probes_the_commands_own_one_is_the_end() {
    let mut kernel = Kernel::new(2);
    let mine = kernel.thread("mine", "", 10, 11);
    let other = kernel.thread("other", "", 20, 20);
    kernel.probe(100, mine, "span_begin:job");
    kernel.probe(200, other, "span_begin:job");
    kernel.counted(300, mine, "queue_put:work", 1);
    kernel.counted(400, other, "queue_put:work", 1);
    assert_eq!(end_of(&kernel, Some(10)), of_command("mine", 400));
    assert_eq!(end_of(&kernel, None), of_command("other", 400));
}

#[test]
fn if_all_programs_wait_at_the_end_the_path_ends_with_the_last_action() {
    let mut kernel = next_to_another();
    kernel.switch(1600, 0, 11, BLOCKED, 0);
    kernel.syscall(1800, 1, "getpid", None);
    kernel.switch(1900, 1, 20, BLOCKED, 0);
    assert_eq!(end_of(&kernel, None), of_command("t20", 1900));
    // It is the last action as long as no thread runs again.
    kernel.switch(1950, 0, 0, 0, 11);
    assert_eq!(end_of(&kernel, None), of_command("t10/t11", 2000));
}

#[test]
fn a_long_wait_of_all_programs_belongs_to_the_path() {
    let mut kernel = Kernel::new(2);
    kernel.dump(90, 20, WAITS, 0);
    kernel.switch(100, 1, 0, 0, 20);
    kernel.switch(700, 1, 20, BLOCKED, 0);
    kernel.dump(2000, 21, WAITS, 0);
    assert_eq!(end_of(&kernel, None), of_command("t20", 2000));
}

#[test]
fn a_thread_that_runs_at_the_end_precedes_one_that_ran_last_and_waits() {
    let mut kernel = next_to_another();
    kernel.switch(1000, 1, 20, BLOCKED, 0);
    kernel.syscall(1900, 0, "getppid", None);
    assert_eq!(end_of(&kernel, None), of_command("t10/t11", 2000));
}
