//! Reads the pages of one CPU, one page at a time, and yields the next event or loss with its time.
//!
//! A page whose header or time cannot be true is left out and counted as a loss. A page contains no
//! proof of its time, so the time is compared with that of the recording and of the surrounding
//! pages. Otherwise a single damaged bit would move all later events by years.

use super::Converted;
use longpole_ftrace::{Page, PageErrorKind, PageLayout};
use std::fs::File;
use std::io::{self, Read};

/// Bytes read at once.
const READ: usize = 1 << 20;
/// Number of following pages that are compared with a page to see if its time can be true.
const COMPARED_PAGES: usize = 3;

/// Limits for the content of a CPU's pages, known from the recording.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time in ticks before which there is no event.
    pub begin: u64,
    /// Time in ticks after which there is no event.
    pub end: u64,
    /// Difference in ticks up to which two times do not contradict each other.
    pub slack: u64,
    /// Largest number of events that can be missing.
    pub most_lost: u64,
}

/// Reader of the pages of one CPU.
pub struct CpuPages {
    pub cpu: u32,
    /// The file of pages. `None` if there is none, which was reported before, and after it was read
    /// completely.
    file: Option<File>,
    layout: PageLayout,
    bounds: Bounds,
    /// Bytes of pages that were read from the file.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are filled.
    filled: usize,
    /// Position in `buffer` of the next page.
    at: usize,
    /// The current page: a loss before its events. Next come its events, as positions in `buffer`,
    /// and a loss after them.
    before: Option<Lost>,
    events: Vec<BufferedEvent>,
    next: usize,
    after: Option<Lost>,
    /// The latest time that was accepted as true, in ticks.
    last: u64,
    page: u64,
    ended: bool,
    /// True if the file is still being written. Then the end of the file is not that of the pages.
    grows: bool,
    /// Bytes read from the file.
    pub read: u64,
    /// Events that were yielded.
    pub found: u64,
}

/// Position of an event in the buffer.
struct BufferedEvent {
    time: u64,
    id: u16,
    start: u32,
    len: u32,
}

/// A loss before or after the events of a page.
#[derive(Clone, Copy)]
struct Lost {
    time: u64,
    count: u64,
    gap: bool,
}

/// What [`CpuPages::next`] returns.
pub enum Next<'a> {
    Event {
        time: u64,
        id: u16,
        data: &'a [u8],
    },
    /// At least `count` events are missing. With `gap`, their number is not known.
    Loss {
        time: u64,
        count: u64,
        gap: bool,
    },
}

impl CpuPages {
    pub fn new(cpu: u32, file: Option<File>, layout: PageLayout, bounds: Bounds) -> CpuPages {
        CpuPages {
            cpu,
            file,
            layout,
            bounds,
            buffer: Vec::new(),
            filled: 0,
            at: 0,
            before: None,
            events: Vec::new(),
            next: 0,
            after: None,
            last: bounds.begin,
            page: 0,
            ended: false,
            grows: false,
            read: 0,
            found: 0,
        }
    }

    /// Reads a file that is still being written.
    pub fn growing(self) -> CpuPages {
        CpuPages { grows: true, ..self }
    }

    /// Looks for pages that were written since the end was reached.
    pub fn look_again(&mut self) {
        self.ended = false;
    }

    /// Returns the time of the next event or loss in ticks. Reads the next page if the current one
    /// is used up; `None` at the end of the file.
    pub fn time(&mut self, done: &mut Converted) -> io::Result<Option<u64>> {
        loop {
            let event = self.events.get(self.next).map(|place| place.time);
            if let Some(time) = self.before.map(|lost| lost.time).or(event).or(self.after.map(|lost| lost.time)) {
                return Ok(Some(time));
            }
            if self.ended {
                return Ok(None);
            }
            self.turn(done)?;
        }
    }

    /// Returns the next event or loss of the current page, if it is not later than `until`.
    #[inline]
    pub fn next(&mut self, until: u64) -> Option<Next<'_>> {
        if self.before.is_some() {
            return loss(&mut self.before, until);
        }
        let Some(place) = self.events.get(self.next) else { return loss(&mut self.after, until) };
        if place.time > until {
            return None;
        }
        self.next += 1;
        self.found += 1;
        let data = &self.buffer[place.start as usize..(place.start + place.len) as usize];
        Some(Next::Event { time: place.time, id: place.id, data })
    }

    fn turn(&mut self, done: &mut Converted) -> io::Result<()> {
        self.events.clear();
        self.next = 0;
        let size = self.layout.page_size();
        if self.filled - self.at < size * (COMPARED_PAGES + 1) {
            self.fill(size)?;
        }
        let bytes = &self.buffer[self.at..self.filled.min(self.at + size)];
        if bytes.is_empty() || self.grows && bytes.len() < size {
            self.ended = true;
            return Ok(());
        }
        let after = self.times_after(size);
        let mut damage = None;
        match Page::new(&self.layout, bytes, self.page, self.page * size as u64) {
            Ok(page) if self.is_plausible(page.time(), &after) => {
                if let Some(loss) = page.loss() {
                    // A loss without a count is at least one event. The rest is added from the
                    // kernel's final counters.
                    let count = loss.count.unwrap_or(1);
                    let gap = count > self.bounds.most_lost;
                    if gap {
                        damage = Some(page.error(PageErrorKind::Lost { count, most: self.bounds.most_lost }));
                    }
                    self.before = Some(Lost { time: page.time(), count: if gap { 1 } else { count }, gap });
                }
                // All events of this page are earlier than the first event of the next page.
                let latest = after.iter().filter(|time| **time >= page.time()).min().copied().unwrap_or(self.bounds.end);
                let latest = latest.saturating_add(self.bounds.slack);
                let mut last = page.time();
                for record in page.events() {
                    match record {
                        Ok(record) if record.time.saturating_add(self.bounds.slack) >= last && record.time <= latest => {
                            last = last.max(record.time);
                            let start = record.data.as_ptr() as usize - self.buffer.as_ptr() as usize;
                            let (start, len) = (start as u32, record.data.len() as u32);
                            self.events.push(BufferedEvent { time: record.time, id: record.id, start, len });
                        }
                        Ok(record) => {
                            damage = Some(page.error(PageErrorKind::Time { time: record.time, earliest: last, latest }));
                        }
                        Err(error) => damage = Some(error),
                    }
                    if damage.is_some() {
                        break;
                    }
                }
                self.last = last;
            }
            Ok(page) => {
                let latest = after.iter().min().copied().unwrap_or(self.bounds.end);
                damage = Some(page.error(PageErrorKind::Time { time: page.time(), earliest: self.last, latest }));
            }
            Err(error) => damage = Some(error),
        }
        if let Some(error) = damage {
            done.damaged_pages += 1;
            done.note(format!("cpu{}: {error}", self.cpu));
            // The loss lasts until the next page whose time can be true.
            let next = after.iter().filter(|time| **time >= self.last).min().copied();
            self.after = Some(Lost { time: next.unwrap_or(self.last), count: 1, gap: true });
        }
        self.at += bytes.len();
        self.page += 1;
        Ok(())
    }

    /// Returns the times of the next pages, without those that cannot be true.
    fn times_after(&self, size: usize) -> Vec<u64> {
        let page = |index: usize| {
            let at = self.at + index * size;
            let bytes = self.buffer.get(at..self.filled.min(at + size))?;
            let time = Page::new(&self.layout, bytes, 0, 0).ok()?.time();
            self.is_possible(time).then_some(time)
        };
        (1..=COMPARED_PAGES).filter_map(page).collect()
    }

    fn is_possible(&self, time: u64) -> bool {
        let Bounds { end, slack, .. } = self.bounds;
        time.saturating_add(slack) >= self.last && time <= end
    }

    /// True if the time of a page can be true and most of the following pages are not earlier.
    /// `after` are the times from [`CpuPages::times_after`].
    fn is_plausible(&self, time: u64, after: &[u64]) -> bool {
        let before = after.iter().filter(|next| next.saturating_add(self.bounds.slack) < time).count();
        self.is_possible(time) && 2 * before <= after.len()
    }

    /// Moves the unread rest to the start of the buffer and reads more: at least one page and the
    /// following ones that it is compared with, if the file has them.
    fn fill(&mut self, page: usize) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        // Allocate no more than the file has left: otherwise many small files that claim large
        // pages would take memory for them.
        let left = file.metadata()?.len().saturating_sub(self.read);
        let rest = self.filled - self.at;
        let room = READ.max(page * (COMPARED_PAGES + 1)).min(rest.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
        self.buffer.resize(room.max(self.filled), 0);
        self.buffer.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        if left == 0 {
            self.file = self.file.take().filter(|_| self.grows);
            return Ok(());
        }
        while self.filled < room {
            match file.read(&mut self.buffer[self.filled..]) {
                Ok(0) => {
                    self.file = self.file.take().filter(|_| self.grows);
                    break;
                }
                Ok(count) => {
                    self.filled += count;
                    self.read += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn loss(lost: &mut Option<Lost>, until: u64) -> Option<Next<'static>> {
    let Lost { time, count, gap } = lost.filter(|lost| lost.time <= until)?;
    *lost = None;
    Some(Next::Loss { time, count, gap })
}
