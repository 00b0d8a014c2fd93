//! Parses the text of an event: its name and its fields.
//!
//! `key=value` is a field. A value extends to the next key, because names of tasks may contain
//! spaces. System calls have a form of their own, and so do the scheduler's events printed by
//! plugins of trace-cmd. If there is text before the first key, or if there is no key, the whole
//! text is also a field.

use super::{contains, digits, find, leading, number, Span};

/// Place and type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the field.
    pub key: Key,
    /// Place of its value in the line.
    pub value: Span,
    /// Type of the value.
    pub kind: Kind,
}

/// Name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The name is in the line.
    At(Span),
    /// The name follows from the form of the line.
    Known(&'static str),
}

impl Key {
    /// The name; `line` must be the line in which it was found.
    pub fn of<'a>(&'a self, line: &'a [u8]) -> &'a [u8] {
        match self {
            Key::At(span) => &line[span.clone()],
            Key::Known(name) => name.as_bytes(),
        }
    }
}

/// The type of a value's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A number without a sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// The state of a task, printed as letters; converted to the kernel's bits.
    State(u64),
}

/// Maximum number of fields of an event; no event of a kernel has more.
const MAX_FIELDS: usize = 256;

/// Finds the name and the fields in the range `rest` of a line. The fields are stored in `out`.
pub fn fields(line: &[u8], rest: Span, out: &mut Vec<Found>) -> Name {
    out.clear();
    let text = &line[rest.clone()];
    if let Some(at) = find(&text[..text.len().min(256)], b" <-") {
        if !text[..at].contains(&b' ') && !text[..at].contains(&b':') {
            let parent = rest.start + at + 3;
            out.push(whole(Key::Known("ip"), rest.start..rest.start + at));
            out.push(whole(Key::Known("parent_ip"), parent..trimmed_end(line, parent, rest.end)));
            return Name::Known("function");
        }
    }
    if let Some(name) = system_call(line, &rest, out) {
        return name;
    }
    let length = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte)).count();
    // The colon that ends the name may be the last character.
    let colon = (0..length).rev().find(|at| text[*at] == b':' && (at + 1 == text.len() || matches!(text[at + 1], b' ' | b'\t' | b'\n')));
    let Some(colon) = colon.filter(|colon| *colon > 0) else {
        if text.starts_with(b"<stack trace>") || text.starts_with(b"<user stack trace>") {
            let begin = rest.start + text.iter().position(|byte| *byte == b'>').map_or(0, |at| at + 1);
            out.push(whole(Key::Known("stack"), begin + leading_all(&line[begin..rest.end])..rest.end));
            return Name::Known(if text.starts_with(b"<user") { "user_stack" } else { "kernel_stack" });
        }
        out.push(whole(Key::Known("text"), rest.start..trimmed_end(line, rest.start, rest.end)));
        return Name::Known(if is_graph(text) { "funcgraph" } else { "text" });
    };
    let name = rest.start..rest.start + colon;
    let begin = name.end + 1;
    let begin = begin + leading(&line[begin..rest.end]);
    let end = trimmed_end(line, begin, rest.end);
    match &line[name.clone()] {
        b"sched_switch" if plugin_switch(line, begin..end, out).is_some() => {}
        b"sched_wakeup" | b"sched_wakeup_new" | b"sched_waking" if plugin_wakeup(line, begin..end, out).is_some() => {}
        b"sys_enter" if numbered_call(line, begin..end, true, out).is_some() => {}
        b"sys_exit" if numbered_call(line, begin..end, false, out).is_some() => {}
        b"print" | b"bprint" | b"bputs" | b"tracing_mark_write" | b"funcgraph_entry" | b"funcgraph_exit" => {
            out.push(whole(Key::Known("text"), begin..end));
        }
        _ => pairs(line, name.clone(), begin..end, out),
    }
    Name::At(name)
}

/// An event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The name is in the line.
    At(Span),
    /// The name follows from the form of the line.
    Known(&'static str),
    /// A prefix and the name of a system call, which together are the name.
    Call(&'static str, Span),
}

fn is_graph(text: &[u8]) -> bool {
    contains(text, b"|")
}

fn whole(key: Key, value: Span) -> Found {
    Found { key, value, kind: Kind::Text }
}

fn trimmed_end(line: &[u8], begin: usize, end: usize) -> usize {
    begin + line[begin.min(end)..end].trim_ascii_end().len()
}

fn leading_all(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

/// Parses `key=value …` of a named event.
fn pairs(line: &[u8], name: Span, span: Span, out: &mut Vec<Found>) {
    let mut open: Option<(Span, usize, u8)> = None;
    let mut at = span.start;
    let mut before = b' ';
    let first = |out: &Vec<Found>, open: &Option<(Span, usize, u8)>| out.is_empty() && open.is_none();
    while at < span.end {
        let begins = matches!(before, b' ' | b'\t' | b'\n' | b',' | b'(' | b'[' | b'{');
        let length = if begins && (line[at].is_ascii_alphabetic() || line[at] == b'_') {
            line[at..span.end].iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte)).count()
        } else {
            0
        };
        let equals = at + length;
        if length > 0 && equals < span.end && line[equals] == b'=' && line.get(equals + 1) != Some(&b'=') {
            if first(out, &open) && !line[span.start..at].trim_ascii().is_empty() {
                out.push(whole(Key::Known("text"), span.clone()));
            }
            if let Some(open) = open.take() {
                out.push(field(line, name.clone(), open, at));
            }
            if out.len() >= MAX_FIELDS {
                return;
            }
            if let Some(end) = known_end(&line[name.clone()], &line[at..equals], line, equals + 1..span.end) {
                out.push(whole(Key::At(at..equals), equals + 1..end));
                before = b' ';
                at = end;
                continue;
            }
            open = Some((at..equals, equals + 1, before));
            at = equals + 1;
            before = b'=';
            continue;
        }
        let step = length.max(1);
        before = line[at + step - 1];
        at += step;
    }
    match open {
        Some(open) => out.push(field(line, name, open, span.end)),
        None if span.is_empty() || !out.is_empty() => {}
        None => out.push(whole(Key::Known("text"), span)),
    }
}

/// Maximum length in bytes of a task's name without its NUL and, below, of a path.
const MAX_COMM: usize = 15;
const MAX_PATH: usize = 4096;

/// End of a name that may look like fields: the last place at which the field begins that the
/// kernel prints after the name.
fn known_end(event: &[u8], key: &[u8], line: &[u8], span: Span) -> Option<usize> {
    let (prefix, next, most): (&[u8], &[u8], usize) = match (event, key) {
        (b"task_rename", b"oldcomm") => (b"", b"newcomm=", MAX_COMM),
        (b"task_rename", b"newcomm") | (b"oom_score_adj_update", b"comm") => (b"", b"oom_score_adj=", MAX_COMM),
        (b"task_newtask", b"comm") => (b"", b"clone_flags=", MAX_COMM),
        (b"sched_process_exec", b"filename") => (b"", b"pid=", MAX_PATH),
        // `comm` is followed by `pid`, `prev_comm` by `prev_pid`.
        (_, key) => (key.strip_suffix(b"comm")?, b"pid=", MAX_COMM),
    };
    let value = &line[span.clone()];
    let follows =
        |at: &usize| value[*at..].strip_prefix(b" ").and_then(|rest| rest.strip_prefix(prefix)).is_some_and(|rest| rest.starts_with(next));
    (0..=most.min(value.len())).rev().find(follows).map(|at| span.start + at)
}

/// A field whose value extends to `end`, without the separator before the next field.
fn field(line: &[u8], name: Span, (key, begin, before): (Span, usize, u8), end: usize) -> Found {
    let mut value = line[begin..end].trim_ascii_end();
    for separator in [&b"==>"[..], b",", b"[", b"("] {
        value = value.strip_suffix(separator).unwrap_or(value).trim_ascii_end();
    }
    let closing = match before {
        b'[' => b"]",
        b'(' => b")",
        b'{' => b"}",
        _ => &b""[..],
    };
    value = value.strip_suffix(closing).unwrap_or(value).trim_ascii_end();
    let span = begin..begin + value.len();
    let kind = kind(&line[name], &line[key.clone()], value);
    Found { key: Key::At(key), value: span, kind }
}

/// Keys of fields that the kernel prints as hexadecimal numbers without 0x: addresses (`%p`) of any
/// event and, below, other fields (`%x`, `%lx`) of certain events.
const ADDRESSES: &[&[u8]] = &[
    b"ctx", b"fence", b"fl", b"hrtimer", b"mm", b"netdev", b"page", b"ptr", b"qdisc", b"req", b"rx_sk", b"sk", b"skaddr", b"skb",
    b"skbaddr", b"timer", b"vma", b"work",
];
const HEXADECIMAL: &[(&[u8], &[&[u8]])] = &[
    (b"i2c_", &[b"a", b"f"]),
    (b"regmap_", &[b"reg", b"val"]),
    (b"signal_deliver", &[b"sa_handler", b"sa_flags"]),
    (b"smbus_", &[b"a", b"f", b"c"]),
    (b"task_newtask", &[b"clone_flags"]),
];

fn is_hexadecimal(event: &[u8], key: &[u8], value: &[u8]) -> bool {
    // The output of `%p` for 64-bit addresses, whatever the key is.
    let is_address = value.len() == 16 && (value[0] == b'0' || value.iter().any(u8::is_ascii_alphabetic));
    let is_listed = || HEXADECIMAL.iter().any(|(events, keys)| event.starts_with(events) && keys.contains(&key));
    is_address || key.ends_with(b"mask") || (value.len() >= 8 && ADDRESSES.contains(&key)) || is_listed()
}

/// The type of a value. Names are never numbers, even if they look like one. Leading zeros of a
/// decimal number have no meaning.
fn kind(event: &[u8], key: &[u8], value: &[u8]) -> Kind {
    if key.ends_with(b"comm") || key.ends_with(b"name") {
        return Kind::Text;
    }
    if key == b"prev_state" && value.first().is_some_and(u8::is_ascii_alphabetic) {
        return state(value).map_or(Kind::Text, Kind::State);
    }
    let hexadecimal = match value.strip_prefix(b"0x") {
        None => is_hexadecimal(event, key, value).then_some(value),
        digits => digits,
    };
    if let Some(digits) = hexadecimal.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
        let number = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        return number.map_or(Kind::Text, Kind::Unsigned);
    }
    match value.strip_prefix(b"-") {
        None => number(value).map_or(Kind::Text, Kind::Unsigned),
        Some(digits) => number(digits).and_then(|number| 0i64.checked_sub_unsigned(number)).map_or(Kind::Text, Kind::Signed),
    }
}

/// Converts the state of a task, such as `S`, `D|K` or `R+`, to the kernel's bits since 4.14.
fn state(text: &[u8]) -> Option<u64> {
    let mut bits = 0;
    for letter in text {
        bits |= match letter {
            b'R' => 0,
            b'S' => 1,
            b'D' => 2,
            b'T' => 4,
            b't' => 8,
            b'X' | b'x' => 16,
            b'Z' => 32,
            b'P' => 64,
            b'I' => 128,
            b'+' => 256,
            b'K' | b'W' | b'N' | b'|' => 0,
            _ => return None,
        };
    }
    Some(bits)
}

/// Parses `sys_write(fd: 1, buf: 7fff12, count: 5)` and `sys_write -> 0x5`, which are the events
/// sys_enter_write and sys_exit_write.
fn system_call(line: &[u8], rest: &Span, out: &mut Vec<Found>) -> Option<Name> {
    let text = line[rest.clone()].trim_ascii_end();
    let name = text.strip_prefix(b"sys_")?;
    let length = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let (begin, after) = (rest.start + 4, &name[length..]);
    let call = begin..begin + length;
    if let Some(value) = after.strip_prefix(b" -> ") {
        let start = rest.start + text.len() - value.len();
        let digits = std::str::from_utf8(value.strip_prefix(b"0x")?).ok()?;
        let ret = u64::from_str_radix(digits, 16).ok()? as i64;
        out.push(Found { key: Key::Known("ret"), value: start..start + value.len(), kind: Kind::Signed(ret) });
        return Some(Name::Call("sys_exit_", call));
    }
    let inside = after.strip_prefix(b"(")?.strip_suffix(b")")?;
    let mut at = call.end + 1;
    for part in inside.split(|byte| *byte == b',').take(16) {
        let skip = leading(part);
        if let Some(colon) = part.iter().position(|byte| *byte == b':') {
            let value = part[colon + 1..].trim_ascii();
            let start = at + colon + 1 + leading(&part[colon + 1..]);
            let number = std::str::from_utf8(value).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let kind = number.map_or(Kind::Text, Kind::Unsigned);
            out.push(Found { key: Key::At(at + skip..at + colon), value: start..start + value.len(), kind });
        }
        at += part.len() + 1;
    }
    Some(Name::Call("sys_enter_", call))
}

/// Parses `NR 1 (3, 7f12, 5, …)` and `NR 1 = 5`.
fn numbered_call(line: &[u8], span: Span, enters: bool, out: &mut Vec<Found>) -> Option<()> {
    let text = line[span.clone()].strip_prefix(b"NR ")?;
    let begin = span.start + 3;
    let length = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    let id = begin..begin + length;
    let rest = &text[length..];
    let after = span.end - rest.len();
    let found = Found { kind: kind(b"", b"id", &line[id.clone()]), key: Key::Known("id"), value: id };
    let (key, value, kind) = if enters {
        let inside = rest.trim_ascii_start().strip_prefix(b"(")?.strip_suffix(b")")?;
        let start = span.end - 1 - inside.len();
        ("args", start..start + inside.len(), Kind::Text)
    } else {
        let value = rest.strip_prefix(b" = ")?;
        ("ret", after + 3..span.end, kind(b"", b"ret", value))
    };
    out.push(found);
    out.push(Found { key: Key::Known(key), value, kind });
    Some(())
}

/// Parses `comm:pid [prio]` in the range from `begin` to `end`.
fn plugin_task(line: &[u8], begin: usize, end: usize) -> Option<[Span; 3]> {
    let text = line[begin..end].trim_ascii_end();
    let close = begin + text.len() - 1;
    let text = text.strip_suffix(b"]")?;
    let open = begin + text.iter().rposition(|byte| *byte == b'[')?;
    let before = line[begin..open].trim_ascii_end();
    let colon = begin + before.iter().rposition(|byte| *byte == b':')?;
    let (comm, pid, prio) = (begin..colon, colon + 1..begin + before.len(), open + 1..close);
    number(&line[pid.clone()]).and(Some([comm, pid, prio]))
}

fn push_task(line: &[u8], task: [Span; 3], keys: [&'static str; 3], out: &mut Vec<Found>) {
    for (value, key) in task.into_iter().zip(keys) {
        let kind = if key.ends_with("comm") { Kind::Text } else { kind(b"", key.as_bytes(), &line[value.clone()]) };
        out.push(Found { key: Key::Known(key), value, kind });
    }
}

/// Parses `a:1 [120] S ==> b:2 [120]`.
fn plugin_switch(line: &[u8], span: Span, out: &mut Vec<Found>) -> Option<()> {
    // The name of a task may contain the separator, so every occurrence is tried.
    let mut arrows = line[span.clone()].windows(5).enumerate().filter(|(_, window)| *window == b" ==> ");
    arrows.find_map(|(at, _)| plugin_switch_at(line, &span, span.start + at, out))
}

fn plugin_switch_at(line: &[u8], span: &Span, arrow: usize, out: &mut Vec<Found>) -> Option<()> {
    let space = span.start + line[span.start..arrow].iter().rposition(|byte| *byte == b' ')?;
    let letters = space + 1..arrow;
    let bits = state(&line[letters.clone()])?;
    let (from, to) = (plugin_task(line, span.start, space)?, plugin_task(line, arrow + 5, span.end)?);
    push_task(line, from, ["prev_comm", "prev_pid", "prev_prio"], out);
    out.push(Found { key: Key::Known("prev_state"), value: letters, kind: Kind::State(bits) });
    push_task(line, to, ["next_comm", "next_pid", "next_prio"], out);
    Some(())
}

/// Parses `a:1 [120] success=1 CPU:002` and `a:1 [120] CPU:002`.
fn plugin_wakeup(line: &[u8], span: Span, out: &mut Vec<Found>) -> Option<()> {
    let text = &line[span.clone()];
    let place = text.windows(5).rposition(|window| window == b" CPU:")?;
    let cpu = span.start + place + 5;
    let (number, _) = digits(&line[cpu..span.end])?;
    let close = text[..place].iter().rposition(|byte| *byte == b']')?;
    let task = plugin_task(line, span.start, span.start + close + 1)?;
    push_task(line, task, ["comm", "pid", "prio"], out);
    out.push(Found { key: Key::Known("target_cpu"), value: cpu..span.end, kind: Kind::Unsigned(number) });
    Some(())
}
