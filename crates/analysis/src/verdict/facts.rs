//! Facts on which a verdict is based, collected while the trace is read: requests and replies,
//! wake-ups, file locks, and what processes are called.

pub mod exchanges;
pub mod file_locks;
pub(in crate::verdict) mod held_requests;
pub mod inversions;
pub mod off_path;
pub mod places;
pub(in crate::verdict) mod polls;
pub mod titles;
pub mod traffic;
