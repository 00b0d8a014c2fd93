//! The wait-for graph as a picture. Boxes are machines, those in a mutual wait are red. Arrows lead
//! from the machine that waits to the one it waits for; their width is the waiting time of all
//! chains that end with this edge.

use crate::render::pictures::graph_svg::{Arrow, Colours, Picture, Shape};
use crate::render::table::{duration, number, percent, plain};
use longpole_analysis::wait_graph::{Answer, Edge, Who};
use std::collections::HashMap;
use std::io::{self, Write};

/// Maximum number of edges in a picture.
pub const MAX_DRAWN: usize = 150;
/// Number of edges that are always drawn. Beyond them, edges with a smaller share of all waiting
/// than [`HARDLY`] are left out.
const ALWAYS_DRAWN: usize = 40;
const HARDLY: f64 = 0.001;

const IN_MUTUAL_WAIT: Colours = ("#fcdedb", "#cc3d31");
const OUTSIDE: Colours = ("#ffffff", "#8a929b");

pub fn svg(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let all: u64 = answer.edges.iter().map(|edge| edge.redistributed_ns).sum();
    let share = |ns: u64| ns as f64 / all.max(1) as f64;
    // A machine that wakes itself shows nothing about other machines.
    let says = |edge: &&Edge| edge.from != edge.to || edge.redistributed_ns > 0;
    let matters = |&(at, edge): &(usize, &Edge)| at < ALWAYS_DRAWN || share(edge.redistributed_ns) >= HARDLY;
    let drawn: Vec<&Edge> = answer.edges.iter().filter(says).enumerate().filter(matters).map(|(_, edge)| edge).take(MAX_DRAWN).collect();
    let mut places: HashMap<&Who, u32> = HashMap::new();
    let mut people: Vec<&Who> = Vec::new();
    for who in drawn.iter().flat_map(|edge| [&edge.from, &edge.to]) {
        places.entry(who).or_insert_with(|| {
            people.push(who);
            people.len() as u32 - 1
        });
    }
    let at = |who: &Who| places.get(who).copied().unwrap_or(0);
    let in_mutual_wait: Vec<&Who> =
        answer.mutual_waits.iter().flat_map(|mutual_wait| &mutual_wait.machines).map(|member| &member.who).collect();
    let mut waited_for: HashMap<&Who, u64> = HashMap::new();
    for edge in &answer.edges {
        *waited_for.entry(&edge.to).or_default() += edge.redistributed_ns;
    }
    let waits: HashMap<&Who, u64> = answer.waiters.iter().map(|waiter| (&waiter.who, waiter.waited_ns)).collect();
    let shape = |&who: &&Who| {
        let (own, others) = (waits.get(who).copied().unwrap_or(0), waited_for.get(who).copied().unwrap_or(0));
        let name = plain(who.to_string());
        Shape {
            about: format!(
                "{name}: waits {}; others wait for it for {} ({} of all waiting)",
                duration(own),
                duration(others),
                percent(share(others))
            ),
            lines: vec![name, format!("waits {} · waited for {}", duration(own), duration(others))],
            colours: if in_mutual_wait.contains(&who) { IN_MUTUAL_WAIT } else { OUTSIDE },
            dashed: false,
            share: share(others).min(1.0),
        }
    };
    let arrow = |edge: &&Edge| Arrow {
        from: at(&edge.from),
        to: at(&edge.to),
        share: share(edge.redistributed_ns),
        about: format!(
            "{} waits for {}: blocked for {}; {} ({}) of all waiting ends with this edge",
            plain(edge.from.to_string()),
            plain(edge.to.to_string()),
            duration(edge.direct_ns),
            duration(edge.redistributed_ns),
            percent(share(edge.redistributed_ns))
        ),
    };
    let title = format!("who waits for whom: {}; {} of waiting", duration(answer.length_ns), duration(all));
    let picture = Picture {
        title: &title,
        boxes: people.iter().map(shape).collect(),
        arrows: drawn.iter().map(arrow).collect(),
        first: 0,
        legend: vec![(IN_MUTUAL_WAIT, "mutual wait: these machines wait only for each other"), (OUTSIDE, "outside")],
        foot: answer.edges.len().checked_sub(drawn.len()).filter(|&more| more > 0).map(|more| {
            let left_out: u64 = all - drawn.iter().map(|edge| edge.redistributed_ns).sum::<u64>();
            format!("not drawn: {} edges with {} of all waiting", number(more as u64), percent(share(left_out)))
        }),
    };
    picture.svg(out)
}
