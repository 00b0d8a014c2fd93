//! A flame graph in SVG: each frame is as wide as its number of samples, and is
//! drawn on top of the frame that called it.
//!
//! The colour of a frame is that of its code. In the difference of two graphs it is the change of
//! the frame's share: red if it grew, blue if it shrank, which colour-blind people can tell apart.
//!
//! A text that does not fit into a box is in its title, which browsers show as a tooltip. In a
//! browser, a script zooms to a frame that is clicked, and marks the functions that are searched
//! for; without it, the picture is complete at its first size.

use crate::render::pictures::graph_svg::escaped;
use crate::render::table::{duration, number, percent, plain, signed_points};
use longpole_analysis::scheduling::flame_difference::FlameDifference;
use longpole_analysis::scheduling::flame_graph::{Code, FlameGraph, Frame, Unit};
use std::io::{self, Write};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 12.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 44.0;
const FOOT: f64 = 26.0;
const LETTER: f64 = 6.6;
/// Width in pixels below which a box is not drawn, and below which it is not even there to zoom to.
const NARROWEST: f64 = 0.4;
const LEAST: f64 = 0.02;
const SCRIPT: &str = include_str!("flame_graph.js");
const LEGEND: [(&str, Code); 10] = [
    ("a program", Code::Program),
    ("the kernel", Code::Kernel),
    ("made at run time", Code::Made),
    ("waits for a CPU", Code::WaitsForCpu),
    ("a timer", Code::WaitsForTimer),
    ("a disk", Code::WaitsForDisk),
    ("a network", Code::WaitsForNetwork),
    ("something else", Code::Waits),
    ("no stack", Code::WithoutStack),
    ("ends early", Code::Truncated),
];

/// Colours of a difference: no change, and the largest change to more and to less. Black text on
/// them can be read.
const SAME: [u8; 3] = [0xf7, 0xf7, 0xf7];
const MORE: [u8; 3] = [0xd6, 0x60, 0x4d];
const LESS: [u8; 3] = [0x5a, 0x9f, 0xcb];
/// Smallest change that has a full colour, so that differences by chance are not conspicuous.
const LEAST_FULL: f64 = 0.01;
/// Number of boxes of the legend on either side of no change.
const STEPS: i32 = 3;

/// What is drawn, and how.
struct Picture<'a> {
    title: &'a str,
    graph: &'a FlameGraph,
    /// Colour of a frame, by its index, and what its title says after its name.
    look: &'a dyn Fn(usize, &Frame) -> (String, String),
    /// Colours with their meanings.
    legend: Vec<(String, String)>,
}

/// Draws the frames. The innermost frame of a stack is at the top.
pub fn svg(out: &mut impl Write, title: &str, graph: &FlameGraph) -> io::Result<()> {
    let all = graph.total().max(1);
    let look = |_, frame: &Frame| {
        let count = match graph.unit {
            Unit::Samples => format!("{} samples", number(frame.count)),
            Unit::Ns => duration(frame.count),
        };
        (colour(frame.code).to_owned(), format!("{count}, {}", percent(frame.count as f64 / all as f64)))
    };
    let is_drawn = |code: Code| graph.frames.iter().any(|frame| frame.code == code);
    let legend = LEGEND.into_iter().filter(|&(_, code)| code <= Code::Made || is_drawn(code));
    let legend = legend.map(|(text, code)| (text.to_owned(), colour(code).to_owned())).collect();
    Picture { title, graph, look: &look, legend }.draw(out)
}

/// Draws the frames of the second graph, coloured by the change of their shares since the first.
pub fn difference_svg(out: &mut impl Write, title: &str, difference: &FlameDifference) -> io::Result<()> {
    let full = difference.largest_change().max(LEAST_FULL);
    let look = |at: usize, frame: &Frame| {
        let (share, first) = (difference.share(frame), difference.first_shares.get(at).copied().unwrap_or(0.0));
        let change = signed_points(share - first);
        let about = match first > 0.0 {
            true => format!("{} of the second, {} of the first ({change})", percent(share), percent(first)),
            false => format!("{} of the second, not in the first ({change})", percent(share)),
        };
        (change_colour((share - first) / full), about)
    };
    let step = |step: i32| {
        let part = f64::from(step) / f64::from(STEPS);
        let text = if step == 0 { "same share".to_owned() } else { signed_points(part * full) };
        (text, change_colour(part))
    };
    let mut legend = vec![("change of the share:".to_owned(), "none".to_owned())];
    legend.extend((-STEPS..=STEPS).map(step));
    if difference.only_first > 0.0 {
        legend.push((format!("not drawn, only in the first: {}", percent(difference.only_first)), "none".to_owned()));
    }
    Picture { title, graph: &difference.graph, look: &look, legend }.draw(out)
}

impl Picture<'_> {
    fn draw(&self, out: &mut impl Write) -> io::Result<()> {
        let Picture { title, graph, look, legend } = self;
        let rows = f64::from(graph.height());
        let height = HEAD + rows * ROW + FOOT;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">"
        )?;
        writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>")?;
        writeln!(out, "<text x=\"{MARGIN}\" y=\"26\" font-size=\"14\">{}</text>", escaped(title))?;
        let right = WIDTH - MARGIN;
        writeln!(
            out,
            "<text id=\"all\" x=\"{:.1}\" y=\"26\" text-anchor=\"end\" cursor=\"pointer\" fill=\"#555555\">all</text>",
            right - 130.0
        )?;
        writeln!(
            out,
            "<text id=\"found\" x=\"{right:.1}\" y=\"26\" text-anchor=\"end\" cursor=\"pointer\" fill=\"#555555\">search</text>"
        )?;
        let base = HEAD + rows * ROW;
        let all = graph.total().max(1);
        let scale = (WIDTH - 2.0 * MARGIN) / all as f64;
        // The place of the next frame of each depth. A frame is followed by those above it, the
        // first of which begins at the same place.
        let mut next_x = vec![MARGIN; graph.height() as usize + 1];
        for (at, frame) in graph.frames.iter().enumerate() {
            let (depth, width) = (frame.depth as usize, frame.count as f64 * scale);
            let x = next_x[depth];
            (next_x[depth], next_x[depth + 1]) = (x + width, x);
            if width >= LEAST {
                let part = frame.count as f64 / all as f64;
                draw(out, frame, look(at, frame), (x, base - (depth + 1) as f64 * ROW, width), part)?;
            }
        }
        let mut x = MARGIN;
        for (text, fill) in legend {
            let y = base + 10.0;
            writeln!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"10\" fill=\"{fill}\"/>")?;
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555555\">{}</text>", x + 14.0, y + 9.0, escaped(text))?;
            x += 30.0 + text.chars().count() as f64 * LETTER;
        }
        writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
    }
}

/// Draws a frame at this place, with this part of the picture's width.
fn draw(out: &mut impl Write, frame: &Frame, (fill, about): (String, String), (x, y, width): (f64, f64, f64), part: f64) -> io::Result<()> {
    let shown = plain(frame.name.clone());
    let place = (x - MARGIN) / (WIDTH - 2.0 * MARGIN);
    let display = if width < NARROWEST { " style=\"display:none\"" } else { "" };
    writeln!(
        out,
        "<g data-x=\"{place:.9}\" data-w=\"{part:.9}\" data-d=\"{}\" data-n=\"{}\"{display}><title>{}: {}</title>",
        frame.depth,
        escaped(&shown),
        escaped(&shown),
        escaped(&about)
    )?;
    writeln!(
        out,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"0.6\"/>",
        ROW - 1.0
    )?;
    let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
    let label = if letters >= 3 { escaped(&shortened(&shown, letters)) } else { String::new() };
    writeln!(out, "<text x=\"{:.2}\" y=\"{:.1}\">{label}</text>", x + 3.0, y + 12.5)?;
    writeln!(out, "</g>")
}

/// Returns the colour of a change, from -1 (the largest to less) to 1 (the largest to more).
fn change_colour(change: f64) -> String {
    let to = if change > 0.0 { MORE } else { LESS };
    let part = change.abs().min(1.0);
    let mixed: Vec<String> = SAME
        .iter()
        .zip(to)
        .map(|(&same, to)| format!("{:02x}", (f64::from(same) + part * (f64::from(to) - f64::from(same))).round() as u8))
        .collect();
    format!("#{}", mixed.concat())
}

fn colour(code: Code) -> &'static str {
    match code {
        Code::Kernel => "#b9d0f5",
        Code::Made => "#d9c8f0",
        Code::Process | Code::Program => "#bfe5c5",
        Code::WaitsForCpu => "#f2b8b0",
        Code::WaitsForTimer => "#f3e0a0",
        Code::WaitsForDisk => "#f0c490",
        Code::WaitsForNetwork => "#9fd8dc",
        Code::Waits => "#d8c3a5",
        Code::WithoutStack => "#dddddd",
        Code::Truncated => "#bdbdbd",
    }
}

/// Returns the text with its end replaced by `…` if it has more than this number of letters.
pub fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() <= letters {
        true => text.to_owned(),
        false => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_of_a_frame_is_its_share_of_samples_and_names_are_escaped() {
        let mut out = Vec::new();
        let frame = |depth, name: &str, code, count| Frame { depth, name: name.to_owned(), code, count, own: 0 };
        let frames = vec![
            frame(0, "p", Code::Process, 40),
            frame(1, "main", Code::Program, 40),
            frame(2, "a<b>", Code::Program, 30),
            frame(2, "c", Code::Kernel, 10),
        ];
        svg(&mut out, "t & u", &FlameGraph { frames, ..FlameGraph::default() }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("a&lt;b&gt;: 30 samples, 75.0 %") && !text.contains("a<b>"));
        assert!(text.contains("width=\"882.00\"") && text.contains("width=\"294.00\""));
        // The second frame above `main` begins where the first one ends.
        assert!(text.contains("<rect x=\"894.00\" y=\"44.0\" width=\"294.00\""), "{text}");
        assert!(text.contains("t &amp; u"));
    }

    #[test]
    fn a_frame_of_a_difference_is_red_if_its_share_grew_and_blue_if_it_shrank() {
        let frame = |depth, name: &str, count| Frame { depth, name: name.to_owned(), code: Code::Program, count, own: 0 };
        let graph = |counts: [u64; 4]| {
            let names = ["main", "less", "more", "same"];
            let frames = names.iter().zip(counts).enumerate().filter(|(_, (_, count))| *count > 0);
            let frames = frames.map(|(at, (name, count))| frame(u32::from(at > 0), name, count)).collect();
            FlameGraph { frames, unit: Unit::Ns, ..FlameGraph::default() }
        };
        let drawn = |first: &FlameGraph, second: FlameGraph| {
            let mut out = Vec::new();
            difference_svg(&mut out, "t", &FlameDifference::new(first, second)).unwrap();
            String::from_utf8(out).unwrap()
        };
        let fill = |text: &str, name: &str| {
            let of_frame = text.split(&format!("data-n=\"{name}\"")).nth(1).unwrap();
            of_frame.split("fill=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
        };
        // Twice the time, with other shares.
        let text = drawn(&graph([100, 50, 20, 30]), graph([200, 60, 80, 60]));
        assert_eq!(["main", "less", "more", "same"].map(|name| fill(&text, name)), ["#f7f7f7", "#5a9fcb", "#d6604d", "#f7f7f7"]);
        assert!(text.contains("more: 40.0 % of the second, 20.0 % of the first (+20.0 points)"), "{text}");
        assert!(text.contains(">-20.0 points<") && text.contains(">same share<") && text.contains(">+20.0 points<"), "{text}");
        // Half of the change has half of the colour, and a change by chance little.
        let text = drawn(&graph([1000, 500, 0, 500]), graph([1000, 498, 2, 500]));
        assert_eq!(fill(&text, "more"), "#f0d9d5");
        assert!(text.contains("0.2 % of the second, not in the first"), "{text}");
        let text = drawn(&graph([100, 10, 50, 40]), graph([100, 0, 60, 40]));
        assert!(text.contains("not drawn, only in the first: 10.0 %"), "{text}");
    }

    #[test]
    fn a_frame_too_narrow_to_be_drawn_is_there_to_zoom_to() {
        let frame = |depth, count| Frame { depth, name: "f".to_owned(), code: Code::Program, count, own: 0 };
        let mut out = Vec::new();
        let graph = FlameGraph { frames: vec![frame(0, 10_000), frame(1, 2)], unit: Unit::Ns, ..FlameGraph::default() };
        svg(&mut out, "t", &graph).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("style=\"display:none\"><title>f: 2 ns, &lt;0.1 %</title>"), "{text}");
    }
}
