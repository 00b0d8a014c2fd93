//! Lines of cells on a screen: columns of fixed width, of which one takes the room that is left.

use crate::render::table::plain;
use longpole_analysis::live::history::Shares;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Meaning of a text, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// The sentence that is the answer.
    Headline,
    /// The head of a table.
    Head,
    /// What the critical path begins with.
    Bottleneck,
    /// A value near its limit, and lost events.
    Limit,
    Running,
    /// What matters less, and limitations.
    Dim,
}

impl Tone {
    fn style(self, in_colour: bool) -> Style {
        let style = Style::new();
        let coloured = |color: Color| if in_colour { style.fg(color) } else { style };
        match self {
            Tone::Plain => style,
            Tone::Headline => style.add_modifier(Modifier::BOLD),
            Tone::Head => style.add_modifier(Modifier::REVERSED),
            Tone::Bottleneck => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Limit => coloured(Color::Yellow),
            Tone::Running => coloured(Color::Green),
            Tone::Dim => style.add_modifier(Modifier::DIM),
        }
    }
}

/// A part of the screen that is filled line by line, from the top.
pub struct Lines<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    /// Number of filled lines.
    used: u16,
    in_colour: bool,
}

/// A cell: text, width, and meaning. The text is cut to the width; a space follows it.
pub struct Cell {
    pub text: String,
    pub width: u16,
    /// True for numbers.
    pub is_right: bool,
    pub tone: Tone,
}

impl Cell {
    pub fn left(text: impl Into<String>, width: u16) -> Cell {
        Cell { text: text.into(), width, is_right: false, tone: Tone::Plain }
    }

    pub fn right(text: impl Into<String>, width: u16) -> Cell {
        Cell { text: text.into(), width, is_right: true, tone: Tone::Plain }
    }

    pub fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

impl<'a> Lines<'a> {
    pub fn new(buffer: &'a mut Buffer, area: Rect) -> Lines<'a> {
        let in_colour = anstream::ColorChoice::global() != anstream::ColorChoice::Never;
        Lines { buffer, area, used: 0, in_colour }
    }

    pub fn width(&self) -> u16 {
        self.area.width
    }

    /// Number of lines that are still free.
    pub fn left(&self) -> u16 {
        self.area.height.saturating_sub(self.used)
    }

    /// Takes lines from the top, `count` at most; or from their left part of this width.
    pub fn part(&mut self, count: u16, (x, width): (u16, u16)) -> Lines<'_> {
        let area = Rect { x: self.area.x + x, y: self.area.y + self.used, width, height: count.min(self.left()) };
        Lines { buffer: self.buffer, area, used: 0, in_colour: self.in_colour }
    }

    /// Skips lines, which stay as they are.
    pub fn skip(&mut self, count: u16) {
        self.used += count;
    }

    /// Fills a line with text, which is cut at the end of the line.
    pub fn text(&mut self, text: &str, tone: Tone) {
        let width = self.area.width;
        self.cells([Cell::left(text, width).tone(tone)], tone);
    }

    /// Fills a line with cells. `tone` is that of the cells that have none.
    pub fn cells(&mut self, cells: impl IntoIterator<Item = Cell>, tone: Tone) {
        if self.left() == 0 {
            return;
        }
        let (y, end) = (self.area.y + self.used, self.area.right());
        self.used += 1;
        let base = tone.style(self.in_colour);
        if tone == Tone::Head {
            self.buffer.set_style(Rect { x: self.area.x, y, width: self.area.width, height: 1 }, base);
        }
        let mut x = self.area.x;
        for cell in cells {
            let width = cell.width.min(end.saturating_sub(x));
            let text = cut(&plain(cell.text), usize::from(width));
            let free = usize::from(width).saturating_sub(text.chars().count()) as u16;
            let style = if cell.tone == Tone::Plain { base } else { cell.tone.style(self.in_colour) };
            let at = if cell.is_right { x + free } else { x };
            if width > 0 {
                self.buffer.set_stringn(at, y, text, usize::from(width), style);
            }
            x = (x + width + 1).min(end);
        }
    }
}

/// Returns the text, with `…` at its end if it is longer than the width.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect(),
        false => text.to_owned(),
    }
}

/// Returns the last shares as bars, a character each, the newest one last. A dot is a period that
/// was not analysed.
pub fn bars(shares: Option<&Shares>, width: u16) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let width = usize::from(width);
    let shares = shares.into_iter().flatten();
    let all: Vec<char> = shares
        .map(|share| match share {
            None => '·',
            Some(share) if *share <= 0.0 => ' ',
            Some(share) => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
        })
        .collect();
    let shown = &all[all.len().saturating_sub(width)..];
    std::iter::repeat_n(' ', width - shown.len()).chain(shown.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_newest_shares_at_the_right() {
        let shares: Shares = [Some(0.0), Some(0.01), None, Some(0.5), Some(1.0)].into();
        assert_eq!(bars(Some(&shares), 6), "  ▁·▄█");
        assert_eq!(bars(Some(&shares), 2), "▄█");
        assert_eq!(bars(None, 2), "  ");
    }

    #[test]
    fn cells_are_cut_to_their_width_and_numbers_are_at_the_right() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        let area = buffer.area;
        let cells = [Cell::left("packer_two", 6), Cell::right("7", 4)];
        Lines::new(&mut buffer, area).cells(cells, Tone::Plain);
        let line: String = buffer.content().iter().map(|cell| cell.symbol()).collect();
        assert_eq!(line, "packe…    7 ");
    }
}
