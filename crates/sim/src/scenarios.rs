//! The systems of the truth suite. The expected results are located in
//! `bench/truth/expectations.toml`, not here.

mod calls;
mod contention;
mod controls;
mod devices;
mod orders;
mod pipelines;

use crate::sketch::Sketch;

/// A system of the truth suite; `items` is the default amount of work.
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub items: u64,
    pub build: fn(&mut Sketch),
}

pub const ALL: &[Scenario] = &[
    Scenario { name: "tandem_1", about: "stages in a row, queues of 1, one stage slower", items: 2000, build: |s| pipelines::tandem(s, 1) },
    Scenario { name: "tandem_4", about: "the same with queues of 4", items: 2000, build: |s| pipelines::tandem(s, 4) },
    Scenario { name: "tandem_32", about: "the same with queues of 32", items: 2000, build: |s| pipelines::tandem(s, 32) },
    Scenario { name: "fork_join", about: "rounds of parallel parts, one larger", items: 1500, build: pipelines::fork_join },
    Scenario { name: "rpc_chain", about: "nested calls, each item with calls to a timer service", items: 1500, build: calls::rpc_chain },
    Scenario { name: "dma", about: "a device that moves 2.0 of the 2.2 units that are offered", items: 3000, build: devices::dma },
    Scenario { name: "lock_convoy", about: "threads that queue up for one lock", items: 600, build: contention::lock_convoy },
    Scenario { name: "cpu_hog", about: "a server that waits for the CPU behind others", items: 800, build: contention::cpu_hog },
    Scenario { name: "polling", about: "consumers that spin on empty queues", items: 3000, build: contention::polling },
    Scenario { name: "two_hosts", about: "a slow server behind a wire", items: 2500, build: devices::two_hosts },
    Scenario { name: "credit", about: "a transfer whose window is too small for its way", items: 3000, build: devices::credit },
    Scenario { name: "batching", about: "a signal for each item", items: 3000, build: contention::batching },
    Scenario { name: "control_balanced", about: "stages of equal, fixed time", items: 2000, build: controls::balanced },
    Scenario { name: "control_random", about: "stages of equal, random time", items: 2000, build: controls::random },
    Scenario { name: "control_symmetric", about: "equal threads, joined at the end", items: 1500, build: controls::symmetric },
    Scenario { name: "control_sleep", about: "threads that sleep", items: 1500, build: controls::sleep },
    Scenario { name: "control_idle", about: "a system with little to do", items: 800, build: controls::idle },
    Scenario {
        name: "control_independent",
        about: "loops that have nothing to do with each other",
        items: 1500,
        build: controls::independent,
    },
    Scenario { name: "control_light", about: "a pipeline that could do five times as much", items: 1500, build: controls::light },
    Scenario { name: "control_even", about: "one thread with many equal states", items: 1500, build: controls::even },
    // For predictions in systems with an accidental order; no other results are expected.
    Scenario {
        name: "order_clients",
        about: "two clients of one server, of equal pace",
        items: 600,
        build: |s| orders::clients(s, &[1.0]),
    },
    Scenario {
        name: "order_seldom",
        about: "the same, one of them three times as slow",
        items: 600,
        build: |s| orders::clients(s, &[3.0]),
    },
    Scenario { name: "order_often", about: "the same, one of them three times as fast", items: 600, build: |s| orders::clients(s, &[0.3]) },
    Scenario { name: "order_three", about: "three clients of one server", items: 600, build: |s| orders::clients(s, &[0.7, 2.0]) },
    Scenario { name: "order_lock", about: "two loops with one lock", items: 600, build: orders::lock },
    Scenario { name: "order_producers", about: "two producers of a bounded queue", items: 600, build: |s| orders::producers(s, 0.7) },
    Scenario { name: "order_full", about: "the same, with too slow a consumer", items: 600, build: |s| orders::producers(s, 1.3) },
    Scenario { name: "order_pool", about: "a pool of two workers at one queue", items: 600, build: orders::pool },
    Scenario { name: "order_threads", about: "two threads of one CPU, with pauses", items: 600, build: orders::threads },
    // For the cost of the analysis pass; no results are expected.
    Scenario { name: "leak", about: "a pipeline whose every item leaves a token that nobody takes", items: 2000, build: pipelines::leak },
];

pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// Builds the scenario with the parameters and names of a seed. `items` is the amount of work;
/// `None` means the scenario's default.
pub fn build(scenario: &Scenario, seed: u64, items: Option<u64>) -> Sketch {
    let mut sketch = Sketch::new(scenario.name, seed, items.unwrap_or(scenario.items));
    (scenario.build)(&mut sketch);
    let end = sketch.system.machines[sketch.system.end as usize].name.clone();
    sketch.roles.insert("end".to_owned(), end);
    sketch
}
