//! Events that a recording should contain but does not: more events arrived than could be stored,
//! and the recorder switched off kinds of them.

use longpole_model::linux::Linux;

/// A kind of events that is missing from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// The kind, as text for people.
    pub what: String,
    /// Time from the kernel's first event, in nanoseconds.
    pub since_ns: u64,
}

/// Returns the kinds of events that were switched off, with the time of each.
pub fn not_recorded(linux: &Linux) -> Vec<NotRecorded> {
    let begin_ns = linux.begin_ns().unwrap_or(0);
    let since_ns = |t_ns: i64| u64::try_from(t_ns.saturating_sub(begin_ns)).unwrap_or(0);
    linux.switched_off().iter().map(|off| NotRecorded { what: off.what.clone(), since_ns: since_ns(off.t_ns) }).collect()
}

/// Returns the same as a sentence without a full stop; `None` if nothing is missing.
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
