//! Who had the CPU while the critical path stood still because a thread waited for one.
//!
//! That wait is charged to the thread as a state of its own (`runnable`, `preempted`): it is no work of whoever ran meanwhile, who would have run anyway. But it is
//! them that a reader has to look at. The path must be known before: so what is asked of is kept while the trace is read ([`turns`]), and gone through only where such
//! waits have a part of it.

mod turns;

pub use turns::Turns;

use crate::critical_path::{Answer, Kind, Path, Row};
use crate::scheduling::occupancy::{Occupancy, Spool};
use longpole_model::causes::Seat;
use longpole_model::hash::IdMap;
use longpole_model::linux::watch::{Base, CpuId, Occupant, Wait};
use longpole_model::linux::Linux;
use std::collections::HashMap;

/// Below this share of the path nobody asks.
const LEAST_SHARE: f64 = 0.01;

/// A piece of the path in which a thread waits for a CPU: begin, end, and whose it is.
type Piece = (i64, i64, u32);

#[derive(Debug, Default)]
pub struct CpuHolders {
    pieces: Vec<Piece>,
    /// The first that the last wait did not lie behind: waits come nearly in the order of time.
    at: usize,
    /// Threads of each number of the path's.
    threads: IdMap<u32, Vec<i32>>,
    stays: Occupancy,
    kept: IdMap<u32, Spool>,
}

/// Whether that is a part of the path worth to be asked for.
pub fn matter(answer: &Answer) -> bool {
    let waits = answer.criticality.iter().filter(|row| row.kind.waits_for_cpu());
    waits.map(|row| row.share).sum::<f64>() >= LEAST_SHARE
}

impl CpuHolders {
    /// `seats` are those of the machines by name.
    pub fn new(path: &Path, seats: &HashMap<&str, Vec<Seat>>) -> CpuHolders {
        let mut cpu_holders = CpuHolders::default();
        let tid = |seat: &Seat| if let Seat::Thread(tid) = seat { Some(*tid) } else { None };
        let known: Vec<bool> = (0..path.kinds() as u32)
            .map(|of| {
                let seats = seats.get(path.machine(of)).filter(|_| path.kind(of) == Kind::Runnable);
                seats.map(|seats| cpu_holders.threads.insert(of, seats.iter().filter_map(tid).collect())).is_some()
            })
            .collect();
        for stretch in path.stretches().filter(|stretch| known[stretch.of as usize]) {
            let at = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
            cpu_holders.pieces.push((at(stretch.start), at(stretch.end), stretch.of));
        }
        cpu_holders
    }

    /// Tells it in the rows of the path.
    pub fn tell(&self, linux: &Linux, path: &Path, answer: &mut Answer) {
        for (&of, kept) in &self.kept {
            let (machine, state) = (path.machine(of), path.class_and_state(of).1);
            let is_row = |row: &&mut Row| row.kind.waits_for_cpu() && row.machine == machine && row.state == state;
            if let Some(row) = answer.criticality.iter_mut().find(is_row) {
                row.kept_by = Some(kept.clone().whole(row.ns).answer(linux));
            }
        }
    }
}

impl CpuHolders {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, begin_ns: i64, end_ns: i64) {
        self.stays.occupied(cpu, by, begin_ns, end_ns);
    }

    fn claimed(&mut self, cpu: CpuId, base: Base) {
        self.stays.claimed(cpu, base);
    }

    fn waited(&mut self, wait: &Wait) {
        while self.at > 0 && self.pieces[self.at - 1].1 > wait.begin_ns {
            self.at -= 1;
        }
        while self.pieces.get(self.at).is_some_and(|&(_, end, _)| end <= wait.begin_ns) {
            self.at += 1;
        }
        for &(begin, end, of) in self.pieces[self.at..].iter().take_while(|&&(begin, ..)| begin < wait.end_ns) {
            if self.threads.get(&of).is_some_and(|threads| threads.contains(&wait.tid)) {
                let kept = self.kept.entry(of).or_default();
                self.stays.add(wait, begin.max(wait.begin_ns), end.min(wait.end_ns), kept);
            }
        }
    }
}
