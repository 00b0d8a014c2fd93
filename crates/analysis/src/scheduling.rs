//! TODO room scheduling

pub mod blocked;
pub mod cpu_holders;
pub mod cpus;
pub mod family;
pub mod interrupts;
pub mod occupancy;
pub mod probed;
pub mod stacks;
pub mod system_calls;
pub mod thread_time;
pub mod wakeups;
