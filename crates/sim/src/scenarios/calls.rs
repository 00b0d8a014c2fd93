//! Scenarios of calls and replies.

use crate::draw::Dist;
use crate::sketch::{forever, put, repeat, work, Sketch};
use crate::system::Step;

/// `$client` calls `$front`, which calls `$store`; both call `$timer` for each item, which takes
/// the time of `$timer.program`.
pub fn rpc_chain(s: &mut Sketch) {
    let mean = s.pick.int(4_000, 20_000);
    let tap = s.decoy(mean * 4, 2);
    let (front, store, timer) = (s.call("rpc.front"), s.call("rpc.store"), s.call("rpc.timer"));
    let program = s.state("timer.program");
    let cost = (mean as f64 * s.pick.real(1.2, 1.8)) as u64;
    let (serve, call, reply) = (|queue| Step::Serve { queue }, |queue| Step::Call { queue }, |queue| Step::Reply { queue });
    s.machine("timer", vec![forever(vec![serve(timer), work(program, Dist::around(cost, 0.3)), reply(timer)])]);
    let state = s.state("store.work");
    let steps = vec![serve(store), work(state, Dist::around(mean, 0.4)), call(timer), reply(store)];
    s.machine("store", vec![forever(steps)]);
    let (before, after) = (s.state("front.before"), s.state("front.after"));
    let steps = vec![
        serve(front),
        work(before, Dist::around(mean * 2 / 3, 0.4)),
        call(timer),
        call(store),
        work(after, Dist::around(mean / 2, 0.4)),
        reply(front),
    ];
    s.machine("front", vec![forever(steps)]);
    let (prepare, finish) = (s.state("client.prepare"), s.state("client.finish"));
    let steps = vec![work(prepare, Dist::around(mean / 2, 0.4)), call(front), work(finish, Dist::around(mean / 3, 0.4)), put(tap)];
    s.system.end = s.machine("client", vec![repeat(s.items, steps)]);
}
