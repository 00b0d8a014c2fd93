//! Flame graphs: sampled stacks joined from their outermost frames on. A frame's count is the
//! number of samples whose stacks begin with the same frames up to this one.
//!
//! Example: the stacks `p main a` (3 samples) and `p main b` (1 sample) yield the frames `p` (4),
//! `main` (4) above it, and above that `a` (3) and `b` (1).
//!
//! A graph with waits counts nanoseconds instead of samples. There, the innermost frame of a wait
//! says for what the stack waits.

use crate::scheduling::stacks::Counts;
use longpole_symbols::{FrameId, Origin, Stacks};
use serde::Serialize;
use std::collections::BTreeMap;

/// Depth beyond which frames are not distinguished; the frame at this depth has their samples.
const MAX_DEPTH: usize = 160;

/// Name of the frame in place of the outermost functions of a stack, if they are missing.
pub const TRUNCATED: &str = "[truncated]";

/// What a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The frame is the process, below its outermost function.
    Process,
    Program,
    Kernel,
    /// Code that the process generated itself.
    Made,
    /// No function: the stack waits for a CPU, a timer, a disk, a network, or for something else.
    WaitsForCpu,
    WaitsForTimer,
    WaitsForDisk,
    WaitsForNetwork,
    Waits,
    /// No function: the state of a part of the path that has no stacks.
    WithoutStack,
    /// No function: the outermost functions of the stack are missing.
    Truncated,
}

/// Unit of the counts of a flame graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    #[default]
    Samples,
    Ns,
}

/// A stack with its count.
#[derive(Clone, Debug)]
pub struct WeighedStack<'a> {
    pub process: &'a str,
    /// Set if the outermost functions are missing.
    pub truncated: bool,
    /// Functions, the innermost first.
    pub frames: &'a [FrameId],
    /// What is below the innermost function.
    pub leaf: Option<(&'a str, Code)>,
    pub count: u64,
}

/// A frame with all samples that have the same frames below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of frames below it.
    pub depth: u32,
    pub name: String,
    pub code: Code,
    /// Number of samples with this frame, and of those with it on top.
    pub count: u64,
    pub own: u64,
}

/// The frames, each followed by those that it called, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlameGraph {
    pub counts: Counts,
    pub unit: Unit,
    pub frames: Vec<Frame>,
    /// Number of frames that were left out, each with less than `least` samples.
    pub left_out: u64,
    /// Number of samples that each frame has at least.
    pub least: u64,
}

/// Flame graphs of the samples of one trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlameGraphs {
    pub all: FlameGraph,
    /// Samples on the critical path; `None` if there is no path.
    pub on_path: Option<FlameGraph>,
}

#[derive(Default)]
struct Node {
    count: u64,
    own: u64,
    above: BTreeMap<(String, Code), Node>,
}

impl FlameGraph {
    /// Joins stacks with their counts. Processes with one name are merged.
    pub fn of<'a>(all: impl Iterator<Item = WeighedStack<'a>>, stacks: &Stacks, unit: Unit) -> FlameGraph {
        let mut root = Node::default();
        for WeighedStack { process, truncated, frames, leaf, count } in all {
            let mut node = root.above.entry((process.to_owned(), Code::Process)).or_default();
            node.count = node.count.saturating_add(count);
            if truncated {
                node = node.above.entry((TRUNCATED.to_owned(), Code::Truncated)).or_default();
                node.count = node.count.saturating_add(count);
            }
            for &frame in frames.iter().rev().take(MAX_DEPTH) {
                let frame = stacks.frame(frame);
                node = node.above.entry((frame.function.clone(), Code::of(frame.origin))).or_default();
                node.count = node.count.saturating_add(count);
            }
            if let Some((name, code)) = leaf {
                node = node.above.entry((name.to_owned(), code)).or_default();
                node.count = node.count.saturating_add(count);
            }
            node.own = node.own.saturating_add(count);
        }
        let mut graph = FlameGraph { counts: Counts::default(), unit, frames: Vec::new(), left_out: 0, least: 1 };
        graph.add_above(root, 0);
        graph
    }

    fn add_above(&mut self, below: Node, depth: u32) {
        for ((name, code), node) in below.above {
            self.frames.push(Frame { depth, name, code, count: node.count, own: node.own });
            self.add_above(node, depth + 1);
        }
    }

    /// Limits the number of frames: frames with few samples are left out. A frame never has fewer
    /// samples than one above it, so no frame remains without those below it.
    pub fn limited(mut self, most: usize) -> FlameGraph {
        if self.frames.len() > most {
            let mut counts: Vec<u64> = self.frames.iter().map(|frame| frame.count).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            // Frames with as many samples as the first one beyond the limit are left out, too.
            self.least = counts[most] + 1;
            self.frames.retain(|frame| frame.count >= self.least);
            self.left_out += (counts.len() - self.frames.len()) as u64;
        }
        self
    }

    /// Returns the count of all stacks.
    pub fn total(&self) -> u64 {
        self.frames.iter().filter(|frame| frame.depth == 0).map(|frame| frame.count).sum()
    }

    /// Returns the number of frames of the highest stack.
    pub fn height(&self) -> u32 {
        self.frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0)
    }
}

impl Code {
    pub(crate) fn of(origin: Origin) -> Code {
        match origin {
            Origin::Kernel => Code::Kernel,
            Origin::Made => Code::Made,
            Origin::File | Origin::Unknown => Code::Program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(depth: u32, name: &str, count: u64) -> Frame {
        Frame { depth, name: name.to_owned(), code: Code::Program, count, own: 0 }
    }

    #[test]
    fn a_limited_graph_has_the_frames_with_the_most_samples_and_counts_the_others() {
        let frames = vec![frame(0, "p", 10), frame(1, "a", 7), frame(2, "b", 2), frame(1, "c", 3), frame(2, "d", 2)];
        let graph = FlameGraph { frames, least: 1, ..FlameGraph::default() };
        assert_eq!(graph.clone().limited(5), graph);
        let limited = graph.limited(4);
        let names: Vec<&str> = limited.frames.iter().map(|frame| frame.name.as_str()).collect();
        assert_eq!((names, limited.left_out, limited.least), (vec!["p", "a", "c"], 2, 3));
    }
}
