//! TODO room network

pub mod clock_sync;
pub mod counters;
pub mod in_flight;
pub mod links;
pub mod packet_loss;
pub mod packet_paths;
pub mod packets;
