//! Reads trace.dat, the file format of trace-cmd: version 6 (parts in a fixed order) and version 7
//! (sections that options refer to, possibly compressed).
//!
//! Everything except the events is read when the file is opened: formats, symbols, names, options,
//! and the places of each CPU's pages. The pages are decoded from the file directly, or chunk by
//! chunk through a decompressor. The methods of trace-cmd, zlib and zstd, are built in; if a file
//! uses another method, the error contains the command that decompresses it.
//!
//! Lengths are checked against the size of the file before memory is allocated for them.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::byte_order::ByteOrder;
use crate::error::{DatError, DatErrorKind};
use crate::format::{EventFormat, Formats, HeaderEvent};
use crate::page::PageLayout;
use crate::stream::PageStream;

mod clock;
mod data;
mod parts;

pub use clock::Clock;
pub use data::CpuReader;
use data::{ALL_CHUNKS, MAX_CHUNK};
use parts::Cursor;

/// A source of bytes with random access.
pub trait ReadAt {
    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills the buffer from byte `offset` on, or returns an error.
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

/// An option of the file, undecoded. The manual page trace-cmd.dat.v7(5) lists the ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatOption {
    /// Id of the option.
    pub id: u16,
    /// Content of the option.
    pub data: Vec<u8>,
}

/// A recorded buffer of the kernel: the top buffer (with an empty name) or an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the instance; empty for the top buffer.
    pub name: String,
    /// Name of the clock, if the file states it for this buffer.
    pub clock: Option<String>,
    /// Size of its pages in bytes; 0 if the default size is used.
    pub page_size: u32,
    /// CPUs with data.
    pub cpus: Vec<CpuData>,
    /// Content of the kernel's file `trace`, which a tracer that writes text has instead of pages.
    pub text: Option<Extent>,
}

/// Place of a CPU's pages in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// Number of the CPU.
    pub cpu: u32,
    /// Place of the pages.
    pub extent: Extent,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Size in the file, in bytes.
    pub size: u64,
    /// Compression method, if the part consists of compressed chunks.
    pub compressed: Option<Method>,
}

/// Compression method of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// Counters of the kernel for a CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Number of the CPU.
    pub cpu: u32,
    /// Number of events that were overwritten before they were read, or that found no room.
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
    /// Opens a file and reads everything except the pages.
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

    /// Version of the format: 6 or 7.
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

    /// The file /proc/kallsyms of the traced host.
    pub fn kallsyms(&self) -> &[u8] {
        &self.kallsyms
    }

    /// The file `printk_formats`: lines of address and text.
    pub fn printk_formats(&self) -> &[u8] {
        &self.printk
    }

    /// The process ids and names in `saved_cmdlines`.
    pub fn cmdlines(&self) -> impl Iterator<Item = (i32, &str)> {
        let lines = self.cmdlines.split(|&b| b == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        lines.filter_map(|line| {
            let (pid, name) = line.split_once(' ')?;
            Some((pid.parse().ok()?, name))
        })
    }

    /// The options in the order of the file.
    pub fn options(&self) -> &[DatOption] {
        &self.options
    }

    /// Name of the clock of the recording: the one in brackets in the kernel's `trace_clock`.
    pub fn clock(&self) -> Option<String> {
        let option = self.options.iter().find(|o| o.id == parts::TRACECLOCK);
        let texts = option.map(|option| &option.data).into_iter().chain([&self.trace_clock]);
        texts.filter_map(|bytes| Some(text(bytes).split_once('[')?.1.split_once(']')?.0.to_owned())).next()
    }

    /// The conversion of timestamps in the pages to times.
    pub fn times(&self) -> Clock {
        Clock::of(&self.options, self.order)
    }

    /// Name of the traced host: the second field in the output of `uname`.
    pub fn host(&self) -> Option<String> {
        const UNAME: u16 = 5;
        let option = self.options.iter().find(|o| o.id == UNAME)?;
        let text = text(&option.data);
        text.trim_end_matches('\0').split_whitespace().nth(1).map(str::to_owned)
    }

    /// Counters of the kernel, if the file has them and only one buffer; they are not assigned to a
    /// buffer.
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

    /// The recorded buffers, the top buffer first.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The events of one CPU of a buffer.
    pub fn stream(&self, buffer: usize, cpu: u32) -> Result<PageStream<CpuReader<&S>>, DatError> {
        self.pages(buffer, cpu, &self.source)
    }

    /// Like [`stream`](Self::stream), but the result does not borrow from this object.
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

    /// The text of a buffer that has one instead of pages.
    pub fn text(&self, buffer: usize) -> Option<CpuReader<S>>
    where
        S: Clone,
    {
        let text = self.buffers.get(buffer)?.text?;
        Some(CpuReader::new(self.source.clone(), &text, self.order, MAX_CHUNK))
    }
}

/// Returns an error if two CPUs share data. No recorder writes such files, and a small file could
/// otherwise have any number of streams, each with its own pages in memory.
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

/// The formats of the events in a perf.data file. Its section TRACING_DATA begins like a trace.dat,
/// with its own version numbers.
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

/// Offsets of sections that were read. Guards against option sections that refer to each other.
type Visited = HashSet<u64>;
