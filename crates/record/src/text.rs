//! Texts that come from programs and users: printing them, matching them, and reading numbers with
//! units.
//!
//! Everything here is a function of its arguments. `units` reads sizes and times.

pub(crate) mod units;

/// Text up to the first NUL, with control characters replaced.
pub fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The known word with the smallest distance, if that is less than half of its length.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = known.iter().map(|other| (distance(word, other), *other)).min()?;
    (2 * best.0 < best.1.len()).then_some(best.1)
}

/// Number of letters to insert, remove, replace, or exchange with their neighbour (optimal string
/// alignment distance).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    // A longer word is not a mistyped category.
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}
