//! Requests for room in a queue that several machines fill: when each put asked for its room, in
//! every world. The server that takes from the queue serves the puts in the order of these times.
//!
//! Example: A and B put into a full queue. If B asks first in a world, the next get makes room for
//! B there, although A got it in the trace.

use longpole_model::hash::IdMap;
use longpole_model::interaction::MachineId;
use std::collections::VecDeque;

/// The requests for room in one queue.
#[derive(Debug, Default)]
pub struct RoomRequests {
    /// Machines that are asking, each with its times.
    pub asking: IdMap<MachineId, Box<[f64]>>,
    /// Puts that are not yet taken, by number, each with the times at which it asked.
    pub put: VecDeque<(u64, Box<[f64]>)>,
}

impl RoomRequests {
    /// Returns when the machine that made this put asked for room, if it is known.
    pub fn taken(&mut self, number: u64) -> Option<Box<[f64]>> {
        while self.put.front().is_some_and(|put| put.0 < number) {
            self.put.pop_front();
        }
        match self.put.front() {
            Some(put) if put.0 == number => self.put.pop_front().map(|put| put.1),
            _ => None,
        }
    }
}
