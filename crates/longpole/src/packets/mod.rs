//! The parts of `longpole packets`: captured traffic, and the paths of packets through the kernel.

pub mod described;
pub mod kernel;
pub mod packet_tables;
pub mod traffic;
pub mod viewed_packet;
