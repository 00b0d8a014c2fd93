//! Looks ahead in a stream whose order is not to be trusted: as long as its events are in the order of time all the same, nobody need hold them back.
//!
//! A copy of an event costs many times its decoding, so that decoding each twice is the faster way for the streams that are sound, which are nearly all.

use crate::open::file::FileWindow;
use longpole_ctf::{Step, StreamDecoder, Times};

pub(crate) struct Lookahead {
    decoder: StreamDecoder<FileWindow>,
    times: Times,
    /// Events that it has passed.
    seen: u64,
    /// Of the first this many events some are not where they belong; all behind them are at or after all before them, as far as it has looked.
    mixed: u64,
    latest_ns: i64,
    /// Where events were lost: in this packet, and since the last event. A loss comes at a time of its own, between events or at the packet's end.
    lossy_packet: bool,
    lossy: bool,
    ended: bool,
    begin_ns: i64,
    /// Packets with a greater index that end before `begin_ns` are passed over.
    skips_after: u64,
}

impl Lookahead {
    pub fn new(decoder: StreamDecoder<FileWindow>) -> Lookahead {
        Lookahead {
            decoder,
            times: Times::new(),
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

    /// How many events from the stream's begin must be sorted together, as far as can be told when `ahead` of them are known.
    #[inline]
    pub fn mixed(&mut self, ahead: u64) -> u64 {
        while self.seen < ahead && !self.ended {
            self.step();
        }
        self.mixed
    }

    fn step(&mut self) {
        match self.decoder.advance_times(&mut self.times) {
            Ok(Some(Step::Event)) => {
                let times = self.times.ns();
                for (ns, number) in times.iter().zip(self.seen + 1..) {
                    if *ns < self.latest_ns || self.lossy {
                        self.mixed = number;
                        self.lossy = self.lossy_packet;
                    }
                    self.latest_ns = self.latest_ns.max(*ns);
                }
                self.seen += times.len() as u64;
            }
            step => self.between(step.ok()),
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
            // What comes behind the last event, or behind damage, is not for it to tell.
            Some(None) | None => (self.ended, self.mixed) = (true, if self.lossy || step.is_none() { u64::MAX } else { self.mixed }),
        }
    }

    /// The reader passes over packets behind this one that end before `begin_ns`.
    pub fn skip(&mut self, begin_ns: i64, behind: u64) {
        // It is ahead of the reader, maybe by some of these packets: from the begin again.
        self.restart_at(0, 0, 0);
        (self.latest_ns, self.begin_ns, self.skips_after) = (i64::MIN, begin_ns, behind);
    }

    /// The reader has gone to this packet; events are counted from there.
    pub fn restart_at(&mut self, offset: u64, packet: u64, clock: u64) {
        if self.mixed == u64::MAX {
            return;
        }
        self.decoder.seek_at(offset, packet, clock);
        (self.seen, self.mixed) = (0, 0);
        (self.lossy_packet, self.lossy, self.ended) = (false, false, false);
    }
}
