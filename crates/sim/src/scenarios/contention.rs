//! Scenarios of contention: locks, CPUs, time.

use crate::draw::Dist;
use crate::sketch::{forever, get, put, repeat, work, Sketch};
use crate::system::Step;

/// Threads of `$worker` that need one lock for `$worker.inside`, together for longer than the lock
/// is available.
pub fn lock_convoy(s: &mut Sketch) {
    let count = s.pick.int(4, 7);
    let inside = s.pick.int(5_000, 20_000);
    let part = s.pick.real(0.4, 0.7);
    let outside = (inside as f64 * (count - 1) as f64 * part) as u64;
    let tap = s.decoy(inside * 5, count);
    let (lock, done) = (s.lock("lock"), s.queue("done", None));
    let (prepare, update, sum) = (s.state("worker.outside"), s.state("worker.inside"), s.state("main.sum"));
    let items = s.items;
    s.members("worker", count, |at| {
        let mut steps = vec![work(prepare, Dist::around(outside, 0.5)), get(lock), work(update, Dist::around(inside, 0.3)), put(lock)];
        if at == 0 {
            steps.push(put(tap));
        }
        vec![repeat(items, steps), put(done)]
    });
    s.system.end = s.machine("main", vec![Step::Get { queue: done, n: count }, work(sum, Dist::Fixed(inside))]);
}

/// `$server` shares the only CPU of its host with `$hog`, whose slices are long.
pub fn cpu_hog(s: &mut Sketch) {
    let host = s.host("host");
    let mean = s.pick.int(50_000, 150_000);
    let tap = s.decoy(mean * 3, 2);
    let slice = mean * s.pick.int(3, 6);
    let request = s.call("rpc.server");
    let (serve, spin, prepare) = (s.state("server.serve"), s.state("hog.spin"), s.state("client.prepare"));
    let steps = vec![Step::Serve { queue: request }, work(serve, Dist::around(mean, 0.3)), Step::Reply { queue: request }];
    let server = s.machine("server", vec![forever(steps)]);
    let hog = s.machine("hog", vec![forever(vec![work(spin, Dist::around(slice * 9, 0.3))])]);
    s.at(&host, &[server, hog]);
    s.share_cpus(1, slice, &[server, hog]);
    let steps = vec![work(prepare, Dist::around(mean / 3, 0.4)), put(tap), Step::Call { queue: request }];
    s.system.end = s.machine("client", vec![repeat(s.items, steps)]);
}

/// Threads of `$poller` poll queues that `$maker` fills too slowly.
pub fn polling(s: &mut Sketch) {
    let count = s.pick.int(2, 3);
    let mean = s.pick.int(10_000, 30_000);
    let (make, poll, take) = (s.state("maker.make"), s.state("poller.poll"), s.state("poller.take"));
    let done = s.queue("done", None);
    let queues: Vec<u32> = (0..count).map(|at| s.queue(&format!("queue{}", at + 1), Some(16))).collect();
    let rounds = s.items / count;
    let steps = queues.iter().flat_map(|&queue| [work(make, Dist::around(mean, 0.4)), put(queue)]).collect();
    s.machine("maker", vec![repeat(rounds, steps)]);
    let part = s.pick.int(25, 40);
    s.members("poller", count, |at| {
        let queue = queues[at as usize];
        let steps = vec![Step::Poll { queue, state: poll }, work(take, Dist::around(mean * part / 100, 0.4))];
        vec![repeat(rounds, steps), put(done)]
    });
    s.system.end = s.machine("main", vec![Step::Get { queue: done, n: count }]);
}

/// `$producer` sends a signal for each item, although `$consumer` always takes all items that are
/// present.
pub fn batching(s: &mut Sketch) {
    let mean = s.pick.int(3_000, 10_000);
    let tap = s.decoy(mean * 6, 2);
    let (ring, signal, done) = (s.queue("ring", None), s.signal("signal"), s.queue("done", None));
    let (make, tell, take) = (s.state("producer.make"), s.state("producer.signal"), s.state("consumer.take"));
    let cost = (mean as f64 * s.pick.real(1.5, 2.5)) as u64;
    let one = vec![work(tell, Dist::around(cost, 0.2)), put(signal)];
    let steps = vec![work(make, Dist::around(mean, 0.4)), put(ring), put(tap), Step::Every { n: 1, steps: one }];
    // With any batch size, the last items are signalled.
    s.machine("producer", vec![repeat(s.items, steps), put(signal)]);
    let each = vec![work(take, Dist::around(mean * 2 / 3, 0.4)), put(done)];
    s.machine("consumer", vec![forever(vec![Step::Drain { queue: signal }, Step::Each { queue: ring, steps: each }])]);
    s.system.end = s.machine("main", vec![Step::Get { queue: done, n: s.items }]);
}
