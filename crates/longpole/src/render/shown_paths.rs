//! Paths that are shown instead of others: an archive instead of the directory to which it was
//! unpacked, which no user has named.

use std::path::Path;
use std::sync::Mutex;

/// Each path that may occur in a text, and the path that is shown instead.
static INSTEAD: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// From now on, `shown` is shown instead of `path`. A path that is not UTF-8 is ignored, because no
/// text contains it.
pub fn add(path: &Path, shown: &Path) {
    if let Some(path) = path.to_str() {
        let mut instead = INSTEAD.lock().unwrap_or_else(|broken| broken.into_inner());
        instead.push((path.to_owned(), shown.display().to_string()));
    }
}

/// Returns the text with each such path replaced.
pub fn renamed(text: String) -> String {
    let instead = INSTEAD.lock().unwrap_or_else(|broken| broken.into_inner());
    instead.iter().fold(text, |text, (path, shown)| if text.contains(path) { text.replace(path, shown) } else { text })
}
