//! What an event's text says: its name, and its fields as far as they are written as such.
//!
//! `key=value` is a field; a value goes on to the next key, since names of tasks have spaces. System calls are printed in a form of their own, as are
//! the scheduler's events by trace-cmd's plugins. Where anything stands before the first key, or there is none, the whole text is
//! a field, too.

use super::{contains, digits, find, leading, number, Span};

/// A field's place, and what its text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub key: Key,
    pub value: Span,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    At(Span),
    Known(&'static str),
}

impl Key {
    pub fn of<'a>(&'a self, line: &'a [u8]) -> &'a [u8] {
        match self {
            Key::At(span) => &line[span.clone()],
            Key::Known(name) => name.as_bytes(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Unsigned(u64),
    Signed(i64),
    /// A state of a task as letters: the kernel's bits for them.
    State(u64),
}

/// Fields of one event; more is no event of a kernel.
const MOST_FIELDS: usize = 256;

/// Finds the name and the fields in `rest` of a line; the latter are put into `out`.
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
    // The colon that ends the name may be followed by nothing.
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
        _ => pairs(line, begin..end, out),
    }
    Name::At(name)
}

/// An event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    At(Span),
    Known(&'static str),
    /// Before the name of a system call.
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

/// `key=value …`.
fn pairs(line: &[u8], span: Span, out: &mut Vec<Found>) {
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
                out.push(field(line, open, at));
            }
            if out.len() >= MOST_FIELDS {
                return;
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
        Some(open) => out.push(field(line, open, span.end)),
        None if span.is_empty() => {}
        None => out.push(whole(Key::Known("text"), span)),
    }
}

/// A field whose value goes on to `end`, without what separates it from the next.
fn field(line: &[u8], (key, begin, before): (Span, usize, u8), end: usize) -> Found {
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
    let kind = kind(&line[key.clone()], value);
    Found { key: Key::At(key), value: span, kind }
}

/// Numbers are numbers; names are not, whatever they look like, nor is what begins with zeroes.
fn kind(key: &[u8], value: &[u8]) -> Kind {
    if key.ends_with(b"comm") || key.ends_with(b"name") {
        return Kind::Text;
    }
    if key == b"prev_state" && value.first().is_some_and(u8::is_ascii_alphabetic) {
        return state(value).map_or(Kind::Text, Kind::State);
    }
    if let Some(digits) = value.strip_prefix(b"0x") {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
        return digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map_or(Kind::Text, Kind::Unsigned);
    }
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    // An address as `%p` prints it.
    if value.len() == 16 && value.iter().all(u8::is_ascii_hexdigit) && (value[0] == b'0' || value.iter().any(u8::is_ascii_alphabetic)) {
        let address = std::str::from_utf8(value).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        return address.map_or(Kind::Text, Kind::Unsigned);
    }
    if digits.len() > 1 && digits.starts_with(b"0") {
        return Kind::Text;
    }
    match (number(digits), negative) {
        (Some(number), false) => Kind::Unsigned(number),
        (Some(number), true) => number.try_into().map_or(Kind::Text, |number: i64| Kind::Signed(-number)),
        (None, _) => Kind::Text,
    }
}

/// `S`, `D|K`, `R+`: as the kernel numbers them since 4.14.
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

/// `sys_write(fd: 1, buf: 7fff12, count: 5)`, `sys_write -> 0x5`: the events sys_enter_write and sys_exit_write.
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

/// `NR 1 (3, 7f12, 5, …)`, `NR 1 = 5`.
fn numbered_call(line: &[u8], span: Span, enters: bool, out: &mut Vec<Found>) -> Option<()> {
    let text = line[span.clone()].strip_prefix(b"NR ")?;
    let begin = span.start + 3;
    let length = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    let id = begin..begin + length;
    let rest = &text[length..];
    let after = span.end - rest.len();
    let found = Found { kind: kind(b"id", &line[id.clone()]), key: Key::Known("id"), value: id };
    let (key, value, kind) = if enters {
        let inside = rest.trim_ascii_start().strip_prefix(b"(")?.strip_suffix(b")")?;
        let start = span.end - 1 - inside.len();
        ("args", start..start + inside.len(), Kind::Text)
    } else {
        let value = rest.strip_prefix(b" = ")?;
        ("ret", after + 3..span.end, kind(b"ret", value))
    };
    out.push(found);
    out.push(Found { key: Key::Known(key), value, kind });
    Some(())
}

/// `comm:pid [prio]` that ends at `end`; the place where it begins is known.
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
        let kind = if key.ends_with("comm") { Kind::Text } else { kind(key.as_bytes(), &line[value.clone()]) };
        out.push(Found { key: Key::Known(key), value, kind });
    }
}

/// `a:1 [120] S ==> b:2 [120]`.
fn plugin_switch(line: &[u8], span: Span, out: &mut Vec<Found>) -> Option<()> {
    let text = &line[span.clone()];
    let arrow = span.start + find(text, b" ==> ")?;
    let space = span.start + line[span.start..arrow].iter().rposition(|byte| *byte == b' ')?;
    let letters = space + 1..arrow;
    let bits = state(&line[letters.clone()])?;
    let (from, to) = (plugin_task(line, span.start, space)?, plugin_task(line, arrow + 5, span.end)?);
    push_task(line, from, ["prev_comm", "prev_pid", "prev_prio"], out);
    out.push(Found { key: Key::Known("prev_state"), value: letters, kind: Kind::State(bits) });
    push_task(line, to, ["next_comm", "next_pid", "next_prio"], out);
    Some(())
}

/// `a:1 [120] success=1 CPU:002`, `a:1 [120] CPU:002`.
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
