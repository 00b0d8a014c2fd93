//! The folded path: each pair of class and state is one node, and each pair of successive nodes one
//! edge, whatever the length of the path.
//!
//! The path is walked three times instead of being held in memory: for the time of each node, for
//! the edges between the largest nodes, and for the distributions of the edges that are shown.
//! Memory therefore depends on the number of states and on the size of the graph. Rare states are
//! gathered in one node per process ([`gathered`]); rare edges are only counted. Each node has an
//! edge to or from another one.
//!
//! The times of an edge are those of the segments of its first node that were followed by its
//! second node. This shows which successor the long segments have.

mod gathered;
mod layout;
mod loops;

pub use layout::{Bend, Layout, NodePosition, Sizes};
pub use loops::Loop;

use crate::critical_path::samples::{FunctionTable, Top};
use crate::critical_path::{Kind, Path};
use crate::stats::histogram::{Histogram, Times};
use gathered::Gathered;
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
    /// The process for a node that gathers its rare states; `None` if they are of several
    /// processes, or links.
    pub class: Option<String>,
    /// `None` for a node that gathers rare states.
    pub state: Option<String>,
    pub kind: Option<Kind>,
    /// Number of different states.
    pub states: u64,
    /// Number of different machines (or links) in this state.
    pub machines: u64,
    pub share: f64,
    /// Functions with most of the state's time, by sampled stacks, the first one first. `None` if
    /// they were not requested, if the node gathers states, or if no sample is in the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<Top>>,
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
    /// Nodes by their time, descending; the last ones gather rare states, if there are any.
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// Indices of the nodes with which the path begins and ends.
    pub first: Option<u32>,
    pub last: Option<u32>,
    /// Number of states that are gathered.
    pub rare_nodes: u64,
    pub rare_edges: RareEdges,
    pub loops: Vec<Loop>,
    /// Number of distinct loops, up to a limit; and number of passages through further loops.
    pub distinct_loops: u64,
    pub rare_loops: u64,
}

impl Graph {
    /// Sets the functions of each node that is one state.
    pub fn set_functions(&mut self, table: &FunctionTable<'_>) {
        let mut functions = table.of_states();
        for node in &mut self.nodes {
            if let (Some(class), Some(state)) = (&node.class, &node.state) {
                node.functions = functions.remove(&[class.as_str(), state.as_str()]);
            }
        }
    }
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
    let (candidates, candidate_of) = candidates(path);
    let all = sums(&candidates);
    let gathered = Gathered::new(&candidates, |it| weight(it, all), most);
    // Candidates that cannot be shown are gathered from here on, so that there are few edges.
    let widest = candidates.len().min(most);
    let edges = edges(path, &renumbered(&candidate_of, &gathered.numbers(widest)));
    let (kept, edges) = within(most, &gathered, (widest, candidates.len()), edges);
    let (of_candidate, count) = gathered.within(candidates.len(), kept);
    let members = members(&of_candidate[..candidates.len()], count);
    // Nodes are listed by their time, those that gather states at the end.
    let place_of = listed(&candidates, &members);
    let node_of = renumbered(&renumbered(&candidate_of, &of_candidate), &place_of);
    let renamed = |node: u32| place_of[node as usize];
    let mut in_order: Vec<&Vec<usize>> = members.iter().collect();
    in_order.sort_by_key(|of| place_of[of_candidate[of[0]] as usize]);

    let mut nodes: Vec<Histogram> = vec![Histogram::default(); count];
    let mut times: HashMap<(u32, u32), Histogram> =
        edges.iter().map(|&(from, to)| ((renamed(from), renamed(to)), Histogram::default())).collect();
    let (mut rare, mut distinct_rare) = (RareEdges::default(), HashMap::new());
    let mut loops = Loops::new(nodes.len());
    let (mut segments, mut first, mut last) = (0u64, None, None::<(u32, u64)>);
    for stretch in path.stretches() {
        let (node, ns) = (node_of[stretch.key as usize], stretch.end - stretch.start);
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
    let made = nodes.iter().zip(&in_order).map(|(times, of)| {
        let single = match of[..] {
            [at] => candidates.get(at),
            _ => None,
        };
        Node {
            class: single.map(|it| it.class).or_else(|| gathered.process(of[0])).map(str::to_owned),
            state: single.map(|it| it.state.to_owned()),
            kind: single.map(|it| it.kind),
            states: of.len() as u64,
            machines: of.iter().map(|&at| candidates[at].machines).sum(),
            share: share(times.sum()),
            functions: None,
            times: times.times(),
        }
    });
    let rare_nodes: usize = in_order.iter().map(|of| of.len()).filter(|&states| states > 1).sum();
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

/// Returns the candidates, most important first, and the index of each stretch's candidate.
fn candidates(path: &Path) -> (Vec<Candidate<'_>>, Vec<u32>) {
    let mut of_kinds = vec![(0u64, 0u64); path.key_count()];
    for stretch in path.stretches() {
        let sum = &mut of_kinds[stretch.key as usize];
        *sum = (sum.0 + stretch.end - stretch.start, sum.1 + 1);
    }
    let mut found: Vec<Candidate> = Vec::new();
    let mut at: HashMap<(&str, &str), usize> = HashMap::new();
    let mut candidate_of = vec![u32::MAX; of_kinds.len()];
    for (of, &(total, count)) in of_kinds.iter().enumerate().filter(|(_, sum)| sum.1 > 0) {
        let (class, state) = path.class_and_state(of as u32);
        let candidate = *at.entry((class, state)).or_insert_with(|| {
            found.push(Candidate { class, state, kind: path.kind(of as u32), machines: 0, total: 0, count: 0 });
            found.len() - 1
        });
        let it = &mut found[candidate];
        (it.machines, it.total, it.count) = (it.machines + 1, it.total + total, it.count + count);
        candidate_of[of] = candidate as u32;
    }
    let all = sums(&found);
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&at| (Reverse(weight(&found[at], all)), found[at].class, found[at].state));
    let candidate_of = renumbered(&candidate_of, &places(&order));
    found.sort_by_key(|it| (Reverse(weight(it, all)), it.class, it.state));
    (found, candidate_of)
}

/// Returns time and number of visits of all candidates.
fn sums(candidates: &[Candidate]) -> (u64, u64) {
    candidates.iter().fold((0, 0), |all, it| (all.0 + it.total, all.1 + it.count))
}

/// Returns how important a candidate is. The weight counts visits too, at half the weight of time:
/// links may be short, and without them the graph would fall apart.
fn weight(it: &Candidate, all: (u64, u64)) -> u128 {
    u128::from(it.total) * u128::from(all.1) + u128::from(it.count) * u128::from(all.0) / 2
}

/// Returns the place of each element in this order.
fn places(order: &[usize]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        places[from] = to as u32;
    }
    places
}

/// Replaces each number by the one at its index in `to`; a number without one stays.
fn renumbered(numbers: &[u32], to: &[u32]) -> Vec<u32> {
    numbers.iter().map(|&number| to.get(number as usize).copied().unwrap_or(number)).collect()
}

/// Returns the candidates of each node.
fn members(node_of: &[u32], count: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); count];
    for (candidate, &node) in node_of.iter().enumerate() {
        members[node as usize].push(candidate);
    }
    members
}

/// Returns the place of each node in the list.
fn listed(candidates: &[Candidate], members: &[Vec<usize>]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&node| {
        let total: u64 = members[node].iter().map(|&at| candidates[at].total).sum();
        let first = members[node].first().map(|&at| (candidates[at].class, candidates[at].state));
        (members[node].len() > 1, Reverse(total), first)
    });
    places(&order)
}

/// Time in ns and count of each edge.
fn edges(path: &Path, node_of: &[u32]) -> HashMap<(u32, u32), (u64, u64)> {
    let mut edges: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    let mut last = None::<(u32, u64)>;
    for stretch in path.stretches() {
        let node = node_of[stretch.key as usize];
        if let Some((from, ns)) = last.replace((node, stretch.end - stretch.start)) {
            let edge = edges.entry((from, node)).or_default();
            edge.0 += ns;
            edge.1 += 1;
        }
    }
    edges
}

type EdgeTimes = HashMap<(u32, u32), (u64, u64)>;

/// Returns how many candidates are nodes of their own, and the edges to show. As many candidates as
/// possible are taken whose edges all fit, but at least a third of `most`; in that case edges are
/// left out. `widest` candidates have numbers of their own in `edges`, of `candidates`.
fn within(most: usize, gathered: &Gathered, (widest, candidates): (usize, usize), edges: EdgeTimes) -> (usize, Vec<(u32, u32)>) {
    let merged = |kept: usize| {
        let (nodes, count) = gathered.within(widest, kept);
        (count, merged(&edges, &nodes))
    };
    let (mut low, mut high) = (candidates.min(most / 3), candidates.min(most));
    // `low` nodes are taken in any case; the search finds the largest number that fits.
    while low < high {
        let middle = (low + high).div_ceil(2);
        let (nodes, edges) = merged(middle);
        match nodes + edges.len() <= most {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let (nodes, edges) = merged(low);
    let mut ranked: Vec<((u32, u32), (u64, u64))> = edges.into_iter().collect();
    ranked.sort_by_key(|&(edge, (ns, count))| (Reverse(ns), Reverse(count), edge));
    let ranked: Vec<(u32, u32)> = ranked.into_iter().map(|(edge, _)| edge).collect();
    // The first edge of each node with another one comes first, then the others.
    let joins = first_edges(nodes, ranked.iter().copied());
    let (first, others): (Vec<_>, Vec<_>) = ranked.into_iter().zip(joins).partition(|(_, joins)| *joins);
    (low, first.into_iter().chain(others).map(|(edge, _)| edge).take(most.saturating_sub(nodes)).collect())
}

/// Tells for each edge if it is the first one that joins one of its nodes with another node.
pub fn first_edges(nodes: usize, edges: impl Iterator<Item = (u32, u32)>) -> Vec<bool> {
    let mut is_joined = vec![false; nodes];
    let mut joins = |(from, to): (u32, u32)| {
        from != to && [from, to].map(|node| !std::mem::replace(&mut is_joined[node as usize], true)).contains(&true)
    };
    edges.map(&mut joins).collect()
}

fn merged(edges: &EdgeTimes, node_of: &[u32]) -> EdgeTimes {
    let mut merged = EdgeTimes::new();
    for (&(from, to), &(ns, count)) in edges {
        let edge = merged.entry((node_of[from as usize], node_of[to as usize])).or_default();
        edge.0 += ns;
        edge.1 += count;
    }
    merged
}
