//! Switching off kinds of kernel events under overload, tested with simulated buffers. The
//! simulation produces events, reads them, and calls `Overload::look` at the times that it advises.

use longpole_record::kernel::{steps, Advice, Fill, Overload};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 20 * MIB;
/// Step of the simulation's clock.
const TICK: Duration = Duration::from_micros(100);

/// Buffers of several CPUs with the same load, and one reader.
struct Buffers {
    now: Duration,
    fills: Vec<Fill>,
    /// Bytes per second produced on each CPU.
    comes: f64,
    /// Bytes per second that the reader takes from all buffers together. It starts when a buffer is
    /// a quarter full, and stops when all are empty.
    takes: f64,
    reads: bool,
}

impl Buffers {
    fn new(cpus: usize, comes: u64, takes: u64) -> Buffers {
        let fills = vec![Fill { size: SIZE, ..Fill::default() }; cpus];
        Buffers { now: Duration::ZERO, fills, comes: comes as f64, takes: takes as f64, reads: false }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            let mut left = (self.takes * TICK.as_secs_f64()) as u64;
            self.reads |= self.fills.iter().any(|fill| fill.held >= SIZE / 4);
            for fill in self.fills.iter_mut().filter(|_| self.reads) {
                let taken = fill.held.min(left);
                left -= taken;
                fill.held -= taken;
                fill.taken += taken;
            }
            for fill in &mut self.fills {
                fill.held += (self.comes * TICK.as_secs_f64()) as u64;
                // One lost event per 50 bytes.
                fill.lost += fill.held.saturating_sub(SIZE) / 50;
                fill.held = fill.held.min(SIZE);
            }
            self.reads &= self.fills.iter().any(|fill| fill.held > 0);
        }
    }

    fn lost(&self) -> u64 {
        self.fills.iter().map(|fill| fill.lost).sum()
    }

    /// Simulates this time. Each switching off takes `took`, and `effect` computes the load
    /// afterwards from the load before. Returns the number of times that something was switched
    /// off.
    fn watched(&mut self, overload: &mut Overload, time: Duration, took: Duration, effect: impl Fn(f64) -> f64) -> u32 {
        let (end, mut steps) = (self.now + time, 0);
        while self.now < end {
            match overload.look(self.now, &self.fills) {
                Advice::Look(after) => self.pass(after),
                Advice::SwitchOff => {
                    self.pass(took);
                    self.comes = effect(self.comes);
                    overload.switched_off(took, self.fills.iter().map(|fill| fill.taken));
                    steps += 1;
                }
            }
        }
        steps
    }
}

const SECONDS: Duration = Duration::from_secs(10);
const TOOK: Duration = Duration::from_millis(1);

#[test]
fn nothing_is_switched_off_while_the_reader_keeps_up() {
    for (comes, takes) in [(0, MIB), (MIB, 200 * MIB), (60 * MIB, 200 * MIB), (90 * MIB, 200 * MIB)] {
        let (mut overload, mut buffers) = (Overload::default(), Buffers::new(2, comes, takes));
        assert_eq!(buffers.watched(&mut overload, SECONDS, TOOK, |comes| comes), 0, "{comes} {takes}");
        assert_eq!(buffers.lost(), 0);
    }
}

#[test]
fn only_as_much_as_needed_is_switched_off_before_anything_is_lost() {
    let (mut overload, mut buffers) = (Overload::default(), Buffers::new(2, 75 * MIB, 100 * MIB));
    // Each step saves a fifth: both CPUs together produce 150 MiB/s, then 120, then 96.
    assert_eq!(buffers.watched(&mut overload, SECONDS, TOOK, |comes| comes * 0.8), 2);
    assert_eq!(buffers.lost(), 0);
}

#[test]
fn while_the_reader_is_stalled_one_step_is_taken_per_filled_buffer() {
    let (mut overload, mut buffers) = (Overload::default(), Buffers::new(1, 20 * MIB, 0));
    // A buffer fills in one second. The first step is taken just before that, and then one for each
    // further second.
    assert_eq!(buffers.watched(&mut overload, Duration::from_millis(2900), TOOK, |comes| comes), 2);
    assert!(buffers.lost() > 0);
    // The reader is fast enough again: the old contents of the buffer cause no further step.
    buffers.takes = 400.0 * MIB as f64;
    assert_eq!(buffers.watched(&mut overload, SECONDS, TOOK, |comes| comes), 0);
}

#[test]
fn a_loss_causes_a_step_whatever_the_buffer_holds() {
    let mut overload = Overload::default();
    let calm = Fill { size: SIZE, held: MIB, taken: 0, lost: 0 };
    assert!(matches!(overload.look(Duration::ZERO, &[calm, calm]), Advice::Look(_)));
    let lossy = Fill { lost: 1, ..calm };
    assert_eq!(overload.look(Duration::from_millis(20), &[calm, lossy]), Advice::SwitchOff);
    overload.switched_off(TOOK, [0, 0]);
    // A loss before the step causes no further one.
    assert!(matches!(overload.look(Duration::from_millis(40), &[calm, lossy]), Advice::Look(_)));
    assert!(matches!(overload.look(Duration::from_millis(60), &[calm, lossy]), Advice::Look(_)));
    // A loss before the reader's next read causes no further one.
    let again = Fill { lost: 2, taken: MIB, ..calm };
    assert!(matches!(overload.look(Duration::from_millis(80), &[calm, again]), Advice::Look(_)));
    let after = Fill { lost: 3, ..again };
    assert_eq!(overload.look(Duration::from_millis(100), &[calm, after]), Advice::SwitchOff);
}

#[test]
fn a_calm_buffer_is_checked_seldom_and_a_filling_one_often() {
    let next = |held: u64| {
        let mut overload = Overload::default();
        let fill = |held| Fill { size: SIZE, held, ..Fill::default() };
        overload.look(Duration::ZERO, &[fill(0)]);
        match overload.look(Duration::from_millis(50), &[fill(held)]) {
            Advice::Look(after) => after,
            Advice::SwitchOff => panic!("{held}"),
        }
    };
    assert_eq!(next(0), Duration::from_millis(100));
    assert!(next(2 * MIB) == Duration::from_millis(100) && next(8 * MIB) < next(6 * MIB), "{:?}", next(8 * MIB));
}

#[test]
fn page_faults_go_first_then_system_calls_then_packets_and_scheduling_is_never_switched_off() {
    let events = [
        "workqueue:workqueue_execute_start",
        "net:net_dev_queue",
        "raw_syscalls:sys_enter",
        "sched:sched_switch",
        "sched:sched_waking",
        "irq:softirq_entry",
        "exceptions:page_fault_user",
        "block:block_rq_issue",
        "block:block_bio_queue",
    ];
    let steps = steps(events);
    let at = |event: &str| steps.iter().rposition(|step| step.events.iter().any(|one| one == event));
    let order = [
        "exceptions:page_fault_user",
        "block:block_bio_queue",
        "raw_syscalls:sys_enter",
        "net:net_dev_queue",
        "workqueue:workqueue_execute_start",
    ];
    let places: Vec<usize> = order.iter().map(|event| at(event).unwrap()).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    for kept in ["sched:sched_switch", "sched:sched_waking", "irq:softirq_entry", "block:block_rq_issue"] {
        assert_eq!(at(kept), None, "{kept}");
    }
}
