//! Verbs that record, control a recording, or show what is or can be recorded on this host.

pub mod check;
pub mod list;
pub mod mount;
pub mod overhead;
pub mod record;
pub mod snapshot;
pub mod start;
pub mod status;
pub mod stop;
pub mod top;
pub mod util;
