//! Loops of the steady state: what the path goes through between two visits of the same node.
//!
//! Only the part of the path without repetition is held in memory. When the path reaches a node
//! that is already on that part, the nodes in between are a loop, which is counted and removed.
//! Every segment is therefore in exactly one loop, or in the part that remains at the end.
//!
//! Example: in the path A B C B A, the loop B C is counted at the second B, then the loop A B at
//! the second A; A remains.

use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// A loop of the path as nodes, beginning with the node that has the most time on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loop {
    pub nodes: Vec<u32>,
    pub count: u64,
    pub total_ns: u64,
    pub share: f64,
    pub min_ns: u64,
    pub max_ns: u64,
}

/// Largest number of distinct loops; passages through others are only counted.
const MAX_LOOPS: usize = 1 << 16;

const NOT_ON_WAY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Sum {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
}

/// Counter of loops; it sees the nodes of the path in their order.
pub struct Loops {
    /// Node and time in ns.
    way: Vec<(u32, u64)>,
    /// Index of each node in `way`, or [`NOT_ON_WAY`].
    place: Vec<u32>,
    found: HashMap<Box<[u32]>, Sum>,
    spare: Vec<u32>,
    rare: u64,
}

impl Loops {
    pub fn new(nodes: usize) -> Loops {
        Loops { way: Vec::new(), place: vec![NOT_ON_WAY; nodes], found: HashMap::new(), spare: Vec::new(), rare: 0 }
    }

    /// Processes the next node of the path, with its time in ns.
    pub fn step(&mut self, node: u32, ns: u64) {
        let place = self.place[node as usize];
        if place != NOT_ON_WAY {
            self.count(place as usize);
            for &(gone, _) in &self.way[place as usize..] {
                self.place[gone as usize] = NOT_ON_WAY;
            }
            self.way.truncate(place as usize);
        }
        self.place[node as usize] = self.way.len() as u32;
        self.way.push((node, ns));
    }

    fn count(&mut self, from: usize) {
        let part = &self.way[from..];
        let ns = part.iter().map(|step| step.1).sum();
        // Nodes are numbered by their time, and each occurs once in the loop.
        let begin = part.iter().enumerate().min_by_key(|(_, step)| step.0).map_or(0, |(at, _)| at);
        self.spare.clear();
        self.spare.extend(part[begin..].iter().chain(&part[..begin]).map(|step| step.0));
        let room = self.found.len() < MAX_LOOPS;
        match self.found.get_mut(self.spare.as_slice()) {
            Some(sum) => *sum = Sum { count: sum.count + 1, total: sum.total + ns, min: sum.min.min(ns), max: sum.max.max(ns) },
            None if room => {
                self.found.insert(self.spare.as_slice().into(), Sum { count: 1, total: ns, min: ns, max: ns });
            }
            None => self.rare += 1,
        }
    }

    /// Returns the loops with the most time, the number of distinct loops, and the number of
    /// passages through loops that are not listed.
    pub fn most(self, top: usize, share: impl Fn(u64) -> f64) -> (Vec<Loop>, u64, u64) {
        let distinct = self.found.len() as u64;
        let mut found: Vec<(Box<[u32]>, Sum)> = self.found.into_iter().collect();
        found.sort_by(|(a, one), (b, other)| (Reverse(one.total), a).cmp(&(Reverse(other.total), b)));
        found.truncate(top);
        let loops = found.into_iter().map(|(nodes, sum)| Loop {
            nodes: nodes.into_vec(),
            count: sum.count,
            total_ns: sum.total,
            share: share(sum.total),
            min_ns: sum.min,
            max_ns: sum.max,
        });
        (loops.collect(), distinct, self.rare)
    }
}
