//! The recorder: finds the programs with probes of one user, orders what they record, takes what they wrote into shared memory
//! and writes it to disk as a CTF trace and pcapng files.
//!
//! Four properties shape it:
//!
//! * *Nothing in shared memory is believed.* Any program of the user can scribble into any file of the runtime directory. Geometry is
//!   copied once and checked; later values are used only as far as they fit it; a file that shrinks under its mapping costs its own ring.
//! * *The files are readable at every moment.* Another program may copy the recording, and the recorder may be killed, between any two
//!   system calls. So a packet is written first and committed by its header last (see [`lane`]).
//! * *Every event is recorded once or counted as lost*, also across a recorder that was killed and started again (see [`takeover`]).
//! * *The bytes of events are moved, not looked at*, except in rings that hold captured packets, and while a snapshot waits for an event.
//!
//! [`Recorder`] is the whole of it; [`subjects`] and [`session`] are what the verbs that only look need.

mod clock;
pub mod control;
mod cpus;
mod error;
pub mod interfaces;
pub mod kernel;
pub mod output;
mod recorder;
mod ring;
pub mod runtime_dir;
pub mod snapshot;
pub mod stacks;

pub use clock::{counter_is_a_clock, Clock, Source};
pub use control::mailbox::{Asked, Request};
pub use control::policy::{parse_duration, parse_size, ring_size, Config, Mode, Packets, Policy, PolicyError};
pub use control::stop::{leave_streams, Stop};
pub use control::trigger::Condition;
pub use error::Error;
pub use output::command_output::Lines;
pub use output::recording::{component as file_name, root};
pub use recorder::{InterfacesOutcome, KernelOutcome, Options, Outcome, Recorder, Scope};
pub use runtime_dir::Runtime;
pub use stacks::SampleOutcome;
