//! Reads events of a trace, and finds where on the timeline they are.
//!
//! The command reads the lines from the trace. Events of the kernel tell only their CPU; who had it
//! is in the timeline.

use crate::events::{EventLine, EventLines, EventQuery};
use crate::reading::{Analyst, Reading};
use longpole_analysis::timeline::{Row, RowId, ThreadsOnCpus};
use std::collections::HashMap;
use std::io;

/// Reads the lines that `accept` accepts.
pub(crate) fn read(
    analyst: &dyn Analyst,
    reading: &Reading,
    query: &EventQuery,
    accept: &dyn Fn(&EventLine) -> bool,
) -> Result<EventLines, String> {
    let places = Places::new(reading);
    let complete = |line: &mut EventLine| {
        // A state that cannot be read is not known.
        drop(places.complete(line));
        accept(line)
    };
    analyst.events(&reading.path, reading, query, &complete)
}

/// Finds the rows of lines.
struct Places<'a> {
    reading: &'a Reading,
    on_cpus: ThreadsOnCpus<'a>,
    threads: HashMap<i32, Vec<RowId>>,
}

impl Places<'_> {
    fn new(reading: &Reading) -> Places<'_> {
        let mut threads: HashMap<i32, Vec<RowId>> = HashMap::new();
        for Row { id, tid, .. } in reading.timeline.listing().rows {
            if let Some(tid) = tid {
                threads.entry(tid).or_default().push(id);
            }
        }
        Places { reading, on_cpus: reading.timeline.threads_on_cpus(), threads }
    }

    fn complete(&self, line: &mut EventLine) -> io::Result<()> {
        // The switch to another thread is an event of the thread that leaves the CPU.
        let Ok(t) = u64::try_from(line.t) else { return Ok(()) };
        let before = t.saturating_sub(1);
        let on_cpu = line.cpu.filter(|_| line.tid.is_none()).map(|cpu| self.on_cpus.at(cpu, before)).transpose()?.flatten();
        if let Some(on_cpu) = on_cpu {
            (line.who, line.tid, line.row) = (on_cpu.name, on_cpu.tid, Some(on_cpu.row.0));
        }
        let rows = line.tid.and_then(|tid| self.threads.get(&tid));
        match rows.map(Vec::as_slice) {
            None | Some([]) => {}
            Some([row]) => line.row = Some(row.0),
            // The kernel has used the id again.
            Some(rows) => {
                for row in rows {
                    if !self.reading.timeline.states(*row, (before, t + 1), 1)?.0.is_empty() {
                        line.row = Some(row.0);
                    }
                }
            }
        }
        Ok(())
    }
}
