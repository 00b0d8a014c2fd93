//! Scheduling analyses: how CPUs and threads spend their time, and for what threads wait.
//!
//! [`cpus`] divides the time of CPUs and threads by kernel events, and [`probed`] that of threads
//! by probes. [`wakeups`] and [`interrupts`] measure delays, [`blocked`] gives the reasons of
//! waits, [`system_calls`] counts entries into the kernel, [`stacks`] evaluates stack samples,
//! [`sampled_waits`] finds the waits at whose ends they were taken, [`time_kind`] tells kinds of
//! waiting apart, [`flame_graph`] joins stacks, [`flame_difference`] compares two such pictures,
//! and [`stack_gaps`] says what stacks lack.
//! [`occupancy`] and [`cpu_holders`] name the threads that had the CPU while another one waited for
//! it. [`thread_time`] keeps the account that other analyses need for net times, and [`family`] the
//! threads of one command.
//!
//! Only measurements belong here. The decision which of them limits the system is made in
//! [`crate::verdict`].

pub mod blocked;
pub mod cpus;
pub mod family;
pub mod flame_difference;
pub mod flame_graph;
pub mod interrupts;
pub mod occupancy;
pub mod probed;
pub mod sampled_waits;
pub mod stack_gaps;
pub mod stacks;
pub mod system_calls;
pub mod thread_time;
pub mod time_kind;
pub mod wakeups;
