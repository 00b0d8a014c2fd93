//! The Linux model and the analyses based on it, compared with a toy kernel whose true times are
//! known, and with small cases that were worked out by hand.

mod affinity_masks;
mod kernel_facts;
mod processes;

use crate::support::linux::{simulate, text, Kernel, Truth, Val, BEGIN_NS};
use crate::support::passes::{fork, pass, thread, threads, ALL};
use crate::support::Random;
use longpole_analysis::scheduling::cpus::CpuTimes;
use longpole_analysis::scheduling::interrupts::Interrupts;
use longpole_analysis::scheduling::system_calls::Calls;
use longpole_analysis::scheduling::wakeups::Delays;
use longpole_analysis::stats::histogram::{Histogram, Times};
use longpole_model::linux::Linux;
use longpole_trace::event::{Item, Loss, StreamId, StreamKind};
use proptest::prelude::*;

fn times(values: &[u64]) -> Times {
    let mut histogram = Histogram::default();
    values.iter().for_each(|&value| histogram.record(value));
    histogram.times()
}

/// Means and standard deviations are sums of real numbers and depend on their order in the last
/// digits, so they are not compared.
fn same(found: &Times, truth: &[u64]) -> bool {
    let truth = times(truth);
    (found.count, found.min_ns, found.p50_ns, found.p90_ns, found.p99_ns, found.max_ns, found.total_ns)
        == (truth.count, truth.min_ns, truth.p50_ns, truth.p90_ns, truth.p99_ns, truth.max_ns, truth.total_ns)
}

fn shape() -> impl Strategy<Value = (u64, u32, i32, usize)> {
    (any::<u64>(), 1u32..5, 1i32..12, 200usize..3000)
}

fn compare_cpu(kernel: &Kernel, truth: &Truth, range: (i64, i64)) -> Result<(), TestCaseError> {
    let (linux, times) = pass::<CpuTimes>(kernel, range);
    let total = (truth.end_ns - range.0.max(BEGIN_NS)) as u64;
    for (cpu, truth) in times.cpus(&linux).iter().zip(&truth.cpus) {
        prop_assert_eq!(cpu.total_ns, total);
        prop_assert_eq!(cpu.idle_ns + cpu.irq_ns + cpu.softirq_ns + cpu.thread_ns + cpu.unknown_ns, total);
        // At the very end an idle CPU may or may not have taken the thread in its queue.
        let found = (cpu.idle_ns + cpu.unknown_ns, cpu.irq_ns, cpu.softirq_ns, cpu.thread_ns);
        prop_assert_eq!(found, (truth.idle, truth.irq, truth.softirq, truth.thread), "CPU {}", cpu.cpu);
    }
    for found in times.threads(&linux) {
        let truth = &truth.threads[&found.tid];
        prop_assert_eq!(found.total_ns, total);
        prop_assert_eq!(found.running_ns, truth.running);
        prop_assert_eq!(found.syscall_ns.unwrap_or(0), truth.in_calls);
        prop_assert_eq!(found.interrupted_ns, truth.interrupted);
        prop_assert_eq!(found.runnable_ns, truth.woken + truth.put_off);
        prop_assert_eq!(found.preempted_ns, truth.put_off);
        prop_assert_eq!(found.blocked_ns, truth.blocked);
        prop_assert_eq!(found.blocked.iter().map(|blocked| blocked.ns).sum::<u64>(), truth.blocked);
        prop_assert_eq!(found.unknown_ns, 0);
        prop_assert_eq!(found.instances, truth.instances.len() as u64);
        prop_assert_eq!(found.instance_ns.as_ref().map(|times| times.max), truth.instances.iter().max().copied());
    }
    prop_assert_eq!((linux.counts.contradictions, linux.counts.unseen_idle_ends), (0, 0));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_of_cpus_and_threads_equal_the_true_times((seed, cpus, workers, steps) in shape()) {
        let (kernel, truth) = simulate(seed, cpus, workers, steps, ALL);
        // No event follows the last one that was written.
        let last = kernel.events.iter().map(|(t, ..)| *t).max().unwrap();
        let (kernel, truth) = if truth.end_ns > last { simulate(seed, cpus, workers, steps, (i64::MIN, last)) } else { (kernel, truth) };
        compare_cpu(&kernel, &truth, (i64::MIN, last))?;
        if let Some(found) = threads(&kernel, ALL).iter().find(|thread| thread.migrations != truth.threads[&thread.tid].migrations) {
            // A stay of length zero leaves no piece.
            prop_assert!(found.migrations < truth.threads[&found.tid].migrations);
        }
    }

    #[test]
    fn a_part_of_the_trace_has_the_same_times_as_in_the_whole_trace(
        (seed, cpus, workers, steps) in shape(), from in 0i64..500_000, length in 1i64..500_000
    ) {
        let whole = simulate(seed, cpus, workers, steps, ALL).0;
        let last = whole.events.iter().map(|(t, ..)| *t).max().unwrap();
        let begin = (BEGIN_NS + from).min(last - 1);
        let range = (begin, (begin + length).min(last));
        let (kernel, truth) = simulate(seed, cpus, workers, steps, range);
        compare_cpu(&kernel, &truth, range)?;
        let (linux, delays) = pass::<Delays>(&kernel, range);
        for line in delays.answer(&linux) {
            prop_assert!(same(&line.delay, &truth.threads[&line.tid].delays), "{:?} {:?}", line.delay, truth.threads[&line.tid].delays);
        }
    }

    #[test]
    fn delays_and_cpu_holders_equal_the_true_times((seed, cpus, workers, steps) in shape()) {
        let whole = simulate(seed, cpus, workers, steps, ALL).0;
        let range = (i64::MIN, whole.events.iter().map(|(t, ..)| *t).max().unwrap());
        let (kernel, truth) = simulate(seed, cpus, workers, steps, range);
        let (linux, delays) = pass::<Delays>(&kernel, range);
        let answer = delays.answer(&linux);
        let counted: u64 = answer.iter().map(|line| line.delay.count).sum();
        prop_assert_eq!(counted, truth.threads.values().map(|thread| thread.delays.len() as u64).sum::<u64>());
        for line in answer {
            let truth = &truth.threads[&line.tid];
            prop_assert!(same(&line.delay, &truth.delays), "{:?} {:?}", line.delay, truth.delays);
            prop_assert!(same(&line.preempted, &truth.put_offs));
            prop_assert_eq!(line.worst.map(|worst| worst.ns), truth.delays.iter().max().copied());
            // An idle CPU may already have taken a thread that still waits at the end.
            let still = |kind: &str| kind == "idle" || kind == "unknown";
            let idle: u64 = line.kept_by.iter().filter(|keeper| still(keeper.kind)).map(|keeper| keeper.ns).sum();
            if line.kept_by.iter().all(|keeper| keeper.kind != "others") {
                prop_assert_eq!(truth.kept.get("idle").copied().unwrap_or(0), idle);
            }
            for keeper in line.kept_by.iter().filter(|keeper| keeper.kind != "others" && !still(keeper.kind)) {
                prop_assert_eq!(truth.kept.get(&keeper.name), Some(&keeper.ns), "{}", &keeper.name);
            }
            let kept: u64 = line.kept_by.iter().map(|keeper| keeper.ns).sum();
            prop_assert_eq!(kept, truth.kept.values().sum::<u64>());
            if kept > 0 {
                prop_assert!((line.kept_by.iter().map(|keeper| keeper.share).sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn interrupts_and_system_calls_equal_the_true_times((seed, cpus, workers, steps) in shape()) {
        let (kernel, truth) = simulate(seed, cpus, workers, steps, ALL);
        let (linux, interrupts) = pass::<Interrupts>(&kernel, ALL);
        let none = Vec::new();
        for line in interrupts.answer(&linux, |_| None) {
            prop_assert!(same(&line.handling, truth.handled.get(&line.name).unwrap_or(&none)), "{}", line.name);
            prop_assert!(same(&line.raise, truth.raised.get(&line.name).unwrap_or(&none)), "{}", line.name);
            prop_assert!(same(&line.start, truth.starts.get(&line.name).unwrap_or(&none)), "{}", line.name);
            prop_assert_eq!(line.worst.first().map(|worst| worst.ns), truth.starts.get(&line.name).and_then(|all| all.iter().max().copied()));
        }
        let (linux, calls) = pass::<Calls>(&kernel, ALL);
        let answer = calls.answer(&linux);
        let (answer, interrupts): (Vec<_>, Vec<_>) = answer.into_iter().partition(|line| line.kind == "call");
        let found: Vec<(&str, u64)> = interrupts.iter().map(|line| (line.name.as_str(), line.count)).collect();
        let mut handled: Vec<(&str, u64)> = truth.handled.iter().map(|(name, times)| (name.as_str(), times.len() as u64)).collect();
        handled.retain(|(_, count)| *count > 0);
        prop_assert_eq!(found.len(), handled.len());
        prop_assert!(handled.iter().all(|line| found.contains(line)), "{:?} {:?}", found, handled);
        prop_assert_eq!(answer.len(), truth.calls.len());
        for line in answer {
            let (entered, durations, errors) = &truth.calls[&line.name];
            prop_assert_eq!((line.count, line.completed), (*entered, durations.len() as u64));
            prop_assert_eq!(line.times.total_ns, Some(durations.iter().sum::<u64>()));
            prop_assert_eq!(line.times.p99_ns, times(durations).p99_ns);
            prop_assert_eq!(line.errors.iter().map(|error| error.count).sum::<u64>(), *errors);
        }
    }

    #[test]
    fn the_time_of_a_loss_is_unknown_and_the_parts_still_sum_to_the_whole(
        (seed, cpus, workers, steps) in shape(), from in 0i64..100, length in 1i64..100
    ) {
        let (mut kernel, _) = simulate(seed, cpus, workers, steps, ALL);
        let last = kernel.events.iter().map(|(t, ..)| *t).max().unwrap();
        let begin = BEGIN_NS + (last - BEGIN_NS) * from / 100;
        let end = begin + (last - begin) * length / 100;
        let cpu = Random::new(seed).below(u64::from(cpus)) as u32;
        kernel.lose(cpu, begin, end);
        let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
        let total = linux.range().map(|(begin, end)| (end - begin) as u64).unwrap();
        for found in times.cpus(&linux) {
            let sum = found.idle_ns + found.irq_ns + found.softirq_ns + found.thread_ns + found.unknown_ns;
            prop_assert_eq!((found.total_ns, sum), (total, total));
            if found.cpu == cpu {
                prop_assert!(found.unknown_ns >= (end - begin) as u64, "{:?}", found);
            }
        }
        for thread in times.threads(&linux) {
            let sum = thread.running_ns + thread.interrupted_ns + thread.runnable_ns + thread.blocked_ns + thread.unknown_ns;
            prop_assert_eq!(sum, thread.total_ns, "{:?}", thread);
        }
    }

    #[test]
    fn random_errors_in_events_neither_cause_a_panic_nor_break_the_sum(seed in any::<u64>(), steps in 1usize..3000) {
        let (mut kernel, _) = simulate(seed, 3, 5, steps, ALL);
        let mut random = Random::new(seed);
        // Events vanish or change their CPU.
        let mut events = std::mem::take(&mut kernel.events);
        events.retain(|_| random.below(4) > 0);
        for event in &mut events {
            if random.below(8) == 0 {
                event.1 = random.below(3) as u32;
            }
        }
        kernel.events = events;
        if kernel.events.is_empty() {
            return Ok(());
        }
        let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
        for cpu in times.cpus(&linux) {
            let sum = cpu.idle_ns + cpu.irq_ns + cpu.softirq_ns + cpu.thread_ns + cpu.unknown_ns;
            prop_assert_eq!(sum, cpu.total_ns);
        }
        pass::<Delays>(&kernel, ALL);
        pass::<Interrupts>(&kernel, ALL);
        pass::<Calls>(&kernel, ALL);
    }
}

/// Thread 10 makes a system call, in which a softirq runs, in which an interrupt occurs.
fn nested() -> Kernel {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.syscall(100, 0, "read", None);
    kernel.softirq(150, 0, 3, "raise");
    kernel.softirq(200, 0, 3, "entry");
    kernel.irq(300, 0, 36, true);
    kernel.waking(310, 0, 20, 0);
    kernel.irq(350, 0, 36, false);
    kernel.softirq(500, 0, 3, "exit");
    kernel.syscall(600, 0, "read", Some(-11));
    kernel.switch(700, 0, 10, 1, 20);
    kernel.switch(900, 0, 20, 1, 0);
    kernel.switch(1000, 0, 0, 0, 10);
    kernel
}

#[test]
fn nested_interrupts_softirqs_and_system_calls_each_have_their_own_time() {
    let kernel = nested();
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    let cpu = times.cpus(&linux)[0];
    assert_eq!((cpu.thread_ns, cpu.softirq_ns, cpu.irq_ns, cpu.idle_ns, cpu.unknown_ns), (600, 250, 50, 100, 0));
    let ten = thread(&kernel, 10);
    assert_eq!((ten.running_ns, ten.syscall_ns, ten.interrupted_ns, ten.blocked_ns), (400, Some(200), 300, 300));
    let (linux, calls) = pass::<Calls>(&kernel, ALL);
    let read = &calls.answer(&linux)[0];
    assert_eq!((read.count, read.times.total_ns, read.errors[0].name.as_str()), (1, Some(500), "EAGAIN"));
}

#[test]
fn the_innermost_context_is_the_waker() {
    let kernel = nested();
    let (linux, interrupts) = pass::<Interrupts>(&kernel, ALL);
    let answer = interrupts.answer(&linux, |_| None);
    let irq = answer.iter().find(|line| line.kind == "irq").unwrap();
    assert_eq!((irq.name.as_str(), irq.start.count, irq.start.max_ns), ("irq 36 dev", 1, Some(400)));
    assert_eq!((irq.worst[0].tid, irq.worst[0].t_ns), (20, 700));
    let softirq = answer.iter().find(|line| line.kind == "softirq").unwrap();
    assert_eq!((softirq.start.count, softirq.raise.max_ns, softirq.handling.total_ns), (0, Some(50), 250));
}

#[test]
fn the_first_switch_shows_what_ran_before_it() {
    let mut kernel = Kernel::new(2);
    kernel.waking(1000, 0, 30, 1);
    kernel.switch(1400, 0, 10, 1, 0);
    kernel.switch(1500, 1, 0, 0, 30);
    kernel.switch(2000, 1, 30, 1, 0);
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    let cpus = times.cpus(&linux);
    assert_eq!((cpus[0].thread_ns, cpus[0].idle_ns, cpus[0].unknown_ns), (400, 600, 0));
    assert_eq!((cpus[1].thread_ns, cpus[1].idle_ns, cpus[1].unknown_ns), (500, 500, 0));
    assert_eq!(thread(&kernel, 30).runnable_ns, 500);
}

#[test]
fn a_wake_up_before_the_last_switch_of_its_thread_is_kept() {
    let mut kernel = Kernel::new(2);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.switch(10, 1, 0, 0, 20);
    kernel.waking(100, 1, 10, 0);
    kernel.switch(110, 0, 10, 1, 0);
    kernel.wakeup(130, 0, 10, 0);
    kernel.switch(200, 0, 0, 0, 10);
    let (linux, delays) = pass::<Delays>(&kernel, ALL);
    let answer = delays.answer(&linux);
    assert_eq!((answer.len(), answer[0].delay.count, answer[0].delay.max_ns), (1, 1, Some(70)));
    assert_eq!((answer[0].kept_by[0].kind, answer[0].kept_by[0].ns), ("idle", 70));
}

#[test]
fn a_wake_up_of_a_running_thread_is_ignored() {
    let mut kernel = Kernel::new(2);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.switch(10, 1, 0, 0, 20);
    kernel.waking(100, 1, 10, 0);
    kernel.wakeup(105, 1, 10, 0);
    kernel.switch(200, 0, 10, 1, 0);
    kernel.switch(300, 0, 0, 0, 10);
    let ten = thread(&kernel, 10);
    assert_eq!((ten.runnable_ns, ten.blocked_ns), (0, 100));
    let (linux, delays) = pass::<Delays>(&kernel, ALL);
    assert!(delays.answer(&linux).is_empty());
}

#[test]
fn idle_time_ends_with_an_event_of_another_thread() {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 10, 1, 0);
    // The switch from the idle thread is missing.
    kernel.syscall(400, 0, "read", None);
    kernel.syscall(450, 0, "read", Some(1));
    kernel.switch(500, 0, 20, 1, 0);
    kernel.switch(900, 0, 30, 1, 0);
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    let cpu = times.cpus(&linux)[0];
    assert_eq!((cpu.idle_ns, cpu.thread_ns, cpu.unknown_ns), (800, 100, 0));
    assert_eq!(linux.counts.unseen_idle_ends, 2);
    assert_eq!(thread(&kernel, 20).running_ns, 100);
    let (linux, calls) = pass::<Calls>(&kernel, ALL);
    assert_eq!(calls.answer(&linux)[0].times.total_ns, Some(50));
}

#[test]
fn a_thread_woken_on_an_idle_cpu_has_run_since_then_if_the_next_switch_is_from_it() {
    let mut kernel = Kernel::new(2);
    kernel.switch(0, 0, 10, 1, 0);
    kernel.switch(0, 1, 0, 0, 0);
    kernel.waking(190, 1, 10, 0);
    kernel.wakeup(200, 1, 10, 0);
    kernel.irq(300, 0, 36, true);
    kernel.irq(350, 0, 36, false);
    kernel.switch(500, 0, 10, 1, 0);
    kernel.switch(900, 0, 0, 0, 0);
    let ten = thread(&kernel, 10);
    assert_eq!((ten.running_ns, ten.interrupted_ns, ten.runnable_ns, ten.blocked_ns), (250, 50, 10, 590));
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    let cpu = times.cpus(&linux)[0];
    assert_eq!((cpu.idle_ns, cpu.thread_ns, cpu.irq_ns, cpu.unknown_ns), (600, 250, 50, 0));
    assert_eq!(linux.counts.unseen_idle_ends, 1);
    let (linux, delays) = pass::<Delays>(&kernel, ALL);
    assert!(delays.answer(&linux).is_empty(), "when it started is not known");
}

#[test]
fn a_preempted_thread_is_not_blocked_and_report_flags_are_not_part_of_its_state() {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.switch(100, 0, 10, 0x100, 20);
    kernel.switch(200, 0, 20, 2, 10);
    kernel.switch(300, 0, 10, 1, 0);
    kernel.switch(400, 0, 0, 0, 0);
    assert_eq!(thread(&kernel, 10).preempted_ns, 100);
    assert_eq!(thread(&kernel, 20).uninterruptible_ns, 200);
}

#[test]
fn a_reused_thread_id_is_another_thread() {
    let mut kernel = Kernel::new(1);
    let exit = |kernel: &mut Kernel, t| {
        kernel.event(t, 0, "sched_process_exit", &[("comm", text("t10")), ("tid", Val::I(10)), ("prio", Val::I(20))])
    };
    kernel.switch(0, 0, 0, 0, 10);
    exit(&mut kernel, 50);
    kernel.switch(60, 0, 10, 64, 20);
    let fork = [
        ("parent_comm", text("t20")),
        ("parent_tid", Val::I(20)),
        ("parent_pid", Val::I(20)),
        ("child_comm", text("t20")),
        ("child_tid", Val::I(10)),
        ("child_pid", Val::I(10)),
    ];
    kernel.event(100, 0, "sched_process_fork", &fork);
    kernel.event(
        110,
        0,
        "sched_wakeup_new",
        &[("comm", text("t20")), ("tid", Val::I(10)), ("prio", Val::I(20)), ("target_cpu", Val::I(0))],
    );
    kernel.switch(150, 0, 20, 1, 10);
    kernel.switch(200, 0, 10, 1, 0);
    let found: Vec<(u64, u64, u64)> = threads(&kernel, ALL)
        .iter()
        .filter(|thread| thread.tid == 10)
        .map(|thread| (thread.total_ns, thread.running_ns, thread.runnable_ns))
        .collect();
    assert_eq!(found, [(60, 60, 0), (100, 50, 40)]);
}

#[test]
fn a_loss_that_is_reported_late_makes_the_longest_silence_unknown() {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 0, 0, 10);
    kernel.switch(1_000, 0, 10, 1, 0);
    kernel.switch(900_000, 0, 0, 0, 20);
    kernel.switch(901_000, 0, 20, 1, 0);
    kernel.switch(902_000, 0, 0, 0, 20);
    kernel.losses.push(Loss { stream: StreamId(0), begin_ns: 500, end_ns: 901_500, events: Some(7) });
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    let cpu = times.cpus(&linux)[0];
    assert_eq!((cpu.unknown_ns, cpu.idle_ns, cpu.lost), (899_000, 1_000, 7));
}

#[test]
fn the_number_of_lost_events_saturates() {
    let mut kernel = Kernel::new(1);
    kernel.switch(0, 0, 0, 0, 10);
    for t_ns in [1_000, 2_000] {
        kernel.losses.push(Loss { stream: StreamId(0), begin_ns: t_ns, end_ns: t_ns + 500, events: Some(u64::MAX) });
    }
    kernel.switch(3_000, 0, 10, 1, 0);
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    assert_eq!((linux.counts.lost, times.cpus(&linux)[0].lost), (u64::MAX, u64::MAX));
}

#[test]
fn events_of_programs_are_not_kernel_events() {
    let mut kernel = nested();
    kernel.catalogue.streams[0].kind = StreamKind::User;
    let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
    assert_eq!((linux.counts.events, linux.range()), (0, None));
    assert!(times.cpus(&linux).is_empty() && times.threads(&linux).is_empty());
}

/// Thread 10 is in a system call from 1000 on; at 1500 the recorder switches off all calls except
/// those in `kept`.
fn calls_given_up(kept: &str) -> Kernel {
    let mut kernel = Kernel::new(1);
    kernel.switch(500, 0, 20, 1, 10);
    kernel.syscall(900, 0, "getppid", Some(1));
    kernel.syscall(1000, 0, "read", None);
    let fields = [
        ("what", text("system calls")),
        ("events", text("syscall_entry_* syscall_exit_*")),
        ("calls", text(kept)),
        ("ago_ns", Val::I(100)),
    ];
    kernel.event(1500, 0, "longpole_switched_off", &fields);
    kernel
}

#[test]
fn a_call_without_a_recorded_return_ends_where_calls_were_switched_off() {
    let mut kernel = calls_given_up("");
    // An event at the moment of the change: its return is not in the trace.
    kernel.syscall(1600, 0, "futex", None);
    kernel.switch(3000, 0, 10, 1, 0);
    let thread = thread(&kernel, 10);
    assert_eq!((thread.running_ns, thread.syscall_ns), (2500, Some(500)));
    let (linux, calls) = pass::<Calls>(&kernel, ALL);
    assert_eq!(linux.counts.system_calls.in_all, 2);
    let (off, began) = (linux.switched_off(), linux.begin_ns().unwrap());
    assert_eq!((off.len(), off[0].t_ns - began), (1, 900));
    let read = calls.answer(&linux).into_iter().find(|line| line.name == "read").unwrap();
    assert_eq!((read.count, read.completed), (1, 0));
}

#[test]
fn a_call_that_is_still_recorded_ends_with_its_return_when_others_are_switched_off() {
    let mut kernel = calls_given_up("futex read");
    kernel.syscall(1600, 0, "getppid", None);
    kernel.syscall(2000, 0, "read", Some(1));
    kernel.switch(3000, 0, 10, 1, 0);
    let thread = thread(&kernel, 10);
    assert_eq!((thread.running_ns, thread.syscall_ns), (2500, Some(1000)));
}

/// CPU 0 is idle with thread 20 in its queue; no switch shows that it takes the thread.
fn unseen(tells: bool) -> Kernel {
    let mut kernel = Kernel::new(1);
    kernel.switch(500, 0, 20, 1, 10);
    kernel.switch(1000, 0, 10, 1, 0);
    kernel.waking(1100, 0, 20, 0);
    kernel.wakeup(1110, 0, 20, 0);
    kernel.irq(1200, 0, 36, true);
    kernel.irq(1300, 0, 36, false);
    if tells {
        kernel.event(1500, 0, "longpole_running", &[("tid", Val::I(20))]);
    }
    kernel.syscall(1500, 0, "read", None);
    kernel.switch(2000, 0, 20, 1, 0);
    kernel
}

#[test]
fn a_thread_without_a_switch_runs_since_the_last_event_of_the_idle_cpu() {
    for (tells, running, calls) in [(true, 700, 1), (false, 790, 0)] {
        let kernel = unseen(tells);
        let (linux, times) = pass::<CpuTimes>(&kernel, ALL);
        assert_eq!((linux.counts.unseen_idle_ends, linux.counts.contradictions), (1, 0));
        let twenty = times.threads(&linux).into_iter().find(|thread| thread.tid == 20).unwrap();
        assert_eq!((twenty.running_ns, twenty.interrupted_ns), (running, if tells { 0 } else { 100 }), "{tells}");
        // Without the event, the thread of the call is known only afterwards.
        let mut linux = Linux::new(ALL.0, ALL.1).unwrap();
        let mut of_threads = Calls::new(true);
        kernel.replay(|catalogue, item| {
            if let Item::Event(event) = item {
                linux.event(catalogue, event, &mut of_threads);
            }
        });
        let named = of_threads.answer(&linux).iter().filter(|line| line.kind == "call" && line.process.is_some()).count();
        assert_eq!(named, calls);
    }
}

#[test]
fn the_reason_of_a_block_is_the_system_call_with_the_kind_of_its_file() {
    let mut kernel = Kernel::new(1);
    let fork = [("parent_tid", 10), ("parent_pid", 10), ("child_tid", 20), ("child_pid", 20)].map(|(name, id)| (name, Val::I(id)));
    kernel.switch(0, 0, 0, 0, 10);
    kernel.event(10, 0, "lttng_statedump_process_state", &[("tid", Val::I(10)), ("pid", Val::I(10)), ("cpus_allowed", text("0-1"))]);
    let file = [("pid", Val::I(10)), ("fd", Val::I(3)), ("flags", Val::I(2)), ("filename", text("socket:[7]"))];
    kernel.event(10, 0, "lttng_statedump_file_descriptor", &file);
    kernel.event(20, 0, "sched_process_fork", &fork);
    kernel.switch(100, 0, 10, 0, 20);
    kernel.event(110, 0, "syscall_entry_sched_setaffinity", &[("pid", Val::I(0)), ("len", Val::I(8)), ("user_mask_ptr", Val::I(1))]);
    kernel.event(120, 0, "syscall_exit_sched_setaffinity", &[("ret", Val::I(0))]);
    kernel.event(200, 0, "syscall_entry_recvfrom", &[("fd", Val::I(3))]);
    kernel.switch(300, 0, 20, 1, 0);
    kernel.waking(800, 0, 20, 0);
    kernel.switch(900, 0, 0, 0, 20);
    kernel.event(910, 0, "syscall_exit_recvfrom", &[("ret", Val::I(1))]);
    kernel.event(920, 0, "x86_exceptions_page_fault_user", &[("address", Val::I(4096))]);
    kernel.switch(950, 0, 20, 2, 0);
    kernel.waking(1000, 0, 20, 0);
    kernel.switch(1100, 0, 0, 0, 20);
    let twenty = thread(&kernel, 20);
    let reasons: Vec<(&str, u64, u64)> =
        twenty.blocked.iter().map(|blocked| (blocked.reason.as_str(), blocked.ns, blocked.count)).collect();
    assert_eq!(reasons, [("recvfrom: socket", 500, 1), ("page fault", 50, 1)]);
    assert_eq!(twenty.allowed_cpus, Some(vec![0, 1]));
    let change = &twenty.allowed_changes[0];
    assert_eq!((change.t_ns, &change.allowed_cpus, &change.used_cpus, change.by_tid), (120, &None, &vec![0], Some(20)));
    let (linux, calls) = pass::<Calls>(&kernel, ALL);
    let fault = calls.answer(&linux).into_iter().find(|line| line.kind == "fault").unwrap();
    assert_eq!((fault.name.as_str(), fault.count, fault.times.total_ns), ("page fault (user)", 1, None));
}

#[test]
fn without_switches_no_event_is_reported_as_missing() {
    let mut kernel = Kernel::new(1);
    for turn in 0..10 {
        fork(&mut kernel, 100 * turn, 10 + (turn % 2) as i32, 20 + turn as i32, 20 + turn as i32);
    }
    let (linux, _) = pass::<CpuTimes>(&kernel, ALL);
    assert_eq!((linux.counts.contradictions, linux.counts.unseen_switches, linux.counts.unseen_idle_ends), (0, 0, 0));
}

#[test]
fn timers_are_listed_by_function_with_their_times_and_delays() {
    const TIMER: i64 = -0x1000;
    let mut kernel = Kernel::new(1);
    let address = |name: &'static str, value: i64| (name, Val::I(value));
    let hrtimer = |name: &str| format!("timer_hrtimer_{name}");
    let start = [address("hrtimer", TIMER), address("function", 77), address("expires", 5_500), address("softexpires", 5_000)];
    kernel.event(100, 0, &hrtimer("start"), &start);
    kernel.event(200, 0, &hrtimer("expire_entry"), &[address("hrtimer", TIMER), address("now", 5_040), address("function", 77)]);
    // Another timer on top of it, whose start was not seen.
    kernel.event(210, 0, &hrtimer("expire_entry"), &[address("hrtimer", TIMER + 64), address("now", 5_050), address("function", 77)]);
    kernel.event(220, 0, &hrtimer("expire_exit"), &[address("hrtimer", TIMER + 64)]);
    kernel.event(250, 0, &hrtimer("expire_exit"), &[address("hrtimer", TIMER)]);
    // Set again and cancelled; set again, with lost events before it expires.
    kernel.event(300, 0, &hrtimer("start"), &start);
    kernel.event(310, 0, &hrtimer("cancel"), &[address("hrtimer", TIMER)]);
    kernel.event(400, 0, &hrtimer("start"), &start);
    kernel.lose(0, 410, 420);
    kernel.event(500, 0, &hrtimer("expire_entry"), &[address("hrtimer", TIMER), address("now", 9_000), address("function", 77)]);
    kernel.event(505, 0, &hrtimer("expire_exit"), &[address("hrtimer", TIMER)]);
    // Times in ticks.
    kernel.event(600, 0, "timer_start", &[address("timer", 8), address("function", 88), address("expires", 10)]);
    kernel.event(700, 0, "timer_expire_entry", &[address("timer", 8), address("function", 88), address("now", 12)]);
    kernel.event(730, 0, "timer_expire_exit", &[address("timer", 8)]);
    let (linux, interrupts) = pass::<Interrupts>(&kernel, ALL);
    let mut functions: Vec<u64> = interrupts.functions().collect();
    functions.sort_unstable();
    assert_eq!((functions, linux.counts.expiries.in_all), (vec![77, 88], 4));
    let answer = interrupts.answer(&linux, |address| (address == 77).then(|| "wake".to_owned()));
    let told: Vec<_> = answer.iter().map(|line| (line.kind, line.name.as_str(), line.handling.count, line.handling.total_ns)).collect();
    assert_eq!(told, [("timer", "hrtimer wake", 3, 65), ("timer", "timer 0x58", 1, 30)]);
    let late = answer[0].late.as_ref().unwrap();
    assert!((late.count, late.max_ns) == (1, Some(40)) && answer[1].late.is_none());
}
