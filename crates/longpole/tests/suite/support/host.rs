//! What a test needs of the host: permission to record it, and to be the only one that does.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns true if the kernel's events can be recorded. If not, prints that `what` is skipped.
pub fn can_trace(what: &str) -> bool {
    let can = is_root() && std::fs::read_dir("/sys/kernel/tracing/instances").is_ok();
    if !can {
        println!("skipped: {what} (needs root and tracefs)");
    }
    can
}

/// Returns true if the stacks of running code can be sampled. If not, prints that `what` is
/// skipped.
pub fn can_sample(what: &str) -> bool {
    let can = longpole_record::stacks::survey().is_ok();
    if !can {
        println!("skipped: {what} (needs root, or kernel.perf_event_paranoid=0)");
    }
    can
}

/// Keeps other tests that call this from running until the result is dropped. A recording of the
/// kernel has the programs of all tests: they use the CPUs, and two with one name are confused.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
