//! Takes what the rings hold.
//!
//! A turn looks at all rings first, then learns the classes that their events may have, then takes the events: whatever a ring showed
//! at the look has its class by then.

use crate::clock::extend;
use crate::error::Error;
use crate::lane::{AppendError, Body, Lane, Stamp};
use crate::pcap::{captured, Capture};
use crate::policy::{Backend, Packets};
use crate::process::{Process, Source, Verdict};
use crate::recorder::{Recorder, Subject};
use crate::recording::component;
use crate::ring::{Chunk, Look, Ring};
use crate::sites::Sites;
use crate::successor;
use crate::takeover::packet_ring;
use longpole_abi::{Kind, RING_ENDED, RING_OWNED};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Seconds are not needed for a thread to go over to its new ring; this many turns with a word in between are.
const TURNS_TO_SETTLE: u32 = 1000;

impl Recorder {
    /// Returns the largest share of a ring that had filled up.
    pub(crate) fn drain(&mut self, last: bool) -> Result<f64, Error> {
        let mut subjects: HashMap<String, Subject> = std::mem::take(&mut self.subjects);
        let result = self.drain_all(&mut subjects, last);
        self.subjects = subjects;
        let mut failed = None;
        for capture in self.captures.values_mut() {
            if let Err(error) = capture.flush() {
                failed = Some(error.to_string());
            }
        }
        if let Some(error) = failed {
            self.oddity(format!("captured packets could not be written: {error}"));
        }
        result
    }

    fn drain_all(&mut self, subjects: &mut HashMap<String, Subject>, last: bool) -> Result<f64, Error> {
        let mut any = false;
        for subject in subjects.values_mut() {
            if subject.process.poisoned() {
                self.oddity(format!("{}: its control file was cut off", subject.process.stem));
                subject.ended = true;
            }
            for source in subject.sources.iter_mut().filter(|source| !source.broken) {
                match source.ring.look() {
                    Ok(look) => {
                        any |= look.head != source.ring.tail;
                        source.look = Some(look);
                    }
                    Err(fault) => self.give_up(source, &fault.to_string()),
                }
            }
        }
        if any {
            self.learn_sites();
        }
        let mut pressure: f64 = 0.0;
        for subject in subjects.values_mut() {
            let final_look = last || subject.ended;
            for at in 0..subject.sources.len() {
                pressure = pressure.max(self.drain_source(subject, at, final_look)?);
            }
            subject.sources.retain(|source| !source.over);
        }
        Ok(pressure)
    }

    /// Before a packet is written, the metadata has every class that it can use.
    pub(crate) fn learn_sites(&mut self) {
        if self.sites.is_none() {
            match Sites::open(&self.runtime) {
                Ok(sites) => self.sites = sites,
                Err(error) => self.oddity(format!("the site table cannot be read: {error}")),
            }
        }
        let Some(sites) = &mut self.sites else { return };
        let mut text = String::new();
        let mut complaints = Vec::new();
        sites.update(&mut self.classes, &mut text, &mut complaints);
        for complaint in complaints {
            self.oddity(complaint);
        }
        if !text.is_empty() {
            if let Err(error) = self.metadata.append(&text) {
                self.oddity(format!("the metadata cannot be extended: {error}"));
            }
        }
    }

    fn give_up(&mut self, source: &mut Source, why: &str) {
        source.broken = true;
        source.look = None;
        self.oddity(format!("{} is not read any further: {why}", source.ring.name));
    }

    fn drain_source(&mut self, subject: &mut Subject, at: usize, last: bool) -> Result<f64, Error> {
        let source = &mut subject.sources[at];
        let Some(mut look) = source.look.take() else { return Ok(0.0) };
        let filled = (look.head - source.ring.tail) as f64 / source.ring.size as f64;
        let losing = look.lost > source.lost_before;
        source.lost_before = look.lost;
        if source.verdict == Verdict::Open {
            source.verdict = self.verdict(&subject.process, subject.wanted, source);
        }
        // Taking a part of a sub-buffer gives the thread no room, only the reader news, and its two parts cannot bypass the page cache.
        // So it is done once a period, and only where no sub-buffer was completed in that time.
        let now = Instant::now();
        let mut partial = last || look.state != RING_OWNED;
        if now >= source.partial {
            source.partial = now + self.config.period;
            let (before, begun) = (source.begun, source.ring.begun());
            source.begun = begun;
            partial |= before == begun;
        }
        loop {
            let source = &mut subject.sources[at];
            if source.verdict == Verdict::Unwanted {
                self.total.dropped += look.head - source.ring.tail;
                source.ring.release(look.head, look.lost);
                source.extra_lost = 0;
            } else {
                self.take(&subject.process, source, &look, partial || look.state != RING_OWNED)?;
            }
            if look.state != RING_ENDED || source.broken || source.ring.tail != look.head {
                break;
            }
            self.go_over(&subject.process, source, &look)?;
            if source.over {
                break;
            }
            // The thread may be done with the new ring, too, and there may be no other turn.
            match source.ring.look() {
                Ok(next) => look = next,
                Err(fault) => {
                    self.give_up(source, &fault.to_string());
                    break;
                }
            }
            self.learn_sites();
        }
        let source = &subject.sources[at];
        if !last && !source.broken && !source.over {
            self.consider_successor(subject, at, filled, losing);
        }
        Ok(if losing { filled.max(1.0) } else { filled })
    }

    fn verdict(&self, process: &Process, wanted: bool, source: &Source) -> Verdict {
        if !wanted || self.config.exclude.iter().any(|pattern| crate::glob::matches(pattern, &process.label)) {
            return Verdict::Unwanted;
        }
        match self.config.for_thread(&process.label, &source.thread_name()) {
            Ok(None) => Verdict::Everything,
            Ok(Some(policy)) => {
                let index = self.config.policy.iter().position(|other| std::ptr::eq(other, policy));
                index.map_or(Verdict::Unwanted, Verdict::Policy)
            }
            Err(_) => Verdict::Unwanted,
        }
    }

    fn take(&mut self, process: &Process, source: &mut Source, look: &Look, partial: bool) -> Result<(), Error> {
        loop {
            let previous = source.lane.and_then(|lane| self.lanes[lane].as_ref()).map_or(0, |lane| lane.end);
            let chunk = match source.ring.next(look, previous, partial) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                Err(fault) => {
                    self.give_up(source, &fault.to_string());
                    return Ok(());
                }
            };
            if chunk.tid != source.tid {
                // Another thread has taken the ring.
                source.tid = chunk.tid;
                source.thread = chunk.thread;
                source.verdict = self.verdict(process, true, source);
            }
            if source.verdict == Verdict::Unwanted {
                self.total.dropped += chunk.to - chunk.from;
                source.ring.release(chunk.tail, chunk.lost.max(source.ring.reported));
                continue;
            }
            self.packet(process, source, &chunk)?;
            if source.broken {
                return Ok(());
            }
        }
    }

    /// One chunk becomes one packet.
    fn packet(&mut self, process: &Process, source: &mut Source, chunk: &Chunk) -> Result<(), Error> {
        let policy = match source.verdict {
            Verdict::Policy(index) => self.config.policy.get(index),
            _ => None,
        };
        let ctf = policy.is_none_or(|policy| policy.has(Backend::Ctf));
        let pcapng = policy.is_none_or(|policy| policy.has(Backend::Pcapng));
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let length = (chunk.to - chunk.from) as usize;
        let reported = source.ring.reported.max(chunk.lost);
        let delta = reported - source.ring.reported + source.extra_lost;

        // The thread says so before the first packet can be seen.
        let packets_inside = self.classes.packets && source.ring.layout().packets.load(Ordering::Relaxed) != 0;
        if self.classes.invalid || (pcapng && packets_inside) {
            let mut bytes = std::mem::take(&mut self.scratch);
            if !source.ring.copy(chunk, &mut bytes) {
                self.scratch = bytes;
                self.give_up(source, "its file was cut off");
                return Ok(());
            }
            let wanted = pcapng.then_some(&packets);
            let walked = self.walk(process, &bytes, chunk, wanted, delta);
            self.scratch = bytes;
            if let Err(before) = walked? {
                // Nobody could read these events; those that can be told apart are counted.
                source.extra_lost += before.max(1);
                source.ring.release(chunk.tail, source.ring.reported);
                self.oddity(format!("{}: events of a class that cannot be understood were left out", source.ring.name));
                return Ok(());
            }
        }
        if !ctf {
            self.total.recorded += length as u64;
            source.ring.release(chunk.tail, reported);
            source.extra_lost = 0;
            self.total.lost += delta;
            return Ok(());
        }
        let index = match self.lane(process, source, chunk.begin) {
            Ok(index) => index,
            Err(error) => return self.not_written(source, chunk, reported, std::io::Error::other(error.to_string())),
        };
        let Some(lane) = &mut self.lanes[index] else { return Ok(()) };
        let stamp = Stamp {
            begin: chunk.begin,
            end: chunk.end,
            discarded: lane.discarded + delta,
            pid: chunk.pid,
            tid: chunk.tid,
            position: chunk.tail,
            ring: packet_ring(&source.ring),
            thread: source.thread,
        };
        let body = Body { mapping: source.ring.mapping(), offset: source.ring.offset(chunk.from), length, aligned: chunk.whole };
        match commit(lane, &source.ring, stamp, chunk.tail, reported, Some(body)) {
            Ok(()) => {}
            Err(AppendError::Source) => {
                self.give_up(source, "its file was cut off");
                return Ok(());
            }
            Err(AppendError::Io(error)) => return self.not_written(source, chunk, reported, error),
        }
        source.ring.release(chunk.tail, reported);
        source.extra_lost = 0;
        self.total.recorded += length as u64;
        self.total.lost += delta;
        Ok(())
    }

    /// The disk takes no more: the events are lost and counted, and the threads have their room back.
    fn not_written(&mut self, source: &mut Source, chunk: &Chunk, reported: u64, error: std::io::Error) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.scratch);
        let counted = source.ring.copy(chunk, &mut bytes).then(|| self.classes.count(&bytes)).flatten();
        self.scratch = bytes;
        source.extra_lost += reported - source.ring.reported + counted.unwrap_or(1);
        source.ring.release(chunk.tail, reported);
        self.oddity(format!("packets could not be written, their events count as lost: {error}"));
        Ok(())
    }

    /// Looks at each event: captured packets go to their file. `Err(n)`: after n events comes one that has no known form.
    fn walk(
        &mut self,
        process: &Process,
        bytes: &[u8],
        chunk: &Chunk,
        packets: Option<&Packets>,
        lost: u64,
    ) -> Result<Result<(), u64>, Error> {
        let label = component(&process.label);
        let mut lost = lost;
        let mut at = 0;
        let mut count = 0;
        while at < bytes.len() {
            if let Some(size) = self.classes.plain_size(&bytes[at..]) {
                at += size;
                count += 1;
                continue;
            }
            let Some(event) = self.classes.event(&bytes[at..]) else { return Ok(Err(count)) };
            at += event.bytes.len();
            count += 1;
            let Some(packets) = packets.filter(|_| event.class.kind == Kind::Packet) else { continue };
            let Some(captured) = captured(&event) else { return Ok(Err(count - 1)) };
            if !packets.wants(&captured.interface) {
                continue;
            }
            if !self.captures.contains_key(&label) {
                self.captures.insert(label.clone(), Capture::create(&self.path, &label)?);
            }
            let Some(capture) = self.captures.get_mut(&label) else { continue };
            capture.lose(std::mem::take(&mut lost));
            let time = self.clock.unix_ns(extend(chunk.begin, event.low)).max(0) as u64;
            capture.packet(&captured, time, packets)?;
        }
        if let Some(capture) = self.captures.get_mut(&label) {
            capture.lose(lost);
        }
        Ok(Ok(()))
    }

    /// The lane of a ring, made when it has something to say.
    fn lane(&mut self, process: &Process, source: &mut Source, begin: u64) -> Result<usize, Error> {
        if let Some(index) = source.lane {
            return Ok(index);
        }
        let index = self.lanes.len();
        let number = index as u32;
        let name = format!("{}-{number}", component(&process.label));
        let first = Stamp {
            begin,
            end: begin,
            discarded: 0,
            pid: process.pid,
            tid: source.tid,
            position: 0,
            ring: packet_ring(&source.ring),
            thread: source.thread,
        };
        let user = self.path.join("user");
        let lane = Lane::create(&user, &name, number, self.uuid, &process.label, &first).map_err(Error::io("make", user.join(&name)))?;
        self.lanes.push(Some(lane));
        source.lane = Some(index);
        source.ring.layout().lane.store(number + 1, Ordering::Relaxed);
        Ok(index)
    }

    /// The thread has gone over to its larger ring, and the old one is empty.
    fn go_over(&mut self, process: &Process, source: &mut Source, look: &Look) -> Result<(), Error> {
        // What the old ring lost is in the trace before the ring is gone, also if this recorder is killed now.
        // It stands right behind the old ring's last event: the new ring has younger ones already.
        self.tail_losses(process, source, true)?;
        source.extra_lost += look.lost.saturating_sub(source.ring.reported);
        source.ring.reported = look.lost.max(source.ring.reported);
        self.runtime.remove(&source.ring.name);
        match source.successor.take() {
            Some(next) => {
                next.layout().lane.store(source.ring.layout().lane.load(Ordering::Relaxed), Ordering::Relaxed);
                source.lost_before = 0;
                source.ring = next;
            }
            None => {
                self.tail_losses(process, source, false)?;
                if let Some(lane) = source.lane {
                    self.close_lane(lane)?;
                }
                source.over = true;
            }
        }
        Ok(())
    }

    /// A ring that was too small gets a successor.
    fn consider_successor(&mut self, subject: &mut Subject, at: usize, filled: f64, losing: bool) {
        let wished = subject.buffer;
        let source = &mut subject.sources[at];
        if source.successor.is_some() && source.ring.layout().successor.load(Ordering::Relaxed) == 0 {
            // Either it is on its way, or the thread could not take it and will not be asked again.
            source.waiting += 1;
            if source.waiting > TURNS_TO_SETTLE {
                source.settled = true;
            }
        }
        if source.successor.is_some() || source.settled || source.verdict == Verdict::Unwanted {
            return;
        }
        let size = match wished {
            Some(wished) => wished,
            None if filled > 0.5 || losing => match successor::larger(source.ring.size) {
                Some(size) => size,
                None => return,
            },
            None => return,
        };
        if size <= source.ring.size {
            return;
        }
        if wished.is_none() && self.successor_bytes + size > successor::SESSION {
            self.oddity("a ring was too small, and the session's memory for larger ones is used up".to_owned());
            source.settled = true;
            return;
        }
        let number = subject.process.next_successor;
        subject.process.next_successor += 1;
        match successor::make(&self.runtime, &subject.process.stem, number, &source.ring, size) {
            Ok(ring) => {
                self.successor_bytes += size;
                source.waiting = 0;
                source.successor = Some(ring);
            }
            Err(error) => {
                source.settled = true;
                self.oddity(format!("{}: no larger ring: {error}", source.ring.name));
            }
        }
    }

    /// What was lost since the newest packet: an empty packet says it.
    fn tail_losses(&mut self, process: &Process, source: &mut Source, more: bool) -> Result<(), Error> {
        if source.verdict == Verdict::Unwanted || source.verdict == Verdict::Open {
            return Ok(());
        }
        let lost = if source.broken { source.ring.reported } else { source.ring.layout().lost.load(Ordering::Acquire) };
        let reported = lost.max(source.ring.reported);
        let delta = reported - source.ring.reported + source.extra_lost;
        // A lane that begins here would begin after the younger events.
        if delta == 0 || (more && source.lane.is_none()) {
            return Ok(());
        }
        let now = self.clock.now();
        let index = self.lane(process, source, now)?;
        let Some(lane) = &mut self.lanes[index] else { return Ok(()) };
        let at = if more { lane.end } else { now.max(lane.end) };
        let stamp = Stamp {
            begin: at,
            end: at,
            discarded: lane.discarded + delta,
            pid: process.pid,
            tid: source.tid,
            position: source.ring.tail,
            ring: packet_ring(&source.ring),
            thread: source.thread,
        };
        match commit(lane, &source.ring, stamp, source.ring.tail, reported, None) {
            Ok(()) | Err(AppendError::Source) => {}
            Err(AppendError::Io(error)) => self.oddity(format!("the last losses could not be written: {error}")),
        }
        source.ring.release(source.ring.tail, reported);
        source.extra_lost = 0;
        self.total.lost += delta;
        Ok(())
    }

    pub(crate) fn last_losses(&mut self) -> Result<(), Error> {
        let mut subjects = std::mem::take(&mut self.subjects);
        let mut result = Ok(());
        for subject in subjects.values_mut() {
            for source in &mut subject.sources {
                result = result.and_then(|()| self.tail_losses(&subject.process, source, false));
            }
        }
        self.subjects = subjects;
        result
    }

    /// Marks the processes that have ended. Comes before their rings are sought and looked at: then what is found is all.
    pub(crate) fn mourn(&mut self) {
        if std::mem::take(&mut self.deaths) {
            for subject in self.subjects.values_mut() {
                subject.ended |= !subject.process.handle_lives();
            }
        }
    }

    /// Processes that have ended, and of which everything was taken.
    pub(crate) fn bury(&mut self) -> Result<(), Error> {
        let ended: Vec<String> = self.subjects.iter().filter(|(_, subject)| subject.ended).map(|(stem, _)| stem.clone()).collect();
        for stem in ended {
            let Some(subject) = self.subjects.get_mut(&stem) else { continue };
            let mut sources = std::mem::take(&mut subject.sources);
            // A thread went over to a larger ring and died: the larger one has not been looked at.
            let more = sources.iter().any(|source| !source.broken && source.fresh_since_look());
            subject.sources = Vec::new();
            if more {
                subject.sources = sources;
                continue;
            }
            let mut result = Ok(());
            if let Some(subject) = self.subjects.remove(&stem) {
                for source in &mut sources {
                    result = result.and_then(|()| self.tail_losses(&subject.process, source, false));
                }
                self.subjects.insert(stem.clone(), Subject { sources, ..subject });
            }
            self.release_subject(&stem, true);
            result?;
        }
        Ok(())
    }

    /// Forgets a process; `remove`: and its files.
    pub(crate) fn release_subject(&mut self, stem: &str, remove: bool) {
        let Some(subject) = self.subjects.remove(stem) else { return };
        let refused = subject.process.refused();
        if refused > 0 && subject.wanted {
            self.total.refused += refused;
            let errno = subject.process.control().refused_errno.load(Ordering::Relaxed);
            let why = std::io::Error::from_raw_os_error(errno as i32);
            self.oddity(format!("{}: {refused} events found no memory for a ring ({why}); they are in no stream", subject.process.label));
        }
        if subject.order.mask == 0 && (!subject.wanted || self.config.for_process(&subject.process.label).is_none()) {
            self.total.unwanted += 1;
        }
        for source in subject.sources {
            if remove {
                self.runtime.remove(&source.ring.name);
                if let Some(successor) = &source.successor {
                    self.runtime.remove(&successor.name);
                }
            }
            if let Some(lane) = source.lane {
                if let Err(error) = self.close_lane(lane) {
                    self.oddity(error.to_string());
                }
            }
        }
        if remove {
            self.runtime.remove(&format!("{stem}.control"));
        }
    }

    pub(crate) fn close_lane(&mut self, index: usize) -> Result<(), Error> {
        let Some(lane) = self.lanes[index].take() else { return Ok(()) };
        self.closed.insert(lane.number, lane.describe());
        let path = lane.path.clone();
        lane.close().map_err(Error::io("close", path))
    }
}

/// Writes a packet. Before it is committed, the ring says what it will be, so that a successor of this recorder can tell.
fn commit(lane: &mut Lane, ring: &Ring, stamp: Stamp, tail: u64, reported: u64, body: Option<Body<'_>>) -> Result<(), AppendError> {
    let offset = lane.reserve(body.as_ref().map_or(0, |body| body.length)).map_err(AppendError::Io)?;
    let layout = ring.layout();
    layout.spare_reader[0].store(reported, Ordering::Relaxed);
    layout.spare_reader[1].store(stamp.discarded, Ordering::Relaxed);
    layout.pending_offset.store(offset, Ordering::Relaxed);
    layout.pending_tail.store(tail, Ordering::Release);
    lane.append(stamp, body)
}
