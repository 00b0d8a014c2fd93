//! Draws the screen of `longpole top`: from the top, the verdict, the rates of events, CPUs, queues
//! and latencies, and threads. On a wide screen, queues and latencies are next to the threads.

use super::batch;
use super::lines::{bars, Cell, Lines, Tone};
use super::view::{View, HISTORY, KEYS};
use crate::render::table::{duration, number, plain};
use crate::render::terminal::screen::{self, wrapped};
use longpole_analysis::live::order::Order;
use longpole_analysis::live::{CpuUse, LiveState, OnPath, Period, ThreadUse};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Columns from which on queues and latencies are next to the threads.
const WIDE: u16 = 150;
/// Lines from which on the sections have room for more than the most important rows.
const HIGH: u16 = 40;
/// Share from which on a value is near its limit.
const NEAR_LIMIT: f64 = 0.9;

/// Draws the view. Returns the number of threads for which there is room.
pub fn draw(buffer: &mut Buffer, view: &View) -> usize {
    let area = buffer.area;
    let mut lines = Lines::new(buffer, area);
    if usize::from(area.width) < screen::COLUMNS || usize::from(area.height) < screen::LINES {
        too_small(&mut lines, area);
        return 1;
    }
    head(&mut lines, view);
    let height = lines.left() - 1;
    let width = lines.width();
    let mut page = 1;
    {
        let mut body = lines.part(height, (0, width));
        match &view.period {
            _ if view.shows_help => help(&mut body),
            None => waiting(&mut body, view),
            Some(period) => {
                summary(&mut body, view, period, area.height);
                cpus(&mut body, view, period, area.height);
                page = rest(&mut body, view, period);
            }
        }
    }
    lines.skip(height);
    foot(&mut lines, view);
    page
}

fn too_small(lines: &mut Lines<'_>, area: Rect) {
    let (columns, rows) = (screen::COLUMNS, screen::LINES);
    let text = format!(
        "longpole top needs {columns} columns and {rows} lines; this terminal has {} and {}. q quits; --batch prints text.",
        area.width, area.height
    );
    for line in wrapped(&text, usize::from(area.width).max(1)) {
        lines.text(&line, Tone::Plain);
    }
}

fn head(lines: &mut Lines<'_>, view: &View) {
    let period = view.period.as_ref().map_or_else(String::new, |period| {
        format!("period {}, {}, {}", number(period.number), batch::length(period), batch::time(period.end_ns))
    });
    let paused = if view.is_paused { "PAUSED  " } else { "" };
    let filter = if view.filter.is_empty() { String::new() } else { format!("  filter {}", view.filter) };
    let state = format!("{paused}sort {}{filter}", view.order.name());
    let right = (state.chars().count() as u16).min(lines.width() / 2);
    let left = lines.width().saturating_sub(right + 1);
    lines.cells([Cell::left(format!("longpole top  {period}"), left), Cell::right(state, right)], Tone::Head);
}

fn foot(lines: &mut Lines<'_>, view: &View) {
    match view.edits_filter {
        true => lines.text(&format!("filter: {}_   (Enter: keep, Esc: all threads)", view.filter), Tone::Headline),
        false => lines.text("q quit  s sort  / filter  space pause  arrows scroll  ? help", Tone::Dim),
    }
}

fn help(lines: &mut Lines<'_>) {
    lines.text("", Tone::Plain);
    lines.text("KEYS", Tone::Headline);
    for (keys, what) in KEYS {
        lines.cells([Cell::left(keys, 16), Cell::left(what, u16::MAX - 20)], Tone::Plain);
    }
    lines.text("", Tone::Plain);
    let explained = [
        "Shares are of the last period. CPU: it ran (calls: in system calls); ready: it waited for a CPU;",
        "block: it waited for something else, which STATE names. Bars: the last periods, the newest at the",
        "right; a dot is a period that was not analysed.",
    ];
    let width = usize::from(lines.width());
    for line in wrapped(&explained.join(" "), width) {
        lines.text(&line, Tone::Plain);
    }
}

fn waiting(lines: &mut Lines<'_>, view: &View) {
    let text = match &view.sources {
        None => "beginning to record …",
        Some(_) => "recording the first period …",
    };
    lines.text(text, Tone::Plain);
    for trouble in view.sources.iter().flat_map(|sources| &sources.troubles) {
        lines.text(trouble, Tone::Limit);
    }
    if let Some(note) = &view.note {
        lines.text(note, Tone::Limit);
    }
}

/// The verdict, the first entry of the path, and the rates of events.
fn summary(lines: &mut Lines<'_>, view: &View, period: &Period, height: u16) {
    let most = if height < HIGH { 2 } else { 4 };
    let width = usize::from(lines.width());
    let verdict = wrapped(&plain(period.verdict.clone()), width);
    for (at, line) in verdict.iter().enumerate().take(most) {
        let is_cut = at + 1 == most && verdict.len() > most;
        let line = if is_cut { format!("{} …", line.chars().take(width.saturating_sub(2)).collect::<String>()) } else { line.clone() };
        lines.text(&line, Tone::Headline);
    }
    match &period.path {
        Some(OnPath { machine, state, share }) => {
            lines.text(&format!("critical path: {machine}::{state} {} %", percent(*share)), Tone::Bottleneck)
        }
        None => lines.text("critical path: none in this period", Tone::Dim),
    }
    let has_lost = period.events.probes_lost + period.events.kernel_lost > 0;
    let skipped = match view.skipped {
        0 => String::new(),
        count => format!("; {} not analysed (reading takes longer than a period)", counted_periods(count)),
    };
    lines.text(&format!("{}{skipped}", batch::events(period)), if has_lost || !skipped.is_empty() { Tone::Limit } else { Tone::Plain });
    if let Some(trouble) = view.sources.iter().flat_map(|sources| &sources.troubles).next().or(view.note.as_ref()) {
        lines.text(trouble, Tone::Limit);
    }
    if let Some(other) = view.sources.as_ref().and_then(|sources| sources.other.as_ref()) {
        lines.text(&format!("probes are those of the recording in progress, {other}"), Tone::Dim);
    }
    if view.sources.as_ref().is_some_and(|sources| !sources.kernel) {
        lines.text("CPUs, other programs, calls and what threads wait for are shown with the kernel's events", Tone::Dim);
    }
}

fn counted_periods(count: u64) -> String {
    if count == 1 {
        return "1 period".to_owned();
    }
    format!("{} periods", number(count))
}

/// Width of the cells of a CPU before its history: number, busy, interrupts.
const CPU_CELLS: u16 = 4 + 6 + 6 + 3;

/// The use of the CPUs, in as many columns as needed.
fn cpus(lines: &mut Lines<'_>, view: &View, period: &Period, height: u16) {
    let Some(cpus) = &period.cpus else { return };
    let most = if height < HIGH { 4 } else { usize::from(height / 4) };
    let columns = cpus.len().div_ceil(most).clamp(1, usize::from(lines.width() / 40));
    let rows = cpus.len().div_ceil(columns).min(most);
    let width = lines.width() / columns as u16;
    let bars_width = (width.saturating_sub(CPU_CELLS) / 2).clamp(8, HISTORY as u16);
    for column in 0..columns {
        let mut part = lines.part(rows as u16 + 1, (column as u16 * width, width));
        let largest = width.saturating_sub(CPU_CELLS + bars_width + 2);
        let head = [
            Cell::right("CPU", 4),
            Cell::right("busy%", 6),
            Cell::right("irq%", 6),
            Cell::left("history", bars_width),
            Cell::left("most by", largest),
        ];
        part.cells(head, Tone::Head);
        for cpu in cpus.iter().skip(column * rows).take(rows) {
            part.cells(cpu_cells(cpu, view, bars_width, largest), Tone::Plain);
        }
    }
    lines.skip(rows as u16 + 1);
    if let Some(more) = cpus.len().checked_sub(rows * columns).filter(|&more| more > 0) {
        lines.text(&format!("… and {more} more CPUs; --batch prints all"), Tone::Dim);
    }
}

fn cpu_cells(cpu: &CpuUse, view: &View, bars_width: u16, largest: u16) -> [Cell; 5] {
    let tone = if cpu.busy >= NEAR_LIMIT { Tone::Limit } else { Tone::Running };
    let first = cpu.consumers.first();
    let first = first.map_or_else(String::new, |first| format!("{} {}", percent(first.share), batch::name(&first.process, &first.name)));
    [
        Cell::right(cpu.cpu.to_string(), 4),
        Cell::right(percent(cpu.busy), 6),
        Cell::right(percent(cpu.irq + cpu.softirq), 6),
        Cell::left(bars(view.history.cpu(cpu.cpu), bars_width), bars_width).tone(tone),
        Cell::left(first, largest),
    ]
}

/// Queues, latencies and threads. Returns the number of threads for which there is room.
fn rest(lines: &mut Lines<'_>, view: &View, period: &Period) -> usize {
    let (height, width) = (lines.left(), lines.width());
    let has_probes = !period.queues.is_empty() || !period.latencies.is_empty();
    match (has_probes, width >= WIDE) {
        (false, _) => threads(&mut lines.part(height, (0, width)), view, period),
        (true, true) => {
            let left = width * 3 / 5;
            let page = threads(&mut lines.part(height, (0, left - 1)), view, period);
            probes(&mut lines.part(height, (left, width - left)), period, usize::from(height / 2).saturating_sub(2));
            page
        }
        (true, false) => {
            let most = usize::from((height / 6).max(2));
            probes(&mut lines.part(height, (0, width)), period, most);
            let used = [period.queues.len(), period.latencies.len()].map(|count| if count > 0 { count.min(most) as u16 + 1 } else { 0 });
            lines.skip(used[0] + used[1]);
            let height = lines.left();
            threads(&mut lines.part(height, (0, width)), view, period)
        }
    }
}

fn probes(lines: &mut Lines<'_>, period: &Period, most: usize) {
    let name = lines.width().saturating_sub(7 * 6 + 1);
    if !period.queues.is_empty() {
        let heads = ["level", "max", "cap", "full%", "empty%", "gets/s"];
        lines.cells([Cell::left("QUEUE", name)].into_iter().chain(heads.map(|head| Cell::right(head, 6))), Tone::Head);
        for queue in period.queues.iter().take(most) {
            let cells = [
                queue.mean.map_or_else(String::new, |mean| format!("{mean:.1}")),
                queue.max.map_or_else(String::new, short),
                queue.capacity.map_or_else(String::new, short),
                queue.full.map_or_else(String::new, percent),
                queue.empty.map_or_else(String::new, percent),
                short((queue.gets as f64 / period.seconds()) as u64),
            ];
            let is_full = queue.full.is_some_and(|full| full >= NEAR_LIMIT);
            lines.cells(
                [Cell::left(&queue.name, name)].into_iter().chain(cells.map(|cell| Cell::right(cell, 6))),
                if is_full { Tone::Limit } else { Tone::Plain },
            );
        }
    }
    if !period.latencies.is_empty() {
        let name = lines.width().saturating_sub(8 + 3 * 9 + 1);
        let heads = [("count/s", 8), ("mean", 8), ("p99", 8), ("max", 8)];
        lines.cells([Cell::left("LATENCY", name)].into_iter().chain(heads.map(|(head, width)| Cell::right(head, width))), Tone::Head);
        let exact = |ns: Option<u64>| ns.map_or_else(String::new, duration);
        for latency in period.latencies.iter().take(most) {
            let cells = [
                short((latency.count as f64 / period.seconds()) as u64),
                exact(latency.mean_ns.map(|ns| ns.round() as u64)),
                exact(latency.p99_ns),
                exact(latency.max_ns),
            ];
            let title = Cell::left(format!("{} ({})", latency.name, batch::between(latency)), name);
            lines.cells([title].into_iter().chain(cells.map(|cell| Cell::right(cell, 8))), Tone::Plain);
        }
    }
}

/// The threads. Returns the number of them for which there is room.
fn threads(lines: &mut Lines<'_>, view: &View, period: &Period) -> usize {
    let all = view.threads();
    let of_kernel = period.cpus.is_some();
    let room = usize::from(lines.left().saturating_sub(1)).max(1);
    let widths = Widths::of(lines.width());
    let mark = |order: Order, head: &str| if order == view.order { format!("{head}↓") } else { head.to_owned() };
    lines.cells(
        [
            Cell::left(mark(Order::Name, &format!("THREAD ({})", number(all.len() as u64))), widths.name),
            Cell::right(mark(Order::Tid, "tid"), 7),
            Cell::right(mark(Order::Running, "CPU%"), 6),
            Cell::left("history", widths.bars),
            Cell::right(mark(Order::Calls, "calls"), 6),
            Cell::right(mark(Order::Runnable, "ready"), 6),
            Cell::right(mark(Order::Blocked, "block"), 6),
            Cell::left("STATE", widths.state),
        ],
        Tone::Head,
    );
    if all.is_empty() {
        let text = match (period.threads.is_empty(), of_kernel) {
            (true, false) => "no program with probes runs; others are shown with the kernel's events, which need root",
            (true, true) => "no thread ran",
            (false, _) => "no thread contains this text; Esc shows all",
        };
        lines.text(text, Tone::Dim);
    }
    let first = view.first.min(all.len().saturating_sub(1));
    for thread in all.iter().skip(first).take(room) {
        lines.cells(thread_cells(thread, view, &widths), Tone::Plain);
    }
    room
}

/// Widths of the columns that are not fixed.
struct Widths {
    name: u16,
    bars: u16,
    state: u16,
}

impl Widths {
    fn of(width: u16) -> Widths {
        let bars = (width / 9).clamp(8, HISTORY as u16);
        // The fixed columns, and a space after each column but the last.
        let free = width.saturating_sub(7 + 4 * 6 + bars + 7);
        Widths { name: free.div_ceil(2), bars, state: free / 2 }
    }
}

fn thread_cells(thread: &ThreadUse, view: &View, widths: &Widths) -> [Cell; 8] {
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let state = match (&thread.detail, thread.state) {
        (Some(detail), LiveState::Blocked) => format!("blocked: {detail}"),
        (Some(detail), LiveState::Running) if thread.probe_state.as_ref() == Some(detail) => format!("running: {detail}"),
        (_, state) => state.name().to_owned(),
    };
    let state_tone = match thread.state {
        LiveState::Running | LiveState::Call => Tone::Running,
        LiveState::Runnable => Tone::Limit,
        LiveState::Blocked | LiveState::Unknown => Tone::Dim,
    };
    [
        Cell::left(batch::name(&thread.process, &thread.name), widths.name),
        Cell::right(thread.tid.map_or_else(String::new, |tid| tid.to_string()), 7),
        Cell::right(percent(thread.running), 6),
        Cell::left(bars(view.history.thread(thread), widths.bars), widths.bars).tone(Tone::Running),
        Cell::right(share(thread.calls), 6),
        Cell::right(share(thread.runnable), 6),
        Cell::right(percent(thread.blocked), 6),
        Cell::left(state, widths.state).tone(state_tone),
    ]
}

/// Returns a share in percent, without the sign.
fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Returns a number in at most 5 characters.
fn short(count: u64) -> String {
    match count {
        0..=9_999 => count.to_string(),
        10_000..=9_999_999 => format!("{}k", count / 1_000),
        10_000_000..=9_999_999_999 => format!("{}M", count / 1_000_000),
        count => format!("{}G", count / 1_000_000_000),
    }
}
