//! One conversion: the pages of all CPUs become the streams of a CTF trace, in the order of time.

use super::super::ctf::{self, Preamble, Stream};
use super::super::layout::Layout;
use super::classes::Classes;
use super::cpu_pages::CpuPages;
use super::event_writer::EventWriter;
use super::follow::{Context, Running};
use super::source::{self, Description};
use super::{ConvertError, Converted, PROGRESS_STEP};
use crate::output::folder::Folder;
use longpole_ftrace::{ByteOrder, PageLayout};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write as _};

/// State of a conversion.
struct Conversion<'a> {
    raw: &'a Folder,
    building: &'a Folder,
    classes: &'a Classes,
    events: EventWriter,
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
    let classes =
        Classes::new(&formats, |system, name| description.filter(system, name), &layout, order, (!context.is_empty(), page.long_size()));
    let events = EventWriter::new(&description, context, &classes, &formats, (order, done));
    let mut conversion = Conversion { raw, building, classes: &classes, events };
    let mut pages = conversion.open_pages(&mut description, page);
    let (mut heap, mut streams) = conversion.begin_streams(&description, &layout, &mut pages)?;
    conversion.merge(&mut heap, &mut pages, &mut streams, &mut |read| progress(read, total))?;
    conversion.end_streams(&description, &pages, streams)?;
    // The metadata is written last, when it is known which classes are used.
    conversion.write_metadata(&description)?;
    let mut done = conversion.events.done;
    done.cpus = pages.len();
    done.raw_bytes = pages.iter().map(|cpu_pages| cpu_pages.read).sum();
    if !progress(total, total) {
        return Err(ConvertError::Ended);
    }
    Ok(done)
}

/// CPUs by the time of their next event or loss, the earliest first.
pub type ByTime = BinaryHeap<Reverse<(u64, usize)>>;

impl Conversion<'_> {
    fn open_pages(&mut self, description: &mut Description, page: PageLayout) -> Vec<CpuPages> {
        let mut pages = Vec::new();
        for source::Pages { cpu, file, .. } in std::mem::take(&mut description.pages) {
            self.events.done.damaged_pages += u64::from(file.is_none());
            pages.push(CpuPages::new(cpu, file, page, description.bounds(cpu)));
        }
        pages
    }

    /// Time of the CPU's next event or loss; `None` at the end of its pages.
    fn next_time(&mut self, cpu_pages: &mut CpuPages) -> Result<Option<u64>, ConvertError> {
        let path = self.raw.join(format!("cpu{}", cpu_pages.cpu));
        cpu_pages.time(&mut self.events.done).map_err(ConvertError::io("read", path))
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
            let dumped = (self.raw.read("state.jsonl"), self.raw.read("names.jsonl"));
            let written = self.events.state_dump(self.classes, layout, (stream, start), dumped);
            written.map_err(|error| self.write_error(error))?;
            self.events.write_switched_off_until(self.classes, start, stream).map_err(|error| self.write_error(error))?;
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
            let written = self.events.run(self.classes, (cpu_pages, &mut running[index]), &mut streams[index], until);
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
            Some(stream) => self.events.write_switched_off_until(self.classes, u64::MAX, stream).map_err(|error| self.write_error(error)),
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
            self.events.done.lost += stream.discarded();
            self.events.done.bytes += stream.finish().map_err(ConvertError::io("write", path()))?;
        }
        if description.counted.is_empty() {
            let what = "what the kernel counted as lost was not noted to the end; how many events are missing is not known";
            self.events.done.note(what.to_owned());
        }
        if self.events.done.moved > 0 {
            self.events.done.note(format!("{} events lay before their predecessor in time, and were moved to it", self.events.done.moved));
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
            damaged_pages: self.events.done.damaged_pages,
            context: &self.events.context.fields(),
        });
        let Classes { names, filters, calls, .. } = self.classes;
        for (id, ((name, fields), &count)) in names.iter().zip(&self.events.counts).enumerate() {
            // Of system calls, only those that occurred get a class, because there are hundreds.
            if count > 0 || id < usize::from(calls.first) {
                let filter = filters.get(id).and_then(Option::as_deref);
                ctf::class(&mut text, id as u16, name, fields, filter);
            }
            if count > 0 {
                *self.events.done.names.entry(name.clone()).or_insert(0) += count;
            }
        }
        let written = self.building.create("metadata").and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(ConvertError::io("write", self.building.join("metadata")))?;
        self.events.done.bytes += text.len() as u64;
        Ok(())
    }
}
