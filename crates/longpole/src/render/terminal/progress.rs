//! The progress bar: bytes read of all, rate, and remaining time, on stderr.
//!
//! It appears after a second, only if stderr is a terminal, and is cleared before the answer. A
//! thread of its own draws it, so that the loops that read and analyse know nothing of it: files
//! are read and not mapped, so the kernel's count of the bytes that this process has read shows how
//! far the reading is. While nothing is read, the analyses run, and the bar shows the time that
//! they take.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A step that takes less time has no bar.
const BAR_DELAY: Duration = Duration::from_secs(1);
/// Time between two drawings.
const STEP: Duration = Duration::from_millis(100);
/// Drawings without a byte read, after which the bar shows that the analyses run.
const IDLE_DRAWINGS: u32 = 5;
/// Maximum depth of directories that are searched for files.
const MAX_DEPTH: usize = 8;

const READING: &str = "reading {percent} % [{bar:24}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const ANALYSING_TEMPLATE: &str = "analysing {spinner} {elapsed}";
const CONVERTING_TEMPLATE: &str =
    "converting the kernel's events {percent} % [{bar:24}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const UNWINDING_TEMPLATE: &str = "unwinding stacks {percent} % [{bar:24}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

/// The reading that the thread shows; `None` before the first one, and after the end.
static READ: Mutex<Option<Reading>> = Mutex::new(None);

struct Reading {
    /// The kernel's count when the reading began.
    begin: u64,
    total: u64,
    /// Number of the reading: a trace may be read several times.
    number: u64,
    bar: Option<ProgressBar>,
}

fn read() -> MutexGuard<'static, Option<Reading>> {
    // A panic of another thread leaves the value valid.
    READ.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that these traces are read from now on.
pub fn begin(paths: &[PathBuf]) {
    if !io::stderr().is_terminal() {
        return;
    }
    let Some(begin) = bytes_read() else { return };
    let total = paths.iter().map(|path| size(path, MAX_DEPTH)).sum();
    let mut reading = read();
    let (number, bar) = reading.take().map_or((0, None), |before| (before.number + 1, before.bar));
    let is_first = number == 0;
    *reading = Some(Reading { begin, total, number, bar });
    drop(reading);
    if is_first {
        // Without the thread there is only no bar.
        let _ = std::thread::Builder::new().name("longpole-bar".to_owned()).spawn(draw);
    }
}

/// Clears the bar. It does not come back, because the answer follows.
pub fn end() {
    if let Some(Reading { bar: Some(bar), .. }) = read().take() {
        bar.finish_and_clear();
    }
}

/// Draws until the end.
fn draw() {
    std::thread::sleep(BAR_DELAY);
    let (mut shown, mut last, mut still) = (None, 0, 0);
    loop {
        {
            let mut reading = read();
            let Some(Reading { begin, total, number, bar }) = &mut *reading else { return };
            let done = bytes_read().unwrap_or(0).saturating_sub(*begin);
            still = if done == last { still + 1 } else { 0 };
            last = done;
            // The bar itself reads the kernel's count, which is less than a kilobyte each time.
            let is_reading = still < IDLE_DRAWINGS && done < *total;
            if shown != Some((*number, is_reading)) {
                if let Some(before) = bar.take() {
                    before.finish_and_clear();
                }
                *bar = Some(if is_reading { of_bytes(READING, *total) } else { of_time() });
                shown = Some((*number, is_reading));
            }
            if let Some(bar) = bar {
                bar.set_position(done.min(*total));
                bar.tick();
            }
        }
        std::thread::sleep(STEP);
    }
}

fn of_bytes(template: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    styled(bar, template)
}

fn of_time() -> ProgressBar {
    styled(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()), ANALYSING_TEMPLATE)
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    let template = format!("longpole: {template}");
    match ProgressStyle::with_template(&template) {
        Ok(style) => bar.with_style(style.progress_chars("#- ")),
        Err(_) => bar,
    }
}

/// The bar of a conversion whose progress is known.
pub struct Conversion {
    template: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Conversion {
    /// Of the kernel's events.
    pub fn new() -> Conversion {
        Conversion { template: CONVERTING_TEMPLATE, since: Instant::now(), bar: None }
    }

    /// Of copied stacks.
    pub fn of_stacks() -> Conversion {
        Conversion { template: UNWINDING_TEMPLATE, since: Instant::now(), bar: None }
    }

    /// Shows that `done` of `total` bytes are converted.
    pub fn show(&mut self, done: u64, total: u64) {
        if self.since.elapsed() < BAR_DELAY || !io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| of_bytes(self.template, total));
        bar.set_length(total);
        bar.set_position(done.min(total));
    }
}

impl Drop for Conversion {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How much of a trace has been read, for a page. It is too large if the process reads anything
/// else at the same time.
pub struct ReadShare {
    begin: u64,
    total: u64,
}

impl ReadShare {
    /// Begins to count; `None` if the kernel does not count.
    pub fn of(path: &Path) -> Option<ReadShare> {
        Some(ReadShare { begin: bytes_read()?, total: size(path, MAX_DEPTH).max(1) })
    }

    /// Returns the share, 0 to 1.
    pub fn now(&self) -> f64 {
        let read = bytes_read().unwrap_or(self.begin).saturating_sub(self.begin);
        (read as f64 / self.total as f64).min(1.0)
    }
}

/// Returns the number of bytes that this process has read from files. `None` if the kernel does not
/// count them.
fn bytes_read() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("rchar: "))?.trim().parse().ok()
}

/// Returns the size in bytes of a file, or of all files in a directory. Files that cannot be looked
/// at count as empty; the code that reads them reports that. Linked directories are not read.
fn size(path: &Path, depth: usize) -> u64 {
    let Ok(data) = path.metadata() else { return 0 };
    if data.is_file() {
        return data.len();
    }
    let Some(deeper) = depth.checked_sub(1) else { return 0 };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_linked_directory = |path: &Path| path.is_symlink() && path.is_dir();
    entries.map(|entry| entry.path()).filter(|path| !is_linked_directory(path)).map(|path| size(&path, deeper)).sum()
}
