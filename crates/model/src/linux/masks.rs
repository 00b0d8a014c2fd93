//! On which CPUs threads may run: at the begin, and since each time that they were told.
//!
//! Which CPUs a call of `sched_setaffinity` names lies in the program's memory, which no event holds. So the recorder asks the kernel just after each such call,
//! and its answers stand in the trace. An answer is that of the last change only if no other change can lie between: from the question to the answer
//! nobody was within a call about the same thread.

use super::{Linux, Thread};
use crate::linux::watch::{Allowing, ThreadId, ThreadState, Untold, Watch};
use std::sync::Arc;

/// Changes of one thread's mask that are kept, of the range that was asked for.
const MOST_CHANGES: usize = 64;
/// More CPUs no list may name.
const MOST_CPUS: u32 = 1 << 16;
/// Threads that are within the call at once. Ends of calls may be lost.
const MOST_CALLERS: usize = 4096;

/// CPUs, ascending.
pub type Cpus = Arc<[u32]>;

/// What is known of one thread's mask.
#[derive(Debug, Default)]
pub struct Mask {
    begin: Option<Cpus>,
    /// Why that is not known, where something told.
    why: Option<Untold>,
    now: Option<Cpus>,
    changes: Vec<Allowing>,
    count: u64,
    last: Option<Last>,
}

/// The last change.
#[derive(Clone, Copy, Debug)]
struct Last {
    t_ns: i64,
    place: Place,
    answered: bool,
}

/// What the answer is for.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It lies before the range.
    Begin,
    Spool(usize),
    /// Too many were kept, or it lies behind the range.
    Nowhere,
}

impl Mask {
    /// Of a thread that is born with this one.
    pub(super) fn born(cpus: Option<Cpus>) -> Mask {
        Mask { begin: cpus.clone(), now: cpus, ..Mask::default() }
    }

    /// At the range's begin, or the thread's birth. None: nothing told.
    pub fn at_begin(&self) -> Option<&Cpus> {
        self.begin.as_ref()
    }

    /// Why that is not known, where something told.
    pub fn why(&self) -> Option<Untold> {
        self.why
    }

    /// Since the last change.
    pub fn now(&self) -> Option<Cpus> {
        self.now.clone()
    }

    /// The first changes in the range; [`Mask::count`] of all of them.
    pub fn changes(&self) -> &[Allowing] {
        &self.changes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The dump knows it where no call has changed it.
    pub(super) fn dumped(&mut self, list: &[u8]) {
        if self.begin.is_none() && self.last.is_none() {
            *self = Mask::born(cpus(list));
        }
    }

    fn change(&mut self, t_ns: i64, by: Option<ThreadId>, (begin_ns, end_ns): (i64, i64)) -> Place {
        let again = Untold::Again;
        if let Some(Allowing { cpus: None, why, .. }) = self.unanswered() {
            why.get_or_insert(again);
        }
        let place = if t_ns < begin_ns {
            self.begin = None;
            Place::Begin
        } else if t_ns > end_ns {
            Place::Nowhere
        } else {
            self.count += 1;
            match self.changes.len() {
                kept if kept < MOST_CHANGES => {
                    self.changes.push(Allowing { t_ns, cpus: None, why: None, by });
                    Place::Spool(kept)
                }
                _ => Place::Nowhere,
            }
        };
        (self.now, self.last) = (None, Some(Last { t_ns, place, answered: false }));
        place
    }

    /// The last change, where it is kept and has no answer.
    fn unanswered(&mut self) -> Option<&mut Allowing> {
        match self.last {
            Some(Last { place: Place::Spool(at), answered: false, .. }) => self.changes.get_mut(at),
            _ => None,
        }
    }

    /// The last change was another thread's, if `by` made it and it is not answered. Returns when it was.
    fn retract(&mut self, by: ThreadId) -> Option<i64> {
        let at = match self.last? {
            Last { place: Place::Spool(at), answered: false, .. } => at,
            _ => return None,
        };
        let change = self.changes.get(at).filter(|change| change.by == Some(by) && at + 1 == self.changes.len())?;
        let t_ns = change.t_ns;
        self.changes.pop();
        self.count -= 1;
        // What it was before, the next answer tells.
        self.now = self.changes.last().map_or(self.begin.clone(), |change| change.cpus.clone());
        self.last =
            self.changes.last().map(|change| Last { t_ns: change.t_ns, place: Place::Spool(at - 1), answered: change.cpus.is_some() });
        Some(t_ns)
    }

    /// It may be another one than was told last.
    fn doubt(&mut self, why: Untold) {
        self.now = None;
        match &mut self.last {
            None => (self.begin, self.why) = (None, self.begin.take().map(|_| why)),
            Some(Last { place: Place::Begin, answered, .. }) => (self.begin, self.why, *answered) = (None, Some(why), true),
            Some(Last { place: Place::Spool(at), answered, .. }) => {
                if let Some(change) = self.changes.get_mut(*at).filter(|change| change.cpus.is_some()) {
                    (change.cpus, change.why, *answered) = (None, Some(why), true);
                }
            }
            Some(Last { place: Place::Nowhere, .. }) => {}
        }
    }

    /// Somebody was about to change it when it was asked.
    fn refuse(&mut self) {
        if let Some(change) = self.unanswered() {
            change.why = Some(Untold::Changing);
        }
    }

    /// False: it is none of the changes that are known.
    fn answer(&mut self, asked_ns: i64, list: &[u8]) -> bool {
        let told = cpus(list);
        let Some(last) = &mut self.last else { return told.is_none() || told == self.now };
        if asked_ns < last.t_ns {
            self.refuse();
            return true;
        }
        if last.answered {
            return told.is_none() || told == self.now;
        }
        last.answered = true;
        self.now = told.clone();
        match last.place {
            Place::Begin => self.begin = told,
            Place::Spool(at) => {
                let why = match (&told, list) {
                    (Some(_), _) => None,
                    (None, []) => Some(Untold::Gone),
                    (None, _) => Some(Untold::Damaged),
                };
                if let Some(change) = self.changes.get_mut(at) {
                    (change.cpus, change.why) = (told, why);
                }
            }
            Place::Nowhere => {}
        }
        true
    }
}

/// A question for a thread's mask, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer<'a> {
    pub tid: i32,
    /// As `0-3,5`; empty: the thread was gone.
    pub list: &'a [u8],
    /// So long before its event the thread was asked.
    pub waited_ns: i64,
    /// Whose call it was about, and the number that the caller gave.
    pub by: Option<i32>,
    pub about: Option<i32>,
    /// 1: the caller numbers threads as the events do; 0: otherwise, and `tid` is 0 where nobody could tell whom it meant; -1: not known.
    pub numbers: Option<i64>,
}

impl Linux {
    /// `who` enters a call that sets the mask of the thread `tid`, 0 being itself.
    pub(super) fn sets_mask(&mut self, who: Option<ThreadId>, tid: Option<i64>) {
        let Some(who) = who else { return };
        let target = self.target(Some(who), tid);
        if self.setting.len() >= MOST_CALLERS {
            self.setting.remove(0);
        }
        self.setting.push((who, target));
    }

    /// `who` is within no call any more. Its end may be one that no event told of: then nobody knows what it did.
    pub(super) fn left_call<W: Watch + ?Sized>(&mut self, who: ThreadId, told: bool, t_ns: i64, watch: &mut W) {
        let Some(at) = self.setting.iter().position(|(caller, _)| *caller == who) else { return };
        let (_, target) = self.setting.remove(at);
        match target {
            _ if told => {}
            Some(target) => self.changed_mask(target, Some(who), t_ns, watch),
            None => self.changed_somebodys(who, t_ns),
        }
    }

    fn target(&mut self, who: Option<ThreadId>, tid: Option<i64>) -> Option<ThreadId> {
        match i32::try_from(tid?).ok()? {
            0 => who,
            _ if who.is_some_and(|who| self.threads[who.0 as usize].numbers.elsewhere) => None,
            tid => Some(self.thread(tid, &[], false)),
        }
    }

    /// `who` has set the mask of the thread `tid`, 0 being itself; which it is no event tells.
    pub(super) fn allowed<W: Watch + ?Sized>(&mut self, who: Option<ThreadId>, tid: Option<i64>, t_ns: i64, watch: &mut W) {
        match (self.target(who, tid), who) {
            (Some(target), _) => self.changed_mask(target, who, t_ns, watch),
            (None, Some(who)) => self.changed_somebodys(who, t_ns),
            (None, None) => {}
        }
    }

    /// Of somebody whom only the answer can name, since the caller has other numbers.
    fn changed_somebodys(&mut self, who: ThreadId, t_ns: i64) {
        if self.somebodys.insert(who.0, t_ns).is_some() || self.somebodys.len() > MOST_CALLERS {
            // There was no answer to the one before.
            self.doubt_elsewhere();
        }
    }

    /// Any thread of another pid namespace may have another mask now.
    pub(super) fn doubt_elsewhere(&mut self) {
        let alive = |thread: &&mut Thread| thread.numbers.elsewhere && thread.state != ThreadState::Dead;
        self.threads.iter_mut().filter(alive).for_each(|thread| thread.mask.doubt(Untold::ForeignRuntime));
    }

    /// Cpusets change masks, and so does the kernel where CPUs go: what is known of a thread whose mask is another one by then is nothing.
    pub(super) fn answered_at_end(&mut self, answer: &Answer<'_>, t_ns: i64) {
        let told = cpus(answer.list);
        if answer.tid == 0 {
            self.online = told;
            return;
        }
        let Some(((thread, told), online)) = self.thread_of(answer.tid).zip(told).zip(self.online.as_ref()) else { return };
        let mask = &self.threads[thread.0 as usize].mask;
        let changed_since = mask.last.is_some_and(|last| last.t_ns > t_ns.saturating_sub(answer.waited_ns.max(0)));
        // The kernel tells of a mask only the CPUs that are there.
        let there = |cpus: &Cpus| cpus.iter().copied().filter(|cpu| online.contains(cpu)).collect::<Vec<u32>>();
        let differs = mask.now.as_ref().is_some_and(|now| there(now) != there(&told));
        if differs && !changed_since && !self.is_being_set(thread) {
            self.threads[thread.0 as usize].mask.doubt(Untold::AtEnd);
        }
    }

    /// Finds whose mask it was that the caller has changed; false: nobody can tell.
    fn resolve<W: Watch + ?Sized>(&mut self, answer: &Answer<'_>, t_ns: i64, watch: &mut W) -> bool {
        let Some(by) = answer.by.and_then(|by| self.thread_of(by)) else { return answer.numbers != Some(0) || answer.tid != 0 };
        let mut since = self.somebodys.remove(&by.0);
        match answer.numbers {
            Some(0) => {
                self.threads[by.0 as usize].numbers.elsewhere = true;
                if let (None, Some(wrong)) = (since, answer.about.and_then(|about| self.thread_of(about))) {
                    if let Some(t_ns) = self.threads[wrong.0 as usize].mask.retract(by) {
                        watch.disallowed(wrong);
                        since = Some(t_ns);
                    }
                }
                if answer.tid == 0 {
                    self.doubt_elsewhere();
                    return false;
                }
            }
            Some(-1) if since.is_some() => {
                self.doubt_elsewhere();
                return false;
            }
            _ => {}
        }
        if let Some(since) = since {
            let target = self.thread(answer.tid, &[], false);
            let last = self.threads[target.0 as usize].mask.last.map_or(since, |last| last.t_ns);
            self.changed_mask(target, Some(by), since.max(last).min(t_ns), watch);
        }
        true
    }

    fn changed_mask<W: Watch + ?Sized>(&mut self, target: ThreadId, by: Option<ThreadId>, t_ns: i64, watch: &mut W) {
        let mask = &mut self.threads[target.0 as usize].mask;
        let place = mask.change(t_ns, by, self.asked);
        // The first one that is not kept ends the last one that is.
        if matches!(place, Place::Spool(_)) || mask.count == MOST_CHANGES as u64 + 1 {
            watch.allowed(target, t_ns);
        }
    }

    /// Whether somebody is within a call about the thread.
    fn is_being_set(&self, thread: ThreadId) -> bool {
        let lives = |caller: ThreadId| self.threads[caller.0 as usize].state != ThreadState::Dead;
        let may_be =
            |target: Option<ThreadId>| target.map_or_else(|| self.threads[thread.0 as usize].numbers.elsewhere, |target| target == thread);
        self.setting.iter().any(|(caller, target)| may_be(*target) && lives(*caller))
    }

    /// The mask of a thread was asked.
    pub(super) fn answered<W: Watch + ?Sized>(&mut self, answer: Answer<'_>, t_ns: i64, watch: &mut W) {
        self.asks_masks = true;
        if !self.resolve(&answer, t_ns, watch) {
            return;
        }
        let Some(thread) = self.thread_of(answer.tid) else { return };
        let being_set = self.is_being_set(thread);
        let by = answer.by.and_then(|by| self.thread_of(by));
        let mask = &mut self.threads[thread.0 as usize].mask;
        if being_set {
            mask.refuse();
        } else if !mask.answer(t_ns.saturating_sub(answer.waited_ns.max(0)), answer.list) {
            // The call itself is not in the trace.
            self.changed_mask(thread, by, t_ns, watch);
            self.threads[thread.0 as usize].mask.answer(t_ns, answer.list);
        }
    }
}

/// CPUs of a list as `0-3,5`. None: it is no such list, or empty.
pub(super) fn cpus(list: &[u8]) -> Option<Cpus> {
    let mut found = Vec::new();
    for part in std::str::from_utf8(list).ok()?.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if to >= MOST_CPUS || from > to || found.len() > MOST_CPUS as usize {
            return None;
        }
        found.extend(from..=to);
    }
    Some(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_understood_or_refused() {
        assert_eq!(cpus(b"0-2,5").as_deref(), Some(&[0, 1, 2, 5][..]));
        for wrong in ["", "x", "3-1", "0-99999999", "1,"] {
            assert_eq!(cpus(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
