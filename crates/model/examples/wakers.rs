//! Prints what ended each blocked interval of each thread, according to the model: one line per
//! interval of at least `--least` nanoseconds.
//!
//!     wakers [--least NS] TRACE
//!
//! Columns: tid, begin and end in Unix nanoseconds, kind of the waker (thread, context, idle,
//! unknown), the waker's tid, the waker's name.

use longpole_model::linux::watch::{ThreadId, ThreadState, Wake, Waker, Watch};
use longpole_model::linux::Linux;
use longpole_trace::Item;
use longpole_trace::Options;
use longpole_trace::Trace;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Default)]
struct Wakers {
    least_ns: i64,
    /// The newest blocked interval of each thread.
    blocked: Vec<(i64, i64)>,
    found: Vec<(ThreadId, i64, Wake)>,
}

impl Watch for Wakers {
    fn was(&mut self, thread: ThreadId, state: ThreadState, begin_ns: i64, end_ns: i64) {
        let at = thread.0 as usize;
        if matches!(state, ThreadState::Blocked(_)) {
            if self.blocked.len() <= at {
                self.blocked.resize(at + 1, (0, 0));
            }
            self.blocked[at] = (begin_ns, end_ns);
        }
    }

    fn woken(&mut self, thread: ThreadId, wake: &Wake) {
        let Some(&(begin, end)) = self.blocked.get(thread.0 as usize) else { return };
        if end >= wake.t_ns && end - begin >= self.least_ns {
            self.found.push((thread, begin, *wake));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut wakers = Wakers::default();
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--least" => wakers.least_ns = arguments.next().ok_or("--least needs a number")?.parse()?,
            path => paths.push(PathBuf::from(path)),
        }
    }
    let mut trace = Trace::open(&paths, Options::default())?;
    let mut linux = Linux::new(i64::MIN, i64::MAX)?;
    while let Some((item, catalogue)) = trace.next_with_catalogue()? {
        match &item {
            Item::Event(event) => linux.event(catalogue, event, &mut wakers),
            Item::Loss(loss) => linux.loss(catalogue, loss, &mut wakers),
        }
    }
    linux.finish(&mut wakers);
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (thread, begin, wake) in wakers.found {
        let (kind, tid, name) = match wake.waker {
            Waker::Thread(id) => {
                let thread = &linux.threads[id.0 as usize];
                ("thread", thread.tid, thread.name())
            }
            Waker::Context { id, .. } => ("context", 0, linux.contexts[id.0 as usize].name.clone()),
            Waker::UntracedInterrupt => ("idle", 0, String::new()),
            Waker::Unknown => ("unknown", 0, String::new()),
        };
        writeln!(out, "{}\t{begin}\t{}\t{kind}\t{tid}\t{name}", linux.threads[thread.0 as usize].tid, wake.t_ns)?;
    }
    out.flush()?;
    Ok(())
}
