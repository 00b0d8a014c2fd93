//! Parses the text output of the tracer: lines of `trace` and `trace_pipe`, and those that
//! `trace-cmd report` prints.
//!
//! A typical line is `bash-1994 [000] d..2. 1234.567890: sched_switch: prev_comm=bash …`; the
//! columns for the thread group and for the state of the CPU are optional. Other forms are the
//! short one of the latency tracers (`<idle>-0 0d.s2 17us+: f <-g`), function calls, system calls,
//! and notes between the events. The name of a task is at most 15 bytes long, but may contain
//! anything, including text that looks like the rest of a line. The parser takes the first place at
//! which everything that must follow the name does follow.
//!
//! The parser is pure. It allocates nothing per line except the places of the fields, whose memory
//! the caller reuses.

use std::ops::Range;

mod fields;

pub use fields::{fields, Found, Key, Kind, Name};

/// A range of bytes in a line.
pub type Span = Range<usize>;

/// The kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An event: task, CPU and time; `rest` is the text of the event.
    Event(Head),
    /// `CPU:3 [LOST 12 EVENTS]`, `CPU:3 [EVENTS DROPPED]`: events were lost before the next event.
    Lost {
        /// Number of the CPU.
        cpu: u32,
        /// Number of lost events; `None` if it is not stated.
        events: Option<u64>,
    },
    /// `# entries-in-buffer/entries-written: 140/250`: the number of events that were overwritten.
    Overwritten(u64),
    /// A comment, or a note between the events.
    Note,
    /// An event of function_graph without a time, printed without the option `funcgraph-abstime`.
    Untimed,
    /// Any other line: a continuation of the previous one, or a line that was not written by a
    /// tracer.
    Other,
}

/// The part that the lines of all events have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Name of the task.
    pub comm: Span,
    /// Id of the task; `None` if it is not stated.
    pub tid: Option<i32>,
    /// Id of the thread group, if the line has this column.
    pub pid: Option<i32>,
    /// Number of the CPU.
    pub cpu: u32,
    /// Time of the event.
    pub time: Time,
    /// State of the CPU as printed: interrupts off, need-resched, in an interrupt, preemption
    /// depth; empty if the line has no such column.
    pub flags: Span,
    /// The text from the event's name on.
    pub rest: Span,
}

/// A time as printed in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Nanoseconds.
    Ns(u64),
    /// A value of a clock that does not count nanoseconds.
    Ticks(u64),
}

impl Time {
    /// The number, whatever its unit is.
    pub fn number(self) -> u64 {
        match self {
            Time::Ns(number) | Time::Ticks(number) => number,
        }
    }
}

/// Greater than the length of any task name with its pid and the columns before it.
const MAX_BEFORE_CPU: usize = 160;

/// Classifies a line, which must not contain a line feed.
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

/// Parses `comm-pid (tgid) [cpu] flags time: rest`.
fn event(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(MAX_BEFORE_CPU)];
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

/// Parses the name, the pid and the thread group that end before `end`.
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

/// Parses `name-number` in a part of a line.
fn name_and_number(line: &[u8], begin: usize, end: usize) -> Option<(Span, Option<i32>)> {
    let dash = begin + line[begin..end].iter().rposition(|byte| *byte == b'-')?;
    let tid = number(&line[dash + 1..end]).and_then(|number| i32::try_from(number).ok())?;
    // A negative pid would be invalid, but some tracers print `-1`.
    let comm = &line[begin..dash];
    let leading = comm.len() - comm.trim_ascii_start().len();
    Some((begin + leading..dash, Some(tid)))
}

/// Parses optional flags and the time with its colon; also returns the range after them.
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

/// Parses `1234.567890` in seconds, or a number in another unit.
fn time(text: &[u8]) -> Option<Time> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else { return number(text).map(Time::Ticks) };
    let (seconds, fraction) = (number(&text[..point])?, &text[point + 1..]);
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let part = number(fraction)? * 10u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(part).map(Time::Ns)
}

/// Parses `comm-pid 0d.s2 17us+: rest` and `comm-pid 0d.s2 1234.567890: rest`.
fn latency(line: &[u8]) -> Option<Head> {
    let window = &line[..line.len().min(MAX_BEFORE_CPU)];
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

/// Parses `17us+:`, `17us :` or seconds.
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

/// Parses a line of function_graph with `funcgraph-abstime`: `1234.567890 |   0)  bash-1994  |
/// 1.234 us    |  f();`.
fn graph(line: &[u8]) -> Option<Head> {
    let start = leading(line);
    let bar = start + line[start..].iter().take(32).position(|byte| *byte == b'|')?;
    let time = time(line[start..bar].trim_ascii_end())?;
    let mut at = bar + 1 + leading(&line[bar + 1..]);
    let (cpu, after) = digits(&line[at..])?;
    let after = after.strip_prefix(b")")?;
    at = line.len() - after.len();
    let (mut comm, mut tid) = (at..at, None);
    // With `funcgraph-proc` the task is printed in between.
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

/// Returns `true` for a line like ` 0)   1.234 us    |  f();`.
fn is_graph(line: &[u8]) -> bool {
    digits(line).is_some_and(|(_, after)| after.starts_with(b")"))
}

/// Parses a number at the start; also returns the text after it.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((number(&text[..length])?, &text[length..]))
}

/// Parses a text that consists of digits only.
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

/// Finds a text, which must not be empty.
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

/// Returns `true` if the first bytes of a file are text output of the tracer.
pub fn is_text(first: &[u8]) -> bool {
    if first.starts_with(b"# tracer: ") {
        return true;
    }
    first.split(|byte| *byte == b'\n').take(64).any(|text| matches!(line(text), Line::Event(_) | Line::Lost { .. }))
}
