//! The work that the CPUs of a host must do before the end.
//!
//! A machine that waits less for a CPU than in the trace runs next to others in the replay: their
//! order stays as observed. This may put more work into an interval than its CPUs can do. Nothing
//! that the end depends on is done earlier than all CPUs together can do it, so in each world the
//! end is not before that time.
//!
//! What counts is work on a CPU that a machine is known to have had, of machines that are connected
//! with the one whose end counts, and only the part that cannot have come after the end. The number
//! of CPUs is the largest number that was in use at once while other machines waited until one of
//! them was left.

use super::lanes::{KEPT, OBSERVED};
use super::life::Replay;
use super::{EndMark, WhatIf};
use longpole_model::hash::IdMap;
use longpole_model::interaction::{MachineId, Vocabulary};
use longpole_model::names::NameId;

/// The CPUs of a host as the trace shows them.
#[derive(Debug, Default)]
pub struct Used {
    had: u32,
    since: u64,
    most: u32,
    /// Total time that machines waited until one of `most` CPUs in use was left.
    awaited: u64,
}

/// If machines waited for less than this share of the time, they did not wait because all CPUs were
/// in use, as far as is known.
const LEAST_WAITS: f64 = 0.01;

impl Used {
    /// Notes that a CPU is in use from now on. `awaited` is the time that its new owner waited
    /// until it was left.
    pub fn takes(&mut self, now: u64, awaited: u64) {
        self.go_to(now);
        self.had += 1;
        if self.had >= self.most {
            self.awaited += awaited;
        }
    }

    pub fn leaves(&mut self, now: u64) {
        self.go_to(now);
        self.had = self.had.saturating_sub(1);
    }

    fn go_to(&mut self, now: u64) {
        if now > self.since && self.had > self.most {
            (self.most, self.awaited) = (self.had, 0);
        }
        self.since = now;
    }

    pub fn several(&self) -> bool {
        self.most > 1
    }

    /// Returns the number of CPUs, if it is known.
    fn count(&self, until: f64) -> Option<u32> {
        (self.most > 0 && self.awaited as f64 >= LEAST_WAITS * until).then_some(self.most)
    }
}

/// Machines that have stopped and are forgotten: their work on CPUs, and the time at which the last
/// of it was done.
#[derive(Debug)]
pub struct ForgottenWork {
    pub(super) worked: Box<[f64]>,
    until: Box<[f64]>,
}

/// Groups of connected machines, as a union-find structure: each machine refers to another one of
/// its group, the group's root to itself.
#[derive(Debug, Default)]
pub struct Together(Vec<u32>);

impl Together {
    pub fn join(&mut self, a: MachineId, b: MachineId) {
        let (a, b) = (self.find(a.0), self.find(b.0));
        if a != b {
            self.0[a as usize] = b;
        }
    }

    /// Returns the root of the machine's group.
    pub fn find(&mut self, machine: u32) -> u32 {
        let known = self.0.len() as u32;
        if machine >= known {
            self.0.extend(known..=machine);
        }
        let mut at = machine;
        while self.0[at as usize] != at {
            let above = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = above;
            at = above;
        }
        at
    }
}

impl Replay {
    /// Returns the time in ns that the machine has worked on CPUs in a world until now.
    pub fn worked(&self, lane: usize) -> f64 {
        let unfinished = if self.has_cpu { self.v[lane] - self.works_since[lane] } else { 0.0 };
        self.worked.get(lane).map_or(0.0, |worked| worked + unfinished)
    }

    /// Notes that the machine has a CPU and works from now on; the time since it got the CPU was
    /// the kernel's.
    pub fn works_from_here(&mut self) {
        self.worked.resize(self.v.len(), 0.0);
        for ((worked, since), v) in self.worked.iter_mut().zip(&self.works_since).zip(&self.v) {
            *worked -= v - since;
        }
    }
}

impl WhatIf {
    /// Connects two machines, since one waits for the other. A thread of the kernel that works for
    /// any machine connects none.
    pub(super) fn have_to_do(&mut self, machine: MachineId, by: MachineId) {
        if !self.life(machine).is_shared_worker && !self.life(by).is_shared_worker {
            self.together.join(machine, by);
        }
    }

    /// Adds the machine's work to that of forgotten machines.
    pub(super) fn work_is_done(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let (root, lanes) = (self.together.find(machine.0), self.layout.len());
        let replay = &self.lives[machine.0 as usize].replay;
        if replay.worked.is_empty() || replay.records {
            return;
        }
        let none = || ForgottenWork { worked: vec![0.0; lanes].into(), until: vec![0.0; lanes].into() };
        let gone = self.gone.entry((vocabulary.host_id(machine), root)).or_insert_with(none);
        super::lanes::add_all(&mut gone.worked, &replay.worked);
        super::lanes::later(&mut gone.until, &replay.v, 0.0);
    }

    /// Returns the earliest possible end of each lane as far as the CPUs decide it; 0 if they do
    /// not.
    pub(super) fn soonest(&mut self, vocabulary: &Vocabulary, end: &EndMark) -> Vec<f64> {
        let mut soonest = vec![0.0; self.layout.len()];
        let known: Vec<(Option<NameId>, u32)> =
            self.used.iter().filter_map(|(host, used)| Some((*host, used.count(end.v[OBSERVED])?))).collect();
        if known.is_empty() {
            return soonest;
        }
        let root = self.together.find(end.machine.0);
        let mut work: IdMap<Option<NameId>, Vec<f64>> = IdMap::default();
        for at in 0..self.lives.len() as u32 {
            let replay = &self.lives[at as usize].replay;
            if replay.worked.is_empty() || replay.records || self.together.find(at) != root {
                continue;
            }
            let all = work.entry(vocabulary.host_id(MachineId(at))).or_insert_with(|| vec![0.0; soonest.len()]);
            for (lane, all) in all.iter_mut().enumerate() {
                let after = (replay.v[lane] - end.v[lane]).max(0.0);
                *all += (replay.worked(lane) - after).max(0.0);
            }
        }
        for (&(host, of), gone) in &self.gone {
            if let Some(all) = work.get_mut(&host).filter(|_| self.together.find(of) == root) {
                for (lane, all) in all.iter_mut().enumerate() {
                    *all += if gone.until[lane] <= end.v[lane] { gone.worked[lane].max(0.0) } else { 0.0 };
                }
            }
        }
        let bare = self.layout.bare();
        for (host, cpus) in known {
            let Some(work) = work.get(&host) else { continue };
            let unchanged = |lane: usize| if bare.contains(&lane) { bare.start } else { KEPT };
            let mut take = |lane: usize, more: u32| {
                // Scaled so that the unchanged replay just fits.
                let too_much = (work[unchanged(lane)] / (f64::from(cpus) * end.v[unchanged(lane)])).max(1.0);
                soonest[lane] = f64::max(soonest[lane], work[lane] / too_much / f64::from(cpus + more));
            };
            for scenario in 0..self.layout.scenarios {
                self.layout.of(scenario).into_iter().for_each(|lane| take(lane, self.scale.cpus(scenario)));
            }
        }
        soonest
    }
}
