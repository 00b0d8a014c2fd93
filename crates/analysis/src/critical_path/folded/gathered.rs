//! Which states of a path are nodes of their own, and which node gathers the others.
//!
//! The most important states are nodes of their own. The others of a process are one node; those of
//! less important processes, and links, which belong to no process, are one node together.
//! `nginx/worker::parse` and `nginx::write` are states of the process `nginx`.

use super::Candidate;
use crate::critical_path::Kind;
use std::cmp::Reverse;
use std::collections::HashMap;

/// At most one of 12 nodes and edges gathers the states of a process.
const PART_FOR_PROCESSES: usize = 12;

/// The candidates, from the most important one on, and the group to which each belongs.
pub struct Gathered<'a> {
    /// Names of the processes; the group after them has the rest.
    processes: Vec<&'a str>,
    /// Group of each candidate.
    groups: Vec<u32>,
}

impl<'a> Gathered<'a> {
    /// `most` is the largest number of nodes and edges together.
    pub fn new(candidates: &[Candidate<'a>], weight: impl Fn(&Candidate) -> u128, most: usize) -> Gathered<'a> {
        let mut weights: HashMap<&str, u128> = HashMap::new();
        for candidate in candidates {
            if let Some(process) = process(candidate) {
                *weights.entry(process).or_default() += weight(candidate);
            }
        }
        let mut processes: Vec<&str> = weights.keys().copied().collect();
        processes.sort_by_key(|&process| (Reverse(weights[process]), process));
        processes.truncate(most / PART_FOR_PROCESSES);
        let rest = processes.len() as u32;
        let places: HashMap<&str, u32> = processes.iter().copied().zip(0..).collect();
        let group = |candidate: &Candidate| process(candidate).and_then(|process| places.get(process)).copied().unwrap_or(rest);
        Gathered { groups: candidates.iter().map(group).collect(), processes }
    }

    /// Returns a number for the node of each candidate: its own place if it is one of the first
    /// `kept`, else `kept` and its group.
    pub fn numbers(&self, kept: usize) -> Vec<u32> {
        let own = |at: usize| if at < kept { at as u32 } else { kept as u32 + self.groups[at] };
        (0..self.groups.len()).map(own).collect()
    }

    /// Returns the node of each number that [`Gathered::numbers`] returns for `widest`, when only
    /// the first `kept` are nodes of their own: groups without states have no node. Also returns
    /// the number of nodes.
    pub fn within(&self, widest: usize, kept: usize) -> (Vec<u32>, usize) {
        let mut nodes = kept;
        let mut places = vec![None; self.processes.len() + 1];
        let mut has_states = vec![false; places.len()];
        self.groups[kept.min(self.groups.len())..].iter().for_each(|&group| has_states[group as usize] = true);
        for (place, _) in places.iter_mut().zip(has_states).filter(|(_, has_states)| *has_states) {
            *place = Some(nodes as u32);
            nodes += 1;
        }
        let of_group = |group: u32| places[group as usize].unwrap_or(0);
        let of_candidate = |at: usize| if at < kept { at as u32 } else { of_group(self.groups[at]) };
        let groups = (0..places.len() as u32).map(of_group);
        ((0..widest).map(of_candidate).chain(groups).collect(), nodes)
    }

    /// Returns the name of the process whose rare states a candidate's group gathers.
    pub fn process(&self, candidate: usize) -> Option<&'a str> {
        self.processes.get(self.groups[candidate] as usize).copied()
    }
}

/// Returns the process of a state; `None` for a link.
fn process<'a>(candidate: &Candidate<'a>) -> Option<&'a str> {
    (candidate.kind != Kind::Link).then(|| candidate.class.split('/').next().unwrap_or(candidate.class))
}
