//! One file per verb. A verb defines its arguments, calls the libraries and prints the result. It
//! contains no format of traces and no analysis.

pub mod answers;
pub mod completions;
pub mod demo;
pub mod man;
pub mod recording;
pub mod traces;
