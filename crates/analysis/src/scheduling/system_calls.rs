//! Entries into the kernel: system calls, page faults and interrupts, with their number, times and
//! errors, for the whole system, for some of its threads, or per process.

use crate::stats::histogram::Times;
use crate::stats::samples::Samples;
use longpole_model::linux::meaning::Key;
use longpole_model::linux::watch::{Base, ContextId, FinishedCall, Handling, ThreadId, Watch};
use longpole_model::linux::{Linux, Thread};
use longpole_model::names::NameId;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// One row: a system call, a kind of page fault, or an interrupt.
#[derive(Debug, Serialize)]
pub struct SyscallLine {
    /// One of `call`, `fault`, `irq`, `softirq`, `vector`.
    pub kind: &'static str,
    pub name: String,
    /// Process id with `--by process`. Null for the sum over all processes, and for a thread whose
    /// process is unknown.
    pub pid: Option<i32>,
    pub process: Option<String>,
    /// Number of entries; for interrupts, the number of those that ended.
    pub count: u64,
    /// Number of calls for which both entry and return were seen; the times refer to these.
    pub completed: u64,
    #[serde(flatten)]
    pub times: CallTimes,
    pub errors: Vec<Errors>,
}

/// Times of calls, in nanoseconds.
#[derive(Debug, Serialize)]
pub struct CallTimes {
    /// Total time. Null for page faults, because the kernel records only their begin.
    pub total_ns: Option<u64>,
    pub min_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
}

impl From<Times> for CallTimes {
    fn from(times: Times) -> CallTimes {
        let Times { min_ns, mean_ns, p50_ns, p99_ns, max_ns, total_ns, .. } = times;
        CallTimes { total_ns: Some(total_ns), min_ns, mean_ns, p50_ns, p99_ns, max_ns }
    }
}

/// An error number, with the number of calls that returned it.
#[derive(Debug, Serialize)]
pub struct Errors {
    pub errno: i64,
    pub name: String,
    pub count: u64,
}

/// Counts entries into the kernel during the pass.
#[derive(Debug, Default)]
pub struct Calls {
    by_process: bool,
    /// True if entries are counted by thread, which takes more memory.
    by_thread: bool,
    calls: HashMap<(What, Option<ThreadId>), OneCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Call(NameId),
    Fault(NameId),
    Interrupt(ContextId),
}

impl What {
    /// Returns the index of its kind in the order of output, and its name.
    fn described(self, linux: &Linux) -> (usize, String) {
        match self {
            What::Call(name) => (0, linux.names.text(name).to_owned()),
            What::Fault(name) => (1, format!("page fault ({})", linux.names.text(name))),
            What::Interrupt(id) => {
                let context = &linux.contexts[id.0 as usize];
                let kind = match context.key {
                    Key::Irq(_) => 2,
                    Key::Softirq(_) => 3,
                    Key::Vector(_) => 4,
                };
                (kind, context.name.clone())
            }
        }
    }
}

/// The id of a process with its first thread, or the name of a thread whose process is unknown.
type Process = (Option<(i32, Option<ThreadId>)>, Option<String>);

/// Returns the name of a process's first thread. If its creation was not seen, it is the oldest
/// thread with that number.
fn leader(linux: &Linux, pid: i32, first: Option<ThreadId>) -> Option<String> {
    let thread = match first {
        Some(first) => &linux.threads[first.0 as usize],
        None => linux.threads.iter().find(|thread| thread.tid == pid && thread.leader.is_none())?,
    };
    Some(thread.name())
}

const KINDS: [&str; 5] = ["call", "fault", "irq", "softirq", "vector"];
const FAULT: usize = 1;

#[derive(Debug, Default, Clone)]
struct OneCall {
    entered: u64,
    times: Samples,
    errors: BTreeMap<i64, u64>,
}

impl OneCall {
    fn add(&mut self, other: &OneCall) {
        self.entered += other.entered;
        self.times.add(&other.times);
        for (errno, count) in &other.errors {
            *self.errors.entry(*errno).or_default() += count;
        }
    }
}

impl Calls {
    pub fn new(by_process: bool) -> Calls {
        Calls { by_process, by_thread: by_process, calls: HashMap::new() }
    }

    /// Counts by thread also without rows per process, so that an answer can leave out threads.
    pub fn by_thread(self) -> Calls {
        Calls { by_thread: true, ..self }
    }

    pub fn answer(&self, linux: &Linux) -> Vec<SyscallLine> {
        self.answer_of(linux, |_| true)
    }

    /// Returns the rows of the threads that are covered. Entries whose thread is unknown are in the
    /// answer only if `covers` accepts `None`.
    pub fn answer_of(&self, linux: &Linux, covers: impl Fn(Option<&Thread>) -> bool) -> Vec<SyscallLine> {
        // Sums per call and process; without a known process, per name of a thread.
        let mut merged: BTreeMap<(usize, String, Process), OneCall> = BTreeMap::new();
        let mut processes: BTreeMap<(i32, Option<ThreadId>), String> = BTreeMap::new();
        for ((what, thread), call) in &self.calls {
            let thread = thread.map(|thread| &linux.threads[thread.0 as usize]);
            if !covers(thread) {
                continue;
            }
            let thread = thread.filter(|_| self.by_process);
            // Process ids are reused: a process is identified by its id and its first thread.
            let own = thread.and_then(|thread| Some((thread.process?, thread.leader)));
            let mut name = thread.map(|thread| thread.name());
            if let Some((pid, first)) = own {
                let name = name.take();
                processes.entry((pid, first)).or_insert_with(|| leader(linux, pid, first).or(name).unwrap_or_default());
            }
            let (kind, what) = what.described(linux);
            merged.entry((kind, what, (own, name))).or_default().add(call);
        }
        let mut out: Vec<SyscallLine> = merged
            .into_iter()
            .map(|((kind, name, (own, process)), call)| SyscallLine {
                kind: KINDS[kind],
                name,
                pid: own.map(|(pid, _)| pid),
                process: own.and_then(|own| processes.get(&own).cloned()).or(process),
                count: call.entered,
                completed: call.times.count(),
                times: match call.times.times().into() {
                    times if kind != FAULT => times,
                    times => CallTimes { total_ns: None, ..times },
                },
                errors: call.errors.iter().map(|(&errno, &count)| Errors { errno, name: errno_name(errno), count }).collect(),
            })
            .collect();
        let rank = |line: &SyscallLine| KINDS.iter().position(|kind| *kind == line.kind).map(|kind| kind.min(FAULT + 1));
        out.sort_by(|a, b| rank(a).cmp(&rank(b)).then(b.times.total_ns.cmp(&a.times.total_ns)).then(b.count.cmp(&a.count)));
        out
    }

    fn of(&mut self, what: What, thread: Option<ThreadId>) -> &mut OneCall {
        self.calls.entry((what, thread.filter(|_| self.by_thread))).or_default()
    }
}

impl Watch for Calls {
    fn entered(&mut self, thread: Option<ThreadId>, name: NameId, _t_ns: i64) {
        self.of(What::Call(name), thread).entered += 1;
    }

    fn faulted(&mut self, thread: Option<ThreadId>, name: NameId, _t_ns: i64) {
        self.of(What::Fault(name), thread).entered += 1;
    }

    fn handled(&mut self, handling: &Handling) {
        let thread = match handling.base {
            Base::Thread(thread) => Some(thread),
            Base::Idle | Base::Unknown => None,
        };
        let place = self.of(What::Interrupt(handling.context), thread);
        place.entered += 1;
        place.times.record(handling.own_ns);
    }

    fn returned(&mut self, call: &FinishedCall) {
        let place = self.of(What::Call(call.name), call.thread);
        if let Some(begin) = call.begin_ns {
            place.times.record(call.end_ns.saturating_sub(begin).max(0) as u64);
        }
        // Range of the kernel's error codes.
        if let Some(errno) = call.result.filter(|result| (-4095..0).contains(result)) {
            *place.errors.entry(-errno).or_default() += 1;
        }
    }
}

/// Returns the name of a Linux error number, including those that only a debugger or tracer sees
/// before a call is restarted.
fn errno_name(errno: i64) -> String {
    const NAMES: &str = "EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST \
        EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK \
        ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP 41 ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE \
        EBADR EXFULL ENOANO EBADRQC EBADSLT 58 EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM \
        EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART \
        ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP \
        EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN \
        ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM \
        ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD \
        ENOTRECOVERABLE ERFKILL EHWPOISON";
    let known = match errno {
        512 => Some("ERESTARTSYS"),
        513 => Some("ERESTARTNOINTR"),
        514 => Some("ERESTARTNOHAND"),
        515 => Some("ENOIOCTLCMD"),
        516 => Some("ERESTART_RESTARTBLOCK"),
        _ => usize::try_from(errno - 1).ok().and_then(|at| NAMES.split_ascii_whitespace().nth(at)),
    };
    match known {
        Some(name) if name.starts_with('E') => name.to_owned(),
        _ => format!("errno {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_with_their_names() {
        for (errno, name) in [(1, "EPERM"), (11, "EAGAIN"), (32, "EPIPE"), (38, "ENOSYS"), (75, "EOVERFLOW"), (88, "ENOTSOCK")] {
            assert_eq!(errno_name(errno), name);
        }
        for (errno, name) in
            [(104, "ECONNRESET"), (110, "ETIMEDOUT"), (115, "EINPROGRESS"), (133, "EHWPOISON"), (41, "errno 41"), (999, "errno 999")]
        {
            assert_eq!(errno_name(errno), name);
        }
    }
}
