//! The pages of one CPU, a page at a time: what comes next, and when.

use super::follow::Running;
use super::Converted;
use longpole_ftrace::{Page, PageLayout};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes read at once.
const READ: usize = 1 << 20;

pub struct Lane {
    pub cpu: u32,
    file: File,
    layout: PageLayout,
    /// Pages that were read, and where the next one begins.
    buffer: Vec<u8>,
    filled: usize,
    at: usize,
    /// The page being yielded: its events as places in `buffer`, and a loss before them.
    events: Vec<Place>,
    next: usize,
    loss: Option<(u64, u64)>,
    /// Time of the last page that could be read.
    time: u64,
    page: u64,
    ended: bool,
    /// Bytes taken from the file.
    pub read: u64,
    pub running: Running,
}

struct Place {
    time: u64,
    id: u16,
    start: u32,
    len: u32,
}

pub enum Next<'a> {
    Event { time: u64, id: u16, data: &'a [u8] },
    Loss { time: u64, count: u64 },
}

impl Lane {
    pub fn open(cpu: u32, path: &Path, layout: PageLayout) -> io::Result<Lane> {
        let file = File::open(path)?;
        Ok(Lane {
            cpu,
            file,
            layout,
            buffer: Vec::new(),
            filled: 0,
            at: 0,
            events: Vec::new(),
            next: 0,
            loss: None,
            time: 0,
            page: 0,
            ended: false,
            read: 0,
            running: Running::default(),
        })
    }

    /// Time of what comes next; reads on where the page is used up. None at the end.
    pub fn time(&mut self, done: &mut Converted) -> io::Result<Option<u64>> {
        loop {
            if let Some((time, _)) = self.loss {
                return Ok(Some(time));
            }
            if let Some(place) = self.events.get(self.next) {
                return Ok(Some(place.time));
            }
            if self.ended {
                return Ok(None);
            }
            self.turn(done)?;
        }
    }

    /// What comes next in this page, if it is not after `until`.
    #[inline]
    pub fn next(&mut self, until: u64) -> Option<Next<'_>> {
        if let Some((time, count)) = self.loss.filter(|(time, _)| *time <= until) {
            self.loss = None;
            return Some(Next::Loss { time, count });
        }
        let place = self.events.get(self.next).filter(|place| place.time <= until && self.loss.is_none())?;
        self.next += 1;
        let data = &self.buffer[place.start as usize..(place.start + place.len) as usize];
        Some(Next::Event { time: place.time, id: place.id, data })
    }

    fn turn(&mut self, done: &mut Converted) -> io::Result<()> {
        self.events.clear();
        self.next = 0;
        let size = self.layout.page_size();
        if self.filled - self.at < size {
            self.fill(size)?;
        }
        let bytes = &self.buffer[self.at..self.filled.min(self.at + size)];
        if bytes.is_empty() {
            self.ended = true;
            return Ok(());
        }
        let mut damage = None;
        match Page::new(&self.layout, bytes, self.page, self.page * size as u64) {
            Ok(page) => {
                self.time = page.time();
                if let Some(loss) = page.loss() {
                    // Without a count at least one is missing; the kernel's final count brings the rest.
                    self.loss = Some((page.time(), loss.count.unwrap_or(1)));
                }
                for record in page.events() {
                    match record {
                        Ok(record) => {
                            let start = record.data.as_ptr() as usize - self.buffer.as_ptr() as usize;
                            let (start, len) = (start as u32, record.data.len() as u32);
                            self.events.push(Place { time: record.time, id: record.id, start, len });
                        }
                        Err(error) => damage = Some(error),
                    }
                }
            }
            Err(error) => damage = Some(error),
        }
        if let Some(error) = damage {
            done.damaged_pages += 1;
            done.note(format!("cpu{}: {error}", self.cpu));
        }
        self.at += bytes.len();
        self.page += 1;
        Ok(())
    }

    /// Moves the rest to the begin and reads on, for at least one page if there is one.
    fn fill(&mut self, page: usize) -> io::Result<()> {
        let room = READ.max(page);
        self.buffer.resize(room, 0);
        self.buffer.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        while self.filled < room {
            match self.file.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
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
