//! The kernel's events: what is recorded of them, and the verbs that answer from them.

mod kernel;
mod kernel_clock;
mod kernel_edges;
mod kernel_files;
mod kernel_many;
mod kernel_net;
mod kernel_recording;
mod masks;
mod modes_kernel;
mod names;
mod util;
