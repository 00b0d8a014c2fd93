//! The waits to which sampled stacks belong.
//!
//! The recorder samples the stack of a thread at the end of a wait. The sample does not say when
//! the wait began, but the kernel's switches do: the wait is the time in which the thread had no
//! CPU, up to just before the sample. This log observes the model of the kernel while a trace is
//! read, and keeps that time for each sample. The stacks themselves are read later, with the path.

use longpole_model::linux::watch::{FinishedCall, Moment, ThreadId, ThreadState, Wake, Waker, Watch};
use longpole_model::linux::Linux;
use longpole_model::system_calls::{takes_a_futex_operation, CallFamily};
use longpole_symbols::{Cause, Spaces};
use longpole_trace::{Catalogue, Item, StreamKind};
use std::collections::HashMap;

/// Largest number of waits that are kept. Each takes 48 bytes.
const MAX_WAITS: usize = 1 << 22;

/// The lock for which a thread waited, as far as its system call shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AwaitedLock {
    /// The address of a futex. It is not always a lock: the end of a thread is one, too.
    Futex(i64),
    /// A lock of a file.
    File,
}

/// A wait whose end was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledWait {
    /// Time of the sample, in ns like the others.
    pub t_ns: i64,
    pub tid: i32,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// True if a thread ended the wait, and no interrupt.
    pub by_thread: bool,
    /// `None` until the system call has returned, or if the thread waited in another one.
    pub lock: Option<AwaitedLock>,
}

/// The newest time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Away {
    begin_ns: i64,
    end_ns: i64,
    /// True while the thread has no CPU; `end_ns` is then the end of what is known.
    lasts: bool,
    by_thread: bool,
}

/// The waits of all samples of a trace, in the order of the samples.
#[derive(Debug, Default)]
pub struct SampledWaits {
    spaces: Spaces,
    away: Vec<Away>,
    /// Samples that came before the switch to their thread, because clocks differ a little: the
    /// indices of their waits.
    open: HashMap<ThreadId, usize>,
    /// Indices of the newest waits of threads whose system calls have not returned yet.
    in_calls: HashMap<ThreadId, usize>,
    /// Calls that returned at the current event, with the indices of their waits.
    returned: Vec<(FinishedCall, usize)>,
    waits: Vec<SampledWait>,
    /// Number of samples beyond the limit.
    pub beyond: u64,
}

impl SampledWaits {
    /// Processes an item after the kernel's model did.
    pub fn item(&mut self, linux: &Linux, catalogue: &Catalogue, item: &Item<'_>) {
        self.set_locks(linux);
        let Item::Event(event) = item else { return };
        if catalogue.streams.get(event.stream.0 as usize).is_none_or(|stream| stream.kind != StreamKind::Samples) {
            return;
        }
        let Some(sample) = self.spaces.follow(catalogue, event).filter(|sample| sample.cause == Cause::Waited) else { return };
        let (t_ns, tid) = (sample.t_ns, sample.tid);
        let Some(thread) = linux.thread_of(tid) else { return };
        if self.waits.len() >= MAX_WAITS {
            self.beyond += 1;
            return;
        }
        let Away { begin_ns, end_ns, lasts, by_thread } = self.away.get(thread.0 as usize).copied().unwrap_or_default();
        if lasts {
            self.open.insert(thread, self.waits.len());
        }
        let (begin_ns, end_ns) = if lasts { (0, 0) } else { (begin_ns, end_ns) };
        self.in_calls.insert(thread, self.waits.len());
        self.waits.push(SampledWait { t_ns, tid, begin_ns, end_ns, by_thread, lock: None });
    }

    /// Sets the locks of the waits whose calls have returned.
    fn set_locks(&mut self, linux: &Linux) {
        while let Some((call, at)) = self.returned.pop() {
            let Some(wait) = self.waits.get_mut(at) else { continue };
            if call.begin_ns.is_none_or(|begin| begin > wait.begin_ns) || wait.end_ns > call.end_ns {
                continue;
            }
            let name = linux.names.text(call.name);
            wait.lock = match call.arguments.about {
                Some(address) if takes_a_futex_operation(name) => Some(AwaitedLock::Futex(address)),
                _ => (CallFamily::of(name) == CallFamily::FileLock).then_some(AwaitedLock::File),
            };
        }
    }

    /// Returns the wait of the sample that was taken of this thread at this time; `None` if the
    /// kernel's events do not show it.
    pub fn find(&self, t_ns: i64, tid: i32) -> Option<SampledWait> {
        let first = self.waits.partition_point(|wait| wait.t_ns < t_ns);
        let of_time = self.waits[first..].iter().take_while(|wait| wait.t_ns == t_ns);
        of_time.copied().find(|wait| wait.tid == tid && wait.begin_ns < wait.end_ns)
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Away {
        let at = thread.0 as usize;
        if at >= self.away.len() {
            self.away.resize(at + 1, Away::default());
        }
        &mut self.away[at]
    }
}

fn is_thread(wake: &Wake) -> bool {
    matches!(wake.waker, Waker::Thread(_))
}

impl Watch for SampledWaits {
    fn moment(&mut self, moment: Moment) {
        match moment {
            Moment::Left { thread, .. } => {
                let away = self.thread(thread);
                (away.lasts, away.by_thread) = (true, false);
            }
            Moment::Woken { thread, wake } => self.thread(thread).by_thread = is_thread(&wake),
            Moment::Runs { thread, wake } => {
                let away = self.thread(thread);
                away.lasts = false;
                away.by_thread |= wake.is_some_and(|wake| is_thread(&wake));
                let Away { begin_ns, end_ns, by_thread, .. } = *away;
                if let Some(wait) = self.open.remove(&thread).and_then(|at| self.waits.get_mut(at)) {
                    (wait.begin_ns, wait.end_ns, wait.by_thread) = (begin_ns, end_ns, by_thread);
                }
            }
            _ => {}
        }
    }

    fn returned(&mut self, call: &FinishedCall) {
        if let Some(at) = call.thread.and_then(|thread| self.in_calls.remove(&thread)) {
            self.returned.push((*call, at));
        }
    }

    fn was(&mut self, thread: ThreadId, _: ThreadState, begin_ns: i64, end_ns: i64) {
        let away = self.thread(thread);
        if away.end_ns == begin_ns {
            away.end_ns = end_ns;
        } else {
            (away.begin_ns, away.end_ns) = (begin_ns, end_ns);
        }
    }
}
