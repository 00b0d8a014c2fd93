//! Copied stacks that no conversion has replaced.

use super::layout::Layout;
use super::scan::scan;
use super::{layout_of, open_regular, streams};
use std::io;
use std::path::Path;

/// Returns the number of copied stacks in a recording.
pub fn count(recording: &Path) -> u64 {
    let folder = recording.join("samples");
    let Ok(Some(layout)) = layout_of(&folder) else { return 0 };
    let paths = streams(&folder).unwrap_or_default();
    // What cannot be read is reported by the reader of the recording.
    paths.iter().map(|path| count_in(path, &layout).unwrap_or(0)).sum()
}

fn count_in(path: &Path, layout: &Layout) -> io::Result<u64> {
    let mut copied = 0;
    scan(&open_regular(path)?, layout, &mut |_| {}, &mut |_| copied += 1)?;
    Ok(copied)
}
