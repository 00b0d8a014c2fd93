//! Which files are machine logs.

use longpole_model::machine_log::opens_like_one;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether this is a file that opens like a machine log.
pub fn is_one(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return false };
    let mut begin = Vec::new();
    file.take(1 << 16).read_to_end(&mut begin).is_ok() && opens_like_one(&begin)
}

/// A pipe can be read once only: what is in it shows when it is read.
pub fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}
