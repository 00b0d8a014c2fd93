//! Excludes the recorder's own system calls from the trace while the recorder looks at the system,
//! for example at all of /proc. These are thousands of calls that would only hide those of the
//! observed programs.
//!
//! A filter on the events of all system calls excludes the threads that do this work. A thread
//! learns its number only when it runs, so each thread adds itself before it begins. Everything
//! else about such a thread stays in the trace: the interrupts during its time and the threads that
//! it wakes are part of what happened on the host.

use longpole_ftrace::Instance;
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// All events of single system calls, as a pattern of names.
pub const SINGLE_CALLS: &str = "syscalls:*";
/// Events of all system calls.
pub const CALLS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

thread_local! {
    static HERE: RefCell<Option<SelfExclusion>> = const { RefCell::new(None) };
}

/// The exclusion of the recorder's threads. Until [`SelfExclusion::end`], further threads may join.
#[derive(Clone, Debug)]
pub struct SelfExclusion(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Path of each filter file, and the filter that the user asked for.
    filters: Vec<(PathBuf, Option<String>)>,
    /// Numbers of the excluded threads.
    tids: Vec<i32>,
    /// True after the end; a thread that joins later changes no filter.
    over: bool,
}

impl SelfExclusion {
    /// Begins the exclusion with this thread. `events` are those of [`CALLS`] that are recorded,
    /// each with the user's filter, or [`SINGLE_CALLS`] if no event of that kind has a filter.
    pub fn begin(instance: &Instance, events: Vec<(&str, Option<String>)>) -> SelfExclusion {
        // The file of a whole kind of events sets the filter of each of them.
        let file = |event: &str| instance.path().join(format!("events/{}/filter", event.trim_end_matches(":*").replace(':', "/")));
        let filters = events.into_iter().map(|(event, asked)| (file(event), asked)).collect();
        let quiet = SelfExclusion(Arc::new(Mutex::new(State { filters, tids: Vec::new(), over: false })));
        quiet.join();
        HERE.set(Some(quiet.clone()));
        quiet
    }

    /// Returns the exclusion that this thread began, to be handed to the threads that it starts.
    pub fn here() -> Option<SelfExclusion> {
        HERE.with_borrow(Clone::clone)
    }

    /// Excludes this thread's system calls from now on.
    pub fn join(&self) {
        if super::has_foreign_pids() {
            // The kernel knows this thread by a different number.
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
            // If a filter cannot be set, the calls stay in the trace, which is harmless.
            let _ = fs::write(path, asked.as_ref().map_or_else(|| others.clone(), |asked| format!("({asked}) && {others}")));
        }
    }

    /// Restores the user's own filters.
    pub fn end(self) -> std::io::Result<()> {
        HERE.set(None);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        // The kernel removes a filter when `0` is written.
        state.filters.iter().try_for_each(|(path, asked)| fs::write(path, asked.as_deref().unwrap_or("0")))
    }
}
