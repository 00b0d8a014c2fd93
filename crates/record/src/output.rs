//! TODO room output

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
pub(crate) mod watchdog;
