//! Opens any trace and yields one stream of events, ordered by time.
//!
//! A trace is a Longpole recording, any number of CTF traces (LTTng's, Genode's, barectf's, …), a perf.data, a trace.dat, the text or the raw pages of the
//! kernel's tracer, a pcapng or pcap file, Chrome's JSON, a machine log, or several of these at once, also in an archive. What is inside is recognised by content, but for raw logs of seL4, of which the caller says what they are. [`Trace::next_item`] then yields events and losses, merged over all
//! streams; memory does not grow with the length of the trace.
//!
//! Damage is data: a stream that ends inside a packet, runs backwards in time or cannot be decoded further does not hide the other
//! streams. What was wrong is told by [`Trace::oddities`]. This crate interprets no event; that is the model's work.

mod archive;
mod beyond;
mod capture;
mod chains;
mod claims;
mod common_clock;
mod ctf;
mod dat;
mod error;
pub mod event;
mod file;
mod follow;
mod format;
mod ftrace_text;
mod index;
mod json;
mod kallsyms;
mod live;
mod merge;
mod moment;
mod no_event;
mod oddity;
mod part;
mod perf;
mod recognise;
mod recording;
mod rewritten;
mod scout;
mod scratch;
mod sel4;
mod shelf;
mod shift;
mod site;
mod subject;
mod trace;
mod tracepoint;
mod value;
mod window;
mod written;

pub use archive::{remove_if_left, unpack, Unpacked};
pub use capture::{Capture, CaptureInterface, Counted, Description, Frame, InterfaceCount, Traffic};
pub use error::Error;
pub use event::{
    Catalogue, Class, ClassId, Event, Item, Loss, Nested, PacketValues, Stream, StreamId, StreamKind, Subject, SubjectId, Value,
};
pub use follow::Follower;
pub use kallsyms::Kallsyms;
pub use live::Live;
pub use longpole_ctf::EnvValue;
pub use longpole_ftrace::ByteOrder;
pub use moment::Moment;
pub use no_event::NoEvent;
pub use oddity::{Contradiction, LeftOut, Oddity, Place};
pub use part::{Packets, Part, PartClock};
pub use recognise::{is_recording, recording_at};
pub use recording::{Clock, Lane, Losses, Recording, SwitchedOff};
pub use rewritten::{rewrite, Rewritten};
pub use sel4::{Dump, Log, Word};
pub use shift::{Shift, Shifts};
pub use trace::{Damage, Options, Trace};
pub use written::{CtfWriter, Version, Written};
