//! Simulated systems, whose bottleneck is known because they are simulated.
//!
//! A [`system::System`] consists of machines with programs: work on CPUs, queues with capacity,
//! locks, calls, timers, wires, devices. The engine ([`engine::run`]) executes it event by event
//! and reports the effects to a [`sink::Sink`]; [`log::Log`] writes them as a machine log. The gain
//! of a fix is not predicted here but measured: the system is changed ([`change`]) and run again.
//! Both runs draw the same random numbers, because a draw depends only on the seed, the machine,
//! the step and the number of its executions.
//!
//! The simulator shares no code with the analyses, so a result on which both agree is not due to a
//! common error.

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
