//! The decoder's way on in a file that has grown since it came to the end.

use super::{State, StreamDecoder, NO_CLASS};
use crate::metadata::{marks, Metadata};
use crate::source::Source;
use std::sync::Arc;

impl<S: Source> StreamDecoder<S> {
    /// For who lets it grow; then [`resume`](Self::resume) is to be called.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Goes on with what has come: with the next packet, or in one that does not say how long it is with the next event; and again with an
    /// event that was not there as a whole, or not in the metadata. `metadata` has at the same places all that the one before had.
    pub fn resume(&mut self, metadata: &Arc<Metadata>) {
        self.data_end = self.source.len();
        let learned = !Arc::ptr_eq(metadata, &self.metadata);
        if learned {
            self.metadata = metadata.clone();
            self.previous.resize(metadata.streams.len(), None);
            self.marks = marks(&metadata.plan);
            self.slots = vec![0; metadata.plan.slots];
            (self.last_id, self.last_class) = NO_CLASS;
        }
        let open = self.stream.is_some() && (self.state == State::Broken || !self.packet.sized);
        if !open {
            return;
        }
        if learned {
            return self.begin_again();
        }
        if !self.packet.sized {
            self.packet.content_bits = self.data_end.saturating_sub(self.packet.offset).saturating_mul(8);
            self.packet.packet_bits = self.packet.content_bits;
            self.next = self.data_end;
        }
        self.state = State::Events;
        self.partial = None;
        self.set_limit();
    }

    /// Where values of its header and context are kept hangs on the metadata, so they are read once more, and the events that were read passed over.
    fn begin_again(&mut self) {
        let events = self.event_index;
        (self.next, self.next_index) = (self.packet.offset, self.packet.index);
        self.clock = self.packet.begin.unwrap_or(0);
        if self.begin_packet().is_err() {
            return;
        }
        self.state = State::Events;
        while self.event_index < events && matches!(self.advance(), Ok(Some(_))) {}
    }
}
