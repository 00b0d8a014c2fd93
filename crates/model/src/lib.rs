//! Machines and what moves them: from a trace's events to steps, and from steps to interactions.
//!
//! Rules (TOML) say what an event means. They are compiled once into a plan per event class; the
//! loop over the events only follows plans. [`system::System`] resolves an event of a program to a
//! [`step::Step`], once; [`causes::Composer`] makes [`interaction::Interaction`]s of steps and of
//! the kernel's events, and [`activity::Activity`] states of actors and their time. Names, queues,
//! actors and machines stand in one [`interaction::Vocabulary`]. Nothing here knows a file format,
//! and nothing here judges: what is slow is the question of the analyses.

pub mod causes;
pub mod hash;
pub mod interaction;
pub mod kinds;
pub mod linux;
pub mod names;
pub mod rules;
pub mod step;
pub mod system;
pub mod system_calls;
pub mod tokens;
