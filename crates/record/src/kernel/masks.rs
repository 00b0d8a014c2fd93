//! On which CPUs threads may run, each time that it is changed.
//!
//! A call of `sched_setaffinity` names them in the program's memory, which no event holds. So a second, tiny instance of the tracer has nothing but this
//! call, and a thread here that is woken at its end asks the kernel for the mask. The answer goes into the recording's own instance, by its marker: so it
//! lies in the pages like any event, and it tells when it was asked. It is what the kernel says just after the call: where the mask is changed again
//! within those microseconds it may be that of the later change, which whoever reads it sees by both times; a thread that is gone by then has none.

use super::plan::KernelError;
use crate::clock::Source as ClockSource;
use longpole_ftrace::{EventName, Instance, TraceFs};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// What names of these instances begin with. Nothing in them is worth being saved.
pub const PREFIX: &str = "longpole_masks";
/// The number of a marker that holds a mask.
pub const MARK: u32 = 0x6d61_736b;
/// The event by which the kernel has markers.
pub const MARKER: (&str, &str) = ("ftrace", "raw_data");

const CALLS: [&str; 2] = ["sys_enter_sched_setaffinity", "sys_exit_sched_setaffinity"];
/// Of each CPU's buffer: some hundred calls.
const BUFFER_KB: u64 = 32;
/// Threads within the call.
const MOST_CALLERS: usize = 4096;
/// A longer text is no line of the tracer's.
const MOST_TEXT: usize = 64 << 10;
/// Of a list of CPUs; the kernel takes markers of three times that. A longer one is not told.
const LONGEST_LIST: usize = 1000;
/// CPUs of a mask; the kernel refuses to tell it to one that has room for fewer than it could have.
const MOST_CPUS: usize = 1 << 13;

#[derive(Debug)]
pub struct Masks {
    instance: Option<Instance>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Masks {
    /// `main` gets the answers. From the return on, calls are heard.
    pub fn begin(tracefs: &TraceFs, main: &Instance, clock: ClockSource) -> Result<Masks, KernelError> {
        let instance = Instance::create(tracefs, PREFIX)?;
        instance.set_buffer_size_kb(BUFFER_KB)?;
        // Woken by each event.
        instance.set("buffer_percent", "0")?;
        let _ = instance.set_option("record-cmd", false);
        for name in CALLS {
            instance.enable(&EventName::new("syscalls", name), None)?;
        }
        let io = |path: std::path::PathBuf| move |error: io::Error| KernelError::io("open", path)(error);
        let (pipe, marker) = (instance.path().join("trace_pipe"), main.path().join("trace_marker_raw"));
        let calls = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).map_err(io(pipe))?;
        let answers = OpenOptions::new().write(true).open(&marker).map_err(io(marker))?;
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| KernelError::io("make", "eventfd")(error.into()))?;
        let (wake, stop) = (Arc::new(wake), Arc::new(AtomicBool::new(false)));
        let (waking, stopping) = (Arc::clone(&wake), Arc::clone(&stop));
        let work = move || listen(calls, answers, clock, &waking, &stopping);
        instance.start()?;
        let thread = std::thread::Builder::new().name("longpole-masks".to_owned()).spawn(work);
        let thread = Some(thread.map_err(KernelError::io("start", "a thread"))?);
        Ok(Masks { instance: Some(instance), thread, stop, wake })
    }
}

/// All calls until now are answered, and the instance is gone.
impl Drop for Masks {
    fn drop(&mut self) {
        if let Some(instance) = &self.instance {
            let _ = instance.stop();
        }
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // What cannot be removed is found as that of a dead recorder.
        let _ = self.instance.take().map(Instance::remove);
    }
}

fn listen(mut calls: File, mut answers: File, clock: ClockSource, wake: &OwnedFd, stop: &AtomicBool) {
    let mut text = vec![0; MOST_TEXT];
    let (mut filled, mut callers) = (0, HashMap::new());
    loop {
        // Read once more after the end was asked for.
        let last = stop.load(Ordering::Acquire);
        if !last {
            let mut ready = [PollFd::from_borrowed_fd(calls.as_fd(), PollFlags::IN), PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
            let _ = poll(&mut ready, None);
        }
        while let Ok(size @ 1..) = calls.read(&mut text[filled..]) {
            filled += size;
            let whole = text[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in text[..whole].split(|byte| *byte == b'\n') {
                if let Some((by, tid)) = asked(&String::from_utf8_lossy(line), &mut callers) {
                    // Without room there is no answer, as for any other event.
                    let _ = answers.write_all(&answer(tid, by, clock.now()));
                }
            }
            text.copy_within(whole..filled, 0);
            filled = if filled - whole == MOST_TEXT { 0 } else { filled - whole };
        }
        if last {
            return;
        }
    }
}

/// A thread, and the one whose mask it has changed, as a line of the tracer says: `NAME-TID [CPU] FLAGS TIME: sys_sched_setaffinity(pid: 0x2f4, …`, where 0 is the caller, and
/// at its end `… sys_sched_setaffinity -> 0x0`. Names may hold anything. `callers`: threads within the call, with whom it is about.
fn asked(line: &str, callers: &mut HashMap<i32, i32>) -> Option<(i32, i32)> {
    let (before, rest) = line.rsplit_once(": sys_sched_setaffinity")?;
    let caller: i32 = before.rsplit_once(" [")?.0.trim_end().rsplit_once('-')?.1.parse().ok()?;
    if let Some(result) = rest.strip_prefix(" -> ") {
        let target = callers.remove(&caller)?;
        return (result.trim() == "0x0").then_some((caller, if target == 0 { caller } else { target }));
    }
    let target = rest.strip_prefix("(pid: ")?.split([',', ')']).next()?;
    let target = u64::from_str_radix(target.trim_start_matches("0x"), 16).ok()? as u32 as i32;
    if callers.len() >= MOST_CALLERS {
        // Ends of calls were lost.
        callers.clear();
    }
    callers.insert(caller, target);
    None
}

/// The marker: its number, the thread, who changed its mask, the time before it was asked, and the list as `0-3,8`, empty if the thread is gone.
fn answer(tid: i32, by: i32, asked: u64) -> Vec<u8> {
    let list = mask(tid).map(|mask| list(&mask)).unwrap_or_default();
    let mut out = Vec::with_capacity(24 + list.len());
    out.extend_from_slice(&MARK.to_ne_bytes());
    out.extend_from_slice(&tid.to_ne_bytes());
    out.extend_from_slice(&by.to_ne_bytes());
    out.extend_from_slice(&asked.to_ne_bytes());
    out.extend_from_slice(&(list.len() as u32).to_ne_bytes());
    out.extend_from_slice(list.as_bytes());
    out
}

fn mask(tid: i32) -> Option<Vec<u64>> {
    let mut mask = vec![0u64; MOST_CPUS / 64];
    // SAFETY: the buffer is as long as is said, and the kernel alone writes to it.
    let size = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, mask.len() * 8, mask.as_mut_ptr()) };
    mask.truncate(usize::try_from(size).ok()?.div_ceil(8));
    Some(mask)
}

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
    fn the_end_of_a_call_that_succeeded_names_the_thread_that_it_was_about() {
        let mut callers = HashMap::new();
        let mut ask = |line: &str| asked(line, &mut callers);
        assert_eq!(
            ask("         taskset-77  [001] ..... 62994664182286: sys_sched_setaffinity(pid: 0x2f4, len: 0x20, user_mask_ptr: 0x56)"),
            None
        );
        // A name may look like what follows it.
        assert_eq!(ask(" a-1 [0: sys_sch-88 [000] ..... 5: sys_sched_setaffinity(pid: 0, len: 8, user_mask_ptr: 7f)"), None);
        assert_eq!(ask(" a-1 [0: sys_sch-88 [000] ..... 6: sys_sched_setaffinity -> 0x0"), Some((88, 88)));
        assert_eq!(ask("         taskset-77  [001] ..... 7: sys_sched_setaffinity -> 0x0"), Some((77, 0x2f4)));
        // Told once; a call that failed has changed nothing; an end without a begin says of whom nothing.
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
    fn a_mask_is_told_as_the_kernel_tells_it() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let said = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(list(&mask(own).unwrap()), said);
        assert_eq!(
            (list(&[0b1_0111, 1]), list(&[]), list(&[0x5555_5555_5555_5555; 128])),
            ("0-2,4,64".to_owned(), String::new(), String::new())
        );
        assert_eq!(mask(-5), None);
        assert_eq!(&answer(-5)[4..], [(-5i32).to_ne_bytes(), [0; 4]].concat());
    }
}
