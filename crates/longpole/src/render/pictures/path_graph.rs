//! The folded graph as a picture: nodes in layers, coloured by kind; edges are as wide as the time
//! spent on them.

use crate::render::pictures::flame_graph::shortened;
use crate::render::pictures::graph_svg::{Arrow, Colours, LaidOut, Picture, Shape};
use crate::render::table::{duration, number, percent, plain};
use longpole_analysis::critical_path::folded::{first_edges, Edge, Graph, Node};
use longpole_analysis::critical_path::samples::Top;
use longpole_analysis::critical_path::{Answer, Kind};
use serde_json::{json, Value};
use std::io::{self, Write};

/// Largest number of nodes and edges together. A larger picture can no longer be surveyed, only
/// searched.
pub const MAX_DRAWN: usize = 150;

/// Edges of nodes that gather rare states are drawn from this share of the steps of the path on.
const FREQUENT: u64 = 50;

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

/// Returns what the graph shows, in one line.
pub fn title(answer: &Answer, graph: &Graph) -> String {
    let end = match answer.end_host.as_str() {
        "" => answer.end_machine.clone(),
        host => format!("{host}/{}", answer.end_machine),
    };
    let which = if answer.mode == "active" { "active path of" } else { "path to the end of" };
    let [length, segments] = [duration(answer.length_ns), number(graph.segments)];
    plain(format!("{which} {end}: {length}, {segments} segments in {} nodes and {} edges", graph.nodes.len(), graph.edges.len()))
}

pub fn svg(out: &mut impl Write, title: &str, graph: &Graph) -> io::Result<()> {
    picture(title, &drawn(graph)).svg(out)
}

/// Returns the picture for the viewer's page, which colours and draws it itself:
/// docs/internals/viewer-interface.md.
pub fn for_page(title: &str, graph: &Graph) -> Value {
    let drawn = drawn(graph);
    let picture = picture(title, &drawn);
    let LaidOut { labels, boxes, bends, box_height, width, height } = picture.laid_out();
    let nodes = graph.nodes.iter().zip(&picture.boxes).zip(labels.iter().zip(boxes)).map(|((node, shape), (lines, place))| {
        json!({
            "state": node.state.is_some().then(|| full_name(node)), "kind": node.kind, "share": node.share, "lines": lines,
            "about": shape.about, "x": rounded(place.x), "y": rounded(place.y), "width": rounded(place.width),
        })
    });
    let edges = picture.arrows.iter().zip(bends).map(|(arrow, bends)| {
        let bends: Vec<[f64; 2]> = bends.into_iter().map(|(x, y)| [rounded(x), rounded(y)]).collect();
        json!({"from": arrow.from, "to": arrow.to, "share": arrow.share, "about": arrow.about, "bends": bends})
    });
    json!({
        "title": title, "width": width.ceil(), "height": height.ceil(), "box_height": box_height, "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(), "foot": picture.foot,
    })
}

/// Rounds a coordinate to tenths of a pixel.
fn rounded(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// A graph and the edges of it that are drawn.
struct Drawn<'a> {
    graph: &'a Graph,
    edges: Vec<&'a Edge>,
    left_out: Vec<&'a Edge>,
}

/// Chooses the edges. Those of nodes that gather rare states are everywhere and show little, so
/// they are drawn only if the path takes them often, or if a node would have no other edge.
fn drawn(graph: &Graph) -> Drawn<'_> {
    let steps: u64 = graph.edges.iter().map(|edge| edge.times.count).sum();
    let gathers = |node: u32| graph.nodes.get(node as usize).is_none_or(|node| node.state.is_none());
    let is_rare = |edge: &Edge| (gathers(edge.from) || gathers(edge.to)) && edge.times.count * FREQUENT < steps;
    // First all edges between single states, so that a node's first edge is one of them if any is.
    let mut edges: Vec<&Edge> = graph.edges.iter().collect();
    edges.sort_by_key(|edge| is_rare(edge));
    let joins = first_edges(graph.nodes.len(), edges.iter().map(|edge| (edge.from, edge.to)));
    let (edges, left_out): (Vec<_>, Vec<_>) = edges.into_iter().zip(joins).partition(|(edge, joins)| *joins || !is_rare(edge));
    let [edges, left_out] = [edges, left_out].map(|edges| edges.into_iter().map(|(edge, _)| edge).collect());
    Drawn { graph, edges, left_out }
}

fn picture<'a>(title: &'a str, Drawn { graph, edges, left_out }: &Drawn<'_>) -> Picture<'a> {
    let all = graph.nodes.iter().map(|node| node.times.total_ns).sum::<u64>().max(1) as f64;
    let arrow = |edge: &&Edge| {
        let share = edge.times.total_ns as f64 / all;
        Arrow { from: edge.from, to: edge.to, share, about: about(graph, edge, share) }
    };
    let rare = graph.rare_edges;
    let distinct = rare.distinct + left_out.len() as u64;
    let count = rare.count + left_out.iter().map(|edge| edge.times.count).sum::<u64>();
    let legend = KINDS.iter().filter(|(kind, _)| graph.nodes.iter().any(|node| node.kind == Some(*kind)));
    Picture {
        title,
        boxes: graph.nodes.iter().map(shape).collect(),
        arrows: edges.iter().map(arrow).collect(),
        first: graph.first.unwrap_or(0),
        legend: legend.map(|&(kind, name)| (paint(Some(kind)), name)).collect(),
        foot: (distinct > 0).then(|| format!("not drawn: {} rare edges, taken {} times", number(distinct), number(count))),
    }
}

fn paint(kind: Option<Kind>) -> Colours {
    let (fill, border) = colours(kind);
    (if is_hatched(kind) { "url(#hatch)" } else { fill }, border)
}

/// Returns class and state; for a node that gathers rare states, their process and number.
pub fn full_name(node: &Node) -> String {
    let states = number(node.states);
    plain(match (&node.class, &node.state) {
        (Some(class), Some(state)) => format!("{class}::{state}"),
        (Some(process), None) => format!("{process} ({states} rare states)"),
        (None, _) => format!("({states} rare states)"),
    })
}

/// Largest number of letters of a function's name in a box.
const MAX_NAME: usize = 24;

/// Returns a function with its share of the state's time, and the interval of the share. The name
/// has at most this number of letters.
pub fn function(top: &Top, letters: usize) -> String {
    let [share, low, high] = [top.share, top.low, top.high].map(percent);
    plain(format!("{} {share} ({low} - {high})", shortened(&top.function, letters)))
}

fn shape(node: &Node) -> Shape {
    let times = &node.times;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let name = full_name(node);
    let functions: Vec<String> = node.functions.iter().flatten().map(|top| function(top, usize::MAX)).collect();
    let about =
        format!("{name}: p50 {}, p90 {}, p99 {}, max {}", time(times.p50_ns), time(times.p90_ns), time(times.p99_ns), time(times.max_ns));
    let mut lines = vec![name, format!("{} · {} · {}×", percent(node.share), duration(times.total_ns), number(times.count))];
    lines.extend(node.functions.iter().flatten().next().map(|top| function(top, MAX_NAME)));
    Shape {
        about: [vec![about], functions].concat().join("\n"),
        lines,
        colours: paint(node.kind),
        dashed: node.kind.is_none() || is_hatched(node.kind),
        share: node.share,
    }
}

fn about(graph: &Graph, edge: &Edge, share: f64) -> String {
    let named = |at: u32| graph.nodes.get(at as usize).map_or_else(String::new, full_name);
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
