//! From a trace to answers: reads a trace once and passes it to several analyses on the way.
//!
//! [`Interactions`] is the source: a machine log, or a trace whose events a composer turns into
//! interactions. [`follow`] passes them to any number of analyses ([`Follower`]) at the same time,
//! in threads of their own, and [`Spool`] stores them for analyses that read them several times.
//! [`FirstPass`] combines these: it reads a trace once for the critical path, and then computes the
//! verdict and predicts changes. [`kernel`] and [`ProbeSteps`] pass the events of a trace to the
//! analyses of the kernel and of probes. [`passes::report_pass::ReportPass`] is the reading for
//! `longpole report`: a [`FirstPass`], with the analyses of probes, packets and the kernel fed from
//! the same items.
//!
//! This room connects analyses; it has none of its own. It opens no file by its name, except the
//! symbols of a recording, and prints nothing: the caller opens the trace.
//!
//! ```no_run
//! use longpole_analysis::critical_path;
//! use longpole_analysis::pipeline::Interactions;
//! use longpole_model::rules::Rules;
//! use longpole_trace::{Options, Trace};
//! use std::path::PathBuf;
//!
//! fn print_path(recording: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//!     let trace = Trace::open(&[&recording], Options::default())?;
//!     let (part, rules) = (Options::default(), Rules::built_in()?);
//!     let mut interactions = Interactions::of_trace(trace, &[recording], part, rules)?;
//!     let answer = interactions.critical_path(critical_path::Options::default())?;
//!     for row in &answer.criticality {
//!         println!("{}::{} {} ns", row.machine, row.state, row.ns);
//!     }
//!     Ok(())
//! }
//! ```

mod answers;
mod composed;
pub mod cpu_holders;
mod error;
pub mod follow;
mod interactions;
pub mod kernel;
mod parties;
pub mod passes;
mod path_end;
pub mod pictures;
mod probe_steps;
mod progress;
mod proposals;
mod replays;
pub mod samples;
mod selection;
mod spool;
pub mod timeline;
pub mod wait_stacks;

pub use composed::{compose, has_kernel_ids};
pub use error::Error;
pub use follow::Follower;
pub use interactions::{Interactions, Range};
pub use kernel::{begin_ns, kernel_sources};
pub use passes::first_pass::{FirstPass, Request, TraceFacts};
pub use path_end::{spool_to_end, PathEnd};
pub use probe_steps::{alongside, ProbeSteps};
pub use progress::{ProgressEvents, ProgressTimes};
pub use selection::Selection;
pub use spool::{Spool, SpoolWriter};

use crate::critical_path::Spill;
use longpole_model::causes::Composer;
use longpole_trace::{Catalogue, Item};

/// Passes an item of the trace to the composer, and to analyses that read items directly.
pub type Feed<'a> = dyn FnMut(&mut Composer, &Catalogue, &Item<'_>) + 'a;

/// Number of interactions in a window if several threads compute the path.
pub const WINDOW: usize = 1 << 16;

/// Maximum number of blocks in the channel to a thread. Some are needed so that neither side waits
/// for the other at each block; more would only take memory.
const MAX_BLOCKS_IN_FLIGHT: usize = 8;

/// The file for a long path. The file has no name, so nothing of it remains, even if this process
/// is killed.
pub const SPILL: Spill = Spill { make: tempfile::tempfile, from: 1 << 14 };
