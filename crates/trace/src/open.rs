//! TODO room open

pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod no_event;
pub(crate) mod part;
pub(crate) mod recognise;
pub(crate) mod recording;
pub(crate) mod scratch;
