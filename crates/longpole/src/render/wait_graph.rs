//! The wait-for graph as text, and as DOT for Graphviz.

use crate::render::length::Length;
use crate::render::pictures::wait_graph_svg::MAX_DRAWN;
use crate::render::style::{painted, title, Role};
use crate::render::table::{duration, number, percent, plain, Table};
use longpole_analysis::wait_graph::{Answer, End, EndKind, MutualWait, Waiter};
use std::collections::HashMap;
use std::io::{self, Write};

/// Number of rows for which the first screen has room, of each of the three tables.
const FIRST_MUTUAL: usize = 3;
const FIRST_WAITERS: usize = 3;
const FIRST_EDGES: usize = 2;
/// Maximum number of chain ends that are printed per waiter.
const MAX_ENDS: usize = 4;
/// Maximum number of machines of a mutual wait that are named.
const MAX_NAMED: usize = 6;

pub fn print(out: &mut impl Write, answer: &Answer, lines: Length) -> io::Result<()> {
    let length = answer.length_ns.max(1) as f64;
    let share = |ns: u64| percent(ns as f64 / length);
    writeln!(
        out,
        "{}\n\n{} (others wait for these, which wait only for each other)",
        title(format!("who waits for whom: {}, {} interactions", duration(answer.length_ns), number(answer.interactions))),
        title("MUTUAL WAITS")
    )?;
    match answer.mutual_waits.is_empty() {
        true => writeln!(out, "  none: nobody is waited for")?,
        false => {
            let mut table = Table::new(&["threads", ">waited for", ">share"]);
            for mutual_wait in &answer.mutual_waits {
                table.row([members(mutual_wait), duration(mutual_wait.waited_ns), percent(mutual_wait.share)]);
            }
            table.print_first(out, lines.rows(FIRST_MUTUAL))?;
        }
    }
    writeln!(out, "\n{} (each to the end of its chain)", title("WAITS"))?;
    let mut table = Table::new(&["thread", ">waits", ">of the time", ">cause unknown", "for"]);
    let waiters: Vec<&Waiter> = answer.waiters.iter().filter(|waiter| waiter.waited_ns > 0).collect();
    for waiter in &waiters {
        let ends: Vec<String> = waiter
            .ends
            .iter()
            .take(MAX_ENDS)
            .map(|end| format!("{} {}", end_name(end), percent(end.ns as f64 / waiter.waited_ns.max(1) as f64)))
            .collect();
        let rest = if waiter.ends.len() > MAX_ENDS { ", …" } else { "" };
        table.row([
            waiter.who.to_string(),
            duration(waiter.waited_ns),
            share(waiter.waited_ns),
            share(waiter.unexplained_ns),
            format!("{}{rest}", ends.join(", ")),
        ]);
    }
    table.print_first(out, lines.rows(FIRST_WAITERS))?;
    writeln!(out, "\n{} (blocked: ended by the second; last: in chains that end with it)", title("EDGES"))?;
    let mut table = Table::new(&["from", "", "to", ">blocked", ">last"]);
    for edge in &answer.edges {
        table.row([edge.from.to_string(), "->".to_owned(), edge.to.to_string(), duration(edge.direct_ns), duration(edge.redistributed_ns)]);
    }
    table.print_first(out, lines.rows(FIRST_EDGES))?;
    let caveats = [
        (answer.cut > 0).then(|| {
            let chains = number(answer.cut);
            format!("{chains} chains are longer than the limit, or lead back beyond the stored history; their ends are unknown")
        }),
        (answer.untold_ns > 0).then(|| {
            let waits = duration(answer.untold_ns);
            format!(
                "{waits} of the waiting is reported without its ends, because there are too many pairs (--begin and --end select a part)"
            )
        }),
        (answer.untold_edges_ns > 0)
            .then(|| format!("edges with {} of the waiting are left out, because there are too many", duration(answer.untold_edges_ns))),
    ];
    for caveat in caveats.into_iter().flatten() {
        writeln!(out, "\n{}", painted(Role::Caveat, caveat))?;
    }
    Ok(())
}

/// Returns the machines of a mutual wait, as many as fit into a line.
fn members(mutual_wait: &MutualWait) -> String {
    let share = |ns: u64| percent(ns as f64 / mutual_wait.waited_ns.max(1) as f64);
    let named: Vec<String> = mutual_wait.machines.iter().take(MAX_NAMED).map(|it| format!("{} {}", it.who, share(it.waited_ns))).collect();
    match mutual_wait.machines.len().checked_sub(MAX_NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", named.join(", ")),
        _ => named.join(", "),
    }
}

fn end_name(end: &End) -> String {
    match (&end.state, end.kind) {
        (Some(state), _) => format!("{}::{state}", end.who),
        (None, EndKind::Unknown) => format!("{} (unknown)", end.who),
        (None, _) => end.who.to_string(),
    }
}

/// Draws the machines and the heaviest edges. Machines of a mutual wait have a red border.
pub fn dot(out: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let text = |text: String| plain(text).replace('\\', "\\\\").replace('"', "\\\"");
    let edges = answer.edges.get(..MAX_DRAWN).unwrap_or(&answer.edges);
    let mut nodes: HashMap<String, usize> = HashMap::new();
    writeln!(out, "digraph waits {{")?;
    writeln!(out, "  graph [label=\"who waits for whom: {}\", labelloc=t, fontname=\"sans-serif\"];", duration(answer.length_ns))?;
    writeln!(
        out,
        "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", color=\"#8a929b\", fontname=\"sans-serif\", fontsize=11];"
    )?;
    writeln!(out, "  edge [color=\"#7b8794\", fontname=\"sans-serif\", fontsize=9];")?;
    for who in edges.iter().flat_map(|edge| [&edge.from, &edge.to]) {
        let (name, next) = (who.to_string(), nodes.len());
        if nodes.contains_key(&name) {
            continue;
        }
        let is_in_mutual_wait = answer.mutual_waits.iter().any(|mutual_wait| mutual_wait.machines.iter().any(|member| member.who == *who));
        let style = if is_in_mutual_wait { ", fillcolor=\"#fcdedb\", color=\"#cc3d31\"" } else { "" };
        writeln!(out, "  n{next} [label=\"{}\"{style}];", text(name.clone()))?;
        nodes.insert(name, next);
    }
    let most = edges.iter().map(|edge| edge.redistributed_ns).max().unwrap_or(1).max(1) as f64;
    for edge in edges {
        let place = |who: &longpole_analysis::wait_graph::Who| nodes.get(&who.to_string()).copied().unwrap_or(0);
        let width = 0.5 + 6.0 * (edge.redistributed_ns as f64 / most).sqrt();
        writeln!(
            out,
            "  n{} -> n{} [label=\"{}\", penwidth={width:.1}];",
            place(&edge.from),
            place(&edge.to),
            duration(edge.redistributed_ns)
        )?;
    }
    writeln!(out, "}}")
}
