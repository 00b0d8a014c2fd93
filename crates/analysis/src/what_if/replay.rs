//! The replay runs each machine's operations in their order. An operation that needs another
//! machine runs as soon as that machine has got there.
//!
//! Times are vectors with one entry per world ([`super::worlds`]), so an operation is executed once
//! for all worlds. [`state`] has what the replay knows, [`waiting`] holds operations back until
//! they can run, and [`execute`] runs one. The modules between them compute one kind of operation
//! each.
//!
//! The replay knows nothing of the trace but its operations and their times there. The translation
//! passes them on as [`orders`], which the replay may obey in another thread ([`replayer`]).

pub mod cpu_start;
pub mod cpu_work;
pub mod cpus;
pub mod demand;
pub mod execute;
pub mod fewer_calls;
pub mod meeting;
pub mod orders;
pub mod paid_time;
pub mod past;
pub mod recorder;
pub mod replayed_machine;
pub mod replayer;
pub mod serving;
pub mod state;
pub mod waiting;
