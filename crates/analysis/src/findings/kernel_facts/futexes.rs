//! Locks of programs without probes: futexes for which the same threads wait and which they pass
//! on, one after the other.
//!
//! The kernel sees a lock only when a thread waits for it. A futex counts as a lock if the threads
//! that wait at its address also wake one other thread there. At the address of a queue or a
//! barrier, some threads only wait, some only wake, or all are woken at once.

use super::{largest, ClassesOnPath, Contention};
use crate::findings::{Facts, Scope};
use crate::stats::evidence::Evidence;
use crate::wait_graph::uses::Lock;
use longpole_model::linux::watch::{FinishedCall, ThreadId};
use longpole_model::linux::Linux;
use longpole_model::names::NameId;
use longpole_model::system_calls::takes_a_futex_operation;
use std::collections::{BTreeSet, HashMap};

/// Largest number of addresses that are distinguished, and of threads of each.
const MAX_LOCKS: usize = 1 << 12;
const MAX_THREADS: usize = 1 << 10;
/// Largest number of disjoint waits that are remembered for each address.
const MAX_APART: usize = 1 << 8;

/// Mask of the operation. The bits above it only select private addresses and the clock.
const OPERATION: i64 = 0x7f;
/// Flag of a private address: the same address in another process is another futex.
const PRIVATE: i64 = 0x80;
const WAIT: i64 = 0;
const WAKE: i64 = 1;
const LOCK_PI: i64 = 6;
const UNLOCK_PI: i64 = 7;
const WAIT_BITSET: i64 = 9;
const WAKE_BITSET: i64 = 10;
const LOCK_PI2: i64 = 13;

/// Collects the futexes of all processes.
#[derive(Debug, Default)]
pub(super) struct Futexes {
    /// System calls of the current event that may be `futex`.
    calls: Vec<FinishedCall>,
    /// For each name id, whether it is the futex system call.
    names: Vec<Option<bool>>,
    /// Futexes by process and address.
    futexes: HashMap<(i32, i64), Futex>,
}

#[derive(Debug, Default)]
struct Futex {
    waits: Lock,
    is_private: bool,
    /// For each thread, the number of its waits and the number of times that it woke one other
    /// thread.
    threads: HashMap<ThreadId, (u64, u64)>,
}

/// The sum over the threads that wait for a futex.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    threads: u64,
    waits: u64,
    /// Number of waits by threads that also wake others.
    handed_on: u64,
}

impl Futex {
    fn waited(&self) -> Waited {
        let mut out = Waited::default();
        for &(waits, wakes) in self.threads.values().filter(|(waits, _)| *waits > 0) {
            out.threads += 1;
            out.waits += waits;
            out.handed_on += if wakes > 0 { waits } else { 0 };
        }
        out
    }

    /// Returns whether this is a lock, and not the end of a thread or an item of a queue, for which
    /// others wait more often than they wake.
    fn is_lock(&self) -> bool {
        let Waited { waits, handed_on, .. } = self.waited();
        handed_on > 0 && 2 * handed_on >= waits
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FutexEffect {
    /// The thread waited until it was woken.
    Waits,
    /// The thread woke one other thread.
    Wakes,
}

/// Returns what a futex call did; `None` if it neither waited nor woke exactly one thread.
fn effect(call: &FinishedCall) -> Option<FutexEffect> {
    let result = call.result?;
    match call.arguments.second? & OPERATION {
        WAIT | WAIT_BITSET | LOCK_PI | LOCK_PI2 if result == 0 => Some(FutexEffect::Waits),
        WAKE | WAKE_BITSET if result == 1 && call.arguments.third == Some(1) => Some(FutexEffect::Wakes),
        UNLOCK_PI if result == 0 => Some(FutexEffect::Wakes),
        _ => None,
    }
}

impl Futexes {
    pub fn returned(&mut self, call: &FinishedCall) {
        if !matches!(self.names.get(call.name.0 as usize), Some(Some(false))) {
            self.calls.push(*call);
        }
    }

    #[inline]
    pub fn after(&mut self, linux: &Linux) {
        while let Some(call) = self.calls.pop() {
            if self.is_futex(linux, call.name) {
                self.count(linux, &call);
            }
        }
    }

    fn is_futex(&mut self, linux: &Linux, name: NameId) -> bool {
        let at = name.0 as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, None);
        }
        *self.names[at].get_or_insert_with(|| takes_a_futex_operation(linux.names.text(name)))
    }

    fn count(&mut self, linux: &Linux, call: &FinishedCall) {
        let (Some(effect), Some(id), Some(address), Some(begin)) = (effect(call), call.thread, call.arguments.about, call.begin_ns) else {
            return;
        };
        let thread = &linux.threads[id.0 as usize];
        let key = (thread.process.unwrap_or(thread.tid), address);
        if self.futexes.len() >= MAX_LOCKS && !self.futexes.contains_key(&key) {
            return;
        }
        let futex = self.futexes.entry(key).or_default();
        futex.is_private |= call.arguments.second.is_some_and(|operation| operation & PRIVATE != 0);
        if effect == FutexEffect::Waits {
            let at = |t_ns: i64| u64::try_from(t_ns).unwrap_or(0);
            futex.waits.add_wait(at(begin), at(call.end_ns), MAX_APART);
        }
        if futex.threads.len() < MAX_THREADS || futex.threads.contains_key(&id) {
            let (waits, wakes) = futex.threads.entry(id).or_default();
            match effect {
                FutexEffect::Waits => *waits += 1,
                FutexEffect::Wakes => *wakes += 1,
            }
        }
    }

    /// Returns all locks, in no particular order.
    pub fn contention(&self) -> impl Iterator<Item = Contention> + '_ {
        self.futexes.iter().filter(|(_, futex)| futex.is_lock()).map(|(&(process, address), futex)| Contention {
            process,
            address,
            is_private: futex.is_private,
            waited_ns: futex.waits.waited_ns,
        })
    }

    /// Returns the facts about the lock with the longest waits in each process.
    pub fn facts(&self, linux: &Linux, path: &ClassesOnPath) -> Vec<Facts> {
        let mut first: HashMap<i32, (i64, &Futex)> = HashMap::new();
        for (&(process, address), futex) in self.futexes.iter().filter(|(_, futex)| futex.is_lock()) {
            let rank = |address: i64, futex: &Futex| (futex.waits.contended_ns, std::cmp::Reverse(address));
            let known = first.entry(process).or_insert((address, futex));
            if rank(known.0, known.1) < rank(address, futex) {
                *known = (address, futex);
            }
        }
        largest(first.into_iter().map(|(process, (address, futex))| {
            let main = linux.thread_of(process).or_else(|| futex.threads.keys().copied().min());
            let name = main.map_or_else(|| format!("process {process}"), |main| linux.threads[main.0 as usize].name());
            let classes: BTreeSet<&str> = futex.threads.keys().filter_map(|&id| path.class(linux, id)).collect();
            let Waited { threads, waits, handed_on } = futex.waited();
            let texts = vec![("machine", name), ("address", format!("{address:#x}"))];
            let numbers = vec![
                ("share", path.share_of(futex.waits.contended_ns)),
                ("count", futex.waits.contended as f64),
                ("threads", threads as f64),
                ("waiters", futex.waits.waited_ns as f64 / futex.waits.contended_ns.max(1) as f64),
                ("handed_on", handed_on as f64 / waits.max(1) as f64),
                ("on_path", classes.iter().map(|class| path.shares(class).all).sum()),
            ];
            let evidence = Evidence { start_ns: futex.waits.longest.0 as i64, end_ns: futex.waits.longest.1 as i64 };
            Facts { process: Some(process), ..Facts::new(Scope::Futex, texts, numbers, evidence) }
        }))
    }
}
