//! A sentence about events that root's default recording leaves out, for verbs that would show
//! them.

use longpole_trace::Recording;

/// Maximum number of names that are printed.
const MAX_NAMES: usize = 8;

/// Returns a sentence about the events of `groups` that the recordings lack. `option` is the value
/// of `--kernel` that records them. `None` if nothing is missing, or if it is unknown.
pub fn line(recordings: &[Recording], groups: &[&str], option: &str) -> Option<String> {
    let left_out = recordings.iter().find_map(|recording| recording.kernel_events.as_ref()?.left_out.as_ref())?;
    let mut names = Vec::new();
    for group in groups {
        if let Some(missing) = left_out.of.get(*group).filter(|missing| !missing.is_empty()) {
            names.extend(missing.iter().map(|name| name.rsplit(':').next().unwrap_or(name)));
        }
    }
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(MAX_NAMES);
    let names = names.join(", ");
    (!names.is_empty()).then(|| format!("not recorded by default: {names}{more} (`longpole record --kernel {option}` records them)"))
}
