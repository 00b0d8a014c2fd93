//! Numbered cycle counters, as in seL4's benchmarks: they measure the code between
//! `trace_point_start!(i)` and `trace_point_stop!(i)`, without a recorder. The Rust counterpart of
//! `include/longpole/points.h`.
//!
//! Counters can be nested and interleaved in any way. A stop is counted only if there was a start
//! since the last stop. So a code path that is left between the two adds no sample, which allows
//! selecting one of several paths. Each thread has its own counters; results are those of all
//! threads together.
//!
//! The cost of an empty pair on this host is subtracted from minimum, maximum and mean. It is
//! measured when the first thread uses a counter. The C header measures later, at the first result:
//! there the counters do not live in thread-local storage. The module needs `std`, for thread-local
//! storage.

use crate::cycles::stderr_line;
use crate::system::{self, counter, Text};
use core::cell::Cell;
use core::mem::size_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// Number of counters. Higher numbers are ignored.
pub const POINTS: u64 = 64;
/// Two additional counters, for measuring an empty pair within another pair.
const OUTER: u64 = POINTS;
const INNER: u64 = POINTS + 1;

/// Results of a counter, in cycles of the time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PointResult {
    pub samples: u64,
    pub minimum: u64,
    pub maximum: u64,
    pub mean: f64,
    pub sigma: f64,
    /// Standard deviation in percent of the mean.
    pub sigma_percent: f64,
    /// Cost of an empty pair, which was subtracted.
    pub cost: f64,
    /// Additional cost of a pair outside of the interval that it measures. If a pair encloses a
    /// pair of another number, subtract `cost` and `cost_around`.
    pub cost_around: f64,
}

/// A counter of one thread. Sums are those of differences to the first sample, so they stay small
/// and their squares sufficiently exact. Only the owning thread writes; other threads read
/// concurrently.
struct Point {
    begin: AtomicU64,
    started: AtomicU64,
    samples: AtomicU64,
    first: AtomicU64,
    minimum: AtomicU64,
    maximum: AtomicU64,
    sum: AtomicU64,
    squares: AtomicU64,
}

/// The counters of a thread. Another thread reuses them after this thread has ended.
struct Points {
    next: AtomicPtr<Points>,
    taken: AtomicU32,
    point: [Point; POINTS as usize + 2],
}

struct All {
    first: AtomicPtr<Points>,
    /// The process that took the first sample. A child process does not print the results of its
    /// parent.
    pid: AtomicI32,
    printed: AtomicU64,
    /// 1 if `cost` and `cost_around` are known or being measured.
    measured: AtomicU32,
    cost: AtomicU64,
    cost_around: AtomicU64,
}

static ALL: All = All {
    first: AtomicPtr::new(null_mut()),
    pid: AtomicI32::new(0),
    printed: AtomicU64::new(0),
    measured: AtomicU32::new(0),
    cost: AtomicU64::new(0),
    cost_around: AtomicU64::new(0),
};

/// The counters of this thread; other threads use them when it has ended.
struct Mine(Cell<Option<&'static Points>>);

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(points) = self.0.take() {
            points.taken.store(0, Release);
        }
    }
}

std::thread_local! {
    static MINE: Mine = const { Mine(Cell::new(None)) };
}

/// The counters of all threads.
fn all() -> impl Iterator<Item = &'static Points> {
    // SAFETY: elements of the list are never unmapped; they are zero-initialised and written by
    // atomic stores.
    let at = |pointer: &AtomicPtr<Points>| unsafe { pointer.load(Acquire).as_ref() };
    core::iter::successors(at(&ALL.first), move |points| at(&points.next))
}

/// Takes the counters of a thread that has ended, or makes new ones; `None` if there is no memory.
#[cold]
#[inline(never)]
fn take(mine: &Mine) -> Option<&'static Points> {
    let idle = all().find(|points| points.taken.compare_exchange(0, 1, AcqRel, Relaxed).is_ok());
    let points = match idle {
        Some(points) => points,
        None => {
            let made: *mut Points = system::map_private(size_of::<Points>()).cast();
            // SAFETY: the mapping is as large as the structure, zero-initialised, known only here,
            // and never unmapped.
            let points: &'static Points = unsafe { made.as_ref()? };
            points.taken.store(1, Relaxed);
            let mut first = ALL.first.load(Relaxed);
            loop {
                points.next.store(first, Relaxed);
                match ALL.first.compare_exchange(first, made, AcqRel, Relaxed) {
                    Ok(_) => break,
                    Err(other) => first = other,
                }
            }
            points
        }
    };
    if ALL.pid.compare_exchange(0, system::getpid() as i32, AcqRel, Relaxed).is_ok() {
        // SAFETY: the function lives as long as the library; handlers of a library are called when
        // it is unloaded.
        unsafe { system::atexit(at_end) };
    }
    mine.0.set(Some(points));
    // Not when results are requested: at the end of the program no thread has its own counters any
    // more.
    if ALL.measured.swap(1, AcqRel) == 0 {
        measure();
    }
    Some(points)
}

#[inline(always)]
fn own(number: u64) -> Option<&'static Point> {
    let points = MINE.try_with(|mine| mine.0.get().or_else(|| take(mine))).ok()??;
    points.point.get(usize::try_from(number).ok()?)
}

#[inline(always)]
pub fn start(number: u64) {
    let Some(point) = own(number) else { return };
    point.started.store(1, Relaxed);
    point.begin.store(counter(), Relaxed);
}

#[inline(always)]
pub fn stop(number: u64) {
    let now = counter();
    let Some(point) = own(number).filter(|point| point.started.load(Relaxed) != 0) else { return };
    point.started.store(0, Relaxed);
    let cycles = now.wrapping_sub(point.begin.load(Relaxed));
    let samples = point.samples.load(Relaxed);
    if samples == 0 {
        point.first.store(cycles, Relaxed);
        point.minimum.store(cycles, Relaxed);
        point.maximum.store(cycles, Relaxed);
        point.sum.store(0, Relaxed);
        point.squares.store(0, Relaxed);
    }
    let difference = cycles.wrapping_sub(point.first.load(Relaxed));
    point.sum.store(point.sum.load(Relaxed).wrapping_add(difference), Relaxed);
    let real = difference as i64 as f64;
    point.squares.store((f64::from_bits(point.squares.load(Relaxed)) + real * real).to_bits(), Relaxed);
    if cycles < point.minimum.load(Relaxed) {
        point.minimum.store(cycles, Relaxed);
    }
    if cycles > point.maximum.load(Relaxed) {
        point.maximum.store(cycles, Relaxed);
    }
    // Written last, because other threads read the sample after this number.
    point.samples.store(samples + 1, Release);
}

/// Measures an empty pair within another pair: the value of the inner pair, and the time that it
/// adds to the outer one.
#[cold]
fn measure() {
    const ROUNDS: usize = 255;
    let Some((within, around)) = own(INNER).zip(own(OUTER)) else { return };
    let (mut inner, mut outer) = ([0u64; ROUNDS], [0u64; ROUNDS]);
    for round in 0..2 * ROUNDS {
        within.samples.store(0, Relaxed);
        around.samples.store(0, Relaxed);
        start(OUTER);
        start(INNER);
        stop(INNER);
        stop(OUTER);
        // The first half of the rounds warms up the caches; the second half overwrites its values.
        inner[round % ROUNDS] = within.first.load(Relaxed);
        outer[round % ROUNDS] = around.first.load(Relaxed);
    }
    let [inner, outer] = [&mut inner, &mut outer].map(|values| {
        values.sort_unstable();
        values[ROUNDS / 2]
    });
    ALL.cost.store(inner, Relaxed);
    // The outer pair also measures its own cost.
    ALL.cost_around.store(outer.saturating_sub(2 * inner), Relaxed);
}

/// The results of all threads; `None` if there is no sample.
#[cold]
pub fn result(number: u64) -> Option<PointResult> {
    if number >= POINTS {
        return None;
    }
    let (mut result, mut squares) = (PointResult::default(), 0.0);
    for points in all() {
        let point = &points.point[number as usize];
        let samples = point.samples.load(Acquire);
        if samples == 0 {
            continue;
        }
        let (minimum, maximum) = (point.minimum.load(Relaxed), point.maximum.load(Relaxed));
        result.minimum = if result.samples == 0 { minimum } else { result.minimum.min(minimum) };
        result.maximum = result.maximum.max(maximum);
        // Combines means and sums of squares of two parts (Chan, Golub and LeVeque 1979).
        let (own, others) = (samples as f64, result.samples as f64);
        let shift = point.sum.load(Relaxed) as i64 as f64 / own;
        let apart = point.first.load(Relaxed) as f64 + shift - result.mean;
        squares += f64::from_bits(point.squares.load(Relaxed)) - shift * shift * own + apart * apart * own * others / (own + others);
        result.mean += apart * own / (own + others);
        result.samples += samples;
    }
    if result.samples == 0 {
        return None;
    }
    let cost = ALL.cost.load(Relaxed);
    result.cost = cost as f64;
    result.cost_around = ALL.cost_around.load(Relaxed) as f64;
    result.minimum = result.minimum.saturating_sub(cost);
    result.maximum = result.maximum.saturating_sub(cost);
    result.mean = (result.mean - result.cost).max(0.0);
    if result.samples > 1 {
        result.sigma = (squares.max(0.0) / (result.samples - 1) as f64).sqrt();
    }
    result.sigma_percent = if result.mean > 0.0 { 100.0 * result.sigma / result.mean } else { 0.0 };
    Some(result)
}

fn samples() -> u64 {
    all().flat_map(|points| &points.point[..POINTS as usize]).map(|point| point.samples.load(Relaxed)).sum()
}

/// Prints the table in one write, of at most 64 lines.
#[cold]
pub fn print() {
    let total = samples();
    ALL.printed.store(total, Relaxed);
    if total == 0 {
        return;
    }
    let mut text = Text::<7168>::of(&[b"["]);
    stderr_line::label(&mut text);
    text.push(b"] trace points, in cycles\n  point     samples         min         max          mean         sigma  sigma %\n");
    for (number, found) in (0..POINTS).filter_map(|number| Some((number, result(number)?))) {
        for (value, width) in [(number, 7), (found.samples, 12), (found.minimum, 12), (found.maximum, 12)] {
            let mut word = Text::new();
            word.push_number(value, 10, 0);
            stderr_line::right(&mut text, &word, width);
        }
        for (value, width) in [(found.mean, 14), (found.sigma, 14), (found.sigma_percent, 9)] {
            let mut word = Text::new();
            stderr_line::decimal(&mut word, value);
            stderr_line::right(&mut text, &word, width);
        }
        text.push(b"\n");
    }
    text.push(b"  what an empty pair shows is subtracted: ");
    text.push_number(ALL.cost.load(Relaxed), 10, 0);
    text.push(b"; a pair within another takes ");
    text.push_number(ALL.cost.load(Relaxed) + ALL.cost_around.load(Relaxed), 10, 0);
    text.push(b"\n");
    stderr_line::write(text.bytes());
}

#[cold]
pub fn reset() {
    for point in all().flat_map(|points| &points.point[..POINTS as usize]) {
        point.started.store(0, Relaxed);
        point.samples.store(0, Relaxed);
    }
    ALL.printed.store(0, Relaxed);
    if ALL.pid.load(Relaxed) != 0 {
        ALL.pid.store(system::getpid() as i32, Relaxed);
    }
}

/// Prints the results at the end of the program, if there are new samples since the last print.
extern "C" fn at_end() {
    if ALL.pid.load(Relaxed) == system::getpid() as i32 && samples() != ALL.printed.load(Relaxed) {
        print();
    }
}

/// `trace_point_start!(i)`: begins a sample of counter `i`, which ends at
/// [`trace_point_stop!`](crate::trace_point_stop). The results are returned by
/// [`trace_point_result!`](crate::trace_point_result) and printed as a table on stderr by
/// [`trace_point_print!`](crate::trace_point_print) and at the end of the program.
#[macro_export]
macro_rules! trace_point_start {
    ($number:expr $(,)?) => {
        $crate::__private::point_start($number as u64)
    };
}

/// `trace_point_stop!(i)`: adds a sample, if there was a start since the last stop.
#[macro_export]
macro_rules! trace_point_stop {
    ($number:expr $(,)?) => {
        $crate::__private::point_stop($number as u64)
    };
}

/// `trace_point_result!(i)`: the [`PointResult`](crate::PointResult) of all threads as an `Option`;
/// `None` if there is no sample.
#[macro_export]
macro_rules! trace_point_result {
    ($number:expr $(,)?) => {
        $crate::__private::point_result($number as u64)
    };
}

/// `trace_point_print!()`: prints a table of all counters to stderr.
#[macro_export]
macro_rules! trace_point_print {
    () => {
        $crate::__private::point_print()
    };
}

/// `trace_point_reset!()`: discards all samples.
#[macro_export]
macro_rules! trace_point_reset {
    () => {
        $crate::__private::point_reset()
    };
}
