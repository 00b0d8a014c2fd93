//! The items of rows as columns of small numbers, which compress well.
//!
//! A column has one number per item: all gaps, then all lengths, then all states. A number has
//! seven bits per byte, lowest first; all bytes but the last have the top bit. `web/src/api/
//! file_data.ts` reads what this file writes.

use crate::tiles::{place, share, OnPath};
use longpole_analysis::timeline::{Item, RowItems, StateId, ValueItem, ValueItems};
use std::collections::HashMap;

/// Maximum number of states in a bin, as in a tile.
const MAX_COUNT: u64 = u16::MAX as u64;

/// The states that occur, numbered in the order in which they were met.
#[derive(Clone, Default)]
pub(super) struct UsedStates {
    numbers: HashMap<StateId, u64>,
    pub all: Vec<StateId>,
}

impl UsedStates {
    fn number(&mut self, state: StateId) -> u64 {
        let all = &mut self.all;
        *self.numbers.entry(state).or_insert_with(|| {
            all.push(state);
            all.len() as u64 - 1
        })
    }
}

/// Appends a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends states: their number, then gap before it, length, state and share of the path of each.
/// Gaps and lengths are in ns.
pub(super) fn put_states(bytes: &mut Vec<u8>, used: &mut UsedStates, (row, on_path): &(RowItems, RowItems)) {
    put_times(bytes, used, &row.items, 0);
    put_path(bytes, row, on_path);
}

/// Appends the bins of a level: as states, in bins, and then worst state (0 if it is the state
/// itself, or its number plus 1), number of states and busy share of each.
pub(super) fn put_bins(bytes: &mut Vec<u8>, used: &mut UsedStates, (row, on_path): &(RowItems, RowItems), level: u32) {
    put_times(bytes, used, &row.items, level);
    put_path(bytes, row, on_path);
    for item in &row.items {
        put(bytes, if item.worst == item.state { 0 } else { used.number(item.worst) + 1 });
    }
    row.items.iter().for_each(|item| put(bytes, item.count.min(MAX_COUNT)));
    row.items.iter().for_each(|item| put(bytes, share(item.busy_ns, item).into()));
}

/// Appends the steps of a row with values: their number, then gap before it, length, and the two
/// halves of the value's bits of each.
pub(super) fn put_steps(bytes: &mut Vec<u8>, row: &ValueItems) {
    put_intervals(bytes, row.items.iter().map(value_interval), 0);
    let bits = |item: &ValueItem| item.mean.to_bits();
    // The first half of a small whole number ends with zeros, which are first here.
    row.items.iter().for_each(|item| put(bytes, ((bits(item) >> 32) as u32).swap_bytes().into()));
    row.items.iter().for_each(|item| put(bytes, bits(item) & u64::from(u32::MAX)));
}

/// Appends the bins of a row with values: their number, then gap and length in bins, places of the
/// least and the greatest value, number of steps, and place of the mean.
pub(super) fn put_value_bins(bytes: &mut Vec<u8>, row: &ValueItems, level: u32) {
    put_intervals(bytes, row.items.iter().map(value_interval), level);
    row.items.iter().for_each(|item| put(bytes, place(row, item.min).into()));
    row.items.iter().for_each(|item| put(bytes, place(row, item.max).into()));
    row.items.iter().for_each(|item| put(bytes, item.count.min(MAX_COUNT)));
    row.items.iter().for_each(|item| put(bytes, (row.place(item.mean) * 255.0).round() as u64));
}

fn value_interval(item: &ValueItem) -> (u64, u64) {
    (item.begin, item.end)
}

/// Appends the number of items, the gap before each one, and the length of each one.
fn put_intervals(bytes: &mut Vec<u8>, items: impl ExactSizeIterator<Item = (u64, u64)> + Clone, level: u32) {
    put(bytes, items.len() as u64);
    let mut now = 0;
    for (begin, end) in items.clone() {
        put(bytes, (begin >> level).saturating_sub(now));
        now = end >> level;
    }
    items.for_each(|(begin, end)| put(bytes, (end - begin) >> level));
}

fn put_times(bytes: &mut Vec<u8>, used: &mut UsedStates, items: &[Item], level: u32) {
    put_intervals(bytes, items.iter().map(|item| (item.begin, item.end)), level);
    items.iter().for_each(|item| put(bytes, used.number(item.state)));
}

fn put_path(bytes: &mut Vec<u8>, row: &RowItems, on_path: &RowItems) {
    let mut path = OnPath::new(on_path);
    row.items.iter().for_each(|item| put(bytes, share(path.ns(item.begin, item.end), item).into()));
}
