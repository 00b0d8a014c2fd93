//! The folded graph of long paths, without a log on disk.

use longpole_analysis::critical_path::folded::{fold, Graph, Limits, DEFAULT_SIZE};
use longpole_analysis::critical_path::{CriticalPath, Options, Spill};
use longpole_model::interaction::{Effect, Interaction, MachineId, Vocabulary};
use longpole_model::tokens::Amount;
use std::collections::HashSet;

/// Machines pass on items, each time to another machine and in another one of `states` states.
fn graph_of(rounds: u64, machines: u64, states: u64) -> (Graph, u64) {
    let mut vocabulary = Vocabulary::default();
    let ids: Vec<MachineId> = (0..machines).map(|n| vocabulary.machine("", &format!("stage {n}"))).collect();
    let queues: Vec<_> = (0..machines).map(|n| vocabulary.queue(&format!("to {n}"))).collect();
    let names: Vec<_> = (0..states).map(|n| vocabulary.names.intern(&format!("state {n}"))).collect();
    let why = vocabulary.names.intern("idle");
    let mut critical_path =
        CriticalPath::new(Options { segments: true, spill: Some(Spill { make: tempfile::tempfile, from: 1 << 18 }), ..Options::default() });
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut t = 0;
    let mut at = 0;
    let mut give = |t, effect| critical_path.interaction(&vocabulary, &Interaction { t, line: 0, effect });
    for &machine in &ids {
        give(0, Effect::Block { machine, why, on: None, wants: None });
    }
    for _ in 0..rounds {
        // A few of them are chosen often, and most of them hardly ever.
        let next = (random() % machines).min(random() % machines) as usize;
        let state = (random() % states).min(random() % states).min(random() % states) as usize;
        let next = if next == at { (next + 1) % machines as usize } else { next };
        t += 20 + random() % 1_000;
        give(t, Effect::Put { machine: ids[at], queue: queues[next], n: 1, flow: None, link: None });
        give(t, Effect::Block { machine: ids[at], why, on: None, wants: None });
        t += 3;
        give(t, Effect::Get { machine: ids[next], queue: queues[next], amount: Amount::Units(1), flow: None });
        give(t, Effect::State { machine: ids[next], state: names[state] });
        t += 10;
        give(t, Effect::State { machine: ids[next], state: names[(state + 1) % states as usize] });
        at = next;
    }
    let answer = critical_path.answer(&vocabulary).unwrap();
    (fold(answer.segments.as_ref().unwrap(), Limits::default()), answer.length_ns)
}

#[test]
fn one_and_a_half_million_segments_fold_to_the_figure_of_2008() {
    let (graph, length) = graph_of(510_000, 40, 60);
    assert!(graph.segments >= 1_500_000, "{}", graph.segments);
    assert!(graph.nodes.len() + graph.edges.len() <= DEFAULT_SIZE);
    assert!(graph.nodes.len() >= DEFAULT_SIZE / 3);
    let distinct: HashSet<_> = graph.nodes.iter().map(|node| (&node.class, &node.state)).collect();
    assert_eq!(distinct.len(), graph.nodes.len());
    assert!(graph
        .nodes
        .iter()
        .enumerate()
        .all(|(at, _)| graph.edges.iter().any(|edge| { edge.from != edge.to && [edge.from, edge.to].contains(&(at as u32)) })));
    assert_eq!(graph.nodes.iter().map(|node| node.times.total_ns).sum::<u64>(), length);
    let steps = graph.edges.iter().map(|edge| edge.times.count).sum::<u64>() + graph.rare_edges.count;
    assert_eq!(steps + 1, graph.segments);
    assert!(graph.loops.len() == 10 && graph.loops.windows(2).all(|pair| pair[0].total_ns >= pair[1].total_ns));
}

#[test]
fn a_graph_that_fits_is_complete() {
    let (graph, _) = graph_of(5_000, 4, 3);
    assert_eq!((graph.rare_nodes, graph.rare_edges.distinct), (0, 0));
    assert!(graph.nodes.iter().all(|node| node.class.is_some()));
}
