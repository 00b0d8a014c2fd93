//! Systems whose bottleneck is known, because they are simulated.
//!
//! A [`system::System`] is machines with programs: work on CPUs, queues with capacity, locks, calls, timers, wires, devices. The engine
//! ([`engine::run`]) executes it event by event and tells a [`sink::Sink`] what happens; [`log::Log`] writes that as a machine log. What a fix would
//! bring is not predicted here but tried: the system is changed ([`change`]) and run again. Both runs draw the same random numbers, since a draw depends on
//! the seed, the machine, the step and how often the step was done, and on nothing else.
//!
//! The simulator shares no code with the analyses, so that what both say alike is no error that they have in common.

pub mod change;
pub mod ctf;
pub mod draw;
pub mod engine;
pub mod log;
pub mod names;
pub mod queue;
pub mod scenarios;
pub mod sink;
pub mod sketch;
pub mod system;
pub mod truth;
