//! CPU holders: the threads and interrupts that had the CPU while the critical path waited for one.
//!
//! That wait is a state of the waiting thread (`runnable`, `preempted`): it is not work of the
//! threads that ran meanwhile, which would have run anyway. But they are what a reader has to look
//! at. The path must be known first. Therefore the occupancy is recorded while the trace is read
//! ([`occupancy_log`]), and replayed only if such waits have a considerable share of the path.

mod occupancy_log;

pub use occupancy_log::{OccupancyLog, Replayed};

use crate::critical_path::{Answer, Kind, Path, Row};
use crate::scheduling::occupancy::{Holders, Occupancy};
use longpole_model::causes::RunsOn;
use longpole_model::hash::IdMap;
use longpole_model::linux::watch::{Base, CpuId, CpuWait, Occupant};
use longpole_model::linux::Linux;
use std::collections::HashMap;

/// Share of the path that waits for CPUs must have for their holders to be computed. The replay of
/// the log takes time, and a smaller share is not worth an explanation.
const MIN_SHARE: f64 = 0.01;

/// A piece of the path in which a thread waits for a CPU: begin, end, and number of its stretches.
type Piece = (i64, i64, u32);

/// Replays the occupancy and collects the holders for the pieces of the path.
#[derive(Debug, Default)]
pub struct CpuHolders {
    pieces: Vec<Piece>,
    /// Index of the first piece that ends after the begin of the last wait; waits arrive nearly in
    /// the order of time.
    at: usize,
    /// Thread ids of each stretch number of the path.
    threads: IdMap<u32, Vec<i32>>,
    occupancy: Occupancy,
    holders: IdMap<u32, Holders>,
}

/// Returns whether waits for CPUs have so large a share of the path that their holders matter.
pub fn matter(answer: &Answer) -> bool {
    let waits = answer.criticality.iter().filter(|row| row.kind.waits_for_cpu());
    waits.map(|row| row.share).sum::<f64>() >= MIN_SHARE
}

impl CpuHolders {
    /// Collects the pieces of a path. `runs_on` maps the names of machines to their threads and
    /// CPUs.
    pub fn new(path: &Path, runs_on: &HashMap<&str, Vec<RunsOn>>) -> CpuHolders {
        let mut cpu_holders = CpuHolders::default();
        let tid = |place: &RunsOn| if let RunsOn::Thread(tid) = place { Some(*tid) } else { None };
        let known: Vec<bool> = (0..path.key_count() as u32)
            .map(|of| {
                let runs_on = runs_on.get(path.machine(of)).filter(|_| path.kind(of) == Kind::Runnable);
                runs_on.map(|runs_on| cpu_holders.threads.insert(of, runs_on.iter().filter_map(tid).collect())).is_some()
            })
            .collect();
        for stretch in path.stretches().filter(|stretch| known[stretch.key as usize]) {
            let at = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
            cpu_holders.pieces.push((at(stretch.start), at(stretch.end), stretch.key));
        }
        cpu_holders
    }

    /// Writes the holders into the criticality rows of the path.
    pub fn add_to(&self, linux: &Linux, path: &Path, answer: &mut Answer) {
        for (&of, holders) in &self.holders {
            let (machine, state) = (path.machine(of), path.class_and_state(of).1);
            let is_row = |row: &&mut Row| row.kind.waits_for_cpu() && row.machine == machine && row.state == state;
            if let Some(row) = answer.criticality.iter_mut().find(is_row) {
                row.kept_by = Some(holders.clone().filled_up_to(row.ns).answer(linux));
            }
        }
    }
}

impl Replayed for CpuHolders {
    fn occupied(&mut self, cpu: CpuId, by: Occupant, begin_ns: i64, end_ns: i64) {
        self.occupancy.occupied(cpu, by, begin_ns, end_ns);
    }

    fn claimed(&mut self, cpu: CpuId, base: Base) {
        self.occupancy.claimed(cpu, base);
    }

    fn waited(&mut self, wait: &CpuWait) {
        while self.at > 0 && self.pieces[self.at - 1].1 > wait.begin_ns {
            self.at -= 1;
        }
        while self.pieces.get(self.at).is_some_and(|&(_, end, _)| end <= wait.begin_ns) {
            self.at += 1;
        }
        for &(begin, end, of) in self.pieces[self.at..].iter().take_while(|&&(begin, ..)| begin < wait.end_ns) {
            if self.threads.get(&of).is_some_and(|threads| threads.contains(&wait.tid)) {
                let holders = self.holders.entry(of).or_default();
                self.occupancy.add(wait, begin.max(wait.begin_ns), end.min(wait.end_ns), holders);
            }
        }
    }
}
