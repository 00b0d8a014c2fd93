//! Running a command so that others disturb it least: what is asked of the kernel's scheduler, and what it grants.
//!
//! Two ways. The longest time slice needs no right. It lets a thread run on where those that it competes with have long slices, too; from
//! Linux 6.17 on the shortest slice among them decides. SCHED_FIFO needs a right and lets nothing of lesser priority in between, apart
//! from the share of the CPU that the kernel keeps for others. Both pass on to whatever the command starts.

use serde_json::{json, Value};
use std::io;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    Slice,
    Fifo,
}

/// The longest that the kernel grants, ns.
const LONGEST_SLICE: u64 = 100_000_000;
/// The lowest: above all others, below what the system itself has at a higher one.
const PRIORITY: u32 = 1;

/// What a thread has, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    policy: u32,
    priority: u32,
    /// Kernels before 6.12 tell none.
    slice_ns: Option<u64>,
}

impl Steady {
    pub fn name(self) -> &'static str {
        match self {
            Steady::Slice => "slice",
            Steady::Fifo => "fifo",
        }
    }

    /// Before such a command, the recorder must have its turn, too, or events are lost: the calling thread and those that it starts from now on.
    pub fn stay_ahead(self) {
        if self == Steady::Fifo {
            let _ = set(&libc::sched_attr { sched_policy: libc::SCHED_FIFO as u32, sched_priority: PRIORITY + 1, ..attributes() });
        }
    }

    /// The calling thread is one like any other again.
    pub fn fall_back(self, nice: i32) {
        if self == Steady::Fifo {
            let _ = set(&libc::sched_attr { sched_nice: nice, ..attributes() });
        }
    }

    /// For the calling thread. Makes system calls and nothing else, so it may stand between fork and exec.
    pub fn apply(self, nice: i32) -> io::Result<()> {
        match self {
            Steady::Slice => {
                // Whatever else was chosen for it (SCHED_BATCH, a reset at fork) stays.
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

    /// What the kernel will grant: tried on a thread that ends at once.
    pub fn attempt(self, nice: i32) -> Result<Granted, String> {
        let tried = std::thread::Builder::new().spawn(move || {
            self.apply(nice)?;
            Granted::of(0)
        });
        let granted = tried.map(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))).and_then(|result| result);
        match granted {
            Ok(granted) if self == Steady::Slice && granted.slice_ns.is_none() => {
                Err("this kernel has no time slices that can be chosen (Linux 6.12 has)".to_owned())
            }
            Ok(granted) => Ok(granted),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let policy = Granted::of(0).map_or_else(|_| "this policy".to_owned(), |granted| granted.policy_name());
                Err(format!("{policy}, under which the command is to run, has no time slices; it stays"))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err("SCHED_FIFO needs root, the capability CAP_SYS_NICE, or a limit RLIMIT_RTPRIO of 1 (`ulimit -r 1`)".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Granted {
    /// Of a thread; 0: the calling one.
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

/// Of a thread; 0: the calling one.
fn get(tid: i32) -> io::Result<libc::sched_attr> {
    let mut attributes = attributes();
    let size = attributes.size;
    // SAFETY: the kernel writes `size` bytes at most.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, size, 0) } {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// For the calling thread.
fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads a structure of the size that it says.
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
    fn what_is_granted_is_what_a_thread_then_has() {
        match Steady::Slice.attempt(0) {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_OTHER, slice 100000 us"),
            Err(why) => assert!(why.contains("6.12"), "{why}"),
        }
        match Steady::Fifo.attempt(0) {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_FIFO, priority 1"),
            Err(why) => assert!(why.contains("CAP_SYS_NICE"), "{why}"),
        }
        // What was chosen besides stays.
        let batch = std::thread::spawn(|| {
            set(&libc::sched_attr { sched_policy: libc::SCHED_BATCH as u32, ..attributes() }).unwrap();
            Steady::Slice.attempt(0)
        });
        match batch.join().unwrap() {
            Ok(granted) => assert_eq!(granted.to_string(), "SCHED_BATCH, slice 100000 us"),
            Err(why) => assert!(why.contains("6.12"), "{why}"),
        }
        // This thread has what it had.
        assert_eq!(Granted::of(0).unwrap().priority, 0);
    }
}
