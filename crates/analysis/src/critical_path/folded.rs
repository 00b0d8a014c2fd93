//! The folded path: each pair of class and state is one node, and each pair of successive nodes one
//! edge, whatever the length of the path.
//!
//! The path is walked three times instead of being held in memory: for the time of each node, for
//! the edges between the largest nodes, and for the distributions of the edges that are shown.
//! Memory therefore depends on the number of states and on the size of the graph. Rare nodes are
//! gathered in one other node; rare edges are only counted.
//!
//! The times of an edge are those of the segments of its first node that were followed by its
//! second node. This shows which successor the long segments have.

mod layout;
mod loops;

pub use layout::{Bend, Layout, NodePosition, Sizes};
pub use loops::Loop;

use crate::critical_path::{Kind, Path};
use crate::stats::histogram::{Histogram, Times};
use loops::Loops;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Largest size of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of nodes and edges together.
    pub most: usize,
    /// Largest number of distinct loops.
    pub loops: usize,
}

/// Default number of nodes and edges; that of the figure in the experiment of 2008.
pub const DEFAULT_SIZE: usize = 545;

impl Default for Limits {
    fn default() -> Limits {
        Limits { most: DEFAULT_SIZE, loops: 10 }
    }
}

/// A state of a class, or a link of a queue, with the times of its segments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// `None` for the node that gathers the rare ones.
    pub class: Option<String>,
    pub state: Option<String>,
    pub kind: Option<Kind>,
    /// Number of different machines (or links) in this state.
    pub machines: u64,
    pub share: f64,
    #[serde(flatten)]
    pub times: Times,
}

/// A succession of two nodes, with the times of the first node's segments in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Edge {
    /// Indices of the nodes.
    pub from: u32,
    pub to: u32,
    #[serde(flatten)]
    pub times: Times,
}

/// Successions that are no edge of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RareEdges {
    pub distinct: u64,
    pub count: u64,
    pub total_ns: u64,
}

/// The folded path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Graph {
    /// Number of segments of the path.
    pub segments: u64,
    /// Nodes by their time, descending; the last one gathers the rare ones, if there are any.
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Indices of the nodes with which the path begins and ends.
    pub first: Option<u32>,
    pub last: Option<u32>,
    /// Number of nodes that the last one gathers.
    pub rare_nodes: u64,
    pub rare_edges: RareEdges,
    pub loops: Vec<Loop>,
    /// Number of distinct loops, up to a limit; and number of passages through further loops.
    pub distinct_loops: u64,
    pub rare_loops: u64,
}

/// A node before it is decided whether it is shown.
struct Candidate<'a> {
    class: &'a str,
    state: &'a str,
    kind: Kind,
    machines: u64,
    total: u64,
    count: u64,
}

/// Folds a path. A limit below 6 nodes and edges is raised to 6.
pub fn fold(path: &Path, limits: Limits) -> Graph {
    let most = limits.most.max(6);
    let (candidates, mut node_of) = candidates(path);
    // Candidates that cannot be shown are one node from here on, so that there are few edges.
    let widest = candidates.len().min(most);
    cap(&mut node_of, widest);
    let edges = edges(path, &node_of);
    let (kept, edges) = within(most, candidates.len(), edges);
    cap(&mut node_of, kept);
    // Nodes are listed by their time.
    let mut order: Vec<usize> = (0..kept).collect();
    order.sort_by_key(|&at| (Reverse(candidates[at].total), candidates[at].class, candidates[at].state));
    renumber(&mut node_of, &order);
    let renamed = |node: u32| order.iter().position(|&from| from == node as usize).map_or(node, |to| to as u32);

    let mut nodes: Vec<Histogram> = vec![Histogram::default(); kept + usize::from(kept < candidates.len())];
    let mut times: HashMap<(u32, u32), Histogram> =
        edges.iter().map(|&(from, to)| ((renamed(from), renamed(to)), Histogram::default())).collect();
    let (mut rare, mut distinct_rare) = (RareEdges::default(), HashMap::new());
    let mut loops = Loops::new(nodes.len());
    let (mut segments, mut first, mut last) = (0u64, None, None::<(u32, u64)>);
    for stretch in path.stretches() {
        let (node, ns) = (node_of[stretch.of as usize], stretch.end - stretch.start);
        segments += 1;
        first.get_or_insert(node);
        nodes[node as usize].record(ns);
        if let Some((from, lasted)) = last.replace((node, ns)) {
            match times.get_mut(&(from, node)) {
                Some(times) => times.record(lasted),
                None => {
                    rare.count += 1;
                    rare.total_ns += lasted;
                    distinct_rare.insert((from, node), ());
                }
            }
        }
        loops.step(node, ns);
    }
    rare.distinct = distinct_rare.len() as u64;

    let length: u64 = nodes.iter().map(Histogram::sum).sum();
    let share = |ns: u64| if length == 0 { 0.0 } else { ns as f64 / length as f64 };
    let rare_nodes = candidates.len() - kept;
    let made = nodes.iter().enumerate().map(|(at, times)| {
        let known = order.get(at).and_then(|&at| candidates.get(at));
        Node {
            class: known.map(|it| it.class.to_owned()),
            state: known.map(|it| it.state.to_owned()),
            kind: known.map(|it| it.kind),
            machines: known.map_or_else(|| candidates[kept..].iter().map(|it| it.machines).sum(), |it| it.machines),
            share: share(times.sum()),
            times: times.times(),
        }
    });
    let nodes: Vec<Node> = made.collect();
    let mut edges: Vec<Edge> = times.into_iter().map(|((from, to), times)| Edge { from, to, times: times.times() }).collect();
    edges.sort_by_key(|edge| (Reverse(edge.times.total_ns), Reverse(edge.times.count), edge.from, edge.to));
    let (loops, distinct_loops, rare_loops) = loops.most(limits.loops, share);
    Graph {
        segments,
        nodes,
        edges,
        first,
        last: last.map(|last| last.0),
        rare_nodes: rare_nodes as u64,
        rare_edges: rare,
        loops,
        distinct_loops,
        rare_loops,
    }
}

/// Returns the candidates, most important first, and the index of each stretch's candidate. The
/// weight counts visits too, at half the weight of time: links may be short, and without them the
/// graph would fall apart.
fn candidates(path: &Path) -> (Vec<Candidate<'_>>, Vec<u32>) {
    let mut sums = vec![(0u64, 0u64); path.kinds()];
    for stretch in path.stretches() {
        let sum = &mut sums[stretch.of as usize];
        *sum = (sum.0 + stretch.end - stretch.start, sum.1 + 1);
    }
    let mut found: Vec<Candidate> = Vec::new();
    let mut at: HashMap<(&str, &str), usize> = HashMap::new();
    let mut node_of = vec![u32::MAX; sums.len()];
    for (of, &(total, count)) in sums.iter().enumerate().filter(|(_, sum)| sum.1 > 0) {
        let (class, state) = path.class_and_state(of as u32);
        let node = *at.entry((class, state)).or_insert_with(|| {
            found.push(Candidate { class, state, kind: path.kind(of as u32), machines: 0, total: 0, count: 0 });
            found.len() - 1
        });
        let it = &mut found[node];
        (it.machines, it.total, it.count) = (it.machines + 1, it.total + total, it.count + count);
        node_of[of] = node as u32;
    }
    let all = sums.iter().fold((0u64, 0u64), |all, sum| (all.0 + sum.0, all.1 + sum.1));
    let weight = |it: &Candidate| u128::from(it.total) * u128::from(all.1) + u128::from(it.count) * u128::from(all.0) / 2;
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&at| (Reverse(weight(&found[at])), found[at].class, found[at].state));
    renumber(&mut node_of, &order);
    found.sort_by_key(|it| (Reverse(weight(it)), it.class, it.state));
    (found, node_of)
}

/// Renumbers the nodes to this order.
fn renumber(node_of: &mut [u32], order: &[usize]) {
    let mut place: Vec<u32> = (0..order.len() as u32).collect();
    for (to, &from) in order.iter().enumerate() {
        place[from] = to as u32;
    }
    for node in node_of.iter_mut() {
        *node = place.get(*node as usize).copied().unwrap_or(*node);
    }
}

/// Makes all nodes from the `kept`-th on one node.
fn cap(node_of: &mut [u32], kept: usize) {
    node_of.iter_mut().for_each(|node| *node = (*node).min(kept as u32));
}

/// Time in ns and count of each edge.
fn edges(path: &Path, node_of: &[u32]) -> HashMap<(u32, u32), (u64, u64)> {
    let mut edges: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    let mut last = None::<(u32, u64)>;
    for stretch in path.stretches() {
        let node = node_of[stretch.of as usize];
        if let Some((from, ns)) = last.replace((node, stretch.end - stretch.start)) {
            let edge = edges.entry((from, node)).or_default();
            edge.0 += ns;
            edge.1 += 1;
        }
    }
    edges
}

type EdgeTimes = HashMap<(u32, u32), (u64, u64)>;

/// Returns the number of nodes and the edges to show. As many nodes as possible are taken whose
/// edges all fit, but at least a third of `most`; in that case edges are left out.
fn within(most: usize, nodes: usize, edges: EdgeTimes) -> (usize, Vec<(u32, u32)>) {
    let fewest = nodes.min(most / 3);
    let size = |kept: usize, edges: &EdgeTimes| kept + usize::from(kept < nodes) + edges.len();
    let (mut low, mut high) = (fewest, nodes.min(most));
    // `low` nodes are taken in any case; the search finds the largest number that fits.
    while low < high {
        let middle = (low + high).div_ceil(2);
        match size(middle, &merged(&edges, middle)) <= most {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let edges = merged(&edges, low);
    let mut ranked: Vec<((u32, u32), (u64, u64))> = edges.into_iter().collect();
    ranked.sort_by_key(|&(edge, (ns, count))| (Reverse(ns), Reverse(count), edge));
    ranked.truncate(most - low - usize::from(low < nodes));
    (low, ranked.into_iter().map(|(edge, _)| edge).collect())
}

fn merged(edges: &EdgeTimes, kept: usize) -> EdgeTimes {
    let mut merged = EdgeTimes::new();
    for (&(from, to), &(ns, count)) in edges {
        let edge = merged.entry((from.min(kept as u32), to.min(kept as u32))).or_default();
        edge.0 += ns;
        edge.1 += count;
    }
    merged
}
