//! How much the CPUs of a host must do before the end.
//!
//! Where a machine waits less for a CPU than in the trace, the replay lets it go on beside the others: their order stays as observed, which may put more work into a time than there are
//! CPUs for it. Nothing that the end depends on is done sooner than all CPUs together can do it: in each world the end is not before that. What counts is work on a CPU that
//! somebody is known to have had, of machines that have to do with the one whose end counts, and as much of it as cannot have come after the end.
//! How many CPUs there are is how many were had at once, where others waited until one of them was left.

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
    /// For how long somebody waited until one of that many was left.
    awaited: u64,
}

/// Those who waited for a CPU less than this share of the time did not wait because all were taken, as far as is known.
const LEAST_WAITS: f64 = 0.01;

impl Used {
    /// One is had from now on, for which somebody waited so long until it was left.
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

    /// How many there are, if it is known.
    fn count(&self, until: f64) -> Option<u32> {
        (self.most > 0 && self.awaited as f64 >= LEAST_WAITS * until).then_some(self.most)
    }
}

/// Machines that have stopped and are forgotten: what they did on CPUs, and when the last of them had done it.
#[derive(Debug)]
pub struct Gone {
    pub(super) worked: Box<[f64]>,
    until: Box<[f64]>,
}

/// Machines that have to do with each other, each with one that stands for all of them.
#[derive(Debug, Default)]
pub struct Together(Vec<u32>);

impl Together {
    pub fn join(&mut self, a: MachineId, b: MachineId) {
        let (a, b) = (self.find(a.0), self.find(b.0));
        if a != b {
            self.0[a as usize] = b;
        }
    }

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
    /// For how long it has worked on CPUs in a world, by now.
    pub fn worked(&self, lane: usize) -> f64 {
        let unfinished = if self.has_cpu { self.v[lane] - self.works_since[lane] } else { 0.0 };
        self.worked.get(lane).map_or(0.0, |worked| worked + unfinished)
    }

    /// It has a CPU, and works there from now on; what was between is the kernel's.
    pub fn works_from_here(&mut self) {
        self.worked.resize(self.v.len(), 0.0);
        for ((worked, since), v) in self.worked.iter_mut().zip(&self.works_since).zip(&self.v) {
            *worked -= v - since;
        }
    }
}

impl WhatIf {
    /// One waits for the other. A thread of the kernel, which serves anyone, ties nobody to others.
    pub(super) fn have_to_do(&mut self, machine: MachineId, by: MachineId) {
        if !self.life(machine).serves_anyone && !self.life(by).serves_anyone {
            self.together.join(machine, by);
        }
    }

    /// It is forgotten now.
    pub(super) fn work_is_done(&mut self, vocabulary: &Vocabulary, machine: MachineId) {
        let (root, lanes) = (self.together.find(machine.0), self.layout.len());
        let replay = &self.lives[machine.0 as usize].replay;
        if replay.worked.is_empty() || replay.records {
            return;
        }
        let none = || Gone { worked: vec![0.0; lanes].into(), until: vec![0.0; lanes].into() };
        let gone = self.gone.entry((vocabulary.host_id(machine), root)).or_insert_with(none);
        super::lanes::add_all(&mut gone.worked, &replay.worked);
        super::lanes::later(&mut gone.until, &replay.v, 0.0);
    }

    /// Of each lane, when the end is at the soonest, as far as the CPUs decide that.
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
                // As much as the unchanged replay has room for.
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
