//! The folded graph as SVG: nodes in layers, coloured by what they do; edges as wide as the time that went along them.
//!
//! It stands alone: no script, no style sheet, no font of its own. Letters are of one width, so that a label's width is known without one.

use crate::table::{duration, number, percent, plain};
use longpole_analysis::folded::{Edge, Graph, Layout, Node, Place, Sizes};
use longpole_analysis::lineage::Kind;
use std::io::{self, Write};

const LETTER: f64 = 6.7;
const MOST_LETTERS: usize = 34;
const MARGIN: f64 = 28.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 44.0;
const SIZES: Sizes = Sizes { height: 46.0, gap: 22.0, layer_gap: 54.0, widest: 1500.0 };

/// Of an edge from a node to itself.
const EAR: f64 = 22.0;

/// Fill and border; light, so that text reads well on them.
pub fn colours(kind: Option<Kind>) -> (&'static str, &'static str) {
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

/// What is not known is not drawn as if it were.
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
    let labels: Vec<[String; 2]> = graph.nodes.iter().map(|node| label(graph, node)).collect();
    let has_ear = |at: usize| graph.edges.iter().any(|edge| edge.from as usize == at && edge.to as usize == at);
    let ears: Vec<f64> = (0..graph.nodes.len()).map(|at| if has_ear(at) { EAR } else { 0.0 }).collect();
    let widths: Vec<f64> = labels.iter().zip(&ears).map(|(lines, ear)| text_width(lines) + 20.0 + 2.0 * ear).collect();
    // What leads to and from the rare states is everywhere and says little, unless it is most of what there is.
    let steps: u64 = graph.edges.iter().map(|edge| edge.times.count).sum();
    let through = graph.nodes.iter().filter(|node| node.kind.is_none()).map(|node| node.times.count).sum::<u64>();
    let is_rare = |node: u32| through * 4 < steps && graph.nodes.get(node as usize).is_none_or(|node| node.kind.is_none());
    let (left_out, drawn): (Vec<&Edge>, Vec<&Edge>) = graph.edges.iter().partition(|edge| is_rare(edge.from) || is_rare(edge.to));
    let edges: Vec<(u32, u32)> = drawn.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = Layout::new(&widths, &edges, graph.first.unwrap_or(0), SIZES);
    let legend: Vec<(Option<Kind>, &str)> = KINDS
        .iter()
        .map(|&(kind, name)| (Some(kind), name))
        .filter(|(kind, _)| graph.nodes.iter().any(|node| node.kind == *kind))
        .collect();
    let legend_width: f64 = legend.iter().map(|(_, name)| legend_step(name)).sum();
    let width = (layout.width.max(legend_width).max(title.chars().count() as f64 * LETTER * 1.15) + 2.0 * MARGIN).ceil();
    let height = (layout.height + HEAD + FOOT + 2.0 * MARGIN).ceil();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"11\">"
    )?;
    writeln!(out, "<title>{}</title>", escaped(title))?;
    writeln!(
        out,
        "<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"7\" height=\"7\" fill=\"#f7f7f7\"/><rect width=\"2\" height=\"7\" fill=\"#dfe2e5\"/></pattern></defs>"
    )?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>")?;
    writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{:.0}\" font-size=\"12.5\" font-weight=\"600\" fill=\"#1f2933\">{}</text>",
        MARGIN + 8.0,
        escaped(title)
    )?;
    let left = MARGIN + (width - 2.0 * MARGIN - layout.width) / 2.0;
    writeln!(out, "<g transform=\"translate({left:.1} {:.1})\">", MARGIN + HEAD)?;
    let all = graph.nodes.iter().map(|node| node.times.total_ns).sum::<u64>().max(1) as f64;
    // The widest last, on top of the others.
    for (edge, bends) in drawn.iter().zip(&layout.bends).rev() {
        let share = edge.times.total_ns as f64 / all;
        let about = about(graph, edge, share);
        let (from, to) = (layout.places.get(edge.from as usize), layout.places.get(edge.to as usize));
        match (from, to) {
            (Some(place), Some(_)) if edge.from == edge.to => ear(out, *place, share, &about)?,
            _ => curve(out, bends, share, &about)?,
        }
    }
    for (((node, lines), place), ear) in graph.nodes.iter().zip(&labels).zip(&layout.places).zip(&ears) {
        draw(out, graph, node, lines, Place { x: place.x + ear, width: place.width - 2.0 * ear, ..*place })?;
    }
    writeln!(out, "</g>")?;
    let mut x = MARGIN;
    let y = height - MARGIN - 10.0;
    for (kind, name) in legend {
        let (fill, border) = paint(kind);
        writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"11\" rx=\"3\" fill=\"{fill}\" stroke=\"{border}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#52606d\">{name}</text>",
            y - 10.0,
            x + 20.0
        )?;
        x += legend_step(name);
    }
    let rare = graph.rare_edges;
    let distinct = rare.distinct + left_out.len() as u64;
    if distinct > 0 {
        let count = rare.count + left_out.iter().map(|edge| edge.times.count).sum::<u64>();
        let [distinct, count] = [number(distinct), number(count)];
        writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" fill=\"#52606d\">not drawn: {distinct} rare edges, taken {count} times</text>",
            y + 18.0
        )?;
    }
    writeln!(out, "</svg>")
}

fn legend_step(name: &str) -> f64 {
    name.len() as f64 * LETTER + 44.0
}

fn text_width(lines: &[String; 2]) -> f64 {
    lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * LETTER
}

fn paint(kind: Option<Kind>) -> (&'static str, &'static str) {
    let (fill, border) = colours(kind);
    (if is_hatched(kind) { "url(#hatch)" } else { fill }, border)
}

fn full_name(graph: &Graph, node: &Node) -> String {
    match (&node.class, &node.state) {
        (Some(class), Some(state)) => plain(format!("{class}::{state}")),
        _ => format!("({} rare states)", number(graph.rare_nodes)),
    }
}

fn label(graph: &Graph, node: &Node) -> [String; 2] {
    let name = full_name(graph, node);
    let name = match name.char_indices().nth(MOST_LETTERS) {
        // The end tells more apart than the middle.
        Some(_) => {
            let letters: Vec<char> = name.chars().collect();
            let (head, tail) = (&letters[..MOST_LETTERS / 2 - 1], &letters[letters.len() - MOST_LETTERS / 2..]);
            head.iter().chain(std::iter::once(&'…')).chain(tail).collect()
        }
        None => name,
    };
    [name, format!("{} · {} · {}×", percent(node.share), duration(node.times.total_ns), number(node.times.count))]
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

fn draw(out: &mut impl Write, graph: &Graph, node: &Node, [name, numbers]: &[String; 2], place: Place) -> io::Result<()> {
    let (fill, border) = paint(node.kind);
    let Place { x, y, width } = place;
    let middle = x + width / 2.0;
    let stroke = 1.0 + 3.0 * node.share;
    let dashes = if node.kind.is_none() || is_hatched(node.kind) { " stroke-dasharray=\"4 3\"" } else { "" };
    let times = &node.times;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let more = format!(
        "{}: p50 {}, p90 {}, p99 {}, max {}",
        full_name(graph, node),
        time(times.p50_ns),
        time(times.p90_ns),
        time(times.p99_ns),
        time(times.max_ns)
    );
    writeln!(
        out,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" rx=\"7\" fill=\"{fill}\" stroke=\"{border}\" \
         stroke-width=\"{stroke:.1}\"{dashes}/><text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"600\" fill=\"#1f2933\">{}</text>\
         <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#52606d\">{}</text></g>",
        escaped(&more),
        SIZES.height,
        y + 19.0,
        escaped(name),
        y + 35.0,
        escaped(numbers)
    )
}

/// Width and strength of an edge with this share of the path.
fn pen(share: f64) -> (f64, f64) {
    (1.0 + 7.0 * share.sqrt(), 0.35 + 0.6 * share.sqrt().min(1.0))
}

const EDGE: &str = "#64748b";

fn curve(out: &mut impl Write, bends: &[(f64, f64)], share: f64, about: &str) -> io::Result<()> {
    let [(x, y), rest @ ..] = bends else { return Ok(()) };
    let Some(&(end_x, end_y)) = rest.last() else { return Ok(()) };
    let (width, strength) = pen(share);
    let down = end_y > *y;
    let head = 5.0 + width * 0.8;
    let tip = if down { end_y - head } else { end_y + head };
    write!(out, "<g opacity=\"{strength:.2}\"><title>{}</title><path d=\"M{x:.1} {y:.1}", escaped(about))?;
    let (mut x, mut y) = (*x, *y);
    for (at, &(to_x, to_y)) in rest.iter().enumerate() {
        let to_y = if at + 1 == rest.len() { tip } else { to_y };
        let middle = (y + to_y) / 2.0;
        write!(out, " C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}")?;
        (x, y) = (to_x, to_y);
    }
    let half = head * 0.55;
    writeln!(
        out,
        "\" fill=\"none\" stroke=\"{EDGE}\" stroke-width=\"{width:.1}\"/><path d=\"M{end_x:.1} {end_y:.1} L{:.1} {tip:.1} L{:.1} {tip:.1} Z\" fill=\"{EDGE}\"/></g>",
        end_x - half,
        end_x + half
    )
}

fn ear(out: &mut impl Write, place: Place, share: f64, about: &str) -> io::Result<()> {
    let (width, strength) = pen(share);
    let x = place.x + place.width - EAR;
    let (top, bottom) = (place.y + SIZES.height * 0.3, place.y + SIZES.height * 0.7);
    let far = x + EAR * 1.05;
    writeln!(
        out,
        "<g opacity=\"{strength:.2}\"><title>{}</title><path d=\"M{x:.1} {top:.1} C{far:.1} {:.1} {far:.1} {:.1} {:.1} {bottom:.1}\" fill=\"none\" \
         stroke=\"{EDGE}\" stroke-width=\"{:.1}\"/><path d=\"M{x:.1} {bottom:.1} L{:.1} {:.1} L{:.1} {:.1} Z\" fill=\"{EDGE}\"/></g>",
        escaped(about),
        top - 8.0,
        bottom + 8.0,
        x + 6.0,
        width.min(5.0),
        x + 8.0,
        bottom - 4.0,
        x + 8.0,
        bottom + 5.0
    )
}

pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // No XML may hold them.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
