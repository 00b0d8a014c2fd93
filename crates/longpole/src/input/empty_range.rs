//! The error for `--begin` and `--end` that select nothing. It states the trace's own begin, end
//! and length, so that the user can correct the range without asking `longpole info` first.
//!
//! The range of a trace is known only after all of it was read. That costs a second reading, but
//! only if the first one found nothing. A pipe cannot be read twice; its error has no range.

use crate::input;
use crate::input::machine_log;
use crate::render::table::{duration, plain, utc};
use anyhow::anyhow;
use longpole_analysis::machine_log::Reader;
use longpole_model::interaction::Effect;
use longpole_trace::NoEvent;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Returns an error if the trace, which was read to its end, has events but none in the requested
/// part.
pub fn check(trace: &Trace, paths: &[PathBuf], part: &Options) -> anyhow::Result<()> {
    match trace.no_event() {
        Some(NoEvent::InPart { .. }) => Err(refused(paths, part)),
        _ => Ok(()),
    }
}

/// Returns an error if events exist, but none in the requested part. For verbs that write a file,
/// which must not remain empty; it opens the trace once more.
pub fn check_before(paths: &[PathBuf], part: &Options) -> anyhow::Result<()> {
    if (part.begin.is_none() && part.end.is_none()) || paths.iter().any(|path| machine_log::is_pipe(path)) {
        return Ok(());
    }
    let mut trace = input::open_stored(paths, part.clone())?;
    trace.next_item()?;
    check(&trace, paths, part)
}

/// Returns the error for a range in which nothing lies.
pub fn refused(paths: &[PathBuf], part: &Options) -> anyhow::Error {
    let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let own = whole(paths, part).map_or_else(String::new, |own| format!("; {own}; name a part of that with --begin and --end"));
    anyhow!("{}", plain(format!("{shown}: there is nothing in this range{own}")))
}

/// Returns the sentence about the range of the whole trace, or `None` if it cannot be read.
fn whole(paths: &[PathBuf], part: &Options) -> Option<String> {
    if paths.iter().any(|path| machine_log::is_pipe(path)) {
        return None;
    }
    if let Some(log) = paths.iter().find(|path| part.dump.is_none() && machine_log::is_one(path)) {
        let (begin, end) = of_log(log)?;
        return Some(format!("the log begins at {begin} ns, ends at {end} ns and is {} long", duration(end - begin)));
    }
    let mut trace = input::open_stored(paths, Options { begin: None, end: None, ..part.clone() }).ok()?;
    let mut range: Option<(i64, i64)> = None;
    // An error ends the reading; what was read until then is in the range.
    while let Ok(Some(t_ns)) = trace.see_next(|item, _| item.t_ns()) {
        range = Some(range.map_or((t_ns, t_ns), |(begin, end)| (begin.min(t_ns), end.max(t_ns))));
    }
    let (begin, end) = range?;
    let length = duration(end.abs_diff(begin));
    Some(format!("the trace begins at {} ({begin} ns), ends at {} ({end} ns) and is {length} long", utc(begin), utc(end)))
}

fn of_log(path: &Path) -> Option<(u64, u64)> {
    let mut reader = Reader::new(File::open(path).ok()?);
    let mut range: Option<(u64, u64)> = None;
    while let Ok(Some(interaction)) = reader.next_interaction() {
        // Declarations of queues have no time.
        if !matches!(interaction.effect, Effect::Declare { .. }) {
            range = Some((range.map_or(interaction.t, |(begin, _)| begin), interaction.t));
        }
    }
    range
}
