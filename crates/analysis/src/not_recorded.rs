//! What a recording does not hold although it was asked for: more events came than could be stored,
//! and kinds of them were given up.

use longpole_model::linux::Linux;

/// What is missing since when, as a sentence without a full stop; none if nothing is. Times are
/// from the kernel's first event on.
pub fn sentence(linux: &Linux) -> Option<String> {
    let begin_ns = linux.begin_ns().unwrap_or(0);
    let since = |t_ns: i64| t_ns.saturating_sub(begin_ns).max(0) as f64 / 1e9;
    let parts: Vec<String> = linux.switched_off().iter().map(|off| format!("{} (from +{:.3} s on)", off.what, since(off.t_ns))).collect();
    let named = match parts.split_last() {
        None => return None,
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    Some(format!("{named} were not recorded: the kernel emitted more events than could be stored"))
}
