//! Scenarios in which work flows in one direction.

use crate::draw::Dist;
use crate::sketch::{get, put, repeat, work, Sketch};
use crate::system::Step;

/// Stages in a row; `$slow` takes longer than the others.
pub fn tandem(s: &mut Sketch, capacity: u64) {
    let count = s.pick.int(4, 6);
    let slow = s.pick.int(0, count - 1);
    let mean = s.pick.int(8_000, 40_000);
    let (factor, spread) = (s.pick.real(1.3, 1.8), s.pick.real(0.4, 0.9));
    let tap = s.decoy(mean * 2, 2);
    let queues: Vec<u32> = (1..count).map(|at| s.queue(&format!("queue{at}"), Some(capacity))).collect();
    let mut last = 0;
    for at in 0..count {
        let role = if at == slow { "slow".to_owned() } else { format!("stage{}", at + 1) };
        let state = s.state(&format!("{role}.work"));
        let mine = if at == slow { (mean as f64 * factor) as u64 } else { (mean as f64 * s.pick.real(0.7, 1.0)) as u64 };
        let mut steps = Vec::new();
        if at > 0 {
            steps.push(get(queues[at as usize - 1]));
        }
        steps.push(work(state, Dist::around(mine, spread)));
        if at == 0 {
            steps.push(put(tap));
        }
        if at + 1 < count {
            steps.push(put(queues[at as usize]));
        }
        last = s.machine(&role, vec![repeat(s.items, steps)]);
    }
    s.system.end = last;
}

/// Rounds of parallel parts, of which `$slow` has the largest.
pub fn fork_join(s: &mut Sketch) {
    let count = s.pick.int(3, 6);
    let slow = s.pick.int(0, count - 1);
    let mean = s.pick.int(20_000, 80_000);
    let factor = s.pick.real(1.6, 2.2);
    let tap = s.decoy(mean * 2, 2);
    let join = s.queue("join", None);
    let (split, gather) = (s.state("main.split"), s.state("main.gather"));
    let mut round = vec![work(split, Dist::around(mean / 10, 0.3))];
    for at in 0..count {
        let role = if at == slow { "slow".to_owned() } else { format!("part{}", at + 1) };
        let (queue, state) = (s.queue(&format!("{role}.queue"), None), s.state(&format!("{role}.work")));
        let mine = if at == slow { (mean as f64 * factor) as u64 } else { (mean as f64 * s.pick.real(0.6, 1.0)) as u64 };
        round.push(put(queue));
        let steps = vec![get(queue), work(state, Dist::around(mine, 0.4)), put(join)];
        s.machine(&role, vec![repeat(s.items, steps)]);
    }
    round.extend([put(tap), Step::Get { queue: join, n: count }, work(gather, Dist::around(mean / 12, 0.3))]);
    s.system.end = s.machine("main", vec![repeat(s.items, round)]);
}

/// Two stages, of which the first leaves one token per item in a queue that no machine empties.
pub fn leak(s: &mut Sketch) {
    let (queue, left) = (s.queue("queue", Some(8)), s.queue("left", None));
    let (make, take) = (s.state("maker.make"), s.state("sink.take"));
    let mean = s.pick.int(5_000, 20_000);
    s.machine("maker", vec![repeat(s.items, vec![work(make, Dist::around(mean, 0.5)), put(left), put(queue)])]);
    s.system.end = s.machine("sink", vec![repeat(s.items, vec![get(queue), work(take, Dist::around(mean, 0.5))])]);
}
