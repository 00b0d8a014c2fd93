//! Fills the texts: a thread that reads what the recorder has written.

use super::tree::Tree;
use crate::log::LATE;
use crate::verbs::print::Printer;
use longpole_record::selection::Part;
use longpole_trace::{Catalogue, Follower, Item, StreamId, Subject};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks at the recording.
const PAUSE: Duration = Duration::from_millis(50);
/// Lines that are added while nobody else can look.
const AT_ONCE: usize = 1000;

pub struct Following {
    thread: JoinHandle<anyhow::Result<()>>,
    end: Arc<AtomicBool>,
}

impl Following {
    pub fn begin(recording: PathBuf, period: Duration, tree: Arc<Mutex<Tree>>) -> std::io::Result<Following> {
        let end = Arc::new(AtomicBool::new(false));
        let asked = end.clone();
        let thread = thread::Builder::new().name("events".to_owned()).spawn(move || follow(&recording, period, &tree, &asked))?;
        Ok(Following { thread, end })
    }

    /// Why it ended by itself, if it did.
    pub fn end(self) -> anyhow::Result<()> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn follow(recording: &std::path::Path, period: Duration, tree: &Mutex<Tree>, end: &AtomicBool) -> anyhow::Result<()> {
    let late = period * LATE + PAUSE;
    let mut follower = Follower::open(recording)?;
    let mut printer = Printer::new(std::io::sink());
    let mut streams: HashMap<StreamId, Vec<Part>> = HashMap::new();
    while !end.load(Ordering::Relaxed) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = i64::try_from(now.saturating_sub(late).as_nanos()).unwrap_or(i64::MAX);
        follower.refresh()?;
        let mut more = true;
        while more && !end.load(Ordering::Relaxed) {
            let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..AT_ONCE {
                let Some((item, catalogue)) = follower.next_until(until)? else {
                    more = false;
                    break;
                };
                for part in whose(&item, catalogue, &mut streams) {
                    let mut last_ns = tree.texts.of(part).last_ns;
                    let line = printer.line_after(&mut last_ns, &item, catalogue);
                    tree.texts.add(part, line);
                    tree.texts.of(part).last_ns = last_ns;
                }
            }
        }
        thread::park_timeout(PAUSE);
    }
    Ok(())
}

/// In whose texts an item belongs: a loss in those of whoever wrote to its stream last.
fn whose<'a>(item: &Item<'_>, catalogue: &Catalogue, streams: &'a mut HashMap<StreamId, Vec<Part>>) -> &'a [Part] {
    match item {
        Item::Event(event) => {
            let parts = streams.entry(event.stream).or_default();
            let Subject { label, pid, tid, .. } = &catalogue.subjects[event.subject.0 as usize];
            let (Some(pid), Some(tid)) = (*pid, *tid) else { return &[] };
            let thread = |part: &Part| part.tid == Some(tid) && part.pid == Some(pid) && part.label == *label;
            if !parts.iter().any(thread) {
                *parts = vec![Part::label(label), Part::process(label, pid), Part::thread(label, pid, tid)];
            }
            parts
        }
        Item::Loss(loss) => streams.get(&loss.stream).map_or(&[], Vec::as_slice),
    }
}
