//! A ring as its reader sees it: what can be taken now, and what it means.
//!
//! The geometry is copied once, when the ring is opened. Of what is read later, only `head` moves the reader, within bounds, and
//! only the begin and length of sub-buffers are believed, within theirs.

use crate::clock::extend;
use crate::mapping::{Access, Mapping};
use crate::runtime::{Opened, Runtime};
use longpole_abi::{
    Ring as Layout, Subbuffer, MAGIC, RING_DATA, RING_ENDED, RING_MINIMUM, SUBBUFFER_HEADER, VERSION,
};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{fence, Ordering};

const LARGEST: u64 = 1 << 30;

#[derive(Debug)]
pub struct Ring {
    pub name: String,
    pub number: u32,
    pub own: bool,
    pub size: u64,
    pub clock: u32,
    subbuffer: u64,
    mapping: Mapping,
    /// Everything before has been taken.
    pub tail: u64,
    /// `lost` as far as it was accounted for.
    pub reported: u64,
}

/// Events that lie together and become one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub from: u64,
    pub to: u64,
    /// What `tail` becomes.
    pub tail: u64,
    pub begin: u64,
    pub end: u64,
    /// The ring's `lost` when the sub-buffer was begun.
    pub lost: u64,
    pub pid: i32,
    pub tid: i32,
    pub thread: [u8; 32],
    /// From the sub-buffer's begin.
    pub whole: bool,
}

/// Why a ring is not read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its file was cut off")]
    Gone,
    #[error("its head is not where it can be")]
    Head,
    #[error("a sub-buffer has an impossible length")]
    Content,
}

/// What a look at the ring found.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub head: u64,
    /// Header word of the newest event, if it belongs to `head`.
    pub last: Option<u64>,
    pub state: u32,
    pub lost: u64,
}

impl Ring {
    pub fn open(runtime: &Runtime, name: &str, number: u32, own: bool, access: Access) -> io::Result<Ring> {
        let opened = match access {
            Access::Read => runtime.open_readable(name)?,
            _ => runtime.open_writable(name)?,
        };
        Ring::from_file(opened, name, number, own, access)
    }

    fn from_file(opened: Opened, name: &str, number: u32, own: bool, access: Access) -> io::Result<Ring> {
        let data = opened.size.wrapping_sub(RING_DATA as u64);
        if opened.size <= RING_DATA as u64 || !(RING_MINIMUM..=LARGEST).contains(&data) || !data.is_power_of_two() {
            return Err(io::Error::other("the size of the file is none that a ring has"));
        }
        let mapping = Mapping::new(opened.file.as_fd(), opened.size as usize, access)?;
        let Some(layout) = mapping.get::<Layout>(0) else { return Err(io::Error::other("no room for a ring's header")) };
        if layout.magic.load(Ordering::Acquire) != MAGIC || layout.version.load(Ordering::Relaxed) != VERSION {
            return Err(io::Error::other("the header is of another version"));
        }
        let (size, subbuffer) = (layout.size.load(Ordering::Relaxed), layout.subbuffer.load(Ordering::Relaxed));
        let fits = size == data && subbuffer.is_power_of_two() && (4096..=size / 2).contains(&subbuffer);
        if !fits || layout.mask.load(Ordering::Relaxed) != size - 1 {
            return Err(io::Error::other("the header contradicts the size of the file"));
        }
        let tail = layout.tail.load(Ordering::Relaxed);
        let reported = layout.lost_reported.load(Ordering::Relaxed);
        let clock = layout.clock.load(Ordering::Relaxed);
        Ok(Ring { name: name.to_owned(), number, own, size, clock, subbuffer, mapping, tail, reported })
    }

    pub fn layout(&self) -> &Layout {
        // Seen when the ring was opened, and a mapping never changes its size.
        self.mapping.get::<Layout>(0).expect("the mapping holds a ring's header")
    }

    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub fn tid(&self) -> i32 {
        self.layout().tid.load(Ordering::Relaxed)
    }

    /// The state is read first: an ended ring's head is final.
    pub fn look(&self) -> Result<Look, Fault> {
        let layout = self.layout();
        let state = layout.state.load(Ordering::Acquire);
        let mut head = layout.head.load(Ordering::Acquire);
        let mut last = None;
        for _ in 0..4 {
            let header = layout.last.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            let again = layout.head.load(Ordering::Acquire);
            if again == head {
                last = Some(header);
                break;
            }
            head = again;
        }
        let lost = layout.lost.load(Ordering::Acquire);
        if self.mapping.poisoned() {
            return Err(Fault::Gone);
        }
        if head < self.tail || head - self.tail > self.size || head % 8 != 0 {
            return Err(Fault::Head);
        }
        Ok(Look { head, last, state, lost })
    }

    /// The next events that can be taken, given that no packet may begin before `previous`. None: nothing for now. Without
    /// `partial`, a sub-buffer is left alone until it is complete.
    pub fn next(&self, look: &Look, previous: u64, partial: bool) -> Result<Option<Chunk>, Fault> {
        let mut tail = self.tail;
        loop {
            if tail >= look.head {
                return Ok(None);
            }
            let begin = tail - tail % self.subbuffer;
            let next = begin + self.subbuffer;
            let header = self.subbuffer_at(begin)?;
            let from = tail.max(begin + SUBBUFFER_HEADER);
            // A sub-buffer becomes visible together with its first event.
            let complete = look.head > next + SUBBUFFER_HEADER;
            let to = match complete {
                true => {
                    let content = header.content.load(Ordering::Relaxed);
                    if !(SUBBUFFER_HEADER..=self.subbuffer).contains(&content) || content % 8 != 0 {
                        return Err(Fault::Content);
                    }
                    begin + content
                }
                false if look.head > next => return Err(Fault::Head),
                false => look.head,
            };
            if to <= from {
                if !complete {
                    return if to == from { Ok(None) } else { Err(Fault::Head) };
                }
                tail = next;
                continue;
            }
            if !complete && !partial {
                return Ok(None);
            }
            let near = header.begin.load(Ordering::Relaxed);
            let first = extend(near, self.low_time(from));
            let whole = from == begin + SUBBUFFER_HEADER;
            let started = if whole { near.min(first) } else { first };
            let end = if complete {
                let after = self.subbuffer_at(next)?;
                let near = after.begin.load(Ordering::Relaxed);
                near.min(extend(near, self.low_time(next + SUBBUFFER_HEADER)))
            } else {
                match look.last {
                    Some(last) => extend(near, last >> 16),
                    None => return Ok(None),
                }
            };
            if self.mapping.poisoned() {
                return Err(Fault::Gone);
            }
            // An honest ring needs none of these corrections.
            let begin = started.clamp(previous, first.max(previous));
            let mut thread = [0; 32];
            for (byte, from) in thread.iter_mut().zip(&header.thread) {
                *byte = from.load(Ordering::Relaxed);
            }
            return Ok(Some(Chunk {
                from,
                to,
                tail: if complete { next } else { to },
                begin,
                end: end.max(begin),
                lost: header.lost.load(Ordering::Relaxed),
                pid: header.pid.load(Ordering::Relaxed),
                tid: header.tid.load(Ordering::Relaxed),
                thread,
                whole,
            }));
        }
    }

    fn subbuffer_at(&self, position: u64) -> Result<&Subbuffer, Fault> {
        self.mapping.get::<Subbuffer>(self.offset(position)).ok_or(Fault::Head)
    }

    /// Time bits of the event at `position`.
    fn low_time(&self, position: u64) -> u64 {
        let word = self.mapping.get::<std::sync::atomic::AtomicU64>(self.offset(position));
        word.map_or(0, |word| word.load(Ordering::Relaxed) >> 16)
    }

    /// Begin of the sub-buffer that is to be taken next.
    pub fn begun(&self) -> u64 {
        self.tail - self.tail % self.subbuffer
    }

    /// Where a position lies in the mapping.
    pub fn offset(&self, position: u64) -> usize {
        RING_DATA + (position & (self.size - 1)) as usize
    }

    /// A private copy of a chunk's events.
    pub fn copy(&self, chunk: &Chunk, to: &mut Vec<u8>) -> bool {
        to.resize((chunk.to - chunk.from) as usize, 0);
        self.mapping.copy(self.offset(chunk.from), to) && !self.mapping.poisoned()
    }

    /// Gives the room up to `tail` back to the thread.
    pub fn release(&mut self, tail: u64, reported: u64) {
        self.tail = tail;
        self.reported = reported;
        let layout = self.layout();
        layout.lost_reported.store(reported, Ordering::Relaxed);
        layout.tail.store(tail, Ordering::Release);
    }

    pub fn is_ended(&self) -> bool {
        self.layout().state.load(Ordering::Relaxed) == RING_ENDED
    }
}
