//! Systems in which the order of arrival alone decides the order of service, and a change alters
//! the order of arrival.
//!
//! Loops that are otherwise independent share a server, a lock, the room of a queue, a pool, or a
//! CPU. The simulation ends with the first loop; the others run forever.

use crate::draw::Dist;
use crate::sketch::{forever, get, put, repeat, work, Sketch};
use crate::system::Step;

/// Clients that prepare and then call one server. The first one prepares for the mean time, the
/// others for the given multiples of it.
pub fn clients(s: &mut Sketch, others: &[f64]) {
    let mean = s.pick.int(20_000, 60_000);
    let serve = (mean as f64 * s.pick.real(0.2, 0.5)) as u64;
    let (call, served) = (s.call("rpc.server"), s.state("server.serve"));
    s.machine(
        "server",
        vec![forever(vec![Step::Serve { queue: call }, work(served, Dist::around(serve, 0.3)), Step::Reply { queue: call }])],
    );
    let prepared = s.state("first.prepare");
    let first = vec![work(prepared, Dist::around(mean, 0.4)), Step::Call { queue: call }];
    s.system.end = s.machine("first", vec![repeat(s.items, first)]);
    for (at, times) in others.iter().enumerate() {
        let prepared = s.state(&format!("other{}.prepare", at + 1));
        let steps = vec![work(prepared, Dist::around((mean as f64 * times) as u64, 0.4)), Step::Call { queue: call }];
        s.machine(&format!("other{}", at + 1), vec![forever(steps)]);
    }
}

/// Two loops, each with a part under one lock.
pub fn lock(s: &mut Sketch) {
    let mean = s.pick.int(20_000, 60_000);
    let inside = (mean as f64 * s.pick.real(0.3, 0.7)) as u64;
    let lock = s.lock("lock");
    for role in ["first", "other"] {
        let (outer, inner) = (s.state(&format!("{role}.outside")), s.state(&format!("{role}.inside")));
        let steps = vec![work(outer, Dist::around(mean, 0.4)), get(lock), work(inner, Dist::around(inside, 0.3)), put(lock)];
        match role {
            "first" => s.system.end = s.machine(role, vec![repeat(s.items, steps)]),
            _ => drop(s.machine(role, vec![forever(steps)])),
        }
    }
}

/// Two producers for a queue with little room, whose consumer has enough or too little time for
/// both.
pub fn producers(s: &mut Sketch, load: f64) {
    let mean = s.pick.int(20_000, 60_000);
    let capacity = s.pick.int(1, 4);
    let queue = s.queue("queue", Some(capacity));
    let taken = s.state("consumer.take");
    let take = (mean as f64 * load / 2.0) as u64;
    s.machine("consumer", vec![forever(vec![get(queue), work(taken, Dist::around(take, 0.3))])]);
    for role in ["first", "other"] {
        let made = s.state(&format!("{role}.make"));
        let steps = vec![work(made, Dist::around(mean, 0.4)), put(queue)];
        match role {
            "first" => s.system.end = s.machine(role, vec![repeat(s.items, steps)]),
            _ => drop(s.machine(role, vec![forever(steps)])),
        }
    }
}

/// Two workers at one queue, whose items differ greatly in size.
pub fn pool(s: &mut Sketch) {
    let mean = s.pick.int(20_000, 60_000);
    let capacity = s.pick.int(2, 8);
    let (queue, done) = (s.queue("queue", Some(capacity)), s.queue("done", None));
    let (made, worked, counted) = (s.state("producer.make"), s.state("worker.work"), s.state("main.count"));
    let make = (mean as f64 * s.pick.real(0.4, 0.7)) as u64;
    s.machine("producer", vec![repeat(s.items, vec![work(made, Dist::around(make, 0.4)), put(queue)])]);
    s.members("worker", 2, |_| vec![forever(vec![get(queue), work(worked, Dist::Exponential(mean)), put(done)])]);
    s.system.end = s.machine("main", vec![repeat(s.items, vec![get(done), work(counted, Dist::Fixed(100))])]);
}

/// Two threads on one CPU, which compute and sleep.
pub fn threads(s: &mut Sketch) {
    let host = s.host("host");
    let mean = s.pick.int(20_000, 60_000);
    let mut threads = Vec::new();
    for role in ["first", "other"] {
        let computed = s.state(&format!("{role}.compute"));
        let pause = Dist::around((mean as f64 * s.pick.real(0.8, 1.5)) as u64, 0.4);
        let steps = vec![work(computed, Dist::around(mean, 0.4)), Step::Sleep { time: pause.into() }];
        threads.push(match role {
            "first" => s.machine(role, vec![repeat(s.items, steps)]),
            _ => s.machine(role, vec![forever(steps)]),
        });
    }
    s.system.end = threads[0];
    s.at(&host, &threads);
    s.share_cpus(1, mean * 100, &threads);
}
