//! Finds the next packet after a packet whose header cannot be read.

use super::{window, State, StreamDecoder};
use crate::decoder::source::Source;

/// Number of consecutive unreadable packet headers after which the search ends: the data that looks
/// like packets is something else.
const MAX_UNREADABLE: u32 = 64;

/// Bytes that are searched at once.
const SEARCHED: u64 = 64 << 10;

impl<S: Source> StreamDecoder<S> {
    /// After an error: the byte of the file at which the next packet begins, if there is one. If a
    /// header cannot be read, the size of its packet is unknown; then the magic number and UUID
    /// with which packets of this trace begin are searched for, if they have these fields.
    pub fn next_packet(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.lost) && self.unreadable <= MAX_UNREADABLE {
            self.next = self.search().unwrap_or(self.data_end);
        }
        (self.next < self.data_end).then_some(self.next)
    }

    /// Returns true if packets begin with bytes by which they can be found.
    pub fn finds_packets(&self) -> bool {
        self.metadata.plan.sign.is_some()
    }

    /// Puts the decoder into the failed state after an error that leaves the end of the packet
    /// unknown.
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
            if let Some(at) = sign.find(bytes, self.other_uuid) {
                return Some(from + at as u64);
            }
            // A packet may begin with the last of these bytes.
            from += (bytes.len() + 1).checked_sub(sign.len()).filter(|step| *step > 0)? as u64;
        }
    }
}
