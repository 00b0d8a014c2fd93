//! The worlds that are replayed together: their times, and the paths to their ends.
//!
//! Everything here is independent of what a machine does. A time is a vector with one entry per
//! world ([`time_vector`]); a vector that one machine hands to another one is a slot ([`slots`]);
//! the way to the end of each world is kept in [`paths`].

pub mod paths;
pub mod slots;
pub mod small_map;
pub mod time_vector;
