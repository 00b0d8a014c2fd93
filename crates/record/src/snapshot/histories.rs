//! Copies the events of rings that overwrite into a snapshot. The rings are unchanged, and their
//! threads do not stop; what a thread overwrites meanwhile is left out and counted.

use super::Snapshot;
use crate::clock::following;
use crate::control::policy::Backend;
use crate::drain::Walk;
use crate::error::Error;
use crate::output::recording::component;
use crate::output::stream::{AppendError, Body, HeaderValues, StreamFileWriter};
use crate::recording::Recording;
use crate::ring::{Fault, Look, Ring, RingSlice};
use crate::runtime_dir::process::Process;
use crate::subjects::directory::{DirectoryState, RecordedRuntimeDir};
use crate::subjects::ring_source::{Decision, RingSource};
use crate::subjects::Subject;
use std::io;
use std::sync::atomic::Ordering;

/// State of a ring that overwrites, at the pause.
#[derive(Clone, Debug)]
pub(crate) struct LookBack {
    /// Stem of the process, and index of the ring in its sources.
    stem: String,
    at: usize,
    look: Look,
    /// Time of the oldest remaining event.
    pub first: u64,
}

/// Looks at the rings that overwrite.
pub(crate) fn look_back(directory: &RecordedRuntimeDir) -> Vec<LookBack> {
    let mut looks = Vec::new();
    for (stem, subject) in &directory.processes {
        for (at, source) in subject.rings.iter().enumerate().filter(|(_, source)| source.ring.overwrites && !source.broken) {
            let Ok(look) = source.ring.look() else { continue };
            let mut tail = source.ring.oldest(look.head);
            let first = loop {
                match source.ring.next_from(tail, &look, 0, true) {
                    Err(Fault::Lapped) if tail < look.head => tail = source.ring.next_subbuffer(tail),
                    Ok(Some(slice)) => break slice.begin,
                    _ => break u64::MAX,
                }
            };
            looks.push(LookBack { stem: stem.clone(), at, look, first });
        }
    }
    looks
}

impl Snapshot {
    /// Copies the rings of a runtime directory, each to a lane of its own. An error of one ring
    /// does not prevent the others.
    pub fn copy_histories(&mut self, directory: &RecordedRuntimeDir, recording: &mut Recording, looks: &[LookBack]) -> Result<(), Error> {
        let mut result = Ok(());
        for LookBack { stem, at, look, .. } in looks {
            let Some(Subject { process, rings, wanted, .. }) = directory.processes.get(stem) else { continue };
            let Some(source) = rings.get(*at) else { continue };
            let decision = match source.decision {
                Decision::Undecided => recording.rules.decision(process, *wanted, source),
                decided => decided,
            };
            let ctf = match decision {
                Decision::NotRecorded => false,
                Decision::Policy(index) => recording.rules.config.policy.get(index).is_none_or(|policy| policy.has(Backend::Ctf)),
                _ => true,
            };
            if ctf {
                result = result.and(self.copy_history((&directory.common, recording), process, source, look));
            }
        }
        result
    }

    /// Copies the contents of one ring to a lane of its own. The ring is unchanged.
    fn copy_history(
        &mut self,
        (common, recording): (&DirectoryState, &mut Recording),
        process: &Process,
        source: &RingSource,
        look: &Look,
    ) -> Result<(), Error> {
        let ring = &source.ring;
        let mut copy = HistoryCopy::new(ring, look, self.next_lane, process);
        let file = self.path.join("user").join(&copy.name);
        loop {
            let slice = match ring.next_from(copy.tail, look, copy.end(), true) {
                Ok(Some(slice)) => slice,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    copy.tail = ring.next_subbuffer(copy.tail);
                    continue;
                }
                Err(fault) => {
                    self.notes.push(format!("{} is not in it: {fault}", ring.name));
                    break;
                }
            };
            if slice.end < self.window {
                // Losses before that are before the window as well.
                copy.passes(&slice);
                continue;
            }
            let Some((length, end, left)) = measure((common, &mut recording.scratch), source, &slice, self.paused_at) else {
                copy.tail = ring.next_subbuffer(slice.from);
                continue;
            };
            let stamp = copy.stamp(process, source, &slice, end);
            if copy.lane.is_none() {
                let first = HeaderValues { begin: self.begin.min(slice.begin), discarded: 0, position: 0, ..stamp.clone() };
                let (class, uuid) = ((copy.number, common.stream), recording.files.destination.uuid);
                let made = StreamFileWriter::create(&self.path.join("user"), &copy.name, class, uuid, &process.label, &first);
                copy.lane = Some(made.map_err(Error::io("make", &file))?);
            }
            match copy.write(&stamp, Body { length, ..ring.body(&slice) }) {
                Ok(()) => {
                    copy.passes(&slice);
                    copy.discarded = stamp.discarded;
                    self.copy_packets((common, recording), process, source, &RingSlice { to: slice.from + length as u64, ..slice });
                    if left {
                        // The remaining events are later than the pause.
                        copy.events = look.events;
                        break;
                    }
                }
                Err(AppendError::Source) => copy.tail = ring.next_subbuffer(slice.from),
                Err(AppendError::Io(error)) => return Err(Error::io("write", file)(error)),
            }
        }
        let Some(lane) = copy.finish(look).map_err(Error::io("write", &file))? else { return Ok(()) };
        self.next_lane += 1;
        self.lost = self.lost.saturating_add(lane.discarded);
        self.recorded += lane.recorded;
        self.lanes.push(lane.describe());
        lane.close().map_err(Error::io("write", file))
    }

    /// Copies the captured packets of a slice to a file of the snapshot.
    fn copy_packets(
        &mut self,
        (common, recording): (&DirectoryState, &mut Recording),
        process: &Process,
        source: &RingSource,
        slice: &RingSlice,
    ) {
        if !common.classes.packets || source.ring.layout().packets.load(Ordering::Relaxed) == 0 {
            return;
        }
        let policy = recording.rules.policy_of(source.decision);
        if policy.is_some_and(|policy| !policy.has(Backend::Pcapng)) {
            return;
        }
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let Recording { scratch, account, clock, .. } = recording;
        if source.ring.copy(slice, scratch) && source.ring.is_intact(slice) {
            let folder = self.folder.path();
            let walk = Walk { classes: &common.classes, clock, folder: &folder, captures: &mut self.captures, account };
            walk.events(process, scratch, slice, Some(&packets), 0, false);
        }
    }
}

/// The copy of one ring, up to a position.
struct HistoryCopy {
    number: u32,
    /// Name of the copy's stream file.
    name: String,
    /// `None` before the first packet.
    lane: Option<StreamFileWriter>,
    /// Position in the ring up to which it was copied.
    tail: u64,
    /// The ring's number of events and of losses at `tail`.
    events: u64,
    reported: u64,
    /// Number of losses that are written to the lane.
    discarded: u64,
}

impl HistoryCopy {
    fn new(ring: &Ring, look: &Look, number: u32, process: &Process) -> HistoryCopy {
        HistoryCopy {
            number,
            name: format!("{}-{number}", component(&process.label)),
            lane: None,
            tail: ring.oldest(look.head),
            events: ring.taken,
            reported: ring.reported,
            discarded: 0,
        }
    }

    /// End time of the newest packet.
    fn end(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| lane.end)
    }

    /// Moves behind the slice.
    fn passes(&mut self, slice: &RingSlice) {
        (self.events, self.reported, self.tail) = (slice.events_after, slice.lost.max(self.reported), slice.tail);
    }

    /// Header values of the slice's packet, which ends at `end`.
    fn stamp(&self, process: &Process, source: &RingSource, slice: &RingSlice, end: u64) -> HeaderValues {
        let missing = if slice.whole { slice.events.saturating_sub(self.events) } else { 0 };
        let lost = slice.lost.max(self.reported) - self.reported;
        HeaderValues {
            begin: slice.begin,
            end,
            // The count comes from the program, which may have written anything.
            discarded: self.discarded.saturating_add(missing.saturating_add(lost)),
            pid: process.pid_of(slice.pid),
            tid: process.tid(slice.tid),
            position: slice.tail,
            ring: source.ring.packet_number(),
            thread: if slice.tid == source.writer.tid { source.writer.name } else { slice.thread },
        }
    }

    fn write(&mut self, stamp: &HeaderValues, body: Body<'_>) -> Result<(), AppendError> {
        let Some(lane) = &mut self.lane else { return Ok(()) };
        let is_first = stamp.discarded > lane.discarded && lane.recorded == 0;
        let mut write = |stamp: HeaderValues, body: Option<Body<'_>>| {
            lane.reserve(body.as_ref().map_or(0, |body| body.length)).map_err(AppendError::Io)?;
            lane.append(stamp, body).map(|_| ())
        };
        if is_first {
            // All overwritten events are older than the first remaining event, so the events after
            // it are complete.
            write(HeaderValues { end: stamp.begin, position: 0, ..stamp.clone() }, None)?;
        }
        write(stamp.clone(), Some(body))
    }

    /// Writes what was lost after the last packet. Returns the lane, if there is a packet.
    fn finish(mut self, look: &Look) -> io::Result<Option<StreamFileWriter>> {
        let lost = look.events.saturating_sub(self.events).saturating_add(look.lost.saturating_sub(self.reported));
        let Some(lane) = self.lane.as_mut().filter(|_| lost > 0) else { return Ok(self.lane) };
        let discarded = self.discarded.saturating_add(lost);
        if let Some(last) = lane.last.clone() {
            lane.reserve(0)?;
            let _ = lane.append(HeaderValues { begin: lane.end, end: lane.end, discarded, ..last }, None);
        }
        Ok(self.lane)
    }
}

/// Measures a slice: the number of bytes that are decodable events not later than `until`, the
/// time of the last one, and whether later events follow. `None` if the slice was overwritten.
fn measure(
    (common, bytes): (&DirectoryState, &mut Vec<u8>),
    source: &RingSource,
    slice: &RingSlice,
    until: u64,
) -> Option<(usize, u64, bool)> {
    let whole = (slice.to - slice.from) as usize;
    if slice.end <= until && !common.classes.invalid {
        return Some((whole, slice.end, false));
    }
    let copied = source.ring.copy(slice, bytes) && source.ring.is_intact(slice);
    let (mut at, mut time, mut end, mut later) = (0, slice.begin, slice.begin, false);
    while copied && at < bytes.len() {
        let Some(event) = common.classes.event(&bytes[at..]) else { break };
        time = following(time, event.bytes.first_chunk().map_or(0, |header| u64::from_ne_bytes(*header) >> 16));
        if time > until {
            later = true;
            break;
        }
        at += event.bytes.len();
        end = time;
    }
    copied.then_some((at, end, later))
}
