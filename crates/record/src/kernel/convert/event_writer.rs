//! Writes the events of the kernel's pages to the streams, in the order of time: what both the
//! conversion after the recording and the one during it do.

use super::super::ctf::Stream;
use super::super::layout::encode::integer;
use super::super::layout::known_threads::KnownThreads;
use super::super::layout::{Layout, I32};
use super::classes::{Class, Classes};
use super::cpu_pages::{CpuPages, Next};
use super::follow::{Context, Running};
use super::marks::SwitchedOffEvent;
use super::source::Description;
use super::state_events::StateEvents;
use super::Converted;
use longpole_ftrace::{ByteOrder, EventFormat};
use std::collections::VecDeque;
use std::fs::File;
use std::io;

/// What was written until now, as far as later events depend on it.
pub struct EventWriter {
    pub threads: KnownThreads,
    pub context: Context,
    /// Events that were switched off and are not written yet, in order of time.
    pub switched_off: VecDeque<SwitchedOffEvent>,
    /// Clock ticks of one second.
    second: u64,
    /// Number of events of each class, by its id.
    pub counts: Vec<u64>,
    pub done: Converted,
    order: ByteOrder,
}

impl EventWriter {
    pub fn new(
        description: &Description,
        context: Context,
        classes: &Classes,
        formats: &[EventFormat],
        (order, done): (ByteOrder, Converted),
    ) -> EventWriter {
        let switched_off = description.switched_off.iter().map(|off| SwitchedOffEvent::new(off, |event| classes.name_of(formats, event)));
        EventWriter {
            threads: KnownThreads::default(),
            context,
            switched_off: switched_off.collect(),
            second: description.second,
            counts: vec![0; classes.names.len()],
            done,
            order,
        }
    }

    /// Writes the state dump and the names of processes as events at this time.
    pub fn state_dump(
        &mut self,
        classes: &Classes,
        layout: &Layout,
        (stream, time): (&mut Stream, u64),
        (state, names): (io::Result<File>, io::Result<File>),
    ) -> io::Result<()> {
        let EventWriter { threads, context, done, counts, .. } = self;
        let mut dump = StateEvents { stream, time, first: classes.dump, counts, context: context.nobody(), layout };
        dump.write(state, names, threads, done)
    }

    /// Writes names of processes that have become known, a JSON object per line, as events at this
    /// time.
    pub fn names(&mut self, classes: &Classes, layout: &Layout, (stream, time): (&mut Stream, u64), lines: &[u8]) -> io::Result<()> {
        let EventWriter { threads, context, counts, .. } = self;
        let mut dump = StateEvents { stream, time, first: classes.dump, counts, context: context.nobody(), layout };
        dump.lines(lines, threads).map(drop)
    }

    /// Writes the notes about events that were switched off until `time`. Called before an event of
    /// that time is written.
    pub fn write_switched_off_until(&mut self, classes: &Classes, time: u64, stream: &mut Stream) -> io::Result<()> {
        while self.switched_off.front().is_some_and(|off| off.time <= time) {
            let Some(off) = self.switched_off.pop_front() else { break };
            self.counts[usize::from(classes.switched_off)] += 1;
            // Events may be lost on this CPU, so that its stream is already later than the moment
            // of switching off.
            let time = off.time.max(stream.last());
            let out = stream.event(time, classes.switched_off)?;
            out.extend_from_slice(&self.context.nobody());
            off.write(time, self.second, out);
        }
        Ok(())
    }

    /// Writes the events of the CPU's current page, up to the time `until`.
    pub fn run(
        &mut self,
        classes: &Classes,
        (cpu_pages, running): (&mut CpuPages, &mut Running),
        stream: &mut Stream,
        until: u64,
    ) -> io::Result<()> {
        self.threads.cpu = cpu_pages.cpu;
        while let Some(next) = cpu_pages.next(until) {
            match next {
                Next::Loss { time, count, gap } => {
                    running.lost();
                    stream.loss(time, count)?;
                    if gap {
                        stream.gap()?;
                    }
                }
                Next::Event { time, id, data } => {
                    self.write_switched_off_until(classes, time, stream)?;
                    self.done.moved += u64::from(time < stream.last());
                    self.done.events += 1;
                    self.event(classes, running, stream, (time.max(stream.last()), id, data))?;
                }
            }
        }
        Ok(())
    }

    /// Begins an event of this class; its fields follow. `data` is the record of the kernel.
    fn begin<'s>(&mut self, stream: &'s mut Stream, time: u64, id: u16, data: &[u8]) -> io::Result<&'s mut Vec<u8>> {
        self.counts[usize::from(id)] += 1;
        let out = stream.event(time, id)?;
        self.context.write(data, self.order, &self.threads, out);
        Ok(out)
    }

    /// Writes one event of the kernel: its time, the id of its format, and its record.
    fn event(
        &mut self,
        classes: &Classes,
        running: &mut Running,
        stream: &mut Stream,
        (time, id, data): (u64, u16, &[u8]),
    ) -> io::Result<()> {
        let class = classes.get(id);
        let to = match class {
            Some(Class::Plain { to: Some(to), .. }) => to.int(data, self.order).ok(),
            _ => None,
        };
        if let Some(tid) = running.unseen(self.context.tid(data, self.order), to.map(|to| to as i32)) {
            let out = self.begin(stream, time, classes.running, data)?;
            integer(out, tid.into(), I32);
        }
        match class {
            Some(Class::Plain { id, plan, follow, .. }) => {
                let out = self.begin(stream, time, *id, data)?;
                if !plan.encode(data, &mut self.threads, out) {
                    self.done.short += 1;
                }
                follow.see(data, self.order, &mut self.threads);
            }
            Some(Class::Mark(marks)) => match marks.mask(data, self.order) {
                Some(mask) => {
                    let out = self.begin(stream, time, classes.mask + u16::from(mask.is_at_end()), data)?;
                    mask.write(time, self.second, out);
                }
                None => self.unknown(classes, stream, (time, id, data))?,
            },
            Some(Class::SysEnter(place)) => {
                let out = self.begin(stream, time, classes.calls.enter_id(place, data), data)?;
                classes.calls.write_enter(place, data, out);
            }
            Some(Class::SysExit(place)) => {
                let out = self.begin(stream, time, classes.calls.exit_id(place, data), data)?;
                classes.calls.write_exit(place, data, out);
            }
            None => self.unknown(classes, stream, (time, id, data))?,
        }
        Ok(())
    }

    /// Writes the bytes of an event whose format is not known.
    fn unknown(&mut self, classes: &Classes, stream: &mut Stream, (time, id, data): (u64, u16, &[u8])) -> io::Result<()> {
        self.done.unknown += 1;
        let out = self.begin(stream, time, classes.unknown, data)?;
        out.extend_from_slice(&id.to_ne_bytes());
        out.extend_from_slice(&(data.len() as u32).to_ne_bytes());
        out.extend_from_slice(data);
        Ok(())
    }
}
