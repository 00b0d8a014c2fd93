//! The translation of the trace's interactions into operations of machines.
//!
//! It follows the state of each machine in the trace and decides what each interaction means in
//! every world. It computes no times; the replay does ([`super::replay`]).
//!
//! [`state`] has what is known of the trace up to now, [`steps`] takes one interaction, and the
//! modules between them translate one theme each.

pub mod caller;
mod calls;
mod causes;
pub mod changes;
mod contexts;
mod cpus;
pub mod groups;
mod own_states;
mod queue_declarations;
pub mod queue_uses;
mod serving;
pub mod state;
mod steps;
mod stopped_machines;
mod tokens;
pub mod traced_machine;
