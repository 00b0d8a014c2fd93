//! Both ends of the waits that other threads ended: where the thread waited, and where the other
//! one was when it woke it.
//!
//! Example: a thread waits for a lock in `take_order`, and the holder releases it in `ship`. During
//! the wait, the path goes through the holder; the pair of functions says why it came there.

use super::path_stacks::{waiting_frame, Estimate, Sampled};
use crate::scheduling::sampled_waits::SampledWait;
use longpole_symbols::{FrameId, Stacks};
use serde::Serialize;
use std::collections::HashMap;
use std::rc::Rc;

/// Largest numbers of pairs of stacks that are distinguished, and of wake-ups whose waits have not
/// been sampled yet.
const MAX_PAIRS: usize = 1 << 16;
const MAX_WAKES: usize = 1 << 16;
/// Largest number of frames of a stack in an answer.
const MAX_FRAMES: usize = 64;

/// A process and its stack.
type End = (Rc<str>, Box<[FrameId]>);

/// Pairs of stacks, while samples are read.
#[derive(Debug, Default)]
pub struct EndedWaits {
    /// The newest wake-up of each thread, with its time and the waker.
    wakes: HashMap<i32, (i64, End)>,
    pairs: HashMap<(End, End), (f64, Estimate)>,
}

/// One end of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitEnd {
    pub process: String,
    /// Innermost function of the program's own code, else of any program, else of all.
    pub function: String,
    /// Functions, the innermost first.
    pub stack: Vec<String>,
}

/// The waits at one place that were ended at another place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndedWait {
    pub waiter: WaitEnd,
    pub waker: WaitEnd,
    /// Estimated number of waits.
    pub count: f64,
    pub samples: u64,
    /// Time on the path, of other machines, for which the waiter waited; and its share of the path.
    /// Waits may contain each other, so the shares do not add up.
    pub ns: u64,
    pub share: f64,
}

impl EndedWaits {
    /// Adds a sampled wake-up of the thread `tid`.
    pub fn wake(&mut self, tid: i32, t_ns: i64, waker: &Sampled) {
        if self.wakes.len() < MAX_WAKES || self.wakes.contains_key(&tid) {
            self.wakes.insert(tid, (t_ns, end(waker)));
        }
    }

    /// Adds a sampled wait on the path, during which the path went through other machines for `ns`.
    /// A wake-up in an interrupt is left out: its stack is that of the interrupted thread.
    pub fn wait(&mut self, wait: &SampledWait, waiter: &Sampled, ns: u64, probability: f64) {
        let Some((t_ns, waker)) = self.wakes.remove(&wait.tid) else { return };
        if ns == 0 || !wait.by_thread || t_ns < wait.begin_ns || t_ns > wait.end_ns {
            return;
        }
        let key = (end(waiter), waker);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        let ns = ns as f64 / probability;
        let (count, estimate) = self.pairs.entry(key).or_default();
        *count += 1.0 / probability;
        let more = Estimate { ns, variance: (1.0 - probability) * ns * ns, samples: 1 };
        *estimate = [*estimate, more].into_iter().sum();
    }

    /// Returns the pairs of functions with the most time first, each with the stacks that have most
    /// of it.
    pub fn answer(&self, stacks: &Stacks, length_ns: u64) -> Vec<EndedWait> {
        let mut merged: HashMap<[&str; 4], (f64, Estimate, f64, &(End, End))> = HashMap::new();
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        for (pair, &(count, estimate)) in pairs {
            let name = |frames: &[FrameId]| first(stacks, frames).map_or("[unknown]", |frame| stacks.frame(frame).function.as_str());
            let key = [&*pair.0 .0, name(&pair.0 .1), &*pair.1 .0, name(&pair.1 .1)];
            let merged = merged.entry(key).or_insert((0.0, Estimate::default(), f64::MIN, pair));
            merged.0 += count;
            merged.1 = [merged.1, estimate].into_iter().sum();
            if estimate.ns > merged.2 {
                (merged.2, merged.3) = (estimate.ns, pair);
            }
        }
        let row =
            |([waiter, waits_in, waker, wakes_in], (count, estimate, _, pair)): ([&str; 4], (f64, Estimate, f64, &(End, End)))| EndedWait {
                waiter: shown(stacks, waiter, waits_in, &pair.0 .1),
                waker: shown(stacks, waker, wakes_in, &pair.1 .1),
                count,
                samples: estimate.samples,
                ns: estimate.ns as u64,
                share: estimate.ns / length_ns.max(1) as f64,
            };
        let mut rows: Vec<EndedWait> = merged.into_iter().map(row).collect();
        let words = |row: &EndedWait| (row.waiter.process.clone(), row.waiter.function.clone(), row.waker.function.clone());
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| words(a).cmp(&words(b))));
        rows
    }
}

fn end(sampled: &Sampled) -> End {
    (Rc::clone(&sampled.process), Box::from(&sampled.frames[..]))
}

fn first(stacks: &Stacks, frames: &[FrameId]) -> Option<FrameId> {
    waiting_frame(stacks, frames).map(|at| frames[at])
}

fn shown(stacks: &Stacks, process: &str, function: &str, frames: &[FrameId]) -> WaitEnd {
    let name = |frame: &FrameId| stacks.frame(*frame).function.clone();
    WaitEnd { process: process.to_owned(), function: function.to_owned(), stack: frames.iter().take(MAX_FRAMES).map(name).collect() }
}
