//! CPU use of the threads of a command and its descendants, from /proc. For users without access to
//! the kernel's tracer.
//!
//! A thread that ends between two looks is counted as the last look saw it. The missing rest is
//! known only as a sum, from the parents that waited for their children.

use crate::runtime_dir::proc_status;
use std::collections::{BTreeMap, HashSet};
use std::fs;

/// Limit of the number of threads; a larger family is not examined completely.
const MAX_THREADS: usize = 1 << 16;

/// CPU use of a thread until the newest look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub pid: i32,
    pub name: String,
    /// CPU time in ns.
    pub running_ns: u64,
    /// Time in ns in which the thread was ready while another one ran.
    pub runnable_ns: u64,
    /// Number of times the thread got a CPU.
    pub schedules: u64,
}

/// CPU use of the threads of a process and its descendants.
#[derive(Debug, Default)]
pub struct Family {
    /// Threads, by tid.
    pub threads: BTreeMap<i32, Used>,
}

impl Family {
    /// Looks at a process and all its descendants.
    pub fn look(&mut self, root: i32) {
        let mut waiting = vec![root];
        let mut seen = HashSet::new();
        while let Some(pid) = waiting.pop() {
            if !seen.insert(pid) || self.threads.len() >= MAX_THREADS {
                continue;
            }
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for tid in tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok()) {
                let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
                waiting.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
                let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
                let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
                if let (Some(running_ns), Some(runnable_ns), Some(schedules)) = (numbers.next(), numbers.next(), numbers.next()) {
                    let name = proc_status::thread_name(pid, tid).unwrap_or_default();
                    self.threads.insert(tid, Used { pid, name, running_ns, runnable_ns, schedules });
                }
            }
        }
    }

    /// CPU time in ns of all threads.
    pub fn running_ns(&self) -> u64 {
        self.threads.values().map(|used| used.running_ns).sum()
    }
}

/// CPU time in ns of the children that this process has waited for, and of their children.
pub fn waited_ns() -> u64 {
    // SAFETY: all bits zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `usage`.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Idle time in ns of each CPU since the host started, with the resolution of the kernel's ticks.
pub fn idle_ns() -> Vec<(u32, u64)> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    // SAFETY: no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let line = |line: &str| {
        let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let mut numbers = rest.split_whitespace().filter_map(|number| number.parse::<u64>().ok()).skip(3);
        let (idle, waiting) = (numbers.next()?, numbers.next()?);
        Some((cpu.parse().ok()?, idle.saturating_add(waiting).saturating_mul(1_000_000_000 / ticks)))
    };
    text.lines().filter_map(line).collect()
}
