//! The difference of two flame graphs: the frames of the second one, each with its share of the
//! first. Shares are compared, not counts, because two runs take different times.
//!
//! Example: `main` calls `parse` for 30 of 100 ms in the first run, and for 60 of 120 ms in the
//! second. The share of `parse` grew from 30 % to 50 %.

use crate::scheduling::flame_graph::{FlameGraph, Frame};
use std::cmp::Ordering;

/// A flame graph with the changes since another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameDifference {
    /// The second graph.
    pub graph: FlameGraph,
    /// Share of the first graph that each frame has, in the order of the frames; 0 for a frame that
    /// is not in it.
    pub first_shares: Vec<f64>,
    /// Share of the first graph in frames that are not in the second one.
    pub only_first: f64,
}

impl FlameDifference {
    pub fn new(first: &FlameGraph, second: FlameGraph) -> FlameDifference {
        let all = first.total().max(1) as f64;
        let mut walk = Walk { first: &first.frames, second: &second.frames, shares: Vec::new(), only_first: 0, all };
        walk.siblings(0, 0, 0);
        let (first_shares, only_first) = (walk.shares, walk.only_first as f64 / all);
        FlameDifference { first_shares, only_first, graph: second }
    }

    /// Returns the share that a frame has of the second graph.
    pub fn share(&self, frame: &Frame) -> f64 {
        frame.count as f64 / self.graph.total().max(1) as f64
    }

    /// Returns the largest change of a frame's share, regardless of its sign.
    pub fn largest_change(&self) -> f64 {
        let all = self.graph.total().max(1) as f64;
        let change = |(frame, first): (&Frame, &f64)| (frame.count as f64 / all - first).abs();
        self.graph.frames.iter().zip(&self.first_shares).map(change).fold(0.0, f64::max)
    }
}

/// Walks through the frames of both graphs. In each, a frame is followed by those above it, and
/// the frames above one are ordered by name.
struct Walk<'a> {
    first: &'a [Frame],
    second: &'a [Frame],
    /// Shares of the frames of `second` that were passed.
    shares: Vec<f64>,
    only_first: u64,
    all: f64,
}

impl Walk<'_> {
    /// Walks through the frames of this depth, from these indices on, and those above them. Returns
    /// the indices of the frames that follow. Depth is limited by that of flame graphs.
    fn siblings(&mut self, mut a: usize, mut b: usize, depth: u32) -> (usize, usize) {
        let at = |frames: &[Frame], index: usize| frames.get(index).is_some_and(|frame| frame.depth == depth);
        loop {
            let (in_first, in_second) = (at(self.first, a), at(self.second, b));
            let order = match (in_first, in_second) {
                (false, false) => return (a, b),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => {
                    let (first, second) = (&self.first[a], &self.second[b]);
                    first.name.cmp(&second.name).then(first.code.cmp(&second.code))
                }
            };
            match order {
                Ordering::Less => {
                    self.only_first += self.first[a].count;
                    a = end_of(self.first, a);
                }
                Ordering::Greater => {
                    let end = end_of(self.second, b);
                    self.shares.resize(end, 0.0);
                    b = end;
                }
                Ordering::Equal => {
                    self.shares.push(self.first[a].count as f64 / self.all);
                    (a, b) = self.siblings(a + 1, b + 1, depth + 1);
                }
            }
        }
    }
}

/// Returns the index of the frame after those above this one.
fn end_of(frames: &[Frame], at: usize) -> usize {
    let above = frames[at + 1..].iter().position(|frame| frame.depth <= frames[at].depth);
    above.map_or(frames.len(), |count| at + 1 + count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::flame_graph::Code;

    fn graph(frames: &[(u32, &str, u64)]) -> FlameGraph {
        let frame = |&(depth, name, count): &(u32, &str, u64)| {
            let code = if depth == 0 { Code::Process } else { Code::Program };
            Frame { depth, name: name.to_owned(), code, count, own: 0 }
        };
        FlameGraph { frames: frames.iter().map(frame).collect(), ..FlameGraph::default() }
    }

    #[test]
    fn frames_have_their_share_of_the_first_graph_and_missing_ones_are_summed_up() {
        let first = graph(&[(0, "gone", 20), (1, "main", 20), (0, "p", 80), (1, "main", 80), (2, "a", 30), (2, "old", 50), (3, "a", 50)]);
        let second = graph(&[(0, "new", 5), (1, "main", 5), (0, "p", 45), (1, "init", 5), (1, "main", 40), (2, "a", 40), (3, "b", 40)]);
        let difference = FlameDifference::new(&first, second.clone());
        assert_eq!(difference.first_shares, [0.0, 0.0, 0.8, 0.0, 0.8, 0.3, 0.0]);
        // `gone` with what it called, and `old`.
        assert!((difference.only_first - 0.7).abs() < 1e-9);
        assert!((difference.largest_change() - 0.8).abs() < 1e-9);
        let same = FlameDifference::new(&second, second.clone());
        assert!(same.only_first == 0.0 && same.largest_change() == 0.0, "{same:?}");
        let none = FlameDifference::new(&FlameGraph::default(), second.clone());
        assert_eq!(none.first_shares, [0.0; 7]);
        assert_eq!(FlameDifference::new(&second, FlameGraph::default()).only_first, 1.0);
    }
}
