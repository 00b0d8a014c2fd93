//! Writing a trace in another format, or again in its own.

mod by_values;
mod rewritten;
mod written;
