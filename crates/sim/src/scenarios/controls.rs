//! Controls: systems without a bottleneck. A bottleneck reported for one of them is a false alarm.

use crate::draw::Dist;
use crate::sketch::{forever, get, put, repeat, work, Sketch};
use crate::system::Step;

fn row(s: &mut Sketch, count: u64, capacity: u64, time: Dist) {
    let queues: Vec<u32> = (1..count).map(|at| s.queue(&format!("queue{at}"), Some(capacity))).collect();
    for at in 0..count {
        let state = s.state(&format!("stage{}.work", at + 1));
        let mut steps = Vec::new();
        if at > 0 {
            steps.push(get(queues[at as usize - 1]));
        }
        steps.push(work(state, time));
        if at + 1 < count {
            steps.push(put(queues[at as usize]));
        }
        s.system.end = s.machine(&format!("stage{}", at + 1), vec![repeat(s.items, steps)]);
    }
}

pub fn balanced(s: &mut Sketch) {
    let (count, capacity, time) = (s.pick.int(3, 6), s.pick.int(1, 16), Dist::Fixed(s.pick.int(8_000, 40_000)));
    row(s, count, capacity, time);
}

pub fn random(s: &mut Sketch) {
    let (count, capacity, mean) = (s.pick.int(4, 6), s.pick.int(1, 6), s.pick.int(8_000, 40_000));
    row(s, count, capacity, Dist::around(mean, 0.5));
}

/// Threads that all do the same, and a thread that waits for all of them.
pub fn symmetric(s: &mut Sketch) {
    let (count, mean) = (s.pick.int(3, 6), s.pick.int(10_000, 40_000));
    let done = s.queue("done", None);
    let (state, other) = (s.state("worker.work"), s.state("worker.other"));
    let items = s.items;
    s.members("worker", count, |_| {
        vec![repeat(items, vec![work(state, Dist::around(mean, 0.5)), work(other, Dist::around(mean / 3, 0.5))]), put(done)]
    });
    s.system.end = s.machine("main", vec![Step::Get { queue: done, n: count }]);
}

pub fn sleep(s: &mut Sketch) {
    let (count, mean) = (s.pick.int(2, 4), s.pick.int(1_000_000, 3_000_000));
    let items = s.items;
    let last = s.members("sleeper", count, |_| vec![repeat(items, vec![Step::Sleep { time: Dist::around(mean, 0.2).into() }])]);
    s.system.end = last[0];
}

/// Requests are rare, and each is served at once.
pub fn idle(s: &mut Sketch) {
    let (mean, gap) = (s.pick.int(10_000, 30_000), s.pick.int(20, 60));
    let request = s.call("rpc.server");
    let (serve, prepare) = (s.state("server.serve"), s.state("client.prepare"));
    let steps = vec![Step::Serve { queue: request }, work(serve, Dist::around(mean, 0.4)), Step::Reply { queue: request }];
    s.machine("server", vec![forever(steps)]);
    let steps = vec![
        Step::Sleep { time: Dist::Exponential(mean * gap).into() },
        work(prepare, Dist::around(mean / 2, 0.4)),
        Step::Call { queue: request },
    ];
    s.system.end = s.machine("client", vec![repeat(s.items, steps)]);
}

pub fn independent(s: &mut Sketch) {
    let count = s.pick.int(3, 5);
    let items = s.items;
    for at in 0..count {
        let mean = s.pick.int(10_000, 40_000);
        let (first, second) = (s.state(&format!("loop{}.first", at + 1)), s.state(&format!("loop{}.second", at + 1)));
        let steps = vec![work(first, Dist::around(mean, 0.4)), work(second, Dist::around(mean / 2, 0.4))];
        let program = if at == 0 { repeat(items, steps) } else { forever(steps) };
        let machine = s.machine(&format!("loop{}", at + 1), vec![program]);
        if at == 0 {
            s.system.end = machine;
        }
    }
}

/// A source that waits for its next period, which is far longer than the stages need.
pub fn light(s: &mut Sketch) {
    let (count, mean) = (s.pick.int(3, 5), s.pick.int(8_000, 40_000));
    let queues: Vec<u32> = (1..=count).map(|at| s.queue(&format!("queue{at}"), Some(16))).collect();
    let make = s.state("source.make");
    let steps = vec![Step::Tick { period: mean * 5 * count }, work(make, Dist::around(mean / 2, 0.4)), put(queues[0])];
    s.machine("source", vec![repeat(s.items, steps)]);
    for at in 1..=count {
        let state = s.state(&format!("stage{at}.work"));
        let mut steps = vec![get(queues[at as usize - 1]), work(state, Dist::around(mean, 0.4))];
        if at < count {
            steps.push(put(queues[at as usize]));
        }
        s.system.end = s.machine(&format!("stage{at}"), vec![repeat(s.items, steps)]);
    }
}

/// One thread whose time is evenly distributed over its states.
pub fn even(s: &mut Sketch) {
    let (count, mean) = (s.pick.int(8, 12), s.pick.int(5_000, 20_000));
    let steps = (1..=count).map(|at| work(s.state(&format!("part{at}")), Dist::around(mean, 0.5))).collect();
    s.system.end = s.machine("loop", vec![repeat(s.items, steps)]);
}
