//! The tests of this crate's public interface, one module per theme. A single program is built and
//! linked faster than one for each theme; `scripts/test` runs each theme in a process of its own.

mod count;
mod elsewhere;
mod hostile;
mod hostile_flight;
mod kernel_convert;
mod kernel_damage;
mod kernel_live;
mod kernel_safety;
mod kernel_source;
mod overload;
mod policies;
mod readable;
mod reliable_hostile;
mod reliable_recorder;
mod support;
mod waits;
