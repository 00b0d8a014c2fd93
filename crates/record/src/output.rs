//! The files of a recording: how they are laid out, written, and kept readable at every moment.
//!
//! ```text
//! 2026-11-20T23-04-05.123Z/   the recording's folder          recording
//!     longpole.json           its description                 recording
//!     user/metadata           the classes of probes' events   metadata
//!     user/<label>-<number>   one stream file per lane        stream, packet
//!     packets/<label>.pcapng  captured packets                pcap
//! ```
//!
//! The folders `kernel`, `samples` and `symbols` are written by the rooms `kernel` and `stacks`,
//! and the packets of interfaces by `interfaces`.
//!
//! `files` holds all of them for the recorder: `destination` is the folder, `stream_files` the
//! streams, `captures` the captured packets. `account` holds the sums and diagnostics of the
//! description. Files that are needed only in one situation are here too: the output of the
//! recorded command (`command_output`), and temporary folders (`scratch`). `folder` is a directory
//! by its descriptor, `recording_folder` that of the recording, even if it has been moved; `types`
//! has the CTF types of the metadata. `disk` measures how fast the disk is.
//!
//! Reading rings belongs in `ring`; the sources of kernel events, stacks and interface packets
//! have folders of their own. Nothing here decides what is recorded.

pub(crate) mod account;
pub(crate) mod captures;
pub(crate) mod command_output;
pub(crate) mod destination;
pub(crate) mod disk;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod metadata;
pub(crate) mod packet;
pub(crate) mod pcap;
pub(crate) mod recording;
pub(crate) mod recording_folder;
pub mod scratch;
pub(crate) mod stream;
pub(crate) mod stream_files;
pub(crate) mod types;
