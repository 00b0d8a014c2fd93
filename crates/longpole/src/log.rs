//! `record --log`: prints events as text while they are recorded, in the format of `longpole
//! print`.
//!
//! A separate thread reads what the recorder has written to the recording. The recording is the
//! buffer: a reader that reads the text slowly, or not at all, blocks neither the recorder nor the
//! programs.

use crate::input::chunks::Chain;
use crate::render::events::Printer;
use longpole_trace::Item;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two reads of the recording.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of recorder periods after which an event is certainly in the recording's files. A
/// sub-buffer may be completed, and the next one begun, just before a period ends; and the
/// recorder's turn itself takes time.
pub const PERIODS_UNTIL_WRITTEN: u32 = 3;
/// Time after which a reader that takes no byte is given up, once the recording has ended.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Log {
    thread: JoinHandle<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Set when the recording has ended.
    ended: AtomicBool,
    /// Number of bytes that the reader has taken.
    taken: AtomicU64,
}

/// Writes to stdout and counts the bytes.
struct Counted {
    shared: Arc<Shared>,
    sink: io::Stdout,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Writes in small pieces, so that progress of a slow reader is noticed.
        let piece = &bytes[..bytes.len().min(4 << 10)];
        let mut sink = self.sink.lock();
        sink.write_all(piece)?;
        sink.flush()?;
        self.shared.taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Starts the log. `chunks` yields the chunks that follow `recording`; `period` is the
    /// recorder's.
    pub fn begin(recording: PathBuf, chunks: Receiver<PathBuf>, period: Duration) -> io::Result<Log> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || {
            let sink = Counted { shared: theirs.clone(), sink: io::stdout() };
            match follow((recording, chunks), period, &theirs.ended, Printer::new(sink)) {
                Err(error) if crate::is_broken_pipe(&error) => {
                    if !theirs.ended.load(Ordering::Acquire) {
                        eprintln!("longpole: the reader of the log has ended; the recording continues");
                    }
                }
                Err(error) => eprintln!("longpole: the log ends here: {}; the recording continues", crate::in_one_line(&error)),
                Ok(()) => {}
            }
        })?;
        Ok(Log { thread, shared })
    }

    /// Called after the end of the recording: waits until the rest is written, as long as the
    /// reader takes bytes.
    pub fn end(self) {
        self.shared.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let (mut taken, mut since) = (self.shared.taken.load(Ordering::Relaxed), Instant::now());
        while !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
            let now = self.shared.taken.load(Ordering::Relaxed);
            if now != taken {
                (taken, since) = (now, Instant::now());
            } else if since.elapsed() >= READER_TIMEOUT {
                eprintln!("longpole: nobody reads the log; it ends here, the recording is whole");
                return;
            }
        }
    }
}

fn follow(
    (recording, chunks): (PathBuf, Receiver<PathBuf>),
    period: Duration,
    ended: &AtomicBool,
    mut printer: Printer<impl Write>,
) -> anyhow::Result<()> {
    let late = period * PERIODS_UNTIL_WRITTEN + PAUSE;
    let mut chain = Chain::open(recording, chunks)?;
    loop {
        let last = ended.load(Ordering::Acquire);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let complete = chain.refresh(last)?;
        let until = if complete { i64::MAX } else { i64::try_from(now.saturating_sub(late).as_nanos()).unwrap_or(i64::MAX) };
        match print(&mut chain, until, &mut printer) {
            Err(error) if !crate::is_broken_pipe(&error) && chain.was_removed() => {}
            other => other?,
        }
        printer.flush()?;
        if !complete {
            thread::park_timeout(PAUSE);
            continue;
        }
        for diagnostic in chain.diagnostics() {
            eprintln!("longpole: log: {}", crate::render::table::plain_lines(diagnostic.to_string()));
        }
        if chain.next_chunk()? {
            printer.begin_anew();
        } else if last {
            if chain.missed > 0 {
                eprintln!("longpole: log: {} chunks of the recording were removed before all of them was printed", chain.missed);
            }
            return Ok(());
        }
    }
}

fn print(chain: &mut Chain, until: i64, printer: &mut Printer<impl Write>) -> anyhow::Result<()> {
    while let Some((item, catalogue)) = chain.next_until(until)? {
        match item {
            Item::Event(event) => printer.event(&event, catalogue),
            Item::Loss(loss) => printer.loss(&loss, catalogue),
        }
        printer.flush_if_full()?;
    }
    Ok(())
}
