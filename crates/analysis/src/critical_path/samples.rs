//! Samples of stacks on the critical path: those of the thread, or of the interrupt's CPU, that the
//! path goes through at that moment, and those of the waits that the path goes through.
//!
//! Samples are too rare to say when the path was where, and the path does not know functions.
//! Together they yield a flame graph of only what limits the system, and the share of each function
//! on the path next to its rank in the ordinary profile.
//!
//! [`OnPath`] walks path and samples in parallel, [`PathStacks`] adds up the stacks and divides the
//! path's time among them, [`FunctionTable`] sums them up by function, [`WaitFunctions`] chooses
//! the function of a wait, and [`EndedWaits`] joins the two ends of a wait that another thread
//! ended.

mod ended_waits;
mod functions;
mod on_path;
mod path_stacks;
mod time;
mod wait_functions;
mod within;

pub use ended_waits::{EndedWait, EndedWaits, WaitEnd, WakeUps};
pub use functions::{Code, CriticalFunction, FunctionTable, Top};
pub use on_path::{Group, OfWait, OnPath, Piece};
pub use path_stacks::{own_frame, Divided, Estimate, PathStack, PathStacks, Sampled};
pub use wait_functions::{waiting_frame, WaitFunctions};
pub use within::Within;
