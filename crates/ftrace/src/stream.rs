//! The pages of one CPU as a stream of events and losses.
//!
//! Only one page is in memory. A damaged page is reported, and reading continues with the next one,
//! because pages have a constant size. If the input ends within a page, the part that its header
//! covers is decoded; if that part is incomplete, an error is returned.

use std::io::{self, Read};

use crate::error::{PageError, PageErrorKind};
use crate::page::{Loss, Page, PageLayout, Position, Record};

/// Number of bytes that are allocated first for a page: the page size of most hosts.
const FIRST_READ: usize = 4 << 10;

/// An item of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event.
    Event(Record<'a>),
    /// Events were lost between the previous event and `time`, the start of the page that reports
    /// the loss.
    Loss {
        /// Time of the page, in ns or in the units of the instance's clock.
        time: u64,
        /// Number of lost events, if known.
        loss: Loss,
    },
}

/// Reads pages from any byte source: a file of spliced pages, a slice, a CPU of a trace.dat.
#[derive(Debug)]
pub struct PageStream<R> {
    input: R,
    layout: PageLayout,
    buffer: Vec<u8>,
    filled: usize,
    /// Index of the page in `buffer`; one less than the number of pages read.
    page: u64,
    offset: u64,
    state: State,
    last: Last,
}

/// Place of the event that was returned last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    time: u64,
    id: u16,
    start: usize,
    end: usize,
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    NeedsPage,
    /// Place and time reached in the page.
    Within(Position),
    Ended,
}

impl<R: Read> PageStream<R> {
    /// Creates a stream of pages of this layout.
    pub fn new(input: R, layout: PageLayout) -> PageStream<R> {
        PageStream { input, layout, buffer: Vec::new(), filled: 0, page: 0, offset: 0, state: State::NeedsPage, last: Last::default() }
    }

    /// The same stream without the type of the input.
    pub fn boxed(self) -> PageStream<Box<dyn Read + Send>>
    where
        R: Send + 'static,
    {
        let PageStream { input, layout, buffer, filled, page, offset, state, last } = self;
        PageStream { input: Box::new(input), layout, buffer, filled, page, offset, state, last }
    }

    /// The event that was returned last, until the next item is read; an empty record if there was
    /// none.
    #[inline]
    pub fn event(&self) -> Record<'_> {
        let Last { time, id, start, end, offset } = self.last;
        Record { time, id, data: self.buffer.get(start..end).unwrap_or_default(), offset }
    }

    /// Returns the next event or loss; `None` at the end. After an error the next call continues
    /// with the next page.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, PageError> {
        loop {
            match self.state {
                State::Ended => return Ok(None),
                State::Within(head) => {
                    // The header was checked when the page was read.
                    let bytes = &self.buffer[..self.filled];
                    let mut events = head.events(&self.layout, bytes, (self.page, self.offset));
                    let Some(next) = events.next() else {
                        self.leave_page();
                        continue;
                    };
                    self.state = State::Within(events.position());
                    // Borrows the buffer again, because the first borrow must not outlive the
                    // iteration of the loop.
                    return match next {
                        Ok(Record { time, id, data, offset }) => {
                            let start = data.as_ptr() as usize - self.buffer.as_ptr() as usize;
                            let data = &self.buffer[start..start + data.len()];
                            self.last = Last { time, id, start, end: start + data.len(), offset };
                            Ok(Some(Item::Event(Record { time, id, data, offset })))
                        }
                        Err(error) => {
                            self.leave_page();
                            Err(error)
                        }
                    };
                }
                State::NeedsPage => {
                    if !self.fill()? {
                        self.state = State::Ended;
                        return Ok(None);
                    }
                    let page = match Page::new(&self.layout, &self.buffer[..self.filled], self.page, self.offset) {
                        Ok(page) => page,
                        Err(error) => {
                            self.leave_page();
                            return Err(error);
                        }
                    };
                    let time = page.time();
                    self.state = State::Within(page.events().position());
                    if let Some(loss) = page.loss() {
                        return Ok(Some(Item::Loss { time, loss }));
                    }
                }
            }
        }
    }

    /// Calls `each` for every event and loss, and `failed` for every damaged page. Faster than
    /// [`PageStream::next_item`].
    pub fn for_each(&mut self, mut each: impl FnMut(Item<'_>), mut failed: impl FnMut(PageError)) {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed(error);
                    break;
                }
            }
            match Page::new(&self.layout, &self.buffer[..self.filled], self.page, self.offset) {
                Ok(page) => {
                    if let Some(loss) = page.loss() {
                        each(Item::Loss { time: page.time(), loss });
                    }
                    for event in page.events() {
                        match event {
                            Ok(record) => each(Item::Event(record)),
                            Err(error) => failed(error),
                        }
                    }
                }
                Err(error) => failed(error),
            }
            self.leave_page();
        }
        self.state = State::Ended;
    }

    /// Index of the page of the last item.
    pub fn page(&self) -> u64 {
        self.page
    }

    fn leave_page(&mut self) {
        self.state = State::NeedsPage;
        self.page += 1;
        self.offset += self.filled as u64;
        self.filled = 0;
    }

    /// Reads one page; returns `false` at the end of the input.
    fn fill(&mut self) -> Result<bool, PageError> {
        let size = self.layout.page_size();
        self.filled = 0;
        while self.filled < size {
            if self.filled == self.buffer.len() {
                // Memory grows with the data that the input really has: a file can claim long pages
                // for many CPUs.
                self.buffer.resize((2 * self.filled).max(FIRST_READ).min(size), 0);
            }
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(count) => self.filled = (self.filled + count).min(self.buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.state = State::Ended;
                    return Err(PageError {
                        page: self.page,
                        page_offset: self.offset,
                        offset: self.filled,
                        kind: PageErrorKind::Io(error.to_string()),
                    });
                }
            }
        }
        Ok(self.filled > 0)
    }
}
