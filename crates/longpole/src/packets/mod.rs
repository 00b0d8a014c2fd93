//! The parts of `longpole packets`: captured traffic, and the ways of packets through the kernel.

pub mod described;
pub mod kernel;
pub mod packet_tables;
pub mod traffic;
