//! Machines and what moves them: from a trace's events to steps, and from steps to interactions.
//!
//! Rules (TOML) say what an event means. They are compiled once into a plan per event class; the
//! loop over the events only follows plans. [`system::System`] resolves an event of a program to a
//! [`step::Step`], once; [`causes::Composer`] makes [`interaction::Interaction`]s of steps and of
//! the kernel's events, and [`activity::Activity`] states of actors and their time. Names, queues,
//! actors and machines stand in one [`interaction::Vocabulary`]. Nothing here knows a file format,
//! and nothing here judges: what is slow is the question of the analyses.

pub mod activity;
pub mod actors;
pub mod ahead;
pub mod block;
pub mod causes;
pub mod compact;
mod dense;
pub mod hash;
pub mod interaction;
pub mod kinds;
pub mod linux;
mod linux_loss;
pub mod linux_net;
pub mod linux_rules;
mod linux_timers;
pub mod linux_watch;
pub mod names;
pub mod plan;
pub mod predicate;
pub mod rules;
pub mod signals;
pub mod step;
pub mod system;
pub mod system_calls;
pub mod tokens;
pub mod value;
