//! A graph as SVG: boxes with a few lines of text in layers, arrows whose width is their share, and
//! a legend.
//!
//! The picture needs no other file: no script, style sheet, or font. It uses a font of fixed width,
//! so that the width of a label is known without the font.

use longpole_analysis::critical_path::folded::{Bend, Layout, NodePosition, Sizes};
use std::io::{self, Write};

const LETTER: f64 = 6.7;
const MAX_LETTERS: usize = 34;
const MARGIN: f64 = 28.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 44.0;
/// Sizes for boxes with two lines; each further one needs a line's height.
const SIZES: Sizes = Sizes { height: 46.0, gap: 22.0, layer_gap: 54.0, widest: 1500.0 };
const LINE: f64 = 16.0;

/// Letters of a title that are shown; a name in it may be long.
const MAX_TITLE: usize = 200;

/// Width of the arrow from a node to itself, in pixels.
const EAR: f64 = 22.0;

/// Fill and border colour. Fills are light, so that text on them is readable.
pub type Colours = (&'static str, &'static str);

pub struct Picture<'a> {
    pub title: &'a str,
    pub boxes: Vec<Shape>,
    /// The arrows, most important first.
    pub arrows: Vec<Arrow>,
    /// Index of the box to begin at.
    pub first: u32,
    pub legend: Vec<(Colours, &'a str)>,
    pub foot: Option<String>,
}

pub struct Shape {
    /// A name, which may be long, and lines with numbers.
    pub lines: Vec<String>,
    /// Tooltip of the box.
    pub about: String,
    pub colours: Colours,
    pub dashed: bool,
    /// Thickness of the border, from 0 to 1.
    pub share: f64,
}

pub struct Arrow {
    pub from: u32,
    pub to: u32,
    /// Width of the arrow, from 0 to 1.
    pub share: f64,
    pub about: String,
}

/// The places of everything in a picture.
pub struct LaidOut {
    pub labels: Vec<Vec<String>>,
    /// Places of the boxes, without the arrows from a box to itself.
    pub boxes: Vec<NodePosition>,
    /// Bends of the arrows, in their order; none of an arrow from a box to itself.
    pub bends: Vec<Vec<Bend>>,
    /// Height of a box.
    pub box_height: f64,
    pub width: f64,
    pub height: f64,
}

impl Picture<'_> {
    pub fn laid_out(&self) -> LaidOut {
        let label = |(at, line): (usize, &String)| if at == 0 { shortened(line, MAX_LETTERS) } else { line.clone() };
        let labels: Vec<Vec<String>> = self.boxes.iter().map(|it| it.lines.iter().enumerate().map(label).collect()).collect();
        let further = labels.iter().map(|lines| lines.len().saturating_sub(2)).max().unwrap_or(0);
        let sizes = Sizes { height: SIZES.height + LINE * further as f64, ..SIZES };
        let has_ear = |at: usize| self.arrows.iter().any(|arrow| arrow.from as usize == at && arrow.to as usize == at);
        let ears: Vec<f64> = (0..self.boxes.len()).map(|at| if has_ear(at) { EAR } else { 0.0 }).collect();
        let widths: Vec<f64> = labels.iter().zip(&ears).map(|(lines, ear)| text_width(lines) + 20.0 + 2.0 * ear).collect();
        let edges: Vec<(u32, u32)> = self.arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect();
        let Layout { places, bends, width, height } = Layout::new(&widths, &edges, self.first, sizes);
        let inner = |(place, ear): (NodePosition, f64)| NodePosition { x: place.x + ear, width: place.width - 2.0 * ear, ..place };
        let boxes = places.into_iter().zip(ears).map(inner).collect();
        LaidOut { labels, boxes, bends, box_height: sizes.height, width, height }
    }

    pub fn svg(&self, out: &mut impl Write) -> io::Result<()> {
        let title = &shortened(self.title, MAX_TITLE);
        let layout = self.laid_out();
        let legend_width: f64 = self.legend.iter().map(|(_, name)| legend_step(name)).sum();
        let width = (layout.width.max(legend_width).max(title.chars().count() as f64 * LETTER * 1.15) + 2.0 * MARGIN).ceil();
        let height = (layout.height + HEAD + FOOT + 2.0 * MARGIN).ceil();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"11\">"
        )?;
        writeln!(out, "<title>{}</title>", escaped(self.title))?;
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
        // The widest arrows are drawn last, on top of the others.
        for (arrow, bends) in self.arrows.iter().zip(&layout.bends).rev() {
            match layout.boxes.get(arrow.from as usize) {
                Some(place) if arrow.from == arrow.to => ear(out, (*place, layout.box_height), arrow.share, &arrow.about)?,
                _ => curve(out, bends, arrow.share, &arrow.about)?,
            }
        }
        for ((shape, lines), place) in self.boxes.iter().zip(&layout.labels).zip(&layout.boxes) {
            draw(out, shape, lines, (*place, layout.box_height))?;
        }
        writeln!(out, "</g>")?;
        let mut x = MARGIN;
        let y = height - MARGIN - 10.0;
        for ((fill, border), name) in &self.legend {
            writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"11\" rx=\"3\" fill=\"{fill}\" stroke=\"{border}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#52606d\">{name}</text>",
                y - 10.0,
                x + 20.0
            )?;
            x += legend_step(name);
        }
        if let Some(foot) = &self.foot {
            writeln!(out, "<text x=\"{MARGIN}\" y=\"{:.1}\" fill=\"#52606d\">{}</text>", y + 18.0, escaped(foot))?;
        }
        writeln!(out, "</svg>")
    }
}

fn legend_step(name: &str) -> f64 {
    name.len() as f64 * LETTER + 44.0
}

fn text_width(lines: &[String]) -> f64 {
    lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * LETTER
}

/// Shortens a name in the middle, because its end distinguishes it better than its middle.
fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let (head, tail) = (&letters[..most / 2 - 1], &letters[letters.len() - most / 2..]);
    head.iter().chain(std::iter::once(&'…')).chain(tail).collect()
}

fn draw(out: &mut impl Write, shape: &Shape, lines: &[String], (place, height): (NodePosition, f64)) -> io::Result<()> {
    let (fill, border) = shape.colours;
    let NodePosition { x, y, width } = place;
    let middle = x + width / 2.0;
    let stroke = 1.0 + 3.0 * shape.share;
    let dashes = if shape.dashed { " stroke-dasharray=\"4 3\"" } else { "" };
    write!(
        out,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"7\" fill=\"{fill}\" stroke=\"{border}\" \
         stroke-width=\"{stroke:.1}\"{dashes}/>",
        escaped(&shape.about),
    )?;
    // The lines are in the middle of the box, which may have room for more.
    let first = y + (height - LINE * lines.len() as f64) / 2.0 + 12.0;
    for (at, line) in lines.iter().enumerate() {
        let style = if at == 0 { "font-weight=\"600\" fill=\"#1f2933\"" } else { "fill=\"#52606d\"" };
        let y = first + LINE * at as f64;
        write!(out, "<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" {style}>{}</text>", escaped(line))?;
    }
    writeln!(out, "</g>")
}

/// Returns the line width and opacity of an arrow with this share of the path.
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

fn ear(out: &mut impl Write, (place, height): (NodePosition, f64), share: f64, about: &str) -> io::Result<()> {
    let (width, strength) = pen(share);
    let x = place.x + place.width;
    let (top, bottom) = (place.y + height * 0.3, place.y + height * 0.7);
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
            // XML must not contain these characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
