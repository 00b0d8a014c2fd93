//! Takes the events that the rings hold and writes them as packets.
//!
//! A turn first looks at all rings, then reads new event classes from the site table, and only then
//! takes the events. A thread publishes the class before the event, so the class of every event
//! seen at the look is known when the event is taken.

use crate::clock::following;
use crate::control::policy::{Backend, Packets};
use crate::control::selection::Part;
use crate::error::Error;
use crate::output::disk::NEARLY;
use crate::output::pcap::Capture;
use crate::output::recording::component;
use crate::output::stream::{self, AppendError, Body, HeaderValues, Lane};
use crate::recorder::{Recorder, Subject};
use crate::ring::packet_event::captured;
use crate::ring::resize;
use crate::ring::sites::Sites;
use crate::ring::{Chunk, Look, Ring};
use crate::runtime_dir::process::{Process, Source, Verdict};
use longpole_abi::{Kind, RING_ENDED, RING_IDLE, RING_OWNED};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Number of turns after which an ended process is forgotten even if its rings still change,
/// because another process must be writing to them.
const TURNS_DEAD: u32 = 100;

impl Recorder {
    /// Takes the events of all rings of the current runtime directory. Returns the largest share of
    /// a ring that had filled up. `last`: this is the last turn of the recording.
    pub(crate) fn drain(&mut self, last: bool) -> f64 {
        let mut subjects: HashMap<String, Subject> = std::mem::take(&mut self.place.subjects);
        let pressure = self.drain_all(&mut subjects, last);
        self.place.subjects = subjects;
        pressure
    }

    /// Writes the captured packets that wait in memory.
    pub(crate) fn flush_captures(&mut self) {
        let mut captures = std::mem::take(&mut self.captures);
        for capture in captures.values_mut() {
            let result = capture.flush().map_err(|error| error.to_string());
            self.capture_written(capture, result);
        }
        self.captures = captures;
    }

    /// Accounts for the result of writing captured packets: packets that the disk refuses are
    /// dropped and counted; the rest of the recording continues.
    pub(crate) fn capture_written(&mut self, capture: &mut Capture, result: Result<(), String>) {
        if let Err(error) = result {
            self.packets_refused(capture.path().file_name().unwrap_or_default().to_string_lossy().as_ref(), &error);
        }
        let refused = capture.take_refused();
        self.total.packets_refused += refused.packets;
        self.total.lost = self.total.lost.saturating_add(refused.sole);
    }

    fn packets_refused(&mut self, name: &str, error: &str) {
        self.diagnostic(format!("packets/{name}: captured packets could not be written and count as dropped: {error}"));
    }

    fn drain_all(&mut self, subjects: &mut HashMap<String, Subject>, last: bool) -> f64 {
        let mut any = false;
        for subject in subjects.values_mut() {
            if subject.process.poisoned() {
                self.diagnostic(format!("{}: its control file was cut off", subject.process.stem));
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
            // A thread that wrote events has published classes in a table; without it, no class is
            // known.
            self.place.classes.invalid |= self.place.sites.is_none();
        }
        if !self.watches.is_empty() {
            for subject in subjects.values_mut() {
                let Subject { process, sources, .. } = subject;
                for source in sources.iter_mut() {
                    if let Some(look) = source.look {
                        self.observe(process, source, &look);
                    }
                }
            }
        }
        self.place.larger = resize::memory(subjects.values().flat_map(|subject| &subject.sources));
        let now = Instant::now();
        self.disk.looked(subjects.values_mut().flat_map(|subject| &mut subject.sources).map(|source| source.waiting(now)));
        let mut pressure: f64 = 0.0;
        for subject in subjects.values_mut() {
            let final_look = last || subject.ended;
            for at in 0..subject.sources.len() {
                pressure = pressure.max(self.drain_source(subject, at, final_look));
            }
            subject.sources.retain(|source| !source.over);
        }
        pressure
    }

    /// Reads new event classes into the metadata. Must run before a packet is written that uses
    /// them.
    pub(crate) fn learn_sites(&mut self) {
        if self.place.sites.is_none() {
            match Sites::open(&self.place.runtime) {
                Ok(sites) => self.place.sites = sites,
                Err(error) => self.diagnostic(format!("the site table cannot be read: {error}")),
            }
        }
        let Some(sites) = &mut self.place.sites else { return };
        let mut text = String::new();
        let mut complaints = Vec::new();
        sites.update(self.place.stream, &mut self.place.classes, &mut text, &mut complaints);
        for complaint in complaints {
            self.diagnostic(complaint);
        }
        if !text.is_empty() || self.metadata.is_behind() {
            if let Err(error) = self.metadata.append(&text) {
                self.diagnostic(format!("the metadata cannot be extended: {error}"));
            }
        }
    }

    /// Stops reading a ring, and reports the reason.
    pub(crate) fn give_up(&mut self, source: &mut Source, why: &str) {
        source.broken = true;
        source.look = None;
        self.diagnostic(format!("{} is not read any further: {why}", source.ring.name));
    }

    fn drain_source(&mut self, subject: &mut Subject, at: usize, last: bool) -> f64 {
        let source = &mut subject.sources[at];
        source.hurried = self.disk.is_too_slow();
        let Some(mut look) = source.look.take() else { return 0.0 };
        let (idle, size) = (look.state == RING_IDLE, source.ring.size);
        let filled = (look.head - source.ring.tail) as f64 / size as f64;
        let losing = look.lost > source.lost_before;
        source.has_room = filled <= NEARLY && !losing;
        source.lost_before = look.lost;
        source.content = 0;
        let now = Instant::now();
        let news = look.head != if source.ring.overwrites { source.head_before } else { source.ring.tail };
        if source.refresh_name(&subject.process, self.config.period, news, last) {
            // Policies also select by the thread's name, so the decision is made again.
            source.verdict = Verdict::Open;
        }
        if source.verdict == Verdict::Open {
            source.verdict = self.verdict(&subject.process, subject.wanted, source);
        }
        if source.ring.overwrites && look.state != RING_ENDED && !last {
            self.keep(subject, at, &look);
            return 0.0;
        }
        // Taking part of a sub-buffer gives the thread no room; it only brings events to the reader
        // sooner, and a partial sub-buffer cannot bypass the page cache. So it is done once a
        // period, and only if no sub-buffer was completed in that period.
        let mut partial = last || look.state != RING_OWNED;
        let mut early = None;
        if now >= source.partial {
            source.partial = now + self.config.period;
            early = self.early(source);
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
            } else if source.ring.overwrites {
                self.take_history(&subject.process, source, &look);
            } else {
                self.take(&subject.process, source, &look, partial || look.state != RING_OWNED);
            }
            if look.state != RING_ENDED || source.broken || source.ring.tail != look.head {
                break;
            }
            self.switch_ring(&subject.process, source, &look);
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
        let source = &subject.sources[at];
        if !last && !source.broken && !source.over {
            // Short-lived threads that share a ring end one sub-buffer each. A larger ring would
            // have larger sub-buffers and would be full as soon.
            let padded = idle && filled > 0.5 && source.content < size / 4;
            let small = (filled > 0.5 || losing) && !padded;
            let larger = if small { resize::larger(size) } else { early };
            self.consider_successor(subject, at, larger);
        }
        if losing {
            filled.max(1.0)
        } else {
            filled
        }
    }

    /// Decides whether the events of a ring are recorded, by the scope, the selection and the
    /// policies.
    pub(crate) fn verdict(&self, process: &Process, wanted: bool, source: &Source) -> Verdict {
        if !wanted || self.config.exclude.iter().any(|pattern| crate::text::glob::matches(pattern, &process.label)) {
            return Verdict::Unwanted;
        }
        let part = || Part::thread(&process.label, process.pid, process.tid(source.tid));
        if self.options.selection.as_ref().is_some_and(|selection| !selection.is_enabled(&part())) {
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

    fn take(&mut self, process: &Process, source: &mut Source, look: &Look, partial: bool) {
        loop {
            let previous = source.lane.and_then(|lane| self.lanes[lane].as_ref()).map_or(0, |lane| lane.end);
            let chunk = match source.ring.next(look, previous, partial) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return,
                Err(fault) => {
                    self.give_up(source, &fault.to_string());
                    return;
                }
            };
            self.update_writer(process, source, &chunk);
            if source.verdict == Verdict::Unwanted {
                self.drop_chunk(source, &chunk);
                continue;
            }
            if self.second_of_pair(source, look, &chunk).is_some_and(|second| self.both(process, source, [&chunk, &second])) {
                continue;
            }
            source.content += chunk.to - chunk.from;
            self.packet(process, source, chunk);
            if source.broken {
                return;
            }
        }
    }

    /// Updates the source if another thread has taken over the ring.
    pub(crate) fn update_writer(&self, process: &Process, source: &mut Source, chunk: &Chunk) {
        if chunk.tid != source.tid {
            source.taken(chunk.tid, chunk.thread);
            process.forget_thread(chunk.tid);
            source.refresh_name(process, self.config.period, true, false);
            source.verdict = self.verdict(process, true, source);
        }
    }

    /// Takes a chunk without recording it.
    pub(crate) fn drop_chunk(&mut self, source: &mut Source, chunk: &Chunk) {
        self.total.dropped += chunk.to - chunk.from;
        source.ring.release(chunk.tail, chunk.lost.max(source.ring.reported));
    }

    /// Writes one chunk as one packet. Does nothing if the thread has overwritten the chunk
    /// meanwhile.
    pub(crate) fn packet(&mut self, process: &Process, source: &mut Source, mut chunk: Chunk) {
        // Number of events of this chunk that cannot be decoded.
        let mut unreadable = 0;
        let policy = self.policy_of(source.verdict);
        let ctf = policy.is_none_or(|policy| policy.has(Backend::Ctf));
        let pcapng = policy.is_none_or(|policy| policy.has(Backend::Pcapng));
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let reported = source.ring.reported.max(chunk.lost);
        let delta = (reported - source.ring.reported).saturating_add(source.extra_lost);

        // The capture file has this chunk's packets and losses.
        let mut walked = false;
        // The thread sets this flag before its first packet becomes visible.
        let packets_inside = self.place.classes.packets && source.ring.layout().packets.load(Ordering::Relaxed) != 0;
        if self.place.classes.invalid || (pcapng && packets_inside) {
            let mut bytes = std::mem::take(&mut self.scratch);
            if !source.ring.copy(&chunk, &mut bytes) {
                self.scratch = bytes;
                self.give_up(source, "its file was cut off");
                return;
            }
            if !source.ring.intact(&chunk) {
                self.scratch = bytes;
                return;
            }
            let wanted = pcapng.then_some(&packets);
            let (understood, end) = self.walk(process, &bytes, &chunk, wanted, delta.saturating_sub(source.captured), !ctf);
            walked = pcapng;
            let total = bytes.len();
            self.scratch = bytes;
            if understood < total {
                // The events before it can be read. The begin of the next event is unknown, so one
                // event is counted as lost, although there may be more.
                unreadable = 1;
                chunk.to = chunk.from + understood as u64;
                chunk.end = end.clamp(chunk.begin, chunk.end);
                self.diagnostic(format!(
                    "{}: an event of a class that cannot be understood, and what its sub-buffer held behind it, was left out: at least as many \
                     events as are counted for it, one each time",
                    source.ring.name
                ));
                if understood == 0 {
                    source.captured = if walked { delta } else { 0 };
                    source.extra_lost = source.extra_lost.saturating_add(unreadable);
                    source.ring.release(chunk.tail, source.ring.reported);
                    return;
                }
            }
        }
        let length = (chunk.to - chunk.from) as usize;
        if !ctf {
            self.total.packets_only += length as u64;
            source.ring.release(chunk.tail, reported);
            source.extra_lost = unreadable;
            source.captured = 0;
            self.total.lost = self.total.lost.saturating_add(delta);
            return;
        }
        if self.metadata.is_behind() {
            let error = std::io::Error::other("their classes could not be written");
            return self.not_written(source, &chunk, unreadable, reported, walked, error);
        }
        let index = match self.lane(process, source, chunk.begin) {
            Ok(index) => index,
            Err(error) => return self.not_written(source, &chunk, unreadable, reported, walked, std::io::Error::other(error.to_string())),
        };
        let Some(lane) = &mut self.lanes[index] else { return };
        let stamp = stamp(process, source, &chunk, lane.discarded.saturating_add(delta));
        let mut body = source.ring.body(&chunk);
        body.aligned &= !source.hurried;
        let (direct, begin) = (lane.takes_directly(&body), Instant::now());
        match commit(lane, &source.ring, stamp, chunk.tail, reported, Some(body)) {
            Ok(written) => {
                // A direct write that the file system refused was written through the page cache.
                if direct && lane.is_direct() {
                    self.disk.took(length, begin.elapsed());
                }
                self.total.written += written;
            }
            Err(AppendError::Source) if !source.ring.intact(&chunk) => return,
            Err(AppendError::Source) => {
                self.give_up(source, "its file was cut off");
                return;
            }
            Err(AppendError::Io(error)) => return self.not_written(source, &chunk, unreadable, reported, walked, error),
        }
        source.ring.release(chunk.tail, reported);
        source.extra_lost = unreadable;
        source.captured = 0;
        self.total.recorded += length as u64;
        self.total.lost = self.total.lost.saturating_add(delta);
    }

    /// Handles a write error: the events are counted as lost, and the thread gets its room back.
    fn not_written(&mut self, source: &mut Source, chunk: &Chunk, unreadable: u64, reported: u64, walked: bool, error: std::io::Error) {
        let mut bytes = std::mem::take(&mut self.scratch);
        let counted = if source.ring.copy(chunk, &mut bytes) { self.place.classes.count(&bytes) } else { Err(1) };
        self.scratch = bytes;
        let least = if counted.is_ok() { "" } else { ", and are more than were counted" };
        let lost = counted.unwrap_or_else(|least| least).saturating_add(reported - source.ring.reported + unreadable);
        source.extra_lost = source.extra_lost.saturating_add(lost);
        source.captured = if walked { source.extra_lost - unreadable } else { source.captured };
        source.ring.release(chunk.tail, reported);
        self.diagnostic(format!("events could not be written and count as lost{least}: {error}"));
    }

    /// Decodes each event and writes captured packets to their file. Returns the number of bytes
    /// that were decoded and the time of the last decoded event. `lost`: events lost before this
    /// chunk. `sole`: the packets are recorded nowhere else.
    pub(crate) fn walk(
        &mut self,
        process: &Process,
        bytes: &[u8],
        chunk: &Chunk,
        packets: Option<&Packets>,
        lost: u64,
        sole: bool,
    ) -> (usize, u64) {
        let label = component(&process.label);
        let mut capture = self.captures.remove(&label);
        if let Some(capture) = &mut capture {
            capture.lose(lost);
        }
        let mut lost = if capture.is_some() { 0 } else { lost };
        let mut at = 0;
        let mut time = chunk.begin;
        let mut end = chunk.begin;
        while at < bytes.len() {
            // Times are extended from one event to the next, exactly as readers of the trace do.
            let low = bytes[at..].first_chunk().map_or(0, |header| u64::from_ne_bytes(*header) >> 16);
            time = following(time, low);
            if let Some(size) = self.place.classes.plain_size(&bytes[at..]) {
                at += size;
                end = time;
                continue;
            }
            let Some(event) = self.place.classes.event(&bytes[at..]) else { break };
            let size = event.bytes.len();
            if let Some(packets) = packets.filter(|_| event.class.kind == Kind::Packet) {
                let Some(captured) = captured(&event) else { break };
                if packets.wants(&captured.interface) {
                    let time = self.clock.unix_ns(time).max(0) as u64;
                    let result = match &mut capture {
                        Some(capture) => capture.packet(&captured, time, packets.snaplen, sole),
                        None => Capture::create(&self.home.path(), &label).and_then(|new| {
                            let capture = capture.insert(new);
                            capture.lose(std::mem::take(&mut lost));
                            capture.packet(&captured, time, packets.snaplen, sole)
                        }),
                    };
                    if let Err(error) = result {
                        self.total.packets_refused += 1;
                        self.total.lost = self.total.lost.saturating_add(u64::from(sole));
                        lost = lost.saturating_add(1);
                        self.packets_refused(&format!("{label}.pcapng"), &error.to_string());
                    }
                }
            }
            if let Some(capture) = capture.as_mut().filter(|capture| capture.is_full()) {
                let result = capture.flush().map_err(|error| error.to_string());
                self.capture_written(capture, result);
            }
            at += size;
            end = time;
        }
        if let Some(mut capture) = capture {
            capture.lose(lost);
            self.captures.insert(label, capture);
        }
        (at, end)
    }

    /// Index of the ring's lane (its stream file), which is made with the first packet.
    fn lane(&mut self, process: &Process, source: &mut Source, begin: u64) -> Result<usize, Error> {
        if let Some(index) = source.lane {
            return Ok(index);
        }
        let index = self.lanes.len();
        let number = index as u32;
        let name = format!("{}-{number}", component(&process.label));
        let first = HeaderValues {
            begin,
            end: begin,
            discarded: 0,
            pid: process.pid,
            tid: process.tid(source.tid),
            position: 0,
            ring: source.ring.packet_number(),
            thread: source.thread,
        };
        let told = self.path.join("user").join(&name);
        let user = self.home.path().join("user");
        let mut lane =
            Lane::create(&user, &name, (number, self.place.stream), self.uuid, &process.label, &first).map_err(Error::io("make", &told))?;
        lane.path = told;
        self.total.written += stream::BARE;
        self.lanes.push(Some(lane));
        source.lane = Some(index);
        source.ring.layout().lane.store(number + 1, Ordering::Relaxed);
        Ok(index)
    }

    /// Switches to the larger ring after the thread did so and the old ring is empty. Without a
    /// larger ring, the source is over.
    fn switch_ring(&mut self, process: &Process, source: &mut Source, look: &Look) {
        // The losses of the old ring are written before the ring is removed, so that they survive
        // if this recorder is killed now. They are written right after the old ring's last event,
        // because the new ring already holds younger events.
        self.tail_losses(process, source, true);
        source.extra_lost = source.extra_lost.saturating_add(look.lost.saturating_sub(source.ring.reported));
        source.ring.reported = look.lost.max(source.ring.reported);
        self.total.waited = self.total.waited.saturating_add(source.ring.waited());
        self.place.runtime.remove(&source.ring.name);
        match source.successor.take() {
            Some(next) => {
                next.layout().lane.store(source.ring.layout().lane.load(Ordering::Relaxed), Ordering::Relaxed);
                source.lost_before = 0;
                source.ring = next;
            }
            None => {
                self.tail_losses(process, source, false);
                if let Some(lane) = source.lane {
                    self.close_lane(lane, false);
                }
                source.over = true;
            }
        }
    }

    /// Writes the losses since the newest packet as an empty packet. `more`: the thread continues
    /// in a larger ring.
    pub(crate) fn tail_losses(&mut self, process: &Process, source: &mut Source, more: bool) {
        if source.verdict == Verdict::Unwanted || source.verdict == Verdict::Open {
            return;
        }
        let lost = if source.broken { source.ring.reported } else { source.ring.layout().lost.load(Ordering::Acquire) };
        let reported = lost.max(source.ring.reported);
        let delta = (reported - source.ring.reported).saturating_add(source.extra_lost);
        let lane = source.lane.and_then(|lane| self.lanes[lane].as_mut());
        if let Some(lane) = lane {
            lane.name(process.pid, process.tid(source.tid), source.thread);
        }
        // A lane that begins here would begin after the younger events of the larger ring.
        if delta == 0 || (more && source.lane.is_none()) {
            return;
        }
        let mut written = self.write_losses(process, source, more, reported, delta);
        if written.is_err() && self.reserve.give() {
            written = self.write_losses(process, source, more, reported, delta);
        }
        if let Err(error) = written {
            self.diagnostic(format!("losses could not be written to their stream at their time: {error}"));
            if more {
                // The thread continues, so the losses are written with its next packet.
                return;
            }
            if let Some(lane) = source.lane.and_then(|lane| self.lanes[lane].as_mut()) {
                lane.owed = lane.owed.saturating_add(delta);
            }
        }
        // Added even if the write failed, because `longpole.json` reports them.
        self.total.lost = self.total.lost.saturating_add(delta);
        if source.ring.layout().packets.load(Ordering::Relaxed) != 0 {
            if let Some(capture) = self.captures.get_mut(&component(&process.label)) {
                capture.lose(delta.saturating_sub(source.captured));
            }
        }
        source.ring.release(source.ring.tail, reported);
        source.extra_lost = 0;
        source.captured = 0;
    }

    fn write_losses(&mut self, process: &Process, source: &mut Source, more: bool, reported: u64, delta: u64) -> Result<(), Error> {
        let now = self.clock.now();
        let index = self.lane(process, source, now)?;
        let Some(lane) = &mut self.lanes[index] else { return Ok(()) };
        // The old ring was too small until the thread wrote to the larger one; that is the end of
        // the loss.
        let next = source.successor.as_ref().filter(|_| more).and_then(Ring::first_time);
        let begin = if more { lane.end } else { now.max(lane.end) };
        let stamp = HeaderValues {
            begin,
            end: next.map_or(begin, |next| next.min(now).max(begin)),
            discarded: lane.discarded.saturating_add(delta),
            pid: process.pid,
            tid: process.tid(source.tid),
            position: source.ring.tail,
            ring: source.ring.packet_number(),
            thread: source.thread,
        };
        match commit(lane, &source.ring, stamp, source.ring.tail, reported, None) {
            Ok(written) => {
                self.total.written += written;
                Ok(())
            }
            Err(AppendError::Source) => Ok(()),
            Err(AppendError::Io(error)) => Err(Error::io("write", lane.path.clone())(error)),
        }
    }

    /// Writes the remaining losses of all rings of the current runtime directory at the end of the
    /// recording.
    pub(crate) fn last_losses(&mut self) {
        let mut subjects = std::mem::take(&mut self.place.subjects);
        for subject in subjects.values_mut() {
            for source in &mut subject.sources {
                self.tail_losses(&subject.process, source, false);
            }
        }
        self.place.subjects = subjects;
    }

    /// Marks the processes that have ended. Must run before their rings are listed and looked at;
    /// then the rings found are complete.
    pub(crate) fn mark_dead(&mut self) {
        for subject in self.place.subjects.values_mut() {
            subject.ended |= !subject.process.handle_lives();
        }
    }

    /// Removes processes that have ended and whose events have all been taken.
    pub(crate) fn reap(&mut self) {
        let ended: Vec<String> = self.place.subjects.iter().filter(|(_, subject)| subject.ended).map(|(stem, _)| stem.clone()).collect();
        for stem in ended {
            let Some(subject) = self.place.subjects.get_mut(&stem) else { continue };
            let mut sources = std::mem::take(&mut subject.sources);
            // A thread may have switched to a larger ring and died; that ring has not been looked
            // at yet.
            let more = sources.iter().any(|source| !source.broken && source.fresh_since_look());
            subject.sources = Vec::new();
            subject.turns_dead += 1;
            if more && subject.turns_dead < TURNS_DEAD {
                subject.sources = sources;
                continue;
            }
            if more {
                self.diagnostic(format!("{stem}: its rings change though it has ended; what is in them was left"));
            }
            for source in sources.iter_mut().filter(|source| !source.broken && source.verdict != Verdict::Unwanted) {
                // The interrupted probe will not run again to merge these events.
                source.extra_lost = source.extra_lost.saturating_add(source.ring.put_aside());
            }
            if let Some(subject) = self.place.subjects.remove(&stem) {
                for source in &mut sources {
                    self.tail_losses(&subject.process, source, false);
                }
                self.place.subjects.insert(stem.clone(), Subject { sources, ..subject });
            }
            self.release_subject(&stem, true);
        }
    }

    /// Forgets a process. With `remove`, its files are removed too.
    pub(crate) fn release_subject(&mut self, stem: &str, remove: bool) {
        let Some(mut subject) = self.place.subjects.remove(stem) else { return };
        self.count_refused(&mut subject);
        let pid = subject.process.pid;
        // A process that executed another program continues under a new control file.
        if !self.watches.is_empty() && !self.place.subjects.values().any(|other| other.process.pid == pid) {
            self.watched_process_is_gone(pid);
        }
        // Another recorder may hold the process.
        let remove = remove && subject.claimed;
        if subject.order.mask == 0 && (!subject.wanted || self.config.for_process(&subject.process.label).is_none()) {
            self.total.unwanted += 1;
        }
        for source in subject.sources {
            self.total.waited = self.total.waited.saturating_add(source.ring.waited());
            if remove {
                self.place.runtime.remove(&source.ring.name);
                if let Some(successor) = &source.successor {
                    self.place.runtime.remove(&successor.name);
                }
            }
            if let Some(lane) = source.lane {
                self.close_lane(lane, false);
            }
        }
        if remove {
            for name in &subject.ignored {
                self.place.runtime.remove(name);
            }
            self.place.runtime.remove(&format!("{stem}.control"));
        }
    }

    /// Closes a lane. If its losses cannot be written now, it stays open for a later attempt,
    /// unless `last` is set.
    pub(crate) fn close_lane(&mut self, index: usize, last: bool) {
        let Some(mut lane) = self.lanes[index].take() else { return };
        if lane.settle_losses().is_err() && !last {
            self.lanes[index] = Some(lane);
            return;
        }
        self.closed.insert(lane.number, lane.describe());
        let path = lane.path.clone();
        let named = lane.settle_names();
        if let Err(error) = lane.close().and(named) {
            self.diagnostic(format!("cannot close {}: {error}", path.display()));
        }
    }
}

/// Header values of a chunk's packet.
pub(crate) fn stamp(process: &Process, source: &Source, chunk: &Chunk, discarded: u64) -> HeaderValues {
    HeaderValues {
        begin: chunk.begin,
        end: chunk.end,
        discarded,
        pid: process.pid_of(chunk.pid),
        tid: process.tid(chunk.tid),
        position: chunk.tail,
        ring: source.ring.packet_number(),
        thread: source.thread,
    }
}

/// Stores in the ring what will be committed at `offset`. A later recorder needs this to decide
/// whether this recorder committed the packet before it was killed.
pub(crate) fn announce(lane: &mut Lane, ring: &Ring, (offset, tail): (u64, u64), (reported, discarded): (u64, u64)) {
    let layout = ring.layout();
    layout.spare_reader[0].store(reported, Ordering::Relaxed);
    layout.spare_reader[1].store(discarded, Ordering::Relaxed);
    layout.pending_offset.store(offset, Ordering::Relaxed);
    layout.pending_tail.store(tail, Ordering::Release);
    if discarded > lane.discarded {
        lane.lost_ring = lane.lost_ring.max(Some(ring.size));
    }
}

/// Writes a packet.
fn commit(lane: &mut Lane, ring: &Ring, stamp: HeaderValues, tail: u64, reported: u64, body: Option<Body<'_>>) -> Result<u64, AppendError> {
    let offset = lane.reserve(body.as_ref().map_or(0, |body| body.length)).map_err(AppendError::Io)?;
    announce(lane, ring, (offset, tail), (reported, stamp.discarded));
    lane.append(stamp, body)
}
