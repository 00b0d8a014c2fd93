//! What a recording does not hold although it was asked for: more events came than could be stored,
//! and kinds of them were given up.

use longpole_model::linux::Linux;

/// Events of a kind that are missing from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// The kind, for people.
    pub what: String,
    /// From the kernel's first event on.
    pub since_ns: u64,
}

/// What is missing since when.
pub fn not_recorded(linux: &Linux) -> Vec<NotRecorded> {
    let begin_ns = linux.begin_ns().unwrap_or(0);
    let since_ns = |t_ns: i64| u64::try_from(t_ns.saturating_sub(begin_ns)).unwrap_or(0);
    linux.switched_off().iter().map(|off| NotRecorded { what: off.what.clone(), since_ns: since_ns(off.t_ns) }).collect()
}

/// The same as a sentence without a full stop; none if nothing is missing.
pub fn sentence(missing: &[NotRecorded]) -> Option<String> {
    let one = |of: &NotRecorded| format!("{} (from +{:.3} s on)", of.what, of.since_ns as f64 / 1e9);
    let parts: Vec<String> = missing.iter().map(one).collect();
    let named = match parts.split_last() {
        None => return None,
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    Some(format!("{named} were not recorded: the kernel emitted more events than could be stored"))
}
