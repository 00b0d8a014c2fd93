//! Decodes one page (sub-buffer) of a per-CPU ring buffer, in the form in which `trace_pipe_raw`
//! delivers it.
//!
//! A page begins with a full timestamp and the number of bytes of its events. The two highest bits
//! of that number report events that were lost before the page. Each event begins with a word of 5
//! bits type or length and 27 bits time since the previous event. If 27 bits are not sufficient, an
//! extension or an absolute timestamp of 59 bits precedes the event; the 5 highest bits of an
//! absolute timestamp are those of the time before it.
//!
//! The decoder borrows the page and allocates nothing. Each step advances by at least 4 bytes, so
//! it ends for any input. After an error no more events of the page are returned, because nothing
//! in a page marks where an event begins.

use crate::byte_order::ByteOrder;
use crate::error::{FormatError, FormatErrorKind, PageError, PageErrorKind};
use crate::format::{EventFormat, Field};

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 27) - 1;
const TIME_SHIFT: u32 = 27;
/// The bits of a time that an absolute timestamp does not hold.
const TIME_MSB: u64 = 0xf8 << 56;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The layout of the pages of a kernel, from `events/header_page` and the common fields of its
/// events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Byte order of the recorded host.
    pub order: ByteOrder,
    time_offset: usize,
    commit_offset: usize,
    /// Size of the length field, which is also the size of the kernel's `long`.
    commit_size: usize,
    data_offset: usize,
    data_size: usize,
    id_offset: usize,
    id_size: usize,
}

/// Maximum size of a page: the largest sub-buffer that a kernel supports. Bounds the memory that a
/// header can request.
const MAX_PAGE: usize = 2 << 20;

impl PageLayout {
    /// Parses the text of `events/header_page`.
    ///
    /// # Errors
    ///
    /// A missing field, or sizes that no kernel uses.
    pub fn parse(text: &str, order: ByteOrder) -> Result<PageLayout, FormatError> {
        let (mut time, mut commit, mut data) = (None, None, None);
        let mut last = 1;
        for (index, line) in text.lines().enumerate() {
            last = index + 1;
            let line = line.trim();
            if !line.starts_with("field:") {
                continue;
            }
            let field = Field::parse(line).map_err(|kind| FormatError { line: last, kind })?;
            match field.name.as_str() {
                "timestamp" => time = Some(field),
                "commit" => commit = Some(field),
                "data" => data = Some(field),
                _ => {}
            }
        }
        let missing = |what| FormatError { line: last, kind: FormatErrorKind::Missing(what) };
        let time = time.ok_or(missing("field: u64 timestamp"))?;
        let commit = commit.ok_or(missing("field: local_t commit"))?;
        let data = data.ok_or(missing("field: char data"))?;
        let wrong = |what, value: u32| Err(FormatError { line: last, kind: FormatErrorKind::Header { what, value: value.into() } });
        if time.size != 8 {
            return wrong("timestamp size", time.size);
        }
        if !matches!(commit.size, 4 | 8) {
            return wrong("commit size", commit.size);
        }
        let header_end = (time.offset as usize).saturating_add(8).max((commit.offset as usize).saturating_add(8));
        let end = (data.offset as usize).saturating_add(data.size as usize);
        if end > MAX_PAGE || header_end > MAX_PAGE {
            return wrong("page size", data.size);
        }
        if (data.offset as usize) < (time.offset + 8).max(commit.offset + commit.size) as usize {
            return wrong("data offset", data.offset);
        }
        Ok(PageLayout {
            order,
            time_offset: time.offset as usize,
            commit_offset: commit.offset as usize,
            commit_size: commit.size as usize,
            data_offset: data.offset as usize,
            data_size: data.size as usize,
            id_offset: 0,
            id_size: 2,
        })
    }

    /// The same layout with the place of `common_type` from an event's format. Otherwise the first
    /// two bytes of a record are used, where all known kernels have it.
    pub fn with_ids_of(mut self, format: &EventFormat) -> PageLayout {
        if let Some(field) = format.common.iter().find(|f| f.name == "common_type" && matches!(f.size, 1 | 2 | 4)) {
            self.id_offset = field.offset as usize;
            self.id_size = field.size as usize;
        }
        self
    }

    /// The same layout with another page size, header included: the buffers of an instance can
    /// differ from the pages of the host.
    pub fn with_page_size(mut self, bytes: usize) -> PageLayout {
        self.data_size = bytes.min(MAX_PAGE).saturating_sub(self.data_offset);
        self
    }

    /// Size of a page (sub-buffer) in bytes, header included.
    pub fn page_size(&self) -> usize {
        self.data_offset + self.data_size
    }

    /// Size of the kernel's `long` in bytes: 4 or 8.
    pub fn long_size(&self) -> usize {
        self.commit_size
    }

    /// Offset of the first event in a page.
    pub fn data_offset(&self) -> usize {
        self.data_offset
    }
}

/// Events that the kernel discarded before a page: the buffer was full, or was overwritten before
/// it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of lost events, if the kernel states it.
    pub count: Option<u64>,
}

/// An event as stored in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in units of the instance's clock.
    pub time: u64,
    /// Id of the event's format (`common_type`).
    pub id: u16,
    /// The record: common fields first, and up to 7 bytes of padding at the end.
    pub data: &'a [u8],
    /// Offset of the event in its page.
    pub offset: usize,
}

/// A page with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    bytes: &'a [u8],
    layout: PageLayout,
    time: u64,
    /// End of the events in `bytes`.
    end: usize,
    loss: Option<Loss>,
    place: (u64, u64),
}

impl<'a> Page<'a> {
    /// Checks the header of a page. `page` and `page_offset` only identify the page in errors.
    pub fn new(layout: &PageLayout, bytes: &'a [u8], page: u64, page_offset: u64) -> Result<Page<'a>, PageError> {
        let error = |offset, kind| PageError { page, page_offset, offset, kind };
        let number = |offset: usize, size: usize| bytes.get(offset..offset + size).and_then(|b| layout.order.unsigned(b));
        let truncated = || error(bytes.len(), PageErrorKind::Truncated { need: layout.page_size(), have: bytes.len() });
        let time = number(layout.time_offset, 8).ok_or_else(truncated)?;
        let word = number(layout.commit_offset, layout.commit_size).ok_or_else(truncated)?;
        let commit = (word & COMMIT_MASK) as usize;
        let end = layout.data_offset + commit;
        if commit > layout.data_size {
            return Err(error(layout.commit_offset, PageErrorKind::CommitBeyondPage { commit, room: layout.data_size }));
        }
        if end > bytes.len() {
            return Err(error(bytes.len(), PageErrorKind::Truncated { need: end, have: bytes.len() }));
        }
        let loss = (word & MISSED_EVENTS != 0)
            .then(|| Loss { count: if word & MISSED_STORED != 0 { number(end, layout.commit_size) } else { None } });
        Ok(Page { bytes, layout: *layout, time, end, loss, place: (page, page_offset) })
    }

    /// Time at the page's start.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The loss before the page's first event.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// Creates an error for this page, for a caller that found it by other means.
    pub fn error(&self, kind: PageErrorKind) -> PageError {
        PageError { page: self.place.0, page_offset: self.place.1, offset: self.layout.time_offset, kind }
    }

    /// Size of the events in bytes.
    pub fn len(&self) -> usize {
        self.end - self.layout.data_offset
    }

    /// Returns `true` if the page has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events of the page.
    pub fn events(&self) -> Events<'a> {
        Events { page: *self, at: self.layout.data_offset, time: self.time }
    }
}

/// Iterates over the events of a page. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    page: Page<'a>,
    at: usize,
    time: u64,
}

impl<'a> Events<'a> {
    /// The current place and time, from which iteration can be resumed.
    pub(crate) fn position(&self) -> Position {
        Position { at: self.at, end: self.page.end, time: self.time }
    }

    fn fail(&mut self, offset: usize, kind: PageErrorKind) -> PageError {
        self.at = self.page.end;
        PageError { page: self.page.place.0, page_offset: self.page.place.1, offset, kind }
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.page.bytes.get(..self.page.end)?.get(at..at + 4)?.try_into().ok()?;
        Some(match self.page.layout.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }
}

/// The place of an iterator in a page with a valid header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    at: usize,
    end: usize,
    time: u64,
}

impl Position {
    /// Resumes iteration in the same bytes.
    #[inline]
    pub(crate) fn events<'a>(self, layout: &PageLayout, bytes: &'a [u8], place: (u64, u64)) -> Events<'a> {
        let page = Page { bytes, layout: *layout, time: self.time, end: self.end, loss: None, place };
        Events { page, at: self.at, time: self.time }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Record<'a>, PageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.page.end {
            let begin = self.at;
            let left = self.page.end - begin;
            let beyond = |need: u64| PageErrorKind::EventBeyondCommit { need, have: left };
            let Some(word) = self.word(begin) else {
                return Some(Err(self.fail(begin, beyond(4))));
            };
            let (kind, delta) = match self.page.layout.order {
                ByteOrder::Little => (word & 31, u64::from(word >> 5)),
                ByteOrder::Big => (word >> 27, u64::from(word & ((1 << 27) - 1))),
            };
            // Padding without a time fills the rest of the page, and has no second word.
            if kind == PADDING && delta == 0 {
                self.at = self.page.end;
                return None;
            }
            let (start, length) = if (1..PADDING).contains(&kind) {
                (begin + 4, u64::from(kind) * 4)
            } else {
                let Some(second) = self.word(begin + 4) else {
                    return Some(Err(self.fail(begin, beyond(8))));
                };
                match kind {
                    TIME_EXTEND => {
                        self.time = self.time.wrapping_add((u64::from(second) << TIME_SHIFT) + delta);
                        self.at = begin + 8;
                        continue;
                    }
                    TIME_STAMP => {
                        self.time = absolute((u64::from(second) << TIME_SHIFT) + delta, self.time);
                        self.at = begin + 8;
                        continue;
                    }
                    // The length includes its own word. Padding of this kind is an event that was
                    // discarded by its writer.
                    _ if second < 4 => return Some(Err(self.fail(begin, PageErrorKind::EventLength { length: second }))),
                    PADDING => {
                        let total = 4 + u64::from(second);
                        if total > left as u64 {
                            return Some(Err(self.fail(begin, beyond(total))));
                        }
                        // A time of 1 marks a discarded event that had no time of its own.
                        if delta != 1 {
                            self.time = self.time.wrapping_add(delta);
                        }
                        self.at = begin + total as usize;
                        continue;
                    }
                    _ => (begin + 8, u64::from(second) - 4),
                }
            };
            let end = start as u64 + length;
            if end > self.page.end as u64 {
                return Some(Err(self.fail(begin, beyond(end - begin as u64))));
            }
            let end = end as usize;
            // Lengths are rounded up to a multiple of 4, as the kernel does; otherwise the next
            // event would be read at a wrong place.
            self.at = ((end + 3) & !3).min(self.page.end);
            self.time = self.time.wrapping_add(delta);
            let data = &self.page.bytes[start..end];
            let layout = &self.page.layout;
            let id = data.get(layout.id_offset..layout.id_offset + layout.id_size);
            let Some(id) = id.and_then(|b| layout.order.unsigned(b)) else {
                return Some(Err(self.fail(begin, PageErrorKind::EventLength { length: length as u32 })));
            };
            return Some(Ok(Record { time: self.time, id: id as u16, data, offset: begin }));
        }
        None
    }
}

/// Completes an absolute timestamp of 59 bits by the time before it. If the result is earlier than
/// that time, the clock has crossed a 2⁵⁹ boundary in between.
fn absolute(stamp: u64, before: u64) -> u64 {
    if before & TIME_MSB == 0 {
        return stamp;
    }
    let full = stamp | before & TIME_MSB;
    if full < before {
        full.wrapping_add(1 << 59)
    } else {
        full
    }
}
