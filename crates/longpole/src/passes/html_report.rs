//! Writes the report on one trace as an HTML file, for `report --html`.

use super::one_report::{self, OneReport, Shown};
use crate::input::subject::SubjectArgs;
use crate::input::Input;
use anyhow::{bail, Context};
use longpole_analysis::timeline::Timeline;
use longpole_serve::{HtmlError, HtmlReport, TraceCounts};
use std::cell::Cell;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Reports on one trace, as [`one_report::read`], and writes the HTML file.
pub fn read(input: &Input, path: &Path, asked: (&SubjectArgs, bool), file: &Path) -> anyhow::Result<OneReport> {
    if !longpole_serve::is_included() {
        bail!(HtmlError::NoPage);
    }
    let timeline = Arc::new(Timeline::default());
    let counts = Cell::new(TraceCounts::default());
    let states_known = |events, lost| counts.set(TraceCounts { events, lost });
    let shown = Shown { timeline: timeline.clone(), states_known: &states_known };
    let one = one_report::read(input, path, asked, Some(&shown))?;
    let html = HtmlReport { path, timeline: &timeline, report: &one.report, graph: one.graph.as_ref(), counts: counts.get() }.to_html()?;
    write(file, html.as_bytes()).with_context(|| format!("{} cannot be written; name another file with --html", file.display()))?;
    Ok(one)
}

/// Replaces a file. The bytes are written to a file next to it first, so that a failure leaves the
/// old one.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A device or a pipe is written to; a link stays, and what it leads to is replaced.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(file).is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
        return OpenOptions::new().write(true).open(file)?.write_all(bytes);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The umask applies, as to any other file.
    let mode = Permissions::from_mode(0o666);
    let mut new = tempfile::Builder::new().prefix(".longpole-").suffix(".html").permissions(mode).tempfile_in(folder)?;
    new.write_all(bytes)?;
    new.persist(file)?;
    Ok(())
}
