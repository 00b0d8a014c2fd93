//! Writes losses at their time, as a packet without events, where no packet with events follows.

use super::packet::commit;
use super::Drain;
use crate::error::Error;
use crate::output::recording::component;
use crate::output::stream::{AppendError, HeaderValues};
use crate::ring::Ring;
use crate::runtime_dir::process::Process;
use crate::subjects::ring_source::{Decision, RingSource};
use std::sync::atomic::Ordering;

impl Drain<'_> {
    /// Writes the losses since the newest packet as an empty packet. `more`: the thread continues
    /// in a larger ring.
    pub fn tail_losses(&mut self, process: &Process, source: &mut RingSource, more: bool) {
        if source.decision == Decision::NotRecorded || source.decision == Decision::Undecided {
            return;
        }
        let lost = if source.broken { source.ring.reported } else { source.ring.layout().lost.load(Ordering::Acquire) };
        let reported = lost.max(source.ring.reported);
        let delta = (reported - source.ring.reported).saturating_add(source.extra_lost);
        let lane = source.lane.and_then(|lane| self.recording.files.stream_files.get_mut(lane));
        if let Some(lane) = lane {
            lane.name(process.pid, process.tid(source.writer.tid), source.writer.name);
        }
        // A lane that begins here would begin after the younger events of the larger ring.
        if delta == 0 || (more && source.lane.is_none()) {
            return;
        }
        let mut written = self.write_losses(process, source, more, reported, delta);
        if written.is_err() && self.recording.files.reserve.give() {
            written = self.write_losses(process, source, more, reported, delta);
        }
        if let Err(error) = written {
            self.recording.note(format!("losses could not be written to their stream at their time: {error}"));
            if more {
                // The thread continues, so the losses are written with its next packet.
                return;
            }
            if let Some(lane) = source.lane.and_then(|lane| self.recording.files.stream_files.get_mut(lane)) {
                lane.owed = lane.owed.saturating_add(delta);
            }
        }
        // Added even if the write failed, because `longpole.json` reports them.
        self.recording.account.lose(delta);
        if source.ring.layout().packets.load(Ordering::Relaxed) != 0 {
            self.recording.files.captures.lose(&component(&process.label), delta.saturating_sub(source.captured));
        }
        source.ring.release(source.ring.tail, reported);
        source.extra_lost = 0;
        source.captured = 0;
    }

    fn write_losses(&mut self, process: &Process, source: &mut RingSource, more: bool, reported: u64, delta: u64) -> Result<(), Error> {
        let now = self.recording.clock.now();
        let index = self.lane_of(process, source, now)?;
        let Some(lane) = self.recording.files.stream_files.get_mut(index) else { return Ok(()) };
        // The old ring was too small until the thread wrote to the larger one; that is the end of
        // the loss.
        let next = source.larger().filter(|_| more).and_then(Ring::first_time);
        let begin = if more { lane.end } else { now.max(lane.end) };
        let stamp = HeaderValues {
            begin,
            end: next.map_or(begin, |next| next.min(now).max(begin)),
            discarded: lane.discarded.saturating_add(delta),
            pid: process.pid,
            tid: process.tid(source.writer.tid),
            position: source.ring.tail,
            ring: source.ring.packet_number(),
            thread: source.writer.name,
        };
        match commit(lane, &source.ring, stamp, source.ring.tail, reported, None) {
            Ok(written) => {
                self.recording.account.totals.written += written;
                Ok(())
            }
            Err(AppendError::Source) => Ok(()),
            Err(AppendError::Io(error)) => Err(Error::io("write", lane.path.clone())(error)),
        }
    }
}
