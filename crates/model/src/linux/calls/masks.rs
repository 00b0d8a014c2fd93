//! The CPUs on which each thread may run: at the begin of the range, and after each change.
//!
//! The CPUs that a call of `sched_setaffinity` names are located in the program's memory, which no
//! event contains. The recorder therefore asks the kernel right after each such call and writes the
//! answers into the trace. An answer belongs to the last change only if no other change can lie
//! between the two, that is, if from the question to the answer no thread was within a call about
//! the same thread.

use crate::hash::IdMap;
use crate::linux::watch::{MaskChange, ThreadId, ThreadState, UnknownReason, Watch};
use crate::linux::{Linux, Thread};
use std::sync::Arc;

/// Maximum number of recorded changes of one thread's mask within the requested range.
const MAX_CHANGES: usize = 64;
/// A list of CPUs with a number from here on is invalid.
const MAX_CPUS: u32 = 1 << 16;
/// Maximum number of threads that are within the call at once. Needed because the ends of calls may
/// be lost.
const MAX_CALLERS: usize = 4096;

/// A set of CPUs, ascending.
pub type CpuSet = Arc<[u32]>;

/// What is known about one thread's mask.
#[derive(Debug, Default)]
pub struct Mask {
    begin: Option<CpuSet>,
    /// Why the mask at the begin is unknown, if the trace says why.
    why: Option<UnknownReason>,
    now: Option<CpuSet>,
    changes: Vec<MaskChange>,
    count: u64,
    last: Option<Last>,
}

/// The last change of the mask.
#[derive(Clone, Copy, Debug)]
struct Last {
    t_ns: i64,
    place: AnswerTarget,
    answered: bool,
}

/// The part of a [`Mask`] that the answer to a change fills in.
#[derive(Clone, Copy, Debug)]
enum AnswerTarget {
    /// The mask at the begin, because the change was before the range.
    Begin,
    Recorded(usize),
    /// Nothing, because too many changes are recorded or the change was after the range.
    Nowhere,
}

impl Mask {
    /// The mask of a thread that is born with these CPUs.
    pub(in crate::linux) fn born(cpus: Option<CpuSet>) -> Mask {
        Mask { begin: cpus.clone(), now: cpus, ..Mask::default() }
    }

    /// The CPUs at the begin of the range or at the thread's birth; `None` if unknown.
    pub fn at_begin(&self) -> Option<&CpuSet> {
        self.begin.as_ref()
    }

    /// Why [`Mask::at_begin`] is unknown, if the trace says why.
    pub fn why(&self) -> Option<UnknownReason> {
        self.why
    }

    /// The CPUs since the last change; `None` if unknown.
    pub fn now(&self) -> Option<CpuSet> {
        self.now.clone()
    }

    /// The first changes in the range; [`Mask::count`] is the number of all of them.
    pub fn changes(&self) -> &[MaskChange] {
        &self.changes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the mask from the dump of the system's state, unless a call has changed it.
    pub(in crate::linux) fn dumped(&mut self, list: &[u8]) {
        if self.begin.is_none() && self.last.is_none() {
            *self = Mask::born(cpus(list));
        }
    }

    fn change(&mut self, t_ns: i64, by: Option<ThreadId>, (begin_ns, end_ns): (i64, i64)) -> AnswerTarget {
        let again = UnknownReason::Again;
        if let Some(MaskChange { cpus: None, why, .. }) = self.unanswered() {
            why.get_or_insert(again);
        }
        let place = if t_ns < begin_ns {
            self.begin = None;
            AnswerTarget::Begin
        } else if t_ns > end_ns {
            AnswerTarget::Nowhere
        } else {
            self.count += 1;
            match self.changes.len() {
                recorded if recorded < MAX_CHANGES => {
                    self.changes.push(MaskChange { t_ns, cpus: None, why: None, by });
                    AnswerTarget::Recorded(recorded)
                }
                _ => AnswerTarget::Nowhere,
            }
        };
        (self.now, self.last) = (None, Some(Last { t_ns, place, answered: false }));
        place
    }

    /// The last change, if it is recorded and has no answer yet.
    fn unanswered(&mut self) -> Option<&mut MaskChange> {
        match self.last {
            Some(Last { place: AnswerTarget::Recorded(at), answered: false, .. }) => self.changes.get_mut(at),
            _ => None,
        }
    }

    /// Withdraws the last change if `by` made it and it has no answer: it was a change of another
    /// thread. Returns the time of the change.
    fn retract(&mut self, by: ThreadId) -> Option<i64> {
        let at = match self.last? {
            Last { place: AnswerTarget::Recorded(at), answered: false, .. } => at,
            _ => return None,
        };
        let change = self.changes.get(at).filter(|change| change.by == Some(by) && at + 1 == self.changes.len())?;
        let t_ns = change.t_ns;
        self.changes.pop();
        self.count -= 1;
        // The mask before the withdrawn change, as far as known; the next answer corrects it.
        self.now = self.changes.last().map_or(self.begin.clone(), |change| change.cpus.clone());
        self.last = self.changes.last().map(|change| Last {
            t_ns: change.t_ns,
            place: AnswerTarget::Recorded(at - 1),
            answered: change.cpus.is_some(),
        });
        Some(t_ns)
    }

    /// Notes that the mask may differ from the last known one.
    fn invalidate(&mut self, why: UnknownReason) {
        self.now = None;
        match &mut self.last {
            None => (self.begin, self.why) = (None, self.begin.take().map(|_| why)),
            Some(Last { place: AnswerTarget::Begin, answered, .. }) => (self.begin, self.why, *answered) = (None, Some(why), true),
            Some(Last { place: AnswerTarget::Recorded(at), answered, .. }) => {
                if let Some(change) = self.changes.get_mut(*at).filter(|change| change.cpus.is_some()) {
                    (change.cpus, change.why, *answered) = (None, Some(why), true);
                }
            }
            Some(Last { place: AnswerTarget::Nowhere, .. }) => {}
        }
    }

    /// Notes that the last answer is not valid because another change was in progress when the
    /// kernel was asked.
    fn reject_answer(&mut self) {
        if let Some(change) = self.unanswered() {
            change.why = Some(UnknownReason::Changing);
        }
    }

    /// Processes an answer of the kernel. Returns false if the answer belongs to none of the known
    /// changes.
    fn answer(&mut self, asked_ns: i64, list: &[u8]) -> bool {
        let allowed = cpus(list);
        let Some(last) = &mut self.last else { return allowed.is_none() || allowed == self.now };
        if asked_ns < last.t_ns {
            self.reject_answer();
            return true;
        }
        if last.answered {
            return allowed.is_none() || allowed == self.now;
        }
        last.answered = true;
        self.now = allowed.clone();
        match last.place {
            AnswerTarget::Begin => self.begin = allowed,
            AnswerTarget::Recorded(at) => {
                let why = match (&allowed, list) {
                    (Some(_), _) => None,
                    (None, []) => Some(UnknownReason::Gone),
                    (None, _) => Some(UnknownReason::Damaged),
                };
                if let Some(change) = self.changes.get_mut(at) {
                    (change.cpus, change.why) = (allowed, why);
                }
            }
            AnswerTarget::Nowhere => {}
        }
        true
    }
}

/// What is known about calls that set masks, of all threads.
#[derive(Debug, Default)]
pub(in crate::linux) struct MaskCalls {
    /// Threads that are within such a call, each with the thread whose mask it sets; `None` if that
    /// one is unknown.
    pub open: Vec<(ThreadId, Option<ThreadId>)>,
    /// Threads of other pid namespaces that have set the mask of an unknown thread, with the time
    /// of the call in ns.
    pub foreign_changes: IdMap<u32, i64>,
    /// The CPUs that were online when the recording ended.
    online: Option<CpuSet>,
    /// True if the trace has answers of the kernel about changed masks.
    has_answers: bool,
}

/// The answer of the kernel to the question for a thread's mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer<'a> {
    pub tid: i32,
    /// The CPUs, like `0-3,5`; empty if the thread had ended.
    pub list: &'a [u8],
    /// Time in ns between the question and the event of the answer.
    pub waited_ns: i64,
    /// The thread whose call caused the question; `about` is the thread id that this thread passed
    /// to the call.
    pub by: Option<i32>,
    pub about: Option<i32>,
    /// The pid namespace of the caller. If it is a foreign one, `tid` is 0 for a thread that could
    /// not be determined.
    pub caller: CallerNamespace,
}

/// The pid namespace in which the caller of `sched_setaffinity` numbers threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerNamespace {
    /// The one of the events' thread ids, or the answer does not contain it.
    Initial,
    Foreign,
    /// The recorder could not determine it.
    Unknown,
}

impl CallerNamespace {
    /// The meaning of the number in an answer; `None` if the answer has no such number.
    pub(in crate::linux) fn of_number(number: Option<i64>) -> CallerNamespace {
        match number {
            Some(0) => CallerNamespace::Foreign,
            Some(-1) => CallerNamespace::Unknown,
            _ => CallerNamespace::Initial,
        }
    }
}

impl Linux {
    /// True if the trace has answers of the kernel about changed masks.
    pub fn has_mask_answers(&self) -> bool {
        self.masks.has_answers
    }

    /// Notes that the thread `caller` enters a call that sets the mask of the thread `tid`; 0 means
    /// `caller` itself.
    pub(in crate::linux) fn begins_mask_call(&mut self, caller: Option<ThreadId>, tid: Option<i64>) {
        let Some(caller) = caller else { return };
        let target = self.target(Some(caller), tid);
        if self.masks.open.len() >= MAX_CALLERS {
            self.masks.open.remove(0);
        }
        self.masks.open.push((caller, target));
    }

    /// Notes that the thread `caller` is not within such a call any more. If the end of the call
    /// was not recorded (`ended` is false), the effect of the call is unknown.
    pub(in crate::linux) fn end_mask_call<W: Watch + ?Sized>(&mut self, caller: ThreadId, ended: bool, t_ns: i64, watch: &mut W) {
        let Some(at) = self.masks.open.iter().position(|(known, _)| *known == caller) else { return };
        let (_, target) = self.masks.open.remove(at);
        match target {
            _ if ended => {}
            Some(target) => self.mask_changed(target, Some(caller), t_ns, watch),
            None => self.unknown_mask_changed(caller, t_ns),
        }
    }

    fn target(&mut self, caller: Option<ThreadId>, tid: Option<i64>) -> Option<ThreadId> {
        match i32::try_from(tid?).ok()? {
            0 => caller,
            _ if caller.is_some_and(|caller| self.threads[caller.0 as usize].pid_namespace.is_foreign) => None,
            tid => Some(self.thread(tid, &[], false)),
        }
    }

    /// Notes that the thread `caller` has set the mask of the thread `tid` (0 means itself); no
    /// event contains the mask.
    pub(in crate::linux) fn mask_set_by_call<W: Watch + ?Sized>(
        &mut self,
        caller: Option<ThreadId>,
        tid: Option<i64>,
        t_ns: i64,
        watch: &mut W,
    ) {
        match (self.target(caller, tid), caller) {
            (Some(target), _) => self.mask_changed(target, caller, t_ns, watch),
            (None, Some(caller)) => self.unknown_mask_changed(caller, t_ns),
            (None, None) => {}
        }
    }

    /// Notes that `caller` has changed the mask of a thread that only the answer can name, because
    /// `caller` uses the numbers of another pid namespace.
    fn unknown_mask_changed(&mut self, caller: ThreadId, t_ns: i64) {
        if self.masks.foreign_changes.insert(caller.0, t_ns).is_some() || self.masks.foreign_changes.len() > MAX_CALLERS {
            // The previous change had no answer.
            self.forget_foreign_masks();
        }
    }

    /// Marks the masks of all threads of other pid namespaces as unknown.
    pub(in crate::linux) fn forget_foreign_masks(&mut self) {
        let alive = |thread: &&mut Thread| thread.pid_namespace.is_foreign && thread.state != ThreadState::Dead;
        self.threads.iter_mut().filter(alive).for_each(|thread| thread.mask.invalidate(UnknownReason::ForeignRuntime));
    }

    /// Processes the masks at the end of the recording. Cpusets change masks, and so does the
    /// kernel when CPUs go offline. If a thread's final mask differs from the known one, the known
    /// one is discarded, because it is unknown when the mask changed.
    pub(in crate::linux) fn answered_at_end(&mut self, answer: &Answer<'_>, t_ns: i64) {
        let allowed = cpus(answer.list);
        if answer.tid == 0 {
            self.masks.online = allowed;
            return;
        }
        let Some(((thread, allowed), online)) = self.thread_of(answer.tid).zip(allowed).zip(self.masks.online.as_ref()) else { return };
        let mask = &self.threads[thread.0 as usize].mask;
        let changed_since = mask.last.is_some_and(|last| last.t_ns > t_ns.saturating_sub(answer.waited_ns.max(0)));
        // The kernel reports only those CPUs of a mask that are online.
        let there = |cpus: &CpuSet| cpus.iter().copied().filter(|cpu| online.contains(cpu)).collect::<Vec<u32>>();
        let differs = mask.now.as_ref().is_some_and(|now| there(now) != there(&allowed));
        if differs && !changed_since && !self.is_being_set(thread) {
            self.threads[thread.0 as usize].mask.invalidate(UnknownReason::AtEnd);
        }
    }

    /// Determines the thread whose mask the caller has changed. Returns false if it cannot be
    /// determined.
    fn resolve<W: Watch + ?Sized>(&mut self, answer: &Answer<'_>, t_ns: i64, watch: &mut W) -> bool {
        let Some(by) = answer.by.and_then(|by| self.thread_of(by)) else {
            return answer.caller != CallerNamespace::Foreign || answer.tid != 0;
        };
        let mut since = self.masks.foreign_changes.remove(&by.0);
        match answer.caller {
            CallerNamespace::Foreign => {
                self.threads[by.0 as usize].pid_namespace.is_foreign = true;
                if let (None, Some(wrong)) = (since, answer.about.and_then(|about| self.thread_of(about))) {
                    if let Some(t_ns) = self.threads[wrong.0 as usize].mask.retract(by) {
                        watch.disallowed(wrong);
                        since = Some(t_ns);
                    }
                }
                if answer.tid == 0 {
                    self.forget_foreign_masks();
                    return false;
                }
            }
            CallerNamespace::Unknown if since.is_some() => {
                self.forget_foreign_masks();
                return false;
            }
            CallerNamespace::Initial | CallerNamespace::Unknown => {}
        }
        if let Some(since) = since {
            let target = self.thread(answer.tid, &[], false);
            let last = self.threads[target.0 as usize].mask.last.map_or(since, |last| last.t_ns);
            self.mask_changed(target, Some(by), since.max(last).min(t_ns), watch);
        }
        true
    }

    fn mask_changed<W: Watch + ?Sized>(&mut self, target: ThreadId, by: Option<ThreadId>, t_ns: i64, watch: &mut W) {
        let mask = &mut self.threads[target.0 as usize].mask;
        let place = mask.change(t_ns, by, self.requested);
        // The first change that is not recorded ends the validity of the last recorded one, so it
        // is reported too.
        if matches!(place, AnswerTarget::Recorded(_)) || mask.count == MAX_CHANGES as u64 + 1 {
            watch.allowed(target, t_ns);
        }
    }

    /// True if a thread is within a call about this thread.
    fn is_being_set(&self, thread: ThreadId) -> bool {
        let lives = |caller: ThreadId| self.threads[caller.0 as usize].state != ThreadState::Dead;
        let may_be = |target: Option<ThreadId>| {
            target.map_or_else(|| self.threads[thread.0 as usize].pid_namespace.is_foreign, |target| target == thread)
        };
        self.masks.open.iter().any(|(caller, target)| may_be(*target) && lives(*caller))
    }

    /// Processes an answer of the kernel to the question for a thread's mask.
    pub(in crate::linux) fn answered<W: Watch + ?Sized>(&mut self, answer: Answer<'_>, t_ns: i64, watch: &mut W) {
        self.masks.has_answers = true;
        if !self.resolve(&answer, t_ns, watch) {
            return;
        }
        let Some(thread) = self.thread_of(answer.tid) else { return };
        let being_set = self.is_being_set(thread);
        let by = answer.by.and_then(|by| self.thread_of(by));
        let mask = &mut self.threads[thread.0 as usize].mask;
        if being_set {
            mask.reject_answer();
        } else if !mask.answer(t_ns.saturating_sub(answer.waited_ns.max(0)), answer.list) {
            // The call itself is not in the trace.
            self.mask_changed(thread, by, t_ns, watch);
            self.threads[thread.0 as usize].mask.answer(t_ns, answer.list);
        }
    }
}

/// The CPUs of a list like `0-3,5`; `None` if the text is not such a list, or is empty.
pub(in crate::linux) fn cpus(list: &[u8]) -> Option<CpuSet> {
    let mut found = Vec::new();
    for part in std::str::from_utf8(list).ok()?.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if to >= MAX_CPUS || from > to || found.len() > MAX_CPUS as usize {
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
    fn a_list_of_cpus_is_parsed_and_an_invalid_one_is_rejected() {
        assert_eq!(cpus(b"0-2,5").as_deref(), Some(&[0, 1, 2, 5][..]));
        for wrong in ["", "x", "3-1", "0-99999999", "1,"] {
            assert_eq!(cpus(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
