//! Decisions about a recording: what is recorded, and when it starts, stops or takes a snapshot.
//!
//! `options` is what the user asks for; `policy` reads the configuration file; `selection` is a
//! filter that can change during the recording. `stop` handles signals, `mailbox` requests from
//! other processes, `condition` and `trigger` what a snapshot waits for. `steady` sets the
//! scheduling of the command. `watchdog` ends a recorder that its disk blocks forever, which
//! `blocking_call` recognizes.
//!
//! Reading rings belongs in `ring`, writing files in `output`, finding processes in
//! `runtime_dir`.

mod blocking_call;
pub(crate) mod condition;
pub(crate) mod mailbox;
pub(crate) mod options;
pub(crate) mod policy;
pub mod selection;
pub mod steady;
pub(crate) mod stop;
pub(crate) mod trigger;
pub(crate) mod watchdog;
