//! Takes the events that the rings hold and writes them as packets.
//!
//! A turn first looks at all rings, then reads new event classes from the site table, and only then
//! takes the events. A thread publishes the class before the event, so the class of every event
//! seen at the look is known when the event is taken.
//!
//! A [`Drain`] borrows one runtime directory and the recording for one turn. `packet` writes a
//! slice, `paired_write` two of them at once, `captured` decodes packets of a network, `losses`
//! writes what was lost, `history` reads rings that overwrite, `resize` replaces rings that are too
//! small.

mod captured;
mod history;
mod losses;
mod packet;
mod paired_write;
mod resize;

use crate::output::disk::NEARLY_FULL;
use crate::recording::larger_rings::larger;
use crate::recording::Recording;
use crate::ring::{Look, RingSlice};
use crate::runtime_dir::process::Process;
use crate::subjects::directory::{DirectoryState, RecordedRuntimeDir};
use crate::subjects::ring_source::{Decision, RingSource};
use crate::subjects::writer::Writer;
use crate::subjects::Subject;
pub(crate) use captured::Walk;
use longpole_abi::{RING_ENDED, RING_IDLE, RING_OWNED};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Takes the events of the rings of one runtime directory.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    pub common: &'a mut DirectoryState,
    pub recording: &'a mut Recording,
}

/// Takes the events of all rings of a runtime directory. Returns the largest share of a ring that
/// had filled up. `last`: this is the last turn of the recording.
pub(crate) fn drain_directory(directory: &mut RecordedRuntimeDir, recording: &mut Recording, last: bool) -> f64 {
    let RecordedRuntimeDir { common, processes, .. } = directory;
    let mut drain = Drain { common, recording };
    if drain.look(processes) {
        drain.learn_sites();
        // A thread publishes the class of an event in the site table first. If there are events and
        // no table, no class can be known.
        drain.common.classes.invalid |= drain.common.sites.is_none();
    }
    drain.show_triggers(processes);
    let recording = &mut *drain.recording;
    let rings = processes.values().flat_map(|subject| &subject.rings);
    recording.larger_rings.set(drain.common.stream, rings.map(RingSource::larger_rings).sum());
    let now = Instant::now();
    recording.files.disk.set_waiting_rings(processes.values_mut().flat_map(|subject| &mut subject.rings).map(|source| source.waiting(now)));
    let mut pressure: f64 = 0.0;
    for subject in processes.values_mut() {
        let final_look = last || subject.ended;
        for at in 0..subject.rings.len() {
            pressure = pressure.max(drain.drain_ring(subject, at, final_look));
        }
        subject.rings.retain(|source| !source.over);
    }
    pressure
}

/// Empties the rings of a runtime directory that do not overwrite, and writes their losses.
pub(crate) fn take_now(directory: &mut RecordedRuntimeDir, recording: &mut Recording) {
    let now = Instant::now();
    for source in directory.processes.values_mut().flat_map(|subject| &mut subject.rings) {
        source.take_partial_at = now;
        source.subbuffer_at_partial = source.ring.begun();
    }
    drain_directory(directory, recording, false);
    // Otherwise the losses since the last event would be written with the next event only.
    let RecordedRuntimeDir { common, processes, .. } = directory;
    let mut drain = Drain { common, recording };
    for Subject { process, rings, .. } in processes.values_mut() {
        for source in rings.iter_mut().filter(|source| !source.ring.overwrites && !source.broken) {
            drain.tail_losses(process, source, true);
        }
    }
}

/// Writes the remaining losses of all rings of a runtime directory at the end of the recording.
pub(crate) fn last_losses(directory: &mut RecordedRuntimeDir, recording: &mut Recording) {
    let RecordedRuntimeDir { common, processes, .. } = directory;
    let mut drain = Drain { common, recording };
    for subject in processes.values_mut() {
        for source in &mut subject.rings {
            drain.tail_losses(&subject.process, source, false);
        }
    }
}

impl Drain<'_> {
    /// Looks at all rings. Returns whether any of them has new events.
    fn look(&mut self, processes: &mut HashMap<String, Subject>) -> bool {
        let mut any = false;
        for subject in processes.values_mut() {
            if subject.process.poisoned() {
                self.recording.note(format!("{}: its control file was cut off", subject.process.stem));
                subject.ended = true;
            }
            for source in subject.rings.iter_mut().filter(|source| !source.broken) {
                match source.ring.look() {
                    Ok(look) => {
                        any |= look.head != source.ring.tail;
                        source.look = Some(look);
                    }
                    Err(fault) => self.give_up(source, &fault.to_string()),
                }
            }
        }
        any
    }

    /// Passes the new events of all rings to the triggers, if there are any.
    fn show_triggers(&mut self, processes: &mut HashMap<String, Subject>) {
        let Recording { triggers, scratch, .. } = &mut *self.recording;
        if triggers.is_empty() {
            return;
        }
        for Subject { process, rings, .. } in processes.values_mut() {
            for source in rings.iter_mut() {
                if let Some(look) = source.look {
                    triggers.observe((&self.common.classes, scratch), process, source, &look);
                }
            }
        }
    }

    /// Reads new event classes into the metadata. Must run before a packet is written that uses
    /// them.
    pub fn learn_sites(&mut self) {
        self.common.learn_sites(&mut self.recording.files.destination.metadata, &mut self.recording.account);
    }

    /// Stops reading a ring, and reports the reason.
    pub fn give_up(&mut self, source: &mut RingSource, why: &str) {
        source.broken = true;
        source.look = None;
        self.recording.note(format!("{} is not read from here on: {why}", source.ring.name));
    }

    /// Takes the events of one ring, and considers a larger one. Returns the share of the ring that
    /// had filled up; at least 1 if the ring lost events.
    fn drain_ring(&mut self, subject: &mut Subject, at: usize, last: bool) -> f64 {
        let source = &mut subject.rings[at];
        source.uses_page_cache = self.recording.files.disk.is_too_slow();
        let Some(look) = source.look.take() else { return 0.0 };
        let (idle, size) = (look.state == RING_IDLE, source.ring.size);
        let filled = (look.head - source.ring.tail) as f64 / size as f64;
        let losing = look.lost > source.lost_before;
        source.has_room = filled <= NEARLY_FULL && !losing;
        source.lost_before = look.lost;
        source.content = 0;
        let now = Instant::now();
        let news = look.head != if source.ring.overwrites { source.head_before } else { source.ring.tail };
        if source.refresh_name(&subject.process, self.recording.rules.config.period, news, last) {
            // Policies also select by the thread's name, so the decision is made again.
            source.decision = Decision::Undecided;
        }
        if source.decision == Decision::Undecided {
            source.decision = self.recording.rules.decision(&subject.process, subject.wanted, source);
        }
        if source.ring.overwrites && look.state != RING_ENDED && !last {
            self.watch_overwriting_ring(subject, at, &look);
            return 0.0;
        }
        // An unfinished sub-buffer is taken at most once a period, and only if none was finished in
        // that period: it frees no room and cannot bypass the page cache.
        let mut partial = last || look.state != RING_OWNED;
        let mut early = None;
        if now >= source.take_partial_at {
            source.take_partial_at = now + self.recording.rules.config.period;
            early = self.early(source);
            let (before, begun) = (source.subbuffer_at_partial, source.ring.begun());
            source.subbuffer_at_partial = begun;
            partial |= before == begun;
        }
        self.take_everything(&subject.process, &mut subject.rings[at], look, partial);
        let source = &subject.rings[at];
        if !last && !source.broken && !source.over {
            // Short-lived threads that share a ring end one sub-buffer each. A larger ring would
            // have larger sub-buffers and would be full as soon.
            let padded = idle && filled > 0.5 && source.content < size / 4;
            let small = (filled > 0.5 || losing) && !padded;
            let larger = if small { larger(size) } else { early };
            self.offer_larger_ring(subject, at, larger);
        }
        if losing {
            filled.max(1.0)
        } else {
            filled
        }
    }

    /// Takes all events of a ring and of the larger rings that replace it. `partial`: also those of
    /// an unfinished sub-buffer.
    fn take_everything(&mut self, process: &Process, source: &mut RingSource, mut look: Look, partial: bool) {
        loop {
            if source.decision == Decision::NotRecorded {
                self.recording.account.totals.dropped += look.head - source.ring.tail;
                source.ring.release(look.head, look.lost);
                source.extra_lost = 0;
            } else if source.ring.overwrites {
                self.take_history(process, source, &look);
            } else {
                self.take(process, source, &look, partial || look.state != RING_OWNED);
            }
            if look.state != RING_ENDED || source.broken || source.ring.tail != look.head {
                break;
            }
            self.switch_ring(process, source, &look);
            if source.over {
                break;
            }
            // The thread may have ended the new ring too, and there may be no further turn.
            match source.ring.look() {
                Ok(next) => look = next,
                Err(fault) => {
                    self.give_up(source, &fault.to_string());
                    break;
                }
            }
            self.learn_sites();
        }
    }

    fn take(&mut self, process: &Process, source: &mut RingSource, look: &Look, partial: bool) {
        loop {
            let previous = source.lane.and_then(|lane| self.recording.files.stream_files.get(lane)).map_or(0, |lane| lane.end);
            let slice = match source.ring.next(look, previous, partial) {
                Ok(Some(slice)) => slice,
                Ok(None) => return,
                Err(fault) => {
                    self.give_up(source, &fault.to_string());
                    return;
                }
            };
            self.update_writer(process, source, &slice);
            if source.decision == Decision::NotRecorded {
                self.drop_slice(source, &slice);
                continue;
            }
            if self.second_of_pair(source, look, &slice).is_some_and(|second| self.write_pair(process, source, [&slice, &second])) {
                continue;
            }
            source.content += slice.to - slice.from;
            self.write_slice(process, source, slice);
            if source.broken {
                return;
            }
        }
    }

    /// Updates the source if another thread has taken over the ring.
    pub fn update_writer(&self, process: &Process, source: &mut RingSource, slice: &RingSlice) {
        if slice.tid != source.writer.tid {
            source.writer = Writer::new(slice.tid, slice.thread);
            process.forget_thread(slice.tid);
            source.refresh_name(process, self.recording.rules.period(), true, false);
            source.decision = self.recording.rules.decision(process, true, source);
        }
    }

    /// Takes a slice without recording it.
    pub fn drop_slice(&mut self, source: &mut RingSource, slice: &RingSlice) {
        self.recording.account.totals.dropped += slice.to - slice.from;
        source.ring.release(slice.tail, slice.lost.max(source.ring.reported));
    }

    /// Switches to the larger ring after the thread did so and the old ring is empty. Without a
    /// larger ring, the source is over.
    fn switch_ring(&mut self, process: &Process, source: &mut RingSource, look: &Look) {
        // The losses of the old ring are written before the ring is removed, so that they survive
        // if this recorder is killed now. They are written right after the old ring's last event,
        // because the new ring already holds younger events.
        self.tail_losses(process, source, true);
        source.extra_lost = source.extra_lost.saturating_add(look.lost.saturating_sub(source.ring.reported));
        source.ring.reported = look.lost.max(source.ring.reported);
        self.recording.account.totals.waited = self.recording.account.totals.waited.saturating_add(source.ring.waited());
        self.common.runtime.remove(&source.ring.name);
        match source.take_larger() {
            Some(next) => {
                next.layout().lane.store(source.ring.layout().lane.load(Ordering::Relaxed), Ordering::Relaxed);
                source.lost_before = 0;
                source.ring = next;
            }
            None => {
                self.tail_losses(process, source, false);
                if let Some(lane) = source.lane {
                    self.recording.close_lane(lane, false);
                }
                source.over = true;
            }
        }
    }
}
