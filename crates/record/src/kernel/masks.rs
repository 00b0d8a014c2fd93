//! Records the affinity masks of threads (the CPUs on which they may run) each time they are
//! changed.
//!
//! A call of `sched_setaffinity` has the CPUs in the program's memory, which no event contains. So
//! a second, tiny instance of the tracer records only this call. A thread of the recorder is woken
//! at the end of each call and asks the kernel for the mask. It writes the answer into the
//! recording's own instance through the tracer's marker, so the answer is in the pages like any
//! event, together with the time of the question.
//!
//! The answer is the mask that the kernel has just after the call. If the mask is changed again
//! within those microseconds, the answer may be that of the later change; a reader sees this
//! possibility from both times. A thread that has ended by then has no mask.
//!
//! While many events come, calls are not watched (see `rate`): the masks that they set are unknown.

mod rate;

use super::exclude_self::SelfExclusion;
use super::plan::KernelError;
use super::state_reader;
use crate::clock::ClockSource;
use longpole_ftrace::{Instance, TraceFs};
use rate::EventRate;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Prefix of the names of these instances. They contain nothing that must be saved after a recorder
/// was killed.
pub const PREFIX: &str = "longpole_masks";
/// Number by which a marker with a mask is recognized.
pub const MARK: u32 = 0x6d61_736b;
/// The event by which the kernel records markers.
pub const MARKER: (&str, &str) = ("ftrace", "raw_data");

/// Begin of the note for a recording without masks.
pub const MISSING: &str = "changes of the CPUs on which threads may run are not recorded";

/// The events of the second instance.
const CALLS: [&str; 2] = ["sys_enter_sched_setaffinity", "sys_exit_sched_setaffinity"];
/// Size of each CPU's buffer: enough for some hundred calls.
const BUFFER_KB: u64 = 32;
/// Largest number of threads that are inside the call at the same time.
const MAX_CALLERS: usize = 4096;
/// Size of the read buffer. A longer text without a line end is no line of the tracer and is
/// dropped.
const MAX_TEXT: usize = 64 << 10;
/// Longest list of CPUs in bytes; the kernel accepts markers of three times that. A longer list is
/// left out.
const LONGEST_LIST: usize = 1000;
/// Number of CPUs in a mask. The kernel refuses the question if there is less room than it could
/// need.
const MAX_CPUS: usize = 1 << 13;

/// From `linux/nsfs.h`, since Linux 6.11: returns the number that a thread of that pid namespace
/// has in our namespace.
const NS_GET_PID_FROM_PIDNS: libc::Ioctl = 0x8004_b706u32 as libc::Ioctl;

/// Largest number of threads that are asked at the end.
const MAX_THREADS: usize = 50_000;
/// Value of [`Call::numbers`] for masks that were read at the end of the recording and not after a
/// call.
pub const AT_END: i32 = 2;
/// Values of [`Call::numbers`]: the caller numbers threads like this process, differently, or it
/// had ended before its namespace could be read.
const OWN: i32 = 1;
const OTHER: i32 = 0;
const UNKNOWN: i32 = -1;

/// A call that sets a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// Thread that makes the call.
    by: i32,
    /// Thread that the caller names, in the numbers of the caller. 0 is the caller itself.
    about: i32,
    /// The same thread in the numbers of this process; 0 if not known.
    tid: i32,
    /// Pid namespace of the numbers: [`OWN`], [`OTHER`], [`UNKNOWN`] or [`AT_END`].
    numbers: i32,
}

impl Call {
    /// Describes the call of a thread that is still inside it, or was a moment ago.
    fn of(by: i32, about: i32) -> Call {
        let call = Call { by, about, tid: about, numbers: OWN };
        if about == 0 || about == by {
            return Call { tid: by, ..call };
        }
        let Ok(namespace) = File::open(format!("/proc/{by}/ns/pid")) else { return Call { numbers: UNKNOWN, ..call } };
        match namespace.metadata() {
            Ok(found) if found.ino() == super::FIRST_PIDS => call,
            Ok(_) => Call { tid: number_here(&namespace, about).unwrap_or(0), numbers: OTHER, ..call },
            Err(_) => Call { numbers: UNKNOWN, ..call },
        }
    }
}

/// Returns our number of the thread that has `number` in that pid namespace. Always `None` on
/// kernels before 6.11.
fn number_here(namespace: &File, number: i32) -> Option<i32> {
    // SAFETY: the descriptor is open; the call takes a number and returns one.
    let found = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_PID_FROM_PIDNS, number) };
    (found > 0).then_some(found)
}

/// The second instance of the tracer and the thread that reads from it.
#[derive(Debug)]
pub struct Masks {
    instance: Option<Instance>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    missed: Arc<Missed>,
}

/// Number of changes whose masks are missing in the trace.
#[derive(Debug, Default)]
struct Missed {
    /// Events that were lost because the second instance's buffer was full.
    calls: AtomicU64,
    /// Answers that were lost because the first instance's buffer was full.
    answers: AtomicU64,
}

impl Missed {
    fn notes(&self) -> Vec<String> {
        let calls = "events of calls that change the allowed CPUs of threads were lost: the masks since then are unknown";
        let answers = "the allowed CPUs of threads could not be written into the kernel's buffer: these masks are unknown";
        let note = |(count, what): (&AtomicU64, &str)| {
            Some(count.load(Ordering::Relaxed)).filter(|count| *count > 0).map(|count| format!("{count} {what}"))
        };
        [(&self.calls, calls), (&self.answers, answers)].into_iter().filter_map(note).collect()
    }
}

/// Makes the second instance, in which no event is enabled yet.
pub fn prepare(tracefs: &TraceFs) -> Result<Instance, KernelError> {
    let instance = Instance::create(tracefs, PREFIX)?;
    instance.set_buffer_size_kb(BUFFER_KB)?;
    // Wake the reader for each event.
    instance.set("buffer_percent", "0")?;
    Ok(instance)
}

impl Masks {
    /// Starts the second instance. `main` gets the answers. From the return of this function on,
    /// calls are noticed.
    pub fn begin(instance: Instance, main: &Instance, clock: ClockSource) -> Result<Masks, KernelError> {
        let mut switch = Switch::of(&instance);
        switch.set(true).map_err(KernelError::io("enable", instance.path().join("events/syscalls")))?;
        let io = |path: PathBuf| move |error: io::Error| KernelError::io("open", path)(error);
        let (pipe, marker) = (instance.path().join("trace_pipe"), main.path().join("trace_marker_raw"));
        let calls = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).map_err(io(pipe))?;
        let answers = OpenOptions::new().write(true).open(&marker).map_err(io(marker))?;
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| KernelError::io("make", "eventfd")(error.into()))?;
        let (wake, stop) = (Arc::new(wake), Arc::new(AtomicBool::new(false)));
        let (waking, stopping) = (Arc::clone(&wake), Arc::clone(&stop));
        let (missed, quiet) = (Arc::<Missed>::default(), SelfExclusion::here());
        let missing = Arc::clone(&missed);
        let rate = EventRate::of(main).map_err(KernelError::io("read the counters of", main.path()))?;
        let work = move || {
            if let Some(quiet) = quiet {
                quiet.join();
            }
            let watch = WatchedCalls { pipe: calls, switch, rate };
            watch.answer_all(Answers { marker: answers, clock, missed: &missing }, &waking, &stopping);
        };
        instance.start()?;
        let thread = std::thread::Builder::new().name("longpole-masks".to_owned()).spawn(work);
        let thread = Some(thread.map_err(KernelError::io("start", "a thread"))?);
        Ok(Masks { instance: Some(instance), thread, stop, wake, missed })
    }

    /// Answers the last calls, and then reads the mask of every thread once more: cpusets, and CPUs
    /// that come or go, change masks as well without a call. Returns diagnostics about masks that
    /// were missed.
    ///
    /// The second instance is removed only when this value is dropped. The kernel takes 50 ms for
    /// that, which need not be recorded.
    pub fn end(&mut self, main: &Instance, clock: ClockSource) -> Vec<String> {
        self.finish();
        if let Ok(marker) = OpenOptions::new().write(true).open(main.path().join("trace_marker_raw")) {
            Answers { marker, clock, missed: &self.missed }.ask_all();
        }
        self.missed.notes()
    }

    /// Ends the thread after all calls until now are answered.
    fn finish(&mut self) {
        if let Some(instance) = &self.instance {
            let _ = instance.stop();
        }
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.finish();
        // If the instance cannot be removed, a later recorder finds and removes it as that of a
        // dead one.
        let _ = self.instance.take().map(Instance::remove);
    }
}

/// Writer of the answers.
struct Answers<'a> {
    marker: File,
    clock: ClockSource,
    missed: &'a Missed,
}

impl Answers<'_> {
    fn ask(&mut self, call: Call) {
        let asked = self.clock.now();
        let list = (call.tid != 0).then(|| mask(call.tid)).flatten().map(|mask| list(&mask)).unwrap_or_default();
        self.write(call, asked, &list);
    }

    fn write(&mut self, call: Call, asked: u64, list: &str) {
        if self.marker.write_all(&answer(call, asked, list)).is_err() {
            self.missed.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the masks of all threads. The first answer, for thread 0, has the CPUs that are
    /// online, because the kernel leaves out all others in its masks.
    fn ask_all(&mut self) {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let nobody = Call { by: 0, about: 0, tid: 0, numbers: AT_END };
        let asked = self.clock.now();
        self.write(nobody, asked, online.trim());
        let threads = state_reader::numbers("/proc").into_iter().flat_map(|pid| state_reader::numbers(&format!("/proc/{pid}/task")));
        for tid in threads.take(MAX_THREADS) {
            self.ask(Call { tid, ..nobody });
        }
    }
}

/// Switches the events of the second instance on and off.
struct Switch {
    /// The file `enable` of each event.
    files: [PathBuf; 2],
    on: bool,
}

impl Switch {
    fn of(instance: &Instance) -> Switch {
        let files = CALLS.map(|name| instance.path().join("events/syscalls").join(name).join("enable"));
        Switch { files, on: false }
    }

    fn set(&mut self, on: bool) -> io::Result<()> {
        self.on = on;
        self.files.iter().try_for_each(|file| std::fs::write(file, if on { "1" } else { "0" }))
    }
}

/// The calls as the second instance shows them.
struct WatchedCalls {
    pipe: File,
    switch: Switch,
    /// Rate of the events of the first instance.
    rate: EventRate,
}

impl WatchedCalls {
    /// Body of the thread: reads calls from the second instance and answers them, until it is
    /// stopped.
    fn answer_all(mut self, mut answers: Answers<'_>, wake: &OwnedFd, stop: &AtomicBool) {
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(rate::LOOK_INTERVAL.subsec_nanos()) };
        let mut text = vec![0; MAX_TEXT];
        let (mut filled, mut callers) = (0, HashMap::new());
        loop {
            // The end was requested: read what is there once more, then return.
            let last = stop.load(Ordering::Acquire);
            if !last {
                let mut ready =
                    [PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::IN), PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
                let _ = poll(&mut ready, Some(&timeout));
            }
            while let Ok(size @ 1..) = self.pipe.read(&mut text[filled..]) {
                filled += size;
                let whole = text[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                for line in text[..whole].split(|byte| *byte == b'\n') {
                    let line = String::from_utf8_lossy(line);
                    if let Some(call) = asked(&line, &mut callers, &Call::of) {
                        answers.ask(call);
                    }
                    answers.missed.calls.fetch_add(lost(&line), Ordering::Relaxed);
                }
                text.copy_within(whole..filled, 0);
                filled = if filled - whole == MAX_TEXT { 0 } else { filled - whole };
            }
            if last {
                return;
            }
            if self.adapt_to_rate() {
                // The ends of these calls are missing.
                callers.clear();
            }
        }
    }

    /// Switches the events off if many events come, and on again later. Returns true if it switched
    /// them. Without a known rate they stay as they are.
    fn adapt_to_rate(&mut self) -> bool {
        let Some(Ok(rate)) = self.rate.highest() else { return false };
        let on = rate::watches(self.switch.on, rate);
        // If the kernel refuses, the calls are watched or not as before, which the trace shows.
        on != self.switch.on && self.switch.set(on).is_ok()
    }
}

/// Parses a line of the tracer's text. Returns the call that changed a mask, at the end of the
/// call.
///
/// The begin of a call is `NAME-TID [CPU] FLAGS TIME: sys_sched_setaffinity(pid: 0x2f4, …`, where
/// pid 0 is the caller. The end is `… sys_sched_setaffinity -> 0x0`. A thread's name may contain
/// any text. `callers` holds the calls that have begun and not ended, by thread.
fn asked(line: &str, callers: &mut HashMap<i32, Call>, look: &dyn Fn(i32, i32) -> Call) -> Option<Call> {
    let (before, rest) = line.rsplit_once(": sys_sched_setaffinity")?;
    let caller: i32 = before.rsplit_once(" [")?.0.trim_end().rsplit_once('-')?.1.parse().ok()?;
    if let Some(result) = rest.strip_prefix(" -> ") {
        let call = callers.remove(&caller)?;
        return (result.trim() == "0x0").then_some(call);
    }
    let target = rest.strip_prefix("(pid: ")?.split([',', ')']).next()?;
    let target = u64::from_str_radix(target.trim_start_matches("0x"), 16).ok()? as u32 as i32;
    if callers.len() >= MAX_CALLERS {
        // This number of open calls is only reached if their ends were lost.
        callers.clear();
    }
    callers.insert(caller, look(caller, target));
    None
}

/// Returns the number of lost events in a line such as `CPU:0 [LOST 5 EVENTS]`, at least 1 if the
/// line has no count.
fn lost(line: &str) -> u64 {
    let lost = line.strip_prefix("CPU:").and_then(|rest| rest.trim_end().split_once(" [LOST ")?.1.strip_suffix("EVENTS]"));
    lost.map_or(0, |count| count.trim().parse().unwrap_or(1))
}

/// Makes the marker: its number, the thread, the caller, the caller's number for the thread, the
/// namespace of that number, the time before the question, and the list such as `0-3,8`. The list
/// is empty if the thread has ended.
fn answer(call: Call, asked: u64, list: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + list.len());
    out.extend_from_slice(&MARK.to_ne_bytes());
    for number in [call.tid, call.by, call.about, call.numbers] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    out.extend_from_slice(&asked.to_ne_bytes());
    out.extend_from_slice(&(list.len() as u32).to_ne_bytes());
    out.extend_from_slice(list.as_bytes());
    out
}

/// Asks the kernel for the mask of a thread. `None` if the thread has ended.
fn mask(tid: i32) -> Option<Vec<u64>> {
    let mut mask = vec![0u64; MAX_CPUS / 64];
    // SAFETY: the buffer has the stated length, and only the kernel writes to it.
    let size = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, mask.len() * 8, mask.as_mut_ptr()) };
    mask.truncate(usize::try_from(size).ok()?.div_ceil(8));
    Some(mask)
}

/// Writes a mask as a list such as `0-3,8`. Empty if the list is too long.
fn list(mask: &[u64]) -> String {
    let has = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    let cpus: Vec<usize> = (0..mask.len() * 64).filter(has).collect();
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b).filter_map(|range| match (range.first()?, range.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}-{last}")),
    });
    let list = ranges.collect::<Vec<_>>().join(",");
    if list.len() > LONGEST_LIST {
        String::new()
    } else {
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_successful_call_names_the_thread_whose_mask_was_set() {
        let mut callers = HashMap::new();
        let mut ask = |line: &str| {
            let call = asked(line, &mut callers, &|by, about| Call { by, about, tid: about + 1, numbers: OTHER })?;
            Some((call.by, call.about, call.tid))
        };
        assert_eq!(
            ask("         taskset-77  [001] ..... 62994664182286: sys_sched_setaffinity(pid: 0x2f4, len: 0x20, user_mask_ptr: 0x56)"),
            None
        );
        // A thread's name may look like the text after it.
        assert_eq!(ask(" a-1 [0: sys_sch-88 [000] ..... 5: sys_sched_setaffinity(pid: 0, len: 8, user_mask_ptr: 7f)"), None);
        assert_eq!(ask(" a-1 [0: sys_sch-88 [000] ..... 6: sys_sched_setaffinity -> 0x0"), Some((88, 0, 1)));
        assert_eq!(ask("         taskset-77  [001] ..... 7: sys_sched_setaffinity -> 0x0"), Some((77, 0x2f4, 0x2f5)));
        // A call is answered once. A call that failed changed nothing, and the end of a call whose
        // begin is unknown is ignored.
        assert_eq!(ask("         taskset-77  [001] ..... 8: sys_sched_setaffinity -> 0x0"), None);
        assert_eq!(ask("x-9 [001] ..... 7: sys_sched_setaffinity(pid: 1, len: 8, user_mask_ptr: 7f)"), None);
        assert_eq!(ask("x-9 [001] ..... 8: sys_sched_setaffinity -> 0xffffffffffffffea"), None);
        for broken in [
            "",
            "CPU:0 [LOST 5 EVENTS]",
            ": sys_sched_setaffinity",
            "x-9 [0] 1: sys_sched_setaffinity(pid: zz",
            "x [0] 1: sys_sched_setaffinity -> 0x0",
        ] {
            assert_eq!(ask(broken), None, "{broken}");
        }
    }

    #[test]
    fn lost_events_are_counted_and_thread_names_are_not_mistaken_for_them() {
        assert_eq!([lost("CPU:0 [LOST 34 EVENTS]"), lost("CPU:17 [LOST EVENTS]\n"), lost("")], [34, 1, 0]);
        assert_eq!(lost("CPU:0 [LOST 5 E-88 [000] ..... 5: sys_sched_setaffinity(pid: 0, len: 8, user_mask_ptr: 7f)"), 0);
        let missed = Missed::default();
        assert!(missed.notes().is_empty());
        missed.calls.store(3, Ordering::Relaxed);
        assert!(missed.notes()[0].starts_with("3 events of calls"));
    }

    #[test]
    fn the_thread_that_a_caller_names_is_found_in_the_callers_pid_namespace() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(Call::of(own, 0), Call { by: own, about: 0, tid: own, numbers: OWN });
        assert_eq!(Call::of(i32::MAX, 1), Call { by: i32::MAX, about: 1, tid: 1, numbers: UNKNOWN });
        if super::super::has_foreign_pids() {
            println!("skipped: numbers of other pid namespaces (needs the first one)");
            return;
        }
        assert_eq!(Call::of(own, 1), Call { by: own, about: 1, tid: 1, numbers: OWN });
        let started = std::process::Command::new("unshare").args(["-pf", "sleep", "60"]).stderr(std::process::Stdio::null()).spawn();
        let Ok(mut outer) = started else { return println!("skipped: numbers of other pid namespaces (needs unshare)") };
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner = || std::fs::read_to_string(&children).ok()?.trim().parse::<i32>().ok();
        while inner().is_none() && outer.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if let Some(inner) = inner() {
            let call = Call::of(inner, 1);
            // Kernels before 6.11 cannot translate the number.
            assert!([0, inner].contains(&call.tid) && call.numbers == OTHER, "{call:?} {inner}");
            assert_eq!(Call::of(inner, 0), Call { by: inner, about: 0, tid: inner, numbers: OWN });
            // SAFETY: `inner` is a child of this test's child, which has not collected its exit
            // status yet.
            unsafe { libc::kill(inner, libc::SIGKILL) };
        } else {
            println!("skipped: numbers of other pid namespaces (needs root)");
        }
        let _ = outer.wait();
    }

    #[test]
    fn a_mask_is_the_same_as_in_proc() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let said = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
        let cpus = |list: &str| -> Vec<u32> {
            let ends = list.trim().split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
            ends.flat_map(|(first, last)| first.parse().unwrap()..=last.parse().unwrap()).collect()
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        // A thread's mask in /proc may contain CPUs that are offline.
        let there: Vec<u32> = cpus(said).into_iter().filter(|cpu| cpus(&online).contains(cpu)).collect();
        assert_eq!(cpus(&list(&mask(own).unwrap())), there);
        assert_eq!(
            (list(&[0b1_0111, 1]), list(&[]), list(&[0x5555_5555_5555_5555; 128])),
            ("0-2,4,64".to_owned(), String::new(), String::new())
        );
        assert_eq!(mask(-5), None);
        let gone = answer(Call { tid: -5, by: 7, about: 9, numbers: UNKNOWN }, 1, "");
        assert_eq!(gone[4..20], [-5i32, 7, 9, -1].map(i32::to_ne_bytes).concat());
        assert_eq!(gone[20..], [&1u64.to_ne_bytes()[..], &[0; 4]].concat());
    }
}
