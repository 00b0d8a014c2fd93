//! The simulator compared with results that are known without it: queueing theory, and systems that
//! can be computed by hand.

use longpole_sim::change::{apply, parse};
use longpole_sim::draw::Dist;
use longpole_sim::engine::{run, Failed, Outcome};
use longpole_sim::log::Log;
use longpole_sim::scenarios;
use longpole_sim::sink::{Effect, Nobody, Sink};
use longpole_sim::sketch::{forever, get, put, repeat, work, Sketch};
use longpole_sim::system::{Id, Step, System};
use std::collections::{HashMap, VecDeque};

fn sketch(items: u64) -> Sketch {
    Sketch::new("test", 1, items)
}

fn ends(system: &System) -> Outcome {
    run(system, &mut Nobody).unwrap()
}

fn log(system: &System) -> String {
    let mut log = Log::new(Vec::new());
    run(system, &mut log).unwrap();
    String::from_utf8(log.finish().unwrap()).unwrap()
}

/// Waiting times of tokens, by queue; all queues are first-in first-out.
#[derive(Default)]
struct Waits {
    there: HashMap<Id, VecDeque<u64>>,
    waited: HashMap<Id, Vec<u64>>,
}

impl Sink for Waits {
    fn begin(&mut self, _: &System) {}
    fn effect(&mut self, t: u64, _: Id, effect: Effect) {
        match effect {
            Effect::Put(queue, 1) => self.there.entry(queue).or_default().push_back(t),
            Effect::Get(queue, 1) => {
                let put = self.there.get_mut(&queue).and_then(VecDeque::pop_front).unwrap();
                self.waited.entry(queue).or_default().push(t - put);
            }
            _ => {}
        }
    }
    fn is_over(&self) -> bool {
        false
    }
}

fn mean(waited: &[u64]) -> f64 {
    waited.iter().sum::<u64>() as f64 / waited.len() as f64
}

#[test]
fn random_arrivals_wait_as_long_as_the_pollaczek_khinchine_formula_says() {
    let service = 1000.0;
    for (load, spread) in [(0.5, 0.0), (0.7, 0.0), (0.8, 0.0), (0.6, 1.0)] {
        let mut s = sketch(400_000);
        let queue = s.queue("queue", None);
        let state = s.state("serve");
        let gap = Dist::Exponential((service / load) as u64);
        s.machine("source", vec![repeat(s.items, vec![Step::Sleep { time: gap.into() }, put(queue)])]);
        let time = Dist::around(service as u64, spread);
        s.system.end = s.machine("server", vec![repeat(s.items, vec![get(queue), work(state, time)])]);
        let mut waits = Waits::default();
        run(&s.system, &mut waits).unwrap();
        // The squared coefficient of variation of a uniform distribution on 0..2 is 1/3.
        let expected = load * service * (1.0 + spread * spread / 3.0) / (2.0 * (1.0 - load));
        let seen = mean(&waits.waited[&queue]);
        assert!((seen / expected - 1.0).abs() < 0.05, "load {load}, spread {spread}: waited {seen}, expected {expected}");
    }
}

#[test]
fn exponential_service_behind_random_arrivals_is_an_m_m_1_queue() {
    let mut s = sketch(400_000);
    let (queue, state) = (s.queue("queue", None), s.state("serve"));
    s.machine("source", vec![repeat(s.items, vec![Step::Sleep { time: Dist::Exponential(2000).into() }, put(queue)])]);
    s.system.end = s.machine("server", vec![repeat(s.items, vec![get(queue), work(state, Dist::Exponential(1000))])]);
    let mut waits = Waits::default();
    run(&s.system, &mut waits).unwrap();
    let seen = mean(&waits.waited[&queue]);
    assert!((seen / 1000.0 - 1.0).abs() < 0.05, "{seen}");
}

#[test]
fn a_pipeline_takes_the_slowest_stage_once_per_item_and_the_others_once() {
    for capacity in [1, 4, 32] {
        let mut s = sketch(1000);
        let queues = [s.queue("a", Some(capacity)), s.queue("b", Some(capacity))];
        for (at, ns) in [300, 500, 200].into_iter().enumerate() {
            let state = s.state("work");
            let mut steps = vec![work(state, Dist::Fixed(ns))];
            if at > 0 {
                steps.insert(0, get(queues[at - 1]));
            }
            if at < 2 {
                steps.push(put(queues[at]));
            }
            s.system.end = s.machine("stage", vec![repeat(1000, steps)]);
        }
        assert_eq!(ends(&s.system).end_ns, 300 + 1000 * 500 + 200);
    }
}

#[test]
fn a_wire_transfers_one_window_per_round_trip() {
    let mut s = sketch(1000);
    let data = s.wire("data", Some(4), Dist::Fixed(10_000), Some(Dist::Fixed(6_000)));
    let state = s.state("make");
    s.machine("sender", vec![repeat(1000, vec![work(state, Dist::Fixed(1)), put(data)])]);
    s.system.end = s.machine("sink", vec![repeat(1000, vec![get(data)])]);
    // The first token of each window is put 16 us after the first one of the previous window.
    assert_eq!(ends(&s.system).end_ns, 249 * 16_000 + 4 + 10_000);
    for window in [8, 16] {
        let mut wider = s.system.clone();
        apply(&mut wider, &parse(&format!("queue {} capacity {window}", s.roles["data"])).unwrap()).unwrap();
        assert!(ends(&wider).end_ns <= 1000 / window * 16_000 + 26_000);
    }
}

#[test]
fn machines_share_cpus_and_no_time_is_lost() {
    for cpus in [1, 2, 3] {
        let mut s = sketch(0);
        let (state, done) = (s.state("compute"), s.queue("done", None));
        let all = s.members("worker", 3, |_| vec![work(state, Dist::Fixed(900_000)), put(done)]);
        s.share_cpus(cpus, 10_000, &all);
        s.system.end = s.machine("main", vec![Step::Get { queue: done, n: 3 }]);
        let outcome = ends(&s.system);
        assert_eq!(outcome.profile.iter().map(|row| row.2).sum::<u64>(), 2_700_000);
        let least = 2_700_000_u64.div_ceil(cpus.min(3));
        assert!((least..least + 300_000).contains(&outcome.end_ns), "{cpus} CPUs: {}", outcome.end_ns);
    }
}

#[test]
fn a_machine_woken_while_a_hog_runs_waits_for_the_end_of_its_slice() {
    let mut s = sketch(0);
    let (spin, serve) = (s.state("spin"), s.state("serve"));
    let hog = s.machine("hog", vec![forever(vec![work(spin, Dist::Fixed(1_000_000))])]);
    let sleeper = s.machine("sleeper", vec![repeat(10, vec![Step::Sleep { time: Dist::Fixed(100).into() }, work(serve, Dist::Fixed(50))])]);
    s.share_cpus(1, 1000, &[hog, sleeper]);
    s.system.end = sleeper;
    // The sleeper first runs when the hog's first slice is over; then each of its sleeps ends
    // within the hog's next slice.
    assert_eq!(ends(&s.system).end_ns, 1000 + 10 * 1000 + 10 * 50);
}

#[test]
fn a_lock_has_one_holder_at_a_time() {
    struct Holders {
        lock: Id,
        holder: Option<Id>,
        times: u64,
    }
    impl Sink for Holders {
        fn begin(&mut self, _: &System) {}
        fn effect(&mut self, _: u64, machine: Id, effect: Effect) {
            if effect == Effect::Get(self.lock, 1) {
                assert_eq!(self.holder.replace(machine), None);
                self.times += 1;
            } else if effect == Effect::Put(self.lock, 1) {
                assert_eq!(self.holder.take(), Some(machine));
            }
        }
        fn is_over(&self) -> bool {
            false
        }
    }
    let sketch = scenarios::build(scenarios::find("lock_convoy").unwrap(), 3, Some(200));
    let lock = sketch.system.queues.iter().position(|queue| queue.name == sketch.roles["lock"]).unwrap() as Id;
    let mut holders = Holders { lock, holder: None, times: 0 };
    run(&sketch.system, &mut holders).unwrap();
    assert!(holders.times >= 800);
}

#[test]
fn every_unit_put_was_taken_or_is_still_in_its_queue() {
    for scenario in scenarios::ALL {
        for seed in 1..4 {
            let sketch = scenarios::build(scenario, seed, Some(100));
            let outcome = ends(&sketch.system);
            for (queue, flow) in sketch.system.queues.iter().zip(&outcome.queues) {
                assert_eq!(queue.initial + flow.put, flow.got + flow.held + flow.arriving, "{} {}", scenario.name, queue.name);
                assert!(queue.capacity.is_none_or(|capacity| flow.held + flow.arriving <= capacity));
            }
        }
    }
}

#[test]
fn equal_seeds_yield_equal_logs_and_different_seeds_different_ones() {
    for scenario in scenarios::ALL {
        let of = |seed| log(&scenarios::build(scenario, seed, Some(50)).system);
        assert_eq!(of(1), of(1), "{}", scenario.name);
        assert_ne!(of(1), of(2), "{}", scenario.name);
    }
}

#[test]
fn a_change_by_a_factor_of_1_leaves_the_log_unchanged() {
    for scenario in scenarios::ALL {
        let sketch = scenarios::build(scenario, 5, Some(50));
        let mut changed = sketch.system.clone();
        let (machine, state) = (&sketch.system.machines[0], &sketch.system.states);
        let text = state.iter().map(|state| format!("\"{}\"::\"{state}\" x1", machine.class));
        let changes: Vec<_> = text.map(|text| parse(&text).unwrap()).filter(|change| apply(&mut changed, change).is_ok()).collect();
        assert!(!changes.is_empty() || scenario.name == "control_sleep");
        assert_eq!(log(&sketch.system), log(&changed), "{}", scenario.name);
    }
}

#[test]
fn each_item_has_the_same_cost_after_a_change_of_another_machine() {
    struct Work(HashMap<(Id, Id), Vec<u64>>, HashMap<Id, (Id, u64)>);
    impl Sink for Work {
        fn begin(&mut self, _: &System) {}
        fn effect(&mut self, t: u64, machine: Id, effect: Effect) {
            if let Some((state, since)) = self.1.remove(&machine) {
                self.0.entry((machine, state)).or_default().push(t - since);
            }
            if let Effect::State(state) = effect {
                self.1.insert(machine, (state, t));
            }
        }
        fn is_over(&self) -> bool {
            false
        }
    }
    let sketch = scenarios::build(scenarios::find("tandem_4").unwrap(), 1, Some(300));
    let mut slower = sketch.system.clone();
    let slow = format!("{}::\"{}\" x3", sketch.roles["slow"], sketch.roles["slow.work"]);
    apply(&mut slower, &parse(&slow).unwrap()).unwrap();
    let of = |system: &System| {
        let mut work = Work(HashMap::new(), HashMap::new());
        run(system, &mut work).unwrap();
        work.0
    };
    let (before, after) = (of(&sketch.system), of(&slower));
    for (at, machine) in sketch.system.machines.iter().enumerate().filter(|(_, machine)| machine.class != sketch.roles["decoy"]) {
        let of = |all: &HashMap<(Id, Id), Vec<u64>>| all.iter().find(|row| row.0 .0 == at as Id).map(|row| row.1.clone()).unwrap();
        let factor = if machine.name == sketch.roles["slow"] { 3 } else { 1 };
        assert_eq!(of(&before).iter().map(|ns| ns * factor).collect::<Vec<_>>(), of(&after), "{}", machine.name);
    }
}

#[test]
fn deadlocks_and_endless_loops_are_reported() {
    let mut s = sketch(1);
    let (a, b) = (s.queue("a", None), s.queue("b", None));
    s.machine("one", vec![get(a), put(b)]);
    s.system.end = s.machine("two", vec![get(b), put(a)]);
    assert!(matches!(run(&s.system, &mut Nobody), Err(Failed::Deadlock { t: 0, waiting }) if waiting.len() == 2));
    let mut s = sketch(1);
    let queue = s.queue("a", None);
    s.system.end = s.machine("one", vec![forever(vec![put(queue)])]);
    assert!(matches!(run(&s.system, &mut Nobody), Err(Failed::Endless { t: 0 })));
}

#[test]
fn a_closed_output_ends_the_simulation() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let endless = scenarios::build(scenarios::find("dma").unwrap(), 1, Some(u64::MAX >> 8));
    let mut log = Log::new(Closed);
    assert_eq!(run(&endless.system, &mut log).unwrap_err(), Failed::Stopped);
    assert!(log.finish().is_err());
}
