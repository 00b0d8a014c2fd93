//! A stream file of `user/`: written by one thread at a time, readable at every moment.
//!
//! [`StreamFileWriter`] writes the file of one lane: the packets of one thread, or of short-lived
//! threads that use the same ring one after the other.
//!
//! The file grows in steps (sparsely: no space on the disk is reserved) and always ends with an
//! empty packet that covers the bytes that are not used yet. A packet is written into these bytes
//! in two writes. The first writes the packet's events and, after them, the next empty packet; a
//! reader sees neither, because the old empty packet still covers them. The second writes the
//! packet's header over the header of the old empty packet, and the chain of packets is longer.
//! Therefore nothing needs repair after the recorder was killed, or in a copy that was made
//! meanwhile.
//!
//! ```text
//! before        | packet | empty packet ........................ |
//! first write   | packet | (old header) events | empty packet .. |
//! second write  | packet | packet with events  | empty packet .. |
//! ```
//!
//! When a step is used up, its empty packet remains and the file is extended after it, so that an
//! old copy of the empty packet's header remains valid. Between the two system calls that do this,
//! and only there, the file ends in zeros. This happens a few times in the life of a lane;
//! [`crate::recovery`] cuts the zeros off.

use crate::files::mapping::Mapping;
use crate::output::metadata::Uuid;
use crate::output::packet::{padded, Header, HEADER, PAGE, RESERVED_POSITION, THREAD};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Size in bytes from which packets bypass the page cache, if the file system allows it: copying
/// them would cost more than waiting for the disk.
const DIRECT: usize = 64 << 10;
/// First size in bytes of a stream file.
const FIRST_STEP: u64 = 1 << 20;
/// Largest extension in bytes of a stream file.
const LARGEST_STEP: u64 = 256 << 20;
/// Number of packets in one write that bypasses the page cache. Fewer writes are better, because
/// each waits for the disk and has a header to commit.
const PACKETS_PER_WRITE: usize = 2;
/// Bytes of a new stream file on the disk: an empty packet of one page at its begin, and the empty
/// packet at its end.
pub const NEW_FILE_BYTES: u64 = 2 * PAGE as u64;

/// Header values of a packet.
#[derive(Clone, Debug)]
pub struct HeaderValues {
    /// Time of the packet's begin, in clock ticks.
    pub begin: u64,
    /// Time of the packet's end, in clock ticks.
    pub end: u64,
    /// Number of events lost since the begin of the stream file.
    pub discarded: u64,
    pub pid: i32,
    pub tid: i32,
    /// The ring's tail after this packet.
    pub position: u64,
    /// Number of the ring, see [`crate::ring::Ring::packet_number`].
    pub ring: u32,
    /// Name of the thread, padded with NUL.
    pub thread: [u8; 32],
}

/// The events of a packet, in a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    pub mapping: &'a Mapping,
    pub offset: usize,
    pub length: usize,
    /// The bytes before `offset` have room for the packet header, and the packet with its header
    /// begins and ends at page boundaries.
    pub aligned: bool,
    /// A word and the value that it has as long as the events are valid; they may be overwritten
    /// while they are read. `None` if they cannot be overwritten.
    pub identity: Option<(&'a AtomicU64, u64)>,
}

impl Body<'_> {
    fn is_intact(&self) -> bool {
        fence(Ordering::Acquire);
        self.identity.is_none_or(|(word, value)| word.load(Ordering::Relaxed) == value)
    }
}

/// The reason why a packet was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// The events or their memory are gone; the file is unchanged.
    Source,
    Io(io::Error),
}

/// The writer of one stream file.
#[derive(Debug)]
pub struct StreamFileWriter {
    pub number: u32,
    pub path: PathBuf,
    file: File,
    /// The file opened with O_DIRECT; `None` if the file system refuses that.
    direct: Option<File>,
    uuid: Uuid,
    /// Number of the CTF stream class.
    stream: u32,
    /// Label of the process, padded with NUL.
    label: [u8; 128],
    /// Offset of the empty packet at the end.
    at: u64,
    /// Bytes of the file, including the reserved ones.
    size: u64,
    /// Bytes of the newest extension of the file.
    step: u64,
    /// Sequence number of the empty packet at the end.
    sequence: u64,
    /// End time of the newest packet; no later packet begins before it.
    pub end: u64,
    /// Number of lost events in the newest packet's header.
    pub discarded: u64,
    /// Number of lost events that could not be written when they were due.
    pub owed: u64,
    /// Size in bytes of the largest of its rings that lost events.
    pub lost_ring: Option<u64>,
    /// Bytes of events.
    pub recorded: u64,
    /// Header values of the newest packet.
    pub last: Option<HeaderValues>,
    /// Offset of the first packet of the current thread.
    of_thread: u64,
    /// True if packets of the current thread have an older name of the thread.
    renamed: bool,
}

impl StreamFileWriter {
    /// Makes `directory/name`. The file gets this name once it is readable, with one empty packet
    /// without losses.
    pub fn create(
        directory: &Path,
        name: &str,
        (number, stream): (u32, u32),
        uuid: Uuid,
        label: &str,
        first: &HeaderValues,
    ) -> io::Result<StreamFileWriter> {
        let hidden = directory.join(format!(".{name}"));
        let path = directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(&hidden)?;
        let mut lane = StreamFileWriter {
            number,
            path: path.clone(),
            file,
            direct: None,
            uuid,
            stream,
            label: padded(label),
            at: PAGE as u64,
            size: FIRST_STEP,
            step: FIRST_STEP,
            sequence: 0,
            end: first.begin,
            discarded: 0,
            owed: 0,
            lost_ring: None,
            recorded: 0,
            last: None,
            of_thread: 0,
            renamed: false,
        };
        lane.file.set_len(lane.size)?;
        let start = HeaderValues { end: first.begin, discarded: 0, position: first.position, ..first.clone() };
        lane.file.write_all_at(&lane.header(&start, 0, 0), 0)?;
        lane.sequence = 1;
        lane.last = Some(start);
        lane.file.write_all_at(&lane.tail_header(), lane.at)?;
        fs::rename(&hidden, &path)?;
        lane.direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path).ok();
        Ok(lane)
    }

    pub fn set_label(&mut self, label: &str) {
        self.label = padded(label);
    }

    /// Returns the offset of the next packet with `length` bytes of events. Extends the file if
    /// necessary.
    pub fn reserve(&mut self, length: usize) -> io::Result<u64> {
        self.make_room(packet_size(length))
    }

    /// Does the same as [`StreamFileWriter::reserve`] for two consecutive packets.
    pub fn reserve_both(&mut self, lengths: [usize; PACKETS_PER_WRITE]) -> io::Result<u64> {
        self.make_room(lengths.into_iter().map(packet_size).sum())
    }

    fn make_room(&mut self, bytes: u64) -> io::Result<u64> {
        if self.at + bytes + PAGE as u64 > self.size {
            self.step = (self.step * 2).min(LARGEST_STEP);
            let begin = self.size;
            let size = begin + self.step.max(bytes + PAGE as u64);
            self.file.set_len(size)?;
            self.size = size;
            self.at = begin;
            self.sequence += 1;
            self.file.write_all_at(&self.tail_header(), begin)?;
        }
        Ok(self.at)
    }

    /// Returns whether a packet of these events bypasses the page cache.
    pub fn takes_directly(&self, body: &Body<'_>) -> bool {
        body.aligned && packet_size(body.length) as usize >= DIRECT && self.direct.is_some()
    }

    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Appends a packet at the offset that [`StreamFileWriter::reserve`] returned. Returns its
    /// bytes on the disk.
    pub fn append(&mut self, values: HeaderValues, body: Option<Body<'_>>) -> Result<u64, AppendError> {
        let length = body.map_or(0, |body| body.length);
        let size = packet_size(length);
        debug_assert!(self.at + size + PAGE as u64 <= self.size);
        let header = self.header(&values, self.sequence, length);
        let trailer = self.tail_header_after(&values, self.sequence + 1, self.size - self.at - size);
        let whole_pages = match body {
            Some(body) if self.takes_directly(&body) => self.write_direct(&[(header, body)], &trailer)?,
            _ => false,
        };
        if !whole_pages {
            self.write_plain(body, length, size, &header, &trailer)?;
        }
        self.advance(values, length);
        Ok(size)
    }

    /// Appends two packets at the offset that [`StreamFileWriter::reserve_both`] returned, with one
    /// write that bypasses the page cache. Returns their bytes on the disk; `None` if the file
    /// system refused, so that they must be appended one by one.
    pub fn append_both(&mut self, packets: [(HeaderValues, Body<'_>); PACKETS_PER_WRITE]) -> Result<Option<u64>, AppendError> {
        let [(first, one), (second, two)] = packets;
        let size = packet_size(one.length) + packet_size(two.length);
        debug_assert!(self.at + size + PAGE as u64 <= self.size);
        let headers = [self.header(&first, self.sequence, one.length), self.header(&second, self.sequence + 1, two.length)];
        let trailer = self.tail_header_after(&second, self.sequence + 2, self.size - self.at - size);
        if !self.write_direct(&[(headers[0], one), (headers[1], two)], &trailer)? {
            return Ok(None);
        }
        self.advance(first, one.length);
        self.advance(second, two.length);
        Ok(Some(size))
    }

    /// Updates the state after a packet has been written.
    fn advance(&mut self, values: HeaderValues, length: usize) {
        if let Some(last) = &self.last {
            if (last.pid, last.tid) != (values.pid, values.tid) {
                // If this fails, the thread has two names in the trace.
                let _ = self.write_names();
                self.of_thread = self.at;
            } else {
                self.renamed |= last.thread != values.thread;
            }
        }
        self.at += packet_size(length);
        self.sequence += 1;
        self.end = values.end;
        self.discarded = values.discarded;
        self.recorded += length as u64;
        self.last = Some(values);
    }

    /// Writes packets that bypass the page cache. All pages come directly from the ring, except
    /// those with headers. The first page, which commits the packets, is written last through the
    /// page cache. Returns false if the file system refuses such writes.
    fn write_direct(&mut self, packets: &[([u8; HEADER], Body<'_>)], trailer: &[u8; HEADER]) -> Result<bool, AppendError> {
        let Some(direct) = &self.direct else { return Ok(false) };
        let mut pages = vec![Page([0; PAGE]); packets.len() + 1];
        pages[packets.len()].0[..HEADER].copy_from_slice(trailer);
        for ((header, body), page) in packets.iter().zip(&mut pages) {
            if !body.mapping.copy(body.offset - HEADER, &mut page.0) {
                return Err(AppendError::Source);
            }
            page.0[..HEADER].copy_from_slice(header);
        }
        let mut vectors = [vector(&[]); 2 * PACKETS_PER_WRITE];
        for (at, (_, body)) in packets.iter().enumerate() {
            let rest = packet_size(body.length) as usize - PAGE;
            vectors[2 * at] = body.mapping.io_vector(body.offset - HEADER + PAGE, rest).ok_or(AppendError::Source)?;
            vectors[2 * at + 1] = vector(&pages[at + 1].0);
        }
        match write_vectors(direct, &vectors[..2 * packets.len()], self.at + PAGE as u64) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.direct = None;
                return Ok(false);
            }
            Err(error) => return Err(failure(error)),
        }
        if packets.iter().any(|(_, body)| body.mapping.poisoned() || !body.is_intact()) {
            return Err(AppendError::Source);
        }
        self.file.write_all_at(&pages[0].0, self.at).map_err(AppendError::Io)?;
        Ok(true)
    }

    /// Writes a packet through the page cache. All pages are written whole, so that no page has to
    /// be read first.
    fn write_plain(
        &mut self,
        body: Option<Body<'_>>,
        length: usize,
        size: u64,
        header: &[u8; HEADER],
        trailer: &[u8; HEADER],
    ) -> Result<(), AppendError> {
        static ZEROS: [u8; PAGE] = [0; PAGE];
        let before = self.tail_header();
        let padding = size as usize - HEADER - length;
        let trailing = vector(trailer);
        let zeros = |length: usize| vector(&ZEROS[..length]);
        let result = match body {
            Some(body) => {
                let events = body.mapping.io_vector(body.offset, length).ok_or(AppendError::Source)?;
                let all = [vector(&before), events, zeros(padding), trailing, zeros(PAGE - HEADER)];
                write_vectors(&self.file, &all, self.at)
            }
            None => write_vectors(&self.file, &[vector(&before), zeros(padding), trailing, zeros(PAGE - HEADER)], self.at),
        };
        result.map_err(failure)?;
        if body.is_some_and(|body| !body.is_intact()) {
            return Err(AppendError::Source);
        }
        self.file.write_all_at(header, self.at).map_err(AppendError::Io)
    }

    /// Sets the name of the newest packet's thread.
    pub fn name(&mut self, pid: i32, tid: i32, thread: [u8; 32]) {
        if let Some(last) = self.last.as_mut().filter(|last| (last.pid, last.tid) == (pid, tid) && last.thread != thread) {
            last.thread = thread;
            self.renamed = true;
        }
    }

    /// Overwrites the thread name in all packets of the current thread with its newest name.
    /// Otherwise a thread that is named after its first event would be two threads to readers. The
    /// name is overwritten in place, so the file is readable all the time.
    pub fn write_names(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.renamed) {
            return Ok(());
        }
        let Some(last) = &self.last else { return Ok(()) };
        let mut at = self.of_thread;
        while at < self.at {
            let mut bytes = [0; HEADER];
            self.file.read_exact_at(&mut bytes, at)?;
            let Some(header) = Header::decode(&bytes, &self.uuid).filter(|header| header.size > 0) else { break };
            if (header.pid, header.tid) == (last.pid, last.tid) && header.thread != last.thread {
                self.file.write_all_at(&last.thread, at + THREAD)?;
            }
            at += header.size;
        }
        Ok(())
    }

    /// Writes the losses that are still due. They are written at the lane's end, because readers
    /// may already have read everything before it.
    pub fn write_owed_losses(&mut self) -> io::Result<()> {
        let Some(last) = self.last.clone().filter(|_| self.owed > 0) else { return Ok(()) };
        let values = HeaderValues { begin: self.end, end: self.end, discarded: self.discarded.saturating_add(self.owed), ..last };
        self.reserve(0)?;
        match self.append(values, None) {
            Err(AppendError::Io(error)) => return Err(error),
            Err(AppendError::Source) | Ok(_) => self.owed = 0,
        }
        Ok(())
    }

    /// Entry of the lane in `longpole.json`.
    pub fn describe(&self) -> serde_json::Value {
        let file = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let last = self.last.as_ref();
        serde_json::json!({
            "file": format!("user/{file}"),
            "label": crate::text::printable(&self.label),
            "pid": last.map(|last| last.pid),
            "tid": last.map(|last| last.tid),
            "thread": last.map(|last| crate::text::printable(&last.thread)),
            "recorded_bytes": self.recorded,
            "bytes": self.at,
            "lost": self.discarded,
            "lost_ring_bytes": self.lost_ring,
        })
    }

    /// Truncates the file to the bytes in use.
    pub fn close(self) -> io::Result<()> {
        self.file.set_len(self.at)
    }

    /// Header of a packet with `length` bytes of events.
    fn header(&self, values: &HeaderValues, sequence: u64, length: usize) -> [u8; HEADER] {
        let header = Header {
            begin: values.begin,
            end: values.end,
            content: (HEADER + length) as u64,
            size: packet_size(length),
            sequence,
            discarded: values.discarded,
            pid: values.pid,
            tid: values.tid,
            position: values.position,
            label: self.label,
            thread: values.thread,
            lane: self.number,
            ring: values.ring,
            stream: self.stream,
        };
        header.encode(&self.uuid)
    }

    /// Header of the empty packet after `before`.
    fn tail_header_after(&self, before: &HeaderValues, sequence: u64, size: u64) -> [u8; HEADER] {
        let header = Header {
            begin: before.end,
            end: before.end,
            content: HEADER as u64,
            size,
            sequence,
            discarded: before.discarded,
            pid: before.pid,
            tid: before.tid,
            position: RESERVED_POSITION,
            label: self.label,
            thread: before.thread,
            lane: self.number,
            ring: before.ring,
            stream: self.stream,
        };
        header.encode(&self.uuid)
    }

    /// Header of the current empty packet at the end.
    fn tail_header(&self) -> [u8; HEADER] {
        match &self.last {
            Some(last) => self.tail_header_after(last, self.sequence, self.size - self.at),
            None => [0; HEADER],
        }
    }
}

#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; PAGE]);

fn packet_size(length: usize) -> u64 {
    ((HEADER + length) as u64).next_multiple_of(PAGE as u64)
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() }
}

fn failure(error: io::Error) -> AppendError {
    match error.raw_os_error() {
        Some(libc::EFAULT) => AppendError::Source,
        _ => AppendError::Io(error),
    }
}

/// Writes all vectors at `offset`. Their memory belongs to the caller or to a guarded mapping; only
/// the kernel reads it.
fn write_vectors(file: &File, vectors: &[libc::iovec], offset: u64) -> io::Result<()> {
    let total: usize = vectors.iter().map(|vector| vector.iov_len).sum();
    let mut done = 0;
    let mut rest: [libc::iovec; 8] = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 8];
    while done < total {
        let mut skip = done;
        let mut count = 0;
        for vector in vectors {
            if skip >= vector.iov_len {
                skip -= vector.iov_len;
                continue;
            }
            // SAFETY: `skip` is less than the vector's length.
            let base = unsafe { vector.iov_base.cast::<u8>().add(skip) };
            rest[count] = libc::iovec { iov_base: base.cast(), iov_len: vector.iov_len - skip };
            skip = 0;
            count += 1;
        }
        // SAFETY: the vectors point to memory that is mapped during the call. If a file has shrunk
        // under a mapping, the call fails with EFAULT.
        let written = unsafe { libc::pwritev(file.as_raw_fd(), rest.as_ptr(), count as i32, (offset + done as u64) as i64) };
        match written {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written if written > 0 => done += written as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}
