//! Tiles: the items of rows in the bytes that a GPU draws.
//!
//! An item is 16 bytes: begin and end as f32 in bins from the begin of the tile (never a duration,
//! because of cancellation), state and worst state as u16, number of states as u16, and the shares
//! of busy time and of time on the critical path as u8. Rows with values have values in the places
//! of states.

use longpole_analysis::timeline::{Grid, Item, Picture, RowId, RowItems, ValueItem, ValueItems};

const MAGIC: &[u8; 4] = b"LPT1";

pub(crate) fn packed(rows: &[RowId], grid: Grid, picture: &Picture) -> Vec<u8> {
    let values: usize = picture.values.values().map(|row| row.items.len()).sum();
    let items: usize = picture.rows.iter().map(|(row, _)| row.items.len()).sum::<usize>() + values;
    let mut bytes = Vec::with_capacity(16 + 16 * rows.len() + 16 * items);
    bytes.extend_from_slice(MAGIC);
    number(&mut bytes, rows.len() as u32);
    number(&mut bytes, picture.version as u32);
    number(&mut bytes, 0);
    let mut first = 0;
    for (row, (items, _)) in rows.iter().zip(&picture.rows) {
        let values = picture.values.get(row).map(|values| (values.is_exact, values.items.len()));
        let (is_exact, count) = values.unwrap_or((items.is_exact, items.items.len()));
        let count = count as u32;
        [row.0, u32::from(is_exact) + 2 * u32::from(items.is_group), first, count].into_iter().for_each(|field| number(&mut bytes, field));
        first += count;
    }
    for (id, (row, on_path)) in rows.iter().zip(&picture.rows) {
        let mut path = OnPath::new(on_path);
        row.items.iter().for_each(|item| pack(&mut bytes, grid, item, path.ns(item.begin, item.end)));
        if let Some(values) = picture.values.get(id) {
            values.items.iter().for_each(|item| pack_value(&mut bytes, grid, values, item));
        }
    }
    bytes
}

fn number(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn pack(bytes: &mut Vec<u8>, grid: Grid, item: &Item, path_ns: u64) {
    put_times(bytes, grid, item.begin, item.end);
    for field in [small(item.state.0.into()), small(item.worst.0.into()), small(item.count)] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[share(item.busy_ns, item), share(path_ns, item)]);
}

/// Least and greatest value are in the places of the states, the mean in that of the busy share.
fn pack_value(bytes: &mut Vec<u8>, grid: Grid, row: &ValueItems, item: &ValueItem) {
    put_times(bytes, grid, item.begin, item.end);
    for field in [place(row, item.min), place(row, item.max), small(item.count)] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[(row.place(item.mean) * 255.0).round() as u8, 0]);
}

/// Returns the place of a value on the scale of its row: 0 is the lower end, 65,535 the upper one.
pub(crate) fn place(row: &ValueItems, value: f64) -> u16 {
    (row.place(value) * f64::from(u16::MAX)).round() as u16
}

fn small(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn put_times(bytes: &mut Vec<u8>, grid: Grid, begin: u64, end: u64) {
    let bins = |t: u64| {
        let from_begin = t as i128 - i128::from(grid.begin());
        // What reaches far beyond the tile is cut off, where f32 would be too coarse.
        let within = (grid.count as f64) * 2.0;
        ((from_begin as f64) / (1u64 << grid.level) as f64).clamp(-within, 2.0 * within) as f32
    };
    bytes.extend_from_slice(&bins(begin).to_le_bytes());
    bytes.extend_from_slice(&bins(end).to_le_bytes());
}

/// Returns the share of an item's time as a byte: 0 is nothing, 255 all of it. A small share is at
/// least 1, and a large one at most 254.
pub(crate) fn share(ns: u64, item: &Item) -> u8 {
    match (ns, item.end - item.begin) {
        (0, _) => 0,
        (ns, whole) if ns >= whole => 255,
        (ns, whole) => ((ns as f64 / whole as f64) * 255.0).round().clamp(1.0, 254.0) as u8,
    }
}

/// The time on the critical path of one item after the other, in the order of time.
pub(crate) struct OnPath<'a> {
    items: &'a RowItems,
    at: usize,
}

impl<'a> OnPath<'a> {
    pub fn new(items: &'a RowItems) -> OnPath<'a> {
        OnPath { items, at: 0 }
    }

    pub fn ns(&mut self, begin: u64, end: u64) -> u64 {
        let all = &self.items.items;
        while all.get(self.at).is_some_and(|item| item.end <= begin) {
            self.at += 1;
        }
        let overlapping = all[self.at.min(all.len())..].iter().take_while(|item| item.begin < end);
        let share = |item: &Item| {
            let overlap = item.end.min(end) - item.begin.max(begin);
            (overlap as f64 * (item.busy_ns as f64 / (item.end - item.begin).max(1) as f64)).round() as u64
        };
        overlapping.map(share).sum()
    }
}
