//! A log of CPU occupancy and of waits for CPUs, written while the trace is read, and replayed once
//! the path is known.
//!
//! An entry takes a few bytes. The log is kept in memory while it is short, and otherwise in a file
//! without a name. Thus the trace need not be read again, and memory does not grow with the trace.

use crate::critical_path::Spill;
use longpole_model::linux::watch::{Base, ContextId, CpuId, CpuWait, Mode, Occupant, ThreadId, Watch};
use longpole_model::linux::Linux;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Size in bytes of a piece, which is written to the file as a whole.
const PIECE: usize = 1 << 18;

/// Kinds of entries, in the low bits of the first byte; the kind of the CPU's occupant is in the
/// bits above.
const OCCUPIED: u8 = 0;
const CLAIMED: u8 = 1;
const WAITED: u8 = 2;
const PREEMPTED: u8 = 3;
const KINDS: u8 = 2;

/// What receives the entries of a log again.
pub trait Replayed {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, begin_ns: i64, end_ns: i64);

    /// The time of a thread that was not known belongs to this thread, or to idleness.
    fn claimed(&mut self, _cpu: CpuId, _base: Base) {}

    fn waited(&mut self, _wait: &CpuWait) {}
}

/// Writes the events that it observes to the log.
#[derive(Debug)]
pub struct OccupancyLog {
    /// Creates the file. `None` if there is no room for a file: the log then stays in memory.
    make: Option<fn() -> io::Result<File>>,
    file: Option<File>,
    /// End offset of each piece in the file.
    ends: Vec<u64>,
    held: Vec<u8>,
    last_ns: i64,
}

impl OccupancyLog {
    pub fn new(spill: Spill) -> OccupancyLog {
        OccupancyLog { make: Some(spill.make), file: None, ends: Vec::new(), held: Vec::new(), last_ns: 0 }
    }

    /// Returns a log that is kept in memory, to be emptied by [`OccupancyLog::drain`] often enough.
    pub fn in_memory() -> OccupancyLog {
        OccupancyLog { make: None, file: None, ends: Vec::new(), held: Vec::new(), last_ns: 0 }
    }

    /// Replays the entries of a log in memory, and removes them.
    pub fn drain(&mut self, linux: &Linux, replayed: &mut impl Replayed) {
        Piece { bytes: &self.held, last_ns: &mut 0 }.replay(linux, replayed);
        (self.last_ns, self.held) = (0, Vec::new());
    }

    fn entry(&mut self, kind: u8, cpu: CpuId, by: Occupant) {
        if self.held.len() >= PIECE {
            self.write();
        }
        let (who, id) = match by {
            Occupant::Idle => (0, None),
            Occupant::Thread(id) => (1, Some(id.0)),
            Occupant::Context(id) => (2, Some(id.0)),
            Occupant::Unclaimed => (3, None),
            Occupant::Lost => (4, None),
        };
        self.held.push(kind | who << KINDS);
        self.number(cpu.0.into());
        if let Some(id) = id {
            self.number(id.into());
        }
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.held.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.held.push(number as u8);
    }

    /// Writes a time as the difference from the last one. Consecutive times are close, but not
    /// always in order.
    fn time(&mut self, ns: i64) {
        let step = ns.wrapping_sub(self.last_ns);
        self.number(((step << 1) ^ (step >> 63)) as u64);
        self.last_ns = ns;
    }

    fn write(&mut self) {
        let Some(make) = self.make else { return };
        let from = self.ends.last().copied().unwrap_or(0);
        let file = match self.file.take().map_or_else(make, Ok) {
            Ok(file) => self.file.insert(file),
            Err(_) => return self.make = None,
        };
        match file.write_all_at(&self.held, from) {
            Ok(()) => {
                self.ends.push(from + self.held.len() as u64);
                self.held.clear();
            }
            Err(_) => self.make = None,
        }
    }

    /// Replays the whole log, in its order.
    pub fn replay(&self, linux: &Linux, replayed: &mut impl Replayed) -> io::Result<()> {
        let (mut from, mut last_ns, mut piece) = (0, 0, Vec::new());
        for &end in &self.ends {
            let Some(file) = &self.file else { break };
            piece.resize((end - from) as usize, 0);
            file.read_exact_at(&mut piece, from)?;
            from = end;
            Piece { bytes: &piece, last_ns: &mut last_ns }.replay(linux, replayed);
        }
        Piece { bytes: &self.held, last_ns: &mut last_ns }.replay(linux, replayed);
        Ok(())
    }
}

impl Watch for OccupancyLog {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, _base: Base, _mode: Mode, begin_ns: i64, end_ns: i64) {
        self.entry(OCCUPIED, cpu, by);
        self.time(begin_ns);
        self.time(end_ns);
    }

    fn claimed(&mut self, cpu: CpuId, base: Base, _ns: u64, _interrupts_ns: u64) {
        match base {
            Base::Thread(id) => self.entry(CLAIMED, cpu, Occupant::Thread(id)),
            Base::Idle => self.entry(CLAIMED, cpu, Occupant::Idle),
            Base::Unknown => {}
        }
    }

    fn waited(&mut self, wait: &CpuWait) {
        self.entry(if wait.preempted { PREEMPTED } else { WAITED }, wait.cpu, wait.now);
        self.number(wait.thread.0.into());
        self.time(wait.now_since_ns);
        self.time(wait.begin_ns);
        self.time(wait.end_ns);
    }
}

/// A piece that is decoded.
struct Piece<'a> {
    bytes: &'a [u8],
    last_ns: &'a mut i64,
}

impl Piece<'_> {
    fn replay(&mut self, linux: &Linux, replayed: &mut impl Replayed) {
        while self.one(linux, replayed).is_some() {}
    }

    fn one(&mut self, linux: &Linux, replayed: &mut impl Replayed) -> Option<()> {
        let (&head, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let cpu = CpuId(self.id()?);
        let by = match head >> KINDS {
            0 => Occupant::Idle,
            1 => Occupant::Thread(ThreadId(self.id()?)),
            2 => Occupant::Context(ContextId(self.id()?)),
            3 => Occupant::Unclaimed,
            _ => Occupant::Lost,
        };
        match (head & ((1 << KINDS) - 1), by) {
            (OCCUPIED, by) => {
                let (begin_ns, end_ns) = (self.time()?, self.time()?);
                replayed.occupied(cpu, by, begin_ns, end_ns);
            }
            (CLAIMED, Occupant::Thread(id)) => replayed.claimed(cpu, Base::Thread(id)),
            (CLAIMED, _) => replayed.claimed(cpu, Base::Idle),
            (kind, now) => {
                let thread = ThreadId(self.id()?);
                let (now_since_ns, begin_ns, end_ns) = (self.time()?, self.time()?, self.time()?);
                let tid = linux.threads.get(thread.0 as usize)?.tid;
                replayed.waited(&CpuWait { thread, tid, cpu, preempted: kind == PREEMPTED, begin_ns, end_ns, now, now_since_ns });
            }
        }
        Some(())
    }

    fn id(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn time(&mut self) -> Option<i64> {
        let number = self.number()?;
        *self.last_ns = self.last_ns.wrapping_add((number >> 1) as i64 ^ -((number & 1) as i64));
        Some(*self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CpuHolders;
    use super::*;

    /// Returns the holders after `count` turns of two threads on one CPU, each of which waits while
    /// the other one has it.
    fn holders_after(count: i64, spill: Spill) -> Vec<(u32, u64)> {
        let (mut turns, mut linux) = (OccupancyLog::new(spill), Linux::new(i64::MIN, i64::MAX).unwrap());
        linux.threads.resize_with(2, Default::default);
        (1..).zip(&mut linux.threads).for_each(|(tid, thread)| thread.tid = tid);
        let thread = |turn: i64| ThreadId((turn % 2) as u32);
        for turn in 0..count {
            let (begin_ns, end_ns, by) = (turn * 100, turn * 100 + 100, Occupant::Thread(thread(turn)));
            let wait = CpuWait {
                thread: thread(turn + 1),
                tid: 1 + (turn as i32 + 1) % 2,
                cpu: CpuId(0),
                preempted: turn % 3 == 0,
                begin_ns: begin_ns + 30,
                end_ns,
                now: by,
                now_since_ns: begin_ns,
            };
            turns.waited(&wait);
            turns.occupied(CpuId(0), by, Base::Unknown, Mode::Unknown, begin_ns, end_ns);
        }
        // The path waits while the second thread waits.
        let pieces = (0..count).map(|turn| (turn * 100, turn * 100 + 100, 7)).collect();
        let mut cpu_holders = CpuHolders { pieces, threads: [(7, vec![2])].into_iter().collect(), ..CpuHolders::default() };
        turns.replay(&linux, &mut cpu_holders).unwrap();
        let holders = cpu_holders.holders.into_values().flat_map(|holders| holders.answer(&linux));
        holders.map(|holders| (holders.tid.unwrap() as u32, holders.ns)).collect()
    }

    #[test]
    fn the_log_is_replayed_from_memory_from_the_file_and_without_a_file() {
        let spill = Spill { make: tempfile::tempfile, from: 0 };
        let nowhere = Spill { make: || Err(io::ErrorKind::StorageFull.into()), from: 0 };
        for count in [2, 200, 200_000] {
            let expected = vec![(1, count as u64 / 2 * 70)];
            assert_eq!(holders_after(count, spill), expected);
            assert_eq!(holders_after(count, nowhere), expected);
        }
    }
}
