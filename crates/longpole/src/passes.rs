//! TODO room passes

pub(crate) mod all;
pub(crate) mod kernel;
pub(crate) mod probes;
pub(crate) mod samples;
