//! The thread that writes to a ring, and its name as far as it was read.

use crate::output::packet::padded;
use crate::runtime_dir::proc_status;
use crate::runtime_dir::process::Process;
use crate::text::printable;
use std::time::{Duration, Instant};

/// Time after which a thread's name is read for the second time.
const FIRST_NAME: Duration = Duration::from_millis(1);

/// Number of periods between two reads of the name of a thread that writes nothing. With hundreds
/// of such threads, more frequent reads would be most of an idle recorder's work.
const SILENT_PERIODS: u32 = 64;

/// The thread that writes to a ring. The ring holds the name at the thread's first event, and
/// threads are often named later.
#[derive(Debug)]
pub struct Writer {
    /// Tid of the thread, in its own pid namespace.
    pub tid: i32,
    /// Name of the thread, padded with NUL.
    pub name: [u8; 32],
    /// Time of the next read of the name. Afterwards the interval doubles, up to one period, or up
    /// to [`SILENT_PERIODS`] periods while the thread writes nothing, because most names are set
    /// soon after the start of a thread.
    due: Instant,
    interval: Duration,
}

impl Writer {
    pub fn new(tid: i32, name: [u8; 32]) -> Writer {
        Writer { tid, name, due: Instant::now(), interval: FIRST_NAME }
    }

    /// Returns whether the name is to be read now, and sets the time of the next read. `news`: the
    /// ring has new events, whose policy depends on the name.
    pub fn is_due(&mut self, period: Duration, news: bool, last: bool) -> bool {
        let now = Instant::now();
        let overdue = news && self.interval > period;
        if now < self.due && !overdue && !last {
            return false;
        }
        let longest = if news { period } else { period * SILENT_PERIODS };
        self.interval = self.interval.min(longest);
        self.due = now + self.interval;
        self.interval = (self.interval * 2).min(longest);
        true
    }

    /// Reads the name. Returns whether it has changed.
    pub fn read_name(&mut self, process: &Process) -> bool {
        let Some(name) = proc_status::thread_name(process.pid, process.tid(self.tid)) else { return false };
        let before = std::mem::replace(&mut self.name, padded(&name));
        before != self.name
    }

    pub fn shown_name(&self) -> String {
        printable(&self.name)
    }
}
