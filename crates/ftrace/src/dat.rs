//! trace.dat, the file of trace-cmd: versions 6 (parts in a fixed order) and 7 (sections that options point to, perhaps compressed).
//!
//! Everything but the events is read when the file is opened: formats, symbols, names, options, and where each CPU's pages are.
//! The pages go through the page decoder, straight from the file, or chunk by chunk through the decompressor. zlib and zstd, those
//! of trace-cmd, are built in; a file that another method compressed is refused with the command that decompresses it.
//!
//! Lengths are checked against the file before anything is allocated for them.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::error::{DatError, DatErrorKind};
use crate::format::{EventFormat, Formats, HeaderEvent};
use crate::page::{ByteOrder, PageLayout};
use crate::stream::PageStream;

mod clock;
mod data;
mod parts;

pub use clock::Clock;
pub use data::CpuReader;
use data::{ALL_CHUNKS, MAX_CHUNK};
use parts::Cursor;

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// Size of the file in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills the buffer from `offset` on, or fails.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl<S: ReadAt + ?Sized> ReadAt for &S {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}

impl<S: ReadAt + ?Sized> ReadAt for Arc<S> {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}

impl<T: AsRef<[u8]>> ReadAt for io::Cursor<T> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.get_ref().as_ref().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).and_then(|e| usize::try_from(e).ok());
        let bytes = end.and_then(|end| self.get_ref().as_ref().get(offset as usize..end));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An option as the file holds it; ids as in trace-cmd.dat.v7(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatOption {
    /// Id of the option.
    pub id: u16,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// A buffer of the kernel that was recorded: the top one (an empty name) or an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the instance; empty for the top buffer.
    pub name: String,
    /// The clock's name, where the file states it for this buffer.
    pub clock: Option<String>,
    /// Bytes of its pages.
    pub page_size: u32,
    /// Its CPUs with data.
    pub cpus: Vec<CpuData>,
    /// Of a tracer that writes text: the content of the kernel's file `trace`, instead of pages.
    pub text: Option<Extent>,
}

/// Where a CPU's pages are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// Number of the CPU.
    pub cpu: u32,
    /// Where its pages are.
    pub extent: Extent,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub size: u64,
    /// In chunks, each compressed for itself.
    pub compressed: Option<Method>,
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// What the kernel counted of a CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Number of the CPU.
    pub cpu: u32,
    /// Events that were overwritten before they were read, and those that found no room.
    pub lost: u64,
}

/// An opened trace.dat.
#[derive(Debug)]
pub struct Dat<S> {
    source: S,
    version: u8,
    order: ByteOrder,
    layout: PageLayout,
    formats: Formats,
    kallsyms: Vec<u8>,
    printk: Vec<u8>,
    cmdlines: Vec<u8>,
    options: Vec<DatOption>,
    buffers: Vec<Buffer>,
    trace_clock: Vec<u8>,
}

const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

impl<S: ReadAt> Dat<S> {
    /// Reads everything but the pages.
    pub fn open(source: S) -> Result<Dat<S>, DatError> {
        let len = source.size().map_err(|e| DatError { offset: 0, kind: DatErrorKind::Io(e) })?;
        let mut at = Cursor::file(&source, len, 0);
        let Head { version, order, page_size } = head(&mut at)?;
        let parts = match version.as_str() {
            "6" => parts::version_6(&mut at, page_size)?,
            "7" => parts::version_7(&mut at)?,
            _ => return Err(at.error(DatErrorKind::Version(version))),
        };
        apart(&parts.buffers)?;
        let format_error = |what: String| move |error| DatError { offset: 0, kind: DatErrorKind::Format { what, error } };
        HeaderEvent::parse(&text(&parts.header_event)).map_err(format_error("header_event".into()))?;
        let mut layout = PageLayout::parse(&text(&parts.header_page), order).map_err(format_error("header_page".into()))?;
        let mut formats = Formats::default();
        for (system, bytes) in &parts.formats {
            let format = EventFormat::parse(system, &text(bytes)).map_err(format_error(format!("a format of {system}")))?;
            if formats.is_empty() {
                layout = layout.with_ids_of(&format);
            }
            formats.add(format);
        }
        Ok(Dat {
            version: if version == "6" { 6 } else { 7 },
            order,
            layout,
            formats,
            kallsyms: parts.kallsyms,
            printk: parts.printk,
            cmdlines: parts.cmdlines,
            options: parts.options,
            buffers: parts.buffers,
            trace_clock: parts.clock,
            source,
        })
    }

    /// 6 or 7.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Byte order of the recorded host.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Layout of the pages.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Formats of the recorded host's events.
    pub fn formats(&self) -> &Formats {
        &self.formats
    }

    /// The traced machine's /proc/kallsyms.
    pub fn kallsyms(&self) -> &[u8] {
        &self.kallsyms
    }

    /// `printk_formats`: lines of address and text.
    pub fn printk_formats(&self) -> &[u8] {
        &self.printk
    }

    /// Pid and name of each line of `saved_cmdlines`.
    pub fn cmdlines(&self) -> impl Iterator<Item = (i32, &str)> {
        let lines = self.cmdlines.split(|&b| b == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        lines.filter_map(|line| {
            let (pid, name) = line.split_once(' ')?;
            Some((pid.parse().ok()?, name))
        })
    }

    /// The file's options in their order.
    pub fn options(&self) -> &[DatOption] {
        &self.options
    }

    /// The clock of the recording: the name in brackets of the kernel's `trace_clock`.
    pub fn clock(&self) -> Option<String> {
        let option = self.options.iter().find(|o| o.id == parts::TRACECLOCK);
        let texts = option.map(|option| &option.data).into_iter().chain([&self.trace_clock]);
        texts.filter_map(|bytes| Some(text(bytes).split_once('[')?.1.split_once(']')?.0.to_owned())).next()
    }

    /// What makes times of the file's events.
    pub fn times(&self) -> Clock {
        Clock::of(&self.options, self.order)
    }

    /// What `uname` said: of the fields of it, the name of the machine is the second.
    pub fn host(&self) -> Option<String> {
        const UNAME: u16 = 5;
        let option = self.options.iter().find(|o| o.id == UNAME)?;
        let text = text(&option.data);
        text.trim_end_matches('\0').split_whitespace().nth(1).map(str::to_owned)
    }

    /// What the kernel counted, where the file says it and has one buffer: it does not say of which it is.
    pub fn stats(&self) -> Vec<BufferStats> {
        const CPUSTAT: u16 = 2;
        let count = |text: &str, what: &str| -> u64 {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(what));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        if self.buffers.len() != 1 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for option in self.options.iter().filter(|o| o.id == CPUSTAT) {
            let text = text(&option.data);
            let cpu = text.lines().find_map(|line| line.trim().strip_prefix("CPU:")).and_then(|number| number.trim().parse().ok());
            let Some(cpu) = cpu else { continue };
            all.push(BufferStats { cpu, lost: count(&text, "overrun:").saturating_add(count(&text, "dropped events:")) });
        }
        all
    }

    /// The recorded buffers, the top one first.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The events of one CPU of a buffer.
    pub fn stream(&self, buffer: usize, cpu: u32) -> Result<PageStream<CpuReader<&S>>, DatError> {
        self.pages(buffer, cpu, &self.source)
    }

    /// The same, for who keeps it longer than this.
    pub fn shared_stream(&self, buffer: usize, cpu: u32) -> Result<PageStream<CpuReader<S>>, DatError>
    where
        S: Clone,
    {
        self.pages(buffer, cpu, self.source.clone())
    }

    fn pages<R: ReadAt>(&self, buffer: usize, cpu: u32, source: R) -> Result<PageStream<CpuReader<R>>, DatError> {
        let none = || DatError { offset: 0, kind: DatErrorKind::NoSuchStream { buffer, cpu } };
        let in_file = self.buffers.get(buffer).ok_or_else(none)?;
        let data = in_file.cpus.iter().find(|c| c.cpu == cpu).ok_or_else(none)?;
        let layout = match in_file.page_size {
            0 => self.layout,
            size => self.layout.with_page_size(size as usize),
        };
        let streams: usize = self.buffers.iter().map(|buffer| buffer.cpus.len()).sum();
        let most = (ALL_CHUNKS / streams.max(1) as u64).max(16 * layout.page_size() as u64).min(MAX_CHUNK);
        Ok(PageStream::new(CpuReader::new(source, &data.extent, self.order, most), layout))
    }

    /// The text of a buffer that has one.
    pub fn text(&self, buffer: usize) -> Option<CpuReader<S>>
    where
        S: Clone,
    {
        let text = self.buffers.get(buffer)?.text?;
        Some(CpuReader::new(self.source.clone(), &text, self.order, MAX_CHUNK))
    }
}

/// Refuses data that is told of two CPUs. No recorder writes that, and a small file could have any number of streams, each with pages of its own in memory.
fn apart(buffers: &[Buffer]) -> Result<(), DatError> {
    let mut all: Vec<(u64, u64, u32)> = Vec::new();
    for buffer in buffers {
        let mut seen = HashSet::new();
        for CpuData { cpu, extent } in buffer.cpus.iter().filter(|data| data.extent.size > 0) {
            if !seen.insert(*cpu) {
                return Err(DatError { offset: extent.offset, kind: DatErrorKind::Twice { cpu: *cpu } });
            }
            all.push((extent.offset, extent.offset.saturating_add(extent.size), *cpu));
        }
    }
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[1].0 < pair[0].1) {
        Some(pair) => Err(DatError { offset: pair[1].0, kind: DatErrorKind::Shared { cpu: pair[1].2 } }),
        None => Ok(()),
    }
}

struct Head {
    version: String,
    order: ByteOrder,
    page_size: u32,
}

fn head(at: &mut Cursor<'_>) -> Result<Head, DatError> {
    if at.bytes(10).map_or(true, |b| b != MAGIC) {
        return Err(DatError { offset: 0, kind: DatErrorKind::NotADat });
    }
    let version = at.string()?;
    let order = match at.byte()? {
        0 => ByteOrder::Little,
        1 => ByteOrder::Big,
        other => return Err(at.error(DatErrorKind::Head(other))),
    };
    at.set_order(order);
    let long = at.byte()?;
    if !matches!(long, 4 | 8) {
        return Err(at.error(DatErrorKind::Head(long)));
    }
    let page_size = at.u32()?;
    Ok(Head { version, order, page_size })
}

/// The formats of the events in a perf.data: its section TRACING_DATA begins as a trace.dat does, with versions of its own.
pub fn perf_formats(section: &[u8]) -> Result<(Formats, ByteOrder), DatError> {
    let mut at = Cursor::memory(section, ByteOrder::Little);
    let Head { version, order, .. } = head(&mut at)?;
    if !matches!(version.as_str(), "0.5" | "0.6") {
        return Err(at.error(DatErrorKind::Version(version)));
    }
    let mut formats = Formats::default();
    for (system, bytes) in parts::formats(&mut at)? {
        let wrong = |error| DatError { offset: 0, kind: DatErrorKind::Format { what: format!("a format of {system}"), error } };
        formats.add(EventFormat::parse(&system, &text(&bytes)).map_err(wrong)?);
    }
    Ok((formats, order))
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Guards against option sections that point to each other.
type Visited = HashSet<u64>;
