//! The files of a recording: how they are laid out, written, and kept readable at every moment.
//!
//! ```text
//! 2026-11-20T23-04-05.123Z/   the recording's folder          recording
//!     longpole.json           its description                 recording
//!     user/metadata           the classes of all events       metadata
//!     user/<label>-<number>   one stream file per thread      stream, packet
//!     packets/<label>.pcapng  captured packets                pcap
//! ```
//!
//! Files that are needed only in one situation are here too: chunks of a recording with a limited
//! size (`chunks`), the output of the recorded command (`command_output`), and temporary folders
//! (`scratch`). `disk` measures how fast the disk is.
//!
//! Reading rings belongs in `ring`; the sources of kernel events, stacks and interface packets
//! have folders of their own. Nothing here decides what is recorded.

pub(crate) mod chunks;
pub(crate) mod command_output;
pub(crate) mod disk;
pub(crate) mod folder;
pub(crate) mod metadata;
pub(crate) mod packet;
pub(crate) mod pcap;
pub(crate) mod recording;
pub mod scratch;
pub(crate) mod stream;
