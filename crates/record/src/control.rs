//! TODO room control

pub(crate) mod glob;
pub(crate) mod mailbox;
pub(crate) mod policy;
pub(crate) mod recovery;
pub mod selection;
pub mod steady;
pub(crate) mod stop;
pub(crate) mod trigger;
pub(crate) mod watch;
