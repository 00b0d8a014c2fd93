//! The model of a traced system: machines, and what they do to each other.
//!
//! A *machine* is a state machine of the traced system: a thread, an interrupt context, a device.
//! An *interaction* is one machine's effect on itself or on another. For example, the event "thread
//! A puts an item into queue Q" becomes a put by the machine A, which is the cause that ends the
//! wait of a machine B at Q.
//!
//! The way from an event to interactions has two steps. Rules (TOML) define the meaning of an
//! event; they are compiled once into a plan per event class, and the loop over the events only
//! follows plans. [`system::System`] resolves an event of a program to a [`step::Step`].
//! [`causes::Composer`] makes [`interaction::Interaction`]s from steps and from the kernel's
//! events, which [`linux::Linux`] interprets; [`system::activity`] sums up the states of actors and
//! their time. Names, queues, actors and machines are located in one [`interaction::Vocabulary`].
//!
//! Nothing in this crate knows a file format, and nothing in it judges what is slow: that is the
//! task of the analyses.

pub mod actors;
pub mod causes;
pub mod hash;
pub mod ids;
pub mod interaction;
pub mod kinds;
pub mod linux;
pub mod names;
pub mod rules;
pub mod step;
pub mod system;
pub mod system_calls;
pub mod tokens;
