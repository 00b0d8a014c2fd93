//! Opens any trace and yields one stream of events, ordered by time.
//!
//! A trace is a Longpole recording, any number of CTF traces (LTTng's, Genode's, barectf's, …), a perf.data, a trace.dat, the text or the raw pages of the
//! kernel's tracer, a pcapng or pcap file, Chrome's JSON, a machine log, or several of these at once, also in an archive. What is inside is recognised by content, but for raw logs of seL4, of which the caller says what they are. [`Trace::next_item`] then yields events and losses, merged over all
//! streams; memory does not grow with the length of the trace.
//!
//! Damage is data: a stream that ends inside a packet, runs backwards in time or cannot be decoded further does not hide the other
//! streams. What was wrong is told by [`Trace::diagnostics`]. This crate interprets no event; that is the model's work.

mod diagnostic;
mod error;
pub mod event;
mod export;
mod follow;
pub mod formats;
mod index;
mod merge;
mod moment;
pub mod open;
mod trace;
mod value;
mod value_buffer;

pub use diagnostic::{Contradiction, Diagnostic, LeftOut, Place};
pub use error::Error;
pub use event::{
    Catalogue, Class, ClassId, Event, Item, Loss, Nested, PacketValues, Stream, StreamId, StreamKind, Subject, SubjectId, Value,
};
pub use export::ctf_version::{rewrite, Rewritten};
pub use export::{CtfWriter, Version, Written};
pub use follow::ctf_live::Live;
pub use follow::Follower;
pub use formats::archive::{remove_if_left, unpack, Unpacked};
pub use formats::capture::{Capture, CaptureInterface, Counted, Description, Frame, InterfaceCount, Traffic};
pub use formats::kallsyms::Kallsyms;
pub use formats::sel4::{Dump, Log, Word};
pub use longpole_ctf::EnvValue;
pub use longpole_ftrace::ByteOrder;
pub use merge::clock_shift::{Shift, Shifts};
pub use moment::Moment;
pub use open::no_event::NoEvent;
pub use open::part::{Packets, Part, PartClock};
pub use open::recognise::{is_recording, recording_at};
pub use open::recording::{Clock, Lane, Losses, Recording, SwitchedOff};
pub use trace::{Damage, Options, Trace};
