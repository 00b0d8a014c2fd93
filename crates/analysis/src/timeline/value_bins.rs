//! Bins of a row with values: between which values it is in each of many equal stretches of time.
//!
//! A bin names the least and the greatest value in it, so that no peak is hidden at any zoom, and
//! the mean. Neighbouring bins within one step are one item. If a row has at most one step per bin,
//! its steps themselves are the items.

use super::bins::Grid;
use super::store::{RowId, Store, ValueStep, ValueSum, VisitValues};
use std::io;

/// A step, or one or several neighbouring bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueItem {
    /// In ns. Bins reach from edge to edge; a step reaches to its own begin and end.
    pub begin: u64,
    pub end: u64,
    pub min: f64,
    pub max: f64,
    /// Weighted by time.
    pub mean: f64,
    /// Number of steps that begin in it.
    pub count: u64,
}

/// The items of a row with values in a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueItems {
    /// True if each item is a step.
    pub is_exact: bool,
    pub items: Vec<ValueItem>,
    /// Range of the row's values in the whole trace, extended to 0: the scale of the picture.
    pub scale: (f64, f64),
}

impl ValueItems {
    /// Returns the place of a value on the scale, 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.scale;
        if high > low {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

/// Returns the items of a row in a picture.
///
/// # Errors
///
/// If the store's file cannot be read.
pub fn value_items(store: &Store, row: RowId, grid: Grid) -> io::Result<ValueItems> {
    let (begin, end) = (grid.begin(), grid.end());
    if store.steps_at_most(row, begin, end, grid.count) <= grid.count {
        return exact_value_items(store, row, (begin, end));
    }
    let mut binned = Binned { grid, bin: None, sum: ValueSum::default(), items: Vec::new(), last_is_pure: false };
    store.visit_values(row, begin, end, &mut binned)?;
    binned.close_bin();
    Ok(ValueItems { is_exact: false, items: binned.items, scale: scale(store, row)? })
}

/// Returns the steps of a row that overlap a range, each as an item.
///
/// # Errors
///
/// If the store's file cannot be read.
pub fn exact_value_items(store: &Store, row: RowId, (begin, end): (u64, u64)) -> io::Result<ValueItems> {
    let mut exact = Steps { steps: Vec::new(), limit: usize::MAX };
    store.visit_values(row, begin, end, &mut exact)?;
    let item = |ValueStep { begin, end, value }: ValueStep| ValueItem { begin, end, min: value, max: value, mean: value, count: 1 };
    Ok(ValueItems { is_exact: true, items: exact.steps.into_iter().map(item).collect(), scale: scale(store, row)? })
}

/// Returns the first steps that overlap the range, and true if there are more than `limit`.
///
/// # Errors
///
/// If the store's file cannot be read.
pub fn first_steps(store: &Store, row: RowId, (begin, end): (u64, u64), limit: usize) -> io::Result<(Vec<ValueStep>, bool)> {
    let mut first = Steps { steps: Vec::new(), limit: limit.saturating_add(1) };
    store.visit_values(row, begin, end, &mut first)?;
    let more = first.steps.len() > limit;
    first.steps.truncate(limit);
    Ok((first.steps, more))
}

fn scale(store: &Store, row: RowId) -> io::Result<(f64, f64)> {
    let sum = store.value_sum(row, 0, u64::MAX)?;
    Ok((sum.min.min(0.0), sum.max.max(0.0)))
}

/// Collects the steps themselves.
struct Steps {
    steps: Vec<ValueStep>,
    limit: usize,
}

impl VisitValues for Steps {
    fn is_enough(&mut self, _: u64, _: u64) -> bool {
        false
    }

    fn sum(&mut self, _: u64, _: &ValueSum) {}

    fn step(&mut self, step: ValueStep) {
        self.steps.push(step);
    }

    fn is_over(&self) -> bool {
        self.steps.len() >= self.limit
    }
}

/// Collects bins.
struct Binned {
    grid: Grid,
    /// The bin to which `sum` belongs.
    bin: Option<u64>,
    sum: ValueSum,
    items: Vec<ValueItem>,
    /// True if the row has one and the same value during the whole last item.
    last_is_pure: bool,
}

impl VisitValues for Binned {
    fn is_enough(&mut self, begin: u64, end: u64) -> bool {
        self.grid.bin(begin) == self.grid.bin(end - 1)
    }

    fn sum(&mut self, begin: u64, sum: &ValueSum) {
        self.enter(self.grid.bin(begin));
        self.sum.add_sum(sum);
    }

    fn step(&mut self, ValueStep { begin, end, value }: ValueStep) {
        let grid = self.grid;
        let (mut from, to) = (begin.max(grid.begin()), end.min(grid.end()));
        let mut count = u64::from(begin >= grid.begin());
        let whole = from.div_ceil(grid.width())..to >> grid.level;
        if whole.start < whole.end {
            let (first, last) = (whole.start << grid.level, whole.end << grid.level);
            if from < first {
                self.add(from, value, first - from, std::mem::take(&mut count));
            }
            self.close_bin();
            let mut sum = ValueSum::default();
            sum.add(value, last - first, std::mem::take(&mut count));
            self.item(first, last, &sum);
            from = last;
        }
        // What is left lies in one bin, or in two neighbouring ones.
        while from < to {
            let edge = ((grid.bin(from) + 1) << grid.level).min(to);
            self.add(from, value, edge - from, std::mem::take(&mut count));
            from = edge;
        }
    }
}

impl Binned {
    fn enter(&mut self, bin: u64) {
        if self.bin != Some(bin) {
            self.close_bin();
            self.bin = Some(bin);
        }
    }

    fn add(&mut self, t: u64, value: f64, ns: u64, count: u64) {
        self.enter(self.grid.bin(t));
        self.sum.add(value, ns, count);
    }

    fn close_bin(&mut self) {
        let Some(bin) = self.bin.take() else { return };
        let sum = std::mem::take(&mut self.sum);
        self.item(bin << self.grid.level, (bin + 1) << self.grid.level, &sum);
    }

    fn item(&mut self, begin: u64, end: u64, sum: &ValueSum) {
        let Some(mean) = sum.mean() else { return };
        let is_pure = sum.min == sum.max && sum.ns == end - begin;
        match self.items.last_mut() {
            Some(last) if is_pure && self.last_is_pure && last.end == begin && last.min == sum.min => {
                last.end = end;
                last.count += sum.count;
            }
            _ => self.items.push(ValueItem { begin, end, min: sum.min, max: sum.max, mean, count: sum.count }),
        }
        self.last_is_pure = is_pure;
    }
}
