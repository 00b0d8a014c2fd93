//! The pages of one CPU, one after the other: events and losses.
//!
//! One page is in memory. A damaged page is reported and the next one is read, since pages have a constant size; an input that
//! ends inside a page yields what the page's header covers, or an error.

use std::io::{self, Read};

use crate::error::{PageError, PageErrorKind};
use crate::page::{Loss, Page, PageLayout, Position, Record};

/// Bytes that a page takes at first, a page of most machines.
const FIRST_READ: usize = 4 << 10;

/// What a stream yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event.
    Event(Record<'a>),
    /// Events were lost between the previous event and `time`, the begin of the page that tells it.
    Loss {
        /// Time of the page, in ns or in the units of the instance's clock.
        time: u64,
        /// Number of lost events, where it is known.
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
    /// Index of the page in `buffer`; pages read so far is one more.
    page: u64,
    offset: u64,
    state: State,
    last: Last,
}

/// The event that was yielded last: where it lies in the page.
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
    /// A stream of pages of this layout.
    pub fn new(input: R, layout: PageLayout) -> PageStream<R> {
        PageStream { input, layout, buffer: Vec::new(), filled: 0, page: 0, offset: 0, state: State::NeedsPage, last: Last::default() }
    }

    /// The same without the input's type.
    pub fn boxed(self) -> PageStream<Box<dyn Read + Send>>
    where
        R: Send + 'static,
    {
        let PageStream { input, layout, buffer, filled, page, offset, state, last } = self;
        PageStream { input: Box::new(input), layout, buffer, filled, page, offset, state, last }
    }

    /// The event that was yielded last, until the next item is asked for; an empty one where there was none.
    #[inline]
    pub fn event(&self) -> Record<'_> {
        let Last { time, id, start, end, offset } = self.last;
        Record { time, id, data: self.buffer.get(start..end).unwrap_or_default(), offset }
    }

    /// The next event or loss; none at the end. After an error the next call goes on with the next page.
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
                    // The borrow of the buffer starts anew here, since it may not outlive a turn of the loop.
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

    /// Calls `each` for every event and loss, and `failed` for every damaged page. Faster than [`PageStream::next_item`].
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

    /// Index of the page that the last item came from.
    pub fn page(&self) -> u64 {
        self.page
    }

    fn leave_page(&mut self) {
        self.state = State::NeedsPage;
        self.page += 1;
        self.offset += self.filled as u64;
        self.filled = 0;
    }

    /// Reads one page; false at the end of the input.
    fn fill(&mut self) -> Result<bool, PageError> {
        let size = self.layout.page_size();
        self.filled = 0;
        while self.filled < size {
            if self.filled == self.buffer.len() {
                // Memory comes as the input backs it: a file with many CPUs may say that pages are long.
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
