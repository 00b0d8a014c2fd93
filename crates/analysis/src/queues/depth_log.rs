//! Each change of a queue's depth, relative to offsets that are learned later.

use crate::stats::value_log::{LogFile, ValueLog};
use std::io;

/// Largest number of offsets that are kept; changes after them have the last one.
const MAX_OFFSETS: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct DepthLog {
    log: ValueLog,
    offsets: Vec<Offset>,
}

/// The offset of all changes up to this number, and the largest depth that is possible.
#[derive(Clone, Copy, Debug)]
struct Offset {
    until: u64,
    by: i64,
    most: Option<u64>,
}

impl DepthLog {
    pub fn new(file: LogFile) -> DepthLog {
        DepthLog { log: ValueLog::new(file), offsets: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.log.count() == 0
    }

    pub fn record(&mut self, t_ns: i64, relative: i64) {
        self.log.record(t_ns, relative as f64);
    }

    /// Sets the offset of all changes since the last call.
    pub fn settle(&mut self, by: i64, most: Option<u64>) {
        if self.offsets.len() == MAX_OFFSETS {
            self.offsets.pop();
        }
        self.offsets.push(Offset { until: self.log.count(), by, most });
    }

    /// Passes the time in ns and the depth of each change. `by` and `most` hold for those whose
    /// offset was not set.
    ///
    /// # Errors
    ///
    /// If the file of the log cannot be read.
    pub fn each(&self, by: i64, most: Option<u64>, visit: &mut dyn FnMut(i64, f64)) -> io::Result<()> {
        let rest = Offset { until: u64::MAX, by, most };
        let mut offsets = self.offsets.iter().copied().chain([rest]);
        let mut offset = offsets.next().unwrap_or(rest);
        let mut at = 0;
        self.log.each(|t_ns, relative| {
            while at >= offset.until {
                offset = offsets.next().unwrap_or(rest);
            }
            at += 1;
            let most = offset.most.map_or(f64::INFINITY, |most| most as f64);
            visit(t_ns, (relative + offset.by as f64).clamp(0.0, most));
        })
    }
}
