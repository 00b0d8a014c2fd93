//! Locks for which threads or processes wait: those that pass from thread to thread, those whose
//! address kernel events show, and file locks.

use crate::verdict::data::because::Because;
use crate::verdict::data::Locks;
use crate::verdict::facts::file_locks::FileLock;
use crate::verdict::facts::traffic::Pair;
use crate::verdict::subjects::{FromTo, SubjectId};
use crate::verdict::Case;
use longpole_model::interaction::MachineId;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A pool whose members wake one another when a lock is free.
pub(in crate::verdict) struct Convoy {
    pub(in crate::verdict) subject: SubjectId,
    /// Mean number of members that wait at a time.
    pub(in crate::verdict) waiters: f64,
    /// Number of threads that wake others and are woken.
    pub(in crate::verdict) members: u64,
    /// True if each member is a process of its own.
    pub(in crate::verdict) are_processes: bool,
    /// The lock passes from one waiter to the next. Otherwise one thread wakes the others, and
    /// waits for them itself.
    pub(in crate::verdict) is_chain: bool,
    /// No thread is part of about every hand-over, as one is that gives work to the others.
    pub(in crate::verdict) has_no_hub: bool,
    /// Name of the system call, or of another reason, in which the members wait most of the time.
    pub(in crate::verdict) wait: String,
    /// Waiting time of all members together.
    pub(in crate::verdict) waited_ns: u64,
}

/// Direct wake-ups of a thread (second) by another one (first).
type Wakes = (MachineId, MachineId, Pair);

/// Returns how often each thread wakes another one directly, and is woken so.
fn wakes(pairs: &[Wakes]) -> (HashMap<MachineId, u64>, HashMap<MachineId, u64>) {
    let (mut woke, mut woken): (HashMap<MachineId, u64>, HashMap<MachineId, u64>) = Default::default();
    for (by, machine, pair) in pairs {
        *woke.entry(*by).or_default() += pair.direct;
        *woken.entry(*machine).or_default() += pair.direct;
    }
    (woke, woken)
}

/// Returns for each woken thread how often it has woken others in turn, at most as often as it was
/// woken itself.
fn handed_on(woke: &HashMap<MachineId, u64>, woken: &HashMap<MachineId, u64>) -> Vec<u64> {
    woken.iter().map(|(machine, &count)| count.min(woke.get(machine).copied().unwrap_or(0))).collect()
}

/// Returns the pairs of threads that both wake others and are woken.
fn among_members(pairs: &[Wakes]) -> Vec<Wakes> {
    let (woke, woken) = wakes(pairs);
    let is_member = |machine| woke.contains_key(machine) && woken.contains_key(machine);
    pairs.iter().filter(|(by, machine, _)| is_member(by) && is_member(machine)).copied().collect()
}

impl Case<'_> {
    /// Returns a lock that passes from thread to thread in a subject that `may_hold` one. The path
    /// must pass between these threads often enough: at least a considerable share of `turns`, the
    /// number of turns of the holder. Without this condition, threads of a runtime that park and
    /// wake each other would look like a lock.
    pub(in crate::verdict) fn convoy(&self, turns: u64, may_hold: impl Fn(SubjectId) -> bool) -> Option<Convoy> {
        let mut between: HashMap<SubjectId, Vec<Wakes>> = HashMap::new();
        for (by, machine, pair) in self.traffic.pairs().filter(|(.., pair)| pair.direct > 0) {
            let of = |machine| self.subjects.known(self.vocabulary.machine_name(machine));
            if let (Some(from), Some(to)) = (of(by), of(machine)) {
                if from == to && by != machine {
                    between.entry(to).or_default().push((by, machine, *pair));
                }
            }
        }
        let mut best: Option<Convoy> = None;
        for (pool, pairs) in between {
            let handed_over = self.parts.crossings.handed_over.get(&pool).copied().unwrap_or(0);
            // The requests in the subject are stronger evidence than its threads.
            let is_parallel = || self.at_a_time(pool).is_some_and(|at_a_time| at_a_time > self.limits.majority * self.open(pool));
            if self.subjects.get(pool).is_recorder
                || (handed_over as f64) < self.limits.considerable_share * turns as f64
                || !may_hold(pool)
                || is_parallel()
            {
                continue;
            }
            let found = self.convoy_of(pool, turns, &self.both_ways(pairs.clone()));
            let found = found.or_else(|| self.convoy_of(pool, turns, &among_members(&pairs)));
            best = best.into_iter().chain(found).max_by(|one, other| one.waiters.total_cmp(&other.waiters));
        }
        best
    }

    /// Returns the lock that passes between the threads of these pairs.
    fn convoy_of(&self, subject: SubjectId, turns: u64, pairs: &[Wakes]) -> Option<Convoy> {
        let (woke, woken) = wakes(pairs);
        let waited_ns: u64 = pairs.iter().map(|(.., pair)| pair.direct_waited_ns).sum();
        let mut why: HashMap<&str, u64> = HashMap::new();
        for (.., pair) in pairs {
            if let Some(name) = pair.why {
                *why.entry(self.vocabulary.names.text(name)).or_default() += pair.direct_waited_ns;
            }
        }
        let wait = why.into_iter().max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name))).map(|(name, _)| name.to_owned());
        let all: u64 = woken.values().sum();
        let both_ways = handed_on(&woke, &woken);
        let (handed_on, of_one) = both_ways.into_iter().fold((0, 0), |(sum, most), count| (sum + count, most.max(count)));
        let lives = woken.keys().filter_map(|&machine| self.traffic.own(machine));
        let first = lives.clone().filter_map(|own| own.first_ns).min().unwrap_or(0);
        let last = lives.map(|own| own.last_ns).max().unwrap_or(0);
        let waiters = waited_ns as f64 / last.saturating_sub(first).max(1) as f64;
        let is_chain = 2 * handed_on > all;
        let is_star = of_one as f64 >= self.limits.considerable_share * turns as f64;
        let is_enough = woken.len() >= 2 && all >= self.limits.min_occurrences && waiters >= self.limits.min_waiting;
        (is_enough && (is_chain || is_star)).then(|| Convoy {
            subject,
            waiters,
            members: woken.len() as u64,
            are_processes: self.are_processes(woken.keys().copied()),
            is_chain,
            has_no_hub: 2.0 * self.limits.min_lead * of_one as f64 <= all as f64,
            wait: wait.unwrap_or_default(),
            waited_ns,
        })
    }

    /// Returns whether a considerable part of the subject's threads that others of it wake wake
    /// others in turn, as those do that pass on a lock. Threads that wait for an item, or for work
    /// that is done for them, do not.
    pub(in crate::verdict) fn passes_on(&self, subject: SubjectId) -> bool {
        let owns = |machine| self.subjects.known(self.vocabulary.machine_name(machine)) == Some(subject);
        let within = self.traffic.pairs().filter(|&(by, machine, _)| by != machine && owns(by) && owns(machine));
        let pairs: Vec<Wakes> = within.map(|(by, machine, pair)| (by, machine, *pair)).collect();
        let (woke, woken) = wakes(&pairs);
        let (on, all) = (handed_on(&woke, &woken).iter().sum::<u64>(), woken.values().sum::<u64>());
        on > 0 && on as f64 >= self.limits.considerable_share * all as f64
    }

    /// Returns the pairs without threads that are only woken, or only wake others, such as those
    /// that compile for the other threads of a virtual machine, and without those that seldom do
    /// either.
    fn both_ways(&self, mut pairs: Vec<Wakes>) -> Vec<Wakes> {
        loop {
            let (woke, woken) = wakes(&pairs);
            let mut turns: HashMap<MachineId, u64> = HashMap::new();
            for (machine, &woken) in &woken {
                let woke = woke.get(machine).copied().unwrap_or(0);
                if woke.min(woken) as f64 >= self.limits.considerable_share * woke.max(woken) as f64 {
                    turns.insert(*machine, woke.min(woken));
                }
            }
            let most = turns.values().copied().max().unwrap_or(0);
            turns.retain(|_, turns| *turns as f64 >= self.limits.considerable_share * most as f64);
            let before = pairs.len();
            pairs.retain(|(by, machine, _)| turns.contains_key(by) && turns.contains_key(machine));
            // Without some of the pairs, another thread may be one of these.
            if pairs.len() == before {
                return pairs;
            }
        }
    }

    /// Returns the locks for which the subject's threads wait, if these explain most of a wait of
    /// this length. Otherwise the threads pass on something else.
    pub(in crate::verdict) fn locks(&self, subject: SubjectId, waited_ns: u64) -> Option<Locks> {
        let processes = &self.subjects.get(subject).processes;
        let mut of: BTreeMap<(Option<i32>, i64), u64> = BTreeMap::new();
        for lock in self.contention.iter().filter(|lock| processes.contains(&lock.process)) {
            *of.entry((lock.is_private.then_some(lock.process), lock.address)).or_default() += lock.waited_ns;
        }
        let mut locks: Vec<(i64, u64)> = of.into_iter().map(|((_, address), ns)| (address, ns)).collect();
        locks.sort_by_key(|&(address, ns)| (std::cmp::Reverse(ns), address));
        let all: u64 = locks.iter().map(|(_, ns)| ns).sum();
        let &(address, first) = locks.first().filter(|_| all as f64 >= self.limits.majority * waited_ns as f64)?;
        let mut before = 0;
        let is_needed = |&&(_, ns): &&(i64, u64)| {
            let has_most = before as f64 >= (1.0 - self.limits.considerable_share) * all as f64;
            before += ns;
            !has_most
        };
        let count = locks.iter().take_while(is_needed).count() as u64;
        Some(Locks { count, address: format!("{address:#x}"), share: first as f64 / all.max(1) as f64 })
    }

    /// Returns the file lock for which processes of one subject wait that others of them hold. The
    /// holder may take it again many times before another one gets it, so the length of the waits
    /// counts, and not how often the lock is handed over.
    pub(in crate::verdict) fn file_lock_within(&self, subject: SubjectId) -> Option<Convoy> {
        let processes = &self.subjects.get(subject).processes;
        let is_within = |lock: &&FileLock| lock.waiter != lock.holder && [lock.waiter, lock.holder].iter().all(|of| processes.contains(of));
        let within = || self.off_path.file_locks.iter().filter(is_within);
        // The first one has the longest waits.
        let wait = within().next()?.call.clone();
        let own: Vec<&FileLock> = within().filter(|lock| lock.call == wait).collect();
        let members: HashSet<i32> = own.iter().flat_map(|lock| [lock.waiter, lock.holder]).collect();
        let (waited_ns, count) = own.iter().fold((0, 0), |(ns, count), lock| (ns + lock.waited_ns, count + lock.count));
        let waiters = waited_ns as f64 / self.traffic.length_ns().max(1) as f64;
        let is_on_path = self.parts.crossings.handed_over.get(&subject).is_some_and(|count| *count > 0);
        let is_enough = count >= self.limits.min_occurrences && waiters >= self.limits.min_waiting && is_on_path;
        is_enough.then_some(Convoy {
            subject,
            waiters,
            members: members.len() as u64,
            are_processes: true,
            is_chain: true,
            has_no_hub: true,
            wait,
            waited_ns,
        })
    }

    /// Returns whether no two of these threads are of one process.
    fn are_processes(&self, machines: impl Iterator<Item = MachineId>) -> bool {
        let mut processes: HashSet<i32> = HashSet::new();
        let process = |machine| self.subjects.thread(self.vocabulary.machine_name(machine)).map(|thread| thread.pid);
        machines.into_iter().all(|machine| process(machine).is_some_and(|process| processes.insert(process)))
    }

    /// Returns a convoy as a reason. `holder` is the subject that holds the lock meanwhile; it is
    /// named if it is another one.
    pub(in crate::verdict) fn waits_for_lock(&self, convoy: Convoy, holder: Option<SubjectId>) -> Because {
        let Convoy { subject, waiters, members, are_processes, wait, waited_ns, .. } = convoy;
        let locks = self.locks(subject, waited_ns);
        let holder = holder.filter(|holder| *holder != subject).map(|holder| self.name(holder, None));
        Because::Convoy { pool: self.name(subject, None), waiters, members, are_processes, wait, holder, locks }
    }

    /// Returns a file lock for which another process than the subject waits most of the time, and
    /// along which the path passes from the holder to the waiter. The holder may have others work
    /// for it meanwhile.
    pub(in crate::verdict) fn file_lock(&self, subject: SubjectId) -> Option<Because> {
        // A process that executes one program after the other has several subjects; the last one
        // names it.
        let mut subjects: HashMap<i32, Vec<SubjectId>> = HashMap::new();
        for (id, subject) in self.subjects.iter().filter(|(_, subject)| !subject.is_recorder) {
            subject.processes.iter().for_each(|&process| subjects.entry(process).or_default().push(id));
        }
        let of_process = |process: i32| subjects.get(&process).map_or(&[][..], |ids| ids);
        let is_on_path = |lock: &FileLock| {
            let mut pairs =
                of_process(lock.waiter).iter().flat_map(|&to| of_process(lock.holder).iter().map(move |&from| FromTo { from, to }));
            pairs.any(|pair| self.parts.crossings.entries.contains_key(&pair))
        };
        let mut of: BTreeMap<(SubjectId, &str), Vec<(&FileLock, SubjectId)>> = BTreeMap::new();
        for lock in &self.off_path.file_locks {
            if let (Some(&waiter), Some(&holder)) = (of_process(lock.waiter).last(), of_process(lock.holder).last()) {
                of.entry((waiter, lock.call.as_str())).or_default().push((lock, holder));
            }
        }
        // The path may enter the waiter only once: the holder's turns can follow one another on it.
        of.retain(|_, locks| locks.iter().any(|(lock, _)| is_on_path(lock)));
        let waited = |locks: &[(&FileLock, SubjectId)]| locks.iter().map(|(lock, _)| lock.waited_ns).sum::<u64>();
        let ((waiter, call), locks) = of.into_iter().max_by_key(|(of, locks)| (waited(locks), std::cmp::Reverse(*of)))?;
        let (ns, count) = (waited(&locks), locks.iter().map(|(lock, _)| lock.count).sum::<u64>());
        let (_, holder) = *locks.iter().max_by_key(|(lock, holder)| (lock.waited_ns, std::cmp::Reverse(*holder)))?;
        let is_long = ns as f64 >= self.limits.majority * self.traffic.length_ns() as f64;
        let mean_ns = ns / count.max(1);
        let lock = || Because::FileLock {
            call: call.to_owned(),
            waiter: self.name(waiter, None),
            holder: self.name(holder, None),
            count,
            mean_ns,
        };
        (is_long && waiter != subject).then(lock)
    }
}
