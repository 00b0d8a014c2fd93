//! Adds to errors of the library what only the command knows: the options that the user may change,
//! and the range of the trace.

use crate::input::empty_range;
use crate::input::subject;
use crate::WrongUsage;
use anyhow::anyhow;
use longpole_analysis::pipeline::Error;

/// Returns the error in the words of the command line. An error that is not of the library is
/// returned as it is.
pub fn explained(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = match error.into().downcast::<Error>() {
        Ok(error) => error,
        Err(other) => return other,
    };
    match error {
        Error::NothingInPart { paths, part } => empty_range::refused(&paths, &part),
        Error::EndsBeforeBegin => super::ends_before_it_begins(),
        Error::TimeOfDay => {
            WrongUsage("a machine log has a clock of its own: --begin and --end are ns, or +1.5s from its begin".to_owned()).into()
        }
        Error::NoSuchThread { selection, nearest } => {
            WrongUsage(format!("the trace has no thread of {}{nearest}", subject::options(&selection, None))).into()
        }
        Error::NothingHappens { selection, progress } => {
            let what = subject::options(&selection, progress.as_deref());
            anyhow!("the trace has no event of {what} in the requested range; if --begin or --end is given, widen the range")
        }
        Error::NoProgress { event, why } => anyhow!("--progress {event}: {why}"),
        Error::ProgressOfLog => anyhow!("--progress names events of a trace, and a machine log has none"),
        error => error.into(),
    }
}
