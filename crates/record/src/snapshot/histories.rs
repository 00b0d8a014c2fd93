//! Copies the events of rings that overwrite into a snapshot. The rings are unchanged, and their
//! threads do not stop; what a thread overwrites meanwhile is left out and counted.

use super::Snapshot;
use crate::clock::following;
use crate::control::policy::Backend;
use crate::drain::Walk;
use crate::error::Error;
use crate::output::recording::component;
use crate::output::stream::{AppendError, Body, HeaderValues, Lane};
use crate::recording::Recording;
use crate::ring::{Fault, Look, RingSlice};
use crate::runtime_dir::process::Process;
use crate::subjects::directory::{Common, Directory};
use crate::subjects::ring_source::{Decision, RingSource};
use crate::subjects::Subject;
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
pub(crate) fn look_back(directory: &Directory) -> Vec<LookBack> {
    let mut looks = Vec::new();
    for (stem, subject) in &directory.processes {
        for (at, source) in subject.sources.iter().enumerate().filter(|(_, source)| source.ring.overwrites && !source.broken) {
            let Ok(look) = source.ring.look() else { continue };
            let mut tail = source.ring.oldest(look.head);
            let first = loop {
                match source.ring.next_from(tail, &look, 0, true) {
                    Err(Fault::Lapped) if tail < look.head => tail += source.ring.subbuffer() - tail % source.ring.subbuffer(),
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
    pub fn copy_histories(&mut self, directory: &Directory, recording: &mut Recording, looks: &[LookBack]) -> Result<(), Error> {
        let mut result = Ok(());
        for LookBack { stem, at, look, .. } in looks {
            let Some(Subject { process, sources, wanted, .. }) = directory.processes.get(stem) else { continue };
            let Some(source) = sources.get(*at) else { continue };
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
        (common, recording): (&Common, &mut Recording),
        process: &Process,
        source: &RingSource,
        look: &Look,
    ) -> Result<(), Error> {
        let ring = &source.ring;
        let mut lane: Option<Lane> = None;
        let mut tail = ring.oldest(look.head);
        // State after the part copied last: the ring's events and losses, and the losses written to
        // the lane.
        let (mut events, mut reported, mut discarded) = (ring.taken, ring.reported, 0);
        let number = self.next_lane;
        let name = format!("{}-{number}", component(&process.label));
        let user = self.path.join("user");
        let file = user.join(&name);
        loop {
            let previous = lane.as_ref().map_or(0, |lane| lane.end);
            let slice = match ring.next_from(tail, look, previous, true) {
                Ok(Some(slice)) => slice,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    tail += ring.subbuffer() - tail % ring.subbuffer();
                    continue;
                }
                Err(fault) => {
                    self.notes.push(format!("{} is not in it: {fault}", ring.name));
                    break;
                }
            };
            let missing = if slice.whole { slice.events.saturating_sub(events) } else { 0 };
            let lost_now = slice.lost.max(reported);
            if slice.end < self.window {
                // Losses before that are before the window as well.
                (events, reported, tail) = (slice.events_after, lost_now, slice.tail);
                continue;
            }
            let Some((length, end, left)) = measure((common, &mut recording.scratch), source, &slice, self.frozen) else {
                tail = slice.from - slice.from % ring.subbuffer() + ring.subbuffer();
                continue;
            };
            let stamp = HeaderValues {
                begin: slice.begin,
                end,
                // The count comes from the program, which may have written anything.
                discarded: u64::saturating_add(discarded, missing.saturating_add(lost_now - reported)),
                pid: process.pid_of(slice.pid),
                tid: process.tid(slice.tid),
                position: slice.tail,
                ring: ring.packet_number(),
                thread: if slice.tid == source.writer.tid { source.writer.name } else { slice.thread },
            };
            let writing = match &mut lane {
                Some(lane) => lane,
                None => {
                    let first = HeaderValues { begin: self.begin.min(slice.begin), discarded: 0, position: 0, ..stamp.clone() };
                    let made =
                        Lane::create(&user, &name, (number, common.stream), recording.files.destination.uuid, &process.label, &first);
                    lane.insert(made.map_err(Error::io("make", &file))?)
                }
            };
            let write = |writing: &mut Lane, stamp: HeaderValues, body: Option<Body<'_>>| {
                writing.reserve(body.as_ref().map_or(0, |body| body.length)).map_err(AppendError::Io)?;
                writing.append(stamp, body).map(|_| ())
            };
            let mut written = Ok(());
            if stamp.discarded > writing.discarded && writing.recorded == 0 {
                // All overwritten events are older than the first remaining event, so the events
                // after it are complete.
                written = write(writing, HeaderValues { end: stamp.begin, position: 0, ..stamp.clone() }, None);
            }
            let body = Body { length, ..ring.body(&slice) };
            match written.and_then(|()| write(writing, stamp.clone(), Some(body))) {
                Ok(()) => {
                    (events, reported, discarded, tail) = (slice.events_after, lost_now, stamp.discarded, slice.tail);
                    self.copy_packets((common, recording), process, source, &RingSlice { to: slice.from + length as u64, ..slice });
                    if left {
                        // The remaining events are later than the pause.
                        events = look.events;
                        break;
                    }
                }
                Err(AppendError::Source) => tail = slice.from - slice.from % ring.subbuffer() + ring.subbuffer(),
                Err(AppendError::Io(error)) => return Err(Error::io("write", file)(error)),
            }
        }
        let rest = look.events.saturating_sub(events).saturating_add(look.lost.saturating_sub(reported));
        let Some(mut lane) = lane else { return Ok(()) };
        if rest > 0 {
            let last = lane.last.clone().map(|last| HeaderValues {
                begin: lane.end,
                end: lane.end,
                discarded: discarded.saturating_add(rest),
                ..last
            });
            if let Some(stamp) = last {
                lane.reserve(0).map_err(Error::io("write", &file))?;
                let _ = lane.append(stamp, None);
            }
        }
        self.next_lane += 1;
        self.lost = self.lost.saturating_add(lane.discarded);
        self.recorded += lane.recorded;
        self.lanes.push(lane.describe());
        lane.close().map_err(Error::io("write", file))
    }

    /// Copies the captured packets of a slice to a file of the snapshot.
    fn copy_packets(&mut self, (common, recording): (&Common, &mut Recording), process: &Process, source: &RingSource, slice: &RingSlice) {
        if !common.classes.packets || source.ring.layout().packets.load(Ordering::Relaxed) == 0 {
            return;
        }
        let policy = recording.rules.policy_of(source.decision);
        if policy.is_some_and(|policy| !policy.has(Backend::Pcapng)) {
            return;
        }
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let Recording { scratch, account, clock, .. } = recording;
        if source.ring.copy(slice, scratch) && source.ring.intact(slice) {
            let folder = self.folder.path();
            let walk = Walk { classes: &common.classes, clock, folder: &folder, captures: &mut self.captures, account };
            walk.events(process, scratch, slice, Some(&packets), 0, false);
        }
    }
}

/// Measures a slice: the number of bytes that are decodable events not later than `until`, the
/// time of the last one, and whether later events follow. `None` if the slice was overwritten.
fn measure((common, bytes): (&Common, &mut Vec<u8>), source: &RingSource, slice: &RingSlice, until: u64) -> Option<(usize, u64, bool)> {
    let whole = (slice.to - slice.from) as usize;
    if slice.end <= until && !common.classes.invalid {
        return Some((whole, slice.end, false));
    }
    let copied = source.ring.copy(slice, bytes) && source.ring.intact(slice);
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
