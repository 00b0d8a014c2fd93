//! The waits to which sampled stacks belong.
//!
//! The recorder samples the stack of a thread at the end of a wait. The sample does not say when
//! the wait began, but the kernel's switches do: the wait is the time in which the thread had no
//! CPU, up to just before the sample. This log observes the model of the kernel while a trace is
//! read, and keeps that time for each sample. The stacks themselves are read later, with the path,
//! for a flame graph, or for a state of a timeline.

use super::time_kind::TimeKind;
use longpole_model::linux::meaning::Key;
use longpole_model::linux::watch::{BlockCause, BlockReason, FinishedCall, Moment, ThreadId, ThreadState, Wake, Waker, Watch};
use longpole_model::linux::Linux;
use longpole_model::system_calls::{takes_a_futex_operation, takes_a_timeout, CallFamily};
use longpole_symbols::{Cause, Spaces};
use longpole_trace::{Catalogue, Item, StreamKind};
use std::collections::HashMap;
use std::ops::Range;

/// Largest number of waits that are kept. Each takes 72 bytes.
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
    /// Time from which the thread waited for nothing but a CPU.
    pub ready_ns: i64,
    pub end_ns: i64,
    /// What the thread waited for until then.
    pub kind: TimeKind,
    /// True if a thread ended the wait, and no interrupt.
    pub by_thread: bool,
    /// `None` until the system call has returned, or if the thread waited in another one.
    pub lock: Option<AwaitedLock>,
}

impl SampledWait {
    /// Returns the time in ns, which is not 0.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).unsigned_abs().max(1)
    }

    /// Returns what the thread waited for at first: a CPU, if it lost that one while it was ready.
    pub fn first_kind(&self) -> TimeKind {
        if self.ready_ns > self.begin_ns {
            self.kind
        } else {
            TimeKind::Cpu
        }
    }

    /// Returns the parts of the wait by what the thread waited for; either may be empty.
    pub fn parts(&self) -> [(TimeKind, Range<i64>); 2] {
        let ready = self.ready_ns.clamp(self.begin_ns, self.end_ns.max(self.begin_ns));
        [(self.kind, self.begin_ns..ready), (TimeKind::Cpu, ready..self.end_ns)]
    }
}

/// Returns the wait of the sample that was taken of this thread at this time; `None` if the
/// kernel's events do not show it. `waits` are in the order of the samples.
pub fn find(waits: &[SampledWait], t_ns: i64, tid: i32) -> Option<&SampledWait> {
    let first = waits.partition_point(|wait| wait.t_ns < t_ns);
    let mut of_time = waits[first..].iter().take_while(|wait| wait.t_ns == t_ns);
    of_time.find(|wait| wait.tid == tid && wait.begin_ns < wait.end_ns)
}

/// The newest time in which a thread had no CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Away {
    begin_ns: i64,
    /// Begin of the time in which the thread is ready to run; `None` before it.
    ready_ns: Option<i64>,
    end_ns: i64,
    /// True while the thread has no CPU; `end_ns` is then the end of what is known.
    lasts: bool,
    by_thread: bool,
    waker: Option<Waker>,
    /// What the thread did when it blocked.
    cause: Option<BlockCause>,
}

impl Away {
    /// Sets the times of a wait.
    fn set_times(&self, wait: &mut SampledWait) {
        (wait.begin_ns, wait.end_ns, wait.by_thread) = (self.begin_ns, self.end_ns, self.by_thread);
        wait.ready_ns = self.ready_ns.unwrap_or(self.end_ns);
    }

    fn woken(&mut self, wake: &Wake) {
        self.by_thread |= matches!(wake.waker, Waker::Thread(_));
        self.waker = Some(wake.waker);
    }

    /// Returns what the thread waited for before it was ready.
    fn kind(&self, linux: &Linux) -> TimeKind {
        let call = match self.cause {
            Some(BlockCause::Disk(_)) => return TimeKind::Disk,
            Some(BlockCause::Call(name, _)) => linux.names.text(name),
            _ => "",
        };
        if CallFamily::of(call) == CallFamily::Sleep {
            return TimeKind::Timer;
        }
        match self.waker {
            Some(Waker::Context { id, .. }) => match linux.contexts.get(id.0 as usize) {
                Some(context) if context.key == Key::NET_RX_SOFTIRQ => TimeKind::Network,
                Some(context) if context.runs_timers() => TimeKind::Timer,
                _ => TimeKind::Waiting,
            },
            // The interrupt is not in the trace.
            Some(Waker::UntracedInterrupt) if takes_a_timeout(call) => TimeKind::Timer,
            _ => TimeKind::Waiting,
        }
    }
}

/// The waits of all samples of a trace, in the order of the samples.
#[derive(Debug, Default)]
pub struct SampledWaits {
    spaces: Spaces,
    away: Vec<Away>,
    /// Samples that came before the switch to their thread, because clocks differ a little: the
    /// indices of their waits.
    open: HashMap<ThreadId, usize>,
    /// Waits of such samples whose end is known by now, and what is known of them.
    closed: Vec<(usize, Away)>,
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
        while let Some((at, away)) = self.closed.pop() {
            self.waits[at].kind = away.kind(linux);
        }
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
        let away = self.away.get(thread.0 as usize).copied().unwrap_or_default();
        let (kind, lock) = (away.kind(linux), None);
        let mut wait = SampledWait { t_ns, tid, begin_ns: 0, ready_ns: 0, end_ns: 0, kind, by_thread: false, lock };
        match away.lasts {
            true => drop(self.open.insert(thread, self.waits.len())),
            false => away.set_times(&mut wait),
        }
        self.in_calls.insert(thread, self.waits.len());
        self.waits.push(wait);
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

    /// The waits in the order of the samples. Those that the kernel's events do not show are empty.
    pub fn all(&self) -> &[SampledWait] {
        &self.waits
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Away {
        let at = thread.0 as usize;
        if at >= self.away.len() {
            self.away.resize(at + 1, Away::default());
        }
        &mut self.away[at]
    }
}

impl Watch for SampledWaits {
    fn moment(&mut self, moment: Moment) {
        match moment {
            Moment::Left { thread, .. } => {
                let away = self.thread(thread);
                (away.lasts, away.by_thread, away.waker, away.cause) = (true, false, None, None);
            }
            Moment::Woken { thread, wake } => self.thread(thread).woken(&wake),
            Moment::Runs { thread, wake } => {
                let away = self.thread(thread);
                away.lasts = false;
                if let Some(wake) = wake {
                    away.woken(&wake);
                }
                let away = *away;
                if let Some(at) = self.open.remove(&thread) {
                    away.set_times(&mut self.waits[at]);
                    self.closed.push((at, away));
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

    fn was(&mut self, thread: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        let away = self.thread(thread);
        if away.end_ns == begin_ns {
            away.end_ns = end_ns;
        } else {
            (away.begin_ns, away.ready_ns, away.end_ns) = (begin_ns, None, end_ns);
        }
        match state {
            ThreadState::Runnable | ThreadState::Preempted => drop(away.ready_ns.get_or_insert(begin_ns)),
            _ => away.ready_ns = None,
        }
    }

    fn blocked(&mut self, thread: ThreadId, why: BlockReason, _: i64, _: i64) {
        self.thread(thread).cause = Some(why.cause);
    }
}
