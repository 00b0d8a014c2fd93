//! Both ends of the waits that other threads ended: where the thread waited, and where the other
//! one was when it woke it.
//!
//! Example: a thread waits for a lock in `take_order`, and the holder releases it in `ship`. During
//! the wait, the path goes through the holder; the pair of functions says why it came there.

use super::path_stacks::{Estimate, Sampled};
use super::wait_functions::{waiting_frame, WaitFunctions};
use crate::scheduling::sampled_waits::{AwaitedLock, SampledWait};
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{FrameId, Stacks};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Largest numbers of pairs of stacks that are distinguished, and of wake-ups whose waits have not
/// been sampled yet.
const MAX_PAIRS: usize = 1 << 16;
const MAX_WAKES: usize = 1 << 16;
/// Largest number of frames of a stack in an answer.
const MAX_FRAMES: usize = 64;

/// A process and its stack.
type End = (Rc<str>, Box<[FrameId]>);

/// Both ends of a wait, and the lock for which it was.
type Ends = (End, End, Option<AwaitedLock>);

/// The newest sampled wake-up of each thread, with its time and the waker.
#[derive(Debug)]
pub struct WakeUps<W>(HashMap<i32, (i64, W)>);

impl<W> Default for WakeUps<W> {
    fn default() -> WakeUps<W> {
        WakeUps(HashMap::new())
    }
}

impl<W> WakeUps<W> {
    /// Adds a sampled wake-up of the thread `tid`.
    pub fn add(&mut self, tid: i32, t_ns: i64, waker: W) {
        if self.0.len() < MAX_WAKES || self.0.contains_key(&tid) {
            self.0.insert(tid, (t_ns, waker));
        }
    }

    /// Removes the newest wake-up of the thread that waited, and returns its time and the waker if
    /// it ended this wait. A wake-up in an interrupt does not count: its stack is that of the
    /// interrupted thread.
    pub fn take(&mut self, wait: &SampledWait) -> Option<(i64, W)> {
        let (t_ns, waker) = self.0.remove(&wait.tid)?;
        (wait.by_thread && (wait.begin_ns..=wait.end_ns).contains(&t_ns)).then_some((t_ns, waker))
    }
}

/// Pairs of stacks, while samples are read.
#[derive(Debug, Default)]
pub struct EndedWaits {
    wakes: WakeUps<End>,
    pairs: HashMap<Ends, (f64, Estimate)>,
}

/// One end of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitEnd {
    pub process: String,
    /// Function that the wait or the wake-up counts for ([`WaitFunctions`]).
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
    /// The part of the share in which the waits were for each lock.
    #[serde(skip)]
    pub locks: BTreeMap<AwaitedLock, f64>,
}

/// The sums over the pairs of stacks with the same functions.
struct Merged<'a> {
    count: f64,
    estimate: Estimate,
    locks: BTreeMap<AwaitedLock, f64>,
    /// The pair with most of the time, and that time.
    most: (f64, &'a Ends),
}

impl EndedWaits {
    /// Adds a sampled wake-up of the thread `tid`.
    pub fn wake(&mut self, tid: i32, t_ns: i64, waker: &Sampled) {
        self.wakes.add(tid, t_ns, end(waker));
    }

    /// Adds a sampled wait on the path, during which the path went through other machines for `ns`.
    pub fn wait(&mut self, wait: &SampledWait, waiter: &Sampled, ns: u64, probability: f64) {
        let Some((_, waker)) = self.wakes.take(wait).filter(|_| ns > 0) else { return };
        let mut key = (end(waiter), waker, wait.lock);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            key.2 = None;
        }
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
    pub fn answer(&self, stacks: &Stacks, functions: &WaitFunctions, length_ns: u64) -> Vec<EndedWait> {
        let length = length_ns.max(1) as f64;
        let mut merged: HashMap<[&str; 4], Merged> = HashMap::new();
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        for (pair, &(count, estimate)) in pairs {
            let (waiter, waker, lock) = pair;
            let name = |at: Option<usize>, frames: &[FrameId]| at.map_or("[unknown]", |at| stacks.frame(frames[at]).function.as_str());
            let waits_in = name(functions.counted(stacks, &waiter.0, &waiter.1, TimeKind::Waiting), &waiter.1);
            let key = [&*waiter.0, waits_in, &*waker.0, name(waiting_frame(stacks, &waker.1), &waker.1)];
            let new = || Merged { count: 0.0, estimate: Estimate::default(), locks: BTreeMap::new(), most: (f64::MIN, pair) };
            let merged = merged.entry(key).or_insert_with(new);
            merged.count += count;
            merged.estimate = [merged.estimate, estimate].into_iter().sum();
            if let Some(lock) = lock {
                *merged.locks.entry(*lock).or_default() += estimate.ns / length;
            }
            if estimate.ns > merged.most.0 {
                merged.most = (estimate.ns, pair);
            }
        }
        let row =
            |([waiter, waits_in, waker, wakes_in], Merged { count, estimate, locks, most: (_, pair) }): ([&str; 4], Merged)| EndedWait {
                waiter: shown(stacks, waiter, waits_in, &pair.0 .1),
                waker: shown(stacks, waker, wakes_in, &pair.1 .1),
                count,
                samples: estimate.samples,
                ns: estimate.ns as u64,
                share: estimate.ns / length,
                locks,
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

fn shown(stacks: &Stacks, process: &str, function: &str, frames: &[FrameId]) -> WaitEnd {
    let name = |frame: &FrameId| stacks.frame(*frame).function.clone();
    WaitEnd { process: process.to_owned(), function: function.to_owned(), stack: frames.iter().take(MAX_FRAMES).map(name).collect() }
}
