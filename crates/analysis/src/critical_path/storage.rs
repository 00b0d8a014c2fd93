//! Storage of the paths, in memory or in a file.

pub(in crate::critical_path) mod path_log;
pub(in crate::critical_path) mod path_store;
pub(in crate::critical_path) mod runs;
pub(in crate::critical_path) mod segments;
pub(in crate::critical_path) mod tree;
