//! The folded graph as a picture: nodes in layers, coloured by kind; edges are as wide as the time
//! spent on them.

use crate::render::graph_svg::{Arrow, Colours, Picture, Shape};
use crate::render::table::{duration, number, percent, plain};
use longpole_analysis::critical_path::folded::{Edge, Graph, Node};
use longpole_analysis::critical_path::Kind;
use std::io::{self, Write};

pub fn colours(kind: Option<Kind>) -> Colours {
    match kind {
        Some(Kind::Running) => ("#dcf3df", "#2f9a4c"),
        Some(Kind::Runnable) => ("#fff0cc", "#d1941a"),
        Some(Kind::Blocked) => ("#fcdedb", "#cc3d31"),
        Some(Kind::SystemCall) => ("#dbe8fc", "#2f6cc9"),
        Some(Kind::Interrupt) => ("#ebdff9", "#7f49c4"),
        Some(Kind::Link) => ("#edeff1", "#8a929b"),
        Some(Kind::Unknown) => ("#f5f5f5", "#8a929b"),
        None => ("#ffffff", "#8a929b"),
    }
}

/// Returns true if the node is drawn hatched, so that unknown time does not look like known time.
pub fn is_hatched(kind: Option<Kind>) -> bool {
    kind == Some(Kind::Unknown)
}

const KINDS: [(Kind, &str); 7] = [
    (Kind::Running, "running"),
    (Kind::Runnable, "runnable"),
    (Kind::Blocked, "blocked"),
    (Kind::SystemCall, "system call"),
    (Kind::Interrupt, "interrupt"),
    (Kind::Link, "link"),
    (Kind::Unknown, "unknown"),
];

pub fn svg(out: &mut impl Write, title: &str, graph: &Graph) -> io::Result<()> {
    // Edges to and from the node for rare states are everywhere and show little, so they are left
    // out, unless the path visits that node in a quarter of its steps or more.
    let steps: u64 = graph.edges.iter().map(|edge| edge.times.count).sum();
    let through = graph.nodes.iter().filter(|node| node.kind.is_none()).map(|node| node.times.count).sum::<u64>();
    let is_rare = |node: u32| through * 4 < steps && graph.nodes.get(node as usize).is_none_or(|node| node.kind.is_none());
    let (left_out, drawn): (Vec<&Edge>, Vec<&Edge>) = graph.edges.iter().partition(|edge| is_rare(edge.from) || is_rare(edge.to));
    let all = graph.nodes.iter().map(|node| node.times.total_ns).sum::<u64>().max(1) as f64;
    let arrow = |edge: &Edge| {
        let share = edge.times.total_ns as f64 / all;
        Arrow { from: edge.from, to: edge.to, share, about: about(graph, edge, share) }
    };
    let rare = graph.rare_edges;
    let distinct = rare.distinct + left_out.len() as u64;
    let count = rare.count + left_out.iter().map(|edge| edge.times.count).sum::<u64>();
    let legend = KINDS.iter().filter(|(kind, _)| graph.nodes.iter().any(|node| node.kind == Some(*kind)));
    let picture = Picture {
        title,
        boxes: graph.nodes.iter().map(|node| shape(graph, node)).collect(),
        arrows: drawn.into_iter().map(arrow).collect(),
        first: graph.first.unwrap_or(0),
        legend: legend.map(|&(kind, name)| (paint(Some(kind)), name)).collect(),
        foot: (distinct > 0).then(|| format!("not drawn: {} rare edges, taken {} times", number(distinct), number(count))),
    };
    picture.svg(out)
}

fn paint(kind: Option<Kind>) -> Colours {
    let (fill, border) = colours(kind);
    (if is_hatched(kind) { "url(#hatch)" } else { fill }, border)
}

fn full_name(graph: &Graph, node: &Node) -> String {
    match (&node.class, &node.state) {
        (Some(class), Some(state)) => plain(format!("{class}::{state}")),
        _ => format!("({} rare states)", number(graph.rare_nodes)),
    }
}

fn shape(graph: &Graph, node: &Node) -> Shape {
    let times = &node.times;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let name = full_name(graph, node);
    Shape {
        about: format!(
            "{name}: p50 {}, p90 {}, p99 {}, max {}",
            time(times.p50_ns),
            time(times.p90_ns),
            time(times.p99_ns),
            time(times.max_ns)
        ),
        lines: [name, format!("{} · {} · {}×", percent(node.share), duration(times.total_ns), number(times.count))],
        colours: paint(node.kind),
        dashed: node.kind.is_none() || is_hatched(node.kind),
        share: node.share,
    }
}

fn about(graph: &Graph, edge: &Edge, share: f64) -> String {
    let named = |at: u32| graph.nodes.get(at as usize).map_or_else(String::new, |node| full_name(graph, node));
    let times = &edge.times;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    format!(
        "{} → {}: {} times, {} ({}) before it; p50 {}, p99 {}, max {}",
        named(edge.from),
        named(edge.to),
        number(times.count),
        duration(times.total_ns),
        percent(share),
        time(times.p50_ns),
        time(times.p99_ns),
        time(times.max_ns)
    )
}
