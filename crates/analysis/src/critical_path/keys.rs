//! Keys of a profile, the times that are charged to them, and their names.

pub(crate) mod key;
pub(in crate::critical_path) mod key_table;
pub(in crate::critical_path) mod key_times;
pub mod name_index;
pub(in crate::critical_path) mod words;
