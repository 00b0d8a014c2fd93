//! A flame graph in SVG: each frame is as wide as its number of samples, and is
//! drawn on top of the frame that called it.
//!
//! A text that does not fit into a box is in its title, which browsers show as a tooltip. In a
//! browser, a script zooms to a frame that is clicked, and marks the functions that are searched
//! for; without it, the picture is complete at its first size.

use crate::render::graph_svg::escaped;
use crate::render::table::{duration, number, percent, plain};
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

/// Draws the frames. The innermost frame of a stack is at the top.
pub fn svg(out: &mut impl Write, title: &str, graph: &FlameGraph) -> io::Result<()> {
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
    writeln!(out, "<text id=\"found\" x=\"{right:.1}\" y=\"26\" text-anchor=\"end\" cursor=\"pointer\" fill=\"#555555\">search</text>")?;
    let base = HEAD + rows * ROW;
    let all = graph.frames.iter().filter(|frame| frame.depth == 0).map(|frame| frame.count).sum::<u64>().max(1);
    let scale = (WIDTH - 2.0 * MARGIN) / all as f64;
    // The place of the next frame of each depth. A frame is followed by those above it, the first
    // of which begins at the same place.
    let mut next_x = vec![MARGIN; graph.height() as usize + 1];
    for frame in &graph.frames {
        let (depth, width) = (frame.depth as usize, frame.count as f64 * scale);
        let x = next_x[depth];
        (next_x[depth], next_x[depth + 1]) = (x + width, x);
        if width >= LEAST {
            draw(out, (frame, graph.unit), (x, base - (depth + 1) as f64 * ROW, width), all)?;
        }
    }
    let mut x = MARGIN;
    let is_drawn = |code: Code| graph.frames.iter().any(|frame| frame.code == code);
    for (text, code) in LEGEND.into_iter().filter(|&(_, code)| code <= Code::Made || is_drawn(code)) {
        let fill = colour(code);
        let y = base + 10.0;
        writeln!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"10\" fill=\"{fill}\"/>")?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555555\">{text}</text>", x + 14.0, y + 9.0)?;
        x += 30.0 + text.len() as f64 * LETTER;
    }
    writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
}

fn draw(out: &mut impl Write, (frame, unit): (&Frame, Unit), (x, y, width): (f64, f64, f64), all: u64) -> io::Result<()> {
    let (shown, fill) = (plain(frame.name.clone()), colour(frame.code));
    let share = escaped(&percent(frame.count as f64 / all as f64));
    let count = match unit {
        Unit::Samples => format!("{} samples", number(frame.count)),
        Unit::Ns => duration(frame.count),
    };
    let (place, part) = ((x - MARGIN) / (WIDTH - 2.0 * MARGIN), frame.count as f64 / all as f64);
    let display = if width < NARROWEST { " style=\"display:none\"" } else { "" };
    writeln!(
        out,
        "<g data-x=\"{place:.9}\" data-w=\"{part:.9}\" data-d=\"{}\" data-n=\"{}\"{display}><title>{}: {count}, {share}</title>",
        frame.depth,
        escaped(&shown),
        escaped(&shown)
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
    fn a_frame_too_narrow_to_be_drawn_is_there_to_zoom_to() {
        let frame = |depth, count| Frame { depth, name: "f".to_owned(), code: Code::Program, count, own: 0 };
        let mut out = Vec::new();
        let graph = FlameGraph { frames: vec![frame(0, 10_000), frame(1, 2)], unit: Unit::Ns, ..FlameGraph::default() };
        svg(&mut out, "t", &graph).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("style=\"display:none\"><title>f: 2 ns, &lt;0.1 %</title>"), "{text}");
    }
}
