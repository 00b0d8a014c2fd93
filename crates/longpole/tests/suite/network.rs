//! Packets: captures of other tools, captures that `record` makes, and the paths of packets.

mod captures;
mod check_captures;
mod merge;
mod packet_counters;
mod packet_recording;
mod packets;
