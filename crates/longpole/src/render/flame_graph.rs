//! Folded stacks as a flame graph in SVG: each frame is as wide as its number of samples, and is
//! drawn on top of the frame that called it.
//!
//! The picture needs no script. A text that does not fit into a box is in its title, which browsers
//! show as a tooltip.

use crate::render::graph_svg::escaped;
use crate::render::table::{number, percent, plain};
use std::collections::BTreeMap;
use std::io::{self, Write};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 12.0;
const ROW: f64 = 18.0;
const HEAD: f64 = 44.0;
const FOOT: f64 = 26.0;
const LETTER: f64 = 6.6;
/// Width in pixels below which a box is not drawn.
const NARROWEST: f64 = 0.4;
/// Depth beyond which frames are not drawn.
const MAX_DEPTH: usize = 160;

#[derive(Default)]
struct Frame {
    count: u64,
    above: BTreeMap<String, Frame>,
}

impl Frame {
    fn depth(&self) -> usize {
        1 + self.above.values().map(Frame::depth).max().unwrap_or(0)
    }
}

/// Draws lines of the form `process;frame;frame count`.
pub fn svg(out: &mut impl Write, title: &str, lines: &[String]) -> io::Result<()> {
    let mut root = Frame::default();
    for line in lines {
        let Some((stack, count)) = line.rsplit_once(' ').and_then(|(stack, count)| Some((stack, count.parse::<u64>().ok()?))) else {
            continue;
        };
        root.count += count;
        let mut frame = &mut root;
        for name in stack.split(';').take(MAX_DEPTH) {
            frame = frame.above.entry(name.to_owned()).or_default();
            frame.count += count;
        }
    }
    let rows = root.depth() - 1;
    let height = HEAD + rows as f64 * ROW + FOOT;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">"
    )?;
    writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>")?;
    writeln!(out, "<text x=\"{MARGIN}\" y=\"26\" font-size=\"14\">{}</text>", escaped(title))?;
    let base = HEAD + rows as f64 * ROW;
    let scale = (WIDTH - 2.0 * MARGIN) / root.count.max(1) as f64;
    boxes(out, &root, MARGIN, base, scale, root.count)?;
    let legend = [("a program", colour("x")), ("the kernel", colour("x_[k]")), ("made at run time", colour("x_[j]"))];
    let mut x = MARGIN;
    for (text, fill) in legend {
        let y = base + 10.0;
        writeln!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"10\" fill=\"{fill}\"/>")?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#555555\">{text}</text>", x + 14.0, y + 9.0)?;
        x += 30.0 + text.len() as f64 * LETTER;
    }
    writeln!(out, "</svg>")
}

/// Draws the frames above `below`, from `x` on. The innermost frame is at the top.
fn boxes(out: &mut impl Write, below: &Frame, mut x: f64, base: f64, scale: f64, all: u64) -> io::Result<()> {
    for (name, frame) in &below.above {
        let width = frame.count as f64 * scale;
        if width >= NARROWEST {
            let (y, shown) = (base - ROW, plain(name.clone()));
            let share = percent(frame.count as f64 / all.max(1) as f64);
            writeln!(out, "<g><title>{}: {} samples, {share}</title>", escaped(&shown), number(frame.count))?;
            writeln!(out, "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.6\"/>", ROW - 1.0, colour(name))?;
            let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
            if letters >= 3 {
                writeln!(out, "<text x=\"{:.2}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 12.5, escaped(&shortened(&shown, letters)))?;
            }
            writeln!(out, "</g>")?;
            boxes(out, frame, x, base - ROW, scale, all)?;
        }
        x += width;
    }
    Ok(())
}

fn colour(name: &str) -> &'static str {
    match name {
        name if name.ends_with("_[k]") => "#b9d0f5",
        name if name.ends_with("_[j]") => "#d9c8f0",
        _ => "#bfe5c5",
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
        let lines = ["p;main;a<b> 30".to_owned(), "p;main;c_[k] 10".to_owned(), "no count".to_owned()];
        svg(&mut out, "t & u", &lines).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("a&lt;b&gt;: 30 samples, 75.0 %") && !text.contains("a<b>"));
        assert!(text.contains("width=\"882.00\"") && text.contains("width=\"294.00\""));
        assert!(text.contains("t &amp; u"));
    }
}
