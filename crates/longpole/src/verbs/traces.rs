//! Verbs that show or write the content of traces: as lines, in other formats, in other viewers.

pub mod convert;
pub mod info;
pub mod merge;
pub mod model;
pub mod print;
pub mod rules;
pub mod serve;
pub mod view;
