//! The parts of a trace.dat before its pages, in the arrangements of both versions.

use super::data::decompress;
use super::{Buffer, CpuData, DatOption, Extent, Method, ReadAt, Visited};
use crate::byte_order::ByteOrder;
use crate::error::{DatError, DatErrorKind};

pub const BUFFER: u16 = 3;
pub const TRACECLOCK: u16 = 4;
const CPUCOUNT: u16 = 8;
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const KALLSYMS: u16 = 19;
const PRINTK: u16 = 20;
const CMDLINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;
/// Maximum size of a part in bytes. The symbols of a large kernel take some 20 MB.
pub const MAX_PART: u64 = 256 << 20;
const MAX_CPUS: u32 = 1 << 16;
/// Maximum number of CPUs of all buffers together.
const MAX_STREAMS: u64 = 1 << 20;
const MAX_OPTIONS: usize = 1 << 16;

#[derive(Default)]
pub struct Parts {
    pub header_page: Vec<u8>,
    pub header_event: Vec<u8>,
    /// Name of the subsystem and text of each format.
    pub formats: Vec<(String, Vec<u8>)>,
    formats_size: u64,
    pub kallsyms: Vec<u8>,
    pub printk: Vec<u8>,
    pub cmdlines: Vec<u8>,
    pub options: Vec<DatOption>,
    pub buffers: Vec<Buffer>,
    streams: u64,
    /// Content of `trace_clock`, which in version 6 follows the table of the CPUs' pages.
    pub clock: Vec<u8>,
}

/// Reads numbers and texts from the file or from a section in memory.
pub struct Cursor<'a> {
    from: From<'a>,
    len: u64,
    pub at: u64,
    order: ByteOrder,
}

#[derive(Clone, Copy)]
enum From<'a> {
    File(&'a dyn ReadAt),
    Memory(&'a [u8]),
}

impl<'a> Cursor<'a> {
    pub fn file(source: &'a dyn ReadAt, len: u64, at: u64) -> Cursor<'a> {
        Cursor { from: From::File(source), len, at, order: ByteOrder::Little }
    }

    pub fn memory(bytes: &'a [u8], order: ByteOrder) -> Cursor<'a> {
        Cursor { from: From::Memory(bytes), len: bytes.len() as u64, at: 0, order }
    }

    pub fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
    }

    pub fn error(&self, kind: DatErrorKind) -> DatError {
        DatError { offset: self.at, kind }
    }

    pub fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    pub fn bytes(&mut self, length: u64) -> Result<Vec<u8>, DatError> {
        let left = self.len.saturating_sub(self.at);
        if length > left {
            return Err(self.error(DatErrorKind::Truncated { need: length - left }));
        }
        if length > MAX_PART {
            return Err(self.error(DatErrorKind::TooLong { length, limit: MAX_PART }));
        }
        let mut out = vec![0; length as usize];
        match self.from {
            From::File(source) => {
                source.read_exact_at(&mut out, self.at).map_err(|e| self.error(DatErrorKind::Io(e)))?;
            }
            From::Memory(bytes) => out.copy_from_slice(&bytes[self.at as usize..][..length as usize]),
        }
        self.at += length;
        Ok(out)
    }

    pub fn byte(&mut self) -> Result<u8, DatError> {
        Ok(self.bytes(1)?[0])
    }

    fn number(&mut self, size: u64) -> Result<u64, DatError> {
        let bytes = self.bytes(size)?;
        // Callers only pass 2, 4 and 8.
        Ok(self.order.unsigned(&bytes).unwrap_or(0))
    }

    fn u16(&mut self) -> Result<u16, DatError> {
        Ok(self.number(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32, DatError> {
        Ok(self.number(4)? as u32)
    }

    pub fn u64(&mut self) -> Result<u64, DatError> {
        self.number(8)
    }

    /// Reads a text up to a zero byte.
    pub fn string(&mut self) -> Result<String, DatError> {
        const LIMIT: u64 = 4096;
        let begin = self.at;
        let window = self.bytes(self.len.saturating_sub(begin).min(LIMIT))?;
        self.at = begin;
        let Some(end) = window.iter().position(|&b| b == 0) else {
            let kind = if (window.len() as u64) < LIMIT {
                DatErrorKind::Truncated { need: 1 }
            } else {
                DatErrorKind::TooLong { length: LIMIT, limit: LIMIT }
            };
            return Err(self.error(kind));
        };
        self.at += end as u64 + 1;
        Ok(String::from_utf8_lossy(&window[..end]).into_owned())
    }

    fn expect(&mut self, expected: &'static str) -> Result<(), DatError> {
        let begin = self.at;
        if self.bytes(expected.len() as u64)? != expected.as_bytes() {
            return Err(DatError { offset: begin, kind: DatErrorKind::Expected { expected: expected.trim_end_matches('\0') } });
        }
        Ok(())
    }

    fn headers(&mut self, parts: &mut Parts) -> Result<(), DatError> {
        self.expect("header_page\0")?;
        let length = self.u64()?;
        parts.header_page = self.bytes(length)?;
        self.expect("header_event\0")?;
        let length = self.u64()?;
        parts.header_event = self.bytes(length)?;
        Ok(())
    }

    fn formats_of(&mut self, system: &str, parts: &mut Parts) -> Result<(), DatError> {
        for _ in 0..self.u32()? {
            let length = self.u64()?;
            let text = self.bytes(length)?;
            parts.formats_size += (system.len() + text.len()) as u64;
            if parts.formats_size > MAX_PART {
                return Err(self.error(DatErrorKind::TooLong { length: parts.formats_size, limit: MAX_PART }));
            }
            parts.formats.push((system.to_owned(), text));
        }
        Ok(())
    }

    fn systems(&mut self, parts: &mut Parts) -> Result<(), DatError> {
        for _ in 0..self.u32()? {
            let system = self.string()?;
            self.formats_of(&system, parts)?;
        }
        Ok(())
    }

    fn short_part(&mut self) -> Result<Vec<u8>, DatError> {
        let length = self.u32()?;
        self.bytes(length.into())
    }

    fn long_part(&mut self) -> Result<Vec<u8>, DatError> {
        let length = self.u64()?;
        self.bytes(length)
    }

    fn cpu_count(&mut self) -> Result<u32, DatError> {
        let count = self.u32()?;
        if count > MAX_CPUS {
            return Err(self.error(DatErrorKind::TooLong { length: count.into(), limit: MAX_CPUS.into() }));
        }
        Ok(count)
    }

    fn push_buffer(&mut self, parts: &mut Parts, buffer: Buffer) -> Result<(), DatError> {
        parts.streams += buffer.cpus.len() as u64;
        if parts.streams > MAX_STREAMS {
            return Err(self.error(DatErrorKind::TooLong { length: parts.streams, limit: MAX_STREAMS }));
        }
        parts.buffers.push(buffer);
        Ok(())
    }

    fn push_option(&mut self, parts: &mut Parts, id: u16, length: u32) -> Result<(), DatError> {
        if parts.options.len() >= MAX_OPTIONS {
            return Err(self.error(DatErrorKind::TooLong { length: MAX_OPTIONS as u64 + 1, limit: MAX_OPTIONS as u64 }));
        }
        let data = self.bytes(length.into())?;
        parts.options.push(DatOption { id, data });
        Ok(())
    }
}

/// The subsystem and text of each format, after the head of the file.
pub fn formats(at: &mut Cursor<'_>) -> Result<Vec<(String, Vec<u8>)>, DatError> {
    let mut parts = Parts::default();
    at.headers(&mut parts)?;
    at.formats_of("ftrace", &mut parts)?;
    at.systems(&mut parts)?;
    Ok(parts.formats)
}

pub fn version_6(at: &mut Cursor<'_>, page_size: u32) -> Result<Parts, DatError> {
    let mut parts = Parts::default();
    at.headers(&mut parts)?;
    at.formats_of("ftrace", &mut parts)?;
    at.systems(&mut parts)?;
    parts.kallsyms = at.short_part()?;
    parts.printk = at.short_part()?;
    parts.cmdlines = at.long_part()?;
    let cpus = at.cpu_count()?;
    let first = content(at, &mut parts, String::new(), page_size, cpus)?;
    at.push_buffer(&mut parts, first)?;
    // Each instance has an option with an offset and a name. The data at the offset has the same
    // form as the end of the main part.
    let instances: Vec<Vec<u8>> = parts.options.iter().filter(|o| o.id == BUFFER).map(|o| o.data.clone()).collect();
    let mut visited = Visited::new();
    for data in instances {
        let mut option = Cursor::memory(&data, at.order);
        let offset = option.u64().map_err(|_| at.error(DatErrorKind::Option { id: BUFFER, length: data.len() }))?;
        let name = option.string().unwrap_or_default();
        at.at = offset;
        if !visited.insert(offset) {
            return Err(at.error(DatErrorKind::Loop));
        }
        let instance = content(at, &mut parts, name, page_size, cpus)?;
        at.push_buffer(&mut parts, instance)?;
    }
    Ok(parts)
}

/// Reads options, if there are some, then the table of the CPUs' pages or a text that extends to
/// the end of the file.
fn content(at: &mut Cursor<'_>, parts: &mut Parts, name: String, page_size: u32, cpus: u32) -> Result<Buffer, DatError> {
    let mut count = cpus;
    let mut has_clock = false;
    loop {
        let begin = at.at;
        match at.bytes(10)?.as_slice() {
            b"options  \0" => loop {
                match at.u16()? {
                    0 => break,
                    id => {
                        let length = at.u32()?;
                        at.push_option(parts, id, length)?;
                        has_clock |= id == TRACECLOCK;
                        // In some files this option has the true number, while the number before is
                        // that of the host that wrote the file.
                        if id == CPUCOUNT {
                            let data = parts.options.last().map(|o| o.data.clone()).unwrap_or_default();
                            count = Cursor::memory(&data, at.order).cpu_count().unwrap_or(cpus);
                        }
                    }
                }
            },
            b"flyrecord\0" => break,
            b"latency  \0" => {
                let text = Extent { offset: at.at, size: at.len.saturating_sub(at.at), compressed: None };
                return Ok(Buffer { name, clock: None, page_size, cpus: Vec::new(), text: Some(text) });
            }
            _ => return Err(DatError { offset: begin, kind: DatErrorKind::Expected { expected: "flyrecord" } }),
        }
    }
    let mut list = Vec::new();
    for cpu in 0..count {
        let (offset, size) = (at.u64()?, at.u64()?);
        list.push(CpuData { cpu, extent: Extent { offset, size, compressed: None } });
    }
    // Skips a table with the number of CPUs of the writing host, for readers that do not know the
    // option.
    if cpus < count {
        at.bytes(16)?;
    }
    if has_clock && name.is_empty() {
        // Early versions of trace-cmd announced the clock without writing it: then a page is at
        // this place.
        let end = at.at;
        match at.long_part() {
            Ok(clock) if clock.len() < 4096 => parts.clock = clock,
            _ => at.at = end,
        }
    }
    Ok(Buffer { name, clock: None, page_size, cpus: list, text: None })
}

pub fn version_7(at: &mut Cursor<'_>) -> Result<Parts, DatError> {
    let mut parts = Parts::default();
    let method = at.string()?;
    at.string()?;
    let mut next = at.u64()?;
    let mut visited = Visited::new();
    while next != 0 {
        if !visited.insert(next) {
            return Err(at.error(DatErrorKind::Loop));
        }
        let section = section(at, next, 0, &method)?;
        let mut options = Cursor::memory(&section, at.order);
        next = 0;
        while options.at < options.len {
            let (id, length) = (options.u16()?, options.u32()?);
            if id == 0 {
                next = if length >= 8 { options.u64()? } else { 0 };
                break;
            }
            options.push_option(&mut parts, id, length)?;
        }
    }
    let options = std::mem::take(&mut parts.options);
    let mut read = 0;
    for DatOption { id, data } in &options {
        if !matches!(*id, BUFFER | HEADER_INFO..=CMDLINES | BUFFER_TEXT) {
            continue;
        }
        let mut option = Cursor::memory(data, at.order);
        let place = at.at;
        let short = || DatError { offset: place, kind: DatErrorKind::Option { id: *id, length: data.len() } };
        let offset = option.u64().map_err(|_| short())?;
        if matches!(*id, BUFFER | BUFFER_TEXT) {
            let buffer = buffer_7(at, *id, &mut option, offset, &method).map_err(|e| match e.kind {
                DatErrorKind::Truncated { .. } => short(),
                _ => e,
            })?;
            at.push_buffer(&mut parts, buffer)?;
            continue;
        }
        // Each section is read once, and their total size is bounded.
        let bytes = if visited.insert(offset) { section(at, offset, *id, &method)? } else { return Err(at.error(DatErrorKind::Loop)) };
        read += bytes.len() as u64;
        if read > 4 * MAX_PART {
            return Err(at.error(DatErrorKind::TooLong { length: read, limit: 4 * MAX_PART }));
        }
        let mut inside = Cursor::memory(&bytes, at.order);
        match *id {
            HEADER_INFO => inside.headers(&mut parts)?,
            FTRACE_EVENTS => inside.formats_of("ftrace", &mut parts)?,
            EVENT_FORMATS => inside.systems(&mut parts)?,
            KALLSYMS => parts.kallsyms = inside.short_part()?,
            PRINTK => parts.printk = inside.short_part()?,
            _ => parts.cmdlines = inside.long_part()?,
        }
    }
    parts.options = options;
    Ok(parts)
}

/// Reads the description of a buffer, without its pages.
fn buffer_7(at: &mut Cursor<'_>, id: u16, option: &mut Cursor<'_>, offset: u64, method: &str) -> Result<Buffer, DatError> {
    at.at = offset;
    let (_, flags) = (at.u16()?, at.u16()?);
    at.u32()?;
    let size = at.u64()?;
    let compressed = compression(at, flags, method)?;
    let name = option.string()?;
    let clock = Some(option.string()?);
    if id == BUFFER_TEXT {
        let text = Extent { offset: at.at, size, compressed };
        return Ok(Buffer { name, clock, page_size: 0, cpus: Vec::new(), text: Some(text) });
    }
    let page_size = option.u32()?;
    let mut cpus = Vec::new();
    for _ in 0..option.cpu_count()? {
        let cpu = option.u32()?;
        let (offset, size) = (option.u64()?, option.u64()?);
        cpus.push(CpuData { cpu, extent: Extent { offset, size, compressed } });
    }
    Ok(Buffer { name, clock, page_size, cpus, text: None })
}

/// The compression method of a section, if it is compressed.
fn compression(at: &Cursor<'_>, flags: u16, method: &str) -> Result<Option<Method>, DatError> {
    match (flags & 1 != 0, method) {
        (false, _) => Ok(None),
        (true, "zstd") => Ok(Some(Method::Zstd)),
        (true, "zlib") => Ok(Some(Method::Zlib)),
        (true, method) => Err(at.error(DatErrorKind::Compression(method.to_owned()))),
    }
}

/// The decompressed content of a section.
fn section(at: &mut Cursor<'_>, offset: u64, id: u16, method: &str) -> Result<Vec<u8>, DatError> {
    at.at = offset;
    let (found, flags) = (at.u16()?, at.u16()?);
    at.u32()?;
    let size = at.u64()?;
    if found != id {
        return Err(DatError { offset, kind: DatErrorKind::Section { expected: id, found } });
    }
    let Some(method) = compression(at, flags, method)? else {
        return at.bytes(size);
    };
    let (packed, plain) = (at.u32()?, at.u32()?);
    let begin = at.at;
    let packed = at.bytes(packed.into())?;
    decompress(method, &packed, plain.into()).map_err(|kind| DatError { offset: begin, kind })
}
