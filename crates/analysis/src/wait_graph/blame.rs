//! Blame: for which threads the others wait.
//!
//! Each wait has an opposite side: a thread that waits for space waits for the consumers of the
//! queue, one that waits for tokens for the producers, one that waits for a signal for its sender.
//! A thread that is waited for and waits itself passes blame on in proportion to its own time: the
//! working part keeps its share, the rest goes to the threads that it waits for (after the cascaded
//! redistribution of wPerf, OSDI 2018). Blame that no thread can be charged with is unknown.
//!
//! Example: a consumer waits for a producer that works 30 % of its time and waits 70 % for a disk
//! thread. The producer is charged with 30 % of the consumer's wait, the disk thread with 70 %.
//!
//! A queue without a limit hides waiting: its producer is never delayed, it is only done early.
//! Therefore the time that others need, after a stage's last put, to work off that queue counts as
//! the stage's waiting for space. If the recording ends earlier, the rest is extrapolated from the
//! remaining tokens.

use crate::queues::Queues;
use crate::stages::{Stage, Stages};
use longpole_model::actors::ActorId;
use longpole_model::interaction::{QueueId, Vocabulary};
use longpole_model::system::activity::{Activity, Cell, State, Total};

/// Number of hand-overs after which the remaining blame is unknown.
const ROUNDS: usize = 200;

/// The result for each thread; the vectors are indexed by the actor's number.
#[derive(Debug, Default)]
pub struct Blame {
    /// Share of all waiting of the stages, per machine: 1 in sum together with `unknown`; all 0
    /// without waits.
    pub share: Vec<f64>,
    pub unknown: f64,
    /// Share of its time in which the machine does not wait, per machine.
    pub busy: Vec<f64>,
    /// Share of its time in which the machine waits for another stage, per machine.
    pub waits: Vec<f64>,
    /// Time in ns per machine, including the time that others needed after its last token.
    pub total_ns: Vec<u64>,
    /// The queue that the machine left behind with work, and the time to work it off in ns, per
    /// machine.
    pub backlog: Vec<Option<(QueueId, u64)>>,
}

/// What a thread waits for at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Tokens,
    Space,
}

impl Blame {
    /// Computes the blame. `added` has the times of the activity's cells, in their order: of the
    /// whole run, or of a window.
    pub fn compute(
        vocabulary: &Vocabulary,
        activity: &Activity,
        added: &[Total],
        queues: &Queues,
        stages: &Stages,
        fullness: &[(Option<f64>, Option<f64>)],
    ) -> Blame {
        let count = vocabulary.actors.all().len();
        let mut total = vec![0u64; count];
        let mut idle = vec![0u64; count];
        let mut unnamed = vec![0u64; count];
        let mut edges: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
        for (cell, time) in activity.cells().iter().zip(added) {
            let at = cell.actor.0 as usize;
            total[at] += time.ns;
            if cell.state == State::Run {
                unnamed[at] += time.ns;
            }
            if !cell.state.is_idle() {
                continue;
            }
            idle[at] += time.ns;
            for (target, share) in targets(cell, queues) {
                add(&mut edges[at], target, share * time.ns as f64);
            }
        }
        // A thread that never states that it waits: its queues show it, and its time directly
        // before and after their use, or in no named state. A queue may be empty while its last
        // token is worked on, so neither is sufficient alone.
        for at in 0..count {
            let machine = ActorId(at as u32);
            let Some(stage) = stages.of(machine).filter(|_| !activity.waits_explicitly(machine) && idle[at] == 0) else {
                continue;
            };
            let waits = stage
                .outputs
                .iter()
                .filter_map(|output| {
                    let most = stage.before_put_ns.max(stage.after_put_ns).max(unnamed[at]) as f64;
                    let full = fullness.get(output.queue.0 as usize)?.0?;
                    Some((output.queue, For::Space, most.min(full * total[at] as f64)))
                })
                .chain(stage.inputs.iter().filter_map(|input| {
                    let queue = input.queue?;
                    let empty = fullness.get(queue.0 as usize)?.1?;
                    Some((queue, For::Tokens, (stage.before_get_ns.max(unnamed[at]) as f64).min(empty * total[at] as f64)))
                }));
            if let Some((queue, what, ns)) = waits.max_by(|a, b| a.2.total_cmp(&b.2)) {
                idle[at] = ns as u64;
                for (target, part) in opposite(machine, queue, what, queues) {
                    add(&mut edges[at], target, part * ns);
                }
            }
        }
        let mut backlog = vec![None; count];
        for at in 0..count {
            let machine = ActorId(at as u32);
            let Some((queue, ns)) = stages.of(machine).and_then(|stage| left_behind(vocabulary, activity, queues, stage, machine)) else {
                continue;
            };
            backlog[at] = Some((queue, ns));
            total[at] += ns;
            idle[at] += ns;
            for (target, part) in opposite(machine, queue, For::Space, queues) {
                add(&mut edges[at], target, part * ns as f64);
            }
        }
        let ratio = |part: f64, at: usize| if total[at] > 0 { part / total[at] as f64 } else { 0.0 };
        let busy: Vec<f64> = (0..count).map(|at| ratio((total[at] - idle[at].min(total[at])) as f64, at)).collect();
        let waits: Vec<f64> = (0..count).map(|at| ratio(edges[at].iter().map(|(_, ns)| ns).sum(), at)).collect();

        let mut share = vec![0.0; count];
        let mut moving = vec![0.0; count];
        let mut whole = 0.0;
        for at in (0..count).filter(|&at| stages.of(ActorId(at as u32)).is_some_and(is_stage)) {
            for &(target, ns) in &edges[at] {
                moving[target] += ns;
                whole += ns;
            }
        }
        if whole > 0.0 {
            for _ in 0..ROUNDS {
                let mut next = vec![0.0; count];
                for at in (0..count).filter(|&at| moving[at] > 0.0) {
                    share[at] += moving[at] * busy[at] / whole;
                    for &(target, ns) in &edges[at] {
                        next[target] += moving[at] * ratio(ns, at);
                    }
                }
                moving = next;
                if moving.iter().sum::<f64>() < whole * 1e-6 {
                    break;
                }
            }
        }
        let unknown = if whole > 0.0 { (1.0 - share.iter().sum::<f64>()).max(0.0) } else { 0.0 };
        Blame { share, unknown, busy, waits, total_ns: total, backlog }
    }
}

impl Blame {
    /// Makes one machine represent several: their values become its own.
    pub(crate) fn merge_members(&mut self, leader: usize, members: &[usize]) {
        let total: u64 = members.iter().map(|&at| self.total_ns[at]).sum();
        let mean = |of: &[f64]| members.iter().map(|&at| of[at] * self.total_ns[at] as f64).sum::<f64>() / total.max(1) as f64;
        let (busy, waits) = (mean(&self.busy), mean(&self.waits));
        let share = members.iter().map(|&at| self.share[at]).sum();
        for &at in members {
            (self.share[at], self.total_ns[at]) = (0.0, 0);
        }
        (self.share[leader], self.busy[leader], self.waits[leader], self.total_ns[leader]) = (share, busy, waits, total);
    }
}

/// Returns the unlimited output that takes longest to be worked off after this machine's last step,
/// with that time in ns.
fn left_behind(vocabulary: &Vocabulary, activity: &Activity, queues: &Queues, stage: &Stage, machine: ActorId) -> Option<(QueueId, u64)> {
    let (_, last_ns) = activity.lifetime(machine)?;
    let unlimited = stage.outputs.iter().map(|output| output.queue).filter(|queue| vocabulary.shape(*queue).capacity.is_none());
    unlimited.map(|queue| (queue, queues.backlog_ns(queue, machine, last_ns))).filter(|&(_, ns)| ns > 0).max_by_key(|&(_, ns)| ns)
}

/// Returns true for a thread that tokens pass through.
pub fn is_stage(stage: &Stage) -> bool {
    !stage.inputs.is_empty() || !stage.outputs.is_empty()
}

fn add(edges: &mut Vec<(usize, f64)>, target: usize, ns: f64) {
    match edges.iter_mut().find(|(known, _)| *known == target) {
        Some((_, sum)) => *sum += ns,
        None => edges.push((target, ns)),
    }
}

fn targets(cell: &Cell, queues: &Queues) -> Vec<(usize, f64)> {
    match cell.state {
        State::WaitSignal(Some(sender)) if sender != cell.actor => vec![(sender.0 as usize, 1.0)],
        State::WaitEmpty(queue) => opposite(cell.actor, queue, For::Tokens, queues),
        State::WaitFull(queue) => opposite(cell.actor, queue, For::Space, queues),
        _ => Vec::new(),
    }
}

fn opposite(machine: ActorId, queue: QueueId, what: For, queues: &Queues) -> Vec<(usize, f64)> {
    let others = match what {
        For::Tokens => queues.producers(queue),
        For::Space => queues.consumers(queue),
    };
    let others: Vec<usize> = others.iter().filter(|&&other| other != machine).map(|other| other.0 as usize).collect();
    let share = 1.0 / others.len().max(1) as f64;
    others.into_iter().map(|other| (other, share)).collect()
}
