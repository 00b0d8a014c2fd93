//! Priority inversions: a thread waits for a less important one, which waits for a CPU on which a
//! third thread runs that is less important than the first.
//!
//! A wait ends when its holder wakes the waiter. Within that wait, the time that the holder spent
//! in a CPU's queue while a thread of a priority below the waiter's had that CPU is *inverted*:
//! with priority inheritance the holder would have run.
//!
//! Example: a control loop (SCHED_FIFO 30) waits for a mutex that a logger (10) holds, while an
//! encoder (20) runs on the logger's CPU.

use crate::verdict::facts::exchanges::Exchanges;
use crate::verdict::facts::file_locks::FileLocks;
use longpole_model::linux::watch::{
    Base, BlockCause, BlockReason, CpuId, CpuWait, Mode, Occupant, TaskState, ThreadId, Wake, Waker, Watch,
};
use longpole_model::linux::Linux;
use longpole_model::system_calls::CallFamily;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// Number of remembered stays on each CPU, and of remembered waits for a CPU of each thread. Older
/// ones are not counted.
const MAX_STAYS: usize = 32;
/// Largest number of pairs of waiter and holder, and of processes that ran instead of one holder;
/// further ones are not counted.
const MAX_PAIRS: usize = 1 << 12;
const MAX_INSTEAD: usize = 1 << 8;

/// Inversions between threads of two processes, or of one process. Pairs of processes are counted
/// because threads may be created for each piece of work.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Thread ids of the last waiter and holder.
    waiter: i32,
    holder: i32,
    count: u64,
    inverted_ns: u64,
    /// Processes that ran instead of the holder, each with its time in nanoseconds and its last
    /// thread.
    ran: HashMap<i32, (u64, i32)>,
}

/// The sum of inversions between a waiter and a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inversion {
    /// Thread ids of the thread that waits, the thread for which it waits, and the thread that runs
    /// instead.
    pub waiter: i32,
    pub holder: i32,
    pub instead: i32,
    pub count: u64,
    pub inverted_ns: u64,
}

/// Collects priority inversions during the pass.
#[derive(Debug, Default)]
pub struct Inversions {
    /// Threads that had each CPU, with begin and end, the newest last.
    stays: Vec<VecDeque<(ThreadId, i64, i64)>>,
    /// Waits of each thread for a CPU, with that CPU, begin and end; `blocked` is the last time for
    /// which the thread was blocked.
    queued: Vec<VecDeque<(CpuId, i64, i64)>>,
    blocked: Vec<Option<(BlockReason, i64, i64)>>,
    wakes: Vec<(ThreadId, ThreadId, i64)>,
    /// Pairs by the processes of waiter and holder.
    pairs: HashMap<(i32, i32), Pair>,
}

fn entry<T: Default>(list: &mut Vec<T>, at: u32) -> &mut T {
    let at = at as usize;
    if list.len() <= at {
        list.resize_with(at + 1, T::default);
    }
    &mut list[at]
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() >= MAX_STAYS {
        list.pop_front();
    }
    list.push_back(item);
}

impl Watch for Inversions {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, _base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        let Occupant::Thread(thread) = by else { return };
        let stays = entry(&mut self.stays, cpu.0);
        match stays.back_mut() {
            Some(last) if last.0 == thread => last.2 = end_ns,
            _ => push(stays, (thread, begin_ns, end_ns)),
        }
    }

    fn waited(&mut self, wait: &CpuWait) {
        push(entry(&mut self.queued, wait.thread.0), (wait.cpu, wait.begin_ns, wait.end_ns));
        if let Occupant::Thread(thread) = wait.now {
            self.occupied(wait.cpu, Occupant::Thread(thread), Base::Unknown, Mode::Unknown, wait.now_since_ns, wait.end_ns);
        }
    }

    fn blocked(&mut self, thread: ThreadId, why: BlockReason, begin_ns: i64, end_ns: i64) {
        *entry(&mut self.blocked, thread.0) = Some((why, begin_ns, end_ns));
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        if let Waker::Thread(by) = wake.waker {
            self.wakes.push((thread, by, wake.t_ns));
        }
    }
}

/// Returns whether the wait is for a lock: one of the program, by futex, or one of the kernel.
fn is_for_a_lock(linux: &Linux, why: BlockReason) -> bool {
    match why.cause {
        BlockCause::Call(name, _) if CallFamily::of(linux.names.text(name)) == CallFamily::Futex => true,
        BlockCause::Disk(_) => false,
        _ => why.state == TaskState::Uninterruptible,
    }
}

impl Inversions {
    /// Processes the wake-ups and waits of an event. Must be called after each event. `file_locks`
    /// and `exchanges` receive the same waits.
    #[inline]
    pub fn after(&mut self, linux: &Linux, file_locks: &mut FileLocks, exchanges: &mut Exchanges) {
        while let Some((waiter, holder, t_ns)) = self.wakes.pop() {
            if let Some((why, begin, _)) = self.blocked.get(waiter.0 as usize).copied().flatten().filter(|wait| wait.2 == t_ns) {
                let ns = t_ns.saturating_sub(begin).max(0) as u64;
                file_locks.ended(linux, (waiter, holder), why, ns);
                exchanges.waited(linux, (waiter, holder), why, ns);
            }
            // A smaller number is a higher priority.
            if let (Some(own), Some(other)) = (priority(linux, waiter), priority(linux, holder)) {
                if own < other {
                    self.waited_for((waiter, own), holder, t_ns, linux);
                }
            }
        }
    }

    fn waited_for(&mut self, (waiter, own): (ThreadId, i32), holder: ThreadId, t_ns: i64, linux: &Linux) {
        let blocked = self.blocked.get(waiter.0 as usize).copied().flatten();
        let Some((_, begin, _)) = blocked.filter(|(why, _, end)| *end == t_ns && is_for_a_lock(linux, *why)) else { return };
        let tid = |of: ThreadId| linux.threads[of.0 as usize].tid;
        let process = |of: ThreadId| linux.threads[of.0 as usize].process.unwrap_or(tid(of));
        let key = (process(waiter), process(holder));
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        let pair = self.pairs.entry(key).or_default();
        let before = pair.inverted_ns;
        for &(cpu, from, to) in self.queued.get(holder.0 as usize).into_iter().flatten() {
            for &(other, since, until) in self.stays.get(cpu.0 as usize).into_iter().flatten() {
                let ns = until.min(to).min(t_ns) - since.max(from).max(begin);
                let is_below = priority(linux, other).is_some_and(|of| of > own);
                if ns > 0 && other != holder && other != waiter && is_below {
                    (pair.waiter, pair.holder) = (tid(waiter), tid(holder));
                    pair.inverted_ns += ns as u64;
                    if pair.ran.len() < MAX_INSTEAD || pair.ran.contains_key(&process(other)) {
                        let (ran, last) = pair.ran.entry(process(other)).or_default();
                        (*ran, *last) = (*ran + ns as u64, tid(other));
                    }
                }
            }
        }
        pair.count += u64::from(pair.inverted_ns > before);
    }

    /// Returns all inversions, the one with the most inverted time first.
    pub fn finish(self) -> Vec<Inversion> {
        let mut pairs: Vec<_> = self.pairs.into_iter().filter(|(_, pair)| pair.inverted_ns > 0).collect();
        pairs.sort_unstable_by_key(|&(processes, ref pair)| (Reverse(pair.inverted_ns), processes));
        let inversion = |(_, pair): ((i32, i32), Pair)| {
            let Pair { waiter, holder, count, inverted_ns, ran } = pair;
            let (_, (_, instead)) = ran.into_iter().max_by_key(|&(process, (ns, _))| (ns, Reverse(process)))?;
            Some(Inversion { waiter, holder, instead, count, inverted_ns })
        };
        pairs.into_iter().filter_map(inversion).collect()
    }
}

fn priority(linux: &Linux, of: ThreadId) -> Option<i32> {
    linux.threads.get(of.0 as usize)?.priority
}
