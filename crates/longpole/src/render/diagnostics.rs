//! Diagnostics of a trace as text on stderr.

use crate::render::table::plain_lines;
use longpole_trace::Diagnostic;
use longpole_trace::NoEvent;
use longpole_trace::Trace;

/// Prints the diagnostics of a trace that was read to its end, and why it has no event.
pub fn print(trace: &Trace) {
    print_no_event(trace);
    trace.diagnostics().iter().for_each(print_one);
}

/// Prints one diagnostic.
pub fn print_one(diagnostic: &Diagnostic) {
    eprintln!("longpole: {}", plain_lines(diagnostic.to_string()));
}

/// Prints the reason why a trace has no event. If only the requested part has none, that is an
/// error and not a diagnostic.
pub fn print_no_event(trace: &Trace) {
    let why = trace.no_event().filter(|why| !matches!(why, NoEvent::InPart { .. }));
    why.iter().for_each(|why| eprintln!("longpole: note: {why}"));
}
