//! The timeline: the state of each thread, CPU and interrupt at each moment, and the values of
//! queues and counters, for pictures.
//!
//! [`Timeline`] is filled while a trace is read ([`TimelineWriter`] follows the interactions) and
//! may be read by others at the same time, so a picture grows with the reading. What is known only
//! at the end is added then: the process of each thread, the occupancy of the CPUs, and the
//! critical path.
//!
//! Times are in ns since the begin of the timeline, so that they are small. [`bins`] makes the
//! items of a picture from the states, in a time that depends on the number of pixels and not on
//! the number of states.
//!
//! This room stores states; drawing and judging them is done elsewhere.

pub mod bins;
mod distribution;
mod file;
mod group_bins;
mod machine_states;
mod on_cpus;
mod packet_rows;
mod rows;
mod sampled_waits;
mod search;
mod state_names;
mod state_times;
mod store;
mod value_bins;
mod value_rows;
mod value_sums;
mod writer;

pub use bins::{Grid, Item, RowItems};
pub use distribution::Distribution;
pub use group_bins::MAX_GROUP_ROWS;
pub use on_cpus::{OnCpu, ThreadsOnCpus};
pub use packet_rows::{PacketAt, PacketMark, PacketRow};
pub use rows::{Row, RowKind, ThreadFacts, ValueFacts};
pub use sampled_waits::WaitMark;
pub use search::{Found, Match};
pub use state_names::{StateClass, StateId, StateName};
pub use state_times::StateTimes;
pub use store::{RowId, StateInterval, ValueStep};
pub use value_bins::{ValueItem, ValueItems};
pub use value_rows::ValueSeries;
pub use value_sums::RangeValues;
pub use writer::{add_path, CpuRows, CpuRowsWriter, TimelineWriter};

use group_bins::GroupBins;
use longpole_model::interaction::MachineId;
use rows::Rows;
use state_names::StateNames;
use std::collections::HashMap;
use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use store::Store;

/// The states of all rows, shared between the thread that reads the trace and those that show it.
#[derive(Debug, Default)]
pub struct Timeline(RwLock<Content>);

#[derive(Debug, Default)]
struct Content {
    store: Store,
    names: StateNames,
    rows: Rows,
    /// Groups of rows of packets by title, while the trace is read.
    packet_groups: HashMap<String, RowId>,
    /// Row of the critical path: which state of which machine is on it.
    path: Option<RowId>,
    waits: sampled_waits::Waits,
    /// Range of the trace in ns on its clock; begin and end are equal while nothing is known. The
    /// times of the store are since the begin.
    begin: u64,
    end: u64,
    /// Grows with each change.
    version: u64,
    /// Number of the fillings before this one.
    generation: u64,
}

/// The rows and states of a timeline at one moment.
#[derive(Clone, Debug)]
pub struct Listing {
    pub version: u64,
    /// [`Timeline::generation`] of the ids.
    pub generation: u64,
    pub rows: Vec<Row>,
    pub states: Vec<StateName>,
    /// Row of the critical path; `None` while it is not known.
    pub path: Option<RowId>,
}

/// The items of several rows in one picture, with the version of the timeline that they are of.
#[derive(Clone, Debug)]
pub struct Picture {
    pub version: u64,
    /// For each requested row its items, and the same for its time on the critical path. Empty for
    /// rows with values.
    pub rows: Vec<(RowItems, RowItems)>,
    /// The items of the requested rows with values.
    pub values: HashMap<RowId, ValueItems>,
}

/// A segment of the critical path: a state of a row, or a link between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSegment {
    pub interval: StateInterval,
    /// `None` for a link.
    pub row: Option<RowId>,
}

/// Segments of the critical path in a picture.
#[derive(Clone, Debug, Default)]
pub struct DrawnPath {
    /// Each segment, and the number of segments that it stands for: it has row and state of the
    /// longest of them.
    pub segments: Vec<(PathSegment, u64)>,
    /// The names of the states of these segments.
    pub names: Vec<String>,
    /// True if each of them is a segment of the path.
    pub is_exact: bool,
}

impl Timeline {
    /// A panic while the lock was held leaves complete states behind, so a poisoned lock is used.
    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns begin and end of the timeline in ns on the trace's clock, as far as it was read.
    pub fn range(&self) -> (u64, u64) {
        let content = self.read();
        (content.begin, content.end)
    }

    pub fn version(&self) -> u64 {
        self.read().version
    }

    /// Returns the number of times that the content was replaced. Ids of rows and states are valid
    /// in one generation.
    pub fn generation(&self) -> u64 {
        self.read().generation
    }

    /// Replaces the content by that of another timeline, which is empty afterwards.
    pub fn replace_by(&self, other: &Timeline) {
        let new = std::mem::take(&mut *other.write());
        let mut content = self.write();
        let (version, generation) = (content.version.max(new.version) + 1, content.generation + 1);
        *content = Content { version, generation, ..new };
    }

    /// Returns all rows and states.
    pub fn listing(&self) -> Listing {
        let content = self.read();
        let Content { store, names, rows, .. } = &*content;
        Listing {
            version: content.version,
            generation: content.generation,
            rows: rows.all(store),
            states: names.all().to_vec(),
            path: content.path,
        }
    }

    /// Returns the row of a machine.
    pub fn row_of(&self, machine: MachineId) -> Option<RowId> {
        self.read().rows.row_of(machine)
    }

    /// Sets the thread ids of machines that are threads, as the programs' events tell them.
    pub fn set_threads(&self, threads: impl Iterator<Item = (MachineId, i32)>) {
        let mut content = self.write();
        let rows = &mut content.rows;
        for (machine, tid) in threads {
            if let Some(row) = rows.row_of(machine).and_then(|row| rows.get_mut(row)) {
                row.tid = Some(tid);
            }
        }
        content.version += 1;
    }

    /// Returns the items of these rows. An unknown row has none.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn picture(&self, rows: &[RowId], grid: Grid) -> io::Result<Picture> {
        let picture = self.picture_of(rows, |content, row| bins::row_items(&content.store, &content.names, row, grid))?;
        self.with_values(picture, rows, |content, row| value_bins::value_items(&content.store, row, grid))
    }

    /// Returns the items of these rows, and of groups the bins of all rows in them: how busy these
    /// are on average, and for which part one of them is on the critical path. A group of more than
    /// [`MAX_GROUP_ROWS`] rows has no bins.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn picture_with_groups(&self, rows: &[RowId], grid: Grid) -> io::Result<Picture> {
        let mut picture = self.picture(rows, grid)?;
        let groups = self.group_rows(rows);
        for (row, items) in rows.iter().zip(&mut picture.rows) {
            let Some(within) = groups.get(row) else { continue };
            let on_path: Vec<RowId> = {
                let content = self.read();
                within.iter().filter_map(|&row| content.rows.on_path(row)).collect()
            };
            *items = (self.group_items(within, within.len(), grid)?, self.group_items(&on_path, 1, grid)?);
        }
        Ok(picture)
    }

    fn group_items(&self, rows: &[RowId], parts: usize, grid: Grid) -> io::Result<RowItems> {
        let mut bins = GroupBins::new(grid);
        let generation = self.generation();
        // Locks the content row by row, so that the reading of the trace need not wait for long.
        for &row in rows.iter().filter(|_| rows.len() <= MAX_GROUP_ROWS) {
            bins.add(&self.read().store, row)?;
        }
        let content = self.read();
        // The states of another generation have other names.
        match content.generation == generation {
            true => Ok(bins.items(&content.names, parts as u64)),
            false => Ok(RowItems { is_group: true, ..RowItems::default() }),
        }
    }

    /// Returns the rows with states of each of these rows that is a group.
    pub fn group_rows(&self, rows: &[RowId]) -> HashMap<RowId, Vec<RowId>> {
        let content = self.read();
        content.rows.in_groups(&content.store, rows)
    }

    /// Returns all states of these rows that overlap a range, as the items of a picture.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn exact_picture(&self, rows: &[RowId], range: (u64, u64)) -> io::Result<Picture> {
        let picture = self.picture_of(rows, |content, row| bins::exact_items(&content.store, &content.names, row, range))?;
        self.with_values(picture, rows, |content, row| value_bins::exact_value_items(&content.store, row, range))
    }

    fn with_values(
        &self,
        mut picture: Picture,
        rows: &[RowId],
        items: impl Fn(&Content, RowId) -> io::Result<ValueItems>,
    ) -> io::Result<Picture> {
        for &row in rows {
            let content = self.read();
            if content.store.has_values(row) {
                picture.values.insert(row, items(&content, row)?);
            }
        }
        Ok(picture)
    }

    fn picture_of(&self, rows: &[RowId], items: impl Fn(&Content, RowId) -> io::Result<RowItems>) -> io::Result<Picture> {
        let version = self.version();
        // Locks the content row by row, so that the reading of the trace need not wait for long.
        let both = |&row: &RowId| {
            let content = self.read();
            let on_path = content.rows.on_path(row).map_or(Ok(RowItems::default()), |row| items(&content, row))?;
            Ok((items(&content, row)?, on_path))
        };
        Ok(Picture { version, rows: rows.iter().map(both).collect::<io::Result<_>>()?, values: HashMap::new() })
    }

    /// Returns the number of states or steps of a row that begin in a range.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn state_count(&self, row: RowId, (begin, end): (u64, u64)) -> io::Result<u64> {
        if self.has_values(row) {
            return Ok(self.read().store.value_sum(row, begin, end)?.count);
        }
        Ok(self.read().store.sums(row, begin, end)?.iter().map(|sum| sum.count).sum())
    }

    /// Returns the row of a state of the critical path; `None` for a link.
    pub fn row_of_path_state(&self, state: StateId) -> Option<RowId> {
        self.read().rows.of_path_state(state)
    }

    /// Returns the first states of a row that overlap the range, at most `limit`, and true if there
    /// are more.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn states(&self, row: RowId, (begin, end): (u64, u64), limit: usize) -> io::Result<(Vec<StateInterval>, bool)> {
        search::first(&self.read().store, row, (begin, end), limit)
    }

    /// Returns the segments of the critical path that overlap the range, at most `limit`, and true
    /// if there are more.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn path(&self, range: (u64, u64), limit: usize) -> io::Result<(Vec<PathSegment>, bool)> {
        let content = self.read();
        let Some(path) = content.path else { return Ok((Vec::new(), false)) };
        let (intervals, more) = search::first(&content.store, path, range, limit)?;
        let segment = |interval: StateInterval| PathSegment { interval, row: content.rows.of_path_state(interval.state) };
        Ok((intervals.into_iter().map(segment).collect(), more))
    }

    /// Returns the critical path in a range as a picture shows it, in about `limit` segments at
    /// most: if there are more, short neighbours are joined.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn drawn_path(&self, (begin, end): (u64, u64), limit: usize) -> io::Result<DrawnPath> {
        let content = self.read();
        let Some(path) = content.path else { return Ok(DrawnPath::default()) };
        let (begin, end) = (begin, end.min(content.store.end(path)));
        let limit = (limit as u64).max(1);
        let level = end.saturating_sub(begin).div_ceil(limit).next_power_of_two().ilog2().min(Grid::MAX_LEVEL);
        let grid = Grid { level, first: begin >> level, count: (end >> level).saturating_sub(begin >> level) + 1 };
        let RowItems { items, is_exact, .. } = match begin < end {
            true => bins::row_items(&content.store, &content.names, path, grid)?,
            false => RowItems::default(),
        };
        let drawn = |item: &Item| {
            let interval = StateInterval { begin: item.begin, end: item.end.min(content.store.end(path)), state: item.state };
            (PathSegment { interval, row: content.rows.of_path_state(item.state) }, item.count.max(1))
        };
        let segments: Vec<_> = items.iter().map(drawn).collect();
        let name = |segment: &(PathSegment, u64)| content.names.name(segment.0.interval.state).to_owned();
        Ok(DrawnPath { names: segments.iter().map(name).collect(), segments, is_exact })
    }

    /// Returns how long the states of these rows last in a range: number, sum and percentiles.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn distributions(&self, rows: &[RowId], range: (u64, u64)) -> io::Result<Vec<Distribution>> {
        let of_row = |row: &RowId| distribution::distributions(&self.read().store, *row, range);
        Ok(rows.iter().map(of_row).collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Searches for states whose names contain the text, without regard to case, in the range:
    /// their number, their time, and the first ones.
    ///
    /// # Errors
    ///
    /// If the file of the states cannot be read.
    pub fn search(&self, text: &str, range: (u64, u64), limit: usize) -> io::Result<Found> {
        let Listing { rows, states, .. } = self.listing();
        let search = search::Search::new(&states, text, range, limit);
        let mut found = Found::default();
        // The row of the path repeats the states of other rows.
        for row in rows.iter().filter(|row| row.states > 0 && row.kind != RowKind::Path) {
            search.row(&self.read().store, row.id, &mut found)?;
        }
        Ok(found)
    }
}
