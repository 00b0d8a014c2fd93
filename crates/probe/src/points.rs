//! Numbered cycle counters, as seL4's benchmarks have: what lies between `trace_point_start!(i)` and `trace_point_stop!(i)`, without a recorder.
//! As `include/longpole/points.h`.
//!
//! They nest and interleave in any way. A stop counts only if a start came since the last stop, so that a way that is left between the two
//! leaves no sample: this is how one of several ways is chosen. Each thread has counters of its own, and results are of all threads. From
//! minimum, maximum and mean is subtracted what an empty pair shows on this machine; that is measured at the first result. They need `std`, for
//! its thread-local storage.

use crate::say;
use crate::system::{self, counter, Text};
use core::cell::Cell;
use core::mem::size_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// Numbers from 0; others are passed over.
pub const POINTS: u64 = 64;
/// Two more than there are numbers: an empty pair within a pair.
const OUTER: u64 = POINTS;
const INNER: u64 = POINTS + 1;

/// Cycles of the time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PointResult {
    pub samples: u64,
    pub minimum: u64,
    pub maximum: u64,
    pub mean: f64,
    pub sigma: f64,
    /// Of the mean.
    pub sigma_percent: f64,
    /// What an empty pair shows, and was subtracted.
    pub cost: f64,
    /// What a pair takes beside that: who has it within a pair of another number subtracts both.
    pub cost_around: f64,
}

/// A number of a thread. Sums are of differences to the first sample: so they stay small, and their squares exact enough. The thread alone
/// writes; others look at it meanwhile.
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

/// Of a thread, or of several, one after the other.
struct Points {
    next: AtomicPtr<Points>,
    taken: AtomicU32,
    point: [Point; POINTS as usize + 2],
}

struct All {
    first: AtomicPtr<Points>,
    /// Who took the first sample: a child does not print its parent's.
    pid: AtomicI32,
    printed: AtomicU64,
    /// Cost and what is around it are known, or being found out.
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

/// This thread's; they serve others when it has ended.
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

/// All that there are, of all threads.
fn all() -> impl Iterator<Item = &'static Points> {
    // SAFETY: what is in the list is never unmapped, and of zeros or written by atomic stores.
    let at = |pointer: &AtomicPtr<Points>| unsafe { pointer.load(Acquire).as_ref() };
    core::iter::successors(at(&ALL.first), move |points| at(&points.next))
}

/// Another thread's that has ended, or new ones; none without memory.
#[cold]
#[inline(never)]
fn take(mine: &Mine) -> Option<&'static Points> {
    let idle = all().find(|points| points.taken.compare_exchange(0, 1, AcqRel, Relaxed).is_ok());
    let points = match idle {
        Some(points) => points,
        None => {
            let made: *mut Points = system::map_private(size_of::<Points>()).cast();
            // SAFETY: the mapping is as large as the structure, of zeros, and nobody else knows it; it stays.
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
        // SAFETY: the function lives as long as the library; that of a library is called when it is unloaded.
        unsafe { system::atexit(at_end) };
    }
    mine.0.set(Some(points));
    // Not when results are asked for: at the program's end no thread has points of its own any more.
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
    // Last: what another thread may look at meanwhile.
    point.samples.store(samples + 1, Release);
}

/// An empty pair within a pair: what the inner one shows, and what it takes of the outer one.
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
        // The first half warms up.
        inner[round % ROUNDS] = within.first.load(Relaxed);
        outer[round % ROUNDS] = around.first.load(Relaxed);
    }
    let [inner, outer] = [&mut inner, &mut outer].map(|values| {
        values.sort_unstable();
        values[ROUNDS / 2]
    });
    ALL.cost.store(inner, Relaxed);
    // The outer pair shows itself, too.
    ALL.cost_around.store(outer.saturating_sub(2 * inner), Relaxed);
}

/// Of all threads; none without a sample.
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
        // Means and squares of two parts make those of the whole (Chan, Golub and LeVeque 1979).
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

/// One write, for 64 lines at most.
#[cold]
pub fn print() {
    let total = samples();
    ALL.printed.store(total, Relaxed);
    if total == 0 {
        return;
    }
    let mut text = Text::<7168>::of(&[b"["]);
    say::label(&mut text);
    text.push(b"] trace points, in cycles\n  point     samples         min         max          mean         sigma  sigma %\n");
    for (number, found) in (0..POINTS).filter_map(|number| Some((number, result(number)?))) {
        for (value, width) in [(number, 7), (found.samples, 12), (found.minimum, 12), (found.maximum, 12)] {
            let mut word = Text::new();
            word.push_number(value, 10, 0);
            say::right(&mut text, &word, width);
        }
        for (value, width) in [(found.mean, 14), (found.sigma, 14), (found.sigma_percent, 9)] {
            let mut word = Text::new();
            say::decimal(&mut word, value);
            say::right(&mut text, &word, width);
        }
        text.push(b"\n");
    }
    text.push(b"  what an empty pair shows is subtracted: ");
    text.push_number(ALL.cost.load(Relaxed), 10, 0);
    text.push(b"; a pair within another takes ");
    text.push_number(ALL.cost.load(Relaxed) + ALL.cost_around.load(Relaxed), 10, 0);
    text.push(b"\n");
    say::say(text.bytes());
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

/// What was printed is not printed again.
extern "C" fn at_end() {
    if ALL.pid.load(Relaxed) == system::getpid() as i32 && samples() != ALL.printed.load(Relaxed) {
        print();
    }
}

/// `trace_point_start!(i)`: cycles of the number `i` count from here to [`trace_point_stop!`](crate::trace_point_stop). Results: [`trace_point_result!`](crate::trace_point_result), and a table on stderr by
/// [`trace_point_print!`](crate::trace_point_print) and at the program's end.
#[macro_export]
macro_rules! trace_point_start {
    ($number:expr $(,)?) => {
        $crate::__private::point_start($number as u64)
    };
}

/// `trace_point_stop!(i)`: a sample, if a start came since the last stop.
#[macro_export]
macro_rules! trace_point_stop {
    ($number:expr $(,)?) => {
        $crate::__private::point_stop($number as u64)
    };
}

/// `trace_point_result!(i)`: an `Option` of [`PointResult`](crate::PointResult), of all threads; `None`: no sample.
#[macro_export]
macro_rules! trace_point_result {
    ($number:expr $(,)?) => {
        $crate::__private::point_result($number as u64)
    };
}

/// `trace_point_print!()`: a table of all numbers on stderr.
#[macro_export]
macro_rules! trace_point_print {
    () => {
        $crate::__private::point_print()
    };
}

/// `trace_point_reset!()`: as if there had been no sample.
#[macro_export]
macro_rules! trace_point_reset {
    () => {
        $crate::__private::point_reset()
    };
}
