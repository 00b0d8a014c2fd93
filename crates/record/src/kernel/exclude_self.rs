//! The recorder's own system calls are left out of the trace while it looks at the system: thousands of calls that nobody wants to see.
//!
//! A filter on the events of all calls names the threads that are at it. A thread learns its number only when it runs, so each one names itself, before it
//! begins to work. All else that such a thread does stays in the trace: the interrupts that hit it, and whom it wakes, are the machine's.

use longpole_ftrace::Instance;
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What system calls are told by.
pub const CALLS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];
/// The same, as a group's part.
pub const CALLS_OF_TRACER: &[&str] = &CALLS;

thread_local! {
    static HERE: RefCell<Option<Quiet>> = const { RefCell::new(None) };
}

/// As long as it is not over, threads may join in.
#[derive(Clone, Debug)]
pub struct Quiet(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The files of the filters, and what the user asked for.
    filters: Vec<(PathBuf, Option<String>)>,
    tids: Vec<i32>,
    over: bool,
}

impl Quiet {
    /// Begins with this thread. `events`: those of [`CALLS`] that are recorded, with the user's filter.
    pub fn begin(instance: &Instance, events: Vec<(&str, Option<String>)>) -> Quiet {
        let file = |event: &str| instance.path().join(format!("events/{}/filter", event.replace(':', "/")));
        let filters = events.into_iter().map(|(event, asked)| (file(event), asked)).collect();
        let quiet = Quiet(Arc::new(Mutex::new(State { filters, tids: Vec::new(), over: false })));
        quiet.join();
        HERE.set(Some(quiet.clone()));
        quiet
    }

    /// Of this thread, to be handed to those that it starts.
    pub fn here() -> Option<Quiet> {
        HERE.with_borrow(Clone::clone)
    }

    /// This thread's calls are left out from now on.
    pub fn join(&self) {
        if super::has_foreign_pids() {
            // The kernel knows this thread by another number.
            return;
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.over {
            return;
        }
        state.tids.push(rustix::thread::gettid().as_raw_nonzero().get());
        let others: Vec<String> = state.tids.iter().map(|tid| format!("common_pid != {tid}")).collect();
        let others = others.join(" && ");
        for (path, asked) in &state.filters {
            // What cannot be set leaves the calls in the trace.
            let _ = fs::write(path, asked.as_ref().map_or_else(|| others.clone(), |asked| format!("({asked}) && {others}")));
        }
    }

    /// Sets the user's own filters again.
    pub fn end(self) -> std::io::Result<()> {
        HERE.set(None);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        // 0 is no filter.
        state.filters.iter().try_for_each(|(path, asked)| fs::write(path, asked.as_deref().unwrap_or("0")))
    }
}
