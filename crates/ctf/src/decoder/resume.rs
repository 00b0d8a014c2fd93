//! Continues decoding in a file that has grown since the decoder reached its end.

use super::{State, StreamDecoder};
use crate::decoder::source::Source;
use crate::metadata::{marks, Metadata};
use std::sync::Arc;

impl<S: Source> StreamDecoder<S> {
    /// The source, for a caller that lets it grow. Call [`resume`](Self::resume) afterwards.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Continues with data that was appended: with the next packet or, in a packet that does not
    /// record its size, with the next event. An event that was incomplete, or that the metadata did
    /// not describe yet, is decoded again. `metadata` must contain everything that the previous
    /// metadata contained, at the same indices.
    pub fn resume(&mut self, metadata: &Arc<Metadata>) {
        self.data_end = self.source.len();
        let learned = !Arc::ptr_eq(metadata, &self.metadata);
        if learned {
            self.metadata = metadata.clone();
            self.previous.resize(metadata.streams.len(), None);
            self.marks = marks(&metadata.plan);
            self.slots = vec![0; metadata.plan.slots];
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

    /// The places of the values of header and context depend on the metadata, so both are decoded
    /// again, and the events that were already returned are skipped.
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
