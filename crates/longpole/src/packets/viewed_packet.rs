//! One packet for the viewer: its path through the kernel, and its bytes with their headers.
//!
//! What a timeline has of a packet is its place. The rest is read again when somebody asks for it:
//! the kernel's events for the path, the capture for the bytes.

use crate::input::Input;
use crate::packets::kernel::Kernel;
use anyhow::{bail, Context};
use longpole_analysis::network::dissect::{dissect, Dissection};
use longpole_analysis::network::in_flight::PacketPath;
use longpole_analysis::network::packet_paths::Wanted;
use longpole_analysis::network::packet_rows::FrameId;
use longpole_analysis::network::packets::{FrameLine, PacketPathLine};
use longpole_analysis::timeline::{PacketAt, RowId, RowKind, Timeline};
use longpole_model::linux::watch::{ThreadId, Waker};
use longpole_model::linux::Linux;
use serde_json::{json, Value};

/// Returns a packet of a timeline: docs/internals/viewer-interface.md.
pub fn read(input: &Input, timeline: &Timeline, packet: &PacketAt) -> anyhow::Result<Value> {
    match packet.kind {
        RowKind::Captured => captured(input, timeline, FrameId::of(packet.number)),
        _ => followed(input, timeline, packet),
    }
}

/// Returns a frame of a capture.
fn captured(input: &Input, timeline: &Timeline, id: FrameId) -> anyhow::Result<Value> {
    let trace = crate::input::open(&input.completed_paths()?, input.options())?;
    let capture = trace.captures().get(id.capture as usize).context("the trace has no such capture any more; open it again")?;
    let bounds = bounds(timeline);
    let (mut at, mut found) = (0, None);
    capture.frames_until(bounds.0, bounds.1, |frame| {
        if at == id.frame {
            let bytes = frame.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let place = (frame.t_ns, capture.name.as_str(), frame.interface, frame.outbound);
            found = Some(frame_json(timeline, place, (frame.length, false), &bytes, &dissect(frame.link_type, frame.bytes)));
        }
        at += 1;
        found.is_some()
    })?;
    let Some(frame) = found else { bail!("the capture {} has no such packet any more; open the trace again", capture.name) };
    Ok(json!({"path": null, "chain": [], "frames": [frame]}))
}

/// Returns the packet with its path through the kernel, and the frames that were captured of it.
fn followed(input: &Input, timeline: &Timeline, packet: &PacketAt) -> anyhow::Result<Value> {
    // The whole trace, so that the number is that of `longpole packets --journey`.
    let paths = input.completed_paths()?;
    let kernel = Kernel::read(input, &paths, Some(Wanted::Number(packet.number)), |_, _| {})?;
    let Some(path) = &kernel.packet_paths.found else { bail!("this packet is not found again; open the trace again") };
    let mut line = kernel.packets(|packets| packets.path_line(path));
    if let Some((begin_ns, end_ns)) = line.span() {
        for capture in kernel.reading.trace.captures() {
            capture.frames(begin_ns, end_ns, |frame| line.frame(&capture.name, frame))?;
        }
    }
    let chain = Chain { timeline, linux: &kernel.reading.linux, places: Vec::new() };
    Ok(json!({
        "path": path_json(timeline, &line),
        "chain": chain.of(path, &line),
        "frames": line.frames.iter().map(|frame| followed_frame(timeline, frame)).collect::<Vec<_>>(),
    }))
}

fn path_json(timeline: &Timeline, line: &PacketPathLine) -> Value {
    json!({
        "number": line.number,
        "begin": since(timeline, line.begin_ns),
        "end": since(timeline, line.end_ns),
        "ended": line.end.text(),
        "complete": line.complete,
        "length": line.length,
        "sender": line.sender,
        "send_call": line.send_call,
        "reader": line.reader,
    })
}

fn followed_frame(timeline: &Timeline, frame: &FrameLine) -> Value {
    let bytes: Vec<u8> =
        (0..frame.bytes.len() / 2).filter_map(|at| u8::from_str_radix(frame.bytes.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    let place = (frame.t_ns, frame.capture.as_str(), frame.device.as_str(), frame.outbound);
    frame_json(timeline, place, (frame.length, frame.ambiguous), &frame.bytes, &dissect(frame.link_type, &bytes))
}

fn frame_json(
    timeline: &Timeline,
    (t_ns, capture, device, outbound): (i64, &str, &str, Option<bool>),
    (length, ambiguous): (u32, bool),
    bytes: &str,
    found: &Dissection,
) -> Value {
    json!({
        "t": since(timeline, t_ns), "capture": capture, "device": device, "outbound": outbound, "length": length,
        "ambiguous": ambiguous, "bytes": bytes, "summary": found.summary, "layers": found.layers,
    })
}

/// Returns begin and end of the timeline on the trace's clock.
fn bounds(timeline: &Timeline) -> (i64, i64) {
    let (begin, end) = timeline.range();
    (i64::try_from(begin).unwrap_or(i64::MAX), i64::try_from(end).unwrap_or(i64::MAX))
}

fn since(timeline: &Timeline, t_ns: i64) -> u64 {
    t_ns.saturating_sub(bounds(timeline).0).max(0) as u64
}

/// The rows that a packet passes, in the order of time.
struct Chain<'a> {
    timeline: &'a Timeline,
    linux: &'a Linux,
    places: Vec<(i64, Option<RowId>, String)>,
}

impl Chain<'_> {
    fn of(mut self, path: &PacketPath, line: &PacketPathLine) -> Vec<Value> {
        if let Some(sender) = path.origin.thread() {
            self.add(path.begin_ns, (Waker::Thread(sender), 0), line.send_call.clone().unwrap_or_else(|| "send".to_owned()));
        }
        for (seen, step) in path.steps.iter().zip(&line.steps) {
            let text = match &step.device {
                Some(device) => format!("{} ({device})", step.step),
                None => step.step.to_owned(),
            };
            self.add(seen.t_ns, (seen.by, step.cpu), text);
        }
        if let (Some(wakeup), Some(reader)) = (&path.wakeup, path.reader) {
            self.add(wakeup.start_ns, (Waker::Thread(reader), 0), "the reader runs".to_owned());
        }
        if let Some(reader) = path.reader {
            self.add(path.end_ns, (Waker::Thread(reader), 0), line.end.text().to_owned());
        }
        self.places.sort_by_key(|place| place.0);
        let json = |(t_ns, row, text): &(i64, Option<RowId>, String)| json!({"t": since(self.timeline, *t_ns), "row": row.map(|row| row.0), "text": text});
        self.places.iter().map(json).collect()
    }

    /// Adds a place; the CPU counts for interrupts.
    fn add(&mut self, t_ns: i64, (by, cpu): (Waker, u32), text: String) {
        let t = since(self.timeline, t_ns);
        let row = match by {
            Waker::Thread(thread) => self.thread(thread, t),
            Waker::Context { id, .. } => {
                self.linux.contexts.get(id.0 as usize).and_then(|context| self.timeline.interrupt_row(&context.name, cpu))
            }
            Waker::UntracedInterrupt | Waker::Unknown => None,
        };
        self.places.push((t_ns, row, text));
    }

    fn thread(&self, thread: ThreadId, t: u64) -> Option<RowId> {
        let tid = self.linux.threads.get(thread.0 as usize)?.tid;
        self.timeline.thread_row(tid, t)
    }
}
