//! Opens any trace and yields one stream of events, ordered by time.
//!
//! A trace is a Longpole recording, any number of CTF traces (from LTTng, Genode, barectf and
//! others), a perf.data file, a trace.dat file, the text or the raw pages of the kernel's tracer, a
//! pcapng or pcap file, Chrome's JSON, a machine log, or several of these at once, also inside an
//! archive. The format is recognised by content. The exception is seL4's raw logs: they carry no
//! mark, so the caller names their format in [`Options::dump`]. [`Trace::next_item`] then yields
//! events and losses, merged over all streams. Memory does not grow with the length of the trace.
//!
//! ```no_run
//! use longpole_trace::{Error, Options, Trace};
//!
//! fn print_times() -> Result<(), Error> {
//!     let mut trace = Trace::open(&["/tmp/recording"], Options::default())?;
//!     while let Some(item) = trace.next_item()? {
//!         println!("{}", item.t_ns());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Damage is data: a stream that ends inside a packet, runs backwards in time or cannot be decoded
//! further does not hide the other streams. [`Trace::diagnostics`] reports what was wrong. This
//! crate interprets no event; the `model` crate does that.

pub mod derived;
mod diagnostic;
mod error;
pub mod event;
mod event_index;
mod export;
mod files;
mod follow;
pub mod formats;
mod index;
mod merge;
mod moment;
pub mod open;
mod shared;
mod trace;
mod value;
mod value_buffer;

pub use diagnostic::{Contradiction, Diagnostic, LeftOut, PacketPosition};
pub use error::Error;
pub use event::{
    Catalogue, Class, ClassId, Event, Item, Loss, Nested, PacketValues, Stream, StreamId, StreamKind, Subject, SubjectId, Value,
};
pub use event_index::{EventIndex, EventPlace};
pub use export::ctf_version::{rewrite, Rewritten};
pub use export::{CtfWriter, ExportCounts, Version};
pub use files::ctf_trace::{CtfClock, CtfTrace, Packets};
pub use files::directory::is_recording;
pub use files::recording::{Clock, Lane, Losses, Recording, SwitchedOff};
pub use follow::ctf_live::Live;
pub use follow::RecordingFollower;
pub use formats::archive::{remove_if_left, unpack, Unpacked};
pub use formats::capture::{Capture, CaptureInterface, Counted, Description, Frame, InterfaceCount, Traffic};
pub use formats::kallsyms::Kallsyms;
pub use formats::sel4::{Dump, Log, Word};
pub use longpole_ctf::EnvValue;
pub use longpole_ftrace::ByteOrder;
pub use merge::clock_shift::{Shift, Shifts};
pub use moment::Moment;
pub use open::no_event::NoEvent;
pub use open::recognise::recording_at;
pub use trace::{Damage, Options, Run, Trace, Unmerged};
