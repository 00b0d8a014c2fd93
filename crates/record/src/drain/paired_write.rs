//! Writes two complete sub-buffers of a ring as two packets with one write that bypasses the page
//! cache.
//!
//! Each such write waits for the disk and then commits a header through the page cache. One write
//! for two packets costs a quarter less. The header of the first packet commits both. Therefore the
//! ring's record of the pending packet holds the offset of the first packet and the tail after the
//! second; see [`crate::recovery`].

use super::packet::{announce, stamp};
use super::Drain;
use crate::control::policy::Backend;
use crate::ring::{Look, RingSlice};
use crate::runtime_dir::process::Process;
use crate::subjects::ring_source::RingSource;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Drain<'_> {
    /// The sub-buffer after `first`, if one write may take both. Both must be complete and of the
    /// same thread, no part of the recorder may need to decode them, and the thread must have
    /// enough room to wait for the release of the first.
    pub(super) fn second_of_pair(&self, source: &RingSource, look: &Look, first: &RingSlice) -> Option<RingSlice> {
        let ring = &source.ring;
        let complete = |slice: &RingSlice| slice.whole && slice.tail.is_multiple_of(ring.subbuffer());
        if source.uses_page_cache || !source.has_room || ring.overwrites || !complete(first) {
            return None;
        }
        let policy = self.recording.rules.policy_of(source.decision);
        let wants = |backend| policy.is_none_or(|policy| policy.has(backend));
        let packets = self.common.classes.packets && ring.layout().packets.load(Ordering::Relaxed) != 0;
        if self.common.classes.invalid
            || self.recording.files.destination.metadata.is_behind()
            || !wants(Backend::Ctf)
            || (packets && wants(Backend::Pcapng))
        {
            return None;
        }
        // An error in it is reported when that slice is taken.
        let second = ring.next_from(first.tail, look, first.end, false).ok().flatten()?;
        (complete(&second) && (second.pid, second.tid) == (first.pid, first.tid)).then_some(second)
    }

    /// Writes both slices. If it returns false, nothing was written, and the caller writes them one
    /// by one.
    pub(super) fn write_pair(&mut self, process: &Process, source: &mut RingSource, slices: [&RingSlice; 2]) -> bool {
        let Some(lane) = source.lane.and_then(|lane| self.recording.files.stream_files.get_mut(lane)) else { return false };
        let bodies = slices.map(|slice| source.ring.body(slice));
        if !bodies.iter().all(|body| lane.takes_directly(body)) {
            return false;
        }
        let lengths = bodies.map(|body| body.length);
        let Ok(offset) = lane.reserve_both(lengths) else { return false };
        let before = source.ring.reported;
        let between = before.max(slices[0].lost);
        let reported = between.max(slices[1].lost);
        let [first_lost, lost] = [between, reported].map(|reported| source.extra_lost.saturating_add(reported - before));
        let stamps = [(slices[0], first_lost), (slices[1], lost)]
            .map(|(slice, lost)| stamp(process, source, slice, lane.discarded.saturating_add(lost)));
        announce(lane, &source.ring, (offset, slices[1].tail), (reported, stamps[1].discarded));
        let [first, second] = stamps;
        let begin = Instant::now();
        let Ok(Some(written)) = lane.append_both([(first, bodies[0]), (second, bodies[1])]) else { return false };
        let length = lengths[0] + lengths[1];
        self.recording.files.disk.add_measurement(length, begin.elapsed());
        source.ring.release(slices[1].tail, reported);
        source.content += length as u64;
        source.extra_lost = 0;
        source.captured = 0;
        self.recording.account.totals.written += written;
        self.recording.account.totals.recorded += length as u64;
        self.recording.account.lose(lost);
        true
    }
}
