//! The recorder: finds the processes of one user (as root, of all users) that contain probes, tells
//! each what to record, takes the events that they write into shared memory, and writes them to
//! disk as a CTF trace and pcapng files.
//!
//! Each thread with probes writes into its own *ring*, a file in the *runtime directory* that the
//! process and the recorder both map. The recorder runs on one thread in *turns*: it finds new
//! processes, looks at all rings, and copies their new events to the disk, one packet per *slice*
//! of contiguous events. [`Recorder`] does all of that; [`subjects::list`] and
//! [`runtime_dir::session`] serve the commands that only look.
//!
//! Other sources have threads of their own: [`kernel`] moves the pages of the kernel's tracer into
//! files and converts them to CTF at the end, `stacks` reads samples of stacks, and [`interfaces`]
//! captures packets.
//!
//! Four properties shape the design:
//!
//! * *Shared memory is not trusted.* Any program of the user can write anything into any file of
//!   the runtime directory. The geometry of a ring is copied and checked once; later values are
//!   used only within that geometry; a file that shrinks under its mapping costs only its own ring.
//! * *The streams of probes are readable at every moment.* Another program may copy the recording,
//!   and the recorder may be killed, between any two system calls. Therefore a packet's events are
//!   written first, and its header, which commits the packet, last (see `output::stream`).
//! * *Every event of a probe is either recorded once or counted as lost*, also if a recorder is
//!   killed and another one continues (see `recovery`). The exceptions, such as one event of a
//!   thread that is stopped in a probe, are in docs/internals/reliability.md.
//! * *Events are copied without being decoded*, except in rings that hold captured packets, where
//!   the site table is damaged, and while a snapshot waits for a certain event.

mod attach;
mod chunks;
mod clock;
pub mod control;
mod drain;
mod error;
mod files;
pub mod interfaces;
pub mod kernel;
pub mod output;
mod recorder;
mod recording;
mod recovery;
mod ring;
pub mod runtime_dir;
pub mod snapshot;
pub mod stacks;
pub mod subjects;
mod text;

pub use clock::{counter_is_a_clock, Clock, ClockSource};
pub use control::condition::Condition;
pub use control::mailbox::{Asked, Flush, Request};
pub use control::options::{Options, Scope};
pub use control::policy::{ring_size, Config, Mode, Packets, Policy, PolicyError};
pub use control::stop::{leave_streams, Stop};
pub use error::Error;
pub use files::FileError;
pub use output::command_output::Lines;
pub use output::pcap::CaptureError;
pub use output::recording::{component as file_name, root};
pub use recorder::{InterfacesOutcome, KernelOutcome, Outcome, Recorder};
pub use runtime_dir::RuntimeDir;
pub use stacks::SampleOutcome;
pub use text::units::{parse_duration, parse_size};
