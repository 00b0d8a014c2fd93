//! The decoder's way on behind a packet whose header cannot be read.

use super::{window, State, StreamDecoder};
use crate::source::Source;

/// Packets in a row whose header cannot be read, behind which no other one is looked for: what looks like packets there is something else.
const MOST_UNREADABLE: u32 = 64;

/// Bytes that are searched at once.
const SEARCHED: u64 = 64 << 10;

impl<S: Source> StreamDecoder<S> {
    /// After an error: where in the file the next packet begins, in bytes, if there is one. Behind a header that cannot be read nobody knows
    /// the packet's size; then it is where the magic number and uuid are found that packets of this trace begin with, if they do.
    pub fn next_packet(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.lost) && self.unreadable <= MOST_UNREADABLE {
            self.next = self.search().unwrap_or(self.data_end);
        }
        (self.next < self.data_end).then_some(self.next)
    }

    /// Whether packets begin with something by which they are found.
    pub fn finds_packets(&self) -> bool {
        self.metadata.plan.sign.is_some()
    }

    /// Nobody knows where the packet ends.
    pub(super) fn lose_packet(&mut self) {
        self.state = State::Broken;
        self.stream = None;
        self.next = self.data_end;
        self.lost = true;
        self.unreadable += 1;
    }

    fn search(&mut self) -> Option<u64> {
        let metadata = self.metadata.clone();
        let sign = metadata.plan.sign.as_ref()?;
        let mut from = self.packet.offset + 1;
        loop {
            let rest = self.data_end.checked_sub(from).filter(|rest| *rest >= sign.len() as u64)?;
            self.load(from, rest.min(SEARCHED)).ok()?;
            let bytes = window(&self.source, from).bytes;
            if let Some(at) = sign.find(bytes) {
                return Some(from + at as u64);
            }
            // It may begin with the last bytes.
            from += (bytes.len() + 1).checked_sub(sign.len()).filter(|step| *step > 0)? as u64;
        }
    }
}
