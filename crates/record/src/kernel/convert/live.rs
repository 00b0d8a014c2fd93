//! Converts the kernel's pages while they are being recorded, for a process that follows the
//! recording.
//!
//! The pages are read from the recorder's files as far as they have come, and the result is written
//! to files in memory, one for each CPU, in steps: [`LivePages::step`] converts the events up to a
//! time, of which the caller knows that the recorder has written all of them
//! ([`Flush`](crate::Flush)). What was converted in the step before must have been read; its memory
//! is freed. So memory does not grow with the recording, and nothing is left behind, even if this
//! process is killed.
//!
//! What the recorder writes only at the end (the kernel's counters of lost events) is missing here;
//! names of processes that begin during the recording are events of the time at which they became
//! known.

use super::super::ctf::{self, Preamble, Stream};
use super::super::layout::Layout;
use super::classes::Classes;
use super::conversion::ByTime;
use super::cpu_pages::CpuPages;
use super::event_writer::EventWriter;
use super::follow::{Context, Running};
use super::marks::SwitchedOffEvent;
use super::source::{self, Description};
use super::{ConvertError, Converted};
use crate::output::folder::Folder;
use longpole_ftrace::{ByteOrder, EventFormat};
use rustix::fs::{fallocate, memfd_create, FallocateFlags, MemfdFlags};
use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Bytes of pages that one step converts, at most about.
const MAX_STEP: u64 = 2 << 20;
/// Bytes of names that one step reads, at most.
const MAX_NAMES: u64 = 1 << 20;

/// A conversion of pages that are being recorded.
pub struct LivePages {
    raw: Folder,
    description: Description,
    formats: Vec<EventFormat>,
    layout: Layout,
    classes: Classes,
    events: EventWriter,
    cpus: Vec<Cpu>,
    /// The names of processes, up to what was read of them.
    names: Option<File>,
}

/// The pages of a CPU, and what they become.
struct Cpu {
    pages: CpuPages,
    running: Running,
    /// The stream in memory.
    file: File,
    /// `None` before the first event of all CPUs.
    stream: Option<Stream>,
    /// Bytes of the stream whose memory was freed.
    freed: u64,
}

impl LivePages {
    /// Opens the pages of a recording in progress. `None` if none are recorded, or if the recorder
    /// has not begun to record them.
    ///
    /// # Errors
    ///
    /// If what describes the pages cannot be read.
    pub fn open(recording: &Path) -> Result<Option<LivePages>, ConvertError> {
        let recording = Folder::open(recording).map_err(ConvertError::io("open", recording))?;
        let raw = match recording.folder("kernel").and_then(|kernel| kernel.folder("raw")) {
            Ok(raw) => raw,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ConvertError::io("open", recording.join("kernel/raw"))(error)),
        };
        let mut done = Converted::default();
        let mut description = Description::read(&recording, &raw, &mut done)?;
        if !description.has_state_dump || !raw.holds("state.jsonl") {
            return Ok(None);
        }
        let order = ByteOrder::NATIVE;
        let layout = Layout::new(&description.arch)?;
        let formats = Description::formats(&raw, &mut done);
        let page = description.page_layout(&raw, order, formats.first())?;
        let context = Context::new(&description.context, formats.first());
        let classes = Classes::new(
            &formats,
            |system, name| description.filter(system, name),
            &layout,
            order,
            (!context.is_empty(), page.long_size()),
        );
        let events = EventWriter::new(&description, context, &classes, &formats, (order, done));
        let mut cpus = Vec::new();
        for source::Pages { cpu, file, .. } in std::mem::take(&mut description.pages) {
            let pages = CpuPages::new(cpu, file, page, description.bounds(cpu)).growing();
            let file = memory_file().map_err(ConvertError::io("make", "a file in memory"))?;
            cpus.push(Cpu { pages, running: Running::default(), file, stream: None, freed: 0 });
        }
        let names = raw.read("names.jsonl").ok();
        Ok(Some(LivePages { raw, description, formats, layout, classes, events, cpus, names }))
    }

    /// Returns the metadata of the streams, with all classes that may occur.
    pub fn metadata(&self) -> String {
        let LivePages { description, classes, events, .. } = self;
        let mut text = ctf::preamble(&Preamble {
            uuid: description.uuid_text(),
            host: &description.host,
            kernel: &description.kernel,
            clock_source: &description.clock_source,
            clock: &description.clock,
            damaged_pages: 0,
            context: &events.context.fields(),
        });
        for (id, (name, fields)) in (0..).zip(&classes.names) {
            ctf::class(&mut text, id, name, fields, classes.filters.get(usize::from(id)).and_then(Option::as_deref));
        }
        text
    }

    /// Returns the names of the streams, and paths at which this process can open them.
    pub fn streams(&self) -> impl Iterator<Item = (String, PathBuf)> + '_ {
        self.cpus.iter().map(|Cpu { pages, file, .. }| {
            (format!("kernel/cpu{}", pages.cpu), PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
        })
    }

    /// Converts the events up to the time `until` in ticks, or a part of them. Returns the time up
    /// to which all are converted.
    ///
    /// # Errors
    ///
    /// If pages cannot be read, or there is no memory.
    pub fn step(&mut self, until: u64) -> Result<u64, ConvertError> {
        let mut heap = ByTime::new();
        for index in 0..self.cpus.len() {
            let cpu = &mut self.cpus[index];
            cpu.free().map_err(no_memory)?;
            cpu.pages.look_again();
            heap.extend(self.next_time(index)?.map(|time| Reverse((time, index))));
        }
        let Some(&Reverse((start, _))) = heap.peek() else { return Ok(until) };
        if start > until {
            return Ok(until);
        }
        self.begin(start).map_err(no_memory)?;
        let before = self.bytes_read();
        let mut reached = until;
        while let Some(Reverse((time, index))) = heap.pop() {
            if time > until {
                break;
            }
            if self.bytes_read() - before > MAX_STEP {
                reached = time.saturating_sub(1);
                break;
            }
            let to = heap.peek().map_or(until, |Reverse((time, _))| until.min(*time));
            let Cpu { pages, running, stream, .. } = &mut self.cpus[index];
            if let Some(stream) = stream {
                self.events.run(&self.classes, (pages, running), stream, to).map_err(no_memory)?;
            }
            heap.extend(self.next_time(index)?.map(|time| Reverse((time, index))));
        }
        self.end_step(reached).map_err(no_memory)?;
        Ok(reached)
    }

    /// Time of the CPU's next event or loss; `None` at the end of what has come.
    fn next_time(&mut self, index: usize) -> Result<Option<u64>, ConvertError> {
        let LivePages { raw, events, cpus, .. } = self;
        let pages = &mut cpus[index].pages;
        pages.time(&mut events.done).map_err(|error| ConvertError::io("read", raw.join(format!("cpu{}", pages.cpu)))(error))
    }

    fn bytes_read(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.pages.read).sum()
    }

    /// Begins the streams at the time of the first event, which is that of the state dump, too.
    fn begin(&mut self, start: u64) -> io::Result<()> {
        if self.cpus.iter().any(|cpu| cpu.stream.is_some()) {
            return Ok(());
        }
        for cpu in &mut self.cpus {
            cpu.stream = Some(Stream::begin(cpu.file.try_clone()?, self.description.uuid, cpu.pages.cpu, start)?);
        }
        let Some(stream) = self.cpus.first_mut().and_then(|cpu| cpu.stream.as_mut()) else { return Ok(()) };
        let no_names = Err(io::ErrorKind::NotFound.into());
        self.events.state_dump(&self.classes, &self.layout, (stream, start), (self.raw.read("state.jsonl"), no_names))
    }

    /// Adds what has become known meanwhile, and writes the packets of all streams.
    fn end_step(&mut self, reached: u64) -> io::Result<()> {
        let lines = self.names.as_mut().map_or(Ok(Vec::new()), new_lines)?;
        self.note_switched_off();
        let LivePages { layout, classes, events, cpus, .. } = self;
        if let Some(stream) = cpus.first_mut().and_then(|cpu| cpu.stream.as_mut()) {
            events.write_switched_off_until(classes, reached, stream)?;
            if !lines.is_empty() {
                let time = stream.last();
                events.names(classes, layout, (stream, time), &lines)?;
            }
        }
        cpus.iter_mut().filter_map(|cpu| cpu.stream.as_mut()).try_for_each(Stream::flush)
    }

    /// Takes up kinds of events that the recorder has given up since the last step.
    fn note_switched_off(&mut self) {
        let LivePages { raw, description, formats, classes, events, .. } = self;
        let known = description.switched_off.len();
        let all = source::switched_off(raw);
        if all.len() > known {
            let new = all[known..].iter().map(|off| SwitchedOffEvent::new(off, |event| classes.name_of(formats, event)));
            events.switched_off.extend(new);
            description.switched_off = all;
        }
    }
}

impl Cpu {
    /// Frees the memory of what was read of the stream, which is all of it.
    fn free(&mut self) -> io::Result<()> {
        let Some(written) = self.stream.as_ref().map(|stream| stream.written) else { return Ok(()) };
        // Only whole pages can be freed.
        let end = written - written % memory_page();
        if end > self.freed {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, flags, self.freed, end - self.freed)?;
            self.freed = end;
        }
        Ok(())
    }
}

fn memory_page() -> u64 {
    // SAFETY: asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn memory_file() -> io::Result<File> {
    Ok(File::from(memfd_create("longpole-live", MemfdFlags::CLOEXEC)?))
}

fn no_memory(error: io::Error) -> ConvertError {
    ConvertError::io("write", "a file in memory")(error)
}

/// Reads the complete lines that were appended to a file.
fn new_lines(file: &mut File) -> io::Result<Vec<u8>> {
    let begin = file.stream_position()?;
    let mut bytes = Vec::new();
    file.take(MAX_NAMES).read_to_end(&mut bytes)?;
    let mut end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if end == 0 && bytes.len() as u64 == MAX_NAMES {
        // A line of this length is no name.
        end = bytes.len();
    }
    bytes.truncate(end);
    file.seek(SeekFrom::Start(begin + end as u64))?;
    Ok(bytes)
}
