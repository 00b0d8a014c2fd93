//! Adds events to the texts of the tree: a thread that reads what the recorder has written.

use super::tree::Tree;
use crate::input::chunks::Chain;
use crate::log::PERIODS_UNTIL_WRITTEN;
use crate::render::events::Printer;
use longpole_record::control::selection::SelectedPart;
use longpole_trace::Catalogue;
use longpole_trace::Item;
use longpole_trace::StreamId;
use longpole_trace::Subject;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two reads of the recording.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of lines that are added while the tree is locked.
const AT_ONCE: usize = 1000;

pub struct Following {
    thread: JoinHandle<anyhow::Result<()>>,
    end: Arc<AtomicBool>,
}

impl Following {
    /// Starts the thread. `chunks` yields the chunks that follow `recording`.
    pub fn begin(recording: PathBuf, chunks: Receiver<PathBuf>, period: Duration, tree: Arc<Mutex<Tree>>) -> std::io::Result<Following> {
        let end = Arc::new(AtomicBool::new(false));
        let asked = end.clone();
        let thread = thread::Builder::new().name("events".to_owned()).spawn(move || follow((recording, chunks), period, &tree, &asked))?;
        Ok(Following { thread, end })
    }

    /// Ends the thread. Returns an error if it had ended by itself because of one.
    pub fn end(self) -> anyhow::Result<()> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn follow((recording, chunks): (PathBuf, Receiver<PathBuf>), period: Duration, tree: &Mutex<Tree>, end: &AtomicBool) -> anyhow::Result<()> {
    let late = period * PERIODS_UNTIL_WRITTEN + PAUSE;
    let mut chain = Chain::open(recording, chunks)?;
    let mut printer = Printer::new(std::io::sink());
    let mut streams: HashMap<StreamId, Vec<SelectedPart>> = HashMap::new();
    while !end.load(Ordering::Relaxed) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let complete = chain.refresh(false)?;
        let until = if complete { i64::MAX } else { i64::try_from(now.saturating_sub(late).as_nanos()).unwrap_or(i64::MAX) };
        let mut more = true;
        while more && !end.load(Ordering::Relaxed) {
            more = match add(&mut chain, until, tree, &mut printer, &mut streams) {
                Err(_) if chain.was_removed() => false,
                other => other?,
            };
        }
        if complete && !more && chain.next_chunk()? {
            printer.begin_anew();
            streams.clear();
            continue;
        }
        thread::park_timeout(PAUSE);
    }
    Ok(())
}

/// Adds up to [`AT_ONCE`] lines. Returns false if there are no more for now.
fn add(
    chain: &mut Chain,
    until: i64,
    tree: &Mutex<Tree>,
    printer: &mut Printer<std::io::Sink>,
    streams: &mut HashMap<StreamId, Vec<SelectedPart>>,
) -> anyhow::Result<bool> {
    let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..AT_ONCE {
        let Some((item, catalogue)) = chain.next_until(until)? else { return Ok(false) };
        for part in whose(&item, catalogue, streams) {
            let mut last_ns = tree.texts.of(part).last_ns;
            let line = printer.line_after(&mut last_ns, &item, catalogue);
            tree.texts.add(part, line);
            tree.texts.of(part).last_ns = last_ns;
        }
    }
    Ok(true)
}

/// Returns the parts of the tree to whose texts an item is added: for an event the label, process
/// and thread of its subject; for a loss those of the thread that last wrote to the same stream.
fn whose<'a>(item: &Item<'_>, catalogue: &Catalogue, streams: &'a mut HashMap<StreamId, Vec<SelectedPart>>) -> &'a [SelectedPart] {
    match item {
        Item::Event(event) => {
            let parts = streams.entry(event.stream).or_default();
            let Subject { label, pid, tid, .. } = &catalogue.subjects[event.subject.0 as usize];
            let (Some(pid), Some(tid)) = (*pid, *tid) else { return &[] };
            let thread = |part: &SelectedPart| part.tid == Some(tid) && part.pid == Some(pid) && part.label == *label;
            if !parts.iter().any(thread) {
                *parts = vec![SelectedPart::label(label), SelectedPart::process(label, pid), SelectedPart::thread(label, pid, tid)];
            }
            parts
        }
        Item::Loss(loss) => streams.get(&loss.stream).map_or(&[], Vec::as_slice),
    }
}
