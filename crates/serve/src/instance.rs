//! One execution of a thread: from the time at which it got a CPU to that at which it left it, with
//! what led to it.

use crate::event_places;
use crate::events::{EventFrom, EventQuery};
use crate::reading::{Analyst, Reading};
use longpole_analysis::timeline::{Listing, Row, RowId, StateClass, StateId, StateInterval};
use serde::Serialize;
use std::io;

/// Maximum number of states of a CPU that are looked at in one direction.
const MAX_STATES: usize = 10_000;

/// Time before the wake-up in which the event of the wake-up is looked for: some kernels tell it
/// before the thread can run. The number of items that are searched for it.
const BEFORE_WAKE_NS: u64 = 100_000;
const SEARCHED: u64 = 20_000;

#[derive(Debug, Serialize)]
pub(crate) struct Instance {
    begin: u64,
    end: u64,
    cpu: u32,
    /// Row of the CPU.
    cpu_row: u32,
    wake: Option<Wake>,
    interrupt: Option<Interrupt>,
}

/// What made the thread able to run.
#[derive(Debug, Serialize)]
struct Wake {
    t: u64,
    /// The thread or interrupt that woke it, and its row; empty and null if the trace has no such
    /// event.
    by: String,
    row: Option<u32>,
}

/// The last interrupt on the CPU before the execution.
#[derive(Debug, Serialize)]
struct Interrupt {
    name: String,
    begin: u64,
    end: u64,
    /// Time from the interrupt's end to the begin of the execution.
    gap_ns: u64,
}

/// Returns the execution of a thread's row at a time; `None` if the thread has no CPU then, or the
/// trace does not tell.
pub(crate) fn at(analyst: &dyn Analyst, reading: &Reading, row: RowId, t: u64) -> Result<Option<Instance>, String> {
    let unreadable = |error: io::Error| format!("the states cannot be read from the temporary file: {error}; open the trace again");
    let listing = reading.timeline.listing();
    let Some(tid) = listing.rows.iter().find(|it| it.id == row).and_then(|row| row.tid) else { return Ok(None) };
    let found = Search { reading, listing: &listing, tid }.execution(t).map_err(unreadable)?;
    let Some((cpu, cpu_row, execution, interrupt)) = found else { return Ok(None) };
    let woken = woken_at(reading, &listing, row, execution.begin).map_err(unreadable)?;
    let wake = woken.map(|t| wake(analyst, reading, tid, t)).transpose()?;
    Ok(Some(Instance { begin: execution.begin, end: execution.end, cpu, cpu_row: cpu_row.0, wake, interrupt }))
}

struct Search<'a> {
    reading: &'a Reading,
    listing: &'a Listing,
    tid: i32,
}

impl Search<'_> {
    fn class(&self, state: StateId) -> StateClass {
        self.listing.states.get(state.0 as usize).map_or(StateClass::Unknown, |state| state.class)
    }

    fn is_own(&self, state: StateId) -> bool {
        self.reading.timeline.thread_of_cpu_state(state) == Some(self.tid)
    }

    fn state_at(&self, row: RowId, t: u64) -> io::Result<Option<StateInterval>> {
        let (states, _) = self.reading.timeline.states(row, (t, t.saturating_add(1)), 1)?;
        Ok(states.first().copied())
    }

    /// Returns CPU, row, interval and the interrupt before it of the execution at a time.
    fn execution(&self, t: u64) -> io::Result<Option<(u32, RowId, StateInterval, Option<Interrupt>)>> {
        for &Row { id, cpu, .. } in &self.listing.rows {
            let Some(cpu) = cpu else { continue };
            let Some(now) = self.state_at(id, t)? else { continue };
            // At this time, an interrupt may be on top of the thread.
            let (begin, before) = self.begin(id, now)?;
            let Some(begin) = begin else { continue };
            let end = self.end(id, now)?;
            let interval = StateInterval { begin, end, state: now.state };
            let interrupt = before.map(|it| Interrupt {
                name: self.listing.states.get(it.state.0 as usize).map_or_else(String::new, |state| state.name.clone()),
                begin: it.begin,
                end: it.end,
                gap_ns: begin.saturating_sub(it.end),
            });
            return Ok(Some((cpu, id, interval, interrupt)));
        }
        Ok(None)
    }

    /// Walks back over the thread's own states and the interrupts between them. Returns the begin
    /// of the first own one, `None` without one, and the last interrupt before it.
    fn begin(&self, row: RowId, now: StateInterval) -> io::Result<(Option<u64>, Option<StateInterval>)> {
        let (mut begin, mut interrupt) = (None, None);
        let mut at = Some(now);
        let mut is_within = true;
        for _ in 0..MAX_STATES {
            let Some(state) = at else { break };
            let is_interrupt = self.class(state.state) == StateClass::Interrupt;
            if is_within && self.is_own(state.state) {
                (begin, interrupt) = (Some(state.begin), None);
            } else if is_interrupt {
                interrupt = interrupt.or(Some(state));
            } else if begin.is_none() {
                return Ok((None, None));
            } else {
                is_within = false;
            }
            if !is_within && interrupt.is_some() || state.begin == 0 {
                break;
            }
            at = self.state_at(row, state.begin - 1)?;
        }
        Ok((begin, interrupt))
    }

    /// Walks on over the thread's own states and interrupts, to the end of the last own one.
    fn end(&self, row: RowId, now: StateInterval) -> io::Result<u64> {
        let mut end = now.end;
        let mut at = Some(now);
        for _ in 0..MAX_STATES {
            let Some(state) = at else { break };
            if self.is_own(state.state) {
                end = state.end;
            } else if self.class(state.state) != StateClass::Interrupt {
                break;
            }
            at = self.state_at(row, state.end)?;
        }
        Ok(end)
    }
}

/// Returns the time at which the thread became able to run before it got the CPU; `None` if it did
/// not wait for one, as far as the trace tells.
fn woken_at(reading: &Reading, listing: &Listing, row: RowId, begin: u64) -> io::Result<Option<u64>> {
    let Some(before) = begin.checked_sub(1) else { return Ok(None) };
    let (states, _) = reading.timeline.states(row, (before, begin), 1)?;
    let class = |state: StateId| listing.states.get(state.0 as usize).map(|state| state.class);
    Ok(states.first().filter(|state| class(state.state) == Some(StateClass::Runnable)).map(|state| state.begin))
}

/// Finds the event of a wake-up.
fn wake(analyst: &dyn Analyst, reading: &Reading, tid: i32, t: u64) -> Result<Wake, String> {
    let filter = format!("name ~ \"*sched_wak*\" && (tid == {tid} || pid == {tid})");
    let since = i64::try_from(t.saturating_sub(BEFORE_WAKE_NS)).unwrap_or(i64::MAX);
    let query = EventQuery { from: EventFrom::Time(t + 1), backwards: true, limit: 1, filter: Some(filter), searched: SEARCHED };
    let found = event_places::read(analyst, reading, &query, &|line| !line.name.is_empty())?;
    let line = found.lines.into_iter().find(|line| line.t >= since);
    let (by, row) = line.map_or((String::new(), None), |line| (line.who, line.row));
    Ok(Wake { t, by, row })
}
