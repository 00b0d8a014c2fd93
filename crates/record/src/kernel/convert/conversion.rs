//! One conversion: the pages of all CPUs become the streams of a CTF trace, in the order of time.

use super::super::ctf::{self, Preamble, Stream};
use super::super::layout::encode::integer;
use super::super::layout::known_threads::KnownThreads;
use super::super::layout::{Layout, I32};
use super::classes::{Class, Classes};
use super::cpu_pages::{Bounds, CpuPages, Next};
use super::follow::{Context, Running};
use super::source::{self, Description};
use super::{marks, state_events, ConvertError, Converted, PROGRESS_STEP};
use crate::output::folder::Folder;
use longpole_ftrace::{ByteOrder, PageLayout};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Write as _};

/// State of a conversion.
struct Conversion<'a> {
    raw: &'a Folder,
    building: &'a Folder,
    classes: &'a Classes,
    threads: KnownThreads,
    context: Context,
    /// Events that were switched off and are not written yet, in order of time.
    switched_off: VecDeque<marks::SwitchedOffEvent>,
    /// Clock ticks of one second.
    second: u64,
    /// Number of events of each class, by its id.
    counts: Vec<u64>,
    done: Converted,
    order: ByteOrder,
}

/// Converts the pages in `raw` into the folder `building`, metadata included.
pub fn pages_to_ctf(
    recording: &Folder,
    raw: &Folder,
    building: &Folder,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Converted, ConvertError> {
    let order = ByteOrder::NATIVE;
    let mut done = Converted::default();
    let mut description = Description::read(recording, raw, &mut done)?;
    let layout = Layout::new(&description.arch)?;
    let formats = Description::formats(raw, &mut done);
    let total: u64 = description.pages.iter().map(|cpu_pages| cpu_pages.bytes).sum();
    if formats.is_empty() && total > 0 {
        let what = "no format of an event can be read, so no event could be; the pages stay".to_owned();
        return Err(ConvertError::Description { path: raw.join("events"), what });
    }
    let page = description.page_layout(raw, order, formats.first())?;
    let context = Context::new(&description.context, formats.first());
    let classes = Classes::new(&formats, &description, &layout, order, (!context.is_empty(), page.long_size()));
    let switched_off =
        description.switched_off.iter().map(|off| marks::SwitchedOffEvent::new(off, |event| classes.name_of(&formats, event)));
    let mut conversion = Conversion {
        raw,
        building,
        switched_off: switched_off.collect(),
        threads: KnownThreads::default(),
        context,
        second: description.second,
        counts: vec![0; classes.names.len()],
        classes: &classes,
        done,
        order,
    };
    let mut pages = conversion.open_pages(&mut description, page);
    let (mut heap, mut streams) = conversion.begin_streams(&description, &layout, &mut pages)?;
    conversion.merge(&mut heap, &mut pages, &mut streams, &mut |read| progress(read, total))?;
    conversion.end_streams(&description, &pages, streams)?;
    // The metadata is written last, when it is known which classes are used.
    conversion.write_metadata(&description)?;
    let mut done = conversion.done;
    done.cpus = pages.len();
    done.raw_bytes = pages.iter().map(|cpu_pages| cpu_pages.read).sum();
    if !progress(total, total) {
        return Err(ConvertError::Ended);
    }
    Ok(done)
}

/// CPUs by the time of their next event or loss, the earliest first.
type ByTime = BinaryHeap<Reverse<(u64, usize)>>;

impl Conversion<'_> {
    fn open_pages(&mut self, description: &mut Description, page: PageLayout) -> Vec<CpuPages> {
        let mut pages = Vec::new();
        for source::Pages { cpu, file, .. } in std::mem::take(&mut description.pages) {
            let counted = description.counted.get(&cpu);
            let bounds = Bounds {
                begin: description.earliest.saturating_sub(description.second),
                end: description.end.map_or(u64::MAX, |end| end.saturating_add(description.second)),
                slack: description.second / 1000,
                most_lost: counted.map_or(u64::MAX, |counted| counted.lost.saturating_add(counted.read)),
            };
            self.done.damaged_pages += u64::from(file.is_none());
            pages.push(CpuPages::new(cpu, file, page, bounds));
        }
        pages
    }

    /// Time of the CPU's next event or loss; `None` at the end of its pages.
    fn next_time(&mut self, cpu_pages: &mut CpuPages) -> Result<Option<u64>, ConvertError> {
        let path = self.raw.join(format!("cpu{}", cpu_pages.cpu));
        cpu_pages.time(&mut self.done).map_err(ConvertError::io("read", path))
    }

    fn write_error(&self, error: io::Error) -> ConvertError {
        ConvertError::io("write", self.building.path())(error)
    }

    /// Begins the streams of all CPUs at the earliest moment of all; the events of the state dump
    /// have that time.
    fn begin_streams(
        &mut self,
        description: &Description,
        layout: &Layout,
        pages: &mut [CpuPages],
    ) -> Result<(ByTime, Vec<Stream>), ConvertError> {
        let mut heap = ByTime::new();
        for (index, cpu_pages) in pages.iter_mut().enumerate() {
            heap.extend(self.next_time(cpu_pages)?.map(|time| Reverse((time, index))));
        }
        let start = heap.peek().map_or(description.begin, |Reverse((time, _))| *time);
        let mut streams = Vec::new();
        for CpuPages { cpu, .. } in pages {
            let name = format!("cpu{cpu}");
            let stream = self.building.create(&name).and_then(|file| Stream::begin(file, description.uuid, *cpu, start));
            streams.push(stream.map_err(ConvertError::io("write", self.building.join(name)))?);
        }
        if let Some(stream) = streams.first_mut() {
            let Conversion { threads, context, done, counts, classes, .. } = self;
            let mut dump =
                state_events::StateEvents { stream, time: start, first: classes.dump, counts, context: context.nobody(), layout };
            let written = dump.write(self.raw.read("state.jsonl"), self.raw.read("names.jsonl"), threads, done);
            written.map_err(|error| self.write_error(error))?;
            self.write_switched_off_until(start, stream).map_err(|error| self.write_error(error))?;
        }
        Ok((heap, streams))
    }

    /// Converts the events of all CPUs in the order of time. `progress` gets the number of bytes
    /// read, and returns false to end the conversion.
    fn merge(
        &mut self,
        heap: &mut ByTime,
        pages: &mut [CpuPages],
        streams: &mut [Stream],
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), ConvertError> {
        let mut running: Vec<Running> = pages.iter().map(|_| Running::default()).collect();
        let (mut read, mut reported) = (0, 0);
        while let Some(Reverse((_, index))) = heap.pop() {
            let until = heap.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            let cpu_pages = &mut pages[index];
            let before = cpu_pages.read;
            let written = self.run((cpu_pages, &mut running[index]), &mut streams[index], until);
            written.map_err(ConvertError::io("write", self.building.join(format!("cpu{}", cpu_pages.cpu))))?;
            heap.extend(self.next_time(cpu_pages)?.map(|time| Reverse((time, index))));
            read += cpu_pages.read - before;
            if read >= reported + PROGRESS_STEP {
                reported = read;
                if !progress(read) {
                    return Err(ConvertError::Ended);
                }
            }
        }
        match streams.first_mut() {
            Some(stream) => self.write_switched_off_until(u64::MAX, stream).map_err(|error| self.write_error(error)),
            None => Ok(()),
        }
    }

    /// Ends the streams, and adds losses that are in none of the pages.
    fn end_streams(&mut self, description: &Description, pages: &[CpuPages], streams: Vec<Stream>) -> Result<(), ConvertError> {
        for (cpu_pages, mut stream) in pages.iter().zip(streams) {
            let path = || self.building.join(format!("cpu{}", cpu_pages.cpu));
            match description.counted.get(&cpu_pages.cpu) {
                // The buffer was emptied: losses inside the snapshot's window are in its pages, and
                // the kernel's count also contains those before it.
                Some(counted) if counted.cut => {}
                // Losses that are in no page: no page follows the newest loss, some pages have no
                // count, and some pages were read from the kernel but never reached the disk.
                Some(counted) => {
                    let lost = counted.lost.saturating_add(counted.read.saturating_sub(cpu_pages.found));
                    let (end, rest) = (stream.last(), lost.saturating_sub(stream.discarded()));
                    stream.loss(end, rest).map_err(ConvertError::io("write", path()))?;
                }
                None => stream.gap().map_err(ConvertError::io("write", path()))?,
            }
            self.done.lost += stream.discarded();
            self.done.bytes += stream.finish().map_err(ConvertError::io("write", path()))?;
        }
        if description.counted.is_empty() {
            let what = "what the kernel counted as lost was not noted to the end; how many events are missing is not known";
            self.done.note(what.to_owned());
        }
        if self.done.moved > 0 {
            self.done.note(format!("{} events lay before their predecessor in time, and were moved to it", self.done.moved));
        }
        Ok(())
    }

    fn write_metadata(&mut self, description: &Description) -> Result<(), ConvertError> {
        let mut text = ctf::preamble(&Preamble {
            uuid: description.uuid_text(),
            host: &description.host,
            kernel: &description.kernel,
            clock_source: &description.clock_source,
            clock: &description.clock,
            damaged_pages: self.done.damaged_pages,
            context: &self.context.fields(),
        });
        let Classes { names, filters, calls, .. } = &self.classes;
        for (id, ((name, fields), &count)) in names.iter().zip(&self.counts).enumerate() {
            // Of system calls, only those that occurred get a class, because there are hundreds.
            if count > 0 || id < usize::from(calls.first) {
                let filter = filters.get(id).and_then(Option::as_deref);
                ctf::class(&mut text, id as u16, name, fields, filter);
            }
            if count > 0 {
                *self.done.names.entry(name.clone()).or_insert(0) += count;
            }
        }
        let written = self.building.create("metadata").and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(ConvertError::io("write", self.building.join("metadata")))?;
        self.done.bytes += text.len() as u64;
        Ok(())
    }

    /// Writes the notes about events that were switched off until `time`. Called before an event of
    /// that time is written.
    fn write_switched_off_until(&mut self, time: u64, stream: &mut Stream) -> io::Result<()> {
        while self.switched_off.front().is_some_and(|off| off.time <= time) {
            let Some(off) = self.switched_off.pop_front() else { break };
            self.counts[usize::from(self.classes.switched_off)] += 1;
            // Events may be lost on this CPU, so that its stream is already later than the moment
            // of switching off.
            let time = off.time.max(stream.last());
            let out = stream.event(time, self.classes.switched_off)?;
            out.extend_from_slice(&self.context.nobody());
            off.write(time, self.second, out);
        }
        Ok(())
    }

    /// Writes the events of the CPU's current page, up to the time `until`.
    fn run(&mut self, (cpu_pages, running): (&mut CpuPages, &mut Running), stream: &mut Stream, until: u64) -> io::Result<()> {
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
                    self.write_switched_off_until(time, stream)?;
                    self.done.moved += u64::from(time < stream.last());
                    self.done.events += 1;
                    self.event(running, stream, (time.max(stream.last()), id, data))?;
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
    fn event(&mut self, running: &mut Running, stream: &mut Stream, (time, id, data): (u64, u16, &[u8])) -> io::Result<()> {
        let classes = self.classes;
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
                None => self.unknown(stream, (time, id, data))?,
            },
            Some(Class::SysEnter) => {
                let out = self.begin(stream, time, classes.calls.enter_id(data), data)?;
                classes.calls.write_enter(data, out);
            }
            Some(Class::SysExit) => {
                let out = self.begin(stream, time, classes.calls.exit_id(data), data)?;
                classes.calls.write_exit(data, out);
            }
            None => self.unknown(stream, (time, id, data))?,
        }
        Ok(())
    }

    /// Writes the bytes of an event whose format is not known.
    fn unknown(&mut self, stream: &mut Stream, (time, id, data): (u64, u16, &[u8])) -> io::Result<()> {
        self.done.unknown += 1;
        let out = self.begin(stream, time, self.classes.unknown, data)?;
        out.extend_from_slice(&id.to_ne_bytes());
        out.extend_from_slice(&(data.len() as u32).to_ne_bytes());
        out.extend_from_slice(data);
        Ok(())
    }
}
