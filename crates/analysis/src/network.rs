//! Network analyses: packets, their paths, losses, links and counters, and clocks of several hosts.
//!
//! [`packets`] and [`packet_paths`] follow each packet from the sending call to the receiving one
//! ([`in_flight`] is one such packet); [`packet_loss`] finds the places at which packets are lost;
//! [`links`] measures waits for a full link; [`counters`] reads the interfaces' statistics; and
//! [`dissect`] reads the headers of a packet; [`packet_log`] and [`packet_rows`] show packets on a
//! timeline; [`clock_sync`] computes the correction of clocks from messages between two hosts.
//!
//! Captured files are read elsewhere (`longpole_trace`); these modules only use events and packets.

pub mod clock_sync;
pub mod counters;
pub mod dissect;
pub mod in_flight;
pub mod links;
pub mod packet_log;
pub mod packet_loss;
pub mod packet_paths;
pub mod packet_rows;
pub mod packets;
