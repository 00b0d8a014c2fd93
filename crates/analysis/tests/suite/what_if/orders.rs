//! Systems in which only the order of arrival decides the order of service: predictions compared
//! with systems that are simulated again with the change and with the same random numbers.

use crate::worlds::predicted;
use longpole_sim::log::Log;
use longpole_sim::sink::Nobody;
use longpole_sim::{change, engine, scenarios, truth};

/// Returns the error of the predicted time, and whether the interval contains the true gain, up to
/// a hundredth.
fn error(scenario: &str, seed: u64, items: u64, change: &str) -> (f64, bool) {
    let sketch = scenarios::build(scenarios::find(scenario).unwrap(), seed, Some(items));
    let change = truth::spelled(change, &sketch.roles).unwrap();
    let mut log = Log::new(Vec::new());
    let before = engine::run(&sketch.system, &mut log).unwrap().end_ns as f64;
    let log = String::from_utf8(log.finish().unwrap()).unwrap();
    let mut changed = sketch.system.clone();
    change::apply(&mut changed, &change::parse(&change).unwrap()).unwrap();
    let after = engine::run(&changed, &mut Nobody).unwrap().end_ns as f64;
    let found = predicted(&log, &change);
    let ends = |gain: Option<f64>| before / (1.0 + gain.unwrap_or_else(|| panic!("{found:?}"))) / after;
    (ends(found.gain) - 1.0, ends(found.gain_low) > 0.99 && ends(found.gain_high) < 1.01)
}

fn all_within(most: f64, scenario: &str, items: u64, changes: &[&str]) {
    for change in changes {
        for seed in 1..=4 {
            let (error, told) = error(scenario, seed, items, change);
            assert!(error.abs() <= most && told, "{scenario} {seed}, {change}: {:+.1} %, told: {told}", 100.0 * error);
        }
    }
}

const FIRST: [&str; 3] = ["$first::$first.prepare x0.5", "$first::$first.prepare x0.2", "$first::$first.prepare x2"];

#[test]
fn the_client_of_a_server_that_comes_first_is_served_first() {
    for scenario in ["order_clients", "order_seldom", "order_often", "order_three"] {
        all_within(0.06, scenario, 400, &FIRST);
        all_within(0.06, scenario, 400, &["$other1::$other1.prepare x0.5", "$other1::$other1.prepare x2", "$server::$server.serve x0.5"]);
    }
}

/// Far more calls than are remembered.
#[test]
fn a_client_that_falls_behind_for_long_finds_the_same_state_as_before() {
    for scenario in ["order_clients", "order_three"] {
        all_within(0.06, scenario, 5000, &FIRST);
    }
}

#[test]
fn a_lock_goes_to_the_first_thread_that_comes() {
    let changes =
        ["$first::$first.outside x0.5", "$first::$first.outside x0.2", "$first::$first.inside x0.5", "$other::$other.inside x0.5"];
    all_within(0.02, "order_lock", 400, &changes);
}

#[test]
fn room_in_a_queue_goes_to_the_first_thread_that_asks() {
    let made = ["$first::$first.make x0.5", "$first::$first.make x0.2", "$other::$other.make x0.5"];
    let others = ["$consumer::$consumer.take x0.5", "queue $queue capacity 16"];
    all_within(0.05, "order_producers", 400, &[&made[..], &others].concat());
    all_within(0.13, "order_full", 400, &[made[1], made[2], "$other::$other.make x3", others[0]]);
}

#[test]
fn a_free_worker_takes_the_next_item() {
    let changes = ["$worker::$worker.work x0.5", "$producer::$producer.make x2", "queue $queue capacity 16"];
    all_within(0.02, "order_pool", 400, &changes);
    for seed in 1..=4 {
        assert!(error("order_pool", seed, 400, "$producer::$producer.make x0.5").0.abs() < 0.05);
    }
}

#[test]
fn the_only_cpu_goes_to_the_first_ready_thread() {
    let changes = ["$first::$first.compute x0.5", "$first::$first.compute x0.2", "$other::$other.compute x0.5", "link::timer x0.5"];
    all_within(0.02, "order_threads", 400, &changes);
}
