//! A snapshot: everything that a running recording holds at one moment, as a recording of its own.
//! The running recording continues.
//!
//! A snapshot is made in two halves. The recorder does what cannot wait: it pauses the kernel's
//! tracer for an instant, copies the contents of overwriting rings, and stores the current lengths
//! of its own files ([`Recorder::snapshot`]). The process that requested the snapshot copies these
//! files into it ([`complete`]). They may be gigabytes, and a recorder that copied them would lose
//! events meanwhile.

mod complete;

pub use complete::{complete, Completed};

use crate::clock::following;
use crate::control::mailbox::Request;
use crate::control::policy::Backend;
use crate::error::Error;
use crate::output::recording::{self, component};
use crate::output::stream::{AppendError, Body, HeaderValues, Lane};
use crate::recorder::{Recorder, RecordingFolder, Subject};
use crate::ring::{Chunk, Fault, Look};
use crate::runtime_dir::process::{Process, Source, Verdict};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The reason for a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// Time of the event in clock ticks; `None` if the reason is the absence of events.
    pub event: Option<u64>,
    /// Time in clock ticks at which the recorder saw it.
    pub seen: u64,
    pub told: String,
}

/// A snapshot that is being written.
struct Snapshot {
    path: PathBuf,
    /// Time of the pause in clock ticks: the snapshot holds nothing later.
    frozen: u64,
    /// Time in clock ticks before which nothing is requested; 0 without a limit.
    window: u64,
    /// Time in clock ticks of the oldest event.
    begin: u64,
    next_lane: u32,
    lanes: Vec<Value>,
    lost: u64,
    recorded: u64,
    notes: Vec<String>,
}

impl Recorder {
    /// Takes the snapshot. Returns the answer for the process that requested it: path, recording
    /// and time taken.
    pub(crate) fn snapshot(&mut self, request: &Request, cause: Option<Cause>) -> Result<Value, Error> {
        let begun = Instant::now();
        let kernel = self.pause_kernel();
        let (frozen, frozen_ns) = (self.clock.now(), self.now_ns());
        // Events in rings that do not overwrite are all written to the recording's own files.
        let mut looks = HashMap::new();
        self.in_each_directory(|recorder| {
            recorder.visit();
            recorder.take_now();
            let stream = recorder.place.stream;
            looks.insert(stream, recorder.look_back());
            recorder.learn_sites();
            Ok::<(), Error>(())
        })?;
        self.flush_captures();
        let root = match (&request.output, self.path.parent()) {
            (Some(root), _) => root.clone(),
            (None, Some(parent)) => parent.to_owned(),
            (None, None) => recording::root(),
        };
        let path = recording::create(&root, frozen_ns)?;
        let moment = cause.as_ref().and_then(|cause| cause.event).unwrap_or(frozen);
        let window = request.pre_ns.map_or(0, |pre| moment.saturating_sub(self.clock.ticks(Duration::from_nanos(pre))));
        let begin = looks.values().flatten().map(|(_, _, _, begin)| *begin).min().unwrap_or(frozen);
        let mut snapshot = Snapshot {
            path: path.clone(),
            frozen,
            window,
            begin: begin.max(window),
            next_lane: self.lanes.len() as u32,
            lanes: Vec::new(),
            lost: 0,
            recorded: 0,
            notes: Vec::new(),
        };
        // Copied first, because it describes the classes of all events that follow.
        let metadata = path.join("user/metadata");
        std::fs::copy(self.home.path().join("user/metadata"), &metadata).map_err(Error::io("write", metadata))?;
        // Captured packets in overwriting rings are in no file yet.
        let home = RecordingFolder::open(&path)?;
        let own =
            (std::mem::replace(&mut self.path, path.clone()), std::mem::replace(&mut self.home, home), std::mem::take(&mut self.captures));
        let copied = self.in_each_directory(|recorder| {
            let of_place = looks.remove(&recorder.place.stream).unwrap_or_default();
            recorder.copy_histories(&mut snapshot, &of_place)
        });
        for mut capture in std::mem::take(&mut self.captures).into_values() {
            if let Err(error) = capture.finish(frozen_ns) {
                snapshot.notes.push(format!("captured packets are not in it: {error}"));
            }
        }
        (self.path, self.home, self.captures) = own;
        copied?;
        let took = begun.elapsed();
        let kernel = kernel.map(|kernel| self.thaw_kernel(kernel, &path, &mut snapshot.notes));
        let told = self.snapshot_description(&snapshot, request, cause, (frozen_ns, took), kernel);
        recording::describe(&path, &told).map_err(Error::io("write", path.join("longpole.json")))?;
        Ok(json!({ "path": path, "session": self.path, "took_ns": took.as_nanos() as u64 }))
    }

    /// Empties the rings that do not overwrite, and writes their losses.
    pub(crate) fn take_now(&mut self) {
        let now = Instant::now();
        for source in self.place.subjects.values_mut().flat_map(|subject| &mut subject.sources) {
            source.partial = now;
            source.begun = source.ring.begun();
        }
        self.drain(false);
        // Otherwise the losses since the last event would be written with the next event only.
        let mut subjects = std::mem::take(&mut self.place.subjects);
        for Subject { process, sources, .. } in subjects.values_mut() {
            for source in sources.iter_mut().filter(|source| !source.ring.overwrites && !source.broken) {
                self.tail_losses(process, source, true);
            }
        }
        self.place.subjects = subjects;
    }

    /// Looks at the rings that overwrite. Returns the stem, the index in `sources`, the look, and
    /// the time of the oldest remaining event of each.
    fn look_back(&mut self) -> Vec<(String, usize, Look, u64)> {
        let mut looks = Vec::new();
        let mut subjects = std::mem::take(&mut self.place.subjects);
        for (stem, subject) in &mut subjects {
            for (at, source) in subject.sources.iter_mut().enumerate().filter(|(_, source)| source.ring.overwrites && !source.broken) {
                let Ok(look) = source.ring.look() else { continue };
                let mut tail = source.ring.oldest(look.head);
                let first = loop {
                    match source.ring.next_from(tail, &look, 0, true) {
                        Err(Fault::Lapped) if tail < look.head => tail += source.ring.subbuffer() - tail % source.ring.subbuffer(),
                        Ok(Some(chunk)) => break chunk.begin,
                        _ => break u64::MAX,
                    }
                };
                looks.push((stem.clone(), at, look, first));
            }
        }
        self.place.subjects = subjects;
        looks
    }

    fn copy_histories(&mut self, snapshot: &mut Snapshot, looks: &[(String, usize, Look, u64)]) -> Result<(), Error> {
        let subjects = std::mem::take(&mut self.place.subjects);
        let mut result = Ok(());
        for (stem, at, look, _) in looks {
            let Some(Subject { process, sources, wanted, .. }) = subjects.get(stem) else { continue };
            let Some(source) = sources.get(*at) else { continue };
            let verdict = match source.verdict {
                Verdict::Open => self.verdict(process, *wanted, source),
                decided => decided,
            };
            let ctf = match verdict {
                Verdict::Unwanted => false,
                Verdict::Policy(index) => self.config.policy.get(index).is_none_or(|policy| policy.has(Backend::Ctf)),
                _ => true,
            };
            if ctf {
                result = result.and(self.copy_history(snapshot, process, source, look));
            }
        }
        self.place.subjects = subjects;
        result
    }

    /// Copies the contents of one ring to a lane of its own. The ring is unchanged.
    fn copy_history(&mut self, snapshot: &mut Snapshot, process: &Process, source: &Source, look: &Look) -> Result<(), Error> {
        let ring = &source.ring;
        let mut lane: Option<Lane> = None;
        let mut tail = ring.oldest(look.head);
        // State after the part copied last: the ring's events and losses, and the losses written to
        // the lane.
        let (mut events, mut reported, mut discarded) = (ring.taken, ring.reported, 0);
        let number = snapshot.next_lane;
        let name = format!("{}-{number}", component(&process.label));
        let user = snapshot.path.join("user");
        let file = user.join(&name);
        loop {
            let previous = lane.as_ref().map_or(0, |lane| lane.end);
            let chunk = match ring.next_from(tail, look, previous, true) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(Fault::Lapped) => {
                    tail += ring.subbuffer() - tail % ring.subbuffer();
                    continue;
                }
                Err(fault) => {
                    snapshot.notes.push(format!("{} is not in it: {fault}", ring.name));
                    break;
                }
            };
            let missing = if chunk.whole { chunk.events.saturating_sub(events) } else { 0 };
            let lost_now = chunk.lost.max(reported);
            if chunk.end < snapshot.window {
                // Losses before that are before the window as well.
                (events, reported, tail) = (chunk.events_after, lost_now, chunk.tail);
                continue;
            }
            let Some((length, end, left)) = self.measure(source, &chunk, snapshot.frozen) else {
                tail = chunk.from - chunk.from % ring.subbuffer() + ring.subbuffer();
                continue;
            };
            let stamp = HeaderValues {
                begin: chunk.begin,
                end,
                // The count comes from the program, which may have written anything.
                discarded: u64::saturating_add(discarded, missing.saturating_add(lost_now - reported)),
                pid: process.pid_of(chunk.pid),
                tid: process.tid(chunk.tid),
                position: chunk.tail,
                ring: ring.packet_number(),
                thread: if chunk.tid == source.tid { source.thread } else { chunk.thread },
            };
            let writing = match &mut lane {
                Some(lane) => lane,
                None => {
                    let first = HeaderValues { begin: snapshot.begin.min(chunk.begin), discarded: 0, position: 0, ..stamp.clone() };
                    let made = Lane::create(&user, &name, (number, self.place.stream), self.uuid, &process.label, &first);
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
            let body = Body { length, ..ring.body(&chunk) };
            match written.and_then(|()| write(writing, stamp.clone(), Some(body))) {
                Ok(()) => {
                    (events, reported, discarded, tail) = (chunk.events_after, lost_now, stamp.discarded, chunk.tail);
                    self.copy_packets(process, source, &Chunk { to: chunk.from + length as u64, ..chunk });
                    if left {
                        // The remaining events are later than the pause.
                        events = look.events;
                        break;
                    }
                }
                Err(AppendError::Source) => tail = chunk.from - chunk.from % ring.subbuffer() + ring.subbuffer(),
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
        snapshot.next_lane += 1;
        snapshot.lost = snapshot.lost.saturating_add(lane.discarded);
        snapshot.recorded += lane.recorded;
        snapshot.lanes.push(lane.describe());
        lane.close().map_err(Error::io("write", file))
    }

    /// Copies the captured packets of a chunk to a file of the snapshot.
    fn copy_packets(&mut self, process: &Process, source: &Source, chunk: &Chunk) {
        if !self.place.classes.packets || source.ring.layout().packets.load(Ordering::Relaxed) == 0 {
            return;
        }
        let policy = self.policy_of(source.verdict);
        if policy.is_some_and(|policy| !policy.has(Backend::Pcapng)) {
            return;
        }
        let packets = policy.map(|policy| policy.packets.clone()).unwrap_or_default();
        let mut bytes = std::mem::take(&mut self.scratch);
        if source.ring.copy(chunk, &mut bytes) && source.ring.intact(chunk) {
            self.walk(process, &bytes, chunk, Some(&packets), 0, false);
        }
        self.scratch = bytes;
    }

    /// Measures a chunk: the number of bytes that are decodable events not later than `until`, the
    /// time of the last one, and whether later events follow. `None` if the chunk was overwritten.
    fn measure(&mut self, source: &Source, chunk: &Chunk, until: u64) -> Option<(usize, u64, bool)> {
        let whole = (chunk.to - chunk.from) as usize;
        if chunk.end <= until && !self.place.classes.invalid {
            return Some((whole, chunk.end, false));
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        let copied = source.ring.copy(chunk, &mut bytes) && source.ring.intact(chunk);
        let (mut at, mut time, mut end, mut later) = (0, chunk.begin, chunk.begin, false);
        while copied && at < bytes.len() {
            let Some(event) = self.place.classes.event(&bytes[at..]) else { break };
            time = following(time, event.bytes.first_chunk().map_or(0, |header| u64::from_ne_bytes(*header) >> 16));
            if time > until {
                later = true;
                break;
            }
            at += event.bytes.len();
            end = time;
        }
        self.scratch = bytes;
        copied.then_some((at, end, later))
    }

    /// Contents of the snapshot's `longpole.json`: those of the recording, and the entry
    /// `snapshot`.
    fn snapshot_description(
        &self,
        snapshot: &Snapshot,
        request: &Request,
        cause: Option<Cause>,
        (frozen_ns, took): (u64, Duration),
        kernel: Option<Value>,
    ) -> Value {
        let mut told = self.description(Some(frozen_ns));
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(self.clock.frequency.max(1))) as u64;
        let start_ns = match snapshot.window {
            0 => self.chunks.first_ns(self.start_ns()),
            window => (self.clock.unix_ns(window).max(0) as u64).max(self.chunks.first_ns(self.start_ns())),
        };
        let mut files: Vec<Value> = Vec::new();
        for lane in told["lanes"].as_array().into_iter().flatten() {
            files.push(json!({ "file": lane["file"], "bytes": lane["bytes"] }));
        }
        for entry in std::fs::read_dir(self.path.join(crate::stacks::FOLDER)).into_iter().flatten().flatten() {
            let (name, bytes) = (entry.file_name(), entry.metadata().map_or(0, |found| found.len()));
            files.push(json!({ "file": format!("{}/{}", crate::stacks::FOLDER, name.to_string_lossy()), "bytes": bytes }));
        }
        let earlier = self.chunks.since(start_ns);
        for capture in self.captures.values() {
            let name = capture.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(json!({ "file": format!("packets/{name}"), "bytes": capture.length() }));
        }
        let interfaces = self.path.join("packets/interfaces.pcapng");
        if let Ok(found) = std::fs::metadata(interfaces) {
            files.push(json!({ "file": "packets/interfaces.pcapng", "bytes": found.len() }));
        }
        told["start_ns"] = start_ns.into();
        let mut diagnostics = told["diagnostics"].as_array().cloned().unwrap_or_default();
        diagnostics.extend(snapshot.notes.iter().map(|note| json!(note)));
        told["diagnostics"] = diagnostics.into();
        told["loss"]["events"] = snapshot.lost.into();
        if let Some(kernel) = &kernel {
            told["kernel_events"]["recorded_bytes"] = kernel["bytes"].clone();
        }
        told["lanes"] = snapshot.lanes.clone().into();
        told["snapshot"] = json!({
            "of": self.path,
            "when": request.when,
            "cause": cause.as_ref().map(|cause| &cause.told),
            "event_ns": cause.as_ref().and_then(|cause| cause.event).map(|event| self.clock.unix_ns(event)),
            "latency_ns": cause.as_ref().map(|cause| {
                let wanted = cause.event.unwrap_or(cause.seen) + self.clock.ticks(Duration::from_nanos(request.post_ns));
                ns(snapshot.frozen.saturating_sub(wanted))
            }),
            "frozen_ns": frozen_ns,
            "took_ns": took.as_nanos() as u64,
            "pre_ns": request.pre_ns,
            "post_ns": request.post_ns,
            "window": snapshot.window,
            "begin": snapshot.begin,
            "kernel": kernel,
            "earlier": earlier,
            // The process that requested the snapshot copies these files and removes this entry.
            "pending": files,
        });
        told
    }
}
