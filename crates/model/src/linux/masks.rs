//! On which CPUs threads may run: at the begin, and since each time that they were told.
//!
//! Which CPUs a call of `sched_setaffinity` names lies in the program's memory, which no event holds. So the recorder asks the kernel just after each such call,
//! and its answers stand in the trace. An answer is that of the last change only if no other change can lie between: from the question to the answer
//! nobody was within a call about the same thread.

use super::Linux;
use crate::linux_watch::{Allowing, ThreadId, ThreadState, Untold, Watch};
use std::rc::Rc;

/// Changes of one thread's mask that are kept, of the range that was asked for.
const MOST_CHANGES: usize = 64;
/// More CPUs no list may name.
const MOST_CPUS: u32 = 1 << 16;
/// Threads that are within the call at once. Ends of calls may be lost.
const MOST_CALLERS: usize = 4096;

/// CPUs, ascending.
pub type Cpus = Rc<[u32]>;

/// What is known of one thread's mask.
#[derive(Debug, Default)]
pub struct Mask {
    begin: Option<Cpus>,
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
    Kept(usize),
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

    /// Since the last change.
    pub(super) fn now(&self) -> Option<Cpus> {
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
                    Place::Kept(kept)
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
            Some(Last { place: Place::Kept(at), answered: false, .. }) => self.changes.get_mut(at),
            _ => None,
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
            Place::Kept(at) => {
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
    /// Whose call it was about.
    pub by: Option<i32>,
}

impl Linux {
    /// `who` enters a call that sets the mask of the thread `tid`, 0 being itself.
    pub(super) fn sets_mask(&mut self, who: Option<ThreadId>, tid: Option<i64>) {
        let Some((who, target)) = who.zip(self.target(who, tid)) else { return };
        if self.setting.len() >= MOST_CALLERS {
            self.setting.remove(0);
        }
        self.setting.push((who, target));
    }

    /// `who` is within no call any more. Its end may be one that no event told of: then nobody knows what it did.
    pub(super) fn left_call<W: Watch + ?Sized>(&mut self, who: ThreadId, told: bool, t_ns: i64, watch: &mut W) {
        let Some(at) = self.setting.iter().position(|(caller, _)| *caller == who) else { return };
        let (_, target) = self.setting.remove(at);
        if !told {
            self.changed_mask(target, Some(who), t_ns, watch);
        }
    }

    fn target(&mut self, who: Option<ThreadId>, tid: Option<i64>) -> Option<ThreadId> {
        match i32::try_from(tid?).ok()? {
            0 => who,
            tid => Some(self.thread(tid, &[], false)),
        }
    }

    /// `who` has set the mask of the thread `tid`, 0 being itself; which it is no event tells.
    pub(super) fn allowed<W: Watch + ?Sized>(&mut self, who: Option<ThreadId>, tid: Option<i64>, t_ns: i64, watch: &mut W) {
        if let Some(target) = self.target(who, tid) {
            self.changed_mask(target, who, t_ns, watch);
        }
    }

    fn changed_mask<W: Watch + ?Sized>(&mut self, target: ThreadId, by: Option<ThreadId>, t_ns: i64, watch: &mut W) {
        let mask = &mut self.threads[target.0 as usize].mask;
        let place = mask.change(t_ns, by, self.asked);
        // The first one that is not kept ends the last one that is.
        if matches!(place, Place::Kept(_)) || mask.count == MOST_CHANGES as u64 + 1 {
            watch.allowed(target, t_ns);
        }
    }

    /// Whether somebody is within a call about the thread.
    fn is_being_set(&self, thread: ThreadId) -> bool {
        let lives = |caller: ThreadId| self.threads[caller.0 as usize].state != ThreadState::Dead;
        self.setting.iter().any(|(caller, target)| *target == thread && lives(*caller))
    }

    /// The mask of a thread was asked.
    pub(super) fn answered<W: Watch + ?Sized>(&mut self, answer: Answer<'_>, t_ns: i64, watch: &mut W) {
        self.asks_masks = true;
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
