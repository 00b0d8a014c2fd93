//! Writes a slice of a ring as one packet of its lane.
//!
//! The ring first gets a note of what will be committed; then the packet is written; then the
//! thread gets its room back. So a recorder that continues after a kill knows whether the packet
//! was committed. Events that cannot be written are counted as lost, and the thread gets its room
//! back all the same.

use super::{Drain, Walk};
use crate::control::policy::Backend;
use crate::error::Error;
use crate::output::recording::component;
use crate::output::stream::{self, AppendError, Body, HeaderValues, StreamFileWriter};
use crate::recording::Recording;
use crate::ring::{Ring, RingSlice};
use crate::runtime_dir::process::Process;
use crate::subjects::ring_source::RingSource;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Drain<'_> {
    /// Writes one slice as one packet. Does nothing if the thread has overwritten the slice
    /// meanwhile.
    pub fn write_slice(&mut self, process: &Process, source: &mut RingSource, mut slice: RingSlice) {
        // Number of events of this slice that cannot be decoded.
        let mut unreadable = 0;
        let policy = self.recording.rules.policy_of(source.decision);
        let ctf = policy.is_none_or(|policy| policy.has(Backend::Ctf));
        let pcapng = policy.is_none_or(|policy| policy.has(Backend::Pcapng));
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let reported = source.ring.reported.max(slice.lost);
        let delta = (reported - source.ring.reported).saturating_add(source.extra_lost);

        // Set once the packets and losses of this slice are in the capture file.
        let mut is_captured = false;
        // The thread sets this flag before its first packet becomes visible.
        let has_network_packets = self.common.classes.packets && source.ring.layout().packets.load(Ordering::Relaxed) != 0;
        if self.common.classes.invalid || (pcapng && has_network_packets) {
            let Recording { scratch, files, account, clock, .. } = &mut *self.recording;
            if !source.ring.copy(&slice, scratch) {
                self.give_up(source, "its file was cut off");
                return;
            }
            if !source.ring.is_intact(&slice) {
                return;
            }
            let wanted = pcapng.then_some(&packets);
            let folder = files.destination.folder.path();
            let walk = Walk { classes: &self.common.classes, clock, folder: &folder, captures: &mut files.captures, account };
            let (understood, end) = walk.events(process, scratch, &slice, wanted, delta.saturating_sub(source.captured), !ctf);
            is_captured = pcapng;
            let total = scratch.len();
            if understood < total {
                // The events before it can be read. The begin of the next event is unknown, so one
                // event is counted as lost, although there may be more.
                unreadable = 1;
                slice.to = slice.from + understood as u64;
                slice.end = end.clamp(slice.begin, slice.end);
                self.recording.note(format!(
                    "{}: an event of an unknown class and the rest of its sub-buffer were left out; they count as one lost event, although \
                     more may be missing",
                    source.ring.name
                ));
                if understood == 0 {
                    source.captured = if is_captured { delta } else { 0 };
                    source.extra_lost = source.extra_lost.saturating_add(unreadable);
                    source.ring.release(slice.tail, source.ring.reported);
                    return;
                }
            }
        }
        let length = (slice.to - slice.from) as usize;
        if !ctf {
            self.recording.account.totals.packets_only += length as u64;
            source.ring.release(slice.tail, reported);
            source.extra_lost = unreadable;
            source.captured = 0;
            self.recording.account.lose(delta);
            return;
        }
        if self.recording.files.destination.metadata.is_behind() {
            let error = std::io::Error::other("their classes could not be written");
            return self.not_written(source, &slice, unreadable, reported, is_captured, error);
        }
        let index = match self.lane_of(process, source, slice.begin) {
            Ok(index) => index,
            Err(error) => {
                return self.not_written(source, &slice, unreadable, reported, is_captured, std::io::Error::other(error.to_string()))
            }
        };
        let Some(lane) = self.recording.files.stream_files.get_mut(index) else { return };
        let stamp = stamp(process, source, &slice, lane.discarded.saturating_add(delta));
        let mut body = source.ring.body(&slice);
        body.aligned &= !source.uses_page_cache;
        let (direct, begin) = (lane.takes_directly(&body), Instant::now());
        match commit(lane, &source.ring, stamp, slice.tail, reported, Some(body)) {
            Ok(written) => {
                // A direct write that the file system refused was written through the page cache.
                if direct && lane.is_direct() {
                    self.recording.files.disk.add_measurement(length, begin.elapsed());
                }
                self.recording.account.totals.written += written;
            }
            Err(AppendError::Source) if !source.ring.is_intact(&slice) => return,
            Err(AppendError::Source) => {
                self.give_up(source, "its file was cut off");
                return;
            }
            Err(AppendError::Io(error)) => return self.not_written(source, &slice, unreadable, reported, is_captured, error),
        }
        source.ring.release(slice.tail, reported);
        source.extra_lost = unreadable;
        source.captured = 0;
        self.recording.account.totals.recorded += length as u64;
        self.recording.account.lose(delta);
    }

    /// Handles a write error: the events are counted as lost, and the thread gets its room back.
    fn not_written(
        &mut self,
        source: &mut RingSource,
        slice: &RingSlice,
        unreadable: u64,
        reported: u64,
        is_captured: bool,
        error: std::io::Error,
    ) {
        let bytes = &mut self.recording.scratch;
        let counted = if source.ring.copy(slice, bytes) { self.common.classes.count(bytes) } else { Err(1) };
        let least = if counted.is_ok() { "" } else { ", and are more than were counted" };
        let lost = counted.unwrap_or_else(|least| least).saturating_add(reported - source.ring.reported + unreadable);
        source.extra_lost = source.extra_lost.saturating_add(lost);
        source.captured = if is_captured { source.extra_lost - unreadable } else { source.captured };
        source.ring.release(slice.tail, reported);
        self.recording.note(format!("events could not be written and count as lost{least}: {error}"));
    }

    /// Index of the ring's lane (its stream file), which is made with the first packet.
    pub(super) fn lane_of(&mut self, process: &Process, source: &mut RingSource, begin: u64) -> Result<usize, Error> {
        if let Some(index) = source.lane {
            return Ok(index);
        }
        let index = self.recording.files.stream_files.next();
        let number = index as u32;
        let name = format!("{}-{number}", component(&process.label));
        let first = HeaderValues {
            begin,
            end: begin,
            discarded: 0,
            pid: process.pid,
            tid: process.tid(source.writer.tid),
            position: 0,
            ring: source.ring.packet_number(),
            thread: source.writer.name,
        };
        let destination = &self.recording.files.destination;
        let path = destination.path.join("user").join(&name);
        let mut lane =
            StreamFileWriter::create(&destination.user(), &name, (number, self.common.stream), destination.uuid, &process.label, &first)
                .map_err(Error::io("make", &path))?;
        lane.path = path;
        self.recording.account.totals.written += stream::NEW_FILE_BYTES;
        self.recording.files.stream_files.add(lane);
        source.lane = Some(index);
        source.ring.layout().lane.store(number + 1, Ordering::Relaxed);
        Ok(index)
    }
}

/// Header values of a slice's packet.
pub(super) fn stamp(process: &Process, source: &RingSource, slice: &RingSlice, discarded: u64) -> HeaderValues {
    HeaderValues {
        begin: slice.begin,
        end: slice.end,
        discarded,
        pid: process.pid_of(slice.pid),
        tid: process.tid(slice.tid),
        position: slice.tail,
        ring: source.ring.packet_number(),
        thread: source.writer.name,
    }
}

/// Stores in the ring what will be committed at `offset`. A later recorder needs this to decide
/// whether this recorder committed the packet before it was killed.
pub(super) fn announce(lane: &mut StreamFileWriter, ring: &Ring, (offset, tail): (u64, u64), (reported, discarded): (u64, u64)) {
    let layout = ring.layout();
    layout.pending_lost.store(reported, Ordering::Relaxed);
    layout.pending_discarded.store(discarded, Ordering::Relaxed);
    layout.pending_offset.store(offset, Ordering::Relaxed);
    layout.pending_tail.store(tail, Ordering::Release);
    if discarded > lane.discarded {
        lane.lost_ring = lane.lost_ring.max(Some(ring.size));
    }
}

/// Writes a packet.
pub(super) fn commit(
    lane: &mut StreamFileWriter,
    ring: &Ring,
    stamp: HeaderValues,
    tail: u64,
    reported: u64,
    body: Option<Body<'_>>,
) -> Result<u64, AppendError> {
    let offset = lane.reserve(body.as_ref().map_or(0, |body| body.length)).map_err(AppendError::Io)?;
    announce(lane, ring, (offset, tail), (reported, stamp.discarded));
    lane.append(stamp, body)
}
