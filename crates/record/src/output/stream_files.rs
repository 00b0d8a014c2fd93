//! The stream files of a recording, by number.
//!
//! A ring refers to its lane by an index, which stays valid until the recording or the chunk ends.
//! A closed lane leaves only its description, so thousands of short threads need no descriptors.

use crate::output::stream::StreamFileWriter;
use serde_json::Value;
use std::collections::BTreeMap;

/// The open and closed lanes of a recording or chunk.
#[derive(Debug, Default)]
pub(crate) struct StreamFiles {
    /// Open stream files, by lane number.
    open: Vec<Option<StreamFileWriter>>,
    /// Descriptions of closed stream files for `longpole.json`, by lane number.
    closed: BTreeMap<u32, Value>,
}

impl StreamFiles {
    /// Index and number of the next lane.
    pub fn next(&self) -> usize {
        self.open.len()
    }

    /// Adds the lane with the number [`StreamFiles::next`]. Returns its index.
    pub fn add(&mut self, lane: StreamFileWriter) -> usize {
        self.open.push(Some(lane));
        self.open.len() - 1
    }

    /// An open lane.
    pub fn get(&self, index: usize) -> Option<&StreamFileWriter> {
        self.open.get(index)?.as_ref()
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut StreamFileWriter> {
        self.open.get_mut(index)?.as_mut()
    }

    /// Closes a lane. If its losses cannot be written now, it stays open for a later attempt,
    /// unless `last` is set. Returns a diagnostic if the file could not be completed.
    pub fn close(&mut self, index: usize, last: bool) -> Result<(), String> {
        let Some(place) = self.open.get_mut(index) else { return Ok(()) };
        let Some(lane) = place.as_mut() else { return Ok(()) };
        if lane.write_owed_losses().is_err() && !last {
            return Ok(());
        }
        let Some(mut lane) = place.take() else { return Ok(()) };
        self.closed.insert(lane.number, lane.describe());
        let path = lane.path.clone();
        let named = lane.write_names();
        lane.close().and(named).map_err(|error| format!("cannot close {}: {error}", path.display()))
    }

    /// Closes all lanes. Returns a diagnostic for each that could not be completed.
    pub fn close_all(&mut self) -> Vec<String> {
        (0..self.open.len()).filter_map(|index| self.close(index, true).err()).collect()
    }

    /// Number of closed lanes.
    pub fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Entries of all lanes in `longpole.json`, by number.
    pub fn describe(&self) -> Vec<Value> {
        let mut all = self.closed.clone();
        for lane in self.open.iter().flatten() {
            all.insert(lane.number, lane.describe());
        }
        all.into_values().collect()
    }
}
