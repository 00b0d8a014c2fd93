//! Runs a command with as little disturbance as possible: the scheduling that is requested from the
//! kernel, and the scheduling that it grants.
//!
//! There are two ways. The longest time slice needs no privilege. A thread then runs on undisturbed
//! if its competitors also have long slices; since Linux 6.17 the shortest slice among them
//! decides. SCHED_FIFO needs a privilege and lets no thread of lower priority run in between, apart
//! from the share of the CPU that the kernel reserves for other threads. Processes that the command
//! starts inherit both.

use serde_json::{json, Value};
use std::io;

/// Requested scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    /// The longest time slice.
    Slice,
    /// The real-time policy SCHED_FIFO.
    Fifo,
}

/// Longest slice that the kernel grants, in ns.
const LONGEST_SLICE: u64 = 100_000_000;
/// Lowest real-time priority: above all normal threads, below system threads with a higher one.
const PRIORITY: u32 = 1;

/// Scheduling of a thread, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    policy: u32,
    priority: u32,
    /// Time slice in ns; `None` for other policies and kernels before 6.12.
    slice_ns: Option<u64>,
}

impl Steady {
    pub fn name(self) -> &'static str {
        match self {
            Steady::Slice => "slice",
            Steady::Fifo => "fifo",
        }
    }

    /// Raises the calling thread, and threads that it starts from now on, above such a command.
    /// Otherwise the recorder would get no CPU, and events would be lost.
    pub fn stay_ahead(self) {
        if self == Steady::Fifo {
            let _ = set(&libc::sched_attr { sched_policy: libc::SCHED_FIFO as u32, sched_priority: PRIORITY + 1, ..attributes() });
        }
    }

    /// Returns the calling thread to normal scheduling.
    pub fn fall_back(self, nice: i32) {
        if self == Steady::Fifo {
            let _ = set(&libc::sched_attr { sched_nice: nice, ..attributes() });
        }
    }

    /// Requests the scheduling for the calling thread. Only makes system calls, so it can run
    /// between fork and exec.
    pub fn apply(self, nice: i32) -> io::Result<()> {
        match self {
            Steady::Slice => {
                // Other settings (SCHED_BATCH, reset on fork) remain unchanged.
                let mut attributes = get(0)?;
                if !is_fair(attributes.sched_policy) {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                attributes.sched_runtime = LONGEST_SLICE;
                attributes.sched_nice = nice;
                set(&attributes)
            }
            Steady::Fifo => {
                set(&libc::sched_attr { sched_policy: libc::SCHED_FIFO as u32, sched_priority: PRIORITY, sched_nice: nice, ..attributes() })
            }
        }
    }

    /// Scheduling that the kernel will grant, tried on a thread that ends at once.
    pub fn attempt(self, nice: i32) -> Result<Granted, String> {
        let tried = std::thread::Builder::new().spawn(move || {
            self.apply(nice)?;
            Granted::of(0)
        });
        let granted = tried.map(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))).and_then(|result| result);
        match granted {
            Ok(granted) if self == Steady::Slice && granted.slice_ns.is_none() => {
                Err("this kernel has no adjustable time slices (Linux 6.12 and later have)".to_owned())
            }
            Ok(granted) => Ok(granted),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let policy = Granted::of(0).map_or_else(|_| "this policy".to_owned(), |granted| granted.policy_name());
                Err(format!("the command keeps its scheduling policy {policy}, which has no time slices"))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err("SCHED_FIFO needs root, the capability CAP_SYS_NICE, or a limit RLIMIT_RTPRIO of 1 (`ulimit -r 1`)".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Granted {
    /// Scheduling of a thread; 0 is the calling one.
    pub fn of(tid: i32) -> io::Result<Granted> {
        let attributes = get(tid)?;
        let slice_ns = Some(attributes.sched_runtime).filter(|slice| is_fair(attributes.sched_policy) && *slice > 0);
        Ok(Granted { policy: attributes.sched_policy, priority: attributes.sched_priority, slice_ns })
    }

    pub fn policy_name(&self) -> String {
        policy_name(self.policy)
    }

    pub fn to_json(self, asked: Steady) -> Value {
        json!({ "asked": asked.name(), "policy": self.policy_name(), "priority": self.priority, "slice_ns": self.slice_ns })
    }
}

impl std::fmt::Display for Granted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.slice_ns {
            Some(slice) => write!(f, "{}, slice {} us", self.policy_name(), slice / 1000),
            None => write!(f, "{}, priority {}", self.policy_name(), self.priority),
        }
    }
}

fn is_fair(policy: u32) -> bool {
    [libc::SCHED_OTHER as u32, libc::SCHED_BATCH as u32].contains(&policy)
}

fn policy_name(policy: u32) -> String {
    match policy as i32 {
        libc::SCHED_OTHER => "SCHED_OTHER".to_owned(),
        libc::SCHED_FIFO => "SCHED_FIFO".to_owned(),
        libc::SCHED_RR => "SCHED_RR".to_owned(),
        libc::SCHED_BATCH => "SCHED_BATCH".to_owned(),
        libc::SCHED_IDLE => "SCHED_IDLE".to_owned(),
        other => format!("policy {other}"),
    }
}

/// Attributes of a thread; 0 is the calling one.
fn get(tid: i32) -> io::Result<libc::sched_attr> {
    let mut attributes = attributes();
    let size = attributes.size;
    // SAFETY: the kernel writes `size` bytes at most.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, size, 0) } {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the attributes of the calling thread.
fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads a structure of the size that it contains.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn attributes() -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_granted_scheduling_is_what_a_thread_then_has() {
        match Steady::Slice.attempt(0) {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_OTHER, slice 100000 us"),
            Err(why) => assert!(why.contains("6.12"), "{why}"),
        }
        match Steady::Fifo.attempt(0) {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_FIFO, priority 1"),
            Err(why) => assert!(why.contains("CAP_SYS_NICE"), "{why}"),
        }
        // Other settings remain unchanged.
        let batch = std::thread::spawn(|| {
            set(&libc::sched_attr { sched_policy: libc::SCHED_BATCH as u32, ..attributes() }).unwrap();
            Steady::Slice.attempt(0)
        });
        match batch.join().unwrap() {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_BATCH, slice 100000 us"),
            Err(why) => assert!(why.contains("6.12"), "{why}"),
        }
        // The calling thread is unchanged.
        assert_eq!(Granted::of(0).unwrap().priority, 0);
    }
}
