//! The layout of a graph: positions of nodes and edges, in layers from top to bottom.
//!
//! Edges that lead back are reversed. Each node is placed one layer below the lowest node that
//! leads to it, if that layer has space. Within a layer the nodes are ordered by the mean position
//! of their neighbours, then moved as close to that mean as possible without touching each other. A
//! long edge gets a bend in each layer that it passes, so that it runs between the nodes. Nodes
//! fill only a part of the width, so that bends have space; the more there are, the closer they
//! are. The module draws nothing; it only computes coordinates.

use std::cmp::{Ordering, Reverse};

/// Sizes of the parts of the drawing, in the drawing's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub height: f64,
    /// Distance between nodes of a layer, and between layers.
    pub gap: f64,
    pub layer_gap: f64,
    /// Largest width of the drawing. It is wider only if a single node is, or if more than 100 or
    /// 200 edges pass a layer.
    pub widest: f64,
}

/// Left edge, top edge and width of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodePosition {
    pub x: f64,
    pub y: f64,
    pub width: f64,
}

/// A point that an edge passes vertically.
pub type Bend = (f64, f64);

/// Positions of the nodes and the bends of the edges, in the order of the input.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub places: Vec<NodePosition>,
    /// Bends of each edge from its first to its second node; empty for an edge from a node to
    /// itself.
    pub bends: Vec<Vec<Bend>>,
    pub width: f64,
    pub height: f64,
}

/// Share of the width that the nodes of a layer fill.
const NODES_SHARE: f64 = 0.8;
/// Least distance between two bends, where edges can hardly be told apart any more.
const MIN_BEND_GAP: f64 = 1.0;
/// Largest distance between two bends, as a part of that between nodes.
const BEND_GAP: f64 = 1.0 / 3.0;

const SWEEPS: usize = 24;
const MAX_BENDS: usize = 100_000;

/// A node, or a bend of an edge.
#[derive(Clone, Copy, Debug)]
struct Item {
    width: f64,
    layer: usize,
    is_bend: bool,
    /// Horizontal position of the centre.
    x: f64,
}

struct Chain {
    edge: usize,
    /// Items from the upper to the lower end.
    items: Vec<usize>,
    turned: bool,
}

impl Layout {
    /// Computes a layout. `edges` are (from, to), the most important first; `first` is the node at
    /// the top.
    pub fn new(widths: &[f64], edges: &[(u32, u32)], first: u32, sizes: Sizes) -> Layout {
        let edges: Vec<(usize, usize)> = edges.iter().map(|&(from, to)| (from as usize, to as usize)).collect();
        let downwards = downwards(widths.len(), &edges, first as usize);
        let layers = layers(widths, &downwards, sizes);
        let mut items: Vec<Item> =
            widths.iter().zip(&layers).map(|(&width, &layer)| Item { width, layer, is_bend: false, x: 0.0 }).collect();
        let mut chains = Vec::new();
        for (edge, &(upper, lower, turned)) in downwards.iter().enumerate() {
            if upper == lower {
                continue;
            }
            let mut chain = vec![upper];
            for layer in layers[upper] + 1..layers[lower] {
                if items.len() < MAX_BENDS {
                    items.push(Item { width: 0.0, layer, is_bend: true, x: 0.0 });
                    chain.push(items.len() - 1);
                }
            }
            chain.push(lower);
            chains.push(Chain { edge, items: chain, turned });
        }
        let rows = order(&mut items, &chains, sizes);
        let left = items.iter().map(|item| item.x - item.width / 2.0).fold(f64::INFINITY, f64::min);
        let left = if left.is_finite() { left } else { 0.0 };
        items.iter_mut().for_each(|item| item.x -= left);
        let top = |layer: usize| layer as f64 * (sizes.height + sizes.layer_gap);
        let place = |item: &Item| NodePosition { x: item.x - item.width / 2.0, y: top(item.layer), width: item.width };
        let mut bends = vec![Vec::new(); edges.len()];
        let ports = ports(&items, &chains);
        for (chain, (out, into)) in chains.iter().zip(ports) {
            let mut points = Vec::new();
            for &at in &chain.items {
                let Item { x, layer, is_bend, .. } = items[at];
                match is_bend {
                    true => points.extend([(x, top(layer)), (x, top(layer) + sizes.height)]),
                    false if points.is_empty() => points.push((out, top(layer) + sizes.height)),
                    false => points.push((into, top(layer))),
                }
            }
            if chain.turned {
                points.reverse();
            }
            bends[chain.edge] = points;
        }
        Layout {
            places: items.iter().take(widths.len()).map(place).collect(),
            bends,
            width: items.iter().map(|item| item.x + item.width / 2.0).fold(0.0, f64::max),
            height: rows as f64 * (sizes.height + sizes.layer_gap) - sizes.layer_gap.min(rows as f64 * sizes.layer_gap),
        }
    }
}

/// Returns each edge as upper node, lower node, and whether it had to be reversed.
fn downwards(nodes: usize, edges: &[(usize, usize)], first: usize) -> Vec<(usize, usize, bool)> {
    let mut next: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes];
    for (edge, &(from, to)) in edges.iter().enumerate() {
        next[from].push((to, edge));
    }
    let mut made: Vec<(usize, usize, bool)> = edges.iter().map(|&(from, to)| (from, to, false)).collect();
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut mark = vec![NEW; nodes];
    for root in std::iter::once(first).chain(0..nodes).filter(|&root| root < nodes) {
        if mark[root] != NEW {
            continue;
        }
        mark[root] = OPEN;
        let mut open = vec![(root, 0)];
        while let Some((node, at)) = open.last_mut() {
            let (from, step) = (*node, *at);
            *at += 1;
            match next[from].get(step) {
                None => {
                    mark[from] = DONE;
                    open.pop();
                }
                Some(&(to, edge)) if mark[to] == OPEN => made[edge] = (to, from, true),
                Some(&(to, _)) if mark[to] == NEW => {
                    mark[to] = OPEN;
                    open.push((to, 0));
                }
                Some(_) => {}
            }
        }
    }
    made
}

/// Returns the layer of each node: below all nodes that lead to it, and not in a layer that is
/// full.
fn layers(widths: &[f64], edges: &[(usize, usize, bool)], sizes: Sizes) -> Vec<usize> {
    let mut before = vec![0usize; widths.len()];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); widths.len()];
    for &(upper, lower, _) in edges.iter().filter(|edge| edge.0 != edge.1) {
        before[lower] += 1;
        after[upper].push(lower);
    }
    let mut layer = vec![0; widths.len()];
    let mut used: Vec<f64> = Vec::new();
    let mut ready: std::collections::BinaryHeap<Reverse<(usize, usize)>> =
        (0..widths.len()).filter(|&node| before[node] == 0).map(|node| Reverse((0, node))).collect();
    while let Some(Reverse((lowest, node))) = ready.pop() {
        let mut at = lowest;
        while used.get(at).is_some_and(|&used| used > 0.0 && used + widths[node] > sizes.widest * NODES_SHARE) {
            at += 1;
        }
        used.resize(used.len().max(at + 1), 0.0);
        used[at] += widths[node] + sizes.gap;
        layer[node] = at;
        for &lower in &after[node] {
            layer[lower] = layer[lower].max(at + 1);
            before[lower] -= 1;
            if before[lower] == 0 {
                ready.push(Reverse((layer[lower], lower)));
            }
        }
    }
    layer
}

/// Sets the x of each item. Returns the number of layers.
fn order(items: &mut [Item], chains: &[Chain], sizes: Sizes) -> usize {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut below = above.clone();
    for chain in chains {
        for pair in chain.items.windows(2) {
            below[pair[0]].push(pair[1]);
            above[pair[1]].push(pair[0]);
        }
    }
    let count = items.iter().map(|item| item.layer + 1).max().unwrap_or(0);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, item) in items.iter().enumerate() {
        rows[item.layer].push(at);
    }
    for row in &rows {
        let wanted: Vec<f64> = (0..row.len()).map(|at| at as f64).collect();
        place(items, row, &wanted, sizes);
    }
    for sweep in 0..SWEEPS {
        // The last third of the sweeps only moves items, so that their order settles.
        let sorts = sweep < SWEEPS * 2 / 3;
        let down = sweep % 2 == 0;
        for step in 0..count {
            let row = if down { step } else { count - 1 - step };
            let near = |at: usize| if down { &above[at] } else { &below[at] };
            let mean = |items: &[Item], at: usize| match near(at).as_slice() {
                [] => items[at].x,
                near => near.iter().map(|&near| items[near].x).sum::<f64>() / near.len() as f64,
            };
            let mut wanted: Vec<(usize, f64)> = rows[row].iter().map(|&at| (at, mean(items, at))).collect();
            if sorts {
                wanted.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal));
            }
            rows[row] = wanted.iter().map(|it| it.0).collect();
            let wanted: Vec<f64> = wanted.iter().map(|it| it.1).collect();
            place(items, &rows[row], &wanted, sizes);
        }
    }
    count
}

/// Places items in this order, none touching the next, as close as possible to their wanted
/// positions: neighbours that would touch become a block around the mean of their positions. The
/// centre of the drawing is at 0, and no item is outside of it if the row fits.
fn place(items: &mut [Item], row: &[usize], wanted: &[f64], sizes: Sizes) {
    let nodes: f64 = row.iter().map(|&at| items[at]).filter(|item| !item.is_bend).map(|item| item.width + sizes.gap).sum();
    let bends = row.iter().filter(|&&at| items[at].is_bend).count();
    let bend_gap = ((sizes.widest - nodes) / bends.max(1) as f64).max(MIN_BEND_GAP).min(sizes.gap * BEND_GAP);
    // The width of an item with half of the distance to each neighbour.
    let taken = |at: usize| items[at].width + if items[at].is_bend { bend_gap } else { sizes.gap };
    let mut offset = Vec::with_capacity(row.len());
    let mut sum = 0.0;
    for (at, &item) in row.iter().enumerate() {
        if at > 0 {
            sum += (taken(row[at - 1]) + taken(item)) / 2.0;
        }
        offset.push(sum);
    }
    // Without their offsets, the positions ascend, so the limits of the first and of the last item
    // are those of all.
    let (first, last) = (row.first().map_or(0.0, |&at| items[at].width), row.last().map_or(0.0, |&at| items[at].width));
    let (least, most) = ((first - sizes.widest) / 2.0, (sizes.widest - last) / 2.0 - sum);
    let (least, most) = if least <= most { (least, most) } else { (-sum / 2.0, -sum / 2.0) };
    // Sum of wanted positions, and number of items, of each block.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (&request, &offset) in wanted.iter().zip(&offset) {
        blocks.push((request - offset, 1));
        while let [.., (a, n), (b, m)] = blocks[..] {
            if a / n as f64 <= b / m as f64 {
                break;
            }
            blocks.pop();
            blocks.pop();
            blocks.push((a + b, n + m));
        }
    }
    let mut at = 0;
    for (sum, count) in blocks {
        for _ in 0..count {
            items[row[at]].x = (sum / count as f64).clamp(least, most) + offset[at];
            at += 1;
        }
    }
}

/// Returns the x at which each edge leaves its upper node and enters its lower node: next to each
/// other, in the order of the edges' other ends.
fn ports(items: &[Item], chains: &[Chain]) -> Vec<(f64, f64)> {
    let mut ports = vec![(0.0, 0.0); chains.len()];
    let mut ends: Vec<[Vec<(f64, usize)>; 2]> = vec![[Vec::new(), Vec::new()]; items.len()];
    for (at, chain) in chains.iter().enumerate() {
        if let [upper, second, ..] = chain.items[..] {
            ends[upper][0].push((items[second].x, at));
        }
        if let [.., second, lower] = chain.items[..] {
            ends[lower][1].push((items[second].x, at));
        }
    }
    for (item, sides) in items.iter().zip(&mut ends) {
        for (side, ends) in sides.iter_mut().enumerate() {
            ends.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            let room = (item.width - 16.0).max(0.0);
            let step = (room / ends.len() as f64).min(18.0);
            let begin = item.x - step * (ends.len() as f64 - 1.0) / 2.0;
            for (place, &(_, chain)) in ends.iter().enumerate() {
                let x = begin + step * place as f64;
                match side {
                    0 => ports[chain].0 = x,
                    _ => ports[chain].1 = x,
                }
            }
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes { height: 40.0, gap: 20.0, layer_gap: 50.0, widest: 800.0 };

    proptest! {
        #[test]
        fn nodes_do_not_touch_and_every_edge_joins_its_nodes(
            widths in proptest::collection::vec(30.0..200.0f64, 1..40), ends in proptest::collection::vec((0u32..40, 0u32..40), 0..120), first in 0u32..40
        ) {
            let nodes = widths.len() as u32;
            let edges: Vec<(u32, u32)> = ends.into_iter().map(|(from, to)| (from % nodes, to % nodes)).collect();
            let layout = Layout::new(&widths, &edges, first % nodes, SIZES);
            prop_assert!(layout.width <= SIZES.widest + 0.001, "{}", layout.width);
            for (at, one) in layout.places.iter().enumerate() {
                prop_assert!(one.x >= -0.001 && one.x + one.width <= layout.width + 0.001);
                prop_assert!(one.y >= 0.0 && one.y + SIZES.height <= layout.height + 0.001);
                for other in &layout.places[at + 1..] {
                    let apart = one.x + one.width < other.x || other.x + other.width < one.x || one.y != other.y;
                    prop_assert!(apart, "{one:?} {other:?}");
                }
            }
            for (&(from, to), bends) in edges.iter().zip(&layout.bends) {
                if from == to {
                    prop_assert!(bends.is_empty());
                    continue;
                }
                for (node, end) in [(from, bends[0]), (to, bends[bends.len() - 1])] {
                    let place = layout.places[node as usize];
                    prop_assert!(place.x <= end.0 && end.0 <= place.x + place.width);
                    prop_assert!(end.1 == place.y || end.1 == place.y + SIZES.height);
                }
            }
        }
    }
}
