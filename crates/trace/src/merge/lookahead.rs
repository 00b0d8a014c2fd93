//! Reads ahead in a stream whose order cannot be trusted. As long as its events are in the order of
//! time all the same, the sorting window does not need to hold them back.
//!
//! Copying an event costs many times as much as decoding it. Decoding each event twice is therefore
//! faster for streams that are in order, and nearly all are.

use crate::files::file::FileWindow;
use longpole_ctf::{Headers, Step, StreamDecoder};

pub(crate) struct Lookahead {
    decoder: StreamDecoder<FileWindow>,
    headers: Headers,
    /// Number of events that were read.
    seen: u64,
    /// Number of events from the stream's begin that must be sorted together, because some of them
    /// are out of order. Each later event is at or after all events before it, as far as the
    /// lookahead has read.
    mixed: u64,
    latest_ns: i64,
    /// Set if events were lost: in the current packet, and since the last event. A loss has a time
    /// of its own, between events or at the packet's end, so the items around it must be sorted,
    /// too.
    lossy_packet: bool,
    lossy: bool,
    ended: bool,
    begin_ns: i64,
    /// Packets with an index above `skips_after` that end before `begin_ns` are skipped.
    skips_after: u64,
}

impl Lookahead {
    pub fn new(decoder: StreamDecoder<FileWindow>) -> Lookahead {
        Lookahead {
            decoder,
            headers: Headers::new(),
            seen: 0,
            mixed: 0,
            latest_ns: i64::MIN,
            lossy_packet: false,
            lossy: false,
            ended: false,
            begin_ns: i64::MIN,
            skips_after: u64::MAX,
        }
    }

    /// Returns how many events from the stream's begin must be sorted together, judged from the
    /// first `ahead` events.
    #[inline]
    pub fn mixed(&mut self, ahead: u64) -> u64 {
        while self.seen < ahead && !self.ended {
            self.step();
        }
        self.mixed
    }

    fn step(&mut self) {
        match self.decoder.advance_headers(&mut self.headers) {
            Ok(Some(Step::Event)) => {
                let headers = &self.headers;
                let ends = headers.ns(0).zip(headers.ns(headers.len() - 1)).filter(|_| headers.is_ordered() && !self.lossy);
                match ends.filter(|(first_ns, _)| self.latest_ns <= *first_ns) {
                    Some((_, last_ns)) => {
                        self.latest_ns = last_ns;
                        self.seen += headers.len() as u64;
                    }
                    None => self.compare_each(),
                }
            }
            step => self.between(step.ok()),
        }
    }

    fn compare_each(&mut self) {
        let headers = &self.headers;
        for ns in (0..headers.len()).filter_map(|index| headers.ns(index)) {
            self.seen += 1;
            if ns < self.latest_ns || self.lossy {
                self.mixed = self.seen;
                self.lossy = self.lossy_packet;
            }
            self.latest_ns = self.latest_ns.max(ns);
        }
    }

    #[cold]
    fn between(&mut self, step: Option<Option<Step>>) {
        match step {
            Some(Some(Step::PacketBegin)) => {
                let packet = self.decoder.packet();
                if packet.index > self.skips_after && packet.end_ns.is_some_and(|end_ns| end_ns < self.begin_ns) {
                    self.decoder.skip_packet();
                    self.lossy_packet = false;
                }
            }
            Some(Some(Step::PacketEnd)) => self.lossy_packet = false,
            Some(Some(Step::DiscardedEvents(_) | Step::DiscardedPackets(_))) => (self.lossy, self.lossy_packet) = (true, true),
            Some(Some(Step::Event)) => {}
            // What follows the last event or damage is unknown here: a loss may follow, or decoding
            // may continue. In that case everything must be sorted.
            Some(None) | None => (self.ended, self.mixed) = (true, if self.lossy || step.is_none() { u64::MAX } else { self.mixed }),
        }
    }

    /// Follows the reader, which skips packets after the packet `behind` that end before
    /// `begin_ns`.
    pub fn skip(&mut self, begin_ns: i64, behind: u64) {
        // The lookahead is ahead of the reader and may have counted events of packets that are
        // skipped now. It starts again at the begin of the file.
        self.restart_at(0, 0, 0);
        (self.latest_ns, self.begin_ns, self.skips_after) = (i64::MIN, begin_ns, behind);
    }

    /// Follows the reader to the packet at this position. Events are counted from there.
    pub fn restart_at(&mut self, offset: u64, packet: u64, clock: u64) {
        if self.mixed == u64::MAX {
            return;
        }
        self.decoder.seek_at(offset, packet, clock);
        (self.seen, self.mixed) = (0, 0);
        (self.lossy_packet, self.lossy, self.ended) = (false, false, false);
    }
}
