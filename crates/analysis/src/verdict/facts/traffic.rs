//! Wake-ups between machines, the waits that they ended, and sleeps until a time that the sleeper
//! set itself.
//!
//! The critical path follows one chain of causes. Facts outside of it decide whether a sleep on it
//! delays anything: threads that wait meanwhile, a lock that passes from one thread to the
//! next, a timer that was set for the whole run. These sums are collected in the same pass.
//!
//! A wake-up by an interrupt context counts for the thread that caused the context. Example: a
//! softirq delivers a packet on the loopback device, and the thread that sent the packet has woken
//! its receiver.

use crate::verdict::facts::polls::Polls;
use longpole_model::hash::IdMap;
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, StateKind};
use longpole_model::names::NameId;

/// Number of equal parts of the time in which wake-ups are counted; their width doubles as the
/// trace grows.
const PARTS: usize = 256;
/// Initial width of a part.
const FIRST_WIDTH_NS: u64 = 1 << 16;
/// Largest number of machines whose wake-ups are counted by parts of the time. Short-lived programs
/// may occur by the hundred thousand.
const MAX_COUNTED: usize = 1 << 14;
/// Largest number of pairs of machines for which wake-ups are counted.
const MAX_PAIRS: usize = 1 << 18;

/// Wake-ups of one machine by another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    pub count: u64,
    /// Time for which the woken machine had waited.
    pub waited_ns: u64,
    /// Number of wake-ups by the waker's own code, without an interrupt in between.
    pub direct: u64,
    pub direct_waited_ns: u64,
    /// Most frequent reason of the woken machine's waits.
    pub why: Option<NameId>,
    /// Votes for `why` less those against it (Boyer and Moore, 1981).
    votes: u64,
}

/// Times from the begins of lives to their ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lives {
    pub count: u64,
    pub ns: u64,
    pub longest_ns: u64,
}

impl Lives {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Returns the lives of several machines.
    pub fn of<'a>(own: impl IntoIterator<Item = &'a Own>) -> Lives {
        own.into_iter().map(Own::lives).fold(Lives::default(), |all, own| Lives {
            count: all.count + own.count,
            ns: all.ns + own.ns,
            longest_ns: all.longest_ns.max(own.longest_ns),
        })
    }
}

/// Mean and variance of values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    pub count: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    pub fn variance(&self) -> f64 {
        (self.squares / self.count.max(1) as f64 - self.mean() * self.mean()).max(0.0)
    }
}

/// Times and counts of one machine by itself.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Number of sleeps until a time that the machine set itself, including timeouts of other
    /// waits.
    pub sleeps: u64,
    pub slept_ns: u64,
    /// Begin and end of the longest sleep.
    pub longest_sleep: Option<(u64, u64)>,
    /// Lengths of its sleeps after the first one, and of the intervals between the ends of sleeps,
    /// in ns.
    pub sleep_times: Moments,
    pub intervals: Moments,
    /// End of its last sleep.
    awoke_ns: Option<u64>,
    /// Time in which it ran, including system calls.
    pub ran_ns: u64,
    /// The part of `ran_ns` in the program's own code.
    pub ran_own_code_ns: u64,
    /// Time from wake-ups and preemptions to the next run.
    pub ready_ns: u64,
    /// Time in which it was ready to run and held back by a quota.
    pub throttled_ns: u64,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    /// Lives that have ended, of the processes that had this machine one after the other.
    ended: Lives,
    /// Begin of the current life.
    born_ns: Option<u64>,
    /// Number of threads and processes that it created.
    pub forks: u64,
    /// Wake-ups by others, by parts of the time.
    woken: Vec<u32>,
}

/// The current activity of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Nothing,
    RunsOwnCode,
    /// Runs in a system call, or in another way.
    Runs,
    Ready,
    Sleeps,
    /// Ready to run, and held back by a quota.
    Throttled,
    Blocked,
}

/// The current state of a machine.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    doing: Doing,
    since: u64,
    /// End of its last wait.
    awake_since: u64,
    why: Option<NameId>,
    /// True for an interrupt context, which others cause and which waits for nothing.
    is_context: bool,
    /// Thread that caused the work of this interrupt context.
    origin: Option<MachineId>,
}

/// The sums over all machines and pairs of machines.
#[derive(Debug)]
pub struct Traffic {
    begin: Option<u64>,
    /// Time before which nothing is counted.
    requested_begin: u64,
    /// Width of a part of the time, in ns.
    width: u64,
    now: Vec<Now>,
    own: Vec<Own>,
    pairs: IdMap<(u32, u32), Pair>,
    /// Time for which programs ran, summed over all of them, by parts of the time.
    ran: Vec<u64>,
    /// Number of machines whose wake-ups are counted by parts of the time.
    counted: usize,
    end: u64,
    /// Time of the last end mark.
    end_mark: Option<u64>,
    /// Threads that poll for the end of another thread's work.
    pub polls: Polls,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            begin: None,
            requested_begin: 0,
            width: FIRST_WIDTH_NS,
            now: Vec::new(),
            own: Vec::new(),
            pairs: IdMap::default(),
            ran: Vec::new(),
            counted: 0,
            end: 0,
            end_mark: None,
            polls: Polls::default(),
        }
    }
}

impl Traffic {
    /// Sets the time before which nothing is counted. Must be called before the first interaction.
    pub fn begin_at(&mut self, t: u64) {
        self.requested_begin = t;
    }

    pub fn interaction(&mut self, vocabulary: &Vocabulary, interaction: &Interaction) {
        let Interaction { t, effect, .. } = *interaction;
        if matches!(effect, Effect::Declare { .. }) {
            return;
        }
        self.begin.get_or_insert(t.max(self.requested_begin));
        self.end = self.end.max(t);
        match effect {
            Effect::State { machine, state } => {
                let doing = match vocabulary.names.state_kind(state) {
                    StateKind::Asleep => Doing::Sleeps,
                    StateKind::Throttled => Doing::Throttled,
                    StateKind::Runnable | StateKind::Preempted => Doing::Ready,
                    StateKind::User => Doing::RunsOwnCode,
                    kind if kind.is_code() => Doing::Runs,
                    _ => Doing::Nothing,
                };
                self.change(machine, t, doing, None);
            }
            Effect::Block { machine, why, .. } => {
                self.stops(machine, t);
                self.change(machine, t, Doing::Blocked, Some(why));
            }
            Effect::Wake { machine, cause } => self.woken(vocabulary, machine, t, cause),
            Effect::Fork { machine, cause } => {
                self.now_of(machine);
                self.now_of(cause.by);
                self.own[cause.by.0 as usize].forks += 1;
                self.now_of(machine).awake_since = t;
                self.polls.end(cause.by);
                self.count(cause.by, machine, 0, None);
            }
            Effect::Push { machine, cause, .. } => {
                let origin = cause.flatten().map(|cause| self.origin(cause.by));
                let now = self.now_of(machine);
                (now.is_context, now.origin) = (true, origin);
            }
            Effect::Pop { machine } => self.now_of(machine).origin = None,
            Effect::Get { machine, .. } | Effect::Put { machine, .. } if self.now_of(machine).doing == Doing::Blocked => {
                self.change(machine, t, Doing::Runs, None);
            }
            Effect::Stop { machine } => {
                self.stops(machine, t);
                self.change(machine, t, Doing::Nothing, None);
                self.own[machine.0 as usize].end_life(t);
            }
            // An end before the begin of the part does not count.
            Effect::End { .. } if self.end >= self.requested_begin => self.end_mark = Some(self.end),
            _ => {}
        }
    }

    /// Returns the state of a machine; makes room for a new machine.
    fn now_of(&mut self, machine: MachineId) -> &mut Now {
        let at = machine.0 as usize;
        if self.now.len() <= at {
            self.now.resize(at + 1, Now::default());
            self.own.resize(at + 1, Own::default());
        }
        &mut self.now[at]
    }

    /// Returns the thread that caused the work of an interrupt context; for a thread, the thread.
    fn origin(&self, machine: MachineId) -> MachineId {
        let now = self.now.get(machine.0 as usize).copied().unwrap_or_default();
        now.origin.filter(|_| now.is_context).unwrap_or(machine)
    }

    /// Records that the machine waits or ends.
    fn stops(&mut self, machine: MachineId, t: u64) {
        let now = *self.now_of(machine);
        if !now.is_context && now.doing != Doing::Blocked {
            self.polls.stopped(machine, now.awake_since, t);
        }
    }

    /// Records that the machine slept until a time that it set itself.
    fn slept(&mut self, machine: MachineId, since: u64, t: u64) {
        if since < t {
            self.own[machine.0 as usize].add_sleep(since, t);
            self.polls.slept(machine, (since, t));
        }
    }

    /// Records that the machine changes what it does at time `t`.
    fn change(&mut self, machine: MachineId, t: u64, doing: Doing, why: Option<NameId>) {
        let begin = self.begin.unwrap_or(0);
        let before = *self.now_of(machine);
        let since = before.since.max(begin);
        let ns = t.saturating_sub(since);
        let own = &mut self.own[machine.0 as usize];
        match before.doing {
            Doing::Runs | Doing::RunsOwnCode => {
                own.ran_ns += ns;
                own.ran_own_code_ns += if before.doing == Doing::RunsOwnCode { ns } else { 0 };
                if !before.is_context {
                    self.add_running(since, t);
                }
            }
            Doing::Ready => own.ready_ns += ns,
            Doing::Throttled => own.throttled_ns += ns,
            Doing::Sleeps if doing != Doing::Sleeps => self.slept(machine, since, t),
            _ => {}
        }
        let own = &mut self.own[machine.0 as usize];
        own.first_ns.get_or_insert(t);
        own.born_ns.get_or_insert(t);
        own.last_ns = t;
        let now = &mut self.now[machine.0 as usize];
        if before.doing == Doing::Blocked && doing == Doing::Blocked {
            return;
        }
        (now.doing, now.since, now.why) = (doing, t, why);
    }

    fn woken(&mut self, vocabulary: &Vocabulary, machine: MachineId, t: u64, cause: Option<Cause>) {
        let before = *self.now_of(machine);
        if before.is_context {
            let origin = cause.map(|cause| self.origin(cause.by));
            let now = self.now_of(machine);
            now.origin = origin.or(now.origin);
            return;
        }
        if before.doing != Doing::Blocked {
            return;
        }
        let since = before.since.max(self.begin.unwrap_or(0));
        self.change(machine, t, Doing::Ready, None);
        self.now_of(machine).awake_since = t;
        let Some(cause) = cause else { return };
        if cause.by == machine {
            match cause.link.map(|link| vocabulary.names.link_kind(link)) {
                Some(LinkKind::Timer) => self.slept(machine, since, t),
                // Another host wakes it.
                Some(LinkKind::Outside) => {
                    self.polls.end(machine);
                    self.count_woken(machine, t);
                }
                _ => {}
            }
            return;
        }
        let direct = !self.now_of(cause.by).is_context;
        let by = self.origin(cause.by);
        if by != machine {
            self.polls.end(by);
            self.polls.end(machine);
            self.count(by, machine, t.saturating_sub(since), before.why.filter(|_| direct));
            self.count_woken(machine, t);
        }
    }

    fn count(&mut self, by: MachineId, machine: MachineId, waited_ns: u64, direct_why: Option<NameId>) {
        let key = (by.0, machine.0);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        let pair = self.pairs.entry(key).or_default();
        pair.count += 1;
        pair.waited_ns += waited_ns;
        if let Some(why) = direct_why {
            pair.direct += 1;
            pair.direct_waited_ns += waited_ns;
            // The reason of the majority remains, if there is one.
            match pair.why {
                Some(known) if known == why => pair.votes += 1,
                _ if pair.votes == 0 => (pair.why, pair.votes) = (Some(why), 1),
                _ => pair.votes -= 1,
            }
        }
    }

    /// Doubles the width of the parts until they reach this time after the begin.
    fn make_room(&mut self, from_begin: u64) {
        while from_begin / self.width >= PARTS as u64 {
            self.width *= 2;
            for own in &mut self.own {
                let woken = std::mem::take(&mut own.woken);
                own.woken = woken.chunks(2).map(|two| two.iter().sum()).collect();
            }
            let ran = std::mem::take(&mut self.ran);
            self.ran = ran.chunks(2).map(|two| two.iter().sum()).collect();
        }
    }

    /// Adds time in which a program ran to the parts of the time.
    fn add_running(&mut self, since: u64, t: u64) {
        let begin = self.begin.unwrap_or(0);
        let (mut from, to) = (since.saturating_sub(begin), t.saturating_sub(begin));
        self.make_room(to);
        while from < to {
            let part = (from / self.width) as usize;
            if self.ran.len() <= part {
                self.ran.resize(part + 1, 0);
            }
            let until = to.min((part as u64 + 1) * self.width);
            self.ran[part] += until - from;
            from = until;
        }
    }

    /// Returns parts of the time, each with the mean number of programs that ran at a time.
    pub fn running(&self) -> impl Iterator<Item = ((u64, u64), f64)> + '_ {
        let begin = self.begin.unwrap_or(0);
        self.ran.iter().enumerate().map(move |(part, &ns)| {
            let from = begin + part as u64 * self.width;
            let to = (from + self.width).min(self.end.max(from + 1));
            ((from, to), ns as f64 / (to - from) as f64)
        })
    }

    /// Counts a wake-up of the machine in the part of the time in which it occurs.
    fn count_woken(&mut self, machine: MachineId, t: u64) {
        let Some(from_begin) = t.checked_sub(self.begin.unwrap_or(0)) else { return };
        self.make_room(from_begin);
        let part = (from_begin / self.width) as usize;
        let woken = &mut self.own[machine.0 as usize].woken;
        if woken.is_empty() {
            if self.counted >= MAX_COUNTED {
                return;
            }
            self.counted += 1;
        }
        if woken.len() <= part {
            woken.resize(part + 1, 0);
        }
        woken[part] += 1;
    }

    /// Returns the times and counts of a machine; `None` if it did nothing.
    pub fn own(&self, machine: MachineId) -> Option<&Own> {
        self.own.get(machine.0 as usize)
    }

    /// Returns the waker, the woken machine, and the wake-ups of each pair.
    pub fn pairs(&self) -> impl Iterator<Item = (MachineId, MachineId, &Pair)> {
        self.pairs.iter().map(|(&(by, machine), pair)| (MachineId(by), MachineId(machine), pair))
    }

    /// Returns the time of the last end mark: the end of the command, for example. `None` if no end
    /// was marked.
    pub fn end_mark(&self) -> Option<u64> {
        self.end_mark
    }

    /// Returns begin and end of the interactions.
    pub fn range(&self) -> (u64, u64) {
        (self.begin.unwrap_or(0), self.end)
    }

    /// Returns the time from the first to the last interaction, in ns.
    pub fn length_ns(&self) -> u64 {
        let (begin, end) = self.range();
        end.saturating_sub(begin)
    }

    /// Returns the time in which these machines work steadily: without the share `left_out` of
    /// their wake-ups at each end. Returns `None` if no machine wakes them.
    pub fn steady(&self, machines: impl Iterator<Item = MachineId>, (from, to): (u64, u64), left_out: f64) -> Option<(u64, u64)> {
        let begin = self.begin.unwrap_or(0);
        let mut sums = [0u64; PARTS];
        for own in machines.filter_map(|machine| self.own(machine)) {
            own.woken.iter().zip(&mut sums).for_each(|(&count, sum)| *sum += u64::from(count));
        }
        let bound = |part: usize| begin + part as u64 * self.width;
        let counted: Vec<usize> = (0..PARTS).filter(|&part| bound(part + 1) > from && bound(part) < to).collect();
        let all: u64 = counted.iter().map(|&part| sums[part]).sum();
        if all == 0 {
            return None;
        }
        let least = (all as f64 * left_out) as u64;
        let reach = |parts: &[usize]| {
            let mut sum = 0;
            parts.iter().copied().find(|&part| {
                sum += sums[part];
                sum > least
            })
        };
        let backwards: Vec<usize> = counted.iter().rev().copied().collect();
        let (first, last) = (reach(&counted)?, reach(&backwards)?);
        (first <= last).then(|| (bound(first).max(from), bound(last + 1).min(to)))
    }
}

impl Own {
    /// Returns the time from its first to its last activity, in ns. `None` if it was never active.
    pub fn life_ns(&self) -> Option<u64> {
        self.first_ns.map(|first| self.last_ns - first)
    }

    /// Returns the lives up to now; the current one lasts until the last activity.
    fn lives(&self) -> Lives {
        let mut lives = self.ended;
        if let Some(born) = self.born_ns {
            lives.add(self.last_ns - born);
        }
        lives
    }

    fn end_life(&mut self, t: u64) {
        if let Some(born) = self.born_ns.take() {
            self.ended.add(t - born);
        }
    }

    fn add_sleep(&mut self, since: u64, t: u64) {
        self.sleeps += 1;
        self.slept_ns += t - since;
        if let Some(before) = self.awoke_ns.replace(t) {
            self.sleep_times.add((t - since) as f64);
            self.intervals.add(t.saturating_sub(before) as f64);
        }
        if self.longest_sleep.is_none_or(|(begin, end)| end - begin < t - since) {
            self.longest_sleep = Some((since, t));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longpole_model::kinds::NameKind;

    #[test]
    fn each_life_of_a_machine_counts() {
        let (mut traffic, mut vocabulary) = (Traffic::default(), Vocabulary::default());
        let machine = vocabulary.machine("", "date");
        let state = vocabulary.names.intern_as("user", NameKind::State(StateKind::User));
        let mut at = |t, effect| traffic.interaction(&vocabulary, &Interaction { t, line: 0, effect });
        for begin in [100, 200, 300] {
            at(begin, Effect::State { machine, state });
            at(begin + 30, Effect::Stop { machine });
        }
        at(400, Effect::State { machine, state });
        at(410, Effect::State { machine, state });
        let lives = Lives::of(traffic.own(machine));
        assert_eq!((lives.count, lives.ns, lives.longest_ns), (4, 100, 30));
    }
}
