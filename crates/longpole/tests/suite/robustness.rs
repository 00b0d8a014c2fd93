//! Recorders and probes in difficult situations: signals, forks, failing disks, jumping clocks,
//! more events than can be stored.

mod contended;
mod overload;
mod reliable;
mod reliable_names;
mod reliable_sanitized;
mod surroundings;
mod surroundings_clock;
