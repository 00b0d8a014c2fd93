//! The tracer's text: lines of `trace` and `trace_pipe`, and those that `trace-cmd report` prints.
//!
//! `bash-1994 [000] d..2. 1234.567890: sched_switch: prev_comm=bash …`, with or without the columns for the thread group and for what the CPU
//! was doing; the short form of the latency tracers (`<idle>-0 0d.s2 17us+: f <-g`); calls of functions; system calls; and what is said
//! between the events. A task may be called anything, also what looks like the rest of a line, but no longer than 15 bytes: the first place at which
//! all that must follow does follow is taken.
//!
//! The parser is pure and allocates nothing for a line but what it keeps of its fields' places, which the caller gives it again.

use std::ops::Range;

mod fields;

pub use fields::{fields, Found, Key, Kind, Name};

/// Where something is in a line.
pub type Span = Range<usize>;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An event: who, where and when; what follows is `rest`.
    Event(Head),
    /// `CPU:3 [LOST 12 EVENTS]`, `CPU:3 [EVENTS DROPPED]`: before the next event.
    Lost {
        /// Number of the CPU.
        cpu: u32,
        /// Number of lost events; `None`: not stated.
        events: Option<u64>,
    },
    /// `# entries-in-buffer/entries-written: 140/250`: so many were overwritten.
    Overwritten(u64),
    /// A comment, or a note between the events.
    Note,
    /// What function_graph prints without its option `funcgraph-abstime`.
    Untimed,
    /// None of these: what goes on from the line before it, or no line of a tracer.
    Other,
}

/// The part of an event that all lines have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The task's name.
    pub comm: Span,
    /// Number of the task; `None`: not stated.
    pub tid: Option<i32>,
    /// The thread group, where the line has it.
    pub pid: Option<i32>,
    /// Number of the CPU.
    pub cpu: u32,
    /// Time of the event.
    pub time: Time,
    /// Irqs off, need-resched, in an interrupt, preemption depth: as printed; empty where the line has no such column.
    pub flags: Span,
    /// From the event's name on.
    pub rest: Span,
}

/// A time as the line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Nanoseconds.
    Ns(u64),
    /// Of a clock that counts something else.
    Ticks(u64),
}

impl Time {
    /// The number, whatever it counts.
    pub fn number(self) -> u64 {
        match self {
            Time::Ns(number) | Time::Ticks(number) => number,
        }
    }
}

/// Longer than any name of a task with its pid and what precedes it in a line.
const MOST_BEFORE_CPU: usize = 160;

/// Says what a line is; it has no line feed.
pub fn line(line: &[u8]) -> Line {
    let trimmed = line.trim_ascii();
    match trimmed.first() {
        None => return Line::Note,
        Some(b'#') => return comment(trimmed),
        Some(b'C') if trimmed.starts_with(b"CPU:") => {
            if let Some(lost) = lost(trimmed) {
                return lost;
            }
        }
        _ => {}
    }
    if let Some(head) = event(line).or_else(|| latency(line)).or_else(|| graph(line)) {
        return Line::Event(head);
    }
    let is_note = trimmed.starts_with(b"cpus=")
        || trimmed.starts_with(b"version = ")
        || (trimmed.starts_with(b"CPU ") && trimmed.ends_with(b" is empty"))
        || trimmed.iter().all(|byte| *byte == b'-');
    if is_note {
        return Line::Note;
    }
    match is_graph(trimmed) {
        true if contains(trimmed, b" => ") && !contains(trimmed, b"|") => Line::Note,
        true => Line::Untimed,
        false => Line::Other,
    }
}

fn comment(line: &[u8]) -> Line {
    let Some(at) = find(line, b"entries-in-buffer/entries-written:") else { return Line::Note };
    let mut numbers = line[at..].split(|byte| !byte.is_ascii_digit()).filter(|part| !part.is_empty()).map(number);
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(kept), Some(written)) if written > kept => Line::Overwritten(written - kept),
        _ => Line::Note,
    }
}

fn lost(line: &[u8]) -> Option<Line> {
    let rest = line.strip_prefix(b"CPU:")?;
    let (cpu, rest) = digits(rest)?;
    let inside = rest.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    if !contains(inside, b"LOST") && !contains(inside, b"DROPPED") {
        return None;
    }
    let events = inside.split(|byte| *byte == b' ').find_map(number);
    Some(Line::Lost { cpu: u32::try_from(cpu).ok()?, events })
}

/// `comm-pid (tgid) [cpu] flags time: rest`.
fn event(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(MOST_BEFORE_CPU)];
    let mut from = 0;
    while let Some(open) = window[from..].iter().position(|byte| *byte == b'[').map(|at| from + at) {
        from = open + 1;
        let Some((cpu, after)) = digits(&line[open + 1..]) else { continue };
        let Some(after) = after.strip_prefix(b"]").filter(|after| after.starts_with(b" ")) else { continue };
        let begin = line.len() - after.len();
        let Some((flags, time, rest)) = flags_and_time(line, begin) else { continue };
        let Some((comm, tid, pid)) = task(line, open) else { continue };
        return Some(Head { comm, tid, pid, cpu: u32::try_from(cpu).ok()?, time, flags, rest });
    }
    None
}

/// The name, pid and thread group that end before `end`.
fn task(line: &[u8], end: usize) -> Option<(Span, Option<i32>, Option<i32>)> {
    let mut before = line[..end].trim_ascii_end();
    let mut pid = None;
    if let Some(inside) = before.strip_suffix(b")") {
        let open = inside.iter().rposition(|byte| *byte == b'(')?;
        let group = inside[open + 1..].trim_ascii();
        match number(group) {
            Some(number) => pid = i32::try_from(number).ok(),
            None if !group.is_empty() && group.iter().all(|byte| *byte == b'-') => {}
            None => return None,
        }
        before = inside[..open].trim_ascii_end();
    }
    let (comm, tid) = name_and_number(line, 0, before.len())?;
    Some((comm, tid, pid))
}

/// `name-number` in a part of a line.
fn name_and_number(line: &[u8], begin: usize, end: usize) -> Option<(Span, Option<i32>)> {
    let dash = begin + line[begin..end].iter().rposition(|byte| *byte == b'-')?;
    let tid = number(&line[dash + 1..end]).and_then(|number| i32::try_from(number).ok())?;
    // A negative pid would be none, but `-1` is what some tracers print.
    let comm = &line[begin..dash];
    let leading = comm.len() - comm.trim_ascii_start().len();
    Some((begin + leading..dash, Some(tid)))
}

/// Flags, if any, the time with its colon, and where the rest begins.
fn flags_and_time(line: &[u8], begin: usize) -> Option<(Span, Time, Span)> {
    let mut at = begin + leading(&line[begin..]);
    let mut flags = at..at;
    for _ in 0..2 {
        let word = &line[at..];
        let end = word.iter().position(|byte| *byte == b' ').unwrap_or(word.len());
        if let Some(time) = word[..end].strip_suffix(b":").and_then(time) {
            let rest = at + end;
            return Some((flags, time, rest + leading(&line[rest..])..line.len()));
        }
        let is_flags = (1..=8).contains(&end) && word[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b".#".contains(byte));
        if !is_flags || !flags.is_empty() {
            return None;
        }
        flags = at..at + end;
        at += end + leading(&word[end..]);
    }
    None
}

/// `1234.567890` in seconds, or a number that counts something else.
fn time(text: &[u8]) -> Option<Time> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else { return number(text).map(Time::Ticks) };
    let (seconds, fraction) = (number(&text[..point])?, &text[point + 1..]);
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let part = number(fraction)? * 10u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(part).map(Time::Ns)
}

/// `comm-pid 0d.s2 17us+: rest`, `comm-pid 0d.s2 1234.567890: rest`.
fn latency(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(MOST_BEFORE_CPU)];
    let mut from = 0;
    while let Some(dash) = window[from..].iter().position(|byte| *byte == b'-').map(|at| from + at) {
        from = dash + 1;
        let Some((_, after)) = digits(&line[dash + 1..]) else { continue };
        let end = line.len() - after.len();
        if !after.starts_with(b" ") {
            continue;
        }
        let word = end + leading(after);
        let Some((cpu, flags)) = digits(&line[word..]) else { continue };
        let flags_at = line.len() - flags.len();
        let length = flags.iter().position(|byte| *byte == b' ').unwrap_or(flags.len());
        if !(3..=8).contains(&length) || !flags[..length].iter().all(|byte| byte.is_ascii_alphanumeric() || b".#".contains(byte)) {
            continue;
        }
        let after = flags_at + length;
        let Some((time, rest)) = short_time(line, after + leading(&line[after..])) else { continue };
        let Some((comm, tid)) = name_and_number(line, 0, end) else { continue };
        let cpu = u32::try_from(cpu).ok()?;
        return Some(Head { comm, tid, pid: None, cpu, time, flags: flags_at..flags_at + length, rest });
    }
    None
}

/// `17us+:`, `17us :` or seconds.
fn short_time(line: &[u8], at: usize) -> Option<(Time, Span)> {
    let text = &line[at..];
    let colon = text.iter().take(40).position(|byte| *byte == b':')?;
    let word = text[..colon].trim_ascii_end();
    let rest = at + colon + 1;
    let rest = rest + leading(&line[rest..])..line.len();
    if let Some(unit) = find(word, b"us") {
        let delay = &word[unit + 2..];
        if delay.len() <= 1 {
            return Some((Time::Ns(number(&word[..unit])?.checked_mul(1000)?), rest));
        }
    }
    time(word).map(|time| (time, rest))
}

/// function_graph with `funcgraph-abstime`: `1234.567890 |   0)  bash-1994  |   1.234 us    |  f();`.
fn graph(line: &[u8]) -> Option<Head> {
    let start = leading(line);
    let bar = start + line[start..].iter().take(32).position(|byte| *byte == b'|')?;
    let time = time(line[start..bar].trim_ascii_end())?;
    let mut at = bar + 1 + leading(&line[bar + 1..]);
    let (cpu, after) = digits(&line[at..])?;
    let after = after.strip_prefix(b")")?;
    at = line.len() - after.len();
    let (mut comm, mut tid) = (at..at, None);
    // With `funcgraph-proc` the task stands between.
    if let Some(bar) = line[at..].iter().position(|byte| *byte == b'|').map(|bar| at + bar) {
        let cell = &line[at..bar];
        let begin = at + leading(cell);
        if let Some(found) = name_and_number(line, begin, begin.max(at + cell.trim_ascii_end().len())) {
            (comm, tid) = found;
            at = bar + 1;
        }
    }
    let flags = at..at;
    Some(Head { comm, tid, pid: None, cpu: u32::try_from(cpu).ok()?, time, flags, rest: at + leading(&line[at..])..line.len() })
}

/// ` 0)   1.234 us    |  f();`
fn is_graph(line: &[u8]) -> bool {
    digits(line).is_some_and(|(_, after)| after.starts_with(b")"))
}

/// A number at the begin, and what follows.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((number(&text[..length])?, &text[length..]))
}

/// A text that is all digits.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn leading(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b' ' || **byte == b'\t').count()
}

/// Where a text is that is not empty.
fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let first = what[0];
    let mut from = 0;
    loop {
        from += text[from..].iter().position(|byte| *byte == first)?;
        if text[from..].starts_with(what) {
            return Some(from);
        }
        from += 1;
    }
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    find(text, what).is_some()
}

/// Whether a file's first bytes are the tracer's text.
pub fn is_text(first: &[u8]) -> bool {
    if first.starts_with(b"# tracer: ") {
        return true;
    }
    first.split(|byte| *byte == b'\n').take(64).any(|text| matches!(line(text), Line::Event(_) | Line::Lost { .. }))
}
